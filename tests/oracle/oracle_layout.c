/* oracle_layout.c: scale layouts as reshape and transpose of the padded logical matrix.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The logical matrix has a row for each row of y and a column for each group, both padded as the layout asks:
 *
 *     layout        padded to    reshaped to                          axes in the order of the stored array
 *     row           -            [M, G]                               0 1
 *     col           -            [M, G]                               1 0
 *     col_aligned   4 x 1        [M, G]                               1 0
 *     packed_ue8m0  4 x 4        [M, G/4, 4]                          1 0 2
 *     tile128x4     128 x 4      [M/128, 4, 32, G/4, 4]               0 3 2 1 4
 *     tile8x4       8 x 4        [M/8, 8, G/4, 4]                     0 2 1 3
 *
 * tile128x4 in words: tiles of 128 rows and 4 columns follow one another along a row of tiles; a tile holds 32 lines of
 * 16 bytes; line i has rows i, 32 + i, 64 + i, 96 + i of the tile, 4 columns each. */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

enum { AXES = 5 };

typedef struct shape {
    int64_t size[AXES]; /* of the reshaped logical matrix; 1 for axes that are not needed */
    int order[AXES];    /* order[i] is the axis that comes i-th in the stored array */
} shape;

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static shape describe(epiq_layout layout, oracle_layout *l)
{
    int64_t m = l->rows, g = l->groups;
    switch (layout) {
    case EPIQ_LAYOUT_COL:
        l->padded_rows = m;
        l->padded_groups = g;
        return (shape){{m, g, 1, 1, 1}, {1, 0, 2, 3, 4}};
    case EPIQ_LAYOUT_COL_ALIGNED:
        l->padded_rows = m = round_up(m, 4);
        l->padded_groups = g;
        return (shape){{m, g, 1, 1, 1}, {1, 0, 2, 3, 4}};
    case EPIQ_LAYOUT_PACKED_UE8M0:
        l->padded_rows = m = round_up(m, 4);
        l->padded_groups = g = round_up(g, 4);
        return (shape){{m, g / 4, 4, 1, 1}, {1, 0, 2, 3, 4}};
    case EPIQ_LAYOUT_TILE128X4:
        l->padded_rows = m = round_up(m, 128);
        l->padded_groups = g = round_up(g, 4);
        return (shape){{m / 128, 4, 32, g / 4, 4}, {0, 3, 2, 1, 4}};
    case EPIQ_LAYOUT_TILE8X4:
        l->padded_rows = m = round_up(m, 8);
        l->padded_groups = g = round_up(g, 4);
        return (shape){{m / 8, 8, g / 4, 4, 1}, {0, 2, 1, 3, 4}};
    default:
        l->padded_rows = m;
        l->padded_groups = g;
        return (shape){{m, g, 1, 1, 1}, {0, 1, 2, 3, 4}};
    }
}

/* Appends to *next the indices, in the row-major reshaped matrix, of all elements with these leading stored axes. */
static void transpose(const shape *s, int depth, const int64_t *step, int64_t index, int64_t **next)
{
    if (depth == AXES) {
        *(*next)++ = index;
        return;
    }
    int axis = s->order[depth];
    for (int64_t i = 0; i < s->size[axis]; i++)
        transpose(s, depth + 1, step, index + i * step[axis], next);
}

oracle_layout oracle_layout_make(epiq_layout layout, int64_t rows, int64_t groups, int64_t unit, int64_t stride)
{
    oracle_layout l = {.rows = rows, .groups = groups, .unit = unit};
    shape s = describe(layout, &l);
    int64_t step[AXES], places = 1;
    for (int axis = AXES - 1; axis >= 0; axis--) { /* row-major: the last axis is adjacent */
        step[axis] = places;
        places *= s.size[axis];
    }
    l.source = oracle_alloc((size_t)places, sizeof *l.source);
    int64_t *next = l.source;
    transpose(&s, 0, step, 0, &next);
    int tiled = layout == EPIQ_LAYOUT_TILE128X4 || layout == EPIQ_LAYOUT_TILE8X4;
    l.lines = tiled ? 1 : s.size[s.order[0]];
    l.in_line = l.lines == 0 ? 0 : places / l.lines;
    l.stride = stride != 0 && !tiled ? stride : l.in_line * unit;
    return l;
}

void oracle_layout_free(oracle_layout *layout)
{
    free(layout->source);
    layout->source = NULL;
}

int64_t oracle_layout_bytes(const oracle_layout *l)
{
    return l->lines == 0 ? 0 : (l->lines - 1) * l->stride + l->in_line * l->unit;
}

int64_t oracle_layout_offset(const oracle_layout *l, int64_t row, int64_t group)
{
    if (row < 0 || row >= l->rows || group < 0 || group >= l->groups)
        return -1;
    for (int64_t line = 0; line < l->lines; line++)
        for (int64_t i = 0; i < l->in_line; i++)
            if (l->source[line * l->in_line + i] == row * l->padded_groups + group)
                return line * l->stride + i * l->unit;
    return -1;
}

void oracle_layout_write(const oracle_layout *l, const void *values, epiq_pad_rows pad_rows, void *stored)
{
    for (int64_t line = 0; line < l->lines; line++)
        for (int64_t i = 0; i < l->in_line; i++) {
            int64_t source = l->source[line * l->in_line + i];
            int64_t row = source / l->padded_groups, group = source % l->padded_groups;
            uint8_t *at = (uint8_t *)stored + line * l->stride + i * l->unit;
            if (row < l->rows && group < l->groups)
                memcpy(at, (const uint8_t *)values + (row * l->groups + group) * l->unit, (size_t)l->unit);
            else if (row < l->rows || pad_rows != EPIQ_PAD_ROWS_KEEP)
                memset(at, 0, (size_t)l->unit);
        }
}

void oracle_layout_read(const oracle_layout *l, const void *stored, void *values)
{
    for (int64_t line = 0; line < l->lines; line++)
        for (int64_t i = 0; i < l->in_line; i++) {
            int64_t source = l->source[line * l->in_line + i];
            int64_t row = source / l->padded_groups, group = source % l->padded_groups;
            const uint8_t *at = (const uint8_t *)stored + line * l->stride + i * l->unit;
            if (row < l->rows && group < l->groups)
                memcpy((uint8_t *)values + (row * l->groups + group) * l->unit, at, (size_t)l->unit);
        }
}
