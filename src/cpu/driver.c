/* driver.c: runs a plan on the stages of a CPU backend: rows in tasks, a row in tiles, a tile through the stages.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is allocated: a row that does not fit the row buffer is loaded again for each pass over it (sum of squares,
 * amax, codes), with the same results. What may alias an input (residual_out, y_out) is written tile by tile in the
 * last pass, after the tile's inputs have been read for the last time. */
#include "arith/tree.h"
#include "core/backend.h"
#include "core/fp_state.h"
#include "core/layout.h"
#include "lists.h"
#include "rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    TILE = 1024,        /* elements of a tile: a multiple of every group, a power of two for the tree */
    ROW = 16 * TILE,    /* longest row that is kept while it is worked on */
    MAX_TASKS = 1024,   /* tasks that a call is split into */
    GROUPS = TILE / 16, /* groups of a tile at most */
    PART = 128,         /* elements whose amax a row's is made of: a group there is */
    SLACK = EPIQI_TILE_SLACK
};

/* A call: the plan, the stages, and the values of the whole call. */
typedef struct job {
    const epiqi_plan *plan;
    const epiqi_backend_rows *stages;
    const epiqi_dtype_rows *t; /* of x (dequantize: of y) */
    const epiqi_format_rows *format;
    int64_t element; /* bytes of T */
    ar_act_mul act_mul;
    ar_norm norm;
    ar_quant quant;
    float factor; /* grain tensor: what every element is multiplied (divided) by */
    float second; /* dequantize of nvfp4: RN(1 / gs), else 1 */
    int divide;
    int32_t tasks;
    float amax[MAX_TASKS]; /* of each task's rows, where the whole tensor's is needed */
} job;

/* Buffers of a task. Each begins a cache line: vectors of that size would lie across two otherwise. */
typedef struct scratch {
    _Alignas(64) float row[ROW + SLACK]; /* h, then y, of a whole row or of the tile at its start */
    float a[TILE + SLACK], c[TILE + SLACK];
    float amax[GROUPS + SLACK], factor[GROUPS + SLACK];
    uint32_t nan[GROUPS + SLACK], stored[GROUPS + SLACK];
    uint8_t codes[TILE + SLACK];
} scratch;

/* The row that a task works on. */
typedef struct row_state {
    int64_t row;
    float rinv;
    int whole;          /* the row buffer holds all of its columns */
    int have_h, have_y; /* ... which are h, or y already */
} row_state;

static const unsigned char *at(const epiqi_rows_at *m, int64_t row, int64_t offset)
{
    return m->data + row * m->stride + offset;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int dtype_index(epiq_dtype dtype)
{
    return dtype == EPIQ_DTYPE_F32 ? AR_F32 : dtype == EPIQ_DTYPE_F16 ? AR_F16 : AR_BF16;
}

/* Zeros from the real elements of a tile of n to its end and, in the last tile of a row, behind it: whole vectors of
 * another tile end where it ends. */
static void zero_behind(float *tile, int64_t real, int64_t n)
{
    memset(tile + real, 0, (size_t)(n - real + (n < TILE ? SLACK : 0)) * sizeof *tile);
}

/* ---- From inputs to a tile of y ---- */

static void make_act_mul(const job *j, const row_state *r, int64_t col, int64_t n, float *y)
{
    const epiqi_plan *p = j->plan;
    const int64_t e = j->element;
    const unsigned char *gate = at(&p->x, r->row, col * e), *up = at(&p->x, r->row, (p->cols + col) * e);
    switch (p->order) {
    case EPIQ_ORDER_UP_GATE:
        j->t->act_mul(&j->act_mul, 0, up, gate, n, y);
        break;
    case EPIQ_ORDER_INTERLEAVED:
        j->t->act_mul(&j->act_mul, 1, at(&p->x, r->row, 2 * col * e), NULL, n, y);
        break;
    case EPIQ_ORDER_SEPARATE:
        j->t->act_mul(&j->act_mul, 0, gate, at(&p->up, r->row, col * e), n, y);
        break;
    case EPIQ_ORDER_UNGATED:
        j->t->act_mul(&j->act_mul, 0, gate, gate, n, y); /* up is read, not used */
        break;
    default:
        j->t->act_mul(&j->act_mul, 0, gate, up, n, y);
        break;
    }
}

/* h as the norm sees it: x, or x + residual. */
static void make_h(const job *j, const row_state *r, int64_t col, int64_t n, float *h)
{
    const epiqi_plan *p = j->plan;
    if (p->residual.data == NULL) {
        j->t->load(at(&p->x, r->row, col * j->element), n, h);
        return;
    }
    j->t->norm_sum(&j->norm, at(&p->x, r->row, col * j->element), at(&p->residual, r->row, col * j->element), n, h);
}

/* A tile of y, columns col to col + n, in the row buffer. `store`: this is the last time that the tile's inputs are
 * read, write the residual. */
static float *make_y(const job *j, scratch *s, row_state *r, int64_t col, int64_t n, int store)
{
    const epiqi_plan *p = j->plan;
    float *y = s->row + (r->whole ? col : 0);
    if (r->have_y)
        return y;
    switch (p->op) {
    case EPIQI_ACT_MUL:
        make_act_mul(j, r, col, n, y);
        break;
    case EPIQI_RMS_NORM:
        if (!r->have_h)
            make_h(j, r, col, n, y);
        if (store && p->residual_wanted)
            j->t->store(y, n, p->residual.data == NULL || j->norm.sum_round,
                        p->residual_out.data + r->row * p->residual_out.stride + col * j->element);
        j->t->norm(&j->norm, y, r->rinv, dtype_index(p->weight_dtype),
                   (const unsigned char *)p->weight + col * epiqi_dtype_bytes(p->weight_dtype), n, y);
        break;
    default:
        j->t->load(at(&p->x, r->row, col * j->element), n, y);
        break;
    }
    return y;
}

static void begin_row(const job *j, scratch *s, row_state *r, int64_t row)
{
    const epiqi_plan *p = j->plan;
    r->row = row;
    r->rinv = 0;
    r->whole = p->padded <= ROW;
    r->have_h = r->have_y = 0;
    if (p->op != EPIQI_RMS_NORM)
        return;
    ar_tree tree = {0};
    for (int64_t col = 0; col < p->cols; col += TILE) {
        int64_t n = least(TILE, p->cols - col);
        float *h = s->row + (r->whole ? col : 0);
        make_h(j, r, col, n, h);
        zero_behind(h, n, n);
        ar_tree_push(&tree, j->stages->tree_squares(h, n, s->c));
    }
    r->rinv = j->stages->norm_rinv(&j->norm, ar_tree_total(&tree), p->cols);
    r->have_h = r->whole;
}

/* The largest |y| of a row, NaN skipped. A row that fits is then y, its residual stored if `store`. */
static float row_amax(const job *j, scratch *s, row_state *r, int store)
{
    float largest = 0;
    for (int64_t col = 0; col < j->plan->cols; col += TILE) {
        int64_t n = least(TILE, j->plan->cols - col);
        float *y = make_y(j, s, r, col, n, store && r->whole);
        zero_behind(y, n, n);
        j->stages->amax(y, n, PART, s->amax, s->nan);
        for (int64_t i = 0; i * PART < n; i++)
            largest = s->amax[i] > largest ? s->amax[i] : largest;
    }
    r->have_y = r->whole;
    return largest;
}

/* ---- From a tile of y to memory ---- */

static void write_scale(const epiqi_plan *p, int64_t row, int64_t group, uint32_t stored)
{
    unsigned char *to = p->scales.data + epiqi_scale_offset(p->layout, p->scales.stride, p->array.bytes, row, group);
    if (p->layout == EPIQ_LAYOUT_PACKED_UE8M0 || p->array.bytes == 1)
        *to = (unsigned char)stored;
    else
        memcpy(to, &stored, sizeof stored);
}

/* The scales of the groups of a tile, the first of which is a multiple of 4: bytes lie side by side in fours. */
static void write_scales(const epiqi_plan *p, int64_t row, int64_t first, int64_t groups, const uint32_t *stored)
{
    if (p->layout == EPIQ_LAYOUT_PACKED_UE8M0 || p->array.bytes == 1) {
        for (int64_t g = 0; g < groups; g += 4) {
            unsigned char *to =
                p->scales.data + epiqi_scale_offset(p->layout, p->scales.stride, p->array.bytes, row, first + g);
            for (int64_t i = 0; i < least(4, groups - g); i++)
                to[i] = (unsigned char)stored[g + i];
        }
    } else {
        for (int64_t g = 0; g < groups; g++)
            write_scale(p, row, first + g, stored[g]);
    }
}

static void write_codes(const job *j, scratch *s, int64_t row, int64_t col, int64_t n, int64_t group, const float *y,
                        const float *factor)
{
    const epiqi_plan *p = j->plan;
    unsigned char *to = p->codes.data + row * p->codes.stride + col * p->format->bits / 8;
    j->format->code(&j->quant, y, n, group, factor, j->divide, p->format->bits == 8 ? to : s->codes);
    if (p->format->bits == 4)
        j->stages->pack(s->codes, n, to);
}

/* Codes, and the scales of grain group, of n columns of y from col on. */
static void emit(const job *j, scratch *s, int64_t row, int64_t col, int64_t n, const float *y, float factor)
{
    const epiqi_plan *p = j->plan;
    if (p->grain != EPIQ_GRAIN_GROUP) {
        write_codes(j, s, row, col, n, n, y, &factor);
        return;
    }
    int64_t groups = (n + p->group - 1) / p->group, first = col / p->group;
    j->stages->amax(y, n, p->group, s->amax, s->nan);
    j->format->scale(&j->quant, s->amax, s->nan, groups, s->factor, s->stored);
    write_codes(j, s, row, col, n, p->group, y, s->factor);
    write_scales(p, row, first, groups, s->stored);
}

static void run_row(const job *j, scratch *s, int64_t row)
{
    const epiqi_plan *p = j->plan;
    row_state r;
    begin_row(j, s, &r, row);
    float factor = j->factor;
    if (p->format != NULL && p->grain == EPIQ_GRAIN_TOKEN) {
        s->amax[0] = row_amax(j, s, &r, 1);
        s->nan[0] = 0;
        j->format->scale(&j->quant, s->amax, s->nan, 1, s->factor, s->stored);
        factor = s->factor[0];
        write_scale(p, row, 0, s->stored[0]);
    }
    for (int64_t col = 0; col < p->padded; col += TILE) {
        int64_t n = least(TILE, p->padded - col), real = least(n, p->cols - col);
        float *y = s->row + (r.whole ? col : 0);
        if (real > 0) {
            y = make_y(j, s, &r, col, real, 1);
            if (p->y_out.data != NULL)
                j->t->store(y, real, p->op == EPIQI_QUANTIZE || p->round != EPIQ_ROUND_NONE,
                            p->y_out.data + row * p->y_out.stride + col * j->element);
        } else {
            real = 0;
        }
        if (p->format == NULL)
            continue;
        zero_behind(y, real, n); /* padded columns are +0 */
        emit(j, s, row, col, n, y, factor);
    }
    if (p->format != NULL && p->grain == EPIQ_GRAIN_GROUP)
        for (int64_t g = p->groups; g < epiqi_round_up(p->groups, p->array.group_multiple); g++)
            write_scale(p, row, g, 0);
}

static void dequantize_row(const job *j, scratch *s, int64_t row)
{
    const epiqi_plan *p = j->plan;
    for (int64_t col = 0; col < p->cols; col += TILE) {
        int64_t n = least(TILE, p->cols - col), group = p->grain == EPIQ_GRAIN_GROUP ? p->group : n;
        int64_t groups = (n + group - 1) / group;
        const unsigned char *from = at(&p->codes, row, col * p->format->bits / 8);
        if (p->format->bits == 8)
            memcpy(s->codes, from, (size_t)n);
        else
            j->stages->unpack(from, n, s->codes);
        j->format->value(s->codes, n, s->a);
        s->factor[0] = j->factor;
        if (p->grain != EPIQ_GRAIN_TENSOR) {
            for (int64_t g = 0; g < groups; g++) {
                int64_t offset = epiqi_scale_offset(p->layout, p->scales.stride, p->array.bytes, row,
                                                    p->grain == EPIQ_GRAIN_TOKEN ? 0 : col / group + g);
                s->stored[g] = p->scales.data[offset];
                if (p->layout != EPIQ_LAYOUT_PACKED_UE8M0 && p->array.bytes == 4)
                    memcpy(&s->stored[g], p->scales.data + offset, 4);
            }
            j->format->scale_value(&j->quant, s->stored, groups, s->factor);
        }
        j->stages->scale_rows(s->a, n, group, s->factor, j->second, s->row);
        j->t->store(s->row, n, 0, p->y_out.data + row * p->y_out.stride + col * j->element);
    }
}

/* ---- Tasks ---- */

static int64_t first_row(const job *j, int32_t task)
{
    return (int64_t)((uint64_t)j->plan->rows * (uint64_t)task / (uint64_t)j->tasks);
}

static void amax_task(void *work, int32_t task)
{
    job *j = work;
    uint64_t caller = fp_state_enter();
    scratch s;
    float largest = 0;
    for (int64_t row = first_row(j, task); row < first_row(j, task + 1); row++) {
        row_state r;
        begin_row(j, &s, &r, row);
        float a = row_amax(j, &s, &r, 0);
        largest = a > largest ? a : largest;
    }
    j->amax[task] = largest;
    fp_state_leave(caller);
}

static void rows_task(void *work, int32_t task)
{
    const job *j = work;
    uint64_t caller = fp_state_enter();
    scratch s;
    for (int64_t row = first_row(j, task); row < first_row(j, task + 1); row++) {
        if (j->plan->op == EPIQI_DEQUANTIZE)
            dequantize_row(j, &s, row);
        else
            run_row(j, &s, row);
    }
    fp_state_leave(caller);
}

static void run_tasks(job *j, epiq_task task)
{
    const epiq_exec *e = j->plan->exec;
    if (e->executor != NULL) { /* it may run other work, too */
        fp_state_leave(j->plan->caller_fp_state);
        e->executor(e->executor_data, j->tasks, task, j);
        (void)fp_state_enter();
    } else {
        for (int32_t i = 0; i < j->tasks; i++)
            task(j, i);
    }
}

/* The values of the whole tensor from the amax of every task, stored. */
static void finish_tensor(job *j)
{
    const epiqi_plan *p = j->plan;
    float amax[1 + SLACK] = {0}, factor[1 + SLACK];
    uint32_t nan[1 + SLACK] = {0}, stored[1 + SLACK];
    for (int32_t i = 0; i < j->tasks; i++)
        amax[0] = j->amax[i] > amax[0] ? j->amax[i] : amax[0];
    if (p->inv_scale_out != NULL) {
        j->quant.gs = j->stages->uniform_value(EPIQI_SECOND_LEVEL_OF_AMAX, amax[0]);
        memcpy(p->inv_scale_out, &j->quant.gs, sizeof j->quant.gs);
        return;
    }
    j->format->scale(&j->quant, amax, nan, 1, factor, stored);
    j->factor = factor[0];
    write_scale(p, 0, 0, stored[0]);
}

/* In a tile, the rows from `first` on: 4 bytes a row, and in one of 128 rows a line of 16 bytes is for the rows r,
 * r + 32, r + 64 and r + 96. */
static void zero_rows_of_tile(unsigned char *tile, int64_t first, int32_t rows)
{
    if (rows <= 32) {
        memset(tile + first * 4, 0, (size_t)(rows - first) * 4);
        return;
    }
    const int64_t quarter = first / 32, cut = first % 32;
    for (int64_t line = 0; line < cut; line++)
        memset(tile + line * 16 + (quarter + 1) * 4, 0, (size_t)(3 - quarter) * 4);
    if (quarter == 0) { /* whole lines, the most frequent case by far */
        memset(tile + cut * 16, 0, (size_t)(32 - cut) * 16);
        return;
    }
    for (int64_t line = cut; line < 32; line++)
        memset(tile + line * 16 + quarter * 4, 0, (size_t)(4 - quarter) * 4);
}

static void zero_padding_rows(const epiqi_plan *p)
{
    if (p->format == NULL || p->grain != EPIQ_GRAIN_GROUP || p->pad_rows != EPIQ_PAD_ROWS_ZERO)
        return;
    const int32_t rows = p->array.row_multiple;
    const int64_t first = p->rows % rows, base = p->rows - first;
    const int64_t groups = epiqi_round_up(p->groups, p->array.group_multiple);
    if (first == 0)
        return;
    if (epiqi_is_tiled(p->layout)) /* one row at a time, 127 of them took longer than all else */
        for (int64_t g = 0; g < groups; g += 4)
            zero_rows_of_tile(p->scales.data + epiqi_scale_offset(p->layout, p->scales.stride, 1, base, g), first,
                              rows);
    else
        for (int64_t row = p->rows; row < base + rows; row++)
            for (int64_t g = 0; g < groups; g++)
                write_scale(p, row, g, 0);
}

static float read_float(const float *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void prepare_quant(job *j)
{
    const epiqi_plan *p = j->plan;
    j->format = &j->stages->formats[p->format->index];
    j->quant.grain = p->grain == EPIQ_GRAIN_TENSOR ? AR_TENSOR : p->grain == EPIQ_GRAIN_TOKEN ? AR_TOKEN : AR_GROUP;
    j->quant.ue8m0 = p->ue8m0;
    j->quant.packed = p->layout == EPIQ_LAYOUT_PACKED_UE8M0;
    j->quant.mx_round = p->mx_round == EPIQ_MX_ROUND_FLOOR  ? AR_MX_FLOOR
                        : p->mx_round == EPIQ_MX_ROUND_VLLM ? AR_MX_VLLM
                                                            : AR_MX_CEIL;
    j->quant.ieee = p->nvfp4 == EPIQ_NVFP4_IEEE;
    j->quant.saturate = p->nan == EPIQ_NAN_SATURATE;
    j->quant.bound = INFINITY;
    if (p->scale_ub != NULL) {
        float bound = read_float(p->scale_ub);
        j->quant.bound = isnan(bound) ? INFINITY : bound;
    }
    j->second = 1.0f;
    if (p->format->format == EPIQ_FORMAT_NVFP4) {
        if (p->inv_scale != NULL)
            j->quant.gs = j->stages->uniform_value(EPIQI_SECOND_LEVEL, read_float(p->inv_scale));
        j->second = j->stages->uniform_value(EPIQI_OF_SCALE, j->quant.gs);
    }
    j->divide = p->grain != EPIQ_GRAIN_TENSOR ? j->format->divides : j->format->divides_static && p->scale != NULL;
    if (p->grain != EPIQ_GRAIN_TENSOR || p->dynamic)
        return;
    int direct = p->op == EPIQI_DEQUANTIZE ? p->scale != NULL : j->divide; /* the scale as it is */
    if (direct)
        j->factor = read_float(p->scale);
    else if (p->op == EPIQI_DEQUANTIZE)
        j->factor = j->stages->uniform_value(EPIQI_OF_SCALE, read_float(p->inv_scale));
    else if (p->scale != NULL)
        j->factor = j->stages->uniform_value(EPIQI_OF_SCALE, read_float(p->scale));
    else
        j->factor = j->stages->uniform_value(EPIQI_OF_INV_SCALE, read_float(p->inv_scale));
}

/* Tasks for an executor of unknown size: pieces of some 64 KiB of x, so that they can be balanced; but one where all of
 * the work takes about as long as waking another thread. */
static int64_t worth_tasks(const epiqi_plan *p)
{
    const int64_t pieces = p->rows * p->cols >> 15;
    return pieces < 4 ? 1 : 1 + least(pieces, 255);
}

static const epiqi_backend_rows *stages_of(epiq_backend backend)
{
    switch (backend) {
#define X(upper, lower)                                                                                                \
    case EPIQ_BACKEND_##upper:                                                                                         \
        return &epiqi_rows_##lower;
        EPIQI_CPU_BACKENDS(X)
#undef X
    default: /* dispatch lets no other pass */
        return &epiqi_rows_c;
    }
}

static void prepare(job *j, const epiqi_plan *p)
{
    memset(j, 0, offsetof(job, amax));
    j->plan = p;
    j->stages = stages_of(p->backend);
    j->t = &j->stages->dtypes[dtype_index(p->dtype)];
    j->element = epiqi_dtype_bytes(p->dtype);
    int round = p->round == EPIQ_ROUND_NONE   ? AR_ROUND_NONE
                : p->round == EPIQ_ROUND_ONCE ? AR_ROUND_ONCE
                                              : AR_ROUND_TWICE;
    if (p->op == EPIQI_ACT_MUL)
        j->act_mul = (ar_act_mul){p->act - EPIQ_ACT_SILU + AR_SILU,
                                  round,
                                  p->order != EPIQ_ORDER_UNGATED,
                                  p->alpha,
                                  p->limit,
                                  p->limit_after,
                                  p->up_offset};
    if (p->op == EPIQI_RMS_NORM)
        j->norm = (ar_norm){round, p->sum_round == EPIQ_SUM_ROUND_T, p->eps, p->weight_bias};
    if (p->format != NULL)
        prepare_quant(j);
    int64_t tasks = p->exec->tasks != 0 ? p->exec->tasks : p->exec->executor != NULL ? worth_tasks(p) : 1;
    j->tasks = (int32_t)least(least(tasks, MAX_TASKS), p->rows);
}

epiq_status epiqi_cpu_run(const epiqi_plan *plan)
{
    job j;
    prepare(&j, plan);
    if (plan->dynamic) {
        run_tasks(&j, amax_task);
        finish_tensor(&j);
    }
    run_tasks(&j, rows_task);
    if (plan->op != EPIQI_DEQUANTIZE)
        zero_padding_rows(plan);
    return EPIQ_OK;
}
