/* lane_c.h: the lane vocabulary at width 1, in portable C. Its definitions are the specification of the vocabulary:
 * every other lane header gives the same bits in each of its lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Formulas above this layer use these names only: no float operator, no library function, no intrinsic. Each vf_
 * operation is one IEEE 754 binary32 operation rounded to nearest even with gradual underflow (doc/spec.md 0), and no
 * two of them may be fused. `vf` holds floats, `vi` 32-bit patterns, `vm` truth values. */
#ifndef EPIQ_LANE_C_H
#define EPIQ_LANE_C_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "epiq's bytes are defined by IEEE arithmetic: do not compile it with -ffast-math"
#endif

#include <float.h>
#include <stdint.h>
#include <string.h>

#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16 /* 16: _Float16 stays itself, too */
#error "epiq needs float expressions evaluated as float"
#endif

#define AR_FN static inline __attribute__((always_inline))
#define VW 1

typedef float vf;
typedef uint32_t vi;
typedef int32_t vm;

/* ---- Constants and reinterpretation ---- */

AR_FN vf vf_set(float a)
{
    return a;
}

AR_FN vi vi_set(uint32_t a)
{
    return a;
}

AR_FN vi vf_bits(vf a)
{
    vi u;
    memcpy(&u, &a, sizeof u);
    return u;
}

AR_FN vf vi_float(vi a)
{
    vf f;
    memcpy(&f, &a, sizeof f);
    return f;
}

/* The float nearest to a signed integer below 2^24 in magnitude: exact. */
AR_FN vf vi_to_float(vi a)
{
    return (float)(int32_t)a;
}

/* ---- Memory: VW elements side by side, at any alignment ---- */

AR_FN vf vf_load(const void *p)
{
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}

AR_FN void vf_store(void *p, vf a)
{
    memcpy(p, &a, sizeof a);
}

AR_FN vi vi_load(const void *p)
{
    vi a;
    memcpy(&a, p, sizeof a);
    return a;
}

AR_FN void vi_store(void *p, vi a)
{
    memcpy(p, &a, sizeof a);
}

AR_FN vi vi_load_u8(const void *p)
{
    uint8_t a;
    memcpy(&a, p, sizeof a);
    return a;
}

AR_FN vi vi_load_u16(const void *p)
{
    uint16_t a;
    memcpy(&a, p, sizeof a);
    return a;
}

/* 16-bit elements in the upper halves of the lanes, the lower ones 0. */
AR_FN vi vi_load_upper(const void *p)
{
    uint16_t a;
    memcpy(&a, p, sizeof a);
    return (vi)a << 16;
}

/* The low byte or half of each lane. */
AR_FN void vi_store_u8(void *p, vi a)
{
    uint8_t low = (uint8_t)a;
    memcpy(p, &low, sizeof low);
}

AR_FN void vi_store_u16(void *p, vi a)
{
    uint16_t low = (uint16_t)a;
    memcpy(p, &low, sizeof low);
}

/* The halves that the lanes of a and b hold: no lane is above 65535. */
AR_FN void vi_store2_u16(void *p, vi a, vi b)
{
    const uint16_t halves[2] = {(uint16_t)a, (uint16_t)b};
    memcpy(p, halves, sizeof halves);
}

/* The bytes that the lanes of a, b, c, d hold, in this order: no lane is above 255. */
AR_FN void vi_store4_u8(void *p, vi a, vi b, vi c, vi d)
{
    const uint8_t bytes[4] = {(uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d};
    memcpy(p, bytes, sizeof bytes);
}

AR_FN vi vi_lookup(const uint32_t table[128], vi index) /* from 0 to 127 */
{
    return table[index];
}

/* ---- Truth values ---- */

AR_FN vf vf_sel(vm m, vf a, vf b)
{
    return m ? a : b;
}

AR_FN vi vi_sel(vm m, vi a, vi b)
{
    return m ? a : b;
}

AR_FN vm vm_or(vm a, vm b)
{
    return a | b;
}

AR_FN vm vm_and(vm a, vm b)
{
    return a & b;
}

AR_FN int vm_any(vm a) /* of the lanes */
{
    return a != 0;
}

AR_FN vm vf_is_nan(vf a)
{
    return a != a;
}

AR_FN vm vf_unordered(vf a, vf b) /* whether either is NaN */
{
    return a != a || b != b;
}

AR_FN vm vf_gt(vf a, vf b) /* false if either is NaN */
{
    return a > b;
}

AR_FN vm vi_eq(vi a, vi b)
{
    return a == b;
}

AR_FN vm vi_gt(vi a, vi b) /* unsigned */
{
    return a > b;
}

/* ---- Integers modulo 2^32 ---- */

AR_FN vi vi_add(vi a, vi b)
{
    return a + b;
}

AR_FN vi vi_sub(vi a, vi b)
{
    return a - b;
}

AR_FN vi vi_mul(vi a, vi b)
{
    return a * b;
}

AR_FN vi vi_and(vi a, vi b)
{
    return a & b;
}

AR_FN vi vi_or(vi a, vi b)
{
    return a | b;
}

AR_FN vi vi_max(vi a, vi b) /* unsigned */
{
    return a > b ? a : b;
}

AR_FN vi vi_min(vi a, vi b) /* unsigned */
{
    return a < b ? a : b;
}

AR_FN vi vi_shl(vi a, int n) /* n from 0 to 31, the same for all lanes */
{
    return a << n;
}

AR_FN vi vi_shr(vi a, int n)
{
    return a >> n;
}

/* ---- Floats ---- */

AR_FN vf vf_abs(vf a)
{
    return vi_float(vf_bits(a) & 0x7fffffffu);
}

AR_FN vf vf_neg(vf a)
{
    return vi_float(vf_bits(a) ^ 0x80000000u);
}

/* Minimum and maximum of a and a number b (never NaN, and never a zero of a sign that matters but where said). The
 * name says what becomes of a NaN in a: `_num` gives b, `_nan` gives NaN. */
AR_FN vf vf_min_num(vf a, vf b)
{
    return a < b ? a : b;
}

AR_FN vf vf_max_num(vf a, vf b)
{
    return a > b ? a : b;
}

AR_FN vf vf_min_nan(vf a, vf b)
{
    return b < a ? b : a;
}

AR_FN vf vf_max_nan(vf a, vf b) /* b may be -0: a zero a is then kept with its sign */
{
    return b > a ? b : a;
}

AR_FN vf vf_add(vf a, vf b)
{
    return a + b;
}

AR_FN vf vf_sub(vf a, vf b)
{
    return a - b;
}

AR_FN vf vf_mul(vf a, vf b)
{
    return a * b;
}

AR_FN vf vf_div(vf a, vf b)
{
    return a / b;
}

AR_FN vf vf_rcp(vf a) /* RN(1 / a) */
{
    return 1.0f / a;
}

AR_FN vf vf_sqrt(vf a)
{
    return __builtin_sqrtf(a);
}

/* a * b + c with one rounding. Without the instruction: the product is exact in double; the sum is rounded to odd
 * there, and 53 >= 2 * 24 + 2 bits make the second rounding, to float, give the single rounding's result, subnormal
 * results included. */
AR_FN vf vf_fma(vf a, vf b, vf c)
{
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    double p = (double)a * (double)b, d = (double)c;
    double s = p + d, t = s - p;
    double error = (p - (s - t)) + (d - t); /* of s, exact; NaN where s is not finite */
    uint64_t u, e;
    memcpy(&u, &s, sizeof u);
    memcpy(&e, &error, sizeof e);
    uint64_t nonzero = ((e << 1) | (0 - (e << 1))) >> 63;
    uint64_t infinite = ((u & 0x7ff0000000000000u) + 0x0010000000000000u) >> 63;
    uint64_t inexact = nonzero & (infinite ^ 1);
    uint64_t away = inexact & ((e ^ u) >> 63); /* s was rounded away from zero: one step back */
    u = (u - away) | inexact;
    memcpy(&s, &u, sizeof s);
    return (float)s;
#endif
}

/* a / b for 0 <= a and b in [1, 2], and 1 / b for b in [1, 5], as the activations need them. `wide` 0 promises that the
 * gate behind them is a 16-bit float (and alpha 1): for these 131072 gates lanes without a fast division have a shorter
 * form, compared exhaustively. */
AR_FN vf vf_div_1to2(vf a, vf b, int wide)
{
    (void)wide;
    return a / b;
}

/* a / b for b of 448 or 57344, exact where the quotient is above 2^-100: lanes without a fast division have a shorter
 * form, compared for all significands. */
AR_FN vf vf_div_max(vf a, float b)
{
    return a / b;
}

AR_FN vf vf_rcp_1to5(vf b, int wide)
{
    (void)wide;
    return 1.0f / b;
}

/* ---- Across lanes: of the 2 * VW floats a, b ---- */

AR_FN vf vf_even(vf a, vf b) /* elements 0, 2, 4 ... */
{
    (void)b;
    return a;
}

AR_FN vf vf_odd(vf a, vf b)
{
    (void)a;
    return b;
}

AR_FN vf vf_pair_add(vf a, vf b) /* sums of adjacent pairs: a level of the canonical tree */
{
    return a + b;
}

AR_FN vf vf_pair_max(vf a, vf b) /* the larger of each pair; none is NaN or negative */
{
    return a > b ? a : b;
}

#endif
