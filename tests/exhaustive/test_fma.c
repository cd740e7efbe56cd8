/* test_fma.c: the fused multiply-add of lane_c.h in its form without the instruction, against the C library's and
 * MPFR's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"

#include <float.h>
#include <math.h>
#include <mpfr.h>

/* Take the software form, whatever this is compiled for. */
#undef __FMA__
#undef __aarch64__
#include "arith/lane_c.h"

static uint32_t canonical(float x)
{
    return isnan(x) ? 0x7fffffff : bits_of(x);
}

/* Not folded by the compiler, and not replaced by the formula under test. */
static float (*volatile library_fma)(float, float, float) = fmaf;

static void check(float a, float b, float c)
{
    uint32_t got = canonical(vf_fma(a, b, c)), expected = canonical(library_fma(a, b, c));
    if (got != expected)
        fail_msg("fma(%a, %a, %a): %08x, expected %08x", (double)a, (double)b, (double)c, got, expected);
}

static float any_float(void)
{
    return float_of((uint32_t)(random_64() >> 32));
}

/* A number with the biased exponent given, clamped to what there is, and few set bits now and then. */
static float near_exponent(int exponent)
{
    uint64_t r = random_64();
    uint32_t mantissa = (uint32_t)r & 0x7fffff;
    if ((r >> 40) % 4 == 0)
        mantissa &= mantissa >> 3 & mantissa << 5;
    exponent = exponent < 0 ? 0 : exponent > 254 ? 254 : exponent;
    return float_of((uint32_t)exponent << 23 | mantissa | (uint32_t)(r >> 32 & 0x80000000));
}

static void test_any_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 3000000; i++)
        check(any_float(), any_float(), any_float());
}

/* The addend about as large as the product: cancellation, ties, every alignment. */
static void test_cancellation(void **state)
{
    (void)state;
    for (int i = 0; i < 3000000; i++) {
        float a = near_exponent(64 + (int)(random_64() % 128)), b = near_exponent(64 + (int)(random_64() % 128));
        int exponent = (int)(bits_of(a) >> 23 & 255) + (int)(bits_of(b) >> 23 & 255) - 127;
        check(a, b, near_exponent(exponent + (int)(random_64() % 64) - 32));
        float product = a * b; /* rounded: c = -product leaves the rounding error alone */
        check(a, b, -product);
        check(a, b, float_of(bits_of(-product) + (uint32_t)(random_64() % 5) - 2));
    }
}

/* The product is exactly half a unit of c, or a hair more or less. */
static void test_ties(void **state)
{
    (void)state;
    for (int i = 0; i < 1000000; i++) {
        float c = near_exponent(100 + (int)(random_64() % 50));
        int half = (int)(bits_of(c) >> 23 & 255) - 127 - 24; /* half a unit: 2^half */
        float odd = (float)(2 * (random_64() % 2048) + 1);
        float a = ldexpf(odd, half / 2), b = ldexpf(1.0f, half - half / 2);
        float hair = float_of(bits_of(b) + (uint32_t)(random_64() % 3) - 1);
        check(a, b, c);
        check(-a, b, c);
        check(a, hair, c);
        check(-a, hair, c);
        check(float_of(bits_of(a) + 1), hair, c);
    }
}

/* Results among the subnormals, where the sum in double has bits that a float has not. */
static void test_subnormal_results(void **state)
{
    (void)state;
    for (int i = 0; i < 1000000; i++) {
        int exponent = (int)(random_64() % 100);
        float a = near_exponent(exponent), b = near_exponent(127 - exponent + (int)(random_64() % 30) - 26);
        check(a, b, near_exponent((int)(random_64() % 4)));
        check(a, b, float_of((uint32_t)(random_64() & 0x8000000f)));
        check(a, b, 0.0f);
        check(a, b, -0.0f);
    }
}

static void test_overflow(void **state)
{
    (void)state;
    for (int i = 0; i < 500000; i++) {
        int exponent = 130 + (int)(random_64() % 124);
        float a = near_exponent(exponent), b = near_exponent(381 - exponent - (int)(random_64() % 4));
        check(a, b, near_exponent(254 - (int)(random_64() % 30)));
        check(a, b, copysignf(FLT_MAX, -(a * b)));
        check(FLT_MAX, 1.0f, near_exponent(228 + (int)(random_64() % 4)));
    }
}

/* Every triple of these. */
static void test_specials(void **state)
{
    (void)state;
    static const float specials[] = {
        0.0f,
        0x1p-149f,
        0x1.8p-148f,
        0x1.fffffcp-127f,
        FLT_MIN,
        0x1.000002p-126f,
        0x1p-75f,
        0x1p-74f,
        0x1.000002p-74f,
        0x1p-24f,
        0x1p-23f,
        0.5f,
        0x1.fffffep-1f,
        1.0f,
        1.000002f,
        0x1.fffffep0f,
        2.0f,
        3.0f,
        0x1p23f,
        0x1p24f,
        0x1.000002p24f,
        0x1p63f,
        0x1.fffffep63f,
        0x1p103f,
        0x1p104f,
        0x1p127f,
        FLT_MAX,
        INFINITY,
        NAN,
    };
    for (size_t i = 0; i < 2 * COUNT(specials); i++)
        for (size_t k = 0; k < 2 * COUNT(specials); k++)
            for (size_t n = 0; n < 2 * COUNT(specials); n++)
                check(i % 2 ? -specials[i / 2] : specials[i / 2], k % 2 ? -specials[k / 2] : specials[k / 2],
                      n % 2 ? -specials[n / 2] : specials[n / 2]);
}

/* A third opinion, exact by construction: 24 bits in the exponent range of binary32, rounded once. */
static void test_against_mpfr(void **state)
{
    (void)state;
    mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
    mpfr_t a, b, c, r;
    mpfr_inits2(24, a, b, c, r, (mpfr_ptr)0);
    for (int i = 0; i < (deep() ? 20000000 : 400000); i++) {
        float x = any_float(), y = any_float(), z = any_float();
        if (i % 4 != 0) {
            int exponent = (int)(random_64() % 254);
            x = near_exponent(exponent);
            y = near_exponent((int)(random_64() % 254));
            int product = exponent + (int)(bits_of(y) >> 23 & 255) - 127;
            z = i % 4 == 1 ? -(x * y) : near_exponent(product + (int)(random_64() % 60) - 30);
        }
        if (!isfinite(x) || !isfinite(y) || !isfinite(z))
            continue;
        mpfr_set_flt(a, x, MPFR_RNDN);
        mpfr_set_flt(b, y, MPFR_RNDN);
        mpfr_set_flt(c, z, MPFR_RNDN);
        mpfr_set_emin(-148);
        mpfr_set_emax(128);
        int inexact = mpfr_fma(r, a, b, c, MPFR_RNDN);
        mpfr_subnormalize(r, inexact, MPFR_RNDN);
        mpfr_set_emin(emin);
        mpfr_set_emax(emax);
        uint32_t got = canonical(vf_fma(x, y, z)), expected = canonical(mpfr_get_flt(r, MPFR_RNDN));
        if (got != expected)
            fail_msg("fma(%a, %a, %a): %08x, by MPFR %08x", (double)x, (double)y, (double)z, got, expected);
    }
    mpfr_clears(a, b, c, r, (mpfr_ptr)0);
    mpfr_free_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_bits),          cmocka_unit_test(test_cancellation), cmocka_unit_test(test_ties),
        cmocka_unit_test(test_subnormal_results), cmocka_unit_test(test_overflow),     cmocka_unit_test(test_specials),
        cmocka_unit_test(test_against_mpfr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
