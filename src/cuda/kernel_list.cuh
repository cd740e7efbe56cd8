/* kernel_list.cuh: the kernels of one operation that every GPU has, by what a launch asks for; fast_list.cuh has the
 * others. Included by each operation's .cu. SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_KERNEL_LIST_CUH
#define EPIQ_KERNEL_LIST_CUH

#include "kernels.cuh"
#include "launch.h"

template <int OP, int DT, int F, int G, int ACT> static const void *flat_of(const cuda_kernel &k)
{
    if constexpr (DT != AR_F32 && F == CUDA_NVFP4 && (OP != CUDA_ACT_MUL || ACT == CUDA_SILU))
        if (k.per_thread == 2)
            return (const void *)flat_kernel<OP, DT, F, G, ACT, 2>;
    return k.per_thread == 1 ? (const void *)flat_kernel<OP, DT, F, G, ACT, 1> : nullptr;
}

template <int DT, int F, int G> static const void *norm_of(const cuda_kernel &k)
{
    if (k.kind == CUDA_WIDE_ROW_KERNEL)
        return (const void *)wide_norm_kernel<DT, F, G>;
    if constexpr (DT != AR_F32)
        return (const void *)norm_kernel<DT, F, G>;
    return nullptr;
}

template <int OP, int DT, int F, int G, int ACT> static const void *of_act(const cuda_kernel &k)
{
    if constexpr (OP == CUDA_RMS_NORM) {
        return norm_of<DT, F, G>(k);
    } else {
        if constexpr (!G && F < CUDA_NONE) {
            if (k.kind == CUDA_ROW_KERNEL)
                return (const void *)token_kernel<OP, DT, F, ACT>;
            if constexpr (ACT == CUDA_ANY_ACT)
                if (k.kind == CUDA_WIDE_ROW_KERNEL)
                    return (const void *)wide_token_kernel<OP, DT, F>;
        }
        return flat_of<OP, DT, F, G, ACT>(k);
    }
}

template <int OP, int DT, int F, int G> static const void *of_group(const cuda_kernel &k)
{
    if constexpr (OP == CUDA_ACT_MUL && DT != AR_F32)
        if (k.act == CUDA_SILU)
            return of_act<OP, DT, F, G, CUDA_SILU>(k);
    return of_act<OP, DT, F, G, CUDA_ANY_ACT>(k);
}

template <int OP, int DT, int F> static const void *of_format(const cuda_kernel &k)
{
    if constexpr (F == CUDA_AMAX) {
        if constexpr (OP == CUDA_RMS_NORM)
            return norm_of<DT, F, 0>(k);
        else
            return (const void *)amax_kernel<OP, DT>;
    } else if constexpr (F == CUDA_NONE) {
        return of_group<OP, DT, F, 0>(k);
    } else {
        if constexpr ((format_of<F>::GRAINS & EPIQI_GROUP) != 0)
            if (k.grain == AR_GROUP)
                return of_group<OP, DT, F, 1>(k);
        if constexpr ((format_of<F>::GRAINS & ~EPIQI_GROUP) != 0)
            return of_group<OP, DT, F, 0>(k);
        return nullptr;
    }
}

template <int OP, int DT> static const void *of_dtype(const cuda_kernel &k)
{
    if (k.kind == CUDA_ANY_KERNEL)
        return (const void *)any_kernel<OP, DT>;
    switch (k.format) {
#define X(upper, lower, bits, block, scale, grains)                                                                    \
    case CUDA_##upper:                                                                                                 \
        return of_format<OP, DT, CUDA_##upper>(k);
        EPIQI_FORMATS(X)
#undef X
    case CUDA_AMAX:
        return of_format<OP, DT, CUDA_AMAX>(k);
    default:
        return of_format<OP, DT, CUDA_NONE>(k);
    }
}

template <int OP> static const void *kernel_of(const cuda_kernel &k)
{
    return k.dtype == AR_F32   ? of_dtype<OP, AR_F32>(k)
           : k.dtype == AR_F16 ? of_dtype<OP, AR_F16>(k)
                               : of_dtype<OP, AR_BF16>(k);
}

#endif
