/* cpu_detect.h: what the CPU of this machine has, and the operating system lets programs use.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_CPU_DETECT_H
#define EPIQ_CPU_DETECT_H

/* Features that a backend may need: value suffix, name. */
#define EPIQI_CPU_FEATURES(X)                                                                                          \
    X(AVX2, avx2)                                                                                                      \
    X(FMA, fma)                                                                                                        \
    X(F16C, f16c)                                                                                                      \
    X(AVX512F, avx512f)                                                                                                \
    X(AVX512DQ, avx512dq)                                                                                              \
    X(AVX512BW, avx512bw)                                                                                              \
    X(AVX512VL, avx512vl)                                                                                              \
    X(AVX512FP16, avx512fp16)                                                                                          \
    X(ASIMD, asimd)

enum {
#define X(upper, lower) EPIQI_CPU_##upper##_BIT,
    EPIQI_CPU_FEATURES(X)
#undef X
#define X(upper, lower) EPIQI_CPU_##upper = 1 << EPIQI_CPU_##upper##_BIT,
        EPIQI_CPU_FEATURES(X)
#undef X
};

/* EPIQI_CPU_ features; asked of the CPU once. Safe in any thread. */
int epiqi_cpu_features(void);

#endif
