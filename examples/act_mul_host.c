/* act_mul_host.c: example A of epiq.h on the CPU: SwiGLU of bf16 [n, 2h] to e4m3 [n, h] with a static multiplier.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     cc act_mul_host.c $(pkg-config --cflags --libs epiq) -o act_mul_host && ./act_mul_host */
#include <epiq/epiq.h>

#include <stdio.h>
#include <string.h>

enum { N = 2, H = 8 };

/* Exact for the numbers below, which bf16 can hold. */
static uint16_t bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

int main(void)
{
    static uint16_t x[N][2 * H]; /* a row: H gates, then H ups */
    uint8_t q[N][H];
    const float s = 16;
    for (int r = 0; r < N; r++)
        for (int c = 0; c < H; c++) {
            x[r][c] = bf16((float)(c - 4));
            x[r][H + c] = bf16((float)(r + 1));
        }

    epiq_act_mul_args a = {.struct_size = sizeof a,
                           .x = {.data = x, .rows = N, .cols = 2 * H, .dtype = EPIQ_DTYPE_BF16},
                           .chain = EPIQ_CHAIN_DIRECT};
    epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = q, .inv_scale = &s};
    epiq_status status = epiq_act_mul(&a, &o, NULL);
    if (status != EPIQ_OK) {
        char why[512];
        epiq_explain_act_mul(&a, &o, NULL, why, sizeof why);
        fprintf(stderr, "%s\n%s\n", epiq_status_string(status), why);
        return 1;
    }

    printf("codes of silu(gate) * up, value = code / %g\n", (double)s);
    for (int r = 0; r < N; r++) {
        for (int c = 0; c < H; c++)
            printf(" %02x", q[r][c]);
        printf("\n");
    }
    return 0;
}
