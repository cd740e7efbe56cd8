# SPDX-License-Identifier: Apache-2.0
"""The shared library: where it is, its structs and functions as epiq.h declares them, its words and its errors."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

UNKNOWN = -1
FIRST_DEVICE = 100000  # EPIQ_DEVICE(0)


def _fields(text: str):
    """`type name name; ...` in the order of epiq.h."""
    types = {"u32": c_uint32, "i32": c_int32, "i64": c_int64, "f32": c_float, "ptr": c_void_p, "matrix": Matrix,
             "pair": c_int64 * 2}
    return [(name, types[line.split()[0]]) for line in text.split(";") if line.strip() for name in line.split()[1:]]


class Matrix(Structure):
    pass


Matrix._fields_ = _fields("ptr data; i64 rows cols row_stride; i32 dtype reserved")


class Output(Structure):
    _fields_ = _fields("""u32 struct_size; i32 format grain group layout scale_dtype ue8m0 mx_round nvfp4 nan pad_rows
        reserved; ptr codes_out; i64 codes_row_stride; ptr scale_out; i64 scale_stride;
        ptr scale inv_scale inv_scale_out scale_ub; i64 padded_cols""")


class ActMulArgs(Structure):
    _fields_ = _fields("""u32 struct_size; i32 act; matrix x; i32 order chain act_round;
        f32 alpha limit limit_after up_offset; i32 reserved; ptr up; i64 up_row_stride; ptr y_out; i64 y_row_stride""")


class RmsNormArgs(Structure):
    _fields_ = _fields("""u32 struct_size; f32 eps; matrix x; ptr residual; i64 residual_row_stride; ptr residual_out;
        i64 residual_out_row_stride; ptr weight; i32 weight_dtype; f32 weight_bias;
        i32 chain sum_round norm_round reserved; ptr y_out; i64 y_row_stride""")


class QuantizeArgs(Structure):
    _fields_ = _fields("u32 struct_size; i32 reserved; matrix x")


class DequantizeArgs(Structure):
    _fields_ = _fields("""u32 struct_size; i32 format grain group layout scale_dtype; i64 rows cols; ptr codes;
        i64 codes_row_stride; ptr scale; i64 scale_stride; ptr inv_scale y_out; i64 y_row_stride;
        i32 y_dtype reserved; i64 padded_cols""")


class Exec(Structure):
    _fields_ = _fields("""u32 struct_size; i32 backend; ptr stream; i32 device tasks; ptr executor executor_data
        workspace; i64 workspace_bytes; i32 pdl; u32 constants""")


class Sizes(Structure):
    _fields_ = _fields("""u32 struct_size; i32 grain group layout scale_dtype reserved;
        i64 rows cols groups codes_row_bytes codes_bytes; pair scale_shape;
        i64 scale_stride scale_bytes y_bytes residual_bytes workspace_bytes""")


ARGS = {"act_mul": ActMulArgs, "rms_norm": RmsNormArgs, "quantize": QuantizeArgs, "dequantize": DequantizeArgs}


class Error(ValueError):
    """A call was refused; nothing was written. `status` is the word of the status (epiq_status in epiq.h): struct,
    value, conflict, shape, stride, buffer, overlap, workspace, unsupported."""

    def __init__(self, message: str, status: str):
        super().__init__(message)
        self.status = status


class BackendError(Error, RuntimeError):
    """The machine cannot do it (status backend or device), or a GPU reported an error (cuda)."""


def library_path() -> Path:
    """The shared library in use: $EPIQ_LIBRARY if set, else the one in this package."""
    given = os.environ.get("EPIQ_LIBRARY")
    if given:
        return Path(given)
    return Path(__file__).resolve().parent / "libepiq.so"


def _load() -> ctypes.CDLL:
    if sys.byteorder != "little" or ctypes.sizeof(c_void_p) != 8:
        raise ImportError("epiq runs on 64-bit little-endian machines only")
    path = library_path()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"epiq: cannot load {path} ({error}). `pip install .` in the source tree builds it; "
                          "EPIQ_LIBRARY names another one") from None
    for op, args in ARGS.items():
        output = [] if op == "dequantize" else [POINTER(Output)]
        common = [POINTER(args), *output, POINTER(Exec)]
        getattr(library, f"epiq_{op}").argtypes = common
        getattr(library, f"epiq_check_{op}").argtypes = [*common, POINTER(Sizes)]
        explain = getattr(library, f"epiq_explain_{op}")
        explain.argtypes, explain.restype = [*common, c_char_p, c_size_t], c_size_t
    library.epiq_word.argtypes, library.epiq_word.restype = [c_int32], c_char_p
    library.epiq_value.argtypes, library.epiq_value.restype = [c_char_p, c_char_p], c_int32
    library.epiq_status_string.argtypes, library.epiq_status_string.restype = [c_int32], c_char_p
    library.epiq_build_info.argtypes, library.epiq_build_info.restype = [], c_char_p
    library.epiq_backend_usable.argtypes = [c_int32, c_int32, c_char_p, c_size_t]
    library.epiq_scale_offset.argtypes = [POINTER(Sizes), c_int64, c_int64]
    library.epiq_scale_offset.restype = c_int64
    library.epiq_pool_create.argtypes, library.epiq_pool_create.restype = [c_int32], c_void_p
    library.epiq_pool_destroy.argtypes, library.epiq_pool_destroy.restype = [c_void_p], None
    return library


lib = _load()


def start(kind: str) -> int:
    """The start of the block of numbers of a kind."""
    return lib.epiq_value(kind.encode(), None)


@functools.lru_cache(maxsize=None)
def words(kind: str) -> tuple[str, ...]:
    """The words of a field of epiq.h: words("format") is ("e4m3", ...)."""
    found = (lib.epiq_word(start(kind) + i) for i in range(1, 100))
    return tuple(word.decode() for word in found if word is not None)


@functools.lru_cache(maxsize=None)
def value(kind: str, word: str | None) -> int:
    """The number of a word; None and "" are 0, the default."""
    if not word:
        return 0
    number = lib.epiq_value(kind.encode(), word.encode()) if isinstance(word, str) else 0
    if number == 0:
        raise Error(f"{kind}: {word!r} is none of {', '.join(words(kind))}", "value")
    return number


def word(number: int) -> str | None:
    """The word of a number; None for 0."""
    found = lib.epiq_word(number) if number else None
    return None if found is None else found.decode()


def refusal(op: str, status: int, args, output, run: Exec) -> Error:
    """The exception for a status, in the words of epiq_explain_*."""
    name = lib.epiq_word(status)
    name = "unknown" if name is None else name.decode()
    sentence = lib.epiq_status_string(status).decode()
    text = ctypes.create_string_buffer(1024)
    if status >= 40:
        if lib.epiq_backend_usable(run.backend, run.device, text, len(text)) == 0:
            text.value = b""
        why = ": ".join(part for part in (sentence, text.value.decode()) if part)
        return BackendError(f"epiq {op}: {why}", name)
    pointers = [ctypes.byref(args)] + ([] if op == "dequantize" else [output and ctypes.byref(output)])
    getattr(lib, f"epiq_explain_{op}")(*pointers, ctypes.byref(run), text, len(text))
    # Where the rule concerns a buffer, a description of the call follows in further lines.
    sentence = text.value.decode(errors="replace").splitlines()[0]
    return Error(f"epiq {op}: {sentence.partition(', so a call would')[0]}", name)
