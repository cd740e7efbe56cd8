/* quad.cuh: the kernel for little work, whose time is that of one thread: four columns a thread, and no code but for
 * the common case. SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_QUAD_CUH
#define EPIQ_QUAD_CUH

#include "kernels.cuh"

enum { QUAD_SEGMENTS = 64 }; /* of 128 columns, what a warp has at a time */

/* The sum of the values of segments, neighbours first; those beyond the row's are 0. */
template <int Q> DEV float add_segments(const float *segments)
{
    const int lane = threadIdx.x & 31;
    enum { LANES = Q == 1 ? 8 : 16 }; /* that read four each */
    const float4 v = *(const float4 *)(segments + 4 * (lane & (LANES - 1)));
    float s = vf_add(vf_add(v.x, v.y), vf_add(v.z, v.w));
#pragma unroll
    for (int d = 1; d < LANES; d *= 2)
        s = vf_add(s, __shfl_xor_sync(~0u, s, d));
    return s;
}

/* NaN skipped. */
template <int DT> DEV float quad_amax(const float y[4], const uint2 &w, bool half)
{
    if (half)
        return amax_end<DT, false>(max_pair<DT, false>(w.x & 0x7fff7fffu, w.y & 0x7fff7fffu), true);
    float m = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        m = vf_max_num(vf_abs(y[i]), m);
    return m;
}

/* Codes of four columns, 8 bits each. */
template <int F> DEV uint32_t code4(const ar_quant &q, float v[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = nan_policy<F>(q, v[i]);
    return code_pair<F>(q, v[0], v[1]) | code_pair<F>(q, v[2], v[3]) << 16;
}

template <int F> DEV void scale4(const scaling &s, float v[4])
{
    if (format_of<F>::DIVIDES && s.divide) {
#pragma unroll 1
        for (int i = 0; i < 4; i++) { /* one at a time: rare, or only few columns */
            const float d = vf_div(v[0], s.factor);
            v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = d;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = format_of<F>::DIVIDES ? vf_fma(v[i], s.by, vf_mul(v[i], s.low)) : vf_mul(v[i], s.by);
}

/* rms_norm with one scale for all; token scales. blockDim.x threads, a multiple of 32, with quads t, t + blockDim.x and
 * so on, Q of them, cover the row blockIdx.x. act_mul: plain silu; rms_norm: weights of x's dtype, Q * blockDim.x up to
 * 2048. */
template <int OP, int DT, int F, int GRAIN, int Q>
__global__ void __launch_bounds__(1024) quad_kernel(const __grid_constant__ cuda_args a)
{
    __shared__ __align__(16) float segments[QUAD_SEGMENTS];
    __shared__ uint32_t maxima[32];
    const int64_t row = blockIdx.x;
    const int32_t quads = (int32_t)(a.cols / 4), padded = (int32_t)(a.padded / 4);
    const int32_t first = (int32_t)threadIdx.x;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    const cuda_rows second = OP == CUDA_ACT_MUL ? a.up : a.residual;
    const char *x = a.x.data + row * a.x.stride + (int64_t)first * 8;
    const char *other = second.data + row * second.stride + (int64_t)first * 8;
    const bool two = OP == CUDA_ACT_MUL || (OP == CUDA_RMS_NORM && a.residual.data != NULL);
    const bool half = half_y<OP, DT>(a);
    if (OP == CUDA_RMS_NORM && threadIdx.x < QUAD_SEGMENTS)
        segments[threadIdx.x] = 0.0f;
    if (OP == CUDA_RMS_NORM && QUAD_SEGMENTS > 32 && blockDim.x == 32)
        segments[threadIdx.x + 32] = 0.0f;
    if (OP == CUDA_RMS_NORM)
        __syncthreads();
    begin_kernel(a);
    uint2 in[Q], up[Q], weight[Q];
#pragma unroll
    for (int i = 0; i < Q; i++) {
        const int32_t step = i * (int32_t)blockDim.x;
        in[i] = up[i] = weight[i] = make_uint2(0, 0);
        if (first + step < quads) {
            in[i] = __ldcs((const uint2 *)x + step);
            if (two)
                up[i] = __ldcs((const uint2 *)other + step);
            if (OP == CUDA_RMS_NORM)
                weight[i] = *((const uint2 *)a.weight + first + step);
        }
    }
    ar_quant q = a.quant;
    q.grain = GRAIN;
    float factor = prepare<F>(a, q);
    float y[Q][4];
    uint2 words[Q];
#pragma unroll
    for (int i = 0; i < Q; i++) {
        float b[4];
        widen_pair<DT>(in[i].x, y[i]);
        widen_pair<DT>(in[i].y, y[i] + 2);
        widen_pair<DT>(up[i].x, b);
        widen_pair<DT>(up[i].y, b + 2);
        words[i] = in[i];
        if (OP == CUDA_ACT_MUL) {
            const ar_act_mul plain = {AR_SILU, AR_ROUND_NONE, 1, 1.0f, 0.0f, 0.0f, 0.0f};
            if (DT == AR_BF16 && a.quick_silu && quick_pair(min_bf16x2(in[i].x, in[i].y))) {
#pragma unroll
                for (int k = 0; k < 4; k++)
                    y[i][k] = cuda_quick_silu(y[i][k]);
            } else {
#pragma unroll
                for (int k = 0; k < 4; k++)
                    y[i][k] = ar_gate(&plain, 0, y[i][k]);
            }
            if (a.act_mul.round == AR_ROUND_TWICE)
                round_columns<DT, 4>(y[i]);
#pragma unroll
            for (int k = 0; k < 4; k++)
                y[i][k] = vf_mul(y[i][k], b[k]);
        } else if (OP == CUDA_RMS_NORM && two) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                y[i][k] = vf_add(y[i][k], b[k]);
            const uint2 h = make_uint2(narrow_pair<DT>(y[i]), narrow_pair<DT>(y[i] + 2));
            const int32_t quad = first + i * (int32_t)blockDim.x;
            if (a.residual_out.data != NULL && quad < quads)
                *((uint2 *)(a.residual_out.data + row * a.residual_out.stride) + quad) = h;
            if (a.norm.sum_round) {
                widen_pair<DT>(h.x, y[i]);
                widen_pair<DT>(h.y, y[i] + 2);
            }
        }
    }
    if (OP == CUDA_RMS_NORM) {
#pragma unroll
        for (int i = 0; i < Q; i++) {
            const float s = tree_lanes(vf_add(vf_add(vf_mul(y[i][0], y[i][0]), vf_mul(y[i][1], y[i][1])),
                                              vf_add(vf_mul(y[i][2], y[i][2]), vf_mul(y[i][3], y[i][3]))));
            if (lane == 0)
                segments[i * warps + warp] = s;
        }
        __syncthreads();
        const float rinv = norm_rinv(a, add_segments<Q>(segments));
#pragma unroll
        for (int i = 0; i < Q; i++) {
            float w[4];
            widen_pair<DT>(weight[i].x, w);
            widen_pair<DT>(weight[i].y, w + 2);
            norm_columns<DT, 4>(a.norm, y[i], rinv, w);
        }
    }
    float amax = 0.0f;
#pragma unroll
    for (int i = 0; i < Q; i++) {
        const int32_t quad = first + i * (int32_t)blockDim.x;
        if (OP != CUDA_QUANTIZE && half) {
            words[i] = make_uint2(narrow_pair<DT>(y[i]), narrow_pair<DT>(y[i] + 2));
            widen_pair<DT>(words[i].x, y[i]);
            widen_pair<DT>(words[i].y, y[i] + 2);
        }
        if (a.y_out.data != NULL && quad < quads)
            *((uint2 *)(a.y_out.data + row * a.y_out.stride) + quad) =
                half ? words[i] : make_uint2(narrow_pair<DT>(y[i]), narrow_pair<DT>(y[i] + 2));
        if (GRAIN == AR_TOKEN)
            amax = vf_max_num(quad_amax<DT>(y[i], words[i], half), amax);
    }
    scaling by = {};
    if (GRAIN == AR_TOKEN) {
        const uint32_t m = __reduce_max_sync(~0u, vf_bits(amax)); /* bits of numbers >= 0 are in their order */
        if (lane == 0)
            maxima[warp] = m;
        __syncthreads();
        amax = vi_float(__reduce_max_sync(~0u, lane < warps ? maxima[lane] : 0));
        uint32_t stored;
        format_of<F>::scale(q, amax, false, &factor, &stored);
        if (threadIdx.x == 0)
            store_scale(a, row, 0, stored);
        by = scaling_of<F>(q, factor, amax, half);
    }
#pragma unroll
    for (int i = 0; i < Q; i++) {
        const int32_t quad = first + i * (int32_t)blockDim.x;
        if (GRAIN == AR_TOKEN) {
            scale4<F>(by, y[i]);
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++)
                y[i][k] = format_of<F>::DIVIDES_STATIC && a.divide ? vf_div(y[i][k], factor) : vf_mul(y[i][k], factor);
        }
        uint32_t c = code4<F>(q, y[i]);
        if (quad < padded) {
            c = quad < quads ? c : 0; /* a NaN of the row may have come to where no column is */
            *((uint32_t *)(a.codes.data + row * a.codes.stride) + quad) = c;
        }
    }
    end_kernel(a);
}

#endif
