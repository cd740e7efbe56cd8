/* test_invariance.c: what is written for a row depends on that row alone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Not on how many rows there are, where it stands among them, or what the others hold. The exceptions, a dynamic tensor
 * scale and a computed second level, are left out: they are of the whole matrix by definition. */
#include "check_harness.h"

#include <stdlib.h>
#include <string.h>

/* An operation with any quantizer that treats rows one by one, on `rows` rows. */
static combination some_call(rng *r, int i, int64_t rows)
{
    combination c;
    do
        c = random_combination(r, OP_ACT_MUL + i % 4);
    while ((c.grain == EPIQ_GRAIN_TENSOR && c.level == LEVEL_NONE) || c.level == LEVEL_COMPUTED);
    c.rows = rows;
    if (c.rows * c.cols > 40000)
        c.cols = 1 + c.cols % 160, c.padded_cols = 0;
    if (c.format != 0)
        fit_cols(&c);
    return c;
}

/* Row `row` of got must be what row `want_row` of want is. Answers its bytes. */
static int64_t same_row(const image *want, int64_t want_row, const image *got, int64_t row, const char *what)
{
    int64_t bytes = image_row(want, want_row, NULL);
    assert_true(bytes == image_row(got, row, NULL));
    unsigned char *a = malloc((size_t)bytes + 1), *b = malloc((size_t)bytes + 1);
    image_row(want, want_row, a);
    image_row(got, row, b);
    if (memcmp(a, b, (size_t)bytes) != 0) {
        combination_print(&want->of->c);
        fail_combination(&got->of->c, "%s: row %lld of the first is not row %lld of the second", what,
                         (long long)want_row, (long long)row);
    }
    free(a);
    free(b);
    return bytes;
}

/* Each row alone, on the library only: the whole is compared with the oracle first. */
static void row_alone(void **state)
{
    (void)state;
    static const int64_t rows[] = {2, 3, 5, 8, 33, 129};
    rng r = {1001};
    for (int i = 0; i < 600; i++) {
        combination c = some_call(&r, i, rows[i % (int)COUNT(rows)]), one = c;
        one.rows = 1;
        one.gaps = one.offsets = one.interleaved = 0;
        scenario s, t;
        if (!scenario_open(&s, &c))
            continue;
        assert_true(scenario_open(&t, &one));
        image want = image_make(&s), all = image_make(&s), alone = image_make(&t);
        image_oracle(&want);
        epiq_exec exec = random_exec(&r);
        image_run_ok(&all, &exec);
        compare_images(&want, &all, "all rows");
        int64_t bytes = 0;
        for (int64_t row = 0; row < c.rows; row++) {
            scenario_copy_row(&t, 0, &s, row);
            image_reset(&alone);
            exec = random_exec(&r);
            image_run_ok(&alone, &exec);
            bytes += same_row(&all, row, &alone, 0, "alone");
        }
        image_free(&want);
        image_free(&all);
        image_free(&alone);
        scenario_close(&s);
        scenario_close(&t);
        check_count(bytes);
    }
    check_report("row alone, seed 1001", 510);
}

/* The same rows in another order, in batches of another size, among rows of NaN, infinities and zeros. */
static void other_neighbours(void **state)
{
    (void)state;
    static const int64_t kinds[] = {DATA_NAN, DATA_SPECIAL, DATA_PATTERN, DATA_ZERO, DATA_HUGE};
    rng r = {1002};
    for (int i = 0; i < 600; i++) {
        combination c = some_call(&r, i, 1 + rng_below(&r, 20)), d = c;
        d.rows = 1 + rng_below(&r, 200);
        if (d.rows * d.cols > 40000)
            d.rows = 2;
        d.seed = c.seed + 1;
        d.data = d.second = rng_from(&r, kinds, COUNT(kinds));
        d.tasks = 1 + rng_below(&r, 9);
        scenario s, t;
        if (!scenario_open(&s, &c))
            continue;
        assert_true(scenario_open(&t, &d));
        image first = image_make(&s);
        epiq_exec exec = random_exec(&r);
        image_run_ok(&first, &exec);
        int64_t source[200];
        for (int64_t row = 0; row < d.rows; row++) {
            source[row] = rng_below(&r, 3) == 0 || row == 0 ? rng_below(&r, c.rows) : -1; /* -1: the row stays */
            if (source[row] >= 0)
                scenario_copy_row(&t, row, &s, source[row]);
        }
        image second = image_make(&t);
        exec = random_exec(&r);
        exec.tasks = (int32_t)d.tasks;
        image_run_ok(&second, &exec);
        int64_t bytes = 0;
        for (int64_t row = 0; row < d.rows; row++)
            if (source[row] >= 0)
                bytes += same_row(&first, source[row], &second, row, "among others");
        image_free(&first);
        image_free(&second);
        scenario_close(&s);
        scenario_close(&t);
        check_count(bytes);
    }
    check_report("other neighbours, seed 1002", 520);
}

/* A row of 5120 columns alone and in batches around 256 rows, for every quantizer behind a norm. */
static void around_256_rows(void **state)
{
    (void)state;
    static const int64_t batches[] = {255, 256, 257};
    size_t count;
    const combination *list = check_quantizers(&count);
    rng r = {1003};
    for (size_t i = 0; i < count; i++) {
        const combination *q = &list[i];
        if ((q->grain == EPIQ_GRAIN_TENSOR && q->level == LEVEL_NONE) || q->level == LEVEL_COMPUTED ||
            q->nan != EPIQ_NAN_PROPAGATE || q->pad_rows != EPIQ_PAD_ROWS_ZERO || q->layout != EPIQ_LAYOUT_ROW)
            continue;
        combination c = {.op = OP_RMS_NORM,
                         .dtype = EPIQ_DTYPE_BF16,
                         .rows = 1,
                         .cols = 5120,
                         .chain = EPIQ_CHAIN_VLLM,
                         .eps = 1e-6f,
                         .residual = RESIDUAL_OUT,
                         .y = Y_OUT,
                         .level_value = 20.0f,
                         .upper_bound = 2.0f,
                         .data = DATA_NORMAL,
                         .second = DATA_NORMAL,
                         .seed = 77};
        c = with_quantizer(c, q);
        combination d = c;
        d.rows = batches[i % COUNT(batches)];
        d.data = DATA_ZERO; /* (only the copied row matters) */
        scenario s, t;
        if (!scenario_open(&s, &c))
            continue;
        assert_true(scenario_open(&t, &d));
        image alone = image_make(&s);
        epiq_exec exec = random_exec(&r);
        image_run_ok(&alone, &exec);
        int64_t row = rng_below(&r, d.rows);
        scenario_copy_row(&t, row, &s, 0);
        image batch = image_make(&t);
        exec = random_exec(&r);
        exec.tasks = 3;
        image_run_ok(&batch, &exec);
        int64_t bytes = same_row(&alone, 0, &batch, row, "in a batch");
        image_free(&alone);
        image_free(&batch);
        scenario_close(&s);
        scenario_close(&t);
        check_count(bytes);
    }
    check_report("around 256 rows", 34);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(row_alone),
    cmocka_unit_test(other_neighbours),
    cmocka_unit_test(around_256_rows),
};

CHECK_MAIN(tests)
