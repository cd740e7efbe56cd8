/* e2m1.h: the 4-bit elements of nvfp4 and mxfp4: 0 .5 1 1.5 2 3 4 6 and a sign (doc/spec.md 1.4).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_E2M1_H
#define EPIQ_E2M1_H

#include "quant.h"

#define AR_E2M1_FLOAT 4, 1, 0, 6.0f

AR_FN vi ar_e2m1_number(vf x) /* not NaN */
{
    return ar_float_code(x, AR_E2M1_FLOAT);
}

AR_FN vi ar_e2m1_code(vf x) /* NaN: 6 */
{
    return vi_sel(vf_is_nan(x), vi_set(7), ar_e2m1_number(x));
}

AR_FN vf ar_e2m1_value(vi code)
{
    return ar_float_value(vi_and(code, vi_set(15)), 1, 4, 0);
}

#endif
