/* accuracy.h: how far dequantized values are from those that the quantizer saw.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TOOLS_ACCURACY_H
#define EPIQ_TOOLS_ACCURACY_H

#include <epiq/epiq.h>

/* Sums over any number of matrices; start with zeros. What is counted: accuracy_definitions. */
typedef struct accuracy {
    int64_t count;
    double signal, noise, worst;
    int64_t saturated, flushed, nan_in, nan_out;
} accuracy;

extern const char *const accuracy_definitions;

/* Largest finite value of a format's codes, and the bits of one code; 0 if the format is unknown here. */
double format_max(epiq_format format);
int format_bits(epiq_format format);

/* y: what the quantizer saw, d: what its codes stand for, both [rows, cols] dense. codes: rows of `codes_row_bytes`. */
void accuracy_add(accuracy *a, epiq_format format, int64_t rows, int64_t cols, const float *y, const float *d,
                  const void *codes, int64_t codes_row_bytes);

/* Inf if there is no error, NaN if there are no values. */
double accuracy_sqnr(const accuracy *a);

double accuracy_percent(const accuracy *a, int64_t part);

/* One line of text without its end; members of a JSON object, without the braces. */
void accuracy_print(const accuracy *a);
void accuracy_print_json(const accuracy *a);

#endif
