/* quantize_fast.cu: the kernels of epiq_quantize that were measured.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fast_list.cuh"

const void *epiqi_cuda_quantize_fast_kernel(const cuda_kernel *k)
{
    return fast_kernel_of<CUDA_QUANTIZE>(*k);
}
