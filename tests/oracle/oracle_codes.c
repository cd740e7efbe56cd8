/* oracle_codes.c: codes by search in the table of all values of a format; decoding by the meaning of the fields.
 * SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The value of the non-negative code `code` of a format with `mantissa` bits of fraction and the given exponent bias.
 * All ones in the exponent is an ordinary exponent here. */
static double field_value(unsigned code, int mantissa, int bias)
{
    int exponent = (int)(code >> mantissa);
    double fraction = (double)(code & ((1u << mantissa) - 1));
    if (exponent == 0)
        return ldexp(fraction, 1 - bias - mantissa);
    return ldexp(ldexp(1.0, mantissa) + fraction, exponent - bias - mantissa);
}

static float with_sign(bool negative, double magnitude)
{
    return negative ? (float)-magnitude : (float)magnitude; /* every value of every format is a float */
}

float oracle_decode_e4m3(uint8_t code)
{
    if ((code & 0x7f) == 0x7f)
        return oracle_nan();
    return with_sign(code >= 0x80, field_value(code & 0x7f, 3, 7));
}

float oracle_decode_e5m2(uint8_t code)
{
    if ((code & 0x7f) > 0x7c)
        return oracle_nan();
    if ((code & 0x7f) == 0x7c)
        return with_sign(code >= 0x80, (double)INFINITY);
    return with_sign(code >= 0x80, field_value(code & 0x7f, 2, 15));
}

float oracle_decode_e2m1(uint8_t code)
{
    return with_sign((code & 8) != 0, field_value(code & 7, 1, 1));
}

float oracle_decode_int8(uint8_t code)
{
    return (float)(code < 128 ? (int)code : (int)code - 256);
}

float oracle_decode_e8m0(uint8_t code)
{
    return code == 255 ? oracle_nan() : (float)ldexp(1.0, (int)code - 127);
}

float oracle_decode_bf16(uint16_t code)
{
    unsigned magnitude = code & 0x7fffu;
    if (magnitude > 0x7f80)
        return oracle_nan();
    return with_sign(code >= 0x8000, magnitude == 0x7f80 ? (double)INFINITY : field_value(magnitude, 7, 127));
}

float oracle_decode_f16(uint16_t code)
{
    unsigned magnitude = code & 0x7fffu;
    if (magnitude > 0x7c00)
        return oracle_nan();
    return with_sign(code >= 0x8000, magnitude == 0x7c00 ? (double)INFINITY : field_value(magnitude, 10, 15));
}

/* The index of the value nearest to x in the ascending table, ties to the even index; x beyond an end gives that end.
 * The mean of two neighbours of a format, and every float, is exact in double. */
static int nearest_index(const double *table, int count, double x)
{
    if (x <= table[0])
        return 0;
    if (x >= table[count - 1])
        return count - 1;
    int low = 0, high = count - 1; /* table[low] <= x < table[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (table[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    double mean = (table[low] + table[high]) / 2;
    if (x < mean)
        return low;
    if (x > mean)
        return high;
    return low % 2 == 0 ? low : high;
}

/* Non-negative finite: e4m3 0x00..0x7e, e5m2 0x00..0x7b, e2m1 0..7; int8 -128..127 (even index, even integer). */
static double e4m3_values[0x7f], e5m2_values[0x7c], e2m1_values[8], int8_values[256];
static bool tables_built;

static void build_tables(void)
{
    for (unsigned code = 0; code < 0x7f; code++)
        e4m3_values[code] = field_value(code, 3, 7);
    for (unsigned code = 0; code < 0x7c; code++)
        e5m2_values[code] = field_value(code, 2, 15);
    for (unsigned code = 0; code < 8; code++)
        e2m1_values[code] = field_value(code, 1, 1);
    for (int i = 0; i < 256; i++)
        int8_values[i] = i - 128;
    tables_built = true;
}

uint8_t oracle_e4m3(float x, epiq_nan nan)
{
    if (!tables_built)
        build_tables();
    if (isnan(x))
        return nan == EPIQ_NAN_SATURATE ? 0x7e : 0x7f;
    return (uint8_t)(nearest_index(e4m3_values, 0x7f, fabs((double)x)) + (signbit(x) ? 0x80 : 0));
}

uint8_t oracle_e5m2(float x, epiq_nan nan)
{
    if (!tables_built)
        build_tables();
    if (isnan(x))
        return nan == EPIQ_NAN_SATURATE ? 0x7b : 0x7f;
    return (uint8_t)(nearest_index(e5m2_values, 0x7c, fabs((double)x)) + (signbit(x) ? 0x80 : 0));
}

uint8_t oracle_e2m1(float x)
{
    if (!tables_built)
        build_tables();
    if (isnan(x))
        return 7;
    return (uint8_t)(nearest_index(e2m1_values, 8, fabs((double)x)) + (signbit(x) ? 8 : 0));
}

uint8_t oracle_int8(float x)
{
    if (!tables_built)
        build_tables();
    if (isnan(x))
        return 0;
    int value = nearest_index(int8_values, 256, (double)x) - 128;
    return (uint8_t)(value < 0 ? value + 256 : value);
}

/* To a 16-bit IEEE format with `precision` significant bits and exponents emin..emax, nearest even.
 * Around x, with 2^E <= |x| < 2^(E+1), the format's values are the multiples of 2^k, k = max(E, emin) - precision + 1.
 * |x| / 2^k is exact in double and below 2^precision. The codes count the values upwards: code n is n * 2^(smallest k),
 * and each larger k adds 2^(precision-1). What reaches the code of infinity is infinity. */
static uint16_t round_16(float x, int precision, int emin, int emax)
{
    uint32_t sign = signbit(x) ? 0x8000 : 0, infinity = (uint32_t)(emax - emin + 2) << (precision - 1);
    if (isnan(x))
        return 0x7fff;
    if (isinf(x))
        return (uint16_t)(sign + infinity);
    if (x == 0)
        return (uint16_t)sign;
    int e;
    double magnitude = fabs((double)x);
    (void)frexp(magnitude, &e);
    int large = e - 1 < emin ? emin : e - 1;
    double scaled = ldexp(magnitude, precision - 1 - large);
    uint32_t n = (uint32_t)scaled; /* towards zero */
    double rest = scaled - (double)n;
    if (rest > 0.5 || (rest == 0.5 && n % 2 == 1))
        n++;
    uint32_t code = n + ((uint32_t)(large - emin) << (precision - 1));
    return (uint16_t)(sign + (code < infinity ? code : infinity));
}

uint16_t oracle_bf16(float x)
{
    return round_16(x, 8, -126, 127);
}

uint16_t oracle_f16(float x)
{
    return round_16(x, 11, -14, 15);
}

uint8_t oracle_code(epiq_format format, float x, epiq_nan nan)
{
    switch (format) {
    case EPIQ_FORMAT_E5M2:
        return oracle_e5m2(x, nan);
    case EPIQ_FORMAT_INT8:
        return oracle_int8(x);
    case EPIQ_FORMAT_MXFP4:
    case EPIQ_FORMAT_NVFP4:
        return oracle_e2m1(x);
    default:
        return oracle_e4m3(x, nan);
    }
}

float oracle_decode(epiq_format format, uint8_t code)
{
    switch (format) {
    case EPIQ_FORMAT_E5M2:
        return oracle_decode_e5m2(code);
    case EPIQ_FORMAT_INT8:
        return oracle_decode_int8(code);
    case EPIQ_FORMAT_MXFP4:
    case EPIQ_FORMAT_NVFP4:
        return oracle_decode_e2m1(code);
    default:
        return oracle_decode_e4m3(code);
    }
}

size_t oracle_dtype_bytes(epiq_dtype dtype)
{
    return dtype == EPIQ_DTYPE_F32 ? 4 : 2;
}

float oracle_load(epiq_dtype dtype, const void *at)
{
    uint16_t half;
    float single;
    if (dtype == EPIQ_DTYPE_F32) {
        memcpy(&single, at, sizeof single);
        return single;
    }
    memcpy(&half, at, sizeof half);
    return dtype == EPIQ_DTYPE_F16 ? oracle_decode_f16(half) : oracle_decode_bf16(half);
}

void oracle_store(epiq_dtype dtype, void *at, float x)
{
    if (dtype == EPIQ_DTYPE_F32) {
        float single = isnan(x) ? oracle_nan() : x;
        memcpy(at, &single, sizeof single);
    } else {
        uint16_t half = dtype == EPIQ_DTYPE_F16 ? oracle_f16(x) : oracle_bf16(x);
        memcpy(at, &half, sizeof half);
    }
}

float oracle_round(epiq_dtype dtype, float x)
{
    if (dtype == EPIQ_DTYPE_F16)
        return oracle_decode_f16(oracle_f16(x));
    if (dtype == EPIQ_DTYPE_BF16)
        return oracle_decode_bf16(oracle_bf16(x));
    return isnan(x) ? oracle_nan() : x;
}
