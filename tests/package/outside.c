/* outside.c: a program outside the project that uses an installed epiq: both examples of epiq.h on the CPU, with
 * numbers whose answers are plain.
 * SPDX-License-Identifier: Apache-2.0 */
#include <epiq/epiq.h>

#include <stdio.h>
#include <string.h>

static int failures;

static void expect(const char *what, int64_t found, int64_t wanted)
{
    if (found != wanted) {
        printf("%s: found 0x%llx, wanted 0x%llx\n", what, (long long)found, (long long)wanted);
        failures++;
    }
}

/* SwiGLU to e4m3: gates so large that silu(gate) is the gate, or 0. */
static void example_a(void)
{
    enum { N = 1, H = 5 };
    const uint16_t x[N][2 * H] = {{0x4280, 0x4280, 0xc2c8, 0x0000, 0x7fc0,   /* gates 64, 64, -100, 0, NaN */
                                   0x3f80, 0x42c8, 0x3f80, 0x3f80, 0x3f80}}; /* ups 1, 100, 1, 1, 1 */
    const float s = 0.5f;
    uint8_t q[N][H];
    memset(q, 0xee, sizeof q);
    epiq_act_mul_args a = {.struct_size = sizeof a,
                           .x = {.data = x, .rows = N, .cols = 2 * H, .dtype = EPIQ_DTYPE_BF16},
                           .chain = EPIQ_CHAIN_DIRECT};
    epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = q, .inv_scale = &s};
    epiq_exec e = {.struct_size = sizeof e};
    expect("A: status", epiq_act_mul(&a, &o, &e), EPIQ_OK);
    expect("A: 64 * 0.5 = 2^5", q[0][0], 0x60);
    expect("A: 6400 * 0.5 saturates", q[0][1], 0x7e);
    expect("A: silu(-100) is a small negative number", q[0][2], 0x80);
    expect("A: zero", q[0][3], 0x00);
    expect("A: NaN", q[0][4], 0x7f);
}

/* Residual add and RMSNorm to NVFP4: every h is 2 or -2, so every y is 1 or -1. */
static void example_b(void)
{
    enum { M = 2, H = 16 };
    uint16_t x[M][H], r[M][H], w[H], y[M][H];
    uint8_t q[M][H / 2], sf[128 * 4];
    const float gs = 448 * 6; /* 448 * 6 / amax */
    for (int c = 0; c < H; c++) {
        for (int row = 0; row < M; row++)
            x[row][c] = r[row][c] = c % 2 == 0 ? 0x3f80 : 0xbf80; /* 1, -1 */
        w[c] = 0;
    }
    memset(q, 0xee, sizeof q);
    memset(sf, 0xee, sizeof sf);
    epiq_rms_norm_args a = {.struct_size = sizeof a,
                            .eps = 1e-6f,
                            .x = {.data = x, .rows = M, .cols = H, .dtype = EPIQ_DTYPE_BF16},
                            .residual = r,
                            .residual_out = r,
                            .weight = w,
                            .weight_bias = 1,
                            .y_out = y};
    epiq_output o = {.struct_size = sizeof o,
                     .format = EPIQ_FORMAT_NVFP4,
                     .layout = EPIQ_LAYOUT_TILE128X4,
                     .codes_out = q,
                     .scale_out = sf,
                     .inv_scale = &gs};
    epiq_exec e = {.struct_size = sizeof e};
    epiq_sizes z = {.struct_size = sizeof z};
    expect("B: status of the check", epiq_check_rms_norm(&a, &o, &e, &z), EPIQ_OK);
    expect("B: bytes of codes", z.codes_bytes, sizeof q);
    expect("B: bytes of scales", z.scale_bytes, sizeof sf);
    expect("B: offset of row 1", epiq_scale_offset(&z, 1, 0), 16);
    expect("B: status", epiq_rms_norm(&a, &o, &e), EPIQ_OK);
    for (int row = 0; row < M; row++) {
        expect("B: block scale 448", sf[16 * row], 0x7e);
        expect("B: codes of 6 and -6", q[row][0], 0xf7);
        expect("B: last codes", q[row][H / 2 - 1], 0xf7);
        expect("B: y", y[row][0], 0x3f80);
        expect("B: y", y[row][1], 0xbf80);
        expect("B: residual", r[row][0], 0x4000);
    }
    expect("B: padding", sf[1], 0x00);
    expect("B: padding row", sf[127 / 32 * 4 + 127 % 32 * 16], 0x00);
}

int main(void)
{
    expect("version", epiq_version(), EPIQ_VERSION);
    expect("revision", epiq_spec_revision(), EPIQ_SPEC_REVISION);
    example_a();
    example_b();
    if (failures == 0)
        printf("both examples gave the bytes expected of them\n");
    return failures != 0;
}
