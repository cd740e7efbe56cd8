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
from ._calls import Quantized

__all__ = ["act_mul", "dequantize", "quantize", "rms_norm"]

_TYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "e4m3": jnp.float8_e4m3fn,
          "e5m2": jnp.float8_e5m2,
          "e8m0": jnp.float8_e8m0fnu, "i32": jnp.int32, "i8": jnp.int8, "u8": jnp.uint8}
_WORDS = {np.dtype(jnp.float32): "f32", np.dtype(jnp.float16): "f16", np.dtype(jnp.bfloat16): "bf16"}
_FLOATS = {"act_mul": ("alpha", "limit", "limit_after", "up_offset"), "rms_norm": ("eps", "weight_bias"),
           "quantize": (),
           "dequantize": ()}


@functools.lru_cache(maxsize=None)
def _module():
    import tvm_ffi

    return tvm_ffi.load_module(str(_library.library_path()))


@functools.lru_cache(maxsize=None)
def _target(op: str) -> str:
    """Registers an operation with XLA once, for every platform that jax has."""
    import jax_tvm_ffi

    name = f"epiq_{op}"
    spec = ["args", "rets", *(f"attrs.{number}" for number in _FLOATS[op]), "attrs.words"]
    jax_tvm_ffi.register_ffi_target(name, getattr(_module(), name), spec, platform="cpu")
    if any(device.platform == "gpu" for device in jax.devices()):
        jax_tvm_ffi.register_ffi_target(name, getattr(_module(), name), spec, platform="gpu", allow_cuda_graph=True)
    return name


def _absent():
    return jnp.zeros((0,), jnp.float32)


def _words(op: str, options: dict) -> tuple[tuple, str]:
    given = tuple((name, wanted) for name, wanted in options.items() if wanted)
    text = " ".join(f"{name}={int(wanted) if isinstance(wanted, (bool, int)) else wanted}" for name, wanted in given
                    if name not in _FLOATS[op])
    return given, text


def _call(op: str, inputs: list, outputs: list, options: dict, aliases: Optional[dict] = None):
    _, words = _words(op, options)
    shapes = [
    jax.ShapeDtypeStruct(
        (0,), jnp.float32) if out is None else jax.ShapeDtypeStruct(
            *out) for out in outputs]
    floats = {name: np.float32(options.get(name) or 0.0) for name in _FLOATS[op]}
    call = jax.ffi.ffi_call(_target(op), shapes, input_output_aliases=aliases, vmap_method="sequential")
    results = call(*[_absent() if array is None else jnp.asarray(array) for array in inputs], **floats,
                   words=words or " ")  # an empty string is refused: it is what a lost one looks like
    return [None if out is None else result for out, result in zip(outputs, results)]


def _quantizer(op: str, x, options: dict, present: tuple, weight=None, scales: tuple = ()):
    """Shapes and types of the outputs: (codes, scale, y, workspace)."""
    given, _ = _words(op, options)
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
        workspace = jnp.zeros((int(answer.workspace_bytes),), jnp.uint8)
    return codes, scale, ((*lead, int(answer.cols)), x.dtype), workspace


def _present(**tensors) -> tuple:
    return tuple(name for name, wanted in tensors.items() if wanted is not None and wanted is not False)


def act_mul(x, up=None, *, scale=None, inv_scale=None, scale_ub=None, y: bool = False, compute_inv_scale: bool = False,
            **options) -> Quantized:
    """epiq.act_mul for JAX; options are those of epiq.act_mul. y=True also returns y."""
    present = _present(
    scale=scale,
    inv_scale=inv_scale,
    scale_ub=scale_ub,
    up=up,
    y_out=y,
     inv_scale_out=compute_inv_scale)
    codes, sf, y_out, workspace = _quantizer("act_mul", x, options, present)
    outputs = [codes, sf, y_out if y else None, ((1,), jnp.float32) if compute_inv_scale else None]
    codes, sf, y_new, gs = _call("act_mul", [x, up, scale, inv_scale, scale_ub, workspace], outputs, options)
    return Quantized(codes, scale if sf is None else sf, inv_scale if gs is None else gs, y_new, None)


def rms_norm(x, weight, eps: float, *, residual=None, scale=None, inv_scale=None, scale_ub=None, y: bool = False,
             compute_inv_scale: bool = False, **options) -> Quantized:
    """epiq.rms_norm for JAX; options are those of epiq.rms_norm. With a residual the new one, x + residual, is
    returned; y=True also returns y."""
    options = dict(options, eps=float(eps))
    present = _present(scale=scale, inv_scale=inv_scale, scale_ub=scale_ub, residual=residual, residual_out=residual,
                       y_out=y,
                       inv_scale_out=compute_inv_scale)
    codes, sf, y_out, workspace = _quantizer("rms_norm", x, options, present, weight)
    outputs = [codes, sf, y_out if y else None, y_out if residual is not None else None,
               ((1,), jnp.float32) if compute_inv_scale else None]
    codes, sf, y_new, new_residual, gs = _call(
        "rms_norm", [x, residual, weight, scale, inv_scale, scale_ub, workspace], outputs, options,
        {1: 3} if residual is not None else None)
    return Quantized(codes, scale if sf is None else sf, inv_scale if gs is None else gs, y_new, new_residual)


def quantize(x, *, scale=None, inv_scale=None, scale_ub=None, compute_inv_scale: bool = False, **options) -> Quantized:
    """epiq.quantize for JAX; options are those of epiq.quantize."""
    present = _present(scale=scale, inv_scale=inv_scale, scale_ub=scale_ub, inv_scale_out=compute_inv_scale)
    codes, sf, _, workspace = _quantizer("quantize", x, options, present)
    outputs = [codes, sf, ((1,), jnp.float32) if compute_inv_scale else None]
    codes, sf, gs = _call("quantize", [x, scale, inv_scale, scale_ub, workspace], outputs, options)
    return Quantized(codes, scale if sf is None else sf, inv_scale if gs is None else gs, None, None)


def dequantize(codes, scale=None, *, inv_scale=None, dtype=jnp.float32, cols: Optional[int] = None, **options):
    """epiq.dequantize for JAX: y of `dtype`."""
    per_byte = 2 if _calls.CODE_TYPES.get(options.get("format")) == "u8" else 1
    cols = codes.shape[-1] * per_byte if cols is None else cols
    (y,) = _call("dequantize", [codes, scale, inv_scale], [((*codes.shape[:-1], cols), dtype)], options)
    return y
