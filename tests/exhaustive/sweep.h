/* sweep.h: what the exhaustive tests share: bits of floats, hashes, and whether to take minutes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * By default each program takes seconds. EPIQ_DEEP=1 in the environment asks for all 2^32 inputs (minutes), EPIQ_DEEP=2
 * also for what the constants in tests/golden were made by (up to an hour). */
#ifndef EPIQ_SWEEP_H
#define EPIQ_SWEEP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <epiq/epiq.h>

#ifndef EPIQ_SOURCE_DIR
#define EPIQ_SOURCE_DIR "." /* tests run at the top of the tree */
#endif

#define COUNT(array) (sizeof(array) / sizeof *(array))

static inline int deep(void)
{
    const char *value = getenv("EPIQ_DEEP");
    return value == NULL ? 0 : atoi(value);
}

/* The next CPU backend that runs here, from one on; EPIQ_BACKEND_CUDA when there is none left. Each must give the same
 * bytes, so each is swept. */
static inline epiq_backend next_backend(epiq_backend backend)
{
    for (; backend < EPIQ_BACKEND_CUDA; backend = (epiq_backend)(backend + 1)) {
        char text[256];
        if (epiq_backend_usable(backend, 0, text, sizeof text) == EPIQ_OK) {
            print_message("backend %s: %s\n", epiq_word(backend), text);
            break;
        }
    }
    return backend;
}

static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline int is_nan_bits(uint32_t u)
{
    return (u & 0x7fffffff) > 0x7f800000;
}

/* FNV-1a, 64 bits. */
#define FNV_BASIS UINT64_C(14695981039346656037)

static inline uint64_t fnv1a(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * UINT64_C(1099511628211);
    return hash;
}

/* The number behind a name in a text file of tests/golden: lines `name hexadecimal`, '#' starts a comment. 1 if it is
 * there. */
static inline int golden_hash(const char *file_name, const char *name, uint64_t *hash)
{
    char path[1024], line[256], word[64];
    snprintf(path, sizeof path, "%s/tests/golden/%s", EPIQ_SOURCE_DIR, file_name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int found = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long long value;
        if (sscanf(line, "%63s %llx", word, &value) == 2 && strcmp(word, name) == 0) {
            *hash = value;
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static inline uint64_t random_64(void)
{
    static uint64_t state = 88172645463325252u; /* xorshift */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

#endif
