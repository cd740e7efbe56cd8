/* cmd_run.c: epiq act-mul, rms-norm, quantize: from files to a file.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call.h"
#include "command.h"
#include "tensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything that fixes the bytes, as strings: dequantize needs no more, and equal files mean equal calls. Where the
 * call ran is left out because it changes nothing. */
typedef struct metadata {
    const char *pairs[2 * 32];
    char text[32][32];
    int count;
} metadata;

static void record(metadata *m, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void record(metadata *m, const char *key, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(m->text[m->count], sizeof m->text[0], format, list);
    va_end(list);
    m->pairs[2 * m->count] = key;
    m->pairs[2 * m->count + 1] = m->text[m->count];
    m->count++;
}

static void record_word(metadata *m, const char *key, int32_t value, int32_t otherwise)
{
    record(m, key, "%s", epiq_word(value ? value : otherwise));
}

static void record_float(metadata *m, const char *key, float value)
{
    record(m, key, "%.9g", (double)value);
}

static void record_call(metadata *m, call *c)
{
    const epiq_sizes *z = &c->sizes;
    int32_t version = epiq_version();
    record(m, "epiq", "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    record(m, "spec_revision", "%d", epiq_spec_revision());
    record(m, "op", "%s", operation_name(c->operation));
    record(m, "rows", "%" PRId64, z->rows);
    record(m, "cols", "%" PRId64, z->cols);
    record_word(m, "dtype", call_x(c)->dtype, 0);
    if (c->operation == ACT_MUL) {
        const epiq_act_mul_args *a = &c->act_mul;
        record_word(m, "act", a->act, EPIQ_ACT_SILU);
        if (a->act == 0 || a->act == EPIQ_ACT_SILU)
            record_float(m, "alpha", a->alpha != 0 ? a->alpha : 1);
        if (a->limit != 0)
            record_float(m, "limit", a->limit);
        if (a->limit_after != 0)
            record_float(m, "limit_after", a->limit_after);
        record_float(m, "up_offset", a->up_offset);
        record_word(m, "order", a->order, EPIQ_ORDER_GATE_UP);
        record_word(m, "chain", a->chain, EPIQ_CHAIN_VLLM);
        record_word(m, "act_round", call_round(c), 0);
    } else if (c->operation == RMS_NORM) {
        const epiq_rms_norm_args *n = &c->rms_norm;
        record_float(m, "eps", n->eps);
        record_word(m, "weight_dtype", n->weight_dtype, n->x.dtype);
        record_float(m, "weight_bias", n->weight_bias);
        record(m, "with_residual", "%d", n->residual != NULL);
        record_word(m, "chain", n->chain, EPIQ_CHAIN_VLLM);
        record_word(m, "sum_round", call_sum_round(c), 0);
        record_word(m, "norm_round", call_round(c), 0);
    }
    if (!c->quantizes) {
        record(m, "format", "none");
        return;
    }
    const epiq_output *o = &c->out;
    record_word(m, "format", o->format, 0);
    record_word(m, "grain", z->grain, 0);
    record(m, "group", "%d", z->group);
    record_word(m, "layout", z->layout, EPIQ_LAYOUT_ROW);
    record_word(m, "scale_dtype", z->scale_dtype, EPIQ_DTYPE_F32);
    record(m, "padded_cols", "%" PRId64, o->padded_cols ? o->padded_cols : z->cols);
    record_word(m, "nan", o->nan, EPIQ_NAN_PROPAGATE);
    if (o->scale_ub)
        record_float(m, "scale_ub", *o->scale_ub);
    if (z->grain == EPIQ_GRAIN_GROUP && (o->format == EPIQ_FORMAT_E4M3 || o->format == EPIQ_FORMAT_E5M2))
        record(m, "ue8m0", "%d", o->ue8m0 || z->layout == EPIQ_LAYOUT_PACKED_UE8M0);
    if (z->scale_dtype == EPIQ_DTYPE_E8M0)
        record_word(m, "mx_round", o->mx_round, EPIQ_MX_ROUND_CEIL);
    if (o->format == EPIQ_FORMAT_NVFP4)
        record_word(m, "nvfp4", o->nvfp4, EPIQ_NVFP4_VLLM);
}

static void write_call(call *c, const options *o)
{
    const epiq_sizes *z = &c->sizes;
    const epiq_output *q = &c->out;
    const io_dtype dtype = stored_dtype(call_x(c)->dtype);
    const void *y = call_y(c);
    const float *inv_scale = q->inv_scale_out ? q->inv_scale_out : q->inv_scale;
    io_tensor t[5];
    size_t n = 0;
    if (c->quantizes) {
        t[n++] = new_tensor("q", code_dtype(q->format), 2, z->rows, z->codes_row_bytes, q->codes_out);
        const float *scale = q->scale_out ? q->scale_out : q->scale; /* of grain tensor */
        if (z->grain == EPIQ_GRAIN_TENSOR && scale)
            t[n++] = new_tensor("scale", IO_F32, 1, 1, 1, scale);
        else if (q->scale_out)
            t[n++] = new_tensor("scale", stored_dtype(z->scale_dtype), 2, z->scale_shape[0], z->scale_shape[1],
                                q->scale_out);
        if (inv_scale)
            t[n++] = new_tensor("inv_scale", IO_F32, 1, 1, 1, inv_scale);
    }
    if (y)
        t[n++] = new_tensor("y", dtype, 2, z->rows, z->cols, y);
    if (c->rms_norm.residual_out)
        t[n++] = new_tensor("residual", dtype, 2, z->rows, z->cols, c->rms_norm.residual_out);
    metadata m = {.count = 0};
    record_call(&m, c);
    write_tensors(o->output, t, n, m.pairs, (size_t)m.count);
}

static void report(call *c, const options *o, const accuracy *a)
{
    const epiq_sizes *z = &c->sizes;
    if (o->json) {
        printf("{\"op\": \"%s\", \"rows\": %" PRId64 ", \"cols\": %" PRId64 ", \"dtype\": \"%s\", \"format\": \"%s\"",
               operation_name(c->operation), z->rows, z->cols, epiq_word(call_x(c)->dtype),
               c->quantizes ? epiq_word(c->out.format) : "none");
        if (c->quantizes) {
            printf(", \"grain\": \"%s\", \"group\": %d, \"layout\": \"%s\", \"codes_bytes\": %" PRId64
                   ", \"scale_bytes\": %" PRId64 ", ",
                   epiq_word(z->grain), z->group, epiq_word(z->layout ? z->layout : EPIQ_LAYOUT_ROW), z->codes_bytes,
                   z->scale_bytes);
            accuracy_print_json(a);
        }
        printf("}\n");
        return;
    }
    printf("%s [%" PRId64 ", %" PRId64 "] %s to ", operation_name(c->operation), z->rows, z->cols,
           epiq_word(call_x(c)->dtype));
    if (c->quantizes) {
        printf("%s %s", epiq_word(c->out.format), epiq_word(z->grain));
        if (z->grain == EPIQ_GRAIN_GROUP)
            printf(" %d", z->group);
        printf(": ");
        accuracy_print(a);
    } else {
        printf("y alone");
    }
    printf("\n");
}

static void must_match(const tensor *t, const char *what, const epiq_matrix *x, int64_t cols)
{
    if (t->dtype != x->dtype)
        fail(EXIT_UNUSABLE, "%s is %s and the input %s; they must be the same", what, epiq_word(t->dtype),
             epiq_word(x->dtype));
    if (t->rows != x->rows || t->cols != cols)
        fail(EXIT_UNUSABLE, "%s is [%" PRId64 ", %" PRId64 "] and the input [%" PRId64 ", %" PRId64 "]", what, t->rows,
             t->cols, x->rows, x->cols);
}

static int run(options *o, int operation)
{
    call c;
    tensor x, second = {.stored = NULL}, weight = {.stored = NULL};
    call_begin(&c, operation, o);
    c.exec = make_exec(o);
    tensor_open(&x, "input", o->positional);
    epiq_matrix matrix = {.data = x.data, .rows = x.rows, .cols = x.cols, .dtype = x.dtype};
    *call_x(&c) = matrix;
    if (o->up) {
        tensor_open(&second, "--up", o->up);
        must_match(&second, "--up", &matrix, matrix.cols);
        c.act_mul.up = second.data;
    }
    if (o->residual) {
        tensor_open(&second, "--residual", o->residual);
        must_match(&second, "--residual", &matrix, matrix.cols);
        c.rms_norm.residual = second.data;
    }
    if (operation == RMS_NORM) {
        if (o->weight == NULL)
            fail(EXIT_UNUSABLE, "rms-norm needs --weight FILE[:NAME]");
        tensor_open(&weight, "--weight", o->weight);
        if (weight.rows != 1 || weight.cols != matrix.cols)
            fail(EXIT_UNUSABLE, "--weight holds [%" PRId64 ", %" PRId64 "] values; the input has %" PRId64 " columns",
                 weight.rows, weight.cols, matrix.cols);
        c.rms_norm.weight = weight.data;
        c.rms_norm.weight_dtype = weight.dtype;
    }
    epiq_status status = call_allocate(&c, o->y || !c.quantizes, o->residual_out);
    if (status != EPIQ_OK)
        call_refuse(&c, status);
    call_must_run(&c);
    accuracy a = {0};
    if (c.quantizes) {
        float *reference = call_reference(&c);
        call_accuracy(&c, reference, &a);
        free(reference);
    }
    write_call(&c, o);
    report(&c, o, &a);
    call_free(&c);
    end_exec(&c.exec);
    tensor_close(&x);
    tensor_close(&second);
    tensor_close(&weight);
    return 0;
}

int cmd_act_mul(options *o)
{
    return run(o, ACT_MUL);
}

int cmd_rms_norm(options *o)
{
    return run(o, RMS_NORM);
}

int cmd_quantize(options *o)
{
    return run(o, QUANTIZE);
}
