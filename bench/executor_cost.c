/* executor_cost.c: what an executor costs a call too small to be split: ns of the same call without one, with one that
 * runs tasks where it is, and with the pool, in turn.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     cc -O2 -Iinclude bench/executor_cost.c -o build/executor_cost -Lbuild/release -lepiq
 *     LD_LIBRARY_PATH=build/release build/executor_cost
 */
#define _POSIX_C_SOURCE 200809L
#include <epiq/epiq.h>

#include <stdio.h>
#include <time.h>

enum { ROWS = 8, COLS = 4096, KINDS = 3, ROUNDS = 3000, CALLS = 20 };

static double now(void) /* ns */
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void in_place(void *data, int32_t tasks, epiq_task task, void *work)
{
    (void)data;
    for (int32_t i = 0; i < tasks; i++)
        task(work, i);
}

int main(void)
{
    static uint16_t x[ROWS * COLS];
    static uint8_t codes[ROWS * COLS];
    const float scale = 1;
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = (uint16_t)(0x3f80 + i % 64);
    epiq_pool *pool = epiq_pool_create(2);
    const epiq_quantize_args args = {.struct_size = sizeof args,
                                     .x = {.data = x, .rows = ROWS, .cols = COLS, .dtype = EPIQ_DTYPE_BF16}};
    const epiq_output out = {
        .struct_size = sizeof out, .format = EPIQ_FORMAT_E4M3, .codes_out = codes, .scale = &scale};
    const epiq_exec execs[KINDS] = {
        {.struct_size = sizeof(epiq_exec)},
        {.struct_size = sizeof(epiq_exec), .executor = in_place},
        {.struct_size = sizeof(epiq_exec), .executor = epiq_pool_executor, .executor_data = pool}};
    double least[KINDS] = {1e18, 1e18, 1e18};
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < KINDS; k++) {
            const double begin = now();
            for (int i = 0; i < CALLS; i++)
                if (epiq_quantize(&args, &out, &execs[k]) != EPIQ_OK)
                    return 1;
            const double each = (now() - begin) / CALLS;
            least[k] = each < least[k] ? each : least[k];
        }
    printf("[%d, %d] to e4m3, ns a call: %.0f without an executor, %.0f with one in place, %.0f with a pool of 2\n",
           ROWS, COLS, least[0], least[1], least[2]);
    epiq_pool_destroy(pool);
    return 0;
}
