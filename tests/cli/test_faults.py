#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_faults.py: the `epiq` command where the machine fails it: full disks, signals, too little memory, no GPU.

usage: test_faults.py EPIQ [unittest options]

What holds everywhere: the file that was asked for is the old one, the whole new one, or none; a failure is one line and
an exit code, never a crash.

Seen failing: with a limit on the size of files that ends the process (SIGXFSZ was not ignored), with a writer that
writes the target itself, and with an allocation whose failure was not looked at.
"""

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import test_cli

TEMPORARY = re.compile(r"\.epiq-\d+-\d+\.tmp")


class Case(test_cli.Case):
    def limited(self, what, limit, *arguments, **more):
        """The command under a limit of resource.RLIMIT_*; its exit code is negative for a signal."""
        return subprocess.run([test_cli.EPIQ, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120,
                              preexec_fn=lambda: resource.setrlimit(what, (limit, limit)), **more)

    def fails_in_words(self, done, what):
        self.assertEqual(done.returncode, 2, f"{what}: {done.stderr}")
        self.assertRegex(done.stderr, r"\Aepiq: [^\n]+\n\Z", what)


class Disks(Case):
    def setUp(self):
        super().setUp()
        self.x = self.input(16, 256)
        self.place = self.folder / "place"
        self.place.mkdir()
        self.out = self.place / "out.safetensors"
        self.command = ["quantize", self.x, "-o", self.out, "--format", "e4m3"]

    def test_limit_on_the_size_of_files(self):
        self.ok(*self.command)
        whole = self.out.read_bytes()
        for old in (None, b"old"):
            for room in (0, 1, 7, 8, 9, 500, len(whole) // 2, len(whole) - 1):
                self.out.unlink() if old is None and self.out.exists() else None
                if old is not None:
                    self.out.write_bytes(old)
                done = self.limited(resource.RLIMIT_FSIZE, room, *self.command)
                self.fails_in_words(done, f"{room} bytes")
                self.assertIn("File too large", done.stderr)
                self.assertEqual(os.listdir(self.place), [] if old is None else [self.out.name])
                if old is not None:
                    self.assertEqual(self.out.read_bytes(), old)
        self.assertEqual(self.limited(resource.RLIMIT_FSIZE, len(whole), *self.command).returncode, 0)
        self.assertEqual(self.out.read_bytes(), whole)

    def test_limit_on_the_result_on_standard_output(self):
        with open(self.place / "text", "w") as text:
            done = subprocess.run([test_cli.EPIQ, "quantize", "--help"], stdout=text, stderr=subprocess.PIPE, text=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        self.fails_in_words(done, "standard output")

    def test_full_file_system(self):
        """In a mount namespace of its own, which ends with the command."""
        mount = "mount -t tmpfs -o size=16k none place || exit 77; printf old >place/out; "
        script = mount + '"$0" quantize "$1" -o place/out --format e4m3; echo $? $(ls -A place) $(cat place/out)'
        try:
            done = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script, test_cli.EPIQ,
                                   self.input(64, 512)], cwd=self.folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=60)
        except FileNotFoundError:
            self.skipTest("no unshare here")
        if done.returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.assertEqual(done.stdout, "2 out old\n")
        self.assertRegex(done.stderr, r"\Aepiq: [^\n]*No space left on device\n\Z")

    def test_too_few_open_files(self):
        for limit in range(3, 6):
            done = self.limited(resource.RLIMIT_NOFILE, limit, *self.command)
            if done.returncode not in (0, 127):  # 127: it could not even be loaded
                self.fails_in_words(done, f"{limit} files")
                self.assertEqual(os.listdir(self.place), [])


class Signals(Case):
    def test_any_signal_leaves_the_old_file_or_the_new(self):
        """SIGKILL too, which nobody can hold back: a temporary file may stay then, the target is whole."""
        x, place = self.input(2048, 512), self.folder / "place"
        place.mkdir()
        out, whole = place / "out.safetensors", self.path("whole.safetensors")
        begin = time.monotonic()
        self.ok("quantize", x, "-o", whole, "--format", "e4m3")
        usual, new = time.monotonic() - begin, Path(whole).read_bytes()
        generator, seen = random.Random(2), set()
        for number in [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL] * 8:
            out.write_bytes(b"old")
            process = subprocess.Popen([test_cli.EPIQ, "quantize", x, "-o", out, "--format", "e4m3"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(generator.uniform(0, usual))
            process.send_signal(number)
            process.wait()
            content = out.read_bytes()
            self.assertIn(content, (b"old", new), number)
            seen.add(content)
            for name in set(os.listdir(place)) - {out.name}:
                self.assertEqual(number, signal.SIGKILL, name)
                self.assertRegex(name, TEMPORARY)
                (place / name).unlink()
        self.ok("quantize", x, "-o", out, "--format", "e4m3")
        self.assertEqual(out.read_bytes(), new)

    def test_a_temporary_file_of_another_run_is_in_nobodys_way(self):
        place = self.folder / "place"
        place.mkdir()
        for pid in range(os.getpid(), os.getpid() + 400):
            (place / f".epiq-{pid}-0.tmp").write_bytes(b"left")
        self.ok("quantize", self.input(), "-o", place / "out", "--format", "e4m3")
        self.assertIn("q", test_cli.read_file(place / "out")[0])
        self.assertEqual(sum(TEMPORARY.fullmatch(name) is not None for name in os.listdir(place)), 400)


class Memory(Case):
    STEP = 1 << 16

    def least(self):
        """Bytes of address space with which the command can say its version."""
        enough = 1 << 34
        if self.limited(resource.RLIMIT_AS, enough, "--version").returncode != 0:
            self.skipTest("this build needs more address space than memory (a sanitizer)")
        low, high = 0, enough
        while high - low > self.STEP:
            middle = (low + high) // 2
            if self.limited(resource.RLIMIT_AS, middle, "--version").returncode == 0:
                high = middle
            else:
                low = middle
        return high

    def test_every_amount_between_too_little_and_enough(self):
        x, w = self.input(512, 1024), self.path("w.safetensors")
        test_cli.write_file(w, {"w": ("BF16", [1024], test_cli.made_up(1024, 5))})
        codes = self.path("codes.safetensors")
        self.ok("quantize", x, "-o", codes, "--format", "nvfp4")
        least, out = self.least(), self.path("out")
        commands = (["quantize", x, "-o", out, "--format", "nvfp4", "--layout", "tile128x4"],
                    ["act-mul", x, "-o", out, "--format", "e4m3", "--chain", "direct", "--threads", "3", "--y"],
                    ["rms-norm", x, "-w", w, "-r", x, "-o", out, "--format", "mxfp8", "--residual-out"],
                    ["dequantize", codes, "-o", out], ["check", "--backend", "c"])
        for arguments in commands:
            # from nothing to spare to enough for all but the last allocations
            for spare in (0, 1 << 17, 1 << 19, 1 << 20, 3 << 19, 2 << 20, 3 << 20, 4 << 20, 6 << 20, 8 << 20, 12 << 20):
                done = self.limited(resource.RLIMIT_AS, least + spare, *arguments)
                if done.returncode == 0:
                    break
                if arguments[0] != "check" or "not enough memory for the self-test" not in done.stdout:
                    self.fails_in_words(done, f"{arguments[0]} with {spare} bytes to spare")
                self.assertFalse(os.path.exists(out))
                self.assertEqual([name for name in os.listdir(self.folder) if TEMPORARY.match(name)], [])
            if os.path.exists(out):
                test_cli.read_file(out)
                os.unlink(out)


class Backends(Case):
    def test_no_gpu(self):
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES="")
        answer = self.start("info", "--json", env=environment)
        cuda = [backend for backend in json.loads(answer.stdout)["backends"] if backend["name"] == "cuda"]
        self.assertEqual((answer.returncode, [backend["usable"] for backend in cuda]), (0, [False]))
        x = self.input()
        for arguments in (["quantize", x, "-o", self.path("new"), "--format", "e4m3"], ["check"], ["bench"]):
            done = self.start(*arguments, "--backend", "cuda", env=environment)
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertRegex(done.stderr, r"\Aepiq: --backend cuda: [^\n]{10,}\n\Z")
        self.assertFalse(os.path.exists(self.path("new")))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(__doc__)
    test_cli.EPIQ = os.path.abspath(sys.argv.pop(1))
    unittest.main()
