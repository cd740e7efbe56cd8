/* oracle.h: a second, naive implementation of everything that epiq computes, for tests that compare bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It shares no code and no technique with the library:
 *     codes        search in the table of all values of a format                            oracle_codes.c
 *     + - * / sqrt exact integers, rounded once                                              oracle_exact.c
 *     activations  MPFR at 24 bits in the exponent range of binary32, one call a rounding    oracle_act.c
 *     sums         recursion on the definition of the tree                                   oracle_norm.c
 *     scales       inequalities between exact values                                         oracle_scales.c
 *     rcp~         the recorded answers of the hardware (tests/golden/rcp_delta.bin.gz)      oracle_scales.c
 *     layouts      reshape and transpose of the padded matrix of scales                      oracle_layout.c
 *     operations   all of it put together, on private copies of the inputs                   oracle.c
 *
 * Build: link mpfr, gmp, z, m; define EPIQ_GOLDEN_DIR as the folder of rcp_delta.bin.gz, in quotes;
 * -ffp-contract=off, IEEE binary32 and binary64 on the host. Call it with the default floating-point environment (round
 * to nearest, subnormals kept): the float additions of the tree and exact conversions between float and double are done
 * by the host; nothing else relies on how it rounds. Little-endian hosts. Not for several threads at once.
 * Failures that a test cannot cause (no memory, golden file missing) print a line and abort. */
#ifndef ORACLE_H
#define ORACLE_H

#include <epiq/epiq.h>

#include <stddef.h>
#include <stdint.h>

/* ---- Operations: the library's structs, valid arguments. They write what the library must write and nothing else, and
 * return EPIQ_OK. To compare, call both with equal args but other output buffers of equal contents, then compare the
 * whole buffers, gaps and surroundings included. out is NULL where only y (and the residual) is wanted. */
int oracle_act_mul(const epiq_act_mul_args *args, const epiq_output *out);
int oracle_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out);
int oracle_quantize(const epiq_quantize_args *args, const epiq_output *out);
int oracle_dequantize(const epiq_dequantize_args *args);

/* Frees the tables and the caches of MPFR; the next call builds them anew. */
void oracle_release(void);

/* ---- Bits and exact arithmetic in binary32 (oracle_exact.c): one rounding to nearest even, subnormals kept, every NaN
 * result canonical (0x7fffffff). */
uint32_t oracle_bits(float x);
float oracle_float(uint32_t bits);
float oracle_nan(void);
float oracle_add(float a, float b);
float oracle_sub(float a, float b);
float oracle_mul(float a, float b);
float oracle_div(float a, float b);
float oracle_sqrt(float a);
float oracle_from_int(int64_t n);              /* RN(n) */
float oracle_min(float a, float b);            /* NaN if an operand is NaN */
void *oracle_alloc(size_t count, size_t size); /* zeroed, at least one byte, never NULL */

/* ---- Codes (oracle_codes.c). nan is not 0 here. e2m1 codes are 4 bits; int8 is two's complement in a byte. */
uint8_t oracle_e4m3(float x, epiq_nan nan);
uint8_t oracle_e5m2(float x, epiq_nan nan);
uint8_t oracle_e2m1(float x); /* NaN gives 7 under both policies */
uint8_t oracle_int8(float x); /* NaN gives 0 under both policies */
uint16_t oracle_bf16(float x);
uint16_t oracle_f16(float x);
float oracle_decode_e4m3(uint8_t code);
float oracle_decode_e5m2(uint8_t code);
float oracle_decode_e2m1(uint8_t code); /* low 4 bits */
float oracle_decode_int8(uint8_t code);
float oracle_decode_e8m0(uint8_t code);
float oracle_decode_bf16(uint16_t code);
float oracle_decode_f16(uint16_t code);
uint8_t oracle_code(epiq_format format, float x, epiq_nan nan); /* the element code of a format */
float oracle_decode(epiq_format format, uint8_t code);

/* Elements of a matrix of dtype f32, f16, bf16, at any address. oracle_round is RN_T. */
size_t oracle_dtype_bytes(epiq_dtype dtype);
float oracle_load(epiq_dtype dtype, const void *at);
void oracle_store(epiq_dtype dtype, void *at, float x);
float oracle_round(epiq_dtype dtype, float x);

/* ---- Activations (oracle_act.c). alpha 0 means 1; it is used by silu alone. */
float oracle_act(epiq_act act, float alpha, float g);
float oracle_act_16(epiq_act act, float alpha, epiq_dtype dtype, uint16_t g); /* the same from a table, f16 or bf16 */
float oracle_act_true(epiq_act act, float alpha, float g); /* the real function, rounded correctly to binary32 */

/* ---- Norm (oracle_norm.c): the sum of RN(h[i] * h[i]) over the tree, and RN(1/RN(sqrt(RN(RN(S/RN(n)) + eps)))). */
float oracle_sum_squares(const float *h, size_t n);
float oracle_rinv(float sum, int64_t n, float eps);

/* ---- Scales (oracle_scales.c). amax is the largest magnitude that is not NaN, 0 if there is none. */
uint32_t oracle_rcp_approx(uint32_t bits); /* rcp.approx.ftz.f32 */
float oracle_amax(const float *y, int64_t n);
float oracle_multiplier(const float *scale, const float *inv_scale); /* static grain: one of both, the other NULL */
float oracle_tensor_scale(epiq_format format, float amax);
float oracle_token_scale(epiq_format format, float amax, const float *scale_ub);
float oracle_int8_token_multiplier(float amax);
float oracle_group_scale(epiq_format format, float amax);
uint8_t oracle_group_ue8m0(epiq_format format, float amax);                      /* the biased exponent */
uint8_t oracle_mx_exponent(epiq_format format, epiq_mx_round round, float amax); /* round is not 0 */
float oracle_gs_given(float inv_scale);
float oracle_gs_computed(float amax);
uint8_t oracle_nvfp4_scale(epiq_nvfp4 rule, float gs, float amax); /* the e4m3 byte SF; rule is not 0, gs sanitised */
float oracle_nvfp4_multiplier(epiq_nvfp4 rule, float gs, uint8_t sf);

/* ---- Layouts (oracle_layout.c): where the scale of (row, group) lies in the stored array of M rows and G groups. */
typedef struct oracle_layout {
    int64_t rows, groups; /* M, G */
    int64_t padded_rows;  /* of the padded logical matrix */
    int64_t padded_groups;
    int64_t lines, in_line; /* the stored array: in_line units a line */
    int64_t unit;           /* bytes of a unit: 4 (fp32) or 1 */
    int64_t stride;         /* bytes between lines */
    int64_t *source;        /* source[i] = row * padded_groups + group of the unit at place i of the stored array */
} oracle_layout;

/* stride 0: dense. unit: 4 or 1 for row and col*, 1 for the others. Free with oracle_layout_free. */
oracle_layout oracle_layout_make(epiq_layout layout, int64_t rows, int64_t groups, int64_t unit, int64_t stride);
void oracle_layout_free(oracle_layout *layout);
int64_t oracle_layout_offset(const oracle_layout *layout, int64_t row, int64_t group); /* bytes; -1 if none */
int64_t oracle_layout_bytes(const oracle_layout *layout);

/* values: [rows, groups] units. write leaves padding rows alone with `keep`. */
void oracle_layout_write(const oracle_layout *layout, const void *values, epiq_pad_rows pad_rows, void *stored);
void oracle_layout_read(const oracle_layout *layout, const void *stored, void *values);

#endif
