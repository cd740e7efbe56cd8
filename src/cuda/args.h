/* args.h: what a kernel is given. One struct for all kernels, passed by value
 * in constant memory. SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_CUDA_ARGS_H
#define EPIQ_CUDA_ARGS_H

#include "arith/types.h"
#include "lists.h"

#include <epiq/epiq.h>
#include <stdint.h>

enum {
#define X(upper, lower, bits, block, scale, grains) CUDA_##upper,
    EPIQI_FORMATS(X)
#undef X
        CUDA_NONE, /* y alone */
    CUDA_AMAX      /* the amax of y, for a later launch */
};

/* A matrix in device memory; data NULL if absent. */
typedef struct cuda_rows {
    char *data;
    int64_t stride; /* bytes */
} cuda_rows;

/* Where the scale of (row, group) lies: row >> 7, row >> 5 & 3, row >> 3 & 3 and row & 7 times the four row steps, plus
 * group >> shift times the group step, plus the low bits of group. All layouts are of this form. */
typedef struct cuda_scales {
    char *data;
    int64_t row[4], group;
    int64_t groups, stored; /* of a row; with the padding of the layout */
    int64_t pad_end;        /* the row behind those of padding that are to be zeroed */
    int32_t shift;
    int32_t bytes; /* of a scale, 1 or 4 */
    int32_t words; /* four bytes, of one group or four neighbouring ones, may be stored at once */
} cuda_scales;

/* A launch finds the first 256 bytes at hand; the rest has to be fetched, a line at a time, and costs a call of few
 * rows up to 0.3 us (H200). So what lean_kernel needs comes first. */
typedef struct cuda_args {
    cuda_rows x, second; /* where the gates and the ups of a row begin; or x and the residual */
    cuda_rows residual_out, codes;
    const char *weight;
    const float *multiplier, *scale_ub; /* multiplier: scale or inv_scale */
    int32_t vectors, padded_vectors;    /* of a row, with columns and with columns or padding */
    float float_cols, rcp_cols;         /* columns, and their reciprocal */
    float bias;                         /* of weights; -0, which adds nothing, for 0 */
    int32_t reciprocal;                 /* multiplier is scale */
    int32_t trigger;                    /* CUDA_TRIGGER_ */
    uint32_t main_blocks;               /* blocks from here on zero padding rows */
    ar_norm norm;                       /* round: of act_mul, too */
    ar_quant quant;                     /* bound and gs are filled in by the kernel */
    cuda_scales scales;
    int64_t rows, cols, padded;
    cuda_rows y_out;
    const float *scale, *inv_scale;
    float *inv_scale_out;
    float *workspace; /* one amax a block of the amax launch */
    ar_act_mul act_mul;
    int32_t slots;       /* amax values in workspace, 0: none */
    int32_t interleaved; /* gate in even, up in odd columns of x */
    int32_t weight_f32;
    int32_t quick_silu; /* cuda_quick_silu may be used: plain silu of bf16 gates, rounded to bf16 */
    int32_t format;     /* its place in EPIQI_FORMATS, or CUDA_NONE, CUDA_AMAX */
    int32_t bits;       /* of a code */
    int32_t group;      /* columns per scale, or 0 */
    int32_t divide;
    int32_t chunks;               /* dequantize, amax: blocks a row; flat_stream_kernel: pieces of a row */
    int32_t stages;               /* row_stream_kernel: rows in shared memory */
    int32_t piece_step, row_step; /* flat_stream_kernel: from a warp's piece to its next one */
    int32_t codes_aligned;        /* to what 16 columns take */
    int32_t repeat;               /* flat_kernel: times blockDim.y rows a block */
} cuda_args;

enum { CUDA_ACT_MUL, CUDA_RMS_NORM, CUDA_QUANTIZE };
enum { CUDA_TRIGGER_NONE, CUDA_TRIGGER_LATE, CUDA_TRIGGER_EARLY }; /* when dependent launches may start */

#endif
