/* rows.h: the stages that a CPU backend is made of: loops over a tile of one row, each on the backend's lanes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tile is an array of the driver's own with room for EPIQI_TILE_SLACK elements behind its n: stages read and write
 * whole vectors. What amax and tree_squares read holds zeros from n to the end of the last vector; load, act_mul and
 * norm_sum leave them.
 * Caller's memory is touched by load, act_mul, norm_sum, norm (its weight), store, code, pack and unpack: elements 0 to
 * n - 1, at any alignment. */
#ifndef EPIQ_ROWS_H
#define EPIQ_ROWS_H

#include "arith/types.h"
#include "lists.h"

#include <stdint.h>

enum { EPIQI_TILE_SLACK = 32 };

/* Stages of a dtype. */
typedef struct epiqi_dtype_rows {
    void (*load)(const void *from, int64_t n, float *to);
    void (*store)(const float *from, int64_t n, int exact, void *to); /* RN_T, NaN canonical; exact: they are of T */
    /* Loads, too. pairs: gate and up lie in turn at `gate`. */
    void (*act_mul)(const ar_act_mul *p, int pairs, const void *gate, const void *up, int64_t n, float *y);
    void (*norm_sum)(const ar_norm *p, const void *x, const void *residual, int64_t n, float *h); /* loads, too */
    void (*norm)(const ar_norm *p, const float *h, float rinv, int weight_dtype, const void *weight, int64_t n,
                 float *y);
} epiqi_dtype_rows;

/* Stages of a format. Codes are one a byte, 4-bit ones too. A tile starts with a group; the last may be short. `code`
 * writes n bytes and no more: they may be the caller's. */
typedef struct epiqi_format_rows {
    void (*scale)(const ar_quant *q, const float *amax, const uint32_t *nan, int64_t groups, float *factor,
                  uint32_t *stored);
    void (*code)(const ar_quant *q, const float *y, int64_t n, int64_t group, const float *factor, int divide,
                 uint8_t *codes);
    void (*value)(const uint8_t *codes, int64_t n, float *d);
    void (*scale_value)(const ar_quant *q, const uint32_t *stored, int64_t groups, float *factor);
    int divides, divides_static; /* AR_X_DIVIDES, AR_X_DIVIDES_STATIC */
} epiqi_format_rows;

/* Values that a call computes once. */
enum { EPIQI_OF_SCALE, EPIQI_OF_INV_SCALE, EPIQI_SECOND_LEVEL, EPIQI_SECOND_LEVEL_OF_AMAX };

typedef struct epiqi_backend_rows {
    epiqi_dtype_rows dtypes[3]; /* by AR_F32, AR_F16, AR_BF16 */
    float (*tree_squares)(const float *h, int64_t n, float *scratch);
    float (*norm_rinv)(const ar_norm *p, float sum, int64_t cols);
    void (*amax)(const float *y, int64_t n, int64_t group, float *amax, uint32_t *nan);
    void (*pack)(const uint8_t *codes, int64_t n, uint8_t *to); /* 4-bit codes, two a byte */
    void (*unpack)(const uint8_t *from, int64_t n, uint8_t *codes);
    float (*uniform_value)(int what, float a);
    void (*scale_rows)(const float *d, int64_t n, int64_t group, const float *factor, float second, float *y);
    epiqi_format_rows formats[8]; /* in the order of EPIQI_FORMATS */
} epiqi_backend_rows;

/* epiqi_rows_c and its faster equals. */
#define X(upper, lower) extern const epiqi_backend_rows epiqi_rows_##lower;
EPIQI_CPU_BACKENDS(X)
#undef X

#endif
