/* fuzz_files.c: the readers of safetensors and .npy, on the bytes of a file.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Accepted means: every tensor lies inside the file and has the bytes that its shape says, strings end, names are found
 * again. Refused means: one line of plain text. */
#include "fuzz.h"

#include "io/io_private.h"

#include <stdlib.h>

static volatile unsigned sink;

static void look_at(const io_file *file)
{
    const unsigned char *start = file->content, *end = start + file->content_bytes;
    unsigned sum = 0;
    for (size_t i = 0; i < file->count; i++) {
        const io_tensor *t = &file->tensors[i];
        const unsigned char *at = t->data;
        if (at < start || at > end || t->bytes > (size_t)(end - at) || t->rank < 0 || t->rank > IO_MAX_RANK)
            fuzz_fail("tensor %zu lies outside the file", i);
        size_t bytes = io_dtype_bytes(t->dtype);
        for (int d = 0; d < t->rank; d++) {
            if (t->shape[d] < 0 || __builtin_mul_overflow(bytes, (size_t)t->shape[d], &bytes))
                fuzz_fail("tensor %zu has a bad shape", i);
        }
        if (bytes != t->bytes)
            fuzz_fail("tensor %zu has %zu bytes, its shape %zu", i, t->bytes, bytes);
        for (size_t b = 0; b < t->bytes; b++)
            sum += at[b];
        sum += (unsigned)strlen(t->name);
        if (io_find(file, t->name) != t)
            fuzz_fail("tensor %zu is not found by its name", i);
    }
    for (size_t i = 0; i < file->metadata_count; i++) {
        sum += (unsigned)strlen(file->metadata[2 * i]);
        if (io_metadata(file, file->metadata[2 * i]) != file->metadata[2 * i + 1])
            fuzz_fail("metadata %zu is not found by its key", i);
    }
    sink = sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char path[] = "some/folder/file";
    char why[IO_TEXT];
    io_file file = {.content = malloc(size != 0 ? size : 1), .content_bytes = size};
    if (file.content == NULL)
        fuzz_fail("out of memory");
    if (size != 0)
        memcpy(file.content, data, size);
    memset(why, 'x', sizeof why);
    why[0] = 0;
    int npy = size >= 6 && memcmp(data, "\x93NUMPY", 6) == 0;
    int status = npy ? io_parse_npy(path, &file, why) : io_parse_safetensors(path, &file, why);
    if (status == 0) {
        look_at(&file);
    } else {
        const char *end = memchr(why, 0, sizeof why);
        if (status != -1 || end == NULL || strncmp(why, path, sizeof path - 1) != 0)
            fuzz_fail("refused with %d and no words", status);
        for (const char *c = why; c < end; c++)
            if (*c < 0x20 || *c > 0x7E)
                fuzz_fail("refused with byte 0x%02x", (unsigned char)*c);
    }
    io_close(&file);
    return 0;
}
