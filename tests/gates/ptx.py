#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ptx.py: what the CUDA kernels are made of, read off their PTX.

usage: ptx.py SOURCE_ROOT [NVCC]

For compute_80, 90, 100f, 110f and 120f: the conversions that the target promises are there; every kernel waits for the
launches before it where the target can; float arithmetic is rounded explicitly and never flushes subnormals; the
approximate instructions are rcp.approx.ftz.f32, the seed of proven quotients and rcp~ itself, rcp.approx.ftz.f64,
rsqrt.approx.ftz.f32 and ex2.approx.ftz.f32, the seeds in cuda_div_any, cuda_sqrt_normal and cuda_quick_silu, which the
self-test compares with what they stand for. No division of the compiler is left, which would bring its slow path into
every kernel.

Seen failing: with mul.f32 for mul.rn.f32, rcp.approx.f32 for rcp.rn.f32 and div.rn.f32 for a division of its own in
lane_cuda.h, with begin_kernel without its wait, and for files that contain none of the conversions.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = ["act_mul", "act_mul_fast", "dequantize", "quantize", "quantize_fast", "rms_norm", "rms_norm_fast"]
TARGETS = {
    "80": {"files": ["dequantize", "quantize", "quantize_fast"], "wait": False,
           "present": ["cvt.rn.bf16x2.f32", "cvt.rn.f16x2.f32"]},
    "90": {"files": FILES, "wait": True,
           "present": ["cvt.rn.bf16x2.f32", "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32"]},
    "100f": {"files": [name for name in FILES if not name.startswith("act_mul")], "wait": True,
             "present": ["cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32", "cvt.rn.satfinite.e2m1x2.f32"]},
    # Of the families after 100 only what a list of known ones would lose (case SA5): the 4-bit conversion.
    "110f": {"files": ["quantize", "quantize_fast"], "wait": True, "present": ["cvt.rn.satfinite.e2m1x2.f32"]},
    "120f": {"files": ["quantize", "quantize_fast"], "wait": True, "present": ["cvt.rn.satfinite.e2m1x2.f32"]},
}
FLOAT_ARITHMETIC = re.compile(r"^\s*(?:@!?%p\d+\s+)?((?:add|sub|mul|fma|mad|div|rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh)"
                              r"[.\w]*\.b?f(?:32|64|16x2|16)(?:\.\w+)*)\s", re.M)
INSTRUCTION = re.compile(r"^\s+(?!ret;|\.)\S.*;", re.M)
ALLOWED = {"add.rn.f32", "sub.rn.f32", "mul.rn.f32", "fma.rn.f32", "mul.rn.f64", "fma.rn.f64", "fma.rn.bf16x2",
           "fma.rn.f16x2", "rcp.approx.ftz.f32",
           "rcp.approx.ftz.f64", "ex2.approx.ftz.f32", "rsqrt.approx.ftz.f32"}


def main():
    root, nvcc = Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else shutil.which("nvcc")
    if not nvcc:
        print("no nvcc here: the kernels cannot be translated")
        return 77
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for target, rules in TARGETS.items():
            present = set()
            for name in rules["files"]:
                ptx = Path(folder) / f"{name}.ptx"
                subprocess.run([nvcc, "-std=c++17", "-O3", "-ptx", "-arch", f"compute_{target}", "-I", root / "src",
                                "-I", root / "include", "-o", ptx, root / "src/cuda" / f"{name}.cu"], check=True)
                text = ptx.read_text()
                present |= {word for word in rules["present"] if word in text}
                for word in sorted(set(FLOAT_ARITHMETIC.findall(text)) - ALLOWED):
                    faults.append(f"{name}.cu for {target}: {word}")
                kernels = text.split(".entry ")[1:]
                if not kernels:
                    faults.append(f"{name}.cu for {target}: no kernel")
                for kernel in kernels:
                    body = kernel.split("\n}\n")[0]
                    if not INSTRUCTION.search(body):  # a stream kernel where there are none
                        continue
                    if rules["wait"] and "griddepcontrol.wait" not in body:
                        faults.append(f"{name}.cu for {target}: {kernel.split('(')[0]} does not wait")
            for word in rules["present"]:
                if word not in present:
                    faults.append(f"{target}: {word} is nowhere")
    print("\n".join(faults) or f"the PTX for {', '.join(TARGETS)} is as promised")
    return 1 if faults else 0


sys.exit(main())
