/* trt_fields.h: the attributes of the three plugins: their names and types, reading them, and writing them again.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TRT_FIELDS_H
#define EPIQ_TRT_FIELDS_H

#include "trt_abi.h"

#include <epiq/epiq.h>

namespace epiq_trt
{

enum Op { FUSED_SWIGLU_QUANT, ACT_MUL_QUANT, RMS_NORM_QUANT, OPS };

const char *op_name(Op op); // the plugin's name, under version "1" and the empty namespace
constexpr const char *PLUGIN_VERSION = "1";
constexpr const char *PLUGIN_NAMESPACE = "";

/* Every attribute of any plugin; trt_fields.cpp says whose it is. 0 means not given, as everywhere in epiq. */
enum FieldId {
    FORMAT,
    GRAIN,
    GROUP,
    LAYOUT,
    UE8M0,
    MX_ROUND,
    NVFP4,
    NAN_,
    PAD_ROWS,
    PADDED_COLS,
    SCALE,     // the static scale as a number; of FusedSwiGLUQuant the multiplier
    INV_SCALE, // the static multiplier as a number
    SCALE_UB,
    SCALE_INPUT,       // the last input is a static `scale` or `inv_scale`
    HAS_DYNAMIC_SCALE, // FusedSwiGLUQuant: the scale is computed
    TYPED,             // nvfp4 codes and scales as FP4 and FP8 instead of INT8
    Y_OUT,             // y is an output too
    ACT,
    ORDER,
    CHAIN,
    ACT_ROUND,
    ALPHA,
    LIMIT,
    LIMIT_AFTER,
    UP_OFFSET,
    EPS,
    WEIGHT_BIAS,
    RESIDUAL,          // there is a residual input and an output for the sum
    RESIDUAL_IN_PLACE, // and the two are declared to be one buffer
    SUM_ROUND,
    NORM_ROUND,
    SCALE_TENSOR, // FusedSwiGLUQuant, serialised only: 1 no scale input, 2 one; 0 as long as nobody has said
    FIELD_IDS
};

union FieldValue {
    int32_t i; // words as values of epiq's enums
    float f;
};

struct Config {
    Op op;
    FieldValue v[FIELD_IDS];
};

/* The collection that a creator shows: names and types. */
const nvinfer1::PluginFieldCollection *field_names(Op op);

/* Reads a collection; `why` gets the reason of a refusal. build: what a network or an ONNX node gives, any subset of
 * field_names. runtime: exactly what write_fields wrote. Types and single values are checked; what goes together is
 * the business of trt_call.h. */
bool read_fields(Op op, const nvinfer1::PluginFieldCollection *fields, nvinfer1::TensorRTPhase phase, Config *config,
                 char *why, size_t bytes);

/* All attributes, in memory of the object; `config` must outlive the answer. */
struct WrittenFields {
    nvinfer1::PluginFieldCollection collection;
    nvinfer1::PluginField fields[FIELD_IDS + 2];
    int32_t version, count;
};
void write_fields(const Config &config, WrittenFields *written);

/* "name=value name=value", of the attributes that are given. */
size_t describe_fields(const Config &config, char *text, size_t bytes);

} // namespace epiq_trt

#endif
