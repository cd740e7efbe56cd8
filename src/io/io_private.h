/* io_private.h: what io.c, safetensors.c and npy.c share. Not for the tools, which include io.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_IO_PRIVATE_H
#define EPIQ_IO_PRIVATE_H

#include <sys/stat.h>

#include "io.h"

_Static_assert(IO_MAX_RANK == 8, "messages say 8");

/* Puts "PATH: REASON" into `why`, always one line without control characters; a long path loses its beginning.
 * Returns -1, so that a reader can say `return io_fail(...)`. */
int io_fail(char *why, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Text that came from a file, for a message: `io_quote(name).text`. Printable ASCII stays, any other byte becomes \xNN,
 * and a long text is cut with "...". */
typedef struct io_quoted {
    char text[72];
} io_quoted;
io_quoted io_quote(const char *text);

/* 0 for a regular file, or io_fail's -1. */
int io_regular(const struct stat *status, const char *path, char *why);

/* The length of the well-formed UTF-8 sequence at `text` (no surrogates, no overlong forms, at most U+10FFFF), or 0. */
size_t io_utf8(const unsigned char *text, size_t room);

/* The bytes of a tensor; the dimensions are not negative. -1 if the product of the dimensions other than 0 and the
 * element size does not fit a ptrdiff_t, so that later products of some of the dimensions cannot overflow either. */
int io_shape_bytes(io_dtype dtype, const int64_t *shape, int32_t rank, size_t *bytes);

/* A place in a header. Every function below skips white space first and, at a fault, returns -1 with `why` set. */
typedef struct io_cursor {
    unsigned char *start; /* of the file, for offsets in messages */
    unsigned char *at;
    unsigned char *end; /* of the header */
    const char *path;
    char *why;
} io_cursor;

int io_expected(io_cursor *c, const char *what);
int io_take(io_cursor *c, char wanted); /* 1 and past it if `wanted` is next, else 0 */
int io_need(io_cursor *c, char wanted);
int io_integer(io_cursor *c, int64_t *value); /* decimal, 0 to 2^63-1, no sign, no leading zero */

/* For an object with exactly the three `keys`, each once: the index of `key`, noted in `seen`; then 0 if all came. */
int io_key(io_cursor *c, const char *const keys[3], const char *key, unsigned *seen);
int io_all_keys(io_cursor *c, const char *const keys[3], unsigned seen);

/* Both fill `file`, whose content is set and is changed in place: strings are decoded and terminated where they stand.
 * On a fault they leave the rest to io_close. */
int io_parse_safetensors(const char *path, io_file *file, char *why);
int io_parse_npy(const char *path, io_file *file, char *why);

#endif
