/* kernel_list.cuh: the kernels of one operation by what a launch asks for.
 * Included by each operation's .cu. SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_KERNEL_LIST_CUH
#define EPIQ_KERNEL_LIST_CUH

#include "kernels.cuh"
#include "launch.h"
#include "lean.cuh"
#include "stream.cuh"

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

template <int OP, int DT, int F> static const void *stream_of(const cuda_kernel &k)
{
    constexpr int ACT = OP != CUDA_ACT_MUL ? CUDA_ANY_ACT : DT == AR_BF16 ? CUDA_TABLE : CUDA_SILU;
    constexpr int GRAINS = F < CUDA_NONE ? (int)format_of<F>::GRAINS : (int)EPIQI_STATIC;
    if constexpr ((GRAINS & EPIQI_TOKEN) != 0)
        if (k.grain == AR_TOKEN)
            return (const void *)row_stream_kernel<OP, DT, F, AR_TOKEN, ACT>;
    if constexpr ((GRAINS & EPIQI_GROUP) != 0)
        if (k.grain == AR_GROUP) {
            if constexpr (OP == CUDA_RMS_NORM)
                return (const void *)row_stream_kernel<OP, DT, F, AR_GROUP, ACT>;
            else
                return (const void *)flat_stream_kernel<OP, DT, F, 1, ACT>;
        }
    if constexpr ((GRAINS & EPIQI_STATIC) != 0 && (OP != CUDA_QUANTIZE || F != CUDA_NONE))
        if (k.grain == AR_TENSOR) {
            if constexpr (OP == CUDA_RMS_NORM)
                return (const void *)row_stream_kernel<OP, DT, F, AR_TENSOR, ACT>;
            else
                return (const void *)flat_stream_kernel<OP, DT, F, 0, ACT>;
        }
    return nullptr;
}

template <int OP, int DT, int F, int GRAIN, int ACT, int ROUND> static const void *lean_per_thread(const cuda_kernel &k)
{
    if constexpr ((OP == CUDA_RMS_NORM || GRAIN == AR_TOKEN) && ROUND != LEAN_ROUND)
        if (k.per_thread == 4)
            return (const void *)lean_kernel<OP, DT, F, GRAIN, ACT, ROUND, 4>;
    if (k.per_thread == 2)
        return (const void *)lean_kernel<OP, DT, F, GRAIN, ACT, ROUND, 2>;
    return k.per_thread == 1 ? (const void *)lean_kernel<OP, DT, F, GRAIN, ACT, ROUND, 1> : nullptr;
}

template <int OP, int DT, int F, int GRAIN> static const void *lean_of_grain(const cuda_kernel &k)
{
    if constexpr (OP == CUDA_QUANTIZE) {
        return lean_per_thread<OP, DT, F, GRAIN, CUDA_ANY_ACT, AR_ROUND_NONE>(k);
    } else if constexpr (OP == CUDA_RMS_NORM) {
        if constexpr (DT == AR_BF16) {
            if (k.round == AR_ROUND_ONCE)
                return lean_per_thread<OP, DT, F, GRAIN, CUDA_ANY_ACT, AR_ROUND_ONCE>(k);
            if (k.round == AR_ROUND_TWICE)
                return lean_per_thread<OP, DT, F, GRAIN, CUDA_ANY_ACT, AR_ROUND_TWICE>(k);
        }
        return lean_per_thread<OP, DT, F, GRAIN, CUDA_ANY_ACT, LEAN_ROUND>(k);
    } else {
        if constexpr (DT == AR_BF16)
            if (k.act == CUDA_QUICK)
                return lean_per_thread<OP, DT, F, GRAIN, CUDA_QUICK, AR_ROUND_TWICE>(k);
        return lean_per_thread<OP, DT, F, GRAIN, CUDA_SILU, LEAN_ROUND>(k);
    }
}

template <int OP, int DT, int F> static const void *lean_of(const cuda_kernel &k)
{
    constexpr int GRAINS = F == CUDA_E5M2 ? 0 : (int)format_of<F>::GRAINS;
    if constexpr ((GRAINS & EPIQI_TOKEN) != 0)
        if (k.grain == AR_TOKEN)
            return lean_of_grain<OP, DT, F, AR_TOKEN>(k);
    if constexpr ((GRAINS & EPIQI_GROUP) != 0)
        if (k.grain == AR_GROUP)
            return lean_of_grain<OP, DT, F, AR_GROUP>(k);
    if constexpr ((GRAINS & EPIQI_STATIC) != 0)
        if (k.grain == AR_TENSOR)
            return lean_of_grain<OP, DT, F, AR_TENSOR>(k);
    return nullptr;
}

template <int OP, int DT> static const void *of_dtype(const cuda_kernel &k)
{
    if (k.kind == CUDA_ANY_KERNEL)
        return (const void *)any_kernel<OP, DT>;
    switch (k.format) {
#define X(upper, lower, bits, block, scale, grains)                                                                    \
    case CUDA_##upper:                                                                                                 \
        if constexpr (DT != AR_F32)                                                                                    \
            if (k.kind == CUDA_STREAM_KERNEL)                                                                          \
                return stream_of<OP, DT, CUDA_##upper>(k);                                                             \
            else if (k.kind == CUDA_LEAN_KERNEL)                                                                       \
                return lean_of<OP, DT, CUDA_##upper>(k);                                                               \
        return of_format<OP, DT, CUDA_##upper>(k);
        EPIQI_FORMATS(X)
#undef X
    case CUDA_AMAX:
        return of_format<OP, DT, CUDA_AMAX>(k);
    default:
        if constexpr (DT != AR_F32)
            if (k.kind == CUDA_STREAM_KERNEL)
                return stream_of<OP, DT, CUDA_NONE>(k);
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
