/* lane_neon.h: the lane vocabulary at width 4, for AArch64. lane_c.h says what each name means.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_LANE_NEON_H
#define EPIQ_LANE_NEON_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "epiq's bytes are defined by IEEE arithmetic: do not compile it with -ffast-math"
#endif

#include <arm_neon.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

#define AR_FN static inline __attribute__((always_inline))
#define VW 4

typedef float32x4_t vf;
typedef uint32x4_t vi;
typedef uint32x4_t vm; /* all bits of a lane, or none */

/* ---- Constants and reinterpretation ---- */

AR_FN vf vf_set(float a)
{
    return vdupq_n_f32(a);
}

AR_FN vi vi_set(uint32_t a)
{
    return vdupq_n_u32(a);
}

AR_FN vi vf_bits(vf a)
{
    return vreinterpretq_u32_f32(a);
}

AR_FN vf vi_float(vi a)
{
    return vreinterpretq_f32_u32(a);
}

AR_FN vf vi_to_float(vi a)
{
    return vcvtq_f32_s32(vreinterpretq_s32_u32(a));
}

/* ---- Memory. Loads of bytes have no alignment; elements are copied through them. ---- */

AR_FN vi vi_load(const void *p)
{
    return vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)p));
}

AR_FN void vi_store(void *p, vi a)
{
    vst1q_u8((uint8_t *)p, vreinterpretq_u8_u32(a));
}

AR_FN vf vf_load(const void *p)
{
    return vi_float(vi_load(p));
}

AR_FN void vf_store(void *p, vf a)
{
    vi_store(p, vf_bits(a));
}

AR_FN vi vi_load_u8(const void *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
}

AR_FN vi vi_load_u16(const void *p)
{
    return vmovl_u16(vreinterpret_u16_u8(vld1_u8((const uint8_t *)p)));
}

AR_FN vi vi_load_upper(const void *p)
{
    return vshll_n_u16(vreinterpret_u16_u8(vld1_u8((const uint8_t *)p)), 16);
}

AR_FN void vi_store_u16(void *p, vi a)
{
    vst1_u8((uint8_t *)p, vreinterpret_u8_u16(vmovn_u32(a)));
}

AR_FN void vi_store_u8(void *p, vi a)
{
    uint16x4_t halves = vmovn_u32(a);
    uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(halves, halves))), 0);
    memcpy(p, &four, sizeof four);
}

AR_FN void vi_store2_u16(void *p, vi a, vi b)
{
    uint16x8_t halves = vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b));
    vst1q_u8((uint8_t *)p, vreinterpretq_u8_u16(halves));
}

AR_FN void vi_store4_u8(void *p, vi a, vi b, vi c, vi d)
{
    uint16x8_t ab = vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b));
    uint16x8_t cd = vuzp1q_u16(vreinterpretq_u16_u32(c), vreinterpretq_u16_u32(d));
    vst1q_u8((uint8_t *)p, vuzp1q_u8(vreinterpretq_u8_u16(ab), vreinterpretq_u8_u16(cd)));
}

AR_FN vi vi_lookup(const uint32_t table[128], vi index)
{
    vi a = vdupq_n_u32(table[vgetq_lane_u32(index, 0)]);
    a = vsetq_lane_u32(table[vgetq_lane_u32(index, 1)], a, 1);
    a = vsetq_lane_u32(table[vgetq_lane_u32(index, 2)], a, 2);
    return vsetq_lane_u32(table[vgetq_lane_u32(index, 3)], a, 3);
}

/* ---- Truth values ---- */

AR_FN vf vf_sel(vm m, vf a, vf b)
{
    return vbslq_f32(m, a, b);
}

AR_FN vi vi_sel(vm m, vi a, vi b)
{
    return vbslq_u32(m, a, b);
}

AR_FN vm vm_or(vm a, vm b)
{
    return vorrq_u32(a, b);
}

AR_FN vm vm_and(vm a, vm b)
{
    return vandq_u32(a, b);
}

AR_FN int vm_any(vm a)
{
    return vmaxvq_u32(a) != 0;
}

AR_FN vm vf_is_nan(vf a)
{
    return vmvnq_u32(vceqq_f32(a, a));
}

AR_FN vm vf_unordered(vf a, vf b)
{
    return vmvnq_u32(vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b)));
}

AR_FN vm vf_gt(vf a, vf b)
{
    return vcgtq_f32(a, b);
}

AR_FN vm vi_eq(vi a, vi b)
{
    return vceqq_u32(a, b);
}

AR_FN vm vi_gt(vi a, vi b)
{
    return vcgtq_u32(a, b);
}

/* ---- Integers modulo 2^32 ---- */

AR_FN vi vi_add(vi a, vi b)
{
    return vaddq_u32(a, b);
}

AR_FN vi vi_sub(vi a, vi b)
{
    return vsubq_u32(a, b);
}

AR_FN vi vi_mul(vi a, vi b)
{
    return vmulq_u32(a, b);
}

AR_FN vi vi_and(vi a, vi b)
{
    return vandq_u32(a, b);
}

AR_FN vi vi_or(vi a, vi b)
{
    return vorrq_u32(a, b);
}

#define LANE_HAS_BIT_SEL
AR_FN vi vi_bit_sel(uint32_t mask, vi a, vi b)
{
    return vbslq_u32(vi_set(mask), a, b);
}

AR_FN vi vi_max(vi a, vi b)
{
    return vmaxq_u32(a, b);
}

AR_FN vi vi_min(vi a, vi b)
{
    return vminq_u32(a, b);
}

AR_FN vi vi_shl(vi a, int n)
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
    return vabsq_f32(a);
}

AR_FN vf vf_neg(vf a)
{
    return vnegq_f32(a);
}

/* Compared and selected: FMINNM and FMAXNM answer NaN for a signalling NaN and a number. */
AR_FN vf vf_min_num(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

AR_FN vf vf_max_num(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

AR_FN vf vf_min_nan(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(b, a), b, a);
}

AR_FN vf vf_max_nan(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(b, a), b, a);
}

AR_FN vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

AR_FN vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}

AR_FN vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

AR_FN vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

AR_FN vf vf_rcp(vf a)
{
    return vdivq_f32(vdupq_n_f32(1.0f), a);
}

AR_FN vf vf_sqrt(vf a)
{
    return vsqrtq_f32(a);
}

AR_FN vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

#define LANE_HAS_MUL_ADD
AR_FN vf vf_mul_add(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

AR_FN vf vf_div_1to2(vf a, vf b, int wide)
{
    (void)wide;
    return vdivq_f32(a, b);
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

/* ---- Across lanes ---- */

AR_FN vf vf_even(vf a, vf b)
{
    return vuzp1q_f32(a, b);
}

AR_FN vf vf_odd(vf a, vf b)
{
    return vuzp2q_f32(a, b);
}

AR_FN vf vf_pair_add(vf a, vf b)
{
    return vpaddq_f32(a, b);
}

AR_FN vf vf_pair_max(vf a, vf b)
{
    return vpmaxq_f32(a, b);
}

/* ---- 16-bit floats in hardware (see convert.h) ---- */

#define LANE_HAS_F16_VALUE
AR_FN vf ar_f16_value(vi bits)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(bits)));
}

#define LANE_HAS_FP16_CODE
AR_FN vi ar_f16_code(vf x)
{
    vi code = vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32(x)));
    return vi_sel(vf_is_nan(x), vi_set(0x7fff), code);
}

#endif
