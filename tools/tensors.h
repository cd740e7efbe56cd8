/* tensors.h: tensors of files as the operations want them, and back.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TOOLS_TENSORS_H
#define EPIQ_TOOLS_TENSORS_H

#include "io/io.h"

#include <epiq/epiq.h>
#include <stdbool.h>

/* A tensor as a matrix: rank 1 is one row, more than two dimensions are all rows but the last. */
typedef struct tensor {
    io_file file; /* owns the data; empty if the file belongs to somebody else */
    const io_tensor *stored;
    const void *data;
    epiq_dtype dtype; /* f32, f16, bf16 */
    int64_t rows, cols;
} tensor;

/* Opens FILE[:NAME]; `what` is the option or word that named it, for errors. Ends the command if it cannot be used. */
void tensor_open(tensor *t, const char *what, const char *where);
void tensor_close(tensor *t);

/* The same for a tensor of an open file. */
void tensor_use(tensor *t, const char *what, const io_tensor *stored);

/* The value of --scale and --inv-scale: a number, or FILE[:NAME] with one f32; finite and > 0. */
float read_scale(const char *what, const char *text);

/* `count` elements as fp32: into `to`, or into new memory. `from` has any alignment. */
void widen(float *to, const void *from, epiq_dtype dtype, int64_t count);
float *widened(const void *from, epiq_dtype dtype, int64_t count);

int64_t dtype_bytes(epiq_dtype dtype);

/* A file's dtype for values and for stored scales; for the codes of a format. */
io_dtype stored_dtype(epiq_dtype dtype);
io_dtype code_dtype(epiq_format format);

/* Made-up values, always the same for the same *state: magnitudes from 2^-6 to 2^3, both signs. wild: one in eight is
 * any bit pattern, NaN, infinities and subnormals included. */
void make_values(void *to, epiq_dtype dtype, int64_t count, uint64_t *state, bool wild);

/* A tensor to write. */
io_tensor new_tensor(const char *name, io_dtype dtype, int32_t rank, int64_t rows, int64_t cols, const void *data);

/* Writes all or nothing, also if a signal arrives meanwhile. Ends the command on failure. */
void write_tensors(const char *path, const io_tensor *tensors, size_t count, const char *const *metadata,
                   size_t metadata_count);

#endif
