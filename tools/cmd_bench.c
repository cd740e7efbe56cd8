/* cmd_bench.c: epiq bench: time of a call beside copying as many bytes and beside an empty call.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call.h"
#include "command.h"
#include "tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Equal calls, each on buffers of its own, made in turn; and as many copies. */
typedef struct rotation {
    call *calls;
    int64_t count, next;
    /* A memcpy that reads and writes as many bytes as a call together: half of them each. */
    unsigned char *from, *to;
    int64_t bytes, next_copy;
    int32_t parts; /* the threads of the call serve the copy, too */
} rotation;

static void run_next(void *data)
{
    rotation *r = data;
    call_must_run(&r->calls[r->next]);
    r->next = (r->next + 1) % r->count;
}

static void copy_part(void *work, int32_t index)
{
    const rotation *r = work;
    const int64_t start = r->next_copy * r->bytes;
    const int64_t from = start + r->bytes * index / r->parts, to = start + r->bytes * (index + 1) / r->parts;
    memcpy(r->to + from, r->from + from, (size_t)(to - from));
}

static void copy_next(void *data)
{
    rotation *r = data;
    const epiq_exec *exec = &r->calls[0].exec;
    if (exec->executor)
        exec->executor(exec->executor_data, r->parts, copy_part, r);
    else
        copy_part(r, 0);
    r->next_copy = (r->next_copy + 1) % r->count;
}

typedef struct measured {
    double ns, copy_ns, empty_ns;
    int64_t bytes;
} measured;

static measured measure(call *calls, int64_t count, bool cold)
{
    measured m = {.bytes = call_bytes_read(calls) + call_bytes_written(calls)};
    rotation r = {.calls = calls, .count = count, .bytes = (m.bytes + 1) / 2, .parts = calls->exec.executor ? 16 : 1};
    double ns[2];
    r.from = allocate(count * r.bytes);
    r.to = allocate(count * r.bytes);
    memset(r.from, 1, (size_t)(count * r.bytes)); /* pages of its own, not one page of zeros */
    for (int64_t i = 0; i < count; i++) {         /* the pages of all outputs */
        run_next(&r);
        copy_next(&r);
    }
    least_ns((void (*const[2])(void *)){run_next, copy_next}, (void *const[2]){&r, &r}, cold ? 2 : 0.2, ns);
    m.ns = ns[0];
    m.copy_ns = ns[1];
    call empty = *calls;
    call_x(&empty)->rows = 0;
    m.empty_ns = median_ns(call_must_run, &empty, 0.01);
    free(r.from);
    free(r.to);
    return m;
}

static void print_result(const options *o, call *c, const measured *m, bool first)
{
    const epiq_sizes *z = &c->sizes;
    const double rows = z->rows > 0 ? (double)z->rows : 1, gb = (double)m->bytes / m->ns,
                 copy_gb = (double)m->bytes / m->copy_ns;
    const char *format = c->quantizes ? epiq_word(c->out.format) : "none";
    const char *grain = c->quantizes ? epiq_word(z->grain) : "-", *dtype = epiq_word(call_x(c)->dtype);
    const char *backend = c->exec.backend ? epiq_word(c->exec.backend) : "default";
    const char *layout = c->quantizes ? epiq_word(z->layout ? z->layout : EPIQ_LAYOUT_ROW) : "-";
    if (o->json) {
        printf("%s\n  {\"op\": \"%s\", \"dtype\": \"%s\", \"format\": \"%s\", \"grain\": \"%s\", \"group\": %d, "
               "\"layout\": \"%s\", \"rows\": %" PRId64 ", \"cols\": %" PRId64 ", \"bytes\": %" PRId64
               ", \"ns_per_row\": %.6g, \"gb_per_s\": %.6g, \"copy_ns_per_row\": %.6g, \"copy_gb_per_s\": %.6g, "
               "\"copy_share\": %.4g, \"empty_ns\": %.6g, \"backend\": \"%s\"}",
               first ? "{\"results\": [" : ",", operation_name(c->operation), dtype, format, grain, z->group, layout,
               z->rows, z->cols, m->bytes, m->ns / rows, gb, m->copy_ns / rows, copy_gb, m->copy_ns / m->ns,
               m->empty_ns, backend);
    } else if (o->csv) {
        if (first)
            printf("op,dtype,format,grain,group,layout,rows,cols,bytes,ns_per_row,gb_per_s,copy_ns_per_row,"
                   "copy_gb_per_s,copy_share,empty_ns,backend\n");
        printf("%s,%s,%s,%s,%d,%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%.6g,%.6g,%.6g,%.6g,%.4g,%.6g,%s\n",
               operation_name(c->operation), dtype, format, grain, z->group, layout, z->rows, z->cols, m->bytes,
               m->ns / rows, gb, m->copy_ns / rows, copy_gb, m->copy_ns / m->ns, m->empty_ns, backend);
    } else {
        if (first)
            printf("%-8s %-5s %-6s %-6s %-12s %7s %7s %10s %7s %10s %7s %6s %8s %s\n", "op", "dtype", "format", "grain",
                   "layout", "rows", "cols", "ns/row", "GB/s", "copy ns", "GB/s", "share", "empty ns", "backend");
        printf("%-8s %-5s %-6s %-6s %-12s %7" PRId64 " %7" PRId64 " %10.1f %7.2f %10.1f %7.2f %6.2f %8.0f %s\n",
               operation_name(c->operation), dtype, format, grain, layout, z->rows, z->cols, m->ns / rows, gb,
               m->copy_ns / rows, copy_gb, m->copy_ns / m->ns, m->empty_ns, backend);
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
    const int64_t bytes = call_bytes_read(&probe) + call_bytes_written(&probe);
    const int64_t count = 1 + (bytes > 0 ? (o->cold << 20) / bytes : 0);
    call *calls = allocate(count * (int64_t)sizeof *calls);
    void *weight = allocate(cols * dtype_bytes(weight_dtype));
    make_values(weight, weight_dtype, cols, &state, false);
    c.rms_norm.weight = weight;
    unsigned char *x = allocate(count * x_count * element), *other = allocate(count * rows * cols * element);
    make_values(x, o->dtype, x_count, &state, false);
    make_values(other, o->dtype, rows * cols, &state, false);
    for (int64_t i = 0; i < count; i++) {
        calls[i] = c;
        unsigned char *own_x = x + i * x_count * element, *own_other = other + i * rows * cols * element;
        if (i > 0) {
            memcpy(own_x, x, (size_t)(x_count * element));
            memcpy(own_other, other, (size_t)(rows * cols * element));
        }
        call_x(&calls[i])->data = own_x;
        if (o->up)
            calls[i].act_mul.up = own_other;
        if (o->residual)
            calls[i].rms_norm.residual = own_other;
        status = call_allocate(&calls[i], o->y || o->plain, o->residual_out);
        if (status != EPIQ_OK)
            call_refuse(&calls[i], status);
    }
    measured m = measure(calls, count, o->cold > 0);
    progress(NULL);
    print_result(o, calls, &m, first);
    for (int64_t i = 0; i < count; i++)
        call_free(&calls[i]);
    free(calls);
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
