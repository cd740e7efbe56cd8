/* test_oracle.c: the oracle against facts worked out by hand, recorded hashes and exact definitions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <mpfr.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define PROPAGATE EPIQ_NAN_PROPAGATE
#define SATURATE EPIQ_NAN_SATURATE

static void assert_same(float got, float expected)
{
    if (isnan(got) && isnan(expected))
        assert_int_equal(oracle_bits(got), 0x7fffffff); /* the oracle's NaNs are canonical */
    else
        assert_int_equal(oracle_bits(got), oracle_bits(expected));
}

static uint32_t random_state = 12345;

static uint32_t random_bits(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    uint32_t high = random_state;
    random_state = random_state * 1664525u + 1013904223u;
    return (high & 0xffff0000u) | random_state >> 16;
}

static float next_up(float x)
{
    return nextafterf(x, INFINITY);
}

/* ---- Exact arithmetic -------------------------------------------------------------------------------------------- */

static const float special_values[] = {
    0.0f,          -0.0f,       1.0f,        -1.0f,          INFINITY,         -INFINITY, NAN,
    0x1p-149f,     -0x1p-149f,  0x1.8p-148f, FLT_MIN,        0x1.fffffcp-127f, FLT_MAX,   -FLT_MAX,
    0x1p127f,      0x1p-75f,    0x1p-74f,    0x1.8p-75f,     0x1p-24f,         0x1p-25f,  0x1.000002p0f,
    0x1.fffffep0f, 448.0f,      6.0f,        0x1.8p-24f,     0x1.fffffep-1f,   3.0f,      127.0f,
    1e-10f,        16777216.0f, 8388609.0f,  0x1.fffffep22f, 0x1p103f,         0x1p102f,  -0x1p102f,
};

/* One operation by MPFR in the exponent range of binary32. */
static float by_mpfr(char operation, float a, float b)
{
    mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    mpfr_set_emin(-148);
    mpfr_set_emax(128);
    mpfr_t x, y;
    mpfr_inits2(24, x, y, (mpfr_ptr)0);
    mpfr_set_flt(x, a, MPFR_RNDN);
    mpfr_set_flt(y, b, MPFR_RNDN);
    int inexact = operation == '+'   ? mpfr_add(x, x, y, MPFR_RNDN)
                  : operation == '-' ? mpfr_sub(x, x, y, MPFR_RNDN)
                  : operation == '*' ? mpfr_mul(x, x, y, MPFR_RNDN)
                  : operation == '/' ? mpfr_div(x, x, y, MPFR_RNDN)
                                     : mpfr_sqrt(x, x, MPFR_RNDN);
    mpfr_subnormalize(x, inexact, MPFR_RNDN);
    float value = mpfr_get_flt(x, MPFR_RNDN);
    mpfr_clears(x, y, (mpfr_ptr)0);
    mpfr_set_emin(emin);
    mpfr_set_emax(emax);
    return value;
}

static void check_pair(float a, float b)
{
    volatile float x = a, y = b; /* the host's own operation is a third opinion */
    assert_same(oracle_add(a, b), by_mpfr('+', a, b));
    assert_same(oracle_sub(a, b), by_mpfr('-', a, b));
    assert_same(oracle_mul(a, b), by_mpfr('*', a, b));
    assert_same(oracle_div(a, b), by_mpfr('/', a, b));
    assert_same(oracle_add(a, b), x + y);
    assert_same(oracle_mul(a, b), x * y);
    assert_same(oracle_div(a, b), x / y);
}

static void exact_operations(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(special_values); i++) {
        for (size_t j = 0; j < COUNT(special_values); j++)
            check_pair(special_values[i], special_values[j]);
        assert_same(oracle_sqrt(special_values[i]), by_mpfr('r', special_values[i], 0));
        assert_same(oracle_sqrt(special_values[i]), sqrtf(special_values[i]));
    }
    for (int i = 0; i < 100000; i++) {
        float a = oracle_float(random_bits()), b = oracle_float(random_bits());
        check_pair(a, b);
        float near = oracle_float((oracle_bits(a) & 0xff800000u) | (random_bits() & 0x7fffffu)); /* exponents alike */
        check_pair(a, near);
        float tiny = oracle_float(random_bits() & 0x80ffffffu);
        check_pair(a, tiny);
        assert_same(oracle_sqrt(fabsf(a)), by_mpfr('r', fabsf(a), 0));
        assert_same(oracle_sqrt(fabsf(tiny)), sqrtf(fabsf(tiny)));
    }
    static const int64_t integers[] = {0, 1, -1, 16777216, 16777217, 16777219, (1 << 28) - 1, 268435448, 33554434};
    for (size_t i = 0; i < COUNT(integers); i++)
        assert_same(oracle_from_int(integers[i]), (float)integers[i]);
    assert_same(oracle_min(1, -2), -2);
    assert_same(oracle_min(NAN, -2), NAN);
    assert_same(oracle_min(-2, NAN), NAN);
}

/* ---- Codes ------------------------------------------------------------------------------------------------------- */

static void code_midpoints_of_e2m1(void **state)
{
    (void)state;
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    static const float midpoints[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    static const uint8_t even[7] = {0, 2, 2, 4, 4, 6, 6};
    for (uint8_t i = 0; i < 8; i++) {
        assert_same(oracle_decode_e2m1(i), values[i]);
        assert_same(oracle_decode_e2m1(i + 8), -values[i]);
        assert_int_equal(oracle_e2m1(values[i]), i);
        assert_int_equal(oracle_e2m1(-values[i]), i + 8);
    }
    for (uint8_t i = 0; i < 7; i++) {
        assert_int_equal(oracle_e2m1(midpoints[i]), even[i]);
        assert_int_equal(oracle_e2m1(-midpoints[i]), even[i] + 8);
        assert_int_equal(oracle_e2m1(nextafterf(midpoints[i], 0)), i);
        assert_int_equal(oracle_e2m1(next_up(midpoints[i])), i + 1);
    }
    assert_int_equal(oracle_e2m1(FLT_MAX), 7);
    assert_int_equal(oracle_e2m1(-INFINITY), 15);
    assert_int_equal(oracle_e2m1(-0x1p-149f), 8);
    assert_int_equal(oracle_e2m1(NAN), 7);
    assert_int_equal(oracle_e2m1(-NAN), 7);
}

static void codes_of_e4m3_and_e5m2(void **state)
{
    (void)state;
    static const struct {
        float x;
        uint8_t e4m3, e5m2;
    } facts[] = {
        {0.0f, 0x00, 0x00},          {-0.0f, 0x80, 0x80},     {1.0f, 0x38, 0x3c},
        {-1.5f, 0xbc, 0xbe},         {448.0f, 0x7e, 0x5f},    {464.0f, 0x7e, 0x5f},
        {0x1.d00002p8f, 0x7e, 0x5f}, {465.0f, 0x7e, 0x5f},    {480.0f, 0x7e, 0x60},
        {1000.0f, 0x7e, 0x64},       {-1000.0f, 0xfe, 0xe4},  {432.0f, 0x7e, 0x5f},
        {416.0f, 0x7d, 0x5e},        {400.0f, 0x7c, 0x5e},    {256.0f, 0x78, 0x5c},
        {248.0f, 0x78, 0x5c},        {57344.0f, 0x7e, 0x7b},  {61439.0f, 0x7e, 0x7b},
        {61440.0f, 0x7e, 0x7b},      {FLT_MAX, 0x7e, 0x7b},   {-FLT_MAX, 0xfe, 0xfb},
        {INFINITY, 0x7e, 0x7b},      {-INFINITY, 0xfe, 0xfb}, {0x1p-6f, 0x08, 0x24},
        {0x1p-9f, 0x01, 0x18},       {0x1p-10f, 0x00, 0x14},  {0x1.000002p-10f, 0x01, 0x14},
        {0x1.8p-9f, 0x02, 0x1a},     {-0x1p-10f, 0x80, 0x94}, {0x1p-14f, 0x00, 0x04},
        {0x1p-16f, 0x00, 0x01},      {0x1p-17f, 0x00, 0x00},  {0x1.000002p-17f, 0, 0x01},
        {-0x1p-149f, 0x80, 0x80},    {0x1.ep-7f, 0x08, 0x24}, {0x1.cp-7f, 0x07, 0x23},
    };
    for (size_t i = 0; i < COUNT(facts); i++) {
        assert_int_equal(oracle_e4m3(facts[i].x, PROPAGATE), facts[i].e4m3);
        assert_int_equal(oracle_e4m3(facts[i].x, SATURATE), facts[i].e4m3);
        assert_int_equal(oracle_e5m2(facts[i].x, PROPAGATE), facts[i].e5m2);
        assert_int_equal(oracle_e5m2(facts[i].x, SATURATE), facts[i].e5m2);
    }
    assert_int_equal(oracle_e4m3(-NAN, PROPAGATE), 0x7f);
    assert_int_equal(oracle_e4m3(-NAN, SATURATE), 0x7e);
    assert_int_equal(oracle_e5m2(-NAN, PROPAGATE), 0x7f);
    assert_int_equal(oracle_e5m2(-NAN, SATURATE), 0x7b);

    assert_same(oracle_decode_e4m3(0x07), 0.013671875f);
    assert_same(oracle_decode_e4m3(0xfe), -448.0f);
    assert_same(oracle_decode_e4m3(0xff), NAN);
    assert_same(oracle_decode_e5m2(0x7c), INFINITY);
    assert_same(oracle_decode_e5m2(0xfc), -INFINITY);
    assert_same(oracle_decode_e5m2(0x7d), NAN);
    assert_same(oracle_decode_e8m0(0), 0x1p-127f);
    assert_same(oracle_decode_e8m0(254), 0x1p127f);
    assert_same(oracle_decode_e8m0(255), NAN);
    for (unsigned code = 0; code < 256; code++) {
        if ((code & 0x7f) != 0x7f)
            assert_int_equal(oracle_e4m3(oracle_decode_e4m3((uint8_t)code), PROPAGATE), code);
        if ((code & 0x7f) < 0x7c)
            assert_int_equal(oracle_e5m2(oracle_decode_e5m2((uint8_t)code), PROPAGATE), code);
        assert_int_equal(oracle_int8(oracle_decode_int8((uint8_t)code)), code);
    }
    static const struct {
        float x;
        int code;
    } integers[] = {{0.5f, 0},       {1.5f, 2},         {2.5f, 2},       {-0.5f, 0},      {-1.5f, -2},
                    {-2.5f, -2},     {0.50001f, 1},     {126.5f, 126},   {127.4f, 127},   {127.5f, 127},
                    {128, 127},      {1e30f, 127},      {-127.5f, -128}, {-128.5f, -128}, {-129, -128},
                    {INFINITY, 127}, {-INFINITY, -128}, {NAN, 0},        {-0.0f, 0}};
    for (size_t i = 0; i < COUNT(integers); i++)
        assert_int_equal((int8_t)oracle_int8(integers[i].x), integers[i].code);
}

/* All the rounding boundaries of a 16-bit format, and the floats on both sides: as rounding is monotone and every value
 * keeps its code, this decides the code of every float. */
static void check_boundaries(uint16_t (*encode)(float), float (*decode)(uint16_t), uint16_t infinity, double beyond)
{
    for (unsigned code = 0; code < infinity; code++) {
        double above = code + 1 == infinity ? beyond : (double)decode((uint16_t)(code + 1));
        double middle = ((double)decode((uint16_t)code) + above) / 2;
        float tie = (float)middle;
        assert_true((double)tie == middle);
        assert_int_equal(encode(decode((uint16_t)code)), code);
        assert_int_equal(encode(tie), code % 2 == 0 ? code : code + 1);
        assert_int_equal(encode(nextafterf(tie, 0)), code);
        assert_int_equal(encode(next_up(tie)), code + 1);
        assert_int_equal(encode(-tie), 0x8000 + (code % 2 == 0 ? code : code + 1));
        assert_int_equal(encode(-decode((uint16_t)code)), 0x8000 + code);
    }
    assert_int_equal(encode(FLT_MAX), infinity);
    assert_int_equal(encode(INFINITY), infinity);
    assert_int_equal(encode(-INFINITY), 0x8000 + infinity);
    assert_int_equal(encode(-NAN), 0x7fff);
    assert_same(decode(infinity), INFINITY);
    assert_same(decode((uint16_t)(0x8001 + infinity)), NAN);
}

static void sixteen_bit_formats(void **state)
{
    (void)state;
    check_boundaries(oracle_bf16, oracle_decode_bf16, 0x7f80, 0x1p128);
    check_boundaries(oracle_f16, oracle_decode_f16, 0x7c00, 0x1p16);
    assert_same(oracle_decode_bf16(0xbf80), -1.0f);
    assert_same(oracle_decode_bf16(0x0001), 0x1p-133f);
    assert_same(oracle_decode_f16(0x3c00), 1.0f);
    assert_same(oracle_decode_f16(0x8001), -0x1p-24f);
    assert_same(oracle_round(EPIQ_DTYPE_BF16, 257.0f), 256.0f);
    assert_same(oracle_round(EPIQ_DTYPE_F32, 257.0f), 257.0f);
    uint32_t stored;
    oracle_store(EPIQ_DTYPE_F32, &stored, -NAN);
    assert_int_equal(stored, 0x7fffffff);
}

/* ---- Activations ------------------------------------------------------------------------------------------------- */

static uint64_t hash_of_gates(epiq_act act, epiq_dtype dtype)
{
    uint64_t hash = 14695981039346656037u;
    for (unsigned gate = 0; gate < 65536; gate++) {
        uint32_t bits = oracle_bits(oracle_act_16(act, 0, dtype, (uint16_t)gate));
        for (int byte = 0; byte < 4; byte++)
            hash = (hash ^ (bits >> 8 * byte & 255)) * 1099511628211u;
    }
    return hash;
}

static void known_answers(void **state)
{
    (void)state;
    static const struct {
        epiq_act act;
        uint64_t bf16, f16;
    } facts[] = {
        {EPIQ_ACT_SILU, 0x48fb04b299835f58, 0x13db1866f3a95405},
        {EPIQ_ACT_GELU_TANH, 0xcf5a4ba19586f583, 0xa1f6d3009365444f},
        {EPIQ_ACT_GELU_ERF, 0x8e1bd6df95f2279c, 0xd799a9bd41f74b38},
    };
    for (size_t i = 0; i < COUNT(facts); i++) {
        assert_true(hash_of_gates(facts[i].act, EPIQ_DTYPE_BF16) == facts[i].bf16);
        assert_true(hash_of_gates(facts[i].act, EPIQ_DTYPE_F16) == facts[i].f16);
    }
}

static int64_t ulps_apart(float a, float b)
{
    int64_t x = oracle_bits(a) & 0x7fffffff, y = oracle_bits(b) & 0x7fffffff;
    return llabs((signbit(a) ? -x : x) - (signbit(b) ? -y : y));
}

static void activations(void **state)
{
    (void)state;
    static const epiq_act smooth[] = {EPIQ_ACT_SILU, EPIQ_ACT_GELU_TANH, EPIQ_ACT_GELU_ERF};
    for (size_t i = 0; i < COUNT(smooth); i++) {
        assert_same(oracle_act(smooth[i], 0, 0.0f), 0.0f);
        assert_same(oracle_act(smooth[i], 0, -0.0f), -0.0f);
        assert_same(oracle_act(smooth[i], 0, INFINITY), INFINITY);
        assert_same(oracle_act(smooth[i], 0, -INFINITY), -0.0f);
        assert_same(oracle_act(smooth[i], 0, -NAN), NAN);
        assert_same(oracle_act(smooth[i], 0, 100.0f), 100.0f);
        assert_same(oracle_act(smooth[i], 0, -FLT_MAX), -0.0f);
        assert_same(oracle_act_true(smooth[i], 0, -0.0f), -0.0f);
        assert_same(oracle_act_true(smooth[i], 0, -FLT_MAX), -0.0f);
        assert_same(oracle_act_true(smooth[i], 0, FLT_MAX), FLT_MAX);
        assert_same(oracle_act_true(smooth[i], 0, 0x1p-149f), 0x1p-149f); /* a hair above half of it */
        assert_same(oracle_act_true(smooth[i], 0, -0x1p-149f), -0.0f);    /* a hair below */
    }
    assert_same(oracle_act(EPIQ_ACT_SILU, 0x1p-100f, -INFINITY), -0.0f);
    assert_same(oracle_act(EPIQ_ACT_SILU, 0x1p100f, -INFINITY), -0.0f);
    assert_same(oracle_act(EPIQ_ACT_SILU, 0x1p100f, -1.0f), -0.0f);
    assert_same(oracle_act(EPIQ_ACT_SILU, 0x1p-100f, -1.0f), -0.5f);
    assert_same(oracle_act(EPIQ_ACT_SILU, 1, -3.25f), oracle_act(EPIQ_ACT_SILU, 0, -3.25f));
    assert_true(oracle_act(EPIQ_ACT_SILU, 0, -89.0f) < 0); /* gradual underflow */

    static const epiq_act plain[] = {EPIQ_ACT_RELU, EPIQ_ACT_RELU2, EPIQ_ACT_IDENTITY};
    static const float in[] = {3, -3, 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 0x1p-80f, 0x1p80f};
    static const float relu[] = {3, 0, 0, 0, INFINITY, 0, NAN, 0x1p-80f, 0x1p80f};
    static const float relu2[] = {9, 0, 0, 0, INFINITY, 0, NAN, 0, INFINITY};
    for (size_t i = 0; i < COUNT(in); i++) {
        assert_same(oracle_act(plain[0], 0, in[i]), relu[i]);
        assert_same(oracle_act(plain[1], 0, in[i]), relu2[i]);
        assert_same(oracle_act(plain[2], 0, in[i]), in[i]);
        assert_same(oracle_act_true(plain[1], 0, in[i]), relu2[i]);
    }
    assert_true(fabsf(oracle_act(EPIQ_ACT_GELU_ERF, 0, -3.0f) + 0.004050f) < 1e-6f);
    assert_true(fabsf(oracle_act(EPIQ_ACT_GELU_TANH, 0, -3.0f) + 0.003637f) < 1e-6f);
    assert_true(fabsf(oracle_act(EPIQ_ACT_SILU, 0, 1.0f) - 0.73105858f) < 1e-7f);
    assert_true(fabsf(oracle_act(EPIQ_ACT_SILU, 1.702f, 1.0f) - 0.8457958f) < 1e-6f);

    for (int i = 0; i < 20000; i++) { /* fp32 gates */
        float g = ((float)(random_bits() >> 8) * 0x1p-24f - 0.5f) * 40;
        assert_true(ulps_apart(oracle_act(EPIQ_ACT_SILU, 0, g), oracle_act_true(EPIQ_ACT_SILU, 0, g)) <= 4);
        assert_true(ulps_apart(oracle_act(EPIQ_ACT_SILU, 1.702f, g), oracle_act_true(EPIQ_ACT_SILU, 1.702f, g)) < 200);
    }
}

/* Rounded to bf16, silu and both gelus are the real function rounded to fp32 and to bf16, for all gates; silu is within
 * 2 units in the last place of fp32 from 1e-36 up. The counts of gates by distance are those of an earlier study. */
static void true_functions(void **state)
{
    (void)state;
    static const struct {
        epiq_act act;
        int apart[6]; /* finite results not 0 that are 0, 1, 2, 3, 4 units apart, and more */
    } facts[] = {
        {EPIQ_ACT_SILU, {46971, 2733, 13, 3, 2, 30}},
        {EPIQ_ACT_GELU_TANH, {46394, 2639, 80, 39, 30, 141}},
        {EPIQ_ACT_GELU_ERF, {44969, 3124, 1044, 224, 19, 0}},
    };
    for (size_t i = 0; i < COUNT(facts); i++) {
        int apart[6] = {0};
        for (unsigned gate = 0; gate < 65536; gate++) {
            float value = oracle_act_16(facts[i].act, 0, EPIQ_DTYPE_BF16, (uint16_t)gate);
            float exact = oracle_act_true(facts[i].act, 0, oracle_decode_bf16((uint16_t)gate));
            assert_int_equal(oracle_bf16(value), oracle_bf16(exact));
            if (!isfinite(exact) || exact == 0)
                continue;
            int64_t ulps = ulps_apart(value, exact);
            apart[ulps > 5 ? 5 : ulps]++;
            if (facts[i].act == EPIQ_ACT_SILU && fabsf(exact) >= 1e-36f)
                assert_true(ulps <= 2);
        }
        assert_memory_equal(apart, facts[i].apart, sizeof apart);
    }
}

/* ---- Sums -------------------------------------------------------------------------------------------------------- */

static void sums(void **state)
{
    (void)state;
    const float e = 0x1p-12f; /* e * e is half a unit in the last place of 1 */
    float row[9];
    assert_same(oracle_sum_squares(NULL, 0), 0);
    row[0] = -3;
    assert_same(oracle_sum_squares(row, 1), 9);
    memcpy(row, (float[]){1, e, e}, sizeof(float[3]));
    assert_same(oracle_sum_squares(row, 3), 1); /* (1 + e2) + (e2 + 0): both round to 1 */
    memcpy(row, (float[]){1, 0, e, e}, sizeof(float[4]));
    assert_same(oracle_sum_squares(row, 4), 0x1.000002p0f); /* (1 + 0) + (e2 + e2) */
    memcpy(row, (float[]){e, e, 1, e, e}, sizeof(float[5]));
    assert_same(oracle_sum_squares(row, 5), 0x1.000004p0f); /* ((e2 + e2) + (1 + e2)) + e2: the last is a tie, up */
    memcpy(row, (float[]){1, e, 0, 0, e, e, 0, 0, 2}, sizeof(float[9]));
    assert_same(oracle_sum_squares(row, 9), 0x1.4p2f);
    memcpy(row, (float[]){1, 0, 0, 0, e, e}, sizeof(float[6]));
    assert_same(oracle_sum_squares(row, 6), 0x1.000002p0f);
    row[5] = NAN;
    assert_true(isnan(oracle_sum_squares(row, 6)));
    row[5] = 0x1p64f;
    assert_same(oracle_sum_squares(row, 6), INFINITY);

    /* Seven ones and the padding: the same as the plain sum; rinv of 16/4 + 0. */
    for (int i = 0; i < 7; i++)
        row[i] = 1;
    assert_same(oracle_sum_squares(row, 7), 7);
    assert_same(oracle_rinv(16, 4, 0x1p-100f), 0.5f);
    assert_same(oracle_rinv(0, 4, 0x1p-100f), 0x1p50f);
    assert_same(oracle_rinv(INFINITY, 4, 1), 0);

    /* Against a loop over levels on an explicitly padded row. */
    for (size_t n = 1; n <= 300; n += 13) {
        float values[300], level[512] = {0};
        for (size_t i = 0; i < n; i++) {
            values[i] = (float)(int32_t)random_bits() * 0x1p-28f;
            level[i] = oracle_mul(values[i], values[i]);
        }
        for (size_t half = 256; half >= 1; half /= 2)
            for (size_t i = 0; i < half; i++)
                level[i] = oracle_add(level[2 * i], level[2 * i + 1]);
        assert_same(oracle_sum_squares(values, n), level[0]);
    }
}

/* ---- Scales ------------------------------------------------------------------------------------------------------ */

static void reciprocals(void **state)
{
    (void)state;
    static const uint32_t facts[][2] = {
        {0x00000000, 0x7f800000}, {0x80000000, 0xff800000}, {0x00000001, 0x7f800000}, {0x807fffff, 0xff800000},
        {0x7f800000, 0x00000000}, {0xff800000, 0x80000000}, {0x7fc00000, 0x7fffffff}, {0xff800001, 0x7fffffff},
        {0x3f800000, 0x3f800000}, {0xbf800000, 0xbf800000}, {0x40c00000, 0x3e2aaaab}, {0x43e00000, 0x3b124925},
        {0x7e800000, 0x00800000}, {0xfe800000, 0x80800000}, {0x7e800001, 0x00000000}, {0xfe800001, 0x80000000},
        {0x7f7fffff, 0x00000000}, {0x00800000, 0x7e800000}, {0x80800000, 0xfe800000},
    };
    for (size_t i = 0; i < COUNT(facts); i++)
        assert_int_equal(oracle_rcp_approx(facts[i][0]), facts[i][1]);
    long apart[3] = {0}; /* from the correctly rounded reciprocal: -1, 0, +1 */
    for (uint32_t mantissa = 0; mantissa < 1 << 23; mantissa++) {
        uint32_t x = 0x3f800000 + mantissa;
        volatile float one = 1.0f;
        apart[(int32_t)(oracle_rcp_approx(x) - oracle_bits(one / oracle_float(x))) + 1]++;
    }
    assert_int_equal(apart[0], 374723);
    assert_int_equal(apart[1], 7280086);
    assert_int_equal(apart[2], 733799);
    for (int i = 0; i < 1000; i++) { /* the exponent only scales */
        uint32_t x = (random_bits() & 0x7fffff) + 0x3f800000;
        assert_int_equal(oracle_rcp_approx(x + (40u << 23)), oracle_rcp_approx(x) - (40u << 23));
    }
}

/* The rule of the spec on bits, for comparison with the oracle's inequalities. */
static unsigned mx_by_bits(epiq_format format, epiq_mx_round round, float amax)
{
    int64_t r = round == EPIQ_MX_ROUND_FLOOR  ? 0
                : round == EPIQ_MX_ROUND_VLLM ? 0x200000
                : format == EPIQ_FORMAT_MXFP4 ? 0x3fffff
                                              : 0x1fffff;
    int64_t sf = ((oracle_bits(amax) + r) >> 23) - (format == EPIQ_FORMAT_MXFP4 ? 2 : 8);
    if (isinf(amax) || sf > 254)
        return 254;
    return sf < 0 ? 0 : (unsigned)sf;
}

static void mx_exponents(void **state)
{
    (void)state;
    const epiq_format f8 = EPIQ_FORMAT_MXFP8, f4 = EPIQ_FORMAT_MXFP4;
    const epiq_mx_round ceil = EPIQ_MX_ROUND_CEIL, floor = EPIQ_MX_ROUND_FLOOR, vllm = EPIQ_MX_ROUND_VLLM;
    assert_int_equal(oracle_mx_exponent(f8, floor, 480), 127); /* clips to 448 */
    assert_int_equal(oracle_mx_exponent(f8, ceil, 480), 128);
    assert_int_equal(oracle_mx_exponent(f8, ceil, 448), 127); /* no binade lost */
    assert_int_equal(oracle_mx_exponent(f8, ceil, next_up(448)), 128);
    assert_int_equal(oracle_mx_exponent(f8, ceil, 256), 127);
    assert_int_equal(oracle_mx_exponent(f8, floor, 256), 127);
    assert_int_equal(oracle_mx_exponent(f8, floor, nextafterf(256, 0)), 126);
    assert_int_equal(oracle_mx_exponent(f4, ceil, 6), 127);
    assert_int_equal(oracle_mx_exponent(f4, ceil, next_up(6)), 128);
    assert_int_equal(oracle_mx_exponent(f4, floor, next_up(6)), 127);
    assert_int_equal(oracle_mx_exponent(f4, vllm, nextafterf(7, 0)), 127);
    assert_int_equal(oracle_mx_exponent(f4, vllm, 7), 128);
    assert_int_equal(oracle_mx_exponent(f4, ceil, 4), 127);
    for (int k = -100; k <= 100; k++)
        assert_int_equal(oracle_mx_exponent(f8, ceil, ldexpf(448, k)), 127 + k);
    static const float ends[] = {0, 0x1p-149f, FLT_MIN, 0x1p-125f, 0x1.8p-125f};
    for (size_t i = 0; i < COUNT(ends); i++)
        assert_int_equal(oracle_mx_exponent(f8, ceil, ends[i]), 0);
    assert_int_equal(oracle_mx_exponent(f4, ceil, 0x1.8p-125f), 0);
    assert_int_equal(oracle_mx_exponent(f4, ceil, 0x1.800002p-125f), 1);
    assert_int_equal(oracle_mx_exponent(f8, ceil, FLT_MAX), 247);
    assert_int_equal(oracle_mx_exponent(f4, ceil, FLT_MAX), 253);
    assert_int_equal(oracle_mx_exponent(f8, floor, INFINITY), 254);
    assert_int_equal(oracle_mx_exponent(f4, vllm, INFINITY), 254);
    for (uint32_t top = 0; top < 0x7f80; top += 8) /* mantissas 0, 1/16, .. of every binade and both neighbours */
        for (int step = -1; step <= 1; step++) {
            if (top == 0 && step < 0)
                continue;
            float amax = oracle_float((top << 16) + (uint32_t)step);
            assert_int_equal(oracle_mx_exponent(f8, ceil, amax), mx_by_bits(f8, ceil, amax));
            assert_int_equal(oracle_mx_exponent(f8, floor, amax), mx_by_bits(f8, floor, amax));
            assert_int_equal(oracle_mx_exponent(f4, ceil, amax), mx_by_bits(f4, ceil, amax));
            assert_int_equal(oracle_mx_exponent(f4, floor, amax), mx_by_bits(f4, floor, amax));
            assert_int_equal(oracle_mx_exponent(f4, vllm, amax), mx_by_bits(f4, vllm, amax));
        }
}

static void float_scales(void **state)
{
    (void)state;
    const epiq_format e4 = EPIQ_FORMAT_E4M3, e5 = EPIQ_FORMAT_E5M2, i8 = EPIQ_FORMAT_INT8;
    const float five = 5, minus = -1, nan = NAN, infinity = INFINITY, zero = 0, minus_zero = -0.0f, half = 0.5f;
    volatile float ten = 10, tiny = 1e-10f, max = FLT_MAX, one = 1;
    assert_same(oracle_amax((float[]){-2, NAN, 1, -INFINITY}, 4), INFINITY);
    assert_same(oracle_amax((float[]){-2, NAN, 1}, 3), 2);
    assert_same(oracle_amax((float[]){NAN, -0.0f}, 2), 0);

    assert_same(oracle_multiplier(NULL, &five), 5);
    assert_same(oracle_multiplier(&half, NULL), 2);
    assert_same(oracle_multiplier(&zero, NULL), FLT_MAX);
    assert_same(oracle_multiplier(&minus_zero, NULL), -FLT_MAX);
    assert_same(oracle_multiplier(&infinity, NULL), 0);
    assert_same(oracle_multiplier(NULL, &infinity), FLT_MAX);
    assert_same(oracle_multiplier(NULL, &nan), NAN);
    assert_same(oracle_multiplier(&nan, NULL), NAN);

    assert_same(oracle_tensor_scale(e4, 448), 1);
    assert_same(oracle_tensor_scale(e4, 0), FLT_MIN);
    assert_same(oracle_tensor_scale(e5, INFINITY), max / 57344);

    assert_same(oracle_token_scale(e4, 10, NULL), ten / 448);
    assert_same(oracle_token_scale(e4, 10, &five), five / 448);
    assert_same(oracle_token_scale(e4, 10, &nan), ten / 448);
    assert_same(oracle_token_scale(e4, 10, &minus), one / 229376);
    assert_same(oracle_token_scale(e4, 1e-6f, NULL), one / 229376); /* 4.36e-6 */
    assert_same(oracle_token_scale(e5, 0, NULL), one / 29360128);
    assert_same(oracle_token_scale(i8, 0, NULL), 0);
    assert_same(oracle_token_scale(i8, 254, NULL), 2);
    assert_same(oracle_int8_token_multiplier(0), 0);
    assert_same(oracle_int8_token_multiplier(254), 0.5f);
    assert_same(oracle_int8_token_multiplier(0x1p-149f), FLT_MAX);

    assert_same(oracle_group_scale(e4, 3), 0x1.b6db6ep-8f); /* 0.006696 */
    assert_same(oracle_group_scale(e4, 0), tiny / 448);
    assert_same(oracle_group_scale(e5, INFINITY), max / 57344);
    assert_int_equal(oracle_group_ue8m0(e4, 3), 120); /* 0.0078125 */
    for (int k = -30; k <= 100; k++) {                /* no binade lost at exact powers of two */
        assert_int_equal(oracle_group_ue8m0(e4, ldexpf(448, k)), 127 + k);
        assert_int_equal(oracle_group_ue8m0(e5, ldexpf(57344, k)), 127 + k);
    }
    assert_int_equal(oracle_group_ue8m0(e4, next_up(next_up(448))), 128);
    assert_int_equal(oracle_group_ue8m0(e4, 0), 127 - 33); /* 1e-10 <= 2^-33 */
    assert_int_equal(oracle_group_ue8m0(e4, INFINITY), 127 + 120);
}

static void nvfp4_scales(void **state)
{
    (void)state;
    const epiq_nvfp4 vllm = EPIQ_NVFP4_VLLM, ieee = EPIQ_NVFP4_IEEE;
    assert_same(oracle_gs_given(NAN), 0);
    assert_same(oracle_gs_given(-2), 0);
    assert_same(oracle_gs_given(INFINITY), FLT_MAX);
    assert_same(oracle_gs_given(3), 3);
    assert_same(oracle_gs_computed(0), 1);
    assert_same(oracle_gs_computed(INFINITY), 1);
    assert_same(oracle_gs_computed(0x1p-140f), 0x1p116f);
    assert_same(oracle_gs_computed(2688), 1);
    assert_same(oracle_gs_computed(21), 128);

    assert_int_equal(oracle_nvfp4_scale(vllm, 1, 0x1.8p-8f), 0x00); /* 6 * 2^-10: scale 2^-10 is a tie */
    assert_int_equal(oracle_nvfp4_scale(vllm, 1, next_up(0x1.8p-8f)), 0x01);
    assert_int_equal(oracle_nvfp4_scale(vllm, 1, 6), 0x38);
    assert_int_equal(oracle_nvfp4_scale(ieee, 1, 6), 0x38);
    assert_int_equal(oracle_nvfp4_scale(vllm, 448, 6), 0x7e);
    assert_int_equal(oracle_nvfp4_scale(vllm, FLT_MAX, FLT_MAX), 0x7e);
    assert_int_equal(oracle_nvfp4_scale(ieee, FLT_MAX, INFINITY), 0x7e);
    assert_int_equal(oracle_nvfp4_scale(vllm, 0, INFINITY), 0x00);
    assert_int_equal(oracle_nvfp4_scale(ieee, 1, 0), 0x00);
    assert_int_equal(oracle_nvfp4_scale(vllm, 3, 25), 0x55); /* 3 * RN(25 / 6) lies just above the tie of 12 and 13 */
    assert_int_equal(oracle_nvfp4_scale(ieee, 3, 25), 0x54); /* 25 * RN(3 / 6) on it */
    assert_int_equal(oracle_nvfp4_scale(vllm, 5, 15), 0x54); /* 5 * RN(15 / 6) on it */
    assert_int_equal(oracle_nvfp4_scale(ieee, 5, 15), 0x55); /* 15 * RN(5 / 6) just above it */

    assert_same(oracle_nvfp4_multiplier(vllm, 1, 0x00), 0);
    assert_same(oracle_nvfp4_multiplier(vllm, 1, 0x38), 1);
    assert_same(oracle_nvfp4_multiplier(vllm, 2, 0x40), 1);
    assert_same(oracle_nvfp4_multiplier(vllm, 0, 0x00), 0);
    assert_same(oracle_nvfp4_multiplier(ieee, 2, 0x40), 1);
    assert_same(oracle_nvfp4_multiplier(ieee, 0, 0x00), 0);
    assert_same(oracle_nvfp4_multiplier(ieee, 1, 0x00), FLT_MAX);
    assert_same(oracle_nvfp4_multiplier(ieee, 0x1p-140f, 0x00), FLT_MAX); /* 0 * Inf */
    /* 0x07 is 7 * 2^-9; v / SF lies below the midpoint 1.75 of 1.5 and 2, v * RN(1 / SF) on it. */
    float v = 0.02392577938735485f, o = oracle_nvfp4_multiplier(vllm, 1, 0x07);
    assert_int_equal(oracle_e2m1(oracle_div(v, 0.013671875f)), 3);
    assert_int_equal(oracle_e2m1(oracle_mul(v, o)), 4);
}

/* ---- Layouts ----------------------------------------------------------------------------------------------------- */

static void check_place(epiq_layout layout, int64_t rows, int64_t groups, int64_t unit, int64_t stride, int64_t row,
                        int64_t group, int64_t offset)
{
    oracle_layout l = oracle_layout_make(layout, rows, groups, unit, stride);
    assert_int_equal(oracle_layout_offset(&l, row, group), offset);
    oracle_layout_free(&l);
}

static void layouts(void **state)
{
    (void)state;
    const epiq_layout tile128 = EPIQ_LAYOUT_TILE128X4, tile8 = EPIQ_LAYOUT_TILE8X4, aligned = EPIQ_LAYOUT_COL_ALIGNED;
    const epiq_layout packed = EPIQ_LAYOUT_PACKED_UE8M0;
    check_place(EPIQ_LAYOUT_ROW, 3, 5, 4, 0, 2, 4, 56);
    check_place(EPIQ_LAYOUT_ROW, 3, 5, 1, 9, 2, 4, 22);
    check_place(EPIQ_LAYOUT_COL, 3, 5, 4, 0, 2, 4, 56);
    check_place(EPIQ_LAYOUT_COL, 3, 5, 4, 0, 2, 1, 20);
    check_place(EPIQ_LAYOUT_COL, 3, 5, 4, 100, 2, 1, 108);
    check_place(aligned, 5, 2, 4, 0, 4, 1, 48); /* leading dimension 8 */
    check_place(packed, 5, 6, 1, 0, 4, 5, 49);  /* word 1 * 8 + 4, byte 1 */
    check_place(packed, 5, 6, 1, 64, 3, 2, 14);
    check_place(packed, 5, 6, 1, 64, 3, 6, -1);
    check_place(tile128, 200, 6, 1, 0, 0, 0, 0);
    check_place(tile128, 200, 6, 1, 0, 0, 3, 3);
    check_place(tile128, 200, 6, 1, 0, 1, 0, 16);
    check_place(tile128, 200, 6, 1, 0, 32, 0, 4);
    check_place(tile128, 200, 6, 1, 0, 64, 0, 8);
    check_place(tile128, 200, 6, 1, 0, 33, 5, 512 + 16 + 4 + 1);
    check_place(tile128, 200, 6, 1, 0, 127, 3, 511);
    check_place(tile128, 200, 6, 1, 0, 128, 0, 1024);
    check_place(tile128, 200, 6, 1, 0, 199, 5, 1024 + 512 + 7 * 16 + 8 + 1);
    check_place(tile8, 10, 6, 1, 0, 1, 0, 4);
    check_place(tile8, 10, 6, 1, 0, 7, 5, 32 + 29);
    check_place(tile8, 10, 6, 1, 0, 9, 4, 3 * 32 + 4);

    static const struct {
        epiq_layout layout;
        int64_t bytes;
    } sizes[] = {{EPIQ_LAYOUT_ROW, 30},          {EPIQ_LAYOUT_COL, 30},         {EPIQ_LAYOUT_COL_ALIGNED, 48},
                 {EPIQ_LAYOUT_PACKED_UE8M0, 64}, {EPIQ_LAYOUT_TILE128X4, 1024}, {EPIQ_LAYOUT_TILE8X4, 64}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        oracle_layout l = oracle_layout_make(sizes[i].layout, 5, 6, 1, 0);
        assert_int_equal(oracle_layout_bytes(&l), sizes[i].bytes);
        uint8_t values[30], stored[1026], back[30];
        for (int v = 0; v < 30; v++)
            values[v] = (uint8_t)(v + 1);
        for (int keep = 0; keep <= 1; keep++) {
            memset(stored, 0xee, sizeof stored);
            oracle_layout_write(&l, values, keep ? EPIQ_PAD_ROWS_KEEP : EPIQ_PAD_ROWS_ZERO, stored + 1);
            memset(back, 0, sizeof back);
            oracle_layout_read(&l, stored + 1, back);
            assert_memory_equal(back, values, sizeof back);
            int kept = 0, zeros = 0;
            for (int64_t b = 0; b < sizes[i].bytes; b++) {
                kept += stored[1 + b] == 0xee;
                zeros += stored[1 + b] == 0;
            }
            int64_t padding_of_rows = (l.padded_groups - 6) * 5, padding = sizes[i].bytes - 30;
            assert_int_equal(kept, keep ? padding - padding_of_rows : 0);
            assert_int_equal(zeros, keep ? padding_of_rows : padding);
            assert_int_equal(stored[0], 0xee);
            assert_int_equal(stored[1 + sizes[i].bytes], 0xee);
        }
        oracle_layout_free(&l);
    }

    /* The formulas of the spec, everywhere. */
    oracle_layout big = oracle_layout_make(tile128, 300, 11, 1, 0), small = oracle_layout_make(tile8, 300, 11, 1, 0);
    for (int64_t i = 0; i < 384 * 12; i++) {
        int64_t m = big.source[i] / 12, k = big.source[i] % 12;
        assert_int_equal(i, ((m >> 7) * 3 + (k >> 2)) * 512 + (m & 31) * 16 + ((m >> 5) & 3) * 4 + (k & 3));
    }
    for (int64_t i = 0; i < 304 * 12; i++) {
        int64_t m = small.source[i] / 12, k = small.source[i] % 12;
        assert_int_equal(i, ((m >> 3) * 3 + (k >> 2)) * 32 + (m & 7) * 4 + (k & 3));
    }
    oracle_layout_free(&big);
    oracle_layout_free(&small);
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

enum { CANARY = 0xa5 };

static epiq_matrix matrix(const void *data, int64_t rows, int64_t cols, epiq_dtype dtype)
{
    return (epiq_matrix){.data = data, .rows = rows, .cols = cols, .dtype = dtype};
}

static epiq_output output(epiq_format format)
{
    return (epiq_output){.struct_size = sizeof(epiq_output), .format = format};
}

static void quantize_static(void **state)
{
    (void)state;
    const float x[4] = {10, -0.0f, NAN, 0.5f};
    const float scale = 0.01f, inv_scale = 2, zero = 0, minus = -1, nan = NAN;
    uint8_t codes[8];
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(x, 1, 4, EPIQ_DTYPE_F32)};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.codes_out = codes;
    o.scale = &scale;
    assert_int_equal(oracle_quantize(&a, &o), EPIQ_OK);
    assert_memory_equal(codes, ((uint8_t[]){0x7e, 0x80, 0x7f, 0x64}), 4); /* 50 is a tie of 48 and 52 */
    o.scale = &zero;
    o.nan = SATURATE;
    oracle_quantize(&a, &o);
    assert_memory_equal(codes, ((uint8_t[]){0x7e, 0x80, 0x7e, 0x7e}), 4);
    o.scale = &nan;
    o.nan = PROPAGATE;
    oracle_quantize(&a, &o);
    assert_memory_equal(codes, ((uint8_t[]){0x7f, 0x7f, 0x7f, 0x7f}), 4);
    o.scale = NULL;
    o.inv_scale = &inv_scale;
    o.format = EPIQ_FORMAT_INT8;
    oracle_quantize(&a, &o);
    assert_memory_equal(codes, ((uint8_t[]){20, 0, 0, 1}), 4);
    o.inv_scale = NULL;
    o.scale = &zero; /* y / 0 */
    oracle_quantize(&a, &o);
    assert_memory_equal(codes, ((uint8_t[]){127, 0, 0, 127}), 4);
    const float wide[2] = {45.5f, -45.5f}, seven = 7; /* 6.5 is a tie, 45.5 * RN(1 / 7) lies above it */
    a.x = matrix(wide, 1, 2, EPIQ_DTYPE_F32);
    o.scale = &seven;
    oracle_quantize(&a, &o);
    assert_memory_equal(codes, ((uint8_t[]){6, 0xfa}), 2);
    a.x = matrix(x, 1, 4, EPIQ_DTYPE_F32);
    o.scale = &minus;
    o.format = EPIQ_FORMAT_E5M2;
    o.padded_cols = 6; /* padding is the code of +0 * -1 */
    memset(codes, CANARY, sizeof codes);
    oracle_quantize(&a, &o);
    assert_memory_equal(codes, ((uint8_t[]){0xc9, 0x00, 0x7f, 0xb8, 0x80, 0x80, CANARY, CANARY}), 8);
}

static void quantize_token(void **state)
{
    (void)state;
    /* Rows 6 elements apart in x, codes 5 bytes apart, scales 12 bytes apart; a zero row. */
    float x[12] = {1, -448, 3, 99, 99, 99, 0, -0.0f, 0, 99, 99, 99}, scales[4] = {-7, -7, -7, -7}, tiny = 0x1p-18f;
    uint8_t codes[10];
    memset(codes, CANARY, sizeof codes);
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(x, 2, 3, EPIQ_DTYPE_F32)};
    a.x.row_stride = 24;
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.codes_out = codes;
    o.codes_row_stride = 5;
    o.scale_out = scales;
    o.scale_stride = 12;
    oracle_quantize(&a, &o);
    assert_memory_equal(codes, ((uint8_t[]){0x38, 0xfe, 0x44, CANARY, CANARY, 0, 0x80, 0, CANARY, CANARY}), 10);
    assert_same(scales[0], 1);
    assert_same(scales[1], -7);
    assert_same(scales[2], -7);
    assert_same(scales[3], oracle_div(1, 229376));
    o.format = EPIQ_FORMAT_INT8;
    x[1] = -254;
    oracle_quantize(&a, &o);
    assert_memory_equal(codes, ((uint8_t[]){0, 0x81, 2, CANARY, CANARY, 0, 0, 0}), 8);
    assert_same(scales[0], 2);
    assert_same(scales[3], 0);
    x[1] = x[0] = tiny; /* the floor of the scale bounds the codes */
    x[2] = 0;
    o.format = EPIQ_FORMAT_E4M3;
    oracle_quantize(&a, &o);
    assert_int_equal(codes[0], oracle_e4m3(oracle_div(tiny, oracle_div(1, 229376)), PROPAGATE));
}

static void quantize_dynamic_tensor(void **state)
{
    (void)state;
    const float x[4] = {1, -114688, NAN, 57344};
    float scale;
    uint8_t codes[4];
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(x, 2, 2, EPIQ_DTYPE_F32)};
    epiq_output o = output(EPIQ_FORMAT_E5M2);
    o.grain = EPIQ_GRAIN_TENSOR;
    o.codes_out = codes;
    o.scale_out = &scale;
    oracle_quantize(&a, &o);
    assert_same(scale, 2);
    assert_memory_equal(codes, ((uint8_t[]){0x38, 0xfb, 0x7f, 0x77}), 4);
    a.x.rows = 0;
    scale = 5;
    oracle_quantize(&a, &o);
    assert_same(scale, 5);
}

static void quantize_groups(void **state)
{
    (void)state;
    /* Two rows of 20 columns in groups of 16: the last group has 4. */
    uint16_t x[40];
    for (int i = 0; i < 40; i++)
        x[i] = oracle_bf16(i == 3 ? -448 : i == 17 ? 3 : 0);
    float scales[8];
    uint8_t codes[40];
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(x, 2, 20, EPIQ_DTYPE_BF16)};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_GROUP;
    o.group = 16;
    o.layout = EPIQ_LAYOUT_COL_ALIGNED;
    o.codes_out = codes;
    o.scale_out = scales;
    oracle_quantize(&a, &o);
    const float none = oracle_div(1e-10f, 448);
    const float expected[8] = {1, none, 0, 0, 0x1.b6db6ep-8f, none, 0, 0};
    assert_memory_equal(scales, expected, sizeof expected);
    assert_int_equal(codes[3], 0xfe);
    assert_int_equal(codes[17], 0x7e); /* 3 / RN(3 / 448) rounds to 448 */
    o.layout = EPIQ_LAYOUT_ROW;
    o.ue8m0 = 1;
    oracle_quantize(&a, &o);
    const float powers[4] = {1, 0x1p-7f, 0x1p-33f, 0x1p-33f};
    assert_memory_equal(scales, powers, sizeof powers);
    assert_int_equal(codes[17], oracle_e4m3(384, PROPAGATE)); /* with the rounded scale */
    o.layout = EPIQ_LAYOUT_PACKED_UE8M0;
    o.ue8m0 = 0; /* implied */
    o.pad_rows = EPIQ_PAD_ROWS_KEEP;
    memset(scales, CANARY, sizeof scales);
    oracle_quantize(&a, &o);
    const uint8_t packed[16] = {127,    120,    0,      0,      94,     94,     0,      0,
                                CANARY, CANARY, CANARY, CANARY, CANARY, CANARY, CANARY, CANARY};
    assert_memory_equal(scales, packed, sizeof packed);
}

static void quantize_blocks(void **state)
{
    (void)state;
    float x[32] = {480, -0.0f, NAN, 1};
    uint8_t codes[32], scale[2] = {CANARY, CANARY};
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(x, 1, 32, EPIQ_DTYPE_F32)};
    epiq_output o = output(EPIQ_FORMAT_MXFP8);
    o.codes_out = codes;
    o.scale_out = scale;
    oracle_quantize(&a, &o);
    assert_int_equal(scale[0], 128);
    assert_memory_equal(codes, ((uint8_t[]){0x77, 0x80, 0x7f, 0x30, 0}), 5);
    o.mx_round = EPIQ_MX_ROUND_FLOOR;
    o.nan = SATURATE;
    oracle_quantize(&a, &o);
    assert_int_equal(scale[0], 127);
    assert_memory_equal(codes, ((uint8_t[]){0x7e, 0x80, 0x7e, 0x38, 0}), 5);
    x[0] = 6;
    o = output(EPIQ_FORMAT_MXFP4);
    o.codes_out = codes;
    o.scale_out = scale;
    memset(codes, CANARY, sizeof codes);
    oracle_quantize(&a, &o); /* the NaN shows in the scale alone */
    assert_int_equal(scale[0], 0xff);
    assert_memory_equal(codes, ((uint8_t[]){0x87, 0x27, 0x00, 0x00}), 4);
    assert_int_equal(codes[15], 0);
    assert_int_equal(codes[16], CANARY);
    o.nan = SATURATE;
    oracle_quantize(&a, &o);
    assert_int_equal(scale[0], 127);
    assert_memory_equal(codes, ((uint8_t[]){0x87, 0x27, 0x00, 0x00}), 4);
    assert_int_equal(scale[1], CANARY);
}

static void quantize_nvfp4(void **state)
{
    (void)state;
    float x[16] = {6, -0.0f, 1.25f, -5, NAN}, gs = 1, computed = -1;
    uint8_t codes[16], scale[512];
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(x, 1, 16, EPIQ_DTYPE_F32)};
    epiq_output o = output(EPIQ_FORMAT_NVFP4);
    o.layout = EPIQ_LAYOUT_TILE128X4;
    o.codes_out = codes;
    o.scale_out = scale;
    o.inv_scale = &gs;
    o.padded_cols = 32;
    memset(scale, CANARY, sizeof scale);
    memset(codes, CANARY, sizeof codes);
    oracle_quantize(&a, &o);
    assert_int_equal(scale[0], 0x7f);
    for (int i = 1; i < 512; i++)
        assert_int_equal(scale[i], 0);
    assert_memory_equal(codes, ((uint8_t[]){0x87, 0xe2, 0x07, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), 16);
    o.nan = SATURATE;
    o.pad_rows = EPIQ_PAD_ROWS_KEEP;
    memset(scale, CANARY, sizeof scale);
    oracle_quantize(&a, &o);
    assert_memory_equal(scale, ((uint8_t[]){0x38, 0, 0, 0, CANARY, CANARY}), 6);
    for (int i = 4; i < 512; i++)
        assert_int_equal(scale[i], CANARY);
    for (int rule = 0; rule <= 1; rule++) { /* amax 6: gs = 448, SF = 448 */
        o.nvfp4 = rule == 0 ? 0 : EPIQ_NVFP4_IEEE;
        o.inv_scale = NULL;
        o.inv_scale_out = &computed;
        memset(codes, CANARY, sizeof codes);
        oracle_quantize(&a, &o);
        assert_same(computed, 448);
        assert_int_equal(scale[0], 0x7e);
        assert_memory_equal(codes, ((uint8_t[]){0x87, 0xe2, 0x07, 0}), 4);
    }
    gs = NAN; /* zero codes */
    o.nvfp4 = 0;
    o.inv_scale = &gs;
    o.inv_scale_out = NULL;
    oracle_quantize(&a, &o);
    assert_int_equal(scale[0], 0);
    assert_memory_equal(codes, ((uint8_t[]){0x80, 0x80, 0x07, 0}), 4);
}

static void act_mul(void **state)
{
    (void)state;
    const float silu3 = oracle_act(EPIQ_ACT_SILU, 0, 3), silu2 = oracle_act(EPIQ_ACT_SILU, 0, -2);
    float x[4] = {3, -2, 0, 0}, up[2] = {-2, 7}, y[2];
    epiq_act_mul_args a = {.struct_size = sizeof a, .x = matrix(x, 1, 2, EPIQ_DTYPE_F32), .y_out = y};
    oracle_act_mul(&a, NULL);
    assert_same(y[0], oracle_mul(silu3, -2));
    a.order = EPIQ_ORDER_UP_GATE;
    oracle_act_mul(&a, NULL);
    assert_same(y[0], oracle_mul(silu2, 3));
    a.order = EPIQ_ORDER_INTERLEAVED;
    oracle_act_mul(&a, NULL);
    assert_same(y[0], oracle_mul(silu3, -2));
    a.order = EPIQ_ORDER_SEPARATE;
    a.up = up;
    oracle_act_mul(&a, NULL);
    assert_same(y[0], oracle_mul(silu3, -2));
    assert_same(y[1], oracle_mul(silu2, 7));
    a.order = EPIQ_ORDER_UNGATED;
    a.up = NULL;
    oracle_act_mul(&a, NULL);
    assert_same(y[0], silu3);
    assert_same(y[1], silu2);

    /* Limits before and after, the offset of up. */
    a.order = 0;
    x[0] = 20;
    x[1] = 20;
    a.limit = 7;
    a.alpha = 1.702f;
    a.up_offset = 1;
    oracle_act_mul(&a, NULL);
    assert_same(y[0], oracle_mul(oracle_act(EPIQ_ACT_SILU, 1.702f, 7), 8));
    a.limit = 0;
    a.limit_after = 7;
    oracle_act_mul(&a, NULL);
    assert_same(y[0], 56);
    x[0] = NAN;
    oracle_act_mul(&a, NULL);
    assert_same(y[0], NAN);

    /* Rounding points: silu(3) = 2.857722, in bf16 2.859375; times 1.5. Codes of `none` see the unrounded product. */
    uint16_t b[2] = {oracle_bf16(3), oracle_bf16(1.5f)}, rounded;
    uint8_t code;
    const float one = 1;
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.codes_out = &code;
    o.inv_scale = &one;
    epiq_act_mul_args c = {.struct_size = sizeof c, .x = matrix(b, 1, 2, EPIQ_DTYPE_BF16), .y_out = &rounded};
    oracle_act_mul(&c, &o);
    assert_int_equal(rounded, oracle_bf16(2.859375f * 1.5f));
    c.chain = EPIQ_CHAIN_FLASHINFER;
    oracle_act_mul(&c, &o);
    assert_int_equal(rounded, oracle_bf16(oracle_mul(silu3, 1.5f)));
    b[0] = oracle_bf16(1);
    b[1] = oracle_bf16(0x1.08p2f);
    float exact = oracle_mul(oracle_act(EPIQ_ACT_SILU, 0, 1), 0x1.08p2f); /* 3.0156 */
    for (int none = 0; none <= 1; none++) {
        c.chain = EPIQ_CHAIN_DIRECT;
        c.act_round = none ? 0 : EPIQ_ROUND_ONCE;
        float inv_scale = 3.125f / exact; /* 3.125 is a midpoint of e4m3 */
        o.inv_scale = &inv_scale;
        oracle_act_mul(&c, &o);
        assert_int_equal(rounded, oracle_bf16(exact));
        float seen = none ? exact : oracle_round(EPIQ_DTYPE_BF16, exact);
        assert_int_equal(code, oracle_e4m3(oracle_mul(seen, inv_scale), PROPAGATE));
    }
}

static void rms_norm(void **state)
{
    (void)state;
    uint16_t x[4], residual[4], weight[4], y[4];
    for (int i = 0; i < 4; i++) {
        x[i] = oracle_bf16(1);
        residual[i] = oracle_bf16(256);
        weight[i] = oracle_bf16(0x1p-8f);
    }
    epiq_rms_norm_args a = {.struct_size = sizeof a,
                            .eps = 0x1p-60f,
                            .x = matrix(x, 1, 4, EPIQ_DTYPE_BF16),
                            .residual = residual,
                            .residual_out = residual,
                            .weight = weight,
                            .y_out = y};
    /* 257 in fp32, 256 in bf16: sums of squares 66049 and 65536 a column; the first has a mean of 66049. */
    float row[4] = {257, 257, 257, 257};
    oracle_rms_norm(&a, NULL);
    assert_int_equal(residual[0], oracle_bf16(256));
    assert_int_equal(y[0], oracle_bf16(0x1p-8f));
    row[0] = 1; /* one column differs, so that the two sums differ in y */
    x[0] = oracle_bf16(-255);
    a.residual_out = NULL;
    const float rinv_t = oracle_rinv(1 + 3 * 65536.0f, 4, 0x1p-60f);
    const float rinv_32 = oracle_rinv(oracle_sum_squares(row, 4), 4, 0x1p-60f);
    oracle_rms_norm(&a, NULL);
    assert_int_equal(y[1], oracle_bf16(oracle_mul(oracle_round(EPIQ_DTYPE_BF16, oracle_mul(256, rinv_t)), 0x1p-8f)));
    a.chain = EPIQ_CHAIN_FLASHINFER;
    oracle_rms_norm(&a, NULL);
    assert_int_equal(y[1], oracle_bf16(oracle_mul(oracle_mul(257, rinv_32), 0x1p-8f)));
    a.chain = EPIQ_CHAIN_ALLREDUCE;
    oracle_rms_norm(&a, NULL);
    assert_int_equal(y[1], oracle_bf16(oracle_mul(oracle_mul(256, rinv_t), 0x1p-8f)));

    /* vllm with a bias or an fp32 weight: fp32 sum, once. 1 + 2^-8 is formed in fp32. Codes see the unrounded y. */
    const float wide_weight[4] = {0x1.02p0f, 0x1.02p0f, 0x1.02p0f, 0x1.02p0f}, one = 1;
    uint16_t other[4];
    uint8_t codes[4];
    a.chain = 0;
    a.weight_bias = 1;
    for (int i = 0; i < 4; i++)
        weight[i] = oracle_bf16(0x1p-7f);
    oracle_rms_norm(&a, NULL);
    a.weight_bias = 0;
    a.weight = wide_weight;
    a.weight_dtype = EPIQ_DTYPE_F32;
    a.y_out = other;
    oracle_rms_norm(&a, NULL);
    assert_memory_equal(y, other, sizeof y);
    assert_int_equal(y[1], oracle_bf16(oracle_mul(oracle_mul(257, rinv_32), 0x1.02p0f)));
    a.chain = EPIQ_CHAIN_DIRECT;
    epiq_output o = output(EPIQ_FORMAT_E5M2);
    o.codes_out = codes;
    o.inv_scale = &one;
    oracle_rms_norm(&a, &o);
    assert_int_equal(codes[1], oracle_e5m2(oracle_mul(oracle_mul(257, rinv_32), 0x1.02p0f), PROPAGATE));
    assert_memory_equal(y, other, sizeof y);

    /* In place, at odd addresses. */
    uint8_t unaligned[9];
    memcpy(unaligned + 1, x, sizeof x);
    a.x.data = a.y_out = unaligned + 1;
    oracle_rms_norm(&a, NULL);
    assert_memory_equal(unaligned + 1, y, sizeof y);
}

/* The rounding points of every chain, and of explicit fields over a chain, on a row where all of them give different
 * codes. */
static void norm_chains(void **state)
{
    (void)state;
    enum { H = 512 };
    const float eps = 1e-6f, inv_scale = 100;
    uint16_t x[H], residual[H], weight[H];
    float wide_weight[H], sum[H], rounded[H];
    uint8_t expected[2][3][H], codes[H];
    for (int i = 0; i < H; i++) {
        x[i] = oracle_bf16((float)(int32_t)random_bits() * 0x1p-30f);
        residual[i] = oracle_bf16((float)(int32_t)random_bits() * 0x1p-29f);
        weight[i] = oracle_bf16(1 + (float)(int32_t)random_bits() * 0x1p-32f);
        wide_weight[i] = oracle_decode_bf16(weight[i]);
        sum[i] = oracle_add(oracle_decode_bf16(x[i]), oracle_decode_bf16(residual[i]));
        rounded[i] = oracle_round(EPIQ_DTYPE_BF16, sum[i]);
    }
    for (int t = 0; t <= 1; t++) { /* sum in fp32, rounded to T */
        const float *h = t ? rounded : sum, rinv = oracle_rinv(oracle_sum_squares(h, H), H, eps);
        for (int i = 0; i < H; i++) {
            float z = oracle_mul(h[i], rinv);
            float none = oracle_mul(z, wide_weight[i]), once = oracle_round(EPIQ_DTYPE_BF16, none);
            float twice = oracle_round(EPIQ_DTYPE_BF16, oracle_mul(oracle_round(EPIQ_DTYPE_BF16, z), wide_weight[i]));
            expected[t][0][i] = oracle_e4m3(oracle_mul(none, inv_scale), PROPAGATE);
            expected[t][1][i] = oracle_e4m3(oracle_mul(once, inv_scale), PROPAGATE);
            expected[t][2][i] = oracle_e4m3(oracle_mul(twice, inv_scale), PROPAGATE);
        }
    }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(expected[i / 3][i % 3], expected[j / 3][j % 3], H);

    static const struct {
        epiq_chain chain;
        epiq_sum_round sum_round;
        epiq_round norm_round;
        bool wide;
        int t, rounds;
    } facts[] = {
        {0, 0, 0, false, 1, 2},
        {EPIQ_CHAIN_VLLM, 0, 0, false, 1, 2},
        {EPIQ_CHAIN_VLLM, 0, 0, true, 0, 1},
        {EPIQ_CHAIN_FLASHINFER, 0, 0, false, 0, 1},
        {EPIQ_CHAIN_ALLREDUCE, 0, 0, false, 1, 1},
        {EPIQ_CHAIN_ALLREDUCE, 0, 0, true, 1, 1},
        {EPIQ_CHAIN_DIRECT, 0, 0, false, 0, 0},
        {EPIQ_CHAIN_DIRECT, EPIQ_SUM_ROUND_T, 0, false, 1, 0},
        {EPIQ_CHAIN_ALLREDUCE, EPIQ_SUM_ROUND_FP32, EPIQ_ROUND_TWICE, true, 0, 2},
        {0, EPIQ_SUM_ROUND_FP32, 0, false, 0, 2},
    };
    for (size_t i = 0; i < COUNT(facts); i++) {
        epiq_rms_norm_args a = {.struct_size = sizeof a,
                                .eps = eps,
                                .x = matrix(x, 1, H, EPIQ_DTYPE_BF16),
                                .residual = residual,
                                .weight = facts[i].wide ? (const void *)wide_weight : weight,
                                .weight_dtype = facts[i].wide ? EPIQ_DTYPE_F32 : 0,
                                .chain = facts[i].chain,
                                .sum_round = facts[i].sum_round,
                                .norm_round = facts[i].norm_round};
        epiq_output o = output(EPIQ_FORMAT_E4M3);
        o.codes_out = codes;
        o.inv_scale = &inv_scale;
        assert_int_equal(oracle_rms_norm(&a, &o), EPIQ_OK);
        assert_memory_equal(codes, expected[facts[i].t][facts[i].rounds], H);
    }
}

static void dequantize(void **state)
{
    (void)state;
    const uint8_t codes[4] = {0x38, 0xfe, 0x7f, 0x01};
    const float scale = 2, zero = 0, tokens[1] = {0.5f};
    float y[32];
    epiq_dequantize_args a = {.struct_size = sizeof a,
                              .format = EPIQ_FORMAT_E4M3,
                              .grain = EPIQ_GRAIN_TENSOR,
                              .rows = 1,
                              .cols = 4,
                              .codes = codes,
                              .scale = &scale,
                              .y_out = y,
                              .y_dtype = EPIQ_DTYPE_F32};
    oracle_dequantize(&a);
    assert_memory_equal(y, ((float[]){2, -896, oracle_nan(), 0x1p-8f}), 16);
    a.scale = NULL;
    a.inv_scale = &zero; /* 1 / 0 acts as FLT_MAX */
    oracle_dequantize(&a);
    assert_memory_equal(y, ((float[]){FLT_MAX, -INFINITY, oracle_nan(), oracle_mul(FLT_MAX, 0x1p-9f)}), 16);
    a.inv_scale = NULL;
    a.scale = tokens;
    a.grain = EPIQ_GRAIN_TOKEN;
    a.format = EPIQ_FORMAT_INT8;
    oracle_dequantize(&a);
    assert_memory_equal(y, ((float[]){28, -1, 63.5f, 0.5f}), 16);

    /* mxfp8: byte 0 is 2^-127, 255 is NaN. */
    uint8_t block[32] = {0x38}, byte = 0;
    a = (epiq_dequantize_args){.struct_size = sizeof a, .format = EPIQ_FORMAT_MXFP8, .rows = 1, .cols = 1};
    a.padded_cols = 32;
    a.codes = block;
    a.scale = &byte;
    a.y_out = y;
    a.y_dtype = EPIQ_DTYPE_F32;
    y[1] = 77;
    oracle_dequantize(&a);
    assert_same(y[0], 0x1p-127f);
    assert_same(y[1], 77);
    byte = 255;
    oracle_dequantize(&a);
    assert_same(y[0], NAN);

    /* nvfp4 there and back. */
    float x[32], gs;
    uint8_t packed[16], tile[32];
    for (int i = 0; i < 32; i++)
        x[i] = (i % 2 == 0 ? 1.0f : -1.0f) * oracle_decode_e2m1((uint8_t)(i / 2 % 8)) * (i < 16 ? 1.0f : 0.5f);
    epiq_quantize_args q = {.struct_size = sizeof q, .x = matrix(x, 1, 32, EPIQ_DTYPE_F32)};
    epiq_output o = output(EPIQ_FORMAT_NVFP4);
    o.layout = EPIQ_LAYOUT_TILE8X4;
    o.codes_out = packed;
    o.scale_out = tile;
    o.inv_scale_out = &gs;
    oracle_quantize(&q, &o);
    a = (epiq_dequantize_args){.struct_size = sizeof a, .format = EPIQ_FORMAT_NVFP4, .rows = 1, .cols = 32};
    a.layout = EPIQ_LAYOUT_TILE8X4;
    a.codes = packed;
    a.scale = tile;
    a.inv_scale = &gs;
    a.y_out = y;
    a.y_dtype = EPIQ_DTYPE_F32;
    oracle_dequantize(&a);
    assert_same(gs, 448);
    for (int i = 0; i < 32; i++)
        assert_true(fabsf(y[i] - x[i]) <= 2 * FLT_EPSILON * fabsf(x[i]));
}

static int release(void **state)
{
    (void)state;
    oracle_release();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_operations),
        cmocka_unit_test(code_midpoints_of_e2m1),
        cmocka_unit_test(codes_of_e4m3_and_e5m2),
        cmocka_unit_test(sixteen_bit_formats),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(activations),
        cmocka_unit_test(true_functions),
        cmocka_unit_test(sums),
        cmocka_unit_test(reciprocals),
        cmocka_unit_test(mx_exponents),
        cmocka_unit_test(float_scales),
        cmocka_unit_test(nvfp4_scales),
        cmocka_unit_test(layouts),
        cmocka_unit_test(quantize_static),
        cmocka_unit_test(quantize_token),
        cmocka_unit_test(quantize_dynamic_tensor),
        cmocka_unit_test(quantize_groups),
        cmocka_unit_test(quantize_blocks),
        cmocka_unit_test(quantize_nvfp4),
        cmocka_unit_test(act_mul),
        cmocka_unit_test(rms_norm),
        cmocka_unit_test(norm_chains),
        cmocka_unit_test(dequantize),
    };
    return cmocka_run_group_tests_name("oracle", tests, NULL, release);
}
