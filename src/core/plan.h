/* plan.h: a call after validation: every default resolved, every stride in bytes and set. Backends see nothing else.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_PLAN_H
#define EPIQ_PLAN_H

#include "layout.h"
#include "text.h"

#include <epiq/epiq.h>

typedef enum epiqi_op { EPIQI_ACT_MUL, EPIQI_RMS_NORM, EPIQI_QUANTIZE, EPIQI_DEQUANTIZE } epiqi_op;

/* Bytes that cuda needs where a value of the whole tensor is computed first: one float a block. */
enum { EPIQI_CUDA_WORKSPACE = 4 * 2048 };

/* Bytes that any struct of epiq.h may have: a struct_size that was never set reaches no further. */
enum { EPIQI_MAX_STRUCT = 4096 };

/* One matrix in memory. data is const in spirit for inputs. */
typedef struct epiqi_rows_at {
    unsigned char *data; /* NULL: absent */
    int64_t stride;      /* bytes */
} epiqi_rows_at;

/* What a format is; one row of EPIQI_FORMATS. */
typedef struct epiqi_format {
    epiq_format format;
    int32_t index; /* its place in the list */
    int32_t bits, block;
    epiq_dtype scale_dtype;
    int32_t grains;
} epiqi_format;

typedef struct epiqi_plan {
    epiqi_op op;
    epiq_backend backend; /* resolved by dispatch */
    int64_t rows, cols;   /* of y; EPIQ_UNKNOWN in a check */
    int64_t padded;       /* columns of the codes */

    epiq_dtype dtype; /* of x; for dequantize, of y */
    epiqi_rows_at x, up, residual, residual_out, y_out;
    int32_t y_wanted, residual_wanted;

    /* act_mul */
    epiq_act act;
    epiq_order order;
    float alpha, limit, limit_after, up_offset;

    /* rms_norm */
    const void *weight;
    epiq_dtype weight_dtype;
    float eps, weight_bias;
    epiq_sum_round sum_round;

    epiq_chain chain;
    epiq_round round; /* act_round or norm_round */

    /* out; format NULL: none */
    const epiqi_format *format;
    epiq_grain grain;
    int32_t dynamic; /* a value of the whole tensor is computed first: tensor scale, or nvfp4's second level */
    int32_t group;   /* columns per scale in grain group, else 0 */
    int64_t groups;  /* scales a row */
    epiq_layout layout;
    epiq_dtype scale_dtype; /* of the stored array; 0: none is written */
    int32_t ue8m0;
    epiq_mx_round mx_round;
    epiq_nvfp4 nvfp4;
    epiq_nan nan;
    epiq_pad_rows pad_rows;
    epiqi_rows_at codes;
    int64_t codes_row_bytes;
    epiqi_rows_at scales; /* stride: of a line, or of a row of tiles */
    epiqi_scale_array array;
    const float *scale, *inv_scale, *scale_ub;
    float *inv_scale_out;

    /* exec */
    const epiq_exec *exec;    /* the caller's, never NULL */
    uint64_t caller_fp_state; /* for the time that an executor runs */
    int64_t workspace_bytes;
} epiqi_plan;

/* Bytes of an element of x, y or of a stored scale. */
int32_t epiqi_dtype_bytes(epiq_dtype dtype);

/* NULL if this build does not have it. */
const epiqi_format *epiqi_find_format(epiq_format format);

/* Validate what can be validated without memory (rules 1 to 6 of doc/spec.md 7) and fill the plan. On refusal the
 * reason is appended to `why` (which may be NULL). `exec` is storage for a default. */
epiq_status epiqi_plan_act_mul(const epiq_act_mul_args *args, const epiq_output *out, const epiq_exec *exec,
                               epiqi_plan *plan, epiqi_text *why);
epiq_status epiqi_plan_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out, const epiq_exec *exec,
                                epiqi_plan *plan, epiqi_text *why);
epiq_status epiqi_plan_quantize(const epiq_quantize_args *args, const epiq_output *out, const epiq_exec *exec,
                                epiqi_plan *plan, epiqi_text *why);
epiq_status epiqi_plan_dequantize(const epiq_dequantize_args *args, const epiq_exec *exec, epiqi_plan *plan,
                                  epiqi_text *why);

/* The remaining rules that need the call itself: known shape, buffers, overlap, workspace. */
epiq_status epiqi_plan_buffers(const epiqi_plan *plan, epiqi_text *why);

void epiqi_plan_sizes(const epiqi_plan *plan, epiq_sizes *sizes);

#endif
