#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutation.py: puts deliberate faults (faults.txt) into a copy of the tree, one at a time, and runs the tests that must
catch them. A fault that no test catches is a test that is missing.

usage: mutation.py --check             every fault still applies (a gate, part of `make test`)
       mutation.py [--gpu] [NAME...]   builds and runs; in build/mutation, one after the other

faults.txt: `fault NAME`, then `file PATH` in the tree, `tests NAME...` of ctest, and the one line to change, without
its indentation: `- before`, `+ after`. `gpu` instead of tests: `epiq check --backend cuda` must catch it; those run
with --gpu alone, on a machine with a GPU.

Seen failing: --check with a word changed in a `-` line, with a `tests` line that names no test, and with a file that
is gone; the run with a fault that changes a comment (survived) and with one that does not compile.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / "build/mutation/tree"
BUILD = ROOT / "build/mutation/build"
JOBS = os.environ.get("JOBS", str(os.cpu_count() or 1))


def read_faults():
    faults = []
    for number, line in enumerate((ROOT / "tests/mutation/faults.txt").read_text().splitlines(), 1):
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if not line or line.startswith("#"):
            continue
        if word == "fault":
            faults.append({"name": rest, "tests": [], "gpu": False})
        elif word == "tests":
            faults[-1]["tests"] = rest.split()
        elif word == "gpu":
            faults[-1]["gpu"] = True
        elif word in {"file", "-", "+"}:
            faults[-1][word] = rest
        else:
            sys.exit(f"faults.txt:{number}: '{word}' is no word of it")
    return faults


def changed(root, fault):
    """The text of the file with the fault in it, or the reason why not."""
    path = root / fault["file"]
    if not path.is_file():
        return None, f"there is no {fault['file']}"
    lines = path.read_text().split("\n")
    places = [i for i, line in enumerate(lines) if line.strip() == fault["-"]]
    if len(places) != 1:
        return None, f"{fault['file']} has {len(places)} lines `{fault['-']}`"
    indentation = lines[places[0]][:len(lines[places[0]]) - len(lines[places[0]].lstrip())]
    lines[places[0]] = indentation + fault["+"]
    return "\n".join(lines), None


def check(faults):
    """Whether all of them apply and name tests that there are."""
    listings = "".join(path.read_text() for path in ROOT.glob("tests/**/CMakeLists.txt"))
    wrong = []
    for fault in faults:
        missing = {"file", "-", "+"} - set(fault)
        if missing or fault["gpu"] == bool(fault["tests"]):
            wrong.append(f"{fault['name']}: incomplete")
            continue
        reason = changed(ROOT, fault)[1]
        if reason:
            wrong.append(f"{fault['name']} does not apply any more: {reason}")
        for test in fault["tests"]:
            word = test[len("trt_"):] if test.startswith("trt_") else test
            if not re.search(rf"\b{word}\b", listings):
                wrong.append(f"{fault['name']}: there is no test {test}")
    if len({fault["name"] for fault in faults}) != len(faults):
        wrong.append("two faults have one name")
    return wrong


def quiet(*command, timeout=1800):
    with open(BUILD.parent / "log.txt", "w") as log:
        try:
            return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            return 124


def copy_tree():
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           capture_output=True, check=True).stdout.decode().split("\0")
    wanted = {name for name in names if name and (ROOT / name).is_file()}
    for old in list(COPY.rglob("*")) if COPY.exists() else []:
        if old.is_file() and old.relative_to(COPY).as_posix() not in wanted:
            old.unlink()
    for name in wanted:
        to = COPY / name
        if not to.is_file() or to.read_bytes() != (ROOT / name).read_bytes():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to)
            to.touch()


def targets_of(tests):
    targets = set()
    for test in tests:
        if test.startswith("trt_"):
            targets |= {"trt_mock_host", "epiq_trt_host"}
        elif test in {"test_cli", "test_layouts"}:
            targets.add("epiq_command")
        else:
            targets.add(test)
    return sorted(targets)


def build(fault_or_faults, gpu):
    faults = fault_or_faults if isinstance(fault_or_faults, list) else [fault_or_faults]
    targets = ["epiq_command"] if gpu else targets_of([test for fault in faults for test in fault["tests"]])
    return quiet("cmake", "--build", BUILD, "--parallel", JOBS, "--target", *targets) == 0


def passes(fault_or_faults, gpu):
    if gpu:
        return quiet(BUILD / "epiq", "check", "--backend", "cuda") == 0
    faults = fault_or_faults if isinstance(fault_or_faults, list) else [fault_or_faults]
    tests = sorted({test for fault in faults for test in fault["tests"]})
    return quiet("ctest", "--test-dir", BUILD, "-R", f"^({'|'.join(tests)})$", "--stop-on-failure", "--timeout", "600",
                 "--no-tests=error", "--parallel", JOBS, "--output-on-failure") == 0


def run(faults, gpu):
    BUILD.mkdir(parents=True, exist_ok=True)
    copy_tree()
    options = ["-DEPIQ_CUDA=ON"] if gpu else ["-DEPIQ_TESTS=ON"]
    if quiet("cmake", "-S", COPY, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release",
             f"-DPython3_EXECUTABLE={sys.executable}", *options) != 0 or not build(faults, gpu):
        sys.exit("the tree does not build: see build/mutation/log.txt")
    if not passes(faults, gpu):
        sys.exit("the tests fail without a fault: see build/mutation/log.txt")
    caught, bad = 0, []
    for fault in faults:
        start = time.time()
        path = COPY / fault["file"]
        before = path.read_text()
        text, reason = changed(COPY, fault)
        if reason:
            sys.exit(f"{fault['name']} does not apply: {reason}")
        path.write_text(text)
        try:
            answer = ("does not build" if not build(fault, gpu) else
                      "SURVIVED" if passes(fault, gpu) else "caught")
        finally:
            path.write_text(before)
        print(f"{fault['name']:36} {answer} ({time.time() - start:.0f} s)", flush=True)
        caught += answer == "caught"
        if answer != "caught":
            bad.append(fault["name"])
    # A fault that was left behind would make the answers worthless.
    if not build(faults, gpu) or not passes(faults, gpu):
        sys.exit("the tests fail after the last fault was taken out: see build/mutation/log.txt")
    print(f"{caught} caught, {len(bad)} not: {' '.join(bad)}" if bad else f"{caught} caught")
    return 1 if bad else 0


def main():
    arguments = sys.argv[1:]
    faults = read_faults()
    wrong = check(faults)
    if wrong:
        print("\n".join(wrong))
        return 1
    if "--check" in arguments:
        print(f"{len(faults)} faults apply, {sum(fault['gpu'] for fault in faults)} of them for a GPU")
        return 0
    gpu = "--gpu" in arguments
    names = [name for name in arguments if name != "--gpu"]
    unknown = set(names) - {fault["name"] for fault in faults}
    if unknown:
        sys.exit(f"no fault is called {' '.join(sorted(unknown))}")
    return run([fault for fault in faults if fault["gpu"] == gpu and (not names or fault["name"] in names)], gpu)


if __name__ == "__main__":
    sys.exit(main())
