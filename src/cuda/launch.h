/* launch.h: which kernel runs, and where the operations' kernels are found.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_LAUNCH_H
#define EPIQ_LAUNCH_H

enum { CUDA_FLAT_KERNEL, CUDA_LEAN_KERNEL, CUDA_ROW_KERNEL, CUDA_WIDE_ROW_KERNEL, CUDA_STREAM_KERNEL, CUDA_ANY_KERNEL };
enum { CUDA_ANY_ACT, CUDA_SILU, CUDA_TABLE, CUDA_QUICK };
enum { TABLE_ENTRIES = 2 * 32 * 128, TABLE_BYTES = 4 * TABLE_ENTRIES }; /* of activations */
enum { LEAN_GROUP = 128 };                                              /* columns of a group of e4m3 in lean_kernel */
enum { LEAN_FOUR_THREADS = 448 }; /* of a block of lean_kernel with four vectors a thread, at most */
/* Compute capability of the GPUs that have stream kernels: where they were measured, and 10.x. 11.x and 12.x have less
 * memory bandwidth for what they compute, and nothing was measured there. */
#define STREAM_FROM 90
#define STREAM_BELOW 110

enum { STREAM_HEAD = 256 }; /* bytes for barriers, before the table and the ring of a stream kernel */
enum { STREAM_ROWS = 4 };   /* of a block of row_stream_kernel at once, at most */

/* A kernel by what it is for. */
typedef struct cuda_kernel {
    int kind;
    int dtype;      /* AR_F32 ... */
    int format;     /* its place in EPIQI_FORMATS, CUDA_NONE or CUDA_AMAX */
    int grain;      /* AR_TENSOR ... */
    int act;        /* act_mul: CUDA_SILU where that is enough, else CUDA_ANY_ACT; lean also CUDA_QUICK */
    int round;      /* lean: AR_ROUND_ of y */
    int per_thread; /* vectors: flat 1, of nvfp4 2 where k.act is not CUDA_ANY_ACT of act_mul; lean 1, 2, or 4 where a
                       block has a row and the rounding is compiled in */
} cuda_kernel;

/* NULL if there is none. */
const void *epiqi_cuda_act_mul_kernel(const cuda_kernel *k);
const void *epiqi_cuda_rms_norm_kernel(const cuda_kernel *k);
const void *epiqi_cuda_quantize_kernel(const cuda_kernel *k);
const void *epiqi_cuda_act_mul_fast_kernel(const cuda_kernel *k); /* CUDA_LEAN_KERNEL, CUDA_STREAM_KERNEL */
const void *epiqi_cuda_rms_norm_fast_kernel(const cuda_kernel *k);
const void *epiqi_cuda_quantize_fast_kernel(const cuda_kernel *k);
const void *epiqi_cuda_dequantize_kernel(int dtype);

/* AR_X_DIVIDES, AR_X_DIVIDES_STATIC of a format. */
int epiqi_cuda_divides(int format);
int epiqi_cuda_divides_static(int format);

#endif
