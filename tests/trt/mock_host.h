/* mock_host.h: a program that plays TensorRT for the plugin: loads the library, asks creators and plugins what TensorRT
 * asks them, in its order, and gives them memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRT_MOCK_HOST_H
#define TRT_MOCK_HOST_H

#include "../../plugin/tensorrt/trt_abi.h"

#include <epiq/epiq.h>

#include <memory>
#include <string>
#include <vector>

using namespace nvinfer1;

// ---- Cases and expectations -----------------------------------------------------------------------------------------

struct Case {
    const char *name;
    void (*run)();
    Case *next;
    Case(const char *name, void (*run)());
};
#define TRT_CASE(name)                                                                                                 \
    static void case_##name();                                                                                         \
    static Case entry_##name(#name, case_##name);                                                                      \
    static void case_##name()

void fail(const char *file, int line, const std::string &text);
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail(__FILE__, __LINE__, #condition);                                                                      \
    } while (0)
#define EXPECT_EQ(found, wanted)                                                                                       \
    do {                                                                                                               \
        const long long found_ = static_cast<long long>(found), wanted_ = static_cast<long long>(wanted);              \
        if (found_ != wanted_)                                                                                         \
            fail(__FILE__, __LINE__,                                                                                   \
                 std::string(#found " is ") + std::to_string(found_) + ", not " + std::to_string(wanted_));            \
    } while (0)
/* The last lines of the log contain a text, which also empties it. */
void expect_logged(const char *file, int line, const std::string &text);
#define EXPECT_LOGGED(text) expect_logged(__FILE__, __LINE__, text)
/* A prefix of the messages of the expectations, until it goes out of scope. */
struct Note {
    explicit Note(const std::string &text);
    ~Note();
};

// ---- What the host is -----------------------------------------------------------------------------------------------

extern int32_t host_version;         // of the TensorRT that is played; 0: the process has none
extern bool on_gpu;                  // memory is a GPU's
std::string plugin_path();           // of the library under test
std::vector<std::string> take_log(); // what was logged since the last call

/* Loads the library as the registry does: setLoggerFinder, then getCreators. */
struct Library {
    void *handle;
    std::vector<IPluginCreatorV3One *> creators;
    IPluginCreatorV3One *creator(const char *name, const char *version = "1", const char *space = "") const;
};
Library &library();

// ---- Attributes -----------------------------------------------------------------------------------------------------

struct Attribute {
    Attribute(const char *name, int32_t value);
    Attribute(const char *name, float value);
    Attribute(const char *name, const char *word);
    std::string name;
    PluginFieldType type;
    std::vector<char> data;
    int32_t length;
};

/* A collection with copies of its own, as an engine holds it. */
struct Fields {
    Fields() = default;
    Fields(std::initializer_list<Attribute> attributes);
    explicit Fields(const std::vector<Attribute> &attributes);
    explicit Fields(const PluginFieldCollection &collection);
    const PluginFieldCollection *collection();
    std::vector<Attribute> list;

  private:
    std::vector<PluginField> fields_;
    PluginFieldCollection collection_;
};

struct PluginDeleter {
    void operator()(IPluginV3 *plugin) const
    {
        delete plugin;
    }
};
using PluginPointer = std::unique_ptr<IPluginV3, PluginDeleter>;

PluginPointer create(const char *op, Fields fields, TensorRTPhase phase = TensorRTPhase::kBUILD);
IPluginV3OneCore *core(const PluginPointer &plugin);
IPluginV3OneBuildV2 *build(const PluginPointer &plugin);
IPluginV3OneRuntime *runtime(const PluginPointer &plugin);
PluginPointer through_an_engine(const PluginPointer &plugin); // serialised, created again, attached to a context

// ---- Shapes ---------------------------------------------------------------------------------------------------------

Dims dims(std::initializer_list<int64_t> list);
std::string text_of(const Dims &dims);
int64_t volume(const Dims &dims);

/* getOutputShapes with every dimension an unknown that has the value given, or a constant. Empty if it refuses. */
std::vector<Dims> output_shapes(const PluginPointer &plugin, const std::vector<Dims> &inputs, bool constants = false);

DynamicPluginTensorDesc described(const Dims &shape, DataType type);
std::vector<DataType> output_types(const PluginPointer &plugin, const std::vector<DataType> &inputs); // empty: refused

// ---- Memory ---------------------------------------------------------------------------------------------------------

/* Bytes on the host, or on the GPU under --cuda, with guard bytes around them. */
class Memory
{
  public:
    explicit Memory(size_t bytes, unsigned char fill = 0xA5);
    explicit Memory(const std::vector<unsigned char> &content);
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    void *data() const;
    void write(const std::vector<unsigned char> &content);
    std::vector<unsigned char> read() const; // waits for the GPU, and expects the guards untouched

  private:
    size_t bytes_;
    void *base_;
};

void *gpu_stream(int number); // NULL on the host
void gpu_wait();
bool gpu_begin(); // opens the driver; false with the reason logged
/* Runs `work` under stream capture, then `times` replays of the graph, with `between` before each. */
bool gpu_replay(int times, void (*work)(void *), void (*between)(void *, int), void *data);

unsigned next_random(unsigned *state);
std::vector<unsigned char> random_values(DataType type, int64_t count, unsigned seed);
std::vector<unsigned char> bytes_of(float value);
size_t size_of(DataType type, int64_t count);

#endif
