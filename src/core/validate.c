/* validate.c: every argument rule, in the order of doc/spec.md 7, and the plan that a valid call becomes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The order within a function is the order of the rules: structs, listed values, ranges, contradictions, combinations
 * that are not offered, shapes, strides. The first rule that fails gives the status and the text. */
#include "plan.h"

#include "lists.h"

#include <math.h>
#include <string.h>

enum { MAX_COLS = 1 << 28 };
#define MAX_ROWS INT64_C(0x7fffffff)

#define REQUIRE(condition, status, ...)                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            epiqi_print(why, __VA_ARGS__);                                                                             \
            return (status);                                                                                           \
        }                                                                                                              \
    } while (0)

/* For functions that answer a status: pass a refusal on. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        epiq_status status_ = (call);                                                                                  \
        if (status_ != EPIQ_OK)                                                                                        \
            return status_;                                                                                            \
    } while (0)

enum {
#define X(upper, lower, bits, block, scale, grains) INDEX_##upper,
    EPIQI_FORMATS(X)
#undef X
};

static const epiqi_format formats[] = {
#define X(upper, lower, bits, block, scale, grains)                                                                    \
    {EPIQ_FORMAT_##upper, INDEX_##upper, bits, block, EPIQ_DTYPE_##scale, grains},
    EPIQI_FORMATS(X)
#undef X
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

const epiqi_format *epiqi_find_format(epiq_format format)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].format == format)
            return &formats[i];
    return NULL;
}

int32_t epiqi_dtype_bytes(epiq_dtype dtype)
{
    switch (dtype) {
    case EPIQ_DTYPE_F32:
    case EPIQ_DTYPE_I32:
        return 4;
    case EPIQ_DTYPE_F16:
    case EPIQ_DTYPE_BF16:
        return 2;
    default:
        return 1;
    }
}

static const char *word_of(int32_t value)
{
    const char *word = epiq_word(value);
    return word != NULL ? word : "?";
}

/* ---- 1 Structs ---- */

static epiq_status check_struct(const void *data, size_t known, const char *name, epiqi_text *why)
{
    REQUIRE(data != NULL, EPIQ_ERROR_STRUCT, "%s: NULL", name);
    uint32_t size;
    memcpy(&size, data, sizeof size);
    REQUIRE(size != 0, EPIQ_ERROR_STRUCT, "%s.struct_size: 0; set it to sizeof the struct", name);
    REQUIRE(size >= known, EPIQ_ERROR_STRUCT, "%s.struct_size: %u, but the oldest struct has %zu bytes", name, size,
            known);
    REQUIRE(size <= EPIQI_MAX_STRUCT, EPIQ_ERROR_STRUCT, "%s.struct_size: %u; no struct has more than %d bytes", name,
            size, EPIQI_MAX_STRUCT);
    const unsigned char *bytes = data;
    for (size_t i = known; i < size; i++)
        REQUIRE(bytes[i] == 0, EPIQ_ERROR_STRUCT,
                "%s: byte %zu is set, a field that this library (version %d) does not have", name, i, epiq_version());
    return EPIQ_OK;
}

static epiq_status check_reserved(int32_t reserved, const char *name, epiqi_text *why)
{
    REQUIRE(reserved == 0, EPIQ_ERROR_STRUCT, "%s: %d; it must be 0", name, reserved);
    return EPIQ_OK;
}

/* ---- 2 Listed values ---- */

/* `any` is a value of the list; 0 is allowed unless `required`. */
static epiq_status check_word(int32_t value, int32_t any, const char *name, int required, epiqi_text *why)
{
    int32_t start = any / 100 * 100;
    if (value == 0 && !required)
        return EPIQ_OK;
    if (value > start && value < start + 100 && epiq_word(value) != NULL)
        return EPIQ_OK;
    if (value == 0)
        epiqi_print(why, "%s: required; one of", name);
    else
        epiqi_print(why, "%s: %d is not one of", name, value);
    for (int32_t v = start + 1; v < start + 100; v++)
        if (epiq_word(v) != NULL)
            epiqi_print(why, " %s (%d)", epiq_word(v), v);
    return EPIQ_ERROR_VALUE;
}

/* A dtype that x, y or weight may have: scales have others in the same list. */
static epiq_status check_dtype(epiq_dtype dtype, const char *name, int required, epiqi_text *why)
{
    if (dtype == 0 && !required)
        return EPIQ_OK;
    REQUIRE(dtype == EPIQ_DTYPE_F32 || dtype == EPIQ_DTYPE_F16 || dtype == EPIQ_DTYPE_BF16, EPIQ_ERROR_VALUE,
            "%s: %d is not one of f32 (%d) f16 (%d) bf16 (%d)%s", name, (int)dtype, EPIQ_DTYPE_F32, EPIQ_DTYPE_F16,
            EPIQ_DTYPE_BF16, dtype == 0 ? "; it is required" : "");
    return EPIQ_OK;
}

static epiq_status check_exec(const epiq_exec *exec, epiqi_plan *plan, epiqi_text *why)
{
    static const epiq_exec none = {.struct_size = sizeof none};
    if (exec == NULL)
        exec = &none;
    TRY(check_struct(exec, sizeof *exec, "exec", why));
    plan->exec = exec;
    TRY(check_word(exec->backend, EPIQ_BACKEND_C, "exec.backend", 0, why));
    REQUIRE(exec->device == 0 || exec->device >= EPIQ_DEVICE(0), EPIQ_ERROR_VALUE,
            "exec.device: %d; give EPIQ_DEVICE(n), or 0 for the stream's", exec->device);
    REQUIRE(exec->tasks >= 0, EPIQ_ERROR_VALUE, "exec.tasks: %d is negative", exec->tasks);
    REQUIRE(exec->workspace_bytes >= 0, EPIQ_ERROR_VALUE, "exec.workspace_bytes: negative");
    TRY(check_word(exec->pdl, EPIQ_PDL_OFF, "exec.pdl", 0, why));
    REQUIRE((exec->constants & ~(uint32_t)(EPIQ_CONST_WEIGHT | EPIQ_CONST_SCALES)) == 0, EPIQ_ERROR_VALUE,
            "exec.constants: 0x%x has bits that are not EPIQ_CONST_WEIGHT or EPIQ_CONST_SCALES", exec->constants);
    return EPIQ_OK;
}

static epiq_status check_exec_conflicts(const epiq_exec *exec, epiqi_text *why)
{
    if (exec != NULL && exec->backend != EPIQ_BACKEND_CUDA) {
        REQUIRE(exec->stream == NULL, EPIQ_ERROR_CONFLICT,
                "exec.stream: given, but backend is not cuda (it is never chosen by itself)");
        REQUIRE(exec->device == 0, EPIQ_ERROR_CONFLICT,
                "exec.device: given, but backend is not cuda (it is never chosen by itself)");
    }
    return EPIQ_OK;
}

/* ---- 5, 6 Shapes and strides of a matrix ---- */

static epiq_status check_rows(int64_t rows, const char *name, epiqi_text *why)
{
    REQUIRE(rows == EPIQ_UNKNOWN || (rows >= 0 && rows <= MAX_ROWS), EPIQ_ERROR_SHAPE,
            "%s: %lld; allowed are 0 to 2^31 - 1", name, (long long)rows);
    return EPIQ_OK;
}

/* Columns of y, from a field that holds `per` of them for each. */
static epiq_status check_cols(int64_t cols, int per, const char *name, epiqi_text *why)
{
    REQUIRE(cols == EPIQ_UNKNOWN || (cols >= per && cols <= (int64_t)per * MAX_COLS), EPIQ_ERROR_SHAPE,
            "%s: %lld; allowed are %d to %lld", name, (long long)cols, per, (long long)per * MAX_COLS);
    REQUIRE(cols == EPIQ_UNKNOWN || cols % per == 0, EPIQ_ERROR_SHAPE,
            "%s: %lld is odd; gate and up need as many columns each", name, (long long)cols);
    return EPIQ_OK;
}

/* Resolves a byte stride: 0 is dense. row_bytes may be unknown: then only the sign is checked. */
static epiq_status check_stride(int64_t given, int64_t row_bytes, int64_t rows, const char *name, int64_t *stride,
                                epiqi_text *why)
{
    REQUIRE(given >= 0, EPIQ_ERROR_STRIDE, "%s: %lld is negative", name, (long long)given);
    *stride = given != 0 ? given : row_bytes;
    if (row_bytes == EPIQ_UNKNOWN)
        return EPIQ_OK;
    REQUIRE(*stride >= row_bytes, EPIQ_ERROR_STRIDE, "%s: %lld bytes is shorter than a row of %lld bytes", name,
            (long long)given, (long long)row_bytes);
    REQUIRE(rows <= 0 || *stride <= (INT64_MAX >> 1) / rows, EPIQ_ERROR_STRIDE,
            "%s: %lld bytes times %lld rows does not fit an address", name, (long long)given, (long long)rows);
    return EPIQ_OK;
}

static int64_t times(int64_t count, int64_t bytes) /* EPIQ_UNKNOWN stays */
{
    return count == EPIQ_UNKNOWN ? EPIQ_UNKNOWN : count * bytes;
}

static unsigned char *address(const void *p)
{
    return (unsigned char *)(uintptr_t)p;
}

/* ---- The quantizer ---- */

static epiq_status check_format(epiq_format format, epiqi_plan *plan, epiqi_text *why)
{
    TRY(check_word(format, EPIQ_FORMAT_E4M3, "format", 1, why));
    plan->format = epiqi_find_format(format);
    REQUIRE(plan->format != NULL, EPIQ_ERROR_UNSUPPORTED, "format: this version does not have %s", word_of(format));
    return EPIQ_OK;
}

static int fp8(const epiqi_format *f)
{
    return f->format == EPIQ_FORMAT_E4M3 || f->format == EPIQ_FORMAT_E5M2;
}

static int mx(const epiqi_format *f)
{
    return f->scale_dtype == EPIQ_DTYPE_E8M0;
}

static int layout_offered(const epiqi_format *f, epiq_layout layout)
{
    switch (layout) {
#define X(upper, blocks)                                                                                               \
    case EPIQ_LAYOUT_##upper:                                                                                          \
        return blocks == 2 || (blocks == 1) == (f->block != 0);
        EPIQI_LAYOUTS(X)
#undef X
    default:
        return 0;
    }
}

/* Which of the format's grains the fields ask for, as a bit of EPIQI_FORMATS. */
static int32_t grain_bit(const epiqi_plan *plan)
{
    switch (plan->grain) {
    case EPIQ_GRAIN_TENSOR:
        return plan->dynamic ? EPIQI_DYNAMIC : EPIQI_STATIC;
    case EPIQ_GRAIN_TOKEN:
        return EPIQI_TOKEN;
    default:
        return EPIQI_GROUP;
    }
}

/* Group and layout against a grain that is known; shared by quantizers and dequantize. */
static epiq_status check_scales(epiqi_plan *plan, int32_t group, epiq_layout layout, epiqi_text *why)
{
    plan->layout = layout != 0 ? layout : EPIQ_LAYOUT_ROW;
    if (plan->grain == EPIQ_GRAIN_GROUP) {
        int32_t block = plan->format->block;
        plan->group = group != 0 ? group : block != 0 ? block : 128;
        return EPIQ_OK;
    }
    REQUIRE(group == 0, EPIQ_ERROR_CONFLICT, "group: %d has no effect with grain %s", group, word_of(plan->grain));
    REQUIRE(plan->layout == EPIQ_LAYOUT_ROW, EPIQ_ERROR_CONFLICT, "layout: %s needs grain group, this is grain %s",
            word_of(layout), word_of(plan->grain));
    return EPIQ_OK;
}

/* Whether this version offers the combination; with it, the dtype of the stored scales. */
static epiq_status check_offered(epiqi_plan *plan, epiq_dtype scale_dtype, epiqi_text *why)
{
    const epiqi_format *f = plan->format;
    const char *format = word_of(f->format);
    REQUIRE((f->grains & grain_bit(plan)) != 0, EPIQ_ERROR_UNSUPPORTED, "grain: %s is not offered with %sgrain %s",
            format,
            plan->grain != EPIQ_GRAIN_TENSOR ? ""
            : plan->dynamic                  ? "a dynamic "
                                             : "a static ",
            word_of(plan->grain));
    REQUIRE(layout_offered(f, plan->layout), EPIQ_ERROR_UNSUPPORTED, "layout: %s is not offered for %s",
            word_of(plan->layout), format);
    int packed = plan->layout == EPIQ_LAYOUT_PACKED_UE8M0;
    plan->scale_dtype = packed ? EPIQ_DTYPE_I32 : f->scale_dtype;
    REQUIRE(scale_dtype == 0 || scale_dtype == plan->scale_dtype, EPIQ_ERROR_UNSUPPORTED,
            "scale_dtype: %s; the scales stored here are %s", word_of(scale_dtype), word_of(plan->scale_dtype));
    if (plan->grain == EPIQ_GRAIN_TENSOR && !plan->dynamic)
        plan->scale_dtype = 0; /* none is stored */
    return EPIQ_OK;
}

/* Columns of the codes, strides of codes and scales. padded_cols as given. */
static epiq_status check_code_shape(epiqi_plan *plan, int64_t padded_cols, int64_t codes_row_stride,
                                    int64_t scale_stride, epiqi_text *why)
{
    const epiqi_format *f = plan->format;
    if (plan->group != 0 && f->block != 0)
        REQUIRE(plan->group == f->block, EPIQ_ERROR_SHAPE, "group: %d; a block of %s has %d columns", plan->group,
                word_of(f->format), f->block);
    else if (plan->group != 0)
        REQUIRE(plan->group == 16 || plan->group == 32 || plan->group == 64 || plan->group == 128, EPIQ_ERROR_SHAPE,
                "group: %d is not one of 16 32 64 128", plan->group);
    REQUIRE(padded_cols == 0 || (padded_cols >= 1 && padded_cols <= MAX_COLS), EPIQ_ERROR_SHAPE,
            "padded_cols: %lld; allowed are 0 and cols to 2^28", (long long)padded_cols);
    REQUIRE(padded_cols == 0 || plan->cols == EPIQ_UNKNOWN || padded_cols >= plan->cols, EPIQ_ERROR_SHAPE,
            "padded_cols: %lld is less than the %lld columns of y", (long long)padded_cols, (long long)plan->cols);
    plan->padded = padded_cols != 0 ? padded_cols : plan->cols;
    if (f->block != 0 && plan->padded != EPIQ_UNKNOWN)
        REQUIRE(plan->padded % f->block == 0, EPIQ_ERROR_SHAPE, "%s: %lld is not a multiple of %d, the block of %s%s",
                padded_cols != 0 ? "padded_cols" : "cols", (long long)plan->padded, f->block, word_of(f->format),
                padded_cols != 0 ? "" : " (padded_cols may pad it)");
    plan->codes_row_bytes = plan->padded == EPIQ_UNKNOWN ? EPIQ_UNKNOWN : plan->padded * f->bits / 8;
    TRY(check_stride(codes_row_stride, plan->codes_row_bytes, plan->rows, "codes_row_stride", &plan->codes.stride,
                     why));
    switch (plan->grain) {
    case EPIQ_GRAIN_TENSOR:
        plan->groups = plan->scale_dtype != 0;
        break;
    case EPIQ_GRAIN_TOKEN:
        plan->groups = 1;
        break;
    default:
        plan->groups = plan->padded == EPIQ_UNKNOWN ? EPIQ_UNKNOWN : (plan->padded + plan->group - 1) / plan->group;
        break;
    }
    int64_t rows = plan->grain == EPIQ_GRAIN_TENSOR && plan->rows != 0 ? plan->groups : plan->rows;
    plan->array = epiqi_scale_array_of(plan->layout, rows, plan->groups, epiqi_dtype_bytes(plan->scale_dtype));
    if (epiqi_is_tiled(plan->layout)) {
        REQUIRE(scale_stride == 0, EPIQ_ERROR_STRIDE, "scale_stride: %lld; tiles have none, it must be 0",
                (long long)scale_stride);
        plan->scales.stride = times(plan->array.line, plan->array.row_multiple);
        return EPIQ_OK;
    }
    return check_stride(scale_stride, times(plan->array.line, plan->array.bytes), plan->array.lines, "scale_stride",
                        &plan->scales.stride, why);
}

static epiq_status check_output_words(const epiq_output *out, epiqi_text *why)
{
    TRY(check_word(out->format, EPIQ_FORMAT_E4M3, "out.format", 1, why));
    TRY(check_word(out->grain, EPIQ_GRAIN_TENSOR, "out.grain", 0, why));
    REQUIRE(out->group >= 0, EPIQ_ERROR_VALUE, "out.group: %d is negative", out->group);
    TRY(check_word(out->layout, EPIQ_LAYOUT_ROW, "out.layout", 0, why));
    TRY(check_word(out->scale_dtype, EPIQ_DTYPE_F32, "out.scale_dtype", 0, why));
    REQUIRE(out->ue8m0 == 0 || out->ue8m0 == 1, EPIQ_ERROR_VALUE, "out.ue8m0: %d is not 0 or 1", out->ue8m0);
    TRY(check_word(out->mx_round, EPIQ_MX_ROUND_CEIL, "out.mx_round", 0, why));
    TRY(check_word(out->nvfp4, EPIQ_NVFP4_VLLM, "out.nvfp4", 0, why));
    TRY(check_word(out->nan, EPIQ_NAN_PROPAGATE, "out.nan", 0, why));
    TRY(check_word(out->pad_rows, EPIQ_PAD_ROWS_ZERO, "out.pad_rows", 0, why));
    REQUIRE(out->format != EPIQ_FORMAT_NVFP4 || out->inv_scale != NULL || out->inv_scale_out != NULL, EPIQ_ERROR_VALUE,
            "inv_scale: nvfp4 needs inv_scale (given) or inv_scale_out (computed)");
    return EPIQ_OK;
}

/* Everything of out but its shape. */
static epiq_status check_output(const epiq_output *out, epiqi_plan *plan, epiqi_text *why)
{
    TRY(check_format(out->format, plan, why));
    const epiqi_format *f = plan->format;
    const char *format = word_of(f->format);
    int given = out->scale != NULL || out->inv_scale != NULL;
    plan->grain = out->grain != 0 ? out->grain
                  : f->block != 0 ? EPIQ_GRAIN_GROUP
                  : given         ? EPIQ_GRAIN_TENSOR
                                  : EPIQ_GRAIN_TOKEN;
    REQUIRE(out->scale == NULL || out->inv_scale == NULL, EPIQ_ERROR_CONFLICT, "scale and inv_scale: give one of them");
    if (f->format == EPIQ_FORMAT_NVFP4) {
        REQUIRE(out->scale == NULL, EPIQ_ERROR_CONFLICT,
                "scale: nvfp4 takes its second level as inv_scale, 448 * 6 / amax");
        REQUIRE(out->inv_scale == NULL || out->inv_scale_out == NULL, EPIQ_ERROR_CONFLICT,
                "inv_scale and inv_scale_out: the second level is either given or computed");
        plan->dynamic = out->inv_scale_out != NULL;
    } else {
        REQUIRE(out->inv_scale_out == NULL, EPIQ_ERROR_CONFLICT, "inv_scale_out: only nvfp4 computes it, this is %s",
                format);
        if (given)
            REQUIRE(plan->grain == EPIQ_GRAIN_TENSOR, EPIQ_ERROR_CONFLICT,
                    "%s: given, but grain %s computes its scales", out->scale != NULL ? "scale" : "inv_scale",
                    word_of(plan->grain));
        plan->dynamic = plan->grain == EPIQ_GRAIN_TENSOR && !given;
    }
    REQUIRE(!out->ue8m0 || (fp8(f) && plan->grain == EPIQ_GRAIN_GROUP), EPIQ_ERROR_CONFLICT,
            "ue8m0: has no effect with %s grain %s", format, word_of(plan->grain));
    REQUIRE(out->mx_round == 0 || mx(f), EPIQ_ERROR_CONFLICT, "mx_round: has no effect with %s", format);
    REQUIRE(out->mx_round != EPIQ_MX_ROUND_VLLM || f->format == EPIQ_FORMAT_MXFP4, EPIQ_ERROR_CONFLICT,
            "mx_round: vllm is a rule of mxfp4, this is %s", format);
    REQUIRE(out->nvfp4 == 0 || f->format == EPIQ_FORMAT_NVFP4, EPIQ_ERROR_CONFLICT, "nvfp4: has no effect with %s",
            format);
    REQUIRE(out->scale_ub == NULL || (fp8(f) && plan->grain == EPIQ_GRAIN_TOKEN), EPIQ_ERROR_CONFLICT,
            "scale_ub: has no effect with %s grain %s", format, word_of(plan->grain));
    int written = plan->grain != EPIQ_GRAIN_TENSOR || plan->dynamic || (f->grains & EPIQI_STATIC) == 0;
    REQUIRE(written || out->scale_out == NULL, EPIQ_ERROR_CONFLICT,
            "scale_out: a static scale is not written, it must be NULL");
    REQUIRE(written || out->scale_stride == 0, EPIQ_ERROR_CONFLICT, "scale_stride: a static scale is not written");
    REQUIRE(written || out->scale_dtype == 0, EPIQ_ERROR_CONFLICT, "scale_dtype: a static scale is not written");
    TRY(check_scales(plan, out->group, out->layout, why));
    plan->ue8m0 = out->ue8m0 || plan->layout == EPIQ_LAYOUT_PACKED_UE8M0;
    plan->mx_round = out->mx_round != 0 ? out->mx_round : EPIQ_MX_ROUND_CEIL;
    plan->nvfp4 = out->nvfp4 != 0 ? out->nvfp4 : EPIQ_NVFP4_VLLM;
    plan->nan = out->nan != 0 ? out->nan : EPIQ_NAN_PROPAGATE;
    plan->pad_rows = out->pad_rows != 0 ? out->pad_rows : EPIQ_PAD_ROWS_ZERO;
    plan->codes.data = out->codes_out;
    plan->scales.data = out->scale_out;
    plan->scale = out->scale;
    plan->inv_scale = out->inv_scale;
    plan->inv_scale_out = out->inv_scale_out;
    plan->scale_ub = out->scale_ub;
    if (plan->dynamic && plan->exec->backend == EPIQ_BACKEND_CUDA)
        plan->workspace_bytes = EPIQI_CUDA_WORKSPACE;
    return EPIQ_OK;
}

static epiq_status check_output_shape(const epiq_output *out, epiqi_plan *plan, epiqi_text *why)
{
    if (out == NULL)
        return EPIQ_OK;
    return check_code_shape(plan, out->padded_cols, out->codes_row_stride, out->scale_stride, why);
}

/* ---- Structs of a call: args, then out, then exec; then the words of out and exec ---- */

/* Begins a plan; args->reserved and x.reserved come right after. */
static epiq_status begin(const void *args, size_t bytes, epiqi_plan *plan, epiqi_op op, epiqi_text *why)
{
    memset(plan, 0, sizeof *plan);
    plan->op = op;
    return check_struct(args, bytes, "args", why);
}

static epiq_status check_structs(const epiq_output *out, const epiq_exec *exec, epiqi_text *why)
{
    if (out != NULL) {
        TRY(check_struct(out, sizeof *out, "out", why));
        TRY(check_reserved(out->reserved, "out.reserved", why));
    }
    if (exec != NULL)
        TRY(check_struct(exec, sizeof *exec, "exec", why));
    return EPIQ_OK;
}

static epiq_status check_out_exec(const epiq_output *out, const epiq_exec *exec, epiqi_plan *plan, epiqi_text *why)
{
    if (out != NULL)
        TRY(check_output_words(out, why));
    return check_exec(exec, plan, why);
}

/* x as it is, its columns still those of the field. */
static epiq_status check_x_shape(const epiq_matrix *x, int per, epiqi_plan *plan, epiqi_text *why)
{
    TRY(check_rows(x->rows, "x.rows", why));
    TRY(check_cols(x->cols, per, "x.cols", why));
    plan->rows = x->rows;
    plan->cols = x->cols == EPIQ_UNKNOWN ? EPIQ_UNKNOWN : x->cols / per;
    plan->padded = plan->cols;
    return EPIQ_OK;
}

static epiq_status check_x_stride(const epiq_matrix *x, epiqi_plan *plan, epiqi_text *why)
{
    plan->x.data = address(x->data);
    return check_stride(x->row_stride, times(x->cols, epiqi_dtype_bytes(x->dtype)), x->rows, "x.row_stride",
                        &plan->x.stride, why);
}

/* A matrix of T [M, H] beside x. */
static epiq_status check_side(const void *data, int64_t stride, const char *name, epiqi_plan *plan, epiqi_rows_at *at,
                              epiqi_text *why)
{
    at->data = address(data);
    return check_stride(stride, times(plan->cols, epiqi_dtype_bytes(plan->dtype)), plan->rows, name, &at->stride, why);
}

static epiq_status check_y_stride(const void *y_out, int64_t stride, const epiq_output *out, epiqi_text *why)
{
    REQUIRE(y_out != NULL || out == NULL || stride == 0, EPIQ_ERROR_CONFLICT, "y_row_stride: given without y_out");
    return EPIQ_OK;
}

/* y_out; without out it is what the call is for. */
static epiq_status check_y(void *y_out, int64_t stride, const epiq_output *out, epiqi_plan *plan, epiqi_text *why)
{
    plan->y_wanted = y_out != NULL || out == NULL;
    return check_side(y_out, stride, "y_row_stride", plan, &plan->y_out, why);
}

/* ---- Operations ---- */

epiq_status epiqi_plan_act_mul(const epiq_act_mul_args *args, const epiq_output *out, const epiq_exec *exec,
                               epiqi_plan *plan, epiqi_text *why)
{
    TRY(begin(args, sizeof *args, plan, EPIQI_ACT_MUL, why));
    TRY(check_reserved(args->x.reserved, "x.reserved", why));
    TRY(check_reserved(args->reserved, "args.reserved", why));
    TRY(check_structs(out, exec, why));

    TRY(check_word(args->act, EPIQ_ACT_SILU, "act", 0, why));
    TRY(check_dtype(args->x.dtype, "x.dtype", 1, why));
    TRY(check_word(args->order, EPIQ_ORDER_GATE_UP, "order", 0, why));
    TRY(check_word(args->chain, EPIQ_CHAIN_VLLM, "chain", 0, why));
    TRY(check_word(args->act_round, EPIQ_ROUND_NONE, "act_round", 0, why));
    TRY(check_out_exec(out, exec, plan, why));
    REQUIRE(args->alpha == 0 || (args->alpha >= 0x1p-100f && args->alpha <= 0x1p100f), EPIQ_ERROR_VALUE,
            "alpha: %g; allowed are 0 (for 1) and 2^-100 to 2^100", (double)args->alpha);
    REQUIRE(args->limit >= 0 && args->limit < INFINITY, EPIQ_ERROR_VALUE,
            "limit: %g; allowed are 0 (for none) and finite numbers above 0", (double)args->limit);
    REQUIRE(args->limit_after >= 0 && args->limit_after < INFINITY, EPIQ_ERROR_VALUE,
            "limit_after: %g; allowed are 0 (for none) and finite numbers above 0", (double)args->limit_after);
    REQUIRE(isfinite(args->up_offset), EPIQ_ERROR_VALUE, "up_offset: %g is not finite", (double)args->up_offset);

    plan->act = args->act != 0 ? args->act : EPIQ_ACT_SILU;
    plan->order = args->order != 0 ? args->order : EPIQ_ORDER_GATE_UP;
    plan->dtype = args->x.dtype;
    plan->chain = args->chain != 0 ? args->chain : EPIQ_CHAIN_VLLM;
    plan->round = args->act_round != 0                   ? args->act_round
                  : plan->chain == EPIQ_CHAIN_VLLM       ? EPIQ_ROUND_TWICE
                  : plan->chain == EPIQ_CHAIN_FLASHINFER ? EPIQ_ROUND_ONCE
                                                         : EPIQ_ROUND_NONE;
    plan->alpha = args->alpha != 0 ? args->alpha : 1.0f;
    plan->limit = args->limit;
    plan->limit_after = args->limit_after;
    plan->up_offset = args->up_offset;

    REQUIRE(plan->chain != EPIQ_CHAIN_ALLREDUCE, EPIQ_ERROR_CONFLICT, "chain: allreduce is a chain of rms_norm alone");
    REQUIRE(args->alpha == 0 || plan->act == EPIQ_ACT_SILU, EPIQ_ERROR_CONFLICT, "alpha: has no effect with act %s",
            word_of(plan->act));
    REQUIRE(args->limit == 0 || args->limit_after == 0, EPIQ_ERROR_CONFLICT, "limit and limit_after: give one of them");
    REQUIRE(args->up_offset == 0 || plan->order != EPIQ_ORDER_UNGATED, EPIQ_ERROR_CONFLICT,
            "up_offset: order ungated has no up");
    REQUIRE(args->up == NULL || plan->order == EPIQ_ORDER_SEPARATE, EPIQ_ERROR_CONFLICT,
            "up: given, but order is %s (separate reads it)", word_of(plan->order));
    REQUIRE(args->up_row_stride == 0 || plan->order == EPIQ_ORDER_SEPARATE, EPIQ_ERROR_CONFLICT,
            "up_row_stride: given, but order is %s (separate reads it)", word_of(plan->order));
    if (out != NULL)
        TRY(check_output(out, plan, why));
    TRY(check_y_stride(args->y_out, args->y_row_stride, out, why));
    TRY(check_exec_conflicts(exec, why));
    if (out != NULL)
        TRY(check_offered(plan, out->scale_dtype, why));

    int halves = plan->order != EPIQ_ORDER_SEPARATE && plan->order != EPIQ_ORDER_UNGATED;
    TRY(check_x_shape(&args->x, halves ? 2 : 1, plan, why));
    if (out != NULL) /* shape rules of out come before any stride */
        TRY(check_output_shape(out, plan, why));
    TRY(check_x_stride(&args->x, plan, why));
    if (plan->order == EPIQ_ORDER_SEPARATE)
        TRY(check_side(args->up, args->up_row_stride, "up_row_stride", plan, &plan->up, why));
    return check_y(args->y_out, args->y_row_stride, out, plan, why);
}

epiq_status epiqi_plan_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out, const epiq_exec *exec,
                                epiqi_plan *plan, epiqi_text *why)
{
    TRY(begin(args, sizeof *args, plan, EPIQI_RMS_NORM, why));
    TRY(check_reserved(args->x.reserved, "x.reserved", why));
    TRY(check_reserved(args->reserved, "args.reserved", why));
    TRY(check_structs(out, exec, why));

    TRY(check_dtype(args->x.dtype, "x.dtype", 1, why));
    TRY(check_dtype(args->weight_dtype, "weight_dtype", 0, why));
    TRY(check_word(args->chain, EPIQ_CHAIN_VLLM, "chain", 0, why));
    TRY(check_word(args->sum_round, EPIQ_SUM_ROUND_FP32, "sum_round", 0, why));
    TRY(check_word(args->norm_round, EPIQ_ROUND_NONE, "norm_round", 0, why));
    TRY(check_out_exec(out, exec, plan, why));
    REQUIRE(args->eps > 0 && args->eps < INFINITY, EPIQ_ERROR_VALUE,
            "eps: %g; required, a finite number above 0 (often 1e-6 or 1e-5)", (double)args->eps);
    REQUIRE(isfinite(args->weight_bias), EPIQ_ERROR_VALUE, "weight_bias: %g is not finite", (double)args->weight_bias);

    plan->dtype = args->x.dtype;
    plan->eps = args->eps;
    plan->weight_bias = args->weight_bias;
    plan->weight_dtype = args->weight_dtype != 0 ? args->weight_dtype : plan->dtype;
    plan->chain = args->chain != 0 ? args->chain : EPIQ_CHAIN_VLLM;
    epiq_sum_round sum_round = EPIQ_SUM_ROUND_FP32;
    epiq_round round = EPIQ_ROUND_ONCE;
    if (plan->chain == EPIQ_CHAIN_VLLM && plan->weight_bias == 0 && plan->weight_dtype == plan->dtype) {
        sum_round = EPIQ_SUM_ROUND_T;
        round = EPIQ_ROUND_TWICE;
    } else if (plan->chain == EPIQ_CHAIN_ALLREDUCE) {
        sum_round = EPIQ_SUM_ROUND_T;
    } else if (plan->chain == EPIQ_CHAIN_DIRECT) {
        round = EPIQ_ROUND_NONE;
    }
    plan->sum_round = args->sum_round != 0 ? args->sum_round : sum_round;
    plan->round = args->norm_round != 0 ? args->norm_round : round;

    REQUIRE(plan->weight_dtype == plan->dtype || plan->weight_dtype == EPIQ_DTYPE_F32, EPIQ_ERROR_CONFLICT,
            "weight_dtype: %s; a weight is f32 or of the dtype of x, %s", word_of(plan->weight_dtype),
            word_of(plan->dtype));
    REQUIRE(args->residual_out == NULL || args->residual != NULL, EPIQ_ERROR_CONFLICT,
            "residual_out: given without residual; the sum would be x itself");
    REQUIRE(args->residual != NULL || args->residual_row_stride == 0, EPIQ_ERROR_CONFLICT,
            "residual_row_stride: given without residual");
    REQUIRE(args->residual_out != NULL || args->residual_out_row_stride == 0, EPIQ_ERROR_CONFLICT,
            "residual_out_row_stride: given without residual_out");
    if (out != NULL)
        TRY(check_output(out, plan, why));
    TRY(check_y_stride(args->y_out, args->y_row_stride, out, why));
    TRY(check_exec_conflicts(exec, why));
    if (out != NULL)
        TRY(check_offered(plan, out->scale_dtype, why));

    TRY(check_x_shape(&args->x, 1, plan, why));
    if (out != NULL)
        TRY(check_output_shape(out, plan, why));
    TRY(check_x_stride(&args->x, plan, why));
    TRY(check_side(args->residual, args->residual_row_stride, "residual_row_stride", plan, &plan->residual, why));
    TRY(check_side(args->residual_out, args->residual_out_row_stride, "residual_out_row_stride", plan,
                   &plan->residual_out, why));
    plan->residual_wanted = args->residual_out != NULL;
    plan->weight = args->weight;
    return check_y(args->y_out, args->y_row_stride, out, plan, why);
}

epiq_status epiqi_plan_quantize(const epiq_quantize_args *args, const epiq_output *out, const epiq_exec *exec,
                                epiqi_plan *plan, epiqi_text *why)
{
    TRY(begin(args, sizeof *args, plan, EPIQI_QUANTIZE, why));
    TRY(check_reserved(args->reserved, "args.reserved", why));
    TRY(check_reserved(args->x.reserved, "x.reserved", why));
    REQUIRE(out != NULL, EPIQ_ERROR_STRUCT, "out: NULL; quantize writes nothing else");
    TRY(check_structs(out, exec, why));
    TRY(check_dtype(args->x.dtype, "x.dtype", 1, why));
    TRY(check_out_exec(out, exec, plan, why));
    plan->dtype = args->x.dtype;
    TRY(check_output(out, plan, why));
    TRY(check_exec_conflicts(exec, why));
    TRY(check_offered(plan, out->scale_dtype, why));
    TRY(check_x_shape(&args->x, 1, plan, why));
    TRY(check_output_shape(out, plan, why));
    return check_x_stride(&args->x, plan, why);
}

epiq_status epiqi_plan_dequantize(const epiq_dequantize_args *args, const epiq_exec *exec, epiqi_plan *plan,
                                  epiqi_text *why)
{
    TRY(begin(args, sizeof *args, plan, EPIQI_DEQUANTIZE, why));
    TRY(check_reserved(args->reserved, "args.reserved", why));
    TRY(check_structs(NULL, exec, why));
    TRY(check_word(args->format, EPIQ_FORMAT_E4M3, "format", 1, why));
    TRY(check_word(args->grain, EPIQ_GRAIN_TENSOR, "grain", 0, why));
    REQUIRE(args->group >= 0, EPIQ_ERROR_VALUE, "group: %d is negative", args->group);
    TRY(check_word(args->layout, EPIQ_LAYOUT_ROW, "layout", 0, why));
    TRY(check_word(args->scale_dtype, EPIQ_DTYPE_F32, "scale_dtype", 0, why));
    TRY(check_dtype(args->y_dtype, "y_dtype", 1, why));
    REQUIRE(args->grain != 0 || args->format == EPIQ_FORMAT_MXFP8 || args->format == EPIQ_FORMAT_MXFP4 ||
                args->format == EPIQ_FORMAT_NVFP4,
            EPIQ_ERROR_VALUE, "grain: required with %s", word_of(args->format));
    TRY(check_exec(exec, plan, why));

    TRY(check_format(args->format, plan, why));
    const epiqi_format *f = plan->format;
    plan->grain = args->grain != 0 ? args->grain : EPIQ_GRAIN_GROUP;
    plan->dtype = args->y_dtype;
    int tensor = plan->grain == EPIQ_GRAIN_TENSOR, second = f->format == EPIQ_FORMAT_NVFP4;
    REQUIRE(args->inv_scale == NULL || tensor || second, EPIQ_ERROR_CONFLICT,
            "inv_scale: has no effect with %s grain %s", word_of(f->format), word_of(plan->grain));
    REQUIRE(!tensor || args->scale == NULL || args->inv_scale == NULL, EPIQ_ERROR_CONFLICT,
            "scale and inv_scale: give one of them");
    int stored = !tensor || args->inv_scale == NULL;
    int64_t line;
    REQUIRE(stored || args->scale_stride == 0, EPIQ_ERROR_CONFLICT, "scale_stride: inv_scale stands for the scale");
    REQUIRE(stored || args->scale_dtype == 0, EPIQ_ERROR_CONFLICT, "scale_dtype: inv_scale stands for the scale");
    TRY(check_scales(plan, args->group, args->layout, why));
    TRY(check_exec_conflicts(exec, why));
    TRY(check_offered(plan, args->scale_dtype, why));
    plan->ue8m0 = plan->layout == EPIQ_LAYOUT_PACKED_UE8M0;

    TRY(check_rows(args->rows, "rows", why));
    TRY(check_cols(args->cols, 1, "cols", why));
    plan->rows = args->rows;
    plan->cols = args->cols;
    TRY(check_code_shape(plan, args->padded_cols, args->codes_row_stride, args->scale_stride, why));
    if (tensor) /* a line of one scale, as epiq_output has it where the scale is computed */
        TRY(check_stride(args->scale_stride, 4, 1, "scale_stride", &line, why));
    plan->codes.data = address(args->codes);
    plan->scales.data = tensor ? NULL : address(args->scale);
    plan->scale = tensor ? args->scale : NULL;
    plan->inv_scale = args->inv_scale;
    return check_y(args->y_out, args->y_row_stride, NULL, plan, why);
}

/* ---- 7 to 9 Buffers, overlap, workspace ---- */

/* A buffer as rows at a stride. */
typedef struct region {
    const char *name;
    const unsigned char *data;
    int64_t rows, row_bytes, stride;
    int64_t given; /* stride of the call; `stride` is that of the one row which a dense buffer becomes */
    int written;
} region;

enum { MAX_REGIONS = 16 };

typedef struct regions {
    int count;
    region list[MAX_REGIONS];
} regions;

static void add_region(regions *r, const char *name, const void *data, int64_t rows, int64_t row_bytes, int64_t stride,
                       int written)
{
    if (data == NULL || rows == 0 || row_bytes == 0)
        return;
    const int64_t given = stride;
    if (stride == row_bytes) { /* dense: one row */
        row_bytes *= rows;
        rows = 1;
        stride = row_bytes;
    }
    r->list[r->count++] = (region){name, data, rows, row_bytes, stride, given, written};
}

static uintptr_t start_of(const region *r)
{
    return (uintptr_t)r->data;
}

static uintptr_t end_of(const region *r)
{
    return start_of(r) + (uintptr_t)((r->rows - 1) * r->stride + r->row_bytes);
}

/* Whether a row of `r` meets [start, end). */
static int rows_meet(const region *r, uintptr_t start, uintptr_t end)
{
    if (end <= start_of(r) || start >= end_of(r))
        return 0;
    if (start < start_of(r))
        return 1;
    uintptr_t offset = (start - start_of(r)) % (uintptr_t)r->stride; /* of `start` in its row */
    return offset < (uintptr_t)r->row_bytes || offset + (end - start) > (uintptr_t)r->stride;
}

/* Rows that interleave are told apart where one buffer is dense or both have one stride; other strides whose spans
 * meet count as overlap. */
static int overlap(const region *a, const region *b)
{
    if (a->rows == 1)
        return rows_meet(b, start_of(a), end_of(a));
    if (b->rows == 1)
        return rows_meet(a, start_of(b), end_of(b));
    if (end_of(a) <= start_of(b) || end_of(b) <= start_of(a))
        return 0;
    if (a->stride != b->stride)
        return 1;
    const region *low = start_of(a) <= start_of(b) ? a : b, *high = low == a ? b : a;
    return rows_meet(low, start_of(high), start_of(high) + (uintptr_t)high->row_bytes);
}

/* residual_out == residual, y_out == x.data in rms_norm: exactly, with equal strides. */
static int alias_allowed(const epiqi_plan *plan, const region *a, const region *b)
{
    if (a->data != b->data || a->given != b->given || plan->op != EPIQI_RMS_NORM)
        return 0;
    return (a->data == plan->residual.data && b->data == plan->residual_out.data && strcmp(a->name, "residual") == 0 &&
            strcmp(b->name, "residual_out") == 0) ||
           (strcmp(a->name, "x.data") == 0 && strcmp(b->name, "y_out") == 0);
}

static void list_regions(const epiqi_plan *plan, regions *r)
{
    const int64_t m = plan->rows, element = epiqi_dtype_bytes(plan->dtype), y_bytes = plan->cols * element;
    const int64_t x_bytes =
        plan->op == EPIQI_ACT_MUL && plan->order != EPIQ_ORDER_SEPARATE && plan->order != EPIQ_ORDER_UNGATED
            ? 2 * y_bytes
            : y_bytes;
    const int quantizes = plan->op != EPIQI_DEQUANTIZE;
    r->count = 0;
    add_region(r, "x.data", plan->x.data, m, x_bytes, plan->x.stride, 0);
    add_region(r, "up", plan->up.data, m, y_bytes, plan->up.stride, 0);
    add_region(r, "residual", plan->residual.data, m, y_bytes, plan->residual.stride, 0);
    int64_t weight_bytes = plan->cols * epiqi_dtype_bytes(plan->weight_dtype);
    add_region(r, "weight", plan->weight, 1, weight_bytes, weight_bytes, 0);
    add_region(r, "scale", plan->scale, 1, 4, 4, 0);
    add_region(r, "inv_scale", plan->inv_scale, 1, 4, 4, 0);
    add_region(r, "scale_ub", plan->scale_ub, 1, 4, 4, 0);
    add_region(r, quantizes ? "codes_out" : "codes", plan->codes.data, m, plan->codes_row_bytes, plan->codes.stride,
               quantizes);
    int64_t lines = plan->array.lines, line_bytes = plan->array.line * plan->array.bytes, stride = plan->scales.stride;
    if (epiqi_is_tiled(plan->layout))
        stride = line_bytes;
    if (plan->format != NULL && plan->scale_dtype != 0)
        add_region(r, quantizes ? "scale_out" : "scale", plan->scales.data, lines, line_bytes, stride, quantizes);
    add_region(r, "inv_scale_out", plan->inv_scale_out, 1, 4, 4, 1);
    add_region(r, "residual_out", plan->residual_out.data, m, y_bytes, plan->residual_out.stride, 1);
    add_region(r, "y_out", plan->y_out.data, m, y_bytes, plan->y_out.stride, 1);
    if (plan->workspace_bytes > 0)
        add_region(r, "workspace", plan->exec->workspace, 1, plan->workspace_bytes, plan->workspace_bytes, 1);
}

epiq_status epiqi_plan_buffers(const epiqi_plan *plan, epiqi_text *why)
{
    REQUIRE(plan->rows != EPIQ_UNKNOWN && plan->cols != EPIQ_UNKNOWN, EPIQ_ERROR_SHAPE,
            "%s: unknown; a call needs the shape, only epiq_check_* and epiq_explain_* do without",
            plan->rows == EPIQ_UNKNOWN ? "rows" : "cols");
    if (plan->rows == 0)
        return EPIQ_OK;
    const int quantizes = plan->op != EPIQI_DEQUANTIZE;
    if (quantizes)
        REQUIRE(plan->x.data != NULL, EPIQ_ERROR_BUFFER, "x.data: NULL");
    REQUIRE(plan->op != EPIQI_ACT_MUL || plan->order != EPIQ_ORDER_SEPARATE || plan->up.data != NULL, EPIQ_ERROR_BUFFER,
            "up: NULL; order separate reads it");
    REQUIRE(plan->op != EPIQI_RMS_NORM || plan->weight != NULL, EPIQ_ERROR_BUFFER, "weight: NULL");
    REQUIRE(!plan->y_wanted || plan->y_out.data != NULL, EPIQ_ERROR_BUFFER, "y_out: NULL%s",
            quantizes ? ", and so is out: nothing would be written" : "");
    if (plan->format != NULL) {
        REQUIRE(plan->codes.data != NULL, EPIQ_ERROR_BUFFER, "%s: NULL", quantizes ? "codes_out" : "codes");
        REQUIRE(plan->scale_dtype == 0 || plan->scales.data != NULL, EPIQ_ERROR_BUFFER, "%s: NULL",
                quantizes ? "scale_out" : "scale");
        if (!quantizes && plan->grain == EPIQ_GRAIN_TENSOR)
            REQUIRE(plan->scale != NULL || plan->inv_scale != NULL, EPIQ_ERROR_BUFFER,
                    "scale and inv_scale: NULL; grain tensor needs one of them");
        if (!quantizes && plan->format->format == EPIQ_FORMAT_NVFP4)
            REQUIRE(plan->inv_scale != NULL, EPIQ_ERROR_BUFFER, "inv_scale: NULL; nvfp4 needs its second level");
    }

    regions r;
    list_regions(plan, &r);
    for (int i = 0; i < r.count; i++)
        for (int k = i + 1; k < r.count; k++) {
            const region *a = &r.list[i], *b = &r.list[k];
            REQUIRE((!a->written && !b->written) || !overlap(a, b) || alias_allowed(plan, a, b), EPIQ_ERROR_OVERLAP,
                    "%s and %s overlap", a->name, b->name);
        }
    if (plan->workspace_bytes > 0)
        REQUIRE(plan->exec->workspace != NULL && plan->exec->workspace_bytes >= plan->workspace_bytes,
                EPIQ_ERROR_WORKSPACE, "workspace: %lld bytes are given, %lld are needed",
                plan->exec->workspace != NULL ? (long long)plan->exec->workspace_bytes : 0LL,
                (long long)plan->workspace_bytes);
    return EPIQ_OK;
}
