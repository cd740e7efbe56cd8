/* check_harness.h: one call of the library, described by numbers, run on the library and on the oracle.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A combination says everything about a call: operation, arguments, shape, strides, alignment, the seed of its data. A
 * scenario is its memory before the call: every buffer, the gaps between rows and the space around buffers, all filled
 * with pseudo-random bytes. An image is a copy of that memory on which a call is made. The oracle writes what must be
 * written and nothing else, so equal images mean: right bytes, untouched gaps and surroundings, unchanged inputs.
 *
 * A test program that is given the line of a combination, as a failure prints it, runs that one alone. */
#ifndef CHECK_HARNESS_H
#define CHECK_HARNESS_H

#include "oracle/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { OP_ACT_MUL = 1, OP_RMS_NORM, OP_QUANTIZE, OP_DEQUANTIZE };

/* Where `scale` or `inv_scale` comes from; LEVEL_NONE: there is none, LEVEL_COMPUTED: inv_scale_out. */
enum { LEVEL_NONE, LEVEL_SCALE, LEVEL_INV_SCALE, LEVEL_COMPUTED };

enum { RESIDUAL_NONE, RESIDUAL_READ, RESIDUAL_OUT, RESIDUAL_IN_PLACE };
enum { Y_NONE, Y_OUT, Y_IN_PLACE };

/* What a row of an input holds. */
enum {
    DATA_ANY, /* another kind in every row */
    DATA_NORMAL,
    DATA_PATTERN, /* random bits */
    DATA_SPECIAL, /* normal, one in eight a NaN, infinity, subnormal, zero or largest number */
    DATA_ZERO,    /* zeros of both signs, perhaps one other element */
    DATA_TINY,
    DATA_HUGE,
    DATA_TIES, /* halfway between neighbouring codes, for scales that are powers of two */
    DATA_EDGE, /* largest magnitude of each 16 columns at, just above or just below a threshold of a scale rule */
    DATA_GATE, /* where activations are neither 0 nor identity, and their tails */
    DATA_ONE,
    DATA_NAN,
    DATA_KINDS,
    DATA_EVERY /* of x, up and residual alike: element i of the matrix has the bits i, of f32 i times a constant */
};

/* E: value of an enum of epiq.h. I: integer. F: float, printed as its bits. */
#define COMBINATION_FIELDS(E, I, F)                                                                                    \
    I(op)    /* OP_ */                                                                                                 \
    E(dtype) /* of x; dequantize: of y */                                                                              \
    I(rows)                                                                                                            \
    I(cols) /* of y */                                                                                                 \
    E(act)                                                                                                             \
    E(order)                                                                                                           \
    E(chain)                                                                                                           \
    E(round) /* act_round, norm_round; 0: the chain's */                                                               \
    E(sum_round)                                                                                                       \
    F(alpha)                                                                                                           \
    F(limit)                                                                                                           \
    F(limit_after)                                                                                                     \
    F(up_offset)                                                                                                       \
    E(weight_dtype) /* 0: T */                                                                                         \
    F(eps)                                                                                                             \
    F(weight_bias)                                                                                                     \
    I(residual) /* RESIDUAL_ */                                                                                        \
    I(y)        /* Y_ */                                                                                               \
    E(format)   /* 0: no output but y */                                                                               \
    E(grain)    /* 0 only without format */                                                                            \
    I(group)                                                                                                           \
    E(layout)                                                                                                          \
    I(ue8m0)                                                                                                           \
    E(mx_round)                                                                                                        \
    E(nvfp4)                                                                                                           \
    E(nan)                                                                                                             \
    E(pad_rows)                                                                                                        \
    I(padded_cols)                                                                                                     \
    I(level) /* LEVEL_ */                                                                                              \
    F(level_value)                                                                                                     \
    I(bounded) /* scale_ub is given */                                                                                 \
    F(upper_bound)                                                                                                     \
    I(named_dtype) /* scale_dtype is given */                                                                          \
    I(defaults)    /* fields that hold their default are given as 0 */                                                 \
    I(offsets)     /* hexadecimal digit r: address of region r modulo 16 */                                            \
    I(gaps)        /* hexadecimal digit r: gap between the rows of region r, an index into a list of gaps */           \
    I(interleaved) /* rows of all buffers side by side in one matrix */                                                \
    I(data)        /* DATA_ of x */                                                                                    \
    I(second)      /* DATA_ of up and residual */                                                                      \
    I(seed)                                                                                                            \
    I(tasks)

typedef struct combination {
#define I(name) int64_t name;
#define F(name) float name;
    COMBINATION_FIELDS(I, I, F)
#undef I
#undef F
} combination;

/* The buffers of a call, in the order of the digits of offsets and gaps. */
enum {
    R_X,
    R_UP,
    R_RESIDUAL,
    R_WEIGHT,
    R_SCALE,
    R_INV_SCALE,
    R_UPPER_BOUND,
    R_CODES,
    R_SCALES,
    R_INV_SCALE_OUT,
    R_RESIDUAL_OUT,
    R_Y,
    REGIONS
};

typedef struct region {
    int64_t rows, row_bytes, stride, element; /* lines of bytes, and the bytes of an element */
    int64_t bytes;                            /* from the first to the last; 0: not there */
    int64_t place;                            /* in an image */
    int like;                                 /* the region whose memory it is; mostly itself */
    int gap;                                  /* digit of gaps, 0: the stride is given as 0 */
} region;

typedef struct scenario {
    combination c;
    region regions[REGIONS];
    epiq_sizes sizes;     /* of the check */
    oracle_layout layout; /* of scales; no lines if none is stored */
    int64_t padded, groups;
    int64_t *scale_at; /* byte offset of the scale of (row, group), [rows, groups] */
    int64_t bytes;
    unsigned char *memory;
} scenario;

typedef struct image {
    const scenario *of;
    unsigned char *memory; /* NULL: regions lie apart, at guard pages */
    unsigned char *at[REGIONS];
} image;

/* ---- The usual way: on the library with every CPU backend that is usable here, and on the oracle. A combination that
 * this version does not offer is counted; anything else that is refused, or differs, fails the test. */
void check(const combination *c);
void check_scenario(const scenario *s); /* ... of which a test has made the data */

/* Prints what check has done since the last report, and fails if fewer than `least` combinations ran, or if any was
 * refused that epiq.h offers. */
void check_report(const char *what, int64_t least);

/* ---- In steps. scenario_open answers 0, with nothing to close, if the library does not offer the combination. */
int scenario_open(scenario *s, const combination *c);
void scenario_close(scenario *s);
image image_make(const scenario *s);
void image_free(image *i);

/* Regions end at a page that may not be touched (at_end), or begin right behind one. One image of each `slot` (0, 1) at
 * a time; image_free does nothing. Regions have at most GUARDED_BYTES. */
enum { GUARDED_BYTES = 1 << 18 };
image image_make_guarded(const scenario *s, int at_end, int slot);

/* Takes the memory of an image back to that of the scenario. */
void image_reset(image *i);

epiq_status image_run(const image *i, const epiq_exec *exec); /* on the library */
void image_run_ok(const image *i, const epiq_exec *exec);     /* fails unless EPIQ_OK */
void image_oracle(const image *i);
void compare_images(const image *want, const image *got, const char *what);

/* What a call wrote for one row, without strides and layout: codes, residual_out, y, scales by group, each
 * if there. Returns the bytes; NULL only counts. */
int64_t image_row(const image *i, int64_t row, unsigned char *to);

/* Inputs of row from_row become those of row `row` of another scenario with the same columns and dtype, and the inputs
 * that belong to no row are copied too. */
void scenario_copy_row(scenario *s, int64_t row, const scenario *from, int64_t from_row);

/* Region `which` of the scenario gets the lines of region `from_which` of the image, which has as many of them. */
void scenario_take(scenario *s, int which, const image *from, int from_which);

/* The inputs that belong to no row: weight, scales that are read, and for dequantize codes and scales. */
void scenario_take_inputs(scenario *s, const scenario *from);

/* Fails unless the lines of a region, without gaps (of scales: the real ones), are equal in two images of different
 * scenarios. Both may lack it. */
void same_region(const image *want, int want_which, const image *got, int which, const char *what);

/* Counts a combination that a test has compared in steps, and bytes that no function above has compared for it. */
void check_count(int64_t bytes);

void combination_print(const combination *c);
void fail_combination(const combination *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Lists. A quantizer is a combination of which only format to pad_rows, level and bounded are set. */
const combination *check_quantizers(size_t *count); /* all that epiq.h describes, and some that it refuses */
combination with_quantizer(combination base, const combination *quantizer);
int64_t block_of(int64_t format); /* columns of a block of fixed size, or 1 */
int header_offers(const combination *c);
int64_t check_last(const char *kind); /* of epiq_value: its last value, which follows the first without a hole */
extern const epiq_dtype check_dtypes[3];
extern const float check_scales[]; /* special and ordinary values of scale, inv_scale and scale_ub */
extern const size_t check_scales_count;

/* Makes cols legal for the format: padded_cols becomes the next multiple of the block where cols is none. */
void fit_cols(combination *c);

/* ---- Pseudo-random numbers: the same everywhere, from a seed that is not 0. */
typedef struct rng {
    uint64_t state;
} rng;
uint64_t rng_bits(rng *r);
int64_t rng_below(rng *r, int64_t n);
float rng_float(rng *r, float low, float high);
int64_t rng_from(rng *r, const int64_t *list, size_t count);

combination random_combination(rng *r, int op);

/* CPU backends that are usable here; and an exec with one of them and a number of tasks. */
const epiq_backend *check_backends(size_t *count);
epiq_exec random_exec(rng *r);

/* The replay of a combination if there are arguments, else the tests. */
int check_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);
#define CHECK_MAIN(tests)                                                                                              \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        return check_main(argc, argv, tests, COUNT(tests));                                                            \
    }

#endif
