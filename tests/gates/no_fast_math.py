#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""no_fast_math.py: the library is compiled with IEEE arithmetic and cannot be compiled without.

usage: no_fast_math.py SOURCE_ROOT BUILD_FOLDER

1. In compile_commands.json every file of src/ has the flags of cmake/epiq_flags.cmake and none that relaxes them.
2. Each header of src/arith compiles alone, and stops with our #error when a fast-math flag is added.
3. CMake refuses such a flag in CFLAGS.

Seen failing: with -ffp-contract=off, then -fno-fast-math removed from epiq_flags.cmake, with -Ofast and with
-fassociative-math added to it, with the #error of src/arith/lane_c.h removed, and with the refusal in
epiq_flags.cmake removed.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

REQUIRED = ["-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-fvisibility=hidden"]
FORBIDDEN = re.compile(
    r"-(Ofast|ffast-math|funsafe-math-optimizations|ffinite-math-only|fno-signed-zeros|fassociative-math"
    r"|freciprocal-math|mrecip\S*|ffp-contract=(fast|on)|ffp-model=(?!strict|precise)\S+|fsingle-precision-constant"
    r"|mdaz-ftz|fdenormal-fp-math=\S+|fexcess-precision=fast|mfpmath=387|m32)$")
FAST_MATH = ["-ffast-math", "-Ofast", "-ffinite-math-only"]


def check_flags(commands, source):
    seen = 0
    for command in commands:
        file = Path(command["file"])
        if not file.is_relative_to(source / "src"):
            continue
        seen += 1
        words = shlex.split(command["command"])
        for flag in REQUIRED:
            if flag not in words:
                yield f"{file.name}: compiled without {flag}"
        for word in words:
            if FORBIDDEN.match(word):
                yield f"{file.name}: compiled with {word}"
    if not seen:
        yield "compile_commands.json names no file of src/"


def check_guards(compiler, source):
    headers = sorted((source / "src/arith").glob("*.h"))
    # A lane header is chosen by the including file: a header of formulas comes after one, as in src/cpu.
    lane = '#include "arith/lane_c.h"\n'
    for header in headers:
        if header.name.startswith("lane_") and header.name != "lane_c.h":
            continue  # for other instruction sets
        program = ("" if header.name == "lane_c.h" else lane) + f'#include "arith/{header.name}"\n'

        def compile_with(*flags):
            words = [compiler, "-std=c11", "-fsyntax-only", "-x", "c", f"-I{source / 'src'}", *flags, "-"]
            return subprocess.run(words, input=program, capture_output=True, text=True)

        plain = compile_with("-O2")
        if plain.returncode:
            yield f"{header.name} does not compile alone:\n{plain.stderr}"
            continue
        for flag in FAST_MATH:
            result = compile_with("-O2", flag)
            if result.returncode == 0:
                yield f"{header.name} compiles with {flag}: its #error is missing"
            elif "-ffast-math" not in result.stderr:
                yield f"{header.name} fails with {flag}, but not by its #error:\n{result.stderr}"
    if not headers:
        yield "src/arith holds no header"


def check_refusal(compiler, source):
    with tempfile.TemporaryDirectory() as folder:
        words = ["cmake", "-S", source, "-B", folder, "-DCMAKE_C_FLAGS=-ffast-math", "-DEPIQ_TOOLS=OFF"]
        result = subprocess.run(words, env={**os.environ, "CC": compiler}, capture_output=True, text=True)
    if result.returncode == 0 or "cannot be compiled with -ffast-math" not in " ".join(result.stderr.split()):
        yield "CMake accepts CFLAGS=-ffast-math"


def main():
    source, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    commands = json.loads((build / "compile_commands.json").read_text())
    compiler = shlex.split(commands[0]["command"])[0]
    faults = [*check_flags(commands, source), *check_guards(compiler, source), *check_refusal(compiler, source)]
    print("\n".join(faults) if faults else "IEEE arithmetic everywhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
