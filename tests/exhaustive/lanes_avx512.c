/* lanes_avx512.c: the operations of lanes.h on lane_avx512.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#if defined(__x86_64__)

#include "arith/lane_avx512.h"

#define LANES lanes_avx512
#include "lanes.inc"

#endif
