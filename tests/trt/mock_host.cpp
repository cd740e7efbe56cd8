/* mock_host.cpp: see mock_host.h. SPDX-License-Identifier: Apache-2.0
 *
 * usage: trt_mock_host [--cuda] LIBRARY [CASE...]      no case: all of them
 *        trt_mock_host --list
 *
 * The library is libepiq_trt_host.so, or, under --cuda, libepiq_trt.so on the first GPU. */
#include "mock_host.h"

#include "expressions.h"

#include <dlfcn.h>
#include <mutex>
#include <stdio.h>
#include <string.h>

// ---- Cases ----------------------------------------------------------------------------------------------------------

static Case *first_case;
static std::string notes;
static int failures;
static std::mutex failing;

Case::Case(const char *case_name, void (*case_run)()) : name(case_name), run(case_run), next(first_case)
{
    first_case = this;
}

void fail(const char *file, int line, const std::string &text)
{
    const std::lock_guard<std::mutex> lock(failing);
    const char *base = strrchr(file, '/');
    printf("%s:%d: %s%s\n", base != nullptr ? base + 1 : file, line, notes.c_str(), text.c_str());
    failures++;
}

Note::Note(const std::string &text)
{
    notes += text + ": ";
}

Note::~Note()
{
    notes.resize(notes.size() - 2);
    const size_t end = notes.rfind(": ");
    notes.resize(end == std::string::npos ? 0 : end + 2);
}

// ---- TensorRT's logger, in its two forms, and its version -----------------------------------------------------------

int32_t host_version = 100300;
bool on_gpu;
static std::string path;
static std::vector<std::string> log_lines;
static std::mutex logging;

static void log_line(int32_t severity, const char *message)
{
    const std::lock_guard<std::mutex> lock(logging);
    log_lines.push_back((severity == 1 ? "E " : "W ") + std::string(message));
}

std::vector<std::string> take_log()
{
    const std::lock_guard<std::mutex> lock(logging);
    std::vector<std::string> lines;
    lines.swap(log_lines);
    return lines;
}

void expect_logged(const char *file, int line, const std::string &text)
{
    std::string all;
    for (const std::string &one : take_log())
        all += one + "\n";
    if (all.find(text) == std::string::npos)
        fail(file, line, "\"" + text + "\" is not in the log: " + all);
}

struct MockLogger10 {
    virtual void log(int32_t severity, const char *message) noexcept
    {
        log_line(severity, message);
    }
    virtual ~MockLogger10() = default;
};

struct MockFinder10 {
    virtual MockLogger10 *findLogger()
    {
        static MockLogger10 logger;
        return &logger;
    }
    virtual ~MockFinder10() = default;
};

struct MockLogger11 : IVersionedInterface {
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"ILogger", 1, 0};
    }
    virtual void log(int32_t severity, const char *message) noexcept
    {
        log_line(severity, message);
    }
};

struct MockFinder11 : IVersionedInterface {
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"ILoggerFinder", 1, 0};
    }
    virtual MockLogger11 *findLogger()
    {
        static MockLogger11 logger;
        return &logger;
    }
};

extern "C" __attribute__((visibility("default"))) int32_t getInferLibVersion()
{
    return host_version;
}

std::string plugin_path()
{
    return path;
}

Library &library()
{
    static MockFinder10 finder10;
    static MockFinder11 finder11;
    static Library loaded;
    if (loaded.handle == nullptr) {
        loaded.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (loaded.handle == nullptr) {
            printf("%s\n", dlerror());
            exit(1);
        }
        auto list =
            reinterpret_cast<IPluginCreatorInterface *const *(*)(int32_t &)>(dlsym(loaded.handle, "getCreators"));
        int32_t count = 0;
        IPluginCreatorInterface *const *creators = list(count);
        for (int32_t i = 0; i < count; i++) {
            if (strcmp(creators[i]->getInterfaceInfo().kind, "PLUGIN CREATOR_V3ONE") != 0)
                fail(__FILE__, __LINE__, "a creator of another kind");
            loaded.creators.push_back(static_cast<IPluginCreatorV3One *>(creators[i]));
        }
    }
    auto set = reinterpret_cast<void (*)(void *)>(dlsym(loaded.handle, "setLoggerFinder"));
    const bool rtx = host_version > 0 && host_version < 100000; // counts from 1, in the form of 11
    set(host_version >= 110000 || rtx ? static_cast<void *>(&finder11) : static_cast<void *>(&finder10));
    return loaded;
}

IPluginCreatorV3One *Library::creator(const char *name, const char *version, const char *space) const
{
    for (IPluginCreatorV3One *one : creators)
        if (strcmp(one->getPluginName(), name) == 0 && strcmp(one->getPluginVersion(), version) == 0 &&
            strcmp(one->getPluginNamespace(), space) == 0)
            return one;
    return nullptr;
}

// ---- Attributes -----------------------------------------------------------------------------------------------------

template <class T> static std::vector<char> raw(T value)
{
    std::vector<char> data(sizeof value);
    memcpy(data.data(), &value, sizeof value);
    return data;
}

Attribute::Attribute(const char *n, int32_t value) : name(n), type(PluginFieldType::kINT32), data(raw(value)), length(1)
{
}

Attribute::Attribute(const char *n, float value) : name(n), type(PluginFieldType::kFLOAT32), data(raw(value)), length(1)
{
}

Attribute::Attribute(const char *n, const char *word)
    : name(n), type(PluginFieldType::kCHAR), data(word, word + strlen(word)), length(static_cast<int32_t>(strlen(word)))
{
}

Fields::Fields(std::initializer_list<Attribute> attributes) : list(attributes)
{
}

Fields::Fields(const std::vector<Attribute> &attributes) : list(attributes)
{
}

Fields::Fields(const PluginFieldCollection &from)
{
    for (int32_t i = 0; i < from.nbFields; i++) {
        const PluginField &field = from.fields[i];
        Attribute copy(field.name, 0);
        const size_t bytes = field.length * (field.type == PluginFieldType::kCHAR ? 1 : 4);
        copy.type = field.type;
        copy.length = field.length;
        copy.data.assign(static_cast<const char *>(field.data), static_cast<const char *>(field.data) + bytes);
        list.push_back(copy);
    }
}

const PluginFieldCollection *Fields::collection()
{
    fields_.clear();
    for (const Attribute &one : list)
        fields_.push_back({one.name.c_str(), one.data.empty() ? nullptr : one.data.data(), one.type, one.length});
    collection_ = {static_cast<int32_t>(fields_.size()), fields_.data()};
    return &collection_;
}

PluginPointer create(const char *op, Fields fields, TensorRTPhase phase)
{
    IPluginCreatorV3One *creator = library().creator(op);
    if (creator == nullptr) {
        fail(__FILE__, __LINE__, std::string("there is no ") + op);
        return nullptr;
    }
    return PluginPointer(creator->createPlugin("layer", fields.collection(), phase));
}

IPluginV3OneCore *core(const PluginPointer &plugin)
{
    return static_cast<IPluginV3OneCore *>(plugin->getCapabilityInterface(PluginCapabilityType::kCORE));
}

IPluginV3OneBuildV2 *build(const PluginPointer &plugin)
{
    return static_cast<IPluginV3OneBuildV2 *>(plugin->getCapabilityInterface(PluginCapabilityType::kBUILD));
}

IPluginV3OneRuntime *runtime(const PluginPointer &plugin)
{
    return static_cast<IPluginV3OneRuntime *>(plugin->getCapabilityInterface(PluginCapabilityType::kRUNTIME));
}

PluginPointer through_an_engine(const PluginPointer &plugin)
{
    const std::string name = core(plugin)->getPluginName();
    Fields fields(*runtime(plugin)->getFieldsToSerialize());
    PluginPointer loaded = create(name.c_str(), fields, TensorRTPhase::kRUNTIME);
    if (loaded == nullptr)
        return loaded;
    return PluginPointer(runtime(loaded)->attachToContext(nullptr));
}

// ---- Shapes ---------------------------------------------------------------------------------------------------------

Dims dims(std::initializer_list<int64_t> list)
{
    Dims d = {};
    for (int64_t one : list)
        d.d[d.nbDims++] = one;
    return d;
}

std::string text_of(const Dims &d)
{
    std::string text = "[";
    for (int32_t i = 0; i < d.nbDims; i++)
        text += (i > 0 ? ", " : "") + std::to_string(d.d[i]);
    return text + "]";
}

int64_t volume(const Dims &d)
{
    int64_t product = 1;
    for (int32_t i = 0; i < d.nbDims; i++)
        product *= d.d[i];
    return product;
}

static void complain(const char *text)
{
    fail(__FILE__, __LINE__, text);
}

std::vector<Dims> output_shapes(const PluginPointer &plugin, const std::vector<Dims> &inputs, bool constants)
{
    Builder builder(complain);
    std::vector<DimsExprs> in, out(build(plugin)->getNbOutputs());
    for (const Dims &one : inputs) {
        DimsExprs expressions = {};
        expressions.nbDims = one.nbDims;
        for (int32_t d = 0; d < one.nbDims; d++)
            expressions.d[d] = builder.make(one.d[d], constants);
        in.push_back(expressions);
    }
    if (build(plugin)->getOutputShapes(in.data(), static_cast<int32_t>(in.size()), nullptr, 0, out.data(),
                                       static_cast<int32_t>(out.size()), builder) != 0)
        return {};
    std::vector<Dims> shapes;
    for (const DimsExprs &one : out) {
        Dims d = {};
        d.nbDims = one.nbDims;
        for (int32_t i = 0; i < one.nbDims; i++)
            d.d[i] = static_cast<const Expression *>(one.d[i])->value;
        shapes.push_back(d);
    }
    return shapes;
}

DynamicPluginTensorDesc described(const Dims &shape, DataType type)
{
    DynamicPluginTensorDesc one = {};
    one.desc.dims = one.min = one.opt = one.max = shape;
    one.desc.type = type;
    one.desc.format = TensorFormat::kLINEAR;
    one.desc.scale = 1;
    return one;
}

std::vector<DataType> output_types(const PluginPointer &plugin, const std::vector<DataType> &inputs)
{
    std::vector<DataType> types(build(plugin)->getNbOutputs(), DataType::kBOOL);
    if (build(plugin)->getOutputDataTypes(types.data(), static_cast<int32_t>(types.size()), inputs.data(),
                                          static_cast<int32_t>(inputs.size())) != 0)
        return {};
    return types;
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

constexpr size_t GUARD = 64;
constexpr unsigned char GUARD_BYTE = 0x5A;

/* The CUDA driver, found at run time: the tests need no CUDA to be built. */
namespace driver
{
using Pointer = unsigned long long;
static int (*init)(unsigned);
static int (*device_get)(int *, int);
static int (*retain)(void **, int);
static int (*set_current)(void *);
static int (*allocate)(Pointer *, size_t);
static int (*release)(Pointer);
static int (*to_device)(Pointer, const void *, size_t);
static int (*to_host)(void *, Pointer, size_t);
static int (*synchronize)();
static int (*stream_create)(void **, unsigned);
static int (*begin_capture)(void *, int);
static int (*end_capture)(void *, void **);
static int (*instantiate)(void **, void *, unsigned long long);
static int (*launch)(void *, void *);
} // namespace driver

bool gpu_begin()
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (handle == nullptr) {
        printf("%s\n", dlerror());
        return false;
    }
    const auto find = [&](auto &function, const char *name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
        return function != nullptr;
    };
    bool found = find(driver::init, "cuInit") && find(driver::device_get, "cuDeviceGet") &&
                 find(driver::retain, "cuDevicePrimaryCtxRetain") && find(driver::set_current, "cuCtxSetCurrent") &&
                 find(driver::allocate, "cuMemAlloc_v2") && find(driver::release, "cuMemFree_v2") &&
                 find(driver::to_device, "cuMemcpyHtoD_v2") && find(driver::to_host, "cuMemcpyDtoH_v2") &&
                 find(driver::synchronize, "cuCtxSynchronize") && find(driver::stream_create, "cuStreamCreate") &&
                 find(driver::begin_capture, "cuStreamBeginCapture_v2") &&
                 find(driver::end_capture, "cuStreamEndCapture") &&
                 find(driver::instantiate, "cuGraphInstantiateWithFlags") && find(driver::launch, "cuGraphLaunch");
    void *context = nullptr;
    int device = 0;
    const int status = !found                 ? -1
                       : driver::init(0) != 0 ? -2
                                              : driver::device_get(&device, 0) + driver::retain(&context, device) +
                                                    driver::set_current(context);
    if (status != 0)
        printf("the CUDA driver is not usable (%d)\n", status);
    on_gpu = status == 0;
    return on_gpu;
}

static void expect_cuda(int status, int line)
{
    if (status != 0) {
        fail(__FILE__, line, "the CUDA driver gave error " + std::to_string(status));
        exit(1);
    }
}

Memory::Memory(size_t bytes, unsigned char fill) : Memory(std::vector<unsigned char>(bytes, fill))
{
}

Memory::Memory(const std::vector<unsigned char> &content) : bytes_(content.size()), base_(nullptr)
{
    std::vector<unsigned char> all(bytes_ + 2 * GUARD, GUARD_BYTE);
    if (on_gpu) {
        driver::Pointer pointer = 0;
        expect_cuda(driver::allocate(&pointer, all.size()), __LINE__);
        base_ = reinterpret_cast<void *>(pointer);
        expect_cuda(driver::to_device(pointer, all.data(), all.size()), __LINE__);
        gpu_wait();
    } else {
        base_ = aligned_alloc(GUARD, (all.size() + GUARD - 1) / GUARD * GUARD);
        memcpy(base_, all.data(), all.size());
    }
    write(content);
}

Memory::~Memory()
{
    if (on_gpu)
        driver::release(reinterpret_cast<driver::Pointer>(base_));
    else
        free(base_);
}

void *Memory::data() const
{
    return static_cast<char *>(base_) + GUARD;
}

void Memory::write(const std::vector<unsigned char> &content)
{
    if (content.empty())
        return;
    if (on_gpu) {
        expect_cuda(driver::to_device(reinterpret_cast<driver::Pointer>(data()), content.data(), content.size()),
                    __LINE__);
        gpu_wait(); // from pageable memory: the bytes may arrive after the call, and our streams do not wait
    } else {
        memcpy(data(), content.data(), content.size());
    }
}

std::vector<unsigned char> Memory::read() const
{
    std::vector<unsigned char> all(bytes_ + 2 * GUARD);
    if (on_gpu) {
        gpu_wait();
        expect_cuda(driver::to_host(all.data(), reinterpret_cast<driver::Pointer>(base_), all.size()), __LINE__);
    } else {
        memcpy(all.data(), base_, all.size());
    }
    for (size_t i = 0; i < GUARD; i++)
        if (all[i] != GUARD_BYTE || all[all.size() - 1 - i] != GUARD_BYTE) {
            fail(__FILE__, __LINE__, "bytes outside a buffer were written");
            break;
        }
    return std::vector<unsigned char>(all.begin() + GUARD, all.end() - GUARD);
}

void *gpu_stream(int number)
{
    static void *streams[16];
    if (!on_gpu)
        return nullptr;
    if (streams[number] == nullptr)
        expect_cuda(driver::stream_create(&streams[number], 1), __LINE__); // 1: not in order with the default stream
    return streams[number];
}

void gpu_wait()
{
    if (on_gpu)
        expect_cuda(driver::synchronize(), __LINE__);
}

bool gpu_replay(int times, void (*work)(void *), void (*between)(void *, int), void *data)
{
    void *graph = nullptr, *executable = nullptr;
    gpu_wait();
    if (driver::begin_capture(gpu_stream(0), 2) != 0) // 2: relaxed
        return false;
    work(data);
    if (driver::end_capture(gpu_stream(0), &graph) != 0 || driver::instantiate(&executable, graph, 0) != 0)
        return false;
    for (int i = 0; i < times; i++) {
        between(data, i);
        if (driver::launch(executable, gpu_stream(0)) != 0)
            return false;
        gpu_wait();
    }
    between(data, times);
    return true;
}

unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

std::vector<unsigned char> bytes_of(float value)
{
    std::vector<unsigned char> bytes(sizeof value);
    memcpy(bytes.data(), &value, sizeof value);
    return bytes;
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
        return static_cast<size_t>(count) / 2;
    default:
        return static_cast<size_t>(count);
    }
}

/* Magnitudes from 2^-7 to 2^2. */
std::vector<unsigned char> random_values(DataType type, int64_t count, unsigned seed)
{
    std::vector<unsigned char> bytes;
    for (int64_t i = 0; i < count; i++) {
        const unsigned bits = next_random(&seed), sign = bits & 1, mantissa = next_random(&seed);
        const unsigned exponent = (bits >> 1) % 9;
        unsigned value = 0;
        size_t size = 2;
        if (type == DataType::kFLOAT) {
            value = sign << 31 | (120 + exponent) << 23 | (mantissa & 0x7FFFFF);
            size = 4;
        } else if (type == DataType::kHALF) {
            value = sign << 15 | (8 + exponent) << 10 | (mantissa & 0x3FF);
        } else {
            value = sign << 15 | (120 + exponent) << 7 | (mantissa & 0x7F);
        }
        for (size_t byte = 0; byte < size; byte++)
            bytes.push_back(static_cast<unsigned char>(value >> (8 * byte)));
    }
    return bytes;
}

// ---- The program ----------------------------------------------------------------------------------------------------

int main(int argc, char **argv)
{
    int first = 1;
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (Case *one = first_case; one != nullptr; one = one->next)
            printf("%s\n", one->name);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "--cuda") == 0) {
        first = 2;
        if (!gpu_begin())
            return 77;
    }
    if (argc <= first) {
        printf("usage: trt_mock_host [--cuda] LIBRARY [CASE...]\n");
        return 2;
    }
    path = argv[first];
    int ran = 0;
    for (Case *one = first_case; one != nullptr; one = one->next) {
        bool wanted = argc == first + 1;
        for (int i = first + 1; i < argc; i++)
            wanted = wanted || strcmp(argv[i], one->name) == 0;
        if (!wanted)
            continue;
        const int before = failures;
        host_version = 100300;
        library();
        take_log();
        one->run();
        printf("%s %s\n", failures == before ? "ok    " : "FAILED", one->name);
        ran++;
    }
    if (ran == 0)
        printf("there is no such case\n");
    return failures != 0 || ran == 0;
}
