/* act_mul.cu: the kernels of epiq_act_mul that every GPU has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernel_list.cuh"

const void *epiqi_cuda_act_mul_kernel(const cuda_kernel *k)
{
    return kernel_of<CUDA_ACT_MUL>(*k);
}
