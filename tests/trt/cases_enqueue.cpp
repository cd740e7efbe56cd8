/* cases_enqueue.cpp: the bytes of enqueue against direct calls of epiq, and what may vary around them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trt_modes.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

constexpr DataType TYPES[] = {DataType::kBF16, DataType::kHALF, DataType::kFLOAT};

static const Mode &mode(const char *name)
{
    for (const Mode &one : modes())
        if (strcmp(one.name, name) == 0)
            return one;
    fail(__FILE__, __LINE__, std::string("no mode ") + name);
    return modes()[0];
}

/* x for a y of [..., 192] (or 96 where columns are added). */
static Dims shape_for(const Mode &m, int64_t a, int64_t b)
{
    const int64_t cols = 192;
    return dims({a, b, is_norm(m) || (m.parts & (SEPARATE | UNGATED)) != 0 ? cols : 2 * cols});
}

static void compare(const std::vector<std::vector<unsigned char>> &found,
                    const std::vector<std::vector<unsigned char>> &wanted)
{
    EXPECT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size() && i < wanted.size(); i++) {
        EXPECT_EQ(found[i].size(), wanted[i].size());
        for (size_t byte = 0; byte < found[i].size() && byte < wanted[i].size(); byte++)
            if (found[i][byte] != wanted[i][byte]) {
                fail(__FILE__, __LINE__,
                     "output " + std::to_string(i) + " byte " + std::to_string(byte) + " is " +
                         std::to_string(found[i][byte]) + ", not " + std::to_string(wanted[i][byte]));
                break;
            }
    }
}

static void run_and_compare(const Mode &m, const Dims &x, DataType type, DataType weight)
{
    const Note note(std::string(m.name) + " " + text_of(x) + " type " + std::to_string(static_cast<int>(type)));
    PluginPointer made = create(m.op, Fields(m.attributes));
    EXPECT(made != nullptr);
    if (made == nullptr)
        return;
    const Tensors t = make_tensors(m, x, type, 1, weight);
    PluginPointer loaded = through_an_engine(made);
    EXPECT(loaded != nullptr);
    if (loaded == nullptr)
        return;
    made.reset(); // what was built does not matter to what was loaded
    const Run run(loaded, t);
    EXPECT(run.ready);
    if (!run.ready)
        return;
    EXPECT_EQ(run.enqueue(gpu_stream(0)), 0);
    compare(run.outputs(), direct_outputs(m, t));
    EXPECT_EQ(take_log().size(), 0);
}

TRT_CASE(enqueue_every_mode)
{
    for (const Mode &m : modes())
        for (DataType type : TYPES)
            run_and_compare(m, shape_for(m, 3, 5), type, type);
}

TRT_CASE(enqueue_ranks)
{
    const Mode &m = mode("fused_dynamic_token");
    for (const Dims &x : {dims({64}), dims({7, 64}), dims({1, 2, 3, 1, 2, 1, 1, 64})})
        run_and_compare(m, x, DataType::kBF16, DataType::kBF16);
}

/* S76: the seed takes half inputs and reads them as bf16. */
TRT_CASE(S76_half_is_read_as_half)
{
    PluginPointer plugin = create("FusedSwiGLUQuant", {});
    Tensors t;
    t.shapes = {dims({1, 16}), dims({1})};
    t.types = {DataType::kHALF, DataType::kFLOAT};
    t.inputs = {{}, bytes_of(1.0f)};
    for (int i = 0; i < 16; i++) { // 1.0
        t.inputs[0].push_back(0x00);
        t.inputs[0].push_back(0x3C);
    }
    const Run run(plugin, t);
    EXPECT(run.ready);
    EXPECT_EQ(run.enqueue(gpu_stream(0)), 0);
    const std::vector<unsigned char> codes = run.outputs()[0];
    for (unsigned char code : codes)
        EXPECT_EQ(code, 0x34); // silu(1) = 0.731 is nearest to 0.75; read as bf16 it would be 0
    for (DataType type : TYPES)
        run_and_compare(mode("fused_tensor"), dims({4, 96}), type, type);
}

/* S77: types beside that of x, widths that do not suit, and padding. */
TRT_CASE(S77_types_and_padding)
{
    const Mode &m = mode("norm_nvfp4_everything");
    run_and_compare(m, dims({5, 80}), DataType::kBF16, DataType::kFLOAT);
    run_and_compare(m, dims({5, 80}), DataType::kHALF, DataType::kHALF);
    PluginPointer plugin = create(m.op, Fields(m.attributes));
    EXPECT(output_types(plugin, {DataType::kBF16, DataType::kBF16, DataType::kFLOAT}).empty()); // residual
    EXPECT_LOGGED("input 2");
    EXPECT(output_types(plugin, {DataType::kBF16, DataType::kHALF, DataType::kBF16}).empty()); // weight
    EXPECT_LOGGED("input 1");
    EXPECT(output_shapes(plugin, {dims({5, 72}), dims({72}), dims({5, 72})}, true).empty()); // not a multiple of 16
    EXPECT_LOGGED("16");
    /* Rows beyond the fifth, up to 128, are written as zeros: the scales of row r are at 16 r in a tile. */
    const Run run(plugin, make_tensors(m, dims({5, 80}), DataType::kBF16, 3, DataType::kBF16));
    EXPECT(run.ready);
    EXPECT_EQ(run.enqueue(gpu_stream(0)), 0);
    const std::vector<unsigned char> scales = run.outputs()[1];
    EXPECT_EQ(scales.size(), 128 * 8);
    EXPECT(scales[0] != 0 && scales[16 * 4] != 0);
    EXPECT_EQ(scales[16 * 5], 0);
    EXPECT_EQ(scales[512 + 16 * 31 + 12], 0);
}

/* SB3: one buffer for the residual and the sum, where the build asks for it; the bytes are the same. */
TRT_CASE(SB3_aliased_residual)
{
    const Mode &m = mode("norm_nvfp4_everything");
    PluginPointer apart = create(m.op, Fields(m.attributes));
    for (int32_t i = -1; i < 6; i++)
        EXPECT_EQ(build(apart)->getAliasedInput(i), -1);
    std::vector<Attribute> attributes = m.attributes;
    attributes.push_back({"residual_in_place", 1});
    PluginPointer aliased = create(m.op, Fields(attributes));
    EXPECT(aliased != nullptr);
    for (int32_t i = -1; i < 6; i++)
        EXPECT_EQ(build(aliased)->getAliasedInput(i), i == 4 ? 2 : -1); // residual_out is the fifth output
    const Tensors t = make_tensors(m, dims({9, 64}), DataType::kBF16, 5, DataType::kBF16);
    const Run one(apart, t), two(aliased, t, true);
    EXPECT(one.ready && two.ready);
    EXPECT(two.input_data[2] == two.output_data[4]);
    EXPECT_EQ(one.enqueue(gpu_stream(0)), 0);
    EXPECT_EQ(two.enqueue(gpu_stream(0)), 0);
    compare(two.outputs(), one.outputs());
    compare(one.outputs(), direct_outputs(m, t));
    EXPECT(one.memory[2]->read() == t.inputs[2]); // apart, the input stays
    EXPECT(create(m.op, {{"format", "e4m3"}, {"eps", 1e-6f}, {"residual_in_place", 1}}) == nullptr);
    EXPECT_LOGGED("residual_in_place without residual");

    const auto kind = [&] { return build(apart)->getInterfaceInfo(); };
    EXPECT(strcmp(kind().kind, "PLUGIN_V3ONE_BUILD") == 0);
    EXPECT_EQ(kind().major, 2);
    host_version = 100200; // knows the first build interface only, which has no aliases
    EXPECT_EQ(kind().major, 1);
}

/* The scale of the seed's plugin: an input, a field, or computed. */
TRT_CASE(has_dynamic_scale)
{
    const Tensors two = make_tensors(mode("fused_tensor"), dims({4, 64}), DataType::kBF16, 1, DataType::kBF16);
    Tensors one = two;
    one.shapes.pop_back();
    one.types.pop_back();
    one.inputs.pop_back();
    PluginPointer fixed = create("FusedSwiGLUQuant", {{"scale", 3.25f}, {"has_dynamic_scale", 0}});
    const Run by_field(fixed, one);
    PluginPointer plain = create("FusedSwiGLUQuant", {});
    const Run by_tensor(plain, two); // holds 3.25
    EXPECT(by_field.ready && by_tensor.ready);
    EXPECT_EQ(by_field.enqueue(gpu_stream(0)), 0);
    EXPECT_EQ(by_tensor.enqueue(gpu_stream(0)), 0);
    compare(by_field.outputs(), by_tensor.outputs());
    EXPECT_EQ(by_field.outputs().size(), 1);

    EXPECT(output_types(fixed, two.types).empty()); // the field would have no effect
    EXPECT_LOGGED("given twice");
    PluginPointer neutral = create("FusedSwiGLUQuant", {{"scale", 1.0f}}); // what the seed's exporters write
    EXPECT(!output_types(neutral, two.types).empty());

    PluginPointer computed = create("FusedSwiGLUQuant", {{"has_dynamic_scale", 1}});
    EXPECT_EQ(build(computed)->getNbOutputs(), 2);
    EXPECT(output_types(computed, two.types).empty());
    EXPECT_LOGGED("the scale is computed");
    const Run dynamic(computed, one);
    EXPECT(dynamic.ready);
    EXPECT_EQ(dynamic.enqueue(gpu_stream(0)), 0);
    float scale = 0;
    const std::vector<std::vector<unsigned char>> written = dynamic.outputs();
    memcpy(&scale, written[1].data(), sizeof scale);
    EXPECT(scale > 0.001f && scale < 1); // turns codes into values
    bool largest = false;
    for (unsigned char code : written[0])
        largest = largest || (code & 0x7F) == 0x7E;
    EXPECT(largest);

    EXPECT(create("FusedSwiGLUQuant", {{"has_dynamic_scale", 1}, {"scale", 2.0f}}) == nullptr);
    EXPECT_LOGGED("no effect");
    EXPECT(create("FusedSwiGLUQuant", {{"grain", "token"}}) == nullptr);
    EXPECT_LOGGED("has_dynamic_scale must be 1");
}

TRT_CASE(zero_batch)
{
    for (const Mode &m : modes()) {
        const Note note(m.name);
        PluginPointer plugin = create(m.op, Fields(m.attributes));
        const Run run(plugin, make_tensors(m, shape_for(m, 0, 5), DataType::kBF16, 1, DataType::kBF16));
        EXPECT(run.ready);
        if (!run.ready)
            continue;
        const std::vector<const void *> inputs(run.input_data.size(), nullptr);
        const std::vector<void *> outputs(run.output_data.size(), nullptr);
        EXPECT_EQ(run.plugin->enqueue(run.in.data(), run.out.data(), inputs.data(), outputs.data(), nullptr, nullptr),
                  0);
    }
}

TRT_CASE(shapes_change_between_calls)
{
    for (const char *name : {"mul_nvfp4_computed", "norm_e4m3_gemma", "fused_dynamic"}) {
        const Mode &m = mode(name);
        PluginPointer plugin = create(m.op, Fields(m.attributes));
        for (int64_t rows : {130, 1, 77, 0, 128}) {
            const Note note(std::string(name) + " " + std::to_string(rows));
            const Tensors t = make_tensors(m, shape_for(m, rows, 1), DataType::kBF16, 1, DataType::kBF16);
            const Run run(plugin, t);
            EXPECT(run.ready);
            EXPECT_EQ(run.enqueue(gpu_stream(0)), 0);
            if (rows > 0)
                compare(run.outputs(), direct_outputs(m, t));
        }
    }
}

/* One plugin, and clones of it, on several threads and streams. */
namespace
{
struct Job {
    const Run *run;
    int number;
    int32_t status;
};
} // namespace

static void *work(void *data)
{
    Job *job = static_cast<Job *>(data);
    for (int i = 0; i < 50 && job->status == 0; i++)
        job->status = job->run->enqueue(on_gpu ? gpu_stream(job->number) : nullptr);
    return nullptr;
}

TRT_CASE(concurrent_enqueues)
{
    constexpr int THREADS = 6;
    for (const char *name : {"mul_nvfp4_computed", "fused_field"}) {
        const Note note(name);
        const Mode &m = mode(name);
        PluginPointer plugin = create(m.op, Fields(m.attributes)), clone(plugin->clone());
        std::vector<std::unique_ptr<Run>> runs;
        std::vector<Tensors> tensors;
        Job jobs[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            tensors.push_back(make_tensors(m, shape_for(m, 10 + i, 2), DataType::kBF16, i, DataType::kBF16));
            runs.push_back(std::make_unique<Run>(i % 2 == 0 ? plugin : clone, tensors.back()));
            EXPECT(runs.back()->ready);
            gpu_stream(i);
            jobs[i] = {runs.back().get(), i, 0};
        }
        if (on_gpu) // the driver's context belongs to this thread
            for (int n = 0; n < 50; n++)
                for (Job &job : jobs)
                    job.status |= job.run->enqueue(gpu_stream(job.number));
        else
            for (int i = 0; i < THREADS; i++)
                pthread_create(&threads[i], nullptr, work, &jobs[i]);
        for (int i = 0; i < THREADS; i++) {
            if (!on_gpu)
                pthread_join(threads[i], nullptr);
            EXPECT_EQ(jobs[i].status, 0);
            compare(runs[i]->outputs(), direct_outputs(m, tensors[i]));
        }
    }
}

/* What enqueue refuses it says, and nothing is written. */
TRT_CASE(SB5_failures_are_returned)
{
    const Mode &m = mode("mul_nvfp4_computed");
    PluginPointer plugin = create(m.op, Fields(m.attributes));
    const Tensors t = make_tensors(m, dims({2, 64}), DataType::kBF16, 1, DataType::kBF16);
    const Run run(plugin, t);
    EXPECT(run.ready);
    const auto enqueue = [&](const std::vector<PluginTensorDesc> &in, const std::vector<void *> &outputs,
                             void *memory) {
        return run.plugin->enqueue(in.data(), run.out.data(), run.input_data.data(), outputs.data(), memory,
                                   static_cast<cudaStream_t>(gpu_stream(0)));
    };
    void *workspace = run.workspace != nullptr ? run.workspace->data() : nullptr;
    if (workspace != nullptr) {
        EXPECT(enqueue(run.in, run.output_data, nullptr) != 0);
        EXPECT_LOGGED("without the workspace");
    }
    std::vector<void *> missing = run.output_data;
    missing[3] = nullptr;
    EXPECT(enqueue(run.in, missing, workspace) != 0);
    EXPECT_LOGGED("output 3 has no memory");
    std::vector<PluginTensorDesc> odd = run.in;
    odd[0].dims.d[1] = 63;
    EXPECT(enqueue(odd, run.output_data, workspace) != 0);
    EXPECT_LOGGED("cols");
    odd[0].dims.d[1] = -1;
    EXPECT(enqueue(odd, run.output_data, workspace) != 0);
    EXPECT_LOGGED("not known");
    odd = run.in;
    odd[0].type = DataType::kINT32;
    EXPECT(enqueue(odd, run.output_data, workspace) != 0);
    EXPECT_LOGGED("type 3");
    std::vector<void *> overlapping = run.output_data;
    overlapping[0] = const_cast<void *>(run.input_data[0]);
    EXPECT(enqueue(run.in, overlapping, workspace) != 0);
    EXPECT_LOGGED("overlap");
    const std::vector<std::vector<unsigned char>> outputs = run.outputs();
    for (const auto &output : outputs)
        for (unsigned char byte : output)
            EXPECT_EQ(byte, 0xA5);
    PluginPointer constant = create("FusedSwiGLUQuant", {{"scale", 2.0f}}); // stands in the workspace
    Tensors one = t;
    const Run field(constant, one);
    EXPECT(field.ready);
    EXPECT(field.plugin->enqueue(field.in.data(), field.out.data(), field.input_data.data(), field.output_data.data(),
                                 nullptr, static_cast<cudaStream_t>(gpu_stream(0))) != 0);
    EXPECT_LOGGED("without the workspace");
    PluginPointer fresh = create("FusedSwiGLUQuant", {});
    EXPECT(runtime(fresh)->enqueue(run.in.data(), run.out.data(), run.input_data.data(), run.output_data.data(),
                                   nullptr, nullptr) != 0);
    EXPECT_LOGGED("before onShapeChange");
}

/* The library that is installed, where there is no GPU: it builds, and says why it does not run. */
TRT_CASE(SB5_without_a_gpu)
{
    if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr || plugin_path().find("_host") != std::string::npos)
        return;
    for (const char *name : {"fused_tensor", "fused_field", "norm_e4m3_gemma"}) {
        const Note note(name);
        const Mode &m = mode(name);
        PluginPointer plugin = create(m.op, Fields(m.attributes));
        const Run run(plugin, make_tensors(m, dims({2, 64}), DataType::kBF16, 1, DataType::kBF16));
        EXPECT(run.ready);
        EXPECT(run.enqueue() != 0);
        EXPECT_LOGGED(strcmp(name, "fused_field") == 0 ? "could not store" : "backend");
        EXPECT_EQ(run.outputs()[0][0], 0xA5);
    }
}

/* A captured graph reads the scale anew at each replay. */
namespace
{
struct Replay {
    const Run *run;
    const Mode *mode;
    Tensors tensors;
};
} // namespace

TRT_CASE(graph_replay)
{
    if (!on_gpu)
        return;
    for (const char *name : {"fused_tensor", "fused_field", "norm_e4m3_gemma", "mul_nvfp4_computed"}) {
        const Note note(name);
        const Mode &m = mode(name);
        PluginPointer plugin = create(m.op, Fields(m.attributes));
        Replay replay = {nullptr, &m, make_tensors(m, shape_for(m, 17, 3), DataType::kBF16, 1, DataType::kBF16)};
        const Run run(plugin, replay.tensors);
        EXPECT(run.ready);
        EXPECT_EQ(run.enqueue(gpu_stream(0)), 0); // the first call loads the kernels
        replay.run = &run;
        EXPECT(gpu_replay(
            3, [](void *data) { EXPECT_EQ(static_cast<Replay *>(data)->run->enqueue(gpu_stream(0)), 0); },
            [](void *data, int round) {
                Replay &r = *static_cast<Replay *>(data);
                if (round > 0)
                    compare(r.run->outputs(), direct_outputs(*r.mode, r.tensors));
                r.tensors.inputs[0] = random_values(r.tensors.types[0], volume(r.tensors.shapes[0]), 90 + round);
                r.run->memory[0]->write(r.tensors.inputs[0]);
            },
            &replay));
    }
}
