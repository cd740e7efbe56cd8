/* check_harness.c: memory of a call, its data, the comparison of two images, and lists of combinations.
 * SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "check_harness.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The arguments of one call, whichever it is. */
typedef struct call {
    epiq_act_mul_args act_mul;
    epiq_rms_norm_args rms_norm;
    epiq_quantize_args quantize;
    epiq_dequantize_args dequantize;
    epiq_output output;
    const epiq_output *out; /* &output or NULL */
} call;

/* ---- Pseudo-random numbers (splitmix64) ---- */

uint64_t rng_bits(rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t rng_below(rng *r, int64_t n)
{
    return (int64_t)(rng_bits(r) >> 33) % n;
}

float rng_float(rng *r, float low, float high)
{
    return low + (high - low) * ((float)(rng_bits(r) >> 40) * 0x1p-24f);
}

int64_t rng_from(rng *r, const int64_t *list, size_t count)
{
    return list[rng_below(r, (int64_t)count)];
}

static void random_bytes(rng *r, unsigned char *to, int64_t bytes)
{
    for (; bytes >= 8; bytes -= 8, to += 8) {
        uint64_t bits = rng_bits(r);
        memcpy(to, &bits, 8);
    }
    uint64_t bits = rng_bits(r);
    memcpy(to, &bits, (size_t)bytes);
}

/* ---- Printing and reading combinations ---- */

void combination_print(const combination *c)
{
#define E(name)                                                                                                        \
    if (c->name != 0)                                                                                                  \
        fprintf(stderr, " " #name "=%" PRId64 ":%s", c->name, c->name > 100 ? epiq_word((int32_t)c->name) : "?");
#define I(name)                                                                                                        \
    if (c->name != 0)                                                                                                  \
        fprintf(stderr, " " #name "=%" PRId64, c->name);
#define F(name)                                                                                                        \
    if (oracle_bits(c->name) != 0)                                                                                     \
        fprintf(stderr, " " #name "=0x%08" PRIx32 ":%g", oracle_bits(c->name), (double)c->name);
    fprintf(stderr, "combination:");
    COMBINATION_FIELDS(E, I, F)
    fprintf(stderr, "\n");
#undef E
#undef I
#undef F
}

/* One word of a printed combination; 0 if it is none. */
static int combination_read(combination *c, const char *text)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL)
        return strcmp(text, "combination:") == 0;
    size_t length = (size_t)(equals - text);
#define I(name)                                                                                                        \
    if (strlen(#name) == length && memcmp(text, #name, length) == 0)                                                   \
        return c->name = strtoll(equals + 1, NULL, 0), 1;
#define F(name)                                                                                                        \
    if (strlen(#name) == length && memcmp(text, #name, length) == 0)                                                   \
        return c->name = oracle_float((uint32_t)strtoul(equals + 1, NULL, 0)), 1;
    COMBINATION_FIELDS(I, I, F)
#undef I
#undef F
    return 0;
}

void fail_combination(const combination *c, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "\n");
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
    combination_print(c);
    fail();
}

/* ---- What epiq.h offers ---- */

const epiq_dtype check_dtypes[3] = {EPIQ_DTYPE_F32, EPIQ_DTYPE_F16, EPIQ_DTYPE_BF16};

int64_t block_of(int64_t format)
{
    switch (format) {
    case EPIQ_FORMAT_MXFP8:
    case EPIQ_FORMAT_MXFP4:
        return 32;
    case EPIQ_FORMAT_NVFP4:
        return 16;
    default:
        return 1;
    }
}

int header_offers(const combination *c)
{
    int fp8 = c->format == EPIQ_FORMAT_E4M3 || c->format == EPIQ_FORMAT_E5M2;
    switch (c->grain) {
    case EPIQ_GRAIN_TENSOR:
        return fp8 || (c->format == EPIQ_FORMAT_INT8 && c->level != LEVEL_NONE);
    case EPIQ_GRAIN_GROUP:
        if (block_of(c->format) > 1)
            return c->layout == EPIQ_LAYOUT_ROW || c->layout == EPIQ_LAYOUT_TILE128X4 ||
                   c->layout == EPIQ_LAYOUT_TILE8X4;
        return fp8 && c->layout != EPIQ_LAYOUT_TILE128X4 && c->layout != EPIQ_LAYOUT_TILE8X4;
    default:
        return 1;
    }
}

/* ---- Data ---- */

static const uint32_t special_f32[] = {
    0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff, 0x7f800000, 0xff800000, 0x00000000, 0x80000000,
    0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x00400000,
};
static const uint16_t special_bf16[] = {0x7fc0, 0xffc0, 0x7f81, 0x7fff, 0x7f80, 0xff80, 0x0000, 0x8000,
                                        0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x7f7f, 0xff7f, 0x0040};
static const uint16_t special_f16[] = {0x7e00, 0xfe00, 0x7c01, 0x7fff, 0x7c00, 0xfc00, 0x0000, 0x8000,
                                       0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x0200};

/* Test data need no rounding: cut off. */
static uint16_t f16_toward_zero(float x)
{
    uint32_t u = oracle_bits(x), sign = u >> 16 & 0x8000, mantissa = (u & 0x7fffff) | 0x800000;
    int exponent = (int)(u >> 23 & 255) - 127;
    if (exponent > 15)
        return (uint16_t)(sign | (exponent == 128 ? 0x7c00 : 0x7bff));
    if (exponent < -24)
        return (uint16_t)sign;
    if (exponent < -14)
        return (uint16_t)(sign | mantissa >> (-1 - exponent));
    return (uint16_t)(sign | (uint32_t)(exponent + 15) << 10 | (mantissa >> 13 & 0x3ff));
}

static void put(epiq_dtype dtype, unsigned char *at, float x)
{
    uint16_t half;
    switch (dtype) {
    case EPIQ_DTYPE_F32:
        memcpy(at, &x, 4);
        return;
    case EPIQ_DTYPE_F16:
        half = f16_toward_zero(x);
        break;
    default:
        half = (uint16_t)(oracle_bits(x) >> 16);
        break;
    }
    memcpy(at, &half, 2);
}

static void put_special(epiq_dtype dtype, unsigned char *at, rng *r)
{
    int64_t i = rng_below(r, 16);
    if (dtype == EPIQ_DTYPE_F32)
        memcpy(at, &special_f32[i], 4);
    else
        memcpy(at, dtype == EPIQ_DTYPE_F16 ? &special_f16[i] : &special_bf16[i], 2);
}

static float sign_of(rng *r)
{
    return rng_bits(r) & 1 ? -1.0f : 1.0f;
}

static float normal(rng *r)
{
    uint64_t b = rng_bits(r);
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(b >> (16 * i) & 0xffff) * 0x1p-16f - 0.5f;
    return sum * 1.75f;
}

/* A small even exponent range that every dtype has. */
static float power(rng *r, epiq_dtype dtype)
{
    return ldexpf(1.0f, (int)rng_below(r, dtype == EPIQ_DTYPE_F16 ? 12 : 40) - (dtype == EPIQ_DTYPE_F16 ? 8 : 20));
}

static float halfway(rng *r, int format)
{
    static const float e2m1[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    if (format == 0)
        return e2m1[rng_below(r, 7)];
    if (format == 1)
        return (float)rng_below(r, 127) + 0.5f;
    uint8_t code = (uint8_t)rng_below(r, 0x7e);
    return (oracle_decode_e4m3(code) + oracle_decode_e4m3((uint8_t)(code + 1))) / 2;
}

static void fill_ties(epiq_dtype dtype, unsigned char *at, int64_t element, int64_t n, rng *r)
{
    static const float largest[] = {6, 127, 448, 448};
    int format = (int)rng_below(r, 3);
    float scale = power(r, dtype);
    for (int64_t i = 0; i < n; i++)
        put(dtype, at + i * element, sign_of(r) * scale * (i % 16 == 0 ? largest[format] : halfway(r, format)));
}

static void fill_edge(epiq_dtype dtype, unsigned char *at, int64_t element, int64_t n, rng *r)
{
    static const float threshold[] = {1, 1.5f, 1.75f, 1.875f, 1.125f, 1.3125f, 1.984375f};
    float edge = 1;
    for (int64_t i = 0; i < n; i++) {
        if (i % 16 == 0)
            edge = power(r, dtype) * threshold[rng_below(r, (int64_t)COUNT(threshold))];
        put(dtype, at + i * element, i % 16 == 5 ? edge * sign_of(r) : edge * rng_float(r, -0.99f, 0.99f));
        if (i % 16 != 5)
            continue;
        int step = (int)rng_below(r, 3) - 1; /* one unit in the last place of T */
        uint32_t bits = 0;
        memcpy(&bits, at + i * element, (size_t)element);
        bits += (uint32_t)step;
        memcpy(at + i * element, &bits, (size_t)element);
    }
}

static void fill_tiny(epiq_dtype dtype, unsigned char *at, int64_t element, int64_t n, rng *r)
{
    static const float amax[] = {6.3e-38f, 0x1.8p-8f,  1e-10f,        0x1p-126f, 0x1p-149f, 1.953125e-3f,
                                 1.9e-3f,  0x1p-112f,  1.317e-36f,    3.7e-37f,  1e-40f,    5.9e-8f,
                                 4e-8f,    0x1.8p-24f, 1.7e-32f,      1e-20f,    2e-5f,     0x1.800002p-8f,
                                 1e-1f,    4.48e-8f,   0x1.bffffep-3f};
    float largest = amax[rng_below(r, (int64_t)COUNT(amax))];
    for (int64_t i = 0; i < n; i++)
        put(dtype, at + i * element, rng_below(r, 6) == 0 ? 0.0f : largest * rng_float(r, -1.0f, 1.0f));
    put(dtype, at + rng_below(r, n) * element, largest * sign_of(r));
}

static void fill_row(int64_t kind, epiq_dtype dtype, unsigned char *at, int64_t n, rng *r)
{
    int64_t element = (int64_t)oracle_dtype_bytes(dtype);
    float scale;
    if (kind == DATA_ANY) {
        kind = rng_below(r, DATA_KINDS + 4); /* some of them more often */
        if (kind == DATA_ANY || kind >= DATA_KINDS)
            kind = DATA_NORMAL;
    }
    switch (kind) {
    case DATA_PATTERN:
        random_bytes(r, at, n * element);
        return;
    case DATA_SPECIAL:
        for (int64_t i = 0; i < n; i++)
            if (rng_below(r, 8) == 0)
                put_special(dtype, at + i * element, r);
            else
                put(dtype, at + i * element, normal(r) * 4);
        return;
    case DATA_ZERO:
        for (int64_t i = 0; i < n; i++)
            put(dtype, at + i * element, sign_of(r) * 0.0f);
        if (rng_bits(r) & 1)
            put(dtype, at + rng_below(r, n) * element, normal(r));
        return;
    case DATA_TINY:
        fill_tiny(dtype, at, element, n, r);
        return;
    case DATA_HUGE:
        scale = dtype == EPIQ_DTYPE_F16 ? 65504.0f : FLT_MAX;
        if (rng_bits(r) & 1)
            scale *= 0x1p-6f;
        for (int64_t i = 0; i < n; i++)
            put(dtype, at + i * element, scale * rng_float(r, -1.0f, 1.0f));
        return;
    case DATA_TIES:
        fill_ties(dtype, at, element, n, r);
        return;
    case DATA_EDGE:
        fill_edge(dtype, at, element, n, r);
        return;
    case DATA_GATE:
        scale = rng_bits(r) & 1 ? 120.0f : 20.0f;
        for (int64_t i = 0; i < n; i++)
            put(dtype, at + i * element, scale * rng_float(r, -1.0f, 1.0f));
        return;
    case DATA_ONE:
        for (int64_t i = 0; i < n; i++)
            put(dtype, at + i * element, 1.0f);
        return;
    case DATA_NAN:
        for (int64_t i = 0; i < n; i++)
            put(dtype, at + i * element, NAN);
        return;
    default:
        scale = ldexpf(1.0f, (int)rng_below(r, 7) - 3);
        for (int64_t i = 0; i < n; i++)
            put(dtype, at + i * element, normal(r) * (i * 7 % 41 == 3 ? 32 * scale : scale)); /* outlier channels */
        return;
    }
}

static void fill_weight(epiq_dtype dtype, unsigned char *at, int64_t n, rng *r)
{
    int64_t element = (int64_t)oracle_dtype_bytes(dtype), kind = rng_below(r, 4);
    if (kind == 0)
        fill_row(DATA_SPECIAL, dtype, at, n, r);
    else
        for (int64_t i = 0; i < n; i++)
            put(dtype, at + i * element, kind == 1 ? normal(r) * 0.1f : 1.0f + normal(r) * 0.5f);
}

/* Stored scales for dequantize. */
static void fill_scales(const scenario *s, unsigned char *at, rng *r)
{
    const region *g = &s->regions[R_SCALES];
    for (int64_t line = 0; line < g->rows; line++)
        if (s->layout.unit == 4)
            fill_row(rng_bits(r) & 1 ? DATA_NORMAL : DATA_PATTERN, EPIQ_DTYPE_F32, at + line * g->stride,
                     g->row_bytes / 4, r);
        else
            random_bytes(r, at + line * g->stride, g->row_bytes);
}

/* ---- Scenarios ---- */

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static int four_bit(int64_t format)
{
    return format == EPIQ_FORMAT_MXFP4 || format == EPIQ_FORMAT_NVFP4;
}

static int halves(const combination *c)
{
    return c->op == OP_ACT_MUL && c->order != EPIQ_ORDER_SEPARATE && c->order != EPIQ_ORDER_UNGATED;
}

static int64_t digit(int64_t digits, int which)
{
    return digits >> (4 * which) & 15;
}

static void set_region(scenario *s, int which, int64_t rows, int64_t row_bytes, int64_t element)
{
    static const int64_t gaps[16] = {0, 0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 48, 64, 100};
    region *g = &s->regions[which];
    g->rows = rows;
    g->row_bytes = row_bytes;
    g->element = element;
    g->gap = rows > 0 && row_bytes > 0 ? (int)digit(s->c.gaps, which) : 0;
    g->stride = row_bytes + gaps[g->gap];
    g->bytes = rows > 0 && row_bytes > 0 ? (rows - 1) * g->stride + row_bytes : 0;
}

static void set_scales(scenario *s)
{
    const combination *c = &s->c;
    int unit = block_of(c->format) > 1 || c->layout == EPIQ_LAYOUT_PACKED_UE8M0 ? 1 : 4;
    int64_t rows = c->grain == EPIQ_GRAIN_TENSOR && c->rows > 0 ? 1 : c->rows;
    s->layout = oracle_layout_make((epiq_layout)c->layout, rows, s->groups, unit, 0);
    set_region(s, R_SCALES, s->layout.lines, s->layout.in_line * unit, unit);
    region *g = &s->regions[R_SCALES];
    if (c->layout == EPIQ_LAYOUT_TILE128X4 || c->layout == EPIQ_LAYOUT_TILE8X4) {
        g->gap = 0;
        g->stride = g->row_bytes;
    }
}

static void set_regions(scenario *s)
{
    const combination *c = &s->c;
    int64_t element = (int64_t)oracle_dtype_bytes((epiq_dtype)c->dtype), row = c->cols * element;
    for (int i = 0; i < REGIONS; i++)
        s->regions[i].like = i;
    if (c->op != OP_DEQUANTIZE)
        set_region(s, R_X, c->rows, halves(c) ? 2 * row : row, element);
    if (c->op == OP_ACT_MUL && c->order == EPIQ_ORDER_SEPARATE)
        set_region(s, R_UP, c->rows, row, element);
    if (c->residual != RESIDUAL_NONE)
        set_region(s, R_RESIDUAL, c->rows, row, element);
    if (c->op == OP_RMS_NORM) {
        int64_t bytes = (int64_t)oracle_dtype_bytes((epiq_dtype)(c->weight_dtype != 0 ? c->weight_dtype : c->dtype));
        set_region(s, R_WEIGHT, 1, c->cols * bytes, bytes);
    }
    if (c->level == LEVEL_SCALE)
        set_region(s, R_SCALE, 1, 4, 4);
    if (c->level == LEVEL_INV_SCALE)
        set_region(s, R_INV_SCALE, 1, 4, 4);
    if (c->level == LEVEL_COMPUTED)
        set_region(s, R_INV_SCALE_OUT, 1, 4, 4);
    if (c->bounded)
        set_region(s, R_UPPER_BOUND, 1, 4, 4);
    s->padded = c->padded_cols != 0 ? c->padded_cols : c->cols;
    if (c->format != 0) {
        int64_t bytes = four_bit(c->format) ? s->padded / 2 : s->padded;
        set_region(s, R_CODES, c->rows, bytes, 1);
        s->groups = c->grain == EPIQ_GRAIN_GROUP ? (s->padded + c->group - 1) / c->group : 1;
        if (c->grain != EPIQ_GRAIN_TENSOR || c->level == LEVEL_NONE)
            set_scales(s);
    }
    if (c->residual == RESIDUAL_OUT || c->residual == RESIDUAL_IN_PLACE)
        set_region(s, R_RESIDUAL_OUT, c->rows, row, element);
    if (c->residual == RESIDUAL_IN_PLACE) {
        s->regions[R_RESIDUAL_OUT] = s->regions[R_RESIDUAL];
        s->regions[R_RESIDUAL_OUT].like = R_RESIDUAL;
    }
    if (c->y != Y_NONE)
        set_region(s, R_Y, c->rows, row, element);
    if (c->y == Y_IN_PLACE) {
        s->regions[R_Y] = s->regions[R_X];
        s->regions[R_Y].like = R_X;
    }
}

enum { SPACE = 64, PAGE = 4096 };

/* Rows of c.rows side by side in one matrix; the others, and everything else, one after the other. */
static void place_regions(scenario *s)
{
    int64_t end = SPACE;
    if (s->c.interleaved) {
        int64_t stride = 0;
        for (int i = 0; i < REGIONS; i++) {
            region *g = &s->regions[i];
            if (g->bytes > 0 && g->rows == s->c.rows && g->rows > 1 && g->like == i) {
                g->place = end + stride;
                stride += g->stride;
            }
        }
        for (int i = 0; i < REGIONS; i++) {
            region *g = &s->regions[i];
            if (g->place != 0) {
                g->stride = stride;
                g->bytes = (g->rows - 1) * stride + g->row_bytes;
                g->gap = 2;
            }
        }
        end += stride * s->c.rows + SPACE;
    }
    for (int i = 0; i < REGIONS; i++) {
        region *g = &s->regions[i];
        if (g->place != 0 || g->like != i)
            continue;
        int64_t offset = digit(s->c.offsets, i);
        if (i == R_SCALE || i == R_INV_SCALE || i == R_UPPER_BOUND || i == R_INV_SCALE_OUT)
            offset &= 12;
        g->place = round_up(end, 16) + offset;
        end = g->place + g->bytes + SPACE;
    }
    for (int i = 0; i < REGIONS; i++) {
        int like = s->regions[i].like;
        if (like != i) {
            s->regions[i] = s->regions[like];
            s->regions[i].like = like;
        }
    }
    s->bytes = round_up(end, 8);
    s->layout.stride = s->regions[R_SCALES].stride;
}

static void fill(scenario *s)
{
    const combination *c = &s->c;
    rng r = {(uint64_t)c->seed * 2654435761u + 1};
    unsigned char *at[REGIONS];
    random_bytes(&r, s->memory, s->bytes);
    for (int i = 0; i < REGIONS; i++)
        at[i] = s->memory + s->regions[i].place;
    for (int i = R_X; i <= R_RESIDUAL; i++) {
        const region *g = &s->regions[i];
        for (int64_t row = 0; row < g->rows; row++) {
            unsigned char *to = at[i] + row * g->stride;
            int64_t n = g->row_bytes / g->element;
            if (c->data == DATA_EVERY) {
                for (int64_t k = 0; k < n; k++) {
                    uint32_t bits = (uint32_t)(row * n + k) * (g->element == 4 ? 0x9e3779b1u : 1);
                    memcpy(to + k * g->element, &bits, (size_t)g->element);
                }
            } else if (i != R_X) {
                fill_row(c->second, (epiq_dtype)c->dtype, to, n, &r);
            } else if (halves(c) && c->order != EPIQ_ORDER_INTERLEAVED) {
                int up_first = c->order == EPIQ_ORDER_UP_GATE;
                fill_row(up_first ? c->second : c->data, (epiq_dtype)c->dtype, to, n / 2, &r);
                fill_row(up_first ? c->data : c->second, (epiq_dtype)c->dtype, to + g->row_bytes / 2, n / 2, &r);
            } else {
                fill_row(c->data, (epiq_dtype)c->dtype, to, n, &r);
            }
        }
    }
    const region *w = &s->regions[R_WEIGHT];
    if (w->bytes > 0)
        fill_weight(w->element == 4 ? EPIQ_DTYPE_F32 : (epiq_dtype)c->dtype, at[R_WEIGHT], w->row_bytes / w->element,
                    &r);
    if (c->level == LEVEL_SCALE || c->level == LEVEL_INV_SCALE)
        memcpy(at[c->level == LEVEL_SCALE ? R_SCALE : R_INV_SCALE], &c->level_value, 4);
    if (c->bounded)
        memcpy(at[R_UPPER_BOUND], &c->upper_bound, 4);
    if (c->op == OP_DEQUANTIZE && s->regions[R_SCALES].bytes > 0)
        fill_scales(s, at[R_SCALES], &r);
}

static void map_scales(scenario *s)
{
    const oracle_layout *l = &s->layout;
    s->scale_at = oracle_alloc((size_t)(l->rows * l->groups), sizeof *s->scale_at);
    for (int64_t line = 0; line < l->lines; line++)
        for (int64_t i = 0; i < l->in_line; i++) {
            int64_t source = l->source[line * l->in_line + i];
            int64_t row = source / l->padded_groups, group = source % l->padded_groups;
            if (row < l->rows && group < l->groups)
                s->scale_at[row * l->groups + group] = line * l->stride + i * l->unit;
        }
}

static epiq_status check_call(const scenario *s, const call *a, epiq_sizes *sizes)
{
    switch (s->c.op) {
    case OP_ACT_MUL:
        return epiq_check_act_mul(&a->act_mul, a->out, NULL, sizes);
    case OP_RMS_NORM:
        return epiq_check_rms_norm(&a->rms_norm, a->out, NULL, sizes);
    case OP_QUANTIZE:
        return epiq_check_quantize(&a->quantize, a->out, NULL, sizes);
    default:
        return epiq_check_dequantize(&a->dequantize, NULL, sizes);
    }
}

static void explain_call(const scenario *s, const call *a, char *text, size_t bytes)
{
    switch (s->c.op) {
    case OP_ACT_MUL:
        epiq_explain_act_mul(&a->act_mul, a->out, NULL, text, bytes);
        break;
    case OP_RMS_NORM:
        epiq_explain_rms_norm(&a->rms_norm, a->out, NULL, text, bytes);
        break;
    case OP_QUANTIZE:
        epiq_explain_quantize(&a->quantize, a->out, NULL, text, bytes);
        break;
    default:
        epiq_explain_dequantize(&a->dequantize, NULL, text, bytes);
        break;
    }
}

static int64_t refused_by_header, refused_though_offered, ran, compared;

static void same_size(const scenario *s, const char *name, int64_t got, int64_t expected)
{
    if (got != expected)
        fail_combination(&s->c, "epiq_sizes.%s is %" PRId64 ", expected %" PRId64, name, got, expected);
}

/* The library's answer about sizes against ours. */
static void check_sizes(const scenario *s)
{
    const combination *c = &s->c;
    const epiq_sizes *z = &s->sizes;
    same_size(s, "rows", z->rows, c->rows);
    same_size(s, "cols", z->cols, c->cols);
    same_size(s, "y_bytes", z->y_bytes, s->regions[R_Y].bytes);
    same_size(s, "residual_bytes", z->residual_bytes, s->regions[R_RESIDUAL_OUT].bytes);
    same_size(s, "workspace_bytes", z->workspace_bytes, 0);
    same_size(s, "codes_bytes", z->codes_bytes, s->regions[R_CODES].bytes);
    same_size(s, "scale_bytes", z->scale_bytes, s->regions[R_SCALES].bytes);
    if (c->format == 0)
        return;
    same_size(s, "grain", z->grain, c->grain);
    same_size(s, "group", z->group, c->group);
    same_size(s, "layout", z->layout, c->layout);
    same_size(s, "codes_row_bytes", z->codes_row_bytes, four_bit(c->format) ? s->padded / 2 : s->padded);
    int stored = c->grain != EPIQ_GRAIN_TENSOR || c->level == LEVEL_NONE;
    same_size(s, "groups", z->groups, stored ? s->groups : 0);
    if (!stored)
        return;
    int packed = c->layout == EPIQ_LAYOUT_PACKED_UE8M0;
    const oracle_layout *l = &s->layout;
    int tiled = c->layout == EPIQ_LAYOUT_TILE128X4 || c->layout == EPIQ_LAYOUT_TILE8X4;
    same_size(s, "scale_shape[0]", z->scale_shape[0], tiled ? l->padded_rows : l->lines);
    if (c->rows > 0)
        same_size(s, "scale_shape[1]", z->scale_shape[1], tiled ? l->padded_groups : l->in_line / (packed ? 4 : 1));
    epiq_dtype dtype = packed                           ? EPIQ_DTYPE_I32
                       : c->format == EPIQ_FORMAT_NVFP4 ? EPIQ_DTYPE_E4M3
                       : block_of(c->format) > 1        ? EPIQ_DTYPE_E8M0
                                                        : EPIQ_DTYPE_F32;
    same_size(s, "scale_dtype", z->scale_dtype, dtype);
    if (!tiled && c->rows > 0)
        same_size(s, "scale_stride", z->scale_stride, s->regions[R_SCALES].stride);
}

static call arguments(const image *i);

static const epiq_output *output_of(const scenario *s, const call *a)
{
    return s->c.format != 0 ? &a->output : NULL;
}

/* Whether the library takes the combination; fails if it answers anything that epiq.h does not say. */
static int accepted(scenario *s)
{
    static unsigned char somewhere[16];
    image none = {.of = s};
    for (int i = 0; i < REGIONS; i++)
        none.at[i] = somewhere;
    call a = arguments(&none);
    a.out = output_of(s, &a);
    s->sizes = (epiq_sizes){.struct_size = sizeof s->sizes};
    epiq_status status = check_call(s, &a, &s->sizes);
    int offered = s->c.format == 0 || header_offers(&s->c);
    if (status == EPIQ_ERROR_UNSUPPORTED) {
        refused_by_header += !offered;
        refused_though_offered += offered;
        return 0;
    }
    if (status != EPIQ_OK || !offered) {
        char text[512];
        explain_call(s, &a, text, sizeof text);
        fail_combination(&s->c, "check answers %s: %s", epiq_word(status), text);
    }
    return 1;
}

int scenario_open(scenario *s, const combination *c)
{
    *s = (scenario){.c = *c};
    set_regions(s);
    place_regions(s);
    if (!accepted(s)) {
        oracle_layout_free(&s->layout);
        return 0;
    }
    check_sizes(s);
    map_scales(s);
    s->memory = oracle_alloc((size_t)s->bytes, 1);
    fill(s);
    return 1;
}

void scenario_close(scenario *s)
{
    oracle_layout_free(&s->layout);
    free(s->scale_at);
    free(s->memory);
}

/* ---- Images ---- */

image image_make(const scenario *s)
{
    image i = {.of = s};
    i.memory = aligned_alloc(SPACE, (size_t)round_up(s->bytes, SPACE));
    assert_non_null(i.memory);
    for (int k = 0; k < REGIONS; k++)
        i.at[k] = i.memory + s->regions[k].place;
    image_reset(&i);
    return i;
}

void image_free(image *i)
{
    free(i->memory);
}

void image_reset(image *i)
{
    const scenario *s = i->of;
    if (i->memory != NULL)
        memcpy(i->memory, s->memory, (size_t)s->bytes);
    else
        for (int k = 0; k < REGIONS; k++)
            if (s->regions[k].like == k)
                memcpy(i->at[k], s->memory + s->regions[k].place, (size_t)s->regions[k].bytes);
}

image image_make_guarded(const scenario *s, int at_end, int slot)
{
    static unsigned char *pages[2][REGIONS];
    image i = {.of = s};
    for (int k = 0; k < REGIONS; k++) {
        unsigned char **p = &pages[slot][k];
        if (*p == NULL) {
            *p = mmap(NULL, GUARDED_BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            assert_true(*p != MAP_FAILED);
            assert_int_equal(mprotect(*p + PAGE, GUARDED_BYTES, PROT_READ | PROT_WRITE), 0);
        }
        assert_true(s->regions[k].bytes <= GUARDED_BYTES);
        i.at[k] = *p + PAGE + (at_end ? GUARDED_BYTES - s->regions[k].bytes : 0);
    }
    for (int k = 0; k < REGIONS; k++)
        i.at[k] = i.at[s->regions[k].like];
    image_reset(&i);
    return i;
}

static void *address(const image *i, int which)
{
    return i->of->regions[which].element > 0 ? i->at[which] : NULL;
}

static int64_t stride(const image *i, int which)
{
    return i->of->regions[which].gap == 0 ? 0 : i->of->regions[which].stride;
}

static int32_t unless_default(const combination *c, int64_t value, int64_t standard)
{
    return c->defaults && value == standard ? 0 : (int32_t)value;
}

static epiq_grain default_grain(const combination *c)
{
    if (block_of(c->format) > 1)
        return EPIQ_GRAIN_GROUP;
    return c->level != LEVEL_NONE ? EPIQ_GRAIN_TENSOR : EPIQ_GRAIN_TOKEN;
}

static epiq_dtype stored_dtype(const combination *c)
{
    if (!c->named_dtype || (c->grain == EPIQ_GRAIN_TENSOR && c->level != LEVEL_NONE))
        return (epiq_dtype)0;
    if (c->layout == EPIQ_LAYOUT_PACKED_UE8M0)
        return EPIQ_DTYPE_I32;
    if (block_of(c->format) > 1)
        return c->format == EPIQ_FORMAT_NVFP4 ? EPIQ_DTYPE_E4M3 : EPIQ_DTYPE_E8M0;
    return EPIQ_DTYPE_F32;
}

/* The arguments with buffers in the image. They hold no pointer into themselves: `out` is for the caller to choose. */
static call arguments(const image *i)
{
    const combination *c = &i->of->c;
    int64_t group = c->grain != EPIQ_GRAIN_GROUP ? 0 : block_of(c->format) > 1 ? block_of(c->format) : 128;
    epiq_matrix x = {.data = address(i, R_X),
                     .rows = c->rows,
                     .cols = halves(c) ? 2 * c->cols : c->cols,
                     .row_stride = stride(i, R_X),
                     .dtype = (epiq_dtype)c->dtype};
    call a = {0};
    a.act_mul = (epiq_act_mul_args){.struct_size = sizeof a.act_mul,
                                    .act = (epiq_act)unless_default(c, c->act, EPIQ_ACT_SILU),
                                    .x = x,
                                    .order = (epiq_order)unless_default(c, c->order, EPIQ_ORDER_GATE_UP),
                                    .chain = (epiq_chain)unless_default(c, c->chain, EPIQ_CHAIN_VLLM),
                                    .act_round = (epiq_round)c->round,
                                    .alpha = c->alpha,
                                    .limit = c->limit,
                                    .limit_after = c->limit_after,
                                    .up_offset = c->up_offset,
                                    .up = address(i, R_UP),
                                    .up_row_stride = stride(i, R_UP),
                                    .y_out = address(i, R_Y),
                                    .y_row_stride = stride(i, R_Y)};
    a.rms_norm = (epiq_rms_norm_args){.struct_size = sizeof a.rms_norm,
                                      .eps = c->eps,
                                      .x = x,
                                      .residual = address(i, R_RESIDUAL),
                                      .residual_row_stride = stride(i, R_RESIDUAL),
                                      .residual_out = address(i, R_RESIDUAL_OUT),
                                      .residual_out_row_stride = stride(i, R_RESIDUAL_OUT),
                                      .weight = address(i, R_WEIGHT),
                                      .weight_dtype = (epiq_dtype)unless_default(c, c->weight_dtype, c->dtype),
                                      .weight_bias = c->weight_bias,
                                      .chain = (epiq_chain)unless_default(c, c->chain, EPIQ_CHAIN_VLLM),
                                      .sum_round = (epiq_sum_round)c->sum_round,
                                      .norm_round = (epiq_round)c->round,
                                      .y_out = address(i, R_Y),
                                      .y_row_stride = stride(i, R_Y)};
    a.quantize = (epiq_quantize_args){.struct_size = sizeof a.quantize, .x = x};
    int tensor = c->grain == EPIQ_GRAIN_TENSOR;
    a.dequantize = (epiq_dequantize_args){
        .struct_size = sizeof a.dequantize,
        .format = (epiq_format)c->format,
        .grain = (epiq_grain)(block_of(c->format) > 1 ? unless_default(c, c->grain, EPIQ_GRAIN_GROUP) : c->grain),
        .group = unless_default(c, c->group, group),
        .layout = (epiq_layout)unless_default(c, c->layout, EPIQ_LAYOUT_ROW),
        .scale_dtype = stored_dtype(c),
        .rows = c->rows,
        .cols = c->cols,
        .codes = address(i, R_CODES),
        .codes_row_stride = stride(i, R_CODES),
        .scale = address(i, tensor ? R_SCALE : R_SCALES),
        .scale_stride = stride(i, R_SCALES),
        .inv_scale = address(i, R_INV_SCALE),
        .y_out = address(i, R_Y),
        .y_row_stride = stride(i, R_Y),
        .y_dtype = (epiq_dtype)c->dtype,
        .padded_cols = c->padded_cols};
    a.output = (epiq_output){.struct_size = sizeof a.output,
                             .format = (epiq_format)c->format,
                             .grain = (epiq_grain)unless_default(c, c->grain, default_grain(c)),
                             .group = unless_default(c, c->group, group),
                             .layout = (epiq_layout)unless_default(c, c->layout, EPIQ_LAYOUT_ROW),
                             .scale_dtype = stored_dtype(c),
                             .ue8m0 = (int32_t)c->ue8m0,
                             .mx_round = (epiq_mx_round)unless_default(c, c->mx_round, EPIQ_MX_ROUND_CEIL),
                             .nvfp4 = (epiq_nvfp4)unless_default(c, c->nvfp4, EPIQ_NVFP4_VLLM),
                             .nan = (epiq_nan)unless_default(c, c->nan, EPIQ_NAN_PROPAGATE),
                             .pad_rows = (epiq_pad_rows)unless_default(c, c->pad_rows, EPIQ_PAD_ROWS_ZERO),
                             .codes_out = address(i, R_CODES),
                             .codes_row_stride = stride(i, R_CODES),
                             .scale_out = address(i, R_SCALES),
                             .scale_stride = stride(i, R_SCALES),
                             .scale = address(i, R_SCALE),
                             .inv_scale = address(i, R_INV_SCALE),
                             .inv_scale_out = address(i, R_INV_SCALE_OUT),
                             .scale_ub = address(i, R_UPPER_BOUND),
                             .padded_cols = c->padded_cols};
    if (c->layout == EPIQ_LAYOUT_PACKED_UE8M0 && c->defaults)
        a.output.ue8m0 = 0; /* implied */
    return a;
}

epiq_status image_run(const image *i, const epiq_exec *exec)
{
    call a = arguments(i);
    a.out = output_of(i->of, &a);
    switch (i->of->c.op) {
    case OP_ACT_MUL:
        return epiq_act_mul(&a.act_mul, a.out, exec);
    case OP_RMS_NORM:
        return epiq_rms_norm(&a.rms_norm, a.out, exec);
    case OP_QUANTIZE:
        return epiq_quantize(&a.quantize, a.out, exec);
    default:
        return epiq_dequantize(&a.dequantize, exec);
    }
}

void image_run_ok(const image *i, const epiq_exec *exec)
{
    epiq_status status = image_run(i, exec);
    if (status != EPIQ_OK)
        fail_combination(&i->of->c, "the call answers %s", epiq_word(status));
}

void image_oracle(const image *i)
{
    call a = arguments(i);
    a.out = output_of(i->of, &a);
    switch (i->of->c.op) {
    case OP_ACT_MUL:
        oracle_act_mul(&a.act_mul, a.out);
        break;
    case OP_RMS_NORM:
        oracle_rms_norm(&a.rms_norm, a.out);
        break;
    case OP_QUANTIZE:
        oracle_quantize(&a.quantize, a.out);
        break;
    default:
        oracle_dequantize(&a.dequantize);
        break;
    }
}

/* ---- Comparison ---- */

static const char *const region_names[REGIONS] = {
    "x",        "up",    "residual", "weight",        "scale",        "inv_scale",
    "scale_ub", "codes", "scales",   "inv_scale_out", "residual_out", "y_out"};

/* Says where byte `at` of a region is, counted from its first; `at` may lie around it. */
static void describe(const scenario *s, int which, int64_t at, char *text, size_t bytes)
{
    const region *g = &s->regions[which];
    int64_t line = at / g->stride, in_line = at % g->stride;
    const char *name = region_names[which];
    if (at < 0 || at >= g->bytes)
        snprintf(text, bytes, "%s: %" PRId64 " bytes %s", name, at < 0 ? -at : at - g->bytes + 1,
                 at < 0 ? "before its first" : "behind its last");
    else if (in_line >= g->row_bytes)
        snprintf(text, bytes, "%s: in the gap behind line %" PRId64, name, line);
    else if (which == R_SCALES) {
        int64_t source = s->layout.source[line * s->layout.in_line + in_line / s->layout.unit];
        int64_t row = source / s->layout.padded_groups, group = source % s->layout.padded_groups;
        snprintf(text, bytes, "scales: row %" PRId64 " group %" PRId64 "%s, byte %" PRId64, row, group,
                 row >= s->layout.rows || group >= s->layout.groups ? " (padding)" : "", at);
    } else
        snprintf(text, bytes, "%s: row %" PRId64 " column %" PRId64 "%s, byte %" PRId64 " of the row", name, line,
                 in_line / g->element * (which == R_CODES && four_bit(s->c.format) ? 2 : 1),
                 which == R_CODES && in_line >= (four_bit(s->c.format) ? s->c.cols / 2 : s->c.cols) ? " (padding)" : "",
                 in_line);
}

static void report_difference(const scenario *s, int which, int64_t at, unsigned want, unsigned got, const char *what)
{
    char text[200];
    describe(s, which, at, text, sizeof text);
    fail_combination(&s->c, "%s: first difference in %s: 0x%02x, expected 0x%02x", what, text, got, want);
}

/* The region that a byte of the arena belongs to or is nearest to. */
static int region_at(const scenario *s, int64_t place)
{
    int best = R_X;
    int64_t distance = INT64_MAX;
    for (int i = 0; i < REGIONS; i++) {
        const region *g = &s->regions[i];
        if (g->bytes == 0 || g->like != i)
            continue;
        int64_t at = place - g->place, d;
        if (at < 0)
            d = -at;
        else if (at >= g->bytes)
            d = at - g->bytes + 1;
        else
            d = at % g->stride < g->row_bytes ? -1 : 0;
        if (d < distance) {
            distance = d;
            best = i;
        }
    }
    return best;
}

/* In one of two aliased regions; the written one is told. */
static int written_name(const scenario *s, int which)
{
    for (int i = 0; i < REGIONS; i++)
        if (s->regions[i].like == which && i != which)
            return i;
    return which;
}

void compare_images(const image *want, const image *got, const char *what)
{
    const scenario *s = want->of;
    compared += s->bytes;
    if (want->memory != NULL && got->memory != NULL) {
        if (memcmp(want->memory, got->memory, (size_t)s->bytes) == 0)
            return;
        int64_t at = 0;
        while (want->memory[at] == got->memory[at])
            at++;
        int which = region_at(s, at);
        report_difference(s, written_name(s, which), at - s->regions[which].place, want->memory[at], got->memory[at],
                          what);
    }
    for (int i = 0; i < REGIONS; i++)
        if (s->regions[i].bytes > 0 && memcmp(want->at[i], got->at[i], (size_t)s->regions[i].bytes) != 0) {
            int64_t at = 0;
            while (want->at[i][at] == got->at[i][at])
                at++;
            report_difference(s, written_name(s, i), at, want->at[i][at], got->at[i][at], what);
        }
}

int64_t image_row(const image *i, int64_t row, unsigned char *to)
{
    const scenario *s = i->of;
    int64_t bytes = 0;
    static const int rows_of[] = {R_CODES, R_RESIDUAL_OUT, R_Y};
    for (size_t k = 0; k < COUNT(rows_of); k++) {
        const region *g = &s->regions[rows_of[k]];
        if (g->bytes == 0)
            continue;
        if (to != NULL)
            memcpy(to + bytes, i->at[rows_of[k]] + row * g->stride, (size_t)g->row_bytes);
        bytes += g->row_bytes;
    }
    if (s->regions[R_SCALES].bytes > 0)
        for (int64_t group = 0; group < s->groups; group++) {
            int64_t from = s->scale_at[(s->layout.rows == 1 ? 0 : row) * s->groups + group];
            if (to != NULL)
                memcpy(to + bytes, i->at[R_SCALES] + from, (size_t)s->layout.unit);
            bytes += s->layout.unit;
        }
    return bytes;
}

/* Bytes of one row's stored scales of dequantize, which are inputs there. */
static void copy_scales(scenario *s, int64_t row, const scenario *from, int64_t from_row)
{
    for (int64_t group = 0; s->regions[R_SCALES].bytes > 0 && group < s->groups; group++)
        memcpy(s->memory + s->regions[R_SCALES].place + s->scale_at[row * s->groups + group],
               from->memory + from->regions[R_SCALES].place + from->scale_at[from_row * s->groups + group],
               (size_t)s->layout.unit);
}

void scenario_copy_row(scenario *s, int64_t row, const scenario *from, int64_t from_row)
{
    for (int i = R_X; i <= R_CODES; i++) {
        const region *g = &s->regions[i], *f = &from->regions[i];
        if (g->bytes == 0 || i == R_WEIGHT || i == R_SCALE || i == R_INV_SCALE || i == R_UPPER_BOUND)
            continue;
        if (i == R_CODES && s->c.op != OP_DEQUANTIZE)
            continue;
        assert_true(f->row_bytes == g->row_bytes);
        memcpy(s->memory + g->place + row * g->stride, from->memory + f->place + from_row * f->stride,
               (size_t)g->row_bytes);
    }
    if (s->c.op == OP_DEQUANTIZE)
        copy_scales(s, row, from, from_row);
    scenario_take_inputs(s, from);
}

void scenario_take_inputs(scenario *s, const scenario *from)
{
    for (int i = R_WEIGHT; i <= R_UPPER_BOUND; i++) {
        const region *g = &s->regions[i], *f = &from->regions[i];
        if (g->bytes > 0 && f->bytes == g->bytes)
            memcpy(s->memory + g->place, from->memory + f->place, (size_t)g->bytes);
    }
}

void same_region(const image *want, int want_which, const image *got, int which, const char *what)
{
    const region *w = &want->of->regions[want_which], *g = &got->of->regions[which];
    if (w->bytes == 0 && g->bytes == 0)
        return;
    assert_true(w->rows == g->rows && w->row_bytes == g->row_bytes && (which == R_SCALES) == (want_which == R_SCALES));
    if (which == R_SCALES) { /* not what is left of padding rows */
        const scenario *p = want->of, *q = got->of;
        for (int64_t i = 0; i < q->layout.rows * q->layout.groups; i++, compared += q->layout.unit)
            for (int64_t byte = 0; byte < q->layout.unit; byte++) {
                unsigned char a = want->at[R_SCALES][p->scale_at[i] + byte],
                              b = got->at[R_SCALES][q->scale_at[i] + byte];
                if (a != b) {
                    combination_print(&p->c);
                    report_difference(q, which, q->scale_at[i] + byte, a, b, what);
                }
            }
        return;
    }
    for (int64_t row = 0; row < g->rows; row++) {
        const unsigned char *a = want->at[want_which] + row * w->stride, *b = got->at[which] + row * g->stride;
        int64_t at = 0;
        while (at < g->row_bytes && a[at] == b[at])
            at++;
        compared += at;
        if (at < g->row_bytes) {
            combination_print(&want->of->c);
            report_difference(got->of, which, row * g->stride + at, a[at], b[at], what);
        }
    }
}

void scenario_take(scenario *s, int which, const image *from, int from_which)
{
    const region *g = &s->regions[which], *f = &from->of->regions[from_which];
    if (g->bytes == 0 && f->bytes == 0)
        return;
    assert_true(g->rows == f->rows && g->row_bytes == f->row_bytes);
    for (int64_t row = 0; row < g->rows; row++)
        memcpy(s->memory + g->place + row * g->stride, from->at[from_which] + row * f->stride, (size_t)g->row_bytes);
}

/* ---- The usual way ---- */

void check_count(int64_t bytes)
{
    compared += bytes;
    ran++;
}

const epiq_backend *check_backends(size_t *count)
{
    static epiq_backend usable[EPIQ_BACKEND_CUDA - EPIQ_BACKEND_C];
    static size_t found;
    if (found == 0)
        for (int b = EPIQ_BACKEND_C; b < EPIQ_BACKEND_CUDA; b++)
            if (epiq_backend_usable((epiq_backend)b, 0, NULL, 0) == EPIQ_OK)
                usable[found++] = (epiq_backend)b;
    *count = found;
    return usable;
}

void check_scenario(const scenario *s)
{
    image want = image_make(s), got = image_make(s);
    image_oracle(&want);
    size_t count;
    const epiq_backend *backends = check_backends(&count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            image_reset(&got);
        epiq_exec exec = {.struct_size = sizeof exec, .backend = backends[i], .tasks = (int32_t)s->c.tasks};
        image_run_ok(&got, &exec);
        compare_images(&want, &got, epiq_word(backends[i]));
    }
    image_free(&got);
    image_free(&want);
    ran++;
}

void check(const combination *c)
{
    scenario s;
    if (!scenario_open(&s, c))
        return;
    check_scenario(&s);
    scenario_close(&s);
}

epiq_exec random_exec(rng *r)
{
    size_t count;
    const epiq_backend *backends = check_backends(&count);
    return (epiq_exec){.struct_size = sizeof(epiq_exec),
                       .backend = backends[rng_below(r, (int64_t)count)],
                       .tasks = (int32_t)rng_below(r, 5)};
}

void check_report(const char *what, int64_t least)
{
    size_t backends;
    check_backends(&backends);
    print_message("%s: %" PRId64 " combinations on %zu backend(s), %" PRId64 " bytes compared; not offered %" PRId64
                  ", offered but refused %" PRId64 "\n",
                  what, ran, backends, compared, refused_by_header, refused_though_offered);
    int enough = ran >= least;
    int refused = refused_though_offered > 0;
    ran = compared = refused_by_header = refused_though_offered = 0;
    if (!enough)
        fail_msg("%s: at least %" PRId64 " combinations were to run", what, least);
    if (refused)
        fail_msg("%s: refused what epiq.h offers", what);
}

/* ---- Lists ---- */

const float check_scales[] = {
    0.0f,      -0.0f,    1.0f,      0.01f,      -0.5f,    0.0371f,   448.0f,        2.2321428e-3f, 3584.0f,
    NAN,       INFINITY, -INFINITY, 0x1p-149f,  1e-40f,   0x1p-126f, 0x1p-128f,     -0x1p-128f,    FLT_MAX,
    -FLT_MAX,  0x1p127f, 0x1p126f,  0x1.8p125f, 2688.0f,  57344.0f,  1e30f,         1e-30f,        0x1p-127f,
    0x1p-129f, 3.3e38f,  1e-45f,    0x1p117f,   0x1p120f, 100.0f,    0x1.000002p0f,
};
const size_t check_scales_count = COUNT(check_scales);

enum { MAX_QUANTIZERS = 1024 };
static combination quantizers[MAX_QUANTIZERS];
static size_t quantizers_count;

int64_t check_last(const char *kind)
{
    int32_t last = epiq_value(kind, NULL);
    assert_true(last > 0);
    while (epiq_word(last + 1) != NULL)
        last++;
    return last;
}

/* Both NaN policies, and both ways with padding rows where the layout has any. */
static void add_quantizer(combination q)
{
    int padded = q.layout == EPIQ_LAYOUT_COL_ALIGNED || q.layout == EPIQ_LAYOUT_PACKED_UE8M0 ||
                 q.layout == EPIQ_LAYOUT_TILE128X4 || q.layout == EPIQ_LAYOUT_TILE8X4;
    for (int nan = EPIQ_NAN_PROPAGATE; nan <= check_last("nan"); nan++)
        for (int pad = EPIQ_PAD_ROWS_ZERO; pad <= (padded ? check_last("pad_rows") : EPIQ_PAD_ROWS_ZERO); pad++) {
            q.nan = nan;
            q.pad_rows = pad;
            assert_true(quantizers_count < MAX_QUANTIZERS);
            quantizers[quantizers_count++] = q;
        }
}

static void add_element_format(epiq_format format)
{
    combination q = {.format = format, .grain = EPIQ_GRAIN_TENSOR, .layout = EPIQ_LAYOUT_ROW};
    int fp8 = format != EPIQ_FORMAT_INT8;
    for (q.level = LEVEL_NONE; q.level <= LEVEL_INV_SCALE; q.level++)
        add_quantizer(q);
    q.level = LEVEL_NONE;
    q.grain = EPIQ_GRAIN_TOKEN;
    for (q.bounded = 0; q.bounded <= fp8; q.bounded++)
        add_quantizer(q);
    q.bounded = 0;
    q.grain = EPIQ_GRAIN_GROUP;
    for (q.group = 16; q.group <= 128; q.group *= 2)
        for (q.layout = EPIQ_LAYOUT_ROW; q.layout <= check_last("layout"); q.layout++)
            for (q.ue8m0 = 0; q.ue8m0 <= fp8; q.ue8m0++)
                if (q.layout != EPIQ_LAYOUT_PACKED_UE8M0 || q.ue8m0)
                    add_quantizer(q);
}

static void add_block_format(epiq_format format)
{
    combination q = {.format = format, .grain = EPIQ_GRAIN_GROUP, .group = block_of(format)};
    for (q.layout = EPIQ_LAYOUT_ROW; q.layout <= check_last("layout"); q.layout++) {
        if (q.layout == EPIQ_LAYOUT_PACKED_UE8M0) /* contradicts a block format */
            continue;
        q.level = LEVEL_NONE;
        if (format != EPIQ_FORMAT_NVFP4) {
            int64_t last = format == EPIQ_FORMAT_MXFP4 ? check_last("mx_round") : EPIQ_MX_ROUND_FLOOR;
            for (q.mx_round = EPIQ_MX_ROUND_CEIL; q.mx_round <= last; q.mx_round++)
                add_quantizer(q);
            continue;
        }
        for (q.nvfp4 = EPIQ_NVFP4_VLLM; q.nvfp4 <= check_last("nvfp4"); q.nvfp4++)
            for (q.level = LEVEL_INV_SCALE; q.level <= LEVEL_COMPUTED; q.level++)
                add_quantizer(q);
    }
}

const combination *check_quantizers(size_t *count)
{
    if (quantizers_count == 0) {
        add_element_format(EPIQ_FORMAT_E4M3);
        add_element_format(EPIQ_FORMAT_E5M2);
        add_element_format(EPIQ_FORMAT_INT8);
        add_block_format(EPIQ_FORMAT_MXFP8);
        add_block_format(EPIQ_FORMAT_MXFP4);
        add_block_format(EPIQ_FORMAT_NVFP4);
    }
    *count = quantizers_count;
    return quantizers;
}

combination with_quantizer(combination base, const combination *q)
{
    base.format = q->format;
    base.grain = q->grain;
    base.group = q->group;
    base.layout = q->layout;
    base.ue8m0 = q->ue8m0;
    base.mx_round = q->mx_round;
    base.nvfp4 = q->nvfp4;
    base.nan = q->nan;
    base.pad_rows = q->pad_rows;
    base.level = q->level;
    base.bounded = q->bounded;
    return base;
}

void fit_cols(combination *c)
{
    int64_t block = block_of(c->format), padded = c->padded_cols != 0 ? c->padded_cols : c->cols;
    if (padded % block != 0)
        c->padded_cols = round_up(padded, block);
}

/* ---- Random combinations ---- */

static float random_scale(rng *r)
{
    if (rng_below(r, 3) == 0)
        return check_scales[rng_below(r, (int64_t)check_scales_count)];
    return rng_float(r, 0.5f, 2.0f) * ldexpf(1.0f, (int)rng_below(r, 24) - 12);
}

static int64_t rng_word(rng *r, const char *kind)
{
    int64_t start = epiq_value(kind, NULL);
    return start + 1 + rng_below(r, check_last(kind) - start);
}

static void random_act_mul(combination *c, rng *r)
{
    c->act = rng_below(r, 2) ? EPIQ_ACT_SILU : rng_word(r, "act");
    c->order = rng_word(r, "order");
    c->chain = rng_from(r, (const int64_t[]){EPIQ_CHAIN_VLLM, EPIQ_CHAIN_FLASHINFER, EPIQ_CHAIN_DIRECT}, 3);
    c->round = rng_below(r, 3) ? 0 : rng_word(r, "act_round");
    if (c->act == EPIQ_ACT_SILU && rng_below(r, 3) == 0)
        c->alpha = rng_below(r, 2) ? 1.702f : 0.5f;
    static const float limits[] = {7.0f, 0.75f, 100.0f, 1e-3f, FLT_MAX};
    if (rng_below(r, 3) == 0)
        *(rng_below(r, 2) ? &c->limit : &c->limit_after) = limits[rng_below(r, (int64_t)COUNT(limits))];
    static const float offsets[] = {1.0f, 1.0f, -0.375f, 1e30f};
    if (c->order != EPIQ_ORDER_UNGATED && rng_below(r, 3) == 0)
        c->up_offset = offsets[rng_below(r, (int64_t)COUNT(offsets))];
    if (rng_below(r, 4) == 0) /* data reach the quantizer as they are */
        c->act = EPIQ_ACT_IDENTITY, c->second = DATA_ONE, c->alpha = 0;
    c->y = rng_below(r, 2) ? Y_OUT : Y_NONE;
}

static void random_rms_norm(combination *c, rng *r)
{
    static const float eps[] = {1e-6f, 1e-5f, 1e-12f, 1.0f, 0x1p-149f, 1e30f};
    static const float bias[] = {1.0f, 1.0f, -0.25f, 1e-3f};
    c->eps = eps[rng_below(r, 4) ? rng_below(r, 2) : rng_below(r, (int64_t)COUNT(eps))];
    c->chain = rng_word(r, "chain");
    c->sum_round = rng_below(r, 3) ? 0 : rng_word(r, "sum_round");
    c->round = rng_below(r, 3) ? 0 : rng_word(r, "act_round");
    c->weight_dtype = rng_from(r, (const int64_t[]){0, c->dtype, EPIQ_DTYPE_F32}, 3);
    c->weight_bias = rng_below(r, 2) ? 0 : bias[rng_below(r, (int64_t)COUNT(bias))];
    c->residual = rng_below(r, 4);
    c->y = rng_below(r, 3);
}

combination random_combination(rng *r, int op)
{
    static const int64_t rows[] = {0, 1, 1, 1, 2, 2, 3, 3, 5, 5, 33, 127, 128, 129, 130};
    static const int64_t cols[] = {48, 64, 80, 96, 100, 128, 160, 232, 464, 576, 769, 1023, 1024, 1025, 2064, 4096};
    combination c = {.op = op,
                     .dtype = check_dtypes[rng_below(r, 3)],
                     .seed = 1 + rng_below(r, 1 << 30),
                     .data = rng_below(r, 2) ? DATA_ANY : rng_below(r, DATA_KINDS),
                     .second = rng_below(r, 2) ? DATA_ANY : rng_below(r, DATA_KINDS),
                     .offsets = rng_below(r, 3) ? 0 : (int64_t)(rng_bits(r) >> 16),
                     .gaps = rng_below(r, 3) ? 0 : (int64_t)(rng_bits(r) >> 16),
                     .interleaved = rng_below(r, 8) == 0,
                     .defaults = rng_below(r, 2),
                     .named_dtype = rng_below(r, 2),
                     .tasks = rng_below(r, 2) ? 0 : rng_below(r, 9)};
    do {
        c.rows = rng_from(r, rows, COUNT(rows));
        c.cols = rng_below(r, 2) ? 1 + rng_below(r, 40) : rng_from(r, cols, COUNT(cols));
    } while (c.rows * c.cols > 12000);
    if (op == OP_ACT_MUL)
        random_act_mul(&c, r);
    if (op == OP_RMS_NORM)
        random_rms_norm(&c, r);
    size_t count;
    const combination *list = check_quantizers(&count), *q;
    int64_t format = list[0].format + rng_below(r, list[count - 1].format - list[0].format + 1);
    do
        q = &list[rng_below(r, (int64_t)count)];
    while (q->format != format || (!header_offers(q) && rng_below(r, 16) != 0));
    if (op != OP_QUANTIZE && op != OP_DEQUANTIZE && rng_below(r, 8) == 0) {
        c.y = c.y == Y_NONE ? Y_OUT : c.y;
        return c;
    }
    c = with_quantizer(c, q);
    c.level_value = random_scale(r);
    c.upper_bound = random_scale(r);
    if (rng_below(r, 3) == 0)
        c.padded_cols = c.cols + rng_below(r, 70);
    fit_cols(&c);
    if (op == OP_DEQUANTIZE) {
        c.y = Y_OUT;
        c.bounded = 0;
        c.nan = c.pad_rows = c.mx_round = c.nvfp4 = c.ue8m0 = 0;
        if (c.format == EPIQ_FORMAT_NVFP4)
            c.level = LEVEL_INV_SCALE;
        if (c.grain == EPIQ_GRAIN_TENSOR && c.level == LEVEL_NONE)
            c.level = LEVEL_SCALE;
    }
    return c;
}

/* ---- Programs ---- */

static combination replayed;

static void replay(void **state)
{
    (void)state;
    combination_print(&replayed);
    check(&replayed);
    check_report("replay", 1);
}

int check_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    for (int i = 1; i < argc; i++)
        if (!combination_read(&replayed, argv[i])) {
            fprintf(stderr, "%s: not a field of a combination: %s\n", argv[0], argv[i]);
            return 2;
        }
    const struct CMUnitTest alone[] = {cmocka_unit_test(replay)};
    int failed = argc > 1 ? _cmocka_run_group_tests("replay", alone, 1, NULL, NULL)
                          : _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
    oracle_release();
    return failed != 0;
}
