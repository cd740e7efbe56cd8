/* trt_kernel.cpp: see trt_plugin.h. SPDX-License-Identifier: Apache-2.0 */
#include "trt_host.h"
#include "trt_plugin.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

namespace epiq_trt
{

using nvinfer1::DataType;
using nvinfer1::Dims;
using nvinfer1::PluginTensorDesc;
using nvinfer1::TensorFormat;

bool Kernel::refuse(const char *format, ...) const
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    trt_log(Severity::ERROR, "%s: %s", op_name(config_.op), text);
    return false;
}

bool Kernel::create(Op op, const char *layer, const nvinfer1::PluginFieldCollection *fields,
                    nvinfer1::TensorRTPhase phase, Kernel *kernel)
{
    char why[1024] = "";
    if (read_fields(op, fields, phase, &kernel->config_, why, sizeof why) &&
        settle(kernel->config_, trt_runtime_version(), &kernel->layout_, why, sizeof why))
        return true;
    trt_log(Severity::ERROR, "%s (layer %.128s): %s", op_name(op), layer != nullptr ? layer : "without a name", why);
    return false;
}

bool Kernel::counts_fit(int32_t inputs, int32_t outputs) const
{
    const int32_t least = layout_.inputs - layout_.scale_optional;
    if (inputs < least || inputs > layout_.inputs) {
        const bool computed = config_.op == FUSED_SWIGLU_QUANT && !layout_.scale_optional;
        return refuse("%d inputs, but these attributes make it %d%s", inputs, layout_.inputs,
                      computed ? ": has_dynamic_scale is 1, so the scale is computed and no input" : "");
    }
    if (outputs != layout_.outputs)
        return refuse("%d outputs, but these attributes make it %d", outputs, layout_.outputs);
    if (layout_.scale_optional && inputs == layout_.inputs && config_.v[SCALE].i != 0 && config_.v[SCALE].f != 1)
        return refuse("the scale is given twice: as an input, and as field scale %g",
                      static_cast<double>(config_.v[SCALE].f));
    return true;
}

bool Kernel::has_scale_tensor(int32_t inputs) const
{
    return input_of(SCALE_IN) >= 0 && input_of(SCALE_IN) < inputs;
}

int32_t Kernel::input_of(Role role) const
{
    for (int32_t i = 0; i < layout_.inputs; i++)
        if (layout_.in[i] == role)
            return i;
    return -1;
}

/* Contexts of one engine run clones, but nothing forbids a host to learn in one thread and enqueue in another. */
bool Kernel::learn(int32_t inputs, int32_t outputs)
{
    if (!counts_fit(inputs, outputs))
        return false;
    if (layout_.scale_optional)
        __atomic_store_n(&config_.v[SCALE_TENSOR].i, has_scale_tensor(inputs) ? 2 : 1, __ATOMIC_RELAXED);
    return true;
}

int32_t Kernel::seen_inputs() const
{
    if (!layout_.scale_optional)
        return layout_.inputs;
    const int32_t seen = __atomic_load_n(&config_.v[SCALE_TENSOR].i, __ATOMIC_RELAXED);
    return seen == 0 ? -1 : layout_.inputs - (seen == 1);
}

bool Kernel::output_types(DataType *types, const DataType *inputs, int32_t count) const
{
    for (int32_t i = 0; i < count; i++)
        if (!type_fits_input(layout_.in[i], inputs[i], inputs[0]))
            return refuse("input %d has type %d, which is not supported%s", i, static_cast<int>(inputs[i]),
                          i > 0 ? " beside this type of x" : ": x is FP32, FP16 or BF16");
    for (int32_t i = 0; i < layout_.outputs; i++)
        types[i] = type_of_output(config_, layout_, layout_.out[i], inputs[0]);
    return true;
}

bool Kernel::supports(int32_t pos, const DataType *types, const TensorFormat *formats, int32_t inputs,
                      int32_t outputs) const
{
    const int32_t least = layout_.inputs - layout_.scale_optional;
    if (inputs < least || inputs > layout_.inputs || outputs != layout_.outputs || pos < 0 || pos >= inputs + outputs ||
        formats[pos] != TensorFormat::kLINEAR || !is_input_type(types[0]))
        return false;
    if (pos >= inputs)
        return types[pos] == type_of_output(config_, layout_, layout_.out[pos - inputs], types[0]);
    if (!type_fits_input(layout_.in[pos], types[pos], types[0]))
        return false;
    /* The type of x, and then that of the weight, decide whether there is such a call. */
    if (pos == 0 || layout_.in[pos] == WEIGHT) {
        Call call;
        epiq_sizes sizes;
        make_call(config_, layout_, has_scale_tensor(inputs), types[0], types[pos], EPIQ_UNKNOWN, EPIQ_UNKNOWN, nullptr,
                  &call);
        return check_call(call, &sizes) == EPIQ_OK;
    }
    return true;
}

bool Kernel::shapes_ok(const Dims *const *inputs, int32_t count, DataType x, DataType weight, epiq_sizes *sizes) const
{
    char why[1024];
    int64_t rows, cols;
    Call call;
    epiq_sizes z;
    for (int32_t i = 0; i < count; i++)
        if (inputs[i]->nbDims < 0 || inputs[i]->nbDims > Dims::MAX_DIMS)
            return refuse("input %d has %d dimensions", i, inputs[i]->nbDims);
    rows_and_cols(*inputs[0], &rows, &cols);
    make_call(config_, layout_, has_scale_tensor(count), x, weight, rows, cols, nullptr, &call);
    if (check_call(call, &z) != EPIQ_OK) {
        explain_call(call, why, sizeof why);
        return refuse("%s", why);
    }
    if (!shapes_fit(layout_, inputs, count, z.cols, why, sizeof why))
        return refuse("%s", why);
    if (sizes != nullptr)
        *sizes = z;
    return true;
}

size_t Kernel::workspace(const Dims &x, DataType type, int32_t inputs) const
{
    const bool scale_tensor = has_scale_tensor(inputs);
    const size_t constants = layout_.constants > (layout_.scale_optional && scale_tensor) ? CONSTANT_BYTES : 0;
    if (!layout_.workspace)
        return constants;
    epiq_sizes sizes;
    const Dims *dims = &x;
    if (!shapes_ok(&dims, 1, type, type, &sizes))
        return constants;
    if (sizes.workspace_bytes < 0) {
        refuse("the workspace of a shape without upper bounds cannot be told");
        return constants;
    }
    return constants + static_cast<size_t>(sizes.workspace_bytes);
}

int32_t Kernel::enqueue(const PluginTensorDesc *in, const PluginTensorDesc *out, const void *const *inputs,
                        void *const *outputs, void *workspace, void *stream) const
{
    const int32_t count = seen_inputs();
    const Dims *dims[MOST_INPUTS];
    DataType types[MOST_INPUTS];
    int64_t rows, cols;
    Call call;
    epiq_sizes sizes;
    if (in == nullptr || out == nullptr || count < 0) {
        refuse("enqueue without tensors, or before onShapeChange");
        return -1;
    }
    for (int32_t i = 0; i < count; i++) {
        dims[i] = &in[i].dims;
        types[i] = in[i].type;
        if (!type_fits_input(layout_.in[i], types[i], types[0])) {
            refuse("input %d has type %d, which is not supported", i, static_cast<int>(types[i]));
            return -1;
        }
    }
    const int32_t weight = input_of(WEIGHT);
    const DataType weight_type = types[weight < 0 ? 0 : weight];
    rows_and_cols(*dims[0], &rows, &cols);
    if (rows < 0 || cols < 0) {
        refuse("enqueue with a dimension that is not known");
        return -1;
    }
    if (!shapes_ok(dims, count, types[0], weight_type, &sizes))
        return -1;
    if (rows == 0) // buffers may be NULL, and nothing is written
        return 0;
    if (inputs == nullptr || outputs == nullptr) {
        refuse("enqueue without buffers");
        return -1;
    }

    const bool scale_tensor = has_scale_tensor(count);
    const int32_t constants = layout_.constants - (layout_.scale_optional && scale_tensor);
    const size_t constant_bytes = constants > 0 ? CONSTANT_BYTES : 0;
    if (workspace == nullptr && constant_bytes + static_cast<size_t>(sizes.workspace_bytes) > 0) {
        refuse("enqueue without the workspace that getWorkspaceSize asked for");
        return -1;
    }
    float *slots = static_cast<float *>(workspace);
    for (int32_t i = 0; i < constants; i++)
        if (!trt_store_float(slots + i, constant_of(config_, i), stream)) {
            refuse("the driver could not store a constant in the workspace");
            return -1;
        }

    Buffers buffers = {};
    buffers.constants = slots;
    for (int32_t i = 0; i < count; i++)
        buffers.role[layout_.in[i]] = const_cast<void *>(inputs[i]);
    for (int32_t i = 0; i < layout_.outputs; i++) {
        /* An optional output without memory would silently not be written. */
        if (outputs[i] == nullptr) {
            refuse("output %d has no memory", i);
            return -1;
        }
        buffers.role[layout_.out[i]] = outputs[i];
    }
    make_call(config_, layout_, scale_tensor, types[0], weight_type, rows, cols, &buffers, &call);
    call.exec.stream = stream;
    if (sizes.workspace_bytes > 0) {
        call.exec.workspace = static_cast<char *>(workspace) + constant_bytes;
        call.exec.workspace_bytes = sizes.workspace_bytes;
    }
    const epiq_status status = run_call(call);
    if (status == EPIQ_OK)
        return 0;
    char why[1024] = "";
    if (status < 20)
        explain_call(call, why, sizeof why);
    refuse("%s. %s", epiq_status_string(status), why);
    return -1;
}

} // namespace epiq_trt
