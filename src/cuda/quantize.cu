/* quantize.cu: the kernels of epiq_quantize that every GPU has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernel_list.cuh"

const void *epiqi_cuda_quantize_kernel(const cuda_kernel *k)
{
    return kernel_of<CUDA_QUANTIZE>(*k);
}
