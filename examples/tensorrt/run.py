#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py: builds engines of ONNX models with the plugin loaded, runs them on the same input, compares and times them.

usage: run.py LIBEPIQ_TRT.SO MODEL.onnx... [--rows N]      (needs the package tensorrt, numpy, and a GPU)

    python make_model.py models && python run.py /usr/local/lib/libepiq_trt.so models/swiglu_{fused,unfused}.onnx

Outputs with equal names are compared byte for byte with those of the first model. `codes` of the fused and the unfused
model may differ where the unfused one rounds sigmoid, silu and the product to 16 bits before it quantizes.
"""

import argparse
import ctypes
import sys

import numpy as np

try:
    import tensorrt as trt
except ImportError:
    sys.exit("the package tensorrt is not installed")

LOGGER = trt.Logger(trt.Logger.WARNING)
ITEM_BYTES = {"FLOAT": 4, "INT32": 4, "HALF": 2, "BF16": 2, "INT64": 8}  # of the others: 1


class Driver:
    """The little of the CUDA driver that is needed, without a further package."""

    def __init__(self):
        self.functions = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *values):
        status = getattr(self.functions, name)(*values)
        if status:
            sys.exit(f"{name}: error {status}")

    def memory(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(size, 1)))
        return pointer

    def handle(self, function):
        handle = ctypes.c_void_p()
        self.call(function, ctypes.byref(handle), 0)
        return handle


def build(path, rows):
    builder = trt.Builder(LOGGER)
    flags = 0
    if int(trt.__version__.split(".")[0]) < 11:  # later networks always are
        flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network = builder.create_network(flags)
    parser = trt.OnnxParser(network, LOGGER)
    if not parser.parse_from_file(path):
        sys.exit("\n".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        shape = (rows, *tuple(tensor.shape)[1:])
        profile.set_shape(tensor.name, (1, *shape[1:]), shape, shape)
    config.add_optimization_profile(profile)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        sys.exit(f"{path}: no engine")
    return trt.Runtime(LOGGER).deserialize_cuda_engine(engine)


def run(driver, engine, rows, inputs, warm=20, times=200):
    """Outputs as bytes by name, and microseconds a run."""
    context, stream = engine.create_execution_context(), driver.handle("cuStreamCreate")
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    is_input = {name: engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT for name in names}
    memory, sizes = {}, {}
    for name in sorted(names, key=lambda one: not is_input[one]):
        if is_input[name]:
            context.set_input_shape(name, (rows, *tuple(engine.get_tensor_shape(name))[1:]))
        count = int(np.prod(tuple(context.get_tensor_shape(name)), dtype=np.int64))
        sizes[name] = count * ITEM_BYTES.get(engine.get_tensor_dtype(name).name, 1)
        memory[name] = driver.memory(sizes[name])
        if is_input[name]:
            if name not in inputs:
                values = np.random.default_rng(len(name)).standard_normal(count).astype(np.float32)
                half = engine.get_tensor_dtype(name).name == "HALF"
                # bf16 has the upper half of the bits of fp32
                inputs[name] = values.astype(np.float16) if half else (values.view(np.uint32) >> 16).astype(np.uint16)
            driver.call("cuMemcpyHtoD_v2", memory[name], ctypes.c_void_p(inputs[name].ctypes.data),
                        ctypes.c_size_t(sizes[name]))
        context.set_tensor_address(name, memory[name].value)
    begin, end = driver.handle("cuEventCreate"), driver.handle("cuEventCreate")
    for index in range(warm + times):
        if index == warm:
            driver.call("cuEventRecord", begin, stream)
        if not context.execute_async_v3(stream.value):
            sys.exit("execute_async_v3 failed")
    driver.call("cuEventRecord", end, stream)
    driver.call("cuCtxSynchronize")
    milliseconds, outputs = ctypes.c_float(), {}
    driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
    for name in names:
        if not is_input[name]:
            outputs[name] = np.empty(sizes[name], np.uint8)
            driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(outputs[name].ctypes.data), memory[name],
                        ctypes.c_size_t(sizes[name]))
    return outputs, 1000 * milliseconds.value / times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plugin")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rows", type=int, default=128)
    options = parser.parse_args()
    if trt.get_plugin_registry().load_library(options.plugin) is None:
        sys.exit(f"{options.plugin} was not loaded")
    driver, inputs, first = Driver(), {}, {}
    for path in options.models:
        outputs, microseconds = run(driver, build(path, options.rows), options.rows, inputs)
        print(f"{path}: {microseconds:.2f} us a run of {options.rows} rows, TensorRT {trt.__version__}")
        for name in outputs.keys() & first.keys():
            differ = int((outputs[name] != first[name]).sum())
            print(f"    {name}: {differ} of {outputs[name].size} bytes differ from the first model's")
        first = first or outputs


if __name__ == "__main__":
    main()
