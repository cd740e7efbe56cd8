/* act.h: exp(-z), the activations, and y = act(gate) * up with its rounding points (doc/spec.md 2).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Included after a lane header. */
#ifndef EPIQ_ACT_H
#define EPIQ_ACT_H

#include "convert.h"

/* a * 2^n, rounded once, for an integer n from -190 to 0 and a from 1/2 to 2. `biased` holds n + 64 in its low bits: a
 * 2^(n + 64) is normal, and the multiplication rounds. */
#ifndef LANE_HAS_EXP2
AR_FN vf vf_mul_exp2(vf a, vf n, vi biased)
{
    (void)n;
    return vf_mul(vi_float(vi_add(vf_bits(a), vi_shl(biased, 23))), vf_set(0x1p-64f));
}
#endif

/* exp(-z) for 0 <= z <= 127, gradual underflow: n = rint(z log2 e), r = n ln 2 - z in two steps, a polynomial of degree
 * 6. The 64 in the magic number is that of vf_mul_exp2. */
AR_FN vf ar_exp_neg(vf z)
{
    vf t = vf_fma(z, vf_set(-0x1.715476p+0f), vf_set(12582976.0f)); /* 1.5 * 2^23 + 64 */
    vf n = vf_sub(t, vf_set(12582976.0f));
    vf r = vf_fma(n, vf_set(-0x1.62e4p-1f), vf_neg(z));
    r = vf_fma(n, vf_set(-0x1.7f7d1cp-20f), r);
    vf p = vf_set(0x1.694c96p-10f);
    p = vf_fma(p, r, vf_set(0x1.12397ep-7f));
    p = vf_fma(p, r, vf_set(0x1.555a26p-5f));
    p = vf_fma(p, r, vf_set(0x1.555492p-3f));
    p = vf_fma(p, r, vf_set(0x1.fffffap-2f));
    p = vf_fma(p, r, vf_set(1.0f));
    p = vf_fma(p, r, vf_set(1.0f));
    return vf_mul_exp2(p, n, vf_bits(t));
}

/* max(g, -0) - q: relu with the sign of zero kept, less the tail. */
AR_FN vf ar_relu_less(vf g, vf q)
{
    return vf_sub(vf_max_nan(g, vf_set(-0.0f)), q);
}

/* g * sigmoid(w), w of the sign of g, from a = |g| (bounded) and z = |w|: relu(g) - a e / (1 + e) with e = exp(-z). */
AR_FN vf ar_times_sigmoid(vf g, vf a, vf z, int wide)
{
    vf e = ar_exp_neg(z);
    return ar_relu_less(g, vf_div_1to2(vf_mul(a, e), vf_add(vf_set(1.0f), e), wide));
}

/* Not wide, alpha is 1, and from 110 on a e is 0 whatever a is: a may be bounded with z. */
AR_FN vf ar_silu(vf g, float alpha, int wide)
{
    vf a = vf_min_abs(g, wide ? FLT_MAX : 110.0f);
    vf z = wide ? vf_min_num(vf_mul(vf_set(alpha), a), vf_set(110.0f)) : a;
    return ar_times_sigmoid(g, a, z, wide);
}

AR_FN vf ar_gelu_tanh(vf g, int wide)
{
    vf a = vf_min_abs(g, 11.5f);
    vf p = vf_fma(vf_set(0x1.2444f2p-4f), vf_mul(a, a), vf_set(0x1.988454p+0f));
    return ar_times_sigmoid(g, a, vf_mul(a, p), wide);
}

/* relu(g) - a Phi(-a), Phi(-a) = exp(-a^2 / 2) u P(u), u = 1 / (1 + a / 4). */
AR_FN vf ar_gelu_erf(vf g, int wide)
{
    vf a = vf_min_abs(g, 14.5f);
    vf e = ar_exp_neg(vf_mul(vf_mul(vf_set(0.5f), a), a));
    vf u = vf_rcp_1to5(vf_fma(vf_set(0.25f), a, vf_set(1.0f)), wide);
    vf p = vf_set(0x1.15074cp-6f);
    p = vf_fma(p, u, vf_set(-0x1.08c82cp-4f));
    p = vf_fma(p, u, vf_set(0x1.cc3686p-5f));
    p = vf_fma(p, u, vf_set(0x1.6ad8bcp-6f));
    p = vf_fma(p, u, vf_set(0x1.29d518p-6f));
    p = vf_fma(p, u, vf_set(0x1.565904p-4f));
    p = vf_fma(p, u, vf_set(0x1.2b7db4p-4f));
    p = vf_fma(p, u, vf_set(0x1.86322ap-4f));
    p = vf_fma(p, u, vf_set(0x1.97a758p-4f));
    p = vf_fma(p, u, vf_set(0x1.988f68p-4f));
    return ar_relu_less(g, vf_mul(vf_mul(a, e), vf_mul(u, p)));
}

/* g > 0 ? g : +0; the addition turns -0 into +0. */
AR_FN vf ar_relu(vf g)
{
    return vf_add(vf_max_nan(g, vf_set(0.0f)), vf_set(0.0f));
}

/* wide: 0 if g is a 16-bit float and alpha 1 (see vf_div_1to2); changes no bit. */
AR_FN vf ar_act(int act, vf g, float alpha, int wide)
{
    switch (act) {
    case AR_SILU:
        return ar_silu(g, alpha, wide);
    case AR_GELU_TANH:
        return ar_gelu_tanh(g, wide);
    case AR_GELU_ERF:
        return ar_gelu_erf(g, wide);
    case AR_RELU:
        return ar_relu(g);
    case AR_RELU2:
        return vf_mul(ar_relu(g), ar_relu(g));
    default:
        return g;
    }
}

/* Whether gates need `wide` (see vf_div_1to2). */
AR_FN int ar_wide(const ar_act_mul *p, int dtype)
{
    return dtype == AR_F32 || p->limit > 0 || p->alpha != 1.0f;
}

/* act(gate) with its limit; wide as ar_wide says, or 1. */
AR_FN vf ar_gate(const ar_act_mul *p, int wide, vf gate)
{
    if (p->limit > 0)
        gate = vf_min_nan(gate, vf_set(p->limit));
    vf a = ar_act(p->act, gate, p->alpha, wide);
    return p->limit_after > 0 ? vf_min_nan(a, vf_set(p->limit_after)) : a;
}

/* up with its limit and offset. */
AR_FN vf ar_up(const ar_act_mul *p, vf up)
{
    float limit = p->limit > 0 ? p->limit : p->limit_after;
    if (limit > 0)
        up = vf_max_nan(vf_min_nan(up, vf_set(limit)), vf_set(-limit));
    return p->up_offset != 0 ? vf_add(up, vf_set(p->up_offset)) : up;
}

/* y from the activated gate and up. */
AR_FN vf ar_gate_mul(const ar_act_mul *p, int dtype, vf y, vf up)
{
    if (p->gated) {
        if (p->round == AR_ROUND_TWICE)
            y = ar_round(dtype, y);
        y = vf_mul(y, ar_up(p, up));
    }
    return p->round == AR_ROUND_NONE ? y : ar_round(dtype, y);
}

/* y of one gate and up. */
AR_FN vf ar_act_mul_y(const ar_act_mul *p, int dtype, vf gate, vf up)
{
    return ar_gate_mul(p, dtype, ar_gate(p, ar_wide(p, dtype), gate), up);
}

#endif
