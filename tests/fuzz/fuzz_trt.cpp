/* fuzz_trt.cpp: the TensorRT plugins as a hostile host meets them: attributes of any kind, serialized fields with
 * faults, and every question that TensorRT asks about the plugin that comes of them, up to running it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The plugin is linked in, on host memory, so that the fuzzer sees its branches. Made means: it serializes, the copy
 * serializes alike, and where it takes the shapes it writes its outputs and nothing else. Refused means: one line in
 * the log. */
#include "../trt/expressions.h"
#include "fuzz.h"

#include <epiq/epiq.h>

#include <stdio.h>

#include <memory>
#include <string>
#include <vector>

using namespace nvinfer1;

extern "C" IPluginCreatorInterface *const *getCreators(int32_t &nbCreators);
extern "C" void setLoggerFinder(void *finder);

static int32_t host_version = 100300;
static int logged;

extern "C" __attribute__((visibility("default"))) int32_t getInferLibVersion();
extern "C" int32_t getInferLibVersion()
{
    return host_version;
}

namespace
{

struct Logger {
    virtual void log(int32_t, const char *message) noexcept
    {
        if (strchr(message, '\n') != nullptr)
            fuzz_fail("two lines: %s", message);
        logged++;
    }
    virtual ~Logger() = default;
};

struct Finder {
    virtual Logger *findLogger()
    {
        static Logger logger;
        return &logger;
    }
    virtual ~Finder() = default;
};

/* Names and values of the attributes: each in memory of exactly its size. */
struct Field {
    fuzz_block name, data;
    PluginFieldType type;
    int32_t length;
};

class Collection
{
  public:
    Collection() = default;
    Collection(const Collection &) = delete;
    Collection &operator=(const Collection &) = delete;
    ~Collection()
    {
        for (Field &one : list)
            release(one);
    }
    static void release(Field &one)
    {
        fuzz_block_free(&one.name);
        fuzz_block_free(&one.data);
    }
    void add(const std::string &name, PluginFieldType type, int32_t length, const void *data, size_t bytes)
    {
        Field one = {fuzz_block_make(name.size() + 1, 0), fuzz_block_make(bytes, bytes % 3), type, length};
        memcpy(one.name.data, name.c_str(), name.size() + 1);
        if (bytes != 0)
            memcpy(one.data.data, data, bytes);
        list.push_back(one);
    }
    void remove(size_t i)
    {
        release(list[i]);
        list.erase(list.begin() + static_cast<long>(i));
    }
    const PluginFieldCollection *collection()
    {
        fields_.clear();
        for (const Field &one : list)
            fields_.push_back({reinterpret_cast<const char *>(one.name.data), one.data.data, one.type, one.length});
        collection_ = {static_cast<int32_t>(fields_.size()), fields_.data()};
        return &collection_;
    }
    std::vector<Field> list;

  private:
    std::vector<PluginField> fields_;
    PluginFieldCollection collection_ = {};
};

struct PluginDeleter {
    void operator()(IPluginV3 *plugin) const
    {
        delete plugin;
    }
};
using PluginPointer = std::unique_ptr<IPluginV3, PluginDeleter>;

void complain(const char *text)
{
    fuzz_fail("%s", text);
}

const char *const words[] = {"e4m3",      "nvfp4",     "mxfp4",       "mxfp8",       "int8",        "e5m2",  "token",
                             "group",     "tensor",    "row",         "col",         "tile8x4",     "vllm",  "direct",
                             "silu",      "gelu_erf",  "separate",    "ungated",     "none",        "twice", "once",
                             "default",   "scale",     "inv_scale",   "propagate",   "saturate",    "keep",  "zero",
                             "floor",     "ceil",      "ieee",        "relu2",       "t",           "fp32",  "up_gate",
                             "allreduce", "tile128x4", "interleaved", "col_aligned", "packed_ue8m0"};

void add_attribute(Collection &to, fuzz_bytes *b, const PluginFieldCollection *names)
{
    static const int32_t numbers[] = {0, 1, 1, 1, 2, 16, 32, 64, 128, 256, -1, INT32_MAX, INT32_MIN};
    const PluginField known = names->fields[fuzz_byte(b) % static_cast<uint32_t>(names->nbFields)];
    std::string name = known.name;
    PluginFieldType type = known.type;
    const uint32_t how = fuzz_byte(b);
    if (how == 255)
        name[fuzz_byte(b) % name.size()] ^= static_cast<char>(1 + fuzz_byte(b) % 127);
    if (how == 254)
        type = static_cast<PluginFieldType>(fuzz_byte(b));
    if (type == PluginFieldType::kCHAR) {
        std::string word = words[fuzz_byte(b) % (sizeof words / sizeof words[0])];
        if (how >= 248)
            word.assign(fuzz_byte(b) % 48, static_cast<char>(fuzz_byte(b)));
        const size_t ended = how % 4 == 3; // some hosts count the end of the string
        to.add(name, type, static_cast<int32_t>(word.size() + ended), word.c_str(), word.size() + ended);
        return;
    }
    int32_t value = numbers[fuzz_byte(b) % 13];
    if (type == PluginFieldType::kFLOAT32) {
        const float f = fuzz_float(b);
        memcpy(&value, &f, sizeof value);
    }
    const int32_t wide[4] = {value, value, value, value}; // as many bytes as any type has
    const int32_t length = how == 253 ? static_cast<int32_t>(fuzz_byte(b)) - 2 : 1;
    to.add(name, type, length, wide, type == known.type ? sizeof value : sizeof wide);
}

size_t bytes_of_field(const PluginField &field)
{
    return static_cast<size_t>(field.length) * (field.type == PluginFieldType::kCHAR ? 1 : 4);
}

void copy(Collection &to, const PluginFieldCollection *from)
{
    for (int32_t i = 0; i < from->nbFields; i++) {
        const PluginField &field = from->fields[i];
        to.add(field.name, field.type, field.length, field.data, bytes_of_field(field));
    }
}

void spoil(Collection &fields, fuzz_bytes *b)
{
    for (uint32_t n = fuzz_byte(b) % 4; n > 0 && !fields.list.empty(); n--) {
        const size_t i = fuzz_byte(b) % fields.list.size();
        Field &one = fields.list[i];
        switch (fuzz_byte(b) % 6) {
        case 0:
            if (one.data.bytes != 0)
                one.data.data[fuzz_byte(b) % one.data.bytes] ^= static_cast<unsigned char>(fuzz_byte(b));
            break;
        case 1: // another type, with as many bytes as any type may have
            if (one.type != PluginFieldType::kCHAR) {
                const unsigned char zeros[16] = {};
                fuzz_block_free(&one.data);
                one.data = fuzz_block_make(16, 0);
                memcpy(one.data.data, zeros, sizeof zeros);
                one.type = static_cast<PluginFieldType>(fuzz_byte(b));
                one.length = one.type == PluginFieldType::kCHAR ? 16 : 1;
            }
            break;
        case 2:
            one.length = one.type == PluginFieldType::kCHAR && one.data.bytes != 0
                             ? static_cast<int32_t>(fuzz_byte(b) % (one.data.bytes + 1))
                             : static_cast<int32_t>(fuzz_byte(b) % 2);
            break;
        case 3:
            one.name.data[fuzz_byte(b) % (one.name.bytes - 1)] ^= static_cast<unsigned char>(fuzz_byte(b) & 0x7F);
            break;
        case 4: { // one of the others again
            const Field &from = fields.list[fuzz_byte(b) % fields.list.size()];
            const std::string name = reinterpret_cast<const char *>(from.name.data);
            const std::vector<unsigned char> data(from.data.data, from.data.data + from.data.bytes);
            fields.add(name, from.type, from.length, data.data(), data.size());
            break;
        }
        default:
            fields.remove(i);
        }
    }
}

Dims any_dims(fuzz_bytes *b, bool wild)
{
    Dims d = {};
    d.nbDims = static_cast<int32_t>(1 + fuzz_byte(b) % 3);
    if (wild)
        d.nbDims = static_cast<int32_t>(fuzz_byte(b) % 12) - 2;
    for (int32_t i = 0; i < Dims::MAX_DIMS; i++) {
        const uint32_t pick = fuzz_byte(b);
        d.d[i] = pick % 5;
        if (i + 1 == d.nbDims)
            d.d[i] = 16 * (1 + pick % 24);
        if (wild && pick >= 200)
            d.d[i] = pick >= 250 ? static_cast<int64_t>(fuzz_bits(b, 8)) : pick >= 230 ? -1 : pick;
    }
    return d;
}

int64_t volume(const Dims &d)
{
    int64_t product = 1;
    for (int32_t i = 0; i < d.nbDims; i++)
        if (d.d[i] < 0 || __builtin_mul_overflow(product, d.d[i], &product))
            return -1;
    return product;
}

size_t size_of(DataType type, int64_t count)
{
    switch (type) {
    case DataType::kFLOAT:
    case DataType::kINT32:
        return static_cast<size_t>(count) * 4;
    case DataType::kHALF:
    case DataType::kBF16:
        return static_cast<size_t>(count) * 2;
    case DataType::kFP4:
        return static_cast<size_t>(count + 1) / 2;
    default:
        return static_cast<size_t>(count);
    }
}

template <class Interface> Interface *ask(const PluginPointer &plugin, PluginCapabilityType type)
{
    return static_cast<Interface *>(plugin->getCapabilityInterface(type));
}

bool same_fields(const PluginFieldCollection *a, const PluginFieldCollection *b)
{
    if (a->nbFields != b->nbFields)
        return false;
    for (int32_t i = 0; i < a->nbFields; i++) {
        const PluginField &x = a->fields[i], &y = b->fields[i];
        if (strcmp(x.name, y.name) != 0 || x.type != y.type || x.length != y.length ||
            memcmp(x.data, y.data, bytes_of_field(x)) != 0)
            return false;
    }
    return true;
}

struct Call {
    std::vector<DynamicPluginTensorDesc> all; // inputs, then outputs
    int32_t inputs, outputs;
};

/* Types that the plugin takes, one position after the other. */
bool choose_types(IPluginV3OneBuildV2 *build, Call &call, fuzz_bytes *b)
{
    static const DataType types[] = {DataType::kBF16,  DataType::kHALF, DataType::kFLOAT, DataType::kINT8,
                                     DataType::kINT32, DataType::kFP8,  DataType::kFP4,   DataType::kBOOL};
    for (int32_t pos = 0; pos < call.inputs + call.outputs; pos++) {
        bool found = false;
        const uint32_t start = fuzz_byte(b);
        for (uint32_t i = 0; i < 8 && !found; i++) {
            call.all[static_cast<size_t>(pos)].desc.type = types[(start + i) % 8];
            found = build->supportsFormatCombination(pos, call.all.data(), call.inputs, call.outputs);
        }
        if (!found)
            return false;
    }
    return true;
}

void run(IPluginV3OneBuildV2 *build, IPluginV3OneRuntime *runtime, const Call &call, fuzz_bytes *b)
{
    std::vector<PluginTensorDesc> descs;
    for (const DynamicPluginTensorDesc &one : call.all)
        descs.push_back(one.desc);
    const PluginTensorDesc *in = descs.data(), *out = in + call.inputs;
    const bool changed = runtime->onShapeChange(in, call.inputs, out, call.outputs) == 0;
    if (!changed)
        return;
    size_t total = 0;
    for (const PluginTensorDesc &one : descs) {
        const int64_t count = volume(one.dims);
        if (count < 0 || count > 1 << 16)
            return;
        total += size_of(one.type, count);
    }
    const size_t workspace_bytes =
        build->getWorkspaceSize(call.all.data(), call.inputs, call.all.data() + call.inputs, call.outputs);
    if (total > 1 << 17 || workspace_bytes > 1 << 17)
        return;
    std::vector<fuzz_block> blocks;
    std::vector<void *> pointers;
    const uint32_t seed = fuzz_byte(b);
    for (int32_t i = 0; i < call.inputs + call.outputs; i++) {
        const PluginTensorDesc &one = descs[static_cast<size_t>(i)];
        blocks.push_back(fuzz_block_make(size_of(one.type, volume(one.dims)), 0));
        const int32_t alias = i < call.inputs ? -1 : build->getAliasedInput(i - call.inputs);
        fuzz_fill(blocks.back().data, blocks.back().bytes, seed + static_cast<uint32_t>(i), static_cast<int>(seed % 2),
                  2, nullptr);
        pointers.push_back(alias >= 0 ? pointers[static_cast<size_t>(alias)] : blocks.back().data);
    }
    fuzz_block workspace = fuzz_block_make(workspace_bytes, 0);
    std::vector<std::vector<unsigned char>> before;
    for (int32_t i = 0; i < call.inputs; i++) {
        const fuzz_block &one = blocks[static_cast<size_t>(i)];
        before.emplace_back(one.data, one.data + one.bytes);
    }
    std::vector<const void *> inputs(pointers.begin(), pointers.begin() + call.inputs);
    const int logged_before = logged;
    const int32_t status =
        runtime->enqueue(in, out, inputs.data(), pointers.data() + call.inputs, workspace.data, nullptr);
    if (status != 0 && logged == logged_before)
        fuzz_fail("enqueue fails without a word");
    if (status != 0)
        fuzz_fail("enqueue fails after onShapeChange");
    for (int32_t i = 0; i < call.inputs; i++) {
        bool aliased = false;
        for (int32_t o = 0; o < call.outputs; o++)
            aliased = aliased || build->getAliasedInput(o) == i;
        const fuzz_block &one = blocks[static_cast<size_t>(i)];
        if (!aliased && one.bytes != 0 && memcmp(before[static_cast<size_t>(i)].data(), one.data, one.bytes) != 0)
            fuzz_fail("input %d is written", i);
    }
    for (fuzz_block &one : blocks) {
        fuzz_guards_hold(&one, "tensor");
        fuzz_block_free(&one);
    }
    fuzz_guards_hold(&workspace, "workspace");
    fuzz_block_free(&workspace);
}

void use(const PluginPointer &plugin, IPluginCreatorV3One *creator, fuzz_bytes *b)
{
    auto *build = static_cast<IPluginV3OneBuildV2 *>(plugin->getCapabilityInterface(PluginCapabilityType::kBUILD));
    auto *runtime = ask<IPluginV3OneRuntime>(plugin, PluginCapabilityType::kRUNTIME);
    Collection engine;
    copy(engine, runtime->getFieldsToSerialize());
    PluginPointer loaded(creator->createPlugin("loaded", engine.collection(), TensorRTPhase::kRUNTIME));
    if (loaded == nullptr)
        fuzz_fail("what a plugin serializes is refused");
    auto *loaded_runtime = ask<IPluginV3OneRuntime>(loaded, PluginCapabilityType::kRUNTIME);
    if (!same_fields(runtime->getFieldsToSerialize(), loaded_runtime->getFieldsToSerialize()))
        fuzz_fail("a loaded plugin serializes otherwise");
    PluginPointer context(loaded_runtime->attachToContext(nullptr));
    PluginPointer twin(plugin->clone());
    if (context == nullptr || twin == nullptr || strlen(build->getTimingCacheID()) > 1023)
        fuzz_fail("no copy");

    const uint32_t flags = fuzz_byte(b);
    const bool wild = flags % 8 == 7;
    Call call = {};
    call.outputs = build->getNbOutputs();
    call.inputs = static_cast<int32_t>(1 + fuzz_byte(b) % (wild ? 7 : 4));
    const Dims x = any_dims(b, wild);
    for (int32_t i = 0; i < call.inputs + call.outputs; i++) {
        DynamicPluginTensorDesc one = {};
        const uint32_t shape = fuzz_byte(b);
        one.desc.dims = x;
        if (i > 0 && shape % 3 == 1) { // a weight
            one.desc.dims.nbDims = 1;
            one.desc.dims.d[0] = x.nbDims >= 1 && x.nbDims <= Dims::MAX_DIMS ? x.d[x.nbDims - 1] : 1;
        } else if (i > 0 && shape % 3 == 2) {
            one.desc.dims = {};
            one.desc.dims.nbDims = 1;
            one.desc.dims.d[0] = 1;
        }
        if (wild && shape >= 240)
            one.desc.dims = any_dims(b, true);
        one.min = one.opt = one.max = one.desc.dims;
        if (wild && shape >= 230)
            one.max = any_dims(b, true);
        one.desc.format = TensorFormat::kLINEAR;
        one.desc.scale = 1;
        call.all.push_back(one);
    }
    if (!choose_types(build, call, b) && !wild)
        return;
    std::vector<DataType> in_types, out_types(static_cast<size_t>(call.outputs));
    for (int32_t i = 0; i < call.inputs; i++)
        in_types.push_back(call.all[static_cast<size_t>(i)].desc.type);
    build->getOutputDataTypes(out_types.data(), call.outputs, in_types.data(), call.inputs);

    Builder builder(complain);
    std::vector<DimsExprs> in(static_cast<size_t>(call.inputs)), out(static_cast<size_t>(call.outputs));
    for (size_t i = 0; i < in.size(); i++) {
        const Dims &dims = call.all[i].desc.dims;
        in[i].nbDims = dims.nbDims;
        for (int32_t d = 0; d < dims.nbDims && d < Dims::MAX_DIMS; d++)
            in[i].d[d] = builder.make(dims.d[d], flags & 8 ? true : false);
    }
    const int32_t shaped =
        build->getOutputShapes(in.data(), call.inputs, nullptr, 0, out.data(), call.outputs, builder);
    for (size_t i = 0; i < out.size() && shaped == 0; i++) {
        Dims &dims = call.all[in.size() + i].desc.dims;
        dims = {};
        dims.nbDims = out[i].nbDims;
        if (dims.nbDims < 0 || dims.nbDims > Dims::MAX_DIMS)
            fuzz_fail("an output has %d dimensions", dims.nbDims);
        for (int32_t d = 0; d < dims.nbDims; d++)
            dims.d[d] = static_cast<const Expression *>(out[i].d[d])->value;
    }
    build->configurePlugin(call.all.data(), call.inputs, call.all.data() + call.inputs, call.outputs);
    build->getWorkspaceSize(call.all.data(), call.inputs, call.all.data() + call.inputs, call.outputs);
    for (int32_t i = -1; i <= call.outputs; i++)
        build->getAliasedInput(i);
    if (shaped == 0)
        run(build, ask<IPluginV3OneRuntime>(flags & 16 ? context : plugin, PluginCapabilityType::kRUNTIME), call, b);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Finder finder;
    static const int32_t versions[] = {100300, 100800, 101300, 101600};
    setLoggerFinder(&finder);
    fuzz_bytes bytes = {data, size}, *b = &bytes;
    int32_t count = 0;
    IPluginCreatorInterface *const *creators = getCreators(count);
    const uint32_t flags = fuzz_byte(b);
    auto *creator = static_cast<IPluginCreatorV3One *>(creators[flags % static_cast<uint32_t>(count)]);
    host_version = versions[flags / 4 % 4];

    Collection fields;
    const std::string name = creator->getPluginName();
    if (flags & 16 && name != "FusedSwiGLUQuant") { // a start that can succeed
        const char *format = words[fuzz_byte(b) % 6];
        fields.add("format", PluginFieldType::kCHAR, static_cast<int32_t>(strlen(format)), format, strlen(format));
        const float eps = 1e-6f;
        if (name == "EpiqRmsNormQuant")
            fields.add("eps", PluginFieldType::kFLOAT32, 1, &eps, sizeof eps);
    }
    for (uint32_t n = fuzz_byte(b) % 8; n > 0; n--)
        add_attribute(fields, b, creator->getFieldNames());
    logged = 0;
    PluginPointer plugin(creator->createPlugin("layer", fields.collection(), TensorRTPhase::kBUILD));
    if (logged != (plugin == nullptr))
        fuzz_fail("%d lines are logged", logged);
    if (plugin == nullptr)
        return 0;
    if (flags & 32) { // a faulty engine
        Collection engine;
        copy(engine, ask<IPluginV3OneRuntime>(plugin, PluginCapabilityType::kRUNTIME)->getFieldsToSerialize());
        spoil(engine, b);
        PluginPointer loaded(creator->createPlugin(nullptr, engine.collection(), TensorRTPhase::kRUNTIME));
        if (logged != (loaded == nullptr))
            fuzz_fail("%d lines are logged of an engine", logged);
        if (loaded == nullptr)
            return 0;
        plugin = std::move(loaded);
    }
    use(plugin, creator, b);
    return 0;
}
