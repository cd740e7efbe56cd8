/* io.c: opening a tensor file of either format, and what the two readers share.
 * SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io_private.h"

static const struct {
    const char *word;
    size_t bytes;
} dtypes[] = {
    [IO_F32] = {"F32", 4},         [IO_F16] = {"F16", 2},         [IO_BF16] = {"BF16", 2},
    [IO_F8_E4M3] = {"F8_E4M3", 1}, [IO_F8_E5M2] = {"F8_E5M2", 1}, [IO_F8_E8M0] = {"F8_E8M0", 1},
    [IO_I8] = {"I8", 1},           [IO_U8] = {"U8", 1},           [IO_I32] = {"I32", 4},
    [IO_I64] = {"I64", 8},         [IO_F64] = {"F64", 8},         [IO_BOOL] = {"BOOL", 1},
    [IO_I16] = {"I16", 2},         [IO_U16] = {"U16", 2},         [IO_U32] = {"U32", 4},
    [IO_U64] = {"U64", 8},
};

static int known(io_dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof *dtypes;
}

size_t io_dtype_bytes(io_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].bytes : 0;
}

const char *io_dtype_word(io_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].word : "unknown";
}

int io_fail(char *why, const char *path, const char *format, ...)
{
    char fault[IO_TEXT - 128];
    va_list values;
    va_start(values, format);
    vsnprintf(fault, sizeof fault, format, values);
    va_end(values);

    size_t length = strlen(path), room = IO_TEXT - sizeof "...: " - strlen(fault);
    int cut = length > room;
    if (cut)
        path += length - room;
    while (cut && ((unsigned char)*path & 0xC0) == 0x80)
        path++; /* not from the middle of a UTF-8 sequence */
    snprintf(why, IO_TEXT, "%s%s: %s", cut ? "..." : "", path, fault);
    for (char *c = why; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '?';
    return -1;
}

io_quoted io_quote(const char *text)
{
    io_quoted q;
    size_t used = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (used + sizeof "\\xNN..." > sizeof q.text) {
            used += (size_t)sprintf(q.text + used, "...");
            break;
        }
        used += (size_t)sprintf(q.text + used, c >= 0x20 && c < 0x7F ? "%c" : "\\x%02x", c);
    }
    q.text[used] = 0;
    return q;
}

int io_regular(const struct stat *status, const char *path, char *why)
{
    if (S_ISREG(status->st_mode))
        return 0;
    return io_fail(why, path, "is %s, not a regular file",
                   S_ISDIR(status->st_mode) ? "a directory" : "a device, a pipe or a socket");
}

size_t io_utf8(const unsigned char *text, size_t room)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (room == 0)
        return 0;
    unsigned char c = text[0];
    size_t length = c < 0x80 ? 1 : c < 0xC0 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF8 ? 4 : 0;
    if (length <= 1)
        return length;
    if (length > room)
        return 0;
    uint32_t code = c & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3Fu);
    }
    return code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : length;
}

int io_shape_bytes(io_dtype dtype, const int64_t *shape, int32_t rank, size_t *bytes)
{
    uint64_t product = io_dtype_bytes(dtype);
    int empty = 0;
    if (product == 0)
        return -1;
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] == 0) {
            empty = 1;
        } else {
            if ((uint64_t)shape[i] > (uint64_t)PTRDIFF_MAX / product)
                return -1;
            product *= (uint64_t)shape[i];
        }
    }
    *bytes = empty ? 0 : (size_t)product;
    return 0;
}

static void skip_space(io_cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

int io_expected(io_cursor *c, const char *what)
{
    size_t offset = (size_t)(c->at - c->start);
    if (c->at == c->end)
        return io_fail(c->why, c->path, "byte %zu: expected %s, found the end of the header", offset, what);
    if (*c->at < 0x20 || *c->at >= 0x7F)
        return io_fail(c->why, c->path, "byte %zu: expected %s, found byte 0x%02x", offset, what, *c->at);
    return io_fail(c->why, c->path, "byte %zu: expected %s, found '%c'", offset, what, *c->at);
}

int io_take(io_cursor *c, char wanted)
{
    skip_space(c);
    if (c->at == c->end || *c->at != (unsigned char)wanted)
        return 0;
    c->at++;
    return 1;
}

int io_need(io_cursor *c, char wanted)
{
    const char what[] = {'\'', wanted, '\'', 0};
    return io_take(c, wanted) ? 0 : io_expected(c, what);
}

static int digit_next(const io_cursor *c)
{
    return c->at < c->end && *c->at >= '0' && *c->at <= '9';
}

int io_integer(io_cursor *c, int64_t *value)
{
    skip_space(c);
    if (!digit_next(c))
        return io_expected(c, "a whole number that is not negative");
    const unsigned char *first = c->at;
    int64_t number = 0;
    for (; digit_next(c); c->at++) {
        int digit = *c->at - '0';
        if (number == 0 && c->at > first)
            return io_expected(c, "a number without a leading zero");
        if (number > (INT64_MAX - digit) / 10)
            return io_expected(c, "a number below 2^63");
        number = number * 10 + digit;
    }
    *value = number;
    return 0;
}

int io_key(io_cursor *c, const char *const keys[3], const char *key, unsigned *seen)
{
    size_t offset = (size_t)(c->at - c->start);
    int i = 0;
    while (i < 3 && strcmp(keys[i], key))
        i++;
    if (i == 3)
        return io_fail(c->why, c->path, "byte %zu: unknown key '%s'", offset, io_quote(key).text);
    if (*seen & 1u << i)
        return io_fail(c->why, c->path, "byte %zu: second key '%s'", offset, keys[i]);
    *seen |= 1u << i;
    return i;
}

int io_all_keys(io_cursor *c, const char *const keys[3], unsigned seen)
{
    for (int i = 0; i < 3; i++)
        if (!(seen & 1u << i))
            return io_fail(c->why, c->path, "byte %zu: key '%s' is missing", (size_t)(c->at - c->start), keys[i]);
    return 0;
}

static int read_descriptor(int fd, const char *path, io_file *file, char *why)
{
    struct stat status;
    if (fstat(fd, &status))
        return io_fail(why, path, "%s", strerror(errno));
    if (io_regular(&status, path, why))
        return -1;
    uintmax_t size = (uintmax_t)status.st_size;
    unsigned char *content = size < PTRDIFF_MAX ? malloc(size ? (size_t)size : 1) : NULL;
    if (!content)
        return io_fail(why, path, "%ju bytes do not fit in memory", size);
    file->content = content;

    /* After the last byte one more is asked for: it must not come. */
    size_t used = 0;
    unsigned char extra;
    ssize_t got;
    do {
        size_t left = (size_t)size - used;
        got = left ? read(fd, content + used, left < 1u << 30 ? left : 1u << 30) : read(fd, &extra, 1);
        if (got < 0 && errno != EINTR)
            return io_fail(why, path, "%s", strerror(errno));
        if (got > 0)
            used += (size_t)got;
    } while (got != 0 && used <= size);
    if (used != size)
        return io_fail(why, path, "changed while it was read: it had %ju bytes, then %s", size,
                       used < size ? "fewer" : "more");
    file->content_bytes = used;
    return 0;
}

static int read_all(const char *path, io_file *file, char *why)
{
    /* Asked before opening, because opening a device can act on it; and again afterwards, in case it was exchanged. */
    struct stat status;
    if (stat(path, &status))
        return io_fail(why, path, "%s", strerror(errno));
    if (io_regular(&status, path, why))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return io_fail(why, path, "%s", strerror(errno));
    int bad = read_descriptor(fd, path, file, why);
    close(fd);
    return bad;
}

int io_open(const char *path, io_file *file, char why[IO_TEXT])
{
    memset(file, 0, sizeof *file);
    why[0] = 0;
    int bad = read_all(path, file, why);
    if (!bad) {
        int npy = file->content_bytes >= 6 && memcmp(file->content, "\x93NUMPY", 6) == 0;
        bad = npy ? io_parse_npy(path, file, why) : io_parse_safetensors(path, file, why);
    }
    if (bad)
        io_close(file);
    return bad;
}

void io_close(io_file *file)
{
    free(file->tensors);
    free(file->metadata);
    free(file->content);
    memset(file, 0, sizeof *file);
}

const io_tensor *io_find(const io_file *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

const char *io_metadata(const io_file *file, const char *key)
{
    for (size_t i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[2 * i], key) == 0)
            return file->metadata[2 * i + 1];
    return NULL;
}
