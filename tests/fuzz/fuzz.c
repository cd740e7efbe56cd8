/* fuzz.c: see fuzz.h. SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define GUARD 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARD 0
#endif
#endif
#ifndef GUARD
#define GUARD 64 /* behind the data; in front of it are the `offset` bytes and as many */
#endif

enum { GUARD_BYTE = 0x6B };

void fuzz_fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    abort();
}

fuzz_block fuzz_block_make(size_t bytes, size_t offset)
{
    fuzz_block b = {.bytes = bytes, .offset = offset % 16};
    size_t all = GUARD + b.offset + bytes + GUARD;
    b.block = malloc(all != 0 ? all : 1);
    if (b.block == NULL)
        fuzz_fail("out of memory for %zu bytes", all);
    memset(b.block, GUARD_BYTE, all);
    b.data = b.block + GUARD + b.offset;
    return b;
}

void fuzz_guards_hold(const fuzz_block *b, const char *what)
{
    for (const unsigned char *at = b->block; at < b->data; at++)
        if (*at != GUARD_BYTE)
            fuzz_fail("%s: byte %td is written", what, at - b->data);
    for (size_t i = b->bytes; i != b->bytes + GUARD; i++)
        if (b->data[i] != GUARD_BYTE)
            fuzz_fail("%s: byte %zu of %zu is written", what, i, b->bytes);
}

void fuzz_block_free(fuzz_block *b)
{
    free(b->block);
    memset(b, 0, sizeof *b);
}

static uint32_t next(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)(z ^ (z >> 31));
}

void fuzz_fill(unsigned char *data, size_t bytes, uint32_t seed, int kind, int element, const fuzz_bytes *from)
{
    uint64_t state = seed;
    if (kind == 2 && from != NULL && from->left > 0) {
        for (size_t i = 0; i < bytes; i++)
            data[i] = from->at[(i + seed) % from->left];
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)next(&state);
    if (kind != 1 || element < 2)
        return;
    for (size_t i = 0; i + (size_t)element <= bytes; i += (size_t)element) { /* the high bytes hold the exponent */
        unsigned char *high = data + i + element - 1;
        uint32_t bits = next(&state);
        *high = (unsigned char)((bits & 0x80) | (0x3C + bits % 5));
    }
}
