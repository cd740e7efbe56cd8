/* tensors.c: from FILE[:NAME] to a matrix, conversions to fp32, and writing.
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "tensors.h"

#include "command.h"
#include "options.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    epiq_dtype dtype;
    io_dtype stored;
} dtypes[] = {
    {EPIQ_DTYPE_F32, IO_F32},      {EPIQ_DTYPE_F16, IO_F16},      {EPIQ_DTYPE_BF16, IO_BF16},
    {EPIQ_DTYPE_E4M3, IO_F8_E4M3}, {EPIQ_DTYPE_E8M0, IO_F8_E8M0}, {EPIQ_DTYPE_I32, IO_I32},
};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

io_dtype stored_dtype(epiq_dtype dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].stored;
    fail(EXIT_UNUSABLE, "no file has the dtype %d", (int)dtype);
}

io_dtype code_dtype(epiq_format format)
{
    switch (format) {
    case EPIQ_FORMAT_E5M2:
        return IO_F8_E5M2;
    case EPIQ_FORMAT_INT8:
        return IO_I8;
    case EPIQ_FORMAT_MXFP4:
    case EPIQ_FORMAT_NVFP4:
        return IO_U8;
    default:
        return IO_F8_E4M3;
    }
}

int64_t dtype_bytes(epiq_dtype dtype)
{
    return (int64_t)io_dtype_bytes(stored_dtype(dtype));
}

static const char *list_names(const io_file *file, char *text, size_t bytes)
{
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < file->count && i <= 10 && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, i < 10 ? "%s%.100s" : " ...", i ? ", " : "",
                                 file->tensors[i].name);
    return text;
}

/* Opens FILE[:NAME], both of which may contain colons: FILE is the whole text if there is such a file, else the
 * shortest part before a colon that is one. `least`: a lone tensor of at least this rank needs no NAME. */
static const io_tensor *open_named(io_file *file, const char *what, const char *where, int least)
{
    char why[IO_TEXT], names[1200];
    char *path = allocate((int64_t)strlen(where) + 1);
    const char *name = NULL;
    strcpy(path, where);
    if (access(path, F_OK) != 0) {
        for (char *colon = strchr(path, ':'); colon != NULL && name == NULL; colon = strchr(colon + 1, ':')) {
            *colon = '\0';
            if (access(path, F_OK) == 0)
                name = colon + 1;
            else
                *colon = ':';
        }
    }
    if (io_open(path, file, why) != 0)
        fail(EXIT_UNUSABLE, "%s: %s", what, why);
    const io_tensor *found = NULL;
    if (name != NULL) {
        found = io_find(file, name);
        if (found == NULL)
            fail(EXIT_UNUSABLE, "%s: %s has no tensor '%s'; it has: %s", what, path, name,
                 list_names(file, names, sizeof names));
    } else {
        int candidates = 0;
        for (size_t i = 0; i < file->count; i++) {
            if (file->tensors[i].rank < least)
                continue;
            found = &file->tensors[i];
            candidates++;
        }
        if (candidates == 0)
            fail(EXIT_UNUSABLE, "%s: %s holds no tensor that could be meant", what, path);
        if (candidates > 1)
            fail(EXIT_UNUSABLE, "%s: %s holds several tensors, say which as %s:NAME: %s", what, path, path,
                 list_names(file, names, sizeof names));
    }
    free(path);
    return found;
}

void tensor_use(tensor *t, const char *what, const io_tensor *stored)
{
    t->stored = stored;
    t->data = stored->data;
    t->dtype = 0;
    for (int i = 0; i < 3; i++)
        if (dtypes[i].stored == stored->dtype)
            t->dtype = dtypes[i].dtype;
    if (t->dtype == 0)
        fail(EXIT_UNUSABLE, "%s: tensor '%s' is %s; expected F32, F16 or BF16", what, stored->name,
             io_dtype_word(stored->dtype));
    if (stored->rank == 0)
        fail(EXIT_UNUSABLE, "%s: tensor '%s' is a single value", what, stored->name);
    t->cols = stored->shape[stored->rank - 1];
    t->rows = 1;
    for (int i = 0; i < stored->rank - 1; i++)
        if (stored->shape[i] == 0)
            t->rows = 0;
    for (int i = 0; i < stored->rank - 1 && t->rows != 0; i++) {
        if (stored->shape[i] > INT32_MAX / t->rows)
            fail(EXIT_UNUSABLE, "%s: tensor '%s' has more than 2^31 - 1 rows", what, stored->name);
        t->rows *= stored->shape[i];
    }
}

void tensor_open(tensor *t, const char *what, const char *where)
{
    memset(t, 0, sizeof *t);
    tensor_use(t, what, open_named(&t->file, what, where, 1));
}

void tensor_close(tensor *t)
{
    io_close(&t->file);
}

float read_scale(const char *what, const char *text)
{
    float value;
    const char *why;
    char *end;
    (void)strtof(text, &end);
    if (read_float(text, &value, &why)) {
        if (!(value > 0))
            fail(EXIT_UNUSABLE, "%s: '%s' is not > 0", what, text);
        return value;
    }
    if (end != text && *end == '\0')
        fail(EXIT_UNUSABLE, "%s: '%s' %s", what, text, why);
    io_file file = {0};
    const io_tensor *t = open_named(&file, what, text, 0);
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count = t->shape[i] == 1 ? count : 0;
    if (t->dtype != IO_F32 || count != 1)
        fail(EXIT_UNUSABLE, "%s: tensor '%s' of %s is not one F32 value", what, t->name, text);
    memcpy(&value, t->data, sizeof value);
    io_close(&file);
    if (!isfinite(value) || !(value > 0))
        fail(EXIT_UNUSABLE, "%s: the value %g of %s is not finite and > 0", what, (double)value, text);
    return value;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_f16(uint32_t h)
{
    uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 0)
        return from_bits(sign | 0x3f800000) * ldexpf((float)fraction, -24);
    return from_bits(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

void widen(float *to, const void *from, epiq_dtype dtype, int64_t count)
{
    const unsigned char *at = from;
    uint16_t half;
    if (dtype == EPIQ_DTYPE_F32) {
        memcpy(to, from, (size_t)count * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(&half, at + 2 * i, 2);
        to[i] = dtype == EPIQ_DTYPE_BF16 ? from_bits((uint32_t)half << 16) : from_f16(half);
    }
}

float *widened(const void *from, epiq_dtype dtype, int64_t count)
{
    float *to = allocate(count * (int64_t)sizeof *to);
    if (count > 0)
        widen(to, from, dtype, count);
    return to;
}

void make_values(void *to, epiq_dtype dtype, int64_t count, uint64_t *state, bool wild)
{
    for (int64_t i = 0; i < count; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint32_t random = (uint32_t)(*state >> 32), sign = random & 0x80000000, step = (*state >> 8 & 0xff) % 9;
        uint32_t bits = random;
        if (!wild || (*state >> 20 & 7) != 0) {
            if (dtype == EPIQ_DTYPE_F16)
                bits = sign | (9 + step) << 26 | (random & 0x03ffffff);
            else
                bits = sign | (121 + step) << 23 | (random & 0x007fffff);
        }
        const uint16_t half = (uint16_t)(bits >> 16);
        if (dtype == EPIQ_DTYPE_F32)
            memcpy((char *)to + 4 * i, &bits, 4);
        else
            memcpy((char *)to + 2 * i, &half, 2);
    }
}

io_tensor new_tensor(const char *name, io_dtype dtype, int32_t rank, int64_t rows, int64_t cols, const void *data)
{
    io_tensor t = {.dtype = dtype, .rank = rank, .data = data};
    t.name = (char *)(uintptr_t)name; /* io_write_safetensors only reads it */
    t.shape[0] = rank == 1 ? cols : rows;
    t.shape[1] = rank == 1 ? 0 : cols;
    t.bytes = io_dtype_bytes(dtype) * (size_t)(rank == 1 ? 1 : rows) * (size_t)cols;
    return t;
}

void write_tensors(const char *path, const io_tensor *tensors, size_t count, const char *const *metadata,
                   size_t metadata_count)
{
    char why[IO_TEXT];
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGHUP);
    sigprocmask(SIG_BLOCK, &stop, &before); /* else the temporary file would stay behind */
    int result = io_write_safetensors(path, tensors, count, metadata, metadata_count, why);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (result != 0)
        fail(EXIT_UNUSABLE, "%s", why);
}
