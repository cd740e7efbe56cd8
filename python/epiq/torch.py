# SPDX-License-Identifier: Apache-2.0
"""epiq for PyTorch: torch.ops.epiq.*, functions over them, and gemma_add_rms_norm_quant with the signature of vLLM's.

    torch.ops.epiq.act_mul, rms_norm, quantize, dequantize    return new tensors
    torch.ops.epiq.act_mul_out, rms_norm_out, quantize_out, dequantize_out    write tensors that the caller owns: for
                                               CUDA graphs
    torch.ops.epiq.add_rms_norm_out            the same with the residual updated in place

CPU and CUDA by the device of the tensors, on its current stream. Mutation is declared, and fake implementations answer
through epiq_check_*, so the operators go through torch.compile(fullgraph=True). There is no backward. Scales are
tensors of one float32: a captured graph reads them anew at each replay. Element types: torch.float8_e4m3fn (e4m3,
mxfp8, block scales of nvfp4), float8_e5m2, int8, float8_e8m0fnu (block scales of mxfp8 and mxfp4), uint8 with two
columns a byte (nvfp4, mxfp4).
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import library as torch_ops

from . import _calls, _library
from ._arrays import _TORCH_TYPES
from ._calls import UNKNOWN, Quantized

__all__ = ["act_mul", "dequantize", "gemma_add_rms_norm_quant", "quantize", "rms_norm"]

_QUANTIZER = ("str? format=None, str? grain=None, int group=0, str? layout=None, Tensor? scale=None, "
              "Tensor? inv_scale=None, Tensor? scale_ub=None, bool ue8m0=False, str? mx_round=None, str? nvfp4=None, "
              "str? nan=None, str? pad_rows=None, int padded_cols=0")
_ACT = ("str? act=None, str? order=None, str? chain=None, str? act_round=None, float alpha=0.0, float limit=0.0, "
        "float limit_after=0.0, float up_offset=0.0")
_NORM = "float weight_bias=0.0, str? chain=None, str? sum_round=None, str? norm_round=None"
_OUT = ("Tensor(a!)? codes_out=None, Tensor(b!)? scale_out=None, Tensor(c!)? inv_scale_out=None, "
        "Tensor(w!)? workspace=None")
_NEW = "bool new_inv_scale=False"
_Y = "Tensor(d!)? y_out=None"

_SCHEMAS = [
    f"act_mul_out(Tensor x, Tensor? up=None, *, {_QUANTIZER}, {_ACT}, {_OUT}, {_Y}) -> ()",
    f"rms_norm_out(Tensor x, Tensor weight, float eps, *, Tensor? residual=None, {_QUANTIZER}, {_NORM}, {_OUT}, {_Y}, "
    "Tensor(e!)? residual_out=None) -> ()",
    f"add_rms_norm_out(Tensor x, Tensor(e!) residual, Tensor weight, float eps, *, {_QUANTIZER}, {_NORM}, {_OUT}, {_Y})"
    " -> ()",
    f"quantize_out(Tensor x, *, {_QUANTIZER}, {_OUT}) -> ()",
    "dequantize_out(Tensor codes, Tensor? scale=None, *, str format, str? grain=None, int group=0, str? layout=None, "
    "Tensor? inv_scale=None, int padded_cols=0, Tensor(a!) y_out) -> ()",
    f"act_mul(Tensor x, Tensor? up=None, *, {_QUANTIZER}, {_ACT}, {_NEW}, bool new_y=False) -> "
    "(Tensor codes, Tensor scale, Tensor inv_scale, Tensor y)",
    f"rms_norm(Tensor x, Tensor weight, float eps, *, Tensor? residual=None, {_QUANTIZER}, {_NORM}, {_NEW}, "
    "bool new_y=False, bool new_residual=False) -> "
    "(Tensor codes, Tensor scale, Tensor inv_scale, Tensor y, Tensor residual)",
    f"quantize(Tensor x, *, {_QUANTIZER}, {_NEW}) -> (Tensor codes, Tensor scale, Tensor inv_scale)",
    "dequantize(Tensor codes, Tensor? scale=None, *, str format, str? grain=None, int group=0, str? layout=None, "
    "Tensor? inv_scale=None, int padded_cols=0, ScalarType dtype, int cols=-1) -> Tensor",
]

_OPTIONS = {op: frozenset(_calls.OWN[op]) | (frozenset() if op == "dequantize" else frozenset(_calls.QUANTIZER))
            for op in _calls.OWN}
_WORDS = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


def _split(op: str, given: dict) -> tuple[tuple, dict]:
    """Options and tensors."""
    known = _OPTIONS[op]
    options = tuple((name, wanted) for name, wanted in given.items() if name in known and wanted)
    return options, {name: wanted for name, wanted in given.items() if name not in known}


# ---- Shapes, in arithmetic that also works on symbols ------------------


def _up(count, to: int):
    return (count + to - 1) // to * to


def _cols(op: str, x, options: dict):
    half = op == "act_mul" and options.get("order") not in ("separate", "ungated")
    return x.shape[-1] // 2 if half else x.shape[-1]


def _rows(x):
    rows = 1
    for extent in x.shape[:-1]:
        rows = rows * extent
    return rows


def _known(extent) -> int:
    return extent if isinstance(extent, int) else UNKNOWN


def _answer(op: str, options: tuple, x, tensors: dict):
    """epiq_check_* on shapes, of which some may be symbols."""
    weight = tensors.get("weight")
    present = tuple(name for name in _calls.PRESENCE if tensors.get(name)
                    is not None and tensors.get(name) is not False)
    if x.dtype not in _WORDS:
        raise TypeError(f"epiq::{op}: x is {x.dtype}; float32, float16 and bfloat16 can be quantized")
    return _calls.sizes_of(op, options, _WORDS[x.dtype], _known(_rows(x)), _known(x.shape[-1]), present,
                           "" if weight is None else _WORDS.get(weight.dtype, ""))


def _shapes(op: str, options: tuple, x, answer, static: bool):
    """((codes shape, dtype), (scale shape, dtype) or None)."""
    given = dict(options)
    lead, rows = tuple(x.shape[:-1]), _rows(x)
    columns = given.get("padded_cols") or _cols(op, x, given)
    code_type = _calls.CODE_TYPES[given["format"]]
    codes = (*lead, columns // 2 if code_type == "u8" else columns), code_type
    grain, layout = _library.word(answer.grain), _library.word(answer.layout)
    if grain == "tensor":
        return codes, None if static else ((1,), "f32")
    groups = 1 if grain == "token" else (columns + answer.group - 1) // answer.group
    shape = {"row": (*lead, groups), "linear": (*lead, groups), "col": (groups, rows),
             "col_aligned": (groups, _up(rows, 4)), "packed_ue8m0": ((groups + 3) // 4, _up(rows, 4)),
             "tile128x4": (_up(rows, 128), _up(groups, 4)), "tile8x4": (_up(rows, 8), _up(groups, 4))}[layout]
    return codes, (shape, _library.word(answer.scale_dtype))


def _new(x, shape, dtype: str):
    return torch.empty(shape, dtype=getattr(torch, _TORCH_TYPES[dtype]), device=x.device)


def _outputs(op: str, options: tuple, x, tensors: dict, wanted: dict) -> dict:
    """New tensors for a functional operator."""
    present = dict(tensors, inv_scale_out=wanted["new_inv_scale"] or None, y_out=wanted.get("new_y") or None,
                   residual_out=wanted.get("new_residual") or None)
    answer = _answer(op, options, x, present)
    height = _cols(op, x, dict(options))
    outputs = {}
    if "format" in dict(options):
        static = tensors.get("scale") is not None or tensors.get("inv_scale") is not None
        codes, scale = _shapes(op, options, x, answer, static)
        outputs["codes_out"] = _new(x, *codes)
        if scale is not None:
            outputs["scale_out"] = _new(x, *scale)
    if wanted["new_inv_scale"]:
        outputs["inv_scale_out"] = _new(x, (1,), "f32")
    for flag, name in (("new_y", "y_out"), ("new_residual", "residual_out")):
        if wanted.get(flag):
            outputs[name] = torch.empty((*x.shape[:-1], height), dtype=x.dtype, device=x.device)
    return outputs


# ---- Operators ---------------------------------------------------------

_ops = torch_ops.Library("epiq", "DEF")
_RESULTS = {"act_mul": ("codes_out", "scale_out", "inv_scale_out", "y_out"),
            "rms_norm": ("codes_out", "scale_out", "inv_scale_out", "y_out", "residual_out"),
            "quantize": ("codes_out", "scale_out", "inv_scale_out")}


def _mutating(op: str, names: tuple, in_place: bool = False):
    def run(*args, **given):
        given.update(zip(names, args))
        if op == "rms_norm":
            given["eps"] = float(given["eps"])
        x = given.pop("x")
        if in_place:
            given["residual_out"] = given["residual"]
        options, tensors = _split(op, given)
        tensors["work"] = tensors.pop("workspace", None)
        _calls.forward(op, options, x, **tensors)

    def fake(*args, **given):
        given.update(zip(names, args))
        x = given.pop("x")
        if in_place:
            given["residual_out"] = given["residual"]
        options, tensors = _split(op, given)
        _answer(op, options, x, tensors)

    return run, fake


def _functional(op: str, names: tuple):
    def prepare(args, given):
        given.update(zip(names, args))
        x = given.pop("x")
        wanted = {name: given.pop(name, False) for name in ("new_inv_scale", "new_y", "new_residual")}
        options, tensors = _split(op, given)
        return x, options, tensors, _outputs(op, options, x, tensors, wanted)

    def absent(x):
        return torch.empty(0, dtype=torch.float32, device=x.device)

    def result(x, outputs):
        return tuple(outputs[name] if name in outputs else absent(x) for name in _RESULTS[op])

    def run(*args, **given):
        x, options, tensors, outputs = prepare(args, given)
        _calls.forward(op, options, x, **tensors, **outputs)
        return result(x, outputs)

    def fake(*args, **given):
        x, _, _, outputs = prepare(args, given)
        return result(x, outputs)

    return run, fake


def _dequantize_out(codes, scale=None, *, y_out, inv_scale=None, **given):
    options, _ = _split("dequantize", given)
    _calls.backward(options, codes, scale, inv_scale, None, _WORDS[y_out.dtype], y_out, None, None)


def _dequantize_out_fake(codes, scale=None, *, y_out, inv_scale=None, **given):
    options, _ = _split("dequantize", given)
    if y_out.dtype not in _WORDS:
        raise TypeError(f"epiq::dequantize: y_out is {y_out.dtype}, none of float32, float16, bfloat16")
    _calls.sizes_of("dequantize", options, _WORDS[y_out.dtype], _known(_rows(y_out)), _known(y_out.shape[-1]),
                    ("inv_scale",) if inv_scale is not None else ())


def _dequantize_new(codes, dtype, cols, format):
    per_byte = 2 if _calls.CODE_TYPES.get(format) == "u8" else 1
    return torch.empty((*codes.shape[:-1], codes.shape[-1] * per_byte if cols < 0 else cols), dtype=dtype,
                       device=codes.device)


def _dequantize(codes, scale=None, *, dtype, cols=-1, **given):
    y = _dequantize_new(codes, dtype, cols, given["format"])
    _dequantize_out(codes, scale, y_out=y, **given)
    return y


def _dequantize_fake(codes, scale=None, *, dtype, cols=-1, **given):
    y = _dequantize_new(codes, dtype, cols, given["format"])
    _dequantize_out_fake(codes, scale, y_out=y, **given)
    return y


def _register() -> None:
    for schema in _SCHEMAS:
        _ops.define(schema)
    norm = ("x", "weight", "eps")
    implementations = {
        "act_mul_out": _mutating("act_mul", ("x", "up")), "act_mul": _functional("act_mul", ("x", "up")),
        "rms_norm_out": _mutating("rms_norm", norm), "rms_norm": _functional("rms_norm", norm),
        "add_rms_norm_out": _mutating("rms_norm", ("x", "residual", "weight", "eps"), in_place=True),
        "quantize_out": _mutating("quantize", ("x",)), "quantize": _functional("quantize", ("x",)),
        "dequantize_out": (_dequantize_out, _dequantize_out_fake), "dequantize": (_dequantize, _dequantize_fake),
    }
    for name, (run, fake) in implementations.items():
        for key in ("CPU", "CUDA"):
            _ops.impl(name, run, key)
        torch_ops.register_fake(f"epiq::{name}", fake, lib=_ops)


_register()


# ---- Functions ---------------------------------------------------------


def act_mul(x: torch.Tensor, up: Optional[torch.Tensor] = None, *, y: bool = False, compute_inv_scale: bool = False,
            **options) -> Quantized:
    """epiq.act_mul as torch operators, for torch.compile: new tensors only. y=True also returns y; compute_inv_scale
    (nvfp4) computes the second level. options: those of epiq.act_mul; scale, inv_scale and scale_ub are tensors."""
    codes, scale, inv_scale, y_new = torch.ops.epiq.act_mul(x, up, new_y=y, new_inv_scale=compute_inv_scale, **options)
    return _named(options, codes, scale, inv_scale, y_new, None, y, compute_inv_scale, False)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, *, residual: Optional[torch.Tensor] = None,
             y: bool = False, new_residual: bool = False, compute_inv_scale: bool = False, **options) -> Quantized:
    """epiq.rms_norm as torch operators: new tensors only; new_residual=True returns x + residual, rounded to the type
    of x. (torch.ops.epiq.add_rms_norm_out updates the residual in place.)"""
    codes, scale, inv_scale, y_new, residual_new = torch.ops.epiq.rms_norm(
        x, weight, eps, residual=residual, new_y=y, new_residual=new_residual, new_inv_scale=compute_inv_scale,
        **options)
    return _named(options, codes, scale, inv_scale, y_new, residual_new, y, compute_inv_scale, new_residual)


def quantize(x: torch.Tensor, *, compute_inv_scale: bool = False, **options) -> Quantized:
    """epiq.quantize as torch operators: new tensors only."""
    codes, scale, inv_scale = torch.ops.epiq.quantize(x, new_inv_scale=compute_inv_scale, **options)
    return _named(options, codes, scale, inv_scale, None, None, False, compute_inv_scale, False)


def dequantize(codes: torch.Tensor, scale: Optional[torch.Tensor] = None, *, dtype: torch.dtype = torch.float32,
               **options) -> torch.Tensor:
    """epiq.dequantize as torch operators; options: format, grain, group, layout, inv_scale, padded_cols, cols."""
    return torch.ops.epiq.dequantize(codes, scale, dtype=dtype, **options)


def _named(options, codes, scale, inv_scale, y, residual, has_y, has_inv_scale, has_residual) -> Quantized:
    if options.get("format") is None:
        codes = scale = None
    else:
        static = options.get("grain") in (None, "tensor") and options["format"] in ("e4m3", "e5m2", "int8") and (
            options.get("scale") is not None or options.get("inv_scale") is not None)
        scale = options.get("scale") if static else scale
    return Quantized(codes, scale, inv_scale if has_inv_scale else options.get("inv_scale"), y if has_y else None,
                     residual if has_residual else None)


def gemma_add_rms_norm_quant(x: torch.Tensor, residual: Optional[torch.Tensor], weight: torch.Tensor, eps: float,
                             scale: torch.Tensor, nvfp4: bool, write_y: bool = False
                             ) -> tuple[torch.Tensor, torch.Tensor, Optional[torch.Tensor]]:
    """Gemma RMSNorm of x (+ residual), quantized for the next linear layer: vLLM's function of this name.

    x: (num_tokens, hidden) bf16 or fp16, contiguous, read only. residual: same shape, or None; updated in place to
    x + residual. weight: (hidden,); the norm scales by 1 + weight. scale: one float32: for FP8 the static per-tensor
    input scale, for NVFP4 the global scale (input_global_scale_inv, 448 * 6 / amax).

    Returns (q, block_scale, y): q is float8_e4m3fn (num_tokens, hidden), or uint8 (num_tokens, hidden // 2) with the
    even column in the low nibble; block_scale is `scale` for FP8, else float8_e4m3fn (round_up(M, 128),
    round_up(hidden // 16, 4)) in 128x4 tiles, with rows >= M unwritten and padding columns zero; y is the normed
    activation in the type of x, or None.

    Differences: ValueError where vLLM's asserts; hidden may be any multiple of 16 for NVFP4 (there: of 64). Codes are
    those of vLLM's scaled_fp8_quant and scaled_fp4_quant on the y returned; the row sum is doc/spec.md 3.2.
    """
    if x.dim() != 2 or not x.is_contiguous():
        raise ValueError(f"x must be a contiguous matrix, and is {tuple(x.shape)} with strides {x.stride()}")
    if x.dtype not in (torch.bfloat16, torch.float16):
        raise ValueError(f"x must be bfloat16 or float16, and is {x.dtype}")
    if residual is not None and (residual.shape != x.shape or not residual.is_contiguous()):
        raise ValueError("residual must be contiguous and have the shape of x")
    if residual is not None and residual.dtype != x.dtype:
        raise ValueError(f"residual must have the type of x, and is {residual.dtype}")
    tokens, hidden = x.shape
    if weight.shape != (hidden,) or not weight.is_contiguous():
        raise ValueError(f"weight must be contiguous of shape ({hidden},), and has {tuple(weight.shape)}")
    if scale.numel() != 1 or scale.dtype != torch.float32:
        raise ValueError("scale must be one float32")
    if nvfp4 and hidden % 16 != 0:
        raise ValueError(f"hidden must be a multiple of 16 for NVFP4, and is {hidden}")
    if weight.dtype != x.dtype and weight.dtype != torch.float32:
        weight = weight.float()  # exact

    y = torch.empty_like(x) if write_y else None
    if nvfp4:
        q = torch.empty((tokens, hidden // 2), dtype=torch.uint8, device=x.device)
        block_scale = torch.empty((_up(tokens, 128), _up(hidden // 16, 4)), dtype=torch.float8_e4m3fn, device=x.device)
        quantizer = {"format": "nvfp4", "layout": "tile128x4", "pad_rows": "keep", "inv_scale": scale,
                     "scale_out": block_scale}
    else:
        q = torch.empty((tokens, hidden), dtype=torch.float8_e4m3fn, device=x.device)
        block_scale = scale
        quantizer = {"format": "e4m3", "grain": "tensor", "scale": scale}
    if residual is None:
        torch.ops.epiq.rms_norm_out(x, weight, eps, weight_bias=1.0, codes_out=q, y_out=y, **quantizer)
    else:
        torch.ops.epiq.add_rms_norm_out(x, residual, weight, eps, weight_bias=1.0, codes_out=q, y_out=y, **quantizer)
    return q, block_scale, y
