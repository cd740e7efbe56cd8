#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_package.py: the interface of the Python package with NumPy arrays and plain buffers: structs, views and
strides, given and new outputs, aliases, sizes, errors, threads.

Seen failing: with two fields of Output swapped, with the row stride of x left out, with read-only outputs accepted,
with a broadcast weight read as dense, and with the residual not stored.
"""

import array
import subprocess
import sys
import unittest
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy_oracle as oracle

import epiq
from epiq import _library

ROOT = Path(__file__).resolve().parents[2]
BF16 = ml_dtypes.bfloat16


def codes(x, **more):
    return epiq.quantize(x, format="e4m3", **more).codes


class Interface(unittest.TestCase):
    def test_structs_are_those_of_the_header(self):
        names = {"Matrix": "epiq_matrix", "Output": "epiq_output", "ActMulArgs": "epiq_act_mul_args",
                 "RmsNormArgs": "epiq_rms_norm_args", "QuantizeArgs": "epiq_quantize_args",
                 "DequantizeArgs": "epiq_dequantize_args", "Exec": "epiq_exec", "Sizes": "epiq_sizes"}
        lines = [line.split() for line in (ROOT / "tests/gates/abi_offsets.txt").read_text().splitlines()]
        for ours, theirs in names.items():
            struct = getattr(_library, ours)
            pinned = [(name, *map(int, rest)) for struct_name, name, *rest in (line for line in lines if len(line) > 2)
                      if struct_name == theirs]
            found = [(name, getattr(struct, name).offset, getattr(struct, name).size) for name, _ in struct._fields_]
            self.assertEqual([("size", _library.ctypes.sizeof(struct)), *found], pinned, theirs)

    def test_importing_needs_no_framework(self):
        code = ("import sys, epiq; epiq.info(); epiq.sizes('quantize', 4, 64, format='e4m3'); "
                "sys.exit(' '.join({'torch', 'jax', 'cupy', 'numpy', 'ml_dtypes', 'tvm_ffi'} & set(sys.modules)) or 0)")
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_info(self):
        info = epiq.info()
        self.assertEqual(info["spec_revision"], 1)
        self.assertTrue(info["backends"]["c"]["usable"])
        self.assertEqual(sorted(info["backends"]), sorted(epiq.words("backend")))

    def test_every_function_is_documented(self):
        for name in ("act_mul", "rms_norm", "quantize", "dequantize", "sizes", "info"):
            self.assertGreater(len(getattr(epiq, name).__doc__), 100, name)


class Arrays(unittest.TestCase):
    def setUp(self):
        self.x = oracle.inputs(1, 6, 64)
        self.plain = codes(self.x)

    def test_leading_dimensions_are_rows(self):
        found = epiq.quantize(self.x.reshape(2, 3, 64), format="e4m3", grain="group", group=32)
        self.assertEqual((found.codes.shape, found.scale.shape), ((2, 3, 64), (2, 3, 2)))
        self.assertEqual(codes(self.x[0]).shape, (64,))
        self.assertTrue(np.array_equal(codes(self.x[0]), self.plain[0]))

    def test_a_column_slice_keeps_its_stride(self):
        wide = np.full((6, 200), 7, BF16)
        wide[:, 24:88] = self.x
        out = np.full((6, 80), 0xEE, np.uint8)
        codes(wide[:, 24:88], codes_out=out[:, 5:69])
        self.assertTrue(np.array_equal(out[:, 5:69], self.plain))
        self.assertTrue((out[:, :5] == 0xEE).all() and (out[:, 69:] == 0xEE).all())

    def test_strides_that_are_no_rows_are_refused(self):
        square = np.zeros((64, 64), BF16)
        for x in (square.T, square[:, ::2], np.broadcast_to(
            square[0], (4, 64)), square.reshape(2, 32, 64).swapaxes(0, 1)):
            with self.assertRaises(ValueError):
                codes(x)
        weight = np.ones((64, 2), BF16)
        for w in (weight[:, 0], np.broadcast_to(BF16(1), (64,))):
            with self.assertRaisesRegex(ValueError, "weight"):
                epiq.rms_norm(self.x, w, 1e-6, format="e4m3")

    def test_outputs_are_checked(self):
        readonly = np.zeros((6, 64), np.uint8)
        readonly.flags.writeable = False
        for bad, error in ((readonly, ValueError), (np.zeros((6, 63), np.uint8), ValueError),
                           (np.zeros((5, 64), np.uint8), ValueError), (np.zeros((6, 32), np.float16), TypeError),
                           (bytes(384), ValueError)):
            with self.assertRaises(error):
                codes(self.x, codes_out=bad)
        with self.assertRaises(ValueError):
            codes(self.x, scale_out=np.zeros((6, 2), np.float32))
        typed = np.zeros((6, 64), ml_dtypes.float8_e4m3fn)
        words = np.zeros((6, 16), np.int32)  # four codes in each
        codes(self.x, codes_out=typed)
        codes(self.x, codes_out=words)
        self.assertTrue(np.array_equal(typed.view(np.uint8), self.plain))
        self.assertTrue(np.array_equal(words.view(np.uint8), self.plain))

    def test_a_column_major_scale_may_be_given_as_view(self):
        stored = np.zeros((2, 6), np.float32)
        view = np.zeros((2, 9), np.float32)
        for out in (stored, view[:, :6].T):
            epiq.quantize(self.x, format="e4m3", grain="group", group=32, layout="col", scale_out=out)
        self.assertTrue(np.array_equal(stored, view[:, :6]) and (view[:, 6:] == 0).all() and stored.any())

    def test_plain_buffers(self):
        x = array.array("f", self.x.astype(np.float32).tobytes())
        out, scale = bytearray(384), array.array("f", bytes(4))
        epiq.quantize(x, format="e4m3", codes_out=out, scale_out=scale)
        whole = epiq.quantize(self.x.astype(np.float32).reshape(1, -1), format="e4m3")
        self.assertEqual(bytes(out), whole.codes.tobytes())
        self.assertEqual(scale[0], whole.scale[0, 0])
        with self.assertRaises(TypeError):
            epiq.quantize(x, format="e4m3")
        with self.assertRaisesRegex(TypeError, "neither DLPack nor the buffer protocol"):
            codes([1.0, 2.0])

    def test_dlpack_without_a_framework(self):
        class Capsule:  # of NumPy's, but not NumPy's type
            def __init__(self, inner):
                self.inner = inner

            def __dlpack__(self, **arguments):
                return self.inner.__dlpack__(**arguments)

            def __dlpack_device__(self):
                return self.inner.__dlpack_device__()

        x = self.x.astype(np.float32)
        out = np.zeros((6, 64), np.uint8)
        epiq.quantize(Capsule(x[1:]), format="e4m3", codes_out=Capsule(
            out[1:]), scale_out=Capsule(np.zeros(5, np.float32)))
        self.assertTrue(np.array_equal(out[1:], self.plain[1:]) and not out[0].any())
        wide = np.zeros((6, 100), np.float32)
        wide[:, 10:74] = x
        epiq.quantize(Capsule(wide[:, 10:74]), format="e4m3", codes_out=out, scale_out=np.zeros(6, np.float32))
        self.assertTrue(np.array_equal(out, self.plain))

    def test_no_rows(self):
        found = codes(np.zeros((0, 64), BF16))
        self.assertEqual(found.shape, (0, 64))


class Operations(unittest.TestCase):
    def test_residual_in_place_and_new(self):
        x, r, w = oracle.inputs(1, 6, 64), oracle.inputs(2, 6, 64), np.ones(64, BF16)
        x[5], r[5] = 1, 2
        wanted = (x.astype(np.float32) + r.astype(np.float32)).astype(BF16)
        new = epiq.rms_norm(x, w, 1e-6, residual=r, residual_out=True, format="e4m3", y_out=True)
        place = r.copy()
        same = epiq.rms_norm(x, w, 1e-6, residual=place, residual_out=place, format="e4m3")
        self.assertTrue(np.array_equal(new.residual, wanted) and np.array_equal(place, wanted))
        self.assertTrue(np.array_equal(new.codes, same.codes) and new.y.shape == (6, 64))
        self.assertIs(same.residual, place)

    def test_results_outlive_their_inputs(self):
        x, scale = oracle.inputs(1, 6, 64), np.full(1, 0.5, np.float32)
        kept = [epiq.quantize(x, format="e4m3", scale=scale, grain="tensor"), epiq.quantize(x, format="nvfp4",
                inv_scale=scale), epiq.act_mul(x, format="e4m3", y_out=True)]
        arrays = [array for result in kept for array in result if array is not None and array is not scale]
        before = [array.tobytes() for array in arrays]
        self.assertFalse(any(np.shares_memory(array, given) for array in arrays for given in (x, scale)))
        x.view(np.uint16)[:] = 0x7fff
        scale[0] = 9
        self.assertEqual([array.tobytes() for array in arrays], before)

    def test_y_alone(self):
        x = oracle.inputs(1, 6, 64)
        y = epiq.act_mul(x, y_out=True)
        self.assertEqual((y.codes, y.scale, y.y.shape), (None, None, (6, 32)))
        again = epiq.quantize(y.y, format="mxfp8")
        fused = epiq.act_mul(x, format="mxfp8")
        self.assertTrue(np.array_equal(again.codes, fused.codes) and np.array_equal(again.scale, fused.scale))

    def test_orders(self):
        x = oracle.inputs(1, 6, 64)
        gate, up = np.ascontiguousarray(x[:, :32]), np.ascontiguousarray(x[:, 32:])
        wanted = epiq.act_mul(x, format="e4m3").codes
        woven = np.empty_like(x)
        woven[:, 0::2], woven[:, 1::2] = gate, up
        for found in (epiq.act_mul(gate, up, order="separate", format="e4m3"),
                      epiq.act_mul(woven, order="interleaved", format="e4m3"),
                      epiq.act_mul(np.hstack([up, gate]), order="up_gate", format="e4m3")):
            self.assertTrue(np.array_equal(found.codes, wanted))

    def test_threads_and_backends_change_no_byte(self):
        x = oracle.inputs(4, 300, 512)
        wanted = epiq.quantize(x, format="nvfp4", inv_scale_out=True)
        for threads in (0, 3, 1):
            epiq.set_threads(threads)
            for backend in (None, "c"):
                found = epiq.quantize(x, format="nvfp4", inv_scale_out=True, backend=backend)
                self.assertEqual([part.tobytes() for part in found[:3]], [part.tobytes() for part in wanted[:3]])

    def test_sizes(self):
        z = epiq.sizes(
    "rms_norm",
    130,
    80,
    format="nvfp4",
    layout="tile128x4",
    eps=1e-6,
    present=(
        "inv_scale",
         "y_out"))
        self.assertEqual((z.scale_shape, z.scale_bytes, z.codes_bytes, z.y_bytes),
                         ((256, 8), 2048, 130 * 40, 130 * 160))
        self.assertEqual(epiq.sizes("quantize", epiq.UNKNOWN, 64, format="e4m3").codes_row_bytes, 64)
        self.assertEqual(epiq.scale_offset("quantize", 130, 80, 129, 4, format="nvfp4", layout="tile128x4",
                                           present=("inv_scale",)), 1552)


class Refusals(unittest.TestCase):
    def refuse(self, status, part, call, *arguments, **options):
        with self.assertRaises(epiq.Error) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.status, status)
        self.assertIn(part, str(caught.exception))
        self.assertIsInstance(caught.exception, ValueError)

    def test_words_and_rules(self):
        x = oracle.inputs(1, 6, 64)
        self.refuse("value", "format: 'fp8' is none of e4m3, e5m2", epiq.quantize, x, format="fp8")
        self.refuse("value", "inv_scale", epiq.quantize, x, format="nvfp4")
        self.refuse("value", "is no number", epiq.quantize, x, format="e4m3", group="wide")
        self.refuse("shape", "not a multiple of 16", epiq.quantize, x[:, :40], format="nvfp4", inv_scale=1.0)
        self.refuse("conflict", "group", epiq.quantize, x, format="e4m3", group=64)
        self.refuse("conflict", "scale", epiq.quantize, x, format="e4m3", scale=1.0, inv_scale=1.0)
        self.refuse("conflict", "up", epiq.act_mul, x, x, format="e4m3")
        self.refuse(
    "conflict",
    "static",
    epiq.quantize,
    x,
    format="e4m3",
    scale=1.0,
    scale_out=np.zeros(
        1,
         np.float32))
        self.refuse("unsupported", "int8", epiq.quantize, x, format="int8", grain="group")
        self.refuse("value", "eps", epiq.rms_norm, x, np.ones(64, BF16), 0.0, format="e4m3")
        self.refuse("value", "needs a format", epiq.act_mul, x, y_out=True, scale=1.0)
        self.refuse("buffer", "nothing is asked for", epiq.act_mul, x)
        self.refuse("overlap", "overlap", epiq.quantize, x, format="e4m3", codes_out=x.view(np.uint8)[:, :64])
        self.refuse("conflict", "stream", epiq.quantize, x, format="e4m3", stream=1)
        if not epiq.backend_usable("cuda")[0]:
            self.refuse("backend", "cuda", epiq.quantize, x, format="e4m3", backend="cuda")
            self.refuse("backend", "cuda", epiq.dequantize, x.view(np.uint8), np.ones(1, np.float32), format="e4m3",
                        grain="tensor", backend="cuda")
            self.assertTrue(issubclass(epiq.BackendError, RuntimeError))

    def test_workspace_is_what_cuda_needs(self):
        ask = lambda **options: epiq._calls.sizes_of(  # noqa: E731
            "quantize", tuple(options.items()), "bf16", 4, 64, ()).workspace_bytes
        self.assertEqual(ask(format="e4m3", grain="tensor"), 8192)
        self.assertEqual(ask(format="e4m3", grain="token"), 0)

    def test_nothing_is_written_then(self):
        x = oracle.inputs(1, 6, 64)
        out = np.full((6, 64), 0xEE, np.uint8)
        with self.assertRaises(epiq.Error):
            epiq.quantize(x, format="e4m3", codes_out=out, scale_ub=1.0, grain="tensor")
        self.assertTrue((out == 0xEE).all())

    def test_types(self):
        x = oracle.inputs(1, 6, 64)
        for bad in (x.astype(np.float64), x.astype(">f4"), np.zeros((6, 64), np.int32)):
            with self.assertRaises(TypeError):
                epiq.quantize(bad, format="e4m3")
        with self.assertRaises(TypeError):
            epiq.rms_norm(x, np.ones(64, BF16), 1e-6, residual=x.astype(np.float32), format="e4m3")
        wide = np.full((6, 64), 7, np.float32)
        with self.assertRaises(TypeError):
            epiq.rms_norm(x, np.ones(64, BF16), 1e-6, residual=x, residual_out=wide, format="e4m3")
        self.assertTrue((wide == 7).all())
        with self.assertRaises(TypeError):
            epiq.quantize(x, format="e4m3", scale=np.ones(2, np.float32))


if __name__ == "__main__":
    unittest.main()
