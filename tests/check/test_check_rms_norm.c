/* test_check_rms_norm.c: epiq_rms_norm against the oracle.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_harness.h"

/* Every way to write the operation itself; codes of one format, y and residual. */
static void every_operation(void **state)
{
    (void)state;
    static const float biases[] = {0, 1, -0.25f};
    rng r = {301};
    for (int dtype = 0; dtype < 3; dtype++)
        for (int weight = 0; weight < 3; weight++)
            for (int chain = EPIQ_CHAIN_VLLM; chain <= check_last("chain"); chain++)
                for (int sum = 0; sum < 3; sum++)
                    for (int round = 0; round < 4; round++)
                        for (size_t bias = 0; bias < COUNT(biases); bias++)
                            for (int residual = RESIDUAL_NONE; residual <= RESIDUAL_IN_PLACE; residual++)
                                for (int y = Y_NONE; y <= Y_IN_PLACE; y++) {
                                    combination c = {.op = OP_RMS_NORM,
                                                     .dtype = check_dtypes[dtype],
                                                     .rows = 2,
                                                     .cols = 1 + rng_below(&r, 24),
                                                     .chain = chain,
                                                     .sum_round = sum == 0 ? 0 : EPIQ_SUM_ROUND_FP32 + sum - 1,
                                                     .round = round == 0 ? 0 : EPIQ_ROUND_NONE + round - 1,
                                                     .weight_dtype = weight == 0   ? 0
                                                                     : weight == 1 ? (int64_t)check_dtypes[dtype]
                                                                                   : (int64_t)EPIQ_DTYPE_F32,
                                                     .eps = 1e-6f,
                                                     .weight_bias = biases[bias],
                                                     .residual = residual,
                                                     .y = y,
                                                     .format = EPIQ_FORMAT_E4M3,
                                                     .grain = EPIQ_GRAIN_TOKEN,
                                                     .layout = EPIQ_LAYOUT_ROW,
                                                     .nan = EPIQ_NAN_PROPAGATE,
                                                     .pad_rows = EPIQ_PAD_ROWS_ZERO,
                                                     .defaults = y & 1,
                                                     .data = DATA_ANY,
                                                     .second = rng_below(&r, 2) ? DATA_NORMAL : DATA_ANY,
                                                     .seed = 1 + rng_below(&r, 1 << 30)};
                                    check(&c);
                                }
    check_report("every operation", 14700);
}

/* y and the residual without codes, and each without the other. */
static void without_codes(void **state)
{
    (void)state;
    rng r = {302};
    for (int dtype = 0; dtype < 3; dtype++)
        for (int residual = RESIDUAL_NONE; residual <= RESIDUAL_IN_PLACE; residual++)
            for (int y = Y_OUT; y <= Y_IN_PLACE; y++)
                for (int i = 0; i < 40; i++) {
                    combination c = {.op = OP_RMS_NORM,
                                     .dtype = check_dtypes[dtype],
                                     .rows = rng_below(&r, 7),
                                     .cols = 1 + rng_below(&r, 80),
                                     .chain = EPIQ_CHAIN_VLLM + rng_below(&r, 4),
                                     .eps = 1e-5f,
                                     .weight_bias = (float)rng_below(&r, 2),
                                     .residual = residual,
                                     .y = y,
                                     .offsets = (int64_t)(rng_bits(&r) >> 16),
                                     .gaps = (int64_t)(rng_bits(&r) >> 16),
                                     .seed = 1 + rng_below(&r, 1 << 30)};
                    check(&c);
                }
    check_report("without codes", 910);
}

/* Every quantizer behind each chain. */
static void every_quantizer(void **state)
{
    (void)state;
    rng r = {303};
    size_t count;
    const combination *list = check_quantizers(&count);
    for (size_t i = 0; i < count; i++)
        for (int dtype = 0; dtype < 3; dtype++)
            for (int chain = EPIQ_CHAIN_VLLM; chain <= check_last("chain"); chain++) {
                combination c = {.op = OP_RMS_NORM,
                                 .dtype = check_dtypes[dtype],
                                 .rows = 3,
                                 .cols = 144,
                                 .chain = chain,
                                 .eps = 1e-6f,
                                 .weight_dtype = rng_below(&r, 2) ? EPIQ_DTYPE_F32 : 0,
                                 .weight_bias = (float)rng_below(&r, 2),
                                 .residual = rng_below(&r, 4),
                                 .y = rng_below(&r, 3),
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
    check_report("every quantizer", 3100);
}

/* Every pattern of x, residual and eps at its ends. */
static void special_values(void **state)
{
    (void)state;
    static const float eps[] = {0x1p-149f, 1e-30f, 1e-6f, 1.0f, 3e38f};
    for (int dtype = 0; dtype < 3; dtype++)
        for (size_t e = 0; e < COUNT(eps); e++)
            for (int data = DATA_PATTERN; data < DATA_KINDS; data++)
                for (int residual = RESIDUAL_NONE; residual <= RESIDUAL_OUT; residual++) {
                    combination c = {.op = OP_RMS_NORM,
                                     .dtype = check_dtypes[dtype],
                                     .rows = 8,
                                     .cols = data == DATA_PATTERN ? 8 : 65,
                                     .chain = EPIQ_CHAIN_FLASHINFER,
                                     .eps = eps[e],
                                     .residual = residual,
                                     .y = Y_OUT,
                                     .data = data,
                                     .second = data,
                                     .seed = 1 + data};
                    check(&c);
                    c.cols = 1;
                    c.rows = 33;
                    check(&c);
                }
    check_report("special values", 850);
}

static void at_random(void **state)
{
    (void)state;
    rng r = {304};
    for (int i = 0; i < 10000; i++) {
        combination c = random_combination(&r, OP_RMS_NORM);
        check(&c);
    }
    check_report("at random, seed 304", 8600);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_operation), cmocka_unit_test(without_codes), cmocka_unit_test(every_quantizer),
    cmocka_unit_test(special_values),  cmocka_unit_test(at_random),
};

CHECK_MAIN(tests)
