/* format_nvfp4.h: e2m1 elements, an e4m3 scale for 16 of them, and a second level gs for the tensor (doc/spec.md 4.6).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_FORMAT_NVFP4_H
#define EPIQ_FORMAT_NVFP4_H

#include "e2m1.h"
#include "format_e4m3.h"

enum { AR_NVFP4_DIVIDES = 0, AR_NVFP4_DIVIDES_STATIC = 0 };

#define AR_NVFP4_FLOAT AR_E2M1_FLOAT

AR_FN vi ar_nvfp4_number(vf x)
{
    return ar_e2m1_number(x);
}

AR_FN vi ar_nvfp4_code(const ar_quant *q, vf x)
{
    (void)q; /* a NaN is 6 by either policy: propagated, it stands in the block's scale */
    return ar_e2m1_code(x);
}

AR_FN vf ar_nvfp4_value(vi code)
{
    return ar_e2m1_value(code);
}

AR_FN void ar_nvfp4_scale(const ar_quant *q, vf amax, vm nan, vf *factor, vi *stored)
{
    const vf gs = vf_set(q->gs), sixth = vf_set(0x1.555556p-3f), zero = vf_set(0.0f); /* RN(1/6) */
    vf a = vf_min_num(amax, vf_set(FLT_MAX)), o;
    vi sf;
    if (q->ieee) {
        sf = ar_e4m3_code(q, vf_mul(a, vf_mul(gs, sixth)));
        o = vf_mul(ar_e4m3_value(sf), vf_rcp(gs));
        o = vf_min_num(vf_rcp(o), vf_set(FLT_MAX));
        o = vf_sel(vf_gt(gs, zero), o, zero);
    } else {
        sf = ar_e4m3_code(q, vf_mul(gs, vf_mul(a, sixth)));
        o = vf_rcp_approx(q->rcp_unit, vf_mul(ar_e4m3_value(sf), vf_rcp_approx(q->rcp_unit, gs)));
        o = vf_sel(vi_eq(sf, vi_set(0)), zero, o);
    }
    *factor = o;
    *stored = q->saturate ? sf : vi_sel(nan, vi_set(0x7f), sf);
}

AR_FN vf ar_nvfp4_scale_value(const ar_quant *q, vi stored)
{
    (void)q;
    return ar_e4m3_value(stored);
}

#endif
