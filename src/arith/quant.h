/* quant.h: what every quantizer shares: the uniform values of a call, amax, and multipliers (doc/spec.md 4).
 * SPDX-License-Identifier: Apache-2.0
 *
 * A format is one file format_X.h with
 *     vi   ar_X_code(const ar_quant *, vf)       a code, RN and saturation
 *     vi   ar_X_number(vf)                       the same for a number, which no NaN policy concerns
 *     vf   ar_X_value(vi)                        the value of a code
 *     void ar_X_scale(const ar_quant *, vf amax, vm nan, vf *factor, vi *stored)
 *                                                amax of a group -> what its elements are multiplied (divided) by,
 *                                                and the bits to store: an fp32, or one byte
 *     vf   ar_X_scale_value(const ar_quant *, vi stored)
 *                                                what a decoded element is multiplied by
 *     enum { AR_X_DIVIDES, AR_X_DIVIDES_STATIC } whether token and group grains divide by `factor`, and whether grain
 *                                                tensor divides by a given scale
 *     AR_X_FLOAT                                 the last arguments of ar_float_code, zeros if codes are no floats
 * Included after a lane header. */
#ifndef EPIQ_QUANT_H
#define EPIQ_QUANT_H

#include "convert.h"
#include "rcp.h"

AR_FN vf ar_finite(vf a) /* |a| = Inf becomes FLT_MAX; NaN stays */
{
    return vf_max_nan(vf_min_nan(a, vf_set(FLT_MAX)), vf_set(-FLT_MAX));
}

/* The NaN policy of formats that have a NaN code: by `saturate` a NaN becomes the largest number. */
AR_FN vf ar_nan_to(const ar_quant *q, float max, vf x)
{
    return q->saturate ? vf_min_num(x, vf_set(max)) : x;
}

/* The multiplier of grain tensor, from scale or from inv_scale. */
AR_FN vf ar_multiplier_of_scale(vf scale)
{
    return ar_finite(vf_rcp(scale));
}

AR_FN vf ar_multiplier_of_inv_scale(vf inv_scale)
{
    return ar_finite(inv_scale);
}

/* nvfp4's second level as it acts: NaN and <= 0 are 0, Inf is FLT_MAX. */
AR_FN vf ar_second_level(vf gs)
{
    return vf_min_num(vf_max_num(gs, vf_set(0.0f)), vf_set(FLT_MAX));
}

/* The second level from the amax of a whole tensor: from 2^-117 to 2^116, so that a block multiplier made of it is
 * finite by either rule. */
AR_FN vf ar_second_level_of_amax(vf amax)
{
    vf gs = vf_min_num(vf_div(vf_set(2688.0f), amax), vf_set(0x1p116f)); /* 448 * 6 */
    return vf_sel(vm_and(vf_gt(gs, vf_set(0.0f)), vf_gt(amax, vf_set(0.0f))), gs, vf_set(1.0f));
}

/* 2^(e - 127) for a biased exponent e from 0 to 254: 2^-127 is subnormal. */
AR_FN vf ar_exp2_biased(vi e)
{
    return vi_float(vi_sel(vi_eq(e, vi_set(0)), vi_set(0x00400000), vi_shl(e, 23)));
}

/* The value of an E8M0 byte. */
AR_FN vf ar_e8m0_value(vi b)
{
    return vf_sel(vi_eq(b, vi_set(255)), vi_float(vi_set(0x7fffffff)), ar_exp2_biased(b));
}

/* The value of a code of a small float format, whose infinities and NaNs are the caller's affair: m mantissa bits,
 * `bits` in all, smallest normal number 2^emin. The multiplication is exact and normalises subnormals. */
AR_FN vf ar_float_value(vi code, int m, int bits, int emin)
{
    const vi magnitude = vi_set((1u << (bits - 1)) - 1);
    vf scale = vi_float(vi_set((uint32_t)(emin + 126 + 127) << 23)); /* 2^(emin + 126) */
    vf v = vf_mul(vi_float(vi_shl(vi_and(code, magnitude), 23 - m)), scale);
    return vi_float(vi_or(vf_bits(v), vi_shl(vi_shr(code, bits - 1), 31)));
}

/* e4m3, e5m2: the scale of a tensor, token or group from its amax; max is the format's largest number, token_floor
 * RN(1 / (512 max)). */
AR_FN void ar_fp8_scale(const ar_quant *q, float max, float token_floor, vf amax, vf *factor, vi *stored)
{
    vf a = vf_min_num(amax, vf_set(FLT_MAX));
    if (q->grain == AR_TENSOR) {
        vf s = vf_max_num(vf_div(a, vf_set(max)), vf_set(0x1p-126f));
        *factor = ar_multiplier_of_scale(s);
        *stored = vf_bits(s);
    } else if (q->grain == AR_TOKEN) {
        vf s = vf_div_max(vf_min_num(a, vf_set(q->bound)), max);
        s = vf_max_num(s, vf_set(token_floor));
        *factor = s;
        *stored = vf_bits(s);
    } else {
        vf s = vf_div_max(vf_max_num(a, vf_set(1e-10f)), max);
        if (q->ue8m0) {
            vi e = vi_shr(vi_add(vf_bits(vf_max_num(s, vf_set(1e-10f))), vi_set(0x7fffff)), 23);
            *factor = ar_exp2_biased(e);
            *stored = q->packed ? e : vf_bits(*factor);
        } else {
            *factor = s;
            *stored = vf_bits(s);
        }
    }
}

AR_FN vf ar_fp8_scale_value(const ar_quant *q, vi stored)
{
    return q->packed ? ar_e8m0_value(stored) : vi_float(stored);
}

#endif
