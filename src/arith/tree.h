/* tree.h: joining the sums of blocks into the canonical sum of a row (doc/spec.md 3.2), one block after the other.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TREE_H
#define EPIQ_TREE_H

#include <stdint.h>

/* Joins the sums of consecutive blocks of one power-of-two size, the last of which may be zero-padded. Zeroed to start;
 * `sums` are finished subtrees, largest first, as in a binary counter of the blocks seen. */
typedef struct ar_tree {
    uint64_t blocks;
    int top;
    float sums[48];
} ar_tree;

static inline void ar_tree_push(ar_tree *t, float sum)
{
    for (uint64_t b = t->blocks++; b & 1; b >>= 1)
        sum = t->sums[--t->top] + sum;
    t->sums[t->top++] = sum;
}

static inline float ar_tree_total(const ar_tree *t)
{
    int i = t->top - 1;
    float sum = t->sums[i];
    while (i > 0)
        sum = t->sums[--i] + sum;
    return sum;
}

#endif
