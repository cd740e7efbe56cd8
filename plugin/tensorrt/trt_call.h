/* trt_call.h: from attributes and tensors to a call of epiq: which inputs and outputs there are, of which types and
 * shapes, and the call itself. No TensorRT object is touched here.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TRT_CALL_H
#define EPIQ_TRT_CALL_H

#include "trt_fields.h"

namespace epiq_trt
{

enum Role { X, UP, WEIGHT, RESIDUAL_IN, SCALE_IN, CODES_OUT, SCALE_OUT, INV_SCALE_OUT, Y, RESIDUAL_OUT, ROLES };

constexpr int32_t MOST_INPUTS = 4, MOST_OUTPUTS = 5;

/* What follows from the attributes alone. */
struct Layout {
    int32_t inputs, outputs;
    Role in[MOST_INPUTS], out[MOST_OUTPUTS]; // in this order
    bool scale_optional;                     // FusedSwiGLUQuant: the last input may be left out
    epiq_sizes sizes;                        // epiq's answer before any dimension is known: grain, group, layout, types
    nvinfer1::DataType possible_type;        // a type of x for which the call exists
    bool workspace;                          // epiq needs some
    int32_t constants;                       // floats that stand in front of epiq's workspace
};

/* False with the reason if the attributes do not make a call. version: of TensorRT, 0 if not known. */
bool settle(const Config &config, int32_t version, Layout *layout, char *why, size_t bytes);

/* Types. The type of an input that is not fixed is the type of x; for WEIGHT, float is as good. */
bool is_input_type(nvinfer1::DataType type); // of x: float, half, bf16
nvinfer1::DataType type_of_output(const Config &config, const Layout &layout, Role role, nvinfer1::DataType x);
bool type_fits_input(Role role, nvinfer1::DataType type, nvinfer1::DataType x);

/* One call of epiq. */
struct Call {
    Op op;
    epiq_act_mul_args act_mul;
    epiq_rms_norm_args rms_norm;
    epiq_output out;
    epiq_exec exec;
};
struct Buffers {
    void *role[ROLES]; // NULL where there is none; inputs are not written
    const float *constants;
};

/* rows and cols of x, or EPIQ_UNKNOWN. buffers NULL: all that are wanted exist, for a check. scale_tensor: SCALE_IN is
 * among the inputs. */
void make_call(const Config &config, const Layout &layout, bool scale_tensor, nvinfer1::DataType x,
               nvinfer1::DataType weight, int64_t rows, int64_t cols, const Buffers *buffers, Call *call);
epiq_status check_call(const Call &call, epiq_sizes *sizes);
epiq_status run_call(const Call &call);
void explain_call(const Call &call, char *text, size_t bytes);

/* Constant number i in front of the workspace; how many bytes they take there. */
float constant_of(const Config &config, int32_t i);
constexpr size_t CONSTANT_BYTES = 256;

/* Rows and columns that epiq sees in a tensor: all dimensions but the last, and the last; EPIQ_UNKNOWN if any is. */
void rows_and_cols(const nvinfer1::Dims &dims, int64_t *rows, int64_t *cols);

/* Whether the dimensions of the inputs fit each other, as far as they are known. */
bool shapes_fit(const Layout &layout, const nvinfer1::Dims *const *inputs, int32_t count, int64_t y_cols, char *why,
                size_t bytes);

/* The dimensions of an output. Numbers is arithmetic on dimensions: known numbers here, expressions in trt_plugin.cpp.
 *     Numbers::Dim constant(int64_t); multiply, floor_div, ceil_div (Dim, Dim)
 * dim has room for MAX_DIMS; the answer is their count, -1 if x has too many for it. */
template <class Numbers>
int32_t output_dims(Numbers &numbers, const Config &config, const Layout &layout, Role role,
                    const typename Numbers::Dim *x, int32_t x_dims, typename Numbers::Dim *dim)
{
    using Dim = typename Numbers::Dim;
    const auto up_to = [&](Dim n, int64_t multiple) {
        const Dim m = numbers.constant(multiple);
        return multiple == 1 ? n : numbers.multiply(numbers.ceil_div(n, m), m);
    };
    const auto rows_of = [&] {
        Dim rows = numbers.constant(1);
        for (int32_t i = 0; i + 1 < x_dims; i++)
            rows = i == 0 ? x[0] : numbers.multiply(rows, x[i]);
        return rows;
    };
    const auto array = [&](Dim lines, Dim line) {
        dim[0] = lines;
        dim[1] = line;
        return 2;
    };
    const auto like_x = [&](Dim last) {
        for (int32_t i = 0; i + 1 < x_dims; i++)
            dim[i] = x[i];
        dim[x_dims - 1] = last;
        return x_dims;
    };
    if (x_dims < 1 || x_dims > nvinfer1::Dims::MAX_DIMS)
        return -1;
    const bool halved = config.op != RMS_NORM_QUANT && config.v[ORDER].i != EPIQ_ORDER_SEPARATE &&
                        config.v[ORDER].i != EPIQ_ORDER_UNGATED;
    const Dim cols = halved ? numbers.floor_div(x[x_dims - 1], numbers.constant(2)) : x[x_dims - 1];
    const Dim width = config.v[PADDED_COLS].i != 0 ? numbers.constant(config.v[PADDED_COLS].i) : cols;
    const bool packed = config.v[FORMAT].i == EPIQ_FORMAT_NVFP4 || config.v[FORMAT].i == EPIQ_FORMAT_MXFP4;
    if (role == Y || role == RESIDUAL_OUT)
        return like_x(cols);
    if (role == CODES_OUT)
        return like_x(packed && config.v[TYPED].i == 0 ? numbers.floor_div(width, numbers.constant(2)) : width);
    if (role == INV_SCALE_OUT || layout.sizes.grain == EPIQ_GRAIN_TENSOR) {
        dim[0] = numbers.constant(1);
        return 1;
    }
    if (layout.sizes.grain == EPIQ_GRAIN_TOKEN)
        return like_x(numbers.constant(1));
    const Dim groups = numbers.ceil_div(width, numbers.constant(layout.sizes.group));
    switch (layout.sizes.layout) {
    case EPIQ_LAYOUT_COL:
        return array(groups, rows_of());
    case EPIQ_LAYOUT_COL_ALIGNED:
        return array(groups, up_to(rows_of(), 4));
    case EPIQ_LAYOUT_PACKED_UE8M0:
        return array(numbers.ceil_div(groups, numbers.constant(4)), up_to(rows_of(), 4));
    case EPIQ_LAYOUT_TILE128X4:
        return array(up_to(rows_of(), 128), up_to(groups, 4));
    case EPIQ_LAYOUT_TILE8X4:
        return array(up_to(rows_of(), 8), up_to(groups, 4));
    default:
        return like_x(groups);
    }
}

/* The same with known dimensions. */
nvinfer1::Dims known_output_dims(const Config &config, const Layout &layout, Role role, const nvinfer1::Dims &x);

} // namespace epiq_trt

#endif
