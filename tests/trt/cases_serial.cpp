/* cases_serial.cpp: what an engine keeps of a plugin, and what happens to malformed copies of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trt_modes.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* SB5: the fields of a plugin, and each way to spoil them. */
TRT_CASE(SB5_serialized_fields)
{
    for (const Mode &m : modes()) {
        const Note note(m.name);
        PluginPointer plugin = create(m.op, Fields(m.attributes));
        const Fields whole(*runtime(plugin)->getFieldsToSerialize());
        PluginPointer again = create(m.op, whole, TensorRTPhase::kRUNTIME);
        EXPECT(again != nullptr);
        const Fields second(*runtime(again)->getFieldsToSerialize());
        EXPECT_EQ(second.list.size(), whole.list.size());
        for (size_t i = 0; i < whole.list.size(); i++)
            EXPECT(second.list[i].data == whole.list[i].data);
        EXPECT_EQ(take_log().size(), 0);

        for (size_t i = 0; i < whole.list.size(); i++) { // every truncation
            Fields spoiled = whole;
            spoiled.list.erase(spoiled.list.begin() + static_cast<long>(i));
            EXPECT(create(m.op, spoiled, TensorRTPhase::kRUNTIME) == nullptr);
            EXPECT_LOGGED("truncated");
            spoiled = whole;
            spoiled.list[i] = spoiled.list[(i + 1) % spoiled.list.size()]; // one missing, one twice
            EXPECT(create(m.op, spoiled, TensorRTPhase::kRUNTIME) == nullptr);
            EXPECT(!take_log().empty());
            spoiled = whole;
            spoiled.list.erase(spoiled.list.begin() + static_cast<long>(i), spoiled.list.end());
            EXPECT(create(m.op, spoiled, TensorRTPhase::kRUNTIME) == nullptr);
            EXPECT_LOGGED("truncated");
            spoiled = whole;
            spoiled.list[i].length = 0;
            EXPECT(create(m.op, spoiled, TensorRTPhase::kRUNTIME) == nullptr);
            EXPECT_LOGGED("length 0");
            spoiled = whole;
            spoiled.list[i].name += "x";
            EXPECT(create(m.op, spoiled, TensorRTPhase::kRUNTIME) == nullptr);
            EXPECT_LOGGED("there is no field");
        }
        for (const char *name : {"epiq_trt_version", "epiq_trt_fields"}) // foreign versions
            for (int32_t change : {1, -1, 1 << 30}) {
                Fields foreign = whole;
                for (Attribute &one : foreign.list)
                    if (one.name == name) {
                        int32_t number;
                        memcpy(&number, one.data.data(), sizeof number);
                        one = Attribute(name, number + change);
                    }
                EXPECT(create(m.op, foreign, TensorRTPhase::kRUNTIME) == nullptr);
                EXPECT_LOGGED("another version");
            }
        Fields more = whole;
        more.list.push_back({"epiq_trt_future", 1});
        EXPECT(create(m.op, more, TensorRTPhase::kRUNTIME) == nullptr);
        EXPECT_LOGGED("another version");
        EXPECT(create(m.op, whole, TensorRTPhase::kBUILD) == nullptr); // not what a network gives
        EXPECT_LOGGED("there is no field");
        EXPECT(create(m.op, Fields(m.attributes), TensorRTPhase::kRUNTIME) == nullptr); // not what an engine gives
        EXPECT_LOGGED("truncated");
    }
    PluginPointer plugin = create("FusedSwiGLUQuant", {});
    const Fields seed(*runtime(plugin)->getFieldsToSerialize());
    EXPECT(create("EpiqActMulQuant", seed, TensorRTPhase::kRUNTIME) == nullptr);
    EXPECT(create("FusedSwiGLUQuant", seed, static_cast<TensorRTPhase>(2)) == nullptr);
}

/* Random collections, from near-valid to nonsense: each makes a plugin that can be asked, or is refused. */
static Attribute random_attribute(unsigned *state, const PluginFieldCollection *names)
{
    static const char *const words[] = {
        "e4m3",    "nvfp4",    "mxfp4",     "int8",      "token", "group",
        "tensor",  "row",      "tile128x4", "col",       "vllm",  "direct",
        "silu",    "gelu_erf", "separate",  "ungated",   "none",  "twice",
        "default", "scale",    "inv_scale", "propagate", "",      "a word that is much longer than any that there is"};
    static const float floats[] = {0, 1, -1, 1e-6f, 448, -0.0f, 1e38f, __builtin_nanf(""), __builtin_inff(), 1e-45f};
    static const int32_t numbers[] = {0, 1, 2, 16, 32, 128, 256, -1, INT32_MAX, INT32_MIN};
    const unsigned pick = next_random(state) % static_cast<unsigned>(names->nbFields + 1);
    const PluginField known = pick < static_cast<unsigned>(names->nbFields)
                                  ? names->fields[pick]
                                  : PluginField{"unknown", nullptr, PluginFieldType::kINT32, 1};
    const unsigned how = next_random(state) % 40;
    PluginFieldType type = known.type;
    if (how == 0)
        type = static_cast<PluginFieldType>(next_random(state) % 16);
    Attribute one(known.name, numbers[next_random(state) % 10]);
    if (type == PluginFieldType::kCHAR)
        one = Attribute(known.name, words[next_random(state) % (sizeof words / sizeof words[0])]);
    else if (type == PluginFieldType::kFLOAT32)
        one = Attribute(known.name, floats[next_random(state) % 10]);
    one.type = type;
    if (how == 1)
        one.data.clear();
    if (how == 2 && one.length > 0)
        one.length--;
    if (how == 3)
        one.data.assign(64, static_cast<char>(next_random(state)));
    if (how == 4) {
        one.data.resize(64, 'x');
        one.length = static_cast<int32_t>(next_random(state) % 65);
    }
    return one;
}

static void use(const PluginPointer &plugin, unsigned *state)
{
    static const DataType types[] = {DataType::kBF16, DataType::kHALF, DataType::kFLOAT, DataType::kINT8};
    std::vector<Dims> shapes;
    std::vector<DataType> of;
    for (unsigned i = 0, count = 1 + next_random(state) % 4; i < count; i++) {
        Dims d = dims({static_cast<int64_t>(next_random(state) % 5), static_cast<int64_t>(next_random(state) % 70)});
        d.nbDims = static_cast<int32_t>(next_random(state) % 3);
        shapes.push_back(d);
        of.push_back(types[next_random(state) % 4]);
    }
    output_types(plugin, of);
    output_shapes(plugin, shapes, next_random(state) % 2 == 0);
    PluginPointer loaded = through_an_engine(plugin);
    EXPECT(loaded != nullptr);
    std::vector<DynamicPluginTensorDesc> all;
    for (size_t i = 0; i < shapes.size(); i++)
        all.push_back(described(shapes[i], of[i]));
    const auto inputs = static_cast<int32_t>(all.size()), outputs = build(plugin)->getNbOutputs();
    all.resize(all.size() + static_cast<size_t>(outputs), described(dims({1}), DataType::kFP8));
    build(plugin)->configurePlugin(all.data(), inputs, all.data() + inputs, outputs);
    build(plugin)->getWorkspaceSize(all.data(), inputs, all.data() + inputs, outputs);
}

TRT_CASE(fuzz_fields)
{
    unsigned state = 20240601;
    int made = 0;
    for (int round = 0; round < 20000; round++) {
        IPluginCreatorV3One *creator = library().creators[next_random(&state) % 3];
        Fields fields;
        const bool helped = next_random(&state) % 2 == 0; // a start that can succeed
        if (helped && strcmp(creator->getPluginName(), "FusedSwiGLUQuant") != 0)
            fields.list.push_back({"format", next_random(&state) % 2 == 0 ? "e4m3" : "nvfp4"});
        if (helped && strcmp(creator->getPluginName(), "EpiqRmsNormQuant") == 0)
            fields.list.push_back({"eps", 1e-6f});
        for (unsigned i = 0, count = next_random(&state) % 5; i < count; i++)
            fields.list.push_back(random_attribute(&state, creator->getFieldNames()));
        take_log();
        PluginPointer plugin = create(creator->getPluginName(), fields);
        if (plugin == nullptr) {
            EXPECT_EQ(take_log().size(), 1);
            continue;
        }
        EXPECT_EQ(take_log().size(), 0);
        made++;
        use(plugin, &state);
    }
    EXPECT(made > 2000 && made < 18000);
    take_log();
}

TRT_CASE(fuzz_serialized_fields)
{
    unsigned state = 7;
    int made = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        const Mode &m = modes()[next_random(&state) % modes().size()];
        PluginPointer plugin = create(m.op, Fields(m.attributes));
        Fields fields(*runtime(plugin)->getFieldsToSerialize());
        for (unsigned i = 0, count = 1 + next_random(&state) % 3; i < count; i++) {
            Attribute &one = fields.list[next_random(&state) % fields.list.size()];
            switch (next_random(&state) % 5) {
            case 0: // a bit of the value
                if (!one.data.empty())
                    one.data[next_random(&state) % one.data.size()] ^= static_cast<char>(1 << next_random(&state) % 8);
                break;
            case 1:
                one.type = static_cast<PluginFieldType>(next_random(&state) % 16);
                if (one.type != PluginFieldType::kCHAR) // as many bytes as any type may have
                    one.data.resize(one.data.size() < 8 ? 8 : one.data.size());
                break;
            case 2:
                one.length = static_cast<int32_t>(next_random(&state) % (one.data.size() + 1));
                if (one.type != PluginFieldType::kCHAR)
                    one.length = static_cast<int32_t>(next_random(&state) % 3);
                break;
            case 3:
                one.name[next_random(&state) % one.name.size()] ^= 1;
                break;
            default:
                fields.list.erase(fields.list.begin() + static_cast<long>(next_random(&state) % fields.list.size()));
            }
        }
        take_log();
        PluginPointer loaded = create(m.op, fields, TensorRTPhase::kRUNTIME);
        if (loaded == nullptr) {
            refused++;
            EXPECT_EQ(take_log().size(), 1);
        } else {
            made++;
            use(loaded, &state);
        }
    }
    EXPECT(made > 100 && refused > 10000);
    take_log();
}

/* SB0: an engine made here is loaded in another process, which knows the library alone. */
static std::string child_answer(const std::string &file)
{
    char self[512];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    const pid_t child = fork();
    if (child == 0) {
        setenv("TRT_MOCK_ENGINE", file.c_str(), 1);
        execl(self, self, plugin_path().c_str(), "SB0_second_process", static_cast<char *>(nullptr));
        _exit(9);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? std::to_string(WEXITSTATUS(status)) : "killed";
}

TRT_CASE(SB0_loaded_elsewhere)
{
    if (on_gpu)
        return;
    const char *folder = getenv("TMPDIR");
    const std::string file =
        std::string(folder != nullptr ? folder : "/tmp") + "/trt_mock_engine_" + std::to_string(getpid());
    PluginPointer plugin = create("EpiqActMulQuant", {{"format", "nvfp4"}, {"layout", "tile128x4"}, {"alpha", 1.5f}});
    FILE *out = fopen(file.c_str(), "wb");
    EXPECT(out != nullptr);
    for (const Attribute &one : Fields(*runtime(plugin)->getFieldsToSerialize()).list) {
        fprintf(out, "%s %d %d", one.name.c_str(), static_cast<int>(one.type), one.length);
        for (char byte : one.data)
            fprintf(out, " %d", byte);
        fprintf(out, "\n");
    }
    fclose(out);
    EXPECT(child_answer(file) == "0");
    remove(file.c_str());
}

TRT_CASE(SB0_second_process)
{
    const char *file = getenv("TRT_MOCK_ENGINE");
    if (file == nullptr) // the first process
        return;
    FILE *in = fopen(file, "rb");
    EXPECT(in != nullptr);
    if (in == nullptr)
        return;
    Fields fields;
    char name[64];
    int type, length, byte;
    while (fscanf(in, "%63s %d %d", name, &type, &length) == 3) {
        Attribute one(name, 0);
        one.type = static_cast<PluginFieldType>(type);
        one.length = length;
        one.data.clear();
        const int bytes = one.type == PluginFieldType::kCHAR ? length : 4;
        for (int i = 0; i < bytes && fscanf(in, "%d", &byte) == 1; i++)
            one.data.push_back(static_cast<char>(byte));
        fields.list.push_back(one);
    }
    fclose(in);
    PluginPointer plugin = create("EpiqActMulQuant", fields, TensorRTPhase::kRUNTIME);
    EXPECT(plugin != nullptr);
    EXPECT(plugin != nullptr &&
           std::string(build(plugin)->getTimingCacheID()) == "EpiqActMulQuant format=nvfp4 layout=tile128x4 alpha=1.5");
}
