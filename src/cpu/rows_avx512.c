/* rows_avx512.c: the stages on AVX-512: lanes of width 16.
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/cpu_detect.h"
#include "lists.h"
#include "rows.h"

#include <stdatomic.h>

#if defined(__x86_64__)

#include "arith/lane_avx512.h"

#include "arith/act.h"
#include "arith/formats.h"
#include "arith/norm.h"
#include "arith/reduce.h"

#define EPIQI_ROWS epiqi_rows_avx512
#include "prologue.inc"

#include "epilogue.inc"

#include "table.inc"

#endif
