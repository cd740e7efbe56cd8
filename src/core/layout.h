/* layout.h: where a scale is stored (doc/spec.md 5). Pure integer functions, also used on GPUs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_LAYOUT_H
#define EPIQ_LAYOUT_H

#include <epiq/epiq.h>

#ifdef __CUDACC__
#define EPIQI_LAYOUT_FN static inline __host__ __device__
#else
#define EPIQI_LAYOUT_FN static inline
#endif

EPIQI_LAYOUT_FN int64_t epiqi_round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

EPIQI_LAYOUT_FN int64_t epiqi_padded(int64_t n, int32_t multiple) /* EPIQ_UNKNOWN stays */
{
    return n < 0 ? n : epiqi_round_up(n, multiple);
}

/* The stored array: `lines` lines of `line` elements of `bytes` bytes, for rows x groups scales. Tiles are described as
 * the padded matrix that they hold, and have no line stride. */
typedef struct epiqi_scale_array {
    int64_t lines, line;
    int32_t bytes;
    int32_t row_multiple;   /* rows are padded to it */
    int32_t group_multiple; /* so are the groups of a row */
} epiqi_scale_array;

EPIQI_LAYOUT_FN epiqi_scale_array epiqi_scale_array_of(int32_t layout, int64_t rows, int64_t groups, int32_t bytes)
{
    epiqi_scale_array a = {rows, groups, bytes, 1, 1};
    switch (layout) {
    case EPIQ_LAYOUT_COL:
    case EPIQ_LAYOUT_COL_ALIGNED:
        a.row_multiple = layout == EPIQ_LAYOUT_COL ? 1 : 4;
        a.lines = groups;
        a.line = epiqi_padded(rows, a.row_multiple);
        break;
    case EPIQ_LAYOUT_PACKED_UE8M0: /* words of four groups */
        a.row_multiple = 4;
        a.group_multiple = 4;
        a.lines = groups < 0 ? groups : (groups + 3) / 4;
        a.line = epiqi_padded(rows, 4);
        break;
    case EPIQ_LAYOUT_TILE128X4:
    case EPIQ_LAYOUT_TILE8X4:
        a.row_multiple = layout == EPIQ_LAYOUT_TILE128X4 ? 128 : 8;
        a.group_multiple = 4;
        a.lines = epiqi_padded(rows, a.row_multiple);
        a.line = epiqi_padded(groups, 4);
        break;
    default:
        break;
    }
    return a;
}

/* Whether the array is stored as tiles, dense and without a line stride. */
EPIQI_LAYOUT_FN int epiqi_is_tiled(int32_t layout)
{
    return layout == EPIQ_LAYOUT_TILE128X4 || layout == EPIQ_LAYOUT_TILE8X4;
}

/* Byte offset of the scale of (row, group), which may be padding. `stride`: bytes between lines, or for tiles the bytes
 * of a row of tiles. */
EPIQI_LAYOUT_FN int64_t epiqi_scale_offset(int32_t layout, int64_t stride, int32_t bytes, int64_t row, int64_t group)
{
    switch (layout) {
    case EPIQ_LAYOUT_COL:
    case EPIQ_LAYOUT_COL_ALIGNED:
        return group * stride + row * bytes;
    case EPIQ_LAYOUT_PACKED_UE8M0:
        return (group >> 2) * stride + row * 4 + (group & 3);
    case EPIQ_LAYOUT_TILE8X4:
        return (row >> 3) * stride + (group >> 2) * 32 + (row & 7) * 4 + (group & 3);
    case EPIQ_LAYOUT_TILE128X4:
        return (row >> 7) * stride + (group >> 2) * 512 + (row & 31) * 16 + ((row >> 5) & 3) * 4 + (group & 3);
    default:
        return row * stride + group * bytes;
    }
}

#endif
