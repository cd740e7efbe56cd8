/* oracle_exact.c: + - * / sqrt of binary32 in exact integers, rounded once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__FAST_MATH__) || (defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0)
#error "the oracle needs IEEE arithmetic"
#endif

__extension__ typedef unsigned __int128 wide;

uint32_t oracle_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float oracle_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float oracle_nan(void)
{
    return oracle_float(0x7fffffffu);
}

void *oracle_alloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (memory == NULL) {
        fprintf(stderr, "oracle: out of memory\n");
        abort();
    }
    return memory;
}

/* A finite non-zero float as m * 2^e with 2^23 <= m < 2^24. */
typedef struct parts {
    bool negative;
    uint32_t m;
    int e;
} parts;

static parts take_apart(float x)
{
    int e;
    double f = frexp(fabs((double)x), &e); /* exact; f in [1/2, 1) */
    parts p = {signbit(x) != 0, (uint32_t)ldexp(f, 24), e - 24};
    return p;
}

static float signed_value(bool negative, double magnitude)
{
    return negative ? (float)-magnitude : (float)magnitude;
}

/* The binary32 nearest to (m + d) * 2^e, where d is 0, or with `more` some real number in (0, 1). With `more`, m has at
 * least 26 bits, so that d lies below the last bit that decides.
 * The floats around a value v with 2^E <= v < 2^(E+1) are the multiples of 2^k, k = max(E - 23, -149) (where v would
 * overflow too: rounding there asks whether the multiple n * 2^k reaches 2^128). v = n * 2^k + rest, and `rest` is
 * compared with half of 2^k. */
static float nearest(bool negative, wide m, bool more, int e)
{
    if (m == 0)
        return signed_value(negative, 0.0);
    int length = 1; /* bits of m */
    wide rest_of_m = m;
    for (int step = 64; step > 0; step /= 2)
        if (rest_of_m >> step != 0) {
            rest_of_m >>= step;
            length += step;
        }
    int k = length - 1 + e - 23;
    if (k < -149)
        k = -149;
    uint32_t n; /* at most 2^24 */
    if (k <= e) {
        n = (uint32_t)(m << (e - k)); /* a float as it stands */
    } else if (k - e > length) {
        n = 0; /* below a quarter of 2^k, or just below half of it */
    } else {
        int drop = k - e; /* 1 .. length, which is at most 127 */
        wide rest = m & (((wide)1 << drop) - 1), half = (wide)1 << (drop - 1);
        n = (uint32_t)(m >> drop);
        if (rest > half || (rest == half && (more || n % 2 == 1)))
            n++;
    }
    double value = ldexp((double)n, k); /* exact */
    return signed_value(negative, value >= 0x1p128 ? (double)INFINITY : value);
}

float oracle_add(float a, float b)
{
    if (isnan(a) || isnan(b))
        return oracle_nan();
    if (isinf(a) || isinf(b)) {
        if (isinf(a) && isinf(b) && signbit(a) != signbit(b))
            return oracle_nan();
        return isinf(a) ? a : b;
    }
    if (a == 0 && b == 0)
        return signed_value(signbit(a) && signbit(b), 0.0);
    if (a == 0 || b == 0)
        return a == 0 ? b : a;
    if (fabsf(a) < fabsf(b)) {
        float swap = a;
        a = b;
        b = swap;
    }
    parts big = take_apart(a), small = take_apart(b);
    bool subtract = big.negative != small.negative;
    int apart = big.e - small.e; /* >= 0 */
    if (apart > 100)
        return a;                  /* |b| < 2^24 * 2^small.e < 2^-76 units in the last place of a: nowhere near a tie */
    wide m = (wide)big.m << apart; /* at most 124 bits */
    m = subtract ? m - small.m : m + small.m;
    return nearest(m != 0 && big.negative, m, false, small.e); /* a - a is +0 */
}

float oracle_sub(float a, float b)
{
    return isnan(b) ? oracle_nan() : oracle_add(a, -b);
}

float oracle_mul(float a, float b)
{
    if (isnan(a) || isnan(b))
        return oracle_nan();
    bool negative = (signbit(a) != 0) != (signbit(b) != 0);
    if (isinf(a) || isinf(b))
        return a == 0 || b == 0 ? oracle_nan() : signed_value(negative, (double)INFINITY);
    if (a == 0 || b == 0)
        return signed_value(negative, 0.0);
    parts p = take_apart(a), q = take_apart(b);
    return nearest(negative, (wide)p.m * q.m, false, p.e + q.e);
}

float oracle_div(float a, float b)
{
    if (isnan(a) || isnan(b))
        return oracle_nan();
    bool negative = (signbit(a) != 0) != (signbit(b) != 0);
    if ((isinf(a) && isinf(b)) || (a == 0 && b == 0))
        return oracle_nan();
    if (isinf(a) || b == 0)
        return signed_value(negative, (double)INFINITY);
    if (isinf(b) || a == 0)
        return signed_value(negative, 0.0);
    parts p = take_apart(a), q = take_apart(b);
    uint64_t above = (uint64_t)p.m << 40; /* p.m < 2^24; the quotient has 40 or 41 bits */
    return nearest(negative, above / q.m, above % q.m != 0, p.e - q.e - 40);
}

float oracle_sqrt(float a)
{
    if (isnan(a) || a < 0)
        return oracle_nan();
    if (a == 0 || isinf(a))
        return a;
    parts p = take_apart(a);
    int lift = p.e % 2 == 0 ? 38 : 39; /* makes the exponent even */
    uint64_t square = (uint64_t)p.m << lift, root = 0;
    for (int bit = 31; bit >= 0; bit--) {
        uint64_t next = root | (uint64_t)1 << bit;
        if (next * next <= square)
            root = next;
    }
    return nearest(false, root, root * root != square, (p.e - lift) / 2); /* 2^61 <= square: 31 or 32 bits of root */
}

float oracle_from_int(int64_t n)
{
    return nearest(n < 0, n < 0 ? (wide)0 - (wide)n : (wide)n, false, 0);
}

float oracle_min(float a, float b)
{
    if (isnan(a) || isnan(b))
        return oracle_nan();
    return b < a ? b : a;
}
