/* test_check_dequantize.c: epiq_dequantize against the oracle, on random codes and scales.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_harness.h"

/* The quantizers whose codes dequantize can be asked about: one for each format, grain, group and layout. */
static int decodes(const combination *q)
{
    if (q->nan != EPIQ_NAN_PROPAGATE || q->pad_rows != EPIQ_PAD_ROWS_ZERO || q->bounded)
        return 0;
    if (q->ue8m0 && q->layout != EPIQ_LAYOUT_PACKED_UE8M0)
        return 0;
    if (q->grain == EPIQ_GRAIN_TENSOR)
        return q->level != LEVEL_NONE;
    if (q->format == EPIQ_FORMAT_NVFP4)
        return q->nvfp4 == EPIQ_NVFP4_VLLM && q->level == LEVEL_INV_SCALE;
    return q->mx_round == 0 || q->mx_round == EPIQ_MX_ROUND_CEIL;
}

static combination decoding(const combination *q)
{
    combination c = with_quantizer((combination){.op = OP_DEQUANTIZE, .y = Y_OUT}, q);
    c.nan = c.pad_rows = c.mx_round = c.nvfp4 = c.ue8m0 = 0;
    return c;
}

static void every_format(void **state)
{
    (void)state;
    static const int64_t cols[] = {1, 16, 33, 160, 1040};
    rng r = {401};
    size_t count;
    const combination *list = check_quantizers(&count);
    for (size_t i = 0; i < count; i++)
        for (int dtype = 0; decodes(&list[i]) && dtype < 3; dtype++)
            for (size_t k = 0; k < COUNT(cols); k++)
                for (int variant = 0; variant < 8; variant++) {
                    combination c = decoding(&list[i]);
                    c.dtype = check_dtypes[dtype];
                    c.rows = k + 1 < COUNT(cols) ? 6 : 2;
                    c.cols = cols[k];
                    c.padded_cols = variant & 1 ? c.cols + rng_below(&r, 150) : 0;
                    c.gaps = variant & 2 ? (int64_t)(rng_bits(&r) >> 16) : 0;
                    c.offsets = variant & 2 ? (int64_t)(rng_bits(&r) >> 16) : 0;
                    c.level_value = variant & 4 ? 0.37f : 2.0f;
                    c.defaults = variant & 1;
                    c.named_dtype = variant >> 1 & 1;
                    c.seed = 1 + rng_below(&r, 1 << 30);
                    fit_cols(&c);
                    check(&c);
                }
    check_report("every format", 5700);
}

/* Every special scale, inv_scale and second level. */
static void every_scale(void **state)
{
    (void)state;
    size_t count;
    const combination *list = check_quantizers(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t v = 0; decodes(&list[i]) && list[i].level != LEVEL_NONE && v < check_scales_count; v++)
            for (int dtype = 0; dtype < 3; dtype++) {
                combination c = decoding(&list[i]);
                c.dtype = check_dtypes[dtype];
                c.rows = 5;
                c.cols = 64;
                c.level_value = check_scales[v];
                c.seed = 1 + (int64_t)v;
                check(&c);
            }
    check_report("every scale", 870);
}

static void at_random(void **state)
{
    (void)state;
    rng r = {403};
    for (int i = 0; i < 8000; i++) {
        combination c = random_combination(&r, OP_DEQUANTIZE);
        check(&c);
    }
    check_report("at random, seed 403", 6800);
}

/* What a quantizer wrote is read back: the same arguments name the same bytes. */
static void round_trip(void **state)
{
    (void)state;
    rng r = {404};
    for (int i = 0; i < 1500; i++) {
        combination c = random_combination(&r, OP_QUANTIZE);
        c.rows = 1 + c.rows % 20;
        c.data = DATA_NORMAL;
        c.defaults = 0;
        scenario q, d;
        if (!scenario_open(&q, &c))
            continue;
        image codes = image_make(&q);
        epiq_exec exec = random_exec(&r), other = random_exec(&r);
        image_run_ok(&codes, &exec);
        combination e = c;
        e.op = OP_DEQUANTIZE;
        e.y = Y_OUT;
        e.bounded = 0;
        e.ue8m0 = 0;
        e.nan = e.pad_rows = e.mx_round = e.nvfp4 = 0;
        if (c.grain == EPIQ_GRAIN_TENSOR && c.level == LEVEL_NONE)
            e.level = LEVEL_SCALE;
        if (c.level == LEVEL_COMPUTED)
            e.level = LEVEL_INV_SCALE;
        assert_true(scenario_open(&d, &e));
        scenario_take(&d, R_CODES, &codes, R_CODES);
        if (c.grain == EPIQ_GRAIN_TENSOR && c.level == LEVEL_NONE)
            scenario_take(&d, R_SCALE, &codes, R_SCALES);
        else
            scenario_take(&d, R_SCALES, &codes, R_SCALES);
        if (c.level == LEVEL_COMPUTED)
            scenario_take(&d, R_INV_SCALE, &codes, R_INV_SCALE_OUT);
        image want = image_make(&d), got = image_make(&d);
        image_oracle(&want);
        image_run_ok(&got, &other);
        compare_images(&want, &got, "round trip");
        image_free(&want);
        image_free(&got);
        image_free(&codes);
        scenario_close(&q);
        scenario_close(&d);
        check_count(0);
    }
    check_report("round trip, seed 404", 1200);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_format),
    cmocka_unit_test(every_scale),
    cmocka_unit_test(at_random),
    cmocka_unit_test(round_trip),
};

CHECK_MAIN(tests)
