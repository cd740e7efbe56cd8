/* trt_modes.h: what a plugin can be asked for, each time as attributes and as a direct call of epiq.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRT_MODES_H
#define TRT_MODES_H

#include "mock_host.h"

struct DirectCall {
    epiq_act_mul_args act_mul;
    epiq_rms_norm_args rms_norm;
    epiq_output out;
};

enum Extra { NO_SCALE, SCALE_TENSOR, INV_SCALE_TENSOR, SCALE_VALUE, INV_SCALE_VALUE, COMPUTED };

enum Part { PLAIN = 0, Y = 1, RESIDUAL = 2, SEPARATE = 4, UNGATED = 8 };

struct Mode {
    const char *name;
    const char *op;
    std::vector<Attribute> attributes;
    Extra scale;                   // where the static scale comes from; COMPUTED: nvfp4's second level is written
    unsigned parts;                // of Part
    void (*set)(DirectCall &call); // the words, in the structs of epiq
};
const std::vector<Mode> &modes();
bool is_norm(const Mode &mode);

/* The tensors of a mode for x of the shape given. */
struct Tensors {
    std::vector<Dims> shapes; // inputs, in the plugin's order
    std::vector<DataType> types;
    std::vector<std::vector<unsigned char>> inputs; // their bytes
};
Tensors make_tensors(const Mode &mode, const Dims &x, DataType type, unsigned seed, DataType weight);

/* The bytes of the outputs, in the plugin's order, by a direct call of epiq with the backend `c`. */
std::vector<std::vector<unsigned char>> direct_outputs(const Mode &mode, const Tensors &tensors,
                                                       int64_t *workspace_bytes = nullptr); // of the plugin's backend

/* A plugin configured as TensorRT does it, loaded from an engine, with memory for one shape. */
struct Run {
    Run(const PluginPointer &plugin, const Tensors &tensors, bool in_place = false);
    int32_t enqueue(void *stream = nullptr) const;
    std::vector<std::vector<unsigned char>> outputs() const;

    IPluginV3OneRuntime *plugin;
    std::vector<PluginTensorDesc> in, out;
    std::vector<std::unique_ptr<Memory>> memory; // inputs, outputs
    std::vector<const void *> input_data;
    std::vector<void *> output_data;
    std::unique_ptr<Memory> workspace;
    bool ready; // every question was answered
};

#endif
