/* test_shrinking.c: a row is its own: the same row gives the same bytes in every call that holds it, whatever else
 * differs: the run, the backend, tasks and executor, the number of rows, the place among them, what the others hold,
 * strides, alignment. Where that fails, the calls are made smaller and plainer as long as it still fails, and the
 * smallest are printed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Seen failing: with a NaN in the row before that adds to the sum of squares, brought down to two rows of one column;
 * with an amax doubled in every fourth row of five columns or more, brought down to row 3 of 4 with five columns. */
#include "check_harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALONE, REVERSED, POOL };

/* Row `row` of a first call, described by c, comes again as row `position` of a second one. */
typedef struct trial {
    combination c;
    int64_t row, backend;
    int64_t rows, position, neighbours, gaps, offsets, interleaved; /* of the second; neighbours: DATA_ */
    int64_t other_backend, tasks, executor;
} trial;

/* 1 if the bytes of the row are not the same, 0 if they are, -1 if this version does not offer the call. */
typedef int (*property)(const trial *t);

static epiq_pool *pool;

static void reversed(void *data, int32_t tasks, epiq_task task, void *work)
{
    (void)data;
    for (int32_t i = tasks - 1; i >= 0; i--)
        task(work, i);
}

/* The whole matrix decides about each row: then the second call holds the same rows. */
static int of_the_whole(const combination *c)
{
    return (c->grain == EPIQ_GRAIN_TENSOR && c->level == LEVEL_NONE) || c->level == LEVEL_COMPUTED;
}

static int rows_differ(const image *a, int64_t row, const image *b, int64_t position)
{
    int64_t bytes = image_row(a, row, NULL);
    assert_true(bytes == image_row(b, position, NULL));
    unsigned char *p = malloc((size_t)bytes + 1), *q = malloc((size_t)bytes + 1);
    image_row(a, row, p);
    image_row(b, position, q);
    int differ = memcmp(p, q, (size_t)bytes) != 0;
    free(p);
    free(q);
    check_count(bytes);
    return differ;
}

static int row_differs(const trial *t)
{
    const int whole = of_the_whole(&t->c);
    combination d = t->c;
    d.rows = whole ? t->c.rows : t->rows;
    d.gaps = t->gaps;
    d.offsets = t->offsets;
    d.interleaved = t->interleaved;
    if (!whole) {
        d.seed++;
        d.data = d.second = t->neighbours;
    }
    scenario s, u;
    if (!scenario_open(&s, &t->c))
        return -1;
    assert_true(scenario_open(&u, &d));
    if (whole)
        for (int64_t row = 0; row < d.rows; row++)
            scenario_copy_row(&u, row, &s, row);
    else
        scenario_copy_row(&u, t->position, &s, t->row);

    image first = image_make(&s), again = image_make(&s), second = image_make(&u);
    epiq_exec exec = {.struct_size = sizeof exec, .backend = (epiq_backend)t->backend};
    image_run_ok(&first, &exec);
    image_run_ok(&again, &exec);
    exec.backend = (epiq_backend)t->other_backend;
    exec.tasks = (int32_t)t->tasks;
    exec.executor = t->executor == REVERSED ? reversed : t->executor == POOL ? epiq_pool_executor : NULL;
    exec.executor_data = t->executor == POOL ? pool : NULL;
    image_run_ok(&second, &exec);
    int differ = memcmp(first.memory, again.memory, (size_t)s.bytes) != 0;
    if (whole)
        for (int64_t row = 0; row < d.rows && !differ; row++)
            differ = rows_differ(&first, row, &second, row);
    else
        differ = differ || rows_differ(&first, t->row, &second, t->position);
    image_free(&first);
    image_free(&again);
    image_free(&second);
    scenario_close(&s);
    scenario_close(&u);
    return differ;
}

/* ---- Smaller calls ---- */

#define PLAINER(field, ...)                                                                                            \
    {                                                                                                                  \
        offsetof(trial, field),                                                                                        \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* Plainer values of a field, the plainest first; those behind the one that it has are not tried. */
static const struct {
    size_t offset;
    int64_t values[4];
} plainer[] = {
    PLAINER(executor, ALONE),
    PLAINER(tasks, 1),
    PLAINER(interleaved, 0),
    PLAINER(gaps, 0),
    PLAINER(offsets, 0),
    PLAINER(c.gaps, 0),
    PLAINER(c.offsets, 0),
    PLAINER(c.interleaved, 0),
    PLAINER(c.named_dtype, 0),
    PLAINER(c.defaults, 0),
    PLAINER(other_backend, EPIQ_BACKEND_C),
    PLAINER(backend, EPIQ_BACKEND_C),
    PLAINER(c.act, EPIQ_ACT_SILU, EPIQ_ACT_IDENTITY),
    PLAINER(c.order, EPIQ_ORDER_GATE_UP, EPIQ_ORDER_UNGATED),
    PLAINER(c.chain, EPIQ_CHAIN_VLLM, EPIQ_CHAIN_DIRECT),
    PLAINER(c.round, 0),
    PLAINER(c.sum_round, 0),
    PLAINER(c.weight_dtype, 0),
    PLAINER(c.residual, RESIDUAL_NONE, RESIDUAL_READ, RESIDUAL_OUT),
    PLAINER(c.y, Y_NONE, Y_OUT),
    PLAINER(c.layout, EPIQ_LAYOUT_ROW),
    PLAINER(c.ue8m0, 0),
    PLAINER(c.mx_round, EPIQ_MX_ROUND_CEIL),
    PLAINER(c.nvfp4, EPIQ_NVFP4_VLLM),
    PLAINER(c.nan, EPIQ_NAN_PROPAGATE),
    PLAINER(c.pad_rows, EPIQ_PAD_ROWS_ZERO),
    PLAINER(c.bounded, 0),
    PLAINER(c.padded_cols, 0),
    PLAINER(c.dtype, EPIQ_DTYPE_F32, EPIQ_DTYPE_BF16),
    PLAINER(neighbours, DATA_ONE, DATA_NORMAL, DATA_NAN),
    PLAINER(c.data, DATA_ONE, DATA_NORMAL),
    PLAINER(c.second, DATA_ONE, DATA_NORMAL),
    PLAINER(position, 0, 1),
    PLAINER(row, 0),
};

/* Floats that 0 leaves out. */
static const size_t floats[] = {offsetof(trial, c.alpha), offsetof(trial, c.limit), offsetof(trial, c.limit_after),
                                offsetof(trial, c.up_offset), offsetof(trial, c.weight_bias)};

static const size_t counts[] = {offsetof(trial, c.rows), offsetof(trial, rows), offsetof(trial, c.cols),
                                offsetof(trial, tasks)};

static int64_t *integer_at(trial *t, size_t offset)
{
    return (int64_t *)(void *)((unsigned char *)t + offset);
}

/* Takes the change if the property still fails. */
static int keeps_failing(trial *t, const trial *changed, property fails)
{
    trial next = *changed;
    if (next.c.rows < 1 || next.rows < 1 || next.c.cols < 1)
        return 0;
    next.row = next.row < next.c.rows ? next.row : next.c.rows - 1;
    next.position = next.position < next.rows ? next.position : next.rows - 1;
    if (next.c.y == Y_NONE && (next.c.format == 0 || next.c.op == OP_DEQUANTIZE))
        return 0;
    if (next.c.padded_cols != 0 && next.c.padded_cols < next.c.cols)
        next.c.padded_cols = 0;
    if (next.c.format != 0)
        fit_cols(&next.c);
    if (memcmp(&next, t, sizeof next) == 0 || (next.c.format != 0 && !header_offers(&next.c)) || fails(&next) != 1)
        return 0;
    *t = next;
    return 1;
}

static int shrink_once(trial *t, property fails)
{
    int shrunk = 0;
    for (size_t i = 0; i < COUNT(counts); i++)
        for (int64_t step = *integer_at(t, counts[i]) - 1; step > 0; step /= 2) {
            trial next = *t;
            *integer_at(&next, counts[i]) -= step;
            if (keeps_failing(t, &next, fails))
                shrunk = 1, step = *integer_at(t, counts[i]); /* (halved before the next) */
        }
    for (size_t i = 0; i < COUNT(plainer); i++)
        for (size_t k = 0; k < COUNT(plainer[i].values); k++) {
            trial next = *t;
            const int64_t now = *integer_at(t, plainer[i].offset);
            if (now == plainer[i].values[k] || (now == 0 && plainer[i].values[k] > EPIQ_BACKEND_C))
                break; /* as plain as that already, or a word of another operation */
            *integer_at(&next, plainer[i].offset) = plainer[i].values[k];
            if (plainer[i].values[k] == 0 && k > 0)
                break; /* the values have ended */
            if (keeps_failing(t, &next, fails)) {
                shrunk = 1;
                break;
            }
        }
    for (size_t i = 0; i < COUNT(floats); i++) {
        trial next = *t;
        memset((unsigned char *)&next + floats[i], 0, sizeof(float));
        shrunk |= keeps_failing(t, &next, fails);
    }
    return shrunk;
}

static void shrink(trial *t, property fails)
{
    for (int i = 0; i < 100 && shrink_once(t, fails); i++)
        continue;
}

static void print_trial(const char *what, const trial *t)
{
    print_error("%s: row %lld of the first call, on %s, is not what it is as row %lld of %lld,\n"
                "  neighbours=%lld gaps=0x%llx offsets=0x%llx interleaved=%lld, on %s, tasks=%lld executor=%lld\n",
                what, (long long)t->row, epiq_word((int32_t)t->backend), (long long)t->position, (long long)t->rows,
                (long long)t->neighbours, (unsigned long long)t->gaps, (unsigned long long)t->offsets,
                (long long)t->interleaved, epiq_word((int32_t)t->other_backend), (long long)t->tasks,
                (long long)t->executor);
    combination_print(&t->c);
}

/* ---- Random trials ---- */

static trial random_trial(rng *r, int i)
{
    static const int64_t kinds[] = {DATA_NAN, DATA_NAN, DATA_SPECIAL, DATA_PATTERN, DATA_ZERO, DATA_HUGE, DATA_TINY};
    trial t;
    memset(&t, 0, sizeof t);
    t.c = random_combination(r, OP_ACT_MUL + i % 4);
    t.c.tasks = 0;
    if (t.c.rows == 0)
        t.c.rows = 1 + rng_below(r, 9);
    t.row = rng_below(r, t.c.rows);
    t.rows = rng_below(r, 4) ? 1 + rng_below(r, 12) : 1 + rng_below(r, 270);
    if (t.rows * t.c.cols > 20000)
        t.rows = 1 + rng_below(r, 4);
    t.position = rng_below(r, t.rows);
    t.neighbours = rng_from(r, kinds, COUNT(kinds));
    if (rng_below(r, 2)) {
        t.gaps = (int64_t)(rng_bits(r) >> 16);
        t.offsets = (int64_t)(rng_bits(r) >> 16);
    }
    t.interleaved = rng_below(r, 8) == 0;
    t.backend = random_exec(r).backend;
    t.other_backend = random_exec(r).backend;
    t.tasks = rng_below(r, 2) ? 1 + rng_below(r, 9) : 0;
    t.executor = rng_below(r, 3);
    return t;
}

static void a_row_is_its_own(void **state)
{
    (void)state;
    pool = epiq_pool_create(3);
    assert_non_null(pool);
    rng r = {1401};
    for (int i = 0; i < 12000; i++) {
        trial t = random_trial(&r, i);
        if (row_differs(&t) != 1)
            continue;
        print_trial("found", &t);
        shrink(&t, row_differs);
        print_trial("minimal", &t);
        fail_msg("a row is not its own");
    }
    epiq_pool_destroy(pool);
    check_report("a row is its own, seed 1401", 20000);
}

/* ---- The shrinking itself ---- */

static int wide_interleaved_and_fourth(const trial *t)
{
    return t->c.cols > 37 && t->c.order == EPIQ_ORDER_INTERLEAVED && t->position >= 3 && t->c.limit > 0;
}

static void what_does_not_matter_goes(void **state)
{
    (void)state;
    rng r = {1402};
    int found = 0;
    for (int i = 0; i < 20000; i++) {
        trial t = random_trial(&r, 0);
        if (t.c.format == 0 || !header_offers(&t.c) || wide_interleaved_and_fourth(&t) != 1)
            continue;
        float limit = t.c.limit;
        shrink(&t, wide_interleaved_and_fourth);
        assert_int_equal(t.c.cols, 38);
        assert_int_equal(t.c.rows, 1);
        assert_int_equal(t.rows, 4);
        assert_int_equal(t.position, 3);
        assert_int_equal(t.row, 0);
        assert_int_equal(t.c.order, EPIQ_ORDER_INTERLEAVED);
        assert_true(t.c.limit == limit && t.c.alpha == 0 && t.c.up_offset == 0);
        assert_int_equal(t.c.act, EPIQ_ACT_SILU);
        assert_int_equal(t.c.dtype, EPIQ_DTYPE_F32);
        assert_int_equal(t.c.layout, EPIQ_LAYOUT_ROW);
        assert_int_equal(t.backend, EPIQ_BACKEND_C);
        assert_int_equal(t.gaps | t.offsets | t.c.gaps | t.c.offsets | t.interleaved | t.executor, 0);
        found++;
    }
    assert_true(found > 50);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_row_is_its_own),
    cmocka_unit_test(what_does_not_matter_goes),
};

CHECK_MAIN(tests)
