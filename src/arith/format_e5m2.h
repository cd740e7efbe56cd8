/* format_e5m2.h: 8-bit floats, 5 exponent and 2 mantissa bits, with infinities, largest number 57344 (doc/spec.md 4).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_FORMAT_E5M2_H
#define EPIQ_FORMAT_E5M2_H

#include "quant.h"

enum { AR_E5M2_DIVIDES = 1, AR_E5M2_DIVIDES_STATIC = 0 };

#define AR_E5M2_MAX 57344.0f
#define AR_E5M2_FLOAT 8, 2, -14, AR_E5M2_MAX

AR_FN vi ar_e5m2_number(vf x)
{
    return ar_float_code(x, AR_E5M2_FLOAT);
}

#ifndef LANE_HAS_E5M2
AR_FN vi ar_e5m2_round(vf x) /* NaN: 0x7f; an infinity saturates like every large number */
{
    return vi_sel(vf_is_nan(x), vi_set(0x7f), ar_e5m2_number(x));
}
#endif

AR_FN vi ar_e5m2_code(const ar_quant *q, vf x)
{
    return ar_e5m2_round(ar_nan_to(q, AR_E5M2_MAX, x));
}

AR_FN vf ar_e5m2_value(vi code)
{
    vi magnitude = vi_and(code, vi_set(0x7f)), sign = vi_shl(vi_shr(code, 7), 31);
    vf special = vi_float(vi_sel(vi_gt(magnitude, vi_set(0x7c)), vi_set(0x7fffffff), vi_or(vi_set(0x7f800000), sign)));
    return vf_sel(vi_gt(magnitude, vi_set(0x7b)), special, ar_float_value(code, 2, 8, -14));
}

AR_FN void ar_e5m2_scale(const ar_quant *q, vf amax, vm nan, vf *factor, vi *stored)
{
    (void)nan;
    ar_fp8_scale(q, AR_E5M2_MAX, 0x1.24924ap-25f, amax, factor, stored);
}

AR_FN vf ar_e5m2_scale_value(const ar_quant *q, vi stored)
{
    return ar_fp8_scale_value(q, stored);
}

#endif
