/* kernels.cuh: the kernels of the operations that make y and quantize it.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     flat_kernel         act_mul, quantize where no value of a whole row is needed: a thread has U vectors of a row
 *     token_kernel        act_mul, quantize with token scales: a thread has a vector
 *     wide_token_kernel   the same for wide rows, which wait in shared memory
 *     norm_kernel         rms_norm of 16-bit dtypes: a row, or several, in the registers of a block
 *     wide_norm_kernel    of wider rows and of f32, which wait in shared memory
 *     any_kernel          every shape, stride and alignment, a block a row, column by column
 *
 * lean.cuh and stream.cuh have others for little and for much work.
 *
 * With F = CUDA_AMAX each leaves the amax of its block's y in workspace; with F
 * = CUDA_NONE it writes y alone. */
#ifndef EPIQ_KERNELS_CUH
#define EPIQ_KERNELS_CUH

#include "launch.h"
#include "row.cuh"

enum { FLAT_THREADS = 256 };

/* ---- y of a vector ---- */

template <int OP, int DT> struct inputs { /* of a vector, as loaded */
    raw8<DT> x, up;
};

/* x, up: where they lie. */
template <int OP, int DT, int ACT> DEV inputs<OP, DT> load_at(const cuda_args &a, const char *x, const char *up)
{
    inputs<OP, DT> in;
    in.x = load_raw<DT>(x);
    if (OP == CUDA_ACT_MUL && (ACT != CUDA_ANY_ACT || a.act_mul.gated))
        in.up = load_raw<DT>(up);
    else
        in.up = zero_raw<DT>();
    return in;
}

/* Bytes from the beginning of a row to a vector. Interleaved, two neighbouring vectors hold the pairs of one, which
 * make_y takes apart. */
template <int OP, int DT, int ACT> DEV int64_t input_offset(const cuda_args &a, int32_t vec)
{
    const bool interleaved = OP == CUDA_ACT_MUL && ACT == CUDA_ANY_ACT && a.interleaved;
    return (int64_t)vec * (interleaved ? 16 : 8) * dtype_of<DT>::BYTES;
}

template <int OP, int DT, int ACT> DEV inputs<OP, DT> load_inputs(const cuda_args &a, int64_t row, int32_t vec)
{
    const int64_t col = input_offset<OP, DT, ACT>(a, vec);
    return load_at<OP, DT, ACT>(a, a.x.data + row * a.x.stride + col, a.second.data + row * a.second.stride + col);
}

/* act(gate) where no limit or alpha applies: the loop has no choices left in
 * it. */
template <int ACT> DEV void plain_gate8(const float gate[8], float y[8])
{
    const ar_act_mul plain = {ACT, AR_ROUND_NONE, 1, 1.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 8; i++)
        y[i] = ar_gate(&plain, 0, gate[i]);
}

/* Every other case, compiled once. */
static __device__ __noinline__ float gate_wide(const ar_act_mul &p, float gate)
{
    return ar_gate(&p, 1, gate);
}

static __device__ __noinline__ float gate_narrow(const ar_act_mul &p, float gate)
{
    return ar_gate(&p, 0, gate);
}

/* act(gate) of bf16 gates with exponents from -25 to 6, as the chain rounds it: most calls' gates are hardly ever
 * others, and looking one up takes a fifth of the instructions. The index is the sign, the exponent modulo 32 and the
 * mantissa. */
enum { TABLE_FIRST = (127 - 25) << 7 };

DEV void fill_table(const cuda_args &a, float *table)
{
    const bool wide = ar_wide(&a.act_mul, AR_BF16);
    const uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (uint32_t i = thread; i < TABLE_ENTRIES; i += blockDim.x * blockDim.y) {
        const uint32_t magnitude = TABLE_FIRST + ((i - TABLE_FIRST) & 0xfff);
        const float gate = vi_float(magnitude << 16 | i >> 12 << 31);
        float y;
        if (a.quick_silu && gate >= -87.0f)
            y = cuda_quick_silu(gate);
        else
            y = wide ? gate_wide(a.act_mul, gate) : gate_narrow(a.act_mul, gate);
        if (a.act_mul.round == AR_ROUND_TWICE)
            y = ar_bf16_round(y);
        table[i] = y;
    }
    __syncthreads();
}

/* Whether the table has all gates of a vector. A borrow reaches the upper half only from a lower one that is out of
 * range itself. */
DEV bool in_table(const uint4 &w)
{
    const uint32_t first = TABLE_FIRST | TABLE_FIRST << 16;
    const uint32_t u = ((w.x & 0x7fff7fffu) - first) | ((w.y & 0x7fff7fffu) - first) | ((w.z & 0x7fff7fffu) - first) |
                       ((w.w & 0x7fff7fffu) - first);
    return (u & 0xf000f000u) == 0;
}

DEV void look_up_pair(const float *table, uint32_t w, float *y)
{
    const uint32_t at = (w & 0x0fff0fffu) | (w >> 3 & 0xf000f000u);
    y[0] = table[at & 0x1fff];
    y[1] = table[at >> 16];
}

/* The activations of a vector by the table, or by arithmetic where one gate is not in it: one at a time and without a
 * call, around which registers would have to be saved. */
DEV void gates_by_table(const ar_act_mul &p, const float *table, const uint4 &w, float y[8])
{
    if (in_table(w)) {
        look_up_pair(table, w.x, y);
        look_up_pair(table, w.y, y + 2);
        look_up_pair(table, w.z, y + 4);
        look_up_pair(table, w.w, y + 6);
        return;
    }
    raw8<AR_BF16> gates;
    gates.w[0] = w;
    widen<AR_BF16>(gates, y);
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
        float g = ar_gate(&p, 1, y[0]);
        if (p.round == AR_ROUND_TWICE)
            g = ar_bf16_round(g);
        rotate8(y, g);
    }
}

DEV bool no_up_changes(const ar_act_mul &p)
{
    return p.limit == 0.0f && p.limit_after == 0.0f && p.up_offset == 0.0f;
}

/* act(gate) * up from act(gate), not rounded yet. */
DEV void times_up(const ar_act_mul &p, const float up[8], float y[8])
{
    if (no_up_changes(p)) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            y[i] = vf_mul(y[i], up[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            y[i] = vf_mul(y[i], ar_up(&p, up[i]));
    }
}

/* Whether cuda_quick_silu is right for two bf16 gates, for eight. */
DEV bool quick_pair(uint32_t w)
{
    return vf_min_num(vi_float(w << 16), vi_float(w & 0xffff0000u)) >= -87.0f; /* false for NaN alone: no matter */
}

DEV uint32_t min_bf16x2(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("min.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

DEV bool quick_gates(const uint4 &w)
{
    return quick_pair(min_bf16x2(min_bf16x2(w.x, w.y), min_bf16x2(w.z, w.w)));
}

/* ACT: CUDA_SILU for a gated silu in halves without limits, alpha or offset,
 * which most calls are: it has no choices left but its rounding points; CUDA_TABLE for any gated one in halves of bf16,
 * by a table; CUDA_ANY_ACT for every other. */
template <int DT, int ACT>
DEV void act_mul8(const ar_act_mul &p, bool quick, const float *table, const raw8<DT> &gates, const float gate[8],
                  const raw8<DT> &ups, const float up[8], values<DT> &y)
{
    if (ACT == CUDA_TABLE) {
        gates_by_table(p, table, gates.w[0], y.v);
        if (p.round == AR_ROUND_TWICE && no_up_changes(p)) {
            y.words = mul8<DT>(narrow<DT>(y.v), ups);
            widen<DT>(y.words, y.v);
            return;
        }
        times_up(p, up, y.v);
    } else if (ACT == CUDA_SILU) {
        if (DT == AR_BF16 && quick && quick_gates(gates.w[0])) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                y.v[i] = cuda_quick_silu(gate[i]);
        } else {
            plain_gate8<AR_SILU>(gate, y.v);
        }
        if (p.round == AR_ROUND_TWICE) {
            y.words = mul8<DT>(narrow<DT>(y.v), ups);
            widen<DT>(y.words, y.v);
            return;
        }
#pragma unroll
        for (int i = 0; i < 8; i++)
            y.v[i] = vf_mul(y.v[i], up[i]);
    } else {
        const bool plain = !ar_wide(&p, DT) && p.limit_after == 0.0f;
        if (plain && p.act == AR_GELU_TANH) {
            plain_gate8<AR_GELU_TANH>(gate, y.v);
        } else if (plain && p.act == AR_GELU_ERF) {
            plain_gate8<AR_GELU_ERF>(gate, y.v);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++)
                y.v[i] = gate_wide(p, gate[i]);
        }
        if (p.gated) {
            if (p.round == AR_ROUND_TWICE)
                round8<DT>(y.v);
            times_up(p, up, y.v);
        }
    }
    if (p.round != AR_ROUND_NONE)
        y.words = round8<DT>(y.v);
}

template <int OP, int DT, int ACT>
DEV void make_y(const cuda_args &a, const float *table, const inputs<OP, DT> &in, values<DT> &y)
{
    if (OP != CUDA_ACT_MUL) {
        widen<DT>(in.x, y.v);
        y.words = in.x;
        return;
    }
    float gate[8], up[8];
    widen<DT>(in.x, gate);
    widen<DT>(in.up, up);
    if (ACT == CUDA_ANY_ACT && a.interleaved) {
        float g[8], u[8];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            g[i] = gate[2 * i];
            u[i] = gate[2 * i + 1];
            g[i + 4] = up[2 * i];
            u[i + 4] = up[2 * i + 1];
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            gate[i] = g[i];
            up[i] = u[i];
        }
    }
    act_mul8<DT, ACT>(a.act_mul, a.quick_silu, table, in.x, gate, in.up, up, y);
}

/* y = 0. */
template <int DT> DEV void zero_y(values<DT> &y)
{
    y.words = zero_raw<DT>();
#pragma unroll
    for (int i = 0; i < 8; i++)
        y.v[i] = 0.0f;
}

/* Whether y are 16-bit floats. */
template <int OP, int DT> DEV bool half_y(const cuda_args &a)
{
    if (DT == AR_F32)
        return false;
    return OP == CUDA_QUANTIZE || (OP == CUDA_ACT_MUL ? a.act_mul.round : a.norm.round) != AR_ROUND_NONE;
}

template <int DT> DEV void store_y(const cuda_args &a, int64_t row, int32_t vec, const values<DT> &y, bool half)
{
    if (a.y_out.data != NULL)
        store_raw<DT>(a.y_out.data + row * a.y_out.stride + (int64_t)vec * 8 * dtype_of<DT>::BYTES,
                      DT != AR_F32 && half ? y.words : narrow<DT>(y.v));
}

/* The block's amax from each thread's, to workspace. */
DEV void store_amax(const cuda_args &a, float m)
{
    __shared__ float part[32];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
#pragma unroll
    for (int s = 1; s < 32; s *= 2)
        m = vf_max_num(__shfl_xor_sync(~0u, m, s), m);
    if ((thread & 31) == 0)
        part[thread / 32] = m;
    __syncthreads();
    if (thread == 0) {
        for (int i = 1; i < (threads + 31) / 32; i++)
            m = vf_max_num(part[i], m);
        a.workspace[blockIdx.x] = m;
    }
}

/* ---- flat_kernel ---- */

/* Codes of a vector by a factor that is known: grain tensor. */
template <int F> DEV uint2 code8_tensor(const cuda_args &a, const ar_quant &q, float factor, float y[8])
{
    if (format_of<F>::DIVIDES_STATIC && a.divide) {
#pragma unroll 1
        for (int i = 0; i < 8; i++)
            rotate8(y, vf_div(y[0], factor));
    } else {
        multiply8(y, factor);
    }
    return code8<F>(q, y);
}

template <int F, int U> constexpr __device__ bool pairs()
{
    return format_of<F>::BLOCK == 16 && U == 2;
}

/* blockDim.x threads cover U * blockDim.x vectors of a row, blockDim.y rows,
 * a.repeat times; blockIdx.x counts rows, blockIdx.y pieces of a row. G: scales
 * of groups. */
template <int OP, int DT, int F, int G, int ACT, int U>
__global__ void __launch_bounds__(256) flat_kernel(const __grid_constant__ cuda_args a)
{
    begin_kernel(a);
    if (G && blockIdx.x >= a.main_blocks) {
        if (blockIdx.y == 0)
            zero_padding_rows(a);
        end_kernel(a);
        return;
    }
    const int32_t vectors = a.vectors, padded = a.padded_vectors;
    /* neighbours where a block of nvfp4 is two vectors: its scale then concerns
   * one thread */
    const int32_t step = pairs<F, U>() ? 1 : (int32_t)blockDim.x;
    const int32_t first = (int32_t)(blockIdx.y * U * blockDim.x + threadIdx.x * (pairs<F, U>() ? U : 1));
    int64_t row = (int64_t)blockIdx.x * a.repeat * blockDim.y + threadIdx.y;
    const int64_t below = a.rows - row;
    const int32_t mine = below <= 0 ? 0
                         : below >= (int64_t)a.repeat * blockDim.y
                             ? a.repeat
                             : (int32_t)(((uint32_t)below + blockDim.y - 1) / blockDim.y);
    const int64_t offset = input_offset<OP, DT, ACT>(a, first), between = input_offset<OP, DT, ACT>(a, step);
    const char *x = a.x.data + row * a.x.stride + offset, *up = a.second.data + row * a.second.stride + offset;
    const int64_t x_stride = a.x.stride * blockDim.y, up_stride = a.second.stride * blockDim.y;
    char *codes = a.codes.data + row * a.codes.stride + (int64_t)first * format_of<F>::BITS;
    const int64_t codes_stride = a.codes.stride * blockDim.y;
    const bool half = half_y<OP, DT>(a);
    inputs<OP, DT> next[U];
#pragma unroll
    for (int u = 0; u < U; u++)
        if (mine > 0 && first + u * step < vectors)
            next[u] = load_at<OP, DT, ACT>(a, x + u * between, up + u * between);
    ar_quant q = a.quant;
    const float factor = prepare<F, may_be_dynamic<F, G>()>(a, q);
#pragma unroll 1
    for (int32_t r = 0; r < a.repeat; r++) {
        inputs<OP, DT> in[U];
        x += x_stride;
        up += up_stride;
#pragma unroll
        for (int u = 0; u < U; u++) {
            in[u] = next[u];
            if (r + 1 < mine && first + u * step < vectors)
                next[u] = load_at<OP, DT, ACT>(a, x + u * between, up + u * between);
        }
        char *scales = G ? scales_of_row(a, row) : NULL;
        values<DT> both[pairs<F, U>() ? 2 : 1];
#pragma unroll
        for (int u = 0; u < U; u++) {
            const int32_t vec = first + u * step;
            const bool valid = r < mine && vec < padded;
            values<DT> &y = both[pairs<F, U>() ? u : 0];
            if (r < mine && vec < vectors) {
                make_y<OP, DT, ACT>(a, NULL, in[u], y);
                store_y<DT>(a, row, vec, y, half);
            } else {
                zero_y<DT>(y);
            }
            if (F == CUDA_NONE || (pairs<F, U>() && u == 0))
                continue;
            char *to = codes + (pairs<F, U>() ? 0 : u * step * format_of<F>::BITS);
            if (pairs<F, U>())
                emit_pair<F, DT>(a, q, row, scales, first, to, valid, half, both[0], both[pairs<F, U>() ? 1 : 0]);
            else if (G)
                emit_group<F, DT>(a, q, row, scales, vec, to, valid, half, y);
            else if (valid)
                store_codes<F>(to, code8_tensor<F>(a, q, factor, y.v));
        }
        row += blockDim.y;
        codes += codes_stride;
    }
    end_kernel(a);
}

/* The amax of y over all rows, gridDim.x blocks taking vectors in turn. */
template <int OP, int DT> __global__ void __launch_bounds__(256) amax_kernel(const __grid_constant__ cuda_args a)
{
    begin_kernel(a);
    const int32_t vectors = a.vectors;
    float largest = 0.0f;
    for (uint32_t block = blockIdx.x; block < a.main_blocks; block += gridDim.x) {
        const int64_t row = block / (uint32_t)a.chunks;
        const int32_t vec = (int32_t)(block % (uint32_t)a.chunks * blockDim.x + threadIdx.x);
        if (vec >= vectors)
            continue;
        values<DT> y;
        make_y<OP, DT, CUDA_ANY_ACT>(a, NULL, load_inputs<OP, DT, CUDA_ANY_ACT>(a, row, vec), y);
        largest = vf_max_num(amax8<DT>(y, half_y<OP, DT>(a)), largest);
    }
    store_amax(a, largest);
    end_kernel(a);
}

/* ---- norm_kernel ---- */

enum { ROW_SEGMENTS = 256 }; /* of 32 vectors, of the rows of a block */

/* Adds the lanes' values so that neighbours come first: the subtree of 32
 * vectors. */
DEV float tree_lanes(float s)
{
#pragma unroll
    for (int d = 1; d < 32; d *= 2)
        s = vf_add(s, __shfl_xor_sync(~0u, s, d));
    return s;
}

DEV float add_four(const float4 &v)
{
    return vf_add(vf_add(v.x, v.y), vf_add(v.z, v.w));
}

/* The sum of squares of a vector, the lowest part of the tree. */
DEV float squares8(const float h[8])
{
    float p[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        p[i] = vf_add(vf_mul(h[2 * i], h[2 * i]), vf_mul(h[2 * i + 1], h[2 * i + 1]));
    return vf_add(vf_add(p[0], p[1]), vf_add(p[2], p[3]));
}

/* Eight columns as fp32 in shared memory. */
DEV void keep8(uint4 *kept, int32_t vec, const float v[8])
{
    const raw8<AR_F32> k = pack_f32(v);
    kept[2 * vec] = k.w[0];
    kept[2 * vec + 1] = k.w[1];
}

DEV void kept8(const uint4 *kept, int32_t vec, float v[8])
{
    raw8<AR_F32> k;
    k.w[0] = kept[2 * vec];
    k.w[1] = kept[2 * vec + 1];
    widen<AR_F32>(k, v);
}

/* The sum over up to ROW_SEGMENTS segments, by a whole warp. */
DEV float tree_segments(const float *segments, int count)
{
    const int lane = threadIdx.x & 31, each = count <= 32 ? 1 : count <= 64 ? 2 : count <= 128 ? 4 : 8;
    float n[8]; /* neighbours of a lane */
#pragma unroll
    for (int i = 0; i < 8; i++)
        n[i] = i < each && lane * each + i < count ? segments[lane * each + i] : 0.0f;
    return tree_lanes(
        vf_add(vf_add(vf_add(n[0], n[1]), vf_add(n[2], n[3])), vf_add(vf_add(n[4], n[5]), vf_add(n[6], n[7]))));
}

/* The largest of the numbers, >= 0, of a row's threads. */
DEV float max_row(float m)
{
    __shared__ uint32_t warps_max[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    uint32_t bits = __reduce_max_sync(~0u, vf_bits(m)); /* in the order of the numbers */
    if (warps > 1) {
        uint32_t *mine = warps_max + threadIdx.y * warps;
        if (lane == 0)
            mine[warp] = bits;
        __syncthreads();
        bits = __reduce_max_sync(~0u, lane < warps ? mine[lane] : 0);
    }
    return vi_float(bits);
}

/* ar_norm_rinv, where nothing is out of the ordinary without the questions that division, square root and reciprocal
 * ask, and elsewhere without calls. */
DEV float norm_rinv(const cuda_args &a, float sum)
{
    const float v = vf_add(cuda_div_steps(sum, a.float_cols, a.rcp_cols), a.norm.eps);
    if (__builtin_expect(!(sum >= 0x1p-40f && sum <= 0x1p100f && v >= 0x1p-60f && v <= 0x1p100f), 0))
        return cuda_div_any(1.0f, vf_sqrt(vf_add(cuda_div_any(sum, a.float_cols), a.norm.eps)));
    return cuda_rsqrt(v);
}

/* y, not rounded yet, of columns y of h. */
template <int DT, int N> DEV void norm_columns(const ar_norm &p, float y[N], float rinv, const float weight[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        y[i] = vf_mul(y[i], rinv);
    if (p.round == AR_ROUND_TWICE)
        round_columns<DT, N>(y);
#pragma unroll
    for (int i = 0; i < N; i++)
        y[i] = vf_mul(y[i], ar_norm_weight(&p, weight[i])); /* adding a bias of 0 would turn -0 into 0 */
}

template <int DT> DEV void norm8(const ar_norm &p, values<DT> &y, float rinv, const float weight[8])
{
    norm_columns<DT, 8>(p, y.v, rinv, weight);
    if (p.round != AR_ROUND_NONE)
        y.words = round8<DT>(y.v);
}

/* What the norm sees of x, or of x + residual if there is one; answers RN_T of the sum. */
template <int DT>
DEV raw8<DT> norm_sum8(const ar_norm &p, bool residual, const raw8<DT> &x, const raw8<DT> &r, float h[8])
{
    if (DT != AR_F32 && residual && p.sum_round) {
        const raw8<DT> sum = add8<DT>(x, r);
        widen<DT>(sum, h);
        return sum;
    }
    widen<DT>(x, h);
    if (!residual)
        return x;
    float add[8];
    widen<DT>(r, add);
#pragma unroll
    for (int i = 0; i < 8; i++)
        h[i] = vf_add(h[i], add[i]);
    return narrow<DT>(h);
}

/* h of a vector of a row, and x + residual stored; zeros where it has no columns. */
template <int DT> DEV void norm_h(const cuda_args &a, int64_t row, int32_t vec, bool has, bool store, values<DT> &h)
{
    const int64_t col = (int64_t)vec * 8 * dtype_of<DT>::BYTES;
    raw8<DT> x = zero_raw<DT>(), r = zero_raw<DT>();
    if (has) {
        x = load_raw<DT>(a.x.data + row * a.x.stride + col);
        if (a.second.data != NULL)
            r = load_raw<DT>(a.second.data + row * a.second.stride + col);
    }
    const bool two = a.second.data != NULL;
    const raw8<DT> sum = norm_sum8<DT>(a.norm, two, x, r, h.v);
    if (two && store && has && a.residual_out.data != NULL)
        store_raw<DT>(a.residual_out.data + row * a.residual_out.stride + col, sum);
}

/* y from h; zeros where there are no columns, of which a rinv of NaN would make NaN. */
template <int DT> DEV void norm_y(const cuda_args &a, int32_t vec, bool has, float rinv, values<DT> &y)
{
    float weight[8];
    if (!has) {
        zero_y<DT>(y);
        return;
    }
    if (DT == AR_F32 || !a.weight_f32)
        widen<DT>(load_raw<DT>(a.weight + (int64_t)vec * 8 * dtype_of<DT>::BYTES), weight);
    else
        widen<AR_F32>(load_raw<AR_F32>(a.weight + (int64_t)vec * 32), weight);
    norm8<DT>(a.norm, y, rinv, weight);
}

/* 16-bit dtypes: blockDim.x threads a row, a multiple of 32, with two vectors each, blockDim.x apart; blockDim.y rows.
 */
template <int DT, int F, int G> __global__ void __launch_bounds__(512) norm_kernel(const __grid_constant__ cuda_args a)
{
    __shared__ float segments[ROW_SEGMENTS];
    if (begin_or_pad<G>(a))
        return;
    const bool half = half_y<CUDA_RMS_NORM, DT>(a);
    const int32_t warps = blockDim.x >> 5, warp = threadIdx.x >> 5;
    float *mine = segments + threadIdx.y * 2 * warps, largest = 0.0f;
    for (uint32_t block = blockIdx.x; block < a.main_blocks; block += gridDim.x) {
        const int64_t row = (int64_t)block * blockDim.y + threadIdx.y;
        const int32_t vec[2] = {(int32_t)threadIdx.x, (int32_t)(threadIdx.x + blockDim.x)};
        const bool has[2] = {row < a.rows && vec[0] < a.vectors, row < a.rows && vec[1] < a.vectors};
        values<DT> y[2];
#pragma unroll
        for (int v = 0; v < 2; v++)
            norm_h<DT>(a, row, vec[v], has[v], F != CUDA_AMAX, y[v]);
        ar_quant q = a.quant;
        float factor = prepare<F, may_be_dynamic<F, G>()>(a, q);
#pragma unroll
        for (int v = 0; v < 2; v++) {
            const float s = tree_lanes(squares8(y[v].v));
            if ((threadIdx.x & 31) == 0)
                mine[v * warps + warp] = s;
        }
        __syncthreads();
        const float rinv = norm_rinv(a, tree_segments(mine, 2 * warps));
        float amax = 0.0f;
#pragma unroll
        for (int v = 0; v < 2; v++) {
            norm_y<DT>(a, vec[v], has[v], rinv, y[v]);
            if (F != CUDA_AMAX && has[v])
                store_y<DT>(a, row, vec[v], y[v], half);
            if (F == CUDA_AMAX || (F < CUDA_NONE && !G))
                amax = vf_max_num(amax8<DT>(y[v], half), amax);
        }
        if (F == CUDA_AMAX) {
            largest = vf_max_num(amax, largest);
            __syncthreads(); /* before shared memory is used for the next row */
            continue;
        }
        scaling by = {};
        if (F < CUDA_NONE && !G && q.grain == AR_TOKEN) {
            amax = max_row(amax);
            uint32_t stored;
            format_of<F>::scale(q, amax, false, &factor, &stored);
            if (threadIdx.x == 0 && row < a.rows)
                store_scale(a, scales_of_row(a, row), 0, stored);
            by = scaling_of<F>(q, factor, amax, half);
        }
        char *scales = G ? scales_of_row(a, row) : NULL;
#pragma unroll
        for (int v = 0; v < 2; v++) {
            const bool valid = row < a.rows && vec[v] < a.padded_vectors;
            if (F == CUDA_NONE)
                continue;
            if (G)
                emit_group<F, DT>(a, q, row, scales, vec[v], codes_at<F>(a, row, vec[v]), valid, half, y[v]);
            else if (valid && q.grain == AR_TOKEN) {
                scale8<F>(by, y[v].v);
                store_codes<F>(codes_at<F>(a, row, vec[v]), code8<F>(q, y[v].v));
            } else if (valid) {
                store_codes<F>(codes_at<F>(a, row, vec[v]), code8_tensor<F>(a, q, factor, y[v].v));
            }
        }
        break;
    }
    if (F == CUDA_AMAX)
        store_amax(a, largest);
    end_kernel(a);
}

/* Any dtype and more columns: a block a row, whose h, and then y, waits in shared memory as fp32. */
template <int DT, int F, int G>
__global__ void __launch_bounds__(512) wide_norm_kernel(const __grid_constant__ cuda_args a)
{
    extern __shared__ uint4 kept[];
    __shared__ float segments[ROW_SEGMENTS];
    if (begin_or_pad<G>(a))
        return;
    const bool half = half_y<CUDA_RMS_NORM, DT>(a);
    const int32_t threads = (int32_t)blockDim.x, first = (int32_t)threadIdx.x;
    const int32_t end = (max(a.vectors, a.padded_vectors) + threads - 1) / threads * threads; /* warps stay whole */
    float largest = 0.0f;
    for (uint32_t block = blockIdx.x; block < a.main_blocks; block += gridDim.x) {
        const int64_t row = block;
        ar_quant q = a.quant;
        float factor = prepare<F, may_be_dynamic<F, G>()>(a, q), amax = 0.0f;
#pragma unroll 1
        for (int32_t vec = first; vec < end; vec += threads) {
            values<DT> h;
            norm_h<DT>(a, row, vec, vec < a.vectors, F != CUDA_AMAX, h);
            const float s = tree_lanes(squares8(h.v));
            if ((threadIdx.x & 31) == 0 && vec < a.vectors)
                segments[vec >> 5] = s;
            if (vec < a.vectors)
                keep8(kept, vec, h.v);
        }
        __syncthreads();
        const float rinv = norm_rinv(a, tree_segments(segments, (a.vectors + 31) >> 5));
        const bool token = F < CUDA_NONE && !G && q.grain == AR_TOKEN;
        char *scales = G ? scales_of_row(a, row) : NULL;
#pragma unroll 1
        for (int32_t vec = first; vec < end; vec += threads) {
            values<DT> y;
            const bool has = vec < a.vectors, valid = vec < a.padded_vectors;
            if (has)
                kept8(kept, vec, y.v);
            norm_y<DT>(a, vec, has, rinv, y);
            if (F != CUDA_AMAX && has)
                store_y<DT>(a, row, vec, y, half);
            if (F == CUDA_AMAX || token) {
                amax = vf_max_num(amax8<DT>(y, half), amax);
                if (token && has)
                    keep8(kept, vec, y.v);
            } else if (F != CUDA_NONE && G) {
                emit_group<F, DT>(a, q, row, scales, vec, codes_at<F>(a, row, vec), valid, half, y);
            } else if (F != CUDA_NONE && valid) {
                store_codes<F>(codes_at<F>(a, row, vec), code8_tensor<F>(a, q, factor, y.v));
            }
        }
        if (F == CUDA_AMAX) {
            largest = vf_max_num(amax, largest);
            __syncthreads(); /* before shared memory is used for the next row */
            continue;
        }
        if (token) {
            amax = max_row(amax);
            uint32_t stored;
            format_of<F>::scale(q, amax, false, &factor, &stored);
            if (threadIdx.x == 0)
                store_scale(a, scales_of_row(a, row), 0, stored);
            const scaling by = scaling_of<F>(q, factor, amax, half);
#pragma unroll 1
            for (int32_t vec = first; vec < a.padded_vectors; vec += threads) {
                float v[8] = {};
                if (vec < a.vectors)
                    kept8(kept, vec, v);
                scale8<F>(by, v);
                store_codes<F>(codes_at<F>(a, row, vec), code8<F>(q, v));
            }
        }
        break;
    }
    if (F == CUDA_AMAX)
        store_amax(a, largest);
    end_kernel(a);
}

/* ---- token_kernel ---- */

/* blockDim.x threads a row, a multiple of 32, a vector each; blockDim.y rows. */
template <int OP, int DT, int F, int ACT>
__global__ void __launch_bounds__(1024) token_kernel(const __grid_constant__ cuda_args a)
{
    begin_kernel(a);
    const int32_t vectors = a.vectors, padded = a.padded_vectors, vec = (int32_t)threadIdx.x;
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const bool half = half_y<OP, DT>(a), has = row < a.rows && vec < vectors;
    inputs<OP, DT> in;
    if (has)
        in = load_inputs<OP, DT, ACT>(a, row, vec);
    ar_quant q = a.quant;
    (void)prepare<F, false>(a, q);
    values<DT> y;
    if (has) {
        make_y<OP, DT, ACT>(a, NULL, in, y);
        store_y<DT>(a, row, vec, y, half);
    } else {
        zero_y<DT>(y);
    }
    const float amax = max_row(amax8<DT>(y, half));
    float factor;
    uint32_t stored;
    format_of<F>::scale(q, amax, false, &factor, &stored);
    if (threadIdx.x == 0 && row < a.rows)
        store_scale(a, scales_of_row(a, row), 0, stored);
    const scaling by = scaling_of<F>(q, factor, amax, half);
    if (row < a.rows && vec < padded) {
        scale8<F>(by, y.v);
        store_codes<F>(codes_at<F>(a, row, vec), code8<F>(q, y.v));
    }
    end_kernel(a);
}

/* Rows for which that has too few threads: a block a row; its y waits in shared memory for the scale: as T where y is
 * rounded to it, else as fp32. */
template <int OP, int DT, int F>
__global__ void __launch_bounds__(1024) wide_token_kernel(const __grid_constant__ cuda_args a)
{
    extern __shared__ uint4 kept[];
    begin_kernel(a);
    const int32_t vectors = a.vectors, padded = a.padded_vectors;
    const bool half = half_y<OP, DT>(a);
    const int64_t row = blockIdx.x;
    ar_quant q = a.quant;
    (void)prepare<F, false>(a, q);
    float amax = 0.0f;
#pragma unroll 1
    for (int32_t vec = threadIdx.x; vec < vectors; vec += blockDim.x) {
        values<DT> y;
        make_y<OP, DT, CUDA_ANY_ACT>(a, NULL, load_inputs<OP, DT, CUDA_ANY_ACT>(a, row, vec), y);
        amax = vf_max_num(amax8<DT>(y, half), amax);
        store_y<DT>(a, row, vec, y, half);
        if (!half) {
            keep8(kept, vec, y.v);
        } else {
            kept[vec] = y.words.w[0];
        }
    }
    amax = max_row(amax);
    float factor;
    uint32_t stored;
    format_of<F>::scale(q, amax, false, &factor, &stored);
    if (threadIdx.x == 0)
        store_scale(a, scales_of_row(a, row), 0, stored);
    const scaling by = scaling_of<F>(q, factor, amax, half);
#pragma unroll 1
    for (int32_t vec = threadIdx.x; vec < padded; vec += blockDim.x) {
        float y[8];
        if (vec >= vectors) {
            widen<AR_F32>(zero_raw<AR_F32>(), y);
        } else if (!half) {
            kept8(kept, vec, y);
        } else {
            raw8<DT> k = zero_raw<DT>();
            k.w[0] = kept[vec];
            widen<DT>(k, y);
        }
        scale8<F>(by, y);
        store_codes<F>(codes_at<F>(a, row, vec), code8<F>(q, y));
    }
    end_kernel(a);
}

/* ---- any_kernel ---- */

template <int OP, int DT> DEV float one_h(const cuda_args &a, int64_t row, int64_t col)
{
    float h = load_one<DT>(a.x.data + row * a.x.stride + col * dtype_of<DT>::BYTES);
    if (OP == CUDA_RMS_NORM && a.second.data != NULL)
        h = ar_norm_sum(&a.norm, DT, h,
                        load_one<DT>(a.second.data + row * a.second.stride + col * dtype_of<DT>::BYTES));
    return h;
}

template <int OP, int DT>
static __device__ __noinline__ float one_y(const cuda_args &a, int64_t row, int64_t col, float rinv)
{
    if (OP == CUDA_RMS_NORM) {
        float w =
            a.weight_f32 ? load_one<AR_F32>(a.weight + col * 4) : load_one<DT>(a.weight + col * dtype_of<DT>::BYTES);
        return ar_norm_y(&a.norm, DT, one_h<OP, DT>(a, row, col), rinv, w);
    }
    if (OP != CUDA_ACT_MUL)
        return load_one<DT>(a.x.data + row * a.x.stride + col * dtype_of<DT>::BYTES);
    const int64_t at = col * (a.interleaved ? 2 : 1) * dtype_of<DT>::BYTES;
    const char *gate = a.x.data + row * a.x.stride + at;
    const char *up = !a.act_mul.gated ? gate
                     : a.interleaved  ? gate + dtype_of<DT>::BYTES
                                      : a.second.data + row * a.second.stride + at;
    return ar_act_mul_y(&a.act_mul, DT, load_one<DT>(gate), load_one<DT>(up));
}

/* The tree over a row, 2048 columns (8 warps of 32 vectors) a step; thread 0
 * joins the steps. */
template <int OP, int DT> DEV float any_rinv(const cuda_args &a, int64_t row)
{
    __shared__ float part[8], total;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float stack[40];
    int top = 0;
    uint64_t steps = 0;
    for (int64_t base = 0; base < a.cols; base += 2048) {
        float s[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int64_t col = base + threadIdx.x * 8 + i;
            const float h = col < a.cols ? one_h<OP, DT>(a, row, col) : 0.0f;
            s[i] = vf_mul(h, h);
        }
        float v =
            vf_add(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])), vf_add(vf_add(s[4], s[5]), vf_add(s[6], s[7])));
        v = tree_lanes(v);
        if (lane == 0)
            part[warp] = v;
        __syncthreads();
        if (threadIdx.x == 0) {
            v = vf_add(vf_add(vf_add(part[0], part[1]), vf_add(part[2], part[3])),
                       vf_add(vf_add(part[4], part[5]), vf_add(part[6], part[7])));
            for (uint64_t b = steps++; b & 1; b >>= 1)
                v = vf_add(stack[--top], v);
            stack[top++] = v;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        float v = stack[--top];
        while (top > 0)
            v = vf_add(stack[--top], v);
        total = norm_rinv(a, v);
    }
    __syncthreads();
    return total;
}

/* The format as a run-time value: this path is not made for speed, and one
 * kernel does for all. */
static __device__ __noinline__ uint32_t any_code(int format, const ar_quant &q, float x)
{
    switch (format) {
#define X(upper, lower, bits, block, scale, grains)                                                                    \
    case CUDA_##upper:                                                                                                 \
        return format_of<CUDA_##upper>::code(q, x);
        EPIQI_FORMATS(X)
#undef X
    default:
        return 0;
    }
}

static __device__ __noinline__ void any_scale(int format, const ar_quant &q, float amax, bool nan, float *factor,
                                              uint32_t *stored)
{
    switch (format) {
#define X(upper, lower, bits, block, scale_dtype, grains)                                                              \
    case CUDA_##upper:                                                                                                 \
        format_of<CUDA_##upper>::scale(q, amax, nan, factor, stored);                                                  \
        break;
        EPIQI_FORMATS(X)
#undef X
    default:
        break;
    }
}

static __device__ __noinline__ float any_prepare(const cuda_args &a, ar_quant &q)
{
    switch (a.format) {
#define X(upper, lower, bits, block, scale, grains)                                                                    \
    case CUDA_##upper:                                                                                                 \
        return prepare<CUDA_##upper, true>(a, q);
        EPIQI_FORMATS(X)
#undef X
    default:
        return 0.0f;
    }
}

/* 256 threads, blocks take rows in turn. a.format: a format, CUDA_NONE or
 * CUDA_AMAX. */
template <int OP, int DT> __global__ void __launch_bounds__(256) any_kernel(const __grid_constant__ cuda_args a)
{
    begin_kernel(a);
    const bool codes = a.format < CUDA_NONE, amax_only = a.format == CUDA_AMAX;
    if (codes && blockIdx.x >= a.main_blocks) {
        zero_padding_rows(a);
        end_kernel(a);
        return;
    }
    ar_quant q = a.quant;
    const float tensor = any_prepare(a, q);
    float largest = 0.0f;
    for (int64_t row = blockIdx.x; row < a.rows; row += a.main_blocks) {
        const float rinv = OP == CUDA_RMS_NORM ? any_rinv<OP, DT>(a, row) : 0.0f;
        float factor = tensor;
        if (amax_only || (codes && q.grain == AR_TOKEN)) {
            float m = 0.0f;
            for (int64_t col = threadIdx.x; col < a.cols; col += 256)
                m = vf_max_num(vf_abs(one_y<OP, DT>(a, row, col, rinv)), m);
            if (amax_only) {
                largest = vf_max_num(m, largest);
                continue;
            }
            __syncthreads();
            m = max_row(m);
            uint32_t stored;
            any_scale(a.format, q, m, false, &factor, &stored);
            if (threadIdx.x == 0)
                store_scale(a, scales_of_row(a, row), 0, stored);
        }
        const int64_t unit = codes && a.group != 0 ? a.group : 1, padded = codes ? a.padded : a.cols;
        for (int64_t start = threadIdx.x * unit; start < padded; start += 256 * unit) {
            const int64_t end = start + unit < padded ? start + unit : padded;
            if (unit > 1) {
                float m = 0.0f;
                bool nan = false;
                for (int64_t col = start; col < end && col < a.cols; col++) {
                    const float y = one_y<OP, DT>(a, row, col, rinv);
                    m = vf_max_num(vf_abs(y), m);
                    nan = nan || vf_is_nan(y);
                }
                uint32_t stored;
                any_scale(a.format, q, m, nan, &factor, &stored);
                store_scale(a, scales_of_row(a, row), start / unit, stored);
                if (start / unit == a.scales.groups - 1)
                    zero_padding_groups(a, scales_of_row(a, row));
            }
            uint32_t nibble = 0;
            for (int64_t col = start; col < end; col++) {
                float y = 0.0f;
                if (col < a.cols) {
                    y = one_y<OP, DT>(a, row, col, rinv);
                    const int64_t at = col * dtype_of<DT>::BYTES; /* what may be written over has been read */
                    if (OP == CUDA_RMS_NORM && a.residual_out.data != NULL)
                        store_one<DT>(a.residual_out.data + row * a.residual_out.stride + at,
                                      one_h<OP, DT>(a, row, col));
                    if (a.y_out.data != NULL)
                        store_one<DT>(a.y_out.data + row * a.y_out.stride + at, y);
                }
                if (!codes)
                    continue;
                const uint32_t c = any_code(a.format, q, a.divide ? vf_div(y, factor) : vf_mul(y, factor));
                char *to = a.codes.data + row * a.codes.stride + col * a.bits / 8;
                if (a.bits == 8)
                    *to = (char)c;
                else if ((col & 1) == 0)
                    nibble = c;
                else
                    *to = (char)(nibble | c << 4);
            }
        }
        __syncthreads();
    }
    if (amax_only)
        store_amax(a, largest);
    end_kernel(a);
}

#endif
