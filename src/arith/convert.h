/* convert.h: 16-bit floats, and the rounding of a float to a small float format (doc/spec.md 1).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Included after a lane header. A lane that has a conversion in hardware brings the function under the same name and
 * defines LANE_HAS_...; an exhaustive test compares the two. */
#ifndef EPIQ_CONVERT_H
#define EPIQ_CONVERT_H

#include "types.h"

AR_FN vf ar_bf16_value(vi bits)
{
    return vi_float(vi_shl(bits, 16));
}

#ifndef LANE_HAS_F16_CODES
AR_FN vi ar_bf16_code(vf x)
{
    vi u = vf_bits(x);
    vi r = vi_add(u, vi_add(vi_set(0x7fff), vi_and(vi_shr(u, 16), vi_set(1))));
    return vi_sel(vf_is_nan(x), vi_set(0x7fff), vi_shr(r, 16));
}
#endif

#ifndef LANE_HAS_F16_VALUE
/* The exponent field moves by 112 with an exact multiplication, which also normalises subnormals. */
AR_FN vf ar_f16_value(vi bits)
{
    vi a = vi_and(bits, vi_set(0x7fff));
    vi u = vf_bits(vf_mul(vi_float(vi_shl(a, 13)), vf_set(0x1p112f)));
    u = vi_sel(vi_gt(a, vi_set(0x7bff)), vi_or(u, vi_set(0x7f800000)), u);
    return vi_float(vi_or(u, vi_shl(vi_and(bits, vi_set(0x8000)), 16)));
}
#endif

/* |x| to the nearest code, ties to even, of a float format with `m` mantissa bits whose smallest normal number is
 * 2^emin; max, a number of the format, bounds |x| first (NaN becomes max). Sign 0.
 *
 * Adding 2^(e + 23 - m), e the exponent of the result's binade, makes the addition itself round at the right bit, in
 * normal and subnormal binades alike; the low bits of the sum are then the code within the binade. */
AR_FN vi ar_float_code(vf x, int m, int emin, float max)
{
    const vi lowest = vi_set((uint32_t)(emin + 127) << 23);
    vf a = vf_min_num(vf_abs(x), vf_set(max));
    vi e = vi_max(vi_and(vf_bits(a), vi_set(0x7f800000)), lowest);
    vi shift = vi_add(e, vi_set((uint32_t)(23 - m) << 23));
    vi k = vi_sub(vf_bits(vf_add(a, vi_float(shift))), shift);
    return vi_add(k, vi_shr(vi_sub(e, lowest), 23 - m));
}

/* The sign bit of x at bit position `to`. */
AR_FN vi ar_sign_at(vf x, int to)
{
    return vi_and(vi_shr(vf_bits(x), 31 - to), vi_set(1u << to));
}

#ifndef LANE_HAS_F16_CODES
/* Bounding |x| by 2^16, the number whose code is that of infinity, lets 65520 and above round to infinity. */
AR_FN vi ar_f16_code(vf x)
{
    vi c = vi_or(ar_float_code(x, 10, -14, 0x1p16f), ar_sign_at(x, 15));
    return vi_sel(vf_is_nan(x), vi_set(0x7fff), c);
}
#endif

/* RN_T(x), as a float. NaN stays a NaN, its bits unspecified: only a store makes it canonical. */
AR_FN vf ar_round(int dtype, vf x)
{
    if (dtype == AR_BF16)
        return ar_bf16_value(ar_bf16_code(x));
    if (dtype == AR_F16)
        return ar_f16_value(ar_f16_code(x));
    return x;
}

#endif
