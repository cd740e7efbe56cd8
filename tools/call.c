/* call.c: one call of act_mul, rms_norm or quantize.
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "call.h"

#include "command.h"
#include "tensors.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

const char *operation_name(int operation)
{
    return operation == ACT_MUL    ? "act_mul"
           : operation == RMS_NORM ? "rms_norm"
           : operation == QUANTIZE ? "quantize"
           : operation == LAYOUT   ? "layout"
                                   : "dequantize";
}

static const float *scale_of(const char *what, const char *text, float *value)
{
    if (text == NULL)
        return NULL;
    *value = read_scale(what, text);
    return value;
}

void call_begin(call *c, int operation, options *o)
{
    memset(c, 0, sizeof *c);
    c->operation = operation;
    c->act_mul = o->act_mul;
    c->act_mul.struct_size = sizeof c->act_mul;
    c->act_mul.chain = o->chain;
    c->rms_norm = o->rms_norm;
    c->rms_norm.struct_size = sizeof c->rms_norm;
    c->rms_norm.chain = o->chain;
    c->rms_norm.weight_dtype = o->weight_dtype;
    c->quantize.struct_size = sizeof c->quantize;
    c->exec.struct_size = sizeof c->exec;
    c->sizes.struct_size = sizeof c->sizes;
    c->quantizes = !o->plain;
    c->out = o->out;
    c->out.struct_size = sizeof c->out;
    c->out.ue8m0 = o->ue8m0;
    c->out.scale = scale_of("--scale", o->scale, &o->scale_value);
    c->out.inv_scale = scale_of("--inv-scale", o->inv_scale, &o->inv_scale_value);
    c->out.scale_ub = o->scale_ub > 0 ? &o->scale_ub : NULL;
}

epiq_exec make_exec(const options *o)
{
    epiq_exec exec = {.struct_size = sizeof exec, .backend = o->backend};
    char why[400];
    if (epiq_backend_usable(o->backend, 0, why, sizeof why) != EPIQ_OK)
        fail(EXIT_BACKEND, "--backend %s: %s", o->backend ? epiq_word(o->backend) : "(none given)", why);
    if (o->backend == EPIQ_BACKEND_CUDA)
        fail(EXIT_BACKEND, "--backend cuda: %s works on host memory; use a CPU backend", o->command);
    if (o->threads != 1) {
        sigset_t all, before; /* signals come to the main thread, which may hold them back (write_tensors) */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        epiq_pool *pool = epiq_pool_create((int32_t)o->threads);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (pool == NULL)
            fail(EXIT_UNUSABLE, "--threads %lld: the threads cannot be had", (long long)o->threads);
        exec.executor = epiq_pool_executor;
        exec.executor_data = pool;
    }
    return exec;
}

void end_exec(epiq_exec *exec)
{
    epiq_pool_destroy(exec->executor_data);
    exec->executor = NULL;
    exec->executor_data = NULL;
}

epiq_matrix *call_x(call *c)
{
    return c->operation == ACT_MUL ? &c->act_mul.x : c->operation == RMS_NORM ? &c->rms_norm.x : &c->quantize.x;
}

void *call_y(const call *c)
{
    return c->operation == ACT_MUL ? c->act_mul.y_out : c->rms_norm.y_out;
}

static bool has_two_halves(const call *c)
{
    return c->operation == ACT_MUL && c->act_mul.order != EPIQ_ORDER_SEPARATE && c->act_mul.order != EPIQ_ORDER_UNGATED;
}

void call_shape(call *c, int64_t rows, int64_t cols, epiq_dtype dtype, const void *data)
{
    epiq_matrix x = {.data = data, .rows = rows, .cols = cols, .dtype = dtype};
    if (cols != EPIQ_UNKNOWN && has_two_halves(c))
        x.cols = 2 * cols;
    *call_x(c) = x;
}

/* Far enough apart that no two buffers of any size in use seem to overlap. */
void *mark(int n)
{
    return (void *)((uintptr_t)(n + 1) << 56);
}

static const epiq_output *call_out(const call *c)
{
    return c->quantizes ? &c->out : NULL;
}

static epiq_status check(call *c)
{
    switch (c->operation) {
    case ACT_MUL:
        return epiq_check_act_mul(&c->act_mul, call_out(c), &c->exec, &c->sizes);
    case RMS_NORM:
        return epiq_check_rms_norm(&c->rms_norm, call_out(c), &c->exec, &c->sizes);
    default:
        return epiq_check_quantize(&c->quantize, call_out(c), &c->exec, &c->sizes);
    }
}

epiq_status call_mark(call *c, bool y, bool residual_out)
{
    if (call_x(c)->data == NULL)
        call_x(c)->data = mark(0);
    if (c->operation == ACT_MUL)
        c->act_mul.y_out = y ? mark(1) : NULL;
    if (c->operation == RMS_NORM) {
        c->rms_norm.y_out = y ? mark(1) : NULL;
        c->rms_norm.residual_out = residual_out ? mark(2) : NULL;
    }
    c->out.codes_out = mark(3);
    c->out.scale_out = NULL;
    c->out.inv_scale_out = c->out.format == EPIQ_FORMAT_NVFP4 && !c->out.inv_scale ? mark(4) : NULL;
    epiq_status status = check(c);
    if (status != EPIQ_OK)
        return status;
    if (c->sizes.scale_dtype != 0)
        c->out.scale_out = mark(5);
    c->exec.workspace = mark(6);
    c->exec.workspace_bytes = c->sizes.workspace_bytes > 0 ? c->sizes.workspace_bytes : 0;
    return status;
}

size_t call_explain(const call *c, char *text, size_t bytes)
{
    switch (c->operation) {
    case ACT_MUL:
        return epiq_explain_act_mul(&c->act_mul, call_out(c), &c->exec, text, bytes);
    case RMS_NORM:
        return epiq_explain_rms_norm(&c->rms_norm, call_out(c), &c->exec, text, bytes);
    default:
        return epiq_explain_quantize(&c->quantize, call_out(c), &c->exec, text, bytes);
    }
}

epiq_status call_run(const call *c)
{
    switch (c->operation) {
    case ACT_MUL:
        return epiq_act_mul(&c->act_mul, call_out(c), &c->exec);
    case RMS_NORM:
        return epiq_rms_norm(&c->rms_norm, call_out(c), &c->exec);
    default:
        return epiq_quantize(&c->quantize, call_out(c), &c->exec);
    }
}

/* A single scale: 1 until it is written, which zero rows never do. */
static float *new_one(void)
{
    float *one = allocate(sizeof *one);
    *one = 1;
    return one;
}

epiq_status call_allocate(call *c, bool y, bool residual_out)
{
    epiq_status status = call_mark(c, y, residual_out);
    if (status != EPIQ_OK)
        return status;
    const epiq_sizes *z = &c->sizes;
    if (c->act_mul.y_out)
        c->act_mul.y_out = allocate(z->y_bytes);
    if (c->rms_norm.y_out)
        c->rms_norm.y_out = allocate(z->y_bytes);
    if (c->rms_norm.residual_out)
        c->rms_norm.residual_out = allocate(z->residual_bytes);
    c->out.codes_out = c->quantizes ? allocate(z->codes_bytes) : NULL;
    if (!c->quantizes)
        c->out.scale_out = c->out.inv_scale_out = NULL;
    if (c->out.scale_out)
        c->out.scale_out = z->grain == EPIQ_GRAIN_TENSOR ? new_one() : allocate(z->scale_bytes);
    if (c->out.inv_scale_out)
        c->out.inv_scale_out = new_one();
    c->exec.workspace = allocate(z->workspace_bytes);
    c->exec.workspace_bytes = z->workspace_bytes;
    return EPIQ_OK;
}

void call_free(call *c)
{
    release(c->act_mul.y_out);
    release(c->rms_norm.y_out);
    release(c->rms_norm.residual_out);
    release(c->out.codes_out);
    release(c->out.scale_out);
    release(c->out.inv_scale_out);
    release(c->exec.workspace);
}

_Noreturn void refuse(epiq_status status, const char *what, const char *reason)
{
    int code = status == EPIQ_ERROR_BACKEND || status == EPIQ_ERROR_DEVICE ? EXIT_BACKEND : EXIT_UNUSABLE;
    size_t length = strlen(reason);
    while (length > 0 && reason[length - 1] == '\n')
        length--;
    fail(code, "%s: %.*s", what, (int)length, reason);
}

_Noreturn void call_refuse(const call *c, epiq_status status)
{
    char why[1000] = "";
    call_explain(c, why, sizeof why);
    refuse(status, operation_name(c->operation), why[0] ? why : epiq_status_string(status));
}

void call_must_run(void *c)
{
    epiq_status status = call_run(c);
    if (status != EPIQ_OK)
        call_refuse(c, status);
}

/* For these alone the chain vllm rounds to the dtype of x on the way. */
static bool is_plain_norm(const epiq_rms_norm_args *n)
{
    return n->weight_bias == 0 && (n->weight_dtype == 0 || n->weight_dtype == n->x.dtype);
}

epiq_round call_round(const call *c)
{
    const epiq_rms_norm_args *n = &c->rms_norm;
    if (c->operation == QUANTIZE)
        return EPIQ_ROUND_NONE; /* y is x */
    if (c->operation == ACT_MUL) {
        if (c->act_mul.act_round)
            return c->act_mul.act_round;
        return c->act_mul.chain == EPIQ_CHAIN_DIRECT       ? EPIQ_ROUND_NONE
               : c->act_mul.chain == EPIQ_CHAIN_FLASHINFER ? EPIQ_ROUND_ONCE
                                                           : EPIQ_ROUND_TWICE;
    }
    if (n->norm_round)
        return n->norm_round;
    if (n->chain == EPIQ_CHAIN_DIRECT)
        return EPIQ_ROUND_NONE;
    if (n->chain == EPIQ_CHAIN_FLASHINFER || n->chain == EPIQ_CHAIN_ALLREDUCE)
        return EPIQ_ROUND_ONCE;
    return is_plain_norm(n) ? EPIQ_ROUND_TWICE : EPIQ_ROUND_ONCE;
}

epiq_sum_round call_sum_round(const call *c)
{
    const epiq_rms_norm_args *n = &c->rms_norm;
    if (n->sum_round)
        return n->sum_round;
    if (n->chain == EPIQ_CHAIN_ALLREDUCE)
        return EPIQ_SUM_ROUND_T;
    if (n->chain == EPIQ_CHAIN_DIRECT || n->chain == EPIQ_CHAIN_FLASHINFER)
        return EPIQ_SUM_ROUND_FP32;
    return is_plain_norm(n) ? EPIQ_SUM_ROUND_T : EPIQ_SUM_ROUND_FP32;
}

/* Runs a copy that writes y, and perhaps the residual, but no codes. */
static void run_copy(call *c)
{
    c->quantizes = false;
    c->exec.workspace = NULL;
    c->exec.workspace_bytes = 0;
    call_must_run(c);
}

float *call_reference(const call *c)
{
    call k = *c;
    const int64_t rows = c->sizes.rows, cols = c->sizes.cols, count = rows * cols;
    const epiq_dtype dtype = call_x(&k)->dtype;
    if (c->operation == QUANTIZE)
        return widened(c->quantize.x.data, dtype, count);

    k.act_mul.y_out = k.rms_norm.y_out = NULL;
    k.rms_norm.residual_out = NULL;
    if (call_round(c) != EPIQ_ROUND_NONE || dtype == EPIQ_DTYPE_F32) { /* y is what the quantizer sees */
        void *y = allocate(count * dtype_bytes(dtype));
        *(c->operation == ACT_MUL ? &k.act_mul.y_out : &k.rms_norm.y_out) = y;
        run_copy(&k);
        float *reference = widened(y, dtype, count);
        free(y);
        return reference;
    }
    /* Unrounded y: the same arithmetic on the inputs as fp32, where rounding to the dtype is the identity. */
    float *y = allocate(count * (int64_t)sizeof *y), *x = NULL, *other = NULL, *weight = NULL;
    if (c->operation == ACT_MUL) {
        x = widened(c->act_mul.x.data, dtype, rows * c->act_mul.x.cols);
        if (c->act_mul.up)
            k.act_mul.up = other = widened(c->act_mul.up, dtype, count);
        k.act_mul.x.data = x;
        k.act_mul.x.dtype = EPIQ_DTYPE_F32;
        k.act_mul.act_round = EPIQ_ROUND_NONE;
        k.act_mul.y_out = y;
    } else {
        const epiq_rms_norm_args *n = &c->rms_norm;
        if (n->residual && call_sum_round(c) == EPIQ_SUM_ROUND_T) { /* the norm sees the rounded sum: make it x */
            void *sum = allocate(count * dtype_bytes(dtype)), *unused = allocate(count * dtype_bytes(dtype));
            call h = k;
            h.rms_norm.residual_out = sum;
            h.rms_norm.y_out = unused;
            run_copy(&h);
            x = widened(sum, dtype, count);
            k.rms_norm.residual = NULL;
            free(sum);
            free(unused);
        } else {
            x = widened(n->x.data, dtype, count);
            if (n->residual)
                k.rms_norm.residual = other = widened(n->residual, dtype, count);
        }
        weight = widened(n->weight, n->weight_dtype ? n->weight_dtype : dtype, cols);
        k.rms_norm.x.data = x;
        k.rms_norm.x.dtype = EPIQ_DTYPE_F32;
        k.rms_norm.weight = weight;
        k.rms_norm.weight_dtype = 0;
        k.rms_norm.sum_round = EPIQ_SUM_ROUND_FP32;
        k.rms_norm.norm_round = EPIQ_ROUND_NONE;
        k.rms_norm.y_out = y;
    }
    run_copy(&k);
    free(x);
    free(other);
    free(weight);
    return y;
}

void call_accuracy(const call *c, const float *reference, accuracy *a)
{
    const epiq_sizes *z = &c->sizes;
    float *y = allocate(z->rows * z->cols * (int64_t)sizeof *y);
    epiq_dequantize_args d = {.struct_size = sizeof d, .format = c->out.format, .grain = z->grain, .group = z->group};
    d.layout = z->layout;
    d.scale_dtype = z->scale_dtype;
    d.rows = z->rows;
    d.cols = z->cols;
    d.padded_cols = c->out.padded_cols;
    d.codes = c->out.codes_out;
    d.scale = c->out.scale_out ? c->out.scale_out : (const void *)c->out.scale;
    d.inv_scale = c->out.inv_scale_out ? c->out.inv_scale_out : c->out.inv_scale;
    d.y_out = y;
    d.y_dtype = EPIQ_DTYPE_F32;
    epiq_exec exec = c->exec;
    exec.workspace = NULL;
    exec.workspace_bytes = 0;
    epiq_status status = epiq_dequantize(&d, &exec);
    if (status != EPIQ_OK) {
        char why[1000];
        epiq_explain_dequantize(&d, &exec, why, sizeof why);
        refuse(status, "dequantize", why);
    }
    accuracy_add(a, d.format, d.rows, d.cols, reference, y, d.codes, z->codes_row_bytes);
    free(y);
}

int64_t call_bytes_read(const call *c)
{
    call k = *c;
    const epiq_matrix *x = call_x(&k);
    int64_t matrix = x->rows * x->cols * dtype_bytes(x->dtype);
    if (c->operation == ACT_MUL)
        return c->act_mul.up ? 2 * matrix : matrix;
    if (c->operation == QUANTIZE)
        return matrix;
    epiq_dtype weight = c->rms_norm.weight_dtype ? c->rms_norm.weight_dtype : x->dtype;
    return (c->rms_norm.residual ? 2 * matrix : matrix) + x->cols * dtype_bytes(weight);
}

int64_t call_bytes_written(const call *c)
{
    return c->sizes.y_bytes + c->sizes.residual_bytes +
           (c->quantizes ? c->sizes.codes_bytes + c->sizes.scale_bytes : 0);
}
