/* lanes.h: every operation of the lane vocabulary, and the formulas that a lane header may bring itself, as functions
 * on one vector in memory. lanes_X.c compiles them on the lanes of X.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_LANES_H
#define EPIQ_LANES_H

#include <stdint.h>

enum { MOST_LANES = 16 };

enum { BITS, FLOAT }; /* FLOAT: a NaN counts as any NaN */

/* Operations of each lane alone: name, what the result is, expression of the floats A, B, C or their bits I, J, K. What
 * an operation asks of its operands is made here. */
#define LANE_OPERATIONS(X)                                                                                             \
    X(to_float, BITS, vf_bits(vi_to_float(vi_sub(vi_and(I, vi_set(0x1ffffff)), vi_set(0x1000000)))))                   \
    X(sel, BITS, vf_bits(vf_sel(vf_gt(A, B), B, C)))                                                                   \
    X(sel_bits, BITS, vi_sel(vi_gt(I, J), J, K))                                                                       \
    X(or, BITS, vi_sel(vm_or(vf_gt(A, B), vf_gt(B, C)), vi_set(1), vi_set(2)))                                         \
    X(and, BITS, vi_sel(vm_and(vf_gt(A, B), vf_gt(B, C)), vi_set(1), vi_set(2)))                                       \
    X(is_nan, BITS, vi_sel(vf_is_nan(A), vi_set(1), vi_set(2)))                                                        \
    X(unordered, BITS, vi_sel(vf_unordered(A, B), vi_set(1), vi_set(2)))                                               \
    X(gt, BITS, vi_sel(vf_gt(A, B), vi_set(1), vi_set(2)))                                                             \
    X(eq_bits, BITS, vi_sel(vi_eq(vi_and(I, vi_set(3)), vi_and(J, vi_set(3))), vi_set(1), vi_set(2)))                  \
    X(eq_bits_high, BITS, vi_sel(vi_eq(vi_shr(I, 30), vi_shr(J, 30)), vi_set(1), vi_set(2)))                           \
    X(gt_bits, BITS, vi_sel(vi_gt(I, J), vi_set(1), vi_set(2)))                                                        \
    X(add_bits, BITS, vi_add(I, J))                                                                                    \
    X(sub_bits, BITS, vi_sub(I, J))                                                                                    \
    X(mul_bits, BITS, vi_mul(I, J))                                                                                    \
    X(and_bits, BITS, vi_and(I, J))                                                                                    \
    X(or_bits, BITS, vi_or(I, J))                                                                                      \
    X(max_bits, BITS, vi_max(I, J))                                                                                    \
    X(min_bits, BITS, vi_min(I, J))                                                                                    \
    X(bit_sel, BITS, vi_bit_sel(0x5a00ff81, I, J))                                                                     \
    X(shl_0, BITS, vi_shl(I, 0))                                                                                       \
    X(shl_1, BITS, vi_shl(I, 1))                                                                                       \
    X(shl_31, BITS, vi_shl(I, 31))                                                                                     \
    X(shr_0, BITS, vi_shr(I, 0))                                                                                       \
    X(shr_1, BITS, vi_shr(I, 1))                                                                                       \
    X(shr_31, BITS, vi_shr(I, 31))                                                                                     \
    X(lookup, BITS, vi_lookup(ar_rcp_value, vi_and(I, vi_set(127))))                                                   \
    X(abs, BITS, vf_bits(vf_abs(A)))                                                                                   \
    X(neg, BITS, vf_bits(vf_neg(A)))                                                                                   \
    X(min_num, BITS, vf_bits(vf_min_num(A, B)))                                                                        \
    X(max_num, BITS, vf_bits(vf_max_num(A, B)))                                                                        \
    X(min_nan, BITS, vf_bits(vf_min_nan(A, B)))                                                                        \
    X(max_nan, BITS, vf_bits(vf_max_nan(A, B)))                                                                        \
    X(max_nan_zero, BITS, vf_bits(vf_max_nan(A, vf_set(-0.0f))))                                                       \
    X(add, FLOAT, vf_bits(vf_add(A, B)))                                                                               \
    X(sub, FLOAT, vf_bits(vf_sub(A, B)))                                                                               \
    X(mul, FLOAT, vf_bits(vf_mul(A, B)))                                                                               \
    X(div, FLOAT, vf_bits(vf_div(A, B)))                                                                               \
    X(rcp, FLOAT, vf_bits(vf_rcp(A)))                                                                                  \
    X(sqrt, FLOAT, vf_bits(vf_sqrt(A)))                                                                                \
    X(fma, FLOAT, vf_bits(vf_fma(A, B, C)))                                                                            \
    X(fma_neg, FLOAT, vf_bits(vf_fma(A, B, vf_neg(C))))                                                                \
    X(mul_then_add, FLOAT, vf_bits(vf_add(vf_mul(A, B), C)))                                                           \
    X(mul_add, FLOAT, vf_bits(vf_mul_add(POWER_OF_TWO, vf_set(0x1.00003p+20f), A)))                                    \
    X(div_1to2, FLOAT, vf_bits(vf_div_1to2(vf_abs(A), ONE_TO_TWO, 1)))                                                 \
    X(rcp_1to5, FLOAT, vf_bits(vf_rcp_1to5(ONE_TO_TWO, 1)))                                                            \
    X(rcp_approx, BITS, vf_bits(vf_rcp_approx(0, A)))                                                                  \
    X(bf16_code, BITS, ar_bf16_code(A))                                                                                \
    X(bf16_round, FLOAT, vf_bits(ar_bf16_round(vf_add(vf_short_nan(A), vf_set(0.0f)))))                                \
    X(f16_code, BITS, ar_f16_code(A))                                                                                  \
    X(f16_value, FLOAT, vf_bits(ar_f16_value(vi_and(I, vi_set(0xffff)))))                                              \
    X(e4m3_code, BITS, ar_e4m3_round(A))                                                                               \
    X(e5m2_code, BITS, ar_e5m2_round(A))                                                                               \
    X(e2m1_code, BITS, ar_e2m1_code(A))                                                                                \
    X(e4m3_value, FLOAT, vf_bits(ar_e4m3_value(vi_and(I, vi_set(0xff)))))                                              \
    X(e5m2_value, FLOAT, vf_bits(ar_e5m2_value(vi_and(I, vi_set(0xff)))))                                              \
    X(exp_neg, FLOAT, vf_bits(ar_exp_neg(vf_min_num(vf_abs(A), vf_set(110.0f)))))                                      \
    X(silu, FLOAT, vf_bits(ar_silu(A, 1.702f, 1)))                                                                     \
    X(gelu_tanh, FLOAT, vf_bits(ar_gelu_tanh(A, 1)))                                                                   \
    X(gelu_erf, FLOAT, vf_bits(ar_gelu_erf(A, 1)))                                                                     \
    X(gate_silu, FLOAT, vf_bits(ar_silu(GATE, 1.0f, 0)))                                                               \
    X(gate_gelu_tanh, FLOAT, vf_bits(ar_gelu_tanh(GATE, 0)))                                                           \
    X(gate_gelu_erf, FLOAT, vf_bits(ar_gelu_erf(GATE, 0)))

#define POWER_OF_TWO vi_float(vi_and(vi_max(vi_min(I, vi_set(0x50000000)), vi_set(0x10000000)), vi_set(0x7f800000)))
#define ONE_TO_TWO vi_float(vi_or(vi_and(J, vi_set(0x7fffff)), vi_set(0x3f800000)))

/* A 16-bit gate from 17 bits. */
#define GATE                                                                                                           \
    vf_sel(vi_gt(vi_and(I, vi_set(0x10000)), vi_set(0)), ar_f16_value(vi_and(I, vi_set(0xffff))),                      \
           ar_bf16_value(vi_and(I, vi_set(0xffff))))

enum {
#define X(name, kind, expression) LANES_##name,
    LANE_OPERATIONS(X)
#undef X
        LANE_COUNT
};

typedef struct lanes {
    int width;
    /* Operands and result are whole vectors. */
    void (*operation[LANE_COUNT])(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *result);
    /* Of two vectors, one behind the other. */
    void (*even)(const uint32_t *ab, uint32_t *result);
    void (*odd)(const uint32_t *ab, uint32_t *result);
    void (*pair_add)(const uint32_t *ab, uint32_t *result);
    void (*pair_max)(const uint32_t *ab, uint32_t *result);
    int (*any)(const uint32_t *a); /* lane > 0 */
    /* From and to memory of any alignment. */
    void (*load)(const void *from, uint32_t *result);
    void (*load_u8)(const void *from, uint32_t *result);
    void (*load_u16)(const void *from, uint32_t *result);
    void (*load_upper)(const void *from, uint32_t *result);
    void (*store)(const uint32_t *a, void *to);
    void (*store_u8)(const uint32_t *a, void *to);
    void (*store_u16)(const uint32_t *a, void *to);
    void (*store2_u16)(const uint32_t *a, void *to); /* of two vectors */
    void (*store4_u8)(const uint32_t *a, void *to);  /* of four */
    /* Codes of four vectors of numbers; NULL without LANE_HAS_STORE4_SUMS. */
    void (*store4_e4m3)(const uint32_t *a, void *to);
    void (*store4_e5m2)(const uint32_t *a, void *to);
    void (*store4_e2m1)(const uint32_t *a, void *to);
} lanes;

extern const lanes lanes_c;
#if defined(__x86_64__)
extern const lanes lanes_avx2, lanes_avx512;
#elif defined(__aarch64__)
extern const lanes lanes_neon;
#endif

#endif
