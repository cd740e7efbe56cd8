/* test_check_act_mul.c: epiq_act_mul against the oracle.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_harness.h"

#include <float.h>

static const int64_t chains[] = {EPIQ_CHAIN_VLLM, EPIQ_CHAIN_FLASHINFER, EPIQ_CHAIN_DIRECT};

/* Every way to write the operation itself; codes of one format, and y. */
static void every_operation(void **state)
{
    (void)state;
    static const struct {
        float limit, limit_after;
    } limits[] = {{0, 0}, {7, 0}, {0, 7}, {0.5f, 0}, {0, 0.5f}};
    static const float offsets[] = {0, 1, -0.375f};
    static const float alphas[] = {0, 1, 1.702f};
    rng r = {201};
    for (int dtype = 0; dtype < 3; dtype++)
        for (int act = EPIQ_ACT_SILU; act <= check_last("act"); act++)
            for (int order = EPIQ_ORDER_GATE_UP; order <= check_last("order"); order++)
                for (int rounding = 0; rounding < 6; rounding++) /* of a chain, or named beside another chain */
                    for (size_t limit = 0; limit < COUNT(limits); limit++)
                        for (size_t offset = 0; offset < (order == EPIQ_ORDER_UNGATED ? 1 : COUNT(offsets)); offset++)
                            for (size_t alpha = 0; alpha < (act == EPIQ_ACT_SILU ? COUNT(alphas) : 1); alpha++) {
                                combination c = {.op = OP_ACT_MUL,
                                                 .dtype = check_dtypes[dtype],
                                                 .rows = 2,
                                                 .cols = 21,
                                                 .act = act,
                                                 .order = order,
                                                 .chain = chains[rounding % 3],
                                                 .round = rounding < 3 ? 0 : EPIQ_ROUND_NONE + (rounding + 1) % 3,
                                                 .alpha = alphas[alpha],
                                                 .limit = limits[limit].limit,
                                                 .limit_after = limits[limit].limit_after,
                                                 .up_offset = offsets[offset],
                                                 .y = Y_OUT,
                                                 .format = EPIQ_FORMAT_E4M3,
                                                 .grain = EPIQ_GRAIN_TOKEN,
                                                 .layout = EPIQ_LAYOUT_ROW,
                                                 .nan = EPIQ_NAN_PROPAGATE,
                                                 .pad_rows = EPIQ_PAD_ROWS_ZERO,
                                                 .defaults = rounding & 1,
                                                 .data = rng_below(&r, 2) ? DATA_GATE : DATA_ANY,
                                                 .seed = 1 + rng_below(&r, 1 << 30)};
                                check(&c);
                            }
    check_report("every operation", 8800);
}

/* The whole range of alpha, limit and up_offset. */
static void extreme_parameters(void **state)
{
    (void)state;
    static const float alphas[] = {0x1p-100f, 0x1p100f, 1e-3f, 30.0f, 0.999f};
    static const float limits[] = {0x1p-149f, FLT_MAX, 0x1p-126f, 448.0f};
    static const float offsets[] = {FLT_MAX, -FLT_MAX, 0x1p-149f, -1.0f};
    rng r = {202};
    for (int dtype = 0; dtype < 3; dtype++)
        for (int order = EPIQ_ORDER_GATE_UP; order <= check_last("order"); order++)
            for (int i = 0; i < 20; i++)
                for (size_t chain = 0; chain < COUNT(chains); chain++) {
                    combination c = {.op = OP_ACT_MUL,
                                     .dtype = check_dtypes[dtype],
                                     .rows = 3,
                                     .cols = 33,
                                     .act = EPIQ_ACT_SILU,
                                     .order = order,
                                     .chain = chains[chain],
                                     .alpha = alphas[i % 5],
                                     .y = Y_OUT,
                                     .data = i & 1 ? DATA_SPECIAL : DATA_ANY,
                                     .second = DATA_ANY,
                                     .seed = 1 + rng_below(&r, 1 << 30)};
                    *(i & 2 ? &c.limit : &c.limit_after) = limits[i % 4];
                    if (order != EPIQ_ORDER_UNGATED)
                        c.up_offset = offsets[i % 4];
                    check(&c);
                }
    check_report("extreme parameters", 850);
}

/* Every gate of the 16-bit dtypes and as many of f32, up 1: y, and codes of y unrounded. */
static void every_gate(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < 3; dtype++)
        for (int act = EPIQ_ACT_SILU; act <= check_last("act"); act++)
            for (int unrounded = 0; unrounded < 2; unrounded++) {
                combination c = {.op = OP_ACT_MUL,
                                 .dtype = check_dtypes[dtype],
                                 .rows = dtype == 0 ? 16 : 64,
                                 .cols = 1024,
                                 .act = act,
                                 .order = EPIQ_ORDER_UNGATED,
                                 .chain = unrounded ? EPIQ_CHAIN_DIRECT : EPIQ_CHAIN_VLLM,
                                 .y = Y_OUT,
                                 .format = EPIQ_FORMAT_E4M3,
                                 .grain = EPIQ_GRAIN_TENSOR,
                                 .layout = EPIQ_LAYOUT_ROW,
                                 .nan = EPIQ_NAN_PROPAGATE,
                                 .pad_rows = EPIQ_PAD_ROWS_ZERO,
                                 .level = LEVEL_INV_SCALE,
                                 .level_value = 100.0f,
                                 .data = DATA_EVERY,
                                 .seed = 1};
                check(&c);
            }
    check_report("every gate", 36);
}

/* Every quantizer behind each chain. */
static void every_quantizer(void **state)
{
    (void)state;
    rng r = {203};
    size_t count;
    const combination *list = check_quantizers(&count);
    for (size_t i = 0; i < count; i++)
        for (int dtype = 0; dtype < 3; dtype++)
            for (size_t chain = 0; chain < COUNT(chains); chain++) {
                combination c = {.op = OP_ACT_MUL,
                                 .dtype = check_dtypes[dtype],
                                 .rows = 3,
                                 .cols = dtype == 0 ? 40 : 144,
                                 .act = EPIQ_ACT_SILU,
                                 .order = EPIQ_ORDER_GATE_UP + (int)(i + chain) % 5,
                                 .chain = chains[chain],
                                 .y = rng_below(&r, 2) ? Y_OUT : Y_NONE,
                                 .data = DATA_ANY,
                                 .padded_cols = rng_below(&r, 2) ? 150 + rng_below(&r, 50) : 0,
                                 .gaps = rng_below(&r, 2) ? (int64_t)(rng_bits(&r) >> 16) : 0,
                                 .seed = 1 + rng_below(&r, 1 << 30)};
                c = with_quantizer(c, &list[i]);
                c.level_value = check_scales[rng_below(&r, (int64_t)check_scales_count)];
                c.upper_bound = rng_float(&r, 0.5f, 8.0f);
                fit_cols(&c);
                check(&c);
            }
    check_report("every quantizer", 2300);
}

static void at_random(void **state)
{
    (void)state;
    rng r = {204};
    for (int i = 0; i < 10000; i++) {
        combination c = random_combination(&r, OP_ACT_MUL);
        check(&c);
    }
    check_report("at random, seed 204", 8600);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_operation), cmocka_unit_test(extreme_parameters), cmocka_unit_test(every_gate),
    cmocka_unit_test(every_quantizer), cmocka_unit_test(at_random),
};

CHECK_MAIN(tests)
