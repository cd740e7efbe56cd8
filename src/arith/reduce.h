/* reduce.h: the canonical sum of squares: a balanced binary tree over consecutive elements (doc/spec.md 3.2).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every aligned block of 2^k elements is a subtree, so a row may be summed block by block in any arrangement that joins
 * neighbours of equal size. Included after a lane header. */
#ifndef EPIQ_REDUCE_H
#define EPIQ_REDUCE_H

#include <stdint.h>

/* The tree over h[0 .. n), n >= 1, zero-padded to the next power of two. h is zero from n to the next multiple of VW;
 * `scratch` holds that power of two of floats, and not less than 2 * VW. The sum is that of every larger zero-padded
 * tree too: s + 0 = s. */
AR_FN float ar_tree_squares(const float *h, int64_t n, float *scratch)
{
    int64_t size = 2 * VW;
    while (size < n)
        size *= 2;
    int64_t i = 0;
    for (; i < n; i += VW) {
        vf a = vf_load(h + i);
        vf_store(scratch + i, vf_mul(a, a));
    }
    for (; i < size; i += VW)
        vf_store(scratch + i, vf_set(0.0f));
    for (; size >= 2 * VW; size /= 2)
        for (i = 0; i < size / 2; i += VW)
            vf_store(scratch + i, vf_pair_add(vf_load(scratch + 2 * i), vf_load(scratch + 2 * i + VW)));
    for (; size > 1; size /= 2) /* within one vector */
        for (i = 0; i < size / 2; i++)
            scratch[i] = scratch[2 * i] + scratch[2 * i + 1];
    return scratch[0];
}

#endif
