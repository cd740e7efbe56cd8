/* test_executors.c: the bytes do not depend on how a call is split into tasks, nor on who runs them.
 * SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "check_harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const int32_t task_counts[] = {1, 2, 3, 7, 100};

/* ---- Executors. data counts the tasks that were run. ---- */

static void reversed(void *data, int32_t tasks, epiq_task task, void *work)
{
    *(int64_t *)data += tasks;
    for (int32_t i = tasks - 1; i >= 0; i--)
        task(work, i);
}

static void shuffled(void *data, int32_t tasks, epiq_task task, void *work)
{
    *(int64_t *)data += tasks;
    int32_t *order = malloc((size_t)tasks * sizeof *order);
    rng r = {(uint64_t)tasks};
    for (int32_t i = 0; i < tasks; i++) {
        int32_t k = (int32_t)rng_below(&r, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (int32_t i = 0; i < tasks; i++)
        task(work, order[i]);
    free(order);
}

typedef struct thread_work {
    epiq_task task;
    void *work;
    int32_t first, tasks, step;
} thread_work;

static void *thread_main(void *data)
{
    thread_work *t = data;
    for (int32_t i = t->first; i < t->tasks; i += t->step)
        t->task(t->work, i);
    return NULL;
}

static void threaded(void *data, int32_t tasks, epiq_task task, void *work)
{
    enum { THREADS = 4 };
    *(int64_t *)data += tasks;
    pthread_t threads[THREADS];
    thread_work each[THREADS];
    for (int32_t i = 0; i < THREADS; i++) {
        each[i] = (thread_work){task, work, i, tasks, THREADS};
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, &each[i]), 0);
    }
    for (int32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- One combination under every executor ---- */

static combination some_call(rng *r, int i)
{
    combination c = random_combination(r, OP_ACT_MUL + i % 4);
    c.tasks = 0;
    if (i % 3 == 0) { /* more rows than tasks */
        c.rows = 129;
        c.cols = 1 + c.cols % 96;
        c.padded_cols = 0;
        if (c.format != 0)
            fit_cols(&c);
    }
    return c;
}

static void check_executors(const combination *c, epiq_backend backend, epiq_pool **pools, size_t pools_count)
{
    static const epiq_executor executors[] = {reversed, shuffled, threaded};
    scenario s;
    if (!scenario_open(&s, c))
        return;
    image want = image_make(&s), got = image_make(&s);
    image_oracle(&want);
    for (size_t k = 0; k < COUNT(task_counts); k++) {
        epiq_exec exec = {.struct_size = sizeof exec, .backend = backend, .tasks = task_counts[k]};
        image_reset(&got);
        image_run_ok(&got, &exec);
        compare_images(&want, &got, "without executor");
        for (size_t e = 0; e < COUNT(executors); e++) {
            int64_t ran = 0;
            exec.executor = executors[e];
            exec.executor_data = &ran;
            exec.tasks = k == 0 && e == 1 ? 0 : task_counts[k];
            image_reset(&got);
            image_run_ok(&got, &exec);
            compare_images(&want, &got, "under an executor");
            if ((ran > 0) != (c->rows > 0))
                fail_combination(c, "the executor ran %lld tasks", (long long)ran);
        }
        exec.executor = epiq_pool_executor;
        for (size_t p = 0; p < pools_count; p++) {
            exec.executor_data = pools[p];
            image_reset(&got);
            image_run_ok(&got, &exec);
            compare_images(&want, &got, "on a pool");
        }
    }
    image_free(&want);
    image_free(&got);
    scenario_close(&s);
    check_count(0);
}

enum { POOLS = 5 };

static void every_executor(void **state)
{
    (void)state;
    epiq_pool *pools[POOLS] = {NULL}; /* the first stays NULL: the caller runs every task */
    for (int32_t i = 1; i < POOLS; i++) {
        pools[i] = epiq_pool_create(i);
        assert_non_null(pools[i]);
    }
    rng r = {901};
    for (int i = 0; i < 150; i++) {
        combination c = some_call(&r, i);
        check_executors(&c, random_exec(&r).backend, pools, POOLS);
    }
    for (int i = 0; i < POOLS; i++)
        epiq_pool_destroy(pools[i]);
    check_report("every executor, seed 901", 130);
}

/* Executors are given each index once, from 0 on, and as many as were asked for at most. */
typedef struct record {
    int32_t limit, calls;
    int64_t indices;
} record;

static void recording(void *data, int32_t tasks, epiq_task task, void *work)
{
    record *r = data;
    r->calls++;
    r->indices += tasks;
    if (r->limit != 0)
        assert_true(tasks <= r->limit);
    assert_true(tasks >= 1);
    for (int32_t i = 0; i < tasks; i++)
        task(work, i);
}

static void number_of_tasks(void **state)
{
    (void)state;
    rng r = {902};
    for (int i = 0; i < 300; i++) {
        combination c = some_call(&r, i);
        scenario s;
        if (!scenario_open(&s, &c))
            continue;
        image got = image_make(&s);
        record seen = {.limit = task_counts[i % COUNT(task_counts)]};
        epiq_exec exec = random_exec(&r);
        exec.tasks = seen.limit;
        exec.executor = recording;
        exec.executor_data = &seen;
        image_run_ok(&got, &exec);
        assert_true(seen.calls <= 2);
        assert_true((seen.calls > 0) == (c.rows > 0));
        if (seen.limit != 0 && c.rows >= seen.limit)
            assert_true(seen.indices == (int64_t)seen.calls * seen.limit);
        image_free(&got);
        scenario_close(&s);
        check_count(0);
    }
    check_report("number of tasks, seed 902", 250);
}

/* ---- Several callers ---- */

enum { CALLERS = 4, ROUNDS = 15 };

typedef struct caller {
    scenario s;
    image want, got[ROUNDS];
    epiq_exec exec;
    epiq_status status;
} caller;

static void *caller_main(void *data)
{
    caller *c = data;
    for (int i = 0; i < ROUNDS; i++) {
        epiq_status status = image_run(&c->got[i], &c->exec);
        if (status != EPIQ_OK)
            c->status = status;
    }
    return NULL;
}

/* A case for each caller, the oracle's answer included. 0: the combination is not offered. */
static int caller_open(caller *c, const combination *k)
{
    *c = (caller){.status = EPIQ_OK};
    if (!scenario_open(&c->s, k))
        return 0;
    c->want = image_make(&c->s);
    image_oracle(&c->want);
    for (int i = 0; i < ROUNDS; i++)
        c->got[i] = image_make(&c->s);
    return 1;
}

static void caller_discard(caller *c)
{
    for (int i = 0; i < ROUNDS; i++)
        image_free(&c->got[i]);
    image_free(&c->want);
    scenario_close(&c->s);
    check_count(0);
}

static void caller_close(caller *c, const char *what)
{
    if (c->status != EPIQ_OK)
        fail_combination(&c->s.c, "%s: the call answers %s", what, epiq_word(c->status));
    for (int i = 0; i < ROUNDS; i++)
        compare_images(&c->want, &c->got[i], what);
    caller_discard(c);
}

static void several_callers(void **state)
{
    (void)state;
    rng r = {903};
    for (int round = 0; round < 24; round++) {
        epiq_pool *pool = epiq_pool_create(round % 4 + 1);
        assert_non_null(pool);
        caller callers[CALLERS];
        pthread_t threads[CALLERS];
        int open[CALLERS];
        for (int i = 0; i < CALLERS; i++) {
            combination c = some_call(&r, i);
            open[i] = caller_open(&callers[i], &c);
            callers[i].exec = (epiq_exec){.struct_size = sizeof callers[i].exec,
                                          .backend = random_exec(&r).backend,
                                          .tasks = task_counts[(round + i) % (int)COUNT(task_counts)],
                                          .executor = round % 4 == 3 && i == 0 ? NULL : epiq_pool_executor,
                                          .executor_data = round % 4 == 3 && i == 0 ? NULL : pool};
        }
        for (int i = 0; i < CALLERS; i++)
            if (open[i])
                assert_int_equal(pthread_create(&threads[i], NULL, caller_main, &callers[i]), 0);
        for (int i = 0; i < CALLERS; i++)
            if (open[i])
                pthread_join(threads[i], NULL);
        epiq_pool_destroy(pool);
        for (int i = 0; i < CALLERS; i++)
            if (open[i])
                caller_close(&callers[i], "several callers");
    }
    check_report("several callers, seed 903", 83);
}

/* ---- fork: the child has none of the pool's threads, and may use and destroy it all the same ---- */

/* 0 if the call on the pool gives the oracle's bytes; nothing of cmocka may run in a child. */
static int child_fails(caller *c, int first, epiq_pool *pool)
{
    for (int i = first; i < first + 2; i++) {
        c->exec = (epiq_exec){
            .struct_size = sizeof c->exec, .tasks = 7, .executor = epiq_pool_executor, .executor_data = pool};
        if (image_run(&c->got[i], &c->exec) != EPIQ_OK)
            return 1;
        if (memcmp(c->want.memory, c->got[i].memory, (size_t)c->s.bytes) != 0)
            return 1;
    }
    return 0;
}

/* (ThreadSanitizer ends a child that starts threads.) */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER
#endif
#endif
#if defined(UNDER_THREAD_SANITIZER) || defined(__SANITIZE_THREAD__)
enum { THREADS_AFTER_FORK = 1 };
#else
enum { THREADS_AFTER_FORK = 2 };
#endif

static void after_fork(void **state)
{
    (void)state;
    rng r = {904};
    for (int round = 0; round < 8; round++) {
        epiq_pool *pool = epiq_pool_create(1 + round % 4);
        assert_non_null(pool);
        caller c;
        combination k;
        do
            k = some_call(&r, round);
        while (k.rows < 3 || !caller_open(&c, &k));
        assert_int_equal(child_fails(&c, 0, pool), 0); /* the threads have been at work */
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60);
            int fails = child_fails(&c, 2, pool);
            epiq_pool *own = epiq_pool_create(THREADS_AFTER_FORK);
            fails |= own == NULL || child_fails(&c, 4, own);
            epiq_pool_destroy(own);
            epiq_pool_destroy(pool);
            _exit(fails);
        }
        int status = -1;
        assert_true(waitpid(child, &status, 0) == child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_combination(&k, "the child ends with status 0x%x", (unsigned)status);
        assert_int_equal(child_fails(&c, 2, pool), 0); /* the parent's pool is as it was */
        epiq_pool_destroy(pool);
        caller_discard(&c);
    }
    check_report("after fork, seed 904", 7);
}

/* Threads that keep the pool's lock busy. */
typedef struct traffic {
    epiq_pool *pool;
    atomic_int end;
    atomic_llong ran;
} traffic;

static void count_task(void *work, int32_t index)
{
    (void)index;
    atomic_fetch_add(&((traffic *)work)->ran, 1);
}

static void *traffic_main(void *data)
{
    traffic *t = data;
    while (!atomic_load(&t->end))
        epiq_pool_executor(t->pool, 16, count_task, t);
    return NULL;
}

/* A child that is made while a thread of the parent holds the lock of the pool, which nobody will give back. */
static void fork_of_a_busy_pool(void **state)
{
    (void)state;
#if defined(UNDER_THREAD_SANITIZER) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    rng r = {905};
    traffic t = {.pool = epiq_pool_create(3)};
    assert_non_null(t.pool);
    caller c;
    combination k;
    do
        k = some_call(&r, 0);
    while (k.rows < 3 || !caller_open(&c, &k));
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, traffic_main, &t), 0);
    int failed = 0;
    for (int i = 0; i < 60 && !failed; i++) {
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(20);
            int fails = child_fails(&c, 0, t.pool);
            epiq_pool_destroy(t.pool);
            _exit(fails);
        }
        int status = -1;
        assert_true(waitpid(child, &status, 0) == child);
        failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    atomic_store(&t.end, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    epiq_pool_destroy(t.pool);
    assert_true(atomic_load(&t.ran) % 16 == 0);
    if (failed)
        fail_combination(&k, "a child of a busy pool fails or waits for ever");
    caller_discard(&c);
    check_report("fork of a busy pool", 1);
}

static void pool_arguments(void **state)
{
    (void)state;
    epiq_pool_destroy(NULL);
    assert_null(epiq_pool_create(-1));
    epiq_pool *pool = epiq_pool_create(0);
    assert_non_null(pool);
    epiq_pool_executor(pool, 0, NULL, NULL); /* no task, none is called */
    epiq_pool_destroy(pool);
    for (int i = 0; i < 50; i++) { /* destroyed before its threads have run */
        pool = epiq_pool_create(4);
        assert_non_null(pool);
        epiq_pool_destroy(pool);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_executor), cmocka_unit_test(number_of_tasks),     cmocka_unit_test(several_callers),
    cmocka_unit_test(after_fork),     cmocka_unit_test(fork_of_a_busy_pool), cmocka_unit_test(pool_arguments),
};

CHECK_MAIN(tests)
