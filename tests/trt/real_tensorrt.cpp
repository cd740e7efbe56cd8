/* real_tensorrt.cpp: the plugin inside a real TensorRT, whose libraries are loaded at run time. Built with
 * EPIQ_TENSORRT_ROOT, run by hand; examples/tensorrt/make_model.py makes the models.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: trt_real NVINFER PARSER PLUGIN build [--alias] [--rows MIN,OPT,MAX] MODEL.onnx ENGINE
 *        trt_real NVINFER PARSER PLUGIN run ROWS ENGINE...
 *
 * NVINFER and PARSER are the shared libraries (libnvinfer.so.N and libnvonnxparser.so.N, or those of TensorRT-RTX).
 * build  loads the plugin through the registry, lists it, parses the model, prints its layers, builds the engine.
 *        TensorRT-RTX does all of that on a machine without a GPU.
 * run    needs a GPU: runs the engines on the same input, compares their outputs of equal names, compares `codes` with
 *        epiq's backend `c` if the model is swiglu_*, and prints the latency of each. */
#include <NvInfer.h>
#include <NvOnnxParser.h>

#include <epiq/epiq.h>

#include <dlfcn.h>
#include <map>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

using namespace nvinfer1;

namespace
{

struct Logger : ILogger {
    void log(Severity severity, const char *message) noexcept override
    {
        const bool absent = strstr(message, "not found in plugin node") != nullptr; // one for each default
        if (severity <= Severity::kWARNING && !absent)
            printf("  TensorRT: %s\n", message);
    }
} logger;

void *nvinfer, *parser_library;

template <class Function> Function find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (symbol == nullptr) {
        printf("%s\n", dlerror());
        exit(1);
    }
    return reinterpret_cast<Function>(symbol);
}

int version_of(const char *name, void *library)
{
    return find<int (*)()>(library, name)();
}

void require(bool holds, const char *what)
{
    if (!holds) {
        printf("failed: %s\n", what);
        exit(1);
    }
}

std::string shape_text(const Dims &dims)
{
    std::string text = "[";
    for (int32_t i = 0; i < dims.nbDims; i++)
        text += (i > 0 ? ", " : "") + std::to_string(dims.d[i]);
    return text + "]";
}

void load_plugin(const char *path)
{
    IPluginRegistry *registry = find<IPluginRegistry *(*)()>(nvinfer, "getPluginRegistry")();
    require(registry->loadLibrary(path) != nullptr, "IPluginRegistry::loadLibrary");
    for (const char *name : {"FusedSwiGLUQuant", "EpiqActMulQuant", "EpiqRmsNormQuant"}) {
        IPluginCreatorInterface *creator = registry->getCreator(name, "1", "");
        require(creator != nullptr, name);
        printf("creator %s: %s, %d fields\n", name, creator->getInterfaceInfo().kind,
               static_cast<IPluginCreatorV3One *>(creator)->getFieldNames()->nbFields);
    }
}

int build(int argc, char **argv)
{
    int64_t rows[3] = {1, 128, 4096};
    bool alias = false;
    const char *files[2] = {};
    for (int i = 0, given = 0; i < argc; i++) {
        if (strcmp(argv[i], "--alias") == 0)
            alias = true;
        else if (strcmp(argv[i], "--rows") == 0 && i + 1 < argc)
            require(sscanf(argv[++i], "%ld,%ld,%ld", &rows[0], &rows[1], &rows[2]) == 3, "--rows");
        else if (given < 2)
            files[given++] = argv[i];
    }
    require(files[1] != nullptr, "MODEL and ENGINE are given");
    auto *builder = static_cast<IBuilder *>(find<void *(*)(void *, int)>(nvinfer, "createInferBuilder_INTERNAL")(
        &logger, version_of("getInferLibVersion", nvinfer)));
    require(builder != nullptr, "createInferBuilder");
#if NV_TENSORRT_MAJOR >= 11
    INetworkDefinition *network = builder->createNetworkV2(0);
#else
    INetworkDefinition *network =
        builder->createNetworkV2(1u << static_cast<uint32_t>(NetworkDefinitionCreationFlag::kSTRONGLY_TYPED));
#endif
    require(network != nullptr, "createNetworkV2");
    auto *parser = static_cast<nvonnxparser::IParser *>(
        find<void *(*)(void *, void *, int)>(parser_library, "createNvOnnxParser_INTERNAL")(
            network, &logger, version_of("getNvOnnxParserVersion", parser_library)));
    require(parser != nullptr, "createNvOnnxParser");
    const bool parsed = parser->parseFromFile(files[0], static_cast<int>(ILogger::Severity::kWARNING));
    for (int32_t i = 0; i < parser->getNbErrors(); i++)
        printf("  parser: %s\n", parser->getError(i)->desc());
    require(parsed, "parseFromFile");
    for (int32_t i = 0; i < network->getNbLayers(); i++) {
        ILayer *layer = network->getLayer(i);
        printf("layer %s, type %d:", layer->getName(), static_cast<int>(layer->getType()));
        for (int32_t o = 0; o < layer->getNbOutputs(); o++)
            printf(" %s of type %d", shape_text(layer->getOutput(o)->getDimensions()).c_str(),
                   static_cast<int>(layer->getOutput(o)->getType()));
        printf("\n");
    }
    IBuilderConfig *config = builder->createBuilderConfig();
    IOptimizationProfile *profile = builder->createOptimizationProfile();
    for (int32_t i = 0; i < network->getNbInputs(); i++) {
        Dims dims = network->getInput(i)->getDimensions();
        const OptProfileSelector selectors[3] = {OptProfileSelector::kMIN, OptProfileSelector::kOPT,
                                                 OptProfileSelector::kMAX};
        for (int which = 0; which < 3; which++) {
            dims.d[0] = rows[which];
            profile->setDimensions(network->getInput(i)->getName(), selectors[which], dims);
        }
    }
    config->addOptimizationProfile(profile);
    if (alias)
        config->setPreviewFeature(PreviewFeature::kALIASED_PLUGIN_IO_10_03, true);
    IHostMemory *engine = builder->buildSerializedNetwork(*network, *config);
    require(engine != nullptr, "buildSerializedNetwork");
    FILE *file = fopen(files[1], "wb");
    require(file != nullptr && fwrite(engine->data(), 1, engine->size(), file) == engine->size(), files[1]);
    fclose(file);
    printf("engine of %zu bytes\n", engine->size());
    return 0;
}

// ---- Running, on a GPU ----------------------------------------------------------------------------------------------

using Pointer = unsigned long long;
struct Driver {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    template <class... Values> void call(const char *name, Values... values)
    {
        const int status = find<int (*)(Values...)>(library, name)(values...);
        if (status != 0) {
            printf("%s: error %d\n", name, status);
            exit(1);
        }
    }
};

size_t bytes_of(DataType type, int64_t count)
{
    switch (static_cast<int>(type)) {
    case 0: // FLOAT
    case 3: // INT32
        return count * 4;
    case 1: // HALF
    case 7: // BF16
        return count * 2;
    case 8: // INT64
        return count * 8;
    case 10: // FP4
        return count / 2;
    default:
        return count;
    }
}

struct Output {
    std::vector<unsigned char> bytes;
    Dims dims;
};
using Outputs = std::map<std::string, Output>;

Outputs run_engine(Driver &driver, const char *path, int64_t rows, std::map<std::string, Output> &inputs,
                   float *microseconds)
{
    FILE *file = fopen(path, "rb");
    require(file != nullptr, path);
    std::vector<char> data(1 << 28);
    data.resize(fread(data.data(), 1, data.size(), file));
    fclose(file);
    auto *runtime = static_cast<IRuntime *>(find<void *(*)(void *, int)>(nvinfer, "createInferRuntime_INTERNAL")(
        &logger, version_of("getInferLibVersion", nvinfer)));
    require(runtime != nullptr, "createInferRuntime");
    ICudaEngine *engine = runtime->deserializeCudaEngine(data.data(), data.size());
    require(engine != nullptr, "deserializeCudaEngine");
    IExecutionContext *context = engine->createExecutionContext();
    require(context != nullptr, "createExecutionContext");
    void *stream = nullptr;
    driver.call("cuStreamCreate", &stream, 1u);
    std::map<std::string, Pointer> memory;
    for (int pass = 0; pass < 2; pass++) // inputs, then outputs: their shapes follow
        for (int32_t i = 0; i < engine->getNbIOTensors(); i++) {
            const char *name = engine->getIOTensorName(i);
            const bool is_input = engine->getTensorIOMode(name) == TensorIOMode::kINPUT;
            if (is_input != (pass == 0))
                continue;
            Dims dims = is_input ? engine->getTensorShape(name) : context->getTensorShape(name);
            if (is_input) {
                dims.d[0] = rows;
                require(context->setInputShape(name, dims), "setInputShape");
            }
            int64_t count = 1;
            for (int32_t d = 0; d < dims.nbDims; d++)
                count *= dims.d[d];
            const size_t bytes = bytes_of(engine->getTensorDataType(name), count);
            Output &host = inputs[name];
            if (is_input && host.bytes.empty()) {
                unsigned state = 1;
                host.dims = dims;
                for (int64_t e = 0; e < count; e++) { // 16-bit floats: magnitudes from 2^-7 to 2^1
                    state = state * 1664525u + 1013904223u;
                    const bool half = engine->getTensorDataType(name) == DataType::kHALF;
                    const unsigned sign = state >> 31, exponent = (state >> 20) % 9, mantissa = (state >> 8) & 0x3FF;
                    const unsigned value = half ? sign << 15 | (8 + exponent) << 10 | mantissa
                                                : sign << 15 | (120 + exponent) << 7 | mantissa >> 3;
                    host.bytes.push_back(static_cast<unsigned char>(value));
                    host.bytes.push_back(static_cast<unsigned char>(value >> 8));
                }
            }
            driver.call("cuMemAlloc_v2", &memory[name], bytes);
            if (is_input)
                driver.call("cuMemcpyHtoD_v2", memory[name], static_cast<const void *>(host.bytes.data()), bytes);
            else
                inputs.erase(name);
            require(context->setTensorAddress(name, reinterpret_cast<void *>(memory[name])), "setTensorAddress");
        }
    void *begin = nullptr, *end = nullptr;
    driver.call("cuEventCreate", &begin, 0u);
    driver.call("cuEventCreate", &end, 0u);
    constexpr int WARM = 20, TIMES = 200;
    for (int i = 0; i < WARM + TIMES; i++) {
        if (i == WARM)
            driver.call("cuEventRecord", begin, stream);
        require(context->enqueueV3(static_cast<cudaStream_t>(stream)), "enqueueV3");
    }
    driver.call("cuEventRecord", end, stream);
    driver.call("cuCtxSynchronize");
    float milliseconds = 0;
    driver.call("cuEventElapsedTime", &milliseconds, begin, end);
    *microseconds = 1000 * milliseconds / TIMES;
    Outputs outputs;
    for (int32_t i = 0; i < engine->getNbIOTensors(); i++) {
        const char *name = engine->getIOTensorName(i);
        if (engine->getTensorIOMode(name) != TensorIOMode::kOUTPUT)
            continue;
        Output &one = outputs[name];
        one.dims = context->getTensorShape(name);
        int64_t count = 1;
        for (int32_t d = 0; d < one.dims.nbDims; d++)
            count *= one.dims.d[d];
        one.bytes.resize(bytes_of(engine->getTensorDataType(name), count));
        driver.call("cuMemcpyDtoH_v2", static_cast<void *>(one.bytes.data()), memory[name], one.bytes.size());
    }
    return outputs;
}

int64_t differing(const std::vector<unsigned char> &a, const std::vector<unsigned char> &b)
{
    int64_t count = a.size() != b.size() ? -1 : 0;
    for (size_t i = 0; i < a.size() && i < b.size(); i++)
        count += a[i] != b[i];
    return count;
}

int run(int argc, char **argv)
{
    Driver driver;
    require(driver.library != nullptr && argc >= 2, "there is a CUDA driver, and ROWS ENGINE... are given");
    int device = 0;
    void *gpu = nullptr;
    driver.call("cuInit", 0u);
    driver.call("cuDeviceGet", &device, 0);
    driver.call("cuDevicePrimaryCtxRetain", &gpu, device);
    driver.call("cuCtxSetCurrent", gpu);
    const int64_t rows = atoll(argv[0]);
    std::map<std::string, Output> inputs;
    Outputs first;
    int status = 0;
    for (int i = 1; i < argc; i++) {
        float microseconds = 0;
        const Outputs outputs = run_engine(driver, argv[i], rows, inputs, &microseconds);
        printf("%s: %.2f us a run of %lld rows\n", argv[i], microseconds, static_cast<long long>(rows));
        for (const auto &one : outputs)
            if (first.count(one.first) != 0)
                printf("  %s: %lld of %zu bytes differ from the first engine's\n", one.first.c_str(),
                       static_cast<long long>(differing(one.second.bytes, first[one.first].bytes)),
                       one.second.bytes.size());
        if (i == 1)
            first = outputs;
        const auto codes = outputs.find("codes");
        if (codes == outputs.end() || strstr(argv[i], "swiglu") == nullptr)
            continue;
        /* 8 is the multiplier of make_model.py. The model's x is half or bf16: both are tried. */
        const Output &x = inputs["x"];
        const float multiplier = 8;
        int64_t least = -1;
        for (epiq_dtype dtype : {EPIQ_DTYPE_F16, EPIQ_DTYPE_BF16}) {
            std::vector<unsigned char> wanted(codes->second.bytes.size());
            epiq_act_mul_args a = {};
            a.struct_size = sizeof a;
            a.x = {x.bytes.data(), rows, x.dims.d[1], 0, dtype, 0};
            a.chain = EPIQ_CHAIN_DIRECT;
            epiq_output o = {};
            o.struct_size = sizeof o;
            o.format = EPIQ_FORMAT_E4M3;
            o.inv_scale = &multiplier;
            o.codes_out = wanted.data();
            epiq_exec e = {};
            e.struct_size = sizeof e;
            e.backend = EPIQ_BACKEND_C;
            require(epiq_act_mul(&a, &o, &e) == EPIQ_OK, "epiq_act_mul");
            const int64_t count = differing(codes->second.bytes, wanted);
            least = least < 0 || count < least ? count : least;
        }
        printf("  codes: %lld of %zu differ from epiq's backend c\n", static_cast<long long>(least),
               codes->second.bytes.size());
        if (strstr(argv[i], "swiglu_fused") != nullptr && least != 0)
            status = 1;
    }
    return status;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 6) {
        printf("usage: trt_real NVINFER PARSER PLUGIN build [--alias] [--rows MIN,OPT,MAX] MODEL.onnx ENGINE\n"
               "       trt_real NVINFER PARSER PLUGIN run ROWS ENGINE...\n");
        return 2;
    }
    nvinfer = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    require(nvinfer != nullptr, argv[1]);
    parser_library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    require(parser_library != nullptr, argv[2]);
    printf("headers %d.%d, library %d, parser %d\n", NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR,
           version_of("getInferLibVersion", nvinfer), version_of("getNvOnnxParserVersion", parser_library));
    load_plugin(argv[3]);
    if (strcmp(argv[4], "build") == 0)
        return build(argc - 5, argv + 5);
    return run(argc - 5, argv + 5);
}
