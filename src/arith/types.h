/* types.h: the uniform values that the formulas take, the same for a whole call.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TYPES_H
#define EPIQ_TYPES_H

/* T, the dtype of x: a compile-time constant wherever it selects code. */
enum { AR_F32, AR_F16, AR_BF16 };

enum { AR_SILU, AR_GELU_TANH, AR_GELU_ERF, AR_RELU, AR_RELU2, AR_IDENTITY };
enum { AR_ROUND_NONE, AR_ROUND_ONCE, AR_ROUND_TWICE };

/* act_mul (doc/spec.md 2). limit, limit_after: 0 for none; up_offset 0 adds nothing. */
typedef struct ar_act_mul {
    int act;   /* AR_SILU ... */
    int round; /* AR_ROUND_ */
    int gated; /* 0: there is no up */
    float alpha, limit, limit_after, up_offset;
} ar_act_mul;

/* rms_norm (doc/spec.md 3). */
typedef struct ar_norm {
    int round;     /* AR_ROUND_ */
    int sum_round; /* 1: variance and norm see RN_T of the sum */
    float eps, weight_bias;
} ar_norm;

enum { AR_TENSOR, AR_TOKEN, AR_GROUP };
enum { AR_MX_CEIL, AR_MX_FLOOR, AR_MX_VLLM };

/* Quantizers (doc/spec.md 4): everything but the data that they depend on. */
typedef struct ar_quant {
    int grain;    /* AR_TENSOR, AR_TOKEN, AR_GROUP */
    int saturate; /* a NaN becomes the largest positive code */
    int mx_round; /* AR_MX_ */
    float bound;  /* on a token's amax; +Inf for none, never NaN */
    int ue8m0;    /* e4m3, e5m2: group scales are powers of two */
    int packed;   /* they are stored as one byte, E8M0 */
    int ieee;     /* nvfp4: the second rule */
    int rcp_unit; /* nvfp4: rcp~ may be the machine's instruction (changes no bit) */
    float gs;     /* nvfp4: the second level, by ar_second_level */
} ar_quant;

#endif
