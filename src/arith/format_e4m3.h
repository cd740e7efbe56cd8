/* format_e4m3.h: 8-bit floats, 4 exponent and 3 mantissa bits, no infinity, largest number 448 (doc/spec.md 4).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_FORMAT_E4M3_H
#define EPIQ_FORMAT_E4M3_H

#include "quant.h"

enum { AR_E4M3_DIVIDES = 1, AR_E4M3_DIVIDES_STATIC = 0 };

#define AR_E4M3_MAX 448.0f
#define AR_E4M3_FLOAT 8, 3, -6, AR_E4M3_MAX

AR_FN vi ar_e4m3_number(vf x)
{
    return ar_float_code(x, AR_E4M3_FLOAT);
}

#ifndef LANE_HAS_E4M3
AR_FN vi ar_e4m3_round(vf x) /* NaN: 0x7f */
{
    return vi_sel(vf_is_nan(x), vi_set(0x7f), ar_e4m3_number(x));
}

AR_FN vf ar_e4m3_value(vi code)
{
    vi nan = vi_set(0x7fffffff);
    return vf_sel(vi_eq(vi_and(code, vi_set(0x7f)), vi_set(0x7f)), vi_float(nan), ar_float_value(code, 3, 8, -6));
}
#endif

AR_FN vi ar_e4m3_code(const ar_quant *q, vf x)
{
    return ar_e4m3_round(ar_nan_to(q, AR_E4M3_MAX, x));
}

AR_FN void ar_e4m3_scale(const ar_quant *q, vf amax, vm nan, vf *factor, vi *stored)
{
    (void)nan;
    ar_fp8_scale(q, AR_E4M3_MAX, 0x1.24924ap-18f, amax, factor, stored);
}

AR_FN vf ar_e4m3_scale_value(const ar_quant *q, vi stored)
{
    return ar_fp8_scale_value(q, stored);
}

#endif
