#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_sweep.py: epiq beside its peers over formats, rows and columns, in one process on one GPU.

    EPIQ_LIBRARY=build/cuda/libepiq.so PYTHONPATH=python python3 bench/gpu_sweep.py --seconds 330 \\
        --libraries build/peers --csv sweep.csv >sweep.md

--libraries: the folder with what bench/peers/build_peers.sh built. A peer that cannot be had is named with the reason
and left out; so is a point that a peer, or epiq, refuses.

Operations: act_mul (SwiGLU), rms_norm (Gemma weights, a residual added in place). x is bf16. Formats: e4m3 with a
static scale (tensor), a scale a row (token) or 128 columns (group128); nvfp4 and mxfp8 with block scales in tiles of
128 x 4, whose padding is left alone, as the peers do.

Peers:
    flashinfer     FlashInfer's fused kernel: a norm with a static FP8 scale
    fi_chain       two launches: FlashInfer's silu_and_mul or norm to bf16, then FlashInfer's own quantizer
    fi_then_epiq   two launches: the same, then epiq.quantize, where FlashInfer has no quantizer for this GPU
    triton         bench/peers/triton_peers.py, one program a row
    triton_tiles   the same in tiles of 1024 columns, where no maximum of a row is needed
    seed_a         bench/peers/seed_a.cu, a plain CUDA kernel
    compile        torch.compile of the chain in torch; only at --compile-points, as each takes seconds to compile
and, only if named in --peers, epiq in other settings, which no ratio counts:
    epiq_direct    without the rounding of intermediate results to bf16
    epiq_early     the next kernel may start at once, and the weights and scales count as constants

A number is microseconds a call: a CUDA graph of 100 calls in a row (fewer where a call takes long), the median over
replays, of all peers of a point in turns. Calls that move more than 30 MB take turns over buffers of more than 200 MB
together, so that the L2 cache holds none of it; smaller ones repeat on the same buffers.
"""

import argparse
import csv
import ctypes
import gc
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import epiq

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

BF16, EPS = torch.bfloat16, 1e-6
MULTIPLIER = 8.0
OPS = ("act_mul", "rms_norm")
FORMATS = {
    "e4m3 tensor": {"format": "e4m3", "grain": "tensor"},
    "e4m3 token": {"format": "e4m3", "grain": "token"},
    "e4m3 group128": {"format": "e4m3", "grain": "group", "group": 128},
    "nvfp4": {"format": "nvfp4", "layout": "tile128x4", "pad_rows": "keep"},
    "mxfp8": {"format": "mxfp8", "layout": "tile128x4", "pad_rows": "keep"},
}
STATIC = ("e4m3 tensor", "nvfp4")  # which read a scale
ROWS = (1, 8, 32, 128, 384, 1024, 4096, 16384)
COLS = (2048, 2880, 4096, 5120, 8192, 14336)
ODD_COLS = (1368, 3584, 5376, 7168, 11008)
PEERS = ("epiq", "flashinfer", "fi_chain", "fi_then_epiq", "triton", "triton_tiles", "seed_a", "compile")
OWN = ("epiq", "epiq_direct", "epiq_early")
RESIDENT, ROTATED = 30e6, 200e6
REPLAYS, ROUNDS = 5, 3


class Absent(Exception):
    """A peer does not offer this point, or is not here."""


def traffic(op, format, rows, cols):
    """Bytes that a call must read and write."""
    code, group = {"nvfp4": (0.5, 16), "mxfp8": (1, 32), "e4m3 group128": (1, 32)}.get(format, (1, 0))
    return rows * cols * ((4 if op == "act_mul" else 6) + code + (1 / group if group else 0))


# ---- Buffers of a point
# ---------------------------------------------------------------------------------------------------


class Buffers:
    """Of one call. scales: what epiq stores, flat; fi_scales: what FlashInfer's quantizers store."""


class Point:
    def __init__(self, op, format, rows, cols, values):
        self.op, self.format, self.rows, self.cols = op, format, rows, cols
        self.values = values
        self.options = FORMATS[format]
        self.bytes = traffic(op, format, rows, cols)
        count = 1 if self.bytes <= RESIDENT else max(2, math.ceil(ROTATED / self.bytes) + 1)
        self.calls = 100 if self.bytes < RESIDENT else 20 if self.bytes < 200e6 else 6
        self.calls = max(count, self.calls // count * count)
        self.weight, self.multiplier, self.scale = values.weight[:cols], values.multiplier, values.scale
        present = ("inv_scale",) if format in STATIC else ()
        if op == "rms_norm":
            present += ("residual", "residual_out")
        options = dict(self.options, **({"eps": EPS, "weight_bias": 1.0} if op == "rms_norm" else {}))
        self.width = 2 * cols if op == "act_mul" else cols
        answer = epiq.sizes(op, rows, self.width, present=present, **options)
        self.sets = [self.new_set(answer) for _ in range(count)]

    def new_set(self, answer):
        device, b = self.values.device, Buffers()
        b.x = torch.empty(self.rows, self.width, dtype=BF16, device=device)
        b.residual = torch.empty(self.rows, self.cols, dtype=BF16, device=device) if self.op == "rms_norm" else None
        b.y = torch.empty(self.rows, self.cols, dtype=BF16, device=device)
        packed = self.format == "nvfp4"
        b.codes = torch.empty(self.rows, self.cols // 2 if packed else self.cols,
                              dtype=torch.uint8 if packed else torch.float8_e4m3fn, device=device)
        b.stored = b.scales = None
        if answer.scale_bytes > 0:
            dtype = torch.float32 if answer.scale_dtype == "f32" else torch.uint8
            b.stored = torch.zeros(answer.scale_shape, dtype=dtype, device=device)
            b.scales = b.stored.view(-1)
        else:
            b.scales = torch.zeros(4, device=device)
        b.fi_scales = torch.zeros((self.cols + 127) // 128 * ((self.rows + 3) // 4 * 4), device=device)
        b.weight, b.multiplier = self.weight, self.multiplier
        return b

    def fresh(self):
        """Puts the inputs back; peers overwrite them."""
        for number, b in enumerate(self.sets):
            self.values.fill(b.x, 7919 * number)
            if b.residual is not None:
                self.values.fill(b.residual, 104729 + 7919 * number)


class Values:
    """Random inputs, made once."""

    def __init__(self, device, count=1 << 25):
        torch.manual_seed(0)
        self.device = device
        self.master = torch.randn(count, device=device).to(BF16)
        self.weight = (torch.randn(1 << 16, device=device) * 0.2).to(BF16)
        self.multiplier = torch.tensor([MULTIPLIER], device=device)
        self.scale = torch.tensor([1 / MULTIPLIER], device=device)

    def fill(self, tensor, offset):
        flat = tensor.view(-1)
        done = 0
        offset = offset * 8 % (len(self.master) // 2)
        while done < len(flat):
            part = min(len(flat) - done, len(self.master) - offset)
            flat[done: done + part].copy_(self.master[offset: offset + part])
            done, offset = done + part, 0


# ---- Peers. Each answers call(set), or raises Absent
# -----------------------------------------------------------------------------------------------------


def stream():
    return torch.cuda.current_stream().cuda_stream


class Library:
    """A shared library of bench/peers; a function that is not in it is absent."""

    def __init__(self, folder, name):
        self.name, self.reason = name, ""
        try:
            self.loaded = ctypes.CDLL(str(Path(folder).resolve() / f"libpeer_{name}.so"))
        except OSError as error:
            self.loaded, self.reason = None, str(error)

    def __getitem__(self, function):
        if self.loaded is None:
            raise Absent(self.reason)
        try:
            return getattr(self.loaded, function)
        except AttributeError:
            raise Absent(f"libpeer_{self.name}.so was built without {function}") from None


class FlashInfer(Library):
    def __init__(self, folder):
        super().__init__(folder, "flashinfer")

    def call(self, function, p, x=None):
        found = self[f"flashinfer_{function}"]
        found.argtypes = [ctypes.c_void_p] * 7 + [ctypes.c_uint32] * 2 + [ctypes.c_float, ctypes.c_void_p]
        found.restype = ctypes.c_int

        def run(b):
            source = b.x if x is None else getattr(b, x)
            status = found(source.data_ptr(), b.residual.data_ptr() if b.residual is not None else None,
                           b.weight.data_ptr(), b.y.data_ptr(), b.codes.data_ptr(), b.fi_scales.data_ptr(),
                           p.scale.data_ptr(), p.rows, p.cols, EPS, stream())
            if status:
                raise RuntimeError(f"{function}: CUDA error {status}")
        return run

    def first(self, p):
        """(the bf16 half of the chain, which buffer it leaves y in)."""
        if p.op == "act_mul":
            return self.call("silu_and_mul", p), "y"
        return self.call("gemma_add_rms_norm", p), "x"


def peer_epiq(p, **more):
    given = {"inv_scale": p.multiplier} if p.format in STATIC else {}
    options = dict(p.options, **given, **more)
    if p.op == "act_mul":
        return lambda b: epiq.act_mul(b.x, codes_out=b.codes, scale_out=b.stored, **options)
    return lambda b: epiq.rms_norm(b.x, p.weight, EPS, residual=b.residual, residual_out=b.residual, weight_bias=1.0,
                                   codes_out=b.codes, scale_out=b.stored, **options)


def peer_epiq_early(p):
    """The C interface with other fields of epiq_exec, through the Python structs."""
    from epiq import _calls
    call, place = peer_epiq(p), _calls.place

    def early(run, *rest):
        place(run, *rest)
        run.pdl, run.constants = _calls.value("pdl", "early"), 3

    def run(b):
        _calls.place = early
        try:
            call(b)
        finally:
            _calls.place = place
    return run


def peer_flashinfer(p, library):
    if p.op != "rms_norm" or p.format != "e4m3 tensor":
        raise Absent("no such kernel")
    return library.call("add_rms_norm_e4m3", p)  # weights as they are, not 1 + w; the work is the same


def peer_fi_chain(p, library):
    quantizer = {"e4m3 token": "e4m3_token", "e4m3 group128": "e4m3_group128"}.get(p.format)
    if quantizer is None:
        raise Absent("no such kernel" if p.op == "rms_norm" and p.format == "e4m3 tensor"
                     else "FlashInfer has no quantizer to it for this GPU")
    first, where = library.first(p)
    second = library.call(quantizer, p, where)

    def run(b):
        first(b)
        second(b)
    return run


def peer_fi_then_epiq(p, library):
    if p.format in ("e4m3 token", "e4m3 group128"):
        raise Absent("no such kernel")  # fi_chain has it
    first, where = library.first(p)
    given = {"inv_scale": p.multiplier} if p.format in STATIC else {}

    def run(b):
        first(b)
        epiq.quantize(getattr(b, where), codes_out=b.codes, scale_out=b.stored, **p.options, **given)
    return run


def peer_triton(p, tiles):
    try:
        import triton_peers
    except ImportError as error:
        raise Absent(str(error)) from None
    if not triton_peers.offers(p.op, p.format, tiles):
        raise Absent("no such kernel")
    return lambda b: triton_peers.launch(p.op, p.format, b, p.rows, p.cols, EPS, tiles=tiles)


def peer_seed_a(p, library):
    if p.op != "act_mul" or p.format != "e4m3 tensor":
        raise Absent("no such kernel")
    found = library["seed_a_swiglu_e4m3"]
    found.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int] * 2 + [ctypes.c_void_p]
    found.restype = ctypes.c_int

    def run(b):
        status = found(b.x.data_ptr(), b.codes.data_ptr(), p.multiplier.data_ptr(), p.rows, p.cols, stream())
        if status:
            raise RuntimeError(f"CUDA error {status}")
    return run


def peer_compile(p):
    if p.format not in ("e4m3 tensor", "e4m3 token"):
        raise Absent("no such kernel")
    token = p.format == "e4m3 token"

    def quantized(y, inverse):
        f = y.float()
        if token:
            s = (f.abs().amax(-1, keepdim=True) / 448).clamp(min=1 / (448 * 512))
            return (f / s).clamp(-448, 448).to(torch.float8_e4m3fn), s
        return (f * inverse).clamp(-448, 448).to(torch.float8_e4m3fn), None

    def act(x, inverse):
        gate, up = x.chunk(2, -1)
        return quantized(torch.nn.functional.silu(gate) * up, inverse)

    def norm(x, residual, weight, inverse):
        h = x + residual
        residual.copy_(h)
        f = h.float()
        y = (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + EPS) * (1 + weight.float())).to(BF16)
        return quantized(y, inverse)

    torch._dynamo.reset()
    chain = torch.compile(act if p.op == "act_mul" else norm, dynamic=False)
    if p.op == "act_mul":
        return lambda b: chain(b.x, p.multiplier)
    return lambda b: chain(b.x, b.residual, p.weight, p.multiplier)


# ---- Measuring
# ---------------------------------------------------------------------------------------------------------


class Replay:
    """A graph of p.calls calls."""

    def __init__(self, p, call):
        self.calls = p.calls
        p.fresh()
        for b in p.sets[:2]:
            call(b)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        self.graph.capture_begin(capture_error_mode="thread_local")
        try:
            for i in range(p.calls):
                call(p.sets[i % len(p.sets)])
        finally:
            self.graph.capture_end()
        p.fresh()
        for _ in range(2):
            self.graph.replay()
        torch.cuda.synchronize()

    def microseconds(self, replays):
        times = []
        for _ in range(replays):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            self.graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / self.calls)
        return times


class Sweep:
    def __init__(self, given):
        self.given, self.begin = given, time.monotonic()
        self.values = Values("cuda")
        flashinfer, seed_a = FlashInfer(given.libraries), Library(given.libraries, "seed_a")
        self.peers = {
            "epiq": peer_epiq,
            "epiq_direct": lambda p: peer_epiq(p, chain="direct"),
            "epiq_early": peer_epiq_early,
            "flashinfer": lambda p: peer_flashinfer(p, flashinfer),
            "fi_chain": lambda p: peer_fi_chain(p, flashinfer),
            "fi_then_epiq": lambda p: peer_fi_then_epiq(p, flashinfer),
            "triton": lambda p: peer_triton(p, False),
            "triton_tiles": lambda p: peer_triton(p, True),
            "seed_a": lambda p: peer_seed_a(p, seed_a),
            "compile": peer_compile,
        }
        self.times = {}  # (op, format, rows, cols) -> {peer: us}
        self.said, self.skipped, self.lost, self.checked = set(), [], False, set()

    def left(self):
        return self.given.seconds - (time.monotonic() - self.begin)

    def say(self, *words):
        """On stderr, once."""
        text = " ".join(str(word) for word in words)
        if text not in self.said:
            self.said.add(text)
            print(text, file=sys.stderr, flush=True)

    def points(self):
        g = self.given
        grid = [(op, format, rows, cols, False) for op in g.ops for format in g.formats for cols in g.cols
                for rows in g.rows]
        if "compile" in g.peers:
            rows, cols = g.compile_points
            grid += [(op, format, m, h, True) for op in g.ops for format in g.formats if format in
                     ("e4m3 tensor", "e4m3 token") for h in cols for m in rows]
        return grid

    def compare(self, p, name, call, wanted):
        """Once a peer and format: how many codes are not those of epiq, so that a kernel that does nothing is seen."""
        key = p.op, p.format, name
        if wanted is None or key in self.checked or name == "compile":
            return
        self.checked.add(key)
        p.fresh()
        b = p.sets[0]
        b.codes.view(torch.uint8).fill_(0x2B)
        call(b)
        torch.cuda.synchronize()
        different = float((b.codes.view(torch.uint8) != wanted).float().mean())
        remark = " (plain weights, not 1 + w)" if name == "flashinfer" else ""
        if different > 0.05:
            remark += " SUSPICIOUS" if not remark else ""
        self.say(f"{p.op} {p.format} {p.rows} x {p.cols}: {100 * different:.2f} % of the codes of {name} are not "
                 f"those of epiq{remark}")

    def measure(self, op, format, rows, cols, compiled):
        try:
            p = Point(op, format, rows, cols, self.values)
        except Exception as error:  # noqa: BLE001
            self.say(f"{op} {format} cols {cols}: left out: {error}")
            return
        replays, wanted = {}, None
        for name in self.given.peers:
            if (name == "compile") != (compiled and name == "compile"):
                continue
            try:
                call = self.peers[name](p)
                replays[name] = Replay(p, call)
                self.compare(p, name, call, wanted)
                if name == "epiq":
                    p.fresh()
                    call(p.sets[0])
                    wanted = p.sets[0].codes.view(torch.uint8).clone()
            except Absent as reason:
                if str(reason) != "no such kernel":
                    self.say(f"{name}: {op} {format}: absent: {reason}")
            except Exception as error:  # noqa: BLE001
                self.say(f"{name}: {op} {format} {rows} x {cols}: {type(error).__name__}: {str(error)[:300]}")
                try:
                    torch.cuda.synchronize()
                except Exception as fatal:  # noqa: BLE001
                    self.lost = True
                    print(f"the GPU is lost to this process: {fatal}", file=sys.stderr, flush=True)
                    return
        times = {name: [] for name in replays}
        for _ in range(ROUNDS):
            for name, replay in replays.items():
                times[name] += replay.microseconds(REPLAYS)
        found = self.times.setdefault((op, format, rows, cols), {})
        for name, measured in times.items():
            found[name] = statistics.median(measured)

    def warm_triton(self):
        """Compiles the Triton kernels in other processes into the cache on disk; without it each would be compiled
        here, one after the other."""
        if not any(name.startswith("triton") for name in self.given.peers) or self.given.workers < 1:
            return
        script = Path(__file__).resolve().parent / "peers" / "triton_peers.py"
        g, began = self.given, time.monotonic()
        command = [sys.executable, str(script), "--ops", ",".join(g.ops), "--formats", ",".join(g.formats), "--rows",
                   ",".join(map(str, sorted({*g.rows, *g.compile_points[0]}))), "--cols",
                   ",".join(map(str, sorted({*g.cols, *g.compile_points[1]}))), "--warm"]
        try:
            workers = [subprocess.Popen([*command, f"{i}/{g.workers}"], stdout=sys.stderr) for i in range(g.workers)]
            for worker in workers:
                try:
                    worker.wait(max(1, min(90, self.left() / 3)))
                except subprocess.TimeoutExpired:
                    worker.kill()
                    self.say("a compiler of Triton kernels took too long")
        except OSError as error:
            self.say(f"no compilers of Triton kernels beside this process: {error}")
        print(f"Triton kernels compiled in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    def run(self):
        self.warm_triton()
        torch.cuda.synchronize()
        gc.disable()
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            for number, point in enumerate(self.points()):
                if self.lost or self.left() < (15 if point[4] else 3):
                    self.skipped.append(point)
                    continue
                try:
                    self.measure(*point)
                except Exception as error:  # noqa: BLE001
                    self.say(f"{point[:4]}: {type(error).__name__}: {str(error)[:300]}")
                if number % 40 == 39:
                    gc.collect()
                    torch.cuda.empty_cache()
                    print(f"{number + 1} points, {self.left():.0f} s left", file=sys.stderr, flush=True)
                    if self.given.csv:
                        write_csv(self.given.csv, self.times)


# ---- What is found
# ---------------------------------------------------------------------------------------------------------


def write_csv(path, times):
    with open(path, "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("op", "format", "rows", "cols", "peer", "us"))
        for point, found in times.items():
            for name, us in found.items():
                rows.writerow((*point, name, f"{us:.3f}"))


def read_csv(path):
    times = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            point = row["op"], row["format"], int(row["rows"]), int(row["cols"])
            times.setdefault(point, {})[row["peer"]] = float(row["us"])
    return times


def best_peer(found):
    others = [(us, name) for name, us in found.items() if name not in OWN]
    return min(others) if others and "epiq" in found else None


def geomean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def uneven(times):
    """Where epiq's time is not what the time of a neighbour lets expect."""
    series = {}
    for (op, format, rows, cols), found in times.items():
        if "epiq" in found:
            series.setdefault((op, format, rows), []).append((cols, found["epiq"]))
    for (op, format, rows), line in series.items():
        line.sort()
        for (h, t), (wider, u) in zip(line, line[1:]):
            if t > 1.15 * u:
                yield f"{op} {format} rows {rows}: {h} columns take {t:.2f} us, {wider} take {u:.2f} us"
            sizes = [traffic(op, format, rows, n) for n in (h, wider)]
            ratio = (t / sizes[0]) / (u / sizes[1])
            if min(sizes) > 64e6 and not 1 / 1.3 <= ratio <= 1.3:
                yield (f"{op} {format} rows {rows}: time a byte of {h} columns is {ratio:.2f} times that of {wider} "
                       "columns")


def summary(times, skipped):
    out = ["| operation | format | points | best peer over epiq, geometric mean | least | behind by 5 % or more |",
           "|---|---|---|---|---|---|"]
    behind, against = [], {}
    for op in OPS:
        for format in FORMATS:
            ratios = []
            for (o, f, rows, cols), found in times.items():
                best = best_peer(found) if (o, f) == (op, format) else None
                if best is None:
                    continue
                ratios.append(best[0] / found["epiq"])
                for name, us in found.items():
                    if name not in OWN:
                        against.setdefault((op, format, name), []).append(us / found["epiq"])
                if found["epiq"] > 1.05 * best[0]:
                    behind.append((found["epiq"] / best[0], f"{op} {format} {rows} x {cols}: {found['epiq']:.2f} us, "
                                                            f"{best[1]} {best[0]:.2f} us"))
            if ratios:
                late = sum(ratio < 1 / 1.05 for ratio in ratios)
                out.append(f"| {op} | {format} | {len(ratios)} | {geomean(ratios):.3f} | {min(ratios):.3f} | {late} |")
    out += ["", "Each peer's time over epiq's:", "", "| operation | format | peer | points | geometric mean | least |",
            "|---|---|---|---|---|---|"]
    for (op, format, name), ratios in against.items():
        out.append(f"| {op} | {format} | {name} | {len(ratios)} | {geomean(ratios):.3f} | {min(ratios):.3f} |")
    out += ["", f"More than 5 % behind the best peer: {len(behind)} points."]
    out += [f"- {factor:.2f}x: {text}" for factor, text in sorted(behind, reverse=True)]
    faults = list(uneven(times))
    out += ["", "Checks of epiq alone (no width slower than 1.15 times the next wider; above 64 MB time a byte within "
            f"1.3 times the neighbour's): {len(faults)} faults."]
    out += [f"- {fault}" for fault in faults]
    if skipped:
        out += ["", f"Skipped, out of time: {len(skipped)} points, the first {' '.join(map(str, skipped[0][:4]))}."]
    return "\n".join(out)


def words_of(text):
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers(text):
    return [int(n) for n in words_of(text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ops", type=words_of, default=list(OPS))
    parser.add_argument("--formats", type=words_of, default=list(FORMATS))
    parser.add_argument("--rows", type=numbers, default=list(ROWS))
    parser.add_argument("--cols", type=numbers, default=list(COLS))
    parser.add_argument("--odd", action="store_true", help=f"also columns {ODD_COLS}")
    parser.add_argument("--peers", type=words_of, default=list(PEERS))
    parser.add_argument("--compile-points", default="1,16,128,1024x4096", help="ROWSxCOLUMNS, 0x0 for none")
    parser.add_argument("--seconds", type=float, default=330)
    parser.add_argument("--libraries", default="build/peers", help="the folder with libpeer_*.so")
    parser.add_argument("--workers", type=int, default=8, help="processes that compile Triton kernels")
    parser.add_argument("--csv", help="written; with --read, read instead of measuring")
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    if given.read:
        print(summary(read_csv(given.csv), []))
        return 0
    for name, known in (("ops", OPS), ("formats", FORMATS), ("peers", (*PEERS, *OWN))):
        for word in getattr(given, name):
            if word not in known:
                parser.error(f"--{name}: {word!r} is none of {', '.join(known)}")
    if "epiq" not in given.peers:
        given.peers.insert(0, "epiq")
    given.peers.sort(key=lambda name: name != "epiq")
    if given.odd:
        given.cols = sorted({*given.cols, *ODD_COLS})
    rows, cols = given.compile_points.split("x")
    given.compile_points = [n for n in numbers(rows) if n], [n for n in numbers(cols) if n]
    usable, text = epiq.backend_usable("cuda", 0)
    if not usable:
        print(f"epiq: {text}", file=sys.stderr)
        return 1
    sweep = Sweep(given)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {epiq.info()['build']}; peers asked for: "
          f"{', '.join(given.peers)}\n")
    try:
        sweep.run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        if given.csv:
            write_csv(given.csv, sweep.times)
        print(summary(sweep.times, sweep.skipped), flush=True)
        took = time.monotonic() - sweep.begin
        print(f"{len(sweep.times)} points in {took:.0f} s, {len(sweep.skipped)} skipped", file=sys.stderr, flush=True)
    return 0 if sweep.times and not sweep.lost else 1


if __name__ == "__main__":
    sys.exit(main())
