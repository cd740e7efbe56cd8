/* io_fixture.h: a temporary folder, files in it, and the checks that both readers' tests share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Include it first: it asks for what the system headers hide under -std=c11. */
#ifndef EPIQ_IO_FIXTURE_H
#define EPIQ_IO_FIXTURE_H

#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/io.h"

static char folder[256];

static inline const char *in_folder(const char *name)
{
    static char paths[16][1024];
    static int turn;
    char *path = paths[turn++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Without "." and "..", and removed at once if `remove_them`. */
static inline int folder_entries(int remove_them)
{
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        count++;
        if (remove_them && unlink(in_folder(e->d_name)))
            rmdir(in_folder(e->d_name));
    }
    closedir(d);
    return count;
}

static inline int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/epiq-io-XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int empty_folder(void **state)
{
    (void)state;
    folder_entries(1);
    return 0;
}

static inline int remove_folder(void **state)
{
    empty_folder(state);
    return rmdir(folder);
}

static inline void put_file(const char *path, const void *bytes, size_t count)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

/* The content, to be freed. */
static inline unsigned char *get_file(const char *path, size_t *count)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    unsigned char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *count = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

/* One line of visible ASCII that begins with the path (or its end, if it is long) and holds the fragment. */
static inline void check_why(const char *why, const char *path, const char *fragment, const char *label)
{
    int good = memchr(why, 0, IO_TEXT) != NULL && strstr(why, fragment) != NULL;
    for (const char *c = why; good && *c; c++)
        good = *c >= 0x20 && *c < 0x7F;
    if (good && strlen(path) < 150)
        good = strncmp(why, path, strlen(path)) == 0 && why[strlen(path)] == ':';
    if (!good)
        fail_msg("%s: expected '%s' in: %.511s", label, fragment, why);
}

static inline void check_refused(const char *path, const char *fragment, const char *label)
{
    char why[IO_TEXT];
    io_file file, zero;
    memset(why, 'x', sizeof why);
    memset(&file, 0xA5, sizeof file);
    memset(&zero, 0, sizeof zero);
    if (io_open(path, &file, why) != -1)
        fail_msg("%s: not refused (%s)", label, fragment);
    assert_memory_equal(&file, &zero, sizeof zero);
    check_why(why, path, fragment, label);
    io_close(&file);
}

static inline void check_opens(const char *path, io_file *file)
{
    char why[IO_TEXT];
    if (io_open(path, file, why))
        fail_msg("refused: %s", why);
}

static inline void check_tensor(const io_tensor *t, const char *name, io_dtype dtype, int rank, const int64_t *shape,
                                const void *data, size_t bytes)
{
    assert_non_null(t);
    assert_string_equal(t->name, name);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->rank, rank);
    for (int i = 0; i < rank; i++)
        assert_true(t->shape[i] == shape[i]);
    assert_int_equal(t->bytes, bytes);
    if (bytes)
        assert_memory_equal(t->data, data, bytes);
}

/* What an accepted file must satisfy whatever it says: data inside the content, sizes that follow from the shapes,
 * terminated strings. Every byte is touched, for a sanitizer to see. `header` is where the data may begin. */
static inline void check_sane(const io_file *file, size_t header)
{
    const unsigned char *content = file->content;
    size_t touched = 0, data = 0;
    for (size_t i = 0; i < file->count; i++) {
        const io_tensor *t = &file->tensors[i];
        const unsigned char *at = t->data;
        assert_true(at >= content + header && at <= content + file->content_bytes);
        assert_true(t->bytes <= (size_t)(content + file->content_bytes - at));
        assert_true(t->rank >= 0 && t->rank <= IO_MAX_RANK);
        size_t bytes = io_dtype_bytes(t->dtype);
        for (int d = 0; d < t->rank; d++)
            bytes *= (size_t)t->shape[d];
        assert_int_equal(bytes, t->bytes);
        touched += strlen(t->name);
        for (size_t b = 0; b < t->bytes; b++)
            touched += at[b];
        data += t->bytes;
    }
    for (size_t i = 0; i < 2 * file->metadata_count; i++)
        touched += strlen(file->metadata[i]);
    assert_int_equal(data, file->content_bytes - header);
    assert_true(touched < (size_t)1 << 20);
}

/* Gives each byte of the header each other value: refused with words, or sane. How many were accepted; the file at
 * `path` holds `content` before and after. */
static inline size_t check_flipped(const char *path, const unsigned char *content, size_t header)
{
    size_t refused = 0, accepted = 0;
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (size_t at = 0; at < header; at++) {
        for (int value = 0; value < 256; value++) {
            unsigned char byte = (unsigned char)value;
            if (byte == content[at])
                continue;
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
            char why[IO_TEXT];
            io_file file;
            if (io_open(path, &file, why) == 0) {
                check_sane(&file, header);
                accepted++;
            } else {
                check_why(why, path, ": ", "flipped");
                refused++;
            }
            io_close(&file);
        }
        assert_int_equal(pwrite(fd, &content[at], 1, (off_t)at), 1);
    }
    close(fd);
    print_message("%zu changed bytes refused, %zu accepted\n", refused, accepted);
    assert_int_equal(refused + accepted, 255 * header);
    return accepted;
}

#endif
