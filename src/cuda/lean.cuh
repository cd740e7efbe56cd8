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

/* 1 / sqrt(sum / cols + eps): where nothing is out of the ordinary by what division, square root and reciprocal are
 * made of, without the questions that each of those asks. */
DEV float lean_rinv(const cuda_args &a, float sum)
{
    float mean = vf_mul(sum, a.rcp_cols);
#pragma unroll
    for (int i = 0; i < 2; i++) /* as in cuda_div_by */
        mean = vf_fma(vf_fma(vf_neg(a.float_cols), mean, sum), a.rcp_cols, mean);
    const float v = vf_add(mean, a.norm.eps);
    if (__builtin_expect(!(sum >= 0x1p-40f && sum <= 0x1p100f && v <= 0x1p100f),
                         0)) /* cols < 2^14, eps > 0: v > 2^-60 */
        return ar_norm_rinv(&a.norm, sum, a.float_cols);
    return cuda_rsqrt(v);
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
    if constexpr (THREADS ==
                  16) { /* two reductions over the whole warp, in the order of bits of numbers >= 0 and NaN */
        const bool low = (threadIdx.x & 16) == 0;
#pragma unroll
        for (int v = 0; v < V; v++) {
            const uint32_t bits = vf_bits(amax[v]) & 0x7fffffffu;
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

/* Codes of 8 bits. limit: what a NaN becomes, or NaN. */
template <int F> DEV uint2 lean_code8(const ar_quant &q, float v[8], float limit)
{
    if (F == CUDA_E4M3 || F == CUDA_MXFP8 || F == CUDA_E5M2) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = vf_min_num(v[i], limit);
    }
    uint32_t p[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        p[i] = code_pair<F>(q, v[2 * i], v[2 * i + 1]);
    return make_uint2(p[0] | p[1] << 16, p[2] | p[3] << 16);
}

/* The first of eight is taken, another becomes the last. */
DEV void rotate8(float v[8], float last)
{
#pragma unroll
    for (int k = 0; k < 7; k++)
        v[k] = v[k + 1];
    v[7] = last;
}

/* Codes where something is out of the ordinary: one at a time. */
template <int F> DEV uint2 rare_code8(const ar_quant &q, float v[8], float factor, float limit)
{
    uint2 c = make_uint2(0, 0);
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
        const float t = format_of<F>::DIVIDES ? vf_div(v[0], factor) : vf_mul(v[0], factor);
        rotate8(v, 0.0f);
        if (format_of<F>::BITS == 4) {
            c.x = c.x >> 4 | format_of<F>::code(q, t) << 28;
        } else {
            c.x = c.x >> 8 | c.y << 24;
            c.y = c.y >> 8 | format_of<F>::code(q, vf_min_num(t, limit)) << 24;
        }
    }
    return c;
}

/* act(gate) * up, silu. QUICK: of bf16, rounded twice. */
template <int DT, int ACT, int ROUND>
DEV void lean_act(const raw8<DT> &gates, const raw8<DT> &ups, int round, float y[8])
{
    const ar_act_mul plain = {AR_SILU, AR_ROUND_NONE, 1, 1.0f, 0.0f, 0.0f, 0.0f};
    const bool twice = ROUND == LEAN_ROUND ? round == AR_ROUND_TWICE : ROUND == AR_ROUND_TWICE;
    float up[8];
    widen<DT>(gates, y);
#pragma unroll
    for (int i = 0; i < 8; i++)
        y[i] = ACT == CUDA_QUICK ? cuda_quick_silu(y[i]) : ar_gate(&plain, 0, y[i]);
    if (ACT == CUDA_QUICK && __builtin_expect(!quick_gates(gates.w[0]), 0)) { /* asked late: nothing waits for it */
        widen<DT>(gates, y);
#pragma unroll 1
        for (int i = 0; i < 8; i++)
            rotate8(y, ar_gate(&plain, 0, y[0]));
    }
    if (twice)
        round_columns<DT, 8>(y);
    widen<DT>(ups, up);
#pragma unroll
    for (int i = 0; i < 8; i++)
        y[i] = vf_mul(y[i], up[i]);
    if (ROUND == LEAN_ROUND ? round != AR_ROUND_NONE : ROUND != AR_ROUND_NONE)
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
__global__ void __launch_bounds__(V == 4 ? LEAN_FOUR_THREADS : 1024, V == 4 ? 2 : 1)
    lean_kernel(const __grid_constant__ cuda_args a)
{
    enum {
        NORM = OP == CUDA_RMS_NORM,
        BY_ROW = NORM || GRAIN == AR_TOKEN,
        BITS = format_of<F>::BITS,
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
    const char *x = a.x.data + row * a.x.stride + (int64_t)first * 16;
    const char *other = second.data + row * second.stride + (int64_t)first * 16;
    const char *weights = a.weight + (int64_t)first * 16;
    char *codes = a.codes.data + row * a.codes.stride + (int64_t)first * BITS;
    char *scales = a.scales.data;
    if (GRAIN == AR_GROUP)
        scales = scales_of_row(a, row);
    if (NORM && warp == 0) {
#pragma unroll
        for (int v = 0; v < V; v++)
            if (lane + 32 * v >= V * warps)
                segments[lane + 32 * v] = 0.0f;
    }
    if (GRAIN == AR_TOKEN && warp == 0 && lane >= warps)
        maxima[lane] = 0;
    needed_now(low_word(x) + low_word(codes) + (OP != CUDA_QUANTIZE ? low_word(other) : 0) +
                   (NORM ? low_word(weights) : 0) + (GRAIN == AR_GROUP ? low_word(scales) : 0),
               segments);
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (a.trigger == CUDA_TRIGGER_EARLY)
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    raw8<DT> in[V], up[V], weight[V];
    bool has[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
        const int32_t step = v * threads;
        has[v] = first + step < vectors;
        in[v] = up[v] = weight[v] = zero_raw<DT>();
        if (has[v])
            in[v] = load_raw<DT>(x + 16 * step);
        if (has[v] && two)
            up[v] = load_raw<DT>(other + 16 * step);
        if (has[v] && NORM && V < 4)
            weight[v] = load_raw_cached<DT>(weights + 16 * step);
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
    float y[V][8];
    if (NORM) {
#pragma unroll
        for (int v = 0; v < V; v++)
            widen<DT>(in[v], y[v]);
        if (two) {
            const bool out = a.residual_out.data != NULL;
            char *sums = a.residual_out.data + row * a.residual_out.stride + (int64_t)first * 16;
#pragma unroll
            for (int v = 0; v < V; v++) {
                float add[8];
                widen<DT>(up[v], add);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    y[v][i] = vf_add(y[v][i], add[i]);
                in[v] = narrow<DT>(y[v]);
                if (out && has[v])
                    store_raw<DT>(sums + 16 * v * threads, in[v]);
            }
            if (a.norm.sum_round) {
#pragma unroll
                for (int v = 0; v < V; v++)
                    widen<DT>(in[v], y[v]);
            }
        }
        float s[V], w[V][8];
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (V == 1)
                weights_of<DT>(weight[v], a.bias, w[v]);
            s[v] = squares8(y[v]);
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
        const float rinv = lean_rinv(a, add_segments(segments, V * warps));
        if (V == 4) { /* fewer registers; other blocks run meanwhile */
#pragma unroll
            for (int v = 0; v < V; v++)
                if (has[v])
                    weight[v] = load_raw_cached<DT>(weights + 16 * v * threads);
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
        if (GRAIN == AR_GROUP && padded != vectors) { /* a NaN of the row is none of padding */
#pragma unroll
            for (int v = 0; v < V; v++)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    y[v][i] = has[v] ? y[v][i] : 0.0f;
        }
    } else {
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (OP == CUDA_ACT_MUL)
                lean_act<DT, ACT, ROUND>(in[v], up[v], round, y[v]);
            else
                widen<DT>(in[v], y[v]);
        }
    }
    const float limit = q.saturate ? (F == CUDA_E5M2 ? AR_E5M2_MAX : AR_E4M3_MAX) : vi_float(0x7fffffff);
    float factor[V], amax[V];
    uint32_t stored[V];
    uint2 c[V];
    scaling by[V];
    if (F == CUDA_NVFP4)
        q.gs = ar_second_level(given);
    if constexpr (GRAIN == AR_TENSOR) {
        factor[0] = ar_finite(a.reciprocal ? vf_rcp(given) : given);
    } else if constexpr (GRAIN == AR_TOKEN) {
        amax[0] = lean_amax<false>(y[0]);
#pragma unroll
        for (int v = 1; v < V; v++)
            amax[0] = vf_max_num(lean_amax<false>(y[v]), amax[0]);
        amax[0] = vf_max_num(amax[0], 0.0f);
        const uint32_t m = __reduce_max_sync(~0u, vf_bits(amax[0])); /* bits of numbers >= 0 are in their order */
        if (lane == 0)
            maxima[warp] = m;
        __syncthreads();
        amax[0] = vi_float(__reduce_max_sync(~0u, maxima[lane]));
        format_of<F>::scale(q, amax[0], false, &factor[0], &stored[0]);
        by[0] = scaling_of<F>(q, factor[0], amax[0], true);
        if (threadIdx.x == 0)
            *(uint32_t *)scales_of_row(a, row) = stored[0];
    } else {
#pragma unroll
        for (int v = 0; v < V; v++) {
            amax[v] = lean_amax<(BITS == 4)>(y[v]);
            if (BITS == 8)
                amax[v] = vf_max_num(amax[v], 0.0f); /* of NaN alone */
        }
        join_groups<V, SHARED_BY, (BITS == 4)>(amax);
#pragma unroll
        for (int v = 0; v < V; v++) {
            format_of<F>::scale(q, amax[v], false, &factor[v], &stored[v]);
            by[v] = scaling_of<F>(q, factor[v], amax[v], true);
            if (BITS == 4)
                by[v].divide = !(vf_mul(amax[v], factor[v]) < 7.0f); /* or a product may be a NaN */
        }
    }
#pragma unroll
    for (int v = 0; v < V; v++) {
        const int g = GRAIN == AR_GROUP ? v : 0;
        if (BITS == 4) {
            c[v] = code8_below_7(y[v], factor[g]);
        } else {
            float t[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                t[i] = format_of<F>::DIVIDES && GRAIN != AR_TENSOR
                           ? vf_fma(y[v][i], by[g].by, vf_mul(y[v][i], by[g].low))
                           : vf_mul(y[v][i], factor[g]);
            c[v] = lean_code8<F>(q, t, limit);
        }
    }
    if (GRAIN != AR_TENSOR && (BITS == 4 || format_of<F>::DIVIDES)) { /* asked late: nothing waits for it */
#pragma unroll
        for (int v = 0; v < V; v++) {
            const int g = GRAIN == AR_GROUP ? v : 0;
            if (__builtin_expect(__any_sync(~0u, by[g].divide), 0)) {
                if (BITS == 4) {
                    const bool nan = vf_is_nan(amax[g]);
                    amax[g] = lean_amax<false>(y[v]);
                    join_groups<1, SHARED_BY, false>(&amax[g]);
                    format_of<F>::scale(q, vf_max_num(amax[g], 0.0f), nan, &factor[g], &stored[g]);
                }
                c[v] = rare_code8<F>(q, y[v], factor[g], limit);
            }
        }
    }
#pragma unroll
    for (int v = 0; v < V; v++) {
        const int32_t vec = first + v * threads;
        if (!has[v])
            c[v] = make_uint2(0, 0);
        if (vec < padded) {
            if (BITS == 8)
                *(uint2 *)(codes + v * threads * BITS) = c[v];
            else
                *(uint32_t *)(codes + v * threads * BITS) = c[v].x;
        }
        if (GRAIN == AR_GROUP && (lane & (SHARED_BY - 1)) == 0) {
            const uint32_t group = (uint32_t)vec / SHARED_BY;
            if (format_of<F>::BLOCK == 0) {
                if (group < (uint32_t)a.scales.groups)
                    *(uint32_t *)(scales + (uint64_t)group * (uint32_t)a.scales.group) = stored[v];
            } else if (group < (uint32_t)a.scales.stored) {
                scales[(uint64_t)(group >> 2) * (uint32_t)a.scales.group + (group & 3)] =
                    group < (uint32_t)a.scales.groups ? (char)stored[v] : (char)0;
            }
        }
    }
}

#endif
