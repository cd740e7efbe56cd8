/* npy.c: NumPy's format for one array, versions 1.0 to 3.0.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     \x93NUMPY, major, minor, header length (2 bytes, from 2.0 on 4), a header padded with spaces, the data:
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n */
#include <stdlib.h>
#include <string.h>

#include "io_private.h"

static const char *const header_keys[3] = {"descr", "fortran_order", "shape"};

/* NumPy has no type for the smaller formats; an extension's type is stored as raw bytes of its size. Of two bytes that
 * is bfloat16, and '<V2' is indeed what NumPy writes for it ('|V2' once the array was loaded and saved again). Of one
 * byte it may be any 8-bit float, so those are refused. */
static const struct {
    const char *descr;
    io_dtype dtype;
} descrs[] = {
    {"<f4", IO_F32}, {"<f2", IO_F16}, {"<f8", IO_F64},  {"<V2", IO_BF16}, {"|V2", IO_BF16},
    {"|i1", IO_I8},  {"|u1", IO_U8},  {"|b1", IO_BOOL}, {"<i2", IO_I16},  {"<u2", IO_U16},
    {"<i4", IO_I32}, {"<u4", IO_U32}, {"<i8", IO_I64},  {"<u8", IO_U64},
};

/* A Python string without escapes, terminated where it stands. */
static int read_string(io_cursor *c, char **text)
{
    char quote = io_take(c, '\'') ? '\'' : io_take(c, '"') ? '"' : 0;
    if (!quote)
        return io_expected(c, "a string");
    *text = (char *)c->at;
    while (c->at < c->end && *c->at != (unsigned char)quote) {
        if (*c->at < 0x20 || *c->at >= 0x7F || *c->at == '\\')
            return io_expected(c, "plain text in a string");
        c->at++;
    }
    if (c->at == c->end)
        return io_expected(c, "the end of the string");
    *c->at++ = 0;
    return 0;
}

static int read_descr(io_cursor *c, io_dtype *dtype)
{
    char *text;
    if (io_take(c, '['))
        return io_fail(c->why, c->path, "a structured array is not read");
    if (read_string(c, &text))
        return -1;
    for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++) {
        if (strcmp(descrs[i].descr, text) == 0) {
            *dtype = descrs[i].dtype;
            return 0;
        }
    }
    const char *type = text[0] ? text + 1 : text;
    return io_fail(c->why, c->path, "descr '%s' is not read%s", io_quote(text).text,
                   text[0] == '>'            ? ": big-endian"
                   : type[0] == 'O'          ? ": objects"
                   : strcmp(type, "V1") == 0 ? ": it does not say which 8-bit format it is"
                                             : "");
}

static int read_truth(io_cursor *c, int *truth)
{
    *truth = io_take(c, 'T'); /* skips white space */
    if (!*truth && !io_take(c, 'F'))
        return io_expected(c, "True or False");
    const char *rest = *truth ? "rue" : "alse";
    size_t length = strlen(rest);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, rest, length))
        return io_expected(c, "True or False");
    c->at += length;
    return 0;
}

static int read_shape(io_cursor *c, io_tensor *t)
{
    int comma = 1;
    if (io_need(c, '('))
        return -1;
    for (t->rank = 0; !io_take(c, ')'); t->rank++) {
        if (!comma)
            return io_expected(c, "',' or ')'");
        if (t->rank == IO_MAX_RANK)
            return io_expected(c, "no more than 8 dimensions");
        if (io_integer(c, &t->shape[t->rank]))
            return -1;
        comma = io_take(c, ',');
    }
    if (t->rank == 1 && !comma)
        return io_expected(c, "',' before the ')' of a tuple of one");
    return 0;
}

int io_parse_npy(const char *path, io_file *file, char *why)
{
    unsigned char *content = file->content;
    size_t bytes = file->content_bytes;
    if (bytes < 8)
        return io_fail(why, path, "the .npy header is cut: %zu bytes", bytes);
    if (content[6] < 1 || content[6] > 3 || content[7] != 0)
        return io_fail(why, path, ".npy version %d.%d is not read", content[6], content[7]);
    size_t prefix = content[6] == 1 ? 10 : 12, header = 0;
    if (bytes < prefix)
        return io_fail(why, path, "the .npy header is cut: %zu bytes", bytes);
    for (size_t i = 8; i < prefix; i++)
        header |= (size_t)content[i] << 8 * (i - 8);
    if (header > bytes - prefix)
        return io_fail(why, path, "an .npy header of %zu bytes in a file of %zu", header, bytes);

    io_tensor *t = file->tensors = calloc(1, sizeof *t);
    if (!t)
        return io_fail(why, path, "out of memory");
    io_cursor c = {content, content + prefix, content + prefix + header, path, why};
    unsigned seen = 0;
    int fortran = 0, comma = 1;
    if (io_need(&c, '{'))
        return -1;
    while (!io_take(&c, '}')) {
        char *key;
        if (!comma)
            return io_expected(&c, "',' or '}'");
        if (read_string(&c, &key))
            return -1;
        int which = io_key(&c, header_keys, key, &seen);
        if (which < 0 || io_need(&c, ':'))
            return -1;
        if (which == 0 && read_descr(&c, &t->dtype))
            return -1;
        if (which == 1 && read_truth(&c, &fortran))
            return -1;
        if (which == 2 && read_shape(&c, t))
            return -1;
        comma = io_take(&c, ',');
    }
    if (io_all_keys(&c, header_keys, seen))
        return -1;
    while (c.at < c.end && *c.at == ' ')
        c.at++;
    if (c.end - c.at != 1 || *c.at != '\n')
        return io_expected(&c, "spaces and one line feed to end the header");

    if (fortran && t->rank > 1)
        return io_fail(why, path, "fortran_order is True for %d dimensions", (int)t->rank);
    if (io_shape_bytes(t->dtype, t->shape, t->rank, &t->bytes))
        return io_fail(why, path, "the shape is too large");
    if (t->bytes != bytes - prefix - header)
        return io_fail(why, path, "the shape of %s needs %zu bytes of data, the file has %zu", io_dtype_word(t->dtype),
                       t->bytes, bytes - prefix - header);
    t->data = c.end;
    content[0] = 0; /* the magic has served; it lends the empty name its 0 */
    t->name = (char *)content;
    file->count = 1;
    return 0;
}
