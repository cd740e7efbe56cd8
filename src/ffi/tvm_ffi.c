/* tvm_ffi.c: the operations as tvm-ffi functions, for PyTorch, JAX, CuPy, NumPy and every other user of that ABI.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     epiq_act_mul    x up scale inv_scale scale_ub workspace | codes scales y inv_scale_out | floats words
 *     epiq_rms_norm   x residual weight scale inv_scale scale_ub workspace
 *                                              | codes scales y residual_out inv_scale_out   | eps floats words
 *     epiq_quantize   x scale inv_scale scale_ub workspace | codes scales inv_scale_out      | words
 *     epiq_dequantize codes scales inv_scale | y                                             | words
 *
 * Tensors     DLTensor pointers or tensor objects, all on one device; inputs before `|`, outputs after it. None, or an
 *             array of shape [0], stands for what is absent. Dimensions before the last are rows. Strides as in
 *             DLPack, null or not. Codes and scales have the element type of DLPack or are raw integers of the same
 *             bytes; scales have the stored shape of epiq_sizes.scale_shape (a column-major one may be the transposed
 *             view). scale, inv_scale, scale_ub and inv_scale_out hold one float32.
 * floats      In this order, as many as wanted: alpha limit limit_after up_offset; eps weight_bias.
 * words       Strings of `key=word` or `key=integer` with blanks between, in any number ("format=nvfp4
 *             layout=tile128x4"), or integers, which name their field by themselves: the numbers of the enumerations
 *             of epiq.h (306 505), the start of a block for the default (500), and n * 10^12 + value for the fields
 *             that are integers: n is 1 for group, 2 for ue8m0, 3 for padded_cols (1000000000064 is group 64). None
 *             is skipped, an empty string refused. Keys are the fields of epiq.h, and `backend`.
 * Stream      An opaque pointer among the words, else the environment's stream of the device, else the default one.
 * Result      None and 0; or an error raised through libtvm_ffi and -1. Where that library is not in the process, the
 *             result is the message as a raw string of this thread, valid until its next failing call. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // RTLD_DEFAULT
#endif
#include <epiq/epiq.h>
#include "ffi/tvm_ffi.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1024, MAX_FLOATS = 4, MAX_GIVEN = 16 };

typedef struct ffi_call {
    const char *op;
    const tvm_any *args;
    int32_t count;
    int32_t next;                          // argument to be read
    dl_device device;                      // of the first tensor
    const struct option *options[2];       // of the operation, of the quantizer
    const struct option *given[MAX_GIVEN]; // already
    int given_count;
    float *floats[MAX_FLOATS];
    epiq_output out;
    epiq_exec exec;
    union {
        epiq_act_mul_args act_mul;
        epiq_rms_norm_args rms_norm;
        epiq_quantize_args quantize;
        epiq_dequantize_args dequantize;
    } a;
    epiq_sizes sizes;
    char error[TEXT_BYTES]; // empty: none
    const char *kind;
} ffi_call;

/* A tensor as rows. */
typedef struct rows_view {
    char *data;
    int64_t rows, cols; // elements
    int64_t row_bytes;
    int64_t stride; // bytes; 0: dense
    dl_dtype dtype;
} rows_view;

static void *service(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL) {
        void *library = dlopen("libtvm_ffi.so", RTLD_LAZY | RTLD_NOLOAD); // loaded, but not for all
        if (library != NULL) {
            found = dlsym(library, name);
            dlclose(library);
        }
    }
    return found;
}

/* Notes the first error of a call; always false. */
static int fail(ffi_call *c, const char *kind, const char *format, ...)
{
    if (c->error[0] == '\0') {
        int used = snprintf(c->error, sizeof c->error, "%s: ", c->op);
        va_list list;
        va_start(list, format);
        vsnprintf(c->error + used, sizeof c->error - (size_t)used, format, list);
        va_end(list);
        c->kind = kind;
    }
    return 0;
}

static int ended(const ffi_call *c, tvm_any *result)
{
    static _Thread_local char kept[TEXT_BYTES];
    memset(result, 0, sizeof *result);
    if (c->error[0] == '\0')
        return 0;
    void *found = service(TVM_RAISE);
    if (found != NULL) {
        tvm_raise *raise;
        memcpy(&raise, &found, sizeof raise);
        raise(c->kind, c->error);
    } else {
        memcpy(kept, c->error, sizeof kept);
        result->type_index = TVM_RAW_STR;
        result->text = kept;
    }
    return -1;
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static int on_gpu(dl_device device)
{
    return device.type == DL_CUDA || device.type == DL_CUDA_MANAGED;
}

/* The next argument as a tensor; NULL if it is absent or wrong. */
static const dl_tensor *take(ffi_call *c, const char *name)
{
    if (c->next >= c->count) {
        fail(c, "TypeError", "argument %d (%s) is missing", (int)c->next, name);
        return NULL;
    }
    const tvm_any *any = &c->args[c->next++];
    const dl_tensor *tensor = NULL;
    if (any->type_index == TVM_NONE)
        return NULL;
    if (any->type_index == TVM_DL_TENSOR)
        tensor = any->pointer;
    else if (any->type_index == TVM_TENSOR)
        tensor = &((const tvm_tensor_object *)any->pointer)->tensor;
    if (tensor == NULL) {
        fail(c, "TypeError", "argument %d (%s) is neither a tensor nor None", (int)c->next - 1, name);
        return NULL;
    }
    if (tensor->ndim == 1 && tensor->shape[0] == 0)
        return NULL;
    int type = tensor->device.type;
    if (type != DL_CPU && type != DL_CUDA_HOST && !on_gpu(tensor->device))
        fail(c, "ValueError", "%s is on a device of DLPack type %d; CPU and CUDA are known", name, type);
    else if (c->device.type == 0)
        c->device = tensor->device;
    else if (on_gpu(c->device) != on_gpu(tensor->device) && type != DL_CUDA_HOST && type != DL_CUDA_MANAGED)
        fail(c, "ValueError", "%s is not on the device of the first tensor", name);
    else if (type == DL_CUDA && c->device.type == DL_CUDA && tensor->device.id != c->device.id)
        fail(c, "ValueError", "%s is on CUDA device %d, the first tensor on %d", name, (int)tensor->device.id,
             (int)c->device.id);
    return c->error[0] == '\0' ? tensor : NULL;
}

static char *data_of(const dl_tensor *t)
{
    return t->data == NULL ? NULL : (char *)t->data + t->byte_offset;
}

static int too_large(ffi_call *c, const char *name)
{
    return fail(c, "ValueError", "%s: its shape or its strides do not fit a memory", name);
}

/* All dimensions but the last as rows. */
static int as_rows(ffi_call *c, const char *name, const dl_tensor *t, rows_view *v)
{
    int last = t->ndim - 1;
    int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes, stride = 0, above = 0, product;
    memset(v, 0, sizeof *v);
    v->dtype = t->dtype;
    v->rows = 1;
    v->cols = last < 0 ? 1 : t->shape[last];
    v->data = data_of(t);
    if (__builtin_mul_overflow(v->cols, bits, &product))
        return too_large(c, name);
    v->row_bytes = product / 8;
    if (last >= 0 && t->strides != NULL && t->strides[last] != 1 && v->cols > 1)
        return fail(c, "ValueError", "%s: elements of a row are not adjacent (stride %lld)", name,
                    (long long)t->strides[last]);
    for (int i = last - 1; i >= 0; i--) {
        if (t->shape[i] != 1) {
            int64_t own = t->strides == NULL ? 0 : t->strides[i];
            if (t->strides != NULL) {
                if (v->rows != 1 && own != above)
                    return fail(c, "ValueError", "%s: its leading dimensions are not one sequence of rows", name);
                if (own == 0 && t->shape[i] > 1)
                    return fail(c, "ValueError", "%s: its rows are one and the same (stride 0)", name);
                if (v->rows == 1)
                    stride = own;
                if (__builtin_mul_overflow(own, t->shape[i], &above))
                    return too_large(c, name);
            }
            if (__builtin_mul_overflow(v->rows, t->shape[i], &v->rows))
                return too_large(c, name);
        }
    }
    if (__builtin_mul_overflow(v->rows, v->cols, &product) || __builtin_mul_overflow(v->rows, v->row_bytes, &product) ||
        __builtin_mul_overflow(stride, bits, &product))
        return too_large(c, name);
    if (v->rows > 1 && product != v->row_bytes * 8)
        v->stride = product / 8;
    return 1;
}

static int is_integer(dl_dtype d)
{
    return d.code == DL_INT || d.code == DL_UINT;
}

static epiq_dtype float_type(dl_dtype d)
{
    if (d.lanes != 1)
        return 0;
    if (d.code == DL_FLOAT && d.bits == 32)
        return EPIQ_DTYPE_F32;
    if (d.code == DL_FLOAT && d.bits == 16)
        return EPIQ_DTYPE_F16;
    return d.code == DL_BFLOAT && d.bits == 16 ? EPIQ_DTYPE_BF16 : 0;
}

static int want_float(ffi_call *c, const char *name, dl_dtype d)
{
    return float_type(d) != 0 ||
           fail(c, "TypeError", "%s: its element type is none of float32, float16, bfloat16", name);
}

/* Required x: a matrix. */
static void take_x(ffi_call *c, epiq_matrix *x)
{
    rows_view v;
    const dl_tensor *t = take(c, "x");
    if (t == NULL) {
        fail(c, "TypeError", "x is required");
    } else if (as_rows(c, "x", t, &v) && want_float(c, "x", v.dtype)) {
        x->data = v.data;
        x->rows = v.rows;
        x->cols = v.cols;
        x->row_stride = v.stride;
        x->dtype = float_type(v.dtype);
    }
}

/* An optional matrix of the element type and rows of x and of `cols` columns. */
static void *take_like(ffi_call *c, const char *name, const epiq_matrix *x, int64_t cols, int64_t *stride)
{
    rows_view v;
    const dl_tensor *t = take(c, name);
    if (t == NULL || !as_rows(c, name, t, &v) || !want_float(c, name, v.dtype))
        return NULL;
    if (float_type(v.dtype) != x->dtype)
        fail(c, "TypeError", "%s has another element type than x", name);
    else if (v.rows != x->rows || v.cols != cols)
        fail(c, "ValueError", "%s is [%lld, %lld], not [%lld, %lld]", name, (long long)v.rows, (long long)v.cols,
             (long long)x->rows, (long long)cols);
    *stride = v.stride;
    return v.data;
}

static int is_one(ffi_call *c, const char *name, const dl_tensor *t)
{
    rows_view v;
    if (!as_rows(c, name, t, &v))
        return 0;
    return (float_type(v.dtype) == EPIQ_DTYPE_F32 && v.rows * v.cols == 1) ||
           fail(c, "TypeError", "%s is not one float32", name);
}

/* An optional single float32. */
static void *take_one(ffi_call *c, const char *name)
{
    const dl_tensor *t = take(c, name);
    return t != NULL && is_one(c, name, t) ? data_of(t) : NULL;
}

static void take_weight(ffi_call *c, epiq_rms_norm_args *a)
{
    rows_view v;
    const dl_tensor *t = take(c, "weight");
    if (t == NULL || !as_rows(c, "weight", t, &v) || !want_float(c, "weight", v.dtype))
        return;
    if (v.rows != 1 || v.cols != a->x.cols)
        fail(c, "ValueError", "weight has %lld elements, x %lld columns", (long long)(v.rows * v.cols),
             (long long)a->x.cols);
    a->weight = v.data;
    a->weight_dtype = float_type(v.dtype);
}

static void take_workspace(ffi_call *c)
{
    rows_view v;
    const dl_tensor *t = take(c, "workspace");
    if (t == NULL || !as_rows(c, "workspace", t, &v))
        return;
    if (v.stride != 0)
        fail(c, "ValueError", "workspace has gaps");
    c->exec.workspace = v.data;
    c->exec.workspace_bytes = v.rows * v.row_bytes;
}

/* Tensors of codes and scales, compared with epiq_sizes once the options are known. */
static int codes_fit(ffi_call *c, const rows_view *v, epiq_format format)
{
    dl_dtype d = v->dtype;
    int typed = 0;
    if (format == EPIQ_FORMAT_E4M3 || format == EPIQ_FORMAT_MXFP8)
        typed = d.code == DL_E4M3FN;
    else if (format == EPIQ_FORMAT_E5M2)
        typed = d.code == DL_E5M2;
    else if (format == EPIQ_FORMAT_MXFP4 || format == EPIQ_FORMAT_NVFP4)
        typed = d.code == DL_E2M1FN;
    if (!typed && !is_integer(d))
        return fail(c, "TypeError", "codes: the element type is neither that of the format nor a raw integer");
    if (v->rows != c->sizes.rows || v->row_bytes != c->sizes.codes_row_bytes)
        return fail(c, "ValueError", "codes are %lld rows of %lld bytes, not %lld of %lld", (long long)v->rows,
                    (long long)v->row_bytes, (long long)c->sizes.rows, (long long)c->sizes.codes_row_bytes);
    return 1;
}

static int scales_fit(ffi_call *c, const dl_tensor *t, int64_t *stride)
{
    const epiq_sizes *z = &c->sizes;
    int64_t bytes = z->scale_dtype == EPIQ_DTYPE_F32 || z->scale_dtype == EPIQ_DTYPE_I32 ? 4 : 1;
    dl_dtype d = t->dtype;
    int typed = (z->scale_dtype == EPIQ_DTYPE_F32 && float_type(d) == EPIQ_DTYPE_F32) ||
                (z->scale_dtype == EPIQ_DTYPE_E4M3 && d.code == DL_E4M3FN) ||
                (z->scale_dtype == EPIQ_DTYPE_E8M0 && d.code == DL_E8M0FNU);
    if (!typed && !(is_integer(d) && z->scale_dtype != EPIQ_DTYPE_F32))
        return fail(c, "TypeError", "scales: the element type is not %s", epiq_word(z->scale_dtype));

    dl_tensor view = *t;
    int64_t turned_shape[2], turned_strides[2];
    int column_major =
        z->layout == EPIQ_LAYOUT_COL || z->layout == EPIQ_LAYOUT_COL_ALIGNED || z->layout == EPIQ_LAYOUT_PACKED_UE8M0;
    if (column_major && t->ndim == 2 && t->strides != NULL && t->strides[0] == 1 && t->strides[1] != 1) {
        turned_shape[0] = t->shape[1], turned_shape[1] = t->shape[0];
        turned_strides[0] = t->strides[1], turned_strides[1] = 1;
        view.shape = turned_shape;
        view.strides = turned_strides;
    }
    rows_view v;
    if (!as_rows(c, "scales", &view, &v))
        return 0;
    int64_t lines = z->scale_shape[0], line_bytes = z->scale_shape[1] * bytes;
    int flat = v.rows == 1 && v.row_bytes == lines * line_bytes; // one scale a row, or one in all, as a vector
    if (!flat && (v.rows != lines || v.row_bytes != line_bytes))
        return fail(c, "ValueError", "scales are %lld lines of %lld bytes, not the stored %lld of %lld",
                    (long long)v.rows, (long long)v.row_bytes, (long long)lines, (long long)line_bytes);
    *stride = flat ? 0 : v.stride;
    return 1;
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

typedef struct option {
    const char *key; // kind of its words in epiq_value, or an integer field
    int block;       // first number of its enumeration; below FIRST_BLOCK: an integer, and its n
    size_t offset;   // in ffi_call
    int wide;        // 64-bit field
} option;

enum { GROUP = 1, UE8M0, PADDED_COLS, FIRST_BLOCK = 100 };
static const int64_t field_unit = 1000000000000; // of n in a number of an integer field

#define OUT(field, block) #field, block, offsetof(ffi_call, out.field), 0
#define ARG(op, field, block) #field, block, offsetof(ffi_call, a.op.field), 0
#define WIDE(field, place, n) #field, n, offsetof(ffi_call, place.field), 1
#define BACKEND "backend", 100, offsetof(ffi_call, exec.backend), 0

static const option quantize_options[] = {{OUT(format, 300)},
                                          {OUT(grain, 400)},
                                          {OUT(group, GROUP)},
                                          {OUT(layout, 500)},
                                          {OUT(scale_dtype, 200)},
                                          {OUT(ue8m0, UE8M0)},
                                          {OUT(mx_round, 1100)},
                                          {OUT(nvfp4, 1200)},
                                          {OUT(nan, 1300)},
                                          {OUT(pad_rows, 1400)},
                                          {BACKEND},
                                          {WIDE(padded_cols, out, PADDED_COLS)},
                                          {0}};
static const option act_mul_options[] = {{ARG(act_mul, act, 600)},
                                         {ARG(act_mul, order, 700)},
                                         {ARG(act_mul, chain, 800)},
                                         {ARG(act_mul, act_round, 900)},
                                         {0}};
static const option rms_norm_options[] = {
    {ARG(rms_norm, chain, 800)}, {ARG(rms_norm, norm_round, 900)}, {ARG(rms_norm, sum_round, 1000)}, {0}};
static const option dequantize_options[] = {{ARG(dequantize, format, 300)},
                                            {ARG(dequantize, grain, 400)},
                                            {ARG(dequantize, group, GROUP)},
                                            {ARG(dequantize, layout, 500)},
                                            {ARG(dequantize, scale_dtype, 200)},
                                            {WIDE(padded_cols, a.dequantize, PADDED_COLS)},
                                            {BACKEND},
                                            {0}};
static const option none[] = {{0}};

static int seen(const ffi_call *c, const option *o)
{
    for (int i = 0; i < c->given_count; i++) {
        if (c->given[i] == o)
            return 1;
    }
    return 0;
}

static int set_option(ffi_call *c, const option *o, int64_t value)
{
    char *field = (char *)c + o->offset;
    if (c->given_count == MAX_GIVEN || seen(c, o))
        return fail(c, "ValueError", "%s is given twice", o->key);
    c->given[c->given_count++] = o;
    if (o->wide)
        memcpy(field, &value, sizeof value);
    else
        memcpy(field, &(int32_t){(int32_t)value}, sizeof(int32_t));
    return 1;
}

static int set_number(ffi_call *c, int64_t number)
{
    int64_t block = 0, value = 0;
    if (number >= field_unit && number / field_unit < FIRST_BLOCK) {
        block = number / field_unit;
        value = number % field_unit;
    } else if (number > FIRST_BLOCK && number < INT32_MAX &&
               (number % 100 == 0 || epiq_word((int32_t)number) != NULL)) {
        block = number / 100 * 100;
        value = number == block ? 0 : number; // the start: the default
    }
    for (int table = 0; block != 0 && table < 2; table++) {
        for (const option *o = c->options[table]; o->key != NULL; o++) {
            if (o->block == block && (o->wide || value <= INT32_MAX))
                return set_option(c, o, value);
        }
    }
    return fail(c, "ValueError", "%lld is the number of no option here (floats have a point)", (long long)number);
}

static int is_blank(char b)
{
    return b == ' ' || b == ',';
}

static const option *find(const ffi_call *c, const char *key, size_t length)
{
    for (int table = 0; table < 2; table++) {
        for (const option *o = c->options[table]; o->key != NULL; o++) {
            if (strlen(o->key) == length && memcmp(o->key, key, length) == 0)
                return o;
        }
    }
    return NULL;
}

/* `key=word key=integer ...` */
static int set_words(ffi_call *c, const char *text, size_t size)
{
    size_t at = 0;
    if (size == 0) /* what a string is like that its owner freed too early, and no call means */
        return fail(c, "ValueError", "argument %d is an empty string; leave it out, or give a blank", (int)c->next);
    for (;;) {
        while (at < size && is_blank(text[at]))
            at++;
        if (at == size)
            return 1;
        size_t start = at, equals = 0;
        for (; at < size && !is_blank(text[at]); at++) {
            if (text[at] == '=' && equals == 0)
                equals = at;
        }
        int length = (int)(at - start < 64 ? at - start : 64);
        if (equals == 0)
            return fail(c, "ValueError", "'%.*s' is not of the form key=word", length, text + start);
        size_t bytes = at - equals - 1;
        const option *o = find(c, text + start, equals - start);
        if (o == NULL)
            return fail(c, "ValueError", "'%.*s': there is no such option", length, text + start);
        char word[32];
        int64_t value = 0;
        if (bytes == 0 || bytes >= sizeof word)
            return fail(c, "ValueError", "'%.*s': no value has so many characters", length, text + start);
        memcpy(word, text + equals + 1, bytes);
        word[bytes] = '\0';
        if (o->block >= FIRST_BLOCK) {
            value = epiq_value(o->key, word);
            if (value == 0)
                return fail(c, "ValueError", "'%s' is no word of %s", word, o->key);
        } else {
            for (size_t n = 0; n < bytes; n++) {
                if (word[n] < '0' || word[n] > '9' || bytes > 9)
                    return fail(c, "ValueError", "'%.*s': not a number", length, text + start);
                value = 10 * value + (word[n] - '0');
            }
        }
        if (!set_option(c, o, value))
            return 0;
    }
}

static void take_options(ffi_call *c)
{
    int floats = 0, streams = 0;
    if (on_gpu(c->device)) {
        c->exec.backend = EPIQ_BACKEND_CUDA;
        c->exec.device = EPIQ_DEVICE(c->device.id);
    }
    for (; c->next < c->count && c->error[0] == '\0'; c->next++) {
        const tvm_any *any = &c->args[c->next];
        const tvm_str_object *string;
        switch (any->type_index) {
        case TVM_NONE:
            break;
        case TVM_INT:
            set_number(c, any->integer);
            break;
        case TVM_FLOAT:
            if (floats == MAX_FLOATS || c->floats[floats] == NULL)
                fail(c, "TypeError", "argument %d: more floats than it has", (int)c->next);
            else
                *c->floats[floats++] = (float)any->number;
            break;
        case TVM_POINTER:
            c->exec.stream = any->pointer;
            streams = 1;
            break;
        case TVM_RAW_STR:
            set_words(c, any->text, strlen(any->text));
            break;
        case TVM_SMALL_STR:
            set_words(c, any->bytes, any->small_size < sizeof any->bytes ? any->small_size : 0);
            break;
        case TVM_STR:
            string = any->pointer;
            set_words(c, string->data, string->size);
            break;
        default:
            fail(c, "TypeError", "argument %d is no float, integer, string or None", (int)c->next);
        }
    }
    if (on_gpu(c->device) && !streams) {
        static _Atomic(void *) known;
        void *found = atomic_load_explicit(&known, memory_order_relaxed);
        if (found == NULL) {
            found = service(TVM_STREAM);
            atomic_store_explicit(&known, found, memory_order_relaxed);
        }
        if (found != NULL) {
            tvm_stream *stream;
            memcpy(&stream, &found, sizeof stream);
            c->exec.stream = stream(DL_CUDA, c->device.id);
        }
    }
}

/* ---- The operations ---------------------------------------------------------------------------------------------- */

typedef enum op { ACT_MUL, RMS_NORM, QUANTIZE, DEQUANTIZE } op;

static void begin(ffi_call *c, const char *name, const option *own, const option *shared, const tvm_any *args,
                  int32_t count)
{
    memset(c, 0, offsetof(ffi_call, error));
    c->error[0] = '\0';
    c->op = name;
    c->options[0] = own;
    c->options[1] = shared;
    c->args = args;
    c->count = count;
    c->out.struct_size = sizeof c->out;
    c->exec.struct_size = sizeof c->exec;
    c->sizes.struct_size = sizeof c->sizes;
}

static epiq_status check(ffi_call *c, op which, const epiq_output *out)
{
    switch (which) {
    case ACT_MUL:
        return epiq_check_act_mul(&c->a.act_mul, out, &c->exec, &c->sizes);
    case RMS_NORM:
        return epiq_check_rms_norm(&c->a.rms_norm, out, &c->exec, &c->sizes);
    case QUANTIZE:
        return epiq_check_quantize(&c->a.quantize, out, &c->exec, &c->sizes);
    case DEQUANTIZE:
        return epiq_check_dequantize(&c->a.dequantize, &c->exec, &c->sizes);
    }
    return EPIQ_ERROR_VALUE;
}

static epiq_status run(ffi_call *c, op which, const epiq_output *out)
{
    switch (which) {
    case ACT_MUL:
        return epiq_act_mul(&c->a.act_mul, out, &c->exec);
    case RMS_NORM:
        return epiq_rms_norm(&c->a.rms_norm, out, &c->exec);
    case QUANTIZE:
        return epiq_quantize(&c->a.quantize, out, &c->exec);
    case DEQUANTIZE:
        return epiq_dequantize(&c->a.dequantize, &c->exec);
    }
    return EPIQ_ERROR_VALUE;
}

static int refused(ffi_call *c, op which, const epiq_output *out, epiq_status status)
{
    char why[TEXT_BYTES - 64] = "";
    if (status >= EPIQ_ERROR_BACKEND) {
        epiq_status usable = epiq_backend_usable(c->exec.backend, c->exec.device, why, sizeof why);
        return fail(c, "RuntimeError", "%s%s%s", epiq_status_string(status), usable == EPIQ_OK ? "" : ": ",
                    usable == EPIQ_OK ? "" : why);
    }
    switch (which) {
    case ACT_MUL:
        epiq_explain_act_mul(&c->a.act_mul, out, &c->exec, why, sizeof why);
        break;
    case RMS_NORM:
        epiq_explain_rms_norm(&c->a.rms_norm, out, &c->exec, why, sizeof why);
        break;
    case QUANTIZE:
        epiq_explain_quantize(&c->a.quantize, out, &c->exec, why, sizeof why);
        break;
    case DEQUANTIZE:
        epiq_explain_dequantize(&c->a.dequantize, &c->exec, why, sizeof why);
        break;
    }
    return fail(c, "ValueError", "%.*s", (int)strcspn(why, "\n"), why); // the reason is the first line
}

/* With all arguments read: checks, compares the buffers of codes and scales with the answer, runs. */
static void finish(ffi_call *c, op which, const dl_tensor *codes, const dl_tensor *scales)
{
    const epiq_output *out = &c->out;
    if (c->error[0] != '\0')
        return;
    rows_view v = {0};
    if (codes != NULL && !as_rows(c, "codes", codes, &v))
        return;
    if (which == DEQUANTIZE) {
        c->a.dequantize.codes = v.data;
        c->a.dequantize.codes_row_stride = v.stride;
    } else if (codes != NULL) {
        c->out.codes_out = v.data;
        c->out.codes_row_stride = v.stride;
        c->out.scale_out = scales == NULL ? NULL : data_of(scales);
    } else if (c->out.format == 0 && which != QUANTIZE) {
        out = NULL; // y alone
        if (scales != NULL) {
            fail(c, "ValueError", "scales without codes");
            return;
        }
    }
    epiq_status status = check(c, which, out);
    if (status != EPIQ_OK) {
        refused(c, which, out, status);
        return;
    }
    if (codes != NULL && !codes_fit(c, &v, which == DEQUANTIZE ? c->a.dequantize.format : c->out.format))
        return;
    int64_t *stride = which == DEQUANTIZE ? &c->a.dequantize.scale_stride : &c->out.scale_stride;
    if (scales != NULL && c->sizes.scale_bytes != 0 && !scales_fit(c, scales, stride))
        return;
    if (scales != NULL && c->sizes.scale_dtype == 0 &&
        !is_one(c, "scales", scales)) // of a tensor: it is read as a float
        return;
    status = run(c, which, out);
    if (status != EPIQ_OK)
        refused(c, which, out, status);
}

/* The inputs of a quantizer: scale inv_scale scale_ub workspace. */
static void take_scales_in(ffi_call *c)
{
    c->out.scale = take_one(c, "scale");
    c->out.inv_scale = take_one(c, "inv_scale");
    c->out.scale_ub = take_one(c, "scale_ub");
    take_workspace(c);
}

int __tvm_ffi_epiq_act_mul(void *handle, const tvm_any *args, int32_t count, tvm_any *result)
{
    (void)handle;
    ffi_call c;
    begin(&c, "epiq_act_mul", act_mul_options, quantize_options, args, count);
    epiq_act_mul_args *a = &c.a.act_mul;
    a->struct_size = sizeof *a;
    c.floats[0] = &a->alpha;
    c.floats[1] = &a->limit;
    c.floats[2] = &a->limit_after;
    c.floats[3] = &a->up_offset;
    take_x(&c, &a->x);
    a->up = take_like(&c, "up", &a->x, a->x.cols, &a->up_row_stride);
    take_scales_in(&c);
    int32_t outputs = c.next; // y has the shape that the options say
    c.next += 4;
    take_options(&c);
    c.next = outputs;
    int64_t cols = a->order == EPIQ_ORDER_SEPARATE || a->order == EPIQ_ORDER_UNGATED ? a->x.cols : a->x.cols / 2;
    const dl_tensor *codes = take(&c, "codes"), *scales = take(&c, "scales");
    a->y_out = take_like(&c, "y", &a->x, cols, &a->y_row_stride);
    c.out.inv_scale_out = take_one(&c, "inv_scale_out");
    finish(&c, ACT_MUL, codes, scales);
    return ended(&c, result);
}

int __tvm_ffi_epiq_rms_norm(void *handle, const tvm_any *args, int32_t count, tvm_any *result)
{
    (void)handle;
    ffi_call c;
    begin(&c, "epiq_rms_norm", rms_norm_options, quantize_options, args, count);
    epiq_rms_norm_args *a = &c.a.rms_norm;
    a->struct_size = sizeof *a;
    c.floats[0] = &a->eps;
    c.floats[1] = &a->weight_bias;
    take_x(&c, &a->x);
    a->residual = take_like(&c, "residual", &a->x, a->x.cols, &a->residual_row_stride);
    take_weight(&c, a);
    take_scales_in(&c);
    const dl_tensor *codes = take(&c, "codes"), *scales = take(&c, "scales");
    a->y_out = take_like(&c, "y", &a->x, a->x.cols, &a->y_row_stride);
    a->residual_out = take_like(&c, "residual_out", &a->x, a->x.cols, &a->residual_out_row_stride);
    c.out.inv_scale_out = take_one(&c, "inv_scale_out");
    take_options(&c);
    finish(&c, RMS_NORM, codes, scales);
    return ended(&c, result);
}

int __tvm_ffi_epiq_quantize(void *handle, const tvm_any *args, int32_t count, tvm_any *result)
{
    (void)handle;
    ffi_call c;
    begin(&c, "epiq_quantize", none, quantize_options, args, count);
    c.a.quantize.struct_size = sizeof c.a.quantize;
    take_x(&c, &c.a.quantize.x);
    take_scales_in(&c);
    const dl_tensor *codes = take(&c, "codes"), *scales = take(&c, "scales");
    c.out.inv_scale_out = take_one(&c, "inv_scale_out");
    take_options(&c);
    finish(&c, QUANTIZE, codes, scales);
    return ended(&c, result);
}

int __tvm_ffi_epiq_dequantize(void *handle, const tvm_any *args, int32_t count, tvm_any *result)
{
    (void)handle;
    ffi_call c;
    rows_view v;
    begin(&c, "epiq_dequantize", none, dequantize_options, args, count);
    epiq_dequantize_args *a = &c.a.dequantize;
    a->struct_size = sizeof *a;
    const dl_tensor *codes = take(&c, "codes"), *scales = take(&c, "scales");
    a->inv_scale = take_one(&c, "inv_scale");
    const dl_tensor *y = take(&c, "y");
    if (codes == NULL || y == NULL) {
        fail(&c, "TypeError", "codes and y are required");
    } else if (as_rows(&c, "y", y, &v) && want_float(&c, "y", v.dtype)) {
        a->y_out = v.data;
        a->y_row_stride = v.stride;
        a->y_dtype = float_type(v.dtype);
        a->rows = v.rows;
        a->cols = v.cols;
    }
    a->scale = scales == NULL ? NULL : data_of(scales);
    take_options(&c);
    finish(&c, DEQUANTIZE, codes, scales);
    return ended(&c, result);
}
