/* test_guard_pages.c: no byte before a buffer's first or behind its last is read or written: the pages there forbid it.
 * SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "check_harness.h"

#include <signal.h>
#include <unistd.h>

static const combination *current;

static void on_fault(int number)
{
    (void)number;
    static const char text[] = "a byte outside of a buffer was touched\n";
    if (write(2, text, sizeof text - 1) < 0)
        _exit(2);
    if (current != NULL)
        combination_print(current); /* the fault is in the library, not in stdio */
    _exit(1);
}

/* On every backend, with all buffers at the end of their pages, then with all at the start. */
static void check_guarded(const combination *c)
{
    scenario s;
    if (!scenario_open(&s, c))
        return;
    size_t count;
    const epiq_backend *backends = check_backends(&count);
    image want = image_make(&s);
    image_oracle(&want);
    for (int at_end = 0; at_end < 2; at_end++)
        for (size_t i = 0; i < count; i++) {
            image got = image_make_guarded(&s, at_end, 0);
            epiq_exec exec = {.struct_size = sizeof exec, .backend = backends[i], .tasks = (int32_t)c->tasks};
            current = c;
            void (*before[2])(int) = {signal(SIGSEGV, on_fault), signal(SIGBUS, on_fault)};
            image_run_ok(&got, &exec);
            signal(SIGSEGV, before[0]);
            signal(SIGBUS, before[1]);
            current = NULL;
            compare_images(&want, &got, at_end ? "before a guard page" : "behind a guard page");
        }
    image_free(&want);
    scenario_close(&s);
    check_count(0);
}

/* Every quantizer with every dtype, at lengths around whole vectors and blocks. */
static void every_quantizer(void **state)
{
    (void)state;
    static const int64_t cols[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 63, 65, 112, 129, 160, 1023, 1025};
    rng r = {701};
    size_t count;
    const combination *list = check_quantizers(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < COUNT(cols); k++)
            for (int dtype = 0; dtype < 3; dtype++) {
                combination c = {.op = OP_QUANTIZE,
                                 .dtype = check_dtypes[dtype],
                                 .rows = 1 + rng_below(&r, 3),
                                 .cols = cols[k],
                                 .level_value = 3.0f,
                                 .upper_bound = 3.0f,
                                 .seed = 1 + rng_below(&r, 1 << 30)};
                c = with_quantizer(c, &list[i]);
                if (rng_below(&r, 4) == 0)
                    c.padded_cols = c.cols + rng_below(&r, 40);
                fit_cols(&c);
                check_guarded(&c);
            }
    check_report("every quantizer", 13300);
}

/* Every length of the operations' own inputs and outputs. */
static void every_length(void **state)
{
    (void)state;
    rng r = {702};
    for (int op = OP_ACT_MUL; op <= OP_RMS_NORM; op++)
        for (int64_t cols = 1; cols <= 100; cols++)
            for (int dtype = 0; dtype < 3; dtype++)
                for (int variant = 0; variant < 5; variant++) {
                    combination c = {.op = op,
                                     .dtype = check_dtypes[dtype],
                                     .rows = 1 + cols % 3,
                                     .cols = cols,
                                     .act = EPIQ_ACT_SILU,
                                     .order = EPIQ_ORDER_GATE_UP + variant,
                                     .chain = EPIQ_CHAIN_VLLM,
                                     .eps = 1e-6f,
                                     .weight_dtype = variant & 1 ? EPIQ_DTYPE_F32 : 0,
                                     .residual = op == OP_RMS_NORM ? variant % 4 : 0,
                                     .y = op == OP_RMS_NORM && variant == 4 ? Y_IN_PLACE : Y_OUT,
                                     .gaps = cols & 1 ? 0x222222222222 : 0,
                                     .seed = 1 + rng_below(&r, 1 << 30)};
                    check_guarded(&c);
                }
    check_report("every length", 2800);
}

static void at_random(void **state)
{
    (void)state;
    rng r = {703};
    for (int i = 0; i < 5000; i++) {
        combination c = random_combination(&r, OP_ACT_MUL + i % 4);
        c.interleaved = 0;
        c.rows = c.rows > 20 ? 20 : c.rows;
        check_guarded(&c);
    }
    check_report("at random, seed 703", 4300);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_quantizer),
    cmocka_unit_test(every_length),
    cmocka_unit_test(at_random),
};

CHECK_MAIN(tests)
