/* row.cuh: eight columns of a row in a thread's registers: loads, stores,
 * reductions, codes and scales. SPDX-License-Identifier: Apache-2.0
 *
 * A vector is 8 columns: 16 bytes of a 16-bit dtype. Formats come from the
 * format files by EPIQI_FORMATS. */
#ifndef EPIQ_ROW_CUH
#define EPIQ_ROW_CUH

#include "arith/lane_cuda.h"

#include "args.h"
#include "arith/act.h"
#include "arith/formats.h"
#include "arith/norm.h"
#include "core/layout.h"
#include "lists.h"

#define DEV static __device__ __forceinline__

/* ---- Programmatic dependent launch ---- */

/* Nothing that an earlier kernel may write is read before this. */
DEV void begin_kernel(const cuda_args &a)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (a.trigger == CUDA_TRIGGER_EARLY) /* not before: those that wait would take room from those that work */
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* After the last store. */
DEV void end_kernel(const cuda_args &a)
{
#if __CUDA_ARCH__ >= 900
    if (a.trigger == CUDA_TRIGGER_LATE)
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* ---- Vectors of a dtype ---- */

/* As loaded: 16 bytes of a 16-bit dtype, 32 of f32. */
template <int DT> struct raw8 {
    uint4 w[DT == AR_F32 ? 2 : 1];
};

template <int DT> struct dtype_of {
    enum { BYTES = DT == AR_F32 ? 4 : 2 };
};

template <int DT> DEV raw8<DT> load_raw(const char *p)
{
    raw8<DT> r;
    r.w[0] = *(const uint4 *)p;
    if (DT == AR_F32)
        r.w[DT == AR_F32] = *((const uint4 *)p + 1);
    return r;
}

template <int DT> DEV raw8<DT> zero_raw()
{
    raw8<DT> r;
    r.w[0] = make_uint4(0, 0, 0, 0);
    r.w[DT == AR_F32] = r.w[0];
    return r;
}

template <int DT> DEV void widen_pair(uint32_t w, float *v)
{
    if (DT == AR_BF16) {
        v[0] = vi_float(w << 16);
        v[1] = vi_float(w & 0xffff0000u);
    } else {
        v[0] = ar_f16_value(w & 0xffff);
        v[1] = ar_f16_value(w >> 16);
    }
}

template <int DT> DEV void widen(const raw8<DT> &r, float v[8])
{
    if (DT == AR_F32) {
        const uint4 a = r.w[0], b = r.w[DT == AR_F32];
        v[0] = vi_float(a.x), v[1] = vi_float(a.y), v[2] = vi_float(a.z), v[3] = vi_float(a.w);
        v[4] = vi_float(b.x), v[5] = vi_float(b.y), v[6] = vi_float(b.z), v[7] = vi_float(b.w);
    } else {
        widen_pair<DT>(r.w[0].x, v);
        widen_pair<DT>(r.w[0].y, v + 2);
        widen_pair<DT>(r.w[0].z, v + 4);
        widen_pair<DT>(r.w[0].w, v + 6);
    }
}

DEV raw8<AR_F32> pack_f32(const float v[8]) /* bits as they are */
{
    raw8<AR_F32> r;
    r.w[0] = make_uint4(vf_bits(v[0]), vf_bits(v[1]), vf_bits(v[2]), vf_bits(v[3]));
    r.w[1] = make_uint4(vf_bits(v[4]), vf_bits(v[5]), vf_bits(v[6]), vf_bits(v[7]));
    return r;
}

template <int DT> DEV uint32_t narrow_pair(const float *v)
{
    return DT == AR_BF16 ? cuda_bf16x2(v[0], v[1]) : cuda_f16x2(v[0], v[1]);
}

/* RN_T, NaN canonical. */
template <int DT> DEV raw8<DT> narrow(const float v[8])
{
    raw8<DT> r;
    if (DT == AR_F32) {
        uint32_t w[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            w[i] = vf_is_nan(v[i]) ? 0x7fffffffu : vf_bits(v[i]);
        r.w[0] = make_uint4(w[0], w[1], w[2], w[3]);
        r.w[DT == AR_F32] = make_uint4(w[4], w[5], w[6], w[7]);
    } else {
        r.w[0] = make_uint4(narrow_pair<DT>(v), narrow_pair<DT>(v + 2), narrow_pair<DT>(v + 4), narrow_pair<DT>(v + 6));
    }
    return r;
}

template <int DT> DEV void store_raw(char *p, const raw8<DT> &r)
{
    *(uint4 *)p = r.w[0];
    if (DT == AR_F32)
        *((uint4 *)p + 1) = r.w[DT == AR_F32];
}

/* RN_T of an even number of columns. */
template <int DT, int N> DEV void round_columns(float v[N])
{
    if constexpr (DT != AR_F32) {
#pragma unroll
        for (int i = 0; i < N; i += 2)
            widen_pair<DT>(narrow_pair<DT>(v + i), v + i);
    }
}

/* The same of eight, and the words if T has 16 bits. */
template <int DT> DEV raw8<DT> round8(float v[8])
{
    if (DT == AR_F32)
        return zero_raw<DT>();
    raw8<DT> r = narrow<DT>(v);
    widen<DT>(r, v);
    return r;
}

/* RN_T(x + y) and RN_T(x * y) of two columns of a 16-bit dtype in a word; of a NaN the canonical one. A float has twice
 * their digits and two at least, so that its sums and products, rounded once more, are these. The self-test compares
 * all. */
template <int DT> DEV uint32_t add_pair(uint32_t x, uint32_t y)
{
    return DT == AR_BF16 ? cuda_bf16x2_fma(x, 0x3f803f80, y) : cuda_f16x2_fma(x, 0x3c003c00, y);
}

template <int DT> DEV uint32_t mul_pair(uint32_t x, uint32_t y)
{
    return DT == AR_BF16 ? cuda_bf16x2_fma(x, y, 0x80008000) : cuda_f16x2_fma(x, y, 0x80008000);
}

template <int DT> DEV raw8<DT> add8(const raw8<DT> &x, const raw8<DT> &y)
{
    const uint4 a = x.w[0], b = y.w[0];
    raw8<DT> r;
    r.w[0] = make_uint4(add_pair<DT>(a.x, b.x), add_pair<DT>(a.y, b.y), add_pair<DT>(a.z, b.z), add_pair<DT>(a.w, b.w));
    return r;
}

template <int DT> DEV raw8<DT> mul8(const raw8<DT> &x, const raw8<DT> &y)
{
    const uint4 a = x.w[0], b = y.w[0];
    raw8<DT> r;
    r.w[0] = make_uint4(mul_pair<DT>(a.x, b.x), mul_pair<DT>(a.y, b.y), mul_pair<DT>(a.z, b.z), mul_pair<DT>(a.w, b.w));
    return r;
}

/* Eight values y: as floats, and where they are 16-bit floats also as those (`words`). */
template <int DT> struct values {
    float v[8];
    raw8<DT> words;
};

/* One element, at any alignment. */
template <int DT> DEV float load_one(const char *p)
{
    if (DT == AR_F32) {
        uint32_t u = 0;
#pragma unroll
        for (int i = 0; i < 4; i++)
            u |= (uint32_t)(unsigned char)p[i] << (8 * i);
        return vi_float(u);
    }
    uint32_t u = (uint32_t)(unsigned char)p[0] | (uint32_t)(unsigned char)p[1] << 8;
    return DT == AR_BF16 ? ar_bf16_value(u) : ar_f16_value(u);
}

template <int DT> DEV void store_one(char *p, float v)
{
    uint32_t u = DT == AR_F32    ? (vf_is_nan(v) ? 0x7fffffffu : vf_bits(v))
                 : DT == AR_BF16 ? ar_bf16_code(v)
                                 : ar_f16_code(v);
#pragma unroll
    for (int i = 0; i < dtype_of<DT>::BYTES; i++)
        p[i] = (char)(u >> (8 * i));
}

/* ---- Formats ---- */

template <int F> struct format_of { /* of CUDA_NONE and CUDA_AMAX: never called */
    enum { BITS = 8, BLOCK = 0, GRAINS = 0, DIVIDES = 0, DIVIDES_STATIC = 0 };
    DEV uint32_t code(const ar_quant &, float)
    {
        return 0;
    }
    DEV uint32_t number(float)
    {
        return 0;
    }
    DEV float value(uint32_t)
    {
        return 0.0f;
    }
    DEV void scale(const ar_quant &, float, bool, float *factor, uint32_t *stored)
    {
        *factor = 0.0f;
        *stored = 0;
    }
    DEV float scale_value(const ar_quant &, uint32_t)
    {
        return 0.0f;
    }
};

#define X(upper, lower, bits, block, scale_dtype, grains)                                                              \
    template <> struct format_of<CUDA_##upper> {                                                                       \
        enum {                                                                                                         \
            BITS = bits,                                                                                               \
            BLOCK = block,                                                                                             \
            GRAINS = grains,                                                                                           \
            DIVIDES = AR_##upper##_DIVIDES,                                                                            \
            DIVIDES_STATIC = AR_##upper##_DIVIDES_STATIC                                                               \
        };                                                                                                             \
        DEV uint32_t code(const ar_quant &q, float x)                                                                  \
        {                                                                                                              \
            return ar_##lower##_code(&q, x);                                                                           \
        }                                                                                                              \
        DEV uint32_t number(float x)                                                                                   \
        {                                                                                                              \
            return ar_##lower##_number(x);                                                                             \
        }                                                                                                              \
        DEV float value(uint32_t c)                                                                                    \
        {                                                                                                              \
            return ar_##lower##_value(c);                                                                              \
        }                                                                                                              \
        DEV void scale(const ar_quant &q, float amax, bool nan, float *factor, uint32_t *stored)                       \
        {                                                                                                              \
            ar_##lower##_scale(&q, amax, nan, factor, stored);                                                         \
        }                                                                                                              \
        DEV float scale_value(const ar_quant &q, uint32_t stored)                                                      \
        {                                                                                                              \
            return ar_##lower##_scale_value(&q, stored);                                                               \
        }                                                                                                              \
    };
EPIQI_FORMATS(X)
#undef X

/* Codes of two neighbouring columns, one a byte, or in one byte where a code
 * has 4 bits; the NaN policy of fp8 has been applied. */
template <int F> DEV uint32_t code_pair(const ar_quant &q, float low, float high)
{
#ifdef LANE_HAS_E4M3
    if (F == CUDA_E4M3 || F == CUDA_MXFP8)
        return cuda_e4m3x2(low, high);
#endif
#ifdef LANE_HAS_E5M2
    if (F == CUDA_E5M2)
        return cuda_e5m2x2(low, high);
#endif
#ifdef LANE_HAS_E2M1
    if (format_of<F>::BITS == 4)
        return cuda_e2m1x2(low, high);
#endif
    return format_of<F>::code(q, low) | format_of<F>::code(q, high) << format_of<F>::BITS;
}

/* The NaN policy of fp8, which code_pair leaves to its caller. */
template <int F> DEV float nan_policy(const ar_quant &q, float v)
{
    if (q.saturate && (F == CUDA_E4M3 || F == CUDA_MXFP8 || F == CUDA_E5M2))
        return ar_nan_to(&q, F == CUDA_E5M2 ? AR_E5M2_MAX : AR_E4M3_MAX, v);
    return v;
}

/* Codes of a vector: 8 bytes, or 4 in the low word. */
template <int F> DEV uint2 code8(const ar_quant &q, float v[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = nan_policy<F>(q, v[i]);
    uint32_t p[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        p[i] = code_pair<F>(q, v[2 * i], v[2 * i + 1]);
    if (format_of<F>::BITS == 4)
        return make_uint2(p[0] | p[1] << 8 | p[2] << 16 | p[3] << 24, 0);
    return make_uint2(p[0] | p[1] << 16, p[2] | p[3] << 16);
}

/* The signs of eight numbers, each the highest bit of its nibble. */
DEV uint32_t signs8(const float v[8])
{
    const uint32_t even = __byte_perm(__byte_perm(vf_bits(v[0]), vf_bits(v[2]), 0x73),
                                      __byte_perm(vf_bits(v[4]), vf_bits(v[6]), 0x73), 0x5410);
    const uint32_t odd = __byte_perm(__byte_perm(vf_bits(v[1]), vf_bits(v[3]), 0x73),
                                     __byte_perm(vf_bits(v[5]), vf_bits(v[7]), 0x73), 0x5410);
    return (odd & 0x80808080u) | (even >> 4 & 0x08080808u);
}

/* 4-bit codes of v * factor, products that are numbers and less than 7 in magnitude.
 *
 * In software: the magnitudes t from 0 to 2 have the codes rint(2 t), up to 4 2 + rint(t), from there 4 + rint(t / 2),
 * and wherever one is right the others are not less. Each comes from an addition that rounds to integers, so that the
 * code is in the low bits; eight of them are shifted together with what they stand on. */
DEV uint2 code8_below_7(const float v[8], float factor)
{
    uint32_t codes = 0;
#ifdef LANE_HAS_E2M1
#pragma unroll
    for (int i = 0; i < 8; i += 2)
        codes |= cuda_e2m1x2(vf_mul(v[i], factor), vf_mul(v[i + 1], factor)) << (4 * i);
#else
#pragma unroll
    for (int i = 7; i >= 0; i--) {
        const float t = vf_mul(vf_abs(v[i]), factor);
        const float low = vf_fma(t, 2.0f, 0x1p23f), middle = vf_add(t, 0x1p23f + 2.0f);
        const float high = vf_fma(t, 0.5f, 0x1p23f + 4.0f);
        codes = codes * 16 + vf_bits(vf_min_num(vf_min_num(low, middle), high));
    }
    codes += signs8(v) - 0xfb000000u; /* 0x4b000000 * (1 + 16) */
#endif
    return make_uint2(codes, 0);
}

DEV void multiply8(float v[8], float factor)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = vf_mul(v[i], factor);
}

/* The first of eight is taken, another becomes the last. */
DEV void rotate8(float v[8], float last)
{
#pragma unroll
    for (int k = 0; k < 7; k++)
        v[k] = v[k + 1];
    v[7] = last;
}

/* v / s for codes of fp8; amax bounds |v|. */
DEV void divide8(float v[8], float s, float amax)
{
    if (!(amax <= FLT_MAX && amax <= vf_mul(s, 0x1p100f) && s >= 0x1p-60f)) { /* rare, one at a time */
#pragma unroll 1
        for (int i = 0; i < 8; i++)
            rotate8(v, cuda_div_any(v[0], s));
        return;
    }
    const float r = cuda_rcp_normal(s); /* that of a finite amax, far below 2^125 */
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = cuda_div_by(v[i], s, r);
}

/* How values are scaled by the factor of their token or group. */
typedef struct scaling {
    bool divide;
    float by, low; /* else v * by + v * low, or v * by */
    float factor, amax;
} scaling;

/* Division by the factor s becomes two multiplications where y are 16-bit floats (`half`): high + low = 1 / s within
 * 2^-43, relatively, high from below, so that low has no sign to turn that of a zero. What a code sees of RN(y / s) is
 * whether it is below, at or above one of the numbers c where codes change, numbers of at most 5 bits. Counted in half
 * units of c, of which c is a multiple of 2^20, what decides are C +- 1: y / s = Y 2^m / B, of a numerator of at most
 * 11 bits, comes within d 2^-25 units of (C +- 1) / 2 only if (C +- 1) B, and with it B itself, is within d of a
 * multiple of 2^20; half as close below a power of 2. A multiple itself makes y / s a ratio of numbers so short that it
 * is on a c or far from it; one in 16 scales of bf16 rows is one. The sum of the products, before its only rounding, is
 * within 64 * 2^-25 units. The self-test compares all significands. */
template <int F> DEV scaling scaling_of(const ar_quant &q, float factor, float amax, bool half)
{
    scaling s = {false, factor, 0.0f, factor, amax};
    if (!format_of<F>::DIVIDES)
        return s;
    if (q.grain == AR_GROUP && q.ue8m0) { /* a power of 2, from 2^-33 to 2^120: exact */
        s.by = vi_float(0x7f000000u - vf_bits(factor));
        s.divide = !(amax <= FLT_MAX); /* infinity * 0 */
        return s;
    }
    const float r = vf_rcp_unit(factor);
    s.by = vi_float(vf_bits(r) - 2);
    s.low = vf_mul(vf_fma(vf_neg(factor), s.by, 1.0f), r);
    s.divide = !half || (((vf_bits(factor) + 256) & 0xfffff) <= 512 && (vf_bits(factor) & 0xfffff) != 0) ||
               !(amax <= FLT_MAX && factor >= 0x1p-60f && factor <= 0x1p60f);
    return s;
}

template <int F> DEV void scale8(const scaling &s, float v[8])
{
    if (!format_of<F>::DIVIDES) {
        multiply8(v, s.by);
    } else if (s.divide) {
        divide8(v, s.factor, s.amax);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = vf_fma(v[i], s.by, vf_mul(v[i], s.low));
    }
}

/* ---- The largest magnitude ---- */

/* Of two pairs of 16-bit floats, NaN skipped, or NaN if one is among them. */
template <int DT, bool KEEP> DEV uint32_t max_pair(uint32_t a, uint32_t b)
{
    uint32_t r;
    if (DT == AR_BF16 && KEEP)
        asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    else if (DT == AR_BF16)
        asm("max.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    else if (KEEP)
        asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    else
        asm("max.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

template <bool KEEP> DEV float max_float(float a, float b)
{
    return KEEP ? vf_max_nan(a, b) : vf_max_num(a, b);
}

/* What amax is reduced from: a float, or two 16-bit floats. */
template <int DT, bool KEEP> DEV uint32_t amax_start(const values<DT> &y, bool half)
{
    if (DT != AR_F32 && half) {
        const uint4 w = y.words.w[0];
        return max_pair<DT, KEEP>(max_pair<DT, KEEP>(w.x & 0x7fff7fffu, w.y & 0x7fff7fffu),
                                  max_pair<DT, KEEP>(w.z & 0x7fff7fffu, w.w & 0x7fff7fffu));
    }
    float m = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++)
        m = max_float<KEEP>(vf_abs(y.v[i]), m);
    return vf_bits(m);
}

template <int DT, bool KEEP> DEV uint32_t amax_join(uint32_t a, uint32_t b, bool half)
{
    if (DT != AR_F32 && half)
        return max_pair<DT, KEEP>(a, b);
    return vf_bits(max_float<KEEP>(vi_float(a), vi_float(b)));
}

template <int DT, bool KEEP> DEV float amax_end(uint32_t m, bool half)
{
    if (DT != AR_F32 && half) {
        float pair[2];
        widen_pair<DT>(m, pair);
        m = vf_bits(max_float<KEEP>(pair[0], pair[1]));
    }
    return KEEP ? vi_float(m) : vf_max_num(vi_float(m), 0.0f); /* of NaN alone: 0 */
}

template <int DT> DEV float amax8(const values<DT> &y, bool half) /* NaN skipped */
{
    return amax_end<DT, false>(amax_start<DT, false>(y, half), half);
}

/* ---- Memory of codes and scales ---- */

template <int F> DEV char *codes_at(const cuda_args &a, int64_t row, int32_t vec)
{
    return a.codes.data + row * a.codes.stride + (int64_t)vec * format_of<F>::BITS;
}

template <int F> DEV void store_codes(char *to, uint2 c)
{
    if (format_of<F>::BITS == 8)
        __stcs((uint2 *)to, c);
    else
        __stcs((uint32_t *)to, c.x);
}

DEV char *scales_of_row(const cuda_args &a, int64_t row)
{
    return a.scales.data + (row >> 7) * a.scales.row[0] + (row >> 5 & 3) * a.scales.row[1] +
           (row >> 3 & 3) * a.scales.row[2] + (row & 7) * a.scales.row[3];
}

/* `group` from the scales of its row. */
DEV char *scale_at(const cuda_args &a, char *of_row, int64_t group)
{
    return of_row + (group >> a.scales.shift) * a.scales.group + (group & ((1 << a.scales.shift) - 1));
}

/* The scale of `group`, or of the row, at any alignment: where speed is no matter. */
static __device__ __noinline__ void store_scale(const cuda_args &a, char *of_row, int64_t group, uint32_t stored)
{
    char *p = scale_at(a, of_row, group);
#pragma unroll 1
    for (int i = 0; i < a.scales.bytes; i++)
        p[i] = (char)(stored >> (8 * i));
}

/* Of a row, the padding groups. */
DEV void zero_padding_groups(const cuda_args &a, char *of_row)
{
#pragma unroll 1
    for (int64_t g = a.scales.groups; g < a.scales.stored; g++)
        store_scale(a, of_row, g, 0);
}

/* The rows of padding, by the blocks behind the main ones, which have a multiple of 128 threads together. The rows are
 * fewer than 128 and taken in the order in which tiles of 128 have them: neighbouring threads write neighbouring words,
 * or bytes where words may not be stored. */
static __device__ __noinline__ void zero_padding_rows(const cuda_args &a)
{
    const uint32_t threads = blockDim.x * blockDim.y, all = (gridDim.x - a.main_blocks) * threads;
    const uint32_t i = (blockIdx.x - a.main_blocks) * threads + threadIdx.y * blockDim.x + threadIdx.x;
    const uint32_t first = (uint32_t)a.rows & 127, row = (i >> 2 & 31) + (i & 3) * 32; /* within 128 */
    if (row < first || row >= first + (uint32_t)(a.scales.pad_end - a.rows))
        return;
    char *of_row = a.scales.data + (a.rows >> 7) * a.scales.row[0] + (i & 3) * a.scales.row[1] +
                   (i >> 5 & 3) * a.scales.row[2] + (i >> 2 & 7) * a.scales.row[3];
    const bool words = a.scales.words != 0;
    const int shift = words ? a.scales.shift : 0;
#pragma unroll 1
    for (int64_t g = (int64_t)(i >> 7) << shift; g < a.scales.stored; g += (int64_t)(all >> 7) << shift) {
        if (words)
            *(uint32_t *)scale_at(a, of_row, g) = 0;
        else
            store_scale(a, of_row, g, 0);
    }
}

/* Waits for the launches before. True in the blocks behind the main ones: they have zeroed padding rows, and are done.
 * G: scales of groups. */
template <int G> DEV bool begin_or_pad(const cuda_args &a)
{
    begin_kernel(a);
    if (!G || blockIdx.x < a.main_blocks)
        return false;
    zero_padding_rows(a);
    end_kernel(a);
    return true;
}

/* ---- Scales of groups ---- */

/* The amax of a group, NaN skipped, and whether there was one. */
template <int F, int DT> DEV float amax_group(const values<DT> &y, bool half, int threads, bool *nan)
{
    *nan = false;
    if (format_of<F>::BITS == 4) { /* first as if there were none */
        uint32_t m = amax_start<DT, true>(y, half);
#pragma unroll
        for (int s = 1; s < 16; s *= 2)
            if (s < threads)
                m = amax_join<DT, true>(m, __shfl_xor_sync(~0u, m, s), half);
        const float amax = amax_end<DT, true>(m, half);
        *nan = vf_is_nan(amax);
        if (!__any_sync(~0u, *nan))
            return amax;
    }
    uint32_t m = amax_start<DT, false>(y, half);
#pragma unroll
    for (int s = 1; s < 16; s *= 2)
        if (s < threads)
            m = amax_join<DT, false>(m, __shfl_xor_sync(~0u, m, s), half);
    return amax_end<DT, false>(m, half);
}

/* Stores the scale of a group: called by all lanes of a warp; the threads of a group are neighbours. valid: this thread
 * has columns of the row; inside: it has a row; first(n): it is the first of n neighbours. */
template <int F, typename First>
DEV void store_group_scale(const cuda_args &a, int64_t row, char *scales, int32_t group, int threads, uint32_t stored,
                           bool valid, bool inside, First first)
{
    const bool mine = first(threads);
    if (format_of<F>::BLOCK == 0) {
        if (!valid || !mine)
            return;
        if (a.quant.packed) {
            *scale_at(a, scales, group) = (char)stored;
            if (group == a.scales.groups - 1)
                zero_padding_groups(a, scales);
        } else {
            *(uint32_t *)(scales + group * a.scales.group) = stored;
        }
        return;
    }
    if (a.scales.words) { /* bytes of four groups in one word */
        uint32_t word = stored << (8 * (group & 3));
        word |= __shfl_xor_sync(~0u, word, threads);
        word |= __shfl_xor_sync(~0u, word, 2 * threads);
        if (inside && first(4 * threads) && group < a.scales.groups)
            *(uint32_t *)(scales + (group >> 2) * a.scales.group) = word;
        return;
    }
    if (!valid || !mine)
        return;
    store_scale(a, scales, group, stored);
    if (group == a.scales.groups - 1)
        zero_padding_groups(a, scales);
}

/* 4-bit codes of v * factor. */
template <int F> DEV uint2 code8_scaled(const ar_quant &q, float v[8], float factor, float amax)
{
    if (vf_mul(amax, factor) < 7.0f) /* not if a product is a NaN */
        return code8_below_7(v, factor);
    multiply8(v, factor);
    return code8<F>(q, v);
}

/* Codes of a vector and the scale of its group. All lanes of the warp call this
 * together; `valid` 0 has y = 0 and stores nothing. The threads of a group are
 * neighbours, as many as the group has vectors. half: y are 16-bit floats. */
template <int F, int DT>
DEV void emit_group(const cuda_args &a, const ar_quant &q, int64_t row, char *scales, int32_t vec, char *to, bool valid,
                    bool half, values<DT> &y)
{
    const int threads = format_of<F>::BLOCK != 0 ? format_of<F>::BLOCK / 8 : a.group / 8;
    const int lane = (threadIdx.y * blockDim.x + threadIdx.x) & 31;
    bool nan;
    const float amax = amax_group<F, DT>(y, half, threads, &nan);
    float factor;
    uint32_t stored;
    format_of<F>::scale(q, amax, nan, &factor, &stored);
    uint2 c;
    if (format_of<F>::BITS == 4) {
        c = code8_scaled<F>(q, y.v, factor, nan ? vi_float(0x7fffffff) : amax);
    } else {
        scale8<F>(scaling_of<F>(q, factor, amax, half), y.v);
        c = code8<F>(q, y.v);
    }
    if (valid)
        store_codes<F>(to, c);
    store_group_scale<F>(a, row, scales, vec / threads, threads, stored, valid, row < a.rows,
                         [&](int n) { return lane % n == 0; });
}

/* A block of nvfp4 in one thread: vectors vec and vec + 1. */
template <int F, int DT>
DEV void emit_pair(const cuda_args &a, const ar_quant &q, int64_t row, char *scales, int32_t vec, char *to, bool valid,
                   bool half, values<DT> &y, values<DT> &z)
{
    float amax = amax_end<DT, true>(
        amax_join<DT, true>(amax_start<DT, true>(y, half), amax_start<DT, true>(z, half), half), half);
    const bool nan = vf_is_nan(amax);
    if (nan)
        amax = vf_max_num(amax8<DT>(y, half), amax8<DT>(z, half));
    float factor;
    uint32_t stored;
    format_of<F>::scale(q, amax, nan, &factor, &stored);
    uint2 c;
    if (!nan && vf_mul(amax, factor) < 7.0f) { /* no product is a NaN */
        c = make_uint2(code8_below_7(y.v, factor).x, code8_below_7(z.v, factor).x);
    } else {
        multiply8(y.v, factor);
        multiply8(z.v, factor);
        c = make_uint2(code8<F>(q, y.v).x, code8<F>(q, z.v).x);
    }
    if (valid)
        __stcs((uint2 *)to, c);
    const int lane = (threadIdx.y * blockDim.x + threadIdx.x) & 31;
    store_group_scale<F>(a, row, scales, vec / 2, 1, stored, valid, row < a.rows, [&](int n) { return lane % n == 0; });
}

/* ---- Values of a call ---- */

/* Whether an amax launch may come before: one scale of a tensor, or the second level of nvfp4. G: scales of groups. */
template <int F, int G> constexpr __device__ bool may_be_dynamic()
{
    return !G || F == CUDA_NVFP4;
}

/* The largest of the amax launch's values, by all threads of the block. */
static __device__ __noinline__ float reduce_slots(const cuda_args &a)
{
    __shared__ uint32_t part[32];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    float m = 0.0f;
    for (int i = thread; i < a.slots; i += threads)
        m = vf_max_num(a.workspace[i], m);
    uint32_t bits = vf_bits(m);
#pragma unroll
    for (int s = 1; s < 32; s *= 2)
        bits = vi_max(__shfl_xor_sync(~0u, bits, s), bits);
    if ((thread & 31) == 0)
        part[thread / 32] = bits;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < (threads + 31) / 32; i++)
        bits = vi_max(part[i], bits);
    return vi_float(bits);
}

/* prepare where the amax launch's values count. */
template <int F> static __device__ __noinline__ float prepare_dynamic(const cuda_args &a, ar_quant &q)
{
    const bool first = blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && threadIdx.y == 0;
    const float amax = reduce_slots(a);
    float factor = 0.0f;
    if (F == CUDA_NVFP4) {
        q.gs = ar_second_level_of_amax(amax);
        if (first)
            *a.inv_scale_out = q.gs;
    } else {
        uint32_t stored;
        format_of<F>::scale(q, amax, false, &factor, &stored);
        if (first)
            store_scale(a, a.scales.data, 0, stored);
    }
    return factor;
}

/* The quantizer's values that lie in device memory, and the factor of grain
 * tensor. Writes the computed ones once. DYNAMIC: there may have been an amax launch. */
template <int F, bool DYNAMIC> DEV float prepare(const cuda_args &a, ar_quant &q)
{
    if (F >= CUDA_NONE || (format_of<F>::BLOCK != 0 && F != CUDA_NVFP4))
        return 0.0f;
    if (F != CUDA_NVFP4 && a.scale_ub != NULL) {
        q.bound = *a.scale_ub;
        q.bound = vf_is_nan(q.bound) ? vi_float(0x7f800000) : q.bound;
    }
    if (DYNAMIC && a.slots != 0) {
        ar_quant changed = q; /* so that q itself can stay in registers */
        const float factor = prepare_dynamic<F>(a, changed);
        q.gs = changed.gs;
        return factor;
    }
    if (F == CUDA_NVFP4)
        q.gs = ar_second_level(*a.inv_scale);
    else if (a.scale != NULL)
        return a.divide ? *a.scale : ar_multiplier_of_scale(*a.scale);
    else if (a.inv_scale != NULL)
        return ar_multiplier_of_inv_scale(*a.inv_scale);
    return 0.0f;
}

#endif
