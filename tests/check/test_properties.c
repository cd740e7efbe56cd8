/* test_properties.c: laws between calls of the library itself; the oracle decides nothing here but places of scales.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_harness.h"

#include <stdlib.h>
#include <string.h>

static combination some_call(rng *r, int op)
{
    combination c = random_combination(r, op);
    c.interleaved = 0;
    if (c.rows * c.cols > 4000)
        c.rows = 3;
    return c;
}

/* All rows of both images, without strides and layout, must be equal. Answers their bytes. */
static int64_t same_rows(const image *a, const image *b, const char *what)
{
    int64_t rows = a->of->c.rows, bytes = image_row(a, 0, NULL);
    unsigned char *p = malloc((size_t)bytes + 1), *q = malloc((size_t)bytes + 1);
    for (int64_t row = 0; row < rows; row++) {
        image_row(a, row, p);
        image_row(b, row, q);
        if (memcmp(p, q, (size_t)bytes) != 0) {
            combination_print(&a->of->c);
            fail_combination(&b->of->c, "%s: row %lld differs from the call above", what, (long long)row);
        }
    }
    free(p);
    free(q);
    return rows * bytes;
}

/* y alone, then epiq_quantize of it, gives the codes and scales of the fused call. For `none` this holds in f32, where
 * y_out is y. */
static void fused_is_two_steps(void **state)
{
    (void)state;
    rng r = {1101};
    for (int i = 0; i < 3000; i++) {
        combination c = some_call(&r, OP_ACT_MUL + i % 2);
        if (c.format == 0 || c.rows == 0)
            continue;
        int none = c.round != 0 ? c.round == EPIQ_ROUND_NONE : c.chain == EPIQ_CHAIN_DIRECT;
        if (none)
            c.dtype = EPIQ_DTYPE_F32;
        if (none && c.weight_dtype != 0)
            c.weight_dtype = EPIQ_DTYPE_F32;
        if (c.y == Y_IN_PLACE)
            c.y = Y_OUT;
        c.residual = c.residual == RESIDUAL_IN_PLACE ? RESIDUAL_OUT : c.residual;
        combination y = c, q = c;
        y.y = Y_OUT;
        y.format = y.grain = y.group = y.layout = y.level = y.bounded = y.padded_cols = 0;
        q.op = OP_QUANTIZE;
        q.y = Y_NONE;
        q.residual = RESIDUAL_NONE;
        c.y = rng_below(&r, 2) ? Y_OUT : Y_NONE;
        scenario fused, first, second;
        if (!scenario_open(&fused, &c))
            continue;
        assert_true(scenario_open(&first, &y));
        assert_true(scenario_open(&second, &q));
        for (int64_t row = 0; row < c.rows; row++)
            scenario_copy_row(&first, row, &fused, row);
        image a = image_make(&fused), b = image_make(&first);
        epiq_exec exec = random_exec(&r), other = random_exec(&r);
        image_run_ok(&a, &exec);
        image_run_ok(&b, &other);
        scenario_take(&second, R_X, &b, R_Y);
        image d = image_make(&second);
        image_run_ok(&d, &exec);
        same_region(&a, R_CODES, &d, R_CODES, "two steps");
        same_region(&a, R_SCALES, &d, R_SCALES, "two steps");
        same_region(&a, R_INV_SCALE_OUT, &d, R_INV_SCALE_OUT, "two steps");
        if (c.y == Y_OUT)
            same_region(&a, R_Y, &b, R_Y, "y alone");
        if (c.residual == RESIDUAL_OUT)
            same_region(&a, R_RESIDUAL_OUT, &b, R_RESIDUAL_OUT, "y alone");
        image_free(&a);
        image_free(&b);
        image_free(&d);
        scenario_close(&fused);
        scenario_close(&first);
        scenario_close(&second);
        check_count(0);
    }
    check_report("fused is two steps, seed 1101", 2000);
}

/* Every layout holds the scales of layout row; the codes do not depend on it. */
static void layouts_agree(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 3, 4, 5, 8, 9, 33, 127, 128, 129, 257};
    size_t count;
    const combination *list = check_quantizers(&count);
    rng r = {1102};
    for (size_t i = 0; i < count; i++)
        for (int k = 0; list[i].layout != EPIQ_LAYOUT_ROW && k < 6; k++) {
            combination c = {.op = OP_QUANTIZE,
                             .dtype = check_dtypes[k % 3],
                             .rows = rng_from(&r, rows, COUNT(rows)),
                             .cols = 1 + rng_below(&r, 300),
                             .level_value = 5.0f,
                             .seed = 1 + rng_below(&r, 1 << 30)};
            c = with_quantizer(c, &list[i]);
            fit_cols(&c);
            combination plain = c;
            plain.layout = EPIQ_LAYOUT_ROW;
            scenario s, t;
            if (!scenario_open(&s, &c))
                continue;
            assert_true(scenario_open(&t, &plain));
            for (int64_t row = 0; row < c.rows; row++)
                scenario_copy_row(&t, row, &s, row);
            image a = image_make(&s), b = image_make(&t);
            epiq_exec exec = random_exec(&r), other = random_exec(&r);
            image_run_ok(&a, &exec);
            image_run_ok(&b, &other);
            same_region(&a, R_CODES, &b, R_CODES, "layouts");
            same_region(&a, R_INV_SCALE_OUT, &b, R_INV_SCALE_OUT, "layouts");
            for (int64_t at = 0; at < c.rows * s.groups; at++) {
                const unsigned char *p = a.at[R_SCALES] + s.scale_at[at], *q = b.at[R_SCALES] + t.scale_at[at];
                float power;
                memcpy(&power, q, t.layout.unit == 4 ? 4 : 1);
                int same = s.layout.unit == t.layout.unit ? memcmp(p, q, (size_t)s.layout.unit) == 0
                                                          : oracle_bits(power) == (uint32_t)*p << 23;
                if (!same)
                    fail_combination(&c, "the scale of row %lld group %lld is not that of layout row",
                                     (long long)(at / s.groups), (long long)(at % s.groups));
            }
            image_free(&a);
            image_free(&b);
            scenario_close(&s);
            scenario_close(&t);
            check_count(0);
        }
    check_report("layouts agree", 1100);
}

/* Strides, offsets, aliases and the presence of y change nothing. */
static void placement_changes_nothing(void **state)
{
    (void)state;
    rng r = {1103};
    for (int i = 0; i < 3000; i++) {
        combination c = some_call(&r, OP_ACT_MUL + i % 4), d = c;
        if (c.rows == 0)
            continue;
        c.gaps = c.offsets = c.tasks = 0;
        c.residual = c.residual == RESIDUAL_IN_PLACE ? RESIDUAL_OUT : c.residual;
        c.y = c.y == Y_IN_PLACE ? Y_OUT : c.y;
        d.gaps = (int64_t)(rng_bits(&r) >> 16);
        d.offsets = (int64_t)(rng_bits(&r) >> 16);
        d.interleaved = rng_below(&r, 2);
        d.residual = c.residual == RESIDUAL_OUT ? RESIDUAL_OUT + rng_below(&r, 2) : c.residual;
        d.y = c.op == OP_RMS_NORM && c.y == Y_OUT ? Y_OUT + rng_below(&r, 2) : c.y;
        scenario s, t;
        if (!scenario_open(&s, &c))
            continue;
        assert_true(scenario_open(&t, &d));
        for (int64_t row = 0; row < c.rows; row++)
            scenario_copy_row(&t, row, &s, row);
        image a = image_make(&s), b = image_make(&t);
        epiq_exec exec = random_exec(&r), other = random_exec(&r);
        image_run_ok(&a, &exec);
        image_run_ok(&b, &other);
        int64_t bytes = same_rows(&a, &b, "placement");
        same_region(&a, R_INV_SCALE_OUT, &b, R_INV_SCALE_OUT, "placement");
        image_free(&a);
        image_free(&b);
        scenario_close(&s);
        scenario_close(&t);
        check_count(bytes);
    }
    check_report("placement changes nothing, seed 1103", 2300);
}

/* epiq_scale_offset names the byte at which each scale lies, and -1 for every other row and group. */
static void scale_offset(void **state)
{
    (void)state;
    rng r = {1104};
    for (int i = 0; i < 3000; i++) {
        combination c = some_call(&r, OP_QUANTIZE);
        scenario s;
        if (!scenario_open(&s, &c))
            continue;
        int64_t rows = s.layout.rows, groups = s.regions[R_SCALES].bytes > 0 ? s.groups : 0;
        for (int64_t row = -1; row <= rows; row++)
            for (int64_t group = -1; group <= groups; group++) {
                int inside = row >= 0 && row < rows && group >= 0 && group < groups;
                int64_t expected = inside ? s.scale_at[row * groups + group] : -1;
                int64_t got = epiq_scale_offset(&s.sizes, row, group);
                if (got != expected)
                    fail_combination(&c, "epiq_scale_offset(%lld, %lld) is %lld, expected %lld", (long long)row,
                                     (long long)group, (long long)got, (long long)expected);
            }
        scenario_close(&s);
        check_count(rows * groups);
    }
    check_report("scale offset, seed 1104", 2500);
}

/* A NaN policy touches nothing but what belongs to a NaN; data without NaN have the same bytes under both. */
static void policies_agree_without_nan(void **state)
{
    (void)state;
    size_t count;
    const combination *list = check_quantizers(&count);
    rng r = {1105};
    for (size_t i = 0; i < count; i++)
        for (int dtype = 0; list[i].nan == EPIQ_NAN_PROPAGATE && dtype < 3; dtype++) {
            combination c = {.op = OP_QUANTIZE,
                             .dtype = check_dtypes[dtype],
                             .rows = 4,
                             .cols = 96,
                             .data = DATA_NORMAL,
                             .level_value = 5.0f,
                             .upper_bound = 5.0f,
                             .seed = 1 + rng_below(&r, 1 << 30)};
            c = with_quantizer(c, &list[i]);
            combination d = c;
            d.nan = EPIQ_NAN_SATURATE;
            scenario s, t;
            if (!scenario_open(&s, &c))
                continue;
            assert_true(scenario_open(&t, &d));
            image a = image_make(&s), b = image_make(&t);
            epiq_exec exec = random_exec(&r), other = random_exec(&r);
            image_run_ok(&a, &exec);
            image_run_ok(&b, &other);
            same_region(&a, R_CODES, &b, R_CODES, "policies");
            same_region(&a, R_SCALES, &b, R_SCALES, "policies");
            image_free(&a);
            image_free(&b);
            scenario_close(&s);
            scenario_close(&t);
            check_count(0);
        }
    check_report("policies agree without NaN", 390);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(fused_is_two_steps),         cmocka_unit_test(layouts_agree),
    cmocka_unit_test(placement_changes_nothing),  cmocka_unit_test(scale_offset),
    cmocka_unit_test(policies_agree_without_nan),
};

CHECK_MAIN(tests)
