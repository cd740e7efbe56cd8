/* trt_plugin_v2.cpp: FusedSwiGLUQuant under the old interface, IPluginV2DynamicExt, for engines and programs that need
 * it still; and a function that registers creators. Built with TensorRT's headers only, into libepiq_trt_v2.so.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library has the other two creators as well, in the new interface. Load one of the two libraries, not both: they
 * hold creators of the same names. */
#include "trt_host.h"
#include "trt_plugin.h"

#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace epiq_trt
{

using namespace nvinfer1;

IPluginCreatorInterface *const *v3_creators(); // trt_plugin.cpp

namespace
{

/* What serialize writes. Of another size, tag or version it is refused. */
struct Blob {
    char tag[8];
    int32_t version;
    int32_t bytes;
    FieldValue v[FIELD_IDS];
};
constexpr char TAG[8] = {'e', 'p', 'i', 'q', '_', 't', 'r', 't'};
constexpr int32_t BLOB_VERSION = 1;

class PluginV2 final : public IPluginV2DynamicExt
{
  public:
    explicit PluginV2(const Kernel &kernel) : kernel_(kernel)
    {
        namespace_[0] = '\0';
    }

    static PluginV2 *make(const Kernel &kernel, const char *name_space)
    {
        void *memory = malloc(sizeof(PluginV2));
        if (memory == nullptr)
            return nullptr;
        PluginV2 *plugin = new (memory) PluginV2(kernel);
        plugin->setPluginNamespace(name_space);
        return plugin;
    }
    static void operator delete(void *object) noexcept
    {
        free(object);
    }

    const char *getPluginType() const noexcept override
    {
        return op_name(FUSED_SWIGLU_QUANT);
    }
    const char *getPluginVersion() const noexcept override
    {
        return PLUGIN_VERSION;
    }
    int32_t getNbOutputs() const noexcept override
    {
        return kernel_.layout().outputs;
    }
    int32_t initialize() noexcept override
    {
        return 0;
    }
    void terminate() noexcept override
    {
    }
    void destroy() noexcept override
    {
        delete this;
    }
    IPluginV2DynamicExt *clone() const noexcept override
    {
        return make(kernel_, namespace_);
    }
    void setPluginNamespace(const char *name_space) noexcept override
    {
        snprintf(namespace_, sizeof namespace_, "%s", name_space != nullptr ? name_space : "");
    }
    const char *getPluginNamespace() const noexcept override
    {
        return namespace_;
    }

    DataType getOutputDataType(int32_t index, const DataType *types, int32_t) const noexcept override
    {
        const bool exists = index >= 0 && index < kernel_.layout().outputs;
        return type_of_output(kernel_.config(), kernel_.layout(), kernel_.layout().out[exists ? index : 0], types[0]);
    }

    /* This interface has no way to refuse a shape here; configurePlugin and enqueue say what is wrong with it. */
    DimsExprs getOutputDimensions(int32_t index, const DimsExprs *inputs, int32_t,
                                  IExprBuilder &builder) noexcept override
    {
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
        } expressions = {builder};
        DimsExprs dims = {};
        if (index >= 0 && index < kernel_.layout().outputs)
            dims.nbDims = output_dims(expressions, kernel_.config(), kernel_.layout(), kernel_.layout().out[index],
                                      inputs[0].d, inputs[0].nbDims, dims.d);
        return dims;
    }

    bool supportsFormatCombination(int32_t pos, const PluginTensorDesc *tensors, int32_t nbInputs,
                                   int32_t nbOutputs) noexcept override
    {
        DataType types[MOST_INPUTS + MOST_OUTPUTS];
        TensorFormat formats[MOST_INPUTS + MOST_OUTPUTS];
        if (pos < 0 || pos >= MOST_INPUTS + MOST_OUTPUTS)
            return false;
        for (int32_t i = 0; i <= pos; i++) {
            types[i] = tensors[i].type;
            formats[i] = tensors[i].format;
        }
        return kernel_.supports(pos, types, formats, nbInputs, nbOutputs);
    }

    void configurePlugin(const DynamicPluginTensorDesc *in, int32_t nbInputs, const DynamicPluginTensorDesc *,
                         int32_t nbOutputs) noexcept override
    {
        const Dims *dims[MOST_INPUTS];
        if (!kernel_.learn(nbInputs, nbOutputs))
            return;
        for (int32_t i = 0; i < nbInputs; i++)
            dims[i] = &in[i].desc.dims;
        kernel_.shapes_ok(dims, nbInputs, in[0].desc.type, in[0].desc.type, nullptr);
    }

    size_t getWorkspaceSize(const PluginTensorDesc *in, int32_t nbInputs, const PluginTensorDesc *,
                            int32_t) const noexcept override
    {
        return kernel_.workspace(in[0].dims, in[0].type, nbInputs);
    }

    int32_t enqueue(const PluginTensorDesc *in, const PluginTensorDesc *out, const void *const *inputs,
                    void *const *outputs, void *workspace, cudaStream_t stream) noexcept override
    {
        return kernel_.enqueue(in, out, inputs, outputs, workspace, stream);
    }

    size_t getSerializationSize() const noexcept override
    {
        return sizeof(Blob);
    }
    void serialize(void *buffer) const noexcept override
    {
        Blob blob;
        memset(&blob, 0, sizeof blob);
        memcpy(blob.tag, TAG, sizeof TAG);
        blob.version = BLOB_VERSION;
        blob.bytes = sizeof blob;
        memcpy(blob.v, kernel_.config().v, sizeof blob.v);
        memcpy(buffer, &blob, sizeof blob);
    }

  private:
    Kernel kernel_;
    char namespace_[128];
};

class CreatorV2 final : public IPluginCreator
{
  public:
    const char *getPluginName() const noexcept override
    {
        return op_name(FUSED_SWIGLU_QUANT);
    }
    const char *getPluginVersion() const noexcept override
    {
        return PLUGIN_VERSION;
    }
    const PluginFieldCollection *getFieldNames() noexcept override
    {
        return field_names(FUSED_SWIGLU_QUANT);
    }
    IPluginV2 *createPlugin(const char *name, const PluginFieldCollection *fields) noexcept override
    {
        Kernel kernel;
        return Kernel::create(FUSED_SWIGLU_QUANT, name, fields, TensorRTPhase::kBUILD, &kernel)
                   ? PluginV2::make(kernel, namespace_)
                   : nullptr;
    }
    IPluginV2 *deserializePlugin(const char *name, const void *data, size_t bytes) noexcept override
    {
        Blob blob;
        if (data == nullptr || bytes != sizeof blob) {
            trt_log(Severity::ERROR, "%s: truncated or foreign: %zu bytes, but this library writes %zu",
                    op_name(FUSED_SWIGLU_QUANT), bytes, sizeof blob);
            return nullptr;
        }
        memcpy(&blob, data, sizeof blob);
        if (memcmp(blob.tag, TAG, sizeof TAG) != 0 || blob.version != BLOB_VERSION || blob.bytes != sizeof blob) {
            trt_log(Severity::ERROR, "%s: serialised by another library or version", op_name(FUSED_SWIGLU_QUANT));
            return nullptr;
        }
        /* The values take the way of every serialised plugin, with its checks. Words first: they must have a name. */
        const int32_t grain = blob.v[GRAIN].i;
        if (grain != 0 && (grain / 100 != EPIQ_GRAIN_TENSOR / 100 || epiq_word(grain) == nullptr)) {
            trt_log(Severity::ERROR, "%s: grain %d does not exist", op_name(FUSED_SWIGLU_QUANT), grain);
            return nullptr;
        }
        Config config;
        WrittenFields fields;
        config.op = FUSED_SWIGLU_QUANT;
        memcpy(config.v, blob.v, sizeof config.v);
        write_fields(config, &fields);
        Kernel kernel;
        return Kernel::create(FUSED_SWIGLU_QUANT, name, &fields.collection, TensorRTPhase::kRUNTIME, &kernel)
                   ? PluginV2::make(kernel, namespace_)
                   : nullptr;
    }
    void setPluginNamespace(const char *name_space) noexcept override
    {
        snprintf(namespace_, sizeof namespace_, "%s", name_space != nullptr ? name_space : "");
    }
    const char *getPluginNamespace() const noexcept override
    {
        return namespace_;
    }

  private:
    char namespace_[128] = "";
};

IPluginCreatorInterface *creators[OPS];

__attribute__((constructor)) void make_v2_creators()
{
    alignas(CreatorV2) static unsigned char memory[sizeof(CreatorV2)];
    creators[FUSED_SWIGLU_QUANT] = new (memory) CreatorV2;
}

} // namespace

} // namespace epiq_trt

extern "C" {

__attribute__((visibility("default"))) nvinfer1::IPluginCreatorInterface *const *getCreators(int32_t &nbCreators)
{
    for (int op = epiq_trt::ACT_MUL_QUANT; op < epiq_trt::OPS; op++)
        epiq_trt::creators[op] = epiq_trt::v3_creators()[op];
    nbCreators = epiq_trt::OPS;
    return epiq_trt::creators;
}

__attribute__((visibility("default"))) void setLoggerFinder(void *finder)
{
    epiq_trt::trt_set_logger_finder(finder);
}

/* For programs that link or dlopen this library instead of giving it to the registry: registers all creators with an
 * nvinfer1::IPluginRegistry of the version of the headers. How many were new is the answer. */
__attribute__((visibility("default"))) int32_t epiq_trt_register(void *registry)
{
    int32_t count = 0, registered = 0;
    nvinfer1::IPluginCreatorInterface *const *all = getCreators(count);
    for (int32_t i = 0; i < count && registry != nullptr; i++)
        registered +=
            static_cast<nvinfer1::IPluginRegistry *>(registry)->registerCreator(*all[i], epiq_trt::PLUGIN_NAMESPACE);
    return registered;
}
}
