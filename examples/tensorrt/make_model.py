#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_model.py: ONNX models whose seam is a plugin of epiq, and the same models without it.

usage: make_model.py FOLDER [--hidden H] [--out N] [--type float16|bfloat16]       (needs the packages onnx and numpy)

    swiglu_fused.onnx    x [rows, 2H] -> FusedSwiGLUQuant -> DequantizeLinear -> MatMul -> y [rows, N]
    swiglu_unfused.onnx  the same out of Slice, Sigmoid, Mul, QuantizeLinear, DequantizeLinear, MatMul
    rms_norm.onnx        x, residual [rows, H] -> EpiqRmsNormQuant -> DequantizeLinear -> MatMul -> y, residual_out
    nvfp4.onnx           x [rows, 2H] -> EpiqActMulQuant -> codes and scales of nvfp4 in int8, tile128x4

The first two also give the codes, so that they can be compared. TensorRT folds DequantizeLinear and MatMul into an FP8
matrix product; for that the scale of DequantizeLinear must be a constant, the reciprocal of the plugin's multiplier.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

OPSET = 21
MULTIPLIER = 8.0  # of the activation; a power of two, so that its reciprocal is exact
WEIGHT_SCALE = 1.0 / 64


def constant(name, kind, shape, values):
    return helper.make_tensor(name, kind, shape, values)


def random_weight(rows, cols, seed):
    """Codes of e4m3 with small exponents: any byte but NaN is a number, these are +-[0.25, 2)."""
    bits = np.random.default_rng(seed).integers(0, 256, rows * cols, dtype=np.int64)
    codes = (bits & 0x80) | (0x28 + (bits & 0x7F) % 24)
    return helper.make_tensor("weight", TensorProto.FLOAT8E4M3FN, (rows, cols), codes.astype(np.uint8).tobytes(),
                              raw=True)


def product(codes, hidden, out, kind):
    """codes -> y: what a consumer with e4m3 weights looks like."""
    nodes = [
        helper.make_node("DequantizeLinear", [codes, "x_scale"], ["a"], name="dequantize_a"),
        helper.make_node("DequantizeLinear", ["weight", "weight_scale"], ["b"], name="dequantize_b"),
        helper.make_node("MatMul", ["a", "b"], ["y"], name="product"),
    ]
    constants = [
        random_weight(hidden, out, seed=1),
        constant("x_scale", kind, (), [1 / MULTIPLIER]),
        constant("weight_scale", kind, (), [WEIGHT_SCALE]),
    ]
    return nodes, constants


def plugin(op, inputs, outputs, **attributes):
    # plugin_namespace for parsers since 10.10, which otherwise take the domain for it.
    return helper.make_node(op, inputs, outputs, name=op, domain="epiq", plugin_version="1", plugin_namespace="",
                            **attributes)


def value(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def save(folder, name, nodes, inputs, outputs, constants):
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("epiq", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, producer_name="epiq")
    onnx.checker.check_model(model)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    print(path)


def swiglu_fused(folder, hidden, out, kind):
    nodes, constants = product("codes", hidden, out, kind)
    constants.append(constant("multiplier", TensorProto.FLOAT, (1,), [MULTIPLIER]))
    nodes.insert(0, plugin("FusedSwiGLUQuant", ["x", "multiplier"], ["codes"], has_dynamic_scale=0))
    save(folder, "swiglu_fused", nodes, [value("x", kind, "rows", 2 * hidden)],
         [value("y", kind, "rows", out), value("codes", TensorProto.FLOAT8E4M3FN, "rows", hidden)], constants)


def swiglu_unfused(folder, hidden, out, kind):
    nodes, constants = product("codes", hidden, out, kind)
    nodes = [
        helper.make_node("Split", ["x"], ["gate", "up"], axis=-1, num_outputs=2),
        helper.make_node("Sigmoid", ["gate"], ["sigmoid"]),
        helper.make_node("Mul", ["gate", "sigmoid"], ["silu"]),
        helper.make_node("Mul", ["silu", "up"], ["activation"]),
        helper.make_node("QuantizeLinear", ["activation", "x_scale", "zero"], ["codes"]),
    ] + nodes
    constants.append(helper.make_tensor("zero", TensorProto.FLOAT8E4M3FN, (), b"\0", raw=True))
    save(folder, "swiglu_unfused", nodes, [value("x", kind, "rows", 2 * hidden)],
         [value("y", kind, "rows", out), value("codes", TensorProto.FLOAT8E4M3FN, "rows", hidden)], constants)


def rms_norm(folder, hidden, out, kind):
    nodes, constants = product("codes", hidden, out, kind)
    constants += [constant("gamma", kind, (hidden,), [0.0] * hidden)]
    nodes.insert(0, plugin("EpiqRmsNormQuant", ["x", "gamma", "residual"], ["codes", "residual_out"], format="e4m3",
                           inv_scale=MULTIPLIER, eps=1e-6, weight_bias=1.0, residual=1))
    save(folder, "rms_norm", nodes, [value("x", kind, "rows", hidden), value("residual", kind, "rows", hidden)],
         [value("y", kind, "rows", out), value("residual_out", kind, "rows", hidden)], constants)


def nvfp4(folder, hidden, kind):
    node = plugin("EpiqActMulQuant", ["x"], ["codes", "scales", "inv_scale_out"], format="nvfp4", layout="tile128x4")
    save(folder, "nvfp4", [node], [value("x", kind, "rows", 2 * hidden)],
         [value("codes", TensorProto.INT8, "rows", hidden // 2), value("scales", TensorProto.INT8, "padded", "groups"),
          value("inv_scale_out", TensorProto.FLOAT, 1)], [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--out", type=int, default=4096)
    parser.add_argument("--type", choices=["float16", "bfloat16"], default="float16")
    options = parser.parse_args()
    kind = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}[options.type]
    options.folder.mkdir(parents=True, exist_ok=True)
    swiglu_fused(options.folder, options.hidden, options.out, kind)
    swiglu_unfused(options.folder, options.hidden, options.out, kind)
    rms_norm(options.folder, options.hidden, options.out, kind)
    nvfp4(options.folder, options.hidden, kind)


if __name__ == "__main__":
    main()
