/* reduce.h: the canonical sum of squares: a balanced binary tree over consecutive elements (doc/spec.md 3.2).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every aligned block of 2^k elements is a subtree, so a row may be summed block by block in any arrangement that joins
 * neighbours of equal size. Included after a lane header. */
#ifndef EPIQ_REDUCE_H
#define EPIQ_REDUCE_H

#include <stdint.h>

/* A loop over the vectors of an array that is to stay in registers. */
#ifndef AR_UNROLL
#if defined(__clang__)
#define AR_UNROLL _Pragma("unroll")
#else
#define AR_UNROLL _Pragma("GCC unroll 16")
#endif
#endif

/* Lane g of the result is the tree over the lanes of v[g]. */
AR_FN vf ar_sum_lanes(vf *v)
{
    AR_UNROLL
    for (int w = VW; w > 1; w /= 2)
        AR_UNROLL
    for (int i = 0; i < w / 2; i++)
        v[i] = vf_pair_add(v[2 * i], v[2 * i + 1]);
    return v[0];
}

/* The tree over h[0 .. n), n >= 1, zero-padded to the next power of two, which `scratch` has room for, and for VW
 * floats at least. h is zero from n to the next multiple of VW. The sum is that of every larger zero-padded tree, too:
 * s + 0 = s. */
AR_FN float ar_tree_squares(const float *h, int64_t n, float *scratch)
{
    int64_t sums = 0, size = 1;
    for (int64_t i = 0; i < n; i += VW * VW, sums += VW) {
        vf v[VW];
        AR_UNROLL
        for (int k = 0; k < VW; k++) {
            vf a = i + k * VW < n ? vf_load(h + i + k * VW) : vf_set(0.0f);
            v[k] = vf_mul(a, a);
        }
        vf_store(scratch + sums, ar_sum_lanes(v));
    }
    while (size < sums)
        size *= 2;
    for (; sums < size; sums += VW)
        vf_store(scratch + sums, vf_set(0.0f));
    for (; size >= 2 * VW; size /= 2)
        for (int64_t i = 0; i < size / 2; i += VW)
            vf_store(scratch + i, vf_pair_add(vf_load(scratch + 2 * i), vf_load(scratch + 2 * i + VW)));
    vf a = vf_load(scratch);
    for (; size > 1; size /= 2)
        a = vf_pair_add(a, a);
    vf_store(scratch, a);
    return scratch[0];
}

#endif
