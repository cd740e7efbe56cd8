/* accuracy.c: how far dequantized values are from those that the quantizer saw.
 * SPDX-License-Identifier: Apache-2.0 */
#include "accuracy.h"

#include "command.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

const char *const accuracy_definitions =
    "Accuracy compares y, the fp32 values that the quantizer saw, with d, the values that codes and scales stand for. "
    "SQNR = 10 log10(sum y^2 / sum (y - d)^2) over elements where both are finite; inf (json: null) without error. "
    "Largest error: the largest |y - d| over the amax of its row, rows of zeros left out. "
    "Saturated: share of elements that got a largest code although |y| lies more than half of the format's last step "
    "beyond the value of that code (so that rounding alone does not count). "
    "Flushed: share with y not 0 and d = 0. NaN: elements of y and of d that are NaN.";

/* The magnitude bits of the largest code, its value, and the distance to the value below it. */
static const struct {
    epiq_format format;
    int bits, top_code;
    double max, step;
} formats[] = {
    {EPIQ_FORMAT_E4M3, 8, 0x7E, 448, 32},  {EPIQ_FORMAT_E5M2, 8, 0x7B, 57344, 8192}, {EPIQ_FORMAT_INT8, 8, 127, 127, 1},
    {EPIQ_FORMAT_MXFP8, 8, 0x7E, 448, 32}, {EPIQ_FORMAT_MXFP4, 4, 7, 6, 2},          {EPIQ_FORMAT_NVFP4, 4, 7, 6, 2},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static int index_of(epiq_format format)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].format == format)
            return i;
    return -1;
}

double format_max(epiq_format format)
{
    int f = index_of(format);
    return f < 0 ? 0 : formats[f].max;
}

int format_bits(epiq_format format)
{
    int f = index_of(format);
    return f < 0 ? 0 : formats[f].bits;
}

static bool is_top(int f, const unsigned char *codes, int64_t column)
{
    if (formats[f].bits == 4)
        return (codes[column / 2] >> (column & 1) * 4 & 7) == formats[f].top_code;
    if (formats[f].format == EPIQ_FORMAT_INT8)
        return codes[column] == 127 || codes[column] == 128; /* -128 */
    return (codes[column] & 127) == formats[f].top_code;
}

void accuracy_add(accuracy *a, epiq_format format, int64_t rows, int64_t cols, const float *y, const float *d,
                  const void *codes, int64_t codes_row_bytes)
{
    int f = index_of(format);
    double beyond = f < 0 ? 0 : 1 + formats[f].step / 2 / formats[f].max;
    a->count += rows * cols;
    for (int64_t r = 0; r < rows; r++) {
        const unsigned char *row_codes = (const unsigned char *)codes + r * codes_row_bytes;
        double amax = 0, largest = 0;
        for (int64_t c = 0; c < cols; c++) {
            double v = y[r * cols + c], w = d[r * cols + c], error = fabs(v - w);
            a->nan_in += isnan(v);
            a->nan_out += isnan(w);
            a->flushed += v != 0 && w == 0 && !isnan(v);
            a->saturated += f >= 0 && fabs(v) > fabs(w) * beyond && is_top(f, row_codes, c);
            if (!isfinite(v) || !isfinite(w))
                continue;
            a->signal += v * v;
            a->noise += error * error;
            if (fabs(v) > amax)
                amax = fabs(v);
            if (error > largest)
                largest = error;
        }
        if (amax > 0 && largest / amax > a->worst)
            a->worst = largest / amax;
    }
}

double accuracy_sqnr(const accuracy *a)
{
    if (a->noise == 0)
        return a->count > 0 ? HUGE_VAL : NAN;
    return 10 * log10(a->signal / a->noise);
}

double accuracy_percent(const accuracy *a, int64_t part)
{
    return a->count > 0 ? 100.0 * (double)part / (double)a->count : 0;
}

void accuracy_print(const accuracy *a)
{
    if (a->count == 0) {
        printf("no values");
        return;
    }
    printf("SQNR %.2f dB, largest error %.4f of its row's amax, saturated %.3f %%, flushed to zero %.3f %%, "
           "NaN %" PRId64 " in, %" PRId64 " out",
           accuracy_sqnr(a), a->worst, accuracy_percent(a, a->saturated), accuracy_percent(a, a->flushed), a->nan_in,
           a->nan_out);
}

void accuracy_print_json(const accuracy *a)
{
    printf("\"sqnr_db\": ");
    print_json_number(accuracy_sqnr(a));
    printf(", \"largest_error\": ");
    print_json_number(a->worst);
    printf(", \"saturated_percent\": ");
    print_json_number(accuracy_percent(a, a->saturated));
    printf(", \"flushed_percent\": ");
    print_json_number(accuracy_percent(a, a->flushed));
    printf(", \"nan_in\": %" PRId64 ", \"nan_out\": %" PRId64, a->nan_in, a->nan_out);
}
