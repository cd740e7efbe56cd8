/* oracle_norm.c: the sum of squares over the canonical tree, straight from its definition.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The additions are the host's: IEEE binary32, round to nearest, subnormals kept. */
#include "oracle.h"

#include <stdlib.h>

/* The sum of the squares at start .. start + length - 1, length a power of two; those at n and beyond are padding.
 * A half of nothing but padding sums to +0, and x + 0 is x for x >= +0 and for NaN, which is all that squares give. */
static float tree(const float *squares, size_t n, size_t start, size_t length)
{
    if (length == 1)
        return squares[start];
    size_t half = length / 2;
    float left = tree(squares, n, start, half);
    if (start + half >= n)
        return left;
    float right = tree(squares, n, start + half, half);
    return left + right;
}

float oracle_sum_squares(const float *h, size_t n)
{
    if (n == 0)
        return 0;
    size_t length = 1;
    while (length < n)
        length *= 2;
    float *squares = oracle_alloc(n, sizeof *squares);
    for (size_t i = 0; i < n; i++)
        squares[i] = oracle_mul(h[i], h[i]);
    float sum = tree(squares, n, 0, length);
    free(squares);
    return sum;
}

float oracle_rinv(float sum, int64_t n, float eps)
{
    float mean = oracle_div(sum, oracle_from_int(n));
    return oracle_div(1.0f, oracle_sqrt(oracle_add(mean, eps)));
}
