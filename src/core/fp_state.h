/* fp_state.h: the floating-point state that the arithmetic needs: round to nearest even, gradual underflow, no traps.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Callers, and libraries that a process loads, may have set another. Public functions that touch floats enter it and
 * restore the caller's, sticky flags included; so does every task, which may run on a foreign thread. */
#ifndef EPIQ_FP_STATE_H
#define EPIQ_FP_STATE_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

static inline uint64_t fp_state_enter(void)
{
    uint64_t caller = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return caller;
}

static inline void fp_state_leave(uint64_t caller)
{
    _mm_setcsr((unsigned)caller);
}

#elif defined(__aarch64__)

static inline void fp_state_leave(uint64_t caller)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(caller) : "memory");
}

static inline uint64_t fp_state_enter(void)
{
    uint64_t caller;
    __asm__ volatile("mrs %0, fpcr" : "=r"(caller));
    fp_state_leave(0);
    return caller;
}

#else
#error "fp_state.h: say how this CPU's rounding mode and flush-to-zero are set"
#endif

#endif
