/* mx.h: the E8M0 scale of mxfp8 and mxfp4 (doc/spec.md 4.5).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_MX_H
#define EPIQ_MX_H

#include "quant.h"

/* The exponent of amax, rounded up once its mantissa bits reach 2^23 - up, less emax; 254 for an infinity. The
 * multiplier is its exact reciprocal. */
AR_FN void ar_mx_scale(uint32_t up, uint32_t emax, vf amax, vf *factor, vi *stored)
{
    vi e = vi_shr(vi_add(vf_bits(amax), vi_set(up)), 23);
    e = vi_min(vi_sub(vi_max(e, vi_set(emax)), vi_set(emax)), vi_set(254));
    e = vi_sel(vi_eq(vf_bits(amax), vi_set(0x7f800000)), vi_set(254), e);
    *factor = ar_exp2_biased(vi_sub(vi_set(254), e));
    *stored = e;
}

#endif
