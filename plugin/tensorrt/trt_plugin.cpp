/* trt_plugin.cpp: the plugins as IPluginV3, their creators, and the two functions that TensorRT looks for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trt_plugin.h"
#include "trt_host.h"

#include <new>
#include <stdlib.h>

namespace epiq_trt
{

using namespace nvinfer1;

IPluginCreatorInterface *const *v3_creators(); // also for trt_plugin_v2.cpp

namespace
{

/* The second version of the build interface, under the number of the first for a TensorRT that knows no other. */
class Build : public IPluginV3OneBuildV2
{
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        const int32_t version = trt_runtime_version();
        return {"PLUGIN_V3ONE_BUILD", version != 0 && version < 100300 ? 1 : 2, 0};
    }
};

/* Dimensions as expressions of TensorRT. */
struct Expressions {
    using Dim = const IDimensionExpr *;
    IExprBuilder &builder;
    Dim constant(int64_t value)
    {
        return builder.constant(value);
    }
    Dim multiply(Dim a, Dim b)
    {
        return builder.operation(DimensionOperation::kPROD, *a, *b);
    }
    Dim floor_div(Dim a, Dim b)
    {
        return builder.operation(DimensionOperation::kFLOOR_DIV, *a, *b);
    }
    Dim ceil_div(Dim a, Dim b)
    {
        return builder.operation(DimensionOperation::kCEIL_DIV, *a, *b);
    }
};

class Plugin final : public IPluginV3, public IPluginV3OneCore, public Build, public IPluginV3OneRuntime
{
  public:
    explicit Plugin(const Kernel &kernel) : kernel_(kernel)
    {
        describe_fields(kernel.config(), description_, sizeof description_);
    }

    static Plugin *make(const Kernel &kernel)
    {
        void *memory = malloc(sizeof(Plugin));
        if (memory == nullptr) {
            trt_log(Severity::ERROR, "%s: no memory for a plugin", op_name(kernel.config().op));
            return nullptr;
        }
        return new (memory) Plugin(kernel);
    }

    static void operator delete(void *object) noexcept
    {
        free(object);
    }

    // IPluginV3

    IPluginCapability *getCapabilityInterface(PluginCapabilityType type) noexcept override
    {
        switch (type) {
        case PluginCapabilityType::kCORE:
            return static_cast<IPluginV3OneCore *>(this);
        case PluginCapabilityType::kBUILD:
            return static_cast<Build *>(this);
        case PluginCapabilityType::kRUNTIME:
            return static_cast<IPluginV3OneRuntime *>(this);
        }
        return nullptr;
    }

    IPluginV3 *clone() noexcept override
    {
        return make(kernel_);
    }

    // IPluginV3OneCore

    const char *getPluginName() const noexcept override
    {
        return op_name(kernel_.config().op);
    }
    const char *getPluginVersion() const noexcept override
    {
        return PLUGIN_VERSION;
    }
    const char *getPluginNamespace() const noexcept override
    {
        return PLUGIN_NAMESPACE;
    }

    // IPluginV3OneBuildV2

    int32_t getNbOutputs() const noexcept override
    {
        return kernel_.layout().outputs;
    }

    int32_t getOutputDataTypes(DataType *types, int32_t nbOutputs, const DataType *inputs,
                               int32_t nbInputs) const noexcept override
    {
        return kernel_.counts_fit(nbInputs, nbOutputs) && kernel_.output_types(types, inputs, nbInputs) ? 0 : -1;
    }

    bool supportsFormatCombination(int32_t pos, const DynamicPluginTensorDesc *inOut, int32_t nbInputs,
                                   int32_t nbOutputs) noexcept override
    {
        DataType types[MOST_INPUTS + MOST_OUTPUTS];
        TensorFormat formats[MOST_INPUTS + MOST_OUTPUTS];
        if (pos < 0 || pos >= MOST_INPUTS + MOST_OUTPUTS)
            return false;
        for (int32_t i = 0; i <= pos; i++) {
            types[i] = inOut[i].desc.type;
            formats[i] = inOut[i].desc.format;
        }
        return kernel_.supports(pos, types, formats, nbInputs, nbOutputs);
    }

    int32_t getOutputShapes(const DimsExprs *inputs, int32_t nbInputs, const DimsExprs *, int32_t nbShapeInputs,
                            DimsExprs *outputs, int32_t nbOutputs, IExprBuilder &builder) noexcept override
    {
        if (!kernel_.counts_fit(nbInputs, nbOutputs))
            return -1;
        if (nbShapeInputs != 0) {
            trt_log(Severity::ERROR, "%s: there are no shape inputs", getPluginName());
            return -1;
        }
        Dims known[MOST_INPUTS];
        const Dims *pointers[MOST_INPUTS];
        for (int32_t i = 0; i < nbInputs; i++) {
            known[i].nbDims = inputs[i].nbDims;
            for (int32_t d = 0; d < inputs[i].nbDims && d < Dims::MAX_DIMS; d++)
                known[i].d[d] = inputs[i].d[d]->isConstant() ? inputs[i].d[d]->getConstantValue() : EPIQ_UNKNOWN;
            pointers[i] = &known[i];
        }
        /* The type is not known here, and what a shape needs is the same for all. */
        const DataType type = kernel_.layout().possible_type;
        if (!kernel_.shapes_ok(pointers, nbInputs, type, type, nullptr))
            return -1;
        Expressions expressions = {builder};
        for (int32_t i = 0; i < nbOutputs; i++)
            outputs[i].nbDims = output_dims(expressions, kernel_.config(), kernel_.layout(), kernel_.layout().out[i],
                                            inputs[0].d, inputs[0].nbDims, outputs[i].d);
        return 0;
    }

    int32_t configurePlugin(const DynamicPluginTensorDesc *in, int32_t nbInputs, const DynamicPluginTensorDesc *,
                            int32_t nbOutputs) noexcept override
    {
        if (!kernel_.learn(nbInputs, nbOutputs))
            return -1;
        const int32_t weight = kernel_.input_of(WEIGHT);
        const DataType weight_type = in[weight < 0 ? 0 : weight].desc.type;
        /* The shape in the network, with unknowns, and the bounds of the profile as far as there is one. */
        const Dims *dims[4][MOST_INPUTS];
        bool bounded = true;
        for (int32_t i = 0; i < nbInputs; i++) {
            dims[0][i] = &in[i].desc.dims;
            dims[1][i] = &in[i].min;
            dims[2][i] = &in[i].opt;
            dims[3][i] = &in[i].max;
            bounded = bounded && in[i].max.nbDims == in[i].desc.dims.nbDims;
        }
        for (int32_t bound = 0; bound < (bounded ? 4 : 1); bound++)
            if (!kernel_.shapes_ok(dims[bound], nbInputs, in[0].desc.type, weight_type, nullptr))
                return -1;
        return 0;
    }

    size_t getWorkspaceSize(const DynamicPluginTensorDesc *in, int32_t nbInputs, const DynamicPluginTensorDesc *,
                            int32_t) const noexcept override
    {
        const bool bounded = in[0].max.nbDims == in[0].desc.dims.nbDims;
        return kernel_.workspace(bounded ? in[0].max : in[0].desc.dims, in[0].desc.type, nbInputs);
    }

    const char *getTimingCacheID() noexcept override
    {
        return description_;
    }
    const char *getMetadataString() noexcept override
    {
        return description_;
    }

    int32_t getAliasedInput(int32_t outputIndex) noexcept override
    {
        const Layout &layout = kernel_.layout();
        const bool residual =
            outputIndex >= 0 && outputIndex < layout.outputs && layout.out[outputIndex] == RESIDUAL_OUT;
        return residual && kernel_.config().v[RESIDUAL_IN_PLACE].i != 0 ? kernel_.input_of(RESIDUAL_IN) : -1;
    }

    // IPluginV3OneRuntime

    int32_t onShapeChange(const PluginTensorDesc *in, int32_t nbInputs, const PluginTensorDesc *out,
                          int32_t nbOutputs) noexcept override
    {
        if (!kernel_.learn(nbInputs, nbOutputs))
            return -1;
        const Dims *dims[MOST_INPUTS];
        for (int32_t i = 0; i < nbInputs; i++)
            dims[i] = &in[i].dims;
        const int32_t weight = kernel_.input_of(WEIGHT);
        if (!kernel_.shapes_ok(dims, nbInputs, in[0].type, in[weight < 0 ? 0 : weight].type, nullptr))
            return -1;
        for (int32_t i = 0; i < nbOutputs; i++) {
            const Dims wanted =
                known_output_dims(kernel_.config(), kernel_.layout(), kernel_.layout().out[i], in[0].dims);
            bool same = out[i].dims.nbDims == wanted.nbDims;
            for (int32_t d = 0; same && d < wanted.nbDims; d++)
                same = out[i].dims.d[d] == wanted.d[d];
            if (!same) {
                trt_log(Severity::ERROR, "%s: output %d has other dimensions than getOutputShapes gave it",
                        getPluginName(), i);
                return -1;
            }
        }
        return 0;
    }

    int32_t enqueue(const PluginTensorDesc *in, const PluginTensorDesc *out, const void *const *inputs,
                    void *const *outputs, void *workspace, cudaStream_t stream) noexcept override
    {
        return kernel_.enqueue(in, out, inputs, outputs, workspace, stream);
    }

    IPluginV3 *attachToContext(IPluginResourceContext *) noexcept override
    {
        return clone();
    }

    const PluginFieldCollection *getFieldsToSerialize() noexcept override
    {
        write_fields(kernel_.config(), &written_);
        return &written_.collection;
    }

  private:
    Kernel kernel_;
    WrittenFields written_;
    char description_[1024];
};

template <Op op> class Creator final : public IPluginCreatorV3One
{
  public:
    IPluginV3 *createPlugin(const char *name, const PluginFieldCollection *fields,
                            TensorRTPhase phase) noexcept override
    {
        Kernel kernel;
        return Kernel::create(op, name, fields, phase, &kernel) ? Plugin::make(kernel) : nullptr;
    }
    const PluginFieldCollection *getFieldNames() noexcept override
    {
        return field_names(op);
    }
    const char *getPluginName() const noexcept override
    {
        return op_name(op);
    }
    const char *getPluginVersion() const noexcept override
    {
        return PLUGIN_VERSION;
    }
    const char *getPluginNamespace() const noexcept override
    {
        return PLUGIN_NAMESPACE;
    }
};

IPluginCreatorInterface *creators[OPS];

/* Creators exist from the loading of the library on and are never destroyed: TensorRT may ask them until the process
 * ends. */
template <Op op> IPluginCreatorInterface *creator()
{
    alignas(Creator<op>) static unsigned char memory[sizeof(Creator<op>)];
    field_names(op); // makes its table, while no other thread can be here
    return new (memory) Creator<op>;
}

__attribute__((constructor)) void make_creators()
{
    creators[FUSED_SWIGLU_QUANT] = creator<FUSED_SWIGLU_QUANT>();
    creators[ACT_MUL_QUANT] = creator<ACT_MUL_QUANT>();
    creators[RMS_NORM_QUANT] = creator<RMS_NORM_QUANT>();
}

} // namespace

IPluginCreatorInterface *const *v3_creators()
{
    return creators;
}

} // namespace epiq_trt

#ifndef EPIQ_TRT_REAL_HEADERS // trt_plugin_v2.cpp has functions of these names

extern "C" {

/* The whole interface of the library. TensorRT calls the second first, once, when it loads the library. */
__attribute__((visibility("default"))) nvinfer1::IPluginCreatorInterface *const *getCreators(int32_t &nbCreators)
{
    nbCreators = epiq_trt::OPS;
    return epiq_trt::v3_creators();
}

__attribute__((visibility("default"))) void setLoggerFinder(void *finder)
{
    epiq_trt::trt_set_logger_finder(finder);
}
}

#endif
