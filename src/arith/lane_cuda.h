/* lane_cuda.h: the lane vocabulary on an NVIDIA GPU: width 1, one thread a
 * lane. SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic is inline PTX with an explicit rounding and without .ftz:
 * compilers contract plain expressions, and flags of a host project
 * (-use_fast_math, -ftz=true) rewrite operators and intrinsics. See lane_c.h
 * for what each name means. */
#ifndef EPIQ_LANE_CUDA_H
#define EPIQ_LANE_CUDA_H

#include <cfloat>
#include <cstdint>

#define AR_FN static __device__ __forceinline__
#define AR_RARE static __device__ __noinline__
#define AR_TABLE static __device__ const
#define VW 1

typedef float vf;
typedef uint32_t vi;
typedef bool vm;

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
    return __float_as_uint(a);
}

AR_FN vf vi_float(vi a)
{
    return __uint_as_float(a);
}

AR_FN vf vi_to_float(vi a)
{
    return __int2float_rn((int)a);
}

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
    return a || b;
}

AR_FN vm vm_and(vm a, vm b)
{
    return a && b;
}

AR_FN vm vf_is_nan(vf a) /* on bits: -use_fast_math may assume that there is none */
{
    return (__float_as_uint(a) & 0x7fffffffu) > 0x7f800000u;
}

AR_FN vm vf_gt(vf a, vf b)
{
    uint32_t r;
    asm("{ .reg .pred p; setp.gt.f32 p, %1, %2; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "f"(a), "f"(b));
    return r != 0;
}

AR_FN vm vi_eq(vi a, vi b)
{
    return a == b;
}

AR_FN vm vi_gt(vi a, vi b)
{
    return a > b;
}

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

AR_FN vi vi_lookup(const uint32_t table[128], vi index)
{
    return table[index];
}

AR_FN vi vi_and(vi a, vi b)
{
    return a & b;
}

AR_FN vi vi_or(vi a, vi b)
{
    return a | b;
}

AR_FN vi vi_max(vi a, vi b)
{
    return a > b ? a : b;
}

AR_FN vi vi_min(vi a, vi b)
{
    return a < b ? a : b;
}

AR_FN vi vi_shl(vi a, int n)
{
    return a << n;
}

AR_FN vi vi_shr(vi a, int n)
{
    return a >> n;
}

AR_FN vf vf_abs(vf a) /* abs and neg become modifiers of the next operation; of
                         a NaN they leave a NaN */
{
    vf r;
    asm("abs.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

AR_FN vf vf_neg(vf a)
{
    vf r;
    asm("neg.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

AR_FN vf vf_min_num(vf a, vf b)
{
    vf r;
    asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

AR_FN vf vf_max_num(vf a, vf b)
{
    vf r;
    asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

AR_FN vf vf_min_nan(vf a, vf b)
{
    vf r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

AR_FN vf vf_max_nan(vf a, vf b)
{
    vf r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

AR_FN vf vf_add(vf a, vf b)
{
    vf r;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

AR_FN vf vf_sub(vf a, vf b)
{
    vf r;
    asm("sub.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

AR_FN vf vf_mul(vf a, vf b)
{
    vf r;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

AR_FN vf vf_fma(vf a, vf b, vf c)
{
    vf r;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c));
    return r;
}

#define LANE_HAS_MUL_ADD 1
AR_FN vf vf_mul_add(vf a, vf b, vf c)
{
    return vf_fma(a, b, c);
}

AR_FN vf vf_div(vf a, vf b)
{
    vf r;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

AR_FN vf vf_rcp(vf a) /* RN(1 / a) */
{
    vf r;
    asm("rcp.rn.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

AR_FN vf vf_sqrt(vf a)
{
    vf r;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

AR_FN vf vf_pair_add(vf a, vf b)
{
    return vf_add(a, b);
}

/* The instruction of which rcp~ is the model; vf_rcp_approx takes it where all
 * 2^32 inputs were compared (`unit`). */
#define LANE_HAS_RCP_UNIT 1
AR_FN vf vf_rcp_unit(vf a)
{
    vf r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

/* Any seed within 4 ulp of 1 / b gives the correctly rounded quotient for every
 * a and b that a 16-bit gate can make, and the instruction's is within 1:
 * compared exhaustively, as is the Newton step below. */
AR_FN vf vf_div_1to2(vf a, vf b, int wide)
{
    if (wide)
        return vf_div(a, b);
    vf s = vf_rcp_unit(b);
    vf q = vf_mul(a, s);
    return vf_fma(vf_fma(vf_neg(b), q, a), s, q);
}

AR_FN vf vf_div_max(vf a, float b)
{
    const float r = 1.0f / b; /* a constant */
    vf q = vf_mul(a, r);
    return vf_fma(vf_fma(-b, q, a), r, q);
}

AR_FN vf vf_rcp_1to5(vf b, int wide)
{
    if (wide)
        return vf_rcp(b);
    vf s = vf_rcp_unit(b);
    return vf_fma(s, vf_fma(vf_neg(b), s, 1.0f), s);
}

/* RN_bf16 of this is that of silu(g) for every bf16 g from -87 on, NaN included, on the GPUs where the self-test
 * compared them all: two approximate instructions in place of twenty exact ones. */
AR_FN vf cuda_quick_silu(vf g)
{
    vf e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(vf_mul(g, -0x1.715476p+0f)));
    return vf_mul(g, vf_rcp_unit(vf_add(1.0f, e)));
}

/* ---- 16-bit floats in hardware ---- */

#define LANE_HAS_F16_VALUE 1
AR_FN vf ar_f16_value(vi bits)
{
    vf r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((uint16_t)bits));
    return r;
}

/* Two of them, in one register. NaN becomes 0x7fff. */
AR_FN uint32_t cuda_bf16x2(vf low, vf high)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

AR_FN uint32_t cuda_f16x2(vf low, vf high)
{
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

#define LANE_HAS_F16_CODES 1
AR_FN vi ar_bf16_code(vf x)
{
    return cuda_bf16x2(x, 0.0f) & 0xffff;
}

AR_FN vi ar_f16_code(vf x)
{
    return cuda_f16x2(x, 0.0f) & 0xffff;
}

/* ---- e4m3, e5m2 in hardware, from sm_89 on; e2m1 on the targets with a suffix
 * from sm_100 on ---- */

#if __CUDA_ARCH__ >= 890
#define LANE_HAS_E4M3 1
#define LANE_HAS_E5M2 1

/* Codes of two numbers, RN, saturating, NaN to 0x7f. */
AR_FN uint32_t cuda_e4m3x2(vf low, vf high)
{
    uint16_t r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
    return r;
}

AR_FN uint32_t cuda_e5m2x2(vf low, vf high)
{
    uint16_t r;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
    return r;
}

AR_FN vi ar_e4m3_round(vf x)
{
    return cuda_e4m3x2(x, 0.0f) & 0xff;
}

AR_FN vi ar_e5m2_round(vf x)
{
    return cuda_e5m2x2(x, 0.0f) & 0xff;
}

AR_FN vf ar_e4m3_value(vi code)
{
    uint32_t r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)code));
    return ar_f16_value(r & 0xffff);
}
#endif

#if __CUDA_ARCH__ >= 1000 && (defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__))
#define LANE_HAS_E2M1 1

/* Two numbers in a byte, `low` in the low nibble; NaN to 7. */
AR_FN uint32_t cuda_e2m1x2(vf low, vf high)
{
    uint32_t r;
    asm("{ .reg .b8 b; cvt.rn.satfinite.e2m1x2.f32 b, %1, %2; mov.b32 %0, {b, 0, "
        "0, 0}; }"
        : "=r"(r)
        : "f"(high), "f"(low));
    return r;
}
#endif

/* ---- Division by a number whose reciprocal is at hand ---- */

/* RN(a / b), b > 0, from r = RN(1 / b): the first step leaves at most one unit
 * of error, the second none (Markstein); a zero gets its sign back. For |a / b|
 * <= 2^100 and b from 2^-60 to 2^120; where |a / b| is below 2^-40 the result
 * is only close. */
AR_FN vf cuda_div_by(vf a, vf b, vf r)
{
    vf q = vf_mul(a, r);
    q = vf_fma(vf_fma(vf_neg(b), q, a), r, q);
    q = vf_fma(vf_fma(vf_neg(b), q, a), r, q);
    return vi_float((vf_bits(q) & 0x7fffffffu) | (vf_bits(a) & 0x80000000u));
}

/* ---- 1 / sqrt ---- */

/* RN(1 / RN(sqrt(v))) for v from 2^-60 to 2^100, all of which the self-test compares: what the compiler makes of the
 * two, without the questions for other v. */
AR_FN vf cuda_rsqrt(vf v)
{
    vf y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v));
    vf g = vf_mul(v, y);
    vf s = vf_fma(vf_fma(vf_neg(g), g, v), vf_mul(y, 0.5f), g);
    vf r = vf_rcp_unit(s);
    return vf_fma(r, vf_neg(vf_fma(r, s, -1.0f)), r);
}

#endif
