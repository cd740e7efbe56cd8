/* gpu.h: memory that both the CPU and the GPUs reach, for checks that compare
 * backends on the same buffers. SPDX-License-Identifier: Apache-2.0
 *
 * Through the driver, which is looked up at run time: the command needs no CUDA
 * toolkit and runs without a GPU. */
#ifndef EPIQ_GPU_H
#define EPIQ_GPU_H

#include <stdbool.h>
#include <stdint.h>

/* From here on allocate() takes page-locked memory. False, with nothing
 * changed, if there is no usable GPU. */
bool gpu_open(void);

/* NULL where gpu_open has not succeeded or the memory is used up. */
void *gpu_allocate(int64_t bytes);

/* Whether p came from gpu_allocate; it is free then. */
bool gpu_release(void *p);

/* Waits for all work on the GPU; false if it failed. */
bool gpu_wait(void);

#endif
