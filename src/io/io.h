/* io.h: the tensor files that the tools read and write: safetensors and .npy.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Files are untrusted. A reader checks every length, offset and number before it uses it, and answers a malformed file
 * with one line of text that names the file and the fault. Nothing here is part of libepiq. */
#ifndef EPIQ_IO_H
#define EPIQ_IO_H

#include <stddef.h>
#include <stdint.h>

enum { IO_MAX_RANK = 8, IO_TEXT = 512 };

typedef enum io_dtype {
    IO_F32,
    IO_F16,
    IO_BF16,
    IO_F8_E4M3,
    IO_F8_E5M2,
    IO_F8_E8M0,
    IO_I8,
    IO_U8,
    IO_I32,
    IO_I64,
    IO_F64,
    IO_BOOL, /* the rest are recognised and carried, not computed with */
    IO_I16,
    IO_U16,
    IO_U32,
    IO_U64
} io_dtype;

/* Bytes of one element; the safetensors word ("BF16"). */
size_t io_dtype_bytes(io_dtype dtype);
const char *io_dtype_word(io_dtype dtype);

typedef struct io_tensor {
    char *name; /* UTF-8, "" for an .npy file */
    io_dtype dtype;
    int32_t rank; /* 0 to IO_MAX_RANK */
    int64_t shape[IO_MAX_RANK];
    const void *data; /* row-major, little-endian, `bytes` long; owned by the file when read; any alignment */
    size_t bytes;
} io_tensor;

typedef struct io_file {
    io_tensor *tensors;
    size_t count;
    char **metadata; /* key, value, key, value, ...: 2 * metadata_count strings */
    size_t metadata_count;
    void *content; /* what `data` points into */
    size_t content_bytes;
} io_file;

/* Reads FILE.safetensors or FILE.npy, told apart by their content, not their name. 0, or -1 with a one-line reason in
 * `why`. The file's memory lives until io_close, which also accepts a zeroed or a failed io_file. */
int io_open(const char *path, io_file *file, char why[IO_TEXT]);
void io_close(io_file *file);

/* NULL if there is none. */
const io_tensor *io_find(const io_file *file, const char *name);
const char *io_metadata(const io_file *file, const char *key);

/* Writes a safetensors file: a temporary file in the same folder, flushed, then renamed over `path`, so that a reader
 * sees the old file or the whole new one and a failure leaves the old one in place and no temporary. metadata: key,
 * value, ... as above. Tensors are stored in the order given, the data section begins at
 * a multiple of 8 bytes. 0, or -1 with the reason. */
int io_write_safetensors(const char *path, const io_tensor *tensors, size_t count, const char *const *metadata,
                         size_t metadata_count, char why[IO_TEXT]);

#endif
