#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_oracle.py: codes and scales of epiq, called from Python, against numpy_oracle.py: the number of differing
bytes of every quantizer is printed and is 0; and dequantize, whose values ml_dtypes gives.

Seen failing: with ties of e2m1 to the odd code in the oracle, with scale and inv_scale swapped in _calls.py, with the
padding of tile128x4 left out, and with nvfp4 `ieee` asked for as `vllm`.
"""

import unittest

import ml_dtypes
import numpy as np
import numpy_oracle as oracle

import epiq

ROWS, COLS = 133, 384


def raw(array):
    return np.ascontiguousarray(array).view(np.uint8).ravel()


class Quantizers(unittest.TestCase):
    def compare(self, what, found, codes, scales=None, layout="row"):
        differing = int((raw(found.codes) != raw(codes)).sum())
        wrong_scales = 0
        if scales is not None:
            wanted = oracle.stored(scales, layout) if scales.ndim == 2 else raw(scales)
            self.assertEqual(raw(found.scale).size, wanted.size, what)
            wrong_scales = int((raw(found.scale) != wanted).sum())
        print(f"{what:58} {raw(codes).size:7} codes, differing {differing}; scale bytes differing {wrong_scales}")
        self.assertEqual((differing, wrong_scales), (0, 0), what)

    def each_input(self):
        for dtype in ("bf16", "f16", "f32"):
            x = oracle.inputs(7, ROWS, COLS, dtype)
            yield dtype, x, x.astype(np.float32)

    def test_tensor(self):
        for dtype, x, y in self.each_input():
            for format in ("e4m3", "e5m2", "int8"):
                for scale in (0.37, 1e-3, 1e30):
                    self.compare(f"{format} tensor scale {scale} {dtype}", epiq.quantize(x, format=format, scale=scale),
                                 oracle.tensor_static(y, format, scale=scale))
                    self.compare(f"{format} tensor inv_scale {scale} {dtype}",
                                 epiq.quantize(x, format=format, inv_scale=scale),
                                 oracle.tensor_static(y, format, inv_scale=scale))
                if format != "int8":
                    self.compare(f"{format} tensor dynamic {dtype}", epiq.quantize(x, format=format, grain="tensor"),
                                 *oracle.tensor_dynamic(y, format))

    def test_token(self):
        for dtype, x, y in self.each_input():
            for format in ("e4m3", "e5m2", "int8"):
                self.compare(f"{format} token {dtype}", epiq.quantize(x, format=format), *oracle.token(y, format))
            self.compare(f"e4m3 token scale_ub {dtype}", epiq.quantize(x, format="e4m3", scale_ub=3.0),
                         *oracle.token(y, "e4m3", 3.0))

    def test_group(self):
        for dtype, x, y in self.each_input():
            for size in (16, 64, 128):
                for layout in ("row", "col", "col_aligned"):
                    self.compare(f"e4m3 group {size} {layout} {dtype}",
                                 epiq.quantize(x, format="e4m3", grain="group", group=size, layout=layout),
                                 *oracle.group(y, "e4m3", size), layout=layout)
            codes, exponents = oracle.group(y, "e5m2", 128, ue8m0=True)
            self.compare(f"e5m2 group 128 packed_ue8m0 {dtype}",
                         epiq.quantize(x, format="e5m2", grain="group", layout="packed_ue8m0"), codes, exponents,
                         "packed_ue8m0")
            self.compare(f"e5m2 group 128 ue8m0 {dtype}", epiq.quantize(x, format="e5m2", grain="group", ue8m0=True),
                         codes,
                         (exponents.astype(np.uint32) << 23).view(np.float32))

    def test_mx(self):
        for dtype, x, y in self.each_input():
            for format, rounding in (("mxfp8", "ceil"), ("mxfp8", "floor"), ("mxfp4", "ceil"), ("mxfp4", "floor"),
                                     ("mxfp4", "vllm")):
                for layout in ("row", "tile128x4", "tile8x4"):
                    self.compare(f"{format} {rounding} {layout} {dtype}",
                                 epiq.quantize(x, format=format, mx_round=rounding, layout=layout),
                                 *oracle.mx(y, format, rounding), layout=layout)

    def test_nvfp4(self):
        for dtype, x, y in self.each_input():
            for rule in ("vllm", "ieee"):
                for gs in (2688 / 1000.0, 0.37, 1e4):
                    for layout in ("row", "tile128x4", "tile8x4"):
                        self.compare(f"nvfp4 {rule} gs {gs:g} {layout} {dtype}",
                                     epiq.quantize(x, format="nvfp4", nvfp4=rule, inv_scale=gs, layout=layout),
                                     *oracle.nvfp4(y, gs, rule), layout=layout)
            found = epiq.quantize(x, format="nvfp4", inv_scale_out=True)
            gs = oracle.computed_gs(y)
            self.assertEqual(found.inv_scale.tobytes(), gs.tobytes())
            self.compare(f"nvfp4 computed gs {dtype}", found, *oracle.nvfp4(y, gs))

    def test_padded_columns(self):
        x = oracle.inputs(3, 5, 40)
        y = np.zeros((5, 64), np.float32)
        y[:, :40] = x.astype(np.float32)
        self.compare("nvfp4 padded_cols 64", epiq.quantize(x, format="nvfp4", inv_scale=1.0, padded_cols=64),
                     *oracle.nvfp4(y, 1.0))


class Dequantize(unittest.TestCase):
    def test_every_code_of_the_byte_formats(self):
        codes = np.arange(256, dtype=np.uint8).reshape(4, 64)
        for format, kind in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2), ("int8", np.int8)):
            with np.errstate(all="ignore"):
                wanted = codes.view(kind).astype(np.float32) * np.float32(0.37)
            found = epiq.dequantize(codes, 0.37, format=format, grain="tensor")
            self.assertTrue(np.array_equal(wanted, found, equal_nan=True), format)
            bf16 = epiq.dequantize(codes, 0.37, format=format, grain="tensor", dtype="bf16")
            self.assertTrue(np.array_equal(wanted.astype(ml_dtypes.bfloat16).astype(np.float32),
                                           bf16.astype(np.float32),
                                           equal_nan=True), format)

    def test_round_trips(self):
        x = np.random.default_rng(1).standard_normal((130, 256)).astype(ml_dtypes.bfloat16)
        for options in ({"format": "mxfp8", "layout": "tile128x4"}, {"format": "mxfp4"},
                        {"format": "e4m3", "grain": "group", "layout": "packed_ue8m0"}, {
                            "format": "e4m3", "grain": "token"},
                        {"format": "nvfp4", "layout": "tile8x4"}):
            computed = {"inv_scale_out": True} if options["format"] == "nvfp4" else {}
            q = epiq.quantize(x, **options, **computed)
            gs = {"inv_scale": q.inv_scale} if computed else {}
            y = epiq.dequantize(q.codes, q.scale, **options, **gs)
            error = np.linalg.norm(y - x.astype(np.float32)) / np.linalg.norm(x.astype(np.float32))
            self.assertLess(error, 0.15 if options["format"].endswith("4") else 0.04, options)


if __name__ == "__main__":
    unittest.main(verbosity=1)
