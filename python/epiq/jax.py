# SPDX-License-Identifier: Apache-2.0
"""epiq for JAX: act_mul, rms_norm, quantize and dequantize, for use inside and outside jax.jit, on CPU and CUDA.

Needs jax-tvm-ffi (pip install jax-tvm-ffi), which hands XLA's buffers to the tvm-ffi entry points of the library. New
arrays are returned; rms_norm with a residual gives XLA leave to reuse its buffer for the new one (in place under jit
with the residual donated). Scales are arrays of one float32. Codes are float8_e4m3fn, float8_e5m2, int8 or packed
uint8, block scales float8_e4m3fn or float8_e8m0fnu, as in epiq.torch. There is no derivative.
"""

from __future__ import annotations

import functools
from typing import Optional

import jax
import jax.numpy as jnp
import numpy as np

from . import _calls, _library
from . import backend_usable as _usable
from ._calls import Quantized
from ._library import library_path

__all__ = ["act_mul", "dequantize", "quantize", "rms_norm"]

_TYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "e4m3": jnp.float8_e4m3fn,
          "e5m2": jnp.float8_e5m2,
          "e8m0": jnp.float8_e8m0fnu, "i32": jnp.int32, "i8": jnp.int8, "u8": jnp.uint8}
_WORDS = {np.dtype(jnp.float32): "f32", np.dtype(jnp.float16): "f16", np.dtype(jnp.bfloat16): "bf16"}
# The options of an operation in the order of its entry point, floats first: name and kind (of words, or int or float).
_OPTIONS = {op: sorted((_calls.OWN[op] if op == "dequantize" else {**_calls.OWN[op], **_calls.QUANTIZER}).items(),
                       key=lambda option: option[1] is not float) for op in _calls.OWN}
_INTEGERS = {"group": 1, "ue8m0": 2, "padded_cols": 3}  # n of n * 10^12 + value: see src/ffi/tvm_ffi.c


@functools.lru_cache(maxsize=None)
def _module():
    import tvm_ffi

    return tvm_ffi.load_module(str(library_path()))


@functools.lru_cache(maxsize=None)
def _target(op: str) -> str:
    """Registers an operation with XLA once, for every platform that jax has."""
    import jax_tvm_ffi

    name = f"epiq_{op}"
    spec = ["args", "rets", *(f"attrs.{option}" for option, _ in _OPTIONS[op])]
    jax_tvm_ffi.register_ffi_target(name, getattr(_module(), name), spec, platform="cpu")
    gpus = [device for device in jax.local_devices() if device.platform == "gpu"]
    for device in gpus:  # loads the kernels: XLA may capture the first call in a CUDA graph
        _usable("cuda", device.local_hardware_id)
    if gpus:
        jax_tvm_ffi.register_ffi_target(name, getattr(_module(), name), spec, platform="gpu", allow_cuda_graph=True)
    return name


def _absent():
    return jnp.zeros((0,), jnp.float32)


def _given(op: str, options: dict) -> tuple:
    """The options that are set, as (name, value)."""
    known = dict(_OPTIONS[op])
    for name in options:
        if name not in known:
            raise TypeError(f"epiq {op}: there is no option {name}")
    return tuple((name, wanted) for name, wanted in options.items() if wanted)


def _attributes(op: str, options: dict) -> dict:
    """Every option as a number, 0 or the start of its enumeration for the default. No strings: jax-tvm-ffi 0.1.3 frees
    one of more than 7 bytes before the call that reads it."""
    given, numbers = dict(_given(op, options)), {}
    for name, kind in _OPTIONS[op]:
        wanted = given.get(name)
        if kind is float:
            numbers[name] = np.float32(wanted or 0.0)
        elif kind is int:
            count = int(wanted or 0)
            if not 0 <= count < 10**12:
                raise _library.Error(f"epiq {op}: {name}: {wanted!r} is out of range", "value")
            numbers[name] = np.int64(_INTEGERS[name] * 10**12 + count)
        else:
            numbers[name] = np.int64(_library.value(kind, wanted) or _library.start(kind))
    return numbers


def _call(op: str, inputs: list, outputs: list, options: dict, aliases: Optional[dict] = None):
    shapes = [jax.ShapeDtypeStruct(*(((0,), jnp.float32) if out is None else out)) for out in outputs]
    call = jax.ffi.ffi_call(_target(op), shapes, input_output_aliases=aliases, vmap_method="sequential")
    results = call(*[_absent() if array is None else jnp.asarray(array) for array in inputs],
                   **_attributes(op, options))
    return [None if out is None else result for out, result in zip(outputs, results)]


def _quantizer(op: str, x, options: dict, present: tuple, weight=None, scales: tuple = ()):
    """Shapes and types of the outputs: (workspace, codes, scale, y). The workspace is one, so that every call has its
    own: the entry points take it between inputs and outputs."""
    given = _given(op, options)
    dtype = _WORDS.get(np.dtype(x.dtype))
    if dtype is None:
        raise TypeError(f"epiq {op}: x is {x.dtype}; float32, float16 and bfloat16 can be quantized")
    rows = int(np.prod(x.shape[:-1], dtype=np.int64))
    answer = _calls.sizes_of(op, given, dtype, rows, x.shape[-1], present,
                             "" if weight is None else _WORDS.get(np.dtype(weight.dtype), ""))
    lead = x.shape[:-1]
    codes = scale = None
    if options.get("format"):
        codes = (*lead, int(answer.codes_row_bytes)), _TYPES[_calls.CODE_TYPES[options["format"]]]
        if answer.scale_bytes:
            scale = _calls.scale_shape(answer, lead), _TYPES[_library.word(answer.scale_dtype)]
    workspace = None
    if answer.workspace_bytes:
        workspace = (int(answer.workspace_bytes),), jnp.uint8
    return workspace, codes, scale, ((*lead, int(answer.cols)), x.dtype)


def _present(**tensors) -> tuple:
    return tuple(name for name, wanted in tensors.items() if wanted is not None and wanted is not False)


def act_mul(x, up=None, *, scale=None, inv_scale=None, scale_ub=None, y: bool = False, compute_inv_scale: bool = False,
            **options) -> Quantized:
    """epiq.act_mul for JAX; options are those of epiq.act_mul. y=True also returns y."""
    present = _present(scale=scale, inv_scale=inv_scale, scale_ub=scale_ub, up=up, y_out=y,
                       inv_scale_out=compute_inv_scale)
    workspace, codes, sf, y_out = _quantizer("act_mul", x, options, present)
    outputs = [workspace, codes, sf, y_out if y else None, ((1,), jnp.float32) if compute_inv_scale else None]
    _, codes, sf, y_new, gs = _call("act_mul", [x, up, scale, inv_scale, scale_ub], outputs, options)
    return Quantized(codes, scale if sf is None else sf, inv_scale if gs is None else gs, y_new, None)


def rms_norm(x, weight, eps: float, *, residual=None, scale=None, inv_scale=None, scale_ub=None, y: bool = False,
             compute_inv_scale: bool = False, **options) -> Quantized:
    """epiq.rms_norm for JAX; options are those of epiq.rms_norm. With a residual the new one, x + residual, is
    returned; y=True also returns y."""
    options = dict(options, eps=float(eps))
    present = _present(scale=scale, inv_scale=inv_scale, scale_ub=scale_ub, residual=residual, residual_out=residual,
                       y_out=y, inv_scale_out=compute_inv_scale)
    workspace, codes, sf, y_out = _quantizer("rms_norm", x, options, present, weight)
    outputs = [workspace, codes, sf, y_out if y else None, y_out if residual is not None else None,
               ((1,), jnp.float32) if compute_inv_scale else None]
    _, codes, sf, y_new, new_residual, gs = _call(
        "rms_norm", [x, residual, weight, scale, inv_scale, scale_ub], outputs, options,
        {1: 4} if residual is not None else None)
    return Quantized(codes, scale if sf is None else sf, inv_scale if gs is None else gs, y_new, new_residual)


def quantize(x, *, scale=None, inv_scale=None, scale_ub=None, compute_inv_scale: bool = False, **options) -> Quantized:
    """epiq.quantize for JAX; options are those of epiq.quantize."""
    present = _present(scale=scale, inv_scale=inv_scale, scale_ub=scale_ub, inv_scale_out=compute_inv_scale)
    workspace, codes, sf, _ = _quantizer("quantize", x, options, present)
    outputs = [workspace, codes, sf, ((1,), jnp.float32) if compute_inv_scale else None]
    _, codes, sf, gs = _call("quantize", [x, scale, inv_scale, scale_ub], outputs, options)
    return Quantized(codes, scale if sf is None else sf, inv_scale if gs is None else gs, None, None)


def dequantize(codes, scale=None, *, inv_scale=None, dtype=jnp.float32, cols: Optional[int] = None, **options):
    """epiq.dequantize for JAX: y of `dtype`."""
    per_byte = 2 if _calls.CODE_TYPES.get(options.get("format")) == "u8" else 1
    cols = codes.shape[-1] * per_byte if cols is None else cols
    (y,) = _call("dequantize", [codes, scale, inv_scale], [((*codes.shape[:-1], cols), dtype)], options)
    return y
