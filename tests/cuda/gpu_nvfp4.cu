/* gpu_nvfp4.cu: nvfp4 against a kernel made of the real rcp.approx.ftz.f32 and a table of e2m1, as vLLM's and
 * FlashInfer's quantizers are; independent of src/. SPDX-License-Identifier: Apache-2.0
 *
 *     gpu_nvfp4       run by hand on a GPU (bench/gpu_verify.sh)
 *
 * scale byte = e4m3(gs * (amax * rcp~(6))), factor = rcp~(e4m3 value * rcp~(gs)), 0 for a scale of 0; code = e2m1 of
 * x * factor, to nearest, ties to even. The byte lies in tiles of 128 rows and 4 scales. */
#include "must.h"

#include <epiq/epiq.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

enum { ROWS = 1024, COLS = 4096 };

static __device__ float rcp_approx(float x)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

/* Halfway between two neighbouring values the even code wins. */
static __device__ unsigned e2m1(float x)
{
    static const float halfway[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    const float a = fabsf(x);
    unsigned code = 0;
    for (int i = 0; i < 7; i++)
        code += a > halfway[i] || (a == halfway[i] && (i & 1));
    return code | (signbit(x) ? 8u : 0u);
}

template <typename T> static __device__ float value(T x);
template <> __device__ float value(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
template <> __device__ float value(__half x)
{
    return __half2float(x);
}

template <typename T>
static __global__ void compare(const T *x, const unsigned char *codes, const unsigned char *scales, float gs,
                               unsigned long long *wrong)
{
    const int block = blockIdx.x * blockDim.x + threadIdx.x, row = block / (COLS / 16), group = block % (COLS / 16);
    float v[16], amax = 0;
    for (int i = 0; i < 16; i++) {
        v[i] = value(x[(long long)row * COLS + group * 16 + i]);
        amax = fmaxf(amax, fabsf(v[i]));
    }
    const float wanted = __fmul_rn(gs, __fmul_rn(amax, rcp_approx(6.0f)));
    const __nv_fp8_e4m3 sf = __nv_fp8_e4m3(wanted);
    const float s = (float)sf;
    const float factor = s != 0 ? rcp_approx(__fmul_rn(s, rcp_approx(gs))) : 0;
    const int at = row / 128 * (COLS / 64) * 512 + group / 4 * 512 + row % 32 * 16 + row % 128 / 32 * 4 + group % 4;
    if (scales[at] != sf.__x)
        atomicAdd(&wrong[0], 1ull);
    for (int i = 0; i < 16; i += 2) {
        const unsigned want = e2m1(__fmul_rn(v[i], factor)) | e2m1(__fmul_rn(v[i + 1], factor)) << 4;
        if (codes[(long long)row * COLS / 2 + group * 8 + i / 2] != want)
            atomicAdd(&wrong[1], 1ull);
    }
}

/* Bits of every kind: kind 0 uniform bits but no infinity and NaN, 1 numbers of one exponent, 2 multiples of a twelfth,
 * which meet halfway points. */
template <typename T> static __global__ void fill(unsigned short *x, int kind, unsigned seed, unsigned exponent_bits)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = i * 0x9e3779b9u + seed;
    h ^= h >> 16, h *= 0x7feb352du, h ^= h >> 15, h *= 0x846ca68bu, h ^= h >> 16;
    unsigned short bits = (unsigned short)h;
    if ((bits & exponent_bits) == exponent_bits)
        bits &= 0x8fff;
    T t;
    if (kind == 1)
        t = T(((int)(h % 511) - 255) / 64.0f);
    if (kind == 2)
        t = T(((int)(h % 145) - 72) / 12.0f);
    x[i] = kind == 0 ? bits : *(unsigned short *)&t;
}

template <typename T>
static int test(const char *name, epiq_dtype dtype, unsigned exponent_bits, unsigned short *x, unsigned char *codes,
                unsigned char *scales, float *gs, unsigned long long *wrong)
{
    static const float levels[] = {1.0f, 448.0f, 0.37f, 2688.0f / 3.3f, 1e-3f, 1e6f, 1e-20f, 1e30f};
    unsigned long long all[2] = {0, 0}, found[2];
    int calls = 0;
    for (int kind = 0; kind < 3; kind++)
        for (float level : levels)
            for (unsigned seed = 1; seed <= 4; seed++, calls++) {
                fill<T><<<ROWS * COLS / 256, 256>>>(x, kind, seed * 77777u, exponent_bits);
                MUST(cudaMemcpy(gs, &level, sizeof level, cudaMemcpyHostToDevice));
                MUST(cudaMemset(wrong, 0, sizeof all));
                epiq_quantize_args a = {.struct_size = sizeof a};
                a.x = {.data = x, .rows = ROWS, .cols = COLS, .dtype = dtype};
                epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_NVFP4};
                o.layout = EPIQ_LAYOUT_TILE128X4;
                o.codes_out = codes;
                o.scale_out = scales;
                o.inv_scale = gs;
                epiq_exec e = {.struct_size = sizeof e, .backend = EPIQ_BACKEND_CUDA};
                const epiq_status status = epiq_quantize(&a, &o, &e);
                if (status != EPIQ_OK) {
                    fprintf(stderr, "%s\n", epiq_status_string(status));
                    exit(1);
                }
                compare<T><<<ROWS * COLS / 16 / 256, 256>>>((const T *)x, codes, scales, level, wrong);
                MUST(cudaMemcpy(found, wrong, sizeof found, cudaMemcpyDeviceToHost));
                all[0] += found[0];
                all[1] += found[1];
            }
    printf("%s: %d calls of [%d, %d]: %llu scale bytes and %llu bytes of codes differ\n", name, calls, ROWS, COLS,
           all[0], all[1]);
    return all[0] + all[1] != 0;
}

int main(void)
{
    unsigned short *x;
    unsigned char *codes, *scales;
    float *gs;
    unsigned long long *wrong;
    MUST(cudaMalloc((void **)&x, ROWS * COLS * 2));
    MUST(cudaMalloc((void **)&codes, ROWS * COLS / 2));
    MUST(cudaMalloc((void **)&scales, ROWS * COLS / 16));
    MUST(cudaMalloc((void **)&gs, sizeof *gs));
    MUST(cudaMalloc((void **)&wrong, 2 * sizeof *wrong));
    int failed = test<__nv_bfloat16>("bf16", EPIQ_DTYPE_BF16, 0x7f80, x, codes, scales, gs, wrong);
    failed |= test<__half>("f16", EPIQ_DTYPE_F16, 0x7c00, x, codes, scales, gs, wrong);
    printf(failed ? "FAILED\n" : "passed\n");
    return failed;
}
