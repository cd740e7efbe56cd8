/* lanes_neon.c: the operations of lanes.h on lane_neon.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#if defined(__aarch64__)

#include "arith/lane_neon.h"

#define LANES lanes_neon
#include "lanes.inc"

#endif
