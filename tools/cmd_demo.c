/* cmd_demo.c: epiq demo: every format on the activations of a real model, as one table.
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "call.h"
#include "command.h"
#include "tensors.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The data ---------------------------------------------------------------------------------------------------
 * Files of a folder. A layer is four tensors, called residual, x, weight, gate_up, or the same behind a prefix. Its
 * number stands behind the word `layer` in the prefix or else in the file's name. */

typedef struct layer {
    int64_t number;
    tensor residual, x, weight, gate_up;
} layer;

typedef struct data {
    char path[1024];
    io_file *files;
    layer *layers;
    int file_count, count;
    const char *model; /* from the metadata; NULL if it does not say */
} data;

static int is_data_file(const struct dirent *e)
{
    size_t length = strlen(e->d_name);
    return length > 12 && strcmp(e->d_name + length - 12, ".safetensors") == 0;
}

/* Whether the files that come with epiq lie there. */
static bool is_bundle(const char *path)
{
    DIR *folder = opendir(path);
    bool found = false;
    if (folder == NULL)
        return false;
    for (struct dirent *e; (e = readdir(folder)) != NULL;)
        if (is_data_file(e) && strncmp(e->d_name, "smollm2_", 8) == 0)
            found = true;
    closedir(folder);
    return found;
}

/* --data; else share/epiq/data or data in a folder above the command (installed, or built inside the source tree),
 * or where the build said that they are. */
static void find_folder(const options *o, char *path, size_t bytes)
{
    if (o->data != NULL) {
        snprintf(path, bytes, "%s", o->data);
        return;
    }
    char self[900];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    for (char *slash; (slash = strrchr(self, '/')) != NULL;) {
        *slash = '\0';
        snprintf(path, bytes, "%s/share/epiq/data", self);
        if (is_bundle(path))
            return;
        snprintf(path, bytes, "%s/data", self);
        if (is_bundle(path))
            return;
    }
#ifdef EPIQ_DATA_DIR
    snprintf(path, bytes, "%s", EPIQ_DATA_DIR);
    if (is_bundle(path))
        return;
#endif
    fail(EXIT_UNUSABLE, "the bundled activations are not found; say where they are: --data DIR");
}

static int64_t layer_number(const char *text, int64_t otherwise)
{
    int64_t number = -1;
    for (const char *at = text; (at = strstr(at, "layer")) != NULL;) {
        at += 5;
        if (isdigit((unsigned char)*at))
            number = strtoll(at, NULL, 10);
    }
    return number >= 0 ? number : otherwise;
}

static void take(tensor *t, const io_file *file, const char *path, const char *prefix, const char *name)
{
    char full[300];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const io_tensor *stored = io_find(file, full);
    if (stored == NULL)
        fail(EXIT_UNUSABLE, "%s has no tensor '%s'", path, full);
    tensor_use(t, path, stored);
}

static void add_layers(data *d, const io_file *file, const char *path, const char *file_name)
{
    for (size_t i = 0; i < file->count; i++) {
        static const char mark_name[] = "residual";
        const char *name = file->tensors[i].name;
        size_t length = strlen(name), prefix = length - (sizeof mark_name - 1);
        if (length < sizeof mark_name - 1 || length > 200 || strcmp(name + prefix, mark_name) != 0)
            continue;
        if (prefix > 0 && name[prefix - 1] != '.')
            continue;
        char before[256];
        layer l = {0};
        snprintf(before, sizeof before, "%.*s", (int)prefix, name);
        l.number = layer_number(prefix > 0 ? before : file_name, d->count);
        take(&l.residual, file, path, before, "residual");
        take(&l.x, file, path, before, "x");
        take(&l.weight, file, path, before, "weight");
        take(&l.gate_up, file, path, before, "gate_up");
        if (l.x.rows != l.residual.rows || l.x.cols != l.residual.cols || l.x.dtype != l.residual.dtype ||
            l.weight.rows != 1 || l.weight.cols != l.x.cols || l.gate_up.cols % 2 != 0 || l.x.rows < 1)
            fail(EXIT_UNUSABLE, "%s: the shapes of %sresidual, x, weight, gate_up do not go together", path, before);
        layer *more = realloc(d->layers, (size_t)(d->count + 1) * sizeof *more);
        if (more == NULL)
            fail(EXIT_UNUSABLE, "there is no memory for the layers");
        d->layers = more;
        d->layers[d->count++] = l;
    }
}

static int by_number(const void *a, const void *b)
{
    const layer *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static void open_data(data *d, const options *o)
{
    struct dirent **names;
    memset(d, 0, sizeof *d);
    find_folder(o, d->path, sizeof d->path);
    int count = scandir(d->path, &names, is_data_file, alphasort);
    if (count < 0)
        fail(EXIT_UNUSABLE, "the folder %s cannot be read", d->path);
    d->files = allocate(count * (int64_t)sizeof *d->files);
    for (int i = 0; i < count; i++) {
        char path[1400], why[IO_TEXT];
        snprintf(path, sizeof path, "%s/%s", d->path, names[i]->d_name);
        if (io_open(path, &d->files[d->file_count], why) != 0)
            fail(EXIT_UNUSABLE, "%s", why);
        add_layers(d, &d->files[d->file_count], path, names[i]->d_name);
        if (d->model == NULL)
            d->model = io_metadata(&d->files[d->file_count], "model");
        d->file_count++;
        free(names[i]);
    }
    free(names);
    if (d->count == 0)
        fail(EXIT_UNUSABLE, "no file in %s has the tensors residual, x, weight and gate_up", d->path);
    qsort(d->layers, (size_t)d->count, sizeof *d->layers, by_number);
}

static void close_data(data *d)
{
    for (int i = 0; i < d->file_count; i++)
        io_close(&d->files[i]);
    free(d->files);
    free(d->layers);
}

/* ---- The table -------------------------------------------------------------------------------------------------- */

typedef enum scale_from { COMPUTED, OWN_AMAX, OTHER_LAYER } scale_from;

/* What is tried with every format; what the library refuses for one is left out. */
static const struct {
    const char *word; /* for the column `scale`; NULL: mx_round's or nvfp4's */
    scale_from scale;
    epiq_output out;
} trials[] = {
    {"own amax", OWN_AMAX, {.grain = EPIQ_GRAIN_TENSOR}},
    {"other layer", OTHER_LAYER, {.grain = EPIQ_GRAIN_TENSOR}},
    {"dynamic", COMPUTED, {.grain = EPIQ_GRAIN_TENSOR}},
    {"dynamic", COMPUTED, {.grain = EPIQ_GRAIN_TOKEN}},
    {"fp32", COMPUTED, {.grain = EPIQ_GRAIN_GROUP, .group = 128, .layout = EPIQ_LAYOUT_COL_ALIGNED}},
    {"power of 2", COMPUTED, {.grain = EPIQ_GRAIN_GROUP, .group = 128, .layout = EPIQ_LAYOUT_PACKED_UE8M0}},
    {NULL, COMPUTED, {.layout = EPIQ_LAYOUT_TILE128X4, .mx_round = EPIQ_MX_ROUND_CEIL}},
    {NULL, COMPUTED, {.layout = EPIQ_LAYOUT_TILE128X4, .mx_round = EPIQ_MX_ROUND_FLOOR}},
    {NULL, COMPUTED, {.layout = EPIQ_LAYOUT_TILE128X4, .mx_round = EPIQ_MX_ROUND_VLLM}},
    {NULL, COMPUTED, {.layout = EPIQ_LAYOUT_TILE128X4, .nvfp4 = EPIQ_NVFP4_VLLM}},
    {NULL, COMPUTED, {.layout = EPIQ_LAYOUT_TILE128X4, .nvfp4 = EPIQ_NVFP4_IEEE}},
};
enum { TRIALS = sizeof trials / sizeof trials[0], MOST_ROWS = 200 };

typedef struct row {
    int operation, trial;
    epiq_format format;
    epiq_sizes sizes;
    const char *scale;
    int64_t bytes_in, bytes_out;
    double ns_per_row;
    accuracy accuracy;
} row;

/* One operation on one layer, not quantized: its call, its y as fp32 and the amax of y. */
typedef struct source {
    call base;
    float *reference;
    float amax;
} source;

static void open_source(source *s, int operation, const layer *l, options *o, epiq_exec exec)
{
    call *c = &s->base;
    const tensor *x = operation == ACT_MUL ? &l->gate_up : &l->x;
    call_begin(c, operation, o);
    c->exec = exec;
    epiq_matrix matrix = {.data = x->data, .rows = x->rows, .cols = x->cols, .dtype = x->dtype};
    *call_x(c) = matrix;
    c->rms_norm.residual = l->residual.data;
    c->rms_norm.weight = l->weight.data;
    c->rms_norm.weight_dtype = l->weight.dtype;
    c->quantizes = false;
    epiq_status status = call_mark(c, true, false);
    if (status != EPIQ_OK)
        call_refuse(c, status);
    s->reference = call_reference(c);
    s->amax = 0;
    for (int64_t i = 0; i < c->sizes.rows * c->sizes.cols; i++)
        if (fabsf(s->reference[i]) > s->amax)
            s->amax = fabsf(s->reference[i]);
    c->quantizes = true;
}

/* False if the library does not offer this; `other` is the source that scale_from OTHER_LAYER is calibrated on. */
static bool add_to_row(row *r, const source *s, const source *other)
{
    call c = s->base;
    float scale = 0;
    c.out = trials[r->trial].out;
    c.out.struct_size = sizeof c.out;
    c.out.format = r->format;
    if (trials[r->trial].scale != COMPUTED) {
        float amax = trials[r->trial].scale == OWN_AMAX ? s->amax : other == s ? s->amax / 8 : other->amax;
        if (format_max(r->format) == 0)
            return false;
        scale = amax / (float)format_max(r->format);
        c.out.scale = &scale;
    }
    if (call_allocate(&c, false, false) != EPIQ_OK)
        return false;
    r->ns_per_row += median_ns(call_must_run, &c, 0.004);
    call_accuracy(&c, s->reference, &r->accuracy);
    r->sizes = c.sizes;
    r->bytes_in += call_bytes_read(&c);
    r->bytes_out += call_bytes_written(&c);
    call_free(&c);
    return true;
}

static const char *scale_word(const row *r, bool alone)
{
    const epiq_output *out = &trials[r->trial].out;
    if (trials[r->trial].scale == OTHER_LAYER && alone)
        return "amax / 8";
    if (trials[r->trial].word)
        return trials[r->trial].word;
    return epiq_word(out->mx_round ? (int32_t)out->mx_round : (int32_t)out->nvfp4);
}

static int make_rows(row *rows, const data *d, int first, int last, options *o, epiq_exec exec)
{
    static const int operations[] = {ACT_MUL, RMS_NORM};
    source *sources = allocate(d->count * (int64_t)sizeof *sources);
    int count = 0;
    for (int p = 0; p < 2; p++) {
        int64_t tokens = 0;
        for (int l = 0; l < d->count; l++)
            open_source(&sources[l], operations[p], &d->layers[l], o, exec);
        for (int l = first; l <= last; l++)
            tokens += sources[l].base.sizes.rows;
        for (int f = 0; nth_value("format", f) != 0; f++) {
            for (int t = 0; t < TRIALS && count < MOST_ROWS; t++) {
                row r = {.operation = operations[p], .trial = t, .format = (epiq_format)nth_value("format", f)};
                bool offered = true;
                progress("%s %s", operation_name(r.operation), epiq_word(r.format));
                for (int l = first; l <= last && offered; l++)
                    offered = add_to_row(&r, &sources[l], &sources[(l + 1) % d->count]);
                if (!offered)
                    continue;
                r.ns_per_row /= (double)tokens;
                r.scale = scale_word(&r, d->count == 1);
                rows[count++] = r;
            }
        }
        for (int l = 0; l < d->count; l++)
            free(sources[l].reference);
    }
    free(sources);
    progress(NULL);
    return count;
}

static const char *grain_text(const row *r, char text[24])
{
    snprintf(text, 24, r->sizes.grain == EPIQ_GRAIN_GROUP ? "%s %d" : "%s", epiq_word(r->sizes.grain), r->sizes.group);
    return text;
}

static void print_rows(const row *rows, int count)
{
    char grain[24];
    printf("%-8s %-6s %-9s %-12s %-11s %6s %7s %7s %6s %6s %5s %6s\n", "op", "format", "grain", "layout", "scale",
           "out/in", "SQNR dB", "max err", "sat %", "zero %", "NaN", "ns/row");
    for (int i = 0; i < count; i++) {
        const row *r = &rows[i];
        const accuracy *a = &r->accuracy;
        if (i > 0 && r->operation != rows[i - 1].operation)
            printf("\n");
        printf("%-8s %-6s %-9s %-12s %-11s %6.3f %7.2f %7.4f %6.2f %6.2f %5" PRId64 " %6.0f\n",
               operation_name(r->operation), epiq_word(r->format), grain_text(r, grain),
               epiq_word(r->sizes.layout ? r->sizes.layout : EPIQ_LAYOUT_ROW), r->scale,
               (double)r->bytes_out / (double)r->bytes_in, accuracy_sqnr(a), a->worst,
               accuracy_percent(a, a->saturated), accuracy_percent(a, a->flushed), a->nan_out, r->ns_per_row);
    }
}

static void print_rows_json(const row *rows, int count)
{
    printf("{\"rows\": [");
    for (int i = 0; i < count; i++) {
        const row *r = &rows[i];
        printf("%s\n  {\"op\": \"%s\", \"format\": \"%s\", \"grain\": \"%s\", \"group\": %d, \"layout\": \"%s\", "
               "\"scale\": \"%s\", \"bytes_in\": %" PRId64 ", \"bytes_out\": %" PRId64 ", \"ns_per_row\": ",
               i ? "," : "", operation_name(r->operation), epiq_word(r->format), epiq_word(r->sizes.grain),
               r->sizes.group, epiq_word(r->sizes.layout ? r->sizes.layout : EPIQ_LAYOUT_ROW), r->scale, r->bytes_in,
               r->bytes_out);
        print_json_number(r->ns_per_row);
        printf(", ");
        accuracy_print_json(&r->accuracy);
        printf("}");
    }
    printf("\n]}\n");
}

/* ---- What the table shows --------------------------------------------------------------------------------------- */

static const row *find_row(const row *rows, int count, int operation, epiq_format format, epiq_grain grain,
                           scale_from scale)
{
    for (int i = 0; i < count; i++)
        if (rows[i].operation == operation && rows[i].format == format && rows[i].sizes.grain == grain &&
            trials[rows[i].trial].scale == scale)
            return &rows[i];
    return NULL;
}

/* Of the rows with codes of so many bits, the most accurate one. */
static const row *best_row(const row *rows, int count, int operation, int bits)
{
    const row *best = NULL;
    for (int i = 0; i < count; i++)
        if (rows[i].operation == operation && format_bits(rows[i].format) == bits &&
            (best == NULL || accuracy_sqnr(&rows[i].accuracy) > accuracy_sqnr(&best->accuracy)))
            best = &rows[i];
    return best;
}

static size_t name_row(char *text, size_t bytes, const row *r)
{
    char grain[24];
    int n = snprintf(text, bytes, "%s by %s (%s) with %.1f dB", epiq_word(r->format), grain_text(r, grain), r->scale,
                     accuracy_sqnr(&r->accuracy));
    return n > 0 && (size_t)n < bytes ? (size_t)n : 0;
}

static void say_best(const row *rows, int count, int bits)
{
    const row *a = best_row(rows, count, ACT_MUL, bits), *n = best_row(rows, count, RMS_NORM, bits);
    char act[120], norm[120], text[400];
    if (a == NULL || n == NULL)
        return;
    name_row(act, sizeof act, a);
    name_row(norm, sizeof norm, n);
    snprintf(text, sizeof text, "Most accurate with %d bits: %s for act_mul, %s for rms_norm.", bits, act, norm);
    print_wrapped(0, 0, text);
}

/* How much the accuracy changes between two rows that differ in where the scale comes from. */
static void say_change(const row *rows, int count, epiq_format format, const char *how, epiq_grain grain,
                       scale_from scale)
{
    char text[600];
    size_t used = (size_t)snprintf(
        text, sizeof text, "%s %s instead of one calibrated on the layer itself changes SQNR", epiq_word(format), how);
    static const int operations[] = {ACT_MUL, RMS_NORM};
    for (int p = 0; p < 2; p++) {
        const row *own = find_row(rows, count, operations[p], format, EPIQ_GRAIN_TENSOR, OWN_AMAX);
        const row *other = find_row(rows, count, operations[p], format, grain, scale);
        if (own == NULL || other == NULL)
            return;
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%s by %+.1f dB for %s (%.2f %% saturated, %.2f %% zeroed)",
            p ? " and" : "", accuracy_sqnr(&other->accuracy) - accuracy_sqnr(&own->accuracy),
            operation_name(operations[p]), accuracy_percent(&other->accuracy, other->accuracy.saturated),
            accuracy_percent(&other->accuracy, other->accuracy.flushed));
    }
    snprintf(text + used, sizeof text - used, ".");
    print_wrapped(0, 0, text);
}

int cmd_demo(options *o)
{
    data d;
    int first, last, count;
    row *rows = allocate(MOST_ROWS * (int64_t)sizeof *rows);
    epiq_exec exec = make_exec(o);
    open_data(&d, o);
    first = 0;
    last = d.count - 1;
    if (o->layer >= 0) {
        for (first = 0; first < d.count && d.layers[first].number != o->layer;)
            first++;
        if (first == d.count) {
            char list[200] = "";
            for (int i = 0; i < d.count; i++)
                snprintf(list + strlen(list), sizeof list - strlen(list), " %" PRId64, d.layers[i].number);
            fail(EXIT_UNUSABLE, "--layer: there is no layer %" PRId64 "; there are:%s", o->layer, list);
        }
        last = first;
    }
    count = make_rows(rows, &d, first, last, o, exec);
    if (o->json) {
        print_rows_json(rows, count);
    } else {
        int64_t tokens = 0;
        const char *model = d.model && strrchr(d.model, '/') ? strrchr(d.model, '/') + 1 : d.model;
        printf("%.40s%slayer%s", model ? model : "", model ? ", " : "", last > first ? "s" : "");
        for (int l = first; l <= last; l++) {
            printf("%s %" PRId64, l > first ? "," : "", d.layers[l].number);
            tokens += d.layers[l].x.rows;
        }
        printf(": %" PRId64 " rows of %" PRId64 " (rms_norm) and %" PRId64 " (act_mul)\n\n", tokens,
               d.layers[first].x.cols, d.layers[first].gate_up.cols / 2);
        print_rows(rows, count);
        printf("\n");
        say_best(rows, count, 8);
        say_best(rows, count, 4);
        say_change(rows, count, EPIQ_FORMAT_E4M3, d.count > 1 ? "with the scale of another layer" : "with amax / 8",
                   EPIQ_GRAIN_TENSOR, OTHER_LAYER);
        say_change(rows, count, EPIQ_FORMAT_E4M3, "with one scale a row", EPIQ_GRAIN_TOKEN, COMPUTED);
        printf("`epiq demo --help` says what the columns are.\n");
    }
    end_exec(&exec);
    close_data(&d);
    free(rows);
    return 0;
}
