/* trt_modes.cpp: see trt_modes.h. SPDX-License-Identifier: Apache-2.0 */
#include "trt_modes.h"

#include <string.h>

constexpr const char *FUSED = "FusedSwiGLUQuant";
constexpr const char *MUL = "EpiqActMulQuant";
constexpr const char *NORM = "EpiqRmsNormQuant";
constexpr float STATIC_VALUE = 3.25f;

const std::vector<Mode> &modes()
{
    static const auto format = [](DirectCall &c, epiq_format f) { c.out.format = f; };
    static const std::vector<Mode> all = {
        {"fused_tensor",
         FUSED,
         {{"has_dynamic_scale", 0}},
         INV_SCALE_TENSOR,
         PLAIN,
         [](DirectCall &c) {
             c.act_mul.chain = EPIQ_CHAIN_DIRECT;
             format(c, EPIQ_FORMAT_E4M3);
         }},
        {"fused_field",
         FUSED,
         {{"scale", STATIC_VALUE}},
         INV_SCALE_VALUE,
         PLAIN,
         [](DirectCall &c) {
             c.act_mul.chain = EPIQ_CHAIN_DIRECT;
             format(c, EPIQ_FORMAT_E4M3);
         }},
        {"fused_dynamic",
         FUSED,
         {{"has_dynamic_scale", 1}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             c.act_mul.chain = EPIQ_CHAIN_DIRECT;
             format(c, EPIQ_FORMAT_E4M3);
             c.out.grain = EPIQ_GRAIN_TENSOR;
         }},
        {"fused_dynamic_token",
         FUSED,
         {{"has_dynamic_scale", 1}, {"grain", "token"}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             c.act_mul.chain = EPIQ_CHAIN_DIRECT;
             format(c, EPIQ_FORMAT_E4M3);
             c.out.grain = EPIQ_GRAIN_TOKEN;
         }},
        {"fused_dynamic_group",
         FUSED,
         {{"has_dynamic_scale", 1}, {"grain", "group"}, {"group", 64}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             c.act_mul.chain = EPIQ_CHAIN_DIRECT;
             format(c, EPIQ_FORMAT_E4M3);
             c.out.grain = EPIQ_GRAIN_GROUP;
             c.out.group = 64;
         }},
        {"mul_e4m3_tensor_scale",
         MUL,
         {{"format", "e4m3"}, {"scale_input", "scale"}, {"y_out", 1}},
         SCALE_TENSOR,
         Y,
         [](DirectCall &c) { format(c, EPIQ_FORMAT_E4M3); }},
        {"mul_e4m3_value_scale",
         MUL,
         {{"format", "e4m3"}, {"scale", STATIC_VALUE}, {"chain", "flashinfer"}},
         SCALE_VALUE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_E4M3);
             c.act_mul.chain = EPIQ_CHAIN_FLASHINFER;
         }},
        {"mul_e4m3_tensor_dynamic",
         MUL,
         {{"format", "e4m3"}, {"grain", "tensor"}, {"act", "gelu_tanh"}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_E4M3);
             c.out.grain = EPIQ_GRAIN_TENSOR;
             c.act_mul.act = EPIQ_ACT_GELU_TANH;
         }},
        {"mul_e4m3_token_ub",
         MUL,
         {{"format", "e4m3"}, {"scale_ub", 1.5f}, {"order", "up_gate"}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             static const float upper_bound = 1.5f;
             format(c, EPIQ_FORMAT_E4M3);
             c.out.scale_ub = &upper_bound;
             c.act_mul.order = EPIQ_ORDER_UP_GATE;
         }},
        {"mul_e4m3_group_col",
         MUL,
         {{"format", "e4m3"}, {"grain", "group"}, {"group", 32}, {"layout", "col"}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_E4M3);
             c.out.grain = EPIQ_GRAIN_GROUP;
             c.out.group = 32;
             c.out.layout = EPIQ_LAYOUT_COL;
         }},
        {"mul_e4m3_group_col_aligned",
         MUL,
         {{"format", "e4m3"}, {"grain", "group"}, {"layout", "col_aligned"}, {"ue8m0", 1}, {"pad_rows", "zero"}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_E4M3);
             c.out.grain = EPIQ_GRAIN_GROUP;
             c.out.layout = EPIQ_LAYOUT_COL_ALIGNED;
             c.out.ue8m0 = 1;
             c.out.pad_rows = EPIQ_PAD_ROWS_ZERO;
         }},
        {"mul_e4m3_packed_ue8m0",
         MUL,
         {{"format", "e4m3"}, {"grain", "group"}, {"layout", "packed_ue8m0"}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_E4M3);
             c.out.grain = EPIQ_GRAIN_GROUP;
             c.out.layout = EPIQ_LAYOUT_PACKED_UE8M0;
         }},
        {"mul_e5m2_group",
         MUL,
         {{"format", "e5m2"}, {"grain", "group"}, {"group", 16}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_E5M2);
             c.out.grain = EPIQ_GRAIN_GROUP;
             c.out.group = 16;
         }},
        {"mul_int8_static",
         MUL,
         {{"format", "int8"}, {"inv_scale", STATIC_VALUE}, {"act", "relu2"}},
         INV_SCALE_VALUE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_INT8);
             c.act_mul.act = EPIQ_ACT_RELU2;
         }},
        {"mul_int8_token",
         MUL,
         {{"format", "int8"}, {"act_round", "none"}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_INT8);
             c.act_mul.act_round = EPIQ_ROUND_NONE;
         }},
        {"mul_mxfp8",
         MUL,
         {{"format", "mxfp8"}, {"mx_round", "floor"}, {"limit", 2.0f}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_MXFP8);
             c.out.mx_round = EPIQ_MX_ROUND_FLOOR;
             c.act_mul.limit = 2;
         }},
        {"mul_mxfp4_tile8x4",
         MUL,
         {{"format", "mxfp4"}, {"layout", "tile8x4"}, {"alpha", 1.702f}, {"limit_after", 3.0f}, {"up_offset", 1.0f}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_MXFP4);
             c.out.layout = EPIQ_LAYOUT_TILE8X4;
             c.act_mul.alpha = 1.702f;
             c.act_mul.limit_after = 3;
             c.act_mul.up_offset = 1;
         }},
        {"mul_nvfp4_separate",
         MUL,
         {{"format", "nvfp4"}, {"layout", "tile128x4"}, {"order", "separate"}, {"scale_input", "inv_scale"}},
         INV_SCALE_TENSOR,
         SEPARATE,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_NVFP4);
             c.out.layout = EPIQ_LAYOUT_TILE128X4;
             c.act_mul.order = EPIQ_ORDER_SEPARATE;
         }},
        {"mul_nvfp4_computed",
         MUL,
         {{"format", "nvfp4"}, {"layout", "tile128x4"}, {"nvfp4", "ieee"}, {"y_out", 1}, {"order", "interleaved"}},
         COMPUTED,
         Y,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_NVFP4);
             c.out.layout = EPIQ_LAYOUT_TILE128X4;
             c.out.nvfp4 = EPIQ_NVFP4_IEEE;
             c.act_mul.order = EPIQ_ORDER_INTERLEAVED;
         }},
        {"mul_nvfp4_padded",
         MUL,
         {{"format", "nvfp4"}, {"padded_cols", 256}, {"inv_scale", STATIC_VALUE}, {"order", "ungated"}},
         INV_SCALE_VALUE,
         UNGATED,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_NVFP4);
             c.out.padded_cols = 256;
             c.act_mul.order = EPIQ_ORDER_UNGATED;
         }},
        {"norm_e4m3_gemma",
         NORM,
         {{"format", "e4m3"}, {"eps", 1e-6f}, {"weight_bias", 1.0f}, {"residual", 1}, {"scale_input", "inv_scale"}},
         INV_SCALE_TENSOR,
         RESIDUAL,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_E4M3);
             c.rms_norm.weight_bias = 1;
         }},
        {"norm_e4m3_dynamic",
         NORM,
         {{"format", "e4m3"}, {"eps", 1e-6f}, {"grain", "tensor"}, {"y_out", 1}},
         NO_SCALE,
         Y,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_E4M3);
             c.out.grain = EPIQ_GRAIN_TENSOR;
         }},
        {"norm_e4m3_token",
         NORM,
         {{"format", "e4m3"}, {"eps", 1e-6f}, {"grain", "token"}, {"residual", 1}, {"chain", "allreduce"}},
         NO_SCALE,
         RESIDUAL,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_E4M3);
             c.out.grain = EPIQ_GRAIN_TOKEN;
             c.rms_norm.chain = EPIQ_CHAIN_ALLREDUCE;
         }},
        {"norm_int8_token",
         NORM,
         {{"format", "int8"}, {"eps", 1e-6f}, {"nan", "saturate"}, {"sum_round", "fp32"}, {"norm_round", "none"}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_INT8);
             c.out.nan = EPIQ_NAN_SATURATE;
             c.rms_norm.sum_round = EPIQ_SUM_ROUND_FP32;
             c.rms_norm.norm_round = EPIQ_ROUND_NONE;
         }},
        {"norm_mxfp8",
         NORM,
         {{"format", "mxfp8"}, {"eps", 1e-6f}, {"layout", "tile128x4"}, {"residual", 1}},
         NO_SCALE,
         RESIDUAL,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_MXFP8);
             c.out.layout = EPIQ_LAYOUT_TILE128X4;
         }},
        {"norm_mxfp4_vllm",
         NORM,
         {{"format", "mxfp4"}, {"eps", 1e-5f}, {"mx_round", "vllm"}},
         NO_SCALE,
         PLAIN,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_MXFP4);
             c.rms_norm.eps = 1e-5f;
             c.out.mx_round = EPIQ_MX_ROUND_VLLM;
         }},
        {"norm_nvfp4_everything",
         NORM,
         {{"format", "nvfp4"}, {"layout", "tile128x4"}, {"eps", 1e-6f}, {"residual", 1}, {"y_out", 1}},
         COMPUTED,
         Y | RESIDUAL,
         [](DirectCall &c) {
             format(c, EPIQ_FORMAT_NVFP4);
             c.out.layout = EPIQ_LAYOUT_TILE128X4;
         }},
    };
    return all;
}

bool is_norm(const Mode &mode)
{
    return strcmp(mode.op, NORM) == 0;
}

Tensors make_tensors(const Mode &mode, const Dims &x, DataType type, unsigned seed, DataType weight)
{
    Tensors t;
    const auto add = [&](const Dims &shape, DataType of) {
        t.shapes.push_back(shape);
        t.types.push_back(of);
        t.inputs.push_back(random_values(of, volume(shape), seed += 17));
    };
    add(x, type);
    if (mode.parts & SEPARATE)
        add(x, type);
    if (is_norm(mode))
        add(dims({x.d[x.nbDims - 1]}), weight);
    if (mode.parts & RESIDUAL)
        add(x, type);
    if (mode.scale == SCALE_TENSOR || mode.scale == INV_SCALE_TENSOR) {
        add(dims({1}), DataType::kFLOAT);
        t.inputs.back() = bytes_of(STATIC_VALUE);
    }
    return t;
}

std::vector<std::vector<unsigned char>> direct_outputs(const Mode &mode, const Tensors &t, int64_t *workspace_bytes)
{
    const auto dtype = [](DataType type) {
        return type == DataType::kFLOAT ? EPIQ_DTYPE_F32 : type == DataType::kHALF ? EPIQ_DTYPE_F16 : EPIQ_DTYPE_BF16;
    };
    DirectCall c = {};
    const Dims &x = t.shapes[0];
    const int64_t cols = x.d[x.nbDims - 1], rows = cols == 0 ? 0 : volume(x) / cols;
    size_t next = 1;
    epiq_matrix matrix = {t.inputs[0].data(), rows, cols, 0, dtype(t.types[0]), 0};
    c.act_mul.struct_size = sizeof c.act_mul;
    c.rms_norm.struct_size = sizeof c.rms_norm;
    c.out.struct_size = sizeof c.out;
    c.act_mul.x = c.rms_norm.x = matrix;
    c.rms_norm.eps = 1e-6f;
    if (mode.parts & SEPARATE)
        c.act_mul.up = t.inputs[next++].data();
    if (is_norm(mode)) {
        c.rms_norm.weight = t.inputs[next].data();
        c.rms_norm.weight_dtype = dtype(t.types[next++]);
    }
    if (mode.parts & RESIDUAL)
        c.rms_norm.residual = t.inputs[next++].data();
    const float value = STATIC_VALUE;
    if (mode.scale == SCALE_TENSOR || mode.scale == SCALE_VALUE)
        c.out.scale = &value;
    if (mode.scale == INV_SCALE_TENSOR || mode.scale == INV_SCALE_VALUE)
        c.out.inv_scale = &value;
    mode.set(c);

    float inv_scale = 0;
    unsigned char any;
    if (mode.scale == COMPUTED)
        c.out.inv_scale_out = &inv_scale;
    if (mode.parts & Y)
        c.act_mul.y_out = c.rms_norm.y_out = &any;
    if (mode.parts & RESIDUAL)
        c.rms_norm.residual_out = &any;
    epiq_exec exec = {};
    exec.struct_size = sizeof exec;
    exec.backend = EPIQ_BACKEND_C;
    epiq_sizes z = {};
    z.struct_size = sizeof z;
    const epiq_status checked = is_norm(mode) ? epiq_check_rms_norm(&c.rms_norm, &c.out, &exec, &z)
                                              : epiq_check_act_mul(&c.act_mul, &c.out, &exec, &z);
    EXPECT_EQ(checked, EPIQ_OK);
    if (workspace_bytes != nullptr) {
        epiq_exec other = exec;
        epiq_sizes there = z;
        other.backend = on_gpu ? EPIQ_BACKEND_CUDA : EPIQ_BACKEND_C;
        EXPECT_EQ(is_norm(mode) ? epiq_check_rms_norm(&c.rms_norm, &c.out, &other, &there)
                                : epiq_check_act_mul(&c.act_mul, &c.out, &other, &there),
                  EPIQ_OK);
        *workspace_bytes = there.workspace_bytes;
    }
    std::vector<unsigned char> codes(z.codes_bytes, 0xA5), scales(z.scale_bytes, 0xA5), y(z.y_bytes, 0xA5),
        residual(z.residual_bytes, 0xA5), workspace(z.workspace_bytes);
    c.out.codes_out = codes.data();
    c.out.scale_out = z.scale_dtype != 0 ? scales.data() : nullptr;
    if (mode.parts & Y)
        c.act_mul.y_out = c.rms_norm.y_out = y.data();
    if (mode.parts & RESIDUAL)
        c.rms_norm.residual_out = residual.data();
    exec.workspace = workspace.empty() ? nullptr : workspace.data();
    exec.workspace_bytes = z.workspace_bytes;
    EXPECT_EQ(is_norm(mode) ? epiq_rms_norm(&c.rms_norm, &c.out, &exec) : epiq_act_mul(&c.act_mul, &c.out, &exec),
              EPIQ_OK);
    std::vector<std::vector<unsigned char>> outputs = {codes};
    if (z.scale_dtype != 0)
        outputs.push_back(scales);
    if (mode.scale == COMPUTED)
        outputs.push_back(bytes_of(inv_scale));
    if (mode.parts & Y)
        outputs.push_back(y);
    if (mode.parts & RESIDUAL)
        outputs.push_back(residual);
    return outputs;
}

Run::Run(const PluginPointer &one, const Tensors &t, bool in_place) : plugin(runtime(one)), ready(false)
{
    const auto inputs = static_cast<int32_t>(t.shapes.size());
    const std::vector<DataType> types = output_types(one, t.types);
    const std::vector<Dims> shapes = output_shapes(one, t.shapes);
    const auto outputs = static_cast<int32_t>(types.size());
    if (types.empty() || shapes.size() != types.size())
        return;
    std::vector<DynamicPluginTensorDesc> all;
    for (int32_t i = 0; i < inputs; i++) {
        all.push_back(described(t.shapes[i], t.types[i]));
        in.push_back(all.back().desc);
    }
    for (int32_t i = 0; i < outputs; i++) {
        all.push_back(described(shapes[i], types[i]));
        out.push_back(all.back().desc);
    }
    for (int32_t pos = 0; pos < inputs + outputs; pos++)
        if (!build(one)->supportsFormatCombination(pos, all.data(), inputs, outputs)) {
            fail(__FILE__, __LINE__, "the types that it announced are not supported at " + std::to_string(pos));
            return;
        }
    if (build(one)->configurePlugin(all.data(), inputs, all.data() + inputs, outputs) != 0)
        return;
    const size_t bytes = build(one)->getWorkspaceSize(all.data(), inputs, all.data() + inputs, outputs);
    if (bytes > 0)
        workspace = std::make_unique<Memory>(bytes);
    if (plugin->onShapeChange(in.data(), inputs, out.data(), outputs) != 0)
        return;
    for (int32_t i = 0; i < inputs; i++) {
        memory.push_back(std::make_unique<Memory>(t.inputs[i]));
        input_data.push_back(memory.back()->data());
    }
    for (int32_t i = 0; i < outputs; i++) {
        const int32_t alias = in_place ? build(one)->getAliasedInput(i) : -1;
        memory.push_back(std::make_unique<Memory>(size_of(types[i], volume(shapes[i]))));
        if (alias >= 0)
            std::swap(memory.back(), memory[alias]);
        output_data.push_back(memory.back()->data());
        if (alias >= 0)
            input_data[alias] = output_data.back();
    }
    ready = true;
}

int32_t Run::enqueue(void *stream) const
{
    return plugin->enqueue(in.data(), out.data(), input_data.data(), output_data.data(),
                           workspace != nullptr ? workspace->data() : nullptr, static_cast<cudaStream_t>(stream));
}

std::vector<std::vector<unsigned char>> Run::outputs() const
{
    std::vector<std::vector<unsigned char>> all;
    for (size_t i = in.size(); i < memory.size(); i++)
        all.push_back(memory[i]->read());
    if (workspace != nullptr)
        workspace->read();
    return all;
}
