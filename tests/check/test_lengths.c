/* test_lengths.c: every short row length, and long ones, in every operation and format.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_harness.h"

enum { SHORT = 300 };

static const int64_t long_cols[] = {576,  768,  1023,  1024,  1025,  1368,  2048,  2880,  3584,       4096, 5120,
                                    7168, 8192, 11008, 14336, 16383, 16384, 16385, 18432, 32768 + 16, 40000};

static combination operation(int op, epiq_dtype dtype, rng *r)
{
    combination c = {.op = op, .dtype = dtype, .rows = 2, .seed = 1 + rng_below(r, 1 << 30)};
    c.data = rng_below(r, 4) ? DATA_NORMAL : DATA_ANY;
    c.second = DATA_NORMAL;
    if (op == OP_ACT_MUL) {
        c.act = dtype == EPIQ_DTYPE_F32 ? EPIQ_ACT_RELU2 : EPIQ_ACT_SILU; /* of a long f32 row the oracle is slow */
        c.order = EPIQ_ORDER_GATE_UP + rng_below(r, 5);
        c.chain = EPIQ_CHAIN_VLLM;
    }
    if (op == OP_RMS_NORM) {
        c.chain = EPIQ_CHAIN_VLLM + rng_below(r, 4);
        c.eps = 1e-6f;
        c.residual = rng_below(r, 4);
    }
    return c;
}

/* One quantizer for each format, grain and group: the layout does not change with the length of a row. */
static int one_of_a_kind(const combination *q)
{
    return q->layout == EPIQ_LAYOUT_ROW && q->nan == EPIQ_NAN_PROPAGATE && !q->bounded && !q->ue8m0 &&
           (q->mx_round == 0 || q->mx_round == EPIQ_MX_ROUND_CEIL) && q->level != LEVEL_SCALE;
}

/* c with the quantizer and that many columns; block formats are padded where they must be. */
static combination sized(combination c, const combination *q, int64_t cols, rng *r)
{
    c = with_quantizer(c, q);
    c.cols = cols;
    c.level_value = rng_float(r, 1.0f, 100.0f);
    if (rng_below(r, 4) == 0)
        c.padded_cols = cols + rng_below(r, 40);
    fit_cols(&c);
    return c;
}

static void short_rows(void **state)
{
    (void)state;
    rng r = {501};
    size_t count;
    const combination *list = check_quantizers(&count);
    for (int op = OP_ACT_MUL; op <= OP_QUANTIZE; op++)
        for (int64_t cols = 1; cols <= SHORT; cols++)
            for (int dtype = 0; dtype < 3; dtype++) {
                combination c = operation(op, check_dtypes[dtype], &r);
                if (op != OP_QUANTIZE) {
                    c.cols = cols;
                    c.y = op == OP_RMS_NORM && cols % 2 == 0 ? Y_IN_PLACE : Y_OUT;
                    check(&c);
                }
                for (size_t i = 0; i < count; i++)
                    if (one_of_a_kind(&list[i]) && (op == OP_QUANTIZE || (cols + (int64_t)i) % 3 == 0)) {
                        combination d = sized(c, &list[i], cols, &r);
                        check(&d);
                    }
            }
    check_report("short rows", 33000);
}

static void long_rows(void **state)
{
    (void)state;
    rng r = {502};
    size_t count;
    const combination *list = check_quantizers(&count);
    for (int op = OP_ACT_MUL; op <= OP_QUANTIZE; op++)
        for (size_t k = 0; k < COUNT(long_cols); k++)
            for (int dtype = 0; dtype < 3; dtype++) {
                combination c = operation(op, check_dtypes[dtype], &r);
                if (op != OP_QUANTIZE) {
                    c.cols = long_cols[k];
                    c.y = op == OP_RMS_NORM && k % 2 == 0 ? Y_IN_PLACE : Y_OUT;
                    check(&c);
                    c.y = rng_below(&r, op == OP_RMS_NORM ? 3 : 2);
                }
                size_t first = (size_t)rng_below(&r, 5);
                for (size_t i = 0; i < count; i++)
                    if (one_of_a_kind(&list[i]) && first++ % 5 == 0) {
                        combination d = sized(c, &list[i], long_cols[k], &r);
                        d.rows = long_cols[k] > 10000 ? 1 : 2;
                        check(&d);
                    }
            }
    check_report("long rows", 930);
}

/* The sum of squares depends on every element, at every place of the tree: the largest moves through the row, and rows
 * in which the order of additions shows. */
static void norm_sums(void **state)
{
    (void)state;
    rng r = {503};
    for (int64_t cols = 1; cols <= SHORT; cols++)
        for (int variant = 0; variant < 4; variant++) {
            static const int64_t kinds[] = {DATA_NORMAL, DATA_EDGE, DATA_TIES, DATA_PATTERN};
            combination c = operation(OP_RMS_NORM, EPIQ_DTYPE_F32, &r);
            c.cols = cols;
            c.rows = 4;
            c.data = kinds[variant];
            c.chain = EPIQ_CHAIN_DIRECT;
            c.residual = RESIDUAL_NONE;
            c.y = Y_OUT;
            check(&c);
        }
    check_report("norm sums", 1100);
}

/* Rows that are longer than anything that is kept of a row, aliased: what is read twice must still be there. */
static void long_rows_in_place(void **state)
{
    (void)state;
    static const int64_t cols[] = {16385, 17000, 20001, 33000, 40000};
    rng r = {504};
    size_t count;
    const combination *list = check_quantizers(&count);
    for (size_t k = 0; k < COUNT(cols); k++)
        for (int dtype = 0; dtype < 3; dtype++)
            for (int y = Y_OUT; y <= Y_IN_PLACE; y++)
                for (int residual = RESIDUAL_NONE; residual <= RESIDUAL_IN_PLACE; residual++) {
                    combination c = operation(OP_RMS_NORM, check_dtypes[dtype], &r);
                    const combination *q;
                    do
                        q = &list[rng_below(&r, (int64_t)count)];
                    while (!header_offers(q));
                    c = sized(c, q, cols[k], &r);
                    c.rows = 1;
                    c.y = y;
                    c.residual = residual;
                    check(&c);
                }
    check_report("long rows in place", 110);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(short_rows),
    cmocka_unit_test(long_rows),
    cmocka_unit_test(norm_sums),
    cmocka_unit_test(long_rows_in_place),
};

CHECK_MAIN(tests)
