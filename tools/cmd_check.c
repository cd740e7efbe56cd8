/* cmd_check.c: epiq check: self-tests, and the bytes of every usable backend, whole and in tasks, against `c`.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call.h"
#include "command.h"
#include "gpu.h"
#include "tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One way to run a call. */
typedef struct way {
    char name[32];
    epiq_exec exec;
    int64_t calls, differing;
    char first[400]; /* the first difference, in words */
} way;

enum { MOST_WAYS = 16 };

typedef struct check {
    int ways;
    way way[MOST_WAYS];
    options arithmetic; /* of the calls under way */
    int64_t rows, cols;
    epiq_dtype dtype;
    void *x, *other, *weight; /* values for any call of this shape */
    float scale;
    uint64_t digest; /* FNV-1a of all that c has written: the same on every machine */
} check;

/* An executor that runs the tasks from the last to the first: their order must not matter. */
static void backwards(void *unused, int32_t tasks, epiq_task task, void *work)
{
    (void)unused;
    while (tasks-- > 0)
        task(work, tasks);
}

static bool differ_at(const char *name, const unsigned char *a, const unsigned char *b, int64_t bytes, char *text,
                      size_t room)
{
    if (memcmp(a, b, (size_t)bytes) == 0)
        return false;
    int64_t at = 0;
    while (a[at] == b[at])
        at++;
    snprintf(text, room, "%s: byte %" PRId64 " is 0x%02x, with c 0x%02x", name, at, b[at], a[at]);
    return true;
}

/* The first difference between what two calls wrote, in words; false if there is none. Where b has no y, that of a does
 * not count. */
static bool differs(const call *a, const call *b, char *text, size_t room)
{
    const struct {
        const char *name;
        const unsigned char *a, *b;
        int64_t bytes;
    } buffers[] = {
        {"codes", a->out.codes_out, b->out.codes_out, a->sizes.codes_bytes},
        {"scale", a->out.scale_out, b->out.scale_out, a->sizes.scale_bytes},
        {"inv_scale", (void *)a->out.inv_scale_out, (void *)b->out.inv_scale_out, sizeof(float)},
        {"y", call_y(a), call_y(b), a->sizes.y_bytes},
        {"residual", a->rms_norm.residual_out, b->rms_norm.residual_out, a->sizes.residual_bytes},
    };
    for (int i = 0; i < 5; i++)
        if (buffers[i].a != NULL && buffers[i].b != NULL &&
            differ_at(buffers[i].name, buffers[i].a, buffers[i].b, buffers[i].bytes, text, room))
            return true;
    return false;
}

static void add_to_digest(check *k, const void *written, int64_t bytes)
{
    const unsigned char *p = written;
    for (int64_t i = 0; p != NULL && i < bytes; i++)
        k->digest = (k->digest ^ p[i]) * UINT64_C(1099511628211);
}

static bool done(const epiq_exec *exec)
{
    return exec->backend != EPIQ_BACKEND_CUDA || gpu_wait();
}

/* What was wrong with the call in this way: `text`, or nothing. */
static void count(check *k, way *w, const call *a, const char *operation, const char *text)
{
    w->calls++;
    if (text == NULL || w->differing++ > 0)
        return;
    snprintf(w->first, sizeof w->first, "%s %s [%" PRId64 ", %" PRId64 "] to %s %s: %s", operation, epiq_word(k->dtype),
             a->sizes.rows, a->sizes.cols, a->quantizes ? epiq_word(a->out.format) : "y",
             a->quantizes ? epiq_word(a->sizes.grain) : "", text);
}

/* The codes of a, back to values, in every way. */
static void compare_dequantize(check *k, const call *a)
{
    const epiq_output *o = &a->out;
    epiq_dequantize_args d = {.struct_size = sizeof d, .format = o->format, .grain = a->sizes.grain};
    d.group = a->sizes.group;
    d.layout = a->sizes.layout;
    d.rows = a->sizes.rows;
    d.cols = a->sizes.cols;
    d.padded_cols = o->padded_cols;
    d.codes = o->codes_out;
    d.scale = o->scale_out ? o->scale_out : o->scale;
    d.inv_scale = o->inv_scale ? o->inv_scale : o->inv_scale_out;
    d.y_dtype = k->dtype;
    epiq_exec exec = {.struct_size = sizeof exec, .backend = EPIQ_BACKEND_C};
    epiq_sizes z = {.struct_size = sizeof z};
    if (epiq_check_dequantize(&d, &exec, &z) != EPIQ_OK)
        return;
    unsigned char *want = allocate(z.y_bytes);
    d.y_out = want;
    if (epiq_dequantize(&d, &exec) != EPIQ_OK)
        fail(EXIT_DIFFERS, "c cannot dequantize what it wrote");
    for (int i = 0; i < k->ways; i++) {
        char text[120] = "refused";
        unsigned char *found = allocate(z.y_bytes);
        d.y_out = found;
        const bool equal = epiq_dequantize(&d, &k->way[i].exec) == EPIQ_OK && done(&k->way[i].exec) &&
                           !differ_at("y", want, found, z.y_bytes, text, sizeof text);
        count(k, &k->way[i], a, "dequantize", equal ? NULL : text);
        release(found);
    }
    release(want);
}

/* Runs the call with c and in every way, and compares all that it writes; where there are codes also without y, which
 * other kernels may do. */
static void compare(check *k, const call *settings)
{
    call a = *settings;
    const bool y = a.operation != QUANTIZE, residual = a.rms_norm.residual != NULL;
    a.exec.backend = EPIQ_BACKEND_C;
    if (call_allocate(&a, y, residual) != EPIQ_OK)
        return; /* a combination that is refused */
    call_must_run(&a);
    add_to_digest(k, a.out.codes_out, a.sizes.codes_bytes);
    add_to_digest(k, a.out.scale_out, a.sizes.scale_bytes);
    add_to_digest(k, a.out.inv_scale_out, sizeof(float));
    add_to_digest(k, call_y(&a), a.sizes.y_bytes);
    add_to_digest(k, a.rms_norm.residual_out, a.sizes.residual_bytes);
    for (int i = 0; i < k->ways; i++)
        for (int with_y = y; with_y >= (y && a.quantizes ? 0 : y); with_y--) {
            way *w = &k->way[i];
            call b = *settings;
            char text[120] = "refused";
            b.exec = w->exec;
            const bool accepted = call_allocate(&b, with_y, residual) == EPIQ_OK;
            const bool equal =
                accepted && call_run(&b) == EPIQ_OK && done(&b.exec) && !differs(&a, &b, text, sizeof text);
            count(k, w, &a, operation_name(a.operation), equal ? NULL : text);
            if (accepted)
                call_free(&b);
        }
    if (a.operation == QUANTIZE)
        compare_dequantize(k, &a);
    call_free(&a);
}

/* A call of the operation on the values at hand; `out` NULL: y alone. */
static void compare_call(check *k, int operation, const epiq_output *out)
{
    call c;
    call_begin(&c, operation, &k->arithmetic);
    call_shape(&c, k->rows, k->cols, k->dtype, k->x);
    if (c.act_mul.order == EPIQ_ORDER_SEPARATE)
        c.act_mul.up = k->other;
    if (k->arithmetic.residual)
        c.rms_norm.residual = k->other;
    c.rms_norm.weight = k->weight;
    c.quantizes = out != NULL;
    if (out)
        c.out = *out;
    compare(k, &c);
}

/* The digits of a number that counts through all products of choices: a plain choice, or a word of a kind. Nothing is
 * left of the number as long as it belongs to a product. */
static int digit(int64_t *number, int choices)
{
    int value = (int)(*number % choices);
    *number /= choices;
    return value;
}

typedef struct words {
    int count;
    int32_t value[20];
} words;

/* The words of a kind; `absent`: and 0. */
static words words_of(const char *kind, bool absent)
{
    words w = {.count = 0};
    while (w.count < 18 && (w.value[w.count] = nth_value(kind, w.count)) != 0)
        w.count++;
    w.value[w.count] = 0;
    w.count += absent;
    return w;
}

static int32_t word_digit(int64_t *number, const words *w)
{
    return w->value[digit(number, w->count)];
}

/* Every quantizer that the library accepts: all products are tried, refusals cost next to nothing. */
static void compare_quantizers(check *k, int operation)
{
    static const int32_t groups[] = {0, 16, 32, 64};
    const words formats = words_of("format", false), grains = words_of("grain", false);
    const words layouts = words_of("layout", false), mx_rounds = words_of("mx_round", true);
    const words nvfp4s = words_of("nvfp4", true), nans = words_of("nan", false);
    for (int64_t number = 0;; number++) {
        int64_t n = number;
        epiq_output q = {.struct_size = sizeof q};
        q.format = (epiq_format)word_digit(&n, &formats);
        q.grain = (epiq_grain)word_digit(&n, &grains);
        q.layout = (epiq_layout)word_digit(&n, &layouts);
        q.mx_round = (epiq_mx_round)word_digit(&n, &mx_rounds);
        q.nvfp4 = (epiq_nvfp4)word_digit(&n, &nvfp4s);
        q.nan = (epiq_nan)word_digit(&n, &nans);
        q.group = groups[digit(&n, 4)];
        q.ue8m0 = digit(&n, 2);
        const int scale = digit(&n, 4);
        if (n > 0)
            return;
        q.scale = scale == 1 ? &k->scale : NULL;
        q.inv_scale = scale == 2 ? &k->scale : NULL;
        q.scale_ub = scale == 3 ? &k->scale : NULL;
        q.padded_cols = k->cols % 32 ? (k->cols + 31) / 32 * 32 : 0;
        compare_call(k, operation, &q);
    }
}

/* Every activation, order and rounding; y alone or one quantizer. */
static void compare_act_mul(check *k, const epiq_output *out)
{
    const words acts = words_of("act", false), rounds = words_of("act_round", false);
    const words orders = words_of("order", false);
    epiq_act_mul_args *a = &k->arithmetic.act_mul;
    for (int64_t number = 0;; number++) {
        int64_t n = number;
        a->act = (epiq_act)word_digit(&n, &acts);
        a->act_round = (epiq_round)word_digit(&n, &rounds);
        a->order = (epiq_order)word_digit(&n, &orders);
        const int limit = digit(&n, 3);
        if (n > 0)
            return;
        a->alpha = a->act == EPIQ_ACT_SILU && limit ? 1.702f : 0;
        a->limit = limit == 1 ? 7 : 0;
        a->limit_after = limit == 2 ? 2.5f : 0;
        a->up_offset = a->order != EPIQ_ORDER_UNGATED && limit ? 1 : 0;
        compare_call(k, ACT_MUL, limit == 1 ? NULL : out);
    }
}

static void compare_rms_norm(check *k, const epiq_output *out)
{
    const words sum_rounds = words_of("sum_round", false), norm_rounds = words_of("norm_round", false);
    epiq_rms_norm_args *a = &k->arithmetic.rms_norm;
    for (int64_t number = 0;; number++) {
        int64_t n = number;
        a->sum_round = (epiq_sum_round)word_digit(&n, &sum_rounds);
        a->norm_round = (epiq_round)word_digit(&n, &norm_rounds);
        const int bias = digit(&n, 2), residual = digit(&n, 2);
        if (n > 0)
            return;
        a->weight_bias = (float)bias;
        k->arithmetic.residual = residual ? "there" : NULL;
        compare_call(k, RMS_NORM, bias == residual ? NULL : out);
    }
}

static void compare_shape(check *k, const options *o, int64_t rows, int64_t cols)
{
    const epiq_output token = {.struct_size = sizeof token, .format = EPIQ_FORMAT_E4M3, .grain = EPIQ_GRAIN_TOKEN};
    static const epiq_dtype dtypes[] = {EPIQ_DTYPE_F32, EPIQ_DTYPE_F16, EPIQ_DTYPE_BF16};
    uint64_t state = (uint64_t)(rows * 1000003 + cols);
    k->rows = rows;
    k->cols = cols;
    for (int d = 0; d < 3; d++) {
        progress("[%" PRId64 ", %" PRId64 "] %s", rows, cols, epiq_word(dtypes[d]));
        k->dtype = dtypes[d];
        k->x = allocate(2 * rows * cols * dtype_bytes(k->dtype));
        k->other = allocate(rows * cols * dtype_bytes(k->dtype));
        k->weight = allocate(cols * dtype_bytes(k->dtype));
        for (int wild = 0; wild < 2; wild++) {
            make_values(k->x, k->dtype, 2 * rows * cols, &state, wild);
            make_values(k->other, k->dtype, rows * cols, &state, wild);
            make_values(k->weight, k->dtype, cols, &state, false);
            k->arithmetic = *o;
            k->arithmetic.residual = wild ? "there" : NULL;
            k->arithmetic.act_mul.act = EPIQ_ACT_IDENTITY; /* the cheapest: here the quantizer counts */
            compare_quantizers(k, ACT_MUL);
            compare_quantizers(k, RMS_NORM);
            compare_quantizers(k, QUANTIZE);
            k->arithmetic = *o;
            compare_act_mul(k, &token);
            k->arithmetic = *o;
            compare_rms_norm(k, &token);
        }
        release(k->x);
        release(k->other);
        release(k->weight);
    }
}

static void add_way(check *k, epiq_backend backend, const char *how, epiq_executor executor, void *data, int32_t tasks)
{
    if (k->ways == MOST_WAYS)
        return;
    way *w = &k->way[k->ways++];
    snprintf(w->name, sizeof w->name, "%s%s", epiq_word(backend), how);
    w->exec.struct_size = sizeof w->exec;
    w->exec.backend = backend;
    w->exec.executor = executor;
    w->exec.executor_data = data;
    w->exec.tasks = tasks;
}

int cmd_check(options *o)
{
    if ((o->backend == 0 || o->backend == EPIQ_BACKEND_CUDA) &&
        epiq_backend_usable(EPIQ_BACKEND_CUDA, 0, NULL, 0) == EPIQ_OK)
        (void)gpu_open(); /* before the buffers that it has to read */
    check *k = allocate(sizeof *k);
    memset(k, 0, sizeof *k);
    epiq_pool *pool = o->deep ? epiq_pool_create(4) : NULL;
    int32_t value;
    int failed = 0;
    char text[1000];
    if (o->backend) {
        epiq_status status = epiq_backend_usable(o->backend, 0, text, sizeof text);
        if (status != EPIQ_OK)
            fail(EXIT_BACKEND, "--backend %s: %s", epiq_word(o->backend), text);
    }
    if (o->json)
        printf("{\"self_tests\": [");
    for (int i = 0, shown = 0; (value = nth_value("backend", i)) != 0; i++) {
        epiq_backend backend = (epiq_backend)value;
        if (o->backend && backend != o->backend)
            continue;
        text[0] = '\0';
        bool usable = epiq_backend_usable(backend, 0, text, sizeof text) == EPIQ_OK, passed = true;
        if (usable) {
            progress("self-test of %s", epiq_word(backend));
            text[0] = '\0';
            passed = epiq_self_test(backend, 0, text, sizeof text) == EPIQ_OK;
            progress(NULL);
            failed += !passed;
            if (backend == EPIQ_BACKEND_CUDA) {
                add_way(k, backend, "", NULL, NULL, 0);
                add_way(k, backend, " without pdl", NULL, NULL, 0);
                k->way[k->ways - 1].exec.pdl = EPIQ_PDL_OFF;
                add_way(k, backend, " early trigger", NULL, NULL, 0);
                k->way[k->ways - 1].exec.pdl = EPIQ_PDL_EARLY;
            } else {
                if (backend != EPIQ_BACKEND_C)
                    add_way(k, backend, "", NULL, NULL, 0);
                add_way(k, backend, " in 3 tasks", backwards, NULL, 3);
                if (pool)
                    add_way(k, backend, " in 4 threads", epiq_pool_executor, pool, 7);
            }
        }
        if (o->json) {
            printf("%s{\"backend\": \"%s\", \"usable\": %s, \"passed\": %s, \"text\": ", shown++ ? ", " : "",
                   epiq_word(backend), usable ? "true" : "false",
                   !usable  ? "null"
                   : passed ? "true"
                            : "false");
            print_json_string(text);
            printf("}");
        } else {
            printf("%-20s %s%s%s\n", epiq_word(backend),
                   !usable  ? "not usable here"
                   : passed ? "self-test passed"
                            : "SELF-TEST FAILED",
                   text[0] ? ": " : "", text);
        }
    }
    fflush(stdout);
    k->scale = 0.05f;
    k->digest = UINT64_C(14695981039346656037);
    compare_shape(k, o, 5, 96);
    compare_shape(k, o, 3, 37);
    if (o->deep) {
        compare_shape(k, o, 130, 160);
        compare_shape(k, o, 7, 2048 + 16);
        compare_shape(k, o, 2, 8192 + 32);
    }
    progress(NULL);
    if (o->json)
        printf("], \"compared_with_c\": [");
    for (int i = 0; i < k->ways; i++) {
        const way *w = &k->way[i];
        failed += w->differing > 0;
        if (o->json) {
            printf("%s{\"how\": \"%s\", \"calls\": %" PRId64 ", \"differing\": %" PRId64 "}", i ? ", " : "", w->name,
                   w->calls, w->differing);
        } else {
            printf("%-20s ", w->name);
            if (w->differing == 0)
                printf("%" PRId64 " calls, the bytes of c\n", w->calls);
            else
                printf("%" PRId64 " of %" PRId64 " calls DIFFER from c; first: %s\n", w->differing, w->calls, w->first);
        }
    }
    if (o->json)
        printf("], \"digest\": \"%016" PRIx64 "\", \"passed\": %s}\n", k->digest, failed ? "false" : "true");
    else
        printf("%-20s %016" PRIx64 ", of all that c wrote: the same on every machine\n", "digest", k->digest);
    epiq_pool_destroy(pool);
    release(k);
    return failed ? EXIT_DIFFERS : 0;
}
