/* test_refusals.c: every refusal of every operation: its status, the field that its text names, that check says the
 * same without memory, and that a refused call writes nothing; and which of two broken rules answers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call_fixture.h"

#include <math.h>
#include <stdlib.h>

/* Which struct a fault lies in. */
typedef enum area { ARGS, OUT, EXEC } area;

/* A valid call, `given` to bring it to the place where the rule applies (still valid), `fault` to break the rule. */
typedef struct rule {
    int operations;
    quantizer start;
    area area;
    epiq_status status;
    const char *text; /* the explanation holds it: the field and what is wrong */
    setting fault[3];
    setting given[4];
    int unknown_shape; /* the fault is an unknown dimension: explain, as check, takes the call as it is */
} rule;

#define MAX_ROWS INT64_C(0x7fffffff)
#define MAX_COLS (INT64_C(1) << 28)

/* A backend that cannot exist on the machine that runs this. */
#ifdef __aarch64__
#define FOREIGN_BACKEND EPIQ_BACKEND_AVX2
#else
#define FOREIGN_BACKEND EPIQ_BACKEND_NEON
#endif

#define LIST(...)                                                                                                      \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* RULE(operations, start, area, status, text, fault...), RULE_IF(given, the same...) */
#define RULE(...) RULE_IF(LIST({.kind = NOTHING}), __VA_ARGS__)
#define RULE_IF(given_, operations_, start_, area_, status_, text_, ...)                                               \
    {                                                                                                                  \
        .operations = operations_, .start = start_, .area = area_, .status = EPIQ_ERROR_##status_, .text = text_,      \
        .fault = {__VA_ARGS__}, .given = given_                                                                        \
    }
#define UNKNOWN_SHAPE(operation, field, text_)                                                                         \
    {                                                                                                                  \
        .operations = operation, .status = EPIQ_ERROR_SHAPE, .text = text_, .fault = {INT(field, EPIQ_UNKNOWN)},       \
        .unknown_shape = 1                                                                                             \
    }

#define SEPARATE LIST(INT(act_mul.order, EPIQ_ORDER_SEPARATE), INT(act_mul.x.cols, COLS), PTR(act_mul.up, MEM(UP, 0)))
#define UNGATED LIST(INT(act_mul.order, EPIQ_ORDER_UNGATED), INT(act_mul.x.cols, COLS))
#define ON_CUDA LIST(INT(exec.backend, EPIQ_BACKEND_CUDA))
#define LAYOUT_IS(value) LIST(INT(out.layout, EPIQ_LAYOUT_##value))

static const rule rules[] = {
    /* ---- 1 Structs: args, out, exec ---- */
    RULE(ALL, ANY, ARGS, STRUCT, "args: NULL", INT(no_args, 1)),
    RULE(ACT_MUL, ANY, ARGS, STRUCT, "args.struct_size: 0;", INT(act_mul.struct_size, 0)),
    RULE(RMS_NORM, ANY, ARGS, STRUCT, "args.struct_size: 0;", INT(rms_norm.struct_size, 0)),
    RULE(QUANTIZE, ANY, ARGS, STRUCT, "args.struct_size: 0;", INT(quantize.struct_size, 0)),
    RULE(DEQUANTIZE, ANY, ARGS, STRUCT, "args.struct_size: 0;", INT(dequantize.struct_size, 0)),
    RULE(ACT_MUL, ANY, ARGS, STRUCT, "args.struct_size: 111,", INT(act_mul.struct_size, 111)),
    RULE(RMS_NORM, ANY, ARGS, STRUCT, "args.struct_size: 127,", INT(rms_norm.struct_size, 127)),
    RULE(QUANTIZE, ANY, ARGS, STRUCT, "args.struct_size: 47,", INT(quantize.struct_size, 47)),
    RULE(DEQUANTIZE, ANY, ARGS, STRUCT, "args.struct_size: 111,", INT(dequantize.struct_size, 111)),
    RULE(ACT_MUL, ANY, ARGS, STRUCT, "args: byte 112 is set", INT(act_mul.struct_size, 120)),
    RULE(RMS_NORM, ANY, ARGS, STRUCT, "args: byte 128 is set", INT(rms_norm.struct_size, 136)),
    RULE(QUANTIZE, ANY, ARGS, STRUCT, "args: byte 48 is set", INT(quantize.struct_size, 56)),
    RULE(DEQUANTIZE, ANY, ARGS, STRUCT, "args: byte 112 is set", INT(dequantize.struct_size, 120)),
    RULE(ACT_MUL, ANY, ARGS, STRUCT, "args.reserved: 5;", INT(act_mul.reserved, 5)),
    RULE(RMS_NORM, ANY, ARGS, STRUCT, "args.reserved: 5;", INT(rms_norm.reserved, 5)),
    RULE(QUANTIZE, ANY, ARGS, STRUCT, "args.reserved: 5;", INT(quantize.reserved, 5)),
    RULE(DEQUANTIZE, ANY, ARGS, STRUCT, "args.reserved: 5;", INT(dequantize.reserved, 5)),
    RULE(ACT_MUL, ANY, ARGS, STRUCT, "x.reserved: -1;", INT(act_mul.x.reserved, -1)),
    RULE(RMS_NORM, ANY, ARGS, STRUCT, "x.reserved: -1;", INT(rms_norm.x.reserved, -1)),
    RULE(QUANTIZE, ANY, ARGS, STRUCT, "x.reserved: -1;", INT(quantize.x.reserved, -1)),
    RULE(QUANTIZE, ANY, OUT, STRUCT, "out: NULL", INT(no_out, 1)),
    RULE(QUANTIZERS, ANY, OUT, STRUCT, "out.struct_size: 0;", INT(out.struct_size, 0)),
    RULE(QUANTIZERS, ANY, OUT, STRUCT, "out.struct_size: 119,", INT(out.struct_size, 119)),
    RULE(QUANTIZERS, ANY, OUT, STRUCT, "out: byte 120 is set", INT(out.struct_size, 128)),
    RULE(QUANTIZERS, ANY, OUT, STRUCT, "out.reserved: 1;", INT(out.reserved, 1)),
    RULE(ALL, ANY, EXEC, STRUCT, "exec.struct_size: 0;", INT(exec.struct_size, 0)),
    RULE(ALL, ANY, EXEC, STRUCT, "exec.struct_size: 63,", INT(exec.struct_size, 63)),
    RULE(ALL, ANY, EXEC, STRUCT, "exec: byte 64 is set", INT(exec.struct_size, 72)),

    /* ---- 2 Listed values: a number of no list, one behind the list, one of another list ---- */
    RULE(ACT_MUL, ANY, ARGS, VALUE, "act: 1 is not one of silu (601) gelu_tanh (602)", INT(act_mul.act, 1)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "act: 607 is not one of silu (601)", INT(act_mul.act, 607)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "act: 600 is not one of silu (601)", INT(act_mul.act, 600)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "act: 701 is not one of silu (601)", INT(act_mul.act, EPIQ_ORDER_GATE_UP)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "act: -1 is not one of silu (601)", INT(act_mul.act, -1)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "x.dtype: 0 is not one of f32 (201)", INT(act_mul.x.dtype, 0)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "x.dtype: 204 is not one of f32 (201)", INT(act_mul.x.dtype, 204)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "x.dtype: 211 is not one of", INT(act_mul.x.dtype, EPIQ_DTYPE_E4M3)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "order: 2 is not one of gate_up (701)", INT(act_mul.order, 2)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "order: 706 is not one of gate_up (701)", INT(act_mul.order, 706)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "order: 601 is not one of", INT(act_mul.order, EPIQ_ACT_SILU)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "chain: 805 is not one of vllm (801)", INT(act_mul.chain, 805)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "chain: 1201 is not one of", INT(act_mul.chain, EPIQ_NVFP4_VLLM)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "act_round: 904 is not one of none (901)", INT(act_mul.act_round, 904)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "act_round: 1001 is not", INT(act_mul.act_round, EPIQ_SUM_ROUND_FP32)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "x.dtype: 0 is not one of f32 (201)", INT(rms_norm.x.dtype, 0)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "x.dtype: 213 is not one of", INT(rms_norm.x.dtype, EPIQ_DTYPE_I32)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "weight_dtype: 3 is not one of", INT(rms_norm.weight_dtype, 3)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "weight_dtype: 212 is not one of", INT(rms_norm.weight_dtype, EPIQ_DTYPE_E8M0)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "chain: 4 is not one of vllm (801)", INT(rms_norm.chain, 4)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "sum_round: 1003 is not one of", INT(rms_norm.sum_round, 1003)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "sum_round: 901 is not one of fp32 (1001)", INT(rms_norm.sum_round, 901)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "norm_round: 2 is not one of none (901)", INT(rms_norm.norm_round, 2)),
    RULE(QUANTIZE, ANY, ARGS, VALUE, "x.dtype: 0 is not one of f32 (201)", INT(quantize.x.dtype, 0)),
    RULE(QUANTIZE, ANY, ARGS, VALUE, "x.dtype: 301 is not one of", INT(quantize.x.dtype, EPIQ_FORMAT_E4M3)),
    RULE(DEQUANTIZE, ANY, ARGS, VALUE, "format: required; one of e4m3 (301)", INT(dequantize.format, 0)),
    RULE(DEQUANTIZE, ANY, ARGS, VALUE, "format: 307 is not one of e4m3 (301)", INT(dequantize.format, 307)),
    RULE(DEQUANTIZE, ANY, ARGS, VALUE, "format: 211 is not", INT(dequantize.format, EPIQ_DTYPE_E4M3)),
    RULE(DEQUANTIZE, ANY, ARGS, VALUE, "grain: 404 is not one of tensor (401)", INT(dequantize.grain, 404)),
    RULE(DEQUANTIZE, ANY, ARGS, VALUE, "group: -16 is negative", INT(dequantize.group, -16)),
    RULE(DEQUANTIZE, ANY, ARGS, VALUE, "layout: 507 is not one of row (501)", INT(dequantize.layout, 507)),
    RULE(DEQUANTIZE, ANY, ARGS, VALUE, "scale_dtype: 204 is not", INT(dequantize.scale_dtype, 204)),
    RULE(DEQUANTIZE, ANY, ARGS, VALUE, "y_dtype: 0 is not one of f32 (201)", INT(dequantize.y_dtype, 0)),
    RULE(DEQUANTIZE, ANY, ARGS, VALUE, "y_dtype: 211 is not", INT(dequantize.y_dtype, EPIQ_DTYPE_E4M3)),
    RULE(DEQUANTIZE, E4M3_TOKEN, ARGS, VALUE, "grain: required with e4m3", INT(dequantize.grain, 0)),
    RULE(DEQUANTIZE, E5M2_TOKEN, ARGS, VALUE, "grain: required with e5m2", INT(dequantize.grain, 0)),
    RULE(DEQUANTIZE, INT8_TOKEN, ARGS, VALUE, "grain: required with int8", INT(dequantize.grain, 0)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "format: required; one of e4m3 (301)", INT(out.format, 0)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "format: 307 is not one of e4m3 (301)", INT(out.format, 307)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "format: 3 is not one of", INT(out.format, 3)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "grain: 404 is not one of tensor (401)", INT(out.grain, 404)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "group: -1 is negative", INT(out.group, -1)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "layout: 507 is not one of row (501)", INT(out.layout, 507)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "scale_dtype: 214 is not one of", INT(out.scale_dtype, 214)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "ue8m0: 2 is not 0 or 1", INT(out.ue8m0, 2)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "ue8m0: -1 is not 0 or 1", INT(out.ue8m0, -1)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "mx_round: 1104 is not one of ceil (1101)", INT(out.mx_round, 1104)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "nvfp4: 1203 is not one of vllm (1201)", INT(out.nvfp4, 1203)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "nvfp4: 801 is not one of", INT(out.nvfp4, EPIQ_CHAIN_VLLM)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "nan: 1 is not one of propagate (1301)", INT(out.nan, 1)),
    RULE(QUANTIZERS, ANY, OUT, VALUE, "pad_rows: 1403 is not one of zero (1401)", INT(out.pad_rows, 1403)),
    RULE(QUANTIZERS, NVFP4, OUT, VALUE, "inv_scale: nvfp4 needs inv_scale", PTR(out.inv_scale, NULL)),
    RULE(ALL, ANY, EXEC, VALUE, "exec.backend: 106 is not one of c (101)", INT(exec.backend, 106)),
    RULE(ALL, ANY, EXEC, VALUE, "exec.backend: 1 is not one of c (101)", INT(exec.backend, 1)),
    RULE(ALL, ANY, EXEC, VALUE, "exec.pdl: 1504 is not one of off (1501)", INT(exec.pdl, 1504)),
    RULE(ALL, ANY, EXEC, VALUE, "exec.tasks: -1 is negative", INT(exec.tasks, -1)),
    RULE(ALL, ANY, EXEC, VALUE, "exec.constants: 0x4 has bits", INT(exec.constants, 4)),
    RULE(ALL, ANY, EXEC, VALUE, "exec.constants: 0x80000003", INT(exec.constants, INT64_C(0x80000003))),
    RULE(ALL, ANY, EXEC, VALUE, "exec.device: 1; give EPIQ_DEVICE(n)", INT(exec.device, 1)),
    RULE(ALL, ANY, EXEC, VALUE, "exec.device: 99999; give EPIQ_DEVICE(n)", INT(exec.device, 99999)),
    RULE(ALL, ANY, EXEC, VALUE, "exec.device: -1; give EPIQ_DEVICE(n)", INT(exec.device, -1)),
    RULE(ALL, ANY, EXEC, VALUE, "exec.workspace_bytes: ", INT(exec.workspace_bytes, -1)),

    /* ---- 2 Ranges ---- */
    RULE(ACT_MUL, ANY, ARGS, VALUE, "alpha: -1;", NUM(act_mul.alpha, -1.0f)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "alpha: nan;", NUM(act_mul.alpha, NAN)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "alpha: inf;", NUM(act_mul.alpha, INFINITY)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "2^-100 to 2^100", NUM(act_mul.alpha, 0x1.fffffep-101f)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "2^-100 to 2^100", NUM(act_mul.alpha, 0x1.000002p100f)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "limit: -7;", NUM(act_mul.limit, -7.0f)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "limit: nan;", NUM(act_mul.limit, NAN)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "limit: inf;", NUM(act_mul.limit, INFINITY)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "limit: -inf;", NUM(act_mul.limit, -INFINITY)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "limit_after: -0.5;", NUM(act_mul.limit_after, -0.5f)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "limit_after: nan;", NUM(act_mul.limit_after, NAN)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "limit_after: inf;", NUM(act_mul.limit_after, INFINITY)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "up_offset: nan is not finite", NUM(act_mul.up_offset, NAN)),
    RULE(ACT_MUL, ANY, ARGS, VALUE, "up_offset: -inf is not finite", NUM(act_mul.up_offset, -INFINITY)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "eps: 0; required", NUM(rms_norm.eps, 0.0f)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "eps: -0; required", NUM(rms_norm.eps, -0.0f)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "eps: -1e-06; required", NUM(rms_norm.eps, -1e-6f)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "eps: nan; required", NUM(rms_norm.eps, NAN)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "eps: inf; required", NUM(rms_norm.eps, INFINITY)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "weight_bias: nan is not finite", NUM(rms_norm.weight_bias, NAN)),
    RULE(RMS_NORM, ANY, ARGS, VALUE, "weight_bias: inf is not finite", NUM(rms_norm.weight_bias, INFINITY)),

    /* ---- 3 Contradictions ---- */
    RULE(ACT_MUL, ANY, ARGS, CONFLICT, "chain: allreduce", INT(act_mul.chain, EPIQ_CHAIN_ALLREDUCE)),
    RULE(ACT_MUL, ANY, ARGS, CONFLICT, "alpha: has no effect with act gelu_tanh", INT(act_mul.act, EPIQ_ACT_GELU_TANH),
         NUM(act_mul.alpha, 1.0f)),
    RULE(ACT_MUL, ANY, ARGS, CONFLICT, "alpha: has no effect with act identity", INT(act_mul.act, EPIQ_ACT_IDENTITY),
         NUM(act_mul.alpha, 1.702f)),
    RULE(ACT_MUL, ANY, ARGS, CONFLICT, "limit and limit_after: give one", NUM(act_mul.limit, 7.0f),
         NUM(act_mul.limit_after, 7.0f)),
    RULE_IF(UNGATED, ACT_MUL, ANY, ARGS, CONFLICT, "up_offset: order ungated has no up", NUM(act_mul.up_offset, 1.0f)),
    RULE(ACT_MUL, ANY, ARGS, CONFLICT, "up: given, but order is gate_up", PTR(act_mul.up, MEM(UP, 0))),
    RULE_IF(UNGATED, ACT_MUL, ANY, ARGS, CONFLICT, "up: given, but order is ungated", PTR(act_mul.up, MEM(UP, 0))),
    RULE(ACT_MUL, ANY, ARGS, CONFLICT, "up_row_stride: given, but order is", INT(act_mul.up_row_stride, 256)),
    RULE(RMS_NORM, ANY, ARGS, CONFLICT, "weight_dtype: f16; a weight is f32 or of the dtype of x, bf16",
         INT(rms_norm.weight_dtype, EPIQ_DTYPE_F16)),
    RULE_IF(LIST(INT(rms_norm.x.dtype, EPIQ_DTYPE_F32)), RMS_NORM, ANY, ARGS, CONFLICT,
            "weight_dtype: bf16; a weight is f32 or of the dtype of x, f32",
            INT(rms_norm.weight_dtype, EPIQ_DTYPE_BF16)),
    RULE(RMS_NORM, ANY, ARGS, CONFLICT, "residual_out: given without residual", PTR(rms_norm.residual, NULL)),
    RULE_IF(LIST(PTR(rms_norm.residual, NULL), PTR(rms_norm.residual_out, NULL)), RMS_NORM, ANY, ARGS, CONFLICT,
            "residual_row_stride: given without residual", INT(rms_norm.residual_row_stride, 2 * COLS)),
    RULE_IF(LIST(PTR(rms_norm.residual_out, NULL)), RMS_NORM, ANY, ARGS, CONFLICT,
            "residual_out_row_stride: given without residual_out", INT(rms_norm.residual_out_row_stride, 2 * COLS)),
    RULE(ACT_MUL, ANY, ARGS, CONFLICT, "y_row_stride: given without y_out", PTR(act_mul.y_out, NULL),
         INT(act_mul.y_row_stride, 2 * COLS)),
    RULE(RMS_NORM, ANY, ARGS, CONFLICT, "y_row_stride: given without y_out", PTR(rms_norm.y_out, NULL),
         INT(rms_norm.y_row_stride, 2 * COLS)),

    RULE(ALL, ANY, EXEC, CONFLICT, "exec.stream: given, but backend is not cuda", PTR(exec.stream, memory)),
    RULE(ALL, ANY, EXEC, CONFLICT, "exec.device: given, but backend", INT(exec.device, EPIQ_DEVICE(0))),
    RULE_IF(LIST(INT(exec.backend, EPIQ_BACKEND_C)), ALL, ANY, EXEC, CONFLICT,
            "exec.stream: given, but backend is not cuda", PTR(exec.stream, memory)),
    RULE(QUANTIZERS, E4M3_STATIC, OUT, CONFLICT, "scale and inv_scale: give one of them",
         PTR(out.scale, MEM(SCALE, 0))),
    RULE(QUANTIZERS, NVFP4_COMPUTED, OUT, CONFLICT, "scale: nvfp4", PTR(out.scale, MEM(SCALE, 0))),
    RULE(QUANTIZERS, NVFP4, OUT, CONFLICT, "inv_scale and inv_scale_out: the second level is either given or computed",
         PTR(out.inv_scale_out, MEM(INV_SCALE_OUT, 0))),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, CONFLICT, "inv_scale_out: only nvfp4 computes it, this is e4m3",
         PTR(out.inv_scale_out, MEM(INV_SCALE_OUT, 0))),
    RULE(QUANTIZERS, MXFP4, OUT, CONFLICT, "inv_scale_out: only nvfp4 computes it, this is mxfp4",
         PTR(out.inv_scale_out, MEM(INV_SCALE_OUT, 0))),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, CONFLICT, "scale: given, but grain token", INT(out.grain, EPIQ_GRAIN_TOKEN),
         PTR(out.scale, MEM(SCALE, 0))),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, CONFLICT, "inv_scale: given, but grain token", INT(out.grain, EPIQ_GRAIN_TOKEN),
         PTR(out.inv_scale, MEM(INV_SCALE, 0))),
    RULE(QUANTIZERS, MXFP8, OUT, CONFLICT, "scale: given, but grain group", PTR(out.scale, MEM(SCALE, 0))),
    RULE(QUANTIZERS, E4M3_GROUP, OUT, CONFLICT, "scale: given, but grain", PTR(out.scale, MEM(SCALE, 0))),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, CONFLICT, "ue8m0: has no effect with e4m3 grain", INT(out.ue8m0, 1)),
    RULE(QUANTIZERS, E4M3_STATIC, OUT, CONFLICT, "ue8m0: has no effect with e4m3 grain", INT(out.ue8m0, 1)),
    RULE(QUANTIZERS, NVFP4, OUT, CONFLICT, "ue8m0: has no effect with nvfp4", INT(out.ue8m0, 1)),
    RULE(QUANTIZERS, INT8_TOKEN, OUT, CONFLICT, "ue8m0: has no effect with int8", INT(out.ue8m0, 1)),
    RULE(QUANTIZERS, MXFP8, OUT, CONFLICT, "ue8m0: has no effect with mxfp8", INT(out.ue8m0, 1)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, CONFLICT, "layout: packed_ue8m0 needs grain group, this is grain token",
         INT(out.layout, EPIQ_LAYOUT_PACKED_UE8M0)),
    RULE(QUANTIZERS, INT8_TOKEN, OUT, CONFLICT, "layout: packed_ue8m0 needs grain group, this is grain token",
         INT(out.layout, EPIQ_LAYOUT_PACKED_UE8M0)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, CONFLICT, "mx_round: has no effect with e4m3",
         INT(out.mx_round, EPIQ_MX_ROUND_FLOOR)),
    RULE(QUANTIZERS, NVFP4, OUT, CONFLICT, "mx_round: has no effect with nvfp4", INT(out.mx_round, EPIQ_MX_ROUND_CEIL)),
    RULE(QUANTIZERS, MXFP8, OUT, CONFLICT, "mx_round: vllm is a rule of mxfp4, this is mxfp8",
         INT(out.mx_round, EPIQ_MX_ROUND_VLLM)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, CONFLICT, "nvfp4: has no effect with e4m3", INT(out.nvfp4, EPIQ_NVFP4_IEEE)),
    RULE(QUANTIZERS, MXFP4, OUT, CONFLICT, "nvfp4: has no effect with mxfp4", INT(out.nvfp4, EPIQ_NVFP4_VLLM)),
    RULE(QUANTIZERS, E4M3_STATIC, OUT, CONFLICT, "scale_ub: has no effect with e4m3 grain tensor",
         PTR(out.scale_ub, MEM(SCALE_UB, 0))),
    RULE(QUANTIZERS, E4M3_DYNAMIC, OUT, CONFLICT, "scale_ub: has no effect with e4m3 grain tensor",
         PTR(out.scale_ub, MEM(SCALE_UB, 0))),
    RULE(QUANTIZERS, E4M3_GROUP, OUT, CONFLICT, "scale_ub: has no effect with e4m3 grain group",
         PTR(out.scale_ub, MEM(SCALE_UB, 0))),
    RULE(QUANTIZERS, INT8_TOKEN, OUT, CONFLICT, "scale_ub: has no effect with int8",
         PTR(out.scale_ub, MEM(SCALE_UB, 0))),
    RULE(QUANTIZERS, NVFP4, OUT, CONFLICT, "scale_ub: has no effect with nvfp4", PTR(out.scale_ub, MEM(SCALE_UB, 0))),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, CONFLICT, "group: 128 has no effect with grain", INT(out.group, 128)),
    RULE(QUANTIZERS, E4M3_STATIC, OUT, CONFLICT, "group: 16 has no effect with grain", INT(out.group, 16)),
    RULE(QUANTIZERS, E4M3_DYNAMIC, OUT, CONFLICT, "group: 16 has no effect with grain", INT(out.group, 16)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, CONFLICT, "layout: col needs grain group, this is grain token",
         INT(out.layout, EPIQ_LAYOUT_COL)),
    RULE(QUANTIZERS, E4M3_STATIC, OUT, CONFLICT, "layout: tile128x4 needs grain group, this is grain tensor",
         INT(out.layout, EPIQ_LAYOUT_TILE128X4)),
    RULE(QUANTIZERS, E4M3_DYNAMIC, OUT, CONFLICT, "layout: col_aligned needs grain group, this is grain tensor",
         INT(out.layout, EPIQ_LAYOUT_COL_ALIGNED)),
    RULE(QUANTIZERS, E4M3_STATIC, OUT, CONFLICT, "scale_out: a static scale is not written",
         PTR(out.scale_out, MEM(SCALES, 0))),
    RULE(QUANTIZERS, E4M3_STATIC, OUT, CONFLICT, "scale_stride: a static scale is not written",
         INT(out.scale_stride, 4)),
    RULE(QUANTIZERS, E4M3_STATIC, OUT, CONFLICT, "scale_dtype: a static scale is not written",
         INT(out.scale_dtype, EPIQ_DTYPE_F32)),
    RULE(DEQUANTIZE, E4M3_TOKEN, ARGS, CONFLICT, "inv_scale: has no effect with e4m3 grain token",
         PTR(dequantize.inv_scale, MEM(INV_SCALE, 0))),
    RULE(DEQUANTIZE, MXFP8, ARGS, CONFLICT, "inv_scale: has no effect with mxfp8",
         PTR(dequantize.inv_scale, MEM(INV_SCALE, 0))),
    RULE(DEQUANTIZE, E4M3_STATIC, ARGS, CONFLICT, "scale and inv_scale: give one",
         PTR(dequantize.scale, MEM(SCALE, 0))),
    RULE(DEQUANTIZE, E4M3_STATIC, ARGS, CONFLICT, "scale_stride: inv_scale stands for the scale",
         INT(dequantize.scale_stride, 4)),
    RULE(DEQUANTIZE, INT8_STATIC, ARGS, CONFLICT, "scale_dtype: inv_scale stands for the scale",
         INT(dequantize.scale_dtype, EPIQ_DTYPE_F32)),
    RULE(DEQUANTIZE, E4M3_TOKEN, ARGS, CONFLICT, "group: 64 has no effect", INT(dequantize.group, 64)),
    RULE(DEQUANTIZE, E4M3_STATIC, ARGS, CONFLICT, "group: 64 has no effect", INT(dequantize.group, 64)),
    RULE(DEQUANTIZE, E4M3_TOKEN, ARGS, CONFLICT, "layout: tile8x4 needs grain group, this is grain token",
         INT(dequantize.layout, EPIQ_LAYOUT_TILE8X4)),

    /* ---- 4 Combinations that are not offered ---- */
    RULE(QUANTIZERS, NVFP4, OUT, UNSUPPORTED, "grain: nvfp4 is not offered with grain token",
         INT(out.grain, EPIQ_GRAIN_TOKEN)),
    RULE(QUANTIZERS, NVFP4, OUT, UNSUPPORTED, "grain: nvfp4", INT(out.grain, EPIQ_GRAIN_TENSOR)),
    RULE(QUANTIZERS, MXFP8, OUT, UNSUPPORTED, "grain: mxfp8", INT(out.grain, EPIQ_GRAIN_TOKEN)),
    RULE(QUANTIZERS, MXFP4, OUT, UNSUPPORTED, "grain: mxfp4", INT(out.grain, EPIQ_GRAIN_TENSOR)),
    RULE(QUANTIZERS, INT8_TOKEN, OUT, UNSUPPORTED, "grain: int8 is not offered with a dynamic grain tensor",
         INT(out.grain, EPIQ_GRAIN_TENSOR)),
    RULE(QUANTIZERS, INT8_TOKEN, OUT, UNSUPPORTED, "grain: int8", INT(out.grain, EPIQ_GRAIN_GROUP)),
    RULE(QUANTIZERS, NVFP4, OUT, UNSUPPORTED, "layout: col is not", INT(out.layout, EPIQ_LAYOUT_COL)),
    RULE(QUANTIZERS, NVFP4, OUT, UNSUPPORTED, "layout: col_aligned is not", INT(out.layout, EPIQ_LAYOUT_COL_ALIGNED)),
    RULE(QUANTIZERS, MXFP8, OUT, UNSUPPORTED, "layout: col is not", INT(out.layout, EPIQ_LAYOUT_COL)),
    RULE(QUANTIZERS, MXFP8, OUT, UNSUPPORTED, "layout: packed_ue8m0 is not offered for mxfp8",
         INT(out.layout, EPIQ_LAYOUT_PACKED_UE8M0)),
    RULE(QUANTIZERS, E4M3_GROUP, OUT, UNSUPPORTED, "layout: tile128x4 is not", INT(out.layout, EPIQ_LAYOUT_TILE128X4)),
    RULE(QUANTIZERS, E5M2_GROUP, OUT, UNSUPPORTED, "layout: tile8x4 is not", INT(out.layout, EPIQ_LAYOUT_TILE8X4)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, UNSUPPORTED, "scale_dtype: bf16; the scales stored here are f32",
         INT(out.scale_dtype, EPIQ_DTYPE_BF16)),
    RULE(QUANTIZERS, NVFP4, OUT, UNSUPPORTED, "scale_dtype: f32; the scales stored here are e4m3",
         INT(out.scale_dtype, EPIQ_DTYPE_F32)),
    RULE(QUANTIZERS, MXFP8, OUT, UNSUPPORTED, "scale_dtype: f32; the scales stored here are e8m0",
         INT(out.scale_dtype, EPIQ_DTYPE_F32)),
    RULE(QUANTIZERS, E4M3_GROUP, OUT, UNSUPPORTED, "scale_dtype: f32; the scales stored here are i32",
         INT(out.layout, EPIQ_LAYOUT_PACKED_UE8M0), INT(out.scale_dtype, EPIQ_DTYPE_F32)),
    RULE(DEQUANTIZE, NVFP4, ARGS, UNSUPPORTED, "grain: nvfp4", INT(dequantize.grain, EPIQ_GRAIN_TOKEN)),
    RULE(DEQUANTIZE, NVFP4, ARGS, UNSUPPORTED, "layout: col is not offered for nvfp4",
         INT(dequantize.layout, EPIQ_LAYOUT_COL)),
    RULE(DEQUANTIZE, NVFP4, ARGS, UNSUPPORTED, "layout: packed_ue8m0 is not offered for nvfp4",
         INT(dequantize.layout, EPIQ_LAYOUT_PACKED_UE8M0)),
    RULE(DEQUANTIZE, INT8_TOKEN, ARGS, UNSUPPORTED, "grain: int8", INT(dequantize.grain, EPIQ_GRAIN_GROUP)),
    RULE(DEQUANTIZE, E4M3_DYNAMIC, ARGS, UNSUPPORTED, "scale_dtype: bf16; the scales stored here are f32",
         INT(dequantize.scale_dtype, EPIQ_DTYPE_BF16)),
    RULE(DEQUANTIZE, E4M3_TOKEN, ARGS, UNSUPPORTED, "scale_dtype: i32; the scales stored here are f32",
         INT(dequantize.scale_dtype, EPIQ_DTYPE_I32)),

    /* ---- 5 Shapes ---- */
    RULE(ACT_MUL, ANY, ARGS, SHAPE, "x.rows: -2; allowed are 0 to 2^31 - 1", INT(act_mul.x.rows, -2)),
    RULE(ACT_MUL, ANY, ARGS, SHAPE, "x.rows: 2147483648;", INT(act_mul.x.rows, MAX_ROWS + 1)),
    RULE(ACT_MUL, ANY, ARGS, SHAPE, "x.cols: 0;", INT(act_mul.x.cols, 0)),
    RULE(ACT_MUL, ANY, ARGS, SHAPE, "x.cols: 1;", INT(act_mul.x.cols, 1)),
    RULE(ACT_MUL, ANY, ARGS, SHAPE, "x.cols: 127 is odd", INT(act_mul.x.cols, 2 * COLS - 1)),
    RULE(ACT_MUL, ANY, ARGS, SHAPE, "x.cols: -2;", INT(act_mul.x.cols, -2)),
    RULE(ACT_MUL, ANY, ARGS, SHAPE, "x.cols: 536870914;", INT(act_mul.x.cols, 2 * MAX_COLS + 2)),
    RULE_IF(LIST(INT(act_mul.order, EPIQ_ORDER_UNGATED)), ACT_MUL, ANY, ARGS, SHAPE, "x.cols: 268435457;",
            INT(act_mul.x.cols, MAX_COLS + 1)),
    RULE_IF(LIST(INT(act_mul.order, EPIQ_ORDER_SEPARATE), PTR(act_mul.up, MEM(UP, 0))), ACT_MUL, ANY, ARGS, SHAPE,
            "x.cols: 268435457;", INT(act_mul.x.cols, MAX_COLS + 1)),
    RULE(RMS_NORM, ANY, ARGS, SHAPE, "x.rows: -9223372036854775808;", INT(rms_norm.x.rows, INT64_MIN)),
    RULE(RMS_NORM, ANY, ARGS, SHAPE, "x.rows: 2147483648;", INT(rms_norm.x.rows, MAX_ROWS + 1)),
    RULE(RMS_NORM, ANY, ARGS, SHAPE, "x.cols: 0;", INT(rms_norm.x.cols, 0)),
    RULE(RMS_NORM, ANY, ARGS, SHAPE, "x.cols: 268435457;", INT(rms_norm.x.cols, MAX_COLS + 1)),
    RULE(QUANTIZE, ANY, ARGS, SHAPE, "x.rows: 9223372036854775807;", INT(quantize.x.rows, INT64_MAX)),
    RULE(QUANTIZE, ANY, ARGS, SHAPE, "x.cols: 0;", INT(quantize.x.cols, 0)),
    RULE(QUANTIZE, ANY, ARGS, SHAPE, "x.cols: 268435457;", INT(quantize.x.cols, MAX_COLS + 1)),
    RULE(DEQUANTIZE, ANY, ARGS, SHAPE, "rows: -2; allowed are 0 to 2^31 - 1", INT(dequantize.rows, -2)),
    RULE(DEQUANTIZE, ANY, ARGS, SHAPE, "rows: 2147483648;", INT(dequantize.rows, MAX_ROWS + 1)),
    RULE(DEQUANTIZE, ANY, ARGS, SHAPE, "cols: 0;", INT(dequantize.cols, 0)),
    RULE(DEQUANTIZE, ANY, ARGS, SHAPE, "cols: 268435457;", INT(dequantize.cols, MAX_COLS + 1)),
    RULE(QUANTIZERS, NVFP4, OUT, SHAPE, "group: 32; a block of nvfp4 has 16 columns", INT(out.group, 32)),
    RULE(QUANTIZERS, MXFP8, OUT, SHAPE, "group: 16; a block of mxfp8 has 32 columns", INT(out.group, 16)),
    RULE(QUANTIZERS, MXFP4, OUT, SHAPE, "group: 128; a block of mxfp4 has 32 columns", INT(out.group, 128)),
    RULE(QUANTIZERS, E4M3_GROUP, OUT, SHAPE, "group: 48 is not one of 16 32 64 128", INT(out.group, 48)),
    RULE(QUANTIZERS, E5M2_GROUP, OUT, SHAPE, "group: 256 is not one of 16 32 64 128", INT(out.group, 256)),
    RULE(DEQUANTIZE, NVFP4, ARGS, SHAPE, "group: 32; a block of nvfp4 has 16", INT(dequantize.group, 32)),
    RULE(DEQUANTIZE, MXFP4, ARGS, SHAPE, "group: 16; a block of mxfp4 has 32", INT(dequantize.group, 16)),
    RULE(DEQUANTIZE, E4M3_GROUP, ARGS, SHAPE, "group: 1 is not one of 16 32 64 128", INT(dequantize.group, 1)),
    RULE(QUANTIZERS, ANY, OUT, SHAPE, "padded_cols: -1;", INT(out.padded_cols, EPIQ_UNKNOWN)),
    RULE(QUANTIZERS, ANY, OUT, SHAPE, "padded_cols: 268435457;", INT(out.padded_cols, MAX_COLS + 1)),
    RULE(QUANTIZERS, ANY, OUT, SHAPE, "padded_cols: 63 is less than the 64", INT(out.padded_cols, COLS - 1)),
    RULE(QUANTIZERS, NVFP4, OUT, SHAPE, "padded_cols: 72 is not a multiple of 16, the block of nvfp4",
         INT(out.padded_cols, 72)),
    RULE(QUANTIZERS, MXFP8, OUT, SHAPE, "padded_cols: 80 is not a multiple of 32, the block of mxfp8",
         INT(out.padded_cols, 80)),
    RULE(ACT_MUL, NVFP4, ARGS, SHAPE, "cols: 56 is not a multiple of 16", INT(act_mul.x.cols, 112)),
    RULE(RMS_NORM, NVFP4, ARGS, SHAPE, "cols: 56 is not a multiple of 16", INT(rms_norm.x.cols, 56)),
    RULE(QUANTIZE, NVFP4, ARGS, SHAPE, "cols: 15 is not a multiple of 16", INT(quantize.x.cols, 15)),
    RULE(QUANTIZE, MXFP4, ARGS, SHAPE, "cols: 48 is not a multiple of 32", INT(quantize.x.cols, 48)),
    RULE(DEQUANTIZE, ANY, ARGS, SHAPE, "padded_cols: -1;", INT(dequantize.padded_cols, -1)),
    RULE(DEQUANTIZE, ANY, ARGS, SHAPE, "padded_cols: 63 is less", INT(dequantize.padded_cols, COLS - 1)),
    RULE(DEQUANTIZE, NVFP4, ARGS, SHAPE, "cols: 60 is not a multiple of 16", INT(dequantize.cols, 60)),
    RULE(DEQUANTIZE, NVFP4, ARGS, SHAPE, "padded_cols: 72 is not", INT(dequantize.padded_cols, 72)),

    /* ---- 6 Strides: negative, shorter than a row, reaching beyond an address ---- */
    RULE(ACT_MUL, ANY, ARGS, STRIDE, "x.row_stride: -256 is negative", INT(act_mul.x.row_stride, -256)),
    RULE(ACT_MUL, ANY, ARGS, STRIDE, "x.row_stride: 255 bytes is shorter than a row of 256 bytes",
         INT(act_mul.x.row_stride, 255)),
    RULE(ACT_MUL, ANY, ARGS, STRIDE, "x.row_stride: 9223372036854775807 bytes times 3 rows",
         INT(act_mul.x.row_stride, INT64_MAX)),
    RULE(ACT_MUL, ANY, ARGS, STRIDE, "y_row_stride: -1 is negative", INT(act_mul.y_row_stride, -1)),
    RULE(ACT_MUL, ANY, ARGS, STRIDE, "y_row_stride: 127 bytes is shorter", INT(act_mul.y_row_stride, 127)),
    RULE_IF(SEPARATE, ACT_MUL, ANY, ARGS, STRIDE, "up_row_stride: -128 is negative", INT(act_mul.up_row_stride, -128)),
    RULE_IF(SEPARATE, ACT_MUL, ANY, ARGS, STRIDE, "up_row_stride: 127 bytes is shorter",
            INT(act_mul.up_row_stride, 127)),
    RULE(RMS_NORM, ANY, ARGS, STRIDE, "x.row_stride: -1 is negative", INT(rms_norm.x.row_stride, -1)),
    RULE(RMS_NORM, ANY, ARGS, STRIDE, "x.row_stride: 64 bytes is shorter", INT(rms_norm.x.row_stride, 64)),
    RULE(RMS_NORM, ANY, ARGS, STRIDE, "residual_row_stride: -128 is negative", INT(rms_norm.residual_row_stride, -128)),
    RULE(RMS_NORM, ANY, ARGS, STRIDE, "residual_row_stride: 126 bytes is shorter",
         INT(rms_norm.residual_row_stride, 126)),
    RULE(RMS_NORM, ANY, ARGS, STRIDE, "residual_out_row_stride: -128 is negative",
         INT(rms_norm.residual_out_row_stride, -128)),
    RULE(RMS_NORM, ANY, ARGS, STRIDE, "residual_out_row_stride: 1 bytes is shorter",
         INT(rms_norm.residual_out_row_stride, 1)),
    RULE(RMS_NORM, ANY, ARGS, STRIDE, "y_row_stride: -2 is negative", INT(rms_norm.y_row_stride, -2)),
    RULE(RMS_NORM, ANY, ARGS, STRIDE, "y_row_stride: 2 bytes is shorter", INT(rms_norm.y_row_stride, 2)),
    RULE(QUANTIZE, ANY, ARGS, STRIDE, "x.row_stride: -1 is negative", INT(quantize.x.row_stride, -1)),
    RULE(QUANTIZE, ANY, ARGS, STRIDE, "x.row_stride: 127 bytes is shorter", INT(quantize.x.row_stride, 127)),
    RULE(QUANTIZERS, ANY, OUT, STRIDE, "codes_row_stride: -64 is negative", INT(out.codes_row_stride, -64)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, STRIDE, "codes_row_stride: 63 bytes", INT(out.codes_row_stride, 63)),
    RULE(QUANTIZERS, NVFP4, OUT, STRIDE, "codes_row_stride: 31 bytes", INT(out.codes_row_stride, 31)),
    RULE_IF(LIST(INT(out.padded_cols, 80)), QUANTIZERS, E4M3_TOKEN, OUT, STRIDE,
            "codes_row_stride: 79 bytes is shorter than a row of 80 bytes", INT(out.codes_row_stride, 79)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, STRIDE, "codes_row_stride: 4611686018427387904 bytes times 3 rows",
         INT(out.codes_row_stride, INT64_C(1) << 62)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, STRIDE, "scale_stride: -4 is negative", INT(out.scale_stride, -4)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, STRIDE, "scale_stride: 3 bytes is shorter than a row of 4 bytes",
         INT(out.scale_stride, 3)),
    RULE(QUANTIZERS, NVFP4, OUT, STRIDE, "scale_stride: 3 bytes is shorter", INT(out.scale_stride, 3)),
    RULE_IF(LAYOUT_IS(TILE128X4), QUANTIZERS, NVFP4, OUT, STRIDE, "scale_stride: 512; tiles have none",
            INT(out.scale_stride, 512)),
    RULE_IF(LAYOUT_IS(TILE8X4), QUANTIZERS, MXFP8, OUT, STRIDE, "scale_stride: 32; tiles have none",
            INT(out.scale_stride, 32)),
    RULE_IF(LAYOUT_IS(COL), QUANTIZERS, E4M3_GROUP, OUT, STRIDE,
            "scale_stride: 11 bytes is shorter than a row of 12 bytes", INT(out.scale_stride, 11)),
    RULE_IF(LAYOUT_IS(PACKED_UE8M0), QUANTIZERS, E4M3_GROUP, OUT, STRIDE,
            "scale_stride: 15 bytes is shorter than a row of 16 bytes", INT(out.scale_stride, 15)),
    RULE(DEQUANTIZE, ANY, ARGS, STRIDE, "codes_row_stride: -1 is", INT(dequantize.codes_row_stride, -1)),
    RULE(DEQUANTIZE, ANY, ARGS, STRIDE, "codes_row_stride: 31 bytes", INT(dequantize.codes_row_stride, 31)),
    RULE(DEQUANTIZE, E4M3_TOKEN, ARGS, STRIDE, "scale_stride: -1 is", INT(dequantize.scale_stride, -1)),
    RULE(DEQUANTIZE, E4M3_TOKEN, ARGS, STRIDE, "scale_stride: 2 bytes", INT(dequantize.scale_stride, 2)),
    RULE(DEQUANTIZE, E4M3_DYNAMIC, ARGS, STRIDE, "scale_stride: 3 bytes is shorter than a row of 4 bytes",
         INT(dequantize.scale_stride, 3)),
    RULE(QUANTIZERS, E4M3_DYNAMIC, OUT, STRIDE, "scale_stride: 3 bytes is shorter than a row of 4 bytes",
         INT(out.scale_stride, 3)),
    RULE_IF(LIST(INT(dequantize.layout, EPIQ_LAYOUT_TILE128X4)), DEQUANTIZE, NVFP4, ARGS, STRIDE,
            "scale_stride: 4; tiles have none", INT(dequantize.scale_stride, 4)),
    RULE(DEQUANTIZE, ANY, ARGS, STRIDE, "y_row_stride: -128 is", INT(dequantize.y_row_stride, -128)),
    RULE(DEQUANTIZE, ANY, ARGS, STRIDE, "y_row_stride: 127 bytes", INT(dequantize.y_row_stride, 127)),

    /* ---- Of a call alone: a known shape ---- */
    UNKNOWN_SHAPE(ACT_MUL, act_mul.x.rows, "rows: unknown"),
    UNKNOWN_SHAPE(ACT_MUL, act_mul.x.cols, "cols: unknown"),
    UNKNOWN_SHAPE(RMS_NORM, rms_norm.x.rows, "rows: unknown"),
    UNKNOWN_SHAPE(RMS_NORM, rms_norm.x.cols, "cols: unknown"),
    UNKNOWN_SHAPE(QUANTIZE, quantize.x.rows, "rows: unknown"),
    UNKNOWN_SHAPE(QUANTIZE, quantize.x.cols, "cols: unknown"),
    UNKNOWN_SHAPE(DEQUANTIZE, dequantize.rows, "rows: unknown"),
    UNKNOWN_SHAPE(DEQUANTIZE, dequantize.cols, "cols: unknown"),

    /* ---- 7 Buffers ---- */
    RULE(ACT_MUL, ANY, ARGS, BUFFER, "x.data: NULL", PTR(act_mul.x.data, NULL)),
    RULE(RMS_NORM, ANY, ARGS, BUFFER, "x.data: NULL", PTR(rms_norm.x.data, NULL)),
    RULE(QUANTIZE, ANY, ARGS, BUFFER, "x.data: NULL", PTR(quantize.x.data, NULL)),
    RULE_IF(SEPARATE, ACT_MUL, ANY, ARGS, BUFFER, "up: NULL; order separate reads it", PTR(act_mul.up, NULL)),
    RULE(RMS_NORM, ANY, ARGS, BUFFER, "weight: NULL", PTR(rms_norm.weight, NULL)),
    RULE(ACT_MUL, NO_OUT, ARGS, BUFFER, "y_out: NULL, and so is out", PTR(act_mul.y_out, NULL)),
    RULE(RMS_NORM, NO_OUT, ARGS, BUFFER, "y_out: NULL, and so is out", PTR(rms_norm.y_out, NULL)),
    RULE(DEQUANTIZE, ANY, ARGS, BUFFER, "y_out: NULL", PTR(dequantize.y_out, NULL)),
    RULE(QUANTIZERS, ANY, OUT, BUFFER, "codes_out: NULL", PTR(out.codes_out, NULL)),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, BUFFER, "scale_out: NULL", PTR(out.scale_out, NULL)),
    RULE(QUANTIZERS, E4M3_DYNAMIC, OUT, BUFFER, "scale_out: NULL", PTR(out.scale_out, NULL)),
    RULE(QUANTIZERS, NVFP4, OUT, BUFFER, "scale_out: NULL", PTR(out.scale_out, NULL)),
    RULE(QUANTIZERS, MXFP8, OUT, BUFFER, "scale_out: NULL", PTR(out.scale_out, NULL)),
    RULE(DEQUANTIZE, ANY, ARGS, BUFFER, "codes: NULL", PTR(dequantize.codes, NULL)),
    RULE(DEQUANTIZE, E4M3_TOKEN, ARGS, BUFFER, "scale: NULL", PTR(dequantize.scale, NULL)),
    RULE(DEQUANTIZE, NVFP4, ARGS, BUFFER, "scale: NULL", PTR(dequantize.scale, NULL)),
    RULE(DEQUANTIZE, E4M3_DYNAMIC, ARGS, BUFFER, "scale and inv_scale: NULL", PTR(dequantize.scale, NULL)),
    RULE(DEQUANTIZE, E4M3_STATIC, ARGS, BUFFER, "scale and inv_scale: NULL", PTR(dequantize.inv_scale, NULL)),
    RULE(DEQUANTIZE, NVFP4, ARGS, BUFFER, "inv_scale: NULL; nvfp4 needs", PTR(dequantize.inv_scale, NULL)),

    /* ---- 8 Overlap (test_overlap.c has the geometry) ---- */
    RULE(ACT_MUL, ANY, ARGS, OVERLAP, "x.data and y_out overlap", PTR(act_mul.y_out, MEM(X, 0))),
    RULE(RMS_NORM, ANY, ARGS, OVERLAP, "weight and residual_out overlap", PTR(rms_norm.residual_out, MEM(WEIGHT, 0))),
    RULE(RMS_NORM, ANY, ARGS, OVERLAP, "residual and residual_out overlap",
         PTR(rms_norm.residual_out, MEM(RESIDUAL, 2))),
    RULE(RMS_NORM, ANY, ARGS, OVERLAP, "x.data and residual_out overlap", PTR(rms_norm.residual_out, MEM(X, 0))),
    RULE(RMS_NORM, ANY, ARGS, OVERLAP, "residual_out and y_out overlap", PTR(rms_norm.y_out, MEM(RESIDUAL_OUT, 0))),
    RULE(QUANTIZERS, ANY, OUT, OVERLAP, "x.data and codes_out overlap", PTR(out.codes_out, MEM(X, 0))),
    RULE(QUANTIZERS, E4M3_STATIC, OUT, OVERLAP, "inv_scale and codes_out overlap", PTR(out.inv_scale, MEM(CODES, 4))),
    RULE(QUANTIZERS, E4M3_TOKEN, OUT, OVERLAP, "scale_ub and scale_out overlap", PTR(out.scale_ub, MEM(SCALES, 8))),
    RULE(QUANTIZERS, NVFP4, OUT, OVERLAP, "codes_out and scale_out overlap", PTR(out.scale_out, MEM(CODES, 0))),
    RULE(QUANTIZERS, NVFP4_COMPUTED, OUT, OVERLAP, "scale_out and inv_scale_out overlap",
         PTR(out.inv_scale_out, MEM(SCALES, 8))),
    RULE(DEQUANTIZE, ANY, ARGS, OVERLAP, "codes and y_out overlap", PTR(dequantize.y_out, MEM(CODES, 0))),
    RULE(DEQUANTIZE, E4M3_TOKEN, ARGS, OVERLAP, "scale and y_out overlap", PTR(dequantize.y_out, MEM(SCALES, 0))),
    RULE(DEQUANTIZE, NVFP4, ARGS, OVERLAP, "inv_scale and y_out overlap", PTR(dequantize.y_out, MEM(INV_SCALE, 0))),

    /* ---- 9 Workspace ---- */
    RULE_IF(ON_CUDA, QUANTIZERS, E4M3_DYNAMIC, EXEC, WORKSPACE, "workspace: 0 bytes are given",
            PTR(exec.workspace, NULL)),
    RULE_IF(ON_CUDA, QUANTIZERS, NVFP4_COMPUTED, EXEC, WORKSPACE, "workspace: 0 bytes are given",
            INT(exec.workspace_bytes, 1 << 20)),
    RULE_IF(ON_CUDA, QUANTIZERS, NVFP4_COMPUTED, EXEC, WORKSPACE, "workspace: 16 bytes are given",
            PTR(exec.workspace, MEM(WORKSPACE, 0)), INT(exec.workspace_bytes, 16)),
    /* ---- 10 Backend ---- */
    RULE(ALL, ANY, EXEC, BACKEND, "exec.backend: ", INT(exec.backend, FOREIGN_BACKEND)),
};

/* ---- One rule ---------------------------------------------------------------------------------------------------- */

/* Whether check does not have the rule: it is about memory and machine, or about a shape that a check may lack. */
static int of_operation_alone(const rule *r)
{
    return r->unknown_shape || (r->status >= EPIQ_ERROR_BUFFER && r->status <= EPIQ_ERROR_WORKSPACE) ||
           r->status >= EPIQ_ERROR_BACKEND;
}

/* The order of the rules; a refusal for an unknown shape comes when memory would be needed. */
static double rank_of(const rule *r)
{
    static const epiq_status order[] = {
        EPIQ_ERROR_STRUCT, EPIQ_ERROR_VALUE,  EPIQ_ERROR_CONFLICT, EPIQ_ERROR_UNSUPPORTED, EPIQ_ERROR_SHAPE,
        EPIQ_ERROR_STRIDE, EPIQ_ERROR_BUFFER, EPIQ_ERROR_OVERLAP,  EPIQ_ERROR_WORKSPACE,   EPIQ_ERROR_BACKEND};
    if (r->unknown_shape)
        return 5.5;
    for (size_t i = 0; i < COUNT(order); i++)
        if (order[i] == r->status)
            return (double)i;
    fail();
    return 0;
}

static void make_call(call *c, const rule *r, operation op, quantizer start)
{
    begin(c, op, start);
    apply(c, r->given, COUNT(r->given));
}

static void describe(const rule *r, operation op, const char *what)
{
    print_error("rule %d: %s, \"%s\": %s\n", (int)(r - rules), operation_name(op), r->text, what);
}

/* The three answers about a call that breaks the rule alone. */
static int check_rule(const rule *r, operation op)
{
    call c;
    char text[2048];
    int faults = 0;
    make_call(&c, r, op, r->start);
    if (call_check(&c, NULL) != EPIQ_OK) {
        describe(r, op, "the call that the rule starts from is refused");
        return 1;
    }
    apply(&c, r->fault, COUNT(r->fault));

    size_t length = call_explain(&c, text, sizeof text);
    epiq_status checked = call_check(&c, NULL), ran = call_run(&c);
    char word[64];
    snprintf(word, sizeof word, of_operation_alone(r) ? "[%s]" : "[%s: ", epiq_word(r->status));
    if (checked != (of_operation_alone(r) ? EPIQ_OK : r->status)) {
        describe(r, op, "check answers otherwise:");
        faults++;
    }
    if (ran != r->status) {
        describe(r, op, "the operation answers otherwise:");
        faults++;
    }
    if (length >= sizeof text || (!r->unknown_shape && (strstr(text, r->text) == NULL || strstr(text, word) == NULL))) {
        describe(r, op, "the explanation is otherwise:");
        faults++;
    }
    if (!memory_is_untouched()) {
        describe(r, op, "the operation wrote something");
        fill_memory();
        faults++;
    }
    if (faults != 0)
        print_error("    expected %s, check %s, operation %s, \"%s\"\n", epiq_word(r->status), epiq_word(checked),
                    epiq_word(ran), text);
    return faults;
}

static void test_each_rule(void **state)
{
    (void)state;
    int faults = 0, calls = 0;
    fill_memory();
    for (size_t i = 0; i < COUNT(rules); i++)
        for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
            if ((rules[i].operations & (int)op) == 0)
                continue;
            faults += check_rule(&rules[i], op);
            calls++;
        }
    print_message("           %d refused calls\n", calls);
    assert_int_equal(faults, 0);
    assert_true(calls > 500);
}

/* What the rules start from is accepted by the operations too, and written. */
static void test_starts_are_accepted(void **state)
{
    (void)state;
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2)
        for (quantizer q = ANY; q < QUANTIZER_COUNT; q++) {
            call c;
            if (q == NO_OUT && op >= QUANTIZE)
                continue;
            fill_memory();
            begin(&c, op, q);
            assert_int_equal(call_run(&c), EPIQ_OK);
            assert_false(memory_is_untouched());
            c.no_exec = 1;
            assert_int_equal(call_run(&c), EPIQ_OK);
        }
}

/* Buffers may be missing and a backend absent where nothing will be read or written: in a call of no rows. */
static void test_no_rows_need_arguments_alone(void **state)
{
    (void)state;
    fill_memory();
    for (size_t i = 0; i < COUNT(rules); i++)
        for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
            const rule *r = &rules[i];
            if ((r->operations & (int)op) == 0 || !of_operation_alone(r) || r->unknown_shape)
                continue;
            call c;
            char text[2048];
            make_call(&c, r, op, r->start);
            apply(&c, r->fault, COUNT(r->fault));
            c.act_mul.x.rows = c.rms_norm.x.rows = c.quantize.x.rows = c.dequantize.rows = 0;
            call_explain(&c, text, sizeof text);
            if (call_run(&c) != EPIQ_OK || !memory_is_untouched() || strstr(text, "refused") != NULL) {
                describe(r, op, "refused, or something written, with 0 rows");
                fail();
            }
        }
}

/* ---- Two rules --------------------------------------------------------------------------------------------------- */

static int touches_same_field(const rule *a, const rule *b)
{
    for (size_t i = 0; i < COUNT(a->fault); i++)
        for (size_t k = 0; k < COUNT(b->fault); k++)
            if (a->fault[i].kind != NOTHING && b->fault[k].kind != NOTHING && a->fault[i].offset == b->fault[k].offset)
                return 1;
    return 0;
}

/* Faults that are no longer both faults, or other ones, when they come together. */
static const char *const meaning_changes[][2] = {
    {"inv_scale: nvfp4 needs inv_scale", "inv_scale and inv_scale_out"}, /* the second level is computed */
    {"grain: ", "layout: "},                                             /* the layouts of another grain */
    {"grain: ", "group: "},
    {"grain: ", "given, but grain group"},
    {"is less than the", "cols: "}, /* other columns */
    {"is not a multiple of", "cols: "},
    {"cols: unknown", " bytes"}, /* a row of unknown length */
    {"cols: unknown", "is not a multiple of"},
    {"cols: unknown", "padded_cols: 63 is less"},
    {"scale and inv_scale: give one", "scale and inv_scale: NULL"},  /* one is left */
    {"inv_scale stands for the scale", "scale and inv_scale: NULL"}, /* it does not */
    {"rows: unknown", "bytes times 3 rows"},
    {"rows: unknown", "scale_stride: "}, /* lines of rows */
};

static int meaning_change(const char *a, const char *b)
{
    for (size_t i = 0; i < COUNT(meaning_changes); i++)
        if (strstr(a, meaning_changes[i][0]) != NULL && strstr(b, meaning_changes[i][1]) != NULL)
            return 1;
    return 0;
}

/* Whether both faults in one call are still what each is alone. */
static int can_pair(const rule *a, const rule *b, quantizer *start)
{
    if (a->start != ANY && b->start != ANY && a->start != b->start)
        return 0;
    *start = a->start != ANY ? a->start : b->start;
    if (*start == NO_OUT && (a->area == OUT || b->area == OUT))
        return 0;
    if (a->area == b->area && (a->given[0].kind != NOTHING || b->given[0].kind != NOTHING))
        return 0;
    return !touches_same_field(a, b) && !meaning_change(a->text, b->text) && !meaning_change(b->text, a->text);
}

static int check_pair(const rule *a, const rule *b, operation op, quantizer start)
{
    call c;
    char text[2048];
    make_call(&c, a, op, start);
    apply(&c, b->given, COUNT(b->given));
    apply(&c, a->fault, COUNT(a->fault));
    apply(&c, b->fault, COUNT(b->fault));
    const double rank_a = rank_of(a), rank_b = rank_of(b);
    const rule *first = rank_a <= rank_b ? a : b;
    call_explain(&c, text, sizeof text);
    int named = strstr(text, first->text) != NULL || first->unknown_shape;
    if (rank_a == rank_b && !first->unknown_shape)
        named = strstr(text, a->text) != NULL || strstr(text, b->text) != NULL;
    epiq_status checked = call_check(&c, NULL), ran = call_run(&c);
    if (ran == first->status && (of_operation_alone(first) || checked == first->status) && named)
        return 0;
    print_error("%s with \"%s\" (%s) and \"%s\" (%s): the first rule should answer; check %s, operation %s, %s",
                operation_name(op), first->text, epiq_word(first->status), (first == a ? b : a)->text,
                epiq_word((first == a ? b : a)->status), epiq_word(checked), epiq_word(ran), text);
    return 1;
}

static void test_first_of_two_rules_answers(void **state)
{
    (void)state;
    int faults = 0, pairs = 0;
    fill_memory();
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2)
        for (size_t i = 0; i < COUNT(rules); i++)
            for (size_t k = i + 1; k < COUNT(rules); k++) {
                quantizer start;
                if ((rules[i].operations & rules[k].operations & (int)op) == 0 ||
                    !can_pair(&rules[i], &rules[k], &start))
                    continue;
                pairs++;
                faults += check_pair(&rules[i], &rules[k], op, start);
            }
    print_message("           %d pairs of broken rules, %d answered by the wrong one\n", pairs, faults);
    assert_int_equal(faults, 0);
    assert_true(pairs > 10000);
    assert_true(memory_is_untouched());
}

/* A call with everything wrong, repaired from the first rule to the last. */
static void test_repair(void **state)
{
    (void)state;
    static const struct {
        epiq_status status;
        int operations;
        setting fault[4], repair[4];
    } steps[] = {
        /* the faults of all steps first */
        {EPIQ_ERROR_STRUCT, QUANTIZERS, {INT(out.reserved, 1)}, {INT(out.reserved, 0)}},
        {EPIQ_ERROR_STRUCT, DEQUANTIZE, {INT(dequantize.reserved, 1)}, {INT(dequantize.reserved, 0)}},
        {EPIQ_ERROR_VALUE, ACT_MUL, {INT(act_mul.order, 1)}, {INT(act_mul.order, EPIQ_ORDER_UP_GATE)}},
        {EPIQ_ERROR_VALUE, RMS_NORM, {NUM(rms_norm.eps, 0)}, {NUM(rms_norm.eps, 1e-5f)}},
        {EPIQ_ERROR_VALUE, QUANTIZE, {INT(quantize.x.dtype, 0)}, {INT(quantize.x.dtype, EPIQ_DTYPE_BF16)}},
        {EPIQ_ERROR_VALUE, DEQUANTIZE, {INT(dequantize.y_dtype, 0)}, {INT(dequantize.y_dtype, EPIQ_DTYPE_F16)}},
        {EPIQ_ERROR_CONFLICT,
         QUANTIZERS,
         {INT(out.mx_round, EPIQ_MX_ROUND_CEIL), INT(act_mul.up_row_stride, 512)},
         {INT(out.mx_round, 0), INT(act_mul.up_row_stride, 0)}},
        {EPIQ_ERROR_CONFLICT, DEQUANTIZE, {PTR(exec.stream, memory)}, {PTR(exec.stream, NULL)}},
        {EPIQ_ERROR_UNSUPPORTED,
         ALL,
         {INT(out.scale_dtype, EPIQ_DTYPE_I32), INT(dequantize.scale_dtype, EPIQ_DTYPE_I32)},
         {INT(out.scale_dtype, EPIQ_DTYPE_E4M3), INT(dequantize.scale_dtype, EPIQ_DTYPE_E4M3)}},
        {EPIQ_ERROR_SHAPE,
         ALL,
         {INT(out.padded_cols, COLS + 1), INT(dequantize.padded_cols, COLS + 1)},
         {INT(out.padded_cols, COLS), INT(dequantize.padded_cols, COLS)}},
        {EPIQ_ERROR_STRIDE,
         ALL,
         {INT(out.codes_row_stride, 1), INT(dequantize.codes_row_stride, 1)},
         {INT(out.codes_row_stride, COLS), INT(dequantize.codes_row_stride, COLS)}},
        {EPIQ_ERROR_BUFFER,
         QUANTIZERS,
         {PTR(act_mul.x.data, NULL), PTR(rms_norm.x.data, NULL), PTR(quantize.x.data, NULL)},
         {PTR(act_mul.x.data, MEM(X, 0)), PTR(rms_norm.x.data, MEM(X, 0)), PTR(quantize.x.data, MEM(X, 0))}},
        {EPIQ_ERROR_BUFFER, DEQUANTIZE, {PTR(dequantize.codes, NULL)}, {PTR(dequantize.codes, MEM(CODES, 0))}},
        {EPIQ_ERROR_OVERLAP, QUANTIZERS, {PTR(out.scale_out, MEM(X, 0))}, {PTR(out.scale_out, MEM(SCALES, 0))}},
        {EPIQ_ERROR_OVERLAP, DEQUANTIZE, {PTR(dequantize.y_out, MEM(SCALES, 0))}, {PTR(dequantize.y_out, MEM(Y, 0))}},
        {EPIQ_ERROR_WORKSPACE,
         QUANTIZERS,
         {INT(exec.backend, EPIQ_BACKEND_CUDA)},
         {PTR(exec.workspace, MEM(WORKSPACE, 0)), INT(exec.workspace_bytes, 2 * SLOT_BYTES)}},
        {EPIQ_ERROR_BACKEND, ALL, {INT(exec.tasks, 0)}, {INT(exec.backend, 0)}},
    };
    const int has_cuda = epiq_backend_usable(EPIQ_BACKEND_CUDA, 0, NULL, 0) == EPIQ_OK;
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
        call c;
        fill_memory();
        begin(&c, op, op == DEQUANTIZE ? NVFP4 : NVFP4_COMPUTED);
        for (size_t i = COUNT(steps); i-- > 0;)
            if ((steps[i].operations & (int)op) != 0)
                apply(&c, steps[i].fault, COUNT(steps[i].fault));
        if (op == DEQUANTIZE) /* a stream belongs to cuda, and is the conflict here */
            c.exec.backend = 0;
        for (size_t i = 0; i < COUNT(steps); i++) {
            if ((steps[i].operations & (int)op) == 0)
                continue;
            if (steps[i].status == EPIQ_ERROR_BACKEND) {
                if (has_cuda)
                    continue; /* host memory is not for it */
                c.exec.backend = EPIQ_BACKEND_CUDA;
            }
            assert_int_equal(call_run(&c), steps[i].status);
            assert_true(memory_is_untouched());
            apply(&c, steps[i].repair, COUNT(steps[i].repair));
        }
        c.exec.backend = 0;
        assert_int_equal(call_run(&c), EPIQ_OK);
        assert_false(memory_is_untouched());
    }
}

/* Within one status: the structs in the order args, out, exec; fields in the order of their struct. */
static void test_order_within_a_status(void **state)
{
    (void)state;
    static const struct {
        int operations;
        const char *text;
        setting fault, repair;
    } steps[] = {
        {ALL, "args: NULL", INT(no_args, 1), INT(no_args, 0)},
        {ACT_MUL, "args.struct_size: 0", INT(act_mul.struct_size, 0), INT(act_mul.struct_size, 112)},
        {RMS_NORM, "args.struct_size: 0", INT(rms_norm.struct_size, 0), INT(rms_norm.struct_size, 128)},
        {QUANTIZE, "args.struct_size: 0", INT(quantize.struct_size, 0), INT(quantize.struct_size, 48)},
        {DEQUANTIZE, "args.struct_size: 0", INT(dequantize.struct_size, 0), INT(dequantize.struct_size, 112)},
        {ACT_MUL, "x.reserved: 1", INT(act_mul.x.reserved, 1), INT(act_mul.x.reserved, 0)},
        {RMS_NORM, "x.reserved: 1", INT(rms_norm.x.reserved, 1), INT(rms_norm.x.reserved, 0)},
        {ACT_MUL, "args.reserved: 1", INT(act_mul.reserved, 1), INT(act_mul.reserved, 0)},
        {RMS_NORM, "args.reserved: 1", INT(rms_norm.reserved, 1), INT(rms_norm.reserved, 0)},
        {QUANTIZE, "args.reserved: 1", INT(quantize.reserved, 1), INT(quantize.reserved, 0)},
        {QUANTIZE, "x.reserved: 1", INT(quantize.x.reserved, 1), INT(quantize.x.reserved, 0)},
        {DEQUANTIZE, "args.reserved: 1", INT(dequantize.reserved, 1), INT(dequantize.reserved, 0)},
        {QUANTIZERS, "out.struct_size: 0", INT(out.struct_size, 0), INT(out.struct_size, 120)},
        {QUANTIZERS, "out.reserved: 1", INT(out.reserved, 1), INT(out.reserved, 0)},
        {ALL, "exec.struct_size: 0", INT(exec.struct_size, 0), INT(exec.struct_size, 64)},
        {ACT_MUL, "act: 1", INT(act_mul.act, 1), INT(act_mul.act, 0)},
        {ACT_MUL, "x.dtype: 1", INT(act_mul.x.dtype, 1), INT(act_mul.x.dtype, EPIQ_DTYPE_F16)},
        {ACT_MUL, "order: 1", INT(act_mul.order, 1), INT(act_mul.order, 0)},
        {ACT_MUL, "chain: 1", INT(act_mul.chain, 1), INT(act_mul.chain, 0)},
        {ACT_MUL, "act_round: 1", INT(act_mul.act_round, 1), INT(act_mul.act_round, 0)},
        {RMS_NORM, "x.dtype: 1", INT(rms_norm.x.dtype, 1), INT(rms_norm.x.dtype, EPIQ_DTYPE_F16)},
        {RMS_NORM, "weight_dtype: 1", INT(rms_norm.weight_dtype, 1), INT(rms_norm.weight_dtype, 0)},
        {RMS_NORM, "chain: 1", INT(rms_norm.chain, 1), INT(rms_norm.chain, 0)},
        {RMS_NORM, "sum_round: 1", INT(rms_norm.sum_round, 1), INT(rms_norm.sum_round, 0)},
        {RMS_NORM, "norm_round: 1", INT(rms_norm.norm_round, 1), INT(rms_norm.norm_round, 0)},
        {QUANTIZE, "x.dtype: 1", INT(quantize.x.dtype, 1), INT(quantize.x.dtype, EPIQ_DTYPE_F16)},
        {DEQUANTIZE, "format: 1", INT(dequantize.format, 1), INT(dequantize.format, EPIQ_FORMAT_E4M3)},
        {DEQUANTIZE, "grain: 1", INT(dequantize.grain, 1), INT(dequantize.grain, EPIQ_GRAIN_TOKEN)},
        {DEQUANTIZE, "group: -1", INT(dequantize.group, -1), INT(dequantize.group, 0)},
        {DEQUANTIZE, "layout: 1", INT(dequantize.layout, 1), INT(dequantize.layout, 0)},
        {DEQUANTIZE, "scale_dtype: 1", INT(dequantize.scale_dtype, 1), INT(dequantize.scale_dtype, 0)},
        {DEQUANTIZE, "y_dtype: 1", INT(dequantize.y_dtype, 1), INT(dequantize.y_dtype, EPIQ_DTYPE_F32)},
        {QUANTIZERS, "format: 1", INT(out.format, 1), INT(out.format, EPIQ_FORMAT_E4M3)},
        {QUANTIZERS, "grain: 1", INT(out.grain, 1), INT(out.grain, 0)},
        {QUANTIZERS, "group: -1", INT(out.group, -1), INT(out.group, 0)},
        {QUANTIZERS, "layout: 1", INT(out.layout, 1), INT(out.layout, 0)},
        {QUANTIZERS, "scale_dtype: 1", INT(out.scale_dtype, 1), INT(out.scale_dtype, 0)},
        {QUANTIZERS, "ue8m0: -1", INT(out.ue8m0, -1), INT(out.ue8m0, 0)},
        {QUANTIZERS, "mx_round: 1", INT(out.mx_round, 1), INT(out.mx_round, 0)},
        {QUANTIZERS, "nvfp4: 1", INT(out.nvfp4, 1), INT(out.nvfp4, 0)},
        {QUANTIZERS, "nan: 1", INT(out.nan, 1), INT(out.nan, 0)},
        {QUANTIZERS, "pad_rows: 1", INT(out.pad_rows, 1), INT(out.pad_rows, 0)},
        {ALL, "exec.backend: 1", INT(exec.backend, 1), INT(exec.backend, 0)},
        {ALL, "exec.device: 1", INT(exec.device, 1), INT(exec.device, 0)},
        {ALL, "exec.tasks: -1", INT(exec.tasks, -1), INT(exec.tasks, 0)},
        {ALL, "exec.workspace_bytes", INT(exec.workspace_bytes, -1), INT(exec.workspace_bytes, 0)},
        {ALL, "exec.pdl: 1", INT(exec.pdl, 1), INT(exec.pdl, 0)},
        {ALL, "exec.constants: 0x8", INT(exec.constants, 8), INT(exec.constants, 0)},
        {ACT_MUL, "alpha: -1", NUM(act_mul.alpha, -1.0f), NUM(act_mul.alpha, 0)},
        {ACT_MUL, "limit: -1", NUM(act_mul.limit, -1.0f), NUM(act_mul.limit, 0)},
        {ACT_MUL, "limit_after: -1", NUM(act_mul.limit_after, -1.0f), NUM(act_mul.limit_after, 0)},
        {ACT_MUL, "up_offset: inf", NUM(act_mul.up_offset, INFINITY), NUM(act_mul.up_offset, 0)},
        {RMS_NORM, "eps: 0", NUM(rms_norm.eps, 0), NUM(rms_norm.eps, 1)},
        {RMS_NORM, "weight_bias: inf", NUM(rms_norm.weight_bias, INFINITY), NUM(rms_norm.weight_bias, 0)},
    };
    int faults = 0;
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
        call c;
        begin(&c, op, ANY);
        for (size_t i = 0; i < COUNT(steps); i++)
            apply(&c, &steps[i].fault, 1);
        for (size_t i = 0; i < COUNT(steps); i++) {
            if ((steps[i].operations & (int)op) == 0)
                continue;
            char text[2048];
            call_explain(&c, text, sizeof text);
            if (strstr(text, steps[i].text) == NULL) {
                print_error("%s: \"%s\" should answer, not %s", operation_name(op), steps[i].text, text);
                faults++;
            }
            apply(&c, &steps[i].repair, 1);
        }
        assert_int_equal(call_check(&c, NULL), EPIQ_OK);
    }
    assert_int_equal(faults, 0);
}

/* ---- Not refused ------------------------------------------------------------------------------------------------- */

/* The last value before each range ends. */
static void test_limits_are_inclusive(void **state)
{
    (void)state;
    static const struct {
        int operations;
        quantizer start;
        setting settings[4];
    } accepted[] = {
        {ACT_MUL, ANY, {NUM(act_mul.alpha, 0x1p-100f)}},
        {ACT_MUL, ANY, {NUM(act_mul.alpha, 0x1p100f)}},
        {ACT_MUL, ANY, {NUM(act_mul.alpha, -0.0f)}},
        {ACT_MUL, ANY, {NUM(act_mul.limit, 0x1p-149f)}},
        {ACT_MUL, ANY, {NUM(act_mul.limit, 0x1.fffffep127f)}},
        {ACT_MUL, ANY, {NUM(act_mul.limit_after, 0x1.fffffep127f)}},
        {ACT_MUL, ANY, {NUM(act_mul.up_offset, -0x1.fffffep127f)}},
        {ACT_MUL, ANY, {NUM(act_mul.limit, 7.0f), NUM(act_mul.up_offset, 1.0f), NUM(act_mul.alpha, 1.702f)}},
        {ACT_MUL, ANY, {INT(act_mul.x.rows, MAX_ROWS), INT(act_mul.x.cols, 2 * MAX_COLS)}},
        {ACT_MUL, ANY, {INT(act_mul.x.cols, 2)}},
        {ACT_MUL, ANY, {INT(act_mul.order, EPIQ_ORDER_UNGATED), INT(act_mul.x.cols, MAX_COLS)}},
        {ACT_MUL, ANY, {INT(act_mul.order, EPIQ_ORDER_UNGATED), INT(act_mul.x.cols, 1)}},
        {ACT_MUL, ANY, {INT(act_mul.order, EPIQ_ORDER_SEPARATE), INT(act_mul.x.cols, 1)}},
        {RMS_NORM, ANY, {NUM(rms_norm.eps, 0x1p-149f)}},
        {RMS_NORM, ANY, {NUM(rms_norm.eps, 0x1.fffffep127f)}},
        {RMS_NORM, ANY, {NUM(rms_norm.weight_bias, -1.0f)}},
        {RMS_NORM, ANY, {INT(rms_norm.weight_dtype, EPIQ_DTYPE_F32)}},
        {RMS_NORM, ANY, {INT(rms_norm.weight_dtype, EPIQ_DTYPE_BF16)}},
        {RMS_NORM, ANY, {INT(rms_norm.chain, EPIQ_CHAIN_ALLREDUCE)}},
        {RMS_NORM, ANY, {PTR(rms_norm.residual_out, NULL)}},
        {RMS_NORM, ANY, {PTR(rms_norm.residual_out, NULL), PTR(rms_norm.residual, NULL)}},
        {QUANTIZE, ANY, {INT(quantize.x.rows, MAX_ROWS), INT(quantize.x.cols, MAX_COLS)}},
        {QUANTIZE, ANY, {INT(quantize.x.cols, 1)}},
        {QUANTIZE, ANY, {INT(quantize.x.row_stride, 2 * COLS)}},
        {QUANTIZE, ANY, {INT(quantize.x.row_stride, (INT64_MAX >> 1) / ROWS)}},
        {QUANTIZERS, ANY, {INT(out.padded_cols, COLS)}},
        {QUANTIZERS, ANY, {INT(out.padded_cols, MAX_COLS)}},
        {QUANTIZERS, E4M3_TOKEN, {INT(out.codes_row_stride, COLS), INT(out.scale_stride, 4)}},
        {QUANTIZERS, E4M3_TOKEN, {PTR(out.scale_ub, MEM(SCALE_UB, 0)), INT(out.grain, EPIQ_GRAIN_TOKEN)}},
        {QUANTIZERS, E4M3_STATIC, {INT(out.grain, EPIQ_GRAIN_TENSOR)}},
        {QUANTIZERS, NVFP4, {INT(out.group, 16), INT(out.grain, EPIQ_GRAIN_GROUP)}},
        {QUANTIZERS, NVFP4, {INT(out.layout, EPIQ_LAYOUT_LINEAR), INT(out.scale_dtype, EPIQ_DTYPE_E4M3)}},
        {QUANTIZE, NVFP4, {INT(quantize.x.cols, 1), INT(out.padded_cols, 16)}},
        {QUANTIZERS, MXFP4, {INT(out.mx_round, EPIQ_MX_ROUND_VLLM), INT(out.scale_dtype, EPIQ_DTYPE_E8M0)}},
        {QUANTIZERS, E4M3_GROUP, {INT(out.layout, EPIQ_LAYOUT_PACKED_UE8M0), INT(out.ue8m0, 1), INT(out.group, 16)}},
        {QUANTIZERS, E4M3_GROUP, {INT(out.layout, EPIQ_LAYOUT_COL_ALIGNED), INT(out.group, 64)}},
        {ALL, ANY, {INT(exec.tasks, 0x7fffffff), INT(exec.constants, 3), INT(exec.pdl, EPIQ_PDL_EARLY)}},
        {ALL, ANY, {INT(exec.workspace_bytes, INT64_MAX)}},
        {ALL, ANY, {INT(exec.backend, EPIQ_BACKEND_CUDA), INT(exec.device, EPIQ_DEVICE(7)), PTR(exec.stream, memory)}},
        {DEQUANTIZE, ANY, {INT(dequantize.rows, MAX_ROWS), INT(dequantize.cols, MAX_COLS)}},
        {DEQUANTIZE, NVFP4, {INT(dequantize.cols, 1), INT(dequantize.padded_cols, 16)}},
    };
    for (size_t i = 0; i < COUNT(accepted); i++)
        for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
            if ((accepted[i].operations & (int)op) == 0)
                continue;
            call c;
            begin(&c, op, accepted[i].start);
            apply(&c, accepted[i].settings, COUNT(accepted[i].settings));
            char text[2048];
            if (call_check(&c, NULL) != EPIQ_OK) {
                call_explain(&c, text, sizeof text);
                print_error("row %zu, %s: %s", i, operation_name(op), text);
                fail();
            }
        }
}

/* ---- Every combination of format, grain, layout, group and given scale ------------------------------------------- */

typedef struct combination {
    epiq_format format;
    epiq_grain grain;
    epiq_layout layout;
    int32_t group, ue8m0;
    enum { NEITHER, BY_SCALE, BY_INV_SCALE, COMPUTED } given;
} combination;

/* What the table in the header offers. */
static int is_offered(const combination *c, operation op)
{
    const int block = c->format == EPIQ_FORMAT_NVFP4 ? 16 : c->format >= EPIQ_FORMAT_MXFP8 ? 32 : 0;
    const int row = c->layout == 0 || c->layout == EPIQ_LAYOUT_ROW;
    epiq_grain grain = c->grain;
    if (grain == 0 && block == 0) /* dequantize does not guess */
        grain = op == DEQUANTIZE                                   ? 0
                : c->given == BY_SCALE || c->given == BY_INV_SCALE ? EPIQ_GRAIN_TENSOR
                                                                   : EPIQ_GRAIN_TOKEN;
    if (block != 0) {
        if ((grain != 0 && grain != EPIQ_GRAIN_GROUP) || (c->group != 0 && c->group != block) || c->ue8m0)
            return 0;
        if (!row && c->layout != EPIQ_LAYOUT_TILE128X4 && c->layout != EPIQ_LAYOUT_TILE8X4)
            return 0;
        return c->format == EPIQ_FORMAT_NVFP4 ? c->given == BY_INV_SCALE || c->given == COMPUTED : c->given == NEITHER;
    }
    switch (grain) {
    case EPIQ_GRAIN_TENSOR:
        if (c->given == NEITHER && c->format == EPIQ_FORMAT_INT8 && op != DEQUANTIZE)
            return 0;
        return row && c->group == 0 && !c->ue8m0 && c->given != COMPUTED;
    case EPIQ_GRAIN_TOKEN:
        return row && c->group == 0 && !c->ue8m0 && c->given == NEITHER;
    case EPIQ_GRAIN_GROUP:
        if (c->format == EPIQ_FORMAT_INT8 || c->given != NEITHER)
            return 0;
        return (c->group == 0 || c->group == 16 || c->group == 32 || c->group == 64 || c->group == 128) &&
               c->layout != EPIQ_LAYOUT_TILE128X4 && c->layout != EPIQ_LAYOUT_TILE8X4;
    default:
        return 0;
    }
}

/* The call, with the buffers that it needs. For dequantize a scale is given where one is stored. */
static void make_combination(call *c, const combination *m, operation op)
{
    begin(c, op, E4M3_TOKEN);
    c->out.format = c->dequantize.format = m->format;
    c->out.grain = c->dequantize.grain = m->grain;
    c->out.layout = c->dequantize.layout = m->layout;
    c->out.group = c->dequantize.group = m->group;
    c->out.ue8m0 = m->ue8m0;
    c->out.scale = m->given == BY_SCALE ? (const float *)MEM(SCALE, 0) : NULL;
    c->out.inv_scale = m->given == BY_INV_SCALE ? (const float *)MEM(INV_SCALE, 0) : NULL;
    c->out.inv_scale_out = m->given == COMPUTED ? (float *)MEM(INV_SCALE_OUT, 0) : NULL;
    const int block = m->format >= EPIQ_FORMAT_MXFP8;
    const int given = m->given == BY_SCALE || m->given == BY_INV_SCALE;
    if (!block && given && (m->grain == 0 || m->grain == EPIQ_GRAIN_TENSOR))
        c->out.scale_out = NULL;
    c->dequantize.inv_scale = c->out.inv_scale;
    c->dequantize.scale = m->grain == EPIQ_GRAIN_TENSOR && given ? (const void *)c->out.scale : MEM(SCALES, 0);
}

/* The i-th choice of a kind: 0 if `absent` and i is 0, then its words, -1 behind the last. */
static int32_t choice(const char *kind, int absent, int i)
{
    if (absent && i == 0)
        return 0;
    int32_t value = epiq_value(kind, NULL) + i + !absent;
    return epiq_word(value) != NULL ? value : -1;
}

/* Takes the next digit of a number that counts through all products. */
static int digit(int *number, int choices)
{
    int value = *number % choices;
    *number /= choices;
    return value;
}

static void test_combinations(void **state)
{
    (void)state;
    static const int32_t groups[] = {0, 16, 32, 64, 128, 8, 48};
    int accepted = 0, refused = 0, formats = 0, grains = 0, layouts = 0;
    while (choice("format", 0, formats) > 0)
        formats++;
    while (choice("grain", 1, grains) >= 0)
        grains++;
    while (choice("layout", 1, layouts) >= 0)
        layouts++;
    fill_memory();
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2)
        for (int i = 0; i < formats * grains * layouts * (int)COUNT(groups) * 2 * 4; i++) {
            combination m;
            int n = i;
            m.format = (epiq_format)choice("format", 0, digit(&n, formats));
            m.grain = (epiq_grain)choice("grain", 1, digit(&n, grains));
            m.layout = (epiq_layout)choice("layout", 1, digit(&n, layouts));
            m.group = groups[digit(&n, COUNT(groups))];
            m.ue8m0 = digit(&n, 2);
            m.given = n;
            const int no_second_level = m.format == EPIQ_FORMAT_NVFP4 && m.given == NEITHER;
            const int no_such_scale = m.given == COMPUTED || (m.given == BY_SCALE && m.grain != EPIQ_GRAIN_TENSOR);
            if (op == DEQUANTIZE && (m.ue8m0 || no_such_scale || no_second_level))
                continue; /* no such fields, or a buffer missing */
            call c;
            char text[2048];
            make_combination(&c, &m, op);
            epiq_status checked = call_check(&c, NULL), ran = call_run(&c);
            if (checked != ran || (ran == EPIQ_OK) != is_offered(&m, op)) {
                call_explain(&c, text, sizeof text);
                fail_msg("%s, %s grain %d layout %d group %d ue8m0 %d given %d: check %s, operation %s, %s",
                         operation_name(op), epiq_word(m.format), m.grain, m.layout, m.group, m.ue8m0, (int)m.given,
                         epiq_word(checked), epiq_word(ran), text);
            }
            accepted += ran == EPIQ_OK;
            refused += ran != EPIQ_OK;
            assert_true(ran == EPIQ_OK || ran == EPIQ_ERROR_VALUE || ran == EPIQ_ERROR_CONFLICT ||
                        ran == EPIQ_ERROR_UNSUPPORTED || ran == EPIQ_ERROR_SHAPE);
        }
    print_message("           %d combinations accepted, %d refused\n", accepted, refused);
    assert_true(accepted > 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rule),
        cmocka_unit_test(test_starts_are_accepted),
        cmocka_unit_test(test_no_rows_need_arguments_alone),
        cmocka_unit_test(test_first_of_two_rules_answers),
        cmocka_unit_test(test_repair),
        cmocka_unit_test(test_order_within_a_status),
        cmocka_unit_test(test_limits_are_inclusive),
        cmocka_unit_test(test_combinations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
