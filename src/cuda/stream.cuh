/* stream.cuh: the kernel for much work, from sm_90 on: bulk copies bring rows into a ring in shared memory while the
 * threads, which stay, work on those that came before. SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_STREAM_CUH
#define EPIQ_STREAM_CUH

#include "kernels.cuh"

/* ---- Bulk copies ---- */

DEV uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

#define STREAM_HERE (__CUDA_ARCH__ >= 10 * STREAM_FROM && __CUDA_ARCH__ < 10 * STREAM_BELOW)

#if STREAM_HERE
DEV void init_barrier(uint32_t barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

DEV void expect_bytes(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* 16-byte aligned, a multiple of 16 bytes. */
DEV void copy_bulk(uint32_t to, const char *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* The other way; the copies of a thread are waited for by cp.async.bulk.wait_group. */
DEV void store_bulk(char *to, uint32_t from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}

DEV void wait_bytes(uint32_t barrier, uint32_t parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra again; }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
#endif

/* ---- Sixteen columns a thread ---- */

/* The threads of one threadIdx.y of a block: together, while the others go on. MANY: there may be several. The block's
 * own barrier is faster. */
template <bool MANY> DEV void sync_row()
{
    if (!MANY || blockDim.y == 1)
        __syncthreads();
    else
        asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
}

/* Values of the warps of a row; `turn`, 0 or 1, alternates so that one row's can be written while those of the row
 * before are still read. */
typedef struct warp_values {
    uint32_t of[2][32];
} warp_values;

DEV void give_warp_value(warp_values &w, uint32_t value, int turn)
{
    if ((threadIdx.x & 31) == 0)
        w.of[turn][threadIdx.x >> 5] = value;
}

/* The sum of the warps' values, neighbours first; those of no warp are 0. */
DEV float add_warp_values(const warp_values &w, int turn)
{
    const float4 *v = (const float4 *)w.of[turn];
    float s = vf_add(add_four(v[0]), add_four(v[1]));
    if (blockDim.x > 256)
        s = vf_add(s, vf_add(add_four(v[2]), add_four(v[3])));
    if (blockDim.x > 512)
        s = vf_add(s, vf_add(vf_add(add_four(v[4]), add_four(v[5])), vf_add(add_four(v[6]), add_four(v[7]))));
    return s;
}

/* The codes and the scale of a thread's two vectors, which are of one group; `shared_by` threads share a group. All
 * lanes of a warp come here together. */
template <int F, int DT>
DEV void code_groups(const cuda_args &a, const ar_quant &q, int64_t row, char *scales, int32_t pair, bool valid,
                     bool half, values<DT> y[2], uint2 c[2])
{
    const int shared_by = format_of<F>::BLOCK != 0 ? format_of<F>::BLOCK / 16 : a.group / 16;
    const int shift = 31 - __clz(shared_by);
    const int lane = threadIdx.x & 31;
    bool nan = false;
    float amax;
    if (format_of<F>::BITS == 4) { /* first as if there were no NaN to skip */
        uint32_t m = amax_join<DT, true>(amax_start<DT, true>(y[0], half), amax_start<DT, true>(y[1], half), half);
#pragma unroll
        for (int s = 1; s < format_of<F>::BLOCK / 16; s *= 2)
            m = amax_join<DT, true>(m, __shfl_xor_sync(~0u, m, s), half);
        amax = amax_end<DT, true>(m, half);
        nan = vf_is_nan(amax);
    }
    if (format_of<F>::BITS == 8 || __any_sync(~0u, nan)) {
        uint32_t m = amax_join<DT, false>(amax_start<DT, false>(y[0], half), amax_start<DT, false>(y[1], half), half);
#pragma unroll
        for (int s = 1; s < 8; s *= 2)
            if (s < shared_by)
                m = amax_join<DT, false>(m, __shfl_xor_sync(~0u, m, s), half);
        amax = amax_end<DT, false>(m, half);
    }
    float factor;
    uint32_t stored;
    format_of<F>::scale(q, amax, nan, &factor, &stored);
    if (format_of<F>::BITS == 4) {
        if (!nan && vf_mul(amax, factor) < 7.0f) { /* no product is a NaN */
            c[0] = code8_below_7(y[0].v, factor);
            c[1] = code8_below_7(y[1].v, factor);
        } else {
            multiply8(y[0].v, factor);
            multiply8(y[1].v, factor);
            c[0] = code8<F>(q, y[0].v);
            c[1] = code8<F>(q, y[1].v);
        }
    } else {
        const scaling by = scaling_of<F>(q, factor, amax, half);
        scale8<F>(by, y[0].v);
        scale8<F>(by, y[1].v);
        c[0] = code8<F>(q, y[0].v);
        c[1] = code8<F>(q, y[1].v);
    }
    const int32_t group = pair >> shift;
    stored = group < a.scales.groups ? stored : 0; /* a NaN of the row may have come to where no column is */
    store_group_scale<F>(a, row, scales, group, shared_by, stored, valid, true,
                         [&](int n) { return (lane & (n - 1)) == 0; });
}

/* The codes of two neighbouring vectors, which are in codes the other way round if `turned`; the second one only if
 * `both`. */
template <int F> DEV void store_pair(const cuda_args &a, char *to, bool both, int turned, const uint2 codes[2])
{
    const uint2 c = make_uint2(turned ? codes[1].x : codes[0].x, turned ? codes[1].y : codes[0].y);
    const uint2 d = make_uint2(turned ? codes[0].x : codes[1].x, turned ? codes[0].y : codes[1].y);
    if (format_of<F>::BITS == 4) {
        if (both && a.codes_aligned) {
            __stcs((uint2 *)to, make_uint2(c.x, d.x));
        } else {
            __stcs((uint32_t *)to, c.x);
            if (both)
                __stcs((uint32_t *)to + 1, d.x);
        }
    } else if (both && a.codes_aligned) {
        __stcs((uint4 *)to, make_uint4(c.x, c.y, d.x, d.y));
    } else {
        __stcs((uint2 *)to, c);
        if (both)
            __stcs((uint2 *)to + 1, d);
    }
}

/* Every other four lanes take their two vectors the other way round, so that the 32-byte steps of a warp's reads do not
 * meet in the banks of shared memory. */
DEV int first_of_pair()
{
    return threadIdx.x >> 2 & 1;
}

#if STREAM_HERE
/* The ring, and barriers for it, in the dynamic shared memory of a kernel. */
typedef struct ring {
    unsigned char *data;
    float *table;
    uint32_t barriers, at;
} ring;

template <int ACT> DEV ring make_ring(unsigned char *memory, int barriers)
{
    ring r;
    r.table = (float *)(memory + STREAM_HEAD);
    r.data = memory + STREAM_HEAD + (ACT == CUDA_TABLE ? TABLE_BYTES : 0);
    r.barriers = shared_address(memory);
    r.at = shared_address(r.data);
    if (threadIdx.x == 0)
#pragma unroll 1
        for (int i = 0; i < barriers; i++)
            init_barrier(r.barriers + 8 * i);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    return r;
}

/* Columns that are not there: zeros, which no copy comes over; of gates 1, whose activation is in the table and times 0
 * also 0. */
template <int OP, int DT> DEV void fill_missing(unsigned char *at, unsigned char *other)
{
    const uint32_t x = OP == CUDA_ACT_MUL ? (DT == AR_BF16 ? 0x3f803f80u : 0x3c003c00u) : 0;
    *(uint4 *)at = make_uint4(x, x, x, x);
    if (other != NULL)
        *(uint4 *)other = make_uint4(0, 0, 0, 0);
}
#endif

/* ---- flat_stream_kernel ---- */

DEV void copy_16(uint32_t to, const char *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* act_mul, quantize where no value of a whole row is needed. A warp works alone, on pieces of 512 columns: its place in
 * shared memory is filled again while it works on what it has read from there. */
template <int OP, int DT, int F, int G, int ACT>
__global__ void __launch_bounds__(1024, 1) flat_stream_kernel(const __grid_constant__ cuda_args a)
{
#if STREAM_HERE
    extern __shared__ __align__(128) unsigned char memory[];
    enum { INPUTS = OP == CUDA_ACT_MUL ? 2 : 1, PLACE = 1024 * INPUTS };
    const int32_t warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    const ring ring = make_ring<ACT>(memory, 0);
    begin_kernel(a);
    if (G && blockIdx.x >= a.main_blocks) {
        zero_padding_rows(a);
        end_kernel(a);
        return;
    }
    const int32_t vectors = a.vectors, padded = a.padded_vectors, pieces = a.chunks;
    unsigned char *place = ring.data + warp * PLACE;
    const uint32_t to = shared_address(place) + lane * 16;
    const uint32_t unit = blockIdx.x * warps + warp;
    int64_t row = unit / (uint32_t)pieces;
    int32_t piece = (int32_t)(unit % (uint32_t)pieces);
    auto fetch = [&]() {
        const int32_t vec = piece * 64 + lane;
        const char *x = a.x.data + row * a.x.stride + (int64_t)vec * 16;
        const char *up = a.second.data + row * a.second.stride + (int64_t)vec * 16;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            if (vec + 32 * k < vectors) {
                copy_16(to + 512 * k, x + 512 * k);
                if (INPUTS == 2)
                    copy_16(to + 512 * k + 1024, up + 512 * k);
            } else {
                fill_missing<OP, DT>(place + lane * 16 + 512 * k,
                                     INPUTS == 2 ? place + lane * 16 + 512 * k + 1024 : NULL);
            }
        }
    };
    if (row < a.rows)
        fetch();
    if (ACT == CUDA_TABLE)
        fill_table(a, ring.table); /* meanwhile */
    const bool half = half_y<OP, DT>(a);
    ar_quant q = a.quant;
    q.grain = G ? AR_GROUP : AR_TENSOR;
    const float factor = prepare<F, may_be_dynamic<F, G>()>(a, q);
    const int turned = first_of_pair();
#pragma unroll 1
    while (row < a.rows) {
        const int32_t vec = piece * 64 + 2 * lane;
        const int64_t here = row;
        const bool valid = vec < padded, both = vec + 1 < padded;
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncwarp();
        inputs<OP, DT> in[2];
#pragma unroll
        for (int v = 0; v < 2; v++) {
            const uint4 *at = (const uint4 *)(place + (2 * lane + (v ^ turned)) * 16);
            in[v].x.w[0] = *at;
            if (INPUTS == 2)
                in[v].up.w[0] = at[64];
        }
        __syncwarp();
        piece += a.piece_step;
        row += a.row_step;
        if (piece >= pieces) {
            piece -= pieces;
            row++;
        }
        if (row < a.rows)
            fetch();
        values<DT> y[2];
#pragma unroll
        for (int v = 0; v < 2; v++)
            make_y<OP, DT, ACT>(a, ring.table, in[v], y[v]);
        if (a.y_out.data != NULL) {
#pragma unroll
            for (int v = 0; v < 2; v++)
                if (vec + (v ^ turned) < vectors)
                    store_y<DT>(a, here, vec + (v ^ turned), y[v], half);
        }
        if (F != CUDA_NONE) {
            uint2 c[2];
            if constexpr (G) {
                code_groups<F, DT>(a, q, here, scales_of_row(a, here), vec / 2, valid, half, y, c);
            } else {
#pragma unroll
                for (int v = 0; v < 2; v++)
                    c[v] = code8_tensor<F>(a, q, factor, y[v].v);
            }
            if (valid)
                store_pair<F>(a, codes_at<F>(a, here, vec), both, turned, c);
        }
    }
    end_kernel(a);
#endif
}

/* ---- row_stream_kernel ---- */

/* rms_norm, and token scales. blockDim.x threads, a multiple of 64, cover a row with two neighbouring vectors each;
 * blockDim.y rows, each for itself; blocks take rows in turn. a.stages rows of each are on their way or being read. */
template <int OP, int DT, int F, int GRAIN, int ACT>
__global__ void __launch_bounds__(1024, 1) row_stream_kernel(const __grid_constant__ cuda_args a)
{
#if STREAM_HERE
    extern __shared__ __align__(128) unsigned char memory[];
    constexpr bool MANY = ACT == CUDA_TABLE; /* several rows share a table; all else would only lose by it */
    const uint32_t line = MANY ? threadIdx.y : 0, lines = MANY ? blockDim.y : 1;
    ring ring = make_ring<ACT>(memory, a.stages * lines);
    const bool two = OP == CUDA_ACT_MUL || (OP == CUDA_RMS_NORM && a.second.data != NULL);
    const uint32_t stage = 2 * blockDim.x * 16 * (two ? 2 : 1);
    ring.barriers += line * a.stages * 8;
    ring.data += line * a.stages * stage;
    ring.at += line * a.stages * stage;
    const int64_t first_row = (int64_t)blockIdx.x * lines + line;
    const int64_t row_step = (int64_t)a.main_blocks * lines;
    if (lines > 1)
        __syncthreads(); /* thread 0 has made all barriers */
    if (begin_or_pad<GRAIN == AR_GROUP>(a))
        return;
    const int32_t vectors = a.vectors, padded = a.padded_vectors;
    const int turned = first_of_pair();
    const int32_t pair = 2 * (int32_t)threadIdx.x, vec[2] = {pair + turned, pair + (turned ^ 1)};
    const bool has[2] = {vec[0] < vectors, vec[1] < vectors};
    const uint32_t bytes = vectors * 16;
    const cuda_rows second = a.second;
    auto fetch = [&](int64_t row, uint32_t s) {
        const uint32_t barrier = ring.barriers + 8 * s, to = ring.at + s * stage;
        expect_bytes(barrier, two ? 2 * bytes : bytes);
        copy_bulk(to, a.x.data + row * a.x.stride, bytes, barrier);
        if (two)
            copy_bulk(to + stage / 2, second.data + row * second.stride, bytes, barrier);
    };
    const bool sum_out = OP == CUDA_RMS_NORM && two && a.residual_out.data != NULL;
    /* Once every thread has read stage s, with row `row` in it, and put the sum there: that is stored, and the stage of
     * the row before, whose sum has been read meanwhile, filled again. Without a sum the stage itself is filled. */
    auto pass_on = [&](int64_t row, uint32_t s) {
        if (threadIdx.x != 0)
            return;
        int64_t next = row + a.stages * row_step;
        uint32_t into = s;
        if (sum_out) {
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            store_bulk(a.residual_out.data + row * a.residual_out.stride, ring.at + s * stage, bytes);
            next -= row_step;
            into = s == 0 ? a.stages - 1 : s - 1;
            if (row == first_row)
                return;
        }
        if (next < a.rows)
            fetch(next, into);
    };
    if (threadIdx.x == 0)
#pragma unroll 1
        for (int i = 0; i < a.stages; i++)
            if (first_row + i * row_step < a.rows)
                fetch(first_row + i * row_step, i);
#pragma unroll
    for (int v = 0; v < 2; v++)
        if (!has[v])
#pragma unroll 1
            for (int i = 0; i < a.stages; i++) {
                unsigned char *at = ring.data + i * stage + vec[v] * 16;
                fill_missing<OP, DT>(at, two ? at + stage / 2 : NULL);
            }
    raw8<DT> weights[2];
    if (OP == CUDA_RMS_NORM) {
#pragma unroll
        for (int v = 0; v < 2; v++)
            weights[v] = has[v] ? load_raw<DT>(a.weight + (int64_t)vec[v] * 16) : zero_raw<DT>();
    }
    const bool half = half_y<OP, DT>(a);
    ar_quant q = a.quant;
    q.grain = GRAIN;
    float factor = prepare < F, GRAIN != AR_TOKEN && may_be_dynamic<F, GRAIN == AR_GROUP>() > (a, q);
    __shared__ __align__(16) warp_values row_sums[MANY ? STREAM_ROWS : 1], row_maxima[MANY ? STREAM_ROWS : 1];
    warp_values &sums = row_sums[line], &maxima = row_maxima[line];
    if (threadIdx.x < 64) {
        sums.of[threadIdx.x >> 5][threadIdx.x & 31] = 0;
        maxima.of[threadIdx.x >> 5][threadIdx.x & 31] = 0;
    }
    if (ACT == CUDA_TABLE)
        fill_table(a, ring.table);
    else
        __syncthreads();
    uint32_t s = 0, parity = 0;
    int turn = 0;
#pragma unroll 1
    for (int64_t row = first_row; row < a.rows; row += row_step, turn ^= 1) {
        wait_bytes(ring.barriers + 8 * s, parity);
        unsigned char *from = ring.data + s * stage;
        inputs<OP, DT> in[2];
#pragma unroll
        for (int v = 0; v < 2; v++) {
            in[v].x.w[0] = *(const uint4 *)(from + vec[v] * 16);
            if (two)
                in[v].up.w[0] = *(const uint4 *)(from + vec[v] * 16 + stage / 2);
        }
        values<DT> y[2];
        if (OP == CUDA_RMS_NORM) {
#pragma unroll
            for (int v = 0; v < 2; v++) {
                const raw8<DT> sum = norm_sum8<DT>(a.norm, two, in[v].x, in[v].up, y[v].v);
                if (sum_out)
                    *(uint4 *)(from + vec[v] * 16) = sum.w[0]; /* over x, from where a bulk copy takes it */
            }
            give_warp_value(sums, vf_bits(tree_lanes(vf_add(squares8(y[0].v), squares8(y[1].v)))), turn);
            if (two)
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            sync_row<MANY>();
            pass_on(row, s);
            const float sum = add_warp_values(sums, turn);
            const float rinv = norm_rinv(a, sum);
#pragma unroll
            for (int v = 0; v < 2; v++) {
                float weight[8];
                uint4 &packed = weights[v].w[0]; /* to be widened here, not once for all into eight registers */
                asm volatile("" : "+r"(packed.x), "+r"(packed.y), "+r"(packed.z), "+r"(packed.w));
                widen<DT>(weights[v], weight);
                norm8<DT>(a.norm, y[v], rinv, weight);
            }
            if (GRAIN == AR_GROUP && padded != vectors) { /* groups of padding alone have no NaN from rinv */
#pragma unroll
                for (int v = 0; v < 2; v++)
                    if (!has[v])
                        zero_y<DT>(y[v]);
            }
        } else {
#pragma unroll
            for (int v = 0; v < 2; v++)
                make_y<OP, DT, ACT>(a, ring.table, in[v], y[v]);
        }
        if (a.y_out.data != NULL) {
#pragma unroll
            for (int v = 0; v < 2; v++)
                if (has[v])
                    store_y<DT>(a, row, vec[v], y[v], half);
        }
        if (F != CUDA_NONE) {
            uint2 c[2];
            if constexpr (GRAIN == AR_GROUP) {
                code_groups<F, DT>(a, q, row, scales_of_row(a, row), pair / 2, pair < padded, half, y, c);
            } else if constexpr (GRAIN == AR_TOKEN) {
                uint32_t m =
                    amax_join<DT, false>(amax_start<DT, false>(y[0], half), amax_start<DT, false>(y[1], half), half);
                /* bits of numbers >= 0 are in their order */
                give_warp_value(maxima, __reduce_max_sync(~0u, vf_bits(amax_end<DT, false>(m, half))), turn);
                sync_row<MANY>();
                if (OP != CUDA_RMS_NORM)
                    pass_on(row, s);
                const float amax = vi_float(__reduce_max_sync(~0u, maxima.of[turn][threadIdx.x & 31]));
                uint32_t stored;
                format_of<F>::scale(q, amax, false, &factor, &stored);
                if (threadIdx.x == 0)
                    store_scale(a, scales_of_row(a, row), 0, stored);
                const scaling by = scaling_of<F>(q, factor, amax, half);
#pragma unroll
                for (int v = 0; v < 2; v++) {
                    scale8<F>(by, y[v].v);
                    c[v] = code8<F>(q, y[v].v);
                }
            } else {
#pragma unroll
                for (int v = 0; v < 2; v++)
                    c[v] = code8_tensor<F>(a, q, factor, y[v].v);
            }
            /* a NaN of the row may have come to where no column is */
#pragma unroll
            for (int v = 0; v < 2; v++)
                c[v] = has[v] ? c[v] : make_uint2(0, 0);
            if (pair < padded)
                store_pair<F>(a, codes_at<F>(a, row, pair), pair + 1 < padded, turned, c);
        }
        s = s + 1 == (uint32_t)a.stages ? 0 : s + 1;
        parity ^= s == 0;
    }
    if (sum_out && threadIdx.x == 0)
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    end_kernel(a);
#endif
}

#endif
