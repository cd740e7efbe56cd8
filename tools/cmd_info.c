/* cmd_info.c: epiq info and epiq explain: what there is, and one combination in words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call.h"
#include "command.h"

#include <stdio.h>

/* Words are listed of formats that no build has yet: those that this one has accept some call. */
static bool has_format(epiq_format format)
{
    epiq_quantize_args args = {.struct_size = sizeof args, .x = {.rows = 1, .cols = 128, .dtype = EPIQ_DTYPE_F32}};
    epiq_output out = {.struct_size = sizeof out, .format = format};
    float unused;
    if (format == EPIQ_FORMAT_NVFP4)
        out.inv_scale = &unused;
    return epiq_check_quantize(&args, &out, NULL, NULL) == EPIQ_OK;
}

static void print_list(const options *o, const char *kind, bool formats)
{
    const char *between = "";
    printf(o->json ? ", \"%ss\": [" : "%ss: ", kind);
    for (int i = 0; nth_value(kind, i) != 0; i++) {
        int32_t value = nth_value(kind, i);
        if (formats && !has_format((epiq_format)value))
            continue;
        printf(o->json ? "%s\"%s\"" : "%s%s", between, epiq_word(value));
        between = o->json ? ", " : " ";
    }
    printf(o->json ? "]" : "\n");
}

int cmd_info(options *o)
{
    int32_t v = epiq_version(), backend;
    char text[400];
    if (o->json) {
        printf("{\"version\": \"%d.%d.%d\", \"spec_revision\": %d, \"build\": ", v / 10000, v / 100 % 100, v % 100,
               epiq_spec_revision());
        print_json_string(epiq_build_info());
        printf(", \"backends\": [");
    } else {
        printf("epiq %d.%d.%d, spec revision %d\nbuild: %s\nbackends:\n", v / 10000, v / 100 % 100, v % 100,
               epiq_spec_revision(), epiq_build_info());
    }
    for (int i = 0; (backend = nth_value("backend", i)) != 0; i++) {
        bool usable = epiq_backend_usable((epiq_backend)backend, 0, text, sizeof text) == EPIQ_OK;
        if (o->json) {
            printf("%s{\"name\": \"%s\", \"usable\": %s, \"text\": ", i ? ", " : "", epiq_word(backend),
                   usable ? "true" : "false");
            print_json_string(text);
            printf("}");
        } else {
            printf("  %-8s %-7s %s\n", epiq_word(backend), usable ? "usable" : "no", text);
        }
    }
    if (o->json)
        printf("]");
    print_list(o, "format", true);
    print_list(o, "act", false);
    if (o->json)
        printf("}\n");
    return 0;
}

static epiq_status explain_dequantize(call *c, const options *o, char *text, size_t bytes)
{
    epiq_dequantize_args d = {.struct_size = sizeof d, .format = o->out.format, .grain = o->out.grain};
    d.group = o->out.group;
    d.layout = o->out.layout;
    d.rows = o->rows;
    d.cols = o->cols;
    d.padded_cols = o->out.padded_cols;
    d.y_dtype = o->dtype;
    d.codes = mark(0);
    d.scale_stride = o->out.scale_stride;
    d.scale = c->out.scale || !c->out.inv_scale || d.format == EPIQ_FORMAT_NVFP4 ? mark(1) : NULL;
    d.inv_scale = c->out.inv_scale;
    d.y_out = mark(2);
    epiq_explain_dequantize(&d, &c->exec, text, bytes);
    return epiq_check_dequantize(&d, &c->exec, NULL);
}

int cmd_explain(options *o)
{
    call c;
    char text[4000] = "";
    epiq_status status;
    if (o->dtype == 0)
        o->dtype = EPIQ_DTYPE_BF16;
    if (o->operation == LAYOUT && o->plain)
        fail(EXIT_UNUSABLE, "explain layout: --format none stores no scales");
    call_begin(&c, o->operation == LAYOUT ? QUANTIZE : o->operation, o);
    if (o->operation == DEQUANTIZE) {
        status = explain_dequantize(&c, o, text, sizeof text);
    } else {
        call_shape(&c, o->rows, o->cols, o->dtype, NULL);
        if (o->up)
            c.act_mul.up = mark(7);
        if (o->residual)
            c.rms_norm.residual = mark(8);
        c.rms_norm.weight = mark(9);
        status = call_mark(&c, o->y || !c.quantizes, o->residual_out);
        call_explain(&c, text, sizeof text);
    }
    if (status != EPIQ_OK)
        refuse(status, operation_name(o->operation), text);
    if (o->operation == LAYOUT)
        print_layout(&c);
    else
        printf("%s", text);
    return 0;
}
