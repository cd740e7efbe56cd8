#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""include_arrows.py: the layers include each other in one direction only.

usage: include_arrows.py SOURCE_ROOT

The law below names, for each folder, the files of ours that its files may include, and, where it matters, the
system headers. Every #include of every C file counts, also one in a branch that is not compiled here.

Seen failing: with `#include "core/layout.h"` in src/arith/act.h, `#include <math.h>` in src/cpu/rows_c.c,
`#include "arith/act.h"` in tests/oracle, a quoted name that no file has, and a new folder src/new.
"""

import re
import sys
from fnmatch import fnmatch
from pathlib import Path

PUBLIC = "include/epiq/*"
LEAF = {"float.h", "limits.h", "stdbool.h", "stddef.h", "stdint.h", "string.h", "immintrin.h", "arm_neon.h"}
KERNELS = [PUBLIC, "src/lists.h", "src/arith/*", "src/cpu/*", "src/core/layout.h", "src/core/backend.h",
           "src/core/plan.h", "src/core/fp_state.h"]

# (files it holds for, files of ours they may include, system headers allowed: None for any);
# the first row that fits a file counts
LAW = [
    ("include/epiq/*", [], {"stddef.h", "stdint.h"}),
    ("src/lists.h", [PUBLIC], set()),
    ("src/arith/lane_cuda.h", ["src/arith/*"], LEAF | {"cfloat", "cstdint"}),
    ("src/arith/*", ["src/arith/*"], LEAF),
    ("src/core/*", [PUBLIC, "src/lists.h", "src/core/*"], None),
    ("src/cpu/rows*", KERNELS + ["src/core/cpu_detect.h"], LEAF | {"stdatomic.h"}),
    ("src/cpu/*.inc", KERNELS, LEAF),
    ("src/cpu/*", KERNELS, None),
    ("src/cuda/*", KERNELS + ["src/cuda/*", "src/core/text.h"], None),
    ("src/ffi/*", [PUBLIC, "src/ffi/*"], None),
    ("src/io/*", ["src/io/*"], None),
    ("plugin/*", [PUBLIC, "plugin/*"], None),
    ("tools/*", [PUBLIC, "src/io/*", "tools/*"], None),
    ("examples/*", [PUBLIC], None),
    ("tests/oracle/*", [PUBLIC, "tests/oracle/*"], None),
    ("tests/io/*", ["src/io/*", "tests/io/*"], None),
    ("tests/exhaustive/*", [PUBLIC, "src/arith/*", "tests/*"], None),
    ("tests/ffi/*", [PUBLIC, "src/ffi/*"], None),
    ("tests/fuzz/*", [PUBLIC, "src/io/*", "src/ffi/*", "plugin/tensorrt/trt_abi.h", "tests/fuzz/*",
                      "tests/trt/expressions.h"], None),
    ("tests/package/*", [PUBLIC], None),
    ("tests/trt/*", [PUBLIC, "plugin/tensorrt/trt_abi.h", "tests/trt/*"], None),
    ("tests/*", [PUBLIC, "src/io/*", "tests/*"], None),
]

# Folders that the compiler is told to search (CMakeLists.txt), after the folder of the including file.
SEARCH = ["include", "src", "tests"]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
SUFFIXES = {".c", ".h", ".inc", ".cu", ".cuh", ".cpp"}


def resolve(root, includer, quote, name):
    """The file of ours that an #include means, relative to the root; None for a system header."""
    folders = [root / folder for folder in SEARCH]
    if quote == '"':
        folders.insert(0, includer.parent)
    for folder in folders:
        found = (folder / name).resolve()
        if found.is_file() and found.is_relative_to(root):
            return found.relative_to(root).as_posix()
    return None


def faults_of(root, file):
    path = file.relative_to(root).as_posix()
    row = next((row for row in LAW if fnmatch(path, row[0])), None)
    if row is None:
        return [f"{path}: no row of the law in {Path(__file__).name} holds for this file"]
    _, ours, system = row
    faults = []
    for quote, name in INCLUDE.findall(file.read_text(encoding="utf-8")):
        target = resolve(root, file, quote, name)
        if target is not None:
            if not any(fnmatch(target, pattern) for pattern in ours):
                faults.append(f"{path}: may not include {target}; allowed are {', '.join(ours) or 'none of ours'}")
        elif quote == '"':
            faults.append(f'{path}: "{name}" is no file of ours; write system headers in <>')
        elif system is not None and name not in system:
            faults.append(f"{path}: may not include <{name}>")
    return faults


def main():
    root = Path(sys.argv[1]).resolve()
    files = [file for folder in ("include", "src", "tools", "plugin", "tests", "examples")
             for file in sorted((root / folder).rglob("*")) if file.suffix in SUFFIXES]
    faults = [fault for file in files for fault in faults_of(root, file)]
    print("\n".join(faults) if faults else f"{len(files)} files keep the law of includes")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
