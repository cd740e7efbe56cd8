/* flashinfer_quantizers.cu: the FP8 quantizers in FlashInfer's csrc/nv_internal behind a C interface, the second half
 * of its unfused chains. SPDX-License-Identifier: Apache-2.0
 *
 *     bench/peers/build_peers.sh FLASHINFER_FOLDER OUT CUTLASS_FOLDER
 *
 * Grids and blocks are those of FlashInfer's own launchers. These kernels do not wait for the one before, so they are
 * launched without programmatic dependent launch. In a file of their own because the headers clash with those of
 * flashinfer.cu. */
#include <tensorrt_llm/kernels/cutlass_kernels/fp8_blockscale_gemm/fp8_blockscale_gemm_kernel.cuh>
#include <tensorrt_llm/kernels/quantization.cuh>

#include <cstdint>

typedef __nv_bfloat16 bf16;
typedef __nv_fp8_e4m3 e4m3;

/* The arguments of flashinfer.cu. */
#define PEER(name)                                                                                                     \
    extern "C" __attribute__((visibility("default"))) int flashinfer_##name(                                           \
        bf16 *x, bf16 *residual, bf16 *weight, bf16 *y, e4m3 *codes, float *scales, float *scale, uint32_t rows,       \
        uint32_t cols, float eps, cudaStream_t stream)

static int multiprocessors()
{
    static int count = 0;
    int device = 0;
    if (count == 0 && cudaGetDevice(&device) == cudaSuccess)
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
}

/* Of x, one scale a row. */
PEER(e4m3_token)
{
    const size_t shared = cols * sizeof(bf16);
    auto kernel = tensorrt_llm::kernels::perTokenQuantization<bf16, e4m3, true>;
    if (shared >= 48 * 1024)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    kernel<<<rows, 512, shared, stream>>>(codes, x, rows, cols, nullptr, scales, nullptr, true);
    return cudaPeekAtLastError();
}

/* Of x, one scale for 128 columns, stored column by column, rows rounded up to 4. */
PEER(e4m3_group128)
{
    tensorrt_llm::kernels::fp8_blockscale_gemm::scale_1x128_kernel<bf16, e4m3, float>
        <<<multiprocessors() * 8, 256, 0, stream>>>(codes, scales, x, (int)cols, (int)rows);
    return cudaPeekAtLastError();
}
