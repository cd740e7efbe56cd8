/* test_overlap.c: which buffers may share memory: the cases one by one, and random ones against marked bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call_fixture.h"

#include <stdlib.h>

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

/* y is 3 x 64 of bf16: 128 bytes a row, 384 in all. x of act_mul has rows of 256 bytes; codes of e4m3 rows of 64. */
typedef struct overlap_case {
    operation op;
    quantizer start;
    setting settings[8];
    const char *refused; /* the two buffers that overlap; NULL: accepted */
} overlap_case;

static const overlap_case cases[] = {
    /* ---- residual_out == residual, y_out == x.data in rms_norm: exactly, with equal strides ---- */
    {RMS_NORM, ANY, {PTR(rms_norm.residual_out, MEM(RESIDUAL, 0))}, NULL},
    {RMS_NORM, ANY, {PTR(rms_norm.y_out, MEM(X, 0))}, NULL},
    {RMS_NORM, ANY, {PTR(rms_norm.residual_out, MEM(RESIDUAL, 0)), PTR(rms_norm.y_out, MEM(X, 0))}, NULL},
    {RMS_NORM, NO_OUT, {PTR(rms_norm.residual_out, MEM(RESIDUAL, 0)), PTR(rms_norm.y_out, MEM(X, 0))}, NULL},
    {RMS_NORM,
     ANY,
     {PTR(rms_norm.residual_out, MEM(RESIDUAL, 0)), INT(rms_norm.residual_row_stride, 200),
      INT(rms_norm.residual_out_row_stride, 200), PTR(rms_norm.y_out, MEM(X, 0)), INT(rms_norm.x.row_stride, 130),
      INT(rms_norm.y_row_stride, 130)},
     NULL},
    {RMS_NORM, /* dense by 0 and by number are equal strides */
     ANY,
     {PTR(rms_norm.residual_out, MEM(RESIDUAL, 0)), INT(rms_norm.residual_row_stride, 128),
      PTR(rms_norm.y_out, MEM(X, 0)), INT(rms_norm.y_row_stride, 128)},
     NULL},
    {RMS_NORM, ANY, {PTR(rms_norm.residual_out, MEM(RESIDUAL, 1))}, "residual and residual_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.residual_out, MEM(RESIDUAL, 128))}, "residual and residual_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.residual, MEM(RESIDUAL_OUT, 2))}, "residual and residual_out"},
    {RMS_NORM,
     ANY,
     {PTR(rms_norm.residual_out, MEM(RESIDUAL, 0)), INT(rms_norm.residual_out_row_stride, 130)},
     "residual and residual_out"},
    {RMS_NORM,
     ANY,
     {PTR(rms_norm.residual_out, MEM(RESIDUAL, 0)), INT(rms_norm.residual_row_stride, 130)},
     "residual and residual_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.y_out, MEM(X, 2))}, "x.data and y_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.y_out, MEM(X, 128))}, "x.data and y_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.y_out, MEM(X, 0)), INT(rms_norm.x.row_stride, 256)}, "x.data and y_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.y_out, MEM(RESIDUAL, 0))}, "residual and y_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.residual_out, MEM(X, 0))}, "x.data and residual_out"},
    {RMS_NORM,
     ANY,
     {PTR(rms_norm.residual_out, MEM(RESIDUAL, 0)), PTR(rms_norm.y_out, MEM(RESIDUAL, 0))},
     "residual and y_out"},
    {ACT_MUL, ANY, {PTR(act_mul.y_out, MEM(X, 0))}, "x.data and y_out"}, /* not here, of equal strides either */
    {ACT_MUL,
     ANY,
     {PTR(act_mul.y_out, MEM(X, 0)), INT(act_mul.order, EPIQ_ORDER_UNGATED), INT(act_mul.x.cols, COLS)},
     "x.data and y_out"},
    {DEQUANTIZE, ANY, {PTR(dequantize.y_out, MEM(CODES, 0))}, "codes and y_out"},

    /* ---- Inputs may be one buffer ---- */
    {RMS_NORM, ANY, {PTR(rms_norm.residual, MEM(X, 0)), PTR(rms_norm.weight, MEM(X, 0))}, NULL},
    {ACT_MUL,
     ANY,
     {INT(act_mul.order, EPIQ_ORDER_SEPARATE), INT(act_mul.x.cols, COLS), PTR(act_mul.up, MEM(X, 0))},
     NULL},
    {QUANTIZE, E4M3_STATIC, {PTR(out.inv_scale, MEM(X, 0))}, NULL},
    {RMS_NORM, /* but residual_out == residual is then also x */
     ANY,
     {PTR(rms_norm.residual, MEM(X, 0)), PTR(rms_norm.residual_out, MEM(X, 0))},
     "x.data and residual_out"},

    /* ---- Each input against each output ---- */
    {ACT_MUL,
     ANY,
     {INT(act_mul.order, EPIQ_ORDER_SEPARATE), INT(act_mul.x.cols, COLS), PTR(act_mul.up, MEM(Y, 300))},
     "up and y_out"},
    {ACT_MUL,
     ANY,
     {INT(act_mul.order, EPIQ_ORDER_SEPARATE), INT(act_mul.x.cols, COLS), PTR(act_mul.up, MEM(CODES, 0))},
     "up and codes_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.weight, MEM(Y, 383))}, "weight and y_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.weight, MEM(CODES, 191))}, "weight and codes_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.weight, MEM(RESIDUAL_OUT, 1))}, "weight and residual_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.weight, MEM(SCALES, 0))}, "weight and scale_out"},
    {RMS_NORM, /* 64 fp32 weights reach 256 bytes */
     ANY,
     {INT(rms_norm.weight_dtype, EPIQ_DTYPE_F32), PTR(rms_norm.weight, MEM(SCALES, -252))},
     "weight and scale_out"},
    {RMS_NORM, ANY, {INT(rms_norm.weight_dtype, EPIQ_DTYPE_F32), PTR(rms_norm.weight, MEM(SCALES, -256))}, NULL},
    {QUANTIZE, E4M3_STATIC, {PTR(out.inv_scale, MEM(CODES, 188))}, "inv_scale and codes_out"},
    {QUANTIZE, E4M3_STATIC, {PTR(out.inv_scale, MEM(CODES, 192))}, NULL},
    {QUANTIZE, E4M3_STATIC, {PTR(out.inv_scale, NULL), PTR(out.scale, MEM(CODES, 0))}, "scale and codes_out"},
    {QUANTIZE, E4M3_TOKEN, {PTR(out.scale_ub, MEM(SCALES, 8))}, "scale_ub and scale_out"},
    {QUANTIZE, E4M3_TOKEN, {PTR(out.scale_ub, MEM(SCALES, 12))}, NULL},
    {ACT_MUL, E4M3_STATIC, {PTR(out.inv_scale, MEM(Y, 0))}, "inv_scale and y_out"},
    {QUANTIZE, NVFP4, {PTR(out.inv_scale, MEM(SCALES, 8))}, "inv_scale and scale_out"},
    {DEQUANTIZE, E4M3_TOKEN, {PTR(dequantize.y_out, MEM(SCALES, 11))}, "scale and y_out"},
    {DEQUANTIZE, E4M3_STATIC, {PTR(dequantize.inv_scale, MEM(Y, 4))}, "inv_scale and y_out"},
    {DEQUANTIZE, E4M3_DYNAMIC, {PTR(dequantize.scale, MEM(Y, 380))}, "scale and y_out"},
    {DEQUANTIZE, NVFP4, {PTR(dequantize.scale, MEM(Y, 0))}, "scale and y_out"},

    /* ---- Outputs against each other ---- */
    {QUANTIZE, E4M3_TOKEN, {PTR(out.scale_out, MEM(CODES, 188))}, "codes_out and scale_out"},
    {QUANTIZE, NVFP4, {PTR(out.scale_out, MEM(CODES, -11))}, "codes_out and scale_out"},
    {ACT_MUL, ANY, {PTR(act_mul.y_out, MEM(CODES, 0))}, "codes_out and y_out"},
    {ACT_MUL, ANY, {PTR(act_mul.y_out, MEM(SCALES, -380))}, "scale_out and y_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.residual_out, MEM(CODES, 100))}, "codes_out and residual_out"},
    {RMS_NORM, ANY, {PTR(rms_norm.y_out, MEM(RESIDUAL_OUT, 256))}, "residual_out and y_out"},
    {QUANTIZE, NVFP4_COMPUTED, {PTR(out.inv_scale_out, MEM(CODES, 92))}, "codes_out and inv_scale_out"},
    {QUANTIZE, NVFP4_COMPUTED, {PTR(out.inv_scale_out, MEM(X, 0))}, "x.data and inv_scale_out"},
    {QUANTIZE, NVFP4_COMPUTED, {PTR(out.inv_scale_out, MEM(CODES, 96))}, NULL},

    /* ---- Adjacent: the end of one is the start of another ---- */
    {QUANTIZE, ANY, {PTR(out.codes_out, MEM(X, 384))}, NULL},
    {QUANTIZE, ANY, {PTR(out.codes_out, MEM(X, 383))}, "x.data and codes_out"},
    {QUANTIZE, ANY, {PTR(quantize.x.data, MEM(CODES, 192))}, NULL},
    {QUANTIZE, ANY, {PTR(quantize.x.data, MEM(CODES, 191))}, "x.data and codes_out"},
    {QUANTIZE, E4M3_TOKEN, {PTR(out.scale_out, MEM(CODES, 192))}, NULL},
    {QUANTIZE, NVFP4, {PTR(out.scale_out, MEM(CODES, 96))}, NULL},
    {ACT_MUL, ANY, {PTR(act_mul.y_out, MEM(X, 768))}, NULL},
    {ACT_MUL, ANY, {PTR(act_mul.y_out, MEM(X, 767))}, "x.data and y_out"},

    /* ---- Padding is part of the output: a tile of 512 bytes, padded columns ---- */
    {QUANTIZE,
     NVFP4,
     {INT(out.layout, EPIQ_LAYOUT_TILE128X4), PTR(out.codes_out, MEM(SCALES, 511))},
     "codes_out and scale_out"},
    {QUANTIZE, NVFP4, {INT(out.layout, EPIQ_LAYOUT_TILE128X4), PTR(out.codes_out, MEM(SCALES, 512))}, NULL},
    {QUANTIZE, /* also what is not written */
     NVFP4,
     {INT(out.layout, EPIQ_LAYOUT_TILE128X4), INT(out.pad_rows, EPIQ_PAD_ROWS_KEEP),
      PTR(out.codes_out, MEM(SCALES, 511))},
     "codes_out and scale_out"},
    {QUANTIZE, E4M3_TOKEN, {INT(out.padded_cols, 80), PTR(out.scale_out, MEM(CODES, 239))}, "codes_out and scale_out"},
    {QUANTIZE, E4M3_TOKEN, {INT(out.padded_cols, 80), PTR(out.scale_out, MEM(CODES, 240))}, NULL},

    /* ---- Rows in the gaps of another's rows ---- */
    {QUANTIZE, /* left and right halves of rows of 256 bytes: x 128, codes 64 */
     ANY,
     {INT(quantize.x.row_stride, 256), PTR(out.codes_out, MEM(X, 128)), INT(out.codes_row_stride, 256)},
     NULL},
    {QUANTIZE, /* the other way round */
     ANY,
     {PTR(quantize.x.data, MEM(CODES, 64)), INT(quantize.x.row_stride, 256), INT(out.codes_row_stride, 256)},
     NULL},
    {QUANTIZE, /* codes and scales of a row together */
     E4M3_TOKEN,
     {INT(out.codes_row_stride, 68), INT(out.scale_stride, 68), PTR(out.scale_out, MEM(CODES, 64))},
     NULL},
    {QUANTIZE, /* one byte into the next row of x, or out of the gap */
     ANY,
     {INT(quantize.x.row_stride, 256), PTR(out.codes_out, MEM(X, 193)), INT(out.codes_row_stride, 256)},
     "x.data and codes_out"},
    {QUANTIZE,
     ANY,
     {INT(quantize.x.row_stride, 256), PTR(out.codes_out, MEM(X, 127)), INT(out.codes_row_stride, 256)},
     "x.data and codes_out"},
    {QUANTIZE, /* the codes of the last row lie behind the last row of x */
     ANY,
     {INT(quantize.x.row_stride, 192), PTR(out.codes_out, MEM(X, 128)), INT(out.codes_row_stride, 192)},
     NULL},
    {RMS_NORM, /* x and y as column slices of one matrix */
     ANY,
     {INT(rms_norm.x.row_stride, 256), PTR(rms_norm.y_out, MEM(X, 128)), INT(rms_norm.y_row_stride, 256)},
     NULL},
    {ACT_MUL, /* four slices of one matrix: x, y, codes, scales */
     E4M3_TOKEN,
     {INT(act_mul.x.row_stride, 1000), PTR(act_mul.y_out, MEM(X, 256)), INT(act_mul.y_row_stride, 1000),
      PTR(out.codes_out, MEM(X, 384)), INT(out.codes_row_stride, 1000), PTR(out.scale_out, MEM(X, 448)),
      INT(out.scale_stride, 1000)},
     NULL},
    {QUANTIZE, /* a dense buffer within one gap */
     ANY,
     {INT(quantize.x.row_stride, 512), PTR(out.codes_out, MEM(X, 128))},
     NULL},
    {QUANTIZE, /* or across a row */
     ANY,
     {INT(quantize.x.row_stride, 256), PTR(out.codes_out, MEM(X, 128))},
     "x.data and codes_out"},
    {QUANTIZE, /* different strides whose spans meet count as overlap, even where no byte is shared */
     ANY,
     {INT(quantize.x.row_stride, 256), PTR(out.codes_out, MEM(X, 128)), INT(out.codes_row_stride, 512)},
     "x.data and codes_out"},
    {QUANTIZE, /* one row: its stride says nothing */
     ANY,
     {INT(quantize.x.rows, 1), INT(quantize.x.row_stride, 256), PTR(out.codes_out, MEM(X, 128)),
      INT(out.codes_row_stride, 512)},
     NULL},
    {QUANTIZE, /* spans that do not meet */
     ANY,
     {INT(quantize.x.row_stride, 256), PTR(out.codes_out, MEM(X, 640)), INT(out.codes_row_stride, 512)},
     NULL},

    /* ---- Workspace: where it is used (the backend is the next rule) ---- */
    {QUANTIZE,
     E4M3_DYNAMIC,
     {INT(exec.backend, EPIQ_BACKEND_CUDA), PTR(exec.workspace, MEM(Y, 1)), INT(exec.workspace_bytes, 1 << 16),
      PTR(out.codes_out, MEM(WORKSPACE, 0))},
     "codes_out and workspace"},
    {QUANTIZE,
     NVFP4_COMPUTED,
     {INT(exec.backend, EPIQ_BACKEND_CUDA), PTR(exec.workspace, MEM(X, 0)), INT(exec.workspace_bytes, 1 << 16)},
     "x.data and workspace"},
    {QUANTIZE, /* not used: ignored */
     E4M3_DYNAMIC,
     {PTR(exec.workspace, MEM(X, 0)), INT(exec.workspace_bytes, 1 << 16)},
     NULL},
};

static void test_cases(void **state)
{
    (void)state;
    int faults = 0;
    for (size_t i = 0; i < COUNT(cases); i++) {
        call c;
        char text[2048], expected[64] = "";
        fill_memory();
        begin(&c, cases[i].op, cases[i].start);
        apply(&c, cases[i].settings, COUNT(cases[i].settings));
        assert_int_equal(call_check(&c, NULL), EPIQ_OK); /* compares no addresses */
        call_explain(&c, text, sizeof text);
        epiq_status status = call_run(&c);
        if (cases[i].refused != NULL)
            snprintf(expected, sizeof expected, "%s overlap", cases[i].refused);
        const int right = cases[i].refused == NULL
                              ? status == EPIQ_OK && strstr(text, "overlap") == NULL
                              : status == EPIQ_ERROR_OVERLAP && strstr(text, expected) != NULL && memory_is_untouched();
        if (!right) {
            print_error("case %zu of %s: %s; expected \"%s\":\n%s", i, operation_name(cases[i].op), epiq_word(status),
                        expected, text);
            faults++;
        }
    }
    assert_int_equal(faults, 0);
}

/* ---- Random buffers in a small arena, against the bytes themselves ----------------------------------------------- */

enum { ARENA = 192 };

static _Alignas(64) unsigned char arena[ARENA];

static uint32_t random_state = 1;

static int random_below(int n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((uint64_t)random_state * (uint64_t)n >> 32);
}

/* A buffer as the caller describes it. */
typedef struct buffer {
    const char *name;
    int offset, rows, row_bytes, stride, written;
} buffer;

/* Rows of `row_bytes` somewhere in the arena; stride 0 in `given` where it is dense, sometimes. Keeps the last stride
 * now and then, and the last place, so that aliases and column slices occur. */
static buffer random_buffer(const char *name, int rows, int row_bytes, int written, const buffer *like, int unit)
{
    buffer b = {name, 0, rows, row_bytes, row_bytes, written};
    if (random_below(3) != 0)
        b.stride += random_below(32 / unit) * unit;
    if (like != NULL && like->stride >= row_bytes && random_below(2) == 0)
        b.stride = like->stride;
    int room = ARENA - ((rows - 1) * b.stride + row_bytes);
    if (room < 0) {
        b.stride = row_bytes;
        room = ARENA - rows * row_bytes;
    }
    b.offset = random_below(room / unit + 1) * unit;
    if (like != NULL && random_below(4) == 0 && like->offset <= room)
        b.offset = like->offset;
    return b;
}

static int share_a_byte(const buffer *a, const buffer *b)
{
    unsigned char marks[ARENA] = {0};
    for (int r = 0; r < a->rows; r++)
        memset(marks + a->offset + r * a->stride, 1, (size_t)a->row_bytes);
    for (int r = 0; r < b->rows; r++)
        for (int i = 0; i < b->row_bytes; i++)
            if (marks[b->offset + r * b->stride + i])
                return 1;
    return 0;
}

static int end_of(const buffer *b)
{
    return b->offset + (b->rows - 1) * b->stride + b->row_bytes;
}

/* Both have gaps, of different periods, and their spans meet: refused without a look at the rows. */
static int spans_of_different_strides(const buffer *a, const buffer *b)
{
    const int gaps = a->rows > 1 && a->stride > a->row_bytes && b->rows > 1 && b->stride > b->row_bytes;
    return gaps && a->stride != b->stride && a->offset < end_of(b) && b->offset < end_of(a);
}

static int is_allowed_alias(const buffer *a, const buffer *b)
{
    const int pair = (strcmp(a->name, "residual") == 0 && strcmp(b->name, "residual_out") == 0) ||
                     (strcmp(a->name, "x.data") == 0 && strcmp(b->name, "y_out") == 0);
    return pair && a->offset == b->offset && a->stride == b->stride;
}

typedef struct tally {
    int accepted, refused, by_span, aliases, slices;
} tally;

/* Whether a call with these buffers must be refused. */
static int must_refuse(const buffer *b, int count, int aliases, tally *t)
{
    int refuse = 0, by_span = 0, shared = 0, slices = 0;
    for (int i = 0; i < count; i++)
        for (int k = i + 1; k < count; k++) {
            if (!b[i].written && !b[k].written)
                continue;
            if (aliases && is_allowed_alias(&b[i], &b[k])) {
                shared = 1;
            } else if (share_a_byte(&b[i], &b[k])) {
                refuse = 1;
            } else if (spans_of_different_strides(&b[i], &b[k])) {
                by_span = 1;
            } else if (b[i].offset < end_of(&b[k]) && b[k].offset < end_of(&b[i])) {
                slices = 1;
            }
        }
    t->refused += refuse;
    t->by_span += !refuse && by_span;
    t->accepted += !refuse && !by_span;
    t->aliases += !refuse && !by_span && shared;
    t->slices += !refuse && !by_span && slices;
    return refuse || by_span;
}

static int64_t given_stride(const buffer *b)
{
    return b->stride == b->row_bytes && random_below(2) == 0 ? 0 : b->stride;
}

static void report(const call *c, const buffer *b, int count, int refuse)
{
    char text[2048];
    call_explain(c, text, sizeof text);
    print_error("%s should be %s:\n", operation_name(c->op), refuse ? "refused" : "accepted");
    for (int i = 0; i < count; i++)
        print_error("    %-12s at %3d, %d rows of %d bytes, stride %d\n", b[i].name, b[i].offset, b[i].rows,
                    b[i].row_bytes, b[i].stride);
    fail_msg("%s", text);
}

/* Runs a call and holds its status against the bytes; a refused one leaves the arena as it was. */
static void hold_against_bytes(const call *c, const buffer *b, int count, int aliases, tally *t)
{
    unsigned char before[ARENA];
    for (int i = 0; i < ARENA; i++)
        arena[i] = before[i] = (unsigned char)random_below(64);
    const int refuse = must_refuse(b, count, aliases, t);
    epiq_status status = call_run(c);
    if (status != (refuse ? EPIQ_ERROR_OVERLAP : EPIQ_OK))
        report(c, b, count, refuse);
    if (refuse) {
        assert_memory_equal(arena, before, ARENA);
        return;
    }
    unsigned char writable[ARENA] = {0}; /* an accepted one writes its outputs alone */
    for (int i = 0; i < count; i++)
        for (int r = 0; b[i].written && r < b[i].rows; r++)
            memset(writable + b[i].offset + r * b[i].stride, 1, (size_t)b[i].row_bytes);
    for (int i = 0; i < ARENA; i++)
        if (!writable[i] && arena[i] != before[i])
            fail_msg("%s wrote byte %d, which is in no output", operation_name(c->op), i);
}

static void random_rms_norm(tally *t)
{
    const int rows = 1 + random_below(4), cols = 1 + random_below(6);
    buffer b[5];
    b[0] = random_buffer("x.data", rows, 2 * cols, 0, NULL, 1);
    b[1] = random_buffer("residual", rows, 2 * cols, 0, &b[0], 1);
    b[2] = random_buffer("weight", 1, 2 * cols, 0, NULL, 1);
    b[3] = random_buffer("residual_out", rows, 2 * cols, 1, &b[1], 1);
    b[4] = random_buffer("y_out", rows, 2 * cols, 1, &b[0], 1);
    call c;
    begin(&c, RMS_NORM, NO_OUT);
    c.rms_norm.x = (epiq_matrix){arena + b[0].offset, rows, cols, given_stride(&b[0]), EPIQ_DTYPE_BF16, 0};
    c.rms_norm.residual = arena + b[1].offset;
    c.rms_norm.residual_row_stride = given_stride(&b[1]);
    c.rms_norm.weight = arena + b[2].offset;
    c.rms_norm.residual_out = arena + b[3].offset;
    c.rms_norm.residual_out_row_stride = given_stride(&b[3]);
    c.rms_norm.y_out = arena + b[4].offset;
    c.rms_norm.y_row_stride = given_stride(&b[4]);
    hold_against_bytes(&c, b, 5, 1, t);
}

static void random_quantize(tally *t)
{
    const int rows = 1 + random_below(4), cols = 1 + random_below(10);
    buffer b[3];
    b[0] = random_buffer("x.data", rows, 2 * cols, 0, NULL, 1);
    b[1] = random_buffer("codes_out", rows, cols, 1, &b[0], 1);
    b[2] = random_buffer("scale_out", rows, 4, 1, &b[random_below(2)], 4);
    if (b[2].stride % 4 != 0 || b[2].offset % 4 != 0) /* a float pointer */
        b[2] = random_buffer("scale_out", rows, 4, 1, NULL, 4);
    call c;
    begin(&c, QUANTIZE, E4M3_TOKEN);
    c.quantize.x = (epiq_matrix){arena + b[0].offset, rows, cols, given_stride(&b[0]), EPIQ_DTYPE_F16, 0};
    c.out.codes_out = arena + b[1].offset;
    c.out.codes_row_stride = given_stride(&b[1]);
    c.out.scale_out = arena + b[2].offset;
    c.out.scale_stride = given_stride(&b[2]);
    hold_against_bytes(&c, b, 3, 0, t);
}

static void random_dequantize(tally *t)
{
    const int rows = 1 + random_below(4), blocks = 1 + random_below(2);
    buffer b[4];
    b[0] = random_buffer("codes", rows, 8 * blocks, 0, NULL, 1);
    b[1] = random_buffer("scale", rows, blocks, 0, &b[0], 1);
    b[2] = random_buffer("inv_scale", 1, 4, 0, NULL, 4);
    b[3] = random_buffer("y_out", rows, 2 * 3, 1, &b[0], 1); /* 3 columns of a padded row */
    call c;
    begin(&c, DEQUANTIZE, NVFP4);
    c.dequantize.rows = rows;
    c.dequantize.cols = 3;
    c.dequantize.padded_cols = 16 * blocks;
    c.dequantize.codes = arena + b[0].offset;
    c.dequantize.codes_row_stride = given_stride(&b[0]);
    c.dequantize.scale = arena + b[1].offset;
    c.dequantize.scale_stride = given_stride(&b[1]);
    c.dequantize.inv_scale = (const float *)(void *)(arena + b[2].offset);
    c.dequantize.y_out = arena + b[3].offset;
    c.dequantize.y_row_stride = given_stride(&b[3]);
    hold_against_bytes(&c, b, 4, 0, t);
}

static void test_random_buffers(void **state)
{
    (void)state;
    static void (*const make[])(tally * t) = {random_rms_norm, random_quantize, random_dequantize};
    for (size_t k = 0; k < COUNT(make); k++) {
        tally t = {0};
        for (int i = 0; i < 200000; i++)
            make[k](&t);
        print_message("           accepted %d (%d in gaps, %d aliases), refused %d, by span alone %d\n", t.accepted,
                      t.slices, t.aliases, t.refused, t.by_span);
        assert_true(t.accepted > 10000 && t.refused > 10000 && t.by_span > 300 && t.slices > 500);
        assert_true(k != 0 || t.aliases > 2000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_random_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
