/* oracle_act.c: the activations of the spec, every rounding one MPFR call; and the real functions behind them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An MPFR operation returns the exact result rounded to the precision of its target. With 24 bits, exponents limited to
 * those of binary32 and mpfr_subnormalize after each operation that is RN(..): no property of the host's arithmetic, of
 * its fma or of the compiler's contraction enters. */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <mpfr.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Binary32 in MPFR ------------------------------------------------------------------------------------------- */

/* The variables of the formulas, named as there; k holds the constant at hand. */
static mpfr_t a, z, t, n, r, p, e, d, q, u, w, k;
static mpfr_t *const variables[] = {&a, &z, &t, &n, &r, &p, &e, &d, &q, &u, &w, &k};
static bool variables_built;
static mpfr_exp_t callers_emin, callers_emax;

/* MPFR writes a number as f * 2^E, f in [1/2, 1): the smallest subnormal 2^-149 has E = -148, FLT_MAX has E = 128. */
static void enter_binary32(void)
{
    callers_emin = mpfr_get_emin();
    callers_emax = mpfr_get_emax();
    mpfr_set_emin(-148);
    mpfr_set_emax(128);
    if (!variables_built) {
        for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
            mpfr_init2(*variables[i], 24);
        variables_built = true;
    }
}

static void leave_binary32(void)
{
    mpfr_set_emin(callers_emin);
    mpfr_set_emax(callers_emax);
}

/* The last half of a rounding: `inexact` is what the operation returned. */
static void finish(mpfr_ptr result, int inexact)
{
    mpfr_subnormalize(result, inexact, MPFR_RNDN);
}

static void rn_add(mpfr_ptr to, mpfr_ptr x, mpfr_ptr y)
{
    finish(to, mpfr_add(to, x, y, MPFR_RNDN));
}
static void rn_sub(mpfr_ptr to, mpfr_ptr x, mpfr_ptr y)
{
    finish(to, mpfr_sub(to, x, y, MPFR_RNDN));
}
static void rn_mul(mpfr_ptr to, mpfr_ptr x, mpfr_ptr y)
{
    finish(to, mpfr_mul(to, x, y, MPFR_RNDN));
}
static void rn_div(mpfr_ptr to, mpfr_ptr x, mpfr_ptr y)
{
    finish(to, mpfr_div(to, x, y, MPFR_RNDN));
}
static void rn_fma(mpfr_ptr to, mpfr_ptr x, mpfr_ptr y, mpfr_ptr s)
{
    finish(to, mpfr_fma(to, x, y, s, MPFR_RNDN));
}

static void put(mpfr_ptr to, float value)
{
    mpfr_set_flt(to, value, MPFR_RNDN);
} /* exact */

static mpfr_ptr constant(float value)
{
    put(k, value);
    return k;
}

/* to = to * x + c for each further coefficient c, highest first. */
static void horner(mpfr_ptr to, mpfr_ptr x, const float *coefficients, size_t count)
{
    put(to, coefficients[0]);
    for (size_t i = 1; i < count; i++)
        rn_fma(to, to, x, constant(coefficients[i]));
}

/* ---- The formulas ------------------------------------------------------------------------------------------------ */

#define MAGIC 12582976.0f /* 1.5 * 2^23 + 64 */

/* e = exp(-z), 0 <= z < 127. Adding MAGIC rounds -z * log2(e) to the integer n, subtracting it is exact. The spec's E
 * is p with n + 64 added to its exponent field, and p in [0.7, 1.42] and n >= -184 keep it normal: E = p * 2^(n + 64)
 * exactly, so that e = RN(E * 2^-64) = RN(p * 2^n). */
static void exp_of_minus_z(void)
{
    static const float taylor[] = {
        0x1.694c96p-10f, 0x1.12397ep-7f, 0x1.555a26p-5f, 0x1.555492p-3f, 0x1.fffffap-2f, 1.0f, 1.0f};
    put(t, MAGIC);
    rn_fma(t, z, constant(-0x1.715476p+0f), t);
    rn_sub(n, t, constant(MAGIC));
    mpfr_neg(z, z, MPFR_RNDN);
    rn_fma(r, n, constant(-0x1.62e4p-1f), z);
    rn_fma(r, n, constant(-0x1.7f7d1cp-20f), r);
    horner(p, r, taylor, sizeof taylor / sizeof *taylor);
    finish(e, mpfr_mul_2si(e, p, mpfr_get_si(n, MPFR_RNDN), MPFR_RNDN));
}

/* q = RN(RN(a * e) / RN(1 + e)) */
static void divide_tail(void)
{
    rn_add(d, e, constant(1.0f));
    rn_mul(q, a, e);
    rn_div(q, q, d);
}

/* The magnitude of g in a, at most `most`. */
static void magnitude(float g, float most)
{
    put(a, fminf(fabsf(g), most));
}

static void silu_tail(float alpha, float g)
{
    magnitude(g, FLT_MAX);
    rn_mul(z, a, constant(alpha)); /* may be infinite */
    if (mpfr_cmp(z, constant(110.0f)) > 0)
        put(z, 110.0f);
    exp_of_minus_z();
    divide_tail();
}

static void gelu_tanh_tail(float g)
{
    magnitude(g, 11.5f);
    rn_mul(t, a, a);
    put(p, 0x1.988454p+0f);
    rn_fma(p, t, constant(0x1.2444f2p-4f), p);
    rn_mul(z, a, p);
    exp_of_minus_z();
    divide_tail();
}

static void gelu_erf_tail(float g)
{
    static const float phi[] = {0x1.15074cp-6f, -0x1.08c82cp-4f, 0x1.cc3686p-5f, 0x1.6ad8bcp-6f, 0x1.29d518p-6f,
                                0x1.565904p-4f, 0x1.2b7db4p-4f,  0x1.86322ap-4f, 0x1.97a758p-4f, 0x1.988f68p-4f};
    magnitude(g, 14.5f);
    rn_mul(z, a, constant(0.5f));
    rn_mul(z, z, a);
    exp_of_minus_z();
    put(d, 1.0f);
    rn_fma(d, a, constant(0.25f), d);
    put(u, 1.0f);
    rn_div(u, u, d);
    horner(p, u, phi, sizeof phi / sizeof *phi);
    rn_mul(w, u, p);
    rn_mul(q, a, e);
    rn_mul(q, q, w);
}

float oracle_act(epiq_act act, float alpha, float g)
{
    static epiq_act last_act;
    static uint32_t last_alpha, last_g;
    static float last_value;

    if (isnan(g))
        return oracle_nan();
    if (act == EPIQ_ACT_IDENTITY)
        return g;
    if (act == EPIQ_ACT_RELU || act == EPIQ_ACT_RELU2) {
        float relu = g > 0 ? g : 0.0f;
        return act == EPIQ_ACT_RELU ? relu : oracle_mul(relu, relu);
    }
    if (alpha == 0)
        alpha = 1;
    if (act == last_act && oracle_bits(alpha) == last_alpha && oracle_bits(g) == last_g)
        return last_value;
    enter_binary32();
    if (act == EPIQ_ACT_SILU)
        silu_tail(alpha, g);
    else if (act == EPIQ_ACT_GELU_TANH)
        gelu_tanh_tail(g);
    else
        gelu_erf_tail(g);
    put(a, g > 0 || (g == 0 && !signbit(g)) ? g : -0.0f); /* the larger of g and -0, where +0 > -0 */
    rn_sub(q, a, q);
    last_value = mpfr_get_flt(q, MPFR_RNDN); /* exact */
    leave_binary32();
    last_act = act;
    last_alpha = oracle_bits(alpha);
    last_g = oracle_bits(g);
    return last_value;
}

/* ---- Tables of the 16-bit gates ---------------------------------------------------------------------------------- */

/* Values are computed when they are first asked for. The oldest table makes room for a new one. */
typedef struct act_table {
    epiq_act act;
    epiq_dtype dtype;
    uint32_t alpha;
    float *value;   /* 65536, by the bits of the gate */
    uint8_t *known; /* 65536 */
} act_table;

enum { TABLES = 32 };
static act_table tables[TABLES];
static int oldest_table;

float oracle_act_16(epiq_act act, float alpha, epiq_dtype dtype, uint16_t g)
{
    if (alpha == 0)
        alpha = 1;
    act_table *table = NULL;
    for (int i = 0; i < TABLES && table == NULL; i++)
        if (tables[i].act == act && tables[i].dtype == dtype && tables[i].alpha == oracle_bits(alpha))
            table = &tables[i];
    if (table == NULL) {
        table = &tables[oldest_table];
        oldest_table = (oldest_table + 1) % TABLES;
        free(table->value);
        free(table->known);
        table->act = act;
        table->dtype = dtype;
        table->alpha = oracle_bits(alpha);
        table->value = oracle_alloc(65536, sizeof *table->value);
        table->known = oracle_alloc(65536, sizeof *table->known);
    }
    if (!table->known[g]) {
        table->value[g] = oracle_act(act, alpha, oracle_load(dtype, &g));
        table->known[g] = 1;
    }
    return table->value[g];
}

/* ---- The real functions ------------------------------------------------------------------------------------------ */

/* y = the real function of g to about `bits` significant bits, g finite and not 0. No form cancels. */
static void real_function(mpfr_ptr y, epiq_act act, float alpha, float g, mpfr_prec_t bits)
{
    mpfr_t x, v, c;
    mpfr_inits2(bits, x, v, c, (mpfr_ptr)0);
    mpfr_set_flt(x, g, MPFR_RNDN);
    if (act == EPIQ_ACT_GELU_ERF) { /* g / 2 * erfc(-g / sqrt(2)) */
        mpfr_sqrt_ui(c, 2, MPFR_RNDN);
        mpfr_div(v, x, c, MPFR_RNDN);
        mpfr_neg(v, v, MPFR_RNDN);
        mpfr_erfc(v, v, MPFR_RNDN);
        mpfr_mul(y, x, v, MPFR_RNDN);
        mpfr_div_2ui(y, y, 1, MPFR_RNDN);
    } else {
        if (act == EPIQ_ACT_SILU) { /* v = alpha * g */
            mpfr_set_flt(v, alpha, MPFR_RNDN);
            mpfr_mul(v, v, x, MPFR_RNDN);
        } else { /* v = 2 * sqrt(2 / pi) * (g + 0.044715 * g^3): (1 + tanh(v / 2)) / 2 = 1 / (1 + exp(-v)) */
            mpfr_sqr(v, x, MPFR_RNDN);
            mpfr_mul_ui(v, v, 44715, MPFR_RNDN);
            mpfr_div_ui(v, v, 1000000, MPFR_RNDN);
            mpfr_add_ui(v, v, 1, MPFR_RNDN);
            mpfr_mul(v, v, x, MPFR_RNDN);
            mpfr_const_pi(c, MPFR_RNDN);
            mpfr_ui_div(c, 8, c, MPFR_RNDN);
            mpfr_sqrt(c, c, MPFR_RNDN);
            mpfr_mul(v, v, c, MPFR_RNDN);
        }
        mpfr_neg(v, v, MPFR_RNDN);
        mpfr_exp(v, v, MPFR_RNDN);
        mpfr_add_ui(v, v, 1, MPFR_RNDN);
        mpfr_div(y, x, v, MPFR_RNDN);
    }
    mpfr_clears(x, v, c, (mpfr_ptr)0);
}

/* y * (1 + direction * 2^-bits) rounded once to binary32. */
static float round_near(mpfr_ptr y, int direction, mpfr_prec_t bits)
{
    mpfr_t near;
    mpfr_init2(near, mpfr_get_prec(y));
    mpfr_set_si_2exp(near, direction, -(mpfr_exp_t)bits, MPFR_RNDN);
    mpfr_add_ui(near, near, 1, MPFR_RNDN);
    mpfr_mul(near, near, y, MPFR_RNDN); /* keeps the sign of a zero, which stands for a magnitude below 2^(-2^61) */
    enter_binary32();
    mpfr_t single;
    mpfr_init2(single, 24);
    int inexact = mpfr_set(single, near, MPFR_RNDN); /* unlike an operation, takes no notice of the exponent range */
    finish(single, mpfr_check_range(single, inexact, MPFR_RNDN));
    float value = mpfr_get_flt(single, MPFR_RNDN);
    mpfr_clear(single);
    leave_binary32();
    mpfr_clear(near);
    return value;
}

float oracle_act_true(epiq_act act, float alpha, float g)
{
    bool smooth = act == EPIQ_ACT_SILU || act == EPIQ_ACT_GELU_TANH || act == EPIQ_ACT_GELU_ERF;
    if (isnan(g) || !smooth || g == 0)
        return oracle_act(act, alpha, g); /* exact but for relu2, which is one rounding */
    if (isinf(g))
        return g > 0 ? g : -0.0f;
    if (alpha == 0)
        alpha = 1;
    /* 40 bits are far more than the few roundings above lose while exp(-v) matters (|v| < 256; beyond, the result is g
     * or 0 by an immense margin). If both ends of that interval round to one float it is the answer. */
    float value = 0;
    bool proven = false;
    for (mpfr_prec_t bits = 320; bits <= 1280 && !proven; bits *= 4) {
        mpfr_t y;
        mpfr_init2(y, bits);
        real_function(y, act, alpha, g, bits);
        value = round_near(y, 0, bits - 40);
        proven = oracle_bits(round_near(y, -1, bits - 40)) == oracle_bits(value) &&
                 oracle_bits(round_near(y, 1, bits - 40)) == oracle_bits(value);
        mpfr_clear(y);
    }
    if (!proven) {
        fprintf(stderr, "oracle: act %d of %a is too close to a tie\n", (int)act, (double)g);
        abort();
    }
    return value;
}

void oracle_release(void)
{
    for (int i = 0; i < TABLES; i++) {
        free(tables[i].value);
        free(tables[i].known);
        tables[i] = (act_table){0};
    }
    if (variables_built)
        for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
            mpfr_clear(*variables[i]);
    variables_built = false;
    mpfr_free_cache();
}
