/* cpu_detect.c: asks the CPU what it has.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A feature counts if the operating system saves the registers that it needs, too. */
#include "cpu_detect.h"

#include <stdatomic.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdint.h>

/* Which registers the operating system saves: XCR0. */
static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int look(void)
{
    enum { YMM = 0x6, ZMM = 0xe6 }; /* XMM and YMM; those, the masks, and both parts of ZMM */
    unsigned a, b, c, d;
    int features = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    const uint32_t saved = saved_registers();
    if ((saved & YMM) != YMM || !(c & bit_AVX))
        return 0;
    features |= c & bit_FMA ? EPIQI_CPU_FMA : 0;
    features |= c & bit_F16C ? EPIQI_CPU_F16C : 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return features;
    features |= b & bit_AVX2 ? EPIQI_CPU_AVX2 : 0;
    if ((saved & ZMM) != ZMM)
        return features;
    features |= b & bit_AVX512F ? EPIQI_CPU_AVX512F : 0;
    features |= b & bit_AVX512DQ ? EPIQI_CPU_AVX512DQ : 0;
    features |= b & bit_AVX512BW ? EPIQI_CPU_AVX512BW : 0;
    features |= b & bit_AVX512VL ? EPIQI_CPU_AVX512VL : 0;
    features |= d & 1u << 23 ? EPIQI_CPU_AVX512FP16 : 0; /* bit_AVX512FP16, which old compilers do not name */
    return features;
}

#elif defined(__aarch64__)

static int look(void)
{
    return EPIQI_CPU_ASIMD; /* part of every AArch64 that runs a common operating system */
}

#else

static int look(void)
{
    return 0;
}

#endif

int epiqi_cpu_features(void)
{
    enum { ASKED = 1 << 30 };
    static atomic_int answer; /* threads that come first at the same time give the same one */
    int features = atomic_load_explicit(&answer, memory_order_relaxed);
    if (features == 0) {
        features = look() | ASKED;
        atomic_store_explicit(&answer, features, memory_order_relaxed);
    }
    return features & ~ASKED;
}
