/* safetensors.c: an 8-byte little-endian header length, a JSON header, the data.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     {"__metadata__": {KEY: VALUE, ...}, NAME: {"dtype": WORD, "shape": [...], "data_offsets": [BEGIN, END]}, ...}
 *
 * The grammar is fixed, so the parser follows it and has no recursion; what it does not know it refuses. */
#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io_private.h"

enum { MAX_HEADER = 100000000 }; /* the limit of the format's own library */

static const char metadata_key[] = "__metadata__";
static const char *const entry_keys[3] = {"dtype", "shape", "data_offsets"};

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names and metadata keys may come only once. Sorted, because a hostile header can hold millions of them. */
static int check_unique(const io_tensor *tensors, size_t count, const char *const *metadata, size_t metadata_count,
                        const char *path, char *why)
{
    size_t most = count > metadata_count ? count : metadata_count;
    const char **sorted = malloc((most + 1) * sizeof *sorted);
    if (!sorted)
        return io_fail(why, path, "out of memory for %zu names", most);
    int bad = 0;
    for (int keys = 0; keys < 2 && !bad; keys++) {
        size_t n = keys ? metadata_count : count;
        for (size_t i = 0; i < n; i++)
            sorted[i] = keys ? metadata[2 * i] : tensors[i].name;
        qsort(sorted, n, sizeof *sorted, compare_text);
        for (size_t i = 1; i < n && !bad; i++)
            if (strcmp(sorted[i - 1], sorted[i]) == 0)
                bad = io_fail(why, path, "%s '%s' comes twice", keys ? "metadata key" : "tensor",
                              io_quote(sorted[i]).text);
    }
    free(sorted);
    return bad;
}

/* Reading. */

/* 1 if another item of an object or list follows, 0 past its `close`, -1 at a fault; `n` items came before. */
static int json_more(io_cursor *c, char close, size_t n)
{
    if (io_take(c, close))
        return 0;
    return n > 0 && !io_take(c, ',') ? io_expected(c, close == ']' ? "',' or ']'" : "',' or '}'") : 1;
}

static int json_hex4(io_cursor *c, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        unsigned char h = c->at < c->end ? *c->at : 0;
        int digit = h >= '0' && h <= '9' ? h - '0' : (h | 32) >= 'a' && (h | 32) <= 'f' ? (h | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return io_expected(c, "four hexadecimal digits after \\u");
        *code = *code << 4 | (uint32_t)digit;
    }
    return 0;
}

static int json_escape(io_cursor *c, uint32_t *code)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    unsigned char *start = c->at++; /* the backslash */
    const char *letter = c->at < c->end && *c->at ? strchr(letters, *c->at) : NULL;
    if (letter) {
        *code = (unsigned char)meanings[letter - letters];
        c->at++;
        return 0;
    }
    if (c->at == c->end || *c->at != 'u')
        return io_expected(c, "an escape: one of \"\\/bfnrtu");
    c->at++;
    if (json_hex4(c, code))
        return -1;
    if (*code >= 0xD800 && *code < 0xE000) {
        uint32_t low = 0;
        int pair = *code < 0xDC00 && c->end - c->at >= 2 && c->at[0] == '\\' && c->at[1] == 'u';
        if (pair) {
            c->at += 2;
            if (json_hex4(c, &low))
                return -1;
        }
        if (low < 0xDC00 || low > 0xDFFF) {
            c->at = start;
            return io_expected(c, "a pair of surrogates, high and low");
        }
        *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (*code == 0) {
        c->at = start;
        return io_expected(c, "a character other than U+0000");
    }
    return 0;
}

static unsigned char *put_utf8(unsigned char *out, uint32_t code)
{
    if (code < 0x80) {
        *out++ = (unsigned char)code;
        return out;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *out++ = (unsigned char)((0xFF00u >> (more + 1) & 0xFF) | code >> 6 * more); /* 0xC0, 0xE0 or 0xF0 and the top */
    while (more-- > 0)
        *out++ = (unsigned char)(0x80 | (code >> 6 * more & 0x3F));
    return out;
}

/* Decoded where it stands: no escape is shorter than what it means, and the closing quote leaves room for the 0. */
static int json_string(io_cursor *c, char **text)
{
    if (!io_take(c, '"'))
        return io_expected(c, "a string");
    unsigned char *out = c->at;
    *text = (char *)out;
    while (c->at < c->end && *c->at != '"') {
        if (*c->at < 0x20)
            return io_expected(c, "no control character in a string");
        if (*c->at == '\\') {
            uint32_t code = 0;
            if (json_escape(c, &code))
                return -1;
            out = put_utf8(out, code);
        } else {
            size_t length = io_utf8(c->at, (size_t)(c->end - c->at));
            if (length == 0)
                return io_expected(c, "UTF-8 text");
            memmove(out, c->at, length);
            out += length;
            c->at += length;
        }
    }
    if (c->at == c->end)
        return io_expected(c, "the end of the string");
    c->at++;
    *out = 0;
    return 0;
}

static int json_integers(io_cursor *c, int64_t *values, size_t room, const char *too_many, int32_t *count)
{
    if (io_need(c, '['))
        return -1;
    size_t n = 0;
    int more;
    for (; (more = json_more(c, ']', n)) > 0; n++) {
        if (n == room)
            return io_expected(c, too_many);
        if (io_integer(c, &values[n]))
            return -1;
    }
    *count = (int32_t)n;
    return more;
}

static int json_dtype(io_cursor *c, io_dtype *dtype)
{
    char *word;
    if (json_string(c, &word))
        return -1;
    for (int d = IO_F32; d <= IO_U64; d++) {
        if (strcmp(io_dtype_word((io_dtype)d), word) == 0) {
            *dtype = (io_dtype)d;
            return 0;
        }
    }
    return io_fail(c->why, c->path, "byte %zu: unknown dtype '%s'", (size_t)(c->at - c->start), io_quote(word).text);
}

static int read_entry(io_cursor *c, io_tensor *t, size_t data_bytes)
{
    unsigned seen = 0;
    int64_t offsets[2] = {0, 0};
    int32_t two = 0;
    int more;
    if (io_need(c, '{'))
        return -1;
    for (size_t n = 0; (more = json_more(c, '}', n)) > 0; n++) {
        char *key;
        if (json_string(c, &key))
            return -1;
        int which = io_key(c, entry_keys, key, &seen);
        if (which < 0 || io_need(c, ':'))
            return -1;
        if (which == 0 && json_dtype(c, &t->dtype))
            return -1;
        if (which == 1 && json_integers(c, t->shape, IO_MAX_RANK, "no more than 8 dimensions", &t->rank))
            return -1;
        if (which == 2 && json_integers(c, offsets, 2, "no more than two offsets", &two))
            return -1;
    }
    if (more < 0 || io_all_keys(c, entry_keys, seen))
        return -1;

    io_quoted name = io_quote(t->name);
    if (two != 2)
        return io_fail(c->why, c->path, "tensor '%s': %d data_offsets, not two", name.text, (int)two);
    uint64_t begin = (uint64_t)offsets[0], end = (uint64_t)offsets[1];
    if (begin > end || end > data_bytes)
        return io_fail(c->why, c->path, "tensor '%s': data_offsets %" PRIu64 " to %" PRIu64 " in %zu bytes of data",
                       name.text, begin, end, data_bytes);
    if (io_shape_bytes(t->dtype, t->shape, t->rank, &t->bytes))
        return io_fail(c->why, c->path, "tensor '%s': the shape is too large", name.text);
    if (end - begin != t->bytes)
        return io_fail(c->why, c->path, "tensor '%s': its shape of %s needs %zu bytes, data_offsets give %" PRIu64,
                       name.text, io_dtype_word(t->dtype), t->bytes, end - begin);
    t->data = c->end + begin;
    return 0;
}

/* Arrays that grow by doubling are full when they hold no item or a power of two. The header's limit keeps the sizes
 * far below an overflow. */
static void *grown(void *array, size_t used, size_t item)
{
    return used & (used - 1) ? array : realloc(array, (used ? 2 * used : 1) * item);
}

static int read_metadata(io_cursor *c, io_file *file)
{
    int more;
    if (io_need(c, '{'))
        return -1;
    for (size_t n = 0; (more = json_more(c, '}', n)) > 0; n++) {
        char **list = grown(file->metadata, n, 2 * sizeof *list);
        if (!list)
            return io_fail(c->why, c->path, "out of memory for %zu metadata entries", n + 1);
        file->metadata = list;
        if (json_string(c, &list[2 * n]) || io_need(c, ':') || json_string(c, &list[2 * n + 1]))
            return -1;
        file->metadata_count = n + 1;
    }
    return more;
}

static int compare_place(const void *a, const void *b)
{
    const io_tensor *x = *(const io_tensor *const *)a, *y = *(const io_tensor *const *)b;
    const unsigned char *p = x->data, *q = y->data;
    return p != q ? (p > q) - (p < q) : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Every byte of the data belongs to one tensor. */
static int check_tiling(const io_cursor *c, const io_file *file, size_t data_bytes)
{
    const io_tensor **sorted = malloc((file->count + 1) * sizeof *sorted);
    if (!sorted)
        return io_fail(c->why, c->path, "out of memory for %zu tensors", file->count);
    for (size_t i = 0; i < file->count; i++)
        sorted[i] = &file->tensors[i];
    qsort(sorted, file->count, sizeof *sorted, compare_place);
    size_t used = 0;
    int bad = 0;
    for (size_t i = 0; i < file->count && !bad; i++) {
        size_t begin = (size_t)((const unsigned char *)sorted[i]->data - c->end);
        if (begin < used)
            bad = io_fail(c->why, c->path, "tensor '%s' begins at data byte %zu, inside another one",
                          io_quote(sorted[i]->name).text, begin);
        if (begin > used)
            bad = io_fail(c->why, c->path, "data bytes %zu to %zu belong to no tensor", used, begin);
        used = begin + sorted[i]->bytes;
    }
    if (!bad && used < data_bytes)
        bad = io_fail(c->why, c->path, "data bytes %zu to %zu belong to no tensor", used, data_bytes);
    free(sorted);
    return bad;
}

int io_parse_safetensors(const char *path, io_file *file, char *why)
{
    unsigned char *content = file->content;
    if (file->content_bytes < 8)
        return io_fail(why, path, "neither safetensors nor .npy: only %zu bytes", file->content_bytes);
    uint64_t header = 0;
    for (int i = 0; i < 8; i++)
        header |= (uint64_t)content[i] << 8 * i;
    if (header > MAX_HEADER || header > file->content_bytes - 8)
        return io_fail(why, path, "neither safetensors nor .npy: a header of %" PRIu64 " bytes in a file of %zu",
                       header, file->content_bytes);

    io_cursor c = {content, content + 8, content + 8 + header, path, why};
    size_t data_bytes = file->content_bytes - 8 - (size_t)header;
    if (c.at == c.end || *c.at != '{')
        return io_expected(&c, "'{' at once");
    c.at++;
    int more, had_metadata = 0;
    for (size_t n = 0; (more = json_more(&c, '}', n)) > 0; n++) {
        char *name;
        if (json_string(&c, &name) || io_need(&c, ':'))
            return -1;
        if (strcmp(name, metadata_key) == 0) {
            if (had_metadata++)
                return io_fail(why, path, "%s comes twice", metadata_key);
            if (read_metadata(&c, file))
                return -1;
        } else {
            io_tensor *list = grown(file->tensors, file->count, sizeof *list);
            if (!list)
                return io_fail(why, path, "out of memory for %zu tensors", file->count + 1);
            file->tensors = list;
            memset(&list[file->count], 0, sizeof *list);
            list[file->count].name = name;
            if (read_entry(&c, &list[file->count], data_bytes))
                return -1;
            file->count++;
        }
    }
    if (more < 0)
        return -1;
    for (; c.at < c.end; c.at++)
        if (*c.at != ' ')
            return io_expected(&c, "only spaces after the header");
    if (check_unique(file->tensors, file->count, (const char *const *)file->metadata, file->metadata_count, path, why))
        return -1;
    return check_tiling(&c, file, data_bytes);
}

/* Writing. */

static int check_text(const char *text, const char *what, const char *path, char *why)
{
    if (!text)
        return io_fail(why, path, "%s is missing", what);
    size_t left = strlen(text);
    for (size_t length; left > 0; text += length, left -= length)
        if ((length = io_utf8((const unsigned char *)text, left)) == 0)
            return io_fail(why, path, "%s is not UTF-8: '%s'", what, io_quote(text).text);
    return 0;
}

static int check_tensor(const io_tensor *t, const char *path, char *why)
{
    if (check_text(t->name, "a tensor's name", path, why))
        return -1;
    io_quoted name = io_quote(t->name);
    if (strcmp(t->name, metadata_key) == 0)
        return io_fail(why, path, "a tensor cannot be named %s", metadata_key);
    if (io_dtype_bytes(t->dtype) == 0)
        return io_fail(why, path, "tensor '%s': unknown dtype %d", name.text, (int)t->dtype);
    if (t->rank < 0 || t->rank > IO_MAX_RANK)
        return io_fail(why, path, "tensor '%s': rank %d is not 0 to %d", name.text, (int)t->rank, IO_MAX_RANK);
    for (int32_t i = 0; i < t->rank; i++)
        if (t->shape[i] < 0)
            return io_fail(why, path, "tensor '%s': dimension %d is %" PRId64, name.text, (int)i, t->shape[i]);
    size_t bytes;
    if (io_shape_bytes(t->dtype, t->shape, t->rank, &bytes))
        return io_fail(why, path, "tensor '%s': the shape is too large", name.text);
    if (bytes != t->bytes)
        return io_fail(why, path, "tensor '%s': its shape of %s needs %zu bytes, not %zu", name.text,
                       io_dtype_word(t->dtype), bytes, t->bytes);
    return bytes && !t->data ? io_fail(why, path, "tensor '%s' has no data", name.text) : 0;
}

static void put_string(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20) {
            fprintf(out, "\\u%04x", c);
        } else {
            if (c == '"' || c == '\\')
                putc('\\', out);
            putc(c, out);
        }
    }
    putc('"', out);
}

/* The header with its padding, to be freed; NULL with `why`. */
static char *make_header(const io_tensor *tensors, size_t count, const char *const *metadata, size_t metadata_count,
                         size_t *header_bytes, const char *path, char *why)
{
    char *header = NULL;
    FILE *out = open_memstream(&header, header_bytes);
    if (!out) {
        io_fail(why, path, "out of memory for the header");
        return NULL;
    }
    const char *comma = "";
    putc('{', out);
    if (metadata_count) {
        put_string(out, metadata_key);
        for (size_t i = 0; i < metadata_count; i++) {
            fputs(i ? "," : ":{", out);
            put_string(out, metadata[2 * i]);
            putc(':', out);
            put_string(out, metadata[2 * i + 1]);
        }
        putc('}', out);
        comma = ",";
    }
    uint64_t offset = 0;
    int too_large = 0;
    for (size_t i = 0; i < count && !too_large; i++, comma = ",") {
        const io_tensor *t = &tensors[i];
        fputs(comma, out);
        put_string(out, t->name);
        fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", io_dtype_word(t->dtype));
        for (int32_t d = 0; d < t->rank; d++)
            fprintf(out, "%s%" PRId64, d ? "," : "", t->shape[d]);
        fprintf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset, offset + t->bytes);
        too_large = t->bytes > INT64_MAX - MAX_HEADER - 8 - offset;
        offset += t->bytes;
    }
    putc('}', out);
    /* The data then begins at a multiple of 8. */
    if (fflush(out) == 0)
        fprintf(out, "%*s", (int)((8 - *header_bytes % 8) % 8), "");
    int failed = ferror(out);
    failed |= fclose(out);
    if (failed || !header) /* glibc's fclose can lose the buffer and still say 0 */
        io_fail(why, path, "out of memory for the header");
    else if (too_large)
        io_fail(why, path, "the tensors have more than 2^63 bytes");
    else if (*header_bytes > MAX_HEADER)
        io_fail(why, path, "a header of %zu bytes, more than %d", *header_bytes, MAX_HEADER);
    else
        return header;
    free(header);
    return NULL;
}

/* The path of the file to put in place, to be freed: behind symbolic links, so that they stay. NULL with `why`. */
static char *resolve(const char *path, char *why)
{
    struct stat status;
    char *target = NULL;
    if (stat(path, &status) == 0) {
        if (io_regular(&status, path, why))
            return NULL;
        target = realpath(path, NULL);
    } else if (errno == ENOENT && *path) {
        if (lstat(path, &status) == 0) {
            io_fail(why, path, "is a symbolic link to a file that does not exist");
            return NULL;
        }
        target = strdup(path);
    }
    if (!target)
        io_fail(why, path, "%s", strerror(errno));
    return target;
}

static int write_all(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        ssize_t put = write(fd, at, bytes < 1u << 30 ? bytes : 1u << 30);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        at += put;
        bytes -= (size_t)put;
    }
    return 0;
}

static int write_content(int fd, const char *header, size_t header_bytes, const io_tensor *tensors, size_t count)
{
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)((uint64_t)header_bytes >> 8 * i);
    int bad = write_all(fd, prefix, sizeof prefix) || write_all(fd, header, header_bytes);
    for (size_t i = 0; i < count && !bad; i++)
        bad = write_all(fd, tensors[i].data, tensors[i].bytes);
    return bad || fsync(fd);
}

/* Not mkstemp, which gives the mode 0600: this file becomes the result, so it gets what creat would give. The name need
 * not be secret, because O_EXCL neither follows a link nor takes a file that is there. `name` begins with the folder,
 * `room` bytes follow it. */
static int open_temporary(char *name, size_t folder, size_t room)
{
    int fd = -1;
    for (int i = 0; fd < 0 && i < 1000; i++) {
        snprintf(name + folder, room, ".epiq-%ld-%d.tmp", (long)getpid(), i);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

int io_write_safetensors(const char *path, const io_tensor *tensors, size_t count, const char *const *metadata,
                         size_t metadata_count, char why[IO_TEXT])
{
    why[0] = 0;
    for (size_t i = 0; i < count; i++)
        if (check_tensor(&tensors[i], path, why))
            return -1;
    for (size_t i = 0; i < 2 * metadata_count; i++)
        if (check_text(metadata[i], i % 2 ? "a metadata value" : "a metadata key", path, why))
            return -1;
    if (check_unique(tensors, count, metadata, metadata_count, path, why))
        return -1;

    enum { ROOM = 64 };
    size_t header_bytes;
    char *header = make_header(tensors, count, metadata, metadata_count, &header_bytes, path, why);
    char *target = header ? resolve(path, why) : NULL;
    char *temporary = target ? malloc(strlen(target) + ROOM) : NULL;
    int result = -1;
    if (temporary) {
        const char *slash = strrchr(target, '/');
        size_t folder = slash ? (size_t)(slash - target) + 1 : 0;
        memcpy(temporary, target, folder);
        int fd = open_temporary(temporary, folder, ROOM);
        if (fd < 0) {
            io_fail(why, path, "no temporary file can be made beside it: %s", strerror(errno));
        } else {
            int bad = write_content(fd, header, header_bytes, tensors, count), error = errno;
            if (close(fd) && !bad)
                bad = 1, error = errno;
            if (!bad && rename(temporary, target))
                bad = 1, error = errno;
            if (bad) {
                unlink(temporary);
                io_fail(why, path, "cannot be written: %s", strerror(error));
            } else {
                result = 0;
            }
        }
    } else if (target) {
        io_fail(why, path, "out of memory");
    }
    free(temporary);
    free(target);
    free(header);
    return result;
}
