/* test_fp_state.c: the caller's floating-point state changes no byte, and is the caller's again after the call.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Between setting a state and taking it back this program computes nothing. */
#define _GNU_SOURCE
#include "check_harness.h"

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

/* MXCSR: flags 0x3f, denormals-are-zero 0x40, masks 0x1f80, rounding 0x6000, flush-to-zero 0x8000. */
static const uint64_t states[] = {
    0x1f80,          /* usual */
    0x9fc0,          /* FTZ, DAZ */
    0x1fc0,          /* DAZ */
    0x9f80,          /* FTZ */
    0x3f80,          /* down */
    0x5f80,          /* up */
    0x7f80,          /* toward zero */
    0xffc0,          /* toward zero, FTZ, DAZ */
    0x1fbf,          /* all flags raised */
    0x0000,          /* every exception traps */
    0x0040,          /* ... and DAZ */
    0x2000 | 0x0f80, /* inexact traps, down */
    0x1f80 & ~0x80,  /* invalid traps */
    0x8040 | 0x6000, /* everything at once */
};

static uint64_t get_state(void)
{
    return _mm_getcsr();
}

static void set_state(uint64_t state)
{
    _mm_setcsr((unsigned)state);
}

#elif defined(__aarch64__)

/* FPCR: rounding 3 << 22, flush-to-zero 1 << 24, default NaN 1 << 25, traps 0x9f00 (zero where there are none). */
static const uint64_t states[] = {
    0,
    UINT64_C(1) << 24,
    UINT64_C(1) << 25,
    UINT64_C(1) << 22,
    UINT64_C(2) << 22,
    UINT64_C(3) << 22,
    UINT64_C(15) << 22,
    0x9f00,
    0x9f00 | UINT64_C(15) << 22,
};

static uint64_t get_state(void)
{
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    return state;
}

static void set_state(uint64_t state)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(state) : "memory");
}

#else
#error "say how this CPU's floating-point state is set"
#endif

/* Runs on the library in the given state; answers the state that it left, in *expected the state that it found. */
static epiq_status run_in(uint64_t state, const image *i, const epiq_exec *exec, uint64_t *expected, uint64_t *left)
{
    uint64_t usual = get_state();
    set_state(state);
    *expected = get_state();
    epiq_status status = image_run(i, exec);
    *left = get_state();
    set_state(usual);
    return status;
}

static void check_left(const combination *c, uint64_t expected, uint64_t left)
{
    if (expected != left)
        fail_combination(c, "the call leaves the floating-point state 0x%llx, it found 0x%llx",
                         (unsigned long long)left, (unsigned long long)expected);
}

/* Threads in a state of their own, one after the other, each with one task. */
typedef struct thread_work {
    epiq_task task;
    void *work;
    int32_t index;
    uint64_t state, expected, left;
} thread_work;

static void *thread_main(void *data)
{
    thread_work *t = data;
    uint64_t usual = get_state();
    set_state(t->state);
    t->expected = get_state();
    t->task(t->work, t->index);
    t->left = get_state();
    set_state(usual);
    return NULL;
}

typedef struct odd_threads {
    uint64_t state, found; /* found: by the executor, if it was called */
    int called, changed;
} odd_threads;

static void odd_executor(void *data, int32_t tasks, epiq_task task, void *work)
{
    odd_threads *o = data;
    uint64_t caller = get_state(); /* of the call */
    o->found = caller;
    o->called = 1;
    set_state(states[0]);
    for (int32_t i = 0; i < tasks; i++) {
        thread_work t = {.task = task, .work = work, .index = i, .state = o->state};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, thread_main, &t), 0);
        pthread_join(thread, NULL);
        o->changed |= t.left != t.expected;
    }
    set_state(caller);
}

static void check_states(const combination *c, int threads)
{
    scenario s;
    if (!scenario_open(&s, c))
        return;
    image want = image_make(&s), got = image_make(&s);
    image_oracle(&want);
    size_t count;
    const epiq_backend *backends = check_backends(&count);
    for (size_t b = 0; b < count; b++)
        for (size_t i = 0; i < COUNT(states); i++) {
            odd_threads odd = {.state = states[i]};
            epiq_exec exec = {.struct_size = sizeof exec, .backend = backends[b]};
            if (threads) {
                exec.tasks = 2;
                exec.executor = odd_executor;
                exec.executor_data = &odd;
            }
            uint64_t expected = 0, left = 0;
            image_reset(&got);
            epiq_status status = run_in(states[i], &got, &exec, &expected, &left);
            if (status != EPIQ_OK)
                fail_combination(c, "the call answers %s", epiq_word(status));
            check_left(c, expected, left);
            if (odd.called && odd.found != expected)
                fail_combination(c, "the executor runs in the state 0x%llx, the caller's is 0x%llx",
                                 (unsigned long long)odd.found, (unsigned long long)expected);
            if (odd.changed)
                fail_combination(c, "a task does not leave the state of its thread as it was");
            char what[64];
            snprintf(what, sizeof what, "in state 0x%llx", (unsigned long long)states[i]);
            compare_images(&want, &got, what);
        }
    image_free(&want);
    image_free(&got);
    scenario_close(&s);
    check_count(0);
}

/* Subnormals, overflow and invalid operations must occur where a state could show. */
static combination some_call(rng *r, int i)
{
    combination c = random_combination(r, OP_ACT_MUL + i % 4);
    if (c.rows * c.cols > 3000)
        c.rows = 2;
    return c;
}

static void callers_state(void **state)
{
    (void)state;
    rng r = {801};
    for (int i = 0; i < 1200; i++) {
        combination c = some_call(&r, i);
        check_states(&c, 0);
    }
    check_report("caller's state, seed 801", 1000);
}

static void threads_state(void **state)
{
    (void)state;
    rng r = {802};
    for (int i = 0; i < 60; i++) {
        combination c = some_call(&r, i);
        if (c.rows > 3)
            c.rows = 3;
        check_states(&c, 1);
    }
    check_report("threads' state, seed 802", 54);
}

/* As programs set it, and as the C library sees it afterwards. */
static void rounding_by_fenv(void **state)
{
    (void)state;
    static const int modes[] = {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO, FE_TONEAREST};
    rng r = {803};
    for (int i = 0; i < 300; i++) {
        combination c = some_call(&r, i);
        scenario s;
        if (!scenario_open(&s, &c))
            continue;
        image want = image_make(&s), got = image_make(&s);
        image_oracle(&want);
        for (size_t k = 0; k < COUNT(modes); k++) {
            image_reset(&got);
            fesetround(modes[k]);
            epiq_status status = image_run(&got, NULL);
            int mode = fegetround();
            fesetround(FE_TONEAREST);
            assert_int_equal(status, EPIQ_OK);
            assert_int_equal(mode, modes[k]);
            compare_images(&want, &got, "under fesetround");
        }
        image_free(&want);
        image_free(&got);
        scenario_close(&s);
        check_count(0);
    }
    check_report("fesetround, seed 803", 260);
}

/* Also a call without rows. */
static void without_work(void **state)
{
    (void)state;
    rng r = {804};
    for (int i = 0; i < 100; i++) {
        combination c = some_call(&r, i);
        c.rows = 0;
        check_states(&c, 0);
    }
    check_report("without work", 93);
}

/* Parameters that a comparison of floats trips over, valid and not, in calls that only look at arguments. */
static void arguments_alone(void **state)
{
    (void)state;
    static const uint32_t values[] = {0x00000001, 0x807fffff, 0x7fc00000, 0x7f800001, 0xff800001,
                                      0x7f800000, 0x3f800000, 0x00000000, 0xbf800000};
    static unsigned char somewhere[64];
    for (size_t v = 0; v < COUNT(values); v++)
        for (int field = 0; field < 6; field++)
            for (size_t i = 0; i < COUNT(states); i++) {
                epiq_act_mul_args a = {
                    .struct_size = sizeof a, .x = {.rows = 1, .cols = 8, .dtype = EPIQ_DTYPE_F32}, .y_out = somewhere};
                epiq_rms_norm_args n = {.struct_size = sizeof n,
                                        .eps = 1e-6f,
                                        .x = {.rows = 1, .cols = 8, .dtype = EPIQ_DTYPE_F32},
                                        .y_out = somewhere};
                float *const fields[] = {&a.alpha, &a.limit, &a.limit_after, &a.up_offset, &n.eps, &n.weight_bias};
                memcpy(fields[field], &values[v], 4);
                char text[512];
                uint64_t usual = get_state();
                set_state(states[i]);
                uint64_t found = get_state();
                epiq_status act_mul = epiq_check_act_mul(&a, NULL, NULL, NULL);
                epiq_status rms_norm = epiq_check_rms_norm(&n, NULL, NULL, NULL);
                epiq_explain_act_mul(&a, NULL, NULL, text, sizeof text);
                epiq_explain_rms_norm(&n, NULL, NULL, text, sizeof text);
                if (act_mul != EPIQ_OK)
                    act_mul = epiq_act_mul(&a, NULL, NULL);
                if (rms_norm != EPIQ_OK)
                    rms_norm = epiq_rms_norm(&n, NULL, NULL);
                uint64_t left = get_state();
                set_state(usual);
                if (left != found)
                    fail_msg("field %d = 0x%08x: state 0x%llx is left as 0x%llx", field, values[v],
                             (unsigned long long)found, (unsigned long long)left);
                assert_true(act_mul == EPIQ_OK || act_mul == EPIQ_ERROR_VALUE);
                assert_true(rms_norm == EPIQ_OK || rms_norm == EPIQ_ERROR_VALUE);
            }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(callers_state), cmocka_unit_test(threads_state),   cmocka_unit_test(rounding_by_fenv),
    cmocka_unit_test(without_work),  cmocka_unit_test(arguments_alone),
};

CHECK_MAIN(tests)
