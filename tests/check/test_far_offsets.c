/* test_far_offsets.c: rows whose first element or byte lies beyond 2^31 and 2^32, and one row of 2^28 columns: faults
 * of kernels that count in 32 bits. The numbers are rows of the table in doc/testing.md.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The matrices are as large as they seem to the library, but not in memory: pages of one small file are mapped again
 * and again, and only the last window has pages of its own. Below the first byte lies memory that may not be touched.
 *
 * Seen failing: with the row offsets of inputs, and those of codes, cut to 32 bits with and without sign. */
#define _GNU_SOURCE
#include "check_harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BF16 EPIQ_DTYPE_BF16

/* `count` windows of so many bytes, all of the same pages but for the last. */
typedef struct windows {
    unsigned char *reserved, *first, *last;
    size_t bytes, count, all;
} windows;

enum { BELOW = 1 << 30 }; /* six times: an offset that wrapped to below 0 */

/* 0: cannot be had here. */
static int windows_open(windows *w, size_t bytes, size_t count)
{
    int file = memfd_create("epiq-test", 0);
    *w = (windows){.bytes = bytes, .count = count, .all = bytes * count + 6 * (size_t)BELOW};
    if (file < 0)
        return 0;
    w->reserved = mmap(NULL, w->all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (w->reserved == MAP_FAILED || ftruncate(file, (off_t)(2 * bytes)) != 0) {
        close(file);
        return 0;
    }
    w->first = w->reserved + 6 * (size_t)BELOW;
    w->last = w->first + bytes * (count - 1);
    int mapped = 1;
    for (size_t i = 0; i < count && mapped; i++)
        mapped = mmap(w->first + i * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                      i + 1 == count ? (off_t)bytes : 0) != MAP_FAILED;
    close(file);
    return mapped;
}

static void windows_close(windows *w)
{
    munmap(w->reserved, w->all);
}

static void fill(unsigned char *to, size_t bytes, uint64_t seed)
{
    rng r = {seed};
    for (size_t i = 0; i < bytes; i += 2) {
        uint64_t bits = rng_bits(&r);
        uint16_t x = (uint16_t)((bits & 0x807f) | (123 + bits / 65536 % 8) << 7);
        memcpy(to + i, &x, 2);
    }
}

/* x is [rows, width] bf16 and the codes [rows, cols]; both windows hold whole rows, those of the codes twice or more
 * often. Only the fastest backend runs: all of them have these offsets in common. */
typedef struct far_call {
    int op;
    int64_t rows, width, cols;
    int64_t x_rows, code_rows; /* of a window */
} far_call;

static epiq_status run(const far_call *f, const void *x, int64_t rows, void *codes, float *scales, epiq_pool *pool)
{
    epiq_exec exec = {.struct_size = sizeof exec, .executor = epiq_pool_executor, .executor_data = pool};
    epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = codes, .scale_out = scales};
    epiq_matrix matrix = {.data = x, .rows = rows, .cols = f->width, .dtype = BF16};
    if (f->op == OP_ACT_MUL) {
        epiq_act_mul_args a = {.struct_size = sizeof a, .x = matrix};
        return epiq_act_mul(&a, &o, &exec);
    }
    epiq_quantize_args a = {.struct_size = sizeof a, .x = matrix};
    return epiq_quantize(&a, &o, &exec);
}

static void far_rows(const far_call *f)
{
    windows x, codes;
    int open = windows_open(&x, (size_t)(f->x_rows * f->width * 2), (size_t)(f->rows / f->x_rows));
    open &= windows_open(&codes, (size_t)(f->code_rows * f->cols), (size_t)(f->rows / f->code_rows));
    if (!open) {
        print_message("so much of an address space cannot be had here\n");
        skip();
    }
    epiq_pool *pool = epiq_pool_create(0);
    assert_non_null(pool);
    fill(x.first, x.bytes, 51);
    fill(x.last, x.bytes, 52);
    float *scales = calloc((size_t)f->rows, sizeof *scales);
    assert_non_null(scales);
    assert_int_equal(run(f, x.first, f->rows, codes.first, scales, pool), EPIQ_OK);

    /* The same rows as small calls: those of all windows, and the last. */
    unsigned char *near_codes = malloc((size_t)(f->code_rows * f->cols));
    float *near_scales = malloc((size_t)f->code_rows * sizeof *near_scales);
    unsigned char *near_x = malloc(x.bytes);
    assert_true(near_codes != NULL && near_scales != NULL && near_x != NULL);
    for (int last = 0; last < 2; last++) {
        memcpy(near_x, last ? x.last : x.first, x.bytes);
        int64_t from = last ? f->code_rows - f->x_rows : 0;
        assert_int_equal(run(f, near_x, f->x_rows, near_codes, near_scales, pool), EPIQ_OK);
        const unsigned char *got = (last ? codes.last : codes.first) + from * f->cols;
        assert_memory_equal(got, near_codes, (size_t)(f->x_rows * f->cols));
        for (int64_t row = last ? f->rows - f->x_rows : 0; row < (last ? f->rows : f->rows - f->x_rows); row++)
            assert_int_equal(oracle_bits(scales[row]), oracle_bits(near_scales[row % f->x_rows]));
    }
    free(near_x);
    free(near_scales);
    free(near_codes);
    free(scales);
    epiq_pool_destroy(pool);
    windows_close(&x);
    windows_close(&codes);
}

/* [61682, 2 * 17408] and a little more: elements of x, and bytes of both, beyond 2^31. */
static void S50_row_offsets(void **state)
{
    (void)state;
    far_rows(&(far_call){OP_ACT_MUL, 61696, 2 * 17408, 17408, 32, 128});
}

/* rows * columns just over 2^31, bytes of x over 2^32. */
static void S51_elements_beyond_31_bits(void **state)
{
    (void)state;
    far_rows(&(far_call){OP_QUANTIZE, 65600, 32768, 32768, 32, 64});
}

/* The widest row: ones but for the last element, which alone has the scale. */
static void S56_widest_row(void **state)
{
    (void)state;
    enum { WINDOW = 1 << 21 };
    const int64_t cols = INT64_C(1) << 28;
    windows x, codes;
    int open = windows_open(&x, WINDOW, (size_t)(2 * cols / WINDOW));
    open &= windows_open(&codes, WINDOW, (size_t)(cols / WINDOW));
    if (!open) {
        print_message("so much of an address space cannot be had here\n");
        skip();
    }
    const uint16_t one = 0x3f80, largest = 0x43e0; /* 448 */
    for (size_t i = 0; i < WINDOW; i += 2) {
        memcpy(x.first + i, &one, 2);
        memcpy(x.last + i, &one, 2);
    }
    memcpy(x.last + WINDOW - 2, &largest, 2);
    float scale = 0;
    epiq_quantize_args a = {.struct_size = sizeof a, .x = {.data = x.first, .rows = 1, .cols = cols, .dtype = BF16}};
    epiq_output o = {
        .struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = codes.first, .scale_out = &scale};
    assert_int_equal(epiq_quantize(&a, &o, NULL), EPIQ_OK);
    assert_int_equal(oracle_bits(scale), 0x3f800000);
    for (int64_t i = 0; i < WINDOW; i++) {
        assert_int_equal(codes.first[i], 0x38);
        assert_int_equal(codes.last[i], i + 1 < WINDOW ? 0x38 : 0x7e);
    }
    windows_close(&x);
    windows_close(&codes);
    a.x.cols = cols + 1;
    assert_int_equal(epiq_quantize(&a, &o, NULL), EPIQ_ERROR_SHAPE);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(S50_row_offsets),
    cmocka_unit_test(S51_elements_beyond_31_bits),
    cmocka_unit_test(S56_widest_row),
};

CHECK_MAIN(tests)
