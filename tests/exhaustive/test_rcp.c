/* test_rcp.c: the integer model of rcp.approx.ftz.f32 against what the hardware answered.
 * SPDX-License-Identifier: Apache-2.0
 *
 * tests/golden/rcp_delta.bin.gz holds for each of the 2^23 mantissas how many units in the last place the hardware's
 * reciprocal of 1.mantissa lies above the correctly rounded one, plus 1, in two bits, lowest first. */
#include "sweep.h"

#include "arith/lane_c.h"

#include "arith/rcp.h"

#include <math.h>
#include <zlib.h>

enum { MANTISSAS = 1 << 23 };

static uint32_t *significands; /* of the reciprocal of 1.mantissa, as a float's bits */

static int load(void **state)
{
    (void)state;
    static uint8_t deltas[MANTISSAS / 4 + 1];
    gzFile file = gzopen(EPIQ_SOURCE_DIR "/tests/golden/rcp_delta.bin.gz", "rb");
    if (file == NULL)
        return -1;
    int length = gzread(file, deltas, sizeof deltas);
    gzclose(file);
    significands = malloc(MANTISSAS * sizeof *significands);
    if (length != MANTISSAS / 4 || significands == NULL)
        return -1;
    for (uint32_t m = 0; m < MANTISSAS; m++) {
        int delta = (deltas[m / 4] >> m % 4 * 2 & 3) - 1;
        significands[m] = bits_of(1.0f / float_of(0x3f800000 | m)) + (uint32_t)delta;
    }
    return 0;
}

static int unload(void **state)
{
    (void)state;
    free(significands);
    return 0;
}

/* The answer by the recording: a float is s * 2^(e - 127), its reciprocal significand / 2^(e - 127). */
static uint32_t recorded(uint32_t u)
{
    uint32_t sign = u & 0x80000000, exponent = u >> 23 & 255, mantissa = u & 0x7fffff;
    if (exponent == 255)
        return mantissa != 0 ? 0x7fffffff : sign;
    if (exponent == 0) /* subnormals count as zero */
        return sign | 0x7f800000;
    double value = ldexp((double)float_of(significands[mantissa]), 127 - (int)exponent);
    return sign | (value < 0x1p-126 ? 0 : bits_of((float)value)); /* exact: 24 bits */
}

static void check_bits(uint32_t u)
{
    uint32_t got = ar_rcp_bits(u);
    if (got != recorded(u))
        fail_msg("rcp of %08x: %08x, recorded %08x", u, got, recorded(u));
}

/* In exponents from one end to the other; the last three straddle the smallest normal result. */
static void test_all_mantissas(void **state)
{
    (void)state;
    static const uint32_t exponents[] = {127, 1, 126, 200, 252, 253, 254};
    for (size_t k = 0; k < COUNT(exponents); k++)
        for (uint32_t m = 0; m < MANTISSAS; m++)
            check_bits(exponents[k] << 23 | m | (m & 1) << 31);
}

static void test_all_exponents(void **state)
{
    (void)state;
    for (uint32_t exponent = 0; exponent < 256; exponent++)
        for (int i = 0; i < 20000; i++)
            check_bits((uint32_t)(random_64() & 0x807fffff) | exponent << 23);
}

static void test_specials(void **state)
{
    (void)state;
    static const struct {
        uint32_t x, y;
    } specials[] = {
        {0x00000000, 0x7f800000}, {0x80000000, 0xff800000}, /* zeros */
        {0x00000001, 0x7f800000}, {0x807fffff, 0xff800000}, /* subnormals */
        {0x7f800000, 0x00000000}, {0xff800000, 0x80000000}, /* infinities */
        {0x7f800001, 0x7fffffff}, {0xffc00000, 0x7fffffff}, /* NaN */
        {0x7fffffff, 0x7fffffff}, {0xffffffff, 0x7fffffff},
        {0x3f800000, 0x3f800000}, {0xc0000000, 0xbf000000}, /* 1, -2 */
        {0x00800000, 0x7e800000}, {0x7e800000, 0x00800000}, /* 2^-126 and back */
        {0x7e800001, 0x00000000}, {0x7f7fffff, 0x00000000}, /* results below 2^-126 */
        {0xff000000, 0x80000000},
    };
    for (size_t i = 0; i < COUNT(specials); i++) {
        assert_int_equal(ar_rcp_bits(specials[i].x), specials[i].y);
        assert_int_equal(recorded(specials[i].x), specials[i].y);
        assert_int_equal(vf_bits(vf_rcp_approx(0, vi_float(specials[i].x))), specials[i].y);
    }
}

/* The squarer that truncates each row of its partial products, by its definition. */
static void test_square(void **state)
{
    (void)state;
    for (uint32_t x = 0; x < 65536; x++) {
        uint32_t sum = 0;
        for (int j = 0; j < 16; j++)
            if (x >> j & 1)
                sum += x / (1u << (16 - j));
        assert_int_equal(ar_rcp_square(x), sum / 2);
    }
}

/* All 2^32, and the checksum that an H200 gave for its own answers: the sum of answer * (2 * input + 1). */
static void test_all_numbers(void **state)
{
    (void)state;
    if (deep() == 0)
        skip();
    uint64_t sum = 0;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u++) {
        uint32_t y = ar_rcp_bits((uint32_t)u);
        sum += y * (2 * u + 1);
        if (y != recorded((uint32_t)u))
            check_bits((uint32_t)u);
    }
    assert_true(sum == UINT64_C(0xd9ae555fefcf0dea));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_mantissas), cmocka_unit_test(test_all_exponents), cmocka_unit_test(test_specials),
        cmocka_unit_test(test_square),        cmocka_unit_test(test_all_numbers),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
