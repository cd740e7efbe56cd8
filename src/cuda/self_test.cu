/* self_test.cu: the hardware shortcuts of this GPU against the definition, for
 * every input they can get. SPDX-License-Identifier: Apache-2.0 */
extern "C" {
#include "core/backend.h"
}

#include "kernels.cuh"

#include <cuda_runtime_api.h>

/* What is compared; a count of differing inputs each. */
enum {
    GATES,
    E4M3,
    E5M2,
    BF16,
    F16,
    F16_VALUE,
    RCP,
    DIVISION,
    PRODUCT,
    E2M1,
    QUICK_SILU,
    QUOTIENT,
    RECIPROCAL,
    ROOT,
    PAIRS,
    TESTS
};

static const char *const test_names[TESTS] = {
    "activations of 16-bit gates",
    "e4m3 codes",
    "e5m2 codes",
    "bf16 codes",
    "f16 codes",
    "f16 values",
    "rcp~",
    "division by a scale",
    "products for quotients",
    "e2m1 codes",
    "silu by approximations",
    "quotients",
    "reciprocals",
    "square roots",
    "sums and products of 16-bit floats",
};

DEV void differ(unsigned long long *counts, int test, bool different)
{
    if (different)
        atomicAdd(&counts[test], 1ull);
}

/* Two results, NaN as NaN. */
DEV bool unlike(float a, float b)
{
    return vf_bits(a) != vf_bits(b) && !(vf_is_nan(a) && vf_is_nan(b));
}

static __global__ void test_gates(int quick, unsigned long long *counts)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; /* 2 * 65536 */
    const float g = i < 65536 ? vi_float(i << 16) : ar_f16_value(i & 0xffff);
    if (quick && i < 65536 && quick_pair(i * 0x10001u))
        differ(counts, QUICK_SILU, ar_bf16_code(cuda_quick_silu(g)) != ar_bf16_code(ar_silu(g, 1.0f, 0)));
    const float pairs[3][2] = {{ar_silu(g, 1.0f, 0), ar_silu(g, 1.0f, 1)},
                               {ar_gelu_tanh(g, 0), ar_gelu_tanh(g, 1)},
                               {ar_gelu_erf(g, 0), ar_gelu_erf(g, 1)}};
    for (int k = 0; k < 3; k++)
        differ(counts, GATES, unlike(pairs[k][0], pairs[k][1]));
}

/* What the compiler makes of a division, a reciprocal and a square root. */
DEV float div_rn(float a, float b)
{
    float r;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

DEV float rcp_rn(float a)
{
    float r;
    asm("rcp.rn.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

DEV float sqrt_rn(float a)
{
    float r;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

/* A code by the integer form that is not used here. */
DEV uint32_t portable(float x, int m, int emin, float max, int bits, uint32_t nan)
{
    return vf_is_nan(x) ? nan : ar_float_code(x, bits, m, emin, max);
}

static __global__ void test_floats(uint32_t base, int rcp, unsigned long long *counts)
{
    const uint32_t u = base + blockIdx.x * blockDim.x + threadIdx.x;
    const float x = vi_float(u);
#ifdef LANE_HAS_E4M3
    differ(counts, E4M3, ar_e4m3_round(x) != portable(x, 3, -6, 448.0f, 8, 0x7f));
    differ(counts, E5M2, ar_e5m2_round(x) != portable(x, 2, -14, 57344.0f, 8, 0x7f));
#endif
    differ(counts, F16, ar_f16_code(x) != portable(x, 10, -14, 0x1p16f, 16, 0x7fff));
    const uint32_t bf16 = vf_is_nan(x) ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
    differ(counts, BF16, ar_bf16_code(x) != bf16);
    if (rcp)
        differ(counts, RCP, vf_bits(vf_rcp_unit(x)) != ar_rcp_bits(u));
    differ(counts, RECIPROCAL, unlike(vf_rcp(x), rcp_rn(x)) || unlike(cuda_div_any(1.0f, x), rcp_rn(x)));
    if (vf_abs(x) >= 0x1p-125f && vf_abs(x) <= 0x1p125f)
        differ(counts, RECIPROCAL, vf_bits(cuda_rcp_normal(x)) != vf_bits(rcp_rn(x)));
    differ(counts, ROOT, unlike(vf_sqrt(x), sqrt_rn(x)));
    if (u < 65536) { /* a half: its value times 2^24 is an integer below 2^41 */
        const uint32_t a = u & 0x7fff, e = a >> 10;
        uint32_t v = e == 0    ? vf_bits(vf_mul(__uint2float_rn(a), 0x1p-24f))
                     : e == 31 ? a << 13 | 0x7f800000u
                               : (a << 13) + (112u << 23);
        v |= (u & 0x8000) << 16;
        const uint32_t got = vf_bits(ar_f16_value(u));
        differ(counts, F16_VALUE, e == 31 && (a & 0x3ff) != 0 ? !vf_is_nan(vi_float(got)) : got != v);
    }
}

DEV uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* Quotients as quantizers form them: scales over their whole range, values up
 * to 2^11 of them, every second 16-bit. */
static __global__ void test_division(uint32_t seed, unsigned long long *counts)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t a = mix(i * 2 + seed), b = mix(i * 2 + 1 + seed * 0x9e3779b9u);
    const float s = vi_float((b & 0x7fffff) | (70 + (b >> 23) % 160) << 23); /* 2^-57 to 2^103 */
    float q = vi_float((a & 0x807fffff) | (117 + (a >> 23 & 255) % 22) << 23);
    float y = vf_mul(q, s);
    if (i & 1)
        y = vi_float(vf_bits(y) & 0xffff0000u);
    if (vf_abs(y) <= FLT_MAX)
        differ(counts, DIVISION, vf_bits(cuda_div_by(y, s, rcp_rn(s))) != vf_bits(div_rn(y, s)));
    /* any two floats; one of few bits, so that some quotients are exact or lie between two floats; products of their
     * quotient and divisor, which are close to such */
    float any = vi_float(a), by = vi_float(b);
    if (i & 1)
        by = vi_float(b & 0xfff80000u);
    if (i & 2)
        any = vf_mul(vi_float(a & 0xffffff00u), by);
    differ(counts, QUOTIENT, unlike(vf_div(any, by), div_rn(any, by)));
    differ(counts, QUOTIENT, unlike(cuda_div_any(any, by), div_rn(any, by)));
}

/* fp8 codes of y / s from products: every significand of a scale with every one of a 16-bit y, quotients from the least
 * that has a code to those above the largest. */
template <int DT> static __global__ void test_products(unsigned long long *counts)
{
    const float s = vi_float(0x3f800000u | (blockIdx.x * blockDim.x + threadIdx.x)); /* 2^23, from 1 to 2 */
    const ar_quant q = {AR_TOKEN};
    const scaling by = scaling_of<CUDA_E4M3>(q, s, 1.0f, true);
    if (by.divide)
        return;
    const uint32_t step = DT == AR_BF16 ? 0x10000 : 0x2000;
    for (int e = -18; e < 10; e++) {
        if (blockIdx.y != (unsigned)(e & 3))
            continue;
        for (uint32_t m = 0; m < 0x800000; m += step) {
            const float y = vi_float((uint32_t)(127 + e) << 23 | m);
            const float p = vf_fma(y, by.by, vf_mul(y, by.low)), d = div_rn(y, s);
            differ(counts, PRODUCT, ar_float_code(p, 8, 3, -6, 448.0f) != ar_float_code(d, 8, 3, -6, 448.0f));
            differ(counts, PRODUCT, ar_float_code(p, 8, 2, -14, 57344.0f) != ar_float_code(d, 8, 2, -14, 57344.0f));
        }
    }
    const float zero = vf_fma(-0.0f, by.by, vf_mul(-0.0f, by.low));
    differ(counts, PRODUCT, vf_bits(zero) != 0x80000000u);
}

/* Sums and products of every two 16-bit floats: the block's one with each other, both ways round. */
template <int DT> static __global__ void test_pairs(unsigned long long *counts)
{
    const uint32_t x = blockIdx.x;
    for (uint32_t y = threadIdx.x; y < 65536; y += blockDim.x) {
        const uint32_t w = x | y << 16, turned = y | x << 16;
        float v[2];
        widen_pair<DT>(w, v);
        const float sum = vf_add(v[0], v[1]), product = vf_mul(v[0], v[1]), sums[2] = {sum, sum};
        const float products[2] = {product, product};
        differ(counts, PAIRS, add_pair<DT>(w, turned) != narrow_pair<DT>(sums));
        differ(counts, PAIRS, mul_pair<DT>(w, turned) != narrow_pair<DT>(products));
    }
}

/* Every number below 7. */
static __global__ void test_e2m1(unsigned long long *counts)
{
    const uint32_t u = blockIdx.x * blockDim.x + threadIdx.x;
    if (u >= 0x40e00000u)
        return;
    const float x = vi_float(u), v[8] = {x, -x, 0.0f, -0.0f, -x, 6.0f, x, -1.0f};
    const uint32_t c = ar_float_code(x, 4, 1, 0, 6.0f), n = c | 8;
    const uint32_t want = c | n << 4 | 0u << 8 | 8u << 12 | n << 16 | 7u << 20 | c << 24 | 10u << 28;
    differ(counts, E2M1, code8_below_7(v, 1.0f).x != want);
}

extern "C" epiq_status epiqi_cuda_self_test(int rcp_unit, epiqi_text *text)
{
    unsigned long long *counts = NULL;
    cudaError_t error = cudaMallocManaged(&counts, TESTS * sizeof *counts);
    if (error == cudaSuccess)
        error = cudaMemset(counts, 0, TESTS * sizeof *counts);
    if (error == cudaSuccess) {
        test_gates<<<512, 256>>>(rcp_unit, counts);
        for (uint32_t part = 0; part < 16; part++)
            test_floats<<<1u << 20, 256>>>(part << 28, rcp_unit, counts);
        for (uint32_t part = 0; part < 4; part++)
            test_division<<<1u << 20, 256>>>(part, counts);
        test_products<AR_BF16><<<dim3(1u << 15, 4), 256>>>(counts);
        test_products<AR_F16><<<dim3(1u << 15, 4), 256>>>(counts);
        test_pairs<AR_BF16><<<65536, 256>>>(counts);
        test_pairs<AR_F16><<<65536, 256>>>(counts);
        test_e2m1<<<1u << 23, 256>>>(counts);
        error = cudaDeviceSynchronize();
    }
    epiq_status status = EPIQ_OK;
    if (error != cudaSuccess) {
        epiqi_print(text, "self-test: %s (%d)", cudaGetErrorString(error), (int)error);
        status = EPIQ_ERROR_CUDA;
    }
    for (int i = 0; i < TESTS && status == EPIQ_OK; i++)
        if (counts[i] != 0) {
            epiqi_print(text, "%s: %llu inputs differ", test_names[i], counts[i]);
            status = EPIQ_ERROR_SELF_TEST;
        }
    if (status == EPIQ_OK)
        epiqi_print(text, "all 2^32 inputs of the conversions%s, all products for quotients, 2^30 quotients, ",
                    rcp_unit ? " and of rcp~" : "");
    (void)cudaFree(counts);
    return status;
}

extern "C" void *epiqi_cuda_test_memory(size_t bytes)
{
    void *memory = NULL;
    return cudaMallocManaged(&memory, bytes) == cudaSuccess ? memory : NULL;
}

extern "C" void epiqi_cuda_test_free(void *memory)
{
    (void)cudaFree(memory);
}

extern "C" epiq_status epiqi_cuda_test_wait(void)
{
    return cudaDeviceSynchronize() == cudaSuccess ? EPIQ_OK : EPIQ_ERROR_CUDA;
}
