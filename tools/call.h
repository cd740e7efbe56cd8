/* call.h: one call of act_mul, rms_norm or quantize: its structs, its buffers, its exact input to the quantizer.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TOOLS_CALL_H
#define EPIQ_TOOLS_CALL_H

#include "accuracy.h"
#include "options.h"

typedef struct call {
    int operation; /* ACT_MUL, RMS_NORM, QUANTIZE */
    epiq_act_mul_args act_mul;
    epiq_rms_norm_args rms_norm;
    epiq_quantize_args quantize;
    bool quantizes; /* false: y alone */
    epiq_output out;
    epiq_exec exec;
    epiq_sizes sizes;
} call;

const char *operation_name(int operation);

/* The structs as the options say, without data and shape. Scales are read, and stay in the options. */
void call_begin(call *c, int operation, options *o);

/* Where it runs: checks that the backend can be used (else exit 3) and starts the threads. */
epiq_exec make_exec(const options *o);
void end_exec(epiq_exec *exec);

/* The x of the operation. */
epiq_matrix *call_x(call *c);

/* Where its y goes; NULL: not wanted. */
void *call_y(const call *c);

/* Sets x so that y is [rows, cols]; each may be EPIQ_UNKNOWN. */
void call_shape(call *c, int64_t rows, int64_t cols, epiq_dtype dtype, const void *data);

size_t call_explain(const call *c, char *text, size_t bytes);
epiq_status call_run(const call *c);
void call_must_run(void *c); /* a call; ends the command if it fails */

/* An address that is not memory, for what has to be present but is not read or written: n is 0 to 20. */
void *mark(int n);

/* Marks as present, by such addresses, what the call needs and what is wanted, and checks it: fills sizes. */
epiq_status call_mark(call *c, bool y, bool residual_out);

/* The same, and memory for every output and the workspace, to be released by call_free if the answer is EPIQ_OK. */
epiq_status call_allocate(call *c, bool y, bool residual_out);
void call_free(call *c);

/* Ends the command with the library's reason for a refusal. */
_Noreturn void refuse(epiq_status status, const char *what, const char *reason);
_Noreturn void call_refuse(const call *c, epiq_status status);

/* The values that the quantizer sees, as fp32 [rows, cols] in new memory: y with the rounding of its chain, unrounded
 * where the rounding is `none`. The buffers of c stay as they are. */
float *call_reference(const call *c);

/* Adds the accuracy of the call's codes, measured against the values of call_reference. */
void call_accuracy(const call *c, const float *reference, accuracy *a);

/* What `explain layout` says: where the scales of a checked call are stored. */
void print_layout(const call *c);

/* Bytes that must move: inputs read once, outputs written once. */
int64_t call_bytes_read(const call *c);
int64_t call_bytes_written(const call *c);

/* The rounding in force, by the chain or by itself. */
epiq_round call_round(const call *c);
epiq_sum_round call_sum_round(const call *c);

#endif
