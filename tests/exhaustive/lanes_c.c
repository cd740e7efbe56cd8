/* lanes_c.c: the operations of lanes.h on lane_c.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#include "arith/lane_c.h"

#define LANES lanes_c
#include "lanes.inc"
