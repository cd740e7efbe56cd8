#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sources_listed.py: every C and C++ file, CLI test and gate of the tree is named in a CMakeLists.txt, so that none
lies there without being built or run.

usage: sources_listed.py SOURCE_ROOT BUILD_FOLDER

Seen failing: with an unlisted src/core/extra.c, tests/api/test_extra.c, tests/cli/extra.py, tests/gates/extra.sh
and plugin/tensorrt/extra.cpp.
"""

import json
import sys
from pathlib import Path

BUILT_BY_SCRIPT = {"tests/package/outside.c"}
NEED_TENSORRT = {"plugin/tensorrt/trt_plugin_v2.cpp", "tests/trt/abi_table.cpp", "tests/trt/conformance.cpp",
                 "tests/trt/real_tensorrt.cpp"}  # its headers: EPIQ_TENSORRT_ROOT


def main():
    root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    built = {Path(command["file"]).resolve() for command in json.loads((build / "compile_commands.json").read_text())}
    faults = []
    suffixes = {".c"} | {file.suffix for file in built}  # without a C++ compiler no plugin is built
    for folder in ("src", "tools", "plugin", "examples", "tests"):
        for file in sorted((root / folder).rglob("*.c*")):
            elsewhere = file.relative_to(root).as_posix() in BUILT_BY_SCRIPT | NEED_TENSORRT
            if file.suffix in suffixes and file not in built and not elsewhere:
                faults.append(f"{file.relative_to(root)}: built by no target; add it to CMakeLists.txt")
    listing = (root / "tests/CMakeLists.txt").read_text()
    for folder in ("cli", "gates", "package", "python"):
        for file in sorted((root / "tests" / folder).glob("*")):
            executable = file.suffix in {".sh", ".py"} and not file.name.startswith("_")
            if executable and file.name not in listing:
                faults.append(f"{file.relative_to(root)}: not named in tests/CMakeLists.txt")
    print("\n".join(faults) if faults else "every file is built or run")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
