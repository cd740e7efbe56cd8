/* conformance.cpp: the plugin through TensorRT's own headers: the numbers of abi_table.cpp agree, and every virtual
 * function, called through the real types, does what it should. Built with EPIQ_TENSORRT_ROOT only.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: trt_conformance LIBEPIQ_TRT_HOST.SO LIBEPIQ_TRT_V2_HOST.SO */
#include "abi_table.h"

#pragma GCC visibility push(default) // the plugin looks getInferLibVersion up
#include <NvInfer.h>
#pragma GCC visibility pop

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

using namespace nvinfer1;

static int failures, checks;

static void expect(bool holds, const char *what)
{
    checks++;
    if (!holds) {
        printf("does not hold: %s\n", what);
        failures++;
    }
}
#define EXPECT(condition) expect(condition, #condition)

static void compare_tables()
{
    const AbiTable own = own_abi_table(), real = real_abi_table();
    EXPECT(own.count == real.count);
    for (int i = 0; i < own.count && i < real.count; i++) {
        if (i >= own.count - 3)
            break;
        checks++;
        if (strcmp(own.entries[i].what, real.entries[i].what) != 0 || own.entries[i].number != real.entries[i].number) {
            printf("%s: %lld here, %lld in TensorRT's headers\n", own.entries[i].what, own.entries[i].number,
                   real.entries[i].number);
            failures++;
        }
    }
    const AbiEntry *last = real.entries + real.count - 3;
    EXPECT(last[0].number == last[2].number && last[1].number == last[2].number); // loggers
}

// ---- What TensorRT gives to a plugin, through the real types --------------------------------------------------------

static char last_line[2048];

struct RealLogger : ILogger {
    void log(Severity severity, const char *message) noexcept override
    {
        snprintf(last_line, sizeof last_line, "%d %s", static_cast<int>(severity), message);
    }
};

struct RealFinder : ILoggerFinder {
    ILogger *findLogger() override
    {
        static RealLogger logger;
        return &logger;
    }
};

extern "C" __attribute__((visibility("default"))) int32_t getInferLibVersion() noexcept
{
    return NV_TENSORRT_VERSION;
}

struct Expression : IDimensionExpr {
    struct Implementation : apiv::VDimensionExpr {
        bool isConstant() const override
        {
            return known;
        }
        int64_t getConstantValue() const override
        {
            return value;
        }
        bool isSizeTensor() const override
        {
            return false;
        }
        int64_t value = 0;
        bool known = false;
    } implementation;
    Expression()
    {
        mImpl = &implementation;
    }
    ~Expression() noexcept override = default;
};

struct Builder : IExprBuilder {
    struct Implementation : apiv::VExprBuilder {
        const IDimensionExpr *constant(int64_t value) override
        {
            Expression &e = pool[used++];
            e.implementation.value = value;
            e.implementation.known = true;
            return &e;
        }
        const IDimensionExpr *operation(DimensionOperation op, const IDimensionExpr &a,
                                        const IDimensionExpr &b) override
        {
            Expression &e = pool[used++];
            const int64_t x = a.getConstantValue(), y = b.getConstantValue();
            e.implementation.value = op == DimensionOperation::kPROD        ? x * y
                                     : op == DimensionOperation::kFLOOR_DIV ? x / y
                                                                            : (x + y - 1) / y;
            return &e;
        }
        const IDimensionExpr *declareSizeTensor(int32_t, const IDimensionExpr &, const IDimensionExpr &) override
        {
            return nullptr;
        }
        Expression pool[64];
        int used = 0;
    } implementation;
    Builder()
    {
        mImpl = &implementation;
    }
    ~Builder() noexcept override = default;
};

static DynamicPluginTensorDesc described(int32_t count, int64_t a, int64_t b, DataType type)
{
    DynamicPluginTensorDesc one{};
    one.desc.dims.nbDims = count;
    one.desc.dims.d[0] = a;
    one.desc.dims.d[1] = b;
    one.desc.type = type;
    one.desc.format = TensorFormat::kLINEAR;
    one.min = one.max = one.opt = one.desc.dims;
    return one;
}

/* SwiGLU of halves of 1.0, scale 1: every code is 0x34. */
template <class Enqueue> static void enqueue_ones(Enqueue enqueue)
{
    uint16_t x[2][32];
    float scale = 1;
    unsigned char codes[2][16];
    for (auto &row : x)
        for (uint16_t &value : row)
            value = 0x3C00;
    memset(codes, 0xA5, sizeof codes);
    const PluginTensorDesc in[2] = {described(2, 2, 32, DataType::kHALF).desc,
                                    described(1, 1, 0, DataType::kFLOAT).desc};
    const PluginTensorDesc out = described(2, 2, 16, DataType::kFP8).desc;
    const void *inputs[2] = {x, &scale};
    void *outputs[1] = {codes};
    EXPECT(enqueue(in, &out, inputs, outputs) == 0);
    for (auto &row : codes)
        for (unsigned char code : row)
            EXPECT(code == 0x34);
}

static void use_v3(IPluginCreatorInterface *creator_interface)
{
    EXPECT(strcmp(creator_interface->getInterfaceInfo().kind, "PLUGIN CREATOR_V3ONE") == 0);
    EXPECT(creator_interface->getAPILanguage() == APILanguage::kCPP);
    /* Torch-TensorRT asks this way: the type information has TensorRT's names. */
    IPluginCreatorV3One *creator = dynamic_cast<IPluginCreatorV3One *>(creator_interface);
    EXPECT(creator != nullptr && creator == static_cast<IPluginCreatorV3One *>(creator_interface));
    if (creator == nullptr)
        return;
    EXPECT(strcmp(creator->getPluginName(), "FusedSwiGLUQuant") == 0);
    EXPECT(strcmp(creator->getPluginVersion(), "1") == 0 && strcmp(creator->getPluginNamespace(), "") == 0);
    EXPECT(creator->getFieldNames()->nbFields == 4);
    PluginFieldCollection none{0, nullptr};
    IPluginV3 *plugin = creator->createPlugin("layer", &none, TensorRTPhase::kBUILD);
    EXPECT(plugin != nullptr);
    const int32_t zero = 0;
    PluginField unknown{"unknown", &zero, PluginFieldType::kINT32, 1};
    PluginFieldCollection bad{1, &unknown};
    EXPECT(creator->createPlugin("layer", &bad, TensorRTPhase::kBUILD) == nullptr);
    EXPECT(strstr(last_line, "1 FusedSwiGLUQuant (layer layer): there is no field") == last_line); // through the logger
    EXPECT(strcmp(plugin->getInterfaceInfo().kind, "PLUGIN") == 0 && plugin->getInterfaceInfo().major == 1);
    EXPECT(plugin->getAPILanguage() == APILanguage::kCPP);
    IPluginV3 *copy = plugin->clone();
    EXPECT(copy != nullptr && copy != plugin);
    delete copy;

    auto *core = static_cast<IPluginV3OneCore *>(plugin->getCapabilityInterface(PluginCapabilityType::kCORE));
    auto *build = static_cast<IPluginV3OneBuildV2 *>(plugin->getCapabilityInterface(PluginCapabilityType::kBUILD));
    auto *run = static_cast<IPluginV3OneRuntime *>(plugin->getCapabilityInterface(PluginCapabilityType::kRUNTIME));
    EXPECT(dynamic_cast<IPluginV3OneBuildV2 *>(plugin->getCapabilityInterface(PluginCapabilityType::kBUILD)) == build);
    EXPECT(strcmp(core->getInterfaceInfo().kind, "PLUGIN_V3ONE_CORE") == 0);
    EXPECT(strcmp(core->getPluginName(), "FusedSwiGLUQuant") == 0);
    EXPECT(strcmp(core->getPluginVersion(), "1") == 0 && strcmp(core->getPluginNamespace(), "") == 0);
    EXPECT(core->getAPILanguage() == APILanguage::kCPP && build->getAPILanguage() == APILanguage::kCPP);
    EXPECT(strcmp(build->getInterfaceInfo().kind, "PLUGIN_V3ONE_BUILD") == 0 && build->getInterfaceInfo().major == 2);
    EXPECT(strcmp(run->getInterfaceInfo().kind, "PLUGIN_V3ONE_RUNTIME") == 0);
    EXPECT(run->getAPILanguage() == APILanguage::kCPP);

    DynamicPluginTensorDesc all[3] = {described(2, 2, 32, DataType::kHALF), described(1, 1, 0, DataType::kFLOAT),
                                      described(2, 2, 16, DataType::kFP8)};
    EXPECT(build->getNbOutputs() == 1);
    const DataType in_types[2] = {DataType::kHALF, DataType::kFLOAT};
    DataType out_type = DataType::kBOOL;
    EXPECT(build->getOutputDataTypes(&out_type, 1, in_types, 2) == 0 && out_type == DataType::kFP8);
    for (int32_t pos = 0; pos < 3; pos++)
        EXPECT(build->supportsFormatCombination(pos, all, 2, 1));
    all[2].desc.type = DataType::kINT8;
    EXPECT(!build->supportsFormatCombination(2, all, 2, 1));
    all[2].desc.type = DataType::kFP8;
    static Builder builder;
    static Expression dimensions[3];
    DimsExprs shapes[2] = {}, shape{};
    const int64_t values[3] = {2, 32, 1};
    for (int i = 0; i < 3; i++)
        dimensions[i].implementation.value = values[i];
    dimensions[2].implementation.known = true;
    shapes[0].nbDims = 2;
    shapes[0].d[0] = &dimensions[0];
    shapes[0].d[1] = &dimensions[1];
    shapes[1].nbDims = 1;
    shapes[1].d[0] = &dimensions[2];
    EXPECT(build->getOutputShapes(shapes, 2, nullptr, 0, &shape, 1, builder) == 0);
    EXPECT(shape.nbDims == 2 && shape.d[0]->getConstantValue() == 2 && shape.d[1]->getConstantValue() == 16);
    EXPECT(build->configurePlugin(all, 2, all + 2, 1) == 0);
    EXPECT(build->getWorkspaceSize(all, 2, all + 2, 1) == 0);
    EXPECT(build->getNbTactics() == 0 && build->getValidTactics(nullptr, 0) == 0);
    EXPECT(strcmp(build->getTimingCacheID(), "FusedSwiGLUQuant") == 0);
    EXPECT(strcmp(build->getMetadataString(), "FusedSwiGLUQuant") == 0);
    EXPECT(build->getFormatCombinationLimit() == 100);
    EXPECT(build->getAliasedInput(0) == -1);

    const PluginFieldCollection *fields = run->getFieldsToSerialize();
    IPluginV3 *loaded = creator->createPlugin("layer", fields, TensorRTPhase::kRUNTIME);
    EXPECT(loaded != nullptr);
    delete plugin;
    run = static_cast<IPluginV3OneRuntime *>(loaded->getCapabilityInterface(PluginCapabilityType::kRUNTIME));
    IPluginV3 *attached = run->attachToContext(nullptr);
    delete loaded;
    run = static_cast<IPluginV3OneRuntime *>(attached->getCapabilityInterface(PluginCapabilityType::kRUNTIME));
    EXPECT(run->setTactic(0) == 0);
    const PluginTensorDesc in[2] = {all[0].desc, all[1].desc};
    EXPECT(run->onShapeChange(in, 2, &all[2].desc, 1) == 0);
    enqueue_ones([&](const PluginTensorDesc *i, const PluginTensorDesc *o, const void *const *inputs,
                     void *const *out) { return run->enqueue(i, o, inputs, out, nullptr, nullptr); });
    delete attached;
}

static void use_v2(IPluginCreatorInterface *creator_interface)
{
    EXPECT(strcmp(creator_interface->getInterfaceInfo().kind, "PLUGIN CREATOR_V1") == 0);
    IPluginCreator *creator = dynamic_cast<IPluginCreator *>(creator_interface);
    EXPECT(creator != nullptr);
    if (creator == nullptr)
        return;
    EXPECT(strcmp(creator->getPluginName(), "FusedSwiGLUQuant") == 0);
    PluginFieldCollection none{0, nullptr};
    auto *plugin = static_cast<IPluginV2DynamicExt *>(creator->createPlugin("layer", &none));
    EXPECT(plugin != nullptr && strcmp(plugin->getPluginType(), "FusedSwiGLUQuant") == 0);
    EXPECT(plugin->initialize() == 0 && plugin->getNbOutputs() == 1);
    plugin->setPluginNamespace("space");
    PluginTensorDesc all[3] = {described(2, 2, 32, DataType::kHALF).desc, described(1, 1, 0, DataType::kFLOAT).desc,
                               described(2, 2, 16, DataType::kFP8).desc};
    for (int32_t pos = 0; pos < 3; pos++)
        EXPECT(plugin->supportsFormatCombination(pos, all, 2, 1));
    const DataType types[2] = {DataType::kHALF, DataType::kFLOAT};
    EXPECT(plugin->getOutputDataType(0, types, 2) == DataType::kFP8);
    const DynamicPluginTensorDesc in[2] = {described(2, 2, 32, DataType::kHALF), described(1, 1, 0, DataType::kFLOAT)};
    const DynamicPluginTensorDesc out = described(2, 2, 16, DataType::kFP8);
    plugin->configurePlugin(in, 2, &out, 1);
    EXPECT(plugin->getWorkspaceSize(all, 2, all + 2, 1) == 0);
    static unsigned char blob[4096];
    const size_t bytes = plugin->getSerializationSize();
    EXPECT(bytes <= sizeof blob);
    plugin->serialize(blob);
    auto *copy = plugin->clone();
    EXPECT(strcmp(copy->getPluginNamespace(), "space") == 0);
    copy->destroy();
    plugin->destroy();
    for (size_t length = 0; length < bytes; length++)
        EXPECT(creator->deserializePlugin("layer", blob, length) == nullptr);
    EXPECT(creator->deserializePlugin("layer", blob, bytes + 1) == nullptr);
    EXPECT(creator->deserializePlugin("layer", nullptr, bytes) == nullptr);
    for (size_t i = 0; i < 16; i++) { // tag, version, size
        blob[i] ^= 1;
        EXPECT(creator->deserializePlugin("layer", blob, bytes) == nullptr);
        blob[i] ^= 1;
    }
    unsigned state = 1;
    for (int round = 0; round < 20000; round++) { // any bytes make a plugin or are refused
        unsigned char spoiled[4096];
        memcpy(spoiled, blob, bytes);
        for (int i = 0; i < 3; i++) {
            state = state * 1664525u + 1013904223u;
            spoiled[(state >> 8) % bytes] = static_cast<unsigned char>(state >> 24);
        }
        IPluginV2 *one = creator->deserializePlugin("layer", spoiled, bytes);
        if (one != nullptr)
            one->destroy();
    }
    plugin = static_cast<IPluginV2DynamicExt *>(creator->deserializePlugin("layer", blob, bytes));
    EXPECT(plugin != nullptr);
    enqueue_ones([&](const PluginTensorDesc *i, const PluginTensorDesc *o, const void *const *inputs, void *const *to) {
        return plugin->enqueue(i, o, inputs, to, nullptr, nullptr);
    });
    plugin->terminate();
    plugin->destroy();
}

static IPluginCreatorInterface *load(const char *path, RealFinder *finder)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        printf("%s\n", dlerror());
        exit(1);
    }
    reinterpret_cast<void (*)(ILoggerFinder *)>(dlsym(library, "setLoggerFinder"))(finder);
    int32_t count = 0;
    IPluginCreatorInterface *const *creators =
        reinterpret_cast<IPluginCreatorInterface *const *(*)(int32_t &)>(dlsym(library, "getCreators"))(count);
    EXPECT(count == 3);
    return creators[0];
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        printf("usage: trt_conformance LIBEPIQ_TRT_HOST.SO LIBEPIQ_TRT_V2_HOST.SO\n");
        return 2;
    }
    static RealFinder finder;
    compare_tables();
    if (failures != 0) // calls would go astray
        return 1;
    use_v3(load(argv[1], &finder));
    use_v2(load(argv[2], &finder));
    printf("headers %d.%d.%d: %d numbers, %d checks, %d differ\n", NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR,
           NV_TENSORRT_PATCH, real_abi_table().count, checks, failures);
    return failures != 0;
}
