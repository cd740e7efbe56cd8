/* rows_neon.c: the stages on NEON: lanes of width 4.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lists.h"
#include "rows.h"

#if defined(__aarch64__)

#include "arith/lane_neon.h"

#include "arith/act.h"
#include "arith/formats.h"
#include "arith/norm.h"
#include "arith/reduce.h"

#define EPIQI_ROWS epiqi_rows_neon
#include "prologue.inc"

#include "epilogue.inc"

#include "table.inc"

#endif
