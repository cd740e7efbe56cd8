/* trt_plugin.h: the plugin without its C++ interface, for the two forms of it: IPluginV3 (trt_plugin.cpp) and, where
 * TensorRT's own headers are there, IPluginV2DynamicExt (trt_plugin_v2.cpp).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TRT_PLUGIN_H
#define EPIQ_TRT_PLUGIN_H

#include "trt_call.h"

namespace epiq_trt
{

/* Methods answer false, or -1, after they have logged why. Those that are const may run in several threads at once. */
class Kernel
{
  public:
    static bool create(Op op, const char *layer, const nvinfer1::PluginFieldCollection *fields,
                       nvinfer1::TensorRTPhase phase, Kernel *kernel);

    const Config &config() const
    {
        return config_;
    }
    const Layout &layout() const
    {
        return layout_;
    }

    /* Takes and checks the number of tensors; FusedSwiGLUQuant learns here whether the scale is one. */
    bool learn(int32_t inputs, int32_t outputs);

    bool counts_fit(int32_t inputs, int32_t outputs) const;
    bool output_types(nvinfer1::DataType *types, const nvinfer1::DataType *inputs, int32_t count) const;
    bool supports(int32_t pos, const nvinfer1::DataType *types, const nvinfer1::TensorFormat *formats, int32_t inputs,
                  int32_t outputs) const;

    /* Whether the dimensions, -1 where not known, make a call; sizes may be NULL. */
    bool shapes_ok(const nvinfer1::Dims *const *inputs, int32_t count, nvinfer1::DataType x, nvinfer1::DataType weight,
                   epiq_sizes *sizes) const;
    size_t workspace(const nvinfer1::Dims &x, nvinfer1::DataType type, int32_t inputs) const;
    int32_t enqueue(const nvinfer1::PluginTensorDesc *in, const nvinfer1::PluginTensorDesc *out,
                    const void *const *inputs, void *const *outputs, void *workspace, void *stream) const;

    /* Index of the first input in a role, -1 if there is none. */
    int32_t input_of(Role role) const;
    bool has_scale_tensor(int32_t inputs) const;

  private:
    bool refuse(const char *format, ...) const __attribute__((format(printf, 2, 3)));
    int32_t seen_inputs() const;

    Config config_;
    Layout layout_;
};

} // namespace epiq_trt

#endif
