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

typedef struct cuda_args {
    int64_t rows, cols, padded;
    cuda_rows x, up; /* where the gates and the ups of a row begin */
    cuda_rows residual, residual_out, y_out, codes, scales;
    float float_cols, rcp_cols; /* rcp_cols: of a power of 2, else 0 */
    const char *weight;
    const float *scale, *inv_scale, *scale_ub;
    float *inv_scale_out;
    float *workspace; /* one amax a block of the amax launch */
    int64_t groups;
    ar_act_mul act_mul;
    ar_norm norm;
    ar_quant quant;      /* bound and gs are filled in by the kernel */
    int32_t slots;       /* amax values in workspace, 0: none */
    int32_t interleaved; /* gate in even, up in odd columns of x */
    int32_t weight_f32;
    int32_t quick_silu; /* cuda_quick_silu may be used: plain silu of bf16 gates, rounded to bf16 */
    int32_t format;     /* its place in EPIQI_FORMATS, or CUDA_NONE, CUDA_AMAX */
    int32_t bits;       /* of a code */
    int32_t group;      /* columns per scale, or 0 */
    int32_t layout;
    int32_t scale_bytes;
    int32_t scale_words; /* four byte-sized scales of neighbouring groups may be
                          stored at once */
    int32_t divide;
    int32_t row_multiple, group_multiple; /* of the layout */
    int32_t pad_rows;                     /* zero padding rows */
    int32_t chunks;                       /* dequantize, amax: blocks a row; flat_stream_kernel: pieces of a row */
    int32_t stages;                       /* row_stream_kernel: rows in shared memory */
    int32_t piece_step, row_step;         /* flat_stream_kernel: from a warp's piece to its next one */
    int32_t codes_aligned;                /* to what 16 columns take */
    int32_t repeat;                       /* flat_kernel: times blockDim.y rows a block */
    int32_t trigger;                      /* CUDA_TRIGGER_ */
    uint32_t main_blocks;                 /* blocks from here on zero padding rows */
} cuda_args;

enum { CUDA_ACT_MUL, CUDA_RMS_NORM, CUDA_QUANTIZE };
enum { CUDA_TRIGGER_NONE, CUDA_TRIGGER_LATE, CUDA_TRIGGER_EARLY }; /* when dependent launches may start */

#endif
