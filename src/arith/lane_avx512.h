/* lane_avx512.h: the lane vocabulary at width 16, for x86-64 with AVX-512 F, BW, DQ and VL. lane_c.h says what
 * each name means.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_LANE_AVX512_H
#define EPIQ_LANE_AVX512_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "epiq's bytes are defined by IEEE arithmetic: do not compile it with -ffast-math"
#endif

#include <float.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define AR_FN static inline __attribute__((always_inline))
#define VW 16

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

/* Shifts by a number that need not be a constant where nothing is optimised. */
typedef uint32_t ar_u32x16 __attribute__((vector_size(64)));

/* ---- Constants and reinterpretation ---- */

AR_FN vf vf_set(float a)
{
    return _mm512_set1_ps(a);
}

AR_FN vi vi_set(uint32_t a)
{
    return _mm512_set1_epi32((int32_t)a);
}

AR_FN vi vf_bits(vf a)
{
    return _mm512_castps_si512(a);
}

AR_FN vf vi_float(vi a)
{
    return _mm512_castsi512_ps(a);
}

AR_FN vf vi_to_float(vi a)
{
    return _mm512_cvtepi32_ps(a);
}

/* ---- Memory ---- */

AR_FN vf vf_load(const void *p)
{
    return _mm512_loadu_ps(p);
}

AR_FN void vf_store(void *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

AR_FN vi vi_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

AR_FN void vi_store(void *p, vi a)
{
    _mm512_storeu_si512(p, a);
}

AR_FN vi vi_load_u8(const void *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

AR_FN vi vi_load_u16(const void *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

AR_FN vi vi_load_upper(const void *p)
{
    const vi order = _mm512_setr_epi32(0x0000ffff, 0x0001ffff, 0x0002ffff, 0x0003ffff, 0x0004ffff, 0x0005ffff,
                                       0x0006ffff, 0x0007ffff, 0x0008ffff, 0x0009ffff, 0x000affff, 0x000bffff,
                                       0x000cffff, 0x000dffff, 0x000effff, 0x000fffff);
    vi halves = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, order, halves);
}

AR_FN void vi_store_u8(void *p, vi a)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a));
}

AR_FN void vi_store_u16(void *p, vi a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(a));
}

AR_FN void vi_store2_u16(void *p, vi a, vi b)
{
    const vi order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi64(order, _mm512_packus_epi32(a, b)));
}

AR_FN void vi_store4_u8(void *p, vi a, vi b, vi c, vi d)
{
    const vi order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); /* packs keep to quarters */
    vi bytes = _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, bytes));
}

/* The codes that four vectors of sums stand for (convert.h), of `bits` bits, m of them mantissa, none above `largest`,
 * one a byte. Of a sum the low half holds the code less a start, the high half sign, exponent and zeros: with weights
 * 2^(7 - m) and 1 they add up to 2^(7 - m) code - 2^15 sign, which 16 bits hold, infinity's too. */
#define LANE_HAS_STORE4_SUMS
AR_FN void vi_store4_sums(void *p, const vi sum[4], int bits, int m, uint32_t largest)
{
    const vi weights = vi_set(1u << 16 | 1u << (7 - m));
    const vi order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); /* packs keep to quarters */
    vi a = _mm512_packs_epi32(_mm512_madd_epi16(sum[0], weights), _mm512_madd_epi16(sum[1], weights));
    vi b = _mm512_packs_epi32(_mm512_madd_epi16(sum[2], weights), _mm512_madd_epi16(sum[3], weights));
    vi signs = _mm512_packs_epi16(a, b);
    a = _mm512_srli_epi16(_mm512_slli_epi16(a, 1), (unsigned)(8 - m));
    b = _mm512_srli_epi16(_mm512_slli_epi16(b, 1), (unsigned)(8 - m));
    vi codes = _mm512_min_epu8(_mm512_packus_epi16(a, b), _mm512_set1_epi8((char)largest));
    if (bits < 8)
        signs = _mm512_srli_epi16(signs, (unsigned)(8 - bits)); /* what comes from the byte above is not looked at */
    codes = _mm512_ternarylogic_epi32(_mm512_set1_epi8((char)(1 << (bits - 1))), signs, codes, 0xca);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, codes));
}

AR_FN vi ar_lookup32(const uint32_t *table, vi index) /* by the low five bits */
{
    return _mm512_permutex2var_epi32(vi_load(table), index, vi_load(table + 16));
}

AR_FN vi vi_lookup(const uint32_t table[128], vi index)
{
    const __mmask16 odd = _mm512_test_epi32_mask(index, vi_set(32)), upper = _mm512_test_epi32_mask(index, vi_set(64));
    vi low = _mm512_mask_blend_epi32(odd, ar_lookup32(table, index), ar_lookup32(table + 32, index));
    vi high = _mm512_mask_blend_epi32(odd, ar_lookup32(table + 64, index), ar_lookup32(table + 96, index));
    return _mm512_mask_blend_epi32(upper, low, high);
}

/* ---- Truth values ---- */

AR_FN vf vf_sel(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

AR_FN vi vi_sel(vm m, vi a, vi b)
{
    return _mm512_mask_blend_epi32(m, b, a);
}

AR_FN vm vm_or(vm a, vm b)
{
    return (vm)(a | b);
}

AR_FN vm vm_and(vm a, vm b)
{
    return (vm)(a & b);
}

AR_FN int vm_any(vm a)
{
    return a != 0;
}

AR_FN vm vf_is_nan(vf a)
{
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}

AR_FN vm vf_unordered(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}

AR_FN vm vf_gt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

AR_FN vm vi_eq(vi a, vi b)
{
    return _mm512_cmpeq_epi32_mask(a, b);
}

AR_FN vm vi_gt(vi a, vi b)
{
    return _mm512_cmpgt_epu32_mask(a, b);
}

/* ---- Integers modulo 2^32 ---- */

AR_FN vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

AR_FN vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}

AR_FN vi vi_mul(vi a, vi b)
{
    return _mm512_mullo_epi32(a, b);
}

AR_FN vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

AR_FN vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}

#define LANE_HAS_BIT_SEL
AR_FN vi vi_bit_sel(uint32_t mask, vi a, vi b)
{
    return _mm512_ternarylogic_epi32(vi_set(mask), a, b, 0xca);
}

AR_FN vi vi_max(vi a, vi b)
{
    return _mm512_max_epu32(a, b);
}

AR_FN vi vi_min(vi a, vi b)
{
    return _mm512_min_epu32(a, b);
}

AR_FN vi vi_shl(vi a, int n)
{
    return (vi)((ar_u32x16)a << n);
}

AR_FN vi vi_shr(vi a, int n)
{
    return (vi)((ar_u32x16)a >> n);
}

/* ---- Floats ---- */

AR_FN vf vf_abs(vf a)
{
    return vi_float(vi_and(vf_bits(a), vi_set(0x7fffffff)));
}

AR_FN vf vf_neg(vf a)
{
    return -a; /* the sign bit; part of a multiply-add where one follows */
}

/* The instructions answer their second operand if either is NaN or both are zero. */
AR_FN vf vf_min_num(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

AR_FN vf vf_max_num(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

AR_FN vf vf_min_nan(vf a, vf b)
{
    return _mm512_min_ps(b, a);
}

AR_FN vf vf_max_nan(vf a, vf b)
{
    return _mm512_max_ps(b, a);
}

AR_FN vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

AR_FN vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

AR_FN vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

AR_FN vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

AR_FN vf vf_rcp(vf a)
{
    return _mm512_div_ps(vf_set(1.0f), a);
}

AR_FN vf vf_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}

AR_FN vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

#define LANE_HAS_MUL_ADD
AR_FN vf vf_mul_add(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

AR_FN vf vf_div_1to2(vf a, vf b, int wide)
{
    (void)wide;
    return _mm512_div_ps(a, b);
}

AR_FN vf vf_div_max(vf a, float b)
{
    return vf_div(a, vf_set(b));
}

AR_FN vf vf_rcp_1to5(vf b, int wide)
{
    (void)wide;
    return vf_rcp(b);
}

#define LANE_HAS_MIN_ABS
AR_FN vf vf_min_abs(vf a, float b)
{
    return _mm512_range_ps(a, vf_set(b), 0x0a); /* the smaller magnitude, positive; of a NaN and a number the number */
}

/* The larger of |a| and a positive b, with the sign of a. */
AR_FN vf vf_max_abs(vf a, vf b)
{
    return _mm512_range_ps(a, b, 0x03);
}

#define LANE_HAS_EXP2
AR_FN vf vf_mul_exp2(vf a, vf n, vi biased)
{
    (void)biased;
    return _mm512_scalef_ps(a, n);
}

/* 16 bits each of a table, by index; what lies above them in a lane is not told. The table has two bytes more. Only
 * where the CPU is quick at it: those with AVX512-FP16 are, older ones may have to take it slowly for safety's sake. */
#define LANE_HAS_GATHER
AR_FN vi vi_gather_u16(const uint16_t *table, vi index)
{
    return _mm512_i32gather_epi32(index, table, 2);
}

/* ---- Across lanes ---- */

AR_FN vf vf_even(vf a, vf b)
{
    const vi index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, index, b);
}

AR_FN vf vf_odd(vf a, vf b)
{
    const vi index = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_ps(a, index, b);
}

AR_FN vf vf_pair_add(vf a, vf b)
{
    return vf_add(vf_even(a, b), vf_odd(a, b));
}

AR_FN vf vf_pair_max(vf a, vf b)
{
    return _mm512_max_ps(vf_even(a, b), vf_odd(a, b));
}

/* ---- 16-bit floats in hardware (see convert.h) ---- */

/* Rounds half away from zero, then makes what was a tie even. A short NaN stays as it is. */
#define LANE_HAS_BF16_ROUND
AR_FN vf ar_bf16_round(vf x)
{
    const vi sum = vi_add(vf_bits(x), vi_set(0x8000));
    const vm tie = _mm512_testn_epi32_mask(sum, vi_set(0xffff));
    return vi_float(_mm512_mask_and_epi32(vi_and(sum, vi_set(0xffff0000)), tie, sum, vi_set(0xfffe0000)));
}

AR_FN vf vf_short_nan(vf a)
{
    return vf_sel(vf_is_nan(a), vi_float(vi_set(0x7fc00000)), a);
}

#define LANE_HAS_F16_VALUE
AR_FN vf ar_f16_value(vi bits)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits));
}

#define LANE_HAS_FP16_CODE
AR_FN vi ar_f16_code(vf x)
{
    vi code = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    return vi_sel(vf_is_nan(x), vi_set(0x7fff), code);
}

#endif
