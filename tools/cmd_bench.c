/* cmd_bench.c: epiq bench: time of a call beside copying as many bytes and beside an empty call.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call.h"
#include "command.h"
#include "tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads and writes the volumes of a call: a memcpy as far as both go, then reading or writing alone. */
typedef struct traffic {
    unsigned char *from, *to;
    int64_t read, written;
    int32_t parts;
    const epiq_exec *exec; /* the threads of the call serve the copy too */
} traffic;

static volatile uint64_t sink;

static void copy_part(void *work, int32_t index)
{
    const traffic *t = work;
    const int64_t both = t->read < t->written ? t->read : t->written, parts = t->parts;
    const int64_t copy_from = both * index / parts, copy_to = both * (index + 1) / parts;
    memcpy(t->to + copy_from, t->from + copy_from, (size_t)(copy_to - copy_from));
    const int64_t read_from = both + (t->read - both) * index / parts;
    const int64_t read_to = both + (t->read - both) * (index + 1) / parts;
    uint64_t sum = 0, word;
    for (int64_t i = read_from; i + 8 <= read_to; i += 8) {
        memcpy(&word, t->from + i, 8);
        sum += word;
    }
    sink = sum;
    const int64_t set_from = both + (t->written - both) * index / parts;
    const int64_t set_to = both + (t->written - both) * (index + 1) / parts;
    memset(t->to + set_from, (int)(sum & 1), (size_t)(set_to - set_from));
}

static void copy(void *data)
{
    traffic *t = data;
    if (t->exec->executor)
        t->exec->executor(t->exec->executor_data, t->parts, copy_part, t);
    else
        copy_part(t, 0);
}

typedef struct measured {
    double ns, copy_ns, empty_ns;
    int64_t bytes;
} measured;

static measured measure(call *c)
{
    measured m = {0};
    const double seconds = 0.1;
    traffic t = {.read = call_bytes_read(c), .written = call_bytes_written(c), .exec = &c->exec};
    t.parts = c->exec.executor ? 16 : 1;
    t.from = allocate(t.read);
    t.to = allocate(t.written);
    memset(t.from, 1, (size_t)t.read); /* pages of its own, not one page of zeros */
    m.bytes = t.read + t.written;
    m.ns = median_ns(call_must_run, c, seconds);
    m.copy_ns = median_ns(copy, &t, seconds);
    call empty = *c;
    call_x(&empty)->rows = 0;
    m.empty_ns = median_ns(call_must_run, &empty, seconds / 10);
    free(t.from);
    free(t.to);
    return m;
}

static void print_result(const options *o, call *c, const measured *m, bool first)
{
    const epiq_sizes *z = &c->sizes;
    const double rows = z->rows > 0 ? (double)z->rows : 1, gb = (double)m->bytes / m->ns,
                 copy_gb = (double)m->bytes / m->copy_ns;
    const char *format = c->quantizes ? epiq_word(c->out.format) : "none";
    const char *grain = c->quantizes ? epiq_word(z->grain) : "-", *dtype = epiq_word(call_x(c)->dtype);
    const char *layout = c->quantizes ? epiq_word(z->layout ? z->layout : EPIQ_LAYOUT_ROW) : "-";
    if (o->json) {
        printf("%s\n  {\"op\": \"%s\", \"dtype\": \"%s\", \"format\": \"%s\", \"grain\": \"%s\", \"group\": %d, "
               "\"layout\": \"%s\", \"rows\": %" PRId64 ", \"cols\": %" PRId64 ", \"bytes\": %" PRId64
               ", \"ns_per_row\": %.6g, \"gb_per_s\": %.6g, \"copy_ns_per_row\": %.6g, \"copy_gb_per_s\": %.6g, "
               "\"empty_ns\": %.6g}",
               first ? "{\"results\": [" : ",", operation_name(c->operation), dtype, format, grain, z->group, layout,
               z->rows, z->cols, m->bytes, m->ns / rows, gb, m->copy_ns / rows, copy_gb, m->empty_ns);
    } else if (o->csv) {
        if (first)
            printf("op,dtype,format,grain,group,layout,rows,cols,bytes,ns_per_row,gb_per_s,copy_ns_per_row,"
                   "copy_gb_per_s,empty_ns\n");
        printf("%s,%s,%s,%s,%d,%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%.6g,%.6g,%.6g,%.6g,%.6g\n",
               operation_name(c->operation), dtype, format, grain, z->group, layout, z->rows, z->cols, m->bytes,
               m->ns / rows, gb, m->copy_ns / rows, copy_gb, m->empty_ns);
    } else {
        if (first)
            printf("%-8s %-5s %-6s %-6s %-12s %7s %7s %10s %7s %10s %7s %8s\n", "op", "dtype", "format", "grain",
                   "layout", "rows", "cols", "ns/row", "GB/s", "copy ns", "GB/s", "empty ns");
        printf("%-8s %-5s %-6s %-6s %-12s %7" PRId64 " %7" PRId64 " %10.1f %7.2f %10.1f %7.2f %8.0f\n",
               operation_name(c->operation), dtype, format, grain, layout, z->rows, z->cols, m->ns / rows, gb,
               m->copy_ns / rows, copy_gb, m->empty_ns);
    }
    fflush(stdout);
}

/* Measures and prints one line. False if the library refuses the call and it is one of several `choices`. */
static bool bench(options *o, int operation, epiq_exec exec, int64_t rows, int64_t cols, bool choices, bool first)
{
    call c;
    uint64_t state = 1;
    call_begin(&c, operation, o);
    c.exec = exec;
    call_shape(&c, rows, cols, o->dtype, NULL);
    const int64_t element = dtype_bytes(o->dtype), x_count = rows * call_x(&c)->cols;
    epiq_dtype weight_dtype = o->weight_dtype ? o->weight_dtype : o->dtype;
    call probe = c;
    if (o->up)
        probe.act_mul.up = mark(7);
    if (o->residual)
        probe.rms_norm.residual = mark(8);
    epiq_status status = call_mark(&probe, o->y || o->plain, o->residual_out);
    if (status != EPIQ_OK && choices)
        return false;
    if (status != EPIQ_OK)
        call_refuse(&probe, status);
    void *x = allocate(x_count * element), *other = allocate(rows * cols * element);
    void *weight = allocate(cols * dtype_bytes(weight_dtype));
    make_values(x, o->dtype, x_count, &state, false);
    make_values(other, o->dtype, rows * cols, &state, false);
    make_values(weight, weight_dtype, cols, &state, false);
    call_x(&c)->data = x;
    if (o->up)
        c.act_mul.up = other;
    if (o->residual)
        c.rms_norm.residual = other;
    c.rms_norm.weight = weight;
    status = call_allocate(&c, o->y || o->plain, o->residual_out);
    if (status != EPIQ_OK)
        call_refuse(&c, status);
    measured m = measure(&c);
    progress(NULL);
    print_result(o, &c, &m, first);
    call_free(&c);
    free(x);
    free(other);
    free(weight);
    return true;
}

int cmd_bench(options *o)
{
    static const int64_t default_rows[] = {1, 64, 1024};
    const bool all = o->out.format == 0 && !o->plain;
    int results = 0;
    if (o->json && o->csv)
        fail(EXIT_UNUSABLE, "--json and --csv: give one of them");
    if (o->dtype == 0)
        o->dtype = EPIQ_DTYPE_BF16;
    epiq_exec exec = make_exec(o);
    for (int bit = ACT_MUL; bit <= QUANTIZE; bit *= 2) {
        if (o->operation ? bit != o->operation : bit == QUANTIZE)
            continue;
        for (int f = 0; f == 0 || (all && nth_value("format", f) != 0); f++) {
            for (int r = 0; r < 3 && (r == 0 || o->rows == EPIQ_UNKNOWN); r++) {
                options one = *o;
                if (all)
                    one.out.format = (epiq_format)nth_value("format", f);
                int64_t rows = o->rows == EPIQ_UNKNOWN ? default_rows[r] : o->rows;
                int64_t cols = o->cols == EPIQ_UNKNOWN ? 4096 : o->cols;
                progress("%s %s [%" PRId64 ", %" PRId64 "]", operation_name(bit),
                         o->plain ? "none" : epiq_word((int32_t)one.out.format), rows, cols);
                results += bench(&one, bit, exec, rows, cols, all, results == 0);
            }
        }
    }
    end_exec(&exec);
    if (results == 0)
        fail(EXIT_UNUSABLE, "bench: no format takes these options; --format F says why one does not");
    if (o->json)
        printf("\n]}\n");
    return 0;
}
