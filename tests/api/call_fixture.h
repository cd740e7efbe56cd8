/* call_fixture.h: a call of any operation as one value: valid calls to start from, changes to them as data, and the
 * three ways to ask for it. All buffers are slots of one arena, so that "nothing was written" is one comparison.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_CALL_FIXTURE_H
#define EPIQ_CALL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <epiq/epiq.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

enum { SLOT_BYTES = 4096 };

/* Inputs, then outputs; the workspace is three slots. */
enum {
    X,
    UP,
    RESIDUAL,
    WEIGHT,
    SCALE,
    INV_SCALE,
    SCALE_UB,
    CODES,
    SCALES,
    INV_SCALE_OUT,
    RESIDUAL_OUT,
    Y,
    WORKSPACE,
    SLOTS = WORKSPACE + 3
};

static _Alignas(64) unsigned char memory[SLOTS * SLOT_BYTES];
static unsigned char memory_before[SLOTS * SLOT_BYTES];

/* The address of byte `at` of a slot; a constant expression. */
#define MEM(slot, at) (memory + (slot)*SLOT_BYTES + (at))

/* Inputs become small positive numbers of any dtype, single scales 1, outputs a canary. */
static inline void fill_memory(void)
{
    const float one = 1.0f;
    memset(memory, 0x3c, sizeof memory);
    for (int slot = SCALE; slot <= SCALE_UB; slot++)
        for (size_t i = 0; i < SLOT_BYTES; i += sizeof one)
            memcpy(MEM(slot, i), &one, sizeof one);
    memset(MEM(CODES, 0), 0xa5, (SLOTS - CODES) * SLOT_BYTES);
    memcpy(memory_before, memory, sizeof memory);
}

static inline int memory_is_untouched(void)
{
    return memcmp(memory, memory_before, sizeof memory) == 0;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

/* A set of operations is a sum of these. */
typedef enum operation { ACT_MUL = 1, RMS_NORM = 2, QUANTIZE = 4, DEQUANTIZE = 8 } operation;
enum { QUANTIZERS = ACT_MUL | RMS_NORM | QUANTIZE, ALL = QUANTIZERS | DEQUANTIZE };

/* What the call starts from. dequantize has the counterpart of each: STATIC by inv_scale, DYNAMIC by scale. */
typedef enum quantizer {
    ANY, /* whichever: E4M3_TOKEN */
    NO_OUT,
    E4M3_TOKEN,
    E4M3_STATIC,
    E4M3_DYNAMIC,
    E4M3_GROUP,
    E5M2_TOKEN,
    E5M2_STATIC,
    E5M2_DYNAMIC,
    E5M2_GROUP,
    INT8_TOKEN,
    INT8_STATIC,
    MXFP8,
    MXFP4,
    NVFP4,
    NVFP4_COMPUTED,
    QUANTIZER_COUNT
} quantizer;

/* The structs stand one behind the other, so that what follows each is not zero. */
typedef struct call {
    epiq_act_mul_args act_mul;
    epiq_rms_norm_args rms_norm;
    epiq_quantize_args quantize;
    epiq_dequantize_args dequantize;
    epiq_output out;
    epiq_exec exec;
    uint64_t tail;
    int32_t op;
    int32_t no_args, no_out, no_exec; /* pass NULL instead */
} call;

/* Shape of y in the calls to start from: 3 rows suit no padding, 64 columns every block. */
enum { ROWS = 3, COLS = 64 };

static inline void begin_dequantize(epiq_dequantize_args *a, const epiq_output *o, quantizer q)
{
    *a = (epiq_dequantize_args){.struct_size = sizeof *a,
                                .format = o->format,
                                .grain = o->grain,
                                .rows = ROWS,
                                .cols = COLS,
                                .codes = MEM(CODES, 0),
                                .scale = MEM(SCALES, 0),
                                .y_out = MEM(Y, 0),
                                .y_dtype = EPIQ_DTYPE_BF16};
    if (q == E4M3_STATIC || q == E5M2_STATIC || q == INT8_STATIC)
        a->scale = NULL;
    if (a->scale == NULL || q == NVFP4 || q == NVFP4_COMPUTED)
        a->inv_scale = (const float *)MEM(INV_SCALE, 0);
    if (a->grain == 0 && o->format < EPIQ_FORMAT_MXFP8) /* required here */
        a->grain = q == E4M3_TOKEN || q == E5M2_TOKEN || q == INT8_TOKEN ? EPIQ_GRAIN_TOKEN : EPIQ_GRAIN_TENSOR;
}

/* Every struct of c becomes valid; op says which is used. */
static inline void begin(call *c, operation op, quantizer q)
{
    static const struct {
        epiq_format format;
        epiq_grain grain;
    } start[QUANTIZER_COUNT] = {
        [ANY] = {EPIQ_FORMAT_E4M3, 0},
        [NO_OUT] = {EPIQ_FORMAT_E4M3, 0},
        [E4M3_TOKEN] = {EPIQ_FORMAT_E4M3, 0},
        [E4M3_STATIC] = {EPIQ_FORMAT_E4M3, 0},
        [E4M3_DYNAMIC] = {EPIQ_FORMAT_E4M3, EPIQ_GRAIN_TENSOR},
        [E4M3_GROUP] = {EPIQ_FORMAT_E4M3, EPIQ_GRAIN_GROUP},
        [E5M2_TOKEN] = {EPIQ_FORMAT_E5M2, 0},
        [E5M2_STATIC] = {EPIQ_FORMAT_E5M2, 0},
        [E5M2_DYNAMIC] = {EPIQ_FORMAT_E5M2, EPIQ_GRAIN_TENSOR},
        [E5M2_GROUP] = {EPIQ_FORMAT_E5M2, EPIQ_GRAIN_GROUP},
        [INT8_TOKEN] = {EPIQ_FORMAT_INT8, 0},
        [INT8_STATIC] = {EPIQ_FORMAT_INT8, 0},
        [MXFP8] = {EPIQ_FORMAT_MXFP8, 0},
        [MXFP4] = {EPIQ_FORMAT_MXFP4, 0},
        [NVFP4] = {EPIQ_FORMAT_NVFP4, 0},
        [NVFP4_COMPUTED] = {EPIQ_FORMAT_NVFP4, 0},
    };
    if (q == ANY)
        q = E4M3_TOKEN;
    memset(c, 0, sizeof *c);
    c->tail = 1;
    c->op = op;
    c->no_out = q == NO_OUT;
    c->act_mul = (epiq_act_mul_args){.struct_size = sizeof c->act_mul,
                                     .x = {.data = MEM(X, 0), .rows = ROWS, .cols = 2 * COLS, .dtype = EPIQ_DTYPE_BF16},
                                     .y_out = MEM(Y, 0)};
    c->rms_norm = (epiq_rms_norm_args){.struct_size = sizeof c->rms_norm,
                                       .eps = 1e-6f,
                                       .x = {.data = MEM(X, 0), .rows = ROWS, .cols = COLS, .dtype = EPIQ_DTYPE_BF16},
                                       .residual = MEM(RESIDUAL, 0),
                                       .residual_out = MEM(RESIDUAL_OUT, 0),
                                       .weight = MEM(WEIGHT, 0),
                                       .y_out = MEM(Y, 0)};
    c->quantize = (epiq_quantize_args){.struct_size = sizeof c->quantize, .x = c->rms_norm.x};
    c->out = (epiq_output){.struct_size = sizeof c->out,
                           .format = start[q].format,
                           .grain = start[q].grain,
                           .codes_out = MEM(CODES, 0),
                           .scale_out = MEM(SCALES, 0)};
    if (q == E4M3_STATIC || q == E5M2_STATIC || q == INT8_STATIC)
        c->out.scale_out = NULL;
    if (c->out.scale_out == NULL || q == NVFP4)
        c->out.inv_scale = (const float *)MEM(INV_SCALE, 0);
    if (q == NVFP4_COMPUTED)
        c->out.inv_scale_out = (float *)MEM(INV_SCALE_OUT, 0);
    begin_dequantize(&c->dequantize, &c->out, q);
    c->exec = (epiq_exec){.struct_size = sizeof c->exec};
}

static inline epiq_status call_check(const call *c, epiq_sizes *sizes)
{
    const epiq_output *out = c->no_out ? NULL : &c->out;
    const epiq_exec *exec = c->no_exec ? NULL : &c->exec;
    switch (c->op) {
    case ACT_MUL:
        return epiq_check_act_mul(c->no_args ? NULL : &c->act_mul, out, exec, sizes);
    case RMS_NORM:
        return epiq_check_rms_norm(c->no_args ? NULL : &c->rms_norm, out, exec, sizes);
    case QUANTIZE:
        return epiq_check_quantize(c->no_args ? NULL : &c->quantize, out, exec, sizes);
    default:
        return epiq_check_dequantize(c->no_args ? NULL : &c->dequantize, exec, sizes);
    }
}

static inline epiq_status call_run(const call *c)
{
    const epiq_output *out = c->no_out ? NULL : &c->out;
    const epiq_exec *exec = c->no_exec ? NULL : &c->exec;
    switch (c->op) {
    case ACT_MUL:
        return epiq_act_mul(c->no_args ? NULL : &c->act_mul, out, exec);
    case RMS_NORM:
        return epiq_rms_norm(c->no_args ? NULL : &c->rms_norm, out, exec);
    case QUANTIZE:
        return epiq_quantize(c->no_args ? NULL : &c->quantize, out, exec);
    default:
        return epiq_dequantize(c->no_args ? NULL : &c->dequantize, exec);
    }
}

static inline size_t call_explain(const call *c, char *text, size_t bytes)
{
    const epiq_output *out = c->no_out ? NULL : &c->out;
    const epiq_exec *exec = c->no_exec ? NULL : &c->exec;
    switch (c->op) {
    case ACT_MUL:
        return epiq_explain_act_mul(c->no_args ? NULL : &c->act_mul, out, exec, text, bytes);
    case RMS_NORM:
        return epiq_explain_rms_norm(c->no_args ? NULL : &c->rms_norm, out, exec, text, bytes);
    case QUANTIZE:
        return epiq_explain_quantize(c->no_args ? NULL : &c->quantize, out, exec, text, bytes);
    default:
        return epiq_explain_dequantize(c->no_args ? NULL : &c->dequantize, exec, text, bytes);
    }
}

static inline const char *operation_name(int32_t op)
{
    return op == ACT_MUL ? "act_mul" : op == RMS_NORM ? "rms_norm" : op == QUANTIZE ? "quantize" : "dequantize";
}

/* ---- Changes to a call, as data ---------------------------------------------------------------------------------- */

typedef struct setting {
    enum { NOTHING, INTEGER, NUMBER, POINTER } kind;
    size_t offset, bytes; /* of the field in `call` */
    int64_t integer;
    float number;
    const void *pointer;
} setting;

#define FIELD(field) .offset = offsetof(call, field), .bytes = sizeof((call *)0)->field
#define INT(field, value)                                                                                              \
    {                                                                                                                  \
        .kind = INTEGER, FIELD(field), .integer = (value)                                                              \
    }
#define NUM(field, value)                                                                                              \
    {                                                                                                                  \
        .kind = NUMBER, FIELD(field), .number = (value)                                                                \
    }
#define PTR(field, value)                                                                                              \
    {                                                                                                                  \
        .kind = POINTER, FIELD(field), .pointer = (value)                                                              \
    }

static inline void apply(call *c, const setting *s, size_t count)
{
    for (size_t i = 0; i < count && s[i].kind != NOTHING; i++) {
        const void *from = s[i].kind == INTEGER  ? (const void *)&s[i].integer
                           : s[i].kind == NUMBER ? (const void *)&s[i].number
                                                 : (const void *)&s[i].pointer;
        memcpy((unsigned char *)c + s[i].offset, from, s[i].bytes); /* the low bytes of an integer */
    }
}

#endif
