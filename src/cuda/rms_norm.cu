/* rms_norm.cu: the kernels of epiq_rms_norm that every GPU has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernel_list.cuh"

const void *epiqi_cuda_rms_norm_kernel(const cuda_kernel *k)
{
    return kernel_of<CUDA_RMS_NORM>(*k);
}
