/* pool.c: epiq_pool, a thread pool for callers who have none.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One list of jobs; a thread, and the caller while it waits, takes the next index of the first job that has one left. A
 * job lives on its caller's stack and leaves the list with its last index; its caller waits until all taken indices are
 * done. After fork the child has none of the threads: its caller then runs every index itself. */
#define _GNU_SOURCE
#include <epiq/epiq.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct pool_job {
    struct pool_job *next;
    epiq_task task;
    void *work;
    int32_t tasks, taken, done;
} pool_job;

struct epiq_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;     /* the list is not empty, or the pool ends */
    pthread_cond_t finished; /* some job's `done` has reached `tasks` */
    pool_job *first, *last;  /* jobs with indices left */
    int end;
    pid_t owner;
    int32_t threads;
    pthread_t thread[];
};

/* Takes and runs one index of `job` (which is in the list); the lock is held on entry and on return. */
static void run_one(epiq_pool *pool, pool_job *job)
{
    int32_t index = job->taken++;
    if (job->taken == job->tasks) {
        pool_job **link = &pool->first, *previous = NULL;
        while (*link != job) {
            previous = *link;
            link = &previous->next;
        }
        *link = job->next;
        if (pool->last == job)
            pool->last = previous;
    }
    pthread_mutex_unlock(&pool->lock);
    job->task(job->work, index);
    pthread_mutex_lock(&pool->lock);
    if (++job->done == job->tasks)
        pthread_cond_broadcast(&pool->finished);
}

static void *thread_main(void *data)
{
    epiq_pool *pool = data;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->first == NULL && !pool->end)
            pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->first == NULL)
            break;
        run_one(pool, pool->first);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int32_t usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int32_t)n : 1;
}

static void stop(epiq_pool *pool, int32_t started)
{
    pthread_mutex_lock(&pool->lock);
    pool->end = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int32_t i = 0; i < started; i++)
        pthread_join(pool->thread[i], NULL);
}

epiq_pool *epiq_pool_create(int32_t threads)
{
    if (threads < 0 || threads > 4096)
        return NULL;
    if (threads == 0)
        threads = usable_cores();
    threads--; /* the caller works too */
    epiq_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof pool->thread[0]);
    if (pool == NULL)
        return NULL;
    pool->owner = getpid();
    pool->threads = threads;
    if (pthread_mutex_init(&pool->lock, NULL) != 0)
        goto no_lock;
    if (pthread_cond_init(&pool->work, NULL) != 0)
        goto no_work;
    if (pthread_cond_init(&pool->finished, NULL) != 0)
        goto no_finished;
    for (int32_t i = 0; i < threads; i++)
        if (pthread_create(&pool->thread[i], NULL, thread_main, pool) != 0) {
            stop(pool, i);
            goto no_thread;
        }
    return pool;
no_thread:
    pthread_cond_destroy(&pool->finished);
no_finished:
    pthread_cond_destroy(&pool->work);
no_work:
    pthread_mutex_destroy(&pool->lock);
no_lock:
    free(pool);
    return NULL;
}

void epiq_pool_destroy(epiq_pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->owner == getpid()) { /* else the threads and their locks belong to the parent */
        stop(pool, pool->threads);
        pthread_cond_destroy(&pool->finished);
        pthread_cond_destroy(&pool->work);
        pthread_mutex_destroy(&pool->lock);
    }
    free(pool);
}

void epiq_pool_executor(void *executor_data, int32_t tasks, epiq_task task, void *work)
{
    epiq_pool *pool = executor_data;
    if (tasks <= 1 || pool == NULL || pool->threads == 0 || pool->owner != getpid()) {
        for (int32_t i = 0; i < tasks; i++)
            task(work, i);
        return;
    }
    pool_job job = {.task = task, .work = work, .tasks = tasks};
    pthread_mutex_lock(&pool->lock);
    if (pool->last != NULL)
        pool->last->next = &job;
    else
        pool->first = &job;
    pool->last = &job;
    pthread_cond_broadcast(&pool->work);
    while (job.taken < job.tasks)
        run_one(pool, &job);
    while (job.done < job.tasks)
        pthread_cond_wait(&pool->finished, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
