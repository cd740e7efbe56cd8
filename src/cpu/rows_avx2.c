/* rows_avx2.c: the stages on AVX2, FMA and F16C: lanes of width 8.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lists.h"
#include "rows.h"

#if defined(__x86_64__)

#include "arith/lane_avx2.h"

#include "arith/act.h"
#include "arith/formats.h"
#include "arith/norm.h"
#include "arith/reduce.h"

#define EPIQI_ROWS epiqi_rows_avx2
#include "prologue.inc"

#include "epilogue.inc"

#include "table.inc"

#endif
