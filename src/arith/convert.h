/* convert.h: 16-bit floats, and the rounding of a float to a small float format (doc/spec.md 1).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Included after a lane header. A lane that has a conversion in hardware brings the function under the same name and
 * defines LANE_HAS_... (F16_CODES: both 16-bit floats, FP16_CODE: fp16 alone); an exhaustive test compares the two. */
#ifndef EPIQ_CONVERT_H
#define EPIQ_CONVERT_H

#include "types.h"

AR_FN vf ar_bf16_value(vi bits)
{
    return vi_float(vi_shl(bits, 16));
}

/* Bits of a where the mask has ones, of b elsewhere. */
#ifndef LANE_HAS_BIT_SEL
AR_FN vi vi_bit_sel(uint32_t mask, vi a, vi b)
{
    return vi_or(vi_and(vi_set(mask), a), vi_and(vi_set(~mask), b));
}
#endif

/* a * b + c where a * b is exact: fused or not, the same. */
#ifndef LANE_HAS_MUL_ADD
AR_FN vf vf_mul_add(vf a, vf b, vf c)
{
    return vf_add(vf_mul(a, b), c);
}
#endif

/* min(|a|, b) for a number b; b if a is NaN. a is not a signalling NaN, or the result does not matter. */
#ifndef LANE_HAS_MIN_ABS
AR_FN vf vf_min_abs(vf a, float b)
{
    return vf_min_num(vf_abs(a), vf_set(b));
}
#endif

#ifndef LANE_HAS_F16_CODES
/* What is added to the bits of a number so that its upper half is RN_bf16. */
AR_FN vi ar_bf16_half(vi u)
{
    return vi_add(vi_and(vi_shr(u, 16), vi_set(1)), vi_set(0x7fff));
}

AR_FN vi ar_bf16_code(vf x)
{
    vi u = vf_bits(x);
    return vi_sel(vf_is_nan(x), vi_set(0x7fff), vi_shr(vi_add(u, ar_bf16_half(u)), 16));
}

/* The value of the code; but a NaN stays what it is, in its upper half. A NaN is short: zeros in its lower half, as
 * those that 16-bit floats and operations on them make. vf_short_nan makes it so, where a lane relies on that. */
#ifndef LANE_HAS_BF16_ROUND
AR_FN vf vf_short_nan(vf a)
{
    return a;
}

AR_FN vf ar_bf16_round(vf x)
{
    vi u = vf_bits(x);
    vi rounded = vi_sel(vf_is_nan(x), u, vi_add(u, ar_bf16_half(u)));
    return vi_float(vi_and(rounded, vi_set(0xffff0000)));
}
#endif
#else
AR_FN vf ar_bf16_round(vf x)
{
    return ar_bf16_value(ar_bf16_code(x));
}

AR_FN vf vf_short_nan(vf a)
{
    return a;
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

/* x to the nearest code, ties to even, of a float format of `bits` bits, m of them mantissa, whose smallest normal
 * number is 2^emin; max is its largest number. The code of a NaN is the caller's affair.
 *
 * Adding 2^(e + 23 - m), e the exponent of the result's binade, makes the addition itself round at the right bit, in
 * normal and subnormal binades alike. The low bits of the sum are then the code within the binade, its exponent field
 * counts the binades, 2^m codes each. `start` is what that count is too large by, taken off in advance, in the low 16
 * bits of what is added: an even number, so that ties stay ties.
 *
 * larger: |x| or 2^emin, whichever is larger, with the sign of x. */
AR_FN vi ar_float_sum(vf x, vf larger, int m, int emin)
{
    const uint32_t start = (0u - (uint32_t)(emin + 127 + 23 - m) * (1u << m)) & 0xffff;
    vf binade = vi_float(vi_and(vf_bits(larger), vi_set(0xff800000))); /* 2^e */
    return vf_bits(vf_mul_add(binade, vi_float(vi_set((uint32_t)(127 + 23 - m) << 23 | start)), x));
}

AR_FN vi ar_float_code(vf x, int bits, int m, int emin, float max)
{
    const vf lowest = vi_float(vi_set((uint32_t)(emin + 127) << 23));
    vf a = vf_min_abs(x, max);
    vi sum = ar_float_sum(a, vf_max_num(a, lowest), m, emin);
    return vi_bit_sel((1u << (bits - 1)) - 1, vi_add(sum, vi_shr(sum, 23 - m)), vi_shr(vf_bits(x), 32 - bits));
}

#ifdef LANE_HAS_STORE4_SUMS
/* The codes of four vectors without NaN, one a byte, stored: here codes are bounded, not numbers. The sum of the
 * largest numbers is infinite, and so is its count. */
AR_FN void ar_store4_float_codes(void *to, const vf x[4], int bits, int m, int emin, float max)
{
    const vf lowest = vi_float(vi_set((uint32_t)(emin + 127) << 23));
    uint32_t u;
    memcpy(&u, &max, sizeof u);
    vi sum[4];
    for (int k = 0; k < 4; k++)
        sum[k] = ar_float_sum(x[k], vf_max_abs(x[k], lowest), m, emin);
    vi_store4_sums(to, sum, bits, m, (u >> (23 - m)) - ((uint32_t)(emin + 126) << m));
}
#endif

#if !defined(LANE_HAS_F16_CODES) && !defined(LANE_HAS_FP16_CODE)
/* Bounding |x| by 2^16, the number whose code is that of infinity, lets 65520 and above round to infinity. */
AR_FN vi ar_f16_code(vf x)
{
    vi code = ar_float_code(x, 16, 10, -14, 0x1p16f);
    return vi_sel(vf_is_nan(x), vi_set(0x7fff), code);
}
#endif

/* RN_T(x) as a float. A NaN, which is short, stays a NaN, its bits unspecified: only a store makes it canonical. */
AR_FN vf ar_round(int dtype, vf x)
{
    if (dtype == AR_BF16)
        return ar_bf16_round(x);
    if (dtype == AR_F16)
        return ar_f16_value(ar_f16_code(x));
    return x;
}

#endif
