/* fuzz_call.c: see fuzz_call.h. SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_call.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_BYTES = 1 << 15, MOST_ROWS = 1 << 10 };

/* An address that is not NULL and that nobody may read. */
static void *nowhere(fuzz_bytes *b)
{
    return (void *)(uintptr_t)(0x1000 + 16 * fuzz_byte(b));
}

static void *perhaps(fuzz_bytes *b, uint32_t n)
{
    return fuzz_one_in(b, n) ? nowhere(b) : NULL;
}

/* A value of an enum whose block begins at `start` and has `count` values, or 0; if wild sometimes anything. */
static int32_t word(fuzz_bytes *b, int32_t start, int32_t count, int wild)
{
    uint32_t pick = fuzz_byte(b);
    if (wild && pick >= 0xF8)
        return (int32_t)fuzz_bits(b, pick >= 0xFC ? 4 : 2);
    pick %= (uint32_t)count + 1;
    return pick == 0 ? 0 : start + (int32_t)pick;
}

static int32_t required_word(fuzz_bytes *b, int32_t start, int32_t count, int wild)
{
    int32_t value = word(b, start, count, wild);
    return value == 0 && !wild ? start + 1 : value;
}

static int64_t any_integer(fuzz_bytes *b)
{
    static const int64_t edges[] = {-1, 0, 1, INT32_MAX, INT64_C(1) << 28, INT64_C(1) << 29, INT64_MAX, INT64_MIN};
    uint32_t pick = fuzz_byte(b);
    return pick < 128 ? edges[pick % 8] + (int64_t)(pick / 8 % 3) * (pick % 8 < 6) : (int64_t)fuzz_bits(b, 8);
}

static int64_t rows_of(fuzz_bytes *b, int wild)
{
    uint32_t pick = fuzz_byte(b);
    if (wild && pick >= 0xF0)
        return any_integer(b);
    return pick < 192 ? (int64_t)(pick % 12) : (int64_t)(pick - 192) * 5;
}

static int64_t cols_of(fuzz_bytes *b, int wild)
{
    uint32_t pick = fuzz_byte(b);
    if (wild && pick >= 0xF0)
        return any_integer(b);
    switch (pick % 4) {
    case 0:
        return 32 * (1 + pick / 4 % 10);
    case 1:
        return 16 * (1 + pick / 4 % 12);
    case 2:
        return 1 + pick;
    default:
        return 1000 + pick;
    }
}

static int64_t stride_of(fuzz_bytes *b, int64_t row_bytes, int wild)
{
    static const int64_t gaps[] = {0, 0, 0, 1, 2, 4, 16, 100};
    uint32_t pick = fuzz_byte(b);
    if (wild && pick >= 0xF0)
        return any_integer(b);
    pick %= 16;
    return pick < 8 || row_bytes < 0 || row_bytes > INT64_MAX / 2 ? 0 : row_bytes + gaps[pick - 8];
}

static int64_t bytes_of(epiq_dtype dtype)
{
    return dtype == EPIQ_DTYPE_F32 || dtype == EPIQ_DTYPE_I32    ? 4
           : dtype == EPIQ_DTYPE_F16 || dtype == EPIQ_DTYPE_BF16 ? 2
                                                                 : 1;
}

/* count * bytes as long as it fits. */
static int64_t product(int64_t count, int64_t bytes)
{
    int64_t result;
    return __builtin_mul_overflow(count, bytes, &result) ? INT64_MAX : result;
}

static uint32_t struct_size(fuzz_bytes *b, size_t size, unsigned char *tail, int wild)
{
    uint32_t pick = fuzz_byte(b);
    if (!wild || pick < 0xE0)
        return (uint32_t)size;
    if (pick & 1)
        return fuzz_byte(b) % (uint32_t)size;
    if (pick & 2)
        tail[fuzz_byte(b) % FUZZ_TAIL] = (unsigned char)fuzz_byte(b);
    return (uint32_t)size + fuzz_byte(b) % FUZZ_TAIL;
}

static int32_t reserved(fuzz_bytes *b, int wild)
{
    return wild && fuzz_one_in(b, 64) ? (int32_t)fuzz_bits(b, 4) : 0;
}

static epiq_matrix matrix(fuzz_bytes *b, int64_t per, int wild)
{
    epiq_matrix x = {.dtype = (epiq_dtype)required_word(b, 200, wild ? 13 : 3, wild)};
    x.rows = rows_of(b, wild);
    x.cols = product(cols_of(b, wild), per);
    x.row_stride = stride_of(b, product(x.cols, bytes_of(x.dtype)), wild);
    x.reserved = reserved(b, wild);
    return x;
}

static int32_t group(fuzz_bytes *b, int wild)
{
    static const int32_t groups[] = {0, 0, 0, 0, 16, 32, 64, 128};
    uint32_t pick = fuzz_byte(b);
    return wild && pick >= 0xF0 ? (int32_t)fuzz_bits(b, 4) : groups[pick % 8];
}

static int64_t padded_cols(fuzz_bytes *b, int64_t cols, int wild)
{
    uint32_t pick = fuzz_byte(b);
    if (wild && pick >= 0xF0)
        return any_integer(b);
    if (pick % 4 != 3 || cols < 0 || cols > 1 << 20)
        return 0;
    return (cols + 31) / 32 * 32 + 32 * (pick / 4 % 3);
}

static int64_t codes_row(epiq_format format, int64_t cols)
{
    return format == EPIQ_FORMAT_MXFP4 || format == EPIQ_FORMAT_NVFP4 ? cols / 2 : cols;
}

/* Without `wild`, fields that would have no effect with the format are mostly left at 0. */
static void output(fuzz_call *c, fuzz_bytes *b, int64_t cols, int wild)
{
    epiq_output *o = &c->out;
    o->format = (epiq_format)required_word(b, 300, 6, wild);
    int fp8 = o->format == EPIQ_FORMAT_E4M3 || o->format == EPIQ_FORMAT_E5M2;
    int block = !fp8 && o->format != EPIQ_FORMAT_INT8;
    o->grain = (epiq_grain)word(b, 400, 3, wild);
    if (block && !wild)
        o->grain = 0;
    int grouped = block || o->grain == EPIQ_GRAIN_GROUP;
    if (grouped || wild) {
        o->group = block && !wild ? 0 : group(b, wild);
        uint32_t pick = fuzz_byte(b);
        o->layout = wild    ? (epiq_layout)word(b, 500, 6, wild)
                    : block ? (epiq_layout[]){0, EPIQ_LAYOUT_ROW, EPIQ_LAYOUT_TILE128X4, EPIQ_LAYOUT_TILE8X4}[pick % 4]
                            : (epiq_layout)(pick % 5 == 0 ? 0 : 500 + pick % 5);
    }
    if (wild) {
        o->scale_dtype = (epiq_dtype)word(b, 200, 13, wild);
        o->ue8m0 = fuzz_one_in(b, 2) ? (int32_t)fuzz_byte(b) - 1 : 0;
    } else if (fp8 && grouped) {
        o->ue8m0 = (int32_t)(fuzz_byte(b) % 2);
    }
    if (wild || o->format == EPIQ_FORMAT_MXFP4 || o->format == EPIQ_FORMAT_MXFP8)
        o->mx_round = (epiq_mx_round)word(b, 1100, wild || o->format == EPIQ_FORMAT_MXFP4 ? 3 : 2, wild);
    if (wild || o->format == EPIQ_FORMAT_NVFP4)
        o->nvfp4 = (epiq_nvfp4)word(b, 1200, 2, wild);
    o->nan = (epiq_nan)word(b, 1300, 2, wild);
    o->pad_rows = (epiq_pad_rows)word(b, 1400, 2, wild);
    o->reserved = reserved(b, wild);
    o->padded_cols = padded_cols(b, cols, wild);
    o->codes_row_stride = stride_of(b, codes_row(o->format, o->padded_cols != 0 ? o->padded_cols : cols), wild);
    o->scale_stride = wild && fuzz_one_in(b, 4) ? any_integer(b) : fuzz_one_in(b, 4) ? 4 * fuzz_byte(b) : 0;
    o->codes_out = nowhere(b);
    uint32_t level = fuzz_byte(b);
    if (wild) {
        o->scale = perhaps(b, 4);
        o->inv_scale = perhaps(b, 3);
        o->inv_scale_out = perhaps(b, 4);
        o->scale_ub = perhaps(b, 4);
        o->scale_out = perhaps(b, 2);
    } else if (o->format == EPIQ_FORMAT_NVFP4) {
        o->inv_scale = level % 2 ? nowhere(b) : NULL;
        o->inv_scale_out = level % 2 ? NULL : nowhere(b);
        o->scale_out = nowhere(b);
    } else if (!block && (o->grain == EPIQ_GRAIN_TENSOR || o->grain == 0) && level % 3 != 0) {
        o->scale = level % 3 == 1 ? nowhere(b) : NULL;
        o->inv_scale = level % 3 == 1 ? NULL : nowhere(b);
    } else {
        o->scale_out = nowhere(b);
        if (fp8 && o->grain == EPIQ_GRAIN_TOKEN && level & 1)
            o->scale_ub = nowhere(b);
    }
    o->struct_size = struct_size(b, sizeof *o, c->out_tail, wild);
}

static void exec(fuzz_call *c, fuzz_bytes *b, int wild)
{
    epiq_exec *e = &c->exec;
    e->tasks = (int32_t)(fuzz_byte(b) % 9);
    e->executor = fuzz_byte(b) % 2 ? fuzz_backwards : NULL;
    e->pdl = (epiq_pdl)word(b, 1500, 3, wild);
    e->constants = fuzz_byte(b) % 4;
    if (wild) {
        e->backend = (epiq_backend)word(b, 100, 5, wild);
        e->stream = fuzz_one_in(b, 8) ? nowhere(b) : NULL;
        e->device = fuzz_one_in(b, 8) ? (int32_t)fuzz_bits(b, 4) : 0;
        e->tasks = fuzz_one_in(b, 8) ? (int32_t)fuzz_bits(b, 4) : e->tasks;
        e->workspace_bytes = fuzz_one_in(b, 8) ? any_integer(b) : 0;
        e->workspace = perhaps(b, 4);
        e->constants = fuzz_one_in(b, 8) ? (uint32_t)fuzz_bits(b, 4) : e->constants;
    }
    e->struct_size = struct_size(b, sizeof *e, c->exec_tail, wild);
}

void fuzz_call_decode(fuzz_call *c, fuzz_bytes *b)
{
    memset(c, 0, sizeof *c);
    uint32_t flags = fuzz_byte(b);
    int wild = (flags & 7) == 7;
    c->op = (int)(flags >> 3) % FUZZ_OPS;
    c->has_args = !wild || !fuzz_one_in(b, 64);
    c->has_out = (flags >> 5 & 3) != 3;
    c->has_exec = flags >> 7;
    c->seed = fuzz_byte(b);
    c->data = (int)(c->seed % 3);
    c->offsets = (uint32_t)fuzz_bits(b, 2);
    int64_t cols = 0;
    switch (c->op) {
    case FUZZ_ACT_MUL: {
        epiq_act_mul_args *a = &c->args.act_mul;
        a->act = (epiq_act)word(b, 600, 6, wild);
        a->order = (epiq_order)word(b, 700, 5, wild);
        int halves = a->order != EPIQ_ORDER_SEPARATE && a->order != EPIQ_ORDER_UNGATED;
        a->x = matrix(b, halves && !(wild && fuzz_one_in(b, 16)) ? 2 : 1, wild);
        cols = halves ? a->x.cols / 2 : a->x.cols;
        a->chain = (epiq_chain)word(b, 800, wild ? 4 : 2, wild);
        if (!wild && fuzz_byte(b) % 3 == 0)
            a->chain = EPIQ_CHAIN_DIRECT;
        a->act_round = (epiq_round)word(b, 900, 3, wild);
        uint32_t which = fuzz_byte(b); /* of the floats are given */
        a->alpha = which & 1 && (wild || a->act <= EPIQ_ACT_SILU) ? fuzz_float(b) : 0;
        a->limit = which & 2 ? fuzz_float(b) : 0;
        a->limit_after = which & 4 && (wild || a->limit == 0) ? fuzz_float(b) : 0;
        a->up_offset = which & 8 && (wild || a->order != EPIQ_ORDER_UNGATED) ? fuzz_float(b) : 0;
        a->reserved = reserved(b, wild);
        a->up = wild ? perhaps(b, 3) : a->order == EPIQ_ORDER_SEPARATE ? nowhere(b) : NULL;
        if (wild || a->up != NULL)
            a->up_row_stride = stride_of(b, product(cols, bytes_of(a->x.dtype)), wild);
        a->y_out = perhaps(b, 3);
        if (wild || a->y_out != NULL)
            a->y_row_stride = stride_of(b, product(cols, bytes_of(a->x.dtype)), wild);
        a->x.data = nowhere(b);
        a->struct_size = struct_size(b, sizeof *a, c->args_tail, wild);
        break;
    }
    case FUZZ_RMS_NORM: {
        epiq_rms_norm_args *a = &c->args.rms_norm;
        a->x = matrix(b, 1, wild);
        cols = a->x.cols;
        const int64_t row = product(cols, bytes_of(a->x.dtype));
        a->eps = fuzz_byte(b) % 4 != 3 ? 1e-6f : fuzz_float(b);
        a->weight_bias = fuzz_byte(b) % 4 != 3 ? 0 : fuzz_float(b);
        a->weight_dtype = (epiq_dtype)word(b, 200, wild ? 13 : 1, wild);
        a->chain = (epiq_chain)word(b, 800, 4, wild);
        a->sum_round = (epiq_sum_round)word(b, 1000, 2, wild);
        a->norm_round = (epiq_round)word(b, 900, 3, wild);
        a->reserved = reserved(b, wild);
        a->residual = perhaps(b, 2);
        if (wild || a->residual != NULL) {
            a->residual_row_stride = stride_of(b, row, wild);
            a->residual_out = perhaps(b, 2);
            c->residual_in_place = fuzz_byte(b) % 2;
        }
        if (wild || a->residual_out != NULL)
            a->residual_out_row_stride = stride_of(b, row, wild);
        a->weight = wild ? perhaps(b, 2) : nowhere(b);
        a->y_out = perhaps(b, 3);
        c->y_in_place = fuzz_byte(b) % 2;
        if (wild || a->y_out != NULL)
            a->y_row_stride = stride_of(b, row, wild);
        a->x.data = nowhere(b);
        a->struct_size = struct_size(b, sizeof *a, c->args_tail, wild);
        break;
    }
    case FUZZ_QUANTIZE: {
        epiq_quantize_args *a = &c->args.quantize;
        a->x = matrix(b, 1, wild);
        cols = a->x.cols;
        a->reserved = reserved(b, wild);
        a->x.data = nowhere(b);
        a->struct_size = struct_size(b, sizeof *a, c->args_tail, wild);
        c->has_out |= !wild;
        break;
    }
    default: {
        epiq_dequantize_args *a = &c->args.dequantize;
        a->format = (epiq_format)required_word(b, 300, 6, wild);
        int block = a->format > EPIQ_FORMAT_INT8;
        a->grain = (epiq_grain)word(b, 400, 3, wild);
        if (!wild)
            a->grain = block ? 0 : a->grain == 0 ? EPIQ_GRAIN_TENSOR : a->grain;
        uint32_t pick = fuzz_byte(b);
        if (wild) {
            a->group = group(b, wild);
            a->layout = (epiq_layout)word(b, 500, 6, wild);
            a->scale_dtype = (epiq_dtype)word(b, 200, 13, wild);
        } else if (block) {
            a->layout = (epiq_layout[]){0, EPIQ_LAYOUT_ROW, EPIQ_LAYOUT_TILE128X4, EPIQ_LAYOUT_TILE8X4}[pick % 4];
        } else if (a->grain == EPIQ_GRAIN_GROUP) {
            a->group = group(b, wild);
            a->layout = (epiq_layout)(pick % 5 == 0 ? 0 : 500 + pick % 5);
        }
        a->rows = rows_of(b, wild);
        a->cols = cols = cols_of(b, wild);
        a->padded_cols = padded_cols(b, cols, wild);
        a->codes_row_stride = stride_of(b, codes_row(a->format, a->padded_cols != 0 ? a->padded_cols : cols), wild);
        a->scale_stride = wild && fuzz_one_in(b, 4) ? any_integer(b) : fuzz_one_in(b, 4) ? 4 * fuzz_byte(b) : 0;
        a->codes = nowhere(b);
        uint32_t level = fuzz_byte(b) % 2;
        a->scale = wild ? perhaps(b, 2) : a->grain == EPIQ_GRAIN_TENSOR && level ? NULL : nowhere(b);
        a->inv_scale = wild                                                                         ? perhaps(b, 2)
                       : a->format == EPIQ_FORMAT_NVFP4 || (a->grain == EPIQ_GRAIN_TENSOR && level) ? nowhere(b)
                                                                                                    : NULL;
        a->y_out = nowhere(b);
        a->y_dtype = (epiq_dtype)required_word(b, 200, wild ? 13 : 3, wild);
        a->y_row_stride = stride_of(b, product(cols, bytes_of(a->y_dtype)), wild);
        a->reserved = reserved(b, wild);
        a->struct_size = struct_size(b, sizeof *a, c->args_tail, wild);
        c->has_out = 0;
        break;
    }
    }
    if (c->has_out)
        output(c, b, cols, wild);
    if (c->has_exec)
        exec(c, b, wild);
    c->rest = *b;
}

/* ---- Calls, on copies of the structs that are exactly as long as struct_size says ---- */

static void *exact(const void *from, int there)
{
    uint32_t size;
    if (!there)
        return NULL;
    memcpy(&size, from, sizeof size);
    unsigned char *copy = malloc(size > sizeof size ? size : sizeof size);
    if (copy == NULL)
        fuzz_fail("out of memory");
    memcpy(copy, from, size > sizeof size ? size : sizeof size);
    return copy;
}

typedef struct structs {
    void *args, *out, *exec;
} structs;

static structs structs_of(const fuzz_call *c)
{
    /* The tail of args must follow its own struct, not the longest of the union. */
    static const size_t sizes[FUZZ_OPS] = {sizeof(epiq_act_mul_args), sizeof(epiq_rms_norm_args),
                                           sizeof(epiq_quantize_args), sizeof(epiq_dequantize_args)};
    unsigned char args[sizeof c->args + FUZZ_TAIL];
    memcpy(args, &c->args, sizeof c->args);
    memcpy(args + sizes[c->op], c->args_tail, FUZZ_TAIL);
    unsigned char out[sizeof c->out + FUZZ_TAIL], run[sizeof c->exec + FUZZ_TAIL];
    memcpy(out, &c->out, sizeof c->out);
    memcpy(out + sizeof c->out, c->out_tail, FUZZ_TAIL);
    memcpy(run, &c->exec, sizeof c->exec);
    memcpy(run + sizeof c->exec, c->exec_tail, FUZZ_TAIL);
    return (structs){exact(args, c->has_args), exact(out, c->has_out), exact(run, c->has_exec)};
}

static void structs_free(structs *s)
{
    free(s->args);
    free(s->out);
    free(s->exec);
}

static epiq_status check(const fuzz_call *c, const structs *s, epiq_sizes *sizes)
{
    switch (c->op) {
    case FUZZ_ACT_MUL:
        return epiq_check_act_mul(s->args, s->out, s->exec, sizes);
    case FUZZ_RMS_NORM:
        return epiq_check_rms_norm(s->args, s->out, s->exec, sizes);
    case FUZZ_QUANTIZE:
        return epiq_check_quantize(s->args, s->out, s->exec, sizes);
    default:
        return epiq_check_dequantize(s->args, s->exec, sizes);
    }
}

static size_t explain(const fuzz_call *c, const structs *s, char *text, size_t bytes)
{
    switch (c->op) {
    case FUZZ_ACT_MUL:
        return epiq_explain_act_mul(s->args, s->out, s->exec, text, bytes);
    case FUZZ_RMS_NORM:
        return epiq_explain_rms_norm(s->args, s->out, s->exec, text, bytes);
    case FUZZ_QUANTIZE:
        return epiq_explain_quantize(s->args, s->out, s->exec, text, bytes);
    default:
        return epiq_explain_dequantize(s->args, s->exec, text, bytes);
    }
}

epiq_status fuzz_call_run(const fuzz_call *c)
{
    structs s = structs_of(c);
    epiq_status status;
    switch (c->op) {
    case FUZZ_ACT_MUL:
        status = epiq_act_mul(s.args, s.out, s.exec);
        break;
    case FUZZ_RMS_NORM:
        status = epiq_rms_norm(s.args, s.out, s.exec);
        break;
    case FUZZ_QUANTIZE:
        status = epiq_quantize(s.args, s.out, s.exec);
        break;
    default:
        status = epiq_dequantize(s.args, s.exec);
        break;
    }
    structs_free(&s);
    return status;
}

/* Sizes are not negative, and the place of every scale lies inside and is its own. */
static void sizes_hold(const epiq_sizes *z)
{
    const int64_t all[] = {z->codes_row_bytes, z->codes_bytes,    z->scale_bytes,   z->y_bytes,
                           z->residual_bytes,  z->scale_shape[0], z->scale_shape[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] < EPIQ_UNKNOWN)
            fuzz_fail("size %zu is %lld", i, (long long)all[i]);
    if (z->rows < 0 || z->cols < 0 || z->scale_dtype == 0)
        return;
    for (int i = 0; i < 8; i++)
        if (epiq_scale_offset(z, i < 4 ? z->rows + i : -i, i % 4) != -1 || epiq_scale_offset(z, 0, z->groups + i) != -1)
            fuzz_fail("a scale that is not there has a place");
    if (z->scale_bytes > 1 << 14 || z->scale_bytes == 0)
        return;
    const int64_t element = bytes_of(z->scale_dtype), rows = z->grain == EPIQ_GRAIN_TENSOR ? 1 : z->rows;
    const int64_t one = z->layout == EPIQ_LAYOUT_PACKED_UE8M0 ? 1 : element;
    unsigned char *taken = calloc(1, (size_t)z->scale_bytes);
    if (taken == NULL)
        fuzz_fail("out of memory");
    for (int64_t r = 0; r < rows; r++)
        for (int64_t g = 0; g < z->groups; g++) {
            int64_t at = epiq_scale_offset(z, r, g);
            if (at < 0 || at + one > z->scale_bytes)
                fuzz_fail("the scale of row %lld, group %lld is at %lld of %lld bytes", (long long)r, (long long)g,
                          (long long)at, (long long)z->scale_bytes);
            for (int64_t i = 0; i < one; i++)
                if (taken[at + i]++)
                    fuzz_fail("two scales at %lld", (long long)at);
        }
    free(taken);
}

epiq_status fuzz_call_check(const fuzz_call *c, epiq_sizes *sizes)
{
    structs s = structs_of(c);
    epiq_sizes first = {.struct_size = sizeof first}, again;
    memset(&again, 0xA5, sizeof again);
    again.struct_size = sizeof again;
    epiq_status status = check(c, &s, &first);
    if (check(c, &s, &again) != status || check(c, &s, NULL) != status)
        fuzz_fail("a check has two answers");
    if (status == EPIQ_OK) {
        if (memcmp(&first, &again, sizeof first) != 0)
            fuzz_fail("sizes hang on what was there before");
        sizes_hold(&first);
    } else if (status >= EPIQ_ERROR_BACKEND || epiq_status_string(status) == NULL) {
        fuzz_fail("a check answers %d", (int)status);
    }

    size_t room = c->seed % 3 == 0 ? c->seed : 2000;
    char *text = malloc(room != 0 ? room : 1);
    if (text == NULL)
        fuzz_fail("out of memory");
    size_t length = explain(c, &s, text, room);
    size_t kept = room == 0 ? 0 : length < room ? length : room - 1;
    if (room != 0 && strlen(text) != kept)
        fuzz_fail("explain wrote %zu of %zu characters into %zu bytes", strlen(text), length, room);
    if (length == 0 || explain(c, &s, NULL, 0) != length)
        fuzz_fail("explain has two lengths");
    for (size_t i = 0; i < kept; i++)
        if (text[i] != '\n' && (text[i] < 0x20 || text[i] > 0x7E))
            fuzz_fail("explain wrote byte 0x%02x", (unsigned char)text[i]);
    free(text);
    structs_free(&s);
    if (status != EPIQ_OK && fuzz_call_run(c) != status)
        fuzz_fail("a call is refused with another status than its check, %d", (int)status);
    *sizes = first;
    return status;
}

/* ---- Memory ---- */

static int64_t span(int64_t rows, int64_t row_bytes, int64_t stride)
{
    return rows == 0 || row_bytes == 0 ? 0 : (rows - 1) * stride + row_bytes;
}

typedef struct maker {
    fuzz_memory *m;
    fuzz_call *c;
    int64_t bytes;
    unsigned char fill;
} maker;

/* A region of its own, or in that of `like`; the address of its data. */
static void *region(maker *k, const char *name, int64_t rows, int64_t row_bytes, int64_t stride, int written,
                    int element, const fuzz_region *like)
{
    if (k->bytes < 0)
        return NULL;
    if (rows > MOST_ROWS || row_bytes > MOST_BYTES || stride > MOST_BYTES ||
        (stride > 0 && rows > MOST_BYTES / stride) || k->m->count == FUZZ_REGIONS) {
        k->bytes = -1;
        return NULL;
    }
    fuzz_region *r = &k->m->list[k->m->count];
    *r = (fuzz_region){.name = name, .rows = rows, .row_bytes = row_bytes, .stride = stride, .written = written};
    size_t bytes = (size_t)span(rows, row_bytes, stride);
    k->bytes += (int64_t)bytes;
    if (k->bytes > MOST_BYTES) {
        k->bytes = -1;
        return NULL;
    }
    uint32_t offset = k->c->offsets * 2654435761u >> (k->m->count * 2 % 28) & 15;
    if (k->c->offsets % 2 == 0)
        offset = 0;
    if (element == 4 && row_bytes == 4) /* single floats are aligned as C wants it */
        offset &= 12;
    if (like != NULL) {
        r->block = like->block;
        r->shared = 1;
    } else {
        r->block = fuzz_block_make(bytes, offset);
        if (written)
            memset(r->block.data, k->fill, bytes);
        else
            fuzz_fill(r->block.data, bytes, k->c->seed + (uint32_t)k->m->count, k->c->data, element, &k->c->rest);
    }
    r->before = malloc(bytes != 0 ? bytes : 1);
    if (r->before == NULL)
        fuzz_fail("out of memory");
    memcpy(r->before, r->block.data, bytes);
    k->m->count++;
    return r->block.data;
}

static int64_t dense(int64_t stride, int64_t row_bytes)
{
    return stride != 0 ? stride : row_bytes;
}

/* A single float that is mostly a sensible scale. */
static float *single(maker *k, const char *name, int written)
{
    float *at = region(k, name, 1, 4, 4, written, 4, NULL);
    if (at != NULL && !written && k->c->data != 0) {
        float value = k->c->seed % 5 == 0 ? 0x1p-3f : 3.7f;
        memcpy(at, &value, sizeof value);
        memcpy(k->m->list[k->m->count - 1].before, &value, sizeof value);
    }
    return at;
}

static void *scales(maker *k, const epiq_sizes *z, const char *name, int written)
{
    const int64_t element = bytes_of(z->scale_dtype);
    if (z->layout == EPIQ_LAYOUT_TILE128X4 || z->layout == EPIQ_LAYOUT_TILE8X4)
        return region(k, name, z->scale_bytes != 0, z->scale_bytes, z->scale_bytes, written, (int)element, NULL);
    return region(k, name, z->scale_shape[0], z->scale_shape[1] * element, z->scale_stride, written, (int)element,
                  NULL);
}

static void output_memory(maker *k, const epiq_sizes *z)
{
    epiq_output *o = &k->c->out;
    if (!k->c->has_out)
        return;
    o->codes_out =
        region(k, "codes_out", z->rows, z->codes_row_bytes, dense(o->codes_row_stride, z->codes_row_bytes), 1, 1, NULL);
    if (z->scale_dtype != 0)
        o->scale_out = scales(k, z, "scale_out", o->pad_rows == EPIQ_PAD_ROWS_KEEP ? 2 : 1);
    if (o->scale != NULL)
        o->scale = single(k, "scale", 0);
    if (o->inv_scale != NULL)
        o->inv_scale = single(k, "inv_scale", 0);
    if (o->inv_scale_out != NULL)
        o->inv_scale_out = single(k, "inv_scale_out", 1);
    if (o->scale_ub != NULL)
        o->scale_ub = single(k, "scale_ub", 0);
}

int fuzz_memory_make(fuzz_memory *m, fuzz_call *c, const epiq_sizes *z, unsigned char fill)
{
    maker k = {.m = m, .c = c, .fill = fill};
    memset(m, 0, sizeof *m);
    if (z->rows < 0 || z->cols < 0)
        return 0;
    switch (c->op) {
    case FUZZ_ACT_MUL: {
        epiq_act_mul_args *a = &c->args.act_mul;
        const int64_t t = bytes_of(a->x.dtype), row = z->cols * t;
        a->x.data = region(&k, "x", z->rows, a->x.cols * t, dense(a->x.row_stride, a->x.cols * t), 0, (int)t, NULL);
        if (a->order == EPIQ_ORDER_SEPARATE)
            a->up = region(&k, "up", z->rows, row, dense(a->up_row_stride, row), 0, (int)t, NULL);
        if (a->y_out != NULL || !c->has_out)
            a->y_out = region(&k, "y_out", z->rows, row, dense(a->y_row_stride, row), 1, (int)t, NULL);
        output_memory(&k, z);
        break;
    }
    case FUZZ_RMS_NORM: {
        epiq_rms_norm_args *a = &c->args.rms_norm;
        const int64_t t = bytes_of(a->x.dtype), row = z->cols * t;
        const int64_t weight = z->cols * (a->weight_dtype != 0 ? bytes_of(a->weight_dtype) : t);
        a->x.data = region(&k, "x", z->rows, row, dense(a->x.row_stride, row), 0, (int)t, NULL);
        if (a->y_out != NULL || !c->has_out) {
            fuzz_region *x = k.bytes < 0 ? NULL : &m->list[m->count - 1];
            if (x != NULL && c->y_in_place) {
                a->y_row_stride = a->x.row_stride;
                x->written = 3; /* looked at as y_out */
            } else {
                x = NULL;
            }
            a->y_out = region(&k, "y_out", z->rows, row, dense(a->y_row_stride, row), 1, (int)t, x);
        }
        if (a->residual != NULL) {
            a->residual = region(&k, "residual", z->rows, row, dense(a->residual_row_stride, row), 0, (int)t, NULL);
            fuzz_region *r = k.bytes < 0 ? NULL : &m->list[m->count - 1];
            if (a->residual_out != NULL) {
                if (r != NULL && c->residual_in_place) {
                    a->residual_out_row_stride = a->residual_row_stride;
                    r->written = 3;
                } else {
                    r = NULL;
                }
                a->residual_out =
                    region(&k, "residual_out", z->rows, row, dense(a->residual_out_row_stride, row), 1, (int)t, r);
            }
        }
        a->weight = region(&k, "weight", 1, weight, weight, 0, (int)t, NULL);
        output_memory(&k, z);
        break;
    }
    case FUZZ_QUANTIZE: {
        epiq_quantize_args *a = &c->args.quantize;
        const int64_t t = bytes_of(a->x.dtype), row = z->cols * t;
        a->x.data = region(&k, "x", z->rows, row, dense(a->x.row_stride, row), 0, (int)t, NULL);
        output_memory(&k, z);
        break;
    }
    default: {
        epiq_dequantize_args *a = &c->args.dequantize;
        const int64_t t = bytes_of(a->y_dtype), row = z->cols * t;
        a->codes = region(&k, "codes", z->rows, z->codes_row_bytes, dense(a->codes_row_stride, z->codes_row_bytes), 0,
                          1, NULL);
        if (z->scale_dtype != 0)
            a->scale = scales(&k, z, "scale", 0);
        else if (a->scale != NULL)
            a->scale = single(&k, "scale", 0);
        if (a->inv_scale != NULL || a->format == EPIQ_FORMAT_NVFP4)
            a->inv_scale = single(&k, "inv_scale", 0);
        if (a->grain == EPIQ_GRAIN_TENSOR && a->scale == NULL && a->inv_scale == NULL)
            a->inv_scale = single(&k, "inv_scale", 0);
        a->y_out = region(&k, "y_out", z->rows, row, dense(a->y_row_stride, row), 1, (int)t, NULL);
        break;
    }
    }
    if (k.bytes < 0)
        fuzz_memory_free(m);
    return k.bytes >= 0;
}

/* Compares a byte range that is not one of rows, unless `rows_too`. */
static void compare(const fuzz_region *r, const unsigned char *a, const unsigned char *b, int rows, int gaps,
                    const char *what)
{
    const size_t bytes = (size_t)span(r->rows, r->row_bytes, r->stride);
    for (size_t i = 0; i < bytes; i++) {
        const int in_row = (int64_t)i % r->stride < r->row_bytes;
        if ((in_row ? rows : gaps) && a[i] != b[i])
            fuzz_fail("%s: byte %zu, %s, %s: 0x%02x and 0x%02x", r->name, i, in_row ? "in a row" : "in a gap", what,
                      a[i], b[i]);
    }
}

void fuzz_memory_verify(const fuzz_memory *m)
{
    for (int i = 0; i < m->count; i++) {
        const fuzz_region *r = &m->list[i];
        fuzz_guards_hold(&r->block, r->name);
        if (r->written != 3)
            compare(r, r->before, r->block.data, r->written == 0, 1, "changed");
    }
}

void fuzz_memory_untouched(const fuzz_memory *m)
{
    for (int i = 0; i < m->count; i++) {
        fuzz_guards_hold(&m->list[i].block, m->list[i].name);
        compare(&m->list[i], m->list[i].before, m->list[i].block.data, 1, 1, "changed by a refused call");
    }
}

void fuzz_memory_same(const fuzz_memory *a, const fuzz_memory *b, int whole)
{
    for (int i = 0; i < a->count; i++) {
        const fuzz_region *r = &a->list[i];
        if (whole || r->written == 1)
            compare(r, r->block.data, b->list[i].block.data, 1, whole, "differs between two runs");
    }
}

void fuzz_memory_free(fuzz_memory *m)
{
    for (int i = 0; i < m->count; i++) {
        if (!m->list[i].shared)
            fuzz_block_free(&m->list[i].block);
        free(m->list[i].before);
    }
    m->count = 0;
}

epiq_backend fuzz_backend(uint32_t number)
{
    static epiq_backend usable[8];
    static uint32_t count;
    if (count == 0)
        for (int32_t b = EPIQ_BACKEND_C; b < EPIQ_BACKEND_CUDA; b++)
            if (epiq_backend_usable((epiq_backend)b, 0, NULL, 0) == EPIQ_OK)
                usable[count++] = (epiq_backend)b;
    return usable[number % count];
}

void fuzz_backwards(void *data, int32_t tasks, epiq_task task, void *work)
{
    (void)data;
    for (int32_t i = tasks; i-- > 0;)
        task(work, i);
}
