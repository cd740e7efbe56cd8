/* rms_norm_host.c: example B of epiq.h on the CPU: residual add and Gemma RMSNorm of bf16 [m, h] to NVFP4 with 128x4
 * scales, residual in place, y kept.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     cc rms_norm_host.c $(pkg-config --cflags --libs epiq) -o rms_norm_host && ./rms_norm_host */
#include <epiq/epiq.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 2, H = 32 };

/* Exact for the numbers below, which bf16 can hold. */
static uint16_t bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

int main(void)
{
    static uint16_t x[M][H], r[M][H], w[H], y[M][H];
    const float gs = 448 * 6 / 2.0f; /* 448 * 6 / amax, for an amax of 2 */
    for (int c = 0; c < H; c++) {
        for (int row = 0; row < M; row++) {
            x[row][c] = bf16((float)(c % 8 - 4));
            r[row][c] = bf16((float)(row * (c / 16)));
        }
        w[c] = bf16(0.25f);
    }

    epiq_rms_norm_args a = {.struct_size = sizeof a,
                            .eps = 1e-6f,
                            .x = {.data = x, .rows = M, .cols = H, .dtype = EPIQ_DTYPE_BF16},
                            .residual = r,
                            .residual_out = r,
                            .weight = w,
                            .weight_bias = 1,
                            .y_out = y};
    epiq_output o = {
        .struct_size = sizeof o, .format = EPIQ_FORMAT_NVFP4, .layout = EPIQ_LAYOUT_TILE128X4, .inv_scale = &gs};
    epiq_sizes z = {.struct_size = sizeof z};
    epiq_status status = epiq_check_rms_norm(&a, &o, NULL, &z); /* needs no buffers: they are allocated next */
    if (status == EPIQ_OK) {
        o.codes_out = malloc((size_t)z.codes_bytes);
        o.scale_out = malloc((size_t)z.scale_bytes);
        status = epiq_rms_norm(&a, &o, NULL);
    }
    if (status != EPIQ_OK) {
        char why[512];
        epiq_explain_rms_norm(&a, &o, NULL, why, sizeof why);
        fprintf(stderr, "%s\n%s\n", epiq_status_string(status), why);
        free(o.codes_out);
        free(o.scale_out);
        return 1;
    }

    const uint8_t *q = o.codes_out, *sf = o.scale_out;
    printf("%lld bytes of codes, %lld of scales\n", (long long)z.codes_bytes, (long long)z.scale_bytes);
    for (int64_t row = 0; row < z.rows; row++)
        for (int64_t group = 0; group < z.groups; group++) {
            printf("row %d group %d scale %02x codes", (int)row, (int)group, sf[epiq_scale_offset(&z, row, group)]);
            for (int64_t c = 0; c < 8; c++)
                printf(" %02x", q[row * z.codes_row_bytes + group * 8 + c]);
            printf("\n");
        }
    free(o.codes_out);
    free(o.scale_out);
    return 0;
}
