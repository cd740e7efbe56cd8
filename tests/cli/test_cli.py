#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cli.py: the `epiq` command from end to end: values, files, errors, exit codes.

usage: test_cli.py [EPIQ] [unittest options]        (EPIQ: path of the command; else the environment's EPIQ_BIN)

Needs Python alone. With ml_dtypes and numpy the small reference below is compared with them too.
"""

import json
import math
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

EPIQ = os.environ.get("EPIQ_BIN", "")
TOP = Path(__file__).resolve().parents[2]
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "I32": 4,
         "I64": 8, "F64": 8}


# ---- A small reference -----------------------------------------------------------------------------------------------

def f32(value):
    """One rounding to fp32; beyond its range infinite."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def e4m3_value(code):
    exponent, fraction = code >> 3 & 15, code & 7
    if exponent == 15 and fraction == 7:
        return math.nan
    value = fraction * 2.0 ** -9 if exponent == 0 else (8 + fraction) * 2.0 ** (exponent - 10)
    return -value if code & 128 else value


E4M3 = [e4m3_value(code) for code in range(127)]  # ascending


def e4m3_code(value):
    """Nearest, ties to the even code, saturating."""
    if math.isnan(value):
        return 127
    sign = 128 if math.copysign(1, value) < 0 else 0
    magnitude = min(abs(value), 448.0)
    best = min(range(127), key=lambda code: (abs(E4M3[code] - magnitude), code & 1))
    return sign | best


def encode(dtype, values):
    if dtype == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    assert dtype == "BF16"
    return b"".join(struct.pack("<f", value)[2:] for value in values)  # the tests use values that fit


def decode(dtype, data):
    if dtype == "F32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    if dtype == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    assert dtype == "F8_E4M3"
    return [e4m3_value(code) for code in data]


def made_up(count, seed, dtype="BF16"):
    """Values that all three dtypes can hold."""
    generator = random.Random(seed)
    values = []
    for _ in range(count):
        value = generator.choice((-1, 1)) * (128 + generator.randrange(128)) / 128 * 2.0 ** generator.randrange(-6, 3)
        values.append(value)
    return encode(dtype, values)


# ---- Files -----------------------------------------------------------------------------------------------------------

def write_file(path, tensors, metadata=None):
    """tensors: name -> (dtype, shape, bytes)."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_file(path):
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header, data = json.loads(data[8:8 + length]), data[8 + length:]
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert end - begin == math.prod(entry["shape"]) * BYTES[entry["dtype"]]
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    assert len(data) == sum(len(tensor[2]) for tensor in tensors.values())
    return tensors, metadata


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="epiq-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return str(self.folder / name)

    def start(self, *arguments, **options):
        return subprocess.run([EPIQ, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=300, **options)

    def ok(self, *arguments):
        done = self.start(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{arguments}: {done.stdout}")
        return done.stdout

    def refused(self, *arguments, code=2, says=""):
        """One line on stderr, nothing on stdout, the exit code, no new file."""
        before = sorted(os.listdir(self.folder))
        done = self.start(*arguments)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Aepiq: [^\n]+\n\Z")
        self.assertIn(says, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before, f"{arguments} left a file")
        return done.stderr

    def input(self, rows=4, cols=64, dtype="BF16", seed=1, name="x"):
        path = self.path(f"{name}-{rows}x{cols}-{dtype}.safetensors")
        write_file(path, {name: (dtype, [rows, cols], made_up(rows * cols, seed, dtype))})
        return path

    def formats(self):
        return json.loads(self.ok("info", "--json"))["formats"]


class Reference(unittest.TestCase):
    def test_codes_of_ml_dtypes(self):
        try:
            import ml_dtypes
            import numpy
        except ImportError:
            self.skipTest("needs numpy and ml_dtypes")
        codes = numpy.arange(127, dtype=numpy.uint8)
        self.assertEqual(codes.view(ml_dtypes.float8_e4m3fn).astype(numpy.float32).tolist(), E4M3)
        values = numpy.random.default_rng(1).normal(size=2000).astype(numpy.float32) * 100
        values = numpy.clip(values, -448, 448)
        self.assertEqual(values.astype(ml_dtypes.float8_e4m3fn).view(numpy.uint8).tolist(),
                         [e4m3_code(float(value)) for value in values])


class Values(Case):
    def test_static_scale(self):
        for dtype in ("F32", "F16", "BF16"):
            x = self.input(5, 48, dtype)
            values = decode(dtype, read_file(x)[0]["x"][2])
            for option, scale in (("--inv-scale", 0.37), ("--inv-scale", 300), ("--scale", 0.013), ("--scale", 7)):
                scale = f32(scale)
                m = scale if option == "--inv-scale" else f32(1 / scale)
                out = self.path("out.safetensors")
                self.ok("quantize", x, "-o", out, "--format", "e4m3", option, repr(scale))
                tensors, metadata = read_file(out)
                self.assertEqual(tensors["q"], ("F8_E4M3", [5, 48], bytes(e4m3_code(f32(v * m)) for v in values)))
                kept = option[2:].replace("-", "_")
                self.assertEqual(tensors[kept], ("F32", [1], struct.pack("<f", scale)))
                self.assertEqual(sorted(tensors), sorted(["q", kept]))
                self.assertEqual((metadata["format"], metadata["grain"], metadata["op"], metadata["dtype"]),
                                 ("e4m3", "tensor", "quantize", dtype.lower()))

    def test_token_scale_and_dequantize(self):
        x = self.input(6, 33)
        values = decode("BF16", read_file(x)[0]["x"][2])
        out, back = self.path("out.safetensors"), self.path("back.safetensors")
        self.ok("quantize", x, "-o", out, "--format", "e4m3")
        tensors, metadata = read_file(out)
        self.assertEqual(metadata["grain"], "token")
        scales, codes = [], []
        for r in range(6):
            row = values[33 * r:33 * r + 33]
            scales.append(max(f32(max(map(abs, row)) / 448), f32(1 / (448 * 512))))
            codes += [e4m3_code(f32(v / scales[-1])) for v in row]
        self.assertEqual(tensors["q"][2], bytes(codes))
        self.assertEqual(tensors["scale"], ("F32", [6, 1], encode("F32", scales)))

        self.ok("dequantize", out, "-o", back, "--dtype", "f32")
        expected = [f32(e4m3_value(code) * scales[i // 33]) for i, code in enumerate(codes)]
        self.assertEqual(read_file(back)[0], {"y": ("F32", [6, 33], encode("F32", expected))})
        self.ok("dequantize", out, "-o", back)
        self.assertEqual(read_file(back)[0]["y"][:2], ("BF16", [6, 33]))

    def test_accuracy(self):
        rows, cols = 5, 40
        values = decode("BF16", made_up(rows * cols, 3))
        values[7], values[50], values[51], values[90] = math.nan, 1000.0, math.inf, 2.0 ** -30
        x, out = self.path("x.safetensors"), self.path("out.safetensors")
        write_file(x, {"x": ("BF16", [rows, cols], encode("BF16", values))})
        result = json.loads(self.ok("quantize", x, "-o", out, "--format", "e4m3", "--scale", 0.01, "--json"))
        codes, scale = read_file(out)[0]["q"][2], f32(0.01)
        signal_, noise, worst, saturated, flushed = 0.0, 0.0, 0.0, 0, 0
        for r in range(rows):
            amax, error = 0.0, 0.0
            for y, code in zip(values[r * cols:][:cols], codes[r * cols:][:cols]):
                d = f32(e4m3_value(code) * scale)
                saturated += code & 127 == 126 and abs(y) > abs(d) * (1 + 16 / 448)
                flushed += y != 0 and d == 0
                if math.isfinite(y) and math.isfinite(d):
                    signal_, noise = signal_ + y * y, noise + (y - d) ** 2
                    amax, error = max(amax, abs(y)), max(error, abs(y - d))
            worst = max(worst, error / amax)
        self.assertGreater(saturated, 2)
        self.assertEqual((result["nan_in"], result["nan_out"]), (1, 1))
        self.assertAlmostEqual(result["sqnr_db"], 10 * math.log10(signal_ / noise), places=3)
        self.assertAlmostEqual(result["largest_error"], worst, places=5)
        self.assertAlmostEqual(result["saturated_percent"], 100 * saturated / len(values), places=4)
        self.assertAlmostEqual(result["flushed_percent"], 100 * flushed / len(values), places=4)

    def test_exact_values_have_no_error(self):
        x, out = self.path("x.safetensors"), self.path("out.safetensors")
        write_file(x, {"x": ("F32", [1, 32], encode("F32", E4M3[60:92]))})
        result = json.loads(self.ok("quantize", x, "-o", out, "--format", "e4m3", "--scale", 1, "--json"))
        self.assertEqual((result["sqnr_db"], result["largest_error"]), (None, 0))
        self.assertIn("SQNR inf dB", self.ok("quantize", x, "-o", out, "--format", "e4m3", "--scale", 1))

    def test_every_format_and_back(self):
        x = self.input(9, 96)
        stored = {"e4m3": "F8_E4M3", "e5m2": "F8_E5M2", "int8": "I8", "mxfp8": "F8_E4M3", "mxfp4": "U8", "nvfp4": "U8"}
        for name in self.formats():
            out, back = self.path("out.safetensors"), self.path("back.safetensors")
            result = json.loads(self.ok("quantize", x, "-o", out, "--format", name, "--json"))
            tensors, metadata = read_file(out)
            self.assertEqual(tensors["q"][:2], (stored[name], [9, 48 if name.endswith("p4") else 96]))
            self.assertEqual("inv_scale" in tensors, name == "nvfp4")
            scale = {"mxfp8": "F8_E8M0", "mxfp4": "F8_E8M0", "nvfp4": "F8_E4M3"}.get(name, "F32")
            self.assertEqual(tensors["scale"][0], scale)
            self.assertGreater(result["sqnr_db"], 12, name)
            self.ok("dequantize", out, "-o", back, "--dtype", "f32")
            y = decode("F32", read_file(back)[0]["y"][2])
            values = decode("BF16", read_file(x)[0]["x"][2])
            noise = sum((a - b) ** 2 for a, b in zip(values, y))
            sqnr = 10 * math.log10(sum(v * v for v in values) / noise)
            self.assertAlmostEqual(result["sqnr_db"], sqnr, places=3)

    def test_codes_are_those_of_the_written_y(self):
        """rms-norm and act-mul to codes equal quantize of the y that they write."""
        a, b = self.path("a.safetensors"), self.path("b.safetensors")
        w = self.path("w.safetensors")
        write_file(w, {"w": ("BF16", [96], made_up(96, 5))})
        commands = [("act-mul", self.input(7, 192, name="g")),
                    ("rms-norm", self.input(7, 96), "-w", w, "-r", self.input(7, 96, seed=8, name="r"))]
        for command in commands:
            for name in self.formats():
                self.ok(*command, "-o", a, "--format", name, "--y")
                self.ok("quantize", a + ":y", "-o", b, "--format", name)
                first, second = read_file(a)[0], read_file(b)[0]
                self.assertEqual({key: first[key] for key in second}, second, f"{command[0]} {name}")

    def test_unrounded_y(self):
        """chain direct sees the unrounded y: the same codes as from the input widened to f32."""
        for dtype in ("BF16", "F16"):
            gate, x, r = (self.input(7, c, dtype, s, n) for c, s, n in ((96, 1, "g"), (48, 2, "x"), (48, 3, "r")))
            w = self.path("w.safetensors")
            write_file(w, {"w": (dtype, [48], made_up(48, 5, dtype))})
            wide = {}
            for path in (gate, x, r, w):
                (name, (_, shape, data)), = read_file(path)[0].items()
                wide[path] = self.path(name + "-wide.safetensors")
                write_file(wide[path], {name: ("F32", shape, encode("F32", decode(dtype, data)))})
            a, b = self.path("a.safetensors"), self.path("b.safetensors")
            narrow = json.loads(self.ok("act-mul", gate, "-o", a, "--format", "e4m3", "--chain", "direct", "--json"))
            widened = json.loads(self.ok("act-mul", wide[gate], "-o", b, "--format", "e4m3", "--chain", "direct",
                                         "--json"))
            self.assertEqual(read_file(a)[0], read_file(b)[0])
            self.assertEqual(dict(narrow, dtype="f32"), widened)
            norm = ["-o", a, "--format", "e4m3", "--chain", "direct", "--json"]
            narrow = json.loads(self.ok("rms-norm", x, "-w", w, "-r", r, *norm))
            norm[1] = b
            widened = json.loads(self.ok("rms-norm", wide[x], "-w", wide[w], "-r", wide[r], *norm))
            self.assertEqual(read_file(a)[0], read_file(b)[0])
            self.assertEqual(dict(narrow, dtype="f32"), widened)

            # sum_round t: the norm of the stored sum, without a residual
            norm[1] = a
            narrow = json.loads(self.ok("rms-norm", x, "-w", w, "-r", r, "--sum-round", "t", "--residual-out", *norm))
            norm[1] = b
            of_sum = json.loads(self.ok("rms-norm", a + ":residual", "-w", w, *norm))
            self.assertEqual(read_file(a)[0]["q"], read_file(b)[0]["q"])
            self.assertEqual(narrow, of_sum)

    def test_y_alone(self):
        x, w = self.input(3, 32), self.path("w.safetensors")
        write_file(w, {"w": ("F32", [32], encode("F32", [1.0] * 32))})
        out = self.path("out.safetensors")
        self.ok("rms-norm", x, "-w", w, "-o", out, "--format", "none")
        tensors, metadata = read_file(out)
        self.assertEqual(list(tensors), ["y"])
        self.assertEqual(metadata["format"], "none")
        self.refused("dequantize", out, "-o", self.path("new"), says="no codes")
        self.ok("act-mul", x, "-o", out, "--format", "NONE", "--act", "identity", "--order", "ungated")
        self.assertEqual(read_file(out)[0]["y"], ("BF16", [3, 32], read_file(x)[0]["x"][2]))

    def test_residual(self):
        x, r, w = self.input(3, 32), self.input(3, 32, seed=4, name="r"), self.path("w.safetensors")
        write_file(w, {"w": ("BF16", [32], encode("BF16", [1.0] * 32))})
        out = self.path("out.safetensors")
        self.ok("rms-norm", x, "-w", w, "-r", r, "--residual-out", "-o", out, "--format", "e4m3")
        sums = [a + b for a, b in zip(decode("BF16", read_file(x)[0]["x"][2]), decode("BF16", read_file(r)[0]["r"][2]))]
        kept = decode("BF16", read_file(out)[0]["residual"][2])
        self.assertTrue(all(abs(a - b) <= abs(a) / 256 for a, b in zip(sums, kept)))

    def test_separate_halves(self):
        both = self.input(4, 64)
        data = read_file(both)[0]["x"][2]
        gate, up = self.path("gate.safetensors"), self.path("up.safetensors")
        write_file(gate, {"g": ("BF16", [4, 32], b"".join(data[128 * r:128 * r + 64] for r in range(4)))})
        write_file(up, {"u": ("BF16", [4, 32], b"".join(data[128 * r + 64:128 * r + 128] for r in range(4)))})
        a, b = self.path("a.safetensors"), self.path("b.safetensors")
        self.ok("act-mul", both, "-o", a, "--format", "e4m3")
        self.ok("act-mul", gate, "--up", up, "--order", "separate", "-o", b, "--format", "e4m3")
        self.assertEqual(read_file(a)[0], read_file(b)[0])

    def test_threads_change_nothing(self):
        x = self.input(37, 64)
        out = [self.path(f"{n}.safetensors") for n in (1, 3, 0)]
        for path, threads in zip(out, (1, 3, 0)):
            self.ok("act-mul", x, "-o", path, "--format", "nvfp4", "--threads", threads, "--y")
        self.assertEqual(len({Path(path).read_bytes() for path in out}), 1)

    def test_zero_rows(self):
        x, w = self.path("x.safetensors"), self.path("w.safetensors")
        write_file(x, {"x": ("BF16", [0, 64], b"")})
        write_file(w, {"w": ("BF16", [64], made_up(64, 1))})
        for name in self.formats():
            out, back = self.path("out.safetensors"), self.path("back.safetensors")
            for command in (("quantize",), ("act-mul",), ("rms-norm", "-w", w)):
                text = self.ok(*command, x, "-o", out, "--format", name)
                self.assertIn("no values", text)
                result = json.loads(self.ok(*command, x, "-o", out, "--format", name, "--json"))
                self.assertEqual((result["rows"], result["sqnr_db"]), (0, None))
                self.ok("dequantize", out, "-o", back)
                self.assertEqual(read_file(back)[0]["y"][1], [0, 32 if command[0] == "act-mul" else 64])

    def test_padded_columns(self):
        x, out, back = self.input(3, 40), self.path("out.safetensors"), self.path("back.safetensors")
        for name in self.formats():
            self.ok("quantize", x, "-o", out, "--format", name, "--padded-cols", 64)
            self.assertEqual(read_file(out)[0]["q"][1], [3, 32 if name.endswith("p4") else 64])
            self.ok("dequantize", out, "-o", back)
            self.assertEqual(read_file(back)[0]["y"][1], [3, 40])


class Inputs(Case):
    def quantize(self, where, *more):
        out = self.path("out.safetensors")
        self.ok("quantize", where, "-o", out, "--format", "e4m3", "--scale", "0.5", *more)
        return read_file(out)[0]["q"]

    def test_shapes(self):
        data = made_up(48, 1)
        for shape, rows in (([48], [1, 48]), ([2, 3, 8], [6, 8]), ([1, 1, 1, 48], [1, 48])):
            path = self.path("x.safetensors")
            write_file(path, {"x": ("BF16", shape, data)})
            self.assertEqual(self.quantize(path)[1], rows)

    def test_names(self):
        path = self.path("two:parts.safetensors")
        write_file(path, {"a:b": ("BF16", [1, 8], made_up(8, 1)), "c": ("BF16", [2, 8], made_up(16, 2)),
                          "one": ("F32", [], struct.pack("<f", 3))})
        self.assertEqual(self.quantize(path + ":a:b")[1], [1, 8])
        self.assertEqual(self.quantize(path + ":c")[1], [2, 8])
        out = self.path("new")
        message = self.refused("quantize", path, "-o", out, "--format", "e4m3", says="several tensors")
        self.assertIn("a:b, c, one", message)
        self.refused("quantize", path + ":d", "-o", out, "--format", "e4m3", says="no tensor 'd'")
        self.refused("quantize", path + ":one", "-o", out, "--format", "e4m3", says="single value")
        many = self.path("many.safetensors")
        write_file(many, {f"t{i:02}": ("BF16", [1, 8], made_up(8, 1)) for i in range(30)})
        message = self.refused("quantize", many, "-o", out, "--format", "e4m3", says="t09 ...")
        self.assertNotIn("t10", message)
        lone = self.path("lone.safetensors")  # a scalar beside it does not count
        write_file(lone, {"v": ("BF16", [1, 8], made_up(8, 1)), "one": ("F32", [], struct.pack("<f", 3))})
        self.assertEqual(self.quantize(lone)[1], [1, 8])

    def test_strange_names_stay_on_one_line(self):
        path = self.path("x.safetensors")
        write_file(path, {"a\nb\x1b[31m": ("BF16", [1, 8], made_up(8, 1)), "c": ("BF16", [1, 8], made_up(8, 1))})
        message = self.refused("quantize", path, "-o", self.path("new"), "--format", "e4m3")
        self.assertNotIn("\x1b", message)
        self.refused("quantize", path + ":z\n\x07", "-o", self.path("new"), "--format", "e4m3")

    def test_scale_files(self):
        x = self.input(2, 16)
        for shape in ([], [1], [1, 1]):
            path = self.path("scale.safetensors")
            write_file(path, {"s": ("F32", shape, struct.pack("<f", 0.5))})
            out = self.path("out.safetensors")
            self.ok("quantize", x, "-o", out, "--format", "e4m3", "--scale", path)
            self.assertEqual(read_file(out)[0]["q"], self.quantize(x))
        new = self.path("new")
        for tensor in (("F32", [2], struct.pack("<ff", 1, 1)), ("F32", [0], b""), ("BF16", [1], b"\0\0"),
                       ("F32", [1], struct.pack("<f", 0)), ("F32", [1], struct.pack("<f", -1)),
                       ("F32", [1], struct.pack("<f", math.inf)), ("F32", [1], struct.pack("<f", math.nan))):
            write_file(path, {"s": tensor})
            self.refused("quantize", x, "-o", new, "--format", "e4m3", "--scale", path, says="--scale")

    def test_npy(self):
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 8), }"
        header += " " * (-(len(header) + 11) % 64) + "\n"
        values = decode("BF16", made_up(16, 1))
        path = self.path("x.npy")
        Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                               encode("F32", values))
        self.assertEqual(self.quantize(path)[2], bytes(e4m3_code(v * 2) for v in values))

    def test_unusable_files(self):
        good, new = self.input(4, 64), self.path("new")
        content = Path(good).read_bytes()
        bad = self.path("bad.safetensors")
        length = struct.unpack("<Q", content[:8])[0]
        for broken in (b"", content[:5], content[:40], content[:-1], content + b"\0", b"\xff" * 8 + content[8:],
                       struct.pack("<Q", 2) + b"{}", content.replace(b"BF16", b"BF17"),
                       content.replace(b"[0, 512]", b"[0, 511]"), content.replace(b"[0, 512]", b"[1, 513]"),
                       content[:8] + b"[" + content[9:], os.urandom(300)):
            Path(bad).write_bytes(broken)
            self.refused("quantize", bad, "-o", new, "--format", "e4m3")
        self.assertLess(length, 1000)
        for dtype in ("I8", "F64", "F8_E4M3", "I32"):
            write_file(bad, {"x": (dtype, [2, 32], bytes(64 * BYTES[dtype]))})
            self.refused("quantize", bad, "-o", new, "--format", "e4m3", says="expected F32, F16 or BF16")
        self.refused("quantize", self.path("missing"), "-o", new, "--format", "e4m3", says="missing")
        self.refused("quantize", str(self.folder), "-o", new, "--format", "e4m3")
        self.refused("quantize", "/dev/null", "-o", new, "--format", "e4m3")
        write_file(bad, {"x": ("BF16", [4, 0], b"")})
        self.refused("quantize", bad, "-o", new, "--format", "e4m3", says="cols")
        write_file(bad, {"x": ("BF16", [0, 1 << 40], b"")})
        self.refused("quantize", bad, "-o", new, "--format", "e4m3", says="cols")
        write_file(bad, {"x": ("BF16", [1 << 31, 0], b"")})
        self.refused("quantize", bad, "-o", new, "--format", "e4m3")

    def test_inputs_that_do_not_go_together(self):
        x, w, new = self.input(4, 64), self.path("w.safetensors"), self.path("new")
        more = ["-o", new, "--format", "e4m3"]
        write_file(w, {"w": ("BF16", [64], made_up(64, 1))})
        self.refused("rms-norm", x, *more, says="--weight")
        self.refused("rms-norm", x, "-w", self.input(1, 63), *more, says="--weight")
        self.refused("rms-norm", x, "-w", x, *more, says="--weight")
        self.refused("rms-norm", x, "-w", self.input(1, 64, "F16"), *more, says="weight_dtype")
        self.refused("rms-norm", x, "-w", w, "-r", self.input(3, 64), *more, says="--residual")
        self.refused("rms-norm", x, "-w", w, "-r", self.input(4, 64, "F32"), *more, says="--residual")
        self.refused("rms-norm", x, "-w", w, "--residual-out", *more, says="residual")
        self.refused("act-mul", self.input(4, 63), *more, says="odd")
        self.refused("act-mul", x, "--order", "separate", *more, says="up")
        self.refused("act-mul", x, "--order", "separate", "--up", self.input(4, 32), *more, says="--up")
        self.refused("act-mul", x, "--up", x, *more, says="up")


class Options(Case):
    def test_spelling(self):
        x = self.input(4, 64)
        outputs = []
        for command, options in (("act-mul", ["--act-round", "once", "--act", "gelu-tanh", "--padded-cols", "64"]),
                                 ("act_mul", ["--act_round=ONCE", "--act=gelu_tanh", "--padded_cols=64"]),
                                 ("act-mul", ["--padded-cols", "64", "--act", "GELU_TANH", "--act_round", "once"])):
            out = self.path("out.safetensors")
            self.ok(command, *options, x, "-fe4m3", "-o", out)
            outputs.append(Path(out).read_bytes())
        self.assertEqual(len(set(outputs)), 1)
        self.ok("quantize", "-o", self.path("out.safetensors"), "--format", "e4m3", "--", x)

    def test_metadata_records_arguments(self):
        x, out = self.input(4, 64), self.path("out.safetensors")
        self.ok("act-mul", x, "-o", out, "--format", "nvfp4", "--layout", "tile128x4", "--alpha", "1.702", "--limit",
                "7", "--up-offset", "1", "--chain", "flashinfer", "--nan", "saturate", "--inv-scale", "2")
        tensors, metadata = read_file(out)
        self.assertEqual(tensors["scale"][:2], ("F8_E4M3", [128, 4]))
        expected = {"op": "act_mul", "rows": "4", "cols": "32", "dtype": "bf16", "act": "silu", "limit": "7",
                    "up_offset": "1", "order": "gate_up", "chain": "flashinfer", "act_round": "once",
                    "format": "nvfp4", "grain": "group", "group": "16", "layout": "tile128x4", "scale_dtype": "e4m3",
                    "padded_cols": "32", "nan": "saturate", "nvfp4": "vllm"}
        self.assertEqual({key: metadata.get(key) for key in expected}, expected)
        self.assertEqual(f32(float(metadata["alpha"])), f32(1.702))

    def test_bad_command_lines(self):
        x, new = self.input(4, 64), self.path("new")
        q = ["quantize", x, "-o", new]
        e4m3 = q + ["--format", "e4m3"]
        for says, arguments in (
                ("nearest is quantize", ["quantise", x]), ("nearest is act-mul", ["act_mull"]),
                ("nearest is --format", q + ["--fromat", "e4m3"]), ("nearest is --padded-cols", q + ["--paddedcols=8"]),
                ("no option", ["info", "--format", "e4m3"]), ("no option", e4m3 + ["-z"]),
                ("no option", e4m3 + ["--act", "silu"]), ("no option", e4m3 + ["--y"]),
                ("e4m3", q + ["--format", "e4m9"]), ("e4m3", q + ["--format", ""]), ("e4m3", q),
                ("needs a value", q + ["--format"]),
                ("no option", e4m3 + ["--" + "x" * 300 + "=1"]), ("takes no value", e4m3 + ["--json=1"]),
                ("name the input", ["quantize", "-o", new, "--format", "e4m3"]), ("-o", ["quantize", x]),
                ("too many", e4m3 + ["another"]), ("too many", ["info", "another"]),
                ("not a number", e4m3 + ["--scale-ub", "1x"]), ("not a number", e4m3 + ["--scale-ub", ""]),
                ("not a number", e4m3 + ["--scale-ub", " 1"]), ("not finite", e4m3 + ["--scale-ub", "nan"]),
                ("not finite", e4m3 + ["--scale-ub", "inf"]), ("fit", e4m3 + ["--scale-ub", "1e99"]),
                ("fit", e4m3 + ["--scale-ub", "1e-99"]), ("not > 0", e4m3 + ["--scale-ub", "0"]),
                ("not > 0", e4m3 + ["--scale", "-1"]), ("not > 0", e4m3 + ["--scale=0"]),
                ("not finite", e4m3 + ["--inv-scale", "inf"]), ("not finite", e4m3 + ["--inv-scale", "nan"]),
                ("--scale", e4m3 + ["--scale", "1e99"]), ("--scale", e4m3 + ["--scale", "nothing"]),
                ("scale", e4m3 + ["--scale", "1", "--inv-scale", "1"]),
                ("whole number", e4m3 + ["--group", "1.5"]), ("whole number", e4m3 + ["--group", "0x10"]),
                ("outside", e4m3 + ["--group", "0"]), ("outside", e4m3 + ["--group", "99999999999"]),
                ("whole number", e4m3 + ["--group", "99999999999999999999"]), ("outside", e4m3 + ["--threads", "-1"]),
                ("group", e4m3 + ["--grain", "token", "--group", "32"]),
                ("padded_cols", e4m3 + ["--padded-cols", "63"]), ("layout", e4m3 + ["--layout", "tile128x4"]),
                ("no effect", q + ["--format", "none", "--grain", "token"]), ("out", q + ["--format", "none"]),
                ("not > 0", ["rms-norm", x, "-w", x, "-o", new, "--format", "e4m3", "--eps", "0"]),
                ("alpha", ["act-mul", x, "-o", new, "--format", "e4m3", "--act", "relu", "--alpha", "2"]),
                ("limit", ["act-mul", x, "-o", new, "--format", "e4m3", "--limit", "2", "--limit-after", "2"]),
                ("allreduce", ["act-mul", x, "-o", new, "--format", "e4m3", "--chain", "allreduce"]),
                ("nearest is rms-norm", ["explain", "rms-form"]), ("name an operation", ["explain"]),
                ("nearest is quantize", ["bench", "dequantize"]), ("nearest is act-mul", ["bench", "layout"]),
                ("no option --act", ["explain", "quantize", "--act", "silu"]),
                ("no option --act", ["bench", "--act", "silu"]), ("--csv", ["bench", "--csv", "--json"]),
                ("no layer", ["demo", "--data", TOP / "data", "--layer", "7"]),
                ("cannot be read", ["demo", "--data", new]), ("residual", ["demo", "--data", self.folder])):
            with self.subTest(arguments=arguments):
                self.refused(*arguments, says=says)

    def test_no_arguments(self):
        done = self.start()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("usage", done.stderr)

    def test_missing_backend(self):
        missing = [b["name"] for b in json.loads(self.ok("info", "--json"))["backends"] if not b["usable"]]
        x = self.input()
        for name in missing:
            self.refused("quantize", x, "-o", self.path("new"), "--format", "e4m3", "--backend", name, code=3,
                         says=name)
            self.refused("check", "--backend", name, code=3, says=name)
        self.refused("quantize", x, "-o", self.path("new"), "--format", "e4m3", "--backend", "abacus", says="avx2")

    def test_help(self):
        overview = self.ok("--help")
        for command in re.findall(r"^  ([a-z-]+) ", overview, re.M):
            for text in (self.ok(command, "--help"), self.ok(command, "-h", "--nonsense")):
                self.assertIn("--help", text)
                self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertIn("SQNR = 10 log10", self.ok("quantize", "--help"))
        self.assertRegex(self.ok("--version"), r"\Aepiq \d+\.\d+\.\d+ ")


class Output(Case):
    def test_target_that_cannot_be_written(self):
        x = self.input()
        (self.folder / "folder").mkdir()
        for target in (self.path("nowhere/out"), self.path("folder"), "/dev/full", "/proc/out", ""):
            self.refused("quantize", x, "-o", target, "--format", "e4m3")
        self.assertEqual(os.listdir(self.folder / "folder"), [])

    def test_failure_keeps_the_old_file(self):
        x, out = self.input(), self.path("out.safetensors")
        Path(out).write_bytes(b"old")
        self.refused("quantize", x, "-o", out, "--format", "e4m3", "--layout", "tile128x4")
        self.assertEqual(Path(out).read_bytes(), b"old")
        self.ok("quantize", x, "-o", out, "--format", "e4m3")
        self.assertIn("q", read_file(out)[0])

    def test_full_standard_output(self):
        x = self.input()
        for arguments in (["info"], ["--version"], ["--help"], ["quantize", "--help"],
                          ["quantize", x, "-o", self.path("out.safetensors"), "--format", "e4m3"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([EPIQ, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"\Aepiq: [^\n]*standard output[^\n]*\n\Z")

    def test_signals_leave_nothing_half(self):
        x, out = self.input(4096, 512), self.folder / "target" / "out.safetensors"
        out.parent.mkdir()
        whole = self.path("whole.safetensors")
        begin = time.monotonic()
        self.ok("quantize", x, "-o", whole, "--format", "e4m3", "--threads", "2")
        usual = time.monotonic() - begin
        generator = random.Random(1)
        for number in [signal.SIGINT, signal.SIGTERM] * 12:
            process = subprocess.Popen([EPIQ, "quantize", x, "-o", out, "--format", "e4m3", "--threads", "2"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(generator.uniform(0, usual))
            process.send_signal(number)
            process.wait()
            left = os.listdir(out.parent)
            self.assertIn(left, ([], [out.name]))
            if left:
                self.assertEqual(out.read_bytes(), Path(whole).read_bytes())
                out.unlink()


class Dequantize(Case):
    def setUp(self):
        super().setUp()
        self.x = self.input(5, 64)
        self.bad, self.new = self.path("bad.safetensors"), self.path("new")

    def quantized(self, *options):
        path = self.path("good.safetensors")
        self.ok("quantize", self.x, "-o", path, *options)
        return read_file(path)

    def refuse(self, tensors, metadata, says=""):
        write_file(self.bad, tensors, metadata)
        return self.refused("dequantize", self.bad, "-o", self.new, says=says)

    def test_metadata(self):
        tensors, metadata = self.quantized("--format", "nvfp4", "--layout", "tile128x4")
        self.refuse(tensors, None, says="lacks")
        for key in ("format", "grain", "group", "layout", "scale_dtype", "rows", "cols", "padded_cols", "dtype"):
            self.refuse(tensors, {k: v for k, v in metadata.items() if k != key}, says=f"'{key}'")
            for value in ("", "nonsense", "-1", "1e3", "99999999999999999999", "7 ", "\n"):
                self.refuse(tensors, dict(metadata, **{key: value}))
        for key, value in (("format", "e4m3"), ("grain", "token"), ("group", "32"), ("layout", "row"), ("rows", "6"),
                           ("rows", "2147483647"), ("cols", "80"), ("cols", "268435456"),
                           ("padded_cols", "128"), ("padded_cols", "48"), ("scale_dtype", "f32"), ("dtype", "i32")):
            self.refuse(tensors, dict(metadata, **{key: value}))
        for name in ("q", "scale", "inv_scale"):
            self.refuse({k: v for k, v in tensors.items() if k != name}, metadata, says=f"'{name}'")

    def test_tensors(self):
        for options in (("--format", "nvfp4"), ("--format", "e4m3"), ("--format", "e4m3", "--scale", "2"),
                        ("--format", "e4m3", "--inv-scale", "2")):
            tensors, metadata = self.quantized(*options)
            for name, (dtype, shape, data) in tensors.items():
                one = len(data) == BYTES[dtype]
                two_rows = data[:len(data) // shape[0]] * 2
                for changed in ((dtype, shape + [1], data), (dtype, [1] + shape, data), (dtype, [len(data)], data),
                                (dtype, [0] + shape[1:], b""), (dtype, [2] + shape[1:], two_rows),
                                ("I16" if BYTES[dtype] == 2 else "U8", [len(data)], data),
                                ("I8" if dtype != "I8" else "U8", [len(data)], data)):
                    if one and changed[0] == dtype and math.prod(changed[1]) == 1:
                        continue  # one value may have any shape
                    self.refuse(dict(tensors, **{name: changed}), metadata, says=f"'{name}'")

    def test_values_of_single_scales(self):
        for options in (("--format", "nvfp4"), ("--format", "e4m3", "--scale", "2")):
            tensors, metadata = self.quantized(*options)
            name = "inv_scale" if "inv_scale" in tensors else "scale"
            for value in (0, -1, math.nan, math.inf):
                self.refuse(dict(tensors, **{name: ("F32", [1], struct.pack("<f", value))}), metadata, says="finite")
        self.refuse(dict(tensors, inv_scale=("F32", [1], struct.pack("<f", 1))), metadata, says="both")

    def test_other_files(self):
        self.refused("dequantize", self.x, "-o", self.new, says="metadata")
        self.refused("dequantize", self.path("missing"), "-o", self.new)

    def test_damaged_files(self):
        """Any damage is an answer or one line: never a crash, never a file left behind by a failure."""
        self.quantized("--format", "nvfp4")
        content = Path(self.path("good.safetensors")).read_bytes()
        generator = random.Random(7)
        header = 8 + struct.unpack("<Q", content[:8])[0]
        for _ in range(300):
            damaged = bytearray(content)
            for _ in range(generator.choice((1, 1, 2, 5))):
                byte = generator.choice((generator.randrange(256), 48 + generator.randrange(10)))
                damaged[generator.randrange(header)] = byte
            if generator.random() < 0.2:
                del damaged[generator.randrange(len(damaged)):]
            Path(self.bad).write_bytes(damaged)
            done = self.start("dequantize", self.bad, "-o", self.path("back"))
            if done.returncode == 0:
                read_file(self.path("back"))
                os.unlink(self.path("back"))
            else:
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertRegex(done.stderr, r"\Aepiq: [^\n]+\n\Z")
            self.assertEqual(sorted(set(os.listdir(self.folder)) - {Path(self.x).name}),
                             ["bad.safetensors", "good.safetensors"])


class Reports(Case):
    def test_info(self):
        info = json.loads(self.ok("info", "--json"))
        self.assertIn("c", [b["name"] for b in info["backends"] if b["usable"]])
        self.assertIn("e4m3", info["formats"])
        self.assertIn("silu", info["acts"])
        text = self.ok("info")
        for name in info["formats"] + info["acts"]:
            self.assertIn(name, text)

    def test_explain(self):
        self.assertIn("nvfp4", self.ok("explain", "act-mul", "--format", "nvfp4", "--rows", 64, "--cols", 64))
        self.assertIn("residual", self.ok("explain", "rms_norm", "--format", "e4m3", "-r", "any", "--residual-out",
                                          "--weight-dtype", "f32", "--rows", 3, "--cols", 7, "--dtype", "f16"))
        self.ok("explain", "quantize", "--format", "e4m3", "--scale", "2")
        self.ok("explain", "act-mul", "--format", "none")
        text = self.ok("explain", "dequantize", "--format", "e4m3", "--grain", "token", "--rows", 3, "--cols", 8)
        self.assertNotIn("refused", text)
        text = self.ok("explain", "quantize", "--format", "e4m3", "--grain", "tensor", "--rows", 4, "--cols", 8)
        self.assertNotIn("refused", text)
        group = ["explain", "quantize", "--format", "e4m3", "--grain", "group", "--rows", 5, "--cols", 256]
        for layout, line, lines in (("row", 8, 5), ("col", 20, 2), ("col_aligned", 32, 2), ("packed_ue8m0", 32, 1)):
            for stride in (line, 100):
                text = self.ok(*group, "--layout", layout, "--scale-stride", stride)
                self.assertRegex(text, rf"(?m)^  scales +{(lines - 1) * stride + line} bytes$")
            self.refused(*group, "--layout", layout, "--scale-stride", line - 1, says=f"{line - 1} bytes is shorter")
            text = self.ok(*group, "--layout", layout, "--pad-rows", "keep")
            self.assertEqual("padding rows not written" in text, layout in ("col_aligned", "packed_ue8m0"))
            self.assertNotIn("not written", self.ok(*group, "--layout", layout, "--pad-rows=zero"))
        back = ["explain", "dequantize", "--format", "e4m3", "--grain", "token", "--rows", 3, "--cols", 8]
        self.assertRegex(self.ok(*back, "--scale-stride", 12), r"(?m)^  scales +28 bytes$")
        self.refused(*back, "--scale-stride", "3", says="scale_stride: 3 bytes is shorter")
        self.refused("explain", "quantize", "--format", "nvfp4", "--layout", "tile8x4", "--scale-stride", "32",
                     says="scale_stride")
        self.refused("explain", "act-mul", "--format", "none", "--pad-rows", "keep", says="no effect")
        self.refused("explain", "act-mul", "--format", "none", "--scale-stride", "4", says="no effect")
        self.refused("explain", "dequantize", "--format", "nvfp4", "--pad-rows", "keep", says="no option")
        self.refused("explain", "layout", "--format", "e4m3", "--scale-stride", "4", says="no option")
        self.refused("quantize", self.input(), "-o", self.path("new"), "--format", "e4m3", "--pad-rows", "keep",
                     says="no option")  # a new file has nothing to keep
        self.ok("bench", "quantize", "--rows", 2, "--cols", 64, "--format", "nvfp4", "--layout", "tile8x4",
                "--pad-rows", "keep")
        self.refused("explain", "quantize", "--format", "e4m3", "--layout", "tile128x4", says="layout")
        self.refused("explain", "quantize", "--format", "nvfp4", "--cols", 17, says="17")
        self.refused("explain", "quantize", "--format", "e4m3", "--dtype", "i32", says="dtype")

    def test_check(self):
        self.assertIn("self-test passed", self.ok("check"))
        result = json.loads(self.ok("check", "--json", "--backend", "c"))
        self.assertTrue(result["passed"])
        self.assertTrue(all(way["calls"] > 100 and way["differing"] == 0 for way in result["compared_with_c"]))

    def test_bench(self):
        size = ["--rows", "2", "--cols", "128"]
        formats = self.formats()
        results = json.loads(self.ok("bench", *size, "--json"))["results"]
        self.assertEqual(sorted({(r["op"], r["format"]) for r in results}),
                         sorted((op, name) for op in ("act_mul", "rms_norm") for name in formats))
        self.assertTrue(all(r["ns_per_row"] > 0 and r["copy_ns_per_row"] > 0 and r["rows"] == 2 for r in results))
        lines = self.ok("bench", "rms-norm", *size, "--format", "e4m3", "-r", "yes", "--csv").splitlines()
        self.assertEqual([len(line.split(",")) for line in lines], [16, 16])
        self.assertEqual(lines[1].split(",")[8], str(2 * 128 * 2 * 2 + 128 * 2 + 2 * 128 + 2 * 4))
        text = self.ok("bench", "quantize", *size, "--format", "e4m3", "--threads", "2")
        self.assertEqual(len(text.splitlines()), 2)
        self.ok("bench", "act-mul", *size, "--format", "none", "--order", "separate", "--up", "yes")
        self.ok("bench", "quantize", "--rows", "0", "--format", "e4m3", "--json")
        self.refused("bench", "quantize", *size, "--format", "e4m3", "--layout", "tile128x4", "--json", says="layout")
        self.refused("bench", "quantize", "--cols", "17", "--nan", "saturate", "--layout", "col", "--grain", "token",
                     says="no format")

    def test_demo(self):
        begin = time.monotonic()
        text = self.ok("demo", "--data", TOP / "data")
        self.assertLess(time.monotonic() - begin, 60)
        lines = text.splitlines()
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertLessEqual(len(lines), 64)
        formats = self.formats()
        for op in ("act_mul", "rms_norm"):
            for name in formats:
                self.assertRegex(text, rf"(?m)^{op} +{name} ")
        self.assertIn("other layer", text)
        rows = json.loads(self.ok("demo", "--data", TOP / "data", "--layer", "15", "--json"))["rows"]
        self.assertEqual({row["format"] for row in rows}, set(formats))
        own, other = ([row["sqnr_db"] for row in rows if row["scale"] == word] for word in ("own amax", "other layer"))
        self.assertTrue(own and len(own) == len(other))

    def test_demo_of_one_file(self):
        data, tensors = self.folder / "data", {}
        data.mkdir()
        for number in (3, 12):
            for name, shape in (("residual", [2, 32]), ("x", [2, 32]), ("weight", [32]), ("gate_up", [2, 64])):
                tensors[f"layer{number:02}.{name}"] = ("BF16", shape, made_up(math.prod(shape), number))
        write_file(data / "all.safetensors", tensors)
        self.assertIn("layers 3, 12: 4 rows", self.ok("demo", "--data", data))
        self.assertIn("layer 12: 2 rows", self.ok("demo", "--data", data, "--layer", "12"))
        del tensors["layer03.weight"]
        write_file(data / "all.safetensors", tensors)
        self.refused("demo", "--data", data, says="'layer03.weight'")
        write_file(data / "all.safetensors", {name: tensors["layer12." + name] for name in
                                              ("residual", "x", "weight", "gate_up")})
        self.assertIn("amax / 8", self.ok("demo", "--data", data))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and os.access(sys.argv[1], os.X_OK):
        EPIQ = sys.argv.pop(1)
    if not EPIQ:
        sys.exit(__doc__)
    EPIQ = os.path.abspath(EPIQ)
    unittest.main()
