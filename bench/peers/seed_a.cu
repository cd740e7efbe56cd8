/* seed_a.cu: SwiGLU and a static FP8 scale in one plain CUDA kernel, launched the way hand-written TensorRT plugins
 * launch theirs: what somebody has who did not take a library. SPDX-License-Identifier: Apache-2.0
 *
 *     bench/peers/build_peers.sh FLASHINFER_FOLDER OUT
 *
 * Eight outputs a thread from two 16-byte loads, one 8-byte store; blocks of up to 256 threads, grid (slices of a row,
 * rows); no programmatic dependent launch. y = gate / (1 + exp(-gate)) * up in float, one rounding, of y * scale. */
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

__global__ void swiglu_e4m3(const __nv_bfloat16 *__restrict__ x, uint8_t *__restrict__ codes,
                            const float *__restrict__ multiplier, int cols)
{
    const int64_t row = blockIdx.y;
    const uint4 *gates = (const uint4 *)(x + row * 2 * cols);
    const uint4 *ups = (const uint4 *)(x + row * 2 * cols + cols);
    uint2 *out = (uint2 *)(codes + row * cols);
    const float m = *multiplier;
    for (int v = blockIdx.x * blockDim.x + threadIdx.x; v < cols / 8; v += gridDim.x * blockDim.x) {
        const uint4 gate = gates[v], up = ups[v];
        const __nv_bfloat16 *g = (const __nv_bfloat16 *)&gate, *u = (const __nv_bfloat16 *)&up;
        union {
            uint2 word;
            uint8_t byte[8];
        } packed;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float a = __bfloat162float(g[i]);
            const float y = a / (1.0f + __expf(-a)) * __bfloat162float(u[i]) * m;
            packed.byte[i] = __nv_cvt_float_to_fp8(fminf(fmaxf(y, -448.0f), 448.0f), __NV_SATFINITE, __NV_E4M3);
        }
        out[v] = packed.word;
    }
}

/* cols: a multiple of 8; rows: up to 65535, as the grid has them in y. Answers a cudaError_t. */
extern "C" __attribute__((visibility("default"))) int
seed_a_swiglu_e4m3(const void *x, void *codes, const float *multiplier, int rows, int cols, cudaStream_t stream)
{
    const int vectors = cols / 8;
    const int threads = vectors >= 256 ? 256 : (vectors + 31) / 32 * 32;
    const dim3 grid((vectors + threads - 1) / threads, rows);
    swiglu_e4m3<<<grid, threads, 0, stream>>>((const __nv_bfloat16 *)x, (uint8_t *)codes, multiplier, cols);
    return cudaPeekAtLastError();
}
