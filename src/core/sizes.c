/* sizes.c: the answer of epiq_check_*, and where a scale lies.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <string.h>

/* Bytes from the first to the last of `lines` lines; EPIQ_UNKNOWN if any of it is. */
static int64_t span(int64_t lines, int64_t line_bytes, int64_t stride)
{
    if (lines == 0 || line_bytes == 0)
        return 0;
    if (lines == EPIQ_UNKNOWN || line_bytes < 0 || stride < 0)
        return EPIQ_UNKNOWN;
    return (lines - 1) * stride + line_bytes;
}

void epiqi_plan_sizes(const epiqi_plan *plan, epiq_sizes *sizes)
{
    const int64_t y_row = plan->cols < 0 ? EPIQ_UNKNOWN : plan->cols * epiqi_dtype_bytes(plan->dtype);
    epiq_sizes z = {.struct_size = sizes->struct_size, .rows = plan->rows, .cols = plan->cols};
    if (plan->format != NULL) {
        z.grain = plan->grain;
        z.group = plan->group;
        z.layout = plan->layout;
        z.scale_dtype = plan->scale_dtype;
        z.groups = plan->groups;
        z.codes_row_bytes = plan->codes_row_bytes;
        z.codes_bytes = span(plan->rows, plan->codes_row_bytes, plan->codes.stride);
    }
    if (plan->scale_dtype != 0) {
        const epiqi_scale_array *a = &plan->array;
        int64_t line_bytes = a->line < 0 ? EPIQ_UNKNOWN : a->line * a->bytes;
        z.scale_shape[0] = a->lines;
        z.scale_shape[1] = a->line;
        z.scale_stride = plan->scales.stride;
        z.scale_bytes = span(a->lines, line_bytes, epiqi_is_tiled(plan->layout) ? line_bytes : plan->scales.stride);
    }
    if (plan->y_wanted)
        z.y_bytes = span(plan->rows, y_row, plan->y_out.stride);
    if (plan->residual_wanted)
        z.residual_bytes = span(plan->rows, y_row, plan->residual_out.stride);
    z.workspace_bytes = plan->workspace_bytes;
    unsigned char *bytes = (unsigned char *)sizes;
    memcpy(bytes, &z, sizeof z);
    memset(bytes + sizeof z, 0, sizes->struct_size - sizeof z); /* fields of a later version */
}

int64_t epiq_scale_offset(const epiq_sizes *sizes, int64_t row, int64_t group)
{
    if (sizes == NULL || sizes->scale_dtype == 0 || sizes->scale_bytes <= 0)
        return -1;
    int64_t rows = sizes->grain == EPIQ_GRAIN_TENSOR ? 1 : sizes->rows;
    if (row < 0 || row >= rows || group < 0 || group >= sizes->groups)
        return -1;
    return epiqi_scale_offset(sizes->layout, sizes->scale_stride, epiqi_dtype_bytes(sizes->scale_dtype), row, group);
}
