# SPDX-License-Identifier: Apache-2.0
"""Arrays of any framework as address, shape and strides, without importing a framework that is not in use."""

from __future__ import annotations

import ctypes
import functools
import sys
from ctypes import (POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, c_uint32,
                    c_uint64, c_void_p)

# Element types by one name: the library's words, raw integers, and packed pairs of e2m1.
BITS = {"f32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "e8m0": 8, "e2m1x2": 8, "bool": 8, "u8": 8, "i8": 8,
        "u16": 16, "i16": 16, "u32": 32, "i32": 32, "u64": 64, "i64": 64}
RAW = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"}
NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
         "float8_e8m0fnu": "e8m0", "float4_e2m1fn_x2": "e2m1x2", "bool": "bool", "uint8": "u8", "int8": "i8",
         "uint16": "u16", "int16": "i16", "uint32": "u32", "int32": "i32", "uint64": "u64", "int64": "i64"}


class View:
    """What a call needs to know of an array. `strides` is None for a dense one, else in elements; `device` None for the
    CPU, else the ordinal of a CUDA device. `keep` owns the memory."""

    __slots__ = ("address", "shape", "strides", "dtype", "device", "readonly", "keep")

    def __init__(self, address, shape, strides, dtype, device, readonly, keep):
        self.address, self.shape, self.strides, self.dtype = address, shape, strides, dtype
        self.device, self.readonly, self.keep = device, readonly, keep

    def rows(self, name: str) -> tuple[int, int, int, int]:
        """(rows, columns, bytes of a row, stride of the rows in bytes or 0 for dense): leading dimensions are rows."""
        shape, strides = self.shape, self.strides
        size = BITS[self.dtype] // 8
        cols = shape[-1] if shape else 1
        if strides is None or len(shape) < 2:
            if strides and cols > 1 and strides[-1] != 1:
                raise ValueError(f"{name}: elements are not adjacent (stride {strides[-1]})")
            rows = 1
            for extent in shape[:-1]:
                rows *= extent
            return rows, cols, cols * size, 0
        if cols > 1 and strides[-1] != 1:
            raise ValueError(f"{name}: elements of a row are not adjacent (stride {strides[-1]} elements); "
                             "a contiguous copy would be")
        rows, stride, above = 1, 0, None
        for extent, own in zip(reversed(shape[:-1]), reversed(strides[:-1])):
            if extent == 1:
                continue
            if above is not None and own != above:
                raise ValueError(f"{name}: its leading dimensions are not one sequence of rows")
            if own == 0 and extent > 1:
                raise ValueError(f"{name}: its rows are one and the same (stride 0)")
            stride = own if above is None else stride
            rows, above = rows * extent, own * extent
        row_bytes = cols * size
        stride *= size
        return rows, cols, row_bytes, 0 if rows < 2 or stride == row_bytes else stride


@functools.lru_cache(maxsize=None)
def _package(kind: type) -> str:
    name = kind.__module__.partition(".")[0]
    return "jax" if name == "jaxlib" else name if name in ("numpy", "torch", "cupy", "jax") else ""


def framework(array) -> str:
    """The package that an array comes from: numpy, torch, cupy, jax, or "" for a plain buffer."""
    return _package(type(array))


def view(array, name: str) -> View:
    kind = framework(array)
    if kind == "torch":
        return _of_torch(array, name)
    if kind == "numpy":
        return _of_numpy(array, name)
    if kind == "cupy":
        return _of_cupy(array, name)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array, name)
    try:
        return _of_buffer(array, name)
    except TypeError:
        raise TypeError(f"{name}: {type(array).__name__} has neither DLPack nor the buffer protocol") from None


def _element(found: str, name: str) -> str:
    if found not in NAMES:
        raise TypeError(f"{name}: element type {found} is none that epiq knows")
    return NAMES[found]


_torch_dtypes: dict = {}


def _of_torch(tensor, name: str) -> View:
    dtype = _torch_dtypes.get(tensor.dtype)
    if dtype is None:
        dtype = _torch_dtypes[tensor.dtype] = _element(str(tensor.dtype).partition(".")[2], name)
    ordinal = None
    if tensor.is_cuda:
        ordinal = tensor.get_device()
    elif not tensor.is_cpu:
        raise TypeError(f"{name}: device {tensor.device} is neither cpu nor cuda")
    return View(tensor.data_ptr(), tensor.shape, None if tensor.is_contiguous() else tensor.stride(), dtype, ordinal,
                False,
                tensor)


def _strided(shape, byte_strides, size: int, name: str):
    if byte_strides is None:
        return None
    if any(stride % size for stride in byte_strides):
        raise ValueError(f"{name}: its strides are not whole elements")
    return tuple(stride // size for stride in byte_strides)


_numpy_dtypes: dict = {}


def _of_numpy(array, name: str) -> View:
    dtype = _numpy_dtypes.get(array.dtype)
    if dtype is None:
        if array.dtype.names or not array.dtype.isnative:
            raise TypeError(f"{name}: element type {array.dtype} is none that epiq knows")
        dtype = _numpy_dtypes[array.dtype] = _element(array.dtype.name, name)
    strides = None if array.flags.c_contiguous else _strided(array.shape, array.strides, array.itemsize, name)
    return View(array.ctypes.data, array.shape, strides, dtype, None, not array.flags.writeable, array)


def _of_cupy(array, name: str) -> View:
    dtype = _numpy_dtypes.get(array.dtype)
    if dtype is None:
        dtype = _numpy_dtypes[array.dtype] = _element(array.dtype.name, name)
    strides = None if array.flags.c_contiguous else _strided(array.shape, array.strides, array.itemsize, name)
    return View(array.data.ptr, array.shape, strides, dtype, array.device.id, False, array)


# ---- DLPack ------------------------------------------------------------


class _DlTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _Versioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager_ctx", c_void_p),
                ("deleter", c_void_p), ("flags", c_uint64), ("tensor", _DlTensor)]


_DL_NAMES = {(2, 32, 1): "f32", (2, 16, 1): "f16", (4, 16, 1): "bf16", (10, 8, 1): "e4m3", (12, 8, 1): "e5m2",
             (14, 8, 1): "e8m0", (17, 4, 2): "e2m1x2", (6, 8, 1): "bool"}
_DL_NAMES |= {(code, bits, 1): f"{letter}{bits}" for code, letter in ((0, "i"), (1, "u")) for bits in (8, 16, 32, 64)}

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [ctypes.py_object, c_char_p], c_void_p
_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.argtypes, _capsule_valid.restype = [ctypes.py_object, c_char_p], c_int


def _of_dlpack(array, name: str) -> View:
    device_type, device_id = array.__dlpack_device__()
    on_gpu = device_type in (2, 13)
    if not on_gpu and device_type not in (1, 3):
        raise TypeError(f"{name}: DLPack device type {int(device_type)} is neither CPU nor CUDA")
    ask = {"stream": -1} if on_gpu else {}  # -1: the caller orders the work
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **ask)
    except TypeError:
        capsule = array.__dlpack__(**ask)
    readonly = framework(array) == "jax"
    if _capsule_valid(capsule, b"dltensor_versioned"):
        managed = ctypes.cast(_capsule_pointer(capsule, b"dltensor_versioned"), POINTER(_Versioned)).contents
        tensor, readonly = managed.tensor, readonly or bool(managed.flags & 1)
    else:
        tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), POINTER(_DlTensor)).contents
    dtype = _DL_NAMES.get((tensor.code, tensor.bits, tensor.lanes))
    if dtype is None:
        raise TypeError(f"{name}: DLPack type code {tensor.code} of {tensor.bits} bits is none that epiq knows")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    if strides is not None and strides == _dense(shape):
        strides = None
    return View((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, int(device_id) if on_gpu else None,
                readonly, (array, capsule))


def _dense(shape) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


# ---- Buffer protocol ---------------------------------------------------


class _PyBuffer(Structure):
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
                ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p), ("strides", c_void_p), ("suboffsets",
                                                                                                    c_void_p),
                ("internal", c_void_p)]


_FORMATS = {"f": "f32", "e": "f16", "?": "bool", "B": "u8", "b": "i8", "H": "u16", "h": "i16", "I": "u32", "i": "i32",
            "L": "u64", "l": "i64", "Q": "u64", "q": "i64", "c": "u8"}


def _of_buffer(array, name: str) -> View:
    memory = memoryview(array)
    if memory.format.lstrip("@=<") not in _FORMATS:
        raise ValueError(f"{name}: buffer format {memory.format!r} is none that epiq knows")
    raw = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(raw), 0x11C)  # PyBUF_FULL_RO
    address = raw.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))  # `memory` goes on holding it
    strides = None if memory.c_contiguous else _strided(memory.shape, memory.strides, memory.itemsize, name)
    return View(address, memory.shape, strides, _FORMATS[memory.format.lstrip("@=<")], None, memory.readonly, memory)


# ---- New arrays --------------------------------------------------------

_TORCH_TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
                "e8m0": "float8_e8m0fnu", "i32": "int32", "i8": "int8", "u8": "uint8"}


def empty(like, shape, dtype: str):
    """A new array in the framework and on the device of `like`. NumPy and CuPy hold float8 and e8m0 as uint8."""
    kind = framework(like)
    if kind == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, _TORCH_TYPES[dtype]), device=like.device)
    if kind in ("numpy", "cupy"):
        module = sys.modules[kind]
        if dtype == "bf16":
            return module.empty(shape, dtype=like.dtype)
        plain = {"f32": "float32", "f16": "float16", "i32": "int32", "i8": "int8"}.get(dtype, "uint8")
        return module.empty(shape, dtype=plain)
    raise TypeError("outputs are allocated for NumPy, PyTorch and CuPy arrays; for others give the *_out arguments"
                    + (" (JAX arrays cannot be written: epiq.jax has the same operations)" if kind == "jax" else ""))


def one(like, number: float):
    """A new array of one float32 beside `like`."""
    kind = framework(like)
    if kind == "torch":
        return sys.modules["torch"].tensor([number], dtype=sys.modules["torch"].float32, device=like.device)
    if kind == "cupy":
        return sys.modules["cupy"].asarray([number], dtype="float32")
    return memoryview((ctypes.c_float * 1)(number)).cast("B").cast("f")


def current_stream(array, device: int) -> int:
    """The stream that the framework of an array would use now."""
    kind = framework(array)
    if kind == "torch":
        return sys.modules["torch"].cuda.current_stream(device).cuda_stream
    if kind == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    return 0


def stream_of(stream) -> int:
    """The handle in a stream: an integer, or an object of PyTorch (cuda_stream), CuPy (ptr), or __cuda_stream__."""
    if isinstance(stream, int):
        return stream
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if hasattr(stream, "__cuda_stream__"):
        found = stream.__cuda_stream__
        return int((found() if callable(found) else found)[1])
    raise TypeError(f"stream: {type(stream).__name__} is no integer and no stream")
