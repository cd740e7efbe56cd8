/* lane_avx2.h: the lane vocabulary at width 8, for x86-64 with AVX2, FMA and F16C. lane_c.h says what each name means.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_LANE_AVX2_H
#define EPIQ_LANE_AVX2_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "epiq's bytes are defined by IEEE arithmetic: do not compile it with -ffast-math"
#endif

#include <float.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define AR_FN static inline __attribute__((always_inline))
#define VW 8

typedef __m256 vf;
typedef __m256i vi;
typedef __m256i vm; /* all bits of a lane, or none */

/* Shifts by a number that need not be a constant where nothing is optimised. */
typedef uint32_t ar_u32x8 __attribute__((vector_size(32)));

/* ---- Constants and reinterpretation ---- */

AR_FN vf vf_set(float a)
{
    return _mm256_set1_ps(a);
}

AR_FN vi vi_set(uint32_t a)
{
    return _mm256_set1_epi32((int32_t)a);
}

AR_FN vi vf_bits(vf a)
{
    return _mm256_castps_si256(a);
}

AR_FN vf vi_float(vi a)
{
    return _mm256_castsi256_ps(a);
}

AR_FN vf vi_to_float(vi a)
{
    return _mm256_cvtepi32_ps(a);
}

/* ---- Memory ---- */

AR_FN vf vf_load(const void *p)
{
    return _mm256_loadu_ps(p);
}

AR_FN void vf_store(void *p, vf a)
{
    _mm256_storeu_ps(p, a);
}

AR_FN vi vi_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

AR_FN void vi_store(void *p, vi a)
{
    _mm256_storeu_si256((__m256i *)p, a);
}

AR_FN vi vi_load_u8(const void *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

AR_FN vi vi_load_u16(const void *p)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}

AR_FN vi vi_load_upper(const void *p)
{
    return _mm256_slli_epi32(vi_load_u16(p), 16);
}

AR_FN void vi_store_u8(void *p, vi a)
{
    const vi low_bytes = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1,
                                          -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    vi b = _mm256_shuffle_epi8(a, low_bytes);
    _mm_storel_epi64((__m128i *)p, _mm_unpacklo_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1)));
}

/* The low halves of the lanes, side by side. */
AR_FN __m128i ar_low_halves(vi a)
{
    const vi low = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 4, 5, 8, 9, 12, 13,
                                    -1, -1, -1, -1, -1, -1, -1, -1);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_shuffle_epi8(a, low), 0x08));
}

AR_FN void vi_store_u16(void *p, vi a)
{
    _mm_storeu_si128((__m128i *)p, ar_low_halves(a));
}

AR_FN void vi_store2_u16(void *p, vi a, vi b)
{
    vi_store(p, _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8));
}

AR_FN void vi_store4_u8(void *p, vi a, vi b, vi c, vi d)
{
    const vi order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packs keep to halves */
    vi bytes = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    vi_store(p, _mm256_permutevar8x32_epi32(bytes, order));
}

AR_FN vi vi_lookup(const uint32_t table[128], vi index)
{
    return _mm256_i32gather_epi32((const int *)table, index, 4);
}

/* ---- Truth values ---- */

AR_FN vf vf_sel(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m));
}

AR_FN vi vi_sel(vm m, vi a, vi b)
{
    return _mm256_blendv_epi8(b, a, m);
}

AR_FN vm vm_or(vm a, vm b)
{
    return _mm256_or_si256(a, b);
}

AR_FN vm vm_and(vm a, vm b)
{
    return _mm256_and_si256(a, b);
}

AR_FN int vm_any(vm a)
{
    return !_mm256_testz_si256(a, a);
}

AR_FN vm vf_is_nan(vf a)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

AR_FN vm vf_unordered(vf a, vf b)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}

AR_FN vm vf_gt(vf a, vf b)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

AR_FN vm vi_eq(vi a, vi b)
{
    return _mm256_cmpeq_epi32(a, b);
}

AR_FN vm vi_gt(vi a, vi b)
{
    const vi sign = vi_set(0x80000000);
    return _mm256_cmpgt_epi32(_mm256_xor_si256(a, sign), _mm256_xor_si256(b, sign));
}

/* ---- Integers modulo 2^32 ---- */

AR_FN vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}

AR_FN vi vi_sub(vi a, vi b)
{
    return _mm256_sub_epi32(a, b);
}

AR_FN vi vi_mul(vi a, vi b)
{
    return _mm256_mullo_epi32(a, b);
}

AR_FN vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}

AR_FN vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}

AR_FN vi vi_max(vi a, vi b)
{
    return _mm256_max_epu32(a, b);
}

AR_FN vi vi_min(vi a, vi b)
{
    return _mm256_min_epu32(a, b);
}

AR_FN vi vi_shl(vi a, int n)
{
    return (vi)((ar_u32x8)a << n);
}

AR_FN vi vi_shr(vi a, int n)
{
    return (vi)((ar_u32x8)a >> n);
}

/* ---- Floats ---- */

AR_FN vf vf_abs(vf a)
{
    return _mm256_and_ps(a, vi_float(vi_set(0x7fffffff)));
}

AR_FN vf vf_neg(vf a)
{
    return -a; /* the sign bit; part of a multiply-add where one follows */
}

/* The instructions answer their second operand if either is NaN or both are zero. */
AR_FN vf vf_min_num(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

AR_FN vf vf_max_num(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

AR_FN vf vf_min_nan(vf a, vf b)
{
    return _mm256_min_ps(b, a);
}

AR_FN vf vf_max_nan(vf a, vf b)
{
    return _mm256_max_ps(b, a);
}

AR_FN vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

AR_FN vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

AR_FN vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

AR_FN vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

AR_FN vf vf_rcp(vf a)
{
    return _mm256_div_ps(vf_set(1.0f), a);
}

AR_FN vf vf_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}

AR_FN vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

#define LANE_HAS_MUL_ADD
AR_FN vf vf_mul_add(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

AR_FN vf vf_div_1to2(vf a, vf b, int wide)
{
    (void)wide;
    return _mm256_div_ps(a, b);
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

/* ---- Across lanes. Shuffles work within halves; the last step puts the quarters in order. ---- */

AR_FN vf ar_quarters_in_order(vf a) /* 0 2 1 3 */
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a), 0xd8));
}

AR_FN vf vf_even(vf a, vf b)
{
    return ar_quarters_in_order(_mm256_shuffle_ps(a, b, 0x88));
}

AR_FN vf vf_odd(vf a, vf b)
{
    return ar_quarters_in_order(_mm256_shuffle_ps(a, b, 0xdd));
}

AR_FN vf vf_pair_add(vf a, vf b)
{
    return ar_quarters_in_order(vf_add(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd)));
}

AR_FN vf vf_pair_max(vf a, vf b)
{
    return ar_quarters_in_order(_mm256_max_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd)));
}

/* ---- 16-bit floats in hardware (see convert.h) ---- */

#define LANE_HAS_F16_VALUE
AR_FN vf ar_f16_value(vi bits)
{
    return _mm256_cvtph_ps(ar_low_halves(bits));
}

#define LANE_HAS_FP16_CODE
AR_FN vi ar_f16_code(vf x)
{
    vi code = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    return vi_sel(vf_is_nan(x), vi_set(0x7fff), code);
}

#endif
