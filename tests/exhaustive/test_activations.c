/* test_activations.c: every activation of every 16-bit gate through the public interface: recorded hashes, equality
 * with the oracle, and the accuracy that doc/spec.md states.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"

#include "oracle/oracle.h"

#include <float.h>
#include <math.h>

enum { GATES = 65536 };

static epiq_exec exec = {.struct_size = sizeof exec};

static const epiq_dtype dtypes[] = {EPIQ_DTYPE_BF16, EPIQ_DTYPE_F16};
static const epiq_act acts[] = {EPIQ_ACT_SILU, EPIQ_ACT_GELU_TANH, EPIQ_ACT_GELU_ERF,
                                EPIQ_ACT_RELU, EPIQ_ACT_RELU2,     EPIQ_ACT_IDENTITY};

static float gates[GATES], results[GATES];

/* act(gate) of all gates of a 16-bit dtype, as fp32: x holds them as fp32, and fp32 is not rounded. */
static const float *act_of_all(epiq_act act, float alpha, epiq_dtype dtype)
{
    for (uint32_t i = 0; i < GATES; i++)
        gates[i] = dtype == EPIQ_DTYPE_BF16 ? oracle_decode_bf16((uint16_t)i) : oracle_decode_f16((uint16_t)i);
    epiq_act_mul_args a = {.struct_size = sizeof a,
                           .act = act,
                           .x = {.data = gates, .rows = 8, .cols = GATES / 8, .dtype = EPIQ_DTYPE_F32},
                           .order = EPIQ_ORDER_UNGATED,
                           .chain = EPIQ_CHAIN_DIRECT,
                           .alpha = alpha,
                           .y_out = results};
    assert_int_equal(epiq_act_mul(&a, NULL, &exec), EPIQ_OK);
    return results;
}

/* FNV-1a over the little-endian results in the order of the gates' bits. */
static void test_known_hashes(void **state)
{
    (void)state;
    static const struct {
        epiq_act act;
        epiq_dtype dtype;
        uint64_t hash;
    } known[] = {
        {EPIQ_ACT_SILU, EPIQ_DTYPE_BF16, UINT64_C(0x48fb04b299835f58)},
        {EPIQ_ACT_SILU, EPIQ_DTYPE_F16, UINT64_C(0x13db1866f3a95405)},
        {EPIQ_ACT_GELU_TANH, EPIQ_DTYPE_BF16, UINT64_C(0xcf5a4ba19586f583)},
        {EPIQ_ACT_GELU_TANH, EPIQ_DTYPE_F16, UINT64_C(0xa1f6d3009365444f)},
        {EPIQ_ACT_GELU_ERF, EPIQ_DTYPE_BF16, UINT64_C(0x8e1bd6df95f2279c)},
        {EPIQ_ACT_GELU_ERF, EPIQ_DTYPE_F16, UINT64_C(0xd799a9bd41f74b38)},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        const float *y = act_of_all(known[i].act, 0, known[i].dtype);
        assert_true(fnv1a(FNV_BASIS, y, GATES * sizeof *y) == known[i].hash);
    }
}

static void hold_against_oracle(epiq_act act, float alpha, epiq_dtype dtype, uint32_t step)
{
    const float *y = act_of_all(act, alpha, dtype);
    for (uint32_t i = 0; i < GATES; i += step) {
        float expected = oracle_act_16(act, alpha, dtype, (uint16_t)i);
        if (bits_of(y[i]) != bits_of(expected))
            fail_msg("%s(%a), alpha %g: %a, expected %a", epiq_word(act), (double)gates[i], (double)alpha, (double)y[i],
                     (double)expected);
    }
}

static void test_all_equal_the_oracle(void **state)
{
    (void)state;
    assert_null(epiq_word(EPIQ_ACT_SILU + (int32_t)COUNT(acts))); /* all that there are */
    for (size_t k = 0; k < COUNT(acts); k++)
        for (size_t d = 0; d < COUNT(dtypes); d++)
            hold_against_oracle(acts[k], 0, dtypes[d], 1);
}

/* Gates of 16 bits as such, which may take another road than fp32 gates of the same value. y is one column, not
 * rounded, and nearly every bit of it stands in the scale of an int8 row, |y| / 127; up lifts it. */
static void test_16_bit_gates_equal_the_oracle(void **state)
{
    (void)state;
    static const uint16_t ups[2][3] = {{0x3f80, 0x7180, 0x3fa3},
                                       {0x3c00, 0x7800, 0x3d17}}; /* 1, 2^100 or 2^15, other */
    static uint16_t x[2 * GATES];
    static uint8_t codes[GATES];
    static float scales[GATES];
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (size_t k = 0; k < COUNT(acts); k++)
            for (size_t u = 0; u < COUNT(ups[d]); u++) {
                const float up = oracle_load(dtypes[d], &ups[d][u]);
                for (uint32_t i = 0; i < GATES; i++) {
                    x[2 * i] = (uint16_t)i;
                    x[2 * i + 1] = ups[d][u];
                }
                epiq_act_mul_args a = {.struct_size = sizeof a,
                                       .act = acts[k],
                                       .x = {.data = x, .rows = GATES, .cols = 2, .dtype = dtypes[d]},
                                       .chain = EPIQ_CHAIN_DIRECT};
                epiq_output o = {
                    .struct_size = sizeof o, .format = EPIQ_FORMAT_INT8, .codes_out = codes, .scale_out = scales};
                assert_int_equal(epiq_act_mul(&a, &o, &exec), EPIQ_OK);
                for (uint32_t i = 0; i < GATES; i++) {
                    float y = oracle_mul(oracle_act_16(acts[k], 0, dtypes[d], (uint16_t)i), up);
                    float amax = isnan(y) ? 0 : fminf(fabsf(y), FLT_MAX);
                    if (bits_of(scales[i]) != bits_of(oracle_div(amax, 127.0f)))
                        fail_msg("%s of %s %04x, times %a: scale %a, expected %a", epiq_word(acts[k]),
                                 epiq_word(dtypes[d]), i, (double)up, (double)scales[i],
                                 (double)oracle_div(amax, 127.0f));
                    assert_int_equal(codes[i], oracle_int8(oracle_mul(y, oracle_int8_token_multiplier(amax))));
                }
            }
}

/* Activations rounded to T before up, which may come from a table: gates in the order of their bits, so that neighbours
 * are of a kind, and in another, so that they are not; from halves and from pairs. */
static void test_rounded_activations_equal_the_oracle(void **state)
{
    (void)state;
    enum { ROWS = 8, COLS = GATES / ROWS };
    static const epiq_order orders[] = {EPIQ_ORDER_GATE_UP, EPIQ_ORDER_INTERLEAVED};
    static const uint16_t ups[] = {0x3fa3, 0x3d17}; /* neither 1 nor a power of 2 */
    static uint16_t x[ROWS][2 * COLS], y[ROWS][COLS];
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (size_t k = 0; k < COUNT(acts); k++)
            for (int way = 0; way < 4; way++) {
                const int pairs = way & 1, mixed = way >> 1;
                for (uint32_t i = 0; i < GATES; i++) {
                    const uint32_t r = i / COLS, c = i % COLS;
                    x[r][pairs ? 2 * c : c] = (uint16_t)(mixed ? i * 40503 : i);
                    x[r][pairs ? 2 * c + 1 : c + COLS] = ups[d];
                }
                epiq_act_mul_args a = {.struct_size = sizeof a,
                                       .act = acts[k],
                                       .x = {.data = x, .rows = ROWS, .cols = 2 * COLS, .dtype = dtypes[d]},
                                       .order = orders[pairs],
                                       .act_round = EPIQ_ROUND_TWICE,
                                       .y_out = y};
                assert_int_equal(epiq_act_mul(&a, NULL, &exec), EPIQ_OK);
                for (uint32_t i = 0; i < GATES; i++) {
                    const uint16_t gate = (uint16_t)(mixed ? i * 40503 : i);
                    float act = oracle_round(dtypes[d], oracle_act_16(acts[k], 0, dtypes[d], gate));
                    float expected = oracle_round(dtypes[d], oracle_mul(act, oracle_load(dtypes[d], &ups[d])));
                    float found = oracle_load(dtypes[d], &y[i / COLS][i % COLS]);
                    if (bits_of(found) != bits_of(expected) && !(isnan(found) && isnan(expected)))
                        fail_msg("%s of %s %04x, %s, %s: %a, expected %a", epiq_word(acts[k]), epiq_word(dtypes[d]),
                                 gate, epiq_word(orders[pairs]), mixed ? "mixed" : "in order", (double)found,
                                 (double)expected);
                }
            }
}

/* fp32 gates: their mantissas reach every step of the polynomial. */
static void test_fp32_gates_equal_the_oracle(void **state)
{
    (void)state;
    static float y[GATES];
    for (int round = 0; round < (deep() ? 40 : 1); round++)
        for (size_t k = 0; k < 3; k++) {
            for (uint32_t i = 0; i < GATES; i++) {
                uint64_t r = random_64();
                uint32_t exponent =
                    i % 4 == 0 ? (uint32_t)(r >> 40) % 256 : 118 + (uint32_t)(r >> 40) % 16; /* to 127 */
                gates[i] = float_of(((uint32_t)r & 0x807fffff) | exponent << 23);
            }
            gates[0] = -0x1.fed524p-1f; /* the last bit of the highest coefficient shows here, and hardly elsewhere */
            epiq_act_mul_args a = {.struct_size = sizeof a,
                                   .act = acts[k],
                                   .x = {.data = gates, .rows = 8, .cols = GATES / 8, .dtype = EPIQ_DTYPE_F32},
                                   .order = EPIQ_ORDER_UNGATED,
                                   .y_out = y};
            assert_int_equal(epiq_act_mul(&a, NULL, &exec), EPIQ_OK);
            for (uint32_t i = 0; i < GATES; i++) {
                float expected = oracle_act(acts[k], 0, gates[i]);
                if (bits_of(y[i]) != bits_of(expected))
                    fail_msg("%s(%a): %a, expected %a", epiq_word(acts[k]), (double)gates[i], (double)y[i],
                             (double)expected);
            }
        }
}

/* alpha 1 is 0; the smallest and the largest; sigmoid's 1.702; some between. */
static void test_alphas_equal_the_oracle(void **state)
{
    (void)state;
    static const float alphas[] = {1.702f, 0x1p-100f, 0x1p100f, 0.5f, 0x1.fffffep-1f, 100.0f, 0x1p-20f, 0x1.234568p40f};
    hold_against_oracle(EPIQ_ACT_SILU, 1.0f, EPIQ_DTYPE_BF16, 1);
    for (size_t k = 0; k < COUNT(alphas); k++)
        for (size_t d = 0; d < COUNT(dtypes); d++)
            hold_against_oracle(EPIQ_ACT_SILU, alphas[k], dtypes[d], deep() ? 1 : 7);
}

/* What the formulas promise where they have no freedom. */
static void test_specials(void **state)
{
    (void)state;
    static const struct {
        epiq_act act;
        float x;
        uint32_t y;
    } specials[] = {
        {EPIQ_ACT_SILU, 0.0f, 0},
        {EPIQ_ACT_SILU, -0.0f, 0x80000000},
        {EPIQ_ACT_SILU, INFINITY, 0x7f800000},
        {EPIQ_ACT_SILU, -INFINITY, 0x80000000},
        {EPIQ_ACT_SILU, NAN, 0x7fffffff},
        {EPIQ_ACT_GELU_TANH, 0.0f, 0},
        {EPIQ_ACT_GELU_TANH, -0.0f, 0x80000000},
        {EPIQ_ACT_GELU_TANH, INFINITY, 0x7f800000},
        {EPIQ_ACT_GELU_TANH, -INFINITY, 0x80000000},
        {EPIQ_ACT_GELU_TANH, NAN, 0x7fffffff},
        {EPIQ_ACT_GELU_ERF, 0.0f, 0},
        {EPIQ_ACT_GELU_ERF, -0.0f, 0x80000000},
        {EPIQ_ACT_GELU_ERF, INFINITY, 0x7f800000},
        {EPIQ_ACT_GELU_ERF, -INFINITY, 0x80000000},
        {EPIQ_ACT_GELU_ERF, NAN, 0x7fffffff},
        {EPIQ_ACT_RELU, -0.0f, 0},
        {EPIQ_ACT_RELU, -INFINITY, 0},
        {EPIQ_ACT_RELU, -1.0f, 0},
        {EPIQ_ACT_RELU, INFINITY, 0x7f800000},
        {EPIQ_ACT_RELU, NAN, 0x7fffffff},
        {EPIQ_ACT_RELU2, -0.0f, 0},
        {EPIQ_ACT_RELU2, -3.0f, 0},
        {EPIQ_ACT_RELU2, 3.0f, 0x41100000},
        {EPIQ_ACT_RELU2, 0x1p100f, 0x7f800000},
        {EPIQ_ACT_RELU2, NAN, 0x7fffffff},
        {EPIQ_ACT_IDENTITY, -0.0f, 0x80000000},
        {EPIQ_ACT_IDENTITY, 0x1p-149f, 1},
        {EPIQ_ACT_IDENTITY, -INFINITY, 0xff800000},
        {EPIQ_ACT_IDENTITY, NAN, 0x7fffffff},
    };
    for (size_t i = 0; i < COUNT(specials); i++) {
        float x[2] = {specials[i].x, -specials[i].x}, y[2]; /* a second element, to be ignored */
        epiq_act_mul_args a = {.struct_size = sizeof a,
                               .act = specials[i].act,
                               .x = {.data = x, .rows = 1, .cols = 2, .dtype = EPIQ_DTYPE_F32},
                               .order = EPIQ_ORDER_UNGATED,
                               .chain = EPIQ_CHAIN_DIRECT,
                               .y_out = y};
        assert_int_equal(epiq_act_mul(&a, NULL, &exec), EPIQ_OK);
        if (bits_of(y[0]) != specials[i].y)
            fail_msg("%s(%a): %08x, expected %08x", epiq_word(specials[i].act), (double)x[0], bits_of(y[0]),
                     specials[i].y);
    }
}

/* ---- Accuracy against the real functions ------------------------------------------------------------------------- */

static float true_act[2][GATES]; /* of silu, for bf16 and fp16 gates: slow, so computed once */

static float exact(epiq_act act, int dtype, uint32_t i)
{
    float *known = act == EPIQ_ACT_SILU ? &true_act[dtype][i] : NULL;
    if (known != NULL && *known != 0)
        return *known;
    float g = dtype == 0 ? oracle_decode_bf16((uint16_t)i) : oracle_decode_f16((uint16_t)i);
    float value = oracle_act_true(act, 0, g);
    if (known != NULL)
        *known = value;
    return value;
}

/* bf16 gates, y rounded to bf16: the exact value rounded to binary32 and then to bf16, for all of them. */
static void test_bf16_results_are_exact(void **state)
{
    (void)state;
    static uint16_t x[GATES], y[GATES];
    for (uint32_t i = 0; i < GATES; i++)
        x[i] = (uint16_t)i;
    for (epiq_act act = EPIQ_ACT_SILU; act <= EPIQ_ACT_GELU_ERF; act++) {
        epiq_act_mul_args a = {.struct_size = sizeof a,
                               .act = act,
                               .x = {.data = x, .rows = 16, .cols = GATES / 16, .dtype = EPIQ_DTYPE_BF16},
                               .order = EPIQ_ORDER_UNGATED,
                               .act_round = EPIQ_ROUND_ONCE,
                               .y_out = y};
        assert_int_equal(epiq_act_mul(&a, NULL, &exec), EPIQ_OK);
        for (uint32_t i = 0; i < GATES; i++) {
            uint16_t expected = oracle_bf16(exact(act, 0, i));
            if (y[i] != expected)
                fail_msg("%s of bf16 %04x: %04x, expected %04x", epiq_word(act), i, y[i], expected);
        }
    }
}

static int64_t steps_between(float a, float b) /* of the same sign */
{
    return llabs((int64_t)bits_of(a) - (int64_t)bits_of(b));
}

/* At most 2 ulp for bf16 gates, 3 for fp16 gates, where |silu| >= 1e-36. An error of at most n ulp is at most n steps
 * from the exact value's rounding, which is half a step from it. */
static void test_silu_ulps(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++) {
        const float *y = act_of_all(EPIQ_ACT_SILU, 0, dtypes[d]);
        int64_t worst = 0;
        int counted = 0;
        for (uint32_t i = 0; i < GATES; i++) {
            float value = exact(EPIQ_ACT_SILU, d, i);
            if (!(fabsf(value) >= 1e-36f) || isinf(value))
                continue;
            assert_int_equal(signbit(value) != 0, signbit(y[i]) != 0);
            int64_t steps = steps_between(y[i], value);
            worst = steps > worst ? steps : worst;
            counted++;
        }
        print_message("           %s gates: at most %d steps off, over %d\n", epiq_word(dtypes[d]), (int)worst,
                      counted);
        assert_true(worst <= (d == 0 ? 2 : 3));
        assert_true(counted > 30000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_hashes),
        cmocka_unit_test(test_all_equal_the_oracle),
        cmocka_unit_test(test_16_bit_gates_equal_the_oracle),
        cmocka_unit_test(test_rounded_activations_equal_the_oracle),
        cmocka_unit_test(test_fp32_gates_equal_the_oracle),
        cmocka_unit_test(test_alphas_equal_the_oracle),
        cmocka_unit_test(test_specials),
        cmocka_unit_test(test_bf16_results_are_exact),
        cmocka_unit_test(test_silu_ulps),
    };
    int failed = 0;
    for (epiq_backend b = EPIQ_BACKEND_C; (b = next_backend(b)) != EPIQ_BACKEND_CUDA; b = (epiq_backend)(b + 1)) {
        exec.backend = b;
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
