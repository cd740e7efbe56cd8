/* format_mxfp4.h: e2m1 elements and an E8M0 scale for 32 of them (doc/spec.md 4.5).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_FORMAT_MXFP4_H
#define EPIQ_FORMAT_MXFP4_H

#include "e2m1.h"
#include "mx.h"

enum { AR_MXFP4_DIVIDES = 0, AR_MXFP4_DIVIDES_STATIC = 0 };

#define AR_MXFP4_FLOAT AR_E2M1_FLOAT

AR_FN vi ar_mxfp4_number(vf x)
{
    return ar_e2m1_number(x);
}

AR_FN vi ar_mxfp4_code(const ar_quant *q, vf x)
{
    (void)q; /* a NaN is 6 by either policy: propagated, it stands in the block's scale */
    return ar_e2m1_code(x);
}

AR_FN vf ar_mxfp4_value(vi code)
{
    return ar_e2m1_value(code);
}

AR_FN void ar_mxfp4_scale(const ar_quant *q, vf amax, vm nan, vf *factor, vi *stored)
{
    uint32_t up = q->mx_round == AR_MX_CEIL ? 0x3fffff : q->mx_round == AR_MX_VLLM ? 0x200000 : 0;
    vi e;
    ar_mx_scale(up, 2, amax, factor, &e);
    *stored = q->saturate ? e : vi_sel(nan, vi_set(0xff), e);
}

AR_FN vf ar_mxfp4_scale_value(const ar_quant *q, vi stored)
{
    (void)q;
    return ar_e8m0_value(stored);
}

#endif
