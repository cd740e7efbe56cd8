/* format_int8.h: two's complement integers from -128 to 127 (doc/spec.md 4).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_FORMAT_INT8_H
#define EPIQ_FORMAT_INT8_H

#include "quant.h"

enum { AR_INT8_DIVIDES = 0, AR_INT8_DIVIDES_STATIC = 1 };

#define AR_INT8_FLOAT 0, 0, 0, 0.0f /* none */

/* Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits. */
AR_FN vi ar_int8_number(vf x)
{
    vf bounded = vf_min_num(vf_max_num(x, vf_set(-128.0f)), vf_set(127.0f));
    return vi_and(vf_bits(vf_add(bounded, vf_set(12582912.0f))), vi_set(0xff));
}

AR_FN vi ar_int8_code(const ar_quant *q, vf x)
{
    (void)q; /* a NaN is 0 by either policy */
    return vi_sel(vf_is_nan(x), vi_set(0), ar_int8_number(x));
}

AR_FN vf ar_int8_value(vi code)
{
    return vi_to_float(vi_sub(vi_and(code, vi_set(0x7f)), vi_and(code, vi_set(0x80))));
}

AR_FN void ar_int8_scale(const ar_quant *q, vf amax, vm nan, vf *factor, vi *stored) /* of a token: its only grain */
{
    (void)q;
    (void)nan;
    const vf zero = vf_set(0.0f);
    vf a = vf_min_num(amax, vf_set(FLT_MAX));
    vf m = vf_min_num(vf_div(vf_set(127.0f), a), vf_set(FLT_MAX));
    *factor = vf_sel(vf_gt(a, zero), m, zero);
    *stored = vf_bits(vf_div(a, vf_set(127.0f)));
}

AR_FN vf ar_int8_scale_value(const ar_quant *q, vi stored)
{
    (void)q;
    return vi_float(stored);
}

#endif
