/* test_public_shapes.c: faults that were reported of kernels like ours and that hang on the shape: no rows, many rows,
 * narrow, wide and odd rows, and the same row in batches of other sizes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The numbers name rows of the table in doc/testing.md. check() compares every usable backend with the oracle, byte for
 * byte, with what lies between and around rows.
 *
 * Seen failing: without the early answer to no rows, with the rows of a task counted modulo 2^16, and with the largest
 * element of one task lost. */
#include "check_harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define F16 EPIQ_DTYPE_F16
#define BF16 EPIQ_DTYPE_BF16

static const combination e4m3_token = {.format = EPIQ_FORMAT_E4M3,
                                       .grain = EPIQ_GRAIN_TOKEN,
                                       .layout = EPIQ_LAYOUT_ROW,
                                       .nan = EPIQ_NAN_PROPAGATE,
                                       .pad_rows = EPIQ_PAD_ROWS_ZERO};
static const combination e4m3_static = {.format = EPIQ_FORMAT_E4M3,
                                        .grain = EPIQ_GRAIN_TENSOR,
                                        .layout = EPIQ_LAYOUT_ROW,
                                        .nan = EPIQ_NAN_PROPAGATE,
                                        .pad_rows = EPIQ_PAD_ROWS_ZERO,
                                        .level = LEVEL_INV_SCALE};
static const combination e4m3_group = {.format = EPIQ_FORMAT_E4M3,
                                       .grain = EPIQ_GRAIN_GROUP,
                                       .group = 128,
                                       .layout = EPIQ_LAYOUT_COL_ALIGNED,
                                       .nan = EPIQ_NAN_PROPAGATE,
                                       .pad_rows = EPIQ_PAD_ROWS_ZERO};
static const combination nvfp4 = {.format = EPIQ_FORMAT_NVFP4,
                                  .grain = EPIQ_GRAIN_GROUP,
                                  .group = 16,
                                  .layout = EPIQ_LAYOUT_TILE128X4,
                                  .nvfp4 = EPIQ_NVFP4_VLLM,
                                  .nan = EPIQ_NAN_PROPAGATE,
                                  .pad_rows = EPIQ_PAD_ROWS_ZERO,
                                  .level = LEVEL_INV_SCALE};

static combination call_of(int op, epiq_dtype dtype, int64_t rows, int64_t cols, const combination *quantizer)
{
    combination c = {.op = op,
                     .dtype = dtype,
                     .rows = rows,
                     .cols = cols,
                     .chain = EPIQ_CHAIN_VLLM,
                     .data = DATA_NORMAL,
                     .second = DATA_NORMAL,
                     .level_value = 20.0f,
                     .seed = 1 + 7919 * rows + cols};
    if (op == OP_ACT_MUL) {
        c.act = EPIQ_ACT_SILU;
        c.order = EPIQ_ORDER_GATE_UP;
    }
    if (op == OP_RMS_NORM) {
        c.eps = 1e-6f;
        c.residual = RESIDUAL_IN_PLACE;
    }
    c = with_quantizer(c, quantizer);
    fit_cols(&c);
    return c;
}

/* Every quantizing operation with each of the four quantizers. */
static void every_operation(epiq_dtype dtype, int64_t rows, int64_t cols)
{
    static const combination *const quantizers[] = {&e4m3_token, &e4m3_static, &e4m3_group, &nvfp4};
    for (int op = OP_ACT_MUL; op <= OP_QUANTIZE; op++)
        for (size_t i = 0; i < COUNT(quantizers); i++) {
            combination c = call_of(op, dtype, rows, cols, quantizers[i]);
            check(&c);
        }
}

/* ---- F. Shapes ---- */

/* Nothing is written, and the call after it is as ever. */
static void S53_no_rows(void **state)
{
    (void)state;
    size_t count;
    const combination *list = check_quantizers(&count);
    for (int op = OP_ACT_MUL; op <= OP_QUANTIZE; op++)
        for (int dtype = 0; dtype < 3; dtype++)
            for (size_t i = 0; i < count; i++)
                for (int64_t rows = 0; header_offers(&list[i]) && rows < 2; rows++) {
                    combination c = call_of(op, check_dtypes[dtype], rows, 64, &list[i]);
                    c.upper_bound = 1.0f;
                    check(&c);
                }
    check_report("no rows", 4960);
}

static void S54_S55_S57_narrow_and_wide_rows(void **state)
{
    (void)state;
    static const int64_t cols[] = {64, 128, 256, 8192, 8208, 16384};
    for (size_t i = 0; i < COUNT(cols); i++)
        every_operation(BF16, 2, cols[i]);
    check_report("narrow and wide rows", 72);
}

static void S58_S59_columns_that_are_no_power_of_two(void **state)
{
    (void)state;
    static const int64_t cols[] = {2880, 2064, 5136, 12304};
    for (size_t i = 0; i < COUNT(cols); i++)
        every_operation(BF16, i == 0 ? 13 : 2, cols[i]);
    check_report("columns that are no power of two", 48);
}

static void S5A_S5B_columns_of_a_split(void **state)
{
    (void)state;
    every_operation(BF16, 3, 1368);
    every_operation(BF16, 3, 3584);
    check_report("columns of a split", 24);
}

/* 14.5 blocks are refused with the field; 160 columns work, padded to what a consumer wants. */
static void S5C_split_blocks(void **state)
{
    (void)state;
    const float one = 1;
    uint8_t codes[1];
    epiq_quantize_args a = {.struct_size = sizeof a, .x = {.data = codes, .rows = 1, .cols = 232, .dtype = BF16}};
    epiq_output o = {.struct_size = sizeof o,
                     .format = EPIQ_FORMAT_NVFP4,
                     .codes_out = codes,
                     .scale_out = codes,
                     .inv_scale = &one};
    char text[512];
    assert_int_equal(epiq_quantize(&a, &o, NULL), EPIQ_ERROR_SHAPE);
    epiq_explain_quantize(&a, &o, NULL, text, sizeof text);
    assert_non_null(strstr(text, "cols: 232 is not a multiple of 16"));
    for (int op = OP_ACT_MUL; op <= OP_QUANTIZE; op++) {
        combination c = call_of(op, BF16, 3, 160, &nvfp4);
        c.padded_cols = 192;
        check(&c);
    }
    check_report("split blocks", 3);
}

/* An odd number of 16-bit columns: a row does not end where a vector does. A hundred times the same bytes. */
static void S5E_odd_columns(void **state)
{
    (void)state;
    size_t backends;
    const epiq_backend *list = check_backends(&backends);
    for (int op = OP_ACT_MUL; op <= OP_RMS_NORM; op++) {
        combination c = call_of(op, F16, 7, 769, &e4m3_token);
        c.y = Y_OUT;
        c.gaps = INT64_C(0x111111111111);
        scenario s;
        assert_true(scenario_open(&s, &c));
        image want = image_make(&s), got = image_make(&s);
        image_oracle(&want);
        for (size_t b = 0; b < backends; b++)
            for (int i = 0; i < 100; i++) {
                epiq_exec exec = {.struct_size = sizeof exec, .backend = list[b], .tasks = 1 + i % 7};
                image_reset(&got);
                image_run_ok(&got, &exec);
                compare_images(&want, &got, "again");
            }
        image_free(&want);
        image_free(&got);
        scenario_close(&s);
        check_count(0);
    }
    check_report("odd columns", 2);
}

static void S5F_rows_and_halves(void **state)
{
    (void)state;
    every_operation(BF16, 65536, 2);
    every_operation(BF16, 5, 12);
    every_operation(BF16, 0, 12);
    uint8_t codes[1];
    epiq_act_mul_args a = {.struct_size = sizeof a, .x = {.data = codes, .rows = 4, .cols = 25, .dtype = BF16}};
    epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = codes, .scale_out = codes};
    assert_int_equal(epiq_act_mul(&a, &o, NULL), EPIQ_ERROR_SHAPE);
    check_report("rows and halves", 36);
}

/* ---- Large calls, compared with smaller ones of the same rows ---- */

typedef struct large {
    int64_t rows, cols, codes_bytes, scale_bytes;
    uint16_t *x;
    uint8_t *codes, *scales;
} large;

/* bf16 of magnitude 2^-4 to 2^4. */
static large large_open(int64_t rows, int64_t cols)
{
    large l = {.rows = rows, .cols = cols, .codes_bytes = rows * cols, .scale_bytes = 4 * rows * (cols / 16 + 64)};
    l.x = malloc((size_t)(2 * rows * cols));
    l.codes = malloc((size_t)l.codes_bytes);
    l.scales = malloc((size_t)l.scale_bytes);
    assert_true(l.x != NULL && l.codes != NULL && l.scales != NULL);
    rng r = {97};
    for (int64_t i = 0; i < rows * cols; i++) {
        uint64_t bits = rng_bits(&r);
        l.x[i] = (uint16_t)((bits & 0x807f) | (123 + bits / 65536 % 8) << 7);
    }
    return l;
}

static void large_close(large *l)
{
    free(l->x);
    free(l->codes);
    free(l->scales);
}

/* Rows first to first + rows: their codes and scales at the places that they have in the whole. */
static void large_run(const large *l, epiq_backend backend, int64_t first, int64_t rows)
{
    epiq_quantize_args a = {.struct_size = sizeof a,
                            .x = {.data = l->x + first * l->cols, .rows = rows, .cols = l->cols, .dtype = BF16}};
    epiq_output o = {.struct_size = sizeof o,
                     .format = EPIQ_FORMAT_E4M3,
                     .codes_out = l->codes + first * l->cols,
                     .scale_out = l->scales + 4 * first};
    epiq_exec exec = {.struct_size = sizeof exec, .backend = backend};
    assert_int_equal(epiq_quantize(&a, &o, &exec), EPIQ_OK);
}

/* More rows than a grid has blocks in its second dimension. */
static void S52_many_rows(void **state)
{
    (void)state;
    enum { M = 262141, H = 128, PART = 65535 };
    size_t backends;
    const epiq_backend *list = check_backends(&backends);
    large whole = large_open(M, H), parts = large_open(M, H);
    for (int64_t first = 0; first < M; first += PART)
        large_run(&parts, EPIQ_BACKEND_C, first, M - first < PART ? M - first : PART);
    for (size_t b = 0; b < backends; b++) {
        memset(whole.codes, 0, (size_t)whole.codes_bytes);
        large_run(&whole, list[b], 0, M);
        assert_memory_equal(whole.codes, parts.codes, M * H);
        assert_memory_equal(whole.scales, parts.scales, 4 * M);
    }
    large_close(&whole);
    large_close(&parts);
}

/* ---- J. The same bytes again ---- */

/* A scale of the tensor: the largest of all rows, whoever finds it, in every call anew. */
static void S98_largest_of_all_rows(void **state)
{
    (void)state;
    enum { M = 4096, H = 64 };
    size_t backends;
    const epiq_backend *list = check_backends(&backends);
    epiq_pool *pool = epiq_pool_create(4);
    assert_non_null(pool);
    large l = large_open(M, H);
    for (int i = 0; i < 40; i++) {
        const int64_t at = (int64_t)i * 6551 % (M * H);
        const uint16_t before = l.x[at];
        l.x[at] = (uint16_t)(0xc200 + i); /* -32 and beyond: the others stay below 16 */
        float largest = oracle_float((uint32_t)(l.x[at] & 0x7fff) << 16), scale = -1;
        epiq_quantize_args a = {.struct_size = sizeof a, .x = {.data = l.x, .rows = M, .cols = H, .dtype = BF16}};
        epiq_output o = {.struct_size = sizeof o,
                         .format = EPIQ_FORMAT_E4M3,
                         .grain = EPIQ_GRAIN_TENSOR,
                         .codes_out = l.codes,
                         .scale_out = &scale};
        epiq_exec exec = {.struct_size = sizeof exec,
                          .backend = list[(size_t)i % backends],
                          .tasks = i % 9,
                          .executor = epiq_pool_executor,
                          .executor_data = pool};
        assert_int_equal(epiq_quantize(&a, &o, &exec), EPIQ_OK);
        assert_int_equal(oracle_bits(scale), oracle_bits(largest / 448));
        assert_int_equal(l.codes[at], 0xfe);
        l.x[at] = before;
    }
    epiq_pool_destroy(pool);
    large_close(&l);
}

/* ---- K, N. Batches at which other kernels change their way ---- */

/* One row many times: each is as it is alone, at every number of rows. */
static void SD3_row_in_every_batch(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 127, 128, 129, 191, 192, 193, 383, 384, 385};
    enum { H = 512 };
    size_t backends;
    const epiq_backend *list = check_backends(&backends);
    large l = large_open(385, H);
    for (int64_t row = 1; row < l.rows; row++)
        memcpy(l.x + row * H, l.x, 2 * H);
    large_run(&l, EPIQ_BACKEND_C, 0, 1);
    uint8_t codes[H], scale[4];
    memcpy(codes, l.codes, H);
    memcpy(scale, l.scales, 4);
    for (size_t b = 0; b < backends; b++)
        for (size_t i = 0; i < COUNT(rows); i++) {
            memset(l.codes, 0xaa, (size_t)l.codes_bytes);
            large_run(&l, list[b], 0, rows[i]);
            for (int64_t row = 0; row < rows[i]; row++) {
                assert_memory_equal(l.codes + row * H, codes, H);
                assert_memory_equal(l.scales + 4 * row, scale, 4);
            }
        }
    large_close(&l);
}

/* Scales that stay zero for some number of rows would leave nothing of the values. */
static void SA0_round_trip_at_every_batch(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 8, 32, 128, 256, 512, 1024, 1536, 2048, 4096};
    enum { H = 2048 };
    size_t backends;
    const epiq_backend *list = check_backends(&backends);
    large l = large_open(4096, H);
    uint16_t *y = malloc(2 * 4096 * H);
    assert_non_null(y);
    for (size_t i = 0; i < COUNT(rows) * backends; i++) {
        const int64_t m = rows[i / backends];
        float inv_scale = 0;
        epiq_quantize_args a = {.struct_size = sizeof a, .x = {.data = l.x, .rows = m, .cols = H, .dtype = BF16}};
        epiq_output o = {.struct_size = sizeof o,
                         .format = EPIQ_FORMAT_NVFP4,
                         .layout = EPIQ_LAYOUT_TILE128X4,
                         .codes_out = l.codes,
                         .scale_out = l.scales,
                         .inv_scale_out = &inv_scale};
        epiq_dequantize_args d = {.struct_size = sizeof d,
                                  .format = EPIQ_FORMAT_NVFP4,
                                  .layout = EPIQ_LAYOUT_TILE128X4,
                                  .rows = m,
                                  .cols = H,
                                  .codes = l.codes,
                                  .scale = l.scales,
                                  .inv_scale = &inv_scale,
                                  .y_out = y,
                                  .y_dtype = BF16};
        epiq_exec exec = {.struct_size = sizeof exec, .backend = list[i % backends]};
        memset(l.scales, 0, (size_t)l.scale_bytes);
        assert_int_equal(epiq_quantize(&a, &o, &exec), EPIQ_OK);
        assert_int_equal(epiq_dequantize(&d, &exec), EPIQ_OK);
        double xx = 0, yy = 0, xy = 0;
        for (int64_t k = 0; k < m * H; k++) {
            double p = (double)oracle_float((uint32_t)l.x[k] << 16), q = (double)oracle_float((uint32_t)y[k] << 16);
            xx += p * p;
            yy += q * q;
            xy += p * q;
        }
        if (!(xy / sqrt(xx * yy) > 0.99))
            fail_msg("%lld rows on %s: cosine %g", (long long)m, epiq_word(exec.backend), xy / sqrt(xx * yy));
    }
    free(y);
    large_close(&l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(S52_many_rows),
    cmocka_unit_test(S53_no_rows),
    cmocka_unit_test(S54_S55_S57_narrow_and_wide_rows),
    cmocka_unit_test(S58_S59_columns_that_are_no_power_of_two),
    cmocka_unit_test(S5A_S5B_columns_of_a_split),
    cmocka_unit_test(S5C_split_blocks),
    cmocka_unit_test(S5E_odd_columns),
    cmocka_unit_test(S5F_rows_and_halves),
    cmocka_unit_test(S98_largest_of_all_rows),
    cmocka_unit_test(SA0_round_trip_at_every_batch),
    cmocka_unit_test(SD3_row_in_every_batch),
};

CHECK_MAIN(tests)
