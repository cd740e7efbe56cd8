/* oracle_scales.c: scales and multipliers of every format, as inequalities between exact values; rcp~ as recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- rcp.approx.ftz.f32 ------------------------------------------------------------------------------------------
 * The recording holds, for each of the 2^23 mantissas, how many units in the last place the hardware's answer for
 * 1.mantissa lies above the correctly rounded 1/x, plus 1, in two bits, lowest first. The exponent only scales. */

#ifndef EPIQ_GOLDEN_DIR
#error "define EPIQ_GOLDEN_DIR, the folder of rcp_delta.bin.gz"
#endif

enum { DELTA_BYTES = (1 << 23) / 4 };

static const uint8_t *rcp_deltas(void)
{
    static uint8_t deltas[DELTA_BYTES];
    static int loaded;
    if (!loaded) {
        const char *path = EPIQ_GOLDEN_DIR "/rcp_delta.bin.gz";
        gzFile file = gzopen(path, "rb");
        uint8_t more;
        if (file == NULL || gzread(file, deltas, DELTA_BYTES) != DELTA_BYTES || gzread(file, &more, 1) != 0) {
            fprintf(stderr, "oracle: cannot read %s\n", path);
            abort();
        }
        gzclose(file);
        loaded = 1;
    }
    return deltas;
}

uint32_t oracle_rcp_approx(uint32_t bits)
{
    float x = oracle_float(bits);
    if (isnan(x))
        return 0x7fffffff;
    if (fabsf(x) < FLT_MIN) /* zeros, and subnormals, which count as zeros */
        return oracle_bits(copysignf(INFINITY, x));
    if (isinf(x))
        return oracle_bits(copysignf(0.0f, x));
    int exponent;
    double fraction = frexp(fabs((double)x), &exponent); /* |x| = 2 * fraction * 2^(exponent - 1) */
    uint32_t mantissa = (uint32_t)(ldexp(fraction, 24) - 0x1p23);
    int delta = (rcp_deltas()[mantissa / 4] >> mantissa % 4 * 2 & 3) - 1;
    float significand = oracle_div(1.0f, (float)(2 * fraction)); /* in (1/2, 1] */
    significand = oracle_float(oracle_bits(significand) + (uint32_t)delta);
    double result = ldexp((double)significand, 1 - exponent);
    return oracle_bits(copysignf(result < (double)FLT_MIN ? 0.0f : (float)result, x));
}

/* ---- Pieces ------------------------------------------------------------------------------------------------------ */

static float largest(epiq_format format)
{
    return format == EPIQ_FORMAT_E5M2 ? 57344.0f : 448.0f;
}

float oracle_amax(const float *y, int64_t n)
{
    float amax = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabsf(y[i]) > amax)
            amax = fabsf(y[i]);
    return amax;
}

static float at_most_max(float x)
{
    return x > FLT_MAX ? FLT_MAX : x;
}

static float at_least(float x, float floor_value)
{
    return x < floor_value ? floor_value : x;
}

/* ---- One scale for everything or for a row ----------------------------------------------------------------------- */

float oracle_multiplier(const float *scale, const float *inv_scale)
{
    float m = inv_scale != NULL ? *inv_scale : oracle_div(1.0f, *scale);
    if (isnan(m))
        return oracle_nan();
    return isinf(m) ? copysignf(FLT_MAX, m) : m;
}

float oracle_tensor_scale(epiq_format format, float amax)
{
    return at_least(oracle_div(at_most_max(amax), largest(format)), FLT_MIN);
}

float oracle_token_scale(epiq_format format, float amax, const float *scale_ub)
{
    float a = at_most_max(amax);
    if (format == EPIQ_FORMAT_INT8)
        return oracle_div(a, 127.0f);
    if (scale_ub != NULL && *scale_ub < a) /* false for NaN */
        a = *scale_ub;
    return at_least(oracle_div(a, largest(format)), oracle_div(1.0f, oracle_mul(largest(format), 512.0f)));
}

float oracle_int8_token_multiplier(float amax)
{
    return amax > 0 ? at_most_max(oracle_div(127.0f, at_most_max(amax))) : 0.0f;
}

/* ---- Groups of e4m3 and e5m2 ------------------------------------------------------------------------------------- */

float oracle_group_scale(epiq_format format, float amax)
{
    return oracle_div(at_least(at_most_max(amax), 1e-10f), largest(format));
}

/* The smallest power of two not below s. */
uint8_t oracle_group_ue8m0(epiq_format format, float amax)
{
    double s = (double)at_least(oracle_group_scale(format, amax), 1e-10f);
    int exponent = -127;
    while (ldexp(1.0, exponent) < s)
        exponent++;
    return (uint8_t)(exponent + 127);
}

/* ---- MX ----------------------------------------------------------------------------------------------------------
 * The scale 2^k, k from -127 (byte 0) to 127, with MAX the largest element and 2^emax its power of two:
 *     ceil   the smallest k with amax <= MAX * 2^k: nothing saturates
 *     floor  the largest k with 2^emax * 2^k <= amax (OCP)
 *     vllm   the smallest k with amax < 7 * 2^k (mxfp4): up from mantissa 1.75
 * and the nearest end where no k of the range will do; infinity gives 127. */
uint8_t oracle_mx_exponent(epiq_format format, epiq_mx_round round, float amax)
{
    double max = format == EPIQ_FORMAT_MXFP4 ? 6.0 : 448.0, power = format == EPIQ_FORMAT_MXFP4 ? 4.0 : 256.0;
    double a = (double)amax;
    int k = -127;
    if (isinf(amax))
        return 254;
    if (round == EPIQ_MX_ROUND_FLOOR)
        while (k < 127 && ldexp(power, k + 1) <= a)
            k++;
    else if (round == EPIQ_MX_ROUND_VLLM)
        while (k < 127 && a >= ldexp(7.0, k))
            k++;
    else
        while (k < 127 && a > ldexp(max, k))
            k++;
    return (uint8_t)(k + 127);
}

/* ---- NVFP4 ------------------------------------------------------------------------------------------------------- */

float oracle_gs_given(float inv_scale)
{
    return inv_scale > 0 ? at_most_max(inv_scale) : 0.0f; /* NaN: 0 */
}

#define LARGEST_COMPUTED_GS 0x1p116f

float oracle_gs_computed(float amax)
{
    float gs = amax == 0 ? 1.0f : oracle_min(oracle_div(2688.0f, amax), LARGEST_COMPUTED_GS);
    return gs == 0 ? 1.0f : gs;
}

static float sixth(void)
{
    return oracle_div(1.0f, 6.0f);
}

uint8_t oracle_nvfp4_scale(epiq_nvfp4 rule, float gs, float amax)
{
    float a = at_most_max(amax), scale;
    if (rule == EPIQ_NVFP4_IEEE)
        scale = a == 0 ? 0.0f : oracle_mul(a, oracle_mul(gs, sixth()));
    else
        scale = oracle_mul(gs, oracle_mul(a, sixth()));
    return oracle_e4m3(scale, EPIQ_NAN_PROPAGATE);
}

static float rcp_approx(float x)
{
    return oracle_float(oracle_rcp_approx(oracle_bits(x)));
}

float oracle_nvfp4_multiplier(epiq_nvfp4 rule, float gs, uint8_t sf)
{
    float value = oracle_decode_e4m3(sf);
    if (rule != EPIQ_NVFP4_IEEE)
        return value == 0 ? 0.0f : rcp_approx(oracle_mul(value, rcp_approx(gs)));
    if (gs == 0)
        return 0.0f;
    float o = oracle_div(1.0f, oracle_mul(value, oracle_div(1.0f, gs)));
    return isnan(o) ? FLT_MAX : at_most_max(o);
}
