/* fast_list.cuh: lean_kernel and the stream kernels of one operation, by what a launch asks for. They are chosen by
 * measurements, and left out of the PTX: a GPU that comes later has to translate that before its first call.
 * Included by each operation's _fast.cu. SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_FAST_LIST_CUH
#define EPIQ_FAST_LIST_CUH

#include "launch.h"
#include "lean.cuh"
#include "stream.cuh"

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

template <int OP, int DT> static const void *fast_of_dtype(const cuda_kernel &k)
{
    switch (k.format) {
#define X(upper, lower, bits, block, scale, grains)                                                                    \
    case CUDA_##upper:                                                                                                 \
        return k.kind == CUDA_STREAM_KERNEL ? stream_of<OP, DT, CUDA_##upper>(k) : lean_of<OP, DT, CUDA_##upper>(k);
        EPIQI_FORMATS(X)
#undef X
    default:
        return k.kind == CUDA_STREAM_KERNEL ? stream_of<OP, DT, CUDA_NONE>(k) : nullptr;
    }
}

template <int OP> static const void *fast_kernel_of(const cuda_kernel &k)
{
    return k.dtype == AR_F16    ? fast_of_dtype<OP, AR_F16>(k)
           : k.dtype == AR_BF16 ? fast_of_dtype<OP, AR_BF16>(k)
                                : nullptr;
}

#endif
