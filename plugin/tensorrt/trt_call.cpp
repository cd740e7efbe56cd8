/* trt_call.cpp: see trt_call.h. SPDX-License-Identifier: Apache-2.0 */
#include "trt_call.h"
#include "trt_host.h"

#include <stdio.h>
#include <string.h>

namespace epiq_trt
{

using nvinfer1::DataType;
using nvinfer1::Dims;

namespace
{

template <class Enum> Enum word(const Config &config, FieldId id)
{
    return static_cast<Enum>(config.v[id].i);
}

/* The words of FusedSwiGLUQuant stand for these. */
bool is_fused(const Config &config)
{
    return config.op == FUSED_SWIGLU_QUANT;
}

epiq_format format_of(const Config &config)
{
    return is_fused(config) ? EPIQ_FORMAT_E4M3 : word<epiq_format>(config, FORMAT);
}

epiq_grain grain_of(const Config &config)
{
    if (is_fused(config) && config.v[GRAIN].i == 0)
        return EPIQ_GRAIN_TENSOR;
    return word<epiq_grain>(config, GRAIN);
}

enum class Static { NONE, SCALE, INV_SCALE }; // what kind of static scale the quantizer reads

Static static_scale(const Config &config)
{
    if (is_fused(config))
        return config.v[HAS_DYNAMIC_SCALE].i != 0 ? Static::NONE : Static::INV_SCALE;
    if (config.v[SCALE].i != 0 || config.v[SCALE_INPUT].i == 1)
        return Static::SCALE;
    if (config.v[INV_SCALE].i != 0 || config.v[SCALE_INPUT].i == 2)
        return Static::INV_SCALE;
    return Static::NONE;
}

bool is_dynamic_nvfp4(const Config &config)
{
    return format_of(config) == EPIQ_FORMAT_NVFP4 && static_scale(config) == Static::NONE;
}

bool attributes_fit(const Config &config, int32_t version, char *why, size_t bytes)
{
    const epiq_format format = format_of(config);
    const char *reason = nullptr;
    if (is_fused(config)) {
        const bool computed = config.v[HAS_DYNAMIC_SCALE].i != 0;
        if (computed && config.v[SCALE].i != 0 && config.v[SCALE].f != 1)
            reason = "has_dynamic_scale is 1, so the scale is computed: field scale would have no effect";
        if (!computed && config.v[GRAIN].i != 0 && config.v[GRAIN].i != EPIQ_GRAIN_TENSOR)
            reason = "scales per token or group are computed: has_dynamic_scale must be 1";
    } else {
        const int given = (config.v[SCALE].i != 0) + (config.v[INV_SCALE].i != 0) + (config.v[SCALE_INPUT].i != 0);
        if (given > 1)
            reason = "more than one of scale, inv_scale, scale_input is given";
        if (config.v[RESIDUAL_IN_PLACE].i != 0 && config.v[RESIDUAL].i == 0)
            reason = "residual_in_place without residual";
        if (config.v[TYPED].i != 0) {
            /* A plugin may not have tensors of type E8M0, whatever the version: mx scales are INT8. */
            if (format != EPIQ_FORMAT_NVFP4)
                reason = "typed is for nvfp4; the other formats have one type";
            else if (version != 0 && version < 100800)
                reason = "typed: TensorRT before 10.8 has no type FP4. Without it codes and scales are INT8";
        }
    }
    if (reason != nullptr)
        snprintf(why, bytes, "%s", reason);
    return reason == nullptr;
}

epiq_dtype dtype_of(DataType type)
{
    return type == DataType::kFLOAT ? EPIQ_DTYPE_F32 : type == DataType::kHALF ? EPIQ_DTYPE_F16 : EPIQ_DTYPE_BF16;
}

/* Which static values stand as constants in front of the workspace: the scale first. */
bool has_scale_constant(const Config &config)
{
    if (is_fused(config))
        return config.v[HAS_DYNAMIC_SCALE].i == 0; // unless the tensor is there
    return config.v[SCALE].i != 0 || config.v[INV_SCALE].i != 0;
}

struct Known {
    using Dim = int64_t;
    static Dim constant(int64_t value)
    {
        return value;
    }
    static Dim multiply(Dim a, Dim b)
    {
        Dim product;
        return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
    }
    static Dim floor_div(Dim a, Dim b)
    {
        return a / b;
    }
    static Dim ceil_div(Dim a, Dim b)
    {
        return a / b + (a % b != 0);
    }
};

} // namespace

void make_call(const Config &config, const Layout &layout, bool scale_tensor, DataType x, DataType weight, int64_t rows,
               int64_t cols, const Buffers *buffers, Call *call)
{
    static float present[2]; // an address that is not NULL
    const auto buffer = [&](Role role) -> void * { return buffers != nullptr ? buffers->role[role] : present; };
    const auto output = [&](Role role) -> void * {
        for (int32_t i = 0; i < layout.outputs; i++)
            if (layout.out[i] == role)
                return buffer(role);
        return nullptr;
    };
    const float *constants = buffers != nullptr ? buffers->constants : present;
    const epiq_matrix matrix = {buffer(X), rows, cols, 0, dtype_of(x), 0};
    memset(call, 0, sizeof *call);
    call->op = config.op;

    epiq_act_mul_args &a = call->act_mul;
    a.struct_size = sizeof a;
    a.x = matrix;
    a.act = word<epiq_act>(config, ACT);
    a.order = word<epiq_order>(config, ORDER);
    a.chain = is_fused(config) ? EPIQ_CHAIN_DIRECT : word<epiq_chain>(config, CHAIN);
    a.act_round = word<epiq_round>(config, ACT_ROUND);
    a.alpha = config.v[ALPHA].f;
    a.limit = config.v[LIMIT].f;
    a.limit_after = config.v[LIMIT_AFTER].f;
    a.up_offset = config.v[UP_OFFSET].f;
    if (a.order == EPIQ_ORDER_SEPARATE)
        a.up = buffer(UP);
    a.y_out = config.v[Y_OUT].i != 0 ? buffer(Y) : nullptr;

    epiq_rms_norm_args &r = call->rms_norm;
    r.struct_size = sizeof r;
    r.eps = config.v[EPS].f;
    r.x = matrix;
    r.weight = buffer(WEIGHT);
    r.weight_dtype = weight == x ? static_cast<epiq_dtype>(0) : dtype_of(weight);
    r.weight_bias = config.v[WEIGHT_BIAS].f;
    r.chain = word<epiq_chain>(config, CHAIN);
    r.sum_round = word<epiq_sum_round>(config, SUM_ROUND);
    r.norm_round = word<epiq_round>(config, NORM_ROUND);
    if (config.v[RESIDUAL].i != 0) {
        r.residual = buffer(RESIDUAL_IN);
        r.residual_out = buffer(RESIDUAL_OUT);
    }
    r.y_out = a.y_out;

    epiq_output &o = call->out;
    o.struct_size = sizeof o;
    o.format = format_of(config);
    o.grain = grain_of(config);
    o.group = config.v[GROUP].i;
    o.layout = word<epiq_layout>(config, LAYOUT);
    o.ue8m0 = config.v[UE8M0].i;
    o.mx_round = word<epiq_mx_round>(config, MX_ROUND);
    o.nvfp4 = word<epiq_nvfp4>(config, NVFP4);
    o.nan = word<epiq_nan>(config, NAN_);
    o.pad_rows = word<epiq_pad_rows>(config, PAD_ROWS);
    o.padded_cols = config.v[PADDED_COLS].i;
    o.codes_out = buffer(CODES_OUT);
    o.scale_out = output(SCALE_OUT);
    const float *given = scale_tensor ? static_cast<const float *>(buffer(SCALE_IN)) : constants;
    if (static_scale(config) == Static::SCALE)
        o.scale = given;
    if (static_scale(config) == Static::INV_SCALE)
        o.inv_scale = given;
    if (is_dynamic_nvfp4(config))
        o.inv_scale_out = static_cast<float *>(buffer(INV_SCALE_OUT));
    if (config.v[SCALE_UB].i != 0)
        o.scale_ub = constants + has_scale_constant(config);

    call->exec.struct_size = sizeof call->exec;
    call->exec.backend = trt_backend;
}

epiq_status check_call(const Call &call, epiq_sizes *sizes)
{
    sizes->struct_size = sizeof *sizes;
    if (call.op == RMS_NORM_QUANT)
        return epiq_check_rms_norm(&call.rms_norm, &call.out, &call.exec, sizes);
    return epiq_check_act_mul(&call.act_mul, &call.out, &call.exec, sizes);
}

epiq_status run_call(const Call &call)
{
    if (call.op == RMS_NORM_QUANT)
        return epiq_rms_norm(&call.rms_norm, &call.out, &call.exec);
    return epiq_act_mul(&call.act_mul, &call.out, &call.exec);
}

void explain_call(const Call &call, char *text, size_t bytes)
{
    if (call.op == RMS_NORM_QUANT)
        epiq_explain_rms_norm(&call.rms_norm, &call.out, &call.exec, text, bytes);
    else
        epiq_explain_act_mul(&call.act_mul, &call.out, &call.exec, text, bytes);
}

float constant_of(const Config &config, int32_t i)
{
    if (i > 0 || !has_scale_constant(config))
        return config.v[SCALE_UB].f;
    if (config.v[SCALE].i != 0)
        return config.v[SCALE].f;
    return is_fused(config) ? 1 : config.v[INV_SCALE].f;
}

bool settle(const Config &config, int32_t version, Layout *layout, char *why, size_t bytes)
{
    memset(layout, 0, sizeof *layout);
    if (!attributes_fit(config, version, why, bytes))
        return false;
    const auto input = [&](Role role) { layout->in[layout->inputs++] = role; };
    const auto output = [&](Role role) { layout->out[layout->outputs++] = role; };
    input(X);
    if (config.v[ORDER].i == EPIQ_ORDER_SEPARATE)
        input(UP);
    if (config.op == RMS_NORM_QUANT)
        input(WEIGHT);
    if (config.v[RESIDUAL].i != 0)
        input(RESIDUAL_IN);
    layout->scale_optional = is_fused(config) && config.v[HAS_DYNAMIC_SCALE].i == 0;
    if (config.v[SCALE_INPUT].i != 0 || layout->scale_optional)
        input(SCALE_IN);
    layout->constants = has_scale_constant(config) + (config.v[SCALE_UB].i != 0);

    /* Some combinations exist for some types of x only: one suffices here. */
    Call call;
    epiq_status status = EPIQ_ERROR_VALUE;
    const DataType types[] = {DataType::kFLOAT, DataType::kHALF, DataType::kBF16};
    for (DataType x : types) {
        layout->possible_type = x;
        make_call(config, *layout, false, x, x, EPIQ_UNKNOWN, EPIQ_UNKNOWN, nullptr, &call);
        status = check_call(call, &layout->sizes);
        if (status == EPIQ_OK)
            break;
    }
    if (status != EPIQ_OK) {
        explain_call(call, why, bytes);
        return false;
    }
    output(CODES_OUT);
    if (layout->sizes.scale_dtype != 0)
        output(SCALE_OUT);
    if (is_dynamic_nvfp4(config))
        output(INV_SCALE_OUT);
    if (config.v[Y_OUT].i != 0)
        output(Y);
    if (config.v[RESIDUAL].i != 0)
        output(RESIDUAL_OUT);
    layout->workspace = layout->sizes.workspace_bytes != 0;
    return true;
}

bool is_input_type(DataType type)
{
    return type == DataType::kFLOAT || type == DataType::kHALF || type == DataType::kBF16;
}

bool type_fits_input(Role role, DataType type, DataType x)
{
    if (role == X)
        return is_input_type(type);
    if (role == SCALE_IN)
        return type == DataType::kFLOAT;
    return type == x || (role == WEIGHT && type == DataType::kFLOAT);
}

DataType type_of_output(const Config &config, const Layout &layout, Role role, DataType x)
{
    const bool typed = config.v[TYPED].i != 0;
    switch (role) {
    case CODES_OUT:
        if (format_of(config) == EPIQ_FORMAT_E4M3)
            return DataType::kFP8;
        return typed ? TYPE_FP4 : DataType::kINT8;
    case SCALE_OUT:
        if (layout.sizes.scale_dtype == EPIQ_DTYPE_F32)
            return DataType::kFLOAT;
        if (layout.sizes.scale_dtype == EPIQ_DTYPE_I32)
            return DataType::kINT32;
        return typed ? DataType::kFP8 : DataType::kINT8;
    case INV_SCALE_OUT:
        return DataType::kFLOAT;
    default:
        return x;
    }
}

void rows_and_cols(const Dims &dims, int64_t *rows, int64_t *cols)
{
    *rows = 1;
    *cols = EPIQ_UNKNOWN;
    for (int32_t i = 0; i < dims.nbDims; i++) {
        if (i + 1 == dims.nbDims)
            *cols = dims.d[i] < 0 ? EPIQ_UNKNOWN : dims.d[i];
        else if (dims.d[i] < 0)
            *rows = EPIQ_UNKNOWN;
        else if (*rows != EPIQ_UNKNOWN)
            *rows = Known::multiply(*rows, dims.d[i]);
    }
}

bool shapes_fit(const Layout &layout, const Dims *const *inputs, int32_t count, int64_t y_cols, char *why, size_t bytes)
{
    const auto refuse = [&](const char *reason) {
        snprintf(why, bytes, "%s", reason);
        return false;
    };
    for (int32_t i = 0; i < count; i++) {
        const Dims &x = *inputs[0], &dims = *inputs[i];
        switch (layout.in[i]) {
        case UP:
        case RESIDUAL_IN: {
            bool same = dims.nbDims == x.nbDims;
            for (int32_t d = 0; same && d < x.nbDims; d++)
                same = dims.d[d] == x.d[d] || dims.d[d] < 0 || x.d[d] < 0;
            if (!same)
                return refuse(layout.in[i] == UP ? "up must have the shape of x" : "residual must have the shape of x");
            break;
        }
        case WEIGHT:
            if (dims.nbDims != 1 || (dims.d[0] >= 0 && y_cols >= 0 && dims.d[0] != y_cols))
                return refuse("weight must have one dimension, the last of x");
            break;
        case SCALE_IN:
            for (int32_t d = 0; d < dims.nbDims; d++)
                if (dims.d[d] >= 0 && dims.d[d] != 1)
                    return refuse("the scale input must be one number");
            break;
        default:
            if (dims.nbDims < 1)
                return refuse("x must have 1 to 8 dimensions");
        }
    }
    return true;
}

Dims known_output_dims(const Config &config, const Layout &layout, Role role, const Dims &x)
{
    Known numbers;
    Dims dims = {};
    dims.nbDims = output_dims(numbers, config, layout, role, x.d, x.nbDims, dims.d);
    return dims;
}

} // namespace epiq_trt
