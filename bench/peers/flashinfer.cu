/* flashinfer.cu: kernels of FlashInfer behind a C interface, so that bench/gpu_sweep.py can time them in its graphs.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     bench/peers/build_peers.sh FLASHINFER_FOLDER OUT
 *
 * Kernels and launches are FlashInfer's, from its headers; of silu, which has no launcher in a header, grid and block
 * are those its own launcher takes. All are launched with programmatic dependent launch. Absent: its NVFP4, MXFP4 and
 * MXFP8 quantizers, whose kernels are empty below compute capability 10.0, and a static FP8 quantizer of an activation,
 * which it does not have. flashinfer_quantizers.cu has its other FP8 quantizers. */
#include <flashinfer/activation.cuh>
#include <flashinfer/norm.cuh>

#include <algorithm>
#include <cstdint>

typedef __nv_bfloat16 bf16;
typedef __nv_fp8_e4m3 e4m3;

/* All functions have these arguments and answer a cudaError_t; those that one has no use for are ignored.
 *   x [rows, cols], or [rows, 2 cols] for silu; residual [rows, cols], overwritten by the sum; weight [cols]
 *   y [rows, cols] bf16; codes [rows, cols]; scales: float; scale: one float */
#define PEER(name)                                                                                                     \
    extern "C" __attribute__((visibility("default"))) int flashinfer_##name(                                           \
        bf16 *x, bf16 *residual, bf16 *weight, bf16 *y, e4m3 *codes, float *scales, float *scale, uint32_t rows,       \
        uint32_t cols, float eps, cudaStream_t stream)

PEER(rms_norm)
{
    return flashinfer::norm::RMSNorm<bf16>(x, weight, y, rows, cols, cols, cols, eps, true, stream);
}

PEER(gemma_rms_norm)
{
    return flashinfer::norm::GemmaRMSNorm<bf16>(x, weight, y, rows, cols, cols, cols, eps, true, stream);
}

/* x is overwritten by the norm. */
PEER(add_rms_norm)
{
    return flashinfer::norm::FusedAddRMSNorm<bf16>(x, residual, weight, rows, cols, cols, cols, eps, true, stream);
}

PEER(gemma_add_rms_norm)
{
    return flashinfer::norm::GemmaFusedAddRMSNorm<bf16>(x, residual, weight, rows, cols, cols, cols, eps, true, stream);
}

PEER(rms_norm_e4m3)
{
    return flashinfer::norm::RMSNormQuant<bf16, e4m3>(x, weight, codes, rows, cols, cols, cols, scale, eps, true,
                                                      stream);
}

PEER(add_rms_norm_e4m3)
{
    return flashinfer::norm::FusedAddRMSNormQuant<bf16, e4m3>(x, residual, weight, codes, rows, cols, cols, cols, cols,
                                                              scale, eps, true, stream);
}

__device__ __forceinline__ float peer_silu(const float &gate)
{
    return __fdividef(gate, 1.0f + __expf(-gate));
}

PEER(silu_and_mul)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(rows);
    config.blockDim = dim3(std::min<uint32_t>(cols / 8, 1024));
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, flashinfer::activation::act_and_mul_kernel<bf16, peer_silu>, y, (const bf16 *)x,
                              (int)cols);
}
