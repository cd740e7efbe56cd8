/* rows_c.c: the stages in portable C: lanes of width 1.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arith/lane_c.h"

#include "arith/act.h"
#include "arith/formats.h"
#include "arith/norm.h"
#include "arith/reduce.h"
#include "lists.h"
#include "rows.h"

#define EPIQI_ROWS epiqi_rows_c
#include "prologue.inc"

#include "epilogue.inc"

#include "table.inc"
