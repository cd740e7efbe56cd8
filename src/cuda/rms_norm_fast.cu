/* rms_norm_fast.cu: the kernels of epiq_rms_norm that were measured.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fast_list.cuh"

const void *epiqi_cuda_rms_norm_fast_kernel(const cuda_kernel *k)
{
    return fast_kernel_of<CUDA_RMS_NORM>(*k);
}
