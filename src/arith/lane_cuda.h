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

/* ---- Division, reciprocal, square root ----
 *
 * Rounded to nearest, for all numbers. div.rn, rcp.rn and sqrt.rn bring 3 KB for what is rare into every kernel;
 * here that is a sixth, and the common case the same instructions. */

/* RN(1 / b) for |b| from 2^-125 to 2^125. */
AR_FN vf cuda_rcp_normal(vf b)
{
    vf r = vf_rcp_unit(b);
    return vf_fma(r, vf_neg(vf_fma(r, b, -1.0f)), r);
}

/* RN(a / b) from r = RN(1 / b), b > 0, but for the sign of a zero: the first step leaves at most one unit of error, the
 * second none (Markstein). For |a / b| <= 2^100 and b from 2^-60 to 2^120; where |a / b| is below 2^-40 the result is
 * only close, unless |a| is at least 2^-100 and the quotient normal. */
AR_FN vf cuda_div_steps(vf a, vf b, vf r)
{
    vf q = vf_mul(a, r);
    q = vf_fma(vf_fma(vf_neg(b), q, a), r, q);
    return vf_fma(vf_fma(vf_neg(b), q, a), r, q);
}

/* The same, a zero with its sign. */
AR_FN vf cuda_div_by(vf a, vf b, vf r)
{
    return vi_float((vf_bits(cuda_div_steps(a, b, r)) & 0x7fffffffu) | (vf_bits(a) & 0x80000000u));
}

/* RN(sqrt(v)) for v from 2^-60 to 2^100. */
AR_FN vf cuda_sqrt_normal(vf v)
{
    vf y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v));
    vf g = vf_mul(v, y);
    return vf_fma(vf_fma(vf_neg(g), g, v), vf_mul(y, 0.5f), g);
}

/* RN(1 / RN(sqrt(v))) for v from 2^-60 to 2^100. */
AR_FN vf cuda_rsqrt(vf v)
{
    return cuda_rcp_normal(cuda_sqrt_normal(v));
}

/* Whether it lies where products and quotients of two are normal numbers. */
AR_FN bool cuda_moderate(vf a)
{
    return vf_abs(a) >= 0x1p-60f && vf_abs(a) <= 0x1p60f;
}

/* e * r + x; or x if e is 0 or a NaN. */
AR_FN double cuda_corrected(double x, double e, double r)
{
    double result;
    asm("{ .reg .pred p; .reg .f64 t; setp.ne.f64 p, %2, 0d0000000000000000; fma.rn.f64 t, %2, %3, %1; selp.f64 %0, t, "
        "%1, p; }"
        : "=d"(result)
        : "d"(x), "d"(e), "d"(r));
    return result;
}

/* RN(a / b) of any two numbers, by way of doubles. What is rounded to a float last is the double quotient, or that of
 * which an exact quotient leaves nothing over; one that is not exact is farther from a number between two floats than
 * 2^-50 of itself. 0, infinity and NaN leave corrections that are NaN, and the first quotient. */
AR_FN vf cuda_div_any(vf a, vf b)
{
    double n, d, r;
    asm("cvt.f64.f32 %0, %1;" : "=d"(n) : "f"(a));
    asm("cvt.f64.f32 %0, %1;" : "=d"(d) : "f"(b));
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(d));
#pragma unroll 1
    for (int i = 0; i < 3; i++)
        r = cuda_corrected(r, __fma_rn(-d, r, 1.0), r);
    double q = __dmul_rn(n, r);
    q = cuda_corrected(q, __fma_rn(-d, q, n), r);
    float result;
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(result) : "d"(q));
    return result;
}

AR_RARE float cuda_div_rare(float a, float b) /* compiled once for a kernel; costs it registers */
{
    return cuda_div_any(a, b);
}

AR_FN vf vf_div(vf a, vf b)
{
    if (__builtin_expect(!(cuda_moderate(a) && cuda_moderate(b)), 0))
        return cuda_div_rare(a, b);
    return cuda_div_steps(a, b, cuda_rcp_normal(b));
}

AR_FN vf vf_rcp(vf a)
{
    if (__builtin_expect(!cuda_moderate(a), 0))
        return cuda_div_rare(1.0f, a);
    return cuda_rcp_normal(a);
}

/* Others are multiplied by an even power of 2 first, which leaves 0, infinity and NaN. */
AR_FN vf vf_sqrt(vf v)
{
    const vf up = v > 0x1p100f ? 0x1p-96f : 0x1p96f, down = v > 0x1p100f ? 0x1p48f : 0x1p-48f;
    if (v >= 0x1p-60f && v <= 0x1p100f)
        return cuda_sqrt_normal(v);
    const vf scaled = vf_mul(v, up); /* of a subnormal, no subnormal: a comparison may flush one */
    return scaled == 0.0f || vf_bits(v) == 0x7f800000u ? v : vf_mul(cuda_sqrt_normal(scaled), down);
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
    return cuda_rcp_normal(b);
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

/* RN(x * y + z) of pairs in 16 bits; NaN becomes 0x7fff. */
AR_FN uint32_t cuda_bf16x2_fma(uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
    return r;
}

AR_FN uint32_t cuda_f16x2_fma(uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
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

#endif
