/* norm.h: residual add and RMSNorm (doc/spec.md 3).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Included after a lane header. */
#ifndef EPIQ_NORM_H
#define EPIQ_NORM_H

#include "act.h"

/* What the norm sees of x + residual. The stored residual is RN_T of it in either case. */
AR_FN vf ar_norm_sum(const ar_norm *p, int dtype, vf x, vf residual)
{
    vf h = vf_add(x, residual);
    return p->sum_round ? ar_round(dtype, h) : h;
}

/* 1 / sqrt(mean + eps) from the sum of squares over `cols` columns. */
AR_FN vf ar_norm_rinv(const ar_norm *p, vf sum, vf cols)
{
    vf mean = vf_div(sum, cols);
    return vf_rcp(vf_sqrt(vf_add(mean, vf_set(p->eps))));
}

/* What multiplies the normalised value. */
AR_FN vf ar_norm_weight(const ar_norm *p, vf weight)
{
    return p->weight_bias != 0 ? vf_add(vf_set(p->weight_bias), weight) : weight;
}

AR_FN vf ar_norm_y(const ar_norm *p, int dtype, vf h, vf rinv, vf weight)
{
    vf t = vf_mul(h, rinv);
    if (p->round == AR_ROUND_TWICE)
        t = ar_round(dtype, t);
    vf y = vf_mul(t, ar_norm_weight(p, weight));
    return p->round == AR_ROUND_NONE ? y : ar_round(dtype, y);
}

#endif
