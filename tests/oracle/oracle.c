/* oracle.c: the four operations, one element at a time, on private copies of the inputs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- Matrices ---------------------------------------------------------------------------------------------------- */

static int64_t dense_or(int64_t stride, int64_t row_bytes)
{
    return stride != 0 ? stride : row_bytes;
}

/* A copy of a matrix of T as floats, dense. */
static float *load_matrix(epiq_dtype dtype, const void *data, int64_t rows, int64_t cols, int64_t row_stride)
{
    int64_t bytes = (int64_t)oracle_dtype_bytes(dtype);
    int64_t stride = dense_or(row_stride, cols * bytes);
    float *values = oracle_alloc((size_t)(rows * cols), sizeof *values);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            values[r * cols + c] = oracle_load(dtype, (const uint8_t *)data + r * stride + c * bytes);
    return values;
}

static void store_matrix(epiq_dtype dtype, void *data, int64_t rows, int64_t cols, int64_t row_stride,
                         const float *values)
{
    int64_t bytes = (int64_t)oracle_dtype_bytes(dtype);
    int64_t stride = dense_or(row_stride, cols * bytes);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            oracle_store(dtype, (uint8_t *)data + r * stride + c * bytes, values[r * cols + c]);
}

/* ---- The quantizer ----------------------------------------------------------------------------------------------- */

static bool is_block_format(epiq_format format)
{
    return format == EPIQ_FORMAT_MXFP8 || format == EPIQ_FORMAT_MXFP4 || format == EPIQ_FORMAT_NVFP4;
}

static bool is_four_bit(epiq_format format)
{
    return format == EPIQ_FORMAT_MXFP4 || format == EPIQ_FORMAT_NVFP4;
}

static int64_t group_columns(epiq_format format, int32_t group)
{
    if (group != 0)
        return group;
    if (format == EPIQ_FORMAT_NVFP4)
        return 16;
    return is_block_format(format) ? 32 : 128;
}

/* An epiq_output with its defaults filled in, and y as it enters the quantizer: [rows, cols], padding columns +0. */
typedef struct job {
    epiq_output out;
    int64_t rows, cols, group, groups;
    const float *y;
    uint8_t *codes; /* [rows, cols], one a byte */
} job;

/* Codes of n adjacent elements: of RN(y * by), or with divide of RN(y / by). */
static void convert(const job *j, int64_t row, int64_t col, int64_t n, float by, bool divide)
{
    for (int64_t i = row * j->cols + col; i < row * j->cols + col + n; i++) {
        float scaled = divide ? oracle_div(j->y[i], by) : oracle_mul(j->y[i], by);
        j->codes[i] = oracle_code(j->out.format, scaled, j->out.nan);
    }
}

static void convert_all(const job *j, float by, bool divide)
{
    for (int64_t r = 0; r < j->rows; r++)
        convert(j, r, 0, j->cols, by, divide);
}

static void quantize_tensor(const job *j)
{
    const epiq_output *o = &j->out;
    if (o->scale == NULL && o->inv_scale == NULL) { /* dynamic */
        float scale = oracle_tensor_scale(o->format, oracle_amax(j->y, j->rows * j->cols));
        memcpy(o->scale_out, &scale, sizeof scale);
        convert_all(j, oracle_multiplier(&scale, NULL), false);
    } else {
        float given;
        memcpy(&given, o->scale != NULL ? o->scale : o->inv_scale, sizeof given);
        if (o->scale == NULL)
            convert_all(j, oracle_multiplier(NULL, &given), false);
        else if (o->format == EPIQ_FORMAT_INT8)
            convert_all(j, given, true);
        else
            convert_all(j, oracle_multiplier(&given, NULL), false);
    }
}

static void quantize_token(const job *j)
{
    const epiq_output *o = &j->out;
    float upper_bound, *scales = oracle_alloc((size_t)j->rows, sizeof *scales);
    if (o->scale_ub != NULL)
        memcpy(&upper_bound, o->scale_ub, sizeof upper_bound);
    for (int64_t r = 0; r < j->rows; r++) {
        float amax = oracle_amax(j->y + r * j->cols, j->cols);
        scales[r] = oracle_token_scale(o->format, amax, o->scale_ub != NULL ? &upper_bound : NULL);
        if (o->format == EPIQ_FORMAT_INT8)
            convert(j, r, 0, j->cols, oracle_int8_token_multiplier(amax), false);
        else
            convert(j, r, 0, j->cols, scales[r], true);
    }
    oracle_layout l = oracle_layout_make(EPIQ_LAYOUT_ROW, j->rows, 1, 4, o->scale_stride);
    oracle_layout_write(&l, scales, o->pad_rows, o->scale_out);
    oracle_layout_free(&l);
    free(scales);
}

/* gs of nvfp4, stored if it was computed. */
static float second_level(const job *j)
{
    float gs;
    if (j->out.inv_scale_out == NULL) {
        memcpy(&gs, j->out.inv_scale, sizeof gs);
        return oracle_gs_given(gs);
    }
    gs = oracle_gs_computed(oracle_amax(j->y, j->rows * j->cols));
    memcpy(j->out.inv_scale_out, &gs, sizeof gs);
    return gs;
}

static void quantize_groups(const job *j)
{
    const epiq_output *o = &j->out;
    bool block = is_block_format(o->format), bytes = block || o->layout == EPIQ_LAYOUT_PACKED_UE8M0;
    float *floats = oracle_alloc((size_t)(j->rows * j->groups), sizeof *floats);
    uint8_t *scale_bytes = oracle_alloc((size_t)(j->rows * j->groups), 1);
    float gs = o->format == EPIQ_FORMAT_NVFP4 ? second_level(j) : 0;
    for (int64_t r = 0; r < j->rows; r++)
        for (int64_t g = 0; g < j->groups; g++) {
            int64_t col = g * j->group, n = j->cols - col < j->group ? j->cols - col : j->group;
            int64_t at = r * j->groups + g;
            const float *y = j->y + r * j->cols + col;
            float amax = oracle_amax(y, n);
            bool has_nan = false;
            for (int64_t i = 0; i < n; i++)
                has_nan = has_nan || isnan(y[i]);
            has_nan = has_nan && o->nan == EPIQ_NAN_PROPAGATE;
            if (o->format == EPIQ_FORMAT_NVFP4) {
                uint8_t sf = oracle_nvfp4_scale(o->nvfp4, gs, amax);
                convert(j, r, col, n, oracle_nvfp4_multiplier(o->nvfp4, gs, sf), false);
                scale_bytes[at] = has_nan ? 0x7f : sf;
            } else if (block) {
                uint8_t sf = oracle_mx_exponent(o->format, o->mx_round, amax);
                convert(j, r, col, n, (float)ldexp(1.0, 127 - sf), false);
                scale_bytes[at] = has_nan && o->format == EPIQ_FORMAT_MXFP4 ? 0xff : sf;
            } else if (o->ue8m0) {
                scale_bytes[at] = oracle_group_ue8m0(o->format, amax);
                floats[at] = (float)ldexp(1.0, scale_bytes[at] - 127);
                convert(j, r, col, n, (float)ldexp(1.0, 127 - scale_bytes[at]), false);
            } else {
                floats[at] = oracle_group_scale(o->format, amax);
                convert(j, r, col, n, floats[at], true);
            }
        }
    oracle_layout l = oracle_layout_make(o->layout, j->rows, j->groups, bytes ? 1 : 4, o->scale_stride);
    oracle_layout_write(&l, bytes ? (const void *)scale_bytes : (const void *)floats, o->pad_rows, o->scale_out);
    oracle_layout_free(&l);
    free(scale_bytes);
    free(floats);
}

static void store_codes(const job *j)
{
    bool four = is_four_bit(j->out.format);
    int64_t stride = dense_or(j->out.codes_row_stride, four ? j->cols / 2 : j->cols);
    for (int64_t r = 0; r < j->rows; r++) {
        uint8_t *row = (uint8_t *)j->out.codes_out + r * stride;
        const uint8_t *codes = j->codes + r * j->cols;
        if (four)
            for (int64_t i = 0; i < j->cols / 2; i++)
                row[i] = (uint8_t)(codes[2 * i] + 16 * codes[2 * i + 1]);
        else
            memcpy(row, codes, (size_t)j->cols);
    }
}

/* Everything that `out` asks for, of y [rows, h]. */
static void write_output(const epiq_output *out, int64_t rows, int64_t h, const float *y)
{
    job j = {.out = *out, .rows = rows};
    epiq_output *o = &j.out;
    if (o->grain == 0) {
        if (is_block_format(o->format))
            o->grain = EPIQ_GRAIN_GROUP;
        else
            o->grain = o->scale != NULL || o->inv_scale != NULL ? EPIQ_GRAIN_TENSOR : EPIQ_GRAIN_TOKEN;
    }
    if (o->layout == 0)
        o->layout = EPIQ_LAYOUT_ROW;
    if (o->layout == EPIQ_LAYOUT_PACKED_UE8M0)
        o->ue8m0 = 1;
    if (o->mx_round == 0)
        o->mx_round = EPIQ_MX_ROUND_CEIL;
    if (o->nvfp4 == 0)
        o->nvfp4 = EPIQ_NVFP4_VLLM;
    if (o->nan == 0)
        o->nan = EPIQ_NAN_PROPAGATE;
    if (o->pad_rows == 0)
        o->pad_rows = EPIQ_PAD_ROWS_ZERO;
    j.cols = o->padded_cols != 0 ? o->padded_cols : h;
    j.group = group_columns(o->format, o->group);
    j.groups = (j.cols + j.group - 1) / j.group;

    float *padded = oracle_alloc((size_t)(rows * j.cols), sizeof *padded); /* +0 everywhere */
    for (int64_t r = 0; r < rows; r++)
        memcpy(padded + r * j.cols, y + r * h, (size_t)h * sizeof *padded);
    j.y = padded;
    j.codes = oracle_alloc((size_t)(rows * j.cols), 1);
    if (o->grain == EPIQ_GRAIN_TENSOR)
        quantize_tensor(&j);
    else if (o->grain == EPIQ_GRAIN_TOKEN)
        quantize_token(&j);
    else
        quantize_groups(&j);
    store_codes(&j);
    free(j.codes);
    free(padded);
}

/* ---- quantize ---------------------------------------------------------------------------------------------------- */

int oracle_quantize(const epiq_quantize_args *args, const epiq_output *out)
{
    const epiq_matrix *x = &args->x;
    if (x->rows == 0)
        return EPIQ_OK;
    float *y = load_matrix(x->dtype, x->data, x->rows, x->cols, x->row_stride);
    write_output(out, x->rows, x->cols, y);
    free(y);
    return EPIQ_OK;
}

/* ---- act_mul ----------------------------------------------------------------------------------------------------- */

static epiq_round act_rounding(const epiq_act_mul_args *args)
{
    if (args->act_round != 0)
        return args->act_round;
    switch (args->chain) {
    case EPIQ_CHAIN_FLASHINFER:
        return EPIQ_ROUND_ONCE;
    case EPIQ_CHAIN_DIRECT:
        return EPIQ_ROUND_NONE;
    default:
        return EPIQ_ROUND_TWICE;
    }
}

/* act(gate) with both limits, in fp32. A gate that the limit leaves alone is still a value of T: the table has it. */
static float activate(const epiq_act_mul_args *args, float gate)
{
    epiq_dtype dtype = args->x.dtype;
    epiq_act act = args->act != 0 ? args->act : EPIQ_ACT_SILU;
    float value;
    if (args->limit != 0 && gate > args->limit)
        value = oracle_act(act, args->alpha, args->limit);
    else if (dtype == EPIQ_DTYPE_BF16)
        value = oracle_act_16(act, args->alpha, dtype, oracle_bf16(gate));
    else if (dtype == EPIQ_DTYPE_F16)
        value = oracle_act_16(act, args->alpha, dtype, oracle_f16(gate));
    else
        value = oracle_act(act, args->alpha, gate);
    return args->limit_after != 0 ? oracle_min(value, args->limit_after) : value;
}

static float clamp(float x, float limit)
{
    if (limit == 0 || isnan(x))
        return x;
    if (x > limit)
        return limit;
    return x < -limit ? -limit : x;
}

/* y as it enters the quantizer. */
static float act_mul_element(const epiq_act_mul_args *args, epiq_round round, float gate, float up)
{
    epiq_dtype dtype = args->x.dtype;
    float a = activate(args, gate);
    if (args->order == EPIQ_ORDER_UNGATED)
        return round == EPIQ_ROUND_NONE ? a : oracle_round(dtype, a);
    up = clamp(clamp(up, args->limit), args->limit_after);
    if (args->up_offset != 0)
        up = oracle_add(up, args->up_offset);
    if (round == EPIQ_ROUND_TWICE)
        a = oracle_round(dtype, a);
    float y = oracle_mul(a, up);
    return round == EPIQ_ROUND_NONE ? y : oracle_round(dtype, y);
}

int oracle_act_mul(const epiq_act_mul_args *args, const epiq_output *out)
{
    const epiq_matrix *m = &args->x;
    if (m->rows == 0)
        return EPIQ_OK;
    bool halves = args->order != EPIQ_ORDER_SEPARATE && args->order != EPIQ_ORDER_UNGATED;
    int64_t rows = m->rows, h = halves ? m->cols / 2 : m->cols;
    float *x = load_matrix(m->dtype, m->data, rows, m->cols, m->row_stride), *separate = NULL;
    if (args->order == EPIQ_ORDER_SEPARATE)
        separate = load_matrix(m->dtype, args->up, rows, h, args->up_row_stride);
    float *y = oracle_alloc((size_t)(rows * h), sizeof *y);
    epiq_round round = act_rounding(args);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < h; c++) {
            const float *row = x + r * m->cols;
            float gate, up = 0;
            switch (args->order) {
            case EPIQ_ORDER_UP_GATE:
                up = row[c];
                gate = row[h + c];
                break;
            case EPIQ_ORDER_INTERLEAVED:
                gate = row[2 * c];
                up = row[2 * c + 1];
                break;
            case EPIQ_ORDER_SEPARATE:
                gate = row[c];
                up = separate[r * h + c];
                break;
            case EPIQ_ORDER_UNGATED:
                gate = row[c];
                break;
            default: /* gate_up */
                gate = row[c];
                up = row[h + c];
                break;
            }
            y[r * h + c] = act_mul_element(args, round, gate, up);
        }
    if (args->y_out != NULL)
        store_matrix(m->dtype, args->y_out, rows, h, args->y_row_stride, y);
    if (out != NULL)
        write_output(out, rows, h, y);
    free(y);
    free(separate);
    free(x);
    return EPIQ_OK;
}

/* ---- rms_norm ---------------------------------------------------------------------------------------------------- */

int oracle_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out)
{
    const epiq_matrix *m = &args->x;
    if (m->rows == 0)
        return EPIQ_OK;
    epiq_dtype dtype = m->dtype, weight_dtype = args->weight_dtype != 0 ? args->weight_dtype : dtype;
    bool plain = args->weight_bias == 0 && weight_dtype == dtype;
    epiq_sum_round sum_round = EPIQ_SUM_ROUND_FP32;
    epiq_round norm_round = EPIQ_ROUND_ONCE;
    switch (args->chain) {
    case EPIQ_CHAIN_FLASHINFER:
        break;
    case EPIQ_CHAIN_ALLREDUCE:
        sum_round = EPIQ_SUM_ROUND_T;
        break;
    case EPIQ_CHAIN_DIRECT:
        norm_round = EPIQ_ROUND_NONE;
        break;
    default: /* vllm */
        sum_round = plain ? EPIQ_SUM_ROUND_T : EPIQ_SUM_ROUND_FP32;
        norm_round = plain ? EPIQ_ROUND_TWICE : EPIQ_ROUND_ONCE;
        break;
    }
    if (args->sum_round != 0)
        sum_round = args->sum_round;
    if (args->norm_round != 0)
        norm_round = args->norm_round;

    int64_t rows = m->rows, h = m->cols;
    float *x = load_matrix(dtype, m->data, rows, h, m->row_stride); /* h of the spec from here on */
    float *weight = load_matrix(weight_dtype, args->weight, 1, h, 0);
    float *y = oracle_alloc((size_t)(rows * h), sizeof *y);
    if (args->residual != NULL) {
        float *residual = load_matrix(dtype, args->residual, rows, h, args->residual_row_stride);
        for (int64_t i = 0; i < rows * h; i++)
            x[i] = oracle_add(x[i], residual[i]);
        free(residual);
        if (args->residual_out != NULL)
            store_matrix(dtype, args->residual_out, rows, h, args->residual_out_row_stride, x);
    }
    for (int64_t i = 0; i < rows * h; i++)
        if (sum_round == EPIQ_SUM_ROUND_T)
            x[i] = oracle_round(dtype, x[i]);
    for (int64_t r = 0; r < rows; r++) {
        float rinv = oracle_rinv(oracle_sum_squares(x + r * h, (size_t)h), h, args->eps);
        for (int64_t c = 0; c < h; c++) {
            float t = oracle_mul(x[r * h + c], rinv);
            float b = args->weight_bias == 0 ? weight[c] : oracle_add(args->weight_bias, weight[c]);
            if (norm_round == EPIQ_ROUND_TWICE)
                t = oracle_round(dtype, t);
            float value = oracle_mul(t, b);
            y[r * h + c] = norm_round == EPIQ_ROUND_NONE ? value : oracle_round(dtype, value);
        }
    }
    if (args->y_out != NULL)
        store_matrix(dtype, args->y_out, rows, h, args->y_row_stride, y);
    if (out != NULL)
        write_output(out, rows, h, y);
    free(y);
    free(weight);
    free(x);
    return EPIQ_OK;
}

/* ---- dequantize -------------------------------------------------------------------------------------------------- */

/* The one scale of grain tensor. */
static float dequantize_tensor_scale(const epiq_dequantize_args *args)
{
    float scale;
    memcpy(&scale, args->scale != NULL ? args->scale : (const void *)args->inv_scale, sizeof scale);
    return args->scale != NULL ? scale : oracle_multiplier(&scale, NULL); /* RN(1 / inv_scale), infinity cut off */
}

int oracle_dequantize(const epiq_dequantize_args *args)
{
    int64_t rows = args->rows, h = args->cols, cols = args->padded_cols != 0 ? args->padded_cols : h;
    if (rows == 0)
        return EPIQ_OK;
    epiq_format format = args->format;
    epiq_grain grain = args->grain != 0 ? args->grain : EPIQ_GRAIN_GROUP;
    epiq_layout layout = args->layout != 0 ? args->layout : EPIQ_LAYOUT_ROW;
    bool four = is_four_bit(format), bytes = is_block_format(format) || layout == EPIQ_LAYOUT_PACKED_UE8M0;
    int64_t codes_stride = dense_or(args->codes_row_stride, four ? cols / 2 : cols);
    int64_t group = grain == EPIQ_GRAIN_GROUP ? group_columns(format, args->group) : cols;
    int64_t groups = (cols + group - 1) / group;

    /* Everything is read before anything is written. Scales as values, one for each (row, group). */
    float *scales = oracle_alloc((size_t)(rows * groups), sizeof *scales);
    if (grain == EPIQ_GRAIN_TENSOR) {
        for (int64_t r = 0; r < rows; r++)
            scales[r] = dequantize_tensor_scale(args);
    } else {
        oracle_layout l = oracle_layout_make(layout, rows, groups, bytes ? 1 : 4, args->scale_stride);
        if (bytes) {
            uint8_t *raw = oracle_alloc((size_t)(rows * groups), 1);
            oracle_layout_read(&l, args->scale, raw);
            for (int64_t i = 0; i < rows * groups; i++)
                scales[i] = format == EPIQ_FORMAT_NVFP4 ? oracle_decode_e4m3(raw[i]) : oracle_decode_e8m0(raw[i]);
            free(raw);
        } else {
            oracle_layout_read(&l, args->scale, scales);
        }
        oracle_layout_free(&l);
    }
    float second = 1;
    if (format == EPIQ_FORMAT_NVFP4) {
        float gs;
        memcpy(&gs, args->inv_scale, sizeof gs);
        gs = oracle_gs_given(gs);
        second = oracle_multiplier(&gs, NULL);
    }
    float *y = oracle_alloc((size_t)(rows * h), sizeof *y);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < h; c++) {
            const uint8_t *row = (const uint8_t *)args->codes + r * codes_stride;
            uint8_t code = row[four ? c / 2 : c];
            if (four)
                code = c % 2 == 0 ? code % 16 : code / 16;
            float value = oracle_mul(oracle_decode(format, code), scales[r * groups + c / group]);
            y[r * h + c] = format == EPIQ_FORMAT_NVFP4 ? oracle_mul(value, second) : value;
        }
    store_matrix(args->y_dtype, args->y_out, rows, h, args->y_row_stride, y);
    free(y);
    free(scales);
    return EPIQ_OK;
}
