/* test_public_cases.c: faults that were reported of kernels like ours, one test each, with right answers worked out by
 * hand from doc/spec.md.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The numbers name rows of the table in doc/testing.md: S0x special values, S1x zero and tiny amax, S2x rounding, S3x
 * scale conventions, S4x layout and padding, S6x strides and aliasing, S7x dtypes and weights, S8x activations. Each
 * runs on every backend that is usable here. A case whose format this version does not offer is skipped. */
#include "check_harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F32 EPIQ_DTYPE_F32
#define F16 EPIQ_DTYPE_F16
#define BF16 EPIQ_DTYPE_BF16

/* ---- Small change ---- */

static epiq_exec where = {.struct_size = sizeof where}; /* the backend that the tests run on */

static uint8_t codes[1 << 18];
static uint8_t scales[1 << 16];
static float second_level;

static float scale_at(int64_t i) /* the i-th stored fp32 */
{
    float s;
    memcpy(&s, scales + 4 * i, 4);
    return s;
}

/* An output that writes to the buffers above, poisoned. */
static epiq_output output(epiq_format format)
{
    memset(codes, 0xaa, sizeof codes);
    memset(scales, 0x7f, sizeof scales);
    second_level = -1;
    return (epiq_output){.struct_size = sizeof(epiq_output), .format = format, .codes_out = codes, .scale_out = scales};
}

/* ... of grain tensor, with a scale or multiplier given. */
static epiq_output by_scale(epiq_format format, const float *scale)
{
    epiq_output o = output(format);
    o.scale = scale;
    o.scale_out = NULL;
    return o;
}

static epiq_output by_inv_scale(epiq_format format, const float *inv_scale)
{
    epiq_output o = output(format);
    o.inv_scale = inv_scale;
    if (format != EPIQ_FORMAT_NVFP4)
        o.scale_out = NULL;
    return o;
}

static epiq_matrix matrix(epiq_dtype dtype, const void *data, int64_t rows, int64_t cols)
{
    return (epiq_matrix){.data = data, .rows = rows, .cols = cols, .dtype = dtype};
}

static void must_be_ok(epiq_status status)
{
    if (status == EPIQ_ERROR_UNSUPPORTED) {
        print_message("this version does not offer it\n");
        skip();
    }
    assert_string_equal(epiq_word(status), "ok");
}

static void quantize(epiq_dtype dtype, const void *x, int64_t rows, int64_t cols, const epiq_output *o)
{
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(dtype, x, rows, cols)};
    must_be_ok(epiq_quantize(&a, o, &where));
}

static epiq_act_mul_args act_mul_args(epiq_dtype dtype, const void *x, int64_t rows, int64_t cols)
{
    return (epiq_act_mul_args){.struct_size = sizeof(epiq_act_mul_args), .x = matrix(dtype, x, rows, cols)};
}

static epiq_rms_norm_args rms_norm_args(epiq_dtype dtype, const void *x, int64_t rows, int64_t cols, const void *weight)
{
    return (epiq_rms_norm_args){
        .struct_size = sizeof(epiq_rms_norm_args), .eps = 1e-6f, .x = matrix(dtype, x, rows, cols), .weight = weight};
}

/* bytes are those written in hexadecimal, blanks between them. */
static void expect(const void *bytes, const char *hex)
{
    const uint8_t *got = bytes;
    char *end;
    for (size_t i = 0; *hex != '\0'; i++, hex = end) {
        unsigned long byte = strtoul(hex, &end, 16);
        if (got[i] != byte)
            fail_msg("byte %zu is 0x%02x, expected 0x%02lx", i, got[i], byte);
    }
}

static void expect_all(const uint8_t *bytes, size_t count, unsigned value)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value)
            fail_msg("byte %zu is 0x%02x, expected 0x%02x", i, bytes[i], value);
}

static void expect_bits(float got, uint32_t bits)
{
    if (oracle_bits(got) != bits)
        fail_msg("%a (0x%08x), expected 0x%08x", (double)got, oracle_bits(got), bits);
}

/* A 16-bit element that holds x exactly. */
static uint16_t bf16(float x)
{
    assert_true((oracle_bits(x) & 0xffff) == 0);
    return (uint16_t)(oracle_bits(x) >> 16);
}

static void fill_bf16(uint16_t *to, size_t count, float x)
{
    for (size_t i = 0; i < count; i++)
        to[i] = bf16(x);
}

/* A fixed corpus of bf16 in about +-4. */
static void corpus(uint16_t *to, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = ((float)(seed >> 8) * 0x1p-24f - 0.5f) * ((seed & 15) == 0 ? 64.0f : 8.0f);
        to[i] = (uint16_t)(oracle_bits(x) >> 16);
    }
}

static const float one = 1.0f;

/* ---- A. Special values ---- */

static void S01_saturating_cast(void **state)
{
    (void)state;
    const float x[] = {448, 464, nextafterf(464, 500), 465, 480, 1000, -1000, 16};
    epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
    quantize(F32, x, 1, 8, &o);
    expect(codes, "7e 7e 7e 7e 7e 7e fe 58");
    o = by_inv_scale(EPIQ_FORMAT_E4M3, &one);
    quantize(F32, x, 1, 8, &o);
    expect(codes, "7e 7e 7e 7e 7e 7e fe 58");
}

static void S02_beyond_calibration(void **state)
{
    (void)state;
    const float x[] = {10.0f, 0.5f, -0.25f, 0.07f, 0.01f, -10.0f, 4.48f, 0.0001f}, scale = 0.01f;
    epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &scale); /* 1/0.01f rounds to 100 */
    quantize(F32, x, 1, 8, &o);
    expect(codes, "7e 64 dc 4e 38 fe 7e 05");
}

/* NaN, +Inf, -Inf, 1, -1, 1000 among 128: amax is Inf, the scale FLT_MAX / 448. */
static void special_group(const epiq_output *propagate)
{
    float x[128] = {NAN, INFINITY, -INFINITY, 1, -1, 1000};
    quantize(F32, x, 1, 128, propagate);
    expect(codes, "7f 7e fe 00 80 00 00");
    expect_bits(scale_at(0), 0x7b124924);
    epiq_output o = *propagate;
    o.nan = EPIQ_NAN_SATURATE;
    quantize(F32, x, 1, 128, &o);
    expect(codes, "7e 7e fe 00 80 00 00");
    expect_bits(scale_at(0), 0x7b124924);
    /* fused: up 1 leaves the gate as it is */
    float row[256];
    for (int i = 0; i < 128; i++) {
        row[i] = x[i];
        row[128 + i] = 1;
    }
    epiq_act_mul_args a = act_mul_args(F32, row, 1, 256);
    a.act = EPIQ_ACT_IDENTITY;
    must_be_ok(epiq_act_mul(&a, propagate, &where));
    expect(codes, "7f 7e fe 00 80 00 00");
    expect_bits(scale_at(0), 0x7b124924);
}

static void S03_nan_and_infinity_token(void **state)
{
    (void)state;
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    special_group(&o);
}

static void S03_nan_and_infinity_group(void **state)
{
    (void)state;
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_GROUP;
    special_group(&o);
}

static void S04_nan_in_mxfp8(void **state)
{
    (void)state;
    float x[64] = {1, -2, NAN, 448, 0, -0.0f};
    x[32] = 448; /* the block beside it */
    epiq_output o = output(EPIQ_FORMAT_MXFP8);
    quantize(F32, x, 1, 64, &o);
    expect(codes, "38 c0 7f 7e 00 80 00");
    expect(scales, "7f 7f"); /* 2^0 */
    o.nan = EPIQ_NAN_SATURATE;
    quantize(F32, x, 1, 64, &o);
    expect(codes, "38 c0 7e 7e 00 80 00");
    expect(scales, "7f 7f");
}

static void S04_nan_in_mxfp4(void **state)
{
    (void)state;
    float x[64] = {1, -2, NAN, 6, 0, -0.0f};
    x[32] = 6;
    epiq_output o = output(EPIQ_FORMAT_MXFP4);
    quantize(F32, x, 1, 64, &o);
    expect(codes, "c2 77 80 00");
    expect(scales, "ff 7f"); /* the whole block is a NaN, its neighbour is not */
    o.nan = EPIQ_NAN_SATURATE;
    quantize(F32, x, 1, 64, &o);
    expect(codes, "c2 77 80 00");
    expect(scales, "7f 7f");
}

static void S04_nan_in_nvfp4(void **state)
{
    (void)state;
    float x[32] = {1, -2, NAN, 6, 0, -0.0f};
    x[16] = 6;
    epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
    quantize(F32, x, 1, 32, &o);
    expect(codes, "c2 77 80 00");
    expect(scales, "7f 38");
    o.nan = EPIQ_NAN_SATURATE;
    quantize(F32, x, 1, 32, &o);
    expect(codes, "c2 77 80 00");
    expect(scales, "38 38");
}

static void S05_sign_of_zero_e4m3(void **state)
{
    (void)state;
    const float x[] = {-0.0f, -1e-9f, 1e-9f, -0x1p-10f, -0x1.000002p-10f, 0x1p-10f, -0x1p-149f, 0};
    epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
    quantize(F32, x, 1, 8, &o);
    expect(codes, "80 80 00 80 81 00 80 00"); /* 2^-10 is halfway to the smallest code */
    float y[8];
    epiq_dequantize_args d = {.struct_size = sizeof d,
                              .format = EPIQ_FORMAT_E4M3,
                              .grain = EPIQ_GRAIN_TENSOR,
                              .rows = 1,
                              .cols = 8,
                              .codes = codes,
                              .scale = &one,
                              .y_out = y,
                              .y_dtype = F32};
    must_be_ok(epiq_dequantize(&d, &where));
    expect_bits(y[0], 0x80000000);
    expect_bits(y[2], 0x00000000);
    expect_bits(y[4], 0xbb000000); /* -2^-9 */
}

static void S05_sign_of_zero_e2m1(void **state)
{
    (void)state;
    const float x[16] = {-0.0f, -0.1f, 0.1f, -0.25f, 6, 0, 0.25f, -0.26f};
    epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
    quantize(F32, x, 1, 16, &o);
    expect(codes, "88 80 07 90 00");
    float y[16];
    epiq_dequantize_args d = {.struct_size = sizeof d,
                              .format = EPIQ_FORMAT_NVFP4,
                              .rows = 1,
                              .cols = 16,
                              .codes = codes,
                              .scale = scales,
                              .inv_scale = &one,
                              .y_out = y,
                              .y_dtype = F32};
    must_be_ok(epiq_dequantize(&d, &where));
    expect_bits(y[0], 0x80000000);
    expect_bits(y[2], 0x00000000);
    expect_bits(y[7], 0xbf000000); /* -0.5 */
}

/* The value of a positive e4m3 code. */
static float e4m3_value(unsigned code)
{
    return code < 8 ? ldexpf((float)code, -9) : ldexpf(1 + (float)(code & 7) / 8, (int)(code >> 3) - 7);
}

/* Every code, every midpoint (even wins) and the numbers beside it; 256 to 448 are codes 0x78 to 0x7e. */
static void S06_every_midpoint(void **state)
{
    (void)state;
    assert_true(e4m3_value(0x78) == 256 && e4m3_value(0x7e) == 448);
    float x[4 * 0x7e];
    uint8_t expected[COUNT(x)];
    for (unsigned code = 0; code < 0x7e; code++) {
        float middle = (e4m3_value(code) + e4m3_value(code + 1)) / 2;
        x[4 * code] = e4m3_value(code + 1);
        expected[4 * code] = (uint8_t)(code + 1);
        x[4 * code + 1] = middle;
        expected[4 * code + 1] = (uint8_t)((code + 1) & ~1u);
        x[4 * code + 2] = nextafterf(middle, 0);
        expected[4 * code + 2] = (uint8_t)code;
        x[4 * code + 3] = nextafterf(middle, 1000);
        expected[4 * code + 3] = (uint8_t)(code + 1);
    }
    for (int negative = 0; negative < 2; negative++) {
        epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
        quantize(F32, x, 1, COUNT(x), &o);
        for (size_t i = 0; i < COUNT(x); i++) {
            assert_int_equal(codes[i], expected[i] | (negative ? 0x80 : 0));
            x[i] = -x[i];
        }
    }
}

static void S07_largest_number_of_the_format(void **state)
{
    (void)state;
    assert_int_equal(epiq_value("format", "e4m3fnuz"), 0); /* not there: refused by name */
    const float x[] = {57344, 60000, 1e9f, -57344, 448, 1, 0, 61440};
    epiq_output o = by_scale(EPIQ_FORMAT_E5M2, &one);
    quantize(F32, x, 1, 8, &o);
    expect(codes, "7b 7b 7b fb 5f 3c 00 7b");
    o = output(EPIQ_FORMAT_E5M2); /* token: amax / 57344 */
    const float y[] = {57344, 1, 0, 0};
    quantize(F32, y, 1, 4, &o);
    expect(codes, "7b 3c 00 00");
    expect_bits(scale_at(0), 0x3f800000);
}

/* Values near 1e-23: codes are finite, and the scale is a normal number, the smallest that its rule allows. */
static void S08_smallest_scales(void **state)
{
    (void)state;
    float x[128] = {1e-23f, -1e-23f, 0, -0.0f, 5e-24f};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_GROUP;
    quantize(F32, x, 1, 128, &o);
    expect(codes, "00 80 00 80 00 00");
    expect_bits(scale_at(0), 0x2a7b5123); /* 1e-10 / 448 */
    o = output(EPIQ_FORMAT_E4M3);
    quantize(F32, x, 1, 128, &o);
    expect(codes, "00 80 00 80 00 00");
    expect_bits(scale_at(0), 0x36924925); /* 1 / (448 * 512) */
    o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_TENSOR;
    quantize(F32, x, 1, 128, &o);
    expect(codes, "7e fe 00 80 76 00");
    expect_bits(scale_at(0), oracle_bits(1e-23f / 448.0f));
    o = output(EPIQ_FORMAT_MXFP8);
    quantize(F32, x, 1, 128, &o);
    expect(codes, "7c fc 00 80 74 00"); /* 1e-23 * 2^85 = 386.9, rounds to 384 */
    expect(scales, "2a 00 00 00");      /* 2^-85; a block of zeros has the smallest, 2^-127 */
    o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
    quantize(F32, x, 1, 128, &o);
    expect(codes, "80 80 00 00");
    expect_all(scales, 8, 0);
}

static void S09_nan_through_the_activation(void **state)
{
    (void)state;
    uint16_t x[8] = {0x7fc0, 0xff80, bf16(1), bf16(1), bf16(1), bf16(1), 0x7fc0, bf16(1)};
    epiq_act_mul_args a = act_mul_args(BF16, x, 1, 8);
    uint16_t y[4];
    a.y_out = y;
    epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
    must_be_ok(epiq_act_mul(&a, &o, &where));
    expect(codes, "7f 80 7f 34"); /* silu(-Inf) is -0; silu(1) 0.73 */
    expect(y, "ff 7f 00 80 ff 7f 3b 3f");
    o.nan = EPIQ_NAN_SATURATE;
    must_be_ok(epiq_act_mul(&a, &o, &where));
    expect(codes, "7e 80 7e 34");
}

/* ---- B. Zero and tiny amax ---- */

static void dequantized_zeros(epiq_grain grain, const float *scale)
{
    float y[128];
    epiq_dequantize_args d = {.struct_size = sizeof d,
                              .format = EPIQ_FORMAT_E4M3,
                              .grain = grain,
                              .rows = 1,
                              .cols = 128,
                              .codes = codes,
                              .scale = scale,
                              .y_out = y,
                              .y_dtype = F32};
    must_be_ok(epiq_dequantize(&d, &where));
    expect_all((uint8_t *)y, sizeof y, 0);
}

static void S10_zero_row(void **state)
{
    (void)state;
    const float x[128] = {0};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    quantize(F32, x, 1, 128, &o);
    expect_all(codes, 128, 0);
    expect_bits(scale_at(0), 0x36924925); /* 1 / (448 * 512) */
    dequantized_zeros(EPIQ_GRAIN_TOKEN, (float *)scales);
    o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_TENSOR;
    quantize(F32, x, 1, 128, &o);
    expect_all(codes, 128, 0);
    expect_bits(scale_at(0), 0x00800000); /* 2^-126 */
    dequantized_zeros(EPIQ_GRAIN_TENSOR, (float *)scales);
}

static void S10_zero_group(void **state)
{
    (void)state;
    float x[256] = {0};
    x[128] = 448; /* the group beside it */
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_GROUP;
    quantize(F32, x, 1, 256, &o);
    expect_all(codes, 128, 0);
    expect(codes + 128, "7e 00");
    expect_bits(scale_at(0), 0x2a7b5123); /* 1e-10 / 448 */
    expect_bits(scale_at(1), 0x3f800000);
    dequantized_zeros(EPIQ_GRAIN_GROUP, (float *)scales);
}

static void S11_zero_row_beside_others(void **state)
{
    (void)state;
    const float x[3][4] = {{448, 1, -2, 0}, {0, -0.0f, 0, 0}, {4.48f, 0.01f, 0, -4.48f}};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    quantize(F32, x, 3, 4, &o);
    expect(codes, "7e 38 c0 00 00 80 00 00 7e 38 00 fe");
}

static void S12_zero_row_nvfp4(void **state)
{
    (void)state;
    uint16_t x[4 * 32], without[3 * 32];
    corpus(x, COUNT(x), 12);
    memset(x + 2 * 32, 0, 32 * sizeof *x);
    memcpy(without, x, 2 * 32 * sizeof *x);
    memcpy(without + 2 * 32, x + 3 * 32, 32 * sizeof *x);
    for (int rule = EPIQ_NVFP4_VLLM; rule <= EPIQ_NVFP4_IEEE; rule++) {
        const float gs = 40;
        epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &gs);
        o.nvfp4 = (epiq_nvfp4)rule;
        quantize(BF16, without, 3, 32, &o);
        uint8_t codes3[3 * 16], scales3[3 * 2];
        memcpy(codes3, codes, sizeof codes3);
        memcpy(scales3, scales, sizeof scales3);
        quantize(BF16, x, 4, 32, &o);
        assert_memory_equal(codes, codes3, 32);
        expect_all(codes + 32, 16, 0);
        assert_memory_equal(codes + 48, codes3 + 32, 16);
        assert_memory_equal(scales, scales3, 4);
        expect(scales + 4, "00 00");
        assert_memory_equal(scales + 6, scales3 + 4, 2);
        assert_true(scales[0] != 0 && scales[7] != 0);
    }
}

static void S13_second_level_of_zeros(void **state)
{
    (void)state;
    const float zeros[64] = {0}, some[16] = {6, -3, 0, 1};
    const float infinite = INFINITY, nothing = 0, nan = NAN;
    for (int rule = EPIQ_NVFP4_VLLM; rule <= EPIQ_NVFP4_IEEE; rule++) {
        epiq_output o = output(EPIQ_FORMAT_NVFP4);
        o.nvfp4 = (epiq_nvfp4)rule;
        o.inv_scale_out = &second_level;
        quantize(F32, zeros, 2, 32, &o);
        expect_bits(second_level, 0x3f800000);
        expect_all(codes, 32, 0);
        expect_all(scales, 4, 0);
        o = by_inv_scale(EPIQ_FORMAT_NVFP4, &infinite); /* acts as FLT_MAX: the block scale saturates */
        o.nvfp4 = (epiq_nvfp4)rule;
        quantize(F32, some, 1, 16, &o);
        expect(scales, "7e");
        quantize(F32, zeros, 1, 16, &o);
        expect(scales, "00");
        o = by_inv_scale(EPIQ_FORMAT_NVFP4, &nothing);
        o.nvfp4 = (epiq_nvfp4)rule;
        quantize(F32, some, 1, 16, &o);
        expect(scales, "00");
        expect(codes, "80 00 00 00 00 00 00 00");
        o = by_inv_scale(EPIQ_FORMAT_NVFP4, &nan);
        o.nvfp4 = (epiq_nvfp4)rule;
        quantize(F32, some, 1, 16, &o);
        expect(scales, "00");
        expect(codes, "80 00 00 00 00 00 00 00");
    }
}

static void S14_tiny_amax(void **state)
{
    (void)state;
    const float x[] = {6.3e-38f, 0, -3.15e-38f, 1e-38f, -0.0f, 0, 0, 0};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_TENSOR;
    quantize(F32, x, 1, 8, &o);
    expect_bits(scale_at(0), 0x00800000);
    expect(codes, "4b 00 c3 36 80 00 00 00"); /* 5.36, 0, -2.68, 0.85 */
    o = output(EPIQ_FORMAT_E4M3);
    quantize(F32, x, 1, 8, &o);
    expect_bits(scale_at(0), 0x36924925);
    expect(codes, "00 00 80 00 80 00 00 00");
}

static void S14_tiny_amax_group(void **state)
{
    (void)state;
    const float x[] = {6.3e-38f, 0, -3.15e-38f, 1e-38f, -0.0f, 0, 0, 0};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_GROUP;
    quantize(F32, x, 1, 8, &o);
    expect_bits(scale_at(0), 0x2a7b5123);
    expect(codes, "00 00 80 00 80 00 00 00");
}

static void S15_block_scale_at_the_tie(void **state)
{
    (void)state;
    for (int above = 0; above < 2; above++) { /* 6 * 2^-10: the scale 2^-10 is halfway to 2^-9; and the next float */
        float amax = oracle_float(0x3bc00000 + (uint32_t)above);
        const float x[16] = {amax, -amax / 2, amax / 4, 0, -0.0f};
        epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
        quantize(F32, x, 1, 16, &o);
        expect(scales, above ? "01" : "00");
        expect(codes, above ? "b5 02 08 00 00 00 00 00" : "80 00 08 00 00 00 00 00");
        o.nvfp4 = EPIQ_NVFP4_IEEE; /* no test for a scale of 0: the multiplier is FLT_MAX */
        quantize(F32, x, 1, 16, &o);
        expect(scales, above ? "01" : "00");
        expect(codes, above ? "b5 02 08 00 00 00 00 00" : "f7 07 08 00 00 00 00 00");
    }
}

static void S16_bound_and_floor(void **state)
{
    (void)state;
    const float x[] = {10, 5, 2.5f, -10, 1, 0.3125f}, bound = 5;
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.scale_ub = &bound;
    quantize(F32, x, 1, 6, &o);
    expect_bits(scale_at(0), 0x3c36db6e); /* 5 / 448 */
    expect(codes, "7e 7e 76 fe 6b 5e");
    const float tiny[] = {1e-6f, 5e-7f, -1e-6f, 1e-7f};
    quantize(F32, tiny, 1, 4, &o);
    expect_bits(scale_at(0), 0x36924925);
    expect(codes, "27 1f a7 0c");
}

/* ---- C. Rounding ---- */

static const float e2m1_ties[16] = {0.25f,  0.75f,  1.25f,  1.75f,  2.5f,  3.5f,  5.0f,  6,
                                    -0.25f, -0.75f, -1.25f, -1.75f, -2.5f, -3.5f, -5.0f, -6};

static void S20_ties_of_e2m1(void **state)
{
    (void)state;
    for (int rule = EPIQ_NVFP4_VLLM; rule <= EPIQ_NVFP4_IEEE; rule++) {
        epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
        o.nvfp4 = (epiq_nvfp4)rule;
        quantize(F32, e2m1_ties, 1, 16, &o);
        expect(scales, "38"); /* 1.0 */
        expect(codes, "20 42 64 76 a8 ca ec fe");
    }
}

static void S20_ties_of_e2m1_mx(void **state)
{
    (void)state;
    float x[32];
    memcpy(x, e2m1_ties, sizeof e2m1_ties);
    memcpy(x + 16, e2m1_ties, sizeof e2m1_ties);
    epiq_output o = output(EPIQ_FORMAT_MXFP4);
    quantize(F32, x, 1, 32, &o);
    expect(scales, "7f");
    expect(codes, "20 42 64 76 a8 ca ec fe 20 42 64 76 a8 ca ec fe");
}

/* Block scale 7 * 2^-9; v / scale is below 1.75 by more than half a unit, v * RN(1 / scale) is 1.75, a tie: code 4. */
static void S21_reciprocal_not_quotient(void **state)
{
    (void)state;
    const float x[16] = {0.08203125f, 0.02392577938735485f};
    for (int rule = EPIQ_NVFP4_VLLM; rule <= EPIQ_NVFP4_IEEE; rule++) {
        epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
        o.nvfp4 = (epiq_nvfp4)rule;
        quantize(F32, x, 1, 16, &o);
        expect(scales, "07");
        expect(codes, "47 00");
    }
}

static void S22_block_scale_is_rounded_to_even(void **state)
{
    (void)state;
    static const struct {
        float amax;
        unsigned scale;
    } cases[] = {{6.375f, 0x38}, {7.125f, 0x3a}, {7.875f, 0x3a}, {13.5f, 0x41}, {6016, 0x7e}, {2688, 0x7e}};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int rule = EPIQ_NVFP4_VLLM; rule <= EPIQ_NVFP4_IEEE; rule++) {
            uint16_t x[16] = {bf16(cases[i].amax)};
            epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
            o.nvfp4 = (epiq_nvfp4)rule;
            quantize(BF16, x, 1, 16, &o);
            assert_int_equal(scales[0], cases[i].scale);
        }
}

/* The fused chain is that of two kernels with bf16 between; rounding `none` is another thing, asked for by name. */
static void two_kernels(epiq_output o, int64_t h)
{
    enum { M = 4 };
    uint16_t *x = malloc((size_t)(M * 2 * h) * 2), *y = malloc((size_t)(M * h) * 2);
    uint8_t *fused = malloc((size_t)(M * h)), fused_scales[4 * M * 32];
    corpus(x, (size_t)(M * 2 * h), 23);
    epiq_act_mul_args a = act_mul_args(BF16, x, M, 2 * h);
    epiq_sizes z = {.struct_size = sizeof z};
    must_be_ok(epiq_check_act_mul(&a, &o, NULL, &z));
    for (int chain = EPIQ_CHAIN_VLLM; chain <= EPIQ_CHAIN_FLASHINFER; chain++) {
        a.chain = (epiq_chain)chain;
        a.y_out = NULL;
        must_be_ok(epiq_act_mul(&a, &o, &where));
        memcpy(fused, codes, (size_t)z.codes_bytes);
        memcpy(fused_scales, scales, (size_t)z.scale_bytes);
        a.y_out = y;
        must_be_ok(epiq_act_mul(&a, NULL, &where));
        quantize(BF16, y, M, h, &o);
        assert_memory_equal(fused, codes, (size_t)z.codes_bytes);
        assert_memory_equal(fused_scales, scales, (size_t)z.scale_bytes);
    }
    a.chain = EPIQ_CHAIN_DIRECT;
    must_be_ok(epiq_act_mul(&a, &o, &where));
    assert_memory_not_equal(fused, codes, (size_t)z.codes_bytes);
    free(x);
    free(y);
    free(fused);
}

static void S23_rounding_of_the_intermediate_token(void **state)
{
    (void)state;
    two_kernels(output(EPIQ_FORMAT_E4M3), 256);
}

static void S23_rounding_of_the_intermediate_group(void **state)
{
    (void)state;
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_GROUP;
    two_kernels(o, 256);
}

static void S24_accuracy_of_silu(void **state)
{
    (void)state;
    enum { N = 40 * 256 + 1 };
    static float x[2 * N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i - 20 * 256) / 256;
        x[N + i] = 1;
    }
    epiq_act_mul_args a = act_mul_args(F32, x, 1, 2 * N);
    a.y_out = y;
    must_be_ok(epiq_act_mul(&a, NULL, &where));
    for (int i = 0; i < N; i++) {
        double exact = (double)x[i] / (1 + exp(-(double)x[i]));
        int exponent;
        frexp(exact, &exponent);
        double ulp = ldexp(1, exponent - 24);
        if (fabs((double)y[i] - exact) > 3.5 * ulp)
            fail_msg("silu(%g) is %a, exactly %a", (double)x[i], (double)y[i], exact);
    }
}

/* One column is 1 + 256, the others 0 + 256; weight 1.25. In bf16 257 is 256. */
static void S25_what_the_variance_sees(void **state)
{
    (void)state;
    enum { H = 1024 };
    static uint16_t x[H], r[H], w[H], y[H], sum[H];
    x[0] = bf16(1);
    fill_bf16(r, H, 256);
    fill_bf16(w, H, 1.25f);
    epiq_rms_norm_args a = rms_norm_args(BF16, x, 1, H, w);
    a.residual = r;
    a.residual_out = sum;
    a.y_out = y;
    a.norm_round = EPIQ_ROUND_ONCE;
    static const struct {
        epiq_sum_round sum_round;
        epiq_chain chain;
        uint16_t first;
    } cases[] = {{EPIQ_SUM_ROUND_FP32, EPIQ_CHAIN_VLLM, 0x3fa1},
                 {EPIQ_SUM_ROUND_T, EPIQ_CHAIN_VLLM, 0x3fa0},
                 {(epiq_sum_round)0, EPIQ_CHAIN_FLASHINFER, 0x3fa1},
                 {(epiq_sum_round)0, EPIQ_CHAIN_ALLREDUCE, 0x3fa0},
                 {(epiq_sum_round)0, EPIQ_CHAIN_VLLM, 0x3fa0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        a.sum_round = cases[i].sum_round;
        a.chain = cases[i].chain;
        must_be_ok(epiq_rms_norm(&a, NULL, &where));
        assert_int_equal(y[0], cases[i].first);
        for (int k = 1; k < H; k++)
            assert_int_equal(y[k], 0x3fa0);
        for (int k = 0; k < H; k++)
            assert_int_equal(sum[k], 0x4380); /* 256: rounded once, in every variant */
    }
}

/* x = (1, 3), weight 1.015625: 1.34164 is rounded to bf16 before the weight, or after it only. */
static void S26_cast_before_or_after_the_weight(void **state)
{
    (void)state;
    const uint16_t x[2] = {bf16(1), bf16(3)}, w[2] = {bf16(1.015625f), bf16(1.015625f)};
    uint16_t y[2];
    epiq_rms_norm_args a = rms_norm_args(BF16, x, 1, 2, w);
    a.y_out = y;
    a.norm_round = EPIQ_ROUND_ONCE;
    must_be_ok(epiq_rms_norm(&a, NULL, &where));
    assert_int_equal(y[1], 0x3fae);
    a.norm_round = EPIQ_ROUND_TWICE;
    must_be_ok(epiq_rms_norm(&a, NULL, &where));
    assert_int_equal(y[1], 0x3faf);
    a.norm_round = (epiq_round)0; /* vllm, plain weight: twice */
    must_be_ok(epiq_rms_norm(&a, NULL, &where));
    assert_int_equal(y[1], 0x3faf);
    a.chain = EPIQ_CHAIN_FLASHINFER;
    must_be_ok(epiq_rms_norm(&a, NULL, &where));
    assert_int_equal(y[1], 0x3fae);
}

static void S29_small_hidden_sizes(void **state)
{
    (void)state;
    static uint16_t x[3 * 4096], r[3 * 4096], w[4096], y[3 * 4096];
    static uint8_t fused[3 * 4096];
    corpus(x, COUNT(x), 1);
    corpus(r, COUNT(r), 2);
    corpus(w, COUNT(w), 3);
    for (int64_t h = 1024; h <= 4096; h += 1024) {
        epiq_rms_norm_args a = rms_norm_args(BF16, x, 3, h, w);
        a.residual = r;
        epiq_output o = output(EPIQ_FORMAT_E4M3);
        must_be_ok(epiq_rms_norm(&a, &o, &where));
        memcpy(fused, codes, (size_t)(3 * h));
        const float s[3] = {scale_at(0), scale_at(1), scale_at(2)};
        a.y_out = y;
        must_be_ok(epiq_rms_norm(&a, NULL, &where));
        quantize(BF16, y, 3, h, &o);
        assert_memory_equal(fused, codes, (size_t)(3 * h));
        for (int row = 0; row < 3; row++)
            expect_bits(scale_at(row), oracle_bits(s[row]));
    }
}

/* ---- D. Scale conventions ---- */

static void S30_scale_is_rounded_first(void **state)
{
    (void)state;
    const float x[128] = {3.0f, 1.5f, -0.75f, 0.3f, 0.01f};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_GROUP;
    quantize(F32, x, 1, 128, &o);
    expect_bits(scale_at(0), 0x3bdb6db7); /* 3 / 448 */
    expect(codes, "7e 76 ee 63 3c 00");
    o.ue8m0 = 1;
    quantize(F32, x, 1, 128, &o);
    expect_bits(scale_at(0), 0x3c000000); /* 2^-7 */
    expect(codes, "7c 74 ec 62 3a 00");
    o.ue8m0 = 0;
    o.layout = EPIQ_LAYOUT_PACKED_UE8M0;
    quantize(F32, x, 1, 128, &o);
    expect(scales, "78 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
    expect(codes, "7c 74 ec 62 3a 00");
}

static void S31_exact_powers_of_two(void **state)
{
    (void)state;
    static const int powers[] = {-20, -3, 0, 1, 7, 30};
    for (size_t i = 0; i < COUNT(powers); i++) {
        const float x[128] = {0, 0, ldexpf(448, powers[i])};
        epiq_output o = output(EPIQ_FORMAT_E4M3);
        o.grain = EPIQ_GRAIN_GROUP;
        o.ue8m0 = 1;
        quantize(F32, x, 1, 128, &o);
        expect_bits(scale_at(0), (uint32_t)(127 + powers[i]) << 23);
        expect(codes, "00 00 7e 00");
        const float above[128] = {0, 0, nextafterf(x[2], INFINITY)};
        quantize(F32, above, 1, 128, &o);
        expect_bits(scale_at(0), (uint32_t)(128 + powers[i]) << 23);
        expect(codes, "00 00 76 00");
    }
}

static void S32_power_of_two_scales_behind_a_norm(void **state)
{
    (void)state;
    enum { M = 256, H = 512 };
    static uint16_t x[M * H], w[H], y[M * H];
    static uint8_t fused[M * H], fused_scales[M * H / 128 * 4];
    corpus(x, COUNT(x), 32);
    corpus(w, COUNT(w), 33);
    epiq_rms_norm_args a = rms_norm_args(BF16, x, M, H, w);
    a.y_out = y;
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_GROUP;
    o.ue8m0 = 1;
    must_be_ok(epiq_rms_norm(&a, &o, &where));
    for (int64_t i = 0; i < M * H / 128; i++)
        assert_int_equal(oracle_bits(scale_at(i)) & 0x807fffff, 0);
    memcpy(fused, codes, sizeof fused);
    memcpy(fused_scales, scales, sizeof fused_scales);
    quantize(BF16, y, M, H, &o);
    assert_memory_equal(fused, codes, sizeof fused);
    assert_memory_equal(fused_scales, scales, sizeof fused_scales);
}

static void decoded_ones(epiq_format format, const void *scale, uint32_t bits)
{
    uint8_t ones[32];
    float y[32];
    memset(ones, format == EPIQ_FORMAT_MXFP4 ? 0x22 : 0x38, sizeof ones);
    epiq_dequantize_args d = {.struct_size = sizeof d,
                              .format = format,
                              .grain = EPIQ_GRAIN_GROUP,
                              .layout = format == EPIQ_FORMAT_E4M3 ? EPIQ_LAYOUT_PACKED_UE8M0 : EPIQ_LAYOUT_ROW,
                              .rows = 1,
                              .cols = 32,
                              .codes = ones,
                              .scale = scale,
                              .y_out = y,
                              .y_dtype = F32};
    must_be_ok(epiq_dequantize(&d, &where));
    for (int i = 0; i < 32; i++)
        expect_bits(y[i], bits);
}

static void S33_ends_of_e8m0(void **state)
{
    (void)state;
    static const epiq_format formats[] = {EPIQ_FORMAT_MXFP8, EPIQ_FORMAT_MXFP4, EPIQ_FORMAT_E4M3};
    for (size_t i = 0; i < COUNT(formats); i++) {
        decoded_ones(formats[i], "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0x00400000);   /* 2^-127 */
        decoded_ones(formats[i], "\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0x7fffffff); /* NaN */
        decoded_ones(formats[i], "\xfe\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0x7f000000); /* 2^127 */
        decoded_ones(formats[i], "\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 0x00800000); /* 2^-126 */
    }
}

static void S34_second_level_multiplies(void **state)
{
    (void)state;
    const float x[16] = {6, 3, -1.5f}, up = 3584, down = 1.0f / 3584;
    epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &up);
    quantize(F32, x, 1, 16, &o);
    expect(scales, "7e"); /* 3584 * 6 / 6, saturated */
    o = by_inv_scale(EPIQ_FORMAT_NVFP4, &down);
    quantize(F32, x, 1, 16, &o);
    expect(scales, "00");
    expect(codes, "00 08 00");
    o = output(EPIQ_FORMAT_NVFP4); /* computed: 2688 / 6 = 448, the block scale then is 448 */
    o.inv_scale_out = &second_level;
    quantize(F32, x, 1, 16, &o);
    expect_bits(second_level, 0x43e00000);
    expect(scales, "7e");
    expect(codes, "57 0b 00");
    o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
    o.scale = &up; /* the other convention has no place in the interface */
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(F32, x, 1, 16)};
    assert_string_equal(epiq_word(epiq_quantize(&a, &o, &where)), "conflict");
}

static void S35_rule_of_the_exponent(void **state)
{
    (void)state;
    const float x[32] = {480, 100, -7, 1};
    epiq_output o = output(EPIQ_FORMAT_MXFP8);
    quantize(F32, x, 1, 32, &o);
    expect(scales, "80"); /* ceil: 2, 240 is a code */
    expect(codes, "77 64 c6 30 00");
    o.mx_round = EPIQ_MX_ROUND_FLOOR;
    quantize(F32, x, 1, 32, &o);
    expect(scales, "7f"); /* floor: 1, 480 saturates */
    expect(codes, "7e 6c ce 38 00");
}

/* One row: a scale of the row and a scale of the tensor are told apart by the argument alone. */
static void S36_grain_is_an_argument(void **state)
{
    (void)state;
    const float x[16] = {0};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    quantize(F32, x, 1, 16, &o); /* nothing said: token */
    expect_bits(scale_at(0), 0x36924925);
    o.grain = EPIQ_GRAIN_TENSOR;
    quantize(F32, x, 1, 16, &o);
    expect_bits(scale_at(0), 0x00800000);
    o.grain = EPIQ_GRAIN_TOKEN;
    quantize(F32, x, 1, 16, &o);
    expect_bits(scale_at(0), 0x36924925);
    o.grain = EPIQ_GRAIN_TENSOR; /* as many rows as would fit a scale a row: still one is written */
    quantize(F32, x, 4, 4, &o);
    expect_bits(scale_at(0), 0x00800000);
    expect_bits(scale_at(1), 0x7f7f7f7f);
}

/* ---- E. Layout and padding ---- */

/* Where the scale of (row, group) is among Kt tiles a row. */
static int64_t in_tile128x4(int64_t m, int64_t k, int64_t kt)
{
    return ((m >> 7) * kt + (k >> 2)) * 512 + (m & 31) * 16 + ((m >> 5) & 3) * 4 + (k & 3);
}

static int64_t in_tile8x4(int64_t m, int64_t k, int64_t kt)
{
    return ((m >> 3) * kt + (k >> 2)) * 32 + (m & 7) * 4 + (k & 3);
}

/* x is 6 everywhere, gs 1: each of the M x G block scales is 0x38, and padding is 0, or 0x7f in
 * rows that are kept. */
static void tiled(int64_t m, int64_t h, epiq_pad_rows pad, int32_t tile)
{
    uint16_t *x = malloc((size_t)(m * h) * 2);
    fill_bf16(x, (size_t)(m * h), 6);
    epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
    o.layout = tile == 128 ? EPIQ_LAYOUT_TILE128X4 : EPIQ_LAYOUT_TILE8X4;
    o.pad_rows = pad;
    quantize(BF16, x, m, h, &o);
    free(x);
    expect_all(codes, (size_t)(m * h / 2), 0x77);
    int64_t rows = (m + tile - 1) / tile * tile, groups = h / 16, kt = (groups + 3) / 4;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t k = 0; k < 4 * kt; k++) {
            unsigned expected = row < m ? (k < groups ? 0x38 : 0) : pad == EPIQ_PAD_ROWS_KEEP ? 0x7f : 0;
            unsigned got = scales[tile == 128 ? in_tile128x4(row, k, kt) : in_tile8x4(row, k, kt)];
            if (got != expected)
                fail_msg("%d x 4, M %d: scale of row %d group %d is 0x%02x, expected 0x%02x", (int)tile, (int)m,
                         (int)row, (int)k, got, expected);
        }
    expect_all(scales + rows * 4 * kt, 64, 0x7f);
}

static void S40_padding_rows(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows <= 130; rows++) {
        tiled(rows, 144, EPIQ_PAD_ROWS_ZERO, 128);
        tiled(rows, 144, EPIQ_PAD_ROWS_KEEP, 128);
    }
    for (int64_t rows = 1; rows <= 18; rows++) {
        tiled(rows, 144, EPIQ_PAD_ROWS_ZERO, 8);
        tiled(rows, 144, EPIQ_PAD_ROWS_KEEP, 8);
    }
    tiled(5, 512, EPIQ_PAD_ROWS_ZERO, 128);
}

static void S41_padding_columns(void **state)
{
    (void)state;
    tiled(3, 464, EPIQ_PAD_ROWS_ZERO, 128); /* 29 groups, 32 stored */
    tiled(3, 464, EPIQ_PAD_ROWS_KEEP, 128);
}

static void S42_padding_of_mxfp8(void **state)
{
    (void)state;
    enum { M = 5, H = 160 }; /* 5 groups, 8 stored */
    uint16_t x[M * H];
    fill_bf16(x, COUNT(x), 448);
    epiq_output o = output(EPIQ_FORMAT_MXFP8);
    o.layout = EPIQ_LAYOUT_TILE128X4;
    quantize(BF16, x, M, H, &o);
    expect_all(codes, M * H, 0x7e);
    for (int m = 0; m < 128; m++)
        for (int k = 0; k < 8; k++)
            assert_int_equal(scales[in_tile128x4(m, k, 2)], m < M && k < 5 ? 0x7f : 0);
    expect_all(scales + 1024, 64, 0x7f);
}

static void S43_compact_and_padded(void **state)
{
    (void)state;
    static uint16_t x[64 * 64];
    corpus(x, COUNT(x), 43);
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(BF16, x, 64, 64)};
    epiq_output o = output(EPIQ_FORMAT_MXFP8);
    epiq_sizes z = {.struct_size = sizeof z};
    must_be_ok(epiq_check_quantize(&a, &o, NULL, &z));
    assert_int_equal(z.scale_shape[0], 64);
    assert_int_equal(z.scale_shape[1], 2);
    assert_int_equal(z.scale_bytes, 128);
    quantize(BF16, x, 64, 64, &o);
    uint8_t compact[128];
    memcpy(compact, scales, sizeof compact);
    o.layout = EPIQ_LAYOUT_TILE128X4;
    must_be_ok(epiq_check_quantize(&a, &o, NULL, &z));
    assert_int_equal(z.scale_shape[0], 128);
    assert_int_equal(z.scale_shape[1], 4);
    assert_int_equal(z.scale_bytes, 512);
    quantize(BF16, x, 64, 64, &o);
    for (int m = 0; m < 64; m++)
        for (int k = 0; k < 2; k++)
            assert_int_equal(scales[in_tile128x4(m, k, 1)], compact[2 * m + k]);
}

static void S44_linear_is_swizzled_unswizzled(void **state)
{
    (void)state;
    enum { M = 130, H = 208 }; /* 13 groups, 16 stored */
    static uint16_t x[M * H];
    static uint8_t linear[M * 13], linear_codes[M * H / 2];
    corpus(x, COUNT(x), 44);
    const float gs = 30;
    epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &gs);
    o.layout = EPIQ_LAYOUT_LINEAR;
    quantize(BF16, x, M, H, &o);
    memcpy(linear, scales, sizeof linear);
    memcpy(linear_codes, codes, sizeof linear_codes);
    o.layout = EPIQ_LAYOUT_TILE128X4;
    quantize(BF16, x, M, H, &o);
    assert_memory_equal(codes, linear_codes, sizeof linear_codes);
    for (int m = 0; m < M; m++)
        for (int k = 0; k < 13; k++)
            assert_int_equal(scales[in_tile128x4(m, k, 4)], linear[13 * m + k]);
}

/* M 5, 2 groups, columns of round_up(5, 4) = 8 floats: the scale of (r, g) is float 8 g + r. */
static void S45_leading_dimension_of_columns(void **state)
{
    (void)state;
    enum { M = 5, H = 256 };
    uint16_t x[M * H];
    memset(x, 0, sizeof x);
    for (int r = 0; r < M; r++)
        for (int g = 0; g < 2; g++)
            x[r * H + g * 128 + 7] = bf16(ldexpf(448, r + 8 * g));
    for (int pad = EPIQ_PAD_ROWS_ZERO; pad <= EPIQ_PAD_ROWS_KEEP; pad++) {
        epiq_output o = output(EPIQ_FORMAT_E4M3);
        o.grain = EPIQ_GRAIN_GROUP;
        o.group = 128;
        o.layout = EPIQ_LAYOUT_COL_ALIGNED;
        o.pad_rows = (epiq_pad_rows)pad;
        quantize(BF16, x, M, H, &o);
        for (int g = 0; g < 2; g++)
            for (int r = 0; r < 8; r++)
                expect_bits(scale_at(8 * g + r), r < M                       ? (uint32_t)(127 + r + 8 * g) << 23
                                                 : pad == EPIQ_PAD_ROWS_ZERO ? 0
                                                                             : 0x7f7f7f7f);
        expect_all(scales + 64, 64, 0x7f);
    }
}

/* A scale of one element is not enough for groups: the check says what is, and no more is written. */
static void S46_bytes_of_group_scales(void **state)
{
    (void)state;
    uint16_t x[512];
    fill_bf16(x, 512, 448);
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(BF16, x, 1, 512)};
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    o.grain = EPIQ_GRAIN_GROUP;
    o.group = 64;
    epiq_sizes z = {.struct_size = sizeof z};
    must_be_ok(epiq_check_quantize(&a, &o, NULL, &z));
    assert_int_equal(z.scale_bytes, 8 * 4);
    must_be_ok(epiq_quantize(&a, &o, &where));
    for (int i = 0; i < 8; i++)
        expect_bits(scale_at(i), 0x3f800000);
    expect_all(scales + 8 * 4, 64, 0x7f);
}

static void S48_equal_shapes_fused_and_not(void **state)
{
    (void)state;
    static const epiq_layout layouts[] = {EPIQ_LAYOUT_ROW, EPIQ_LAYOUT_TILE128X4, EPIQ_LAYOUT_TILE8X4};
    for (size_t i = 0; i < COUNT(layouts); i++) {
        epiq_act_mul_args a = act_mul_args(BF16, NULL, 200, 2 * 160);
        epiq_quantize_args q = {.struct_size = sizeof q, .x = matrix(BF16, NULL, 200, 160)};
        epiq_rms_norm_args n = rms_norm_args(BF16, NULL, 200, 160, NULL);
        epiq_output o = output(EPIQ_FORMAT_MXFP8);
        o.layout = layouts[i];
        epiq_sizes x = {.struct_size = sizeof x}, y = x, z = x;
        must_be_ok(epiq_check_act_mul(&a, &o, NULL, &x));
        must_be_ok(epiq_check_quantize(&q, &o, NULL, &y));
        must_be_ok(epiq_check_rms_norm(&n, &o, NULL, &z));
        assert_memory_equal(&x, &y, sizeof x);
        assert_memory_equal(&x, &z, sizeof x);
    }
}

/* The layout is what the argument says, whatever runs it: the same array as from `c`. */
static void S49_layout_of_every_backend(void **state)
{
    (void)state;
    enum { M = 9, H = 288, BYTES = 8192 };
    uint16_t x[M * H];
    uint8_t of_c[BYTES];
    const epiq_exec c = {.struct_size = sizeof c, .backend = EPIQ_BACKEND_C};
    corpus(x, COUNT(x), 49);
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(BF16, x, M, H)};
    for (int format = EPIQ_FORMAT_E4M3; format <= check_last("format"); format++)
        for (int layout = EPIQ_LAYOUT_ROW; layout <= check_last("layout"); layout++) {
            epiq_output o = output((epiq_format)format);
            o.layout = (epiq_layout)layout;
            o.grain = format == EPIQ_FORMAT_E4M3 || format == EPIQ_FORMAT_E5M2 ? EPIQ_GRAIN_GROUP : 0;
            o.group = o.grain != 0 ? 32 : 0;
            o.inv_scale = format == EPIQ_FORMAT_NVFP4 ? &one : NULL;
            epiq_sizes z = {.struct_size = sizeof z};
            if (epiq_check_quantize(&a, &o, NULL, &z) != EPIQ_OK)
                continue;
            assert_true(z.scale_bytes + 64 <= BYTES);
            must_be_ok(epiq_quantize(&a, &o, &c));
            memcpy(of_c, scales, BYTES);
            memset(scales, 0x7f, sizeof scales);
            must_be_ok(epiq_quantize(&a, &o, &where));
            assert_memory_equal(scales, of_c, BYTES);
        }
}

static void S4B_physical_shape(void **state)
{
    (void)state;
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(BF16, NULL, 130, 192)}; /* 6 blocks of 32 */
    epiq_output o = output(EPIQ_FORMAT_MXFP4);
    o.layout = EPIQ_LAYOUT_TILE128X4;
    epiq_sizes z = {.struct_size = sizeof z};
    must_be_ok(epiq_check_quantize(&a, &o, NULL, &z));
    assert_int_equal(z.groups, 6);
    assert_int_equal(z.scale_shape[0], 256);
    assert_int_equal(z.scale_shape[1], 8);
    assert_int_equal(z.scale_bytes, 2048);
}

/* ---- G. Strides, alignment, aliasing ---- */

static void S60_dense_output_of_strided_input(void **state)
{
    (void)state;
    static float x[64 * 200];
    for (int r = 0; r < 64; r++)
        for (int c = 0; c < 200; c++)
            x[200 * r + c] = c < 128 ? e4m3_value((unsigned)(r + c) % 0x7f) : NAN;
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(F32, x, 64, 128)};
    a.x.row_stride = 200 * 4;
    epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
    must_be_ok(epiq_quantize(&a, &o, &where));
    for (int r = 0; r < 64; r++)
        for (int c = 0; c < 128; c++)
            assert_int_equal(codes[128 * r + c], (r + c) % 0x7f);
    expect_all(codes + 64 * 128, 64, 0xaa);
}

static void S61_slice_of_a_fused_projection(void **state)
{
    (void)state;
    enum { M = 7, H = 128 };
    uint16_t big[M * 3 * H], dense[M * H], w[H];
    uint8_t expected[M * H], expected_scales[M * 4];
    corpus(big, COUNT(big), 61);
    corpus(w, COUNT(w), 62);
    for (int r = 0; r < M; r++)
        memcpy(dense + r * H, big + r * 3 * H + H, H * 2);
    epiq_rms_norm_args a = rms_norm_args(BF16, dense, M, H, w);
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    must_be_ok(epiq_rms_norm(&a, &o, &where));
    memcpy(expected, codes, sizeof expected);
    memcpy(expected_scales, scales, sizeof expected_scales);
    a.x.data = big + H;
    a.x.row_stride = 3 * H * 2;
    o = output(EPIQ_FORMAT_E4M3);
    must_be_ok(epiq_rms_norm(&a, &o, &where));
    assert_memory_equal(expected, codes, sizeof expected);
    assert_memory_equal(expected_scales, scales, sizeof expected_scales);
}

static void S64_residual_in_place(void **state)
{
    (void)state;
    enum { M = 3, H = 80 };
    uint16_t x[M * H], r[M * H], sum[M * H], w[H], y[M * H], x_and_y[M * H];
    uint8_t expected[M * H];
    corpus(x, COUNT(x), 64);
    corpus(r, COUNT(r), 65);
    corpus(w, COUNT(w), 66);
    memcpy(x_and_y, x, sizeof x);
    epiq_rms_norm_args a = rms_norm_args(BF16, x, M, H, w);
    a.residual = r;
    a.residual_out = sum;
    a.y_out = y;
    epiq_output o = output(EPIQ_FORMAT_E4M3);
    must_be_ok(epiq_rms_norm(&a, &o, &where));
    memcpy(expected, codes, sizeof expected);
    a.x.data = x_and_y;
    a.residual_out = r;
    a.y_out = x_and_y;
    o = output(EPIQ_FORMAT_E4M3);
    must_be_ok(epiq_rms_norm(&a, &o, &where));
    assert_memory_equal(expected, codes, sizeof expected);
    assert_memory_equal(sum, r, sizeof r);
    assert_memory_equal(y, x_and_y, sizeof y);
}

static void S65_input_is_read_before_it_is_written(void **state)
{
    (void)state;
    float x[4] = {1, 0, 0, 0};
    const float w[4] = {1, 1, 1, 1};
    epiq_rms_norm_args a = rms_norm_args(F32, x, 1, 4, w);
    a.eps = 1e-4f;
    a.y_out = x;
    must_be_ok(epiq_rms_norm(&a, NULL, &where));
    expect_bits(x[0], 0x3ffff2e7); /* 1 / sqrt(0.25 + 1e-4) */
    for (int i = 1; i < 4; i++)
        expect_bits(x[i], 0);
}

/* 1.5 + 2.25 once, whatever else is written. */
static void S66_residual_is_stored_in_every_variant(void **state)
{
    (void)state;
    enum { M = 2, H = 64 };
    static const epiq_format formats[] = {EPIQ_FORMAT_E4M3,  EPIQ_FORMAT_E5M2,  EPIQ_FORMAT_INT8,
                                          EPIQ_FORMAT_MXFP8, EPIQ_FORMAT_MXFP4, EPIQ_FORMAT_NVFP4};
    uint16_t x[M * H], r[M * H], w[H], y[M * H];
    fill_bf16(x, M * H, 1.5f);
    fill_bf16(w, H, 1);
    int ran = 0;
    for (size_t i = 0; i <= COUNT(formats); i++)
        for (int variant = 0; variant < 4; variant++) {
            epiq_rms_norm_args a = rms_norm_args(BF16, x, M, H, w);
            fill_bf16(r, M * H, 2.25f);
            a.residual = a.residual_out = r;
            a.chain = (epiq_chain)(EPIQ_CHAIN_VLLM + variant);
            a.y_out = variant & 1 || i == COUNT(formats) ? y : NULL;
            epiq_output o = output(i < COUNT(formats) ? formats[i] : EPIQ_FORMAT_E4M3);
            if (o.format == EPIQ_FORMAT_NVFP4)
                o.inv_scale_out = &second_level;
            epiq_status status = epiq_rms_norm(&a, i < COUNT(formats) ? &o : NULL, &where);
            if (status == EPIQ_ERROR_UNSUPPORTED)
                continue;
            assert_string_equal(epiq_word(status), "ok");
            for (int k = 0; k < M * H; k++)
                assert_int_equal(r[k], 0x4070); /* 3.75 */
            ran++;
        }
    assert_true(ran >= 12);
}

static void S67_no_residual(void **state)
{
    (void)state;
    enum { M = 2, H = 40 };
    uint16_t x[M * H], zero[M * H], w[H], without[M * H], with[M * H];
    corpus(x, COUNT(x), 67);
    corpus(w, COUNT(w), 68);
    memset(zero, 0, sizeof zero);
    epiq_rms_norm_args a = rms_norm_args(BF16, x, M, H, w);
    a.y_out = without;
    must_be_ok(epiq_rms_norm(&a, NULL, &where));
    a.residual = zero;
    a.y_out = with;
    must_be_ok(epiq_rms_norm(&a, NULL, &where));
    assert_memory_equal(without, with, sizeof with);
}

static void S69_unaligned(void **state)
{
    (void)state;
    enum { H = 12 };
    static uint16_t x[2 * H + 1];
    fill_bf16(x + 1, H, 3);
    fill_bf16(x + 1 + H, H, -2);
    for (int offset = 0; offset < 16; offset++) {
        epiq_act_mul_args a = act_mul_args(BF16, x + 1, 1, 2 * H); /* 2 bytes off */
        epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
        o.codes_out = codes + offset;
        must_be_ok(epiq_act_mul(&a, &o, &where));
        expect_all(codes, (size_t)offset, 0xaa);
        expect_all(codes + offset, H, 0xcb); /* silu(3) * -2 = -5.72 */
        expect_all(codes + offset + H, 32, 0xaa);
    }
}

/* ---- H. Dtypes and weights ---- */

/* x 1, weight 0.5 and 2 in turn as fp32: read as bf16 it would be 0, 0.5, 0, 2. */
static void fp32_weight(epiq_output o, const char *expected_codes, const char *expected_scales)
{
    enum { M = 2, H = 5120 };
    static uint16_t x[M * H], y[M * H];
    static float w[H];
    static uint8_t fused[M * H];
    fill_bf16(x, M * H, 1);
    for (int i = 0; i < H; i++)
        w[i] = i % 2 == 0 ? 0.5f : 2.0f;
    epiq_rms_norm_args a = rms_norm_args(BF16, x, M, H, w);
    a.weight_dtype = F32;
    must_be_ok(epiq_rms_norm(&a, &o, &where));
    expect(codes, expected_codes);
    expect(scales, expected_scales);
    size_t bytes = o.format == EPIQ_FORMAT_NVFP4 ? M * H / 2 : M * H;
    memcpy(fused, codes, bytes);
    a.y_out = y;
    must_be_ok(epiq_rms_norm(&a, NULL, &where));
    for (int i = 0; i < M * H; i++)
        assert_int_equal(y[i], i % 2 == 0 ? 0x3f00 : 0x4000);
    quantize(BF16, y, M, H, &o); /* S71: it is the chain of norm, bf16, quantizer */
    assert_memory_equal(fused, codes, bytes);
}

static void S70_S71_fp32_weight_of_bf16(void **state)
{
    (void)state;
    fp32_weight(by_inv_scale(EPIQ_FORMAT_E4M3, &one), "30 40 30 40 30 40", "7f");
    fp32_weight(by_inv_scale(EPIQ_FORMAT_NVFP4, &one), "73 73 73 73", "2b 2b 2b"); /* scale 0.34375 */
}

/* x = (1, 0): 1.41421 times 1 + 2^-8. */
static void S72_offset_is_added_in_fp32(void **state)
{
    (void)state;
    const uint16_t x[2] = {bf16(1), 0}, w[2] = {bf16(0.00390625f), 0};
    uint16_t y[2];
    epiq_rms_norm_args a = rms_norm_args(BF16, x, 1, 2, w);
    a.weight_bias = 1;
    a.y_out = y;
    must_be_ok(epiq_rms_norm(&a, NULL, &where));
    assert_int_equal(y[0], 0x3fb6); /* 0x3fb5 if 1 + w were 1 */
}

static void S73_offset_once(void **state)
{
    (void)state;
    enum { M = 2, H = 48 };
    uint16_t x[M * H], w[H], plain[M * H], gemma[M * H];
    corpus(x, COUNT(x), 73);
    fill_bf16(w, H, 1);
    epiq_rms_norm_args a = rms_norm_args(BF16, x, M, H, w);
    for (int chain = EPIQ_CHAIN_FLASHINFER; chain <= EPIQ_CHAIN_DIRECT; chain++) {
        a.chain = (epiq_chain)chain;
        fill_bf16(w, H, 1);
        a.weight_bias = 0;
        a.y_out = plain;
        must_be_ok(epiq_rms_norm(&a, NULL, &where));
        fill_bf16(w, H, 0);
        a.weight_bias = 1;
        a.y_out = gemma;
        must_be_ok(epiq_rms_norm(&a, NULL, &where));
        assert_memory_equal(plain, gemma, sizeof plain);
    }
}

/* A combination is offered or refused for all dtypes alike, and all of them give the same codes of the same values. */
static void S75_every_dtype(void **state)
{
    (void)state;
    static const float x32[4] = {1, -0.5f, 384, 0};
    static const uint16_t x16[4] = {0x3c00, 0xb800, 0x5e00, 0}, xb16[4] = {0x3f80, 0xbf00, 0x43c0, 0};
    const struct {
        epiq_dtype dtype;
        const void *x;
    } cases[] = {{F32, x32}, {F16, x16}, {BF16, xb16}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
        quantize(cases[i].dtype, cases[i].x, 1, 4, &o);
        expect(codes, "38 b0 7c 00");
    }
    for (int format = EPIQ_FORMAT_E4M3; format <= check_last("format"); format++) {
        epiq_status status[3];
        for (size_t i = 0; i < COUNT(cases); i++) {
            epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix(cases[i].dtype, NULL, 4, 64)};
            epiq_output o = output((epiq_format)format);
            o.inv_scale_out = format == EPIQ_FORMAT_NVFP4 ? &second_level : NULL;
            status[i] = epiq_check_quantize(&a, &o, NULL, NULL);
        }
        assert_int_equal(status[0], status[1]);
        assert_int_equal(status[0], status[2]);
    }
}

static void S76_half_is_not_bf16(void **state)
{
    (void)state;
    const uint16_t x[2] = {0x3c00, 0x3c00};
    epiq_act_mul_args a = act_mul_args(F16, x, 1, 2);
    a.act = EPIQ_ACT_IDENTITY;
    epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
    must_be_ok(epiq_act_mul(&a, &o, &where));
    expect(codes, "38");
}

/* fp16 x and residual, fp32 weight, H 80: h = 2, y = 2, five block scales of 1/3 rounded to 0x2b. */
static void S77_mixed_dtypes_and_80_columns(void **state)
{
    (void)state;
    enum { M = 3, H = 80 };
    uint16_t x[M * H], r[M * H];
    float w[H];
    for (int i = 0; i < M * H; i++)
        x[i] = r[i] = 0x3c00;
    for (int i = 0; i < H; i++)
        w[i] = 2;
    epiq_rms_norm_args a = rms_norm_args(F16, x, M, H, w);
    a.weight_dtype = F32;
    a.residual = a.residual_out = r;
    epiq_output o = by_inv_scale(EPIQ_FORMAT_NVFP4, &one);
    o.layout = EPIQ_LAYOUT_TILE128X4;
    must_be_ok(epiq_rms_norm(&a, &o, &where));
    expect_all(codes, M * H / 2, 0x77);
    for (int i = 0; i < M * H; i++)
        assert_int_equal(r[i], 0x4000);
    for (int m = 0; m < 128; m++)
        for (int k = 0; k < 8; k++)
            assert_int_equal(scales[in_tile128x4(m, k, 2)], m < M && k < 5 ? 0x2b : 0);
    a.weight_dtype = BF16; /* neither fp32 nor the dtype of x */
    assert_string_equal(epiq_word(epiq_rms_norm(&a, &o, &where)), "conflict");
}

/* ---- I. Activations ---- */

static float act_mul_one(float gate, float up, const epiq_act_mul_args *how)
{
    const float x[2] = {gate, up};
    float y = NAN;
    epiq_act_mul_args a = *how;
    a.struct_size = sizeof a;
    a.x = matrix(F32, x, 1, 2);
    a.y_out = &y;
    must_be_ok(epiq_act_mul(&a, NULL, &where));
    return y;
}

static void near_to(float got, double exact, double relative)
{
    if (!(fabs((double)got - exact) <= fabs(exact) * relative))
        fail_msg("%.9g is not near to %.9g", (double)got, exact);
}

static void S80_limit_takes_effect(void **state)
{
    (void)state;
    near_to(act_mul_one(20, 20, &(epiq_act_mul_args){.limit = 7}), 48.95535849147437, 1e-6);
    expect_bits(act_mul_one(20, 20, &(epiq_act_mul_args){.limit_after = 7}), 0x42440000); /* 7 * 7 */
    near_to(act_mul_one(20, 20, &(epiq_act_mul_args){.limit = 0}), 400, 1e-6);
    near_to(act_mul_one(20, -20, &(epiq_act_mul_args){.limit = 7}), -48.95535849147437, 1e-6);
    near_to(act_mul_one(-20, 20, &(epiq_act_mul_args){.limit = 7}), -20 / (1 + exp(20)) * 7, 1e-6); /* no lower one */
    near_to(act_mul_one(20, 20, &(epiq_act_mul_args){.limit = 7, .alpha = 1.702f, .up_offset = 1}),
            7 / (1 + exp(-7 * (double)1.702f)) * 8, 1e-6);
    static const uint16_t gates[2] = {0x4d00, 0x41a0}; /* 20 in fp16 and bf16 */
    for (int i = 0; i < 2; i++) {
        uint16_t x[2] = {gates[i], gates[i]}, y[1];
        epiq_act_mul_args a = act_mul_args(i == 0 ? F16 : BF16, x, 1, 2);
        a.limit_after = 7;
        a.y_out = y;
        must_be_ok(epiq_act_mul(&a, NULL, &where));
        assert_int_equal(y[0], i == 0 ? 0x5220 : 0x4244); /* 49 */
    }
}

static void S81_two_limits(void **state)
{
    (void)state;
    near_to(act_mul_one(10, 1, &(epiq_act_mul_args){.limit = 7}), 6.993622641639196, 1e-6);
    expect_bits(act_mul_one(10, 1, &(epiq_act_mul_args){.limit_after = 7}), 0x40e00000);
    epiq_act_mul_args both = act_mul_args(F32, NULL, 1, 2);
    both.limit = both.limit_after = 7;
    float y;
    both.y_out = &y;
    assert_string_equal(epiq_word(epiq_check_act_mul(&both, NULL, NULL, NULL)), "conflict");
}

static void S82_order_of_halves(void **state)
{
    (void)state;
    const uint16_t x[2] = {bf16(3), bf16(-2)};
    static const struct {
        epiq_order order;
        uint16_t y;
        uint8_t code;
    } cases[] = {{EPIQ_ORDER_GATE_UP, 0xc0b7, 0xcb}, /* silu(3) * -2 = -5.71875 */
                 {EPIQ_ORDER_UP_GATE, 0xbf37, 0xb3}, /* silu(-2) * 3 = -0.71484375 */
                 {EPIQ_ORDER_INTERLEAVED, 0xc0b7, 0xcb}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint16_t y;
        epiq_act_mul_args a = act_mul_args(BF16, x, 1, 2);
        a.order = cases[i].order;
        a.y_out = &y;
        epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
        must_be_ok(epiq_act_mul(&a, &o, &where));
        assert_int_equal(y, cases[i].y);
        assert_int_equal(codes[0], cases[i].code);
    }
}

static void S83_two_gelus(void **state)
{
    (void)state;
    near_to(act_mul_one(-3, 1, &(epiq_act_mul_args){.act = EPIQ_ACT_GELU_ERF}), -0.004049694094890287, 1e-6);
    near_to(act_mul_one(-3, 1, &(epiq_act_mul_args){.act = EPIQ_ACT_GELU_TANH}), -0.0036373920817729943, 2e-6);
}

static void S84_deep_tail_of_silu(void **state)
{
    (void)state;
    const epiq_act_mul_args plain = {.chain = EPIQ_CHAIN_DIRECT};
    near_to(act_mul_one(-88, 1, &plain), -5.328049667953044e-37, 1e-5);
    near_to(act_mul_one(-88, 1e30f, &plain), -5.328049667953045e-07, 1e-5);
    near_to(act_mul_one(-89, 1, &plain), -1.982353569998212e-37, 1e-5);
    near_to(act_mul_one(-89, 1e30f, &plain), -1.982353569998212e-07, 1e-5);
    near_to(act_mul_one(-100, 1, &plain), -3.720075976020836e-42, 2e-2); /* a subnormal, not 0 */
    near_to(act_mul_one(-100, 1e30f, &plain), -3.720075976020836e-12, 2e-2);
    expect_bits(act_mul_one(-INFINITY, 1, &plain), 0x80000000);
    expect_bits(act_mul_one(-INFINITY, 1e30f, &plain), 0x80000000);
    for (float gate = -200; gate <= 0; gate += 0.25f) {
        float y = act_mul_one(gate, 1e30f, &plain);
        assert_true(!isnan(y) && (signbit(y) != 0) == (gate != 0));
    }
}

static void S85_padding_inside_each_half(void **state)
{
    (void)state;
    enum { H = 200, P = 256 };
    uint16_t x[2 * H];
    fill_bf16(x, H, -2); /* up */
    fill_bf16(x + H, H, 3);
    epiq_act_mul_args a = act_mul_args(BF16, x, 1, 2 * H);
    a.order = EPIQ_ORDER_UP_GATE;
    a.limit = 7;
    epiq_output o = by_scale(EPIQ_FORMAT_E4M3, &one);
    o.padded_cols = P;
    must_be_ok(epiq_act_mul(&a, &o, &where));
    expect_all(codes, H, 0xcb);
    expect_all(codes + H, P - H, 0);
    expect_all(codes + P, 64, 0xaa);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(S01_saturating_cast),
    cmocka_unit_test(S02_beyond_calibration),
    cmocka_unit_test(S03_nan_and_infinity_token),
    cmocka_unit_test(S03_nan_and_infinity_group),
    cmocka_unit_test(S04_nan_in_mxfp8),
    cmocka_unit_test(S04_nan_in_mxfp4),
    cmocka_unit_test(S04_nan_in_nvfp4),
    cmocka_unit_test(S05_sign_of_zero_e4m3),
    cmocka_unit_test(S05_sign_of_zero_e2m1),
    cmocka_unit_test(S06_every_midpoint),
    cmocka_unit_test(S07_largest_number_of_the_format),
    cmocka_unit_test(S08_smallest_scales),
    cmocka_unit_test(S09_nan_through_the_activation),
    cmocka_unit_test(S10_zero_row),
    cmocka_unit_test(S10_zero_group),
    cmocka_unit_test(S11_zero_row_beside_others),
    cmocka_unit_test(S12_zero_row_nvfp4),
    cmocka_unit_test(S13_second_level_of_zeros),
    cmocka_unit_test(S14_tiny_amax),
    cmocka_unit_test(S14_tiny_amax_group),
    cmocka_unit_test(S15_block_scale_at_the_tie),
    cmocka_unit_test(S16_bound_and_floor),
    cmocka_unit_test(S20_ties_of_e2m1),
    cmocka_unit_test(S20_ties_of_e2m1_mx),
    cmocka_unit_test(S21_reciprocal_not_quotient),
    cmocka_unit_test(S22_block_scale_is_rounded_to_even),
    cmocka_unit_test(S23_rounding_of_the_intermediate_token),
    cmocka_unit_test(S23_rounding_of_the_intermediate_group),
    cmocka_unit_test(S24_accuracy_of_silu),
    cmocka_unit_test(S25_what_the_variance_sees),
    cmocka_unit_test(S26_cast_before_or_after_the_weight),
    cmocka_unit_test(S29_small_hidden_sizes),
    cmocka_unit_test(S30_scale_is_rounded_first),
    cmocka_unit_test(S31_exact_powers_of_two),
    cmocka_unit_test(S32_power_of_two_scales_behind_a_norm),
    cmocka_unit_test(S33_ends_of_e8m0),
    cmocka_unit_test(S34_second_level_multiplies),
    cmocka_unit_test(S35_rule_of_the_exponent),
    cmocka_unit_test(S36_grain_is_an_argument),
    cmocka_unit_test(S40_padding_rows),
    cmocka_unit_test(S41_padding_columns),
    cmocka_unit_test(S42_padding_of_mxfp8),
    cmocka_unit_test(S43_compact_and_padded),
    cmocka_unit_test(S44_linear_is_swizzled_unswizzled),
    cmocka_unit_test(S45_leading_dimension_of_columns),
    cmocka_unit_test(S46_bytes_of_group_scales),
    cmocka_unit_test(S48_equal_shapes_fused_and_not),
    cmocka_unit_test(S49_layout_of_every_backend),
    cmocka_unit_test(S4B_physical_shape),
    cmocka_unit_test(S60_dense_output_of_strided_input),
    cmocka_unit_test(S61_slice_of_a_fused_projection),
    cmocka_unit_test(S64_residual_in_place),
    cmocka_unit_test(S65_input_is_read_before_it_is_written),
    cmocka_unit_test(S66_residual_is_stored_in_every_variant),
    cmocka_unit_test(S67_no_residual),
    cmocka_unit_test(S69_unaligned),
    cmocka_unit_test(S70_S71_fp32_weight_of_bf16),
    cmocka_unit_test(S72_offset_is_added_in_fp32),
    cmocka_unit_test(S73_offset_once),
    cmocka_unit_test(S75_every_dtype),
    cmocka_unit_test(S76_half_is_not_bf16),
    cmocka_unit_test(S77_mixed_dtypes_and_80_columns),
    cmocka_unit_test(S80_limit_takes_effect),
    cmocka_unit_test(S81_two_limits),
    cmocka_unit_test(S82_order_of_halves),
    cmocka_unit_test(S83_two_gelus),
    cmocka_unit_test(S84_deep_tail_of_silu),
    cmocka_unit_test(S85_padding_inside_each_half),
};

int main(void)
{
    size_t count;
    const epiq_backend *backends = check_backends(&count);
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        where.backend = backends[i];
        failed += _cmocka_run_group_tests(epiq_word(backends[i]), tests, COUNT(tests), NULL, NULL);
    }
    return failed != 0;
}
