/* cmd_layout.c: epiq explain layout: where the scales of one shape are stored, as a formula and as drawings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here knows a layout, but for how long a line of memory is good to read. Sizes come from epiq_check_quantize,
 * places from epiq_scale_offset; padding is what can be added to a shape without a change of the size, and the formula
 * is put together from the offsets of powers of two. */
#include "call.h"
#include "command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* One term of a formula: (letter >> shift & (1 << bits) - 1) * factor. The last of its letter is `open`: all bits. */
typedef struct term {
    char letter; /* m: row, k: group */
    int shift, bits;
    bool open;
    int64_t factor;
} term;

enum { TERMS = 16, PICKS = 32, CORNER_ROWS = 256, CORNER_GROUPS = 16, WORDS = 8 };

typedef struct map {
    const call *call;
    epiq_sizes real, padded; /* of the shape, and of the largest shape that has an array of the same size */
    int64_t rows, all_rows;  /* that have scales of their own; with padding */
    bool pads;
    term terms[TERMS];
    int terms_count;
} map;

static bool sizes_of(const call *c, int64_t rows, int64_t cols, epiq_sizes *z)
{
    call other = *c;
    other.out.padded_cols = 0;
    call_shape(&other, rows, cols, call_x(&other)->dtype, NULL);
    if (call_mark(&other, false, false) != EPIQ_OK)
        return false;
    *z = other.sizes;
    return true;
}

/* Columns with so many groups. */
static int64_t cols_of(const map *m, int64_t groups)
{
    return m->real.grain == EPIQ_GRAIN_GROUP ? groups * m->real.group : m->real.cols;
}

static void find_padding(map *m)
{
    epiq_sizes z, *p = &m->padded;
    *p = m->real;
    m->rows = m->all_rows = 1;
    if (m->real.grain == EPIQ_GRAIN_TENSOR)
        return;
    while (sizes_of(m->call, p->rows + 1, cols_of(m, p->groups), &z) && z.scale_bytes == p->scale_bytes)
        *p = z;
    while (sizes_of(m->call, p->rows, cols_of(m, p->groups + 1), &z) && z.groups > p->groups &&
           z.scale_bytes == p->scale_bytes)
        *p = z;
    m->rows = m->real.rows;
    m->all_rows = p->rows;
    m->pads = p->rows > m->rows || p->groups > m->real.groups;
}

static int64_t place(const epiq_sizes *z, char letter, int64_t n)
{
    return letter == 'm' ? epiq_scale_offset(z, n, 0) : epiq_scale_offset(z, 0, n);
}

/* Bits of a number whose offsets double from one to the next are one term. */
static void add_terms(map *m, char letter, const epiq_sizes *z)
{
    const int first = m->terms_count;
    int64_t at;
    for (int bit = 0; (at = place(z, letter, INT64_C(1) << bit)) >= 0; bit++) {
        term *last = m->terms_count > first ? &m->terms[m->terms_count - 1] : NULL;
        if (last != NULL && at == last->factor << last->bits)
            last->bits++;
        else if (m->terms_count < TERMS)
            m->terms[m->terms_count++] = (term){letter, bit, 1, false, at};
    }
    if (m->terms_count > first)
        m->terms[m->terms_count - 1].open = true;
}

static int compare_terms(const void *a, const void *b) /* the largest factor first, rows before groups */
{
    const term *x = a, *y = b;
    return x->factor != y->factor ? (x->factor < y->factor) - (x->factor > y->factor) : y->letter - x->letter;
}

/* A row or a group by itself moves within its line or tile, so each may grow alone to show all of its terms. */
static void find_formula(map *m)
{
    enum { MANY = 1 << 16 };
    epiq_sizes z;
    if (m->real.grain == EPIQ_GRAIN_TENSOR)
        return;
    if (sizes_of(m->call, MANY, cols_of(m, m->real.groups), &z))
        add_terms(m, 'm', &z);
    if (m->real.grain == EPIQ_GRAIN_GROUP && sizes_of(m->call, m->real.rows, cols_of(m, MANY), &z))
        add_terms(m, 'k', &z);
    qsort(m->terms, (size_t)m->terms_count, sizeof m->terms[0], compare_terms);
}

static int64_t part(const term *t, int64_t row, int64_t group)
{
    int64_t n = (t->letter == 'm' ? row : group) >> t->shift;
    return t->open ? n : n & ((INT64_C(1) << t->bits) - 1);
}

static int64_t by_formula(const map *m, int64_t row, int64_t group)
{
    int64_t sum = 0;
    for (int i = 0; i < m->terms_count; i++)
        sum += part(&m->terms[i], row, group) * m->terms[i].factor;
    return sum;
}

/* The library's answer, also for padding; where the formula says otherwise there is nothing to print. */
static int64_t offset(const map *m, int64_t row, int64_t group)
{
    bool real = row < m->rows && group < m->real.groups;
    int64_t at = epiq_scale_offset(real ? &m->real : &m->padded, row, group);
    if (at != by_formula(m, row, group))
        fail(EXIT_DIFFERS, "explain layout: no formula holds for (%" PRId64 ", %" PRId64 ")", row, group);
    return at;
}

static void print_formula(const map *m)
{
    printf("scale of row m, group k at byte ");
    for (int i = 0; i < m->terms_count; i++) {
        const term *t = &m->terms[i];
        printf("%s", i > 0 ? " + " : "");
        if (t->shift > 0 && !t->open)
            printf("((%c >> %d) & %d)", t->letter, t->shift, (1 << t->bits) - 1);
        else if (t->shift > 0)
            printf("(%c >> %d)", t->letter, t->shift);
        else if (!t->open)
            printf("(%c & %d)", t->letter, (1 << t->bits) - 1);
        else
            printf("%c", t->letter);
        if (t->factor != 1)
            printf(" * %" PRId64, t->factor);
    }
    printf("%s\n", m->terms_count > 0 ? "" : "0");
    int64_t row = m->rows - 1, group = m->real.groups - 1;
    printf("for example (%" PRId64 ", %" PRId64 "): ", row, group);
    for (int i = 0; i < m->terms_count; i++) {
        printf("%s%" PRId64, i > 0 ? " + " : "", part(&m->terms[i], row, group));
        if (m->terms[i].factor != 1)
            printf(" * %" PRId64, m->terms[i].factor);
    }
    printf("%s%" PRId64 "\n", m->terms_count > 0 ? " = " : "", offset(m, row, group));
}

static void print_range(const char *what, int64_t from, int64_t to)
{
    printf("%s %" PRId64, what, from);
    if (to > from)
        printf(" to %" PRId64, to);
}

static void print_padding(const map *m)
{
    const bool rows = m->all_rows > m->rows, groups = m->padded.groups > m->real.groups;
    printf("padding: ");
    if (groups) {
        print_range("groups", m->real.groups, m->padded.groups - 1);
        printf(" of every row, zeros%s", rows ? "; " : "");
    }
    if (rows) {
        print_range("rows", m->rows, m->all_rows - 1);
        printf(", zeros (with pad_rows keep: not written)");
    }
    printf("%s\n", rows || groups ? "" : "none");
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Which of `all` rows or groups are drawn: all of a few, else the first, the last, and both sides of each change. */
static int pick(const map *m, char letter, int64_t real, int64_t all, int64_t *picks)
{
    enum { FEW = 12 };
    int64_t wanted[3 * (TERMS + 2) + FEW];
    int wanted_count = 0, count = 0;
    for (int64_t n = 0; n < (all <= FEW ? all : 3); n++)
        wanted[wanted_count++] = n;
    for (int i = 0; i < m->terms_count; i++)
        for (int64_t n = -1; m->terms[i].letter == letter && m->terms[i].shift > 0 && n <= 1; n++)
            wanted[wanted_count++] = (INT64_C(1) << m->terms[i].shift) + n;
    wanted[wanted_count++] = real - 1;
    wanted[wanted_count++] = real;
    wanted[wanted_count++] = all - 1;
    qsort(wanted, (size_t)wanted_count, sizeof wanted[0], compare_numbers);
    for (int i = 0; i < wanted_count; i++)
        if (wanted[i] < all && count < PICKS && (count == 0 || wanted[i] > picks[count - 1]))
            picks[count++] = wanted[i];
    return count;
}

static bool picked(const int64_t *picks, int count, int64_t n)
{
    return bsearch(&n, picks, (size_t)count, sizeof picks[0], compare_numbers) != NULL;
}

static int digits(int64_t n)
{
    return snprintf(NULL, 0, "%" PRId64, n);
}

typedef struct picture {
    int64_t rows[PICKS], groups[PICKS];
    int rows_count, groups_count;
} picture;

/* One cell of a row of the table of offsets: a number, in brackets for padding, with a gap before it where picks leave
 * some out. */
static void draw_cell(const picture *p, int g, int width, bool real, int64_t n)
{
    const bool last = g == p->groups_count - 1, gap = g > 0 && p->groups[g] > p->groups[g - 1] + 1;
    char cell[32];
    snprintf(cell, sizeof cell, !real ? "[%" PRId64 "]" : last ? "%" PRId64 : "%" PRId64 " ", n);
    printf("%s%*s", gap ? "  .." : "", real && last ? width - 1 : width, cell);
}

static void draw_offsets(const map *m, const picture *p)
{
    const int label = digits(m->all_rows - 1) + 2, width = digits(m->padded.scale_bytes) + 4;
    printf("\nbyte of each scale%s:\n%*s", m->pads ? ", in brackets padding" : "", label, "m \\ k");
    for (int g = 0; g < p->groups_count; g++)
        draw_cell(p, g, width, true, p->groups[g]);
    printf("\n");
    for (int r = 0; r < p->rows_count; r++) {
        const int64_t row = p->rows[r];
        if (r > 0 && row > p->rows[r - 1] + 1)
            printf("%*s\n", label, "..");
        printf("%*" PRId64, label, row);
        for (int g = 0; g < p->groups_count; g++)
            draw_cell(p, g, width, row < m->rows && p->groups[g] < m->real.groups, offset(m, row, p->groups[g]));
        printf("\n");
    }
}

typedef struct stored {
    int64_t at, row, group;
} stored;

static int compare_places(const void *a, const void *b)
{
    return compare_numbers(&((const stored *)a)->at, &((const stored *)b)->at);
}

/* The scales of `count` places side by side: row:group, row:group-group, and for each that is padding one '_'. */
static void name_places(const map *m, const stored *s, int count, char *text, size_t bytes)
{
    int used = 0, real = 0;
    while (real < count && s[real].row < m->rows && s[real].group < m->real.groups)
        real++;
    if (real > 0)
        used = snprintf(text, bytes, "%" PRId64 ":%" PRId64, s->row, s->group);
    if (real > 1)
        used += snprintf(text + used, bytes - (size_t)used, "-%" PRId64, s[real - 1].group);
    for (int i = real; i < count; i++)
        used += snprintf(text + used, bytes - (size_t)used, "_");
}

/* Lines of memory that begin with a row and a group that are picked. */
static void draw_memory(const map *m, const picture *p)
{
    const epiq_sizes *z = &m->padded;
    const int64_t rows = m->all_rows < CORNER_ROWS ? m->all_rows : CORNER_ROWS;
    const int64_t groups = z->groups < CORNER_GROUPS ? z->groups : CORNER_GROUPS;
    const int count = (int)(rows * groups);
    const bool tiles = z->layout == EPIQ_LAYOUT_TILE128X4 || z->layout == EPIQ_LAYOUT_TILE8X4;
    const int64_t line = z->layout == EPIQ_LAYOUT_TILE8X4 ? 32 : tiles ? 16 : z->scale_stride;
    const int word = tiles || z->scale_dtype == EPIQ_DTYPE_I32 ? 4 : 1; /* scales of a row that lie together */
    const int label = digits(z->scale_bytes) + 2, digits_each = digits(rows - 1) + digits(groups - 1);
    const int width = word > 1 ? digits_each + digits(groups - 1) + 5 : digits_each + 3;
    stored *s = allocate(count * (int64_t)sizeof *s);
    char text[80];
    for (int i = 0; i < count; i++)
        s[i] = (stored){offset(m, i / groups, i % groups), i / groups, i % groups};
    qsort(s, (size_t)count, sizeof *s, compare_places);
    printf("\nmemory, %" PRId64 " bytes a line, row:group%s:\n", line, m->pads ? ", _ is padding" : "");
    bool gap = false;
    for (int i = 0, next; i < count; i = next) {
        for (next = i; next < count && s[next].at / line == s[i].at / line;)
            next++;
        if (!picked(p->rows, p->rows_count, s[i].row) || !picked(p->groups, p->groups_count, s[i].group)) {
            gap = true;
            continue;
        }
        if (gap)
            printf("%*s\n", label, "..");
        gap = false;
        printf("%*" PRId64, label, s[i].at);
        for (int w = 0; w < WORDS && i + w * word < next; w++) {
            name_places(m, s + i + w * word, word, text, sizeof text);
            printf("%*s", width, text);
        }
        printf("%s\n", i + WORDS * word < next || groups < z->groups ? " .." : "");
    }
    if (gap || rows < m->all_rows)
        printf("%*s\n", label, "..");
    free(s);
}

void print_layout(const call *c)
{
    enum { MOST_PADDING = 128 };
    map m = {.call = c, .real = c->sizes};
    const epiq_sizes *z = &m.real;
    picture p;
    if (z->rows <= 0 || z->cols == EPIQ_UNKNOWN)
        fail(EXIT_UNUSABLE, "explain layout: say which shape y has, with --rows M (1 at least) and --cols H");
    if (z->rows > INT32_MAX - MOST_PADDING)
        fail(EXIT_UNUSABLE, "explain layout: padding rows beyond 2^31 cannot be drawn; give fewer rows");
    find_padding(&m);
    find_formula(&m);
    printf("%s, grain %s", epiq_word(c->out.format), epiq_word(z->grain));
    if (z->grain == EPIQ_GRAIN_GROUP)
        printf(" of %d columns", z->group);
    printf(", layout %s: y [%" PRId64 ", %" PRId64 "] has scales [%" PRId64 ", %" PRId64 "]\n", epiq_word(z->layout),
           z->rows, z->cols, m.rows, z->groups);
    printf("stored as %s [%" PRId64 ", %" PRId64 "], %" PRId64 " bytes\n", epiq_word(z->scale_dtype), z->scale_shape[0],
           z->scale_shape[1], z->scale_bytes);
    print_formula(&m);
    print_padding(&m);
    p.rows_count = pick(&m, 'm', m.rows, m.all_rows, p.rows);
    p.groups_count = pick(&m, 'k', z->groups, m.padded.groups, p.groups);
    draw_offsets(&m, &p);
    draw_memory(&m, &p);
}
