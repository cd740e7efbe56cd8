/* fuzz_call.h: bytes as one call of the public interface, its memory, and what must hold before and after it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_FUZZ_CALL_H
#define EPIQ_FUZZ_CALL_H

#include "fuzz.h"

#include <epiq/epiq.h>

enum { FUZZ_ACT_MUL, FUZZ_RMS_NORM, FUZZ_QUANTIZE, FUZZ_DEQUANTIZE, FUZZ_OPS };
enum { FUZZ_REGIONS = 13, FUZZ_TAIL = 64 };

/* The structs of a call, each with room behind it for the fields of a later version. */
typedef struct fuzz_call {
    int op;
    union {
        epiq_act_mul_args act_mul;
        epiq_rms_norm_args rms_norm;
        epiq_quantize_args quantize;
        epiq_dequantize_args dequantize;
    } args;
    unsigned char args_tail[FUZZ_TAIL];
    epiq_output out;
    unsigned char out_tail[FUZZ_TAIL];
    epiq_exec exec;
    unsigned char exec_tail[FUZZ_TAIL];
    int has_args, has_out, has_exec;
    int residual_in_place, y_in_place;
    uint32_t seed;
    int data; /* kind of fuzz_fill */
    uint32_t offsets;
    fuzz_bytes rest; /* of the input */
} fuzz_call;

typedef struct fuzz_region {
    const char *name;
    fuzz_block block;
    unsigned char *before; /* a copy of the block's data before the call */
    int64_t rows, row_bytes, stride;
    int written; /* 0: every byte stays; 1: the rows are written; 2: rows that need not all be written */
    int shared;  /* the block is that of an earlier region */
} fuzz_region;

typedef struct fuzz_memory {
    fuzz_region list[FUZZ_REGIONS];
    int count;
} fuzz_memory;

/* `wild`: fields may have any bits. Pointers are then set to an address that may not be read. */
void fuzz_call_decode(fuzz_call *c, fuzz_bytes *b);

/* epiq_check_OP and epiq_explain_OP on structs of exactly struct_size bytes, several times; the status. A call that is
 * refused is also made, and must be refused with the same status. */
epiq_status fuzz_call_check(const fuzz_call *c, epiq_sizes *sizes);

/* For an accepted call with a known shape: memory for every buffer that it reads or writes, outputs filled with `fill`,
 * and its pointers. 0 if it needs more than a fuzzer should spend. */
int fuzz_memory_make(fuzz_memory *m, fuzz_call *c, const epiq_sizes *sizes, unsigned char fill);
epiq_status fuzz_call_run(const fuzz_call *c);

/* Guards, inputs and gaps are as before. */
void fuzz_memory_verify(const fuzz_memory *m);
/* The written rows of two runs are equal; whole: so is every other byte. */
void fuzz_memory_same(const fuzz_memory *a, const fuzz_memory *b, int whole);
/* Nothing was written. */
void fuzz_memory_untouched(const fuzz_memory *m);
void fuzz_memory_free(fuzz_memory *m);

/* A CPU backend that can run here, by a number. */
epiq_backend fuzz_backend(uint32_t number);

/* Runs the tasks from the last to the first. */
void fuzz_backwards(void *data, int32_t tasks, epiq_task task, void *work);

#endif
