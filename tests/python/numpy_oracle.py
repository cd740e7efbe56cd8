# SPDX-License-Identifier: Apache-2.0
"""numpy_oracle.py: the quantizers of doc/spec.md 4 in NumPy and ml_dtypes, written from the text and sharing nothing
with the library. y is an array [M, H] of float32; codes and scales come back as bytes. Used by tests and by
gpu_check.py."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np

F32 = np.float32
FLT_MAX = F32(np.finfo(F32).max)
MAX = {"e4m3": F32(448), "e5m2": F32(57344)}
TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
SPEC = Path(__file__).resolve().parents[2] / "doc/spec.md"


def bits(values):
    return np.asarray(values, F32).view(np.uint32)


def fp8(values, format):
    """Saturating conversion; NaN gives 0x7F."""
    values = np.asarray(values, F32)
    with np.errstate(all="ignore"):
        codes = np.clip(values, -MAX[format], MAX[format]).astype(TYPES[format]).view(np.uint8)
    return np.where(np.isnan(values), np.uint8(0x7F), codes)


def e2m1(values):
    """Four-bit codes by distance, ties to the even code; NaN gives 7."""
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float64)
    magnitude = np.minimum(np.abs(np.asarray(values, np.float64)), 6)
    distance = np.abs(magnitude[..., None] - grid)
    even_first = np.array([0, 2, 4, 6, 1, 3, 5, 7])  # argmin takes the first of equals
    codes = even_first[np.argmin(distance[..., even_first], -1)]
    codes = codes | np.where(np.signbit(values), 8, 0)
    return np.where(np.isnan(values), 7, codes).astype(np.uint8)


def pack(codes):
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


def largest(values, axis=None):
    values = np.abs(np.asarray(values, F32))
    return np.max(np.where(np.isnan(values), F32(0), values), axis=axis, initial=F32(0))


def tensor_static(y, format, scale=None, inv_scale=None):
    with np.errstate(all="ignore"):
        if format == "int8":
            v = y / F32(scale) if scale is not None else y * np.clip(F32(inv_scale), -FLT_MAX, FLT_MAX)
            return int8(v)
        m = F32(1) / F32(scale) if scale is not None else F32(inv_scale)
        return fp8(y * np.clip(m, -FLT_MAX, FLT_MAX), format)


def int8(values):
    values = np.where(np.isnan(values), F32(0), values)
    return np.rint(np.clip(values, -128, 127)).astype(np.int8).view(np.uint8)


def tensor_dynamic(y, format):
    s = np.maximum(np.minimum(largest(y), FLT_MAX) / MAX[format], F32(2.0**-126))
    return fp8(y * (F32(1) / s), format), np.array([s], F32)


def token(y, format, scale_ub=None):
    a = np.minimum(largest(y, 1), FLT_MAX)
    with np.errstate(all="ignore"):
        if format == "int8":
            m = np.where(a > 0, np.minimum(F32(127) / a, FLT_MAX), F32(0))
            return int8(y * m[:, None]), (a / F32(127))
        if scale_ub is not None:
            a = np.minimum(a, F32(scale_ub))
        s = np.maximum(a / MAX[format], F32(1) / (MAX[format] * F32(512)))
        return fp8(y / s[:, None], format), s


def groups(y, size):
    """[M, G, size] with zeros at the end of a short last group."""
    rows, cols = y.shape
    count = -(-cols // size)
    padded = np.zeros((rows, count * size), F32)
    padded[:, :cols] = y
    return padded.reshape(rows, count, size)


def group(y, format, size, ue8m0=False):
    blocks = groups(y, size)
    tiny = F32(1e-10)
    s = np.maximum(np.minimum(largest(blocks, 2), FLT_MAX), tiny) / MAX[format]
    if ue8m0:
        e = ((bits(np.maximum(s, tiny)) + 0x7FFFFF) >> 23).astype(np.int64)
        codes = fp8(np.ldexp(blocks, (127 - e)[..., None].astype(np.int32)).astype(F32), format)
        s = e.astype(np.uint8)
    else:
        codes = fp8(blocks / s[..., None], format)
    return codes.reshape(y.shape[0], -1)[:, : y.shape[1]], s


def mx(y, format, rounding="ceil"):
    blocks = groups(y, 32)
    add = {("mxfp8", "ceil"): 0x1FFFFF, ("mxfp4", "ceil"): 0x3FFFFF,
            ("mxfp4", "vllm"): 0x200000}.get((format, rounding), 0)
    amax = largest(blocks, 2)
    sf = ((bits(amax).astype(np.int64) + add) >> 23) - (8 if format == "mxfp8" else 2)
    sf = np.where(np.isinf(amax), 254, np.clip(sf, 0, 254))
    with np.errstate(all="ignore"):
        scaled = (blocks.astype(np.float64) * np.exp2((127 - sf)[..., None].astype(np.float64))).astype(F32)
    codes = fp8(scaled, "e4m3") if format == "mxfp8" else e2m1(scaled)
    codes = codes.reshape(y.shape[0], -1)
    return (codes if format == "mxfp8" else pack(codes)), sf.astype(np.uint8)


def rcp_table():
    text = SPEC.read_text().split("### 1.6")[1].split("Known answers")[0]
    found = re.findall(r"(0x[0-9a-f]{7}) (0x[0-9a-f]{4}) (0x[0-9a-f]{3})", text)
    assert len(found) == 128, len(found)
    return np.array([[int(part, 16) for part in row] for row in found], np.int64)


def rcp(values):
    """rcp~ of 1.6, for positive numbers."""
    u = bits(values).astype(np.int64)
    exponent, mantissa = u >> 23 & 255, u & 0x7FFFFF
    c0, c1, c2 = np.moveaxis(rcp_table()[mantissa >> 16], -1, 0)
    x = mantissa & 0xFFFF
    square = np.zeros_like(x)
    for j in range(16):
        square += np.where(x >> j & 1, x >> (16 - j), 0)
    significand = ((c0 << 13) + (c1 - 65536) * x + c2 * (square >> 1) + 0x47E7) >> 15
    r = ((252 - exponent) << 23) + significand
    r = np.where(r < 1 << 23, 0, r)
    r = np.where(exponent == 0, 0x7F800000, np.where((exponent == 255) & (mantissa == 0), 0, r))
    r = np.where((exponent == 255) & (mantissa != 0), 0x7FFFFFFF, r)
    return r.astype(np.uint32).view(F32)


def nvfp4(y, gs, rule="vllm"):
    blocks = groups(y, 16)
    gs = F32(gs)
    amax = largest(blocks, 2)
    a = np.minimum(amax, FLT_MAX)
    sixth = F32(1) / F32(6)
    with np.errstate(all="ignore"):
        if rule == "vllm":
            code = fp8(gs * (a * sixth), "e4m3")
            sf = code.view(ml_dtypes.float8_e4m3fn).astype(F32)
            o = np.where(code == 0, F32(0), rcp(sf * rcp(np.full_like(sf, gs))))
        else:
            code = np.where(amax == 0, np.uint8(0), fp8(a * (gs * sixth), "e4m3"))
            sf = code.view(ml_dtypes.float8_e4m3fn).astype(F32)
            o = np.fmin(F32(1) / (sf * (F32(1) / gs)), FLT_MAX)
        codes = e2m1((blocks * o[..., None]).astype(F32))
    return pack(codes.reshape(y.shape[0], -1)), code


def computed_gs(y):
    amax = largest(y)
    return F32(1) if amax == 0 or np.isinf(amax) else np.minimum(F32(2688) / amax, F32(2.0**116))


def stored(scales, layout):
    """[M, G] scales in a layout, as bytes of the whole array, padding zero."""
    rows, count = scales.shape
    up = lambda n, to: -(-n // to) * to  # noqa: E731
    m, k = np.meshgrid(np.arange(rows), np.arange(count), indexing="ij")
    if layout in ("row", "linear"):
        return np.ascontiguousarray(scales).view(np.uint8).ravel()
    if layout in ("col", "col_aligned"):
        out = np.zeros((count, rows if layout == "col" else up(rows, 4)), scales.dtype)
        out[:, :rows] = scales.T
        return out.view(np.uint8).ravel()
    tiles = up(count, 4) // 4
    if layout == "packed_ue8m0":
        out = np.zeros(tiles * up(rows, 4) * 4, np.uint8)
        at = (k >> 2) * 4 * up(rows, 4) + 4 * m + (k & 3)
    elif layout == "tile128x4":
        out = np.zeros(up(rows, 128) * tiles * 4, np.uint8)
        at = ((m >> 7) * tiles + (k >> 2)) * 512 + (m & 31) * 16 + ((m >> 5) & 3) * 4 + (k & 3)
    else:
        out = np.zeros(up(rows, 8) * tiles * 4, np.uint8)
        at = ((m >> 3) * tiles + (k >> 2)) * 32 + (m & 7) * 4 + (k & 3)
    out[at] = scales
    return out


# ---- Inputs ------------------------------------------------------------


def inputs(seed, rows, cols, dtype="bf16"):
    """Rows of different kinds: gaussian, wide range, ties of every format, subnormals, zeros of both signs, the largest
    numbers, a lone outlier. Finite."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, cols))
    kinds = [lambda n: rng.standard_normal(n), lambda n: rng.standard_normal(n) * np.exp2(rng.integers(-30, 30, n)),
             lambda n: rng.integers(-64, 65, n) / 16.0, lambda n: rng.integers(-9, 10, n) * 2.0**-133,
             lambda n: rng.choice([0.0, -0.0], n), lambda n: rng.choice([6e4, -6e4, 1.0, -448.0, 57344.0], n),
             lambda n: np.where(np.arange(n) == n // 2, 1000.0, rng.standard_normal(n) * 1e-3),
             lambda n: rng.choice([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, -5.0, 432.0, 464.0], n)]
    for row in range(rows):
        x[row] = kinds[row % len(kinds)](cols)
    kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}[dtype]
    return x.astype(kind)
