/* gpu.c: see gpu.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* What is used of the driver's interface. */
typedef int (*driver_init)(unsigned flags);
typedef int (*driver_device)(int *device, int ordinal);
typedef int (*driver_retain)(void **context, int device);
typedef int (*driver_set)(void *context);
typedef int (*driver_host)(void **memory, size_t bytes, unsigned flags);
typedef int (*driver_wait)(void);

enum { ARENA = 512 << 20, CLASSES = 30, SMALLEST = 64, PORTABLE_MAPPED = 3 };

/* Blocks of 64 * 2^class bytes; the header keeps the class, a free one the
 * next. */
typedef struct block {
    struct block *next;
    int class;
} block;

static unsigned char *arena;
static int64_t used;
static block *idle[CLASSES];
static driver_wait wait_for_all;

/* Looks a function up; memcpy because ISO C has no conversion from an object pointer. */
static bool find(void *driver, const char *name, void *function)
{
    void *found = dlsym(driver, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

bool gpu_open(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL)
        return false;
    driver_init init;
    driver_device get;
    driver_retain retain;
    driver_set set;
    driver_host host;
    int device;
    void *context, *memory;
    if (!find(driver, "cuInit", &init) || !find(driver, "cuDeviceGet", &get) ||
        !find(driver, "cuDevicePrimaryCtxRetain", &retain) || !find(driver, "cuCtxSetCurrent", &set) ||
        !find(driver, "cuMemHostAlloc", &host) || !find(driver, "cuCtxSynchronize", &wait_for_all) || init(0) != 0 ||
        get(&device, 0) != 0 || retain(&context, device) != 0 || set(context) != 0 ||
        host(&memory, ARENA, PORTABLE_MAPPED) != 0)
        return false;
    arena = memory;
    return true;
}

void *gpu_allocate(int64_t bytes)
{
    if (arena == NULL)
        return NULL;
    int class = 0;
    while (((int64_t)SMALLEST << class) < bytes && class < CLASSES - 1)
        class ++;
    block *b = idle[class];
    if (b != NULL) {
        idle[class] = b->next;
    } else {
        const int64_t room = ((int64_t)SMALLEST << class) + SMALLEST;
        if (used + room > ARENA)
            return NULL;
        b = (block *)(arena + used);
        used += room;
    }
    b->class = class;
    return (unsigned char *)b + SMALLEST;
}

bool gpu_release(void *p)
{
    if (arena == NULL || (unsigned char *)p < arena || (unsigned char *)p >= arena + ARENA)
        return false;
    block *b = (block *)((unsigned char *)p - SMALLEST);
    b->next = idle[b->class];
    idle[b->class] = b;
    return true;
}

bool gpu_wait(void)
{
    return wait_for_all != NULL && wait_for_all() == 0;
}
