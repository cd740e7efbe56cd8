#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_wheel.py: `pip install` of a copy of the sources into a fresh environment without any package, in under
two minutes and without a network; what the wheel holds; and a C program that finds the library in it.

usage: test_python_wheel.py SOURCE_ROOT

Seen failing: with the header left out of the wheel, with a second shared library in it, with IMPORTED_LOCATION of
another name, and with `import numpy` in _arrays.py.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

root = Path(sys.argv[1]).resolve()
NAMES = ["CMakeLists.txt", "LICENSE", "README.md", "cmake", "include", "pyproject.toml", "python", "src"]


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        print(done.stdout)
        sys.exit(f"failed: {' '.join(map(str, command))}")
    return done.stdout


def main():
    work = Path(tempfile.mkdtemp())
    try:
        source = work / "a source"
        source.mkdir()
        for name in NAMES:
            if (root / name).is_dir():
                shutil.copytree(root / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(root / name, source / name)
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("PYTHONPATH", "EPIQ_LIBRARY", "CMAKE_PREFIX_PATH")}

        start = time.monotonic()
        venv.create(work / "venv", with_pip=True)
        python = work / "venv/bin/python"
        made = time.monotonic()
        run(python, "-m", "pip", "install", "--quiet", "--no-index", str(source), cwd=work, env=environment)
        found = run(python, "-c",
                    "from epiq import *; print(info()); print(library_path()); print(cmake_dir())",
                    cwd=work, env=environment).splitlines()
        took = time.monotonic() - start
        print(f"{took:.0f} s from nothing to epiq.info(), {made - start:.0f} s of it for the environment")
        assert took < 120, "longer than two minutes"
        assert found[1].startswith(str(work / "venv")), found
        print(found[0])
        listed = run(python, "-m", "pip", "list", "--format=freeze", env=environment).split()
        assert not {line.split("==")[0].lower() for line in listed} & {"torch", "numpy"}, listed

        run(python, "-m", "pip", "wheel", "--quiet", "--no-index", "-w", str(work / "dist"), str(source), cwd=work,
            env=environment)
        (wheel,) = (work / "dist").glob("*.whl")
        assert wheel.name.startswith("epiq-") and "-py3-none-" in wheel.name, wheel.name
        names = zipfile.ZipFile(wheel).namelist()
        assert [name for name in names if ".so" in name] == ["epiq/libepiq.so"], names
        for wanted in ("epiq/include/epiq/epiq.h", "epiq/cmake/epiq-config.cmake",
                       "epiq/torch.py", "epiq/compat/vllm.py"):
            assert wanted in names, wanted
        print(f"{wheel.name}: {wheel.stat().st_size} bytes, {len(names)} files; libepiq.so "
              f"{zipfile.ZipFile(wheel).getinfo('epiq/libepiq.so').file_size} bytes")

        outside = work / "outside"
        outside.mkdir()
        shutil.copy(root / "tests/package/outside.c", outside)
        (outside / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(outside LANGUAGES C)\nfind_package(epiq 0.1 REQUIRED)\n"
            "add_executable(outside outside.c)\ntarget_link_libraries(outside PRIVATE epiq::epiq)\n")
        run("cmake", "-S", outside, "-B", outside / "build", f"-DCMAKE_PREFIX_PATH={found[2]}", env=environment)
        run("cmake", "--build", outside / "build", env=environment)
        print(run(outside / "build/outside", env=environment).strip())
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
