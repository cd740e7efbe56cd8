/* cases_build.cpp: what a build asks: creators, fields, types, formats, shapes, workspace, ids, clones, the logger.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trt_modes.h"

#include <functional>
#include <string.h>

constexpr DataType BF16 = DataType::kBF16, HALF = DataType::kHALF, FLOAT = DataType::kFLOAT;

/* SB1: name, version and namespace; and what the plugin says of itself agrees. */
TRT_CASE(SB1_lookup)
{
    EXPECT_EQ(library().creators.size(), 3);
    for (const char *name : {"FusedSwiGLUQuant", "EpiqActMulQuant", "EpiqRmsNormQuant"}) {
        const Note note(name);
        EXPECT(library().creator(name) != nullptr);
        EXPECT(library().creator(name, "2") == nullptr);
        EXPECT(library().creator(name, "1", "epiq") == nullptr);
    }
    PluginPointer plugin = create("EpiqActMulQuant", {{"format", "e4m3"}});
    EXPECT(strcmp(plugin->getInterfaceInfo().kind, "PLUGIN") == 0);
    EXPECT(strcmp(core(plugin)->getPluginName(), "EpiqActMulQuant") == 0);
    EXPECT(strcmp(core(plugin)->getPluginVersion(), "1") == 0);
    EXPECT(strcmp(core(plugin)->getPluginNamespace(), "") == 0);
    EXPECT(strcmp(core(plugin)->getInterfaceInfo().kind, "PLUGIN_V3ONE_CORE") == 0);
    EXPECT(strcmp(runtime(plugin)->getInterfaceInfo().kind, "PLUGIN_V3ONE_RUNTIME") == 0);
    EXPECT(plugin->getCapabilityInterface(static_cast<PluginCapabilityType>(3)) == nullptr);
    EXPECT_EQ(plugin->getAPILanguage(), APILanguage::kCPP);
    EXPECT_EQ(build(plugin)->getNbTactics(), 0);
    EXPECT_EQ(runtime(plugin)->setTactic(0), 0);
}

TRT_CASE(field_names)
{
    const PluginFieldCollection *seed = library().creator("FusedSwiGLUQuant")->getFieldNames();
    EXPECT_EQ(seed->nbFields, 4);
    bool scale = false, dynamic = false;
    for (int32_t i = 0; i < seed->nbFields; i++) {
        const PluginField &field = seed->fields[i];
        scale = scale || (strcmp(field.name, "scale") == 0 && field.type == PluginFieldType::kFLOAT32);
        dynamic = dynamic || (strcmp(field.name, "has_dynamic_scale") == 0 && field.type == PluginFieldType::kINT32);
        EXPECT(field.data == nullptr);
    }
    EXPECT(scale && dynamic);
    EXPECT_EQ(library().creator("EpiqActMulQuant")->getFieldNames()->nbFields, 24);
    EXPECT_EQ(library().creator("EpiqRmsNormQuant")->getFieldNames()->nbFields, 23);
}

/* SB4: fields are typed, have a length, and are read as what they are. */
static PluginPointer seed_with(const char *name, PluginFieldType type, std::vector<char> data, int32_t length)
{
    Attribute one(name, 0);
    one.type = type;
    one.data = data;
    one.length = length;
    return create("FusedSwiGLUQuant", {one});
}

TRT_CASE(SB4_fields)
{
    for (int32_t value : {1, 256, -1, INT32_MIN, 1 << 24}) { // the low byte of 256 is 0
        PluginPointer plugin = create("FusedSwiGLUQuant", {{"has_dynamic_scale", value}});
        EXPECT_EQ(build(plugin)->getNbOutputs(), 2);
    }
    EXPECT_EQ(build(create("FusedSwiGLUQuant", {{"has_dynamic_scale", 0}}))->getNbOutputs(), 1);
    EXPECT_EQ(build(create("FusedSwiGLUQuant", {}))->getNbOutputs(), 1);

    EXPECT(seed_with("has_dynamic_scale", PluginFieldType::kINT8, {1}, 1) == nullptr);
    EXPECT_LOGGED("has_dynamic_scale is INT8, but must be INT32");
    EXPECT(seed_with("has_dynamic_scale", PluginFieldType::kINT64, std::vector<char>(8), 1) == nullptr);
    EXPECT_LOGGED("INT64");
    EXPECT(seed_with("has_dynamic_scale", PluginFieldType::kINT32, std::vector<char>(8), 2) == nullptr);
    EXPECT_LOGGED("length 2");
    EXPECT(seed_with("has_dynamic_scale", PluginFieldType::kINT32, std::vector<char>(4), 0) == nullptr);
    EXPECT_LOGGED("length 0");
    EXPECT(seed_with("has_dynamic_scale", PluginFieldType::kINT32, {}, 1) == nullptr);
    EXPECT_LOGGED("no data");
    EXPECT(seed_with("scale", PluginFieldType::kINT32, std::vector<char>(4), 1) == nullptr);
    EXPECT_LOGGED("scale is INT32, but must be FLOAT32");
    EXPECT(seed_with("scale", static_cast<PluginFieldType>(77), std::vector<char>(4), 1) == nullptr);
    EXPECT_LOGGED("a type that does not exist");
    for (float value : {-1.0f, __builtin_inff(), __builtin_nanf("")}) {
        EXPECT(create("FusedSwiGLUQuant", {{"scale", value}}) == nullptr);
        EXPECT_LOGGED("finite and above 0");
    }
    EXPECT(create("FusedSwiGLUQuant", {{"scales", 1.0f}}) == nullptr);
    EXPECT_LOGGED("there is no field \"scales\"");
    EXPECT(create("FusedSwiGLUQuant", {{"sca\nle\x1b", 1.0f}}) == nullptr); // one line, whatever the file says
    EXPECT_LOGGED("there is no field \"sca?le?\"");
    EXPECT(create("FusedSwiGLUQuant", {{"scale", 1.0f}, {"scale", 1.0f}}) == nullptr);
    EXPECT_LOGGED("given twice");
    EXPECT(create("FusedSwiGLUQuant", {{"epiq_trt_version", 1}}) == nullptr);
    EXPECT_LOGGED("there is no field");
    EXPECT(create("EpiqActMulQuant", {}) == nullptr);
    EXPECT_LOGGED("out.format: required");
    EXPECT(create("EpiqActMulQuant", {{"format", "e3m4"}}) == nullptr);
    EXPECT_LOGGED("does not know the word \"e3m4\"");
    EXPECT(create("EpiqActMulQuant", {{"format", "a word that is longer than any"}}) == nullptr);
    EXPECT_LOGGED("does not know the word");
    EXPECT(create("EpiqActMulQuant", {{"format", "a word that is much longer than any"}}) == nullptr);
    EXPECT_LOGGED("is no word");
    EXPECT(create("EpiqActMulQuant", {{"format", "e4m3"}, {"y_out", 2}}) == nullptr);
    EXPECT_LOGGED("must be 0 or 1");
    EXPECT(create("EpiqActMulQuant", {{"format", "e4m3"}, {"scale", 1.0f}, {"inv_scale", 1.0f}}) == nullptr);
    EXPECT_LOGGED("more than one");
    EXPECT(create("EpiqActMulQuant", {{"format", "e4m3"}, {"layout", "tile128x4"}}) == nullptr);
    EXPECT_LOGGED("layout: tile128x4 needs");
    EXPECT(create("EpiqRmsNormQuant", {{"format", "e4m3"}}) == nullptr);
    EXPECT_LOGGED("eps");
    EXPECT(create("EpiqRmsNormQuant", {{"format", "e4m3"}, {"eps", 1e-6f}, {"act", "silu"}}) == nullptr);
    EXPECT_LOGGED("there is no field \"act\"");
    EXPECT(create("EpiqActMulQuant", {{"format", "default"}, {"act", "default"}}) == nullptr);
    EXPECT_LOGGED("out.format: required");

    IPluginCreatorV3One *creator = library().creator("FusedSwiGLUQuant");
    EXPECT(creator->createPlugin("layer", nullptr, TensorRTPhase::kBUILD) == nullptr);
    EXPECT_LOGGED("malformed");
    const PluginFieldCollection none = {1, nullptr};
    EXPECT(creator->createPlugin(nullptr, &none, TensorRTPhase::kBUILD) == nullptr);
    EXPECT_LOGGED("without a name");
    const PluginField nameless = {nullptr, nullptr, PluginFieldType::kINT32, 1};
    const PluginFieldCollection one = {1, &nameless};
    EXPECT(creator->createPlugin("layer", &one, TensorRTPhase::kBUILD) == nullptr);
    EXPECT_LOGGED("no name");

    Attribute ended("format", "nvfp4"); // a caller that counts the end of the string
    ended.data.push_back('\0');
    ended.length++;
    EXPECT(create("EpiqActMulQuant", {ended}) != nullptr);
    EXPECT_EQ(take_log().size(), 0);
}

// ---- Types and formats ----------------------------------------------------------------------------------------------

/* The combinations that the plugin accepts, found as TensorRT finds them: position by position. */
static int combinations(const PluginPointer &plugin, int32_t inputs, std::vector<std::string> *found)
{
    const int32_t outputs = build(plugin)->getNbOutputs();
    std::vector<DynamicPluginTensorDesc> all(inputs + outputs, described(dims({-1, -1}), BF16));
    int count = 0;
    std::function<void(int32_t, std::string)> descend = [&](int32_t pos, const std::string &text) {
        if (count > 100) // enough to see that too much is accepted
            return;
        if (pos == inputs + outputs) {
            count++;
            if (found != nullptr)
                found->push_back(text);
            return;
        }
        for (int type = 0; type <= 11; type++)
            for (int format = 0; format < 13; format++) {
                all[pos].desc.type = static_cast<DataType>(type);
                all[pos].desc.format = static_cast<TensorFormat>(format);
                if (build(plugin)->supportsFormatCombination(pos, all.data(), inputs, outputs))
                    descend(pos + 1, text + std::to_string(type) + (format == 0 ? " " : "? "));
            }
    };
    descend(0, "");
    return count;
}

static int32_t inputs_of(const Mode &m)
{
    return static_cast<int32_t>(make_tensors(m, dims({1, 64}), BF16, 1, BF16).shapes.size());
}

TRT_CASE(SB2_formats)
{
    for (const Mode &m : modes()) {
        const Note note(m.name);
        PluginPointer plugin = create(m.op, Fields(m.attributes));
        /* f32, f16, bf16, and the two of 16 bits with a weight of f32. */
        EXPECT_EQ(combinations(plugin, inputs_of(m), nullptr), is_norm(m) ? 5 : 3);
        EXPECT(build(plugin)->getFormatCombinationLimit() >= 5);
        const DynamicPluginTensorDesc any = described(dims({-1, -1}), BF16);
        EXPECT(!build(plugin)->supportsFormatCombination(0, &any, inputs_of(m) + 3, build(plugin)->getNbOutputs()));
        EXPECT(!build(plugin)->supportsFormatCombination(-1, &any, inputs_of(m), build(plugin)->getNbOutputs()));
        EXPECT(!build(plugin)->supportsFormatCombination(99, &any, inputs_of(m), build(plugin)->getNbOutputs()));
    }
    std::vector<std::string> found;
    combinations(create("FusedSwiGLUQuant", {}), 2, &found);
    EXPECT(found == std::vector<std::string>({"0 0 6 ", "1 0 6 ", "7 0 6 "})); // x, scale float, codes FP8
    found.clear();
    combinations(create("EpiqRmsNormQuant", {{"format", "nvfp4"}, {"eps", 1e-6f}, {"residual", 1}}), 3, &found);
    EXPECT(found == std::vector<std::string>(
                        {"0 0 0 2 2 0 0 ", "1 0 1 2 2 0 1 ", "1 1 1 2 2 0 1 ", "7 0 7 2 2 0 7 ", "7 7 7 2 2 0 7 "}));
    EXPECT_EQ(take_log().size(), 0); // a question is no error
}

TRT_CASE(types)
{
    const auto types = [](const char *op, const Fields &fields, const std::vector<DataType> &inputs) {
        std::string text;
        for (DataType type : output_types(create(op, fields), inputs))
            text += std::to_string(static_cast<int>(type)) + " ";
        return text;
    };
    const char *mul = "EpiqActMulQuant";
    EXPECT(types("FusedSwiGLUQuant", {}, {BF16, FLOAT}) == "6 ");
    EXPECT(types("FusedSwiGLUQuant", {{"has_dynamic_scale", 1}}, {HALF}) == "6 0 ");
    EXPECT(types(mul, {{"format", "e4m3"}, {"y_out", 1}}, {HALF}) == "6 0 1 ");
    EXPECT(types(mul, {{"format", "e5m2"}}, {HALF}) == "2 0 ");
    EXPECT(types(mul, {{"format", "int8"}}, {FLOAT}) == "2 0 ");
    EXPECT(types(mul, {{"format", "e4m3"}, {"grain", "group"}, {"layout", "packed_ue8m0"}}, {BF16}) == "6 3 ");
    EXPECT(types(mul, {{"format", "mxfp8"}}, {BF16}) == "2 2 ");
    EXPECT(types(mul, {{"format", "nvfp4"}, {"inv_scale", 1.0f}}, {BF16}) == "2 2 ");
    EXPECT(types(mul, {{"format", "e4m3"}}, {DataType::kINT8}).empty());
    EXPECT_LOGGED("FP32, FP16 or BF16");
    EXPECT(types(mul, {{"format", "e4m3"}}, {BF16, BF16}).empty());
    EXPECT_LOGGED("2 inputs, but these attributes make it 1");
}

/* SA8: types that a version lacks are refused with the reason, and everything else works there. */
TRT_CASE(SA8_types_by_version)
{
    const char *mul = "EpiqActMulQuant";
    const Fields fp4 = {{"format", "nvfp4"}, {"typed", 1}, {"inv_scale", 1.0f}};
    host_version = 100300;
    EXPECT(create(mul, fp4) == nullptr);
    EXPECT_LOGGED("before 10.8 has no type FP4");
    EXPECT(create(mul, {{"format", "nvfp4"}}) != nullptr);
    EXPECT(create(mul, {{"format", "e4m3"}}) != nullptr);
    host_version = 100800;
    EXPECT(output_types(create(mul, fp4), {BF16}) == std::vector<DataType>({DataType::kFP4, DataType::kFP8}));
    /* FP4 counts elements, the INT8 carrier bytes. */
    EXPECT(text_of(output_shapes(create(mul, fp4), {dims({3, 128})})[0]) == "[3, 64]");
    EXPECT(text_of(output_shapes(create(mul, {{"format", "nvfp4"}}), {dims({3, 128})})[0]) == "[3, 32]");
    for (const char *format : {"e4m3", "mxfp8", "mxfp4"}) { // (TensorRT takes no E8M0 from a plugin)
        EXPECT(create(mul, {{"format", format}, {"typed", 1}}) == nullptr);
        EXPECT_LOGGED("typed is for nvfp4");
    }
    host_version = 0; // nobody knows: TensorRT itself will say
    EXPECT(create(mul, fp4) != nullptr);
}

// ---- Shapes ---------------------------------------------------------------------------------------------------------

TRT_CASE(shapes)
{
    const char *mul = "EpiqActMulQuant";
    const auto text = [](const char *op, const Fields &fields, const std::vector<Dims> &inputs) {
        std::string all;
        for (const Dims &one : output_shapes(create(op, fields), inputs))
            all += text_of(one);
        return all;
    };
    EXPECT(text("FusedSwiGLUQuant", {}, {dims({2, 3, 64}), dims({1})}) == "[2, 3, 32]");
    EXPECT(text("FusedSwiGLUQuant", {}, {dims({64}), dims({})}) == "[32]");
    EXPECT(text("FusedSwiGLUQuant", {{"has_dynamic_scale", 1}}, {dims({2, 64})}) == "[2, 32][1]");
    EXPECT(text(mul, {{"format", "e4m3"}}, {dims({2, 3, 64})}) == "[2, 3, 32][2, 3, 1]");
    EXPECT(text(mul, {{"format", "e4m3"}, {"grain", "group"}}, {dims({2, 3, 600})}) == "[2, 3, 300][2, 3, 3]");
    EXPECT(text(mul, {{"format", "e4m3"}, {"grain", "group"}, {"layout", "col"}}, {dims({2, 3, 600})}) ==
           "[2, 3, 300][3, 6]");
    EXPECT(text(mul, {{"format", "e4m3"}, {"grain", "group"}, {"layout", "col_aligned"}}, {dims({2, 3, 600})}) ==
           "[2, 3, 300][3, 8]");
    EXPECT(text(mul, {{"format", "e4m3"}, {"grain", "group"}, {"layout", "packed_ue8m0"}}, {dims({2, 3, 1200})}) ==
           "[2, 3, 600][2, 8]");
    EXPECT(text(mul, {{"format", "nvfp4"}, {"layout", "tile128x4"}, {"y_out", 1}}, {dims({5, 27, 160})}) ==
           "[5, 27, 40][256, 8][1][5, 27, 80]");
    EXPECT(text(mul, {{"format", "mxfp4"}, {"layout", "tile8x4"}}, {dims({9, 192})}) == "[9, 48][16, 4]");
    EXPECT(text(mul, {{"format", "nvfp4"}, {"padded_cols", 128}}, {dims({9, 20})}) == "[9, 64][9, 8][1]");
    EXPECT(text(mul, {{"format", "int8"}, {"order", "separate"}}, {dims({9, 20}), dims({9, 20})}) == "[9, 20][9, 1]");
    EXPECT(text("EpiqRmsNormQuant", {{"format", "mxfp8"}, {"eps", 1e-6f}, {"residual", 1}, {"y_out", 1}},
                {dims({9, 64}), dims({64}), dims({9, 64})}) == "[9, 64][9, 2][9, 64][9, 64]");

    /* The bytes are those of epiq_check_*, for every mode. */
    for (const Mode &m : modes())
        for (int64_t rows : {1, 129}) {
            const Note note(m.name);
            const int64_t cols = is_norm(m) || (m.parts & (SEPARATE | UNGATED)) != 0 ? 96 : 192;
            const Tensors t = make_tensors(m, dims({rows, cols}), HALF, 1, HALF);
            PluginPointer plugin = create(m.op, Fields(m.attributes));
            const std::vector<Dims> found = output_shapes(plugin, t.shapes);
            const auto wanted = direct_outputs(m, t);
            const auto of = output_types(plugin, t.types);
            EXPECT_EQ(found.size(), wanted.size());
            for (size_t i = 0; i < found.size(); i++)
                EXPECT_EQ(size_of(of[i], volume(found[i])), wanted[i].size());
        }
    EXPECT_EQ(take_log().size(), 0);
}

/* An odd last dimension is refused as soon as it is known; the seed wrote half of it. */
TRT_CASE(odd_and_ill_fitting_shapes)
{
    PluginPointer plugin = create("FusedSwiGLUQuant", {});
    EXPECT(output_shapes(plugin, {dims({3, 63}), dims({1})}, true).empty());
    EXPECT_LOGGED("odd");
    EXPECT(!output_shapes(plugin, {dims({3, 63}), dims({1})}, false).empty()); // not known yet
    const auto configure = [&](const Dims &network, const Dims &least, const Dims &most) {
        DynamicPluginTensorDesc in[2] = {described(network, BF16), described(dims({1}), FLOAT)};
        in[0].min = least;
        in[0].opt = in[0].max = most;
        const DynamicPluginTensorDesc out = described(dims({-1, -1}), DataType::kFP8);
        return build(plugin)->configurePlugin(in, 2, &out, 1);
    };
    EXPECT_EQ(configure(dims({-1, -1}), dims({1, 62}), dims({3, 64})), 0);
    EXPECT(configure(dims({-1, -1}), dims({1, 62}), dims({3, 63})) != 0);
    EXPECT_LOGGED("odd");
    EXPECT(configure(dims({-1, -1}), dims({1, 61}), dims({3, 64})) != 0);
    EXPECT_LOGGED("odd");
    EXPECT(configure(dims({-1, 63}), dims({}), dims({})) != 0); // no profile
    EXPECT_LOGGED("odd");
    const auto shape_change = [&](const Dims &x, const Dims &codes) {
        const PluginTensorDesc in[2] = {described(x, BF16).desc, described(dims({1}), FLOAT).desc};
        const PluginTensorDesc out = described(codes, DataType::kFP8).desc;
        return runtime(plugin)->onShapeChange(in, 2, &out, 1);
    };
    EXPECT_EQ(shape_change(dims({3, 64}), dims({3, 32})), 0);
    EXPECT(shape_change(dims({3, 63}), dims({3, 31})) != 0);
    EXPECT_LOGGED("odd");
    EXPECT(shape_change(dims({3, 64}), dims({3, 64})) != 0);
    EXPECT_LOGGED("other dimensions");
    EXPECT(output_shapes(plugin, {dims({3, 64}), dims({2})}, true).empty());
    EXPECT_LOGGED("one number");
    EXPECT(output_shapes(plugin, {dims({}), dims({1})}, true).empty());
    EXPECT(!take_log().empty());
    const Fields norm = {{"format", "e4m3"}, {"eps", 1e-6f}, {"residual", 1}};
    PluginPointer n = create("EpiqRmsNormQuant", norm);
    EXPECT(output_shapes(n, {dims({3, 64}), dims({63}), dims({3, 64})}, true).empty());
    EXPECT_LOGGED("weight");
    EXPECT(output_shapes(n, {dims({3, 64}), dims({64, 1}), dims({3, 64})}, true).empty());
    EXPECT_LOGGED("weight");
    EXPECT(output_shapes(n, {dims({3, 64}), dims({64}), dims({4, 64})}, true).empty());
    EXPECT_LOGGED("residual");
    EXPECT(output_shapes(n, {dims({3, 64}), dims({64})}, true).empty());
    EXPECT_LOGGED("2 inputs, but these attributes make it 3");
    EXPECT(output_shapes(create("EpiqActMulQuant", {{"format", "mxfp8"}}), {dims({3, 80})}, true).empty());
    EXPECT_LOGGED("32");
}

TRT_CASE(workspace)
{
    const auto bytes = [](const Mode &m, const Tensors &t) {
        std::vector<DynamicPluginTensorDesc> in;
        for (size_t i = 0; i < t.shapes.size(); i++)
            in.push_back(described(t.shapes[i], t.types[i]));
        in[0].min.d[0] = 1; // the largest shape decides
        PluginPointer plugin = create(m.op, Fields(m.attributes));
        return build(plugin)->getWorkspaceSize(in.data(), static_cast<int32_t>(in.size()), nullptr, 0);
    };
    for (const Mode &m : modes()) {
        const Note note(m.name);
        const bool constants = m.scale == SCALE_VALUE || m.scale == INV_SCALE_VALUE || strstr(m.name, "_ub") != nullptr;
        const bool reduces = m.scale == COMPUTED || strstr(m.name, "dynamic") == m.name + strlen(m.name) - 7;
        const Tensors t = make_tensors(m, dims({400, 192}), BF16, 1, BF16);
        int64_t epiq = 0;
        direct_outputs(m, t, &epiq);
        EXPECT_EQ(bytes(m, t), (constants ? 256 : 0) + epiq);
        EXPECT(reduces || epiq == 0);
    }
    EXPECT_EQ(take_log().size(), 0);
}

TRT_CASE(timing_cache_id)
{
    std::vector<std::string> ids;
    for (const Mode &m : modes()) {
        PluginPointer one = create(m.op, Fields(m.attributes)), two = create(m.op, Fields(m.attributes));
        const std::string id = build(one)->getTimingCacheID();
        EXPECT(id == build(two)->getTimingCacheID());
        EXPECT(id == build(through_an_engine(one))->getTimingCacheID());
        const Run run(one, make_tensors(m, dims({3, 192}), BF16, 1, BF16)); // shapes are no part of it
        EXPECT(run.ready);
        EXPECT(id == build(one)->getTimingCacheID());
        for (const std::string &other : ids)
            EXPECT(id != other);
        if (strcmp(m.name, "fused_tensor") != 0)
            ids.push_back(id);
    }
    EXPECT(std::string(build(create("EpiqActMulQuant", {{"format", "e4m3"}, {"alpha", 0.5f}}))->getTimingCacheID()) ==
           "EpiqActMulQuant format=e4m3 alpha=0.5");
}

TRT_CASE(clones)
{
    const Fields fields = {{"format", "nvfp4"}, {"y_out", 1}};
    PluginPointer plugin = create("EpiqActMulQuant", fields), copy(plugin->clone());
    PluginPointer context(runtime(plugin)->attachToContext(nullptr));
    const std::string id = build(plugin)->getTimingCacheID();
    const std::vector<Attribute> before = Fields(*runtime(plugin)->getFieldsToSerialize()).list;
    plugin.reset();
    for (const PluginPointer *one : {&copy, &context}) {
        EXPECT(id == build(*one)->getTimingCacheID());
        EXPECT_EQ(build(*one)->getNbOutputs(), 4);
        const std::vector<Attribute> after = Fields(*runtime(*one)->getFieldsToSerialize()).list;
        EXPECT_EQ(after.size(), before.size());
        for (size_t i = 0; i < after.size(); i++)
            EXPECT(after[i].name == before[i].name && after[i].data == before[i].data);
    }
}

/* The loggers of 10, of 11 and of TensorRT-RTX; one of an unknown version is left alone. */
TRT_CASE(loggers)
{
    for (int32_t version : {100000, 100300, 101600, 110000, 110400, 10701}) {
        const Note note(std::to_string(version));
        host_version = version;
        EXPECT(create("FusedSwiGLUQuant", {{"nothing", 1}}) == nullptr);
        EXPECT_LOGGED("E FusedSwiGLUQuant (layer layer): there is no field");
    }
    for (int32_t version : {0, 10600, 120000}) {
        const Note note(std::to_string(version));
        host_version = version;
        EXPECT(create("FusedSwiGLUQuant", {{"nothing", 1}}) == nullptr);
        EXPECT_EQ(take_log().size(), 0); // on the standard error stream instead
    }
}
