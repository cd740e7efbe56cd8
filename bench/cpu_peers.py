#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cpu_peers.py: epiq beside what else makes the same codes on a CPU: PyTorch (eager, torch.compile) and ml_dtypes.

usage: cpu_peers.py EPIQ [--rows N] [--cols N] [--cold MIB] [--threads N] [--seconds S] [--measured FILE]

EPIQ is the command; its times are those of `epiq bench`, at the same shape, thread count and cold buffers, or of lines
"NAME;ns a row;ns a row of memcpy" in FILE. A peer runs the unfused chain on its own tensors: as many sets of buffers as
make up --cold MiB, taken in turn, the least time of all calls. Peers that are not installed are left out and named. The
table is Markdown, as in doc/performance.md.
"""

import argparse
import itertools
import json
import subprocess
import sys
import time

WORK = [  # name, options of epiq bench
    ("quantize e4m3", ["quantize", "--format", "e4m3", "--inv-scale", "2"]),
    ("quantize e4m3 token", ["quantize", "--format", "e4m3", "--grain", "token"]),
    ("rms_norm + residual e4m3", ["rms-norm", "--residual", "yes", "--residual-out", "--format", "e4m3",
                                  "--inv-scale", "2"]),
    ("swiglu e4m3 vllm", ["act-mul", "--format", "e4m3", "--inv-scale", "2", "--chain", "vllm"]),
    ("swiglu e4m3 direct", ["act-mul", "--format", "e4m3", "--inv-scale", "2", "--chain", "direct"]),
    ("quantize mxfp8", ["quantize", "--format", "mxfp8"]),
]


def wanted(a):
    return [row for row in WORK if a.only in row[0]]


def least_ns(call, sets, seconds):
    """The least time of one call, over sets of buffers in turn."""
    best, end = float("inf"), time.monotonic() + seconds
    for i, one in enumerate(itertools.cycle(sets)):
        if i > 2 * len(sets) and time.monotonic() > end:
            return best
        start = time.perf_counter_ns()
        call(one)
        elapsed = time.perf_counter_ns() - start
        if i >= len(sets):  # the first round touches the pages
            best = min(best, elapsed)


def epiq(command, name, options, a):
    if a.measured:
        for line in open(a.measured):
            if line.split(";")[0] == name:
                return [float(ns) * a.rows for ns in line.split(";")[1:]]
    words = [command, "bench", *options, "--rows", a.rows, "--cols", a.cols, "--cold", a.cold, "--threads", a.threads,
             "--json"]
    out = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout
    result = json.loads(out)["results"][0]
    return result["ns_per_row"] * a.rows, result["copy_ns_per_row"] * a.rows


def torch_work(torch, name):
    """The chain as PyTorch programs write it: (x, other, weight) -> codes."""
    f8, t = torch.float8_e4m3fn, torch.bfloat16
    clamp = lambda v: v.clamp(-448.0, 448.0).to(f8)

    def quantize(x, other, weight):
        return clamp(x.float() * 2.0)

    def token(x, other, weight):
        s = (x.float().abs().amax(-1, keepdim=True) / 448.0).clamp_min(1 / (448.0 * 512.0))
        return clamp(x.float() / s), s

    def rms_norm(x, other, weight):
        h = x + other
        v = h.float()
        y = (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6)).to(t) * weight
        return h, clamp(y.float() * 2.0)

    def swiglu_vllm(x, other, weight):
        gate, up = x.chunk(2, -1)
        return clamp((torch.nn.functional.silu(gate) * up).float() * 2.0)

    def swiglu_direct(x, other, weight):
        gate, up = x.chunk(2, -1)
        return clamp(torch.nn.functional.silu(gate.float()) * up.float() * 2.0)

    def mxfp8(x, other, weight):
        v = x.float().unflatten(-1, (-1, 32))
        e = torch.ceil(torch.log2(v.abs().amax(-1, keepdim=True).clamp_min(2.0**-127) / 448.0))
        return clamp(v * torch.exp2(-e)), (e + 127).to(torch.uint8)

    return [quantize, token, rms_norm, swiglu_vllm, swiglu_direct, mxfp8][[w[0] for w in WORK].index(name)]


def torch_times(torch, a):
    torch.set_num_threads(a.threads)
    weight = torch.randn(a.cols).bfloat16()
    times = {}
    for name, _ in wanted(a):
        work, width = torch_work(torch, name), a.cols * (2 if name.startswith("swiglu") else 1)
        count = 1 + (a.cold << 20) // (a.rows * width * 3)
        first = torch.randn(a.rows, width).bfloat16(), torch.randn(a.rows, a.cols).bfloat16()
        sets = [(first[0].clone(), first[1].clone(), weight) for _ in range(count)]
        with torch.no_grad():
            times[name] = [least_ns(lambda one: work(*one), sets, a.seconds)]
            try:
                compiled = torch.compile(work)
                compiled(*sets[0])
                times[name].append(least_ns(lambda one: compiled(*one), sets, a.seconds))
            except Exception as reason:  # no compiler, no support: said, not guessed
                print(f"torch.compile of {name}: {type(reason).__name__}", file=sys.stderr)
                times[name].append(None)
    return times


def ml_dtypes_times(numpy, ml_dtypes, a):
    """One thread: numpy has no other way."""
    bf16, f8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
    random = numpy.random.default_rng(1)

    def clamp(v):
        return numpy.clip(v, -448.0, 448.0).astype(f8)

    def swiglu(x):
        gate, up = numpy.split(x.astype(numpy.float32), 2, -1)
        return clamp(gate / (1 + numpy.exp(-gate)) * up * numpy.float32(2))

    def token(x):
        v = x.astype(numpy.float32)
        s = numpy.maximum(numpy.abs(v).max(-1, keepdims=True) / 448, 1 / (448 * 512)).astype(numpy.float32)
        return clamp(v / s), s

    work = {"quantize e4m3": lambda x: clamp(x.astype(numpy.float32) * numpy.float32(2)), "quantize e4m3 token": token,
            "swiglu e4m3 direct": swiglu}
    times = {}
    for name, call in work.items():
        if a.only not in name:
            continue
        width = a.cols * (2 if name.startswith("swiglu") else 1)
        count = 1 + (a.cold << 20) // (a.rows * width * 3)
        first = random.standard_normal((a.rows, width), dtype=numpy.float32).astype(bf16)
        times[name] = least_ns(call, [first.copy() for _ in range(count)], a.seconds)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("epiq")
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--cols", type=int, default=4096)
    parser.add_argument("--cold", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--measured")
    parser.add_argument("--only", default="", help="the rows with this in their names")
    a = parser.parse_args()
    peers, columns = {}, []
    try:
        import torch

        peers["torch"] = torch_times(torch, a)
        columns += [f"PyTorch {torch.__version__} eager", "torch.compile"]
    except ImportError as reason:
        print(f"PyTorch is left out: {reason}", file=sys.stderr)
    try:
        import ml_dtypes
        import numpy

        peers["ml_dtypes"] = ml_dtypes_times(numpy, ml_dtypes, a)
        columns.append(f"ml_dtypes {ml_dtypes.__version__}, numpy {numpy.__version__}")
    except ImportError as reason:
        print(f"ml_dtypes is left out: {reason}", file=sys.stderr)
    print(f"| us a call of [{a.rows}, {a.cols}], {a.threads} thread(s) | memcpy | epiq | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 3) + "|")
    for name, options in wanted(a):
        ns, copy = epiq(a.epiq, name, options, a)
        cells = [copy, ns]
        if "torch" in peers:
            cells += peers["torch"][name]
        if "ml_dtypes" in peers:
            cells.append(peers["ml_dtypes"].get(name))
        text = ["-" if c is None else f"{c / 1e3:.0f}" + (f" ({c / ns:.1f}x)" if i > 1 else "")
                for i, c in enumerate(cells)]
        print(f"| {name} | " + " | ".join(text) + " |")


if __name__ == "__main__":
    main()
