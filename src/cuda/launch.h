/* launch.h: which kernel runs, and where the operations' kernels are found.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_LAUNCH_H
#define EPIQ_LAUNCH_H

enum { CUDA_FLAT_KERNEL, CUDA_PAIR_KERNEL, CUDA_ROW_KERNEL, CUDA_ANY_KERNEL };
enum { CUDA_ANY_ACT, CUDA_SILU };

/* A kernel by what it is for. */
typedef struct cuda_kernel {
    int kind;
    int dtype;      /* AR_F32 ... */
    int format;     /* its place in EPIQI_FORMATS, CUDA_NONE or CUDA_AMAX */
    int group;      /* scales of groups */
    int silu;       /* act_mul: what CUDA_SILU does is enough */
    int per_thread; /* vectors: flat 1, 2, of f32 1; rows of rms_norm 1, 2, 4, 8,
                     of f32 1, 4 */
} cuda_kernel;

/* NULL if there is none. */
const void *epiqi_cuda_act_mul_kernel(const cuda_kernel *k);
const void *epiqi_cuda_rms_norm_kernel(const cuda_kernel *k);
const void *epiqi_cuda_quantize_kernel(const cuda_kernel *k);
const void *epiqi_cuda_dequantize_kernel(int dtype);

/* AR_X_DIVIDES, AR_X_DIVIDES_STATIC of a format. */
int epiqi_cuda_divides(int format);
int epiqi_cuda_divides_static(int format);

#endif
