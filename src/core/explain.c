/* explain.c: a call in words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"
#include "fp_state.h"

static const char *word_of(int32_t value)
{
    const char *word = epiq_word(value);
    return word != NULL ? word : "?";
}

static void print_count(epiqi_text *t, int64_t n)
{
    if (n == EPIQ_UNKNOWN)
        epiqi_print(t, "?");
    else
        epiqi_print(t, "%lld", (long long)n);
}

static void print_shape(epiqi_text *t, int64_t rows, int64_t cols)
{
    epiqi_print(t, "[");
    print_count(t, rows);
    epiqi_print(t, ", ");
    print_count(t, cols);
    epiqi_print(t, "]");
}

static void print_bytes(epiqi_text *t, const char *name, int64_t bytes)
{
    if (bytes == 0)
        return;
    epiqi_print(t, "  %-14s ", name);
    print_count(t, bytes);
    epiqi_print(t, " bytes\n");
}

static const char *rounded(epiq_round round, const char *dtype, char *text, size_t bytes)
{
    epiqi_text t = {text, bytes, 0};
    if (round == EPIQ_ROUND_NONE)
        epiqi_print(&t, "not rounded to %s", dtype);
    else
        epiqi_print(&t, "rounded to %s%s", dtype, round == EPIQ_ROUND_ONCE ? " once" : " twice");
    return text;
}

static void print_act_mul(epiqi_text *t, const epiqi_plan *p)
{
    const char *T = word_of(p->dtype);
    char round[48];
    const int gated = p->order != EPIQ_ORDER_UNGATED;
    epiqi_print(t, "act_mul: y = %s(gate)%s, y ", word_of(p->act), gated ? " * up" : "");
    print_shape(t, p->rows, p->cols);
    epiqi_print(t, " from %s, order %s\n", T, word_of(p->order));
    if (p->act == EPIQ_ACT_SILU)
        epiqi_print(t, "  silu(g) = g * sigmoid(%g * g)\n", (double)p->alpha);
    if (p->limit > 0)
        epiqi_print(
            t, gated ? "  before: gate = min(gate, %g), up = clamp(up, -%g, %g)\n" : "  before: gate = min(gate, %g)\n",
            (double)p->limit, (double)p->limit, (double)p->limit);
    if (p->limit_after > 0)
        epiqi_print(t,
                    gated ? "  after: act = min(act, %g), up = clamp(up, -%g, %g)\n" : "  after: act = min(act, %g)\n",
                    (double)p->limit_after, (double)p->limit_after, (double)p->limit_after);
    if (p->up_offset != 0)
        epiqi_print(t, "  up = up + %g\n", (double)p->up_offset);
    epiqi_print(t, "  chain %s: y is %s\n", word_of(p->chain), rounded(p->round, T, round, sizeof round));
}

static void print_rms_norm(epiqi_text *t, const epiqi_plan *p)
{
    const char *T = word_of(p->dtype);
    char round[48];
    epiqi_print(t, "rms_norm: h = x%s, y = h / sqrt(mean(h^2) + %g) * ", p->residual.data != NULL ? " + residual" : "",
                (double)p->eps);
    if (p->weight_bias != 0)
        epiqi_print(t, "(%g + weight), y ", (double)p->weight_bias);
    else
        epiqi_print(t, "weight, y ");
    print_shape(t, p->rows, p->cols);
    epiqi_print(t, " from %s, weight %s\n", T, word_of(p->weight_dtype));
    if (p->residual.data != NULL)
        epiqi_print(
            t, "  variance and norm see h %s%s%s\n", p->sum_round == EPIQ_SUM_ROUND_T ? "rounded to " : "in fp32",
            p->sum_round == EPIQ_SUM_ROUND_T ? T : "", p->residual_wanted ? "; residual_out = h rounded once" : "");
    epiqi_print(t, "  chain %s: y is %s\n", word_of(p->chain), rounded(p->round, T, round, sizeof round));
}

static void print_quantizer(epiqi_text *t, const epiqi_plan *p)
{
    epiqi_print(t, "  %s, grain %s", word_of(p->format->format), word_of(p->grain));
    if (p->grain == EPIQ_GRAIN_GROUP)
        epiqi_print(t, " of %d columns, layout %s%s", p->group, word_of(p->layout),
                    p->ue8m0 ? ", power-of-two scales" : "");
    else if (p->grain == EPIQ_GRAIN_TENSOR && p->op != EPIQI_DEQUANTIZE)
        epiqi_print(t, p->dynamic         ? ", scale from the amax of the tensor"
                       : p->scale != NULL ? ", codes = RN(y * RN(1 / scale))"
                                          : ", codes = RN(y * inv_scale)");
    if (p->format->format == EPIQ_FORMAT_NVFP4 && p->op != EPIQI_DEQUANTIZE)
        epiqi_print(t, ", rule %s, second level %s", word_of(p->nvfp4), p->dynamic ? "computed" : "given");
    if (p->format->scale_dtype == EPIQ_DTYPE_E8M0 && p->op != EPIQI_DEQUANTIZE)
        epiqi_print(t, ", exponent rounded by %s", word_of(p->mx_round));
    if (p->op != EPIQI_DEQUANTIZE)
        epiqi_print(t, ", NaN %s", p->nan == EPIQ_NAN_SATURATE ? "saturates" : "propagates");
    epiqi_print(t, "\n");
    if (p->padded != p->cols) {
        epiqi_print(t, "  columns padded to ");
        print_count(t, p->padded);
        epiqi_print(t, " with y = +0\n");
    }
    if (p->scale_dtype != 0) {
        epiqi_print(t, "  scales: stored as %s ", word_of(p->scale_dtype));
        print_shape(t, p->array.lines, p->array.line);
        if (p->array.row_multiple > 1 && p->op != EPIQI_DEQUANTIZE)
            epiqi_print(t, ", padding rows %s", p->pad_rows == EPIQ_PAD_ROWS_KEEP ? "not written" : "zeroed");
        epiqi_print(t, "\n");
    }
}

/* What a call would be refused for: first, so that it is not cut off behind the description. */
static void print_missing(epiqi_text *t, const epiqi_plan *plan)
{
    if (plan->rows == EPIQ_UNKNOWN || plan->cols == EPIQ_UNKNOWN || plan->rows == 0)
        return;
    char reason[256] = "";
    epiqi_text r = {reason, sizeof reason, 0};
    epiq_status status = epiqi_plan_buffers(plan, &r);
    if (status == EPIQ_OK) {
        epiqi_print(&r, "exec.backend: ");
        status = epiqi_usable(plan->exec->backend, &r);
    }
    if (status != EPIQ_OK)
        epiqi_print(t, "%s [%s], so a call would be refused as it stands\n", reason, word_of(status));
#ifdef EPIQ_HAVE_CUDA
    if (plan->exec->backend == EPIQ_BACKEND_CUDA)
        epiqi_cuda_last_error(t);
#endif
}

/* Ends a refusal or describes a plan that was accepted, with what a call would still lack. */
static size_t explain(epiq_status status, epiqi_plan *plan, epiqi_text *t)
{
    if (status != EPIQ_OK) {
        epiqi_print(t, " [%s: %s]\n", word_of(status), epiq_status_string(status));
        return t->length;
    }
    print_missing(t, plan);
    switch (plan->op) {
    case EPIQI_ACT_MUL:
        print_act_mul(t, plan);
        break;
    case EPIQI_RMS_NORM:
        print_rms_norm(t, plan);
        break;
    default:
        epiqi_print(t, "%s: y ", plan->op == EPIQI_QUANTIZE ? "quantize" : "dequantize");
        print_shape(t, plan->rows, plan->cols);
        epiqi_print(t, " %s\n", word_of(plan->dtype));
        break;
    }
    if (plan->format != NULL)
        print_quantizer(t, plan);
    epiq_sizes z = {.struct_size = sizeof z};
    epiqi_plan_sizes(plan, &z);
    print_bytes(t, "codes", z.codes_bytes);
    print_bytes(t, "scales", z.scale_bytes);
    print_bytes(t, "y", z.y_bytes);
    print_bytes(t, "residual_out", z.residual_bytes);
    print_bytes(t, "workspace", z.workspace_bytes);
    return t->length;
}

size_t epiq_explain_act_mul(const epiq_act_mul_args *args, const epiq_output *out, const epiq_exec *exec, char *text,
                            size_t bytes)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiqi_text t = {text, bytes, 0};
    size_t length = explain(epiqi_plan_act_mul(args, out, exec, &plan, &t), &plan, &t);
    fp_state_leave(caller);
    return length;
}

size_t epiq_explain_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out, const epiq_exec *exec, char *text,
                             size_t bytes)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiqi_text t = {text, bytes, 0};
    size_t length = explain(epiqi_plan_rms_norm(args, out, exec, &plan, &t), &plan, &t);
    fp_state_leave(caller);
    return length;
}

size_t epiq_explain_quantize(const epiq_quantize_args *args, const epiq_output *out, const epiq_exec *exec, char *text,
                             size_t bytes)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiqi_text t = {text, bytes, 0};
    size_t length = explain(epiqi_plan_quantize(args, out, exec, &plan, &t), &plan, &t);
    fp_state_leave(caller);
    return length;
}

size_t epiq_explain_dequantize(const epiq_dequantize_args *args, const epiq_exec *exec, char *text, size_t bytes)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiqi_text t = {text, bytes, 0};
    size_t length = explain(epiqi_plan_dequantize(args, exec, &plan, &t), &plan, &t);
    fp_state_leave(caller);
    return length;
}
