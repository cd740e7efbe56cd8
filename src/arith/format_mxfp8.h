/* format_mxfp8.h: e4m3 elements and an E8M0 scale for 32 of them (doc/spec.md 4.5).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_FORMAT_MXFP8_H
#define EPIQ_FORMAT_MXFP8_H

#include "format_e4m3.h"
#include "mx.h"

enum { AR_MXFP8_DIVIDES = 0, AR_MXFP8_DIVIDES_STATIC = 0 };

#define AR_MXFP8_FLOAT AR_E4M3_FLOAT

AR_FN vi ar_mxfp8_number(vf x)
{
    return ar_e4m3_number(x);
}

AR_FN vi ar_mxfp8_code(const ar_quant *q, vf x)
{
    return ar_e4m3_code(q, x);
}

AR_FN vf ar_mxfp8_value(vi code)
{
    return ar_e4m3_value(code);
}

AR_FN void ar_mxfp8_scale(const ar_quant *q, vf amax, vm nan, vf *factor, vi *stored)
{
    (void)nan; /* it stands in the element */
    ar_mx_scale(q->mx_round == AR_MX_CEIL ? 0x1fffff : 0, 8, amax, factor, stored);
}

AR_FN vf ar_mxfp8_scale_value(const ar_quant *q, vi stored)
{
    (void)q;
    return ar_e8m0_value(stored);
}

#endif
