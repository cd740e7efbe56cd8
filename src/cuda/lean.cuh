/* lean.cuh: the kernel of the common cases, for work that does not fill the GPU for long: a call then lasts as long as
 * the instructions of one thread, in the order of memory. SPDX-License-Identifier: Apache-2.0
 *
 * What varies is a template argument, or a number made before the wait; what is rare is in loops that are not unrolled.
 */
#ifndef EPIQ_LEAN_CUH
#define EPIQ_LEAN_CUH

#include "kernels.cuh"

enum { LEAN_ROUND = -1 }; /* the rounding of y is that of the call */

/* What was added up here is needed before the wait: without it address arithmetic would be left for after. */
DEV void needed_now(uint32_t bits, void *shared)
{
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %0, 0xfffffff1; @p st.shared.u32 [%1], %0; }" ::"r"(bits),
                 "r"((uint32_t)__cvta_generic_to_shared(shared))
                 : "memory");
}

DEV uint32_t low_word(const void *p)
{
    return (uint32_t)(uintptr_t)p;
}

/* Of a vector: whether it has columns, columns of two inputs, or at least padding; whether its thread stores a scale,
 * and one that is not padding; where things lie. */
typedef struct lean_place {
    bool has, two, within, first, group;
    const char *x, *other, *weight;
    char *scale;
} lean_place;

/* By measurement: where a compiler takes more, fewer blocks are at work at once. */
template <int OP, int F, int GRAIN, int ROUND, int V> constexpr int lean_registers()
{
    const bool four_bits = format_of<F>::BITS == 4;
    if (V == 4 || (ROUND == LEAN_ROUND && V == 2))
        return 72;
    if (ROUND == LEAN_ROUND)
        return 64;
    if (V == 2)
        return four_bits && OP != CUDA_RMS_NORM ? 64 : OP == CUDA_RMS_NORM || GRAIN == AR_GROUP ? 56 : 48;
    return four_bits ? 48 : OP == CUDA_ACT_MUL && GRAIN == AR_TENSOR ? 32 : 40;
}

template <int DT> DEV void weights_of(const raw8<DT> &weight, float bias, float w[8])
{
    widen<DT>(weight, w);
#pragma unroll
    for (int i = 0; i < 8; i++)
        w[i] = vf_add(w[i], bias);
}

template <bool KEEP> DEV float lean_amax(const float v[8])
{
    float m[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        m[i] = max_float<KEEP>(vf_abs(v[2 * i]), vf_abs(v[2 * i + 1]));
    return max_float<KEEP>(max_float<KEEP>(m[0], m[1]), max_float<KEEP>(m[2], m[3]));
}

/* The largest of each group's threads, V groups at a time. */
template <int V, int THREADS, bool KEEP> DEV void join_groups(float amax[V])
{
    if constexpr (THREADS == 16) { /* two reductions over the whole warp, in the order of bits: a NaN comes last */
        const bool low = (threadIdx.x & 16) == 0;
#pragma unroll
        for (int v = 0; v < V; v++) {
            const uint32_t bits = vf_bits(amax[v]);
            const uint32_t first = __reduce_max_sync(~0u, low ? bits : 0);
            const uint32_t second = __reduce_max_sync(~0u, low ? 0 : bits);
            amax[v] = vi_float(low ? first : second);
        }
    } else {
#pragma unroll
        for (int s = 1; s < THREADS; s *= 2) {
#pragma unroll
            for (int v = 0; v < V; v++)
                amax[v] = max_float<KEEP>(amax[v], __shfl_xor_sync(~0u, amax[v], s));
        }
    }
}

/* limit: what a NaN becomes, or NaN. */
template <int F> DEV float lean_nan_policy(float t, float limit)
{
    return F == CUDA_E4M3 || F == CUDA_MXFP8 ? vf_min_num(t, limit) : t;
}

/* Codes of 8 bits. */
template <int F> DEV uint2 lean_code8(const ar_quant &q, const float v[8])
{
    uint32_t p[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        p[i] = code_pair<F>(q, v[2 * i], v[2 * i + 1]);
    return make_uint2(p[0] | p[1] << 16, p[2] | p[3] << 16);
}

/* Codes where something is out of the ordinary: one at a time. */
template <int F> DEV uint2 rare_code8(const ar_quant &q, float v[8], float factor, float limit)
{
    uint2 c = make_uint2(0, 0);
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
        const float t = format_of<F>::DIVIDES ? cuda_div_any(v[0], factor) : vf_mul(v[0], factor);
        rotate8(v, 0.0f);
        if (format_of<F>::BITS == 4) {
            c.x = c.x >> 4 | format_of<F>::code(q, t) << 28;
        } else {
            c.x = c.x >> 8 | c.y << 24;
            c.y = c.y >> 8 | format_of<F>::code(q, lean_nan_policy<F>(t, limit)) << 24;
        }
    }
    return c;
}

/* The scale of a group where there may be a NaN among y. */
template <int F, int THREADS> DEV void rare_scale(const ar_quant &q, const float y[8], float *factor, uint32_t *stored)
{
    float with = lean_amax<true>(y), without = vf_max_num(lean_amax<false>(y), 0.0f);
    join_groups<1, THREADS, true>(&with);
    join_groups<1, THREADS, false>(&without);
    format_of<F>::scale(q, without, vf_is_nan(with), factor, stored);
}

/* silu where CUDA_QUICK does not do. */
template <int DT> DEV void rare_gates(const raw8<DT> &gates, float y[8])
{
    const ar_act_mul plain = {AR_SILU, AR_ROUND_NONE, 1, 1.0f, 0.0f, 0.0f, 0.0f};
    widen<DT>(gates, y);
#pragma unroll 1
    for (int i = 0; i < 8; i++)
        rotate8(y, ar_gate(&plain, 0, y[0]));
}

/* silu. LATE: the caller asks whether the gates are right for CUDA_QUICK. */
template <int DT, int ACT, bool LATE> DEV void lean_gates(const raw8<DT> &gates, float y[8])
{
    widen<DT>(gates, y);
    if (ACT != CUDA_QUICK)
        plain_gate8<AR_SILU>(y, y);
#pragma unroll
    for (int i = 0; i < 8 && ACT == CUDA_QUICK; i++)
        y[i] = cuda_quick_silu(y[i]);
    if (ACT == CUDA_QUICK && !LATE && __builtin_expect(!quick_gates(gates.w[0]), 0))
        rare_gates<DT>(gates, y);
}

/* y from act(gate) and up. */
template <int DT> DEV void lean_times_up(const raw8<DT> &ups, int round, float y[8])
{
    float up[8];
    if (round == AR_ROUND_TWICE) {
        widen<DT>(mul8<DT>(narrow<DT>(y), ups), y);
        return;
    }
    widen<DT>(ups, up);
#pragma unroll
    for (int i = 0; i < 8; i++)
        y[i] = vf_mul(y[i], up[i]);
    if (round != AR_ROUND_NONE)
        round_columns<DT, 8>(y);
}

/* The sum over segments, neighbours first; those of no warp, up to the next power of 2 from four on, are 0. */
DEV float add_segments(const float *segments, uint32_t count)
{
    const uint32_t lane = threadIdx.x & 31, mask = count > 32 ? 15 : count > 16 ? 7 : count > 8 ? 3 : count > 4;
    float sum = add_four(*(const float4 *)(segments + 4 * (lane & mask)));
    if (count > 4)
        sum = vf_add(sum, __shfl_xor_sync(~0u, sum, 1));
    if (count > 8)
        sum = vf_add(sum, __shfl_xor_sync(~0u, sum, 2));
    if (count > 16)
        sum = vf_add(sum, __shfl_xor_sync(~0u, sum, 4));
    if (count > 32)
        sum = vf_add(sum, __shfl_xor_sync(~0u, sum, 8));
    return sum;
}

/* V vectors a thread, blockDim.x apart. rms_norm, token scales: blockDim.x threads, a multiple of 32, cover the row
 * blockIdx.x; else blockIdx.y counts pieces of the row. ROUND: the rounding of y, or LEAN_ROUND. */
template <int OP, int DT, int F, int GRAIN, int ACT, int ROUND, int V>
__global__ void __maxnreg__((lean_registers<OP, F, GRAIN, ROUND, V>())) lean_kernel(const __grid_constant__ cuda_args a)
{
    enum {
        NORM = OP == CUDA_RMS_NORM,
        BY_ROW = NORM || GRAIN == AR_TOKEN,
        BITS = format_of<F>::BITS,
        DIVIDES = format_of<F>::DIVIDES && GRAIN != AR_TENSOR,
        EARLY_PLACES = GRAIN == AR_GROUP && V < 4, /* by measurement */
        ALL_READ = V == 1, /* threads without a vector read the first, in place of making zeros after the wait */
        SHARED_BY = (format_of<F>::BLOCK != 0 ? format_of<F>::BLOCK : LEAN_GROUP) / 8 /* threads of a group */
    };
    __shared__ __align__(16) float segments[32 * V];
    __shared__ uint32_t maxima[32];
    const int64_t row = blockIdx.x;
    if (GRAIN == AR_GROUP && blockIdx.x >= a.main_blocks) {
        begin_kernel(a);
        if (BY_ROW || blockIdx.y == 0)
            zero_padding_rows(a);
        return;
    }
    const int32_t vectors = a.vectors, padded = a.padded_vectors, threads = (int32_t)blockDim.x;
    const int32_t first = (int32_t)(BY_ROW ? threadIdx.x : blockIdx.y * V * blockDim.x + threadIdx.x);
    const int32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = threads >> 5;
    const cuda_rows second = a.second;
    const bool two = OP == CUDA_ACT_MUL || (NORM && a.second.data != NULL);
    const int32_t read = ALL_READ && first >= vectors ? 0 : first;
    const char *x = a.x.data + row * a.x.stride + (int64_t)read * 16;
    const char *other = second.data + row * second.stride + (int64_t)read * 16;
    const char *weights = a.weight + (int64_t)read * 16;
    char *codes = a.codes.data + row * a.codes.stride + (int64_t)first * BITS;
    char *scales = GRAIN != AR_TENSOR ? scales_of_row(a, row) : NULL;
    char *sums = a.residual_out.data + row * a.residual_out.stride + (int64_t)first * 16;
    const bool out = NORM && two && a.residual_out.data != NULL;
    auto place_of = [&](int32_t vec) {
        const uint32_t group = (uint32_t)vec / SHARED_BY;
        const int32_t step = 16 * (vec - first);
        lean_place p = {vec < vectors, vec < vectors && two, vec < padded,   false, false,
                        x + step,      other + step,         weights + step, scales};
        if (GRAIN == AR_GROUP) {
            p.first = (lane & (SHARED_BY - 1)) == 0 &&
                      group < (uint32_t)(format_of<F>::BLOCK == 0 ? a.scales.groups : a.scales.stored);
            p.group = group < (uint32_t)a.scales.groups;
            p.scale = format_of<F>::BLOCK == 0
                          ? scales + (uint64_t)group * (uint32_t)a.scales.group
                          : scales + (uint64_t)(group >> 2) * (uint32_t)a.scales.group + (group & 3);
        }
        return p;
    };
    uint32_t needed = low_word(x) + low_word(codes) + (OP != CUDA_QUANTIZE ? low_word(other) : 0) +
                      (NORM ? low_word(weights) : 0) + (GRAIN == AR_GROUP ? low_word(scales) : 0);
    lean_place place[V];
#pragma unroll
    for (int v = 0; v < V && EARLY_PLACES; v++) {
        place[v] = place_of(first + v * threads);
        needed += place[v].has + place[v].within + place[v].first +
                  (BITS == 8 && OP == CUDA_ACT_MUL ? place[v].group : 0) + low_word(place[v].scale);
    }
    if (NORM && warp == 0) {
#pragma unroll
        for (int v = 0; v < V; v++)
            if (lane + 32 * v >= V * warps)
                segments[lane + 32 * v] = 0.0f;
    }
    if (GRAIN == AR_TOKEN && warp == 0 && lane >= warps)
        maxima[lane] = 0;
    needed_now(needed, segments);
    begin_kernel(a);
    raw8<DT> in[V], up[V], weight[V];
    bool has[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
        const lean_place p = EARLY_PLACES ? place[v] : place_of(first + v * threads);
        has[v] = p.has;
        if (!ALL_READ)
            in[v] = up[v] = weight[v] = zero_raw<DT>();
        if (ALL_READ || p.has)
            in[v] = load_raw<DT>(p.x);
        if (ALL_READ ? two : p.two)
            up[v] = load_raw<DT>(p.other);
        if ((ALL_READ || p.has) && NORM && V < 4)
            weight[v] = load_raw<DT>(p.weight);
    }
    float given = 0.0f;
    if (GRAIN == AR_TENSOR || F == CUDA_NVFP4)
        given = *a.multiplier;
    ar_quant q = a.quant;
    q.grain = GRAIN;
    q.ieee = q.ue8m0 = q.packed = 0;
    q.rcp_unit = 1;
    if (GRAIN == AR_TOKEN && a.scale_ub != NULL) {
        q.bound = *a.scale_ub;
        q.bound = vf_is_nan(q.bound) ? vi_float(0x7f800000) : q.bound;
    }
    const int round = ROUND != LEAN_ROUND ? ROUND : a.norm.round;
    float y[V][8], factor[V];
    bool rare = false;
    if (F == CUDA_NVFP4)
        q.gs = ar_second_level(given);
    if (NORM) {
        if constexpr (V > 1) {
#pragma unroll
            for (int v = 0; v < V; v++) {
                const raw8<DT> sum = norm_sum8<DT>(a.norm, two, in[v], up[v], y[v]);
                if (out && has[v])
                    store_raw<DT>(sums + 16 * v * threads, sum);
            }
        } else { /* not by pairs: the compiler would leave the weights for after the barrier */
            widen<DT>(in[0], y[0]);
            if (two) {
                float add[8];
                widen<DT>(up[0], add);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    y[0][i] = vf_add(y[0][i], add[i]);
                in[0] = narrow<DT>(y[0]);
                if (out && has[0])
                    store_raw<DT>(sums, in[0]);
                if (a.norm.sum_round)
                    widen<DT>(in[0], y[0]);
            }
        }
        float s[V], w[V][8];
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (V == 1)
                weights_of<DT>(weight[v], a.bias, w[v]);
            s[v] = squares8(y[v]);
            if (ALL_READ)
                s[v] = has[v] ? s[v] : 0.0f;
        }
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
#pragma unroll
            for (int v = 0; v < V; v++)
                s[v] = vf_add(s[v], __shfl_xor_sync(~0u, s[v], d));
        }
        if (lane == 0) {
#pragma unroll
            for (int v = 0; v < V; v++)
                segments[v * warps + warp] = s[v];
        }
        __syncthreads();
        const float rinv = norm_rinv(a, add_segments(segments, V * warps));
        if (V == 4) { /* fewer registers; other blocks run meanwhile */
#pragma unroll
            for (int v = 0; v < V; v++)
                if (has[v])
                    weight[v] = load_raw<DT>(weights + 16 * v * threads);
        }
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (V > 1)
                weights_of<DT>(weight[v], a.bias, w[v]);
#pragma unroll
            for (int i = 0; i < 8; i++)
                y[v][i] = vf_mul(y[v][i], rinv);
        }
        if (round == AR_ROUND_TWICE) {
#pragma unroll
            for (int v = 0; v < V; v++)
                round_columns<DT, 8>(y[v]);
        }
#pragma unroll
        for (int v = 0; v < V; v++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                y[v][i] = vf_mul(y[v][i], w[v][i]);
        if (round != AR_ROUND_NONE) {
#pragma unroll
            for (int v = 0; v < V; v++)
                round_columns<DT, 8>(y[v]);
        }
        if (GRAIN == AR_GROUP && !ALL_READ && padded != vectors) { /* a NaN of the row is none of padding */
#pragma unroll
            for (int v = 0; v < V; v++)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    y[v][i] = has[v] ? y[v][i] : 0.0f;
        }
    } else {
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (OP == CUDA_ACT_MUL) {
                lean_gates<DT, ACT, GRAIN == AR_GROUP>(in[v], y[v]);
                lean_times_up<DT>(up[v], round, y[v]);
            } else {
                widen<DT>(in[v], y[v]);
            }
        }
    }
    const float limit = q.saturate ? AR_E4M3_MAX : vi_float(0x7fffffff);
    float amax[V];
    uint32_t stored[V] = {};
    scaling by[V];
    if constexpr (GRAIN == AR_TENSOR) {
        factor[0] = given;
        if (a.reciprocal)
            factor[0] = cuda_moderate(given) ? cuda_rcp_normal(given) : cuda_div_any(1.0f, given);
        factor[0] = ar_finite(factor[0]);
    } else if constexpr (GRAIN == AR_TOKEN) {
        amax[0] = lean_amax<false>(y[0]);
#pragma unroll
        for (int v = 1; v < V; v++)
            amax[0] = vf_max_num(lean_amax<false>(y[v]), amax[0]);
        amax[0] = vf_max_num(amax[0], 0.0f);
        if (ALL_READ)
            amax[0] = has[0] ? amax[0] : 0.0f;
        const uint32_t m = __reduce_max_sync(~0u, vf_bits(amax[0])); /* bits of numbers >= 0 are in their order */
        if (lane == 0)
            maxima[warp] = m;
        __syncthreads();
        amax[0] = vi_float(__reduce_max_sync(~0u, maxima[lane]));
        format_of<F>::scale(q, amax[0], false, &factor[0], &stored[0]);
        by[0] = scaling_of<F>(q, factor[0], amax[0], true);
        rare = by[0].divide;
        if (threadIdx.x == 0)
            *(uint32_t *)scales = stored[0];
    } else {
#pragma unroll
        for (int v = 0; v < V; v++)
            amax[v] = !ALL_READ || has[v] ? lean_amax<true>(y[v]) : 0.0f;
        join_groups<V, SHARED_BY, true>(amax);
#pragma unroll
        for (int v = 0; v < V; v++) {
            format_of<F>::scale(q, amax[v], false, &factor[v], &stored[v]);
            by[v] = scaling_of<F>(q, factor[v], amax[v], true);
            if (BITS == 4)
                rare = rare || !(vf_mul(amax[v], factor[v]) < 7.0f); /* a product may be a NaN */
            else
                rare = rare || by[v].divide || vf_is_nan(amax[v]);
        }
    }
    auto store = [&](const lean_place &p, int32_t step, uint2 c, uint32_t scale) {
        if (!p.has)
            c = make_uint2(0, 0);
        if (p.within && BITS == 8)
            *(uint2 *)(codes + step * BITS) = c;
        else if (p.within)
            *(uint32_t *)(codes + step * BITS) = c.x;
        if (p.first && format_of<F>::BLOCK == 0)
            *(uint32_t *)p.scale = scale;
        else if (p.first)
            *p.scale = p.group ? (char)scale : (char)0;
    };
#pragma unroll
    for (int v = 0; v < V; v++) {
        const int g = GRAIN == AR_GROUP ? v : 0;
        uint2 c;
        if (BITS == 4) {
            c = code8_below_7(y[v], factor[g]);
        } else {
            float t[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                t[i] = DIVIDES ? vf_fma(y[v][i], by[g].by, vf_mul(y[v][i], by[g].low)) : vf_mul(y[v][i], factor[g]);
                if (GRAIN != AR_GROUP) /* there a NaN is rare */
                    t[i] = lean_nan_policy<F>(t[i], limit);
            }
            c = lean_code8<F>(q, t);
        }
        store(EARLY_PLACES ? place[v] : place_of(first + v * threads), v * threads, c, stored[g]);
        if (ACT == CUDA_QUICK && GRAIN == AR_GROUP)
            rare = rare || !quick_gates(in[v].w[0]);
    }
    if (GRAIN == AR_TENSOR)
        return;
    if (GRAIN == AR_GROUP)
        rare = __any_sync(~0u, rare);
    if (__builtin_expect(!rare, 1))
        return;
#pragma unroll 1
    for (int v = 0; v < V; v++) { /* once more, and stored over the others */
        if (ACT == CUDA_QUICK && GRAIN == AR_GROUP) {
            rare_gates<DT>(in[0], y[0]);
            lean_times_up<DT>(up[0], round, y[0]);
        }
#pragma unroll
        for (int i = 0; i < 8 && ALL_READ && GRAIN == AR_GROUP; i++)
            y[0][i] = has[0] ? y[0][i] : 0.0f;
        if constexpr (GRAIN == AR_GROUP)
            rare_scale<F, SHARED_BY>(q, y[0], &factor[0], &stored[0]);
        store(place_of(first + v * threads), v * threads, rare_code8<F>(q, y[0], factor[0], limit), stored[0]);
#pragma unroll
        for (int k = 1; k < V; k++) { /* the next becomes the first */
            in[k - 1] = in[k];
            up[k - 1] = up[k];
#pragma unroll
            for (int i = 0; i < 8; i++)
                y[k - 1][i] = y[k][i];
        }
    }
}

#endif
