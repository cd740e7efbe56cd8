/* must.h: for programs on a GPU that end at the first failure of the CUDA runtime.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TESTS_MUST_H
#define EPIQ_TESTS_MUST_H

#include <cstdio>
#include <cstdlib>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) {                                                                                   \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
