/* act_mul_fast.cu: the kernels of epiq_act_mul that were measured.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fast_list.cuh"

const void *epiqi_cuda_act_mul_fast_kernel(const cuda_kernel *k)
{
    return fast_kernel_of<CUDA_ACT_MUL>(*k);
}
