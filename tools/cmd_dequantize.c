/* cmd_dequantize.c: epiq dequantize: from a file of codes, scales and metadata back to values.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call.h"
#include "command.h"
#include "tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *recorded(const io_file *file, const char *path, const char *key)
{
    const char *text = io_metadata(file, key);
    if (text == NULL)
        fail(EXIT_UNUSABLE, "%s: its metadata lacks '%s'; was it written by epiq?", path, key);
    return text;
}

static int32_t recorded_word(const io_file *file, const char *path, const char *key)
{
    const char *text = recorded(file, path, key);
    int32_t value = epiq_value(key, text);
    if (value == 0)
        fail(EXIT_UNUSABLE, "%s: metadata '%s' is '%.40s', which is no word for it", path, key, text);
    return value;
}

static int64_t recorded_int(const io_file *file, const char *path, const char *key, int64_t most)
{
    const char *text = recorded(file, path, key);
    int64_t value;
    if (!read_int(text, &value) || value < 0 || value > most)
        fail(EXIT_UNUSABLE, "%s: metadata '%s' is '%.40s', not a number of 0 to %" PRId64, path, key, text, most);
    return value;
}

/* The tensor of that name if it has this dtype and shape; one value may have any shape. */
static const void *stored(const io_file *file, const char *path, const char *name, io_dtype dtype, int64_t rows,
                          int64_t cols)
{
    const io_tensor *t = io_find(file, name);
    if (t == NULL)
        fail(EXIT_UNUSABLE, "%s has no tensor '%s'", path, name);
    bool fits = t->rank == 2 && t->shape[0] == rows && t->shape[1] == cols;
    if (rows == 1 && cols == 1)
        fits = t->bytes == io_dtype_bytes(dtype);
    if (t->dtype != dtype || !fits || t->bytes != io_dtype_bytes(dtype) * (size_t)rows * (size_t)cols)
        fail(EXIT_UNUSABLE, "%s: tensor '%s' is not the %s [%" PRId64 ", %" PRId64 "] that the metadata asks for", path,
             name, io_dtype_word(dtype), rows, cols);
    return t->data;
}

/* One fp32 value, finite and > 0, at an aligned address. */
static float *stored_scale(const io_file *file, const char *path, const char *name)
{
    float *value = allocate(sizeof *value);
    memcpy(value, stored(file, path, name, IO_F32, 1, 1), sizeof *value);
    if (!isfinite(*value) || !(*value > 0))
        fail(EXIT_UNUSABLE, "%s: tensor '%s' holds %g, which is not finite and > 0", path, name, (double)*value);
    return value;
}

int cmd_dequantize(options *o)
{
    const char *path = o->positional;
    char why[1000];
    io_file file = {0};
    if (io_open(path, &file, why) != 0)
        fail(EXIT_UNUSABLE, "input: %s", why);
    if (strcmp(recorded(&file, path, "format"), "none") == 0)
        fail(EXIT_UNUSABLE, "%s holds no codes: it was written with --format none", path);

    epiq_dequantize_args d = {.struct_size = sizeof d};
    epiq_sizes z = {.struct_size = sizeof z};
    d.format = recorded_word(&file, path, "format");
    d.grain = recorded_word(&file, path, "grain");
    d.group = (int32_t)recorded_int(&file, path, "group", INT32_MAX);
    d.scale_dtype = recorded_word(&file, path, "scale_dtype");
    d.rows = recorded_int(&file, path, "rows", INT32_MAX);
    d.cols = recorded_int(&file, path, "cols", INT32_MAX);
    d.padded_cols = recorded_int(&file, path, "padded_cols", INT32_MAX);
    d.layout = recorded_word(&file, path, "layout");
    d.y_dtype = o->dtype ? o->dtype : (epiq_dtype)recorded_word(&file, path, "dtype");
    bool nvfp4 = d.format == EPIQ_FORMAT_NVFP4, one_scale = d.grain == EPIQ_GRAIN_TENSOR;
    if (one_scale && io_find(&file, "scale") && io_find(&file, "inv_scale"))
        fail(EXIT_UNUSABLE, "%s has both 'scale' and 'inv_scale'; one of them belongs to grain tensor", path);
    float *scale = NULL, *inv_scale = NULL;
    if (nvfp4 || (one_scale && !io_find(&file, "scale"))) {
        d.inv_scale = inv_scale = stored_scale(&file, path, "inv_scale");
        if (one_scale)
            d.scale_dtype = 0; /* recorded, but none is stored */
    } else if (one_scale)
        d.scale = scale = stored_scale(&file, path, "scale");

    epiq_exec exec = make_exec(o);
    epiq_status status = epiq_check_dequantize(&d, &exec, &z);
    if (status == EPIQ_OK) {
        d.codes = stored(&file, path, "q", code_dtype(d.format), z.rows, z.codes_row_bytes);
        if (!one_scale)
            d.scale = stored(&file, path, "scale", stored_dtype(z.scale_dtype), z.scale_shape[0], z.scale_shape[1]);
        d.y_out = allocate(z.y_bytes);
        status = epiq_dequantize(&d, &exec);
    }
    if (status != EPIQ_OK) {
        epiq_explain_dequantize(&d, &exec, why, sizeof why);
        refuse(status, path, why);
    }
    float *values = widened(d.y_out, d.y_dtype, d.rows * d.cols);
    double amax = 0;
    int64_t nan = 0;
    for (int64_t i = 0; i < d.rows * d.cols; i++) {
        nan += isnan(values[i]) != 0;
        amax = fmax(amax, fabs((double)values[i]));
    }
    io_tensor y = new_tensor("y", stored_dtype(d.y_dtype), 2, d.rows, d.cols, d.y_out);
    const char *const metadata[] = {"op",    "dequantize",       "format", epiq_word(d.format),
                                    "grain", epiq_word(d.grain), "dtype",  epiq_word(d.y_dtype)};
    write_tensors(o->output, &y, 1, metadata,
                  sizeof metadata / sizeof metadata[0] / 2); /* when nothing else can fail */
    if (o->json) {
        printf("{\"op\": \"dequantize\", \"rows\": %" PRId64 ", \"cols\": %" PRId64
               ", \"dtype\": \"%s\", \"format\": \"%s\", \"grain\": \"%s\", \"amax\": ",
               d.rows, d.cols, epiq_word(d.y_dtype), epiq_word(d.format), epiq_word(d.grain));
        print_json_number(amax);
        printf(", \"nan\": %" PRId64 "}\n", nan);
    } else {
        printf("dequantize %s %s to [%" PRId64 ", %" PRId64 "] %s: amax %g, NaN %" PRId64 "\n", epiq_word(d.format),
               epiq_word(d.grain), d.rows, d.cols, epiq_word(d.y_dtype), amax, nan);
    }
    free(values);
    free(d.y_out);
    free(scale);
    free(inv_scale);
    end_exec(&exec);
    io_close(&file);
    return 0;
}
