#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""triton_peers.py: Triton kernels of one program a row, as a user would write them in place of a library: Gemma add +
RMSNorm + quantizer, and SwiGLU + quantizer. bench/gpu_sweep.py times them.

    python3 bench/peers/triton_peers.py --warm 0/4 --rows 1,128,4096 --cols 4096    compiles a quarter of the variants
    python3 bench/peers/triton_peers.py --check                                     compares with PyTorch, on the GPU

Rows are split into no tiles: a program holds its whole row, 16 warps while there are few rows and 4 or 8 after that,
programmatic dependent launch where the GPU has it, with the trigger early up to 128 rows. SwiGLU also comes in tiles of
1024 columns (`tiles`), for the quantizers that need no maximum of the whole row: the better launch for long rows.
Formats: e4m3 with a static scale, a scale a token, or a scale for 128 columns; NVFP4 and MXFP8 with block scales in
tiles of 128 x 4. E2M1 is made by comparisons, as compute capability 9.0 does not convert to it.
"""

import argparse

import torch
import triton
import triton.language as tl

try:
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
    HAS_PDL = True
except ImportError:
    HAS_PDL = False

    @triton.jit
    def gdc_wait():
        pass

    @triton.jit
    def gdc_launch_dependents():
        pass

TILE = 1024
FORMATS = ("e4m3 tensor", "e4m3 token", "e4m3 group128", "nvfp4", "mxfp8")
TENSOR, TOKEN, GROUP, NVFP4, MXFP8 = (tl.constexpr(i) for i in range(5))


@triton.jit
def tile_offset(row, group, groups):
    """Of a block scale in tiles of 128 rows x 4 groups, bytes."""
    tiles = (groups + 3) // 4
    tile = (row // 128) * tiles + group // 4
    return tile * 512 + (row % 32) * 16 + (row % 128) // 32 * 4 + group % 4


@triton.jit
def e2m1(v):
    """Code of the nearest value, ties to the even code; beyond 6: 6."""
    a = tl.abs(v)
    code = ((a > 0.25).to(tl.int32) + (a >= 0.75).to(tl.int32) + (a > 1.25).to(tl.int32) + (a >= 1.75).to(tl.int32)
            + (a > 2.5).to(tl.int32) + (a >= 3.5).to(tl.int32) + (a > 5.0).to(tl.int32))
    return code | ((v < 0).to(tl.int32) << 3)


@triton.jit
def e4m3(v):
    return tl.minimum(tl.maximum(v, -448.0), 448.0).to(tl.float8e4nv)


@triton.jit
def store_quantized(y, row, first, cols, codes, scales, multiplier, FORMAT: tl.constexpr, BLOCK: tl.constexpr):
    """y: BLOCK columns from `first` on, in fp32, 0 beyond the row."""
    at = first + tl.arange(0, BLOCK)
    if FORMAT == TENSOR:
        tl.store(codes + row * cols + at, e4m3(y * tl.load(multiplier)), mask=at < cols)
    elif FORMAT == TOKEN:
        s = tl.maximum(tl.max(tl.abs(y), 0) / 448.0, 1.0 / (448.0 * 512.0))
        tl.store(scales + row, s)
        tl.store(codes + row * cols + at, e4m3(y / s), mask=at < cols)
    elif FORMAT == GROUP:
        b = tl.reshape(y, [BLOCK // 128, 128])
        s = tl.maximum(tl.max(tl.abs(b), 1), 1e-10) / 448.0
        groups = (cols + 127) // 128
        g = first // 128 + tl.arange(0, BLOCK // 128)
        tl.store(scales + row * groups + g, s, mask=g < groups)
        tl.store(codes + row * cols + at, tl.reshape(e4m3(b / s[:, None]), [BLOCK]), mask=at < cols)
    elif FORMAT == MXFP8:
        b = tl.reshape(y, [BLOCK // 32, 32])
        bits = (tl.max(tl.abs(b), 1) / 448.0).to(tl.int32, bitcast=True)
        exponent = tl.minimum((bits >> 23) + ((bits & 0x7FFFFF) != 0).to(tl.int32), 253)
        groups = (cols + 31) // 32
        g = first // 32 + tl.arange(0, BLOCK // 32)
        tl.store(scales + tile_offset(row, g, groups), exponent.to(tl.uint8), mask=g < groups)
        inverse = ((254 - exponent) << 23).to(tl.float32, bitcast=True)
        tl.store(codes + row * cols + at, tl.reshape(e4m3(b * inverse[:, None]), [BLOCK]), mask=at < cols)
    else:
        b = tl.reshape(y, [BLOCK // 16, 16])
        m = tl.load(multiplier)
        s = tl.minimum(tl.max(tl.abs(b), 1) * m / 6.0, 448.0).to(tl.float8e4nv)
        groups = (cols + 15) // 16
        g = first // 16 + tl.arange(0, BLOCK // 16)
        tl.store(scales + tile_offset(row, g, groups), s.to(tl.uint8, bitcast=True), mask=g < groups)
        f = s.to(tl.float32)
        inverse = tl.where(f != 0.0, m / f, 0.0)
        low, high = tl.split(tl.reshape(e2m1(b * inverse[:, None]), [BLOCK // 2, 2]))
        pair = first // 2 + tl.arange(0, BLOCK // 2)
        tl.store(codes + row * (cols // 2) + pair, (low | (high << 4)).to(tl.uint8), mask=pair < cols // 2)


@triton.jit
def add_rms_norm(x, residual, weight, codes, scales, multiplier, eps, cols, FORMAT: tl.constexpr, BLOCK: tl.constexpr,
                 PDL: tl.constexpr, EARLY: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    if PDL:
        gdc_wait()
        if EARLY:
            gdc_launch_dependents()
    h = tl.load(x + row * cols + at, mask=inside, other=0.0).to(tl.float32)
    h += tl.load(residual + row * cols + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(residual + row * cols + at, h.to(tl.bfloat16), mask=inside)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    y = h * tl.rsqrt(tl.sum(h * h, 0) / cols + eps) * (1.0 + w)
    store_quantized(y.to(tl.bfloat16).to(tl.float32), row, 0, cols, codes, scales, multiplier, FORMAT, BLOCK)
    if PDL:
        if not EARLY:
            gdc_launch_dependents()


@triton.jit
def silu_mul(x, codes, scales, multiplier, cols, FORMAT: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
             EARLY: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * BLOCK
    at = first + tl.arange(0, BLOCK)
    inside = at < cols
    if PDL:
        gdc_wait()
        if EARLY:
            gdc_launch_dependents()
    gate = tl.load(x + row * 2 * cols + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * cols + cols + at, mask=inside, other=0.0).to(tl.float32)
    y = (gate * tl.sigmoid(gate)).to(tl.bfloat16).to(tl.float32) * up
    store_quantized(y.to(tl.bfloat16).to(tl.float32), row, first, cols, codes, scales, multiplier, FORMAT, BLOCK)
    if PDL:
        if not EARLY:
            gdc_launch_dependents()


def variant(op, format, rows, cols, tiles=False):
    """(block, warps, early): what is compiled, but for the kernel and the format."""
    early = rows <= 128
    if tiles:
        return TILE, 4, early
    block = max(256, triton.next_power_of_2(cols))
    few = 128 if format == "nvfp4" else 384
    warps = min(16 if rows <= few else 4, max(1, block // 256))
    return block, max(warps, block // 2048), early


def launch(op, format, b, rows, cols, eps=1e-6, tiles=False, as_if_rows=None, pdl=None):
    """b: x, residual, weight, codes, scales (bytes, or float for e4m3), multiplier (one float)."""
    block, warps, early = variant(op, format, as_if_rows or rows, cols, tiles)
    options = {"FORMAT": FORMATS.index(format), "BLOCK": block, "EARLY": early, "num_warps": warps}
    options["PDL"] = HAS_PDL if pdl is None else pdl
    if options["PDL"]:
        options["launch_pdl"] = True
    if op == "act_mul":
        grid = rows, triton.cdiv(cols, block)
        silu_mul[grid](b.x, b.codes, b.scales, b.multiplier, cols, **options)
    else:
        add_rms_norm[(rows,)](b.x, b.residual, b.weight, b.codes, b.scales, b.multiplier, eps, cols, **options)


def offers(op, format, tiles=False):
    return not tiles or (op == "act_mul" and format != "e4m3 token")


class Buffers:
    def __init__(self, op, format, rows, cols, device):
        new = lambda *shape: torch.randn(*shape, device=device).to(torch.bfloat16)  # noqa: E731
        self.x = new(rows, 2 * cols if op == "act_mul" else cols)
        self.residual, self.weight = new(rows, cols), new(cols) * 0.1
        fp8 = torch.float8_e4m3fn
        self.codes = torch.empty(rows, cols, dtype=fp8, device=device)
        if format == "nvfp4":
            self.codes = torch.empty(rows, cols // 2, dtype=torch.uint8, device=device)
        block = {"nvfp4": 16, "mxfp8": 32}.get(format)
        if block:
            groups = -(-cols // block)
            self.scales = torch.zeros((rows + 127) // 128 * 128 * ((groups + 3) // 4 * 4), dtype=torch.uint8,
                                      device=device)
        else:
            self.scales = torch.zeros(rows * ((cols + 127) // 128), device=device)
        self.multiplier = torch.tensor([8.0], device=device)


def warm(part, ops, formats, rows, cols, device="cuda"):
    """Compiles every variant whose number is `part` = (i, n) modulo n into the cache on disk, by one launch of one row
    each."""
    seen = {}
    for op in ops:
        for format in formats:
            for c in cols:
                for tiles in (False, True):
                    for r in rows if offers(op, format, tiles) else ():
                        seen.setdefault((op, format, variant(op, format, r, c, tiles), c % 16 == 0, tiles), (r, c))
    done = 0
    for number, ((op, format, _, _, tiles), (r, c)) in enumerate(seen.items()):
        if number % part[1] == part[0]:
            try:
                launch(op, format, Buffers(op, format, 1, c, device), 1, c, tiles=tiles, as_if_rows=r)
                done += 1
            except Exception as error:  # noqa: BLE001
                print(f"triton {op} {format} rows {r} cols {c}: {type(error).__name__}: {error}", flush=True)
    if device == "cuda":
        torch.cuda.synchronize()
    return done


def reference(op, format, b, eps=1e-6):
    """(y, sum) in torch, rounded where the kernels round."""
    x = b.x.float()
    if op == "act_mul":
        gate, up = x.chunk(2, -1)
        return (torch.nn.functional.silu(gate).to(torch.bfloat16).float() * up).to(torch.bfloat16), None
    h = x + b.residual.float()
    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps) * (1 + b.weight.float())
    return y.to(torch.bfloat16), h.to(torch.bfloat16)


def decoded(format, b, rows, cols):
    """The values that codes and scales stand for."""
    if format == "nvfp4":
        table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6] + [-v for v in (0, 0.5, 1, 1.5, 2, 3, 4, 6)],
                             device=b.x.device)
        codes = torch.stack((b.codes & 15, b.codes >> 4), -1).reshape(rows, cols)
        values, block = table[codes.long()], 16
    else:
        values, block = b.codes.float(), {"mxfp8": 32, "e4m3 group128": 128, "e4m3 token": cols}.get(format)
    if format == "e4m3 tensor":
        return values / b.multiplier
    if format in ("nvfp4", "mxfp8"):
        groups = -(-cols // block)
        r, g = torch.arange(rows, device=b.x.device)[:, None], torch.arange(groups, device=b.x.device)[None]
        at = ((r // 128) * ((groups + 3) // 4) + g // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + g % 4
        raw = b.scales[at]
        s = raw.view(torch.float8_e4m3fn).float() / b.multiplier if format == "nvfp4" else torch.exp2(raw.float() - 127)
    else:
        s = b.scales[:rows * -(-cols // block)].reshape(rows, -1)
    return values * s.repeat_interleave(block, 1)[:, :cols]


def check(device="cuda", pdl=None):
    """Relative error of the decoded values against y, for each kernel: about 0.03 for 8 bits, 0.1 for 4."""
    worst = True
    for op in ("act_mul", "rms_norm"):
        for format in FORMATS:
            for rows, cols in ((3, 2880), (130, 4096)):
                for tiles in (False, True) if offers(op, format, True) else (False,):
                    b = Buffers(op, format, rows, cols, device)
                    y, h = reference(op, format, b)
                    launch(op, format, b, rows, cols, tiles=tiles, pdl=pdl)
                    found = decoded(format, b, rows, cols)
                    error = float((found - y.float()).norm() / y.float().norm())
                    same = h is None or bool((b.residual == h).all())
                    good = error < (0.2 if format == "nvfp4" else 0.05) and same
                    worst &= good
                    print(f"{op} {format} {rows} x {cols}{' tiles' if tiles else ''}: relative error {error:.4f}"
                          f"{'' if same else ', residual differs'}{'' if good else ' WRONG'}", flush=True)
    return worst


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--warm", metavar="I/N")
    parser.add_argument("--ops", default="act_mul,rms_norm")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--rows", type=numbers, default=[1, 256, 4096])
    parser.add_argument("--cols", type=numbers, default=[2048, 4096, 8192, 14336])
    given = parser.parse_args()
    if given.warm:
        index, count = given.warm.split("/")
        warm((int(index), int(count)), given.ops.split(","), given.formats.split(","), given.rows, given.cols)
    if given.check:
        return 0 if check() else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
