/* fuzz.h: what the fuzz targets share: reading choices out of bytes, and memory with guards.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A target is one LLVMFuzzerTestOneInput. Linked with libFuzzer it is fuzzed (tools/setup/fuzz.sh), linked with
 * replay.c it runs the inputs that are kept in tests/fuzz/corpus, and variations of them (ctest). A broken promise
 * aborts. */
#ifndef EPIQ_FUZZ_H
#define EPIQ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prints the text and aborts. */
__attribute__((format(printf, 1, 2), noreturn)) void fuzz_fail(const char *format, ...);

/* ---- Bytes as choices. After the end come zeros, so that a short input means defaults. */
typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
} fuzz_bytes;

static inline uint32_t fuzz_byte(fuzz_bytes *b)
{
    if (b->left == 0)
        return 0;
    b->left--;
    return *b->at++;
}

static inline uint64_t fuzz_bits(fuzz_bytes *b, int bytes)
{
    uint64_t bits = 0;
    for (int i = 0; i < bytes; i++)
        bits |= (uint64_t)fuzz_byte(b) << 8 * i;
    return bits;
}

static inline int fuzz_one_in(fuzz_bytes *b, uint32_t n) /* n up to 256; not for zeros */
{
    return fuzz_byte(b) % n == n - 1;
}

static inline float fuzz_float(fuzz_bytes *b)
{
    static const float usual[] = {0,     1, -1,    0.5f,     2,         448,       1e-6f,
                                  1e-5f, 7, -0.0f, 0x1p100f, 0x1p-100f, 0x1p-149f, 3e38f};
    uint32_t pick = fuzz_byte(b) % 16;
    if (pick < sizeof usual / sizeof *usual)
        return usual[pick];
    uint32_t bits = (uint32_t)fuzz_bits(b, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- Memory of exactly so many bytes at an address that is `offset` bytes off a multiple of 16. Under
 * AddressSanitizer the byte behind it may not be touched; everywhere fuzz_guards_hold looks at what lies around it. */
typedef struct fuzz_block {
    unsigned char *block;
    unsigned char *data;
    size_t bytes, offset;
} fuzz_block;

fuzz_block fuzz_block_make(size_t bytes, size_t offset);
void fuzz_guards_hold(const fuzz_block *b, const char *what);
void fuzz_block_free(fuzz_block *b);

/* Fills with numbers that follow from `seed`; kind 0: any bits, 1: moderate numbers of `element` bytes (bf16 where 2),
 * 2: the bytes of `from`, over and over. */
void fuzz_fill(unsigned char *data, size_t bytes, uint32_t seed, int kind, int element, const fuzz_bytes *from);

#ifdef __cplusplus
}
#endif

#endif
