# SPDX-License-Identifier: Apache-2.0
"""epiq: activation, normalisation and quantization in one pass, the same bytes on every backend.

    act_mul      y = act(gate) * up            -> codes and scales of y; y itself on request
    rms_norm     h = x [+ residual], y = norm  -> the same, and the new residual stream
    quantize     y = x                         -> codes and scales
    dequantize   codes and scales              -> y

Arrays are those of NumPy (with ml_dtypes), PyTorch, CuPy, of anything with DLPack, or plain buffers; all of a call on
one device. CUDA arrays run on the framework's current stream. The last dimension of an array is a row of the
operation, the dimensions before it are the rows. Words, units and errors are those of the C interface
(include/epiq/epiq.h); every byte written is defined in doc/spec.md. `scale` turns codes into values, `inv_scale`
multiplies values before rounding.

epiq.torch registers torch.ops.epiq (traceable by torch.compile), epiq.jax the operations for jax.jit, epiq.compat.vllm
functions with the signatures of vLLM's. Importing epiq imports none of these frameworks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from . import _calls, _library
from ._calls import UNKNOWN, Quantized, set_threads
from ._library import BackendError, Error, words
from ._library import library_path as _found

__all__ = ["BackendError", "Error", "Quantized", "Sizes", "UNKNOWN", "act_mul", "backend_usable", "cmake_dir",
           "dequantize", "include_dir", "info", "library_path", "quantize", "rms_norm", "scale_offset", "set_threads",
           "sizes", "words"]

Array = Any
Scale = Union[Array, float]  # one float32 on the device of x; a number is copied into one, which no graph can re-read
Out = Union[Array, bool, None]  # an array to write, True for a new one, None for none

_version = _library.lib.epiq_version()
__version__ = f"{_version // 10000}.{_version // 100 % 100}.{_version % 100}"


def _options(**given) -> tuple:
    return tuple((name, wanted) for name, wanted in given.items() if wanted)


def act_mul(x: Array, up: Optional[Array] = None, *, format: Optional[str] = None, grain: Optional[str] = None,
            group: int = 0, layout: Optional[str] = None, scale: Optional[Scale] = None,
            inv_scale: Optional[Scale] = None, scale_ub: Optional[Scale] = None, act: Optional[str] = None,
            order: Optional[str] = None,
            chain: Optional[str] = None, act_round: Optional[str] = None, alpha: float = 0.0, limit: float = 0.0,
            limit_after: float = 0.0, up_offset: float = 0.0, ue8m0: bool = False, mx_round: Optional[str] = None,
            nvfp4: Optional[str] = None, nan: Optional[str] = None, pad_rows: Optional[str] = None,
            padded_cols: int = 0,
            codes_out: Optional[Array] = None, scale_out: Optional[Array] = None, inv_scale_out: Out = None,
            y_out: Out = None, backend: Optional[str] = None, stream: Any = None,
            workspace: Optional[Array] = None) -> Quantized:
    """y = act(gate) * up, and its codes.

    x: [..., 2H] holding gate and up as `order` says (gate_up, up_gate, interleaved), or [..., H] for order `separate`
    (with `up` [..., H]) and `ungated`; f32, f16 or bf16. Codes [..., H], or [..., H / 2] bytes for mxfp4 and nvfp4.
    format, grain, group, layout, scale, inv_scale, inv_scale_out, scale_ub: the quantizer (doc/spec.md 4 and 5);
    without a format only y is written. act, alpha, limit, limit_after, up_offset: doc/spec.md 2. chain, act_round:
    whose rounding points. y_out=True also returns y. None and 0 mean the default of epiq.h.
    Raises Error (a ValueError) with the words of epiq_explain_act_mul if the call is refused, TypeError for an array
    of a type that has no meaning here, BackendError if this machine cannot run it. Nothing is written then.
    """
    options = _options(format=format, grain=grain, group=group, layout=layout, act=act, order=order, chain=chain,
                       act_round=act_round, alpha=alpha, limit=limit, limit_after=limit_after, up_offset=up_offset,
                       ue8m0=ue8m0, mx_round=mx_round, nvfp4=nvfp4, nan=nan, pad_rows=pad_rows, padded_cols=padded_cols)
    return _calls.forward("act_mul", options, x, up=up, scale=scale, inv_scale=inv_scale, scale_ub=scale_ub,
                          codes_out=codes_out, scale_out=scale_out, inv_scale_out=inv_scale_out, y_out=y_out,
                          backend=backend, stream=stream, work=workspace)


def rms_norm(x: Array, weight: Array, eps: float, *, residual: Optional[Array] = None, residual_out: Out = None,
             weight_bias: float = 0.0, format: Optional[str] = None, grain: Optional[str] = None, group: int = 0,
             layout: Optional[str] = None, scale: Optional[Scale] = None, inv_scale: Optional[Scale] = None,
             scale_ub: Optional[Scale] = None, chain: Optional[str] = None, sum_round: Optional[str] = None,
             norm_round: Optional[str] = None, ue8m0: bool = False, mx_round: Optional[str] = None,
             nvfp4: Optional[str] = None, nan: Optional[str] = None, pad_rows: Optional[str] = None,
             padded_cols: int = 0,
             codes_out: Optional[Array] = None, scale_out: Optional[Array] = None, inv_scale_out: Out = None,
             y_out: Out = None, backend: Optional[str] = None, stream: Any = None,
             workspace: Optional[Array] = None) -> Quantized:
    """h = x [+ residual], y = h / sqrt(mean(h^2) + eps) * (weight_bias + weight), and its codes.

    x, residual: [..., H]; weight: [H], of the type of x or f32, dense. weight_bias 1 is Gemma's norm. residual_out
    receives h rounded to the type of x: True for a new array, or an array, which may be `residual` itself (in place).
    y_out may be x. chain, sum_round, norm_round: whose rounding points (doc/spec.md 3). The quantizer, errors and
    defaults are as in act_mul.
    """
    options = (("eps", float(eps)),) + _options(
        weight_bias=weight_bias, format=format, grain=grain, group=group, layout=layout, chain=chain,
        sum_round=sum_round,
        norm_round=norm_round, ue8m0=ue8m0, mx_round=mx_round, nvfp4=nvfp4, nan=nan, pad_rows=pad_rows,
        padded_cols=padded_cols)
    return _calls.forward("rms_norm", options, x, residual=residual, weight=weight, scale=scale, inv_scale=inv_scale,
                          scale_ub=scale_ub, codes_out=codes_out, scale_out=scale_out, inv_scale_out=inv_scale_out,
                          y_out=y_out, residual_out=residual_out, backend=backend, stream=stream, work=workspace)


def quantize(x: Array, *, format: str, grain: Optional[str] = None, group: int = 0, layout: Optional[str] = None,
             scale: Optional[Scale] = None, inv_scale: Optional[Scale] = None, scale_ub: Optional[Scale] = None,
             ue8m0: bool = False, mx_round: Optional[str] = None, nvfp4: Optional[str] = None,
             nan: Optional[str] = None,
             pad_rows: Optional[str] = None, padded_cols: int = 0, codes_out: Optional[Array] = None,
             scale_out: Optional[Array] = None, inv_scale_out: Out = None, backend: Optional[str] = None,
             stream: Any = None, workspace: Optional[Array] = None) -> Quantized:
    """Codes and scales of x [..., H] (f32, f16, bf16): doc/spec.md 4.

    Formats and grains: e4m3, e5m2, int8 per tensor (static: scale or inv_scale; e4m3 and e5m2 also dynamic: grain
    tensor without them) or token; e4m3, e5m2 per group of 16, 32, 64 or 128; mxfp8, mxfp4 per 32; nvfp4 per 16 with
    inv_scale = 448 * 6 / amax given, or computed with inv_scale_out=True. Errors and defaults are as in act_mul.
    """
    options = _options(format=format, grain=grain, group=group, layout=layout, ue8m0=ue8m0, mx_round=mx_round,
                       nvfp4=nvfp4,
                       nan=nan, pad_rows=pad_rows, padded_cols=padded_cols)
    return _calls.forward("quantize", options, x, scale=scale, inv_scale=inv_scale, scale_ub=scale_ub,
                          codes_out=codes_out,
                          scale_out=scale_out, inv_scale_out=inv_scale_out, backend=backend, stream=stream,
                          work=workspace)


def dequantize(codes: Array, scale: Optional[Scale] = None, *, format: str, grain: Optional[str] = None, group: int = 0,
               layout: Optional[str] = None, inv_scale: Optional[Scale] = None, dtype: str = "f32",
               cols: Optional[int] = None, padded_cols: int = 0, y_out: Optional[Array] = None,
               backend: Optional[str] = None, stream: Any = None) -> Array:
    """y [..., cols] as `dtype` (f32, f16, bf16) from codes and the scales that the writing call stored (doc/spec.md
    4.11).

    grain is required for e4m3, e5m2 and int8. scale is one float32 for grain tensor (or inv_scale instead), else the
    stored array; nvfp4 needs inv_scale too. cols and padded_cols are those of the call that wrote; without them every
    column is read. Errors are as in act_mul.
    """
    options = _options(format=format, grain=grain, group=group, layout=layout, padded_cols=padded_cols)
    return _calls.backward(options, codes, scale, inv_scale, cols, dtype, y_out, backend, stream)


@dataclass(frozen=True)
class Sizes:
    """Answer of `sizes`: the resolved choices, elements and bytes; UNKNOWN (-1) where a dimension is unknown."""

    grain: Optional[str]
    group: int
    layout: Optional[str]
    scale_dtype: Optional[str]
    rows: int
    cols: int
    groups: int
    codes_row_bytes: int
    codes_bytes: int
    scale_shape: tuple
    scale_stride: int
    scale_bytes: int
    y_bytes: int
    residual_bytes: int
    workspace_bytes: int


def _answer(op: str, rows: int, cols: int, dtype: str, present: tuple, weight_dtype: str, options: dict):
    known = {**_calls.QUANTIZER, **_calls.OWN.get(op, {})} if op != "dequantize" else _calls.OWN[op]
    if op not in _library.ARGS:
        raise Error(f"op: {op!r} is none of {', '.join(_library.ARGS)}", "value")
    for name in options:
        if name not in known:
            raise TypeError(f"sizes: {op} has no option {name}")
    return _calls.sizes_of(op, _options(**options), dtype, rows, cols, tuple(present), weight_dtype)


def sizes(op: str, rows: int, cols: int, dtype: str = "bf16", *, present: tuple = (), weight_dtype: str = "",
          **options) -> Sizes:
    """Bytes and shapes of a call before it is made, the same on every machine (epiq_check_*).

    op: act_mul, rms_norm, quantize, dequantize. rows, cols: of x (of y for dequantize), elements; UNKNOWN if not known.
    present: which of scale, inv_scale, inv_scale_out, scale_ub, y_out, residual, residual_out, up will be given.
    options: those of the operation. Raises Error where the call would be refused.
    """
    found = _answer(op, rows, cols, dtype, present, weight_dtype, options)
    fields = {name: getattr(found, name) for name in Sizes.__dataclass_fields__}
    for name in ("grain", "layout", "scale_dtype"):
        fields[name] = _library.word(fields[name])
    fields["scale_shape"] = tuple(found.scale_shape)
    return Sizes(**fields)


def scale_offset(op: str, rows: int, cols: int, row: int, group: int, dtype: str = "bf16", *, present: tuple = (),
                 weight_dtype: str = "", **options) -> int:
    """Byte offset of the scale of (row, group) in the array of scales; -1 if there is none (epiq_scale_offset)."""
    found = _answer(op, rows, cols, dtype, present, weight_dtype, options)
    return _library.lib.epiq_scale_offset(_library.ctypes.byref(found), row, group)


def backend_usable(backend: Optional[str] = None, device: Optional[int] = None) -> tuple[bool, str]:
    """Whether a backend (c, avx2, avx512, neon, cuda; None: the CPU backend that a call would get) runs here, and what
    it is, or why not. device: ordinal of a GPU. The first call for a GPU loads its kernels: make it before
    capturing."""
    text = _library.ctypes.create_string_buffer(512)
    number = 0 if device is None else _library.FIRST_DEVICE + device
    status = _library.lib.epiq_backend_usable(_library.value("backend", backend), number, text, len(text))
    return status == 0, text.value.decode()


def info() -> dict:
    """The library in use: version, revision of doc/spec.md, build, path, and each backend with whether it runs."""
    backends = {}
    for name in words("backend"):
        usable, text = backend_usable(name)
        backends[name] = {"usable": usable, "text": text}
    return {"version": __version__, "spec_revision": _library.lib.epiq_spec_revision(),
            "build": _library.lib.epiq_build_info().decode(), "library": str(library_path()), "backends": backends}


def library_path() -> Path:
    """The shared library in use, for dlopen, ctypes or tvm_ffi.load_module."""
    return _found()


def include_dir() -> Path:
    """The folder to give to a C compiler with -I."""
    return Path(__file__).resolve().parent / "include"


def cmake_dir() -> Path:
    """The folder for CMAKE_PREFIX_PATH, so that find_package(epiq) finds this package."""
    return Path(__file__).resolve().parent
