# SPDX-License-Identifier: Apache-2.0
"""From Python arguments to one call of the C interface."""

from __future__ import annotations

import ctypes
import functools
import sys
from ctypes import byref, c_void_p, sizeof
from typing import Any, NamedTuple

from . import _arrays as arrays
from . import _library as library
from ._library import FIRST_DEVICE, UNKNOWN, Exec, Output, Sizes, lib, value

EXEC_BYTES = sizeof(Exec)
PRESENT = 1  # the address of what is wanted but not there yet: checks only ask whether there is one

# Options by the struct that holds them. A kind (of words), or the Python type of a number.
QUANTIZER = {"format": "format", "grain": "grain", "group": int, "layout": "layout", "ue8m0": int,
             "mx_round": "mx_round",
             "nvfp4": "nvfp4", "nan": "nan", "pad_rows": "pad_rows", "padded_cols": int}
OWN = {
    "act_mul": {"act": "act", "order": "order", "chain": "chain", "act_round": "act_round", "alpha": float,
                "limit": float,
                "limit_after": float, "up_offset": float},
    "rms_norm": {"eps": float, "weight_bias": float, "chain": "chain", "sum_round": "sum_round",
                 "norm_round": "norm_round"},
    "quantize": {},
    "dequantize": {"format": "format", "grain": "grain", "group": int, "layout": "layout", "padded_cols": int},
}
CODE_TYPES = {"e4m3": "e4m3", "mxfp8": "e4m3", "e5m2": "e5m2", "int8": "i8", "mxfp4": "u8", "nvfp4": "u8"}


class Quantized(NamedTuple):
    """What an operation wrote; None for what was not wanted."""

    codes: Any  # [..., H] one byte an element; [..., H / 2] for mxfp4 and nvfp4, even column in the low nibble
    scale: Any  # [..., G] for layout row, else the stored array; the given `scale` if that was static
    inv_scale: Any  # the second level of nvfp4, given or computed; a given static multiplier
    y: Any  # [..., H] in the type of x
    residual: Any  # x + residual, rounded to the type of x


@functools.lru_cache(maxsize=4096)
def prepared(op: str, options: tuple) -> tuple[bytes, bytes | None]:
    """The structs `args` and `out` with everything that is no array. options: (name, value) pairs; unset ones may be
    left out."""
    args, output = library.ARGS[op](), Output()
    args.struct_size, output.struct_size = sizeof(args), sizeof(output)
    for name, given in options:
        own = OWN[op].get(name)
        kind = own if own is not None else QUANTIZER[name]
        target = args if own is not None else output
        if isinstance(kind, str):
            setattr(target, name, value(kind, given))
        elif given is not None:
            try:
                setattr(target, name, kind(given))
            except (TypeError, ValueError):
                raise library.Error(f"{name}: {given!r} is no number", "value") from None
    if op == "dequantize":
        return bytes(args), None
    wanted = output.format != 0 or op == "quantize" or any(name in QUANTIZER and given for name, given in options)
    return bytes(args), bytes(output) if wanted else None


def structs(op: str, options: tuple):
    args, output = prepared(op, options)
    return (library.ARGS[op].from_buffer_copy(args), None if output is None else Output.from_buffer_copy(output),
            Exec(EXEC_BYTES))


CUDA = value("backend", "cuda")
PRESENCE = ("scale", "inv_scale", "inv_scale_out", "scale_ub", "y_out", "residual", "residual_out", "up")


@functools.lru_cache(maxsize=4096)
def sizes_of(op: str, options: tuple, dtype: str, rows: int, cols: int,
             present: tuple, weight_dtype: str = "") -> Sizes:
    """epiq_check_*: the answer, or the refusal. present: names out of PRESENCE. workspace_bytes: what CUDA needs."""
    args, output, run = structs(op, options)
    run.backend = CUDA
    if op == "dequantize":
        args.rows, args.cols, args.y_dtype = rows, cols, value("dtype", dtype)
    else:
        args.x.rows, args.x.cols, args.x.dtype = rows, cols, value("dtype", dtype)
    for name in present:
        for struct in (args, output):
            if struct is not None and hasattr(struct, name):
                setattr(struct, name, PRESENT)
                break
        else:
            if output is None:
                raise library.Error(f"epiq {op}: {name} needs a format", "value")
            raise library.Error(f"epiq {op}: {name} has no effect here", "conflict")
    if op == "rms_norm" and weight_dtype:
        args.weight_dtype = value("weight_dtype", weight_dtype)
    answer = Sizes(sizeof(Sizes))
    pointers = [byref(args)] + ([] if op == "dequantize" else [output and byref(output)]) + [byref(run)]
    if op in ("act_mul", "rms_norm") and output is None and "y_out" not in present:
        raise library.Error(f"epiq {op}: nothing is asked for: give format, or y_out", "buffer")
    status = getattr(lib, f"epiq_check_{op}")(*pointers, byref(answer))
    if status:
        raise library.refusal(op, status, args, output, run)
    return answer


# ---- The machine -------------------------------------------------------

_pool = None
_executor = ctypes.cast(lib.epiq_pool_executor, c_void_p).value


def set_threads(threads: int) -> None:
    """Lets CPU calls use a pool of so many threads (0: all cores) from now on; 1 ends that. Bytes do not change."""
    global _pool
    old, _pool = _pool, None
    if old is not None:
        lib.epiq_pool_destroy(old)
    if threads != 1:
        _pool = lib.epiq_pool_create(threads)
        if _pool is None:
            raise library.Error(f"a pool of {threads} threads cannot be had", "value")


def place(run: Exec, like, device: int | None, backend: str | None, stream) -> None:
    """Where the call runs."""
    if device is None:
        if stream is not None:
            raise library.Error("stream: the arrays are on the CPU", "conflict")
        run.backend = value("backend", backend)
        if _pool is not None:
            run.executor, run.executor_data = _executor, _pool
    else:
        run.backend = value("backend", backend or "cuda")
        run.device = FIRST_DEVICE + device
        run.stream = arrays.current_stream(like, device) if stream is None else arrays.stream_of(stream)


# ---- Arrays ------------------------------------------------------------


def _same_device(v, x, name: str) -> None:
    if v.device != x.device:
        where = ["the CPU" if d is None else f"CUDA device {d}" for d in (v.device, x.device)]
        raise ValueError(f"{name} is on {where[0]}, x on {where[1]}")


def matrix(array, name: str, x, rows: int, cols: int, dtype: str, written: bool = False):
    """(address, row stride) of an array of the shape and type that it must have."""
    v = arrays.view(array, name)
    _same_device(v, x, name)
    found_rows, found_cols, _, stride = v.rows(name)
    if v.dtype != dtype:
        raise TypeError(f"{name} is {v.dtype}, not {dtype}")
    if (found_rows, found_cols) != (rows, cols):
        raise ValueError(f"{name} is [{found_rows}, {found_cols}], not [{rows}, {cols}]")
    if written and v.readonly:
        raise ValueError(f"{name} is read-only")
    return v.address, stride


def single(array, name: str, x, written: bool = False):
    """(address, array) of one float32; a number becomes an array first."""
    if isinstance(array, (int, float)) and not written:
        array = arrays.one(x.keep[0] if isinstance(x.keep, tuple) else x.keep, float(array))
    v = arrays.view(array, name)
    _same_device(v, x, name)
    count = 1
    for extent in v.shape:
        count *= extent
    if v.dtype != "f32" or count != 1:
        raise TypeError(f"{name} is not one float32")
    if written and v.readonly:
        raise ValueError(f"{name} is read-only")
    return v.address, array


def codes(array, x, answer: Sizes, format: str, written: bool = True, name: str = "codes_out"):
    v = arrays.view(array, name)
    _same_device(v, x, name)
    rows, _, row_bytes, stride = v.rows(name)
    typed = "e2m1x2" if CODE_TYPES[format] == "u8" else CODE_TYPES[format]
    if v.dtype != typed and v.dtype not in arrays.RAW:
        raise TypeError(f"{name} is {v.dtype}, neither {typed} nor a raw integer")
    if rows != answer.rows or row_bytes != answer.codes_row_bytes:
        raise ValueError(f"{name} has {rows} rows of {row_bytes} bytes, not {answer.rows} of {answer.codes_row_bytes}")
    if written and v.readonly:
        raise ValueError(f"{name} is read-only")
    return v.address, stride


def scales(array, x, answer: Sizes, written: bool = True, name: str = "scale_out"):
    """The stored array, or for a column-major layout its transposed view."""
    v = arrays.view(array, name)
    _same_device(v, x, name)
    dtype = library.word(answer.scale_dtype)
    if v.dtype != dtype and (v.dtype not in arrays.RAW or dtype == "f32"):
        raise TypeError(f"{name} is {v.dtype}, not {dtype}")
    if written and v.readonly:
        raise ValueError(f"{name} is read-only")
    lines, line_bytes = answer.scale_shape[0], answer.scale_shape[1] * (arrays.BITS[dtype] // 8)
    layout = library.word(answer.layout)
    if layout in ("col", "col_aligned", "packed_ue8m0") and v.strides and len(v.shape) == 2 and v.strides[0] == 1 \
            and v.strides[1] != 1:
        v = arrays.View(v.address, v.shape[::-1], v.strides[::-1], v.dtype, v.device, v.readonly, v.keep)
    rows, _, row_bytes, stride = v.rows(name)
    if stride == 0 and layout in ("row", "linear") and rows * row_bytes == lines * line_bytes:
        return v.address, 0  # dense, whatever its shape: [M], [M, 1], [..., G]
    if (rows, row_bytes) != (lines, line_bytes):
        raise ValueError(f"{name} has {rows} lines of {row_bytes} bytes, not the stored {lines} of {line_bytes}")
    return v.address, stride


def scale_shape(answer: Sizes, lead: tuple) -> tuple:
    """Of a new scale array, in elements: [..., G] for layout row, else the stored array."""
    stored = (int(answer.scale_shape[0]), int(answer.scale_shape[1]))
    if library.word(answer.grain) == "tensor":
        return (1,)
    return (*lead, stored[1]) if library.word(answer.layout) in ("row", "linear") else stored


def workspace(run: Exec, given, x, like, needed: int):
    if given is not None:
        v = arrays.view(given, "workspace")
        _same_device(v, x, "workspace")
        rows, _, row_bytes, stride = v.rows("workspace")
        if stride or v.readonly:
            raise ValueError("workspace is not dense and writable")
        run.workspace, run.workspace_bytes = v.address, rows * row_bytes
    elif needed:
        given = arrays.empty(like, (needed,), "u8")
        run.workspace, run.workspace_bytes = arrays.view(given, "workspace").address, needed
    return given


def perform(op: str, args, output, run: Exec) -> None:
    outputs = [] if op == "dequantize" else [output and byref(output)]
    status = getattr(lib, f"epiq_{op}")(byref(args), *outputs, byref(run))
    if status:
        raise library.refusal(op, status, args, output, run)


def forward(op: str, options: tuple, x, *, up=None, residual=None, weight=None, scale=None, inv_scale=None,
            scale_ub=None,
            codes_out=None, scale_out=None, inv_scale_out=None, y_out=None, residual_out=None, backend=None,
            stream=None,
            work=None) -> Quantized:
    """act_mul, rms_norm and quantize. Outputs: an array, True to allocate one, None for none; codes_out and scale_out
    are allocated where there is a format."""
    xv = arrays.view(x, "x")
    if xv.dtype not in ("f32", "f16", "bf16"):
        raise TypeError(f"x is {xv.dtype}; f32, f16 and bf16 can be quantized")
    rows, cols, _, stride = xv.rows("x")
    lead = tuple(xv.shape[:-1])
    args, output, run = structs(op, options)
    args.x.data, args.x.rows, args.x.cols, args.x.row_stride = xv.address, rows, cols, stride
    args.x.dtype = value("dtype", xv.dtype)
    given = dict(zip(PRESENCE, (scale, inv_scale, inv_scale_out, scale_ub, y_out, residual, residual_out, up)))
    present = tuple(name for name, array in given.items() if array is not None and array is not False)
    weight_dtype = ""
    if op == "rms_norm":
        wv = arrays.view(weight, "weight")
        _same_device(wv, xv, "weight")
        if wv.rows("weight")[:2] != (1, cols):
            raise ValueError(f"weight has shape {tuple(wv.shape)}, not ({cols},)")
        if wv.dtype not in ("f32", "f16", "bf16"):
            raise TypeError(f"weight is {wv.dtype}, neither {xv.dtype} nor f32")
        weight_dtype = wv.dtype
        args.weight, args.weight_dtype = wv.address, value("dtype", weight_dtype)
    answer = sizes_of(op, options, xv.dtype, rows, cols, present, weight_dtype)
    height = int(answer.cols)

    if up is not None:
        args.up, args.up_row_stride = matrix(up, "up", xv, rows, cols, xv.dtype)
    if residual is not None:
        args.residual, args.residual_row_stride = matrix(residual, "residual", xv, rows, height, xv.dtype)
    for name in ("y_out", "residual_out"):
        if name in present:
            if given[name] is True:
                given[name] = arrays.empty(x, (*lead, height), xv.dtype)
            address, row_stride = matrix(given[name], name, xv, rows, height, xv.dtype, written=True)
            setattr(args, name, address)
            setattr(args, "y_row_stride" if name == "y_out" else "residual_out_row_stride", row_stride)
    if output is not None:
        format = dict(options)["format"]
        for name in ("scale", "inv_scale", "scale_ub", "inv_scale_out"):
            if name in present:
                if given[name] is True and name == "inv_scale_out":
                    given[name] = arrays.empty(x, (1,), "f32")
                address, given[name] = single(given[name], name, xv, written=name == "inv_scale_out")
                setattr(output, name, address)
        if codes_out is None:
            codes_out = arrays.empty(x, (*lead, int(answer.codes_row_bytes)), CODE_TYPES[format])
        output.codes_out, output.codes_row_stride = codes(codes_out, xv, answer, format)
        if answer.scale_bytes:
            if scale_out is None:
                scale_out = arrays.empty(x, scale_shape(answer, lead), library.word(answer.scale_dtype))
            output.scale_out, output.scale_stride = scales(scale_out, xv, answer)
        elif scale_out is not None and rows:
            raise library.Error(f"epiq {op}: scale_out: a static scale is read, none is written", "conflict")
    elif codes_out is not None or scale_out is not None:
        raise library.Error(f"epiq {op}: codes_out and scale_out need a format", "value")
    place(run, x, xv.device, backend, stream)
    keep = workspace(run, work, xv, x, int(answer.workspace_bytes) if run.backend == CUDA else 0)
    perform(op, args, output, run)
    del keep
    written = {name: array if name in present else None for name, array in given.items()}
    return Quantized(codes_out, written["scale"] if scale_out is None else scale_out,
                     written["inv_scale"] if written["inv_scale_out"] is None else written["inv_scale_out"],
                     written["y_out"], written["residual_out"])


def backward(options: tuple, codes_array, scale, inv_scale, cols, dtype, y_out, backend, stream):
    """dequantize."""
    cv = arrays.view(codes_array, "codes")
    rows, _, row_bytes, stride = cv.rows("codes")
    format = dict(options).get("format")
    per_byte = 2 if CODE_TYPES.get(format) == "u8" else 1
    yv = None
    if y_out is not None:
        yv = arrays.view(y_out, "y_out")
        dtype = yv.dtype
        cols = yv.shape[-1] if cols is None else cols
    cols = row_bytes * per_byte if cols is None else cols
    present = ("inv_scale",) if inv_scale is not None else ()
    answer = sizes_of("dequantize", options, dtype, rows, cols, present)
    args, _, run = structs("dequantize", options)
    args.rows, args.cols, args.y_dtype = rows, cols, value("dtype", dtype)
    args.codes, args.codes_row_stride = codes(codes_array, cv, answer, format, written=False, name="codes")
    if inv_scale is not None:
        args.inv_scale, inv_scale = single(inv_scale, "inv_scale", cv)
    if scale is not None:
        if library.word(answer.grain) == "tensor":
            args.scale, scale = single(scale, "scale", cv)
        else:
            args.scale, args.scale_stride = scales(scale, cv, answer, written=False, name="scale")
    if y_out is None:
        like = codes_array
        if dtype == "bf16" and arrays.framework(like) in ("numpy", "cupy"):
            import ml_dtypes

            y_out = sys.modules[arrays.framework(like)].empty((*cv.shape[:-1], cols), dtype=ml_dtypes.bfloat16)
        else:
            y_out = arrays.empty(like, (*cv.shape[:-1], cols), dtype)
    args.y_out, args.y_row_stride = matrix(y_out, "y_out", cv, rows, cols, dtype, written=True)
    place(run, codes_array, cv.device, backend, stream)
    perform("dequantize", args, None, run)
    return y_out


__all__ = ["Quantized", "UNKNOWN", "backward", "forward", "set_threads", "sizes_of"]
