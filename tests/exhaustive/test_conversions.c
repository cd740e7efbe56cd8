/* test_conversions.c: every conversion of an fp32 number to a small format and back, through the public interface where
 * it shows them alone, against the oracle's search in tables.
 * SPDX-License-Identifier: Apache-2.0
 *
 * By default: all numbers whose low 12 bits are 0, every tie and every value with their neighbours, the specials. With
 * EPIQ_DEEP=1 all 2^32, as hashes. */
#include "sweep.h"

#include "oracle/oracle.h"

#include "arith/lane_c.h"

#include "arith/e2m1.h"

#include <math.h>

enum { CHUNK = 1 << 16 };

static epiq_exec exec = {.struct_size = sizeof exec};

/* ---- Conversions that a call shows alone ------------------------------------------------------------------------- */

/* Codes of x[0 .. CHUNK). */
typedef void convert_chunk(const float *x, void *codes);

static void quantize_chunk(epiq_format format, epiq_nan nan, const float *x, void *codes)
{
    const float one = 1.0f; /* codes = cvt(RN(x * 1)) */
    epiq_quantize_args a = {.struct_size = sizeof a,
                            .x = {.data = x, .rows = 1, .cols = CHUNK, .dtype = EPIQ_DTYPE_F32}};
    epiq_output o = {.struct_size = sizeof o, .format = format, .nan = nan, .codes_out = codes, .inv_scale = &one};
    assert_int_equal(epiq_quantize(&a, &o, &exec), EPIQ_OK);
}

static void to_e4m3(const float *x, void *codes)
{
    quantize_chunk(EPIQ_FORMAT_E4M3, EPIQ_NAN_PROPAGATE, x, codes);
}

static void to_e4m3_saturating(const float *x, void *codes)
{
    quantize_chunk(EPIQ_FORMAT_E4M3, EPIQ_NAN_SATURATE, x, codes);
}

static void to_e5m2(const float *x, void *codes)
{
    quantize_chunk(EPIQ_FORMAT_E5M2, EPIQ_NAN_PROPAGATE, x, codes);
}

static void to_e5m2_saturating(const float *x, void *codes)
{
    quantize_chunk(EPIQ_FORMAT_E5M2, EPIQ_NAN_SATURATE, x, codes);
}

static void to_int8(const float *x, void *codes)
{
    quantize_chunk(EPIQ_FORMAT_INT8, EPIQ_NAN_PROPAGATE, x, codes);
}

/* RMSNorm of ones: the sum of squares is CHUNK exactly, the mean 1, 1 + 2^-100 rounds to 1, so y = RN_T(1 * weight).
 * Rounding `once` rounds y before it is stored, `none` as it is stored: two ways to one number. */
static void norm_chunk(epiq_dtype dtype, epiq_round round, const float *x, void *codes)
{
    static uint16_t ones[CHUNK];
    for (int i = 0; i < CHUNK; i++)
        ones[i] = dtype == EPIQ_DTYPE_BF16 ? 0x3f80 : 0x3c00;
    epiq_rms_norm_args a = {.struct_size = sizeof a,
                            .eps = 0x1p-100f,
                            .x = {.data = ones, .rows = 1, .cols = CHUNK, .dtype = dtype},
                            .weight = x,
                            .weight_dtype = EPIQ_DTYPE_F32,
                            .norm_round = round,
                            .y_out = codes};
    assert_int_equal(epiq_rms_norm(&a, NULL, &exec), EPIQ_OK);
}

static void to_bf16(const float *x, void *codes)
{
    norm_chunk(EPIQ_DTYPE_BF16, EPIQ_ROUND_ONCE, x, codes);
}

static void to_bf16_stored(const float *x, void *codes)
{
    norm_chunk(EPIQ_DTYPE_BF16, EPIQ_ROUND_NONE, x, codes);
}

static void to_f16(const float *x, void *codes)
{
    norm_chunk(EPIQ_DTYPE_F16, EPIQ_ROUND_ONCE, x, codes);
}

static void to_f16_stored(const float *x, void *codes)
{
    norm_chunk(EPIQ_DTYPE_F16, EPIQ_ROUND_NONE, x, codes);
}

/* No call shows this one for all numbers: a block's scale follows its largest. */
static void to_e2m1(const float *x, void *codes)
{
    for (int i = 0; i < CHUNK; i++)
        ((uint8_t *)codes)[i] = (uint8_t)ar_e2m1_code(vf_load(x + i));
}

static uint32_t oracle_to_e4m3(float x)
{
    return oracle_e4m3(x, EPIQ_NAN_PROPAGATE);
}

static uint32_t oracle_to_e4m3_saturating(float x)
{
    return oracle_e4m3(x, EPIQ_NAN_SATURATE);
}

static uint32_t oracle_to_e5m2(float x)
{
    return oracle_e5m2(x, EPIQ_NAN_PROPAGATE);
}

static uint32_t oracle_to_e5m2_saturating(float x)
{
    return oracle_e5m2(x, EPIQ_NAN_SATURATE);
}

static uint32_t oracle_to_int8(float x)
{
    return oracle_int8(x);
}

static uint32_t oracle_to_bf16(float x)
{
    return oracle_bf16(x);
}

static uint32_t oracle_to_f16(float x)
{
    return oracle_f16(x);
}

static uint32_t oracle_to_e2m1(float x)
{
    return oracle_e2m1(x);
}

static float decode_e4m3(uint32_t code)
{
    return oracle_decode_e4m3((uint8_t)code);
}

static float decode_e5m2(uint32_t code)
{
    return oracle_decode_e5m2((uint8_t)code);
}

static float decode_int8(uint32_t code)
{
    return oracle_decode_int8((uint8_t)code);
}

static float decode_bf16(uint32_t code)
{
    return oracle_decode_bf16((uint16_t)code);
}

static float decode_f16(uint32_t code)
{
    return oracle_decode_f16((uint16_t)code);
}

static float decode_e2m1(uint32_t code)
{
    return oracle_decode_e2m1((uint8_t)code);
}

typedef struct conversion {
    const char *name; /* in conversions.hash */
    convert_chunk *convert;
    uint32_t (*oracle)(float x);
    float (*decode)(uint32_t code);
    uint32_t codes; /* how many there are */
    int bytes;      /* of a code */
    float beyond;   /* the tie between the largest number and what a wider format would have next */
} conversion;

static const conversion conversions[] = {
    {"e4m3", to_e4m3, oracle_to_e4m3, decode_e4m3, 256, 1, 464.0f},
    {"e4m3_saturate", to_e4m3_saturating, oracle_to_e4m3_saturating, decode_e4m3, 256, 1, 464.0f},
    {"e5m2", to_e5m2, oracle_to_e5m2, decode_e5m2, 256, 1, 61440.0f},
    {"e5m2_saturate", to_e5m2_saturating, oracle_to_e5m2_saturating, decode_e5m2, 256, 1, 61440.0f},
    {"int8", to_int8, oracle_to_int8, decode_int8, 256, 1, 127.5f},
    {"e2m1", to_e2m1, oracle_to_e2m1, decode_e2m1, 16, 1, 7.0f},
    {"bf16", to_bf16, oracle_to_bf16, decode_bf16, 65536, 2, 0x1.ffp127f},
    {"bf16", to_bf16_stored, oracle_to_bf16, decode_bf16, 65536, 2, 0x1.ffp127f},
    {"f16", to_f16, oracle_to_f16, decode_f16, 65536, 2, 65520.0f},
    {"f16", to_f16_stored, oracle_to_f16, decode_f16, 65536, 2, 65520.0f},
};

static uint32_t code_at(const conversion *c, const void *codes, int i)
{
    uint16_t wide;
    if (c->bytes == 1)
        return ((const uint8_t *)codes)[i];
    memcpy(&wide, (const uint8_t *)codes + 2 * i, sizeof wide);
    return wide;
}

/* ---- Samples against the oracle ---------------------------------------------------------------------------------- */

static float chunk[CHUNK];
static uint16_t chunk_codes[CHUNK];
static int chunk_length;

static void flush(const conversion *c)
{
    const int length = chunk_length;
    chunk_length = 0; /* also for whoever comes after a failure */
    for (int i = length; i < CHUNK; i++)
        chunk[i] = 0.0f;
    c->convert(chunk, chunk_codes);
    for (int i = 0; i < length; i++) {
        uint32_t got = code_at(c, chunk_codes, i), expected = c->oracle(chunk[i]);
        if (got != expected)
            fail_msg("%s of %a (%08x): %02x, expected %02x", c->name, (double)chunk[i], bits_of(chunk[i]), got,
                     expected);
    }
}

static void try_bits(const conversion *c, uint32_t bits)
{
    chunk[chunk_length++] = float_of(bits);
    if (chunk_length == CHUNK)
        flush(c);
}

/* A magnitude and two neighbours on each side, of both signs. */
static void try_around(const conversion *c, float x)
{
    uint32_t magnitude = bits_of(x) & 0x7fffffff;
    for (int d = -2; d <= 2; d++) {
        if (d < 0 && magnitude < (uint32_t)-d)
            continue;
        try_bits(c, magnitude + (uint32_t)d);
        try_bits(c, (magnitude + (uint32_t)d) | 0x80000000);
    }
}

static void test_dense_sample(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(conversions); k++) {
        for (uint32_t high = 0; high < 1u << 20; high++)
            try_bits(&conversions[k], high << 12);
        flush(&conversions[k]);
    }
}

/* Every value of the format, every mean of two neighbours, and around them. */
static void test_values_and_ties(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(conversions); k++) {
        const conversion *c = &conversions[k];
        for (uint32_t code = 0; code < c->codes; code++) {
            float value = c->decode(code), next = c->decode((code + 1) % c->codes);
            if (!isfinite(value))
                continue;
            try_around(c, value);
            if (isfinite(next))
                try_around(c, (float)(((double)value + (double)next) / 2)); /* exact where they are neighbours */
        }
        try_around(c, c->beyond);
        flush(c);
    }
}

static void test_specials(void **state)
{
    (void)state;
    static const uint32_t specials[] = {
        0x00000000, 0x00000001, 0x00000002, 0x007fffff, 0x00800000, 0x00800001, 0x33000000, 0x33000001, 0x337fffff,
        0x33800000, 0x38800000, 0x387fffff, 0x3f800000, 0x477fe000, 0x477fefff, 0x477ff000, 0x477ff001, 0x47800000,
        0x7f7fffff, 0x7f7f7fff, 0x7f7f8000, 0x7f7f8001, 0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff,
    };
    for (size_t k = 0; k < COUNT(conversions); k++) {
        for (size_t i = 0; i < COUNT(specials); i++) {
            try_bits(&conversions[k], specials[i]);
            try_bits(&conversions[k], specials[i] | 0x80000000);
        }
        flush(&conversions[k]);
    }
}

static void test_random(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(conversions); k++) {
        for (int i = 0; i < 4 * CHUNK; i++)
            try_bits(&conversions[k], (uint32_t)(random_64() >> 32));
        flush(&conversions[k]);
    }
}

/* Example answers, for a reader, and for an oracle that errs as the library does. */
static void test_known_answers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float x;
        uint32_t code;
    } answers[] = {
        {"e4m3", 1.0f, 0x38},
        {"e4m3", 448.0f, 0x7e},
        {"e4m3", 1e30f, 0x7e},
        {"e4m3", -INFINITY, 0xfe},
        {"e4m3", 0x1p-9f, 0x01},
        {"e4m3", 0x1p-10f, 0x00},
        {"e4m3", 0x1.8p-9f, 0x02},
        {"e4m3", -0.0f, 0x80},
        {"e4m3", NAN, 0x7f},
        {"e4m3", 1.0625f, 0x38},
        {"e4m3", 1.1875f, 0x3a},
        {"e4m3_saturate", NAN, 0x7e},
        {"e5m2", 1.0f, 0x3c},
        {"e5m2", INFINITY, 0x7b},
        {"e5m2", 57344.0f, 0x7b},
        {"e5m2", 0x1p-16f, 0x01},
        {"e5m2_saturate", NAN, 0x7b},
        {"int8", 2.5f, 2},
        {"int8", -128.6f, 0x80},
        {"int8", 1000.0f, 0x7f},
        {"int8", -0.5f, 0},
        {"int8", NAN, 0},
        {"e2m1", 2.5f, 4},
        {"e2m1", 5.0f, 6},
        {"e2m1", -0.25f, 8},
        {"e2m1", 0.75f, 2},
        {"e2m1", 1e9f, 7},
        {"e2m1", NAN, 7},
        {"bf16", 1.0f, 0x3f80},
        {"bf16", NAN, 0x7fff},
        {"bf16", 0x1.fffffep127f, 0x7f80},
        {"f16", 65519.0f, 0x7bff},
        {"f16", 65520.0f, 0x7c00},
        {"f16", 0x1p-25f, 0},
        {"f16", 0x1.000002p-25f, 1},
    };
    for (size_t i = 0; i < COUNT(answers); i++)
        for (size_t k = 0; k < COUNT(conversions); k++) {
            if (strcmp(conversions[k].name, answers[i].name) != 0)
                continue;
            chunk[0] = answers[i].x;
            conversions[k].convert(chunk, chunk_codes);
            assert_int_equal(code_at(&conversions[k], chunk_codes, 0), answers[i].code);
            assert_int_equal(conversions[k].oracle(answers[i].x), answers[i].code);
        }
}

/* ---- Elements of blocks through the public interface: where the largest of a block is the format's largest number,
 * and nvfp4's second level 1, the scale is 1 and so is the multiplier ---- */

static void hold_blocks_against_oracle(epiq_format format, int block, float largest, uint8_t scale_of_one)
{
    enum { ELEMENTS = 1 << 16 };
    static float x[ELEMENTS];
    static uint8_t codes[ELEMENTS], scales[ELEMENTS / 16];
    const float one = 1.0f;
    const uint32_t top = bits_of(largest), four_bits = format != EPIQ_FORMAT_MXFP8;
    for (int round = 0; round < block; round++) {
        for (int i = 0; i < ELEMENTS; i++) {
            uint32_t code = (uint32_t)(random_64() >> 32) % (four_bits ? 7 : 0x7e); /* below the largest number */
            float low = oracle_decode(format, (uint8_t)code), high = oracle_decode(format, (uint8_t)(code + 1));
            uint32_t magnitude = (uint32_t)(random_64() % (top + 1));
            if (i % 16 < 4) /* a tie, and its neighbours */
                magnitude = bits_of((low + high) / 2) + (uint32_t)(random_64() % 5) - 2;
            else if (i % 16 < 8) /* between two numbers of the format */
                magnitude = bits_of(low) + (uint32_t)(random_64() % (bits_of(high) - bits_of(low)));
            x[i] = i % block == round ? largest : float_of(magnitude | (uint32_t)(random_64() & 0x80000000));
        }
        epiq_quantize_args a = {.struct_size = sizeof a,
                                .x = {.data = x, .rows = ELEMENTS / 64, .cols = 64, .dtype = EPIQ_DTYPE_F32}};
        epiq_output o = {.struct_size = sizeof o,
                         .format = format,
                         .codes_out = codes,
                         .scale_out = scales,
                         .inv_scale = format == EPIQ_FORMAT_NVFP4 ? &one : NULL};
        assert_int_equal(epiq_quantize(&a, &o, &exec), EPIQ_OK);
        for (int i = 0; i < ELEMENTS; i++) {
            assert_int_equal(scales[i / block], scale_of_one);
            uint8_t got = four_bits ? codes[i / 2] >> (i % 2 * 4) & 15 : codes[i];
            uint8_t expected = oracle_code(format, x[i], EPIQ_NAN_PROPAGATE);
            if (got != expected)
                fail_msg("%s of %a: %x, expected %x", epiq_word(format), (double)x[i], got, expected);
        }
    }
}

static void test_elements_of_blocks(void **state)
{
    (void)state;
    hold_blocks_against_oracle(EPIQ_FORMAT_NVFP4, 16, 6.0f, 0x38);
    hold_blocks_against_oracle(EPIQ_FORMAT_MXFP4, 32, 6.0f, 127);
    hold_blocks_against_oracle(EPIQ_FORMAT_MXFP8, 32, 448.0f, 127);
}

/* ---- Widening ---------------------------------------------------------------------------------------------------- */

/* NaN for NaN: its bits are no one's affair before it is stored. */
static void assert_same_float(float got, float expected, const char *what, uint32_t code)
{
    if (isnan(got) && isnan(expected))
        return;
    if (bits_of(got) != bits_of(expected))
        fail_msg("%s %04x is %a, expected %a", what, code, (double)got, (double)expected);
}

static void test_16_bit_floats_widen(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 65536; code++) {
        assert_same_float(ar_f16_value(vi_set(code)), oracle_decode_f16((uint16_t)code), "f16", code);
        assert_same_float(ar_bf16_value(vi_set(code)), oracle_decode_bf16((uint16_t)code), "bf16", code);
        if (!isnan(oracle_decode_f16((uint16_t)code)))
            assert_int_equal(ar_f16_code(ar_f16_value(vi_set(code))), code);
        if (!isnan(oracle_decode_bf16((uint16_t)code)))
            assert_int_equal(ar_bf16_code(ar_bf16_value(vi_set(code))), code);
    }
}

/* Through the public interface: y = identity(x) gives every number back, and the one NaN. */
static void test_16_bit_floats_return(void **state)
{
    (void)state;
    static uint16_t x[65536], y[65536];
    for (int half = 0; half < 2; half++) {
        for (uint32_t code = 0; code < 65536; code++)
            x[code] = (uint16_t)code;
        epiq_act_mul_args a = {
            .struct_size = sizeof a,
            .act = EPIQ_ACT_IDENTITY,
            .x = {.data = x, .rows = 256, .cols = 256, .dtype = half ? EPIQ_DTYPE_F16 : EPIQ_DTYPE_BF16},
            .order = EPIQ_ORDER_UNGATED,
            .y_out = y};
        assert_int_equal(epiq_act_mul(&a, NULL, &exec), EPIQ_OK);
        const uint32_t infinity = half ? 0x7c00 : 0x7f80;
        for (uint32_t code = 0; code < 65536; code++)
            assert_int_equal(y[code], (code & 0x7fff) > infinity ? 0x7fff : code);
    }
}

/* Every code of every format, decoded to f32 with a scale of 1. */
static void test_codes_decode(void **state)
{
    (void)state;
    static const struct {
        epiq_format format;
        float (*decode)(uint32_t code);
    } formats[] = {{EPIQ_FORMAT_E4M3, decode_e4m3}, {EPIQ_FORMAT_E5M2, decode_e5m2}, {EPIQ_FORMAT_INT8, decode_int8}};
    uint8_t codes[256], scales[32];
    float y[512];
    const float one = 1.0f;
    for (int i = 0; i < 256; i++)
        codes[i] = (uint8_t)i;
    for (size_t k = 0; k < COUNT(formats); k++) {
        epiq_dequantize_args a = {.struct_size = sizeof a,
                                  .format = formats[k].format,
                                  .grain = EPIQ_GRAIN_TENSOR,
                                  .rows = 1,
                                  .cols = 256,
                                  .codes = codes,
                                  .scale = &one,
                                  .y_out = y,
                                  .y_dtype = EPIQ_DTYPE_F32};
        assert_int_equal(epiq_dequantize(&a, &exec), EPIQ_OK);
        for (uint32_t code = 0; code < 256; code++) {
            float expected = formats[k].decode(code);
            assert_int_equal(bits_of(y[code]), isnan(expected) ? 0x7fffffff : bits_of(expected));
        }
    }
    memset(scales, 0x38, sizeof scales); /* 1; a byte of codes is two elements, the low one first */
    epiq_dequantize_args a = {.struct_size = sizeof a,
                              .format = EPIQ_FORMAT_NVFP4,
                              .rows = 1,
                              .cols = 512,
                              .codes = codes,
                              .scale = scales,
                              .inv_scale = &one,
                              .y_out = y,
                              .y_dtype = EPIQ_DTYPE_F32};
    assert_int_equal(epiq_dequantize(&a, &exec), EPIQ_OK);
    for (uint32_t i = 0; i < 512; i++)
        assert_int_equal(bits_of(y[i]), bits_of(decode_e2m1(codes[i / 2] >> (i % 2 * 4) & 15)));
}

/* ---- All 2^32 ---------------------------------------------------------------------------------------------------- */

static void test_all_numbers(void **state)
{
    (void)state;
    if (deep() == 0)
        skip();
    int faults = 0;
    for (size_t k = 0; k < COUNT(conversions); k++) {
        const conversion *c = &conversions[k];
        uint64_t expected = 0, hash = FNV_BASIS;
        for (uint64_t start = 0; start < UINT64_C(1) << 32; start += CHUNK) {
            for (uint32_t i = 0; i < CHUNK; i++)
                chunk[i] = float_of((uint32_t)start + i);
            c->convert(chunk, chunk_codes);
            hash = fnv1a(hash, chunk_codes, (size_t)CHUNK * (size_t)c->bytes);
            for (int i = 0; deep() >= 2 && i < CHUNK; i++) {
                uint32_t code = code_at(c, chunk_codes, i), right = c->oracle(chunk[i]);
                if (code != right)
                    fail_msg("%s of %08x: %02x, expected %02x", c->name, bits_of(chunk[i]), code, right);
            }
        }
        print_message("           %s %016llx\n", c->name, (unsigned long long)hash);
        faults += !golden_hash("conversions.hash", c->name, &expected) || hash != expected;
    }
    assert_int_equal(faults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_sample),
        cmocka_unit_test(test_values_and_ties),
        cmocka_unit_test(test_specials),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_elements_of_blocks),
        cmocka_unit_test(test_16_bit_floats_widen),
        cmocka_unit_test(test_16_bit_floats_return),
        cmocka_unit_test(test_codes_decode),
        cmocka_unit_test(test_all_numbers),
    };
    int failed = 0;
    for (epiq_backend b = EPIQ_BACKEND_C; (b = next_backend(b)) != EPIQ_BACKEND_CUDA; b = (epiq_backend)(b + 1)) {
        exec.backend = b;
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
