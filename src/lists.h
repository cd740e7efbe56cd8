/* lists.h: the one enumeration of what epiq has. Lists without bodies: each user defines X and expands them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_LISTS_H
#define EPIQ_LISTS_H

/* Kinds of words: field name (epiq_value's `kind`), first number of its block. */
#define EPIQI_KINDS(X)                                                                                                 \
    X("status", 0)                                                                                                     \
    X("backend", 100)                                                                                                  \
    X("dtype", 200)                                                                                                    \
    X("weight_dtype", 200)                                                                                             \
    X("scale_dtype", 200)                                                                                              \
    X("y_dtype", 200)                                                                                                  \
    X("format", 300)                                                                                                   \
    X("grain", 400)                                                                                                    \
    X("layout", 500)                                                                                                   \
    X("act", 600)                                                                                                      \
    X("order", 700)                                                                                                    \
    X("chain", 800)                                                                                                    \
    X("act_round", 900)                                                                                                \
    X("norm_round", 900)                                                                                               \
    X("sum_round", 1000)                                                                                               \
    X("mx_round", 1100)                                                                                                \
    X("nvfp4", 1200)                                                                                                   \
    X("nan", 1300)                                                                                                     \
    X("pad_rows", 1400)                                                                                                \
    X("pdl", 1500)

/* Words: value, word. Of a value with two words the first is the one that epiq_word answers. */
#define EPIQI_WORDS(X)                                                                                                 \
    X(EPIQ_OK, "ok")                                                                                                   \
    X(EPIQ_ERROR_STRUCT, "struct")                                                                                     \
    X(EPIQ_ERROR_VALUE, "value")                                                                                       \
    X(EPIQ_ERROR_CONFLICT, "conflict")                                                                                 \
    X(EPIQ_ERROR_SHAPE, "shape")                                                                                       \
    X(EPIQ_ERROR_STRIDE, "stride")                                                                                     \
    X(EPIQ_ERROR_BUFFER, "buffer")                                                                                     \
    X(EPIQ_ERROR_OVERLAP, "overlap")                                                                                   \
    X(EPIQ_ERROR_WORKSPACE, "workspace")                                                                               \
    X(EPIQ_ERROR_UNSUPPORTED, "unsupported")                                                                           \
    X(EPIQ_ERROR_BACKEND, "backend")                                                                                   \
    X(EPIQ_ERROR_DEVICE, "device")                                                                                     \
    X(EPIQ_ERROR_CUDA, "cuda")                                                                                         \
    X(EPIQ_ERROR_SELF_TEST, "self_test")                                                                               \
    X(EPIQ_BACKEND_C, "c")                                                                                             \
    X(EPIQ_BACKEND_AVX2, "avx2")                                                                                       \
    X(EPIQ_BACKEND_AVX512, "avx512")                                                                                   \
    X(EPIQ_BACKEND_NEON, "neon")                                                                                       \
    X(EPIQ_BACKEND_CUDA, "cuda")                                                                                       \
    X(EPIQ_DTYPE_F32, "f32")                                                                                           \
    X(EPIQ_DTYPE_F16, "f16")                                                                                           \
    X(EPIQ_DTYPE_BF16, "bf16")                                                                                         \
    X(EPIQ_DTYPE_E4M3, "e4m3")                                                                                         \
    X(EPIQ_DTYPE_E8M0, "e8m0")                                                                                         \
    X(EPIQ_DTYPE_I32, "i32")                                                                                           \
    X(EPIQ_FORMAT_E4M3, "e4m3")                                                                                        \
    X(EPIQ_FORMAT_E5M2, "e5m2")                                                                                        \
    X(EPIQ_FORMAT_INT8, "int8")                                                                                        \
    X(EPIQ_FORMAT_MXFP8, "mxfp8")                                                                                      \
    X(EPIQ_FORMAT_MXFP4, "mxfp4")                                                                                      \
    X(EPIQ_FORMAT_NVFP4, "nvfp4")                                                                                      \
    X(EPIQ_GRAIN_TENSOR, "tensor")                                                                                     \
    X(EPIQ_GRAIN_TOKEN, "token")                                                                                       \
    X(EPIQ_GRAIN_GROUP, "group")                                                                                       \
    X(EPIQ_LAYOUT_ROW, "row")                                                                                          \
    X(EPIQ_LAYOUT_LINEAR, "linear")                                                                                    \
    X(EPIQ_LAYOUT_COL, "col")                                                                                          \
    X(EPIQ_LAYOUT_COL_ALIGNED, "col_aligned")                                                                          \
    X(EPIQ_LAYOUT_PACKED_UE8M0, "packed_ue8m0")                                                                        \
    X(EPIQ_LAYOUT_TILE128X4, "tile128x4")                                                                              \
    X(EPIQ_LAYOUT_TILE8X4, "tile8x4")                                                                                  \
    X(EPIQ_ACT_SILU, "silu")                                                                                           \
    X(EPIQ_ACT_GELU_TANH, "gelu_tanh")                                                                                 \
    X(EPIQ_ACT_GELU_ERF, "gelu_erf")                                                                                   \
    X(EPIQ_ACT_RELU, "relu")                                                                                           \
    X(EPIQ_ACT_RELU2, "relu2")                                                                                         \
    X(EPIQ_ACT_IDENTITY, "identity")                                                                                   \
    X(EPIQ_ORDER_GATE_UP, "gate_up")                                                                                   \
    X(EPIQ_ORDER_UP_GATE, "up_gate")                                                                                   \
    X(EPIQ_ORDER_INTERLEAVED, "interleaved")                                                                           \
    X(EPIQ_ORDER_SEPARATE, "separate")                                                                                 \
    X(EPIQ_ORDER_UNGATED, "ungated")                                                                                   \
    X(EPIQ_CHAIN_VLLM, "vllm")                                                                                         \
    X(EPIQ_CHAIN_FLASHINFER, "flashinfer")                                                                             \
    X(EPIQ_CHAIN_ALLREDUCE, "allreduce")                                                                               \
    X(EPIQ_CHAIN_DIRECT, "direct")                                                                                     \
    X(EPIQ_ROUND_NONE, "none")                                                                                         \
    X(EPIQ_ROUND_ONCE, "once")                                                                                         \
    X(EPIQ_ROUND_TWICE, "twice")                                                                                       \
    X(EPIQ_SUM_ROUND_FP32, "fp32")                                                                                     \
    X(EPIQ_SUM_ROUND_T, "t")                                                                                           \
    X(EPIQ_MX_ROUND_CEIL, "ceil")                                                                                      \
    X(EPIQ_MX_ROUND_FLOOR, "floor")                                                                                    \
    X(EPIQ_MX_ROUND_VLLM, "vllm")                                                                                      \
    X(EPIQ_NVFP4_VLLM, "vllm")                                                                                         \
    X(EPIQ_NVFP4_IEEE, "ieee")                                                                                         \
    X(EPIQ_NAN_PROPAGATE, "propagate")                                                                                 \
    X(EPIQ_NAN_SATURATE, "saturate")                                                                                   \
    X(EPIQ_PAD_ROWS_ZERO, "zero")                                                                                      \
    X(EPIQ_PAD_ROWS_KEEP, "keep")                                                                                      \
    X(EPIQ_PDL_OFF, "off")                                                                                             \
    X(EPIQ_PDL_LATE, "late")                                                                                           \
    X(EPIQ_PDL_EARLY, "early")

/* Dtypes of x and y: value suffix, name, bytes. The order is that of AR_F32, AR_F16, AR_BF16. */
#define EPIQI_DTYPES(X)                                                                                                \
    X(F32, f32, 4)                                                                                                     \
    X(F16, f16, 2)                                                                                                     \
    X(BF16, bf16, 2)

/* Formats: value suffix, name, bits of a code, columns of a block (0: none fixed), dtype of a stored scale, grains. */
#define EPIQI_FORMATS(X)                                                                                               \
    X(E4M3, e4m3, 8, 0, F32, EPIQI_STATIC | EPIQI_DYNAMIC | EPIQI_TOKEN | EPIQI_GROUP)                                 \
    X(E5M2, e5m2, 8, 0, F32, EPIQI_STATIC | EPIQI_DYNAMIC | EPIQI_TOKEN | EPIQI_GROUP)                                 \
    X(INT8, int8, 8, 0, F32, EPIQI_STATIC | EPIQI_TOKEN)                                                               \
    X(MXFP8, mxfp8, 8, 32, E8M0, EPIQI_GROUP)                                                                          \
    X(MXFP4, mxfp4, 4, 32, E8M0, EPIQI_GROUP)                                                                          \
    X(NVFP4, nvfp4, 4, 16, E4M3, EPIQI_GROUP)

enum { EPIQI_STATIC = 1, EPIQI_DYNAMIC = 2, EPIQI_TOKEN = 4, EPIQI_GROUP = 8 };

/* Layouts of group scales: value suffix, formats with a fixed block (1) or without (0) or both (2). */
#define EPIQI_LAYOUTS(X)                                                                                               \
    X(ROW, 2)                                                                                                          \
    X(COL, 0)                                                                                                          \
    X(COL_ALIGNED, 0)                                                                                                  \
    X(PACKED_UE8M0, 0)                                                                                                 \
    X(TILE128X4, 1)                                                                                                    \
    X(TILE8X4, 1)

/* The CPU backends of this build, the fastest last: value suffix, name. */
#if defined(__x86_64__)
#define EPIQI_CPU_BACKENDS(X) X(C, c) X(AVX2, avx2) X(AVX512, avx512)
#elif defined(__aarch64__)
#define EPIQI_CPU_BACKENDS(X) X(C, c) X(NEON, neon)
#else
#define EPIQI_CPU_BACKENDS(X) X(C, c)
#endif

#endif
