#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_docs.py: runs every Python block of doc/python.md whose framework is here, each in a process of its own.

usage: test_python_docs.py [FRAMEWORK...]      (all that can be imported; at least those named must be)

Seen failing: with an assertion of a block turned around, and with a wrong word in one.
"""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "doc/python.md"
FRAMEWORKS = ("torch", "jax", "jax_tvm_ffi", "cupy", "tvm_ffi", "vllm", "ml_dtypes")


def here(name):
    return importlib.util.find_spec(name) is not None


def needs(block):
    modules = set()
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module)
    wanted = {name.partition(".")[0] for name in modules} & set(FRAMEWORKS)
    if "epiq.jax" in modules:
        wanted |= {"jax", "jax_tvm_ffi"}
    if modules & {"epiq.torch", "epiq.compat.vllm"}:
        wanted.add("torch")
    return wanted


def main():
    must = set(sys.argv[1:])
    missing = {name for name in must if not here(name)}
    if missing:
        print(f"not here: {', '.join(sorted(missing))}")
        return 77
    page = PAGE.read_text()
    heading, failed, ran, seen = "", 0, 0, set()
    for found in re.finditer(r"^## ([^\n]*)$|^```python\n(.*?)^```", page, re.M | re.S):
        if found[1]:
            heading = found[1]
            continue
        block = found[2]
        line = page[: found.start()].count("\n") + 1
        compile(block, f"doc/python.md:{line}", "exec")
        wanted = needs(block)
        absent = sorted(name for name in wanted if not here(name))
        if absent:
            print(f"doc/python.md:{line} {heading}: compiled, not run: {', '.join(absent)} not here")
            continue
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", block], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        ran += 1
        seen |= wanted
        print(f"doc/python.md:{line} {heading}: {'ran' if done.returncode == 0 else 'FAILED'}")
        if done.returncode:
            print(done.stdout)
            failed += 1
    if must - seen:
        print(f"no block ran with {', '.join(sorted(must - seen))}")
        failed += 1
    print(f"{ran} blocks ran, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
