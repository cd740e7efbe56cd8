/* formats.h: every format file.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_FORMATS_H
#define EPIQ_FORMATS_H

#include "format_e4m3.h"
#include "format_e5m2.h"
#include "format_int8.h"
#include "format_mxfp4.h"
#include "format_mxfp8.h"
#include "format_nvfp4.h"

#endif
