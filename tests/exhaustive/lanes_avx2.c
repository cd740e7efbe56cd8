/* lanes_avx2.c: the operations of lanes.h on lane_avx2.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#if defined(__x86_64__)

#include "arith/lane_avx2.h"

#define LANES lanes_avx2
#include "lanes.inc"

#endif
