/* fuzz_ffi.c: packed arguments of the tvm-ffi entry points.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An input begins as a call that can succeed, of which any argument may be exchanged: another type, shape, strides,
 * element type, words. A tensor has exactly the memory that its shape and strides describe; one that describes more
 * than a fuzzer should spend has none (data NULL). Refused means: words, and no byte written. */
#include "fuzz.h"

#include "ffi/tvm_ffi.h"

#include <epiq/epiq.h>

#include <stdlib.h>

enum { MOST_ARGS = 20, MOST_DIMS = 6, MOST_BYTES = 1 << 16 };

typedef struct box {
    tvm_tensor_object object;
    tvm_str_object string;
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
    fuzz_block block;
    unsigned char *before;
    char text[80];
} box;

typedef struct packed {
    tvm_any args[MOST_ARGS];
    box boxes[MOST_ARGS];
    int count, boxed;
    int64_t rows, cols;
    dl_dtype type; /* of x */
    uint32_t seed;
} packed;

static const dl_dtype types[] = {
    {DL_BFLOAT, 16, 1}, {DL_FLOAT, 16, 1}, {DL_FLOAT, 32, 1}, {DL_UINT, 8, 1},    {DL_INT, 8, 1},    {DL_E4M3FN, 8, 1},
    {DL_E5M2, 8, 1},    {DL_INT, 32, 1},   {DL_UINT, 32, 1},  {DL_E8M0FNU, 8, 1}, {DL_E2M1FN, 4, 1}, {DL_E2M1FN, 4, 2},
    {DL_INT, 16, 1},    {DL_FLOAT, 64, 1}, {DL_UINT, 1, 1},   {DL_FLOAT, 32, 4},
};
enum { BF16, F16, F32, U8, I8, E4M3, E5M2, I32, TYPES = sizeof types / sizeof *types };

/* Bytes from the lowest to behind the highest element, and of those below data; -1: too many. */
static int64_t extent(const dl_tensor *t, int64_t *below)
{
    const int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes, most = (int64_t)MOST_BYTES * 8;
    int64_t low = 0, high = bits, dense = 1;
    *below = 0;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0)
            return 0;
    for (int i = t->ndim - 1; i >= 0; i--) {
        int64_t stride = t->strides != NULL ? t->strides[i] : dense, step;
        if (t->shape[i] < 0 || __builtin_mul_overflow(stride, t->shape[i] - 1, &step) ||
            __builtin_mul_overflow(step, bits, &step) || step > most || step < -most)
            return -1;
        high += step > 0 ? step : 0;
        low += step < 0 ? step : 0;
        if (high - low > most || __builtin_mul_overflow(dense, t->shape[i], &dense))
            return -1;
    }
    *below = (-low + 7) / 8;
    return *below + (high + 7) / 8;
}

static box *next_box(packed *p)
{
    return &p->boxes[p->boxed++];
}

/* Memory for a tensor of which the rest is set. */
static void back(packed *p, box *x, uint64_t offset)
{
    dl_tensor *t = &x->object.tensor;
    int64_t below, bytes = extent(t, &below);
    t->byte_offset = offset;
    if (bytes < 0 || offset > 64) {
        t->data = NULL;
        return;
    }
    x->block = fuzz_block_make((size_t)bytes + offset, 0);
    fuzz_fill(x->block.data, x->block.bytes, p->seed + (uint32_t)p->boxed, (int)p->seed % 2, 2, NULL);
    if (bytes == 4) { /* perhaps a scale */
        const float one = 0.75f;
        memcpy(x->block.data + offset, &one, sizeof one);
    }
    x->before = malloc(x->block.bytes != 0 ? x->block.bytes : 1);
    if (x->before == NULL)
        fuzz_fail("out of memory");
    memcpy(x->before, x->block.data, x->block.bytes);
    t->data = x->block.data + below;
}

static tvm_any boxed(box *x, int object)
{
    x->object.object.type_index = TVM_TENSOR;
    if (object)
        return (tvm_any){.type_index = TVM_TENSOR, .pointer = &x->object};
    return (tvm_any){.type_index = TVM_DL_TENSOR, .pointer = &x->object.tensor};
}

static void put(packed *p, tvm_any any)
{
    p->args[p->count++] = any;
}

static void put_none(packed *p)
{
    put(p, (tvm_any){.type_index = TVM_NONE});
}

static void put_tensor(packed *p, dl_dtype type, int ndim, int64_t first, int64_t second)
{
    box *x = next_box(p);
    dl_tensor *t = &x->object.tensor;
    x->shape[0] = first;
    x->shape[1] = second;
    *t = (dl_tensor){.device = {DL_CPU, 0}, .ndim = ndim, .dtype = type, .shape = x->shape};
    back(p, x, 0);
    put(p, boxed(x, p->seed & 4 ? 1 : 0));
}

static void put_words(packed *p, const char *words)
{
    put(p, (tvm_any){.type_index = TVM_RAW_STR, .text = words});
}

static void put_float(packed *p, double value)
{
    put(p, (tvm_any){.type_index = TVM_FLOAT, .number = value});
}

/* ---- Calls that can succeed ---- */

typedef struct quantizer {
    const char *words;
    int codes; /* bits of a code; 0: no codes */
    int scale; /* an index of types; -1: no scales */
    int per;   /* columns per scale; 0: one a row */
    int tiled, turned;
    int level; /* 0: none, 1: scale, 2: inv_scale, 3: inv_scale_out */
} quantizer;

static const quantizer quantizers[] = {
    {"format=e4m3 grain=token", 8, F32, 0, 0, 0, 0},
    {"format=e4m3 grain=tensor", 8, -1, 0, 0, 0, 1},
    {"format=int8, grain=tensor", 8, -1, 0, 0, 0, 2},
    {"format=int8", 8, F32, 0, 0, 0, 0},
    {"format=mxfp8", 8, U8, 32, 0, 0, 0},
    {"format=mxfp4 mx_round=floor layout=tile8x4", 4, U8, 32, 8, 0, 0},
    {"format=nvfp4", 4, E4M3, 16, 0, 0, 2},
    {"format=nvfp4 layout=tile128x4", 4, U8, 16, 128, 0, 2},
    {"format=nvfp4 nvfp4=ieee", 4, U8, 16, 0, 0, 3},
    {"format=e5m2 grain=group group=64 layout=col", 8, F32, 64, 0, 1, 0},
    {"format=e4m3 grain=group ue8m0=1", 8, F32, 128, 0, 0, 0},
    {" ", 0, -1, 0, 0, 0, 0},
};

static void put_level(packed *p, int there)
{
    if (there)
        put_tensor(p, types[F32], 1, 1, 0);
    else
        put_none(p);
}

static void put_codes_and_scales(packed *p, const quantizer *q, int64_t cols)
{
    if (q->codes == 0)
        put_none(p);
    else
        put_tensor(p, types[U8], 2, p->rows, cols * q->codes / 8);
    int64_t groups = q->per == 0 ? 1 : (cols + q->per - 1) / q->per, rows = p->rows;
    if (q->tiled) {
        groups = (groups + 3) / 4 * 4;
        rows = (rows + q->tiled - 1) / q->tiled * q->tiled;
    }
    if (q->scale < 0)
        put_none(p);
    else
        put_tensor(p, types[q->scale], 2, q->turned ? groups : rows, q->turned ? rows : groups);
}

static void put_call(packed *p, uint32_t op, uint32_t choice)
{
    const quantizer *q = &quantizers[choice % (sizeof quantizers / sizeof *quantizers)];
    const int gated = op == 0 && !(p->seed & 8);
    if (op == 3) { /* codes scales inv_scale y words */
        put_codes_and_scales(p, q, p->cols);
        if (q->level == 1)
            put_tensor(p, types[F32], 1, 1, 0), p->args[1] = p->args[--p->count];
        put_level(p, q->level >= 2);
        put_tensor(p, p->type, 2, p->rows, p->cols);
        put_words(p, q->words);
        return;
    }
    put_tensor(p, p->type, 2, p->rows, gated ? 2 * p->cols : p->cols);
    if (op == 0) { /* up */
        if (gated)
            put_none(p);
        else
            put_tensor(p, p->type, 2, p->rows, p->cols);
    } else if (op == 1) { /* residual weight */
        if (p->seed & 16)
            put_tensor(p, p->type, 2, p->rows, p->cols);
        else
            put_none(p);
        put_tensor(p, p->type, 1, p->cols, 0);
    }
    put_level(p, q->level == 1);
    put_level(p, q->level == 2);
    put_none(p); /* scale_ub */
    put_none(p); /* workspace */
    put_codes_and_scales(p, q, p->cols);
    if (op <= 1) { /* y, and for rms_norm residual_out */
        if (p->seed & 32 || q->codes == 0)
            put_tensor(p, p->type, 2, p->rows, p->cols);
        else
            put_none(p);
    }
    if (op == 1) {
        if ((p->seed & 80) == 80)
            put_tensor(p, p->type, 2, p->rows, p->cols);
        else
            put_none(p);
    }
    put_level(p, q->level == 3);
    if (op == 1)
        put_float(p, 1e-6);
    if (op == 0 && !gated)
        put_words(p, "order=separate");
    if (q->codes != 0)
        put_words(p, q->words);
}

/* ---- Arguments exchanged ---- */

static int64_t any_dimension(fuzz_bytes *b, const packed *p)
{
    static const int64_t odd[] = {-1, INT64_MIN, INT64_MAX, INT64_C(1) << 40, INT64_C(1) << 31, INT64_C(1) << 62};
    uint32_t pick = fuzz_byte(b);
    switch (pick % 8) {
    case 0:
        return p->rows;
    case 1:
        return p->cols;
    case 2:
        return p->cols * 2;
    case 3:
        return p->cols / 2;
    case 4:
        return p->cols / 16;
    case 5:
        return 1;
    case 6:
        return pick / 8;
    default:
        return pick >= 192 ? (int64_t)fuzz_bits(b, 8) : odd[pick / 8 % 6];
    }
}

static tvm_any any_tensor(packed *p, fuzz_bytes *b)
{
    box *x = next_box(p);
    dl_tensor *t = &x->object.tensor;
    uint32_t how = fuzz_byte(b), type = fuzz_byte(b);
    t->ndim = (int)(how % 8) - (how % 8 == 7 ? 8 : 0);
    t->ndim = t->ndim > MOST_DIMS ? MOST_DIMS : t->ndim;
    if (type < 224)
        t->dtype = type < 64 ? p->type : types[type % TYPES];
    else
        t->dtype = (dl_dtype){(uint8_t)fuzz_byte(b), (uint8_t)fuzz_byte(b), (uint16_t)fuzz_byte(b)};
    t->device = (dl_device){DL_CPU, 0};
    if (how >= 240)
        t->device = (dl_device){(int32_t)fuzz_byte(b) % 16, (int32_t)fuzz_byte(b) % 3};
    for (int i = 0; i < t->ndim; i++)
        x->shape[i] = any_dimension(b, p);
    int64_t dense = 1;
    t->shape = x->shape;
    if (how & 8) {
        t->strides = x->strides;
        for (int i = t->ndim - 1; i >= 0; i--) {
            uint32_t gap = fuzz_byte(b);
            int64_t more = gap < 128 ? 0 : gap < 240 ? (int64_t)(gap % 32) : any_dimension(b, p);
            if (i < t->ndim - 1 || gap >= 240)
                if (__builtin_add_overflow(dense, more, &dense))
                    dense = more;
            x->strides[i] = dense;
            if (__builtin_mul_overflow(dense, x->shape[i], &dense))
                dense = 1;
        }
    }
    /* Elements are aligned, as DLPack wants them. */
    back(p, x, how & 16 ? (how & 32 ? 64 : 4 * (fuzz_byte(b) % 64)) : 0);
    return boxed(x, how & 64 ? 1 : 0);
}

static const char *const words[] = {"format=nvfp4",    "layout=col",
                                    "group=32",        "ue8m0=1",
                                    "grain=group",     "nan=saturate",
                                    "order=separate",  "chain=direct",
                                    "padded_cols=64",  "backend=c",
                                    "backend=cuda",    "scale_dtype=f32",
                                    "act=relu2",       "sum_round=t",
                                    "pad_rows=keep",   "norm_round=once",
                                    "group=999999999", "=",
                                    "format=",         ",",
                                    "act_round=none"};

static tvm_any any_string(packed *p, fuzz_bytes *b, int kind)
{
    box *x = next_box(p);
    size_t used = 0;
    for (uint32_t n = 1 + fuzz_byte(b) % 4; n > 0; n--) {
        uint32_t pick = fuzz_byte(b);
        if (pick < 192) {
            const char *word = words[pick % (sizeof words / sizeof *words)];
            for (; *word != '\0' && used < sizeof x->text - 2; word++)
                x->text[used++] = *word;
        } else {
            for (uint32_t i = pick % 16; i > 0 && used < sizeof x->text - 2; i--)
                x->text[used++] = (char)fuzz_byte(b);
        }
        x->text[used++] = ' ';
    }
    used -= fuzz_byte(b) % 2;
    /* Exactly as many bytes as it has. */
    x->block = fuzz_block_make(used + (kind == TVM_RAW_STR), 0);
    memcpy(x->block.data, x->text, x->block.bytes);
    if (kind == TVM_RAW_STR) {
        x->block.data[used] = 0;
        return (tvm_any){.type_index = TVM_RAW_STR, .text = (const char *)x->block.data};
    }
    if (kind == TVM_SMALL_STR) {
        tvm_any any = {.type_index = TVM_SMALL_STR, .small_size = (uint32_t)fuzz_byte(b)};
        memcpy(any.bytes, x->text, sizeof any.bytes);
        return any;
    }
    x->string = (tvm_str_object){.object = {.type_index = TVM_STR}, .data = (const char *)x->block.data, .size = used};
    return (tvm_any){.type_index = TVM_STR, .pointer = &x->string};
}

static tvm_any any_argument(packed *p, fuzz_bytes *b)
{
    uint32_t kind = fuzz_byte(b);
    switch (kind % 12) {
    case 0:
        return (tvm_any){.type_index = TVM_NONE};
    case 1:
        return (tvm_any){.type_index = TVM_INT, .integer = 100 * (int64_t)(fuzz_byte(b) % 16) + fuzz_byte(b) % 8};
    case 2:
        return (tvm_any){.type_index = TVM_INT, .integer = (int64_t)fuzz_bits(b, 8)};
    case 3:
        return (tvm_any){.type_index = TVM_FLOAT, .number = (double)fuzz_float(b) * (kind & 128 ? 1e300 : 1)};
    case 4:
        return any_string(p, b, TVM_RAW_STR);
    case 5:
        return any_string(p, b, TVM_SMALL_STR);
    case 6:
        return any_string(p, b, TVM_STR);
    case 7: { /* a type that has no pointer, or does not exist */
        int32_t type = (int32_t)fuzz_bits(b, 1 + (int)(kind / 12) % 4);
        int points = type == TVM_DL_TENSOR || type == TVM_RAW_STR || type == TVM_STR || type == TVM_TENSOR;
        return (tvm_any){.type_index = points ? TVM_BOOL : type};
    }
    case 8:
        return (tvm_any){.type_index = kind & 128 ? TVM_POINTER : TVM_BOOL, .integer = kind & 64};
    default:
        return any_tensor(p, b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const entries[])(void *, const tvm_any *, int32_t, tvm_any *) = {
        __tvm_ffi_epiq_act_mul, __tvm_ffi_epiq_rms_norm, __tvm_ffi_epiq_quantize, __tvm_ffi_epiq_dequantize};
    static packed p;
    fuzz_bytes bytes = {data, size}, *b = &bytes;
    memset(&p, 0, sizeof p);
    uint32_t op = fuzz_byte(b) % 4, choice = fuzz_byte(b);
    p.seed = fuzz_byte(b);
    p.type = types[choice / 16 % 3];
    p.rows = fuzz_byte(b) % 9;
    p.cols = 32 * (1 + fuzz_byte(b) % 6);
    if (choice >= 240)
        p.cols = fuzz_byte(b);
    put_call(&p, op, choice);
    uint32_t changes = fuzz_byte(b) % 6;
    for (uint32_t i = 0; i < changes && p.boxed < MOST_ARGS - 1; i++) {
        int at = (int)(fuzz_byte(b) % 32);
        if (at < p.count)
            p.args[at] = any_argument(&p, b);
        else if (at < 28 && p.count < MOST_ARGS)
            put(&p, any_argument(&p, b));
        else if (p.count > 0)
            p.count--;
    }
    /* The array has no element more than `count`. */
    fuzz_block args = fuzz_block_make((size_t)p.count * sizeof(tvm_any), 0);
    memcpy(args.data, p.args, args.bytes);

    tvm_any result = {.type_index = TVM_INT};
    int status = entries[op](NULL, (const tvm_any *)(const void *)args.data, p.count, &result);
    if (status == 0 ? result.type_index != TVM_NONE : status != -1 || result.type_index != TVM_RAW_STR)
        fuzz_fail("status %d with a result of type %d", status, (int)result.type_index);
    if (status != 0 && (strlen(result.text) < 10 || strncmp(result.text, "epiq_", 5) != 0))
        fuzz_fail("refused with '%s'", result.text);
    for (int i = 0; i < p.boxed; i++) {
        box *x = &p.boxes[i];
        if (x->block.block == NULL)
            continue;
        fuzz_guards_hold(&x->block, "tensor");
        if (status != 0 && x->before != NULL && memcmp(x->before, x->block.data, x->block.bytes) != 0)
            fuzz_fail("a refused call wrote: %s", result.text);
        fuzz_block_free(&x->block);
        free(x->before);
    }
    fuzz_block_free(&args);
    return 0;
}
