#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_tvm_ffi.py: the exported entry points through the real apache-tvm-ffi package, on NumPy arrays and, where
PyTorch is, on its CPU tensors: the same bytes as through the plain C interface, and errors as Python exceptions.

Seen failing: with the tag of tensor objects changed to 71 in tvm_ffi.h (PyTorch), and with the error returned but not
raised.
"""

import unittest

import numpy as np
import numpy_oracle as oracle
import tvm_ffi

import epiq
from epiq import library_path

try:
    import torch
except ImportError:
    torch = None

module = tvm_ffi.load_module(str(library_path()))


class NumPy(unittest.TestCase):
    def setUp(self):
        self.x = oracle.inputs(5, 9, 96, "f32")
        self.codes, self.scale = np.zeros((9, 96), np.uint8), np.zeros((9, 1), np.float32)

    def test_quantize(self):
        module.epiq_quantize(self.x, None, None, None, None, self.codes, self.scale, None, "format=e4m3 grain=token")
        wanted, scale = oracle.token(self.x, "e4m3")
        self.assertEqual(self.codes.tobytes(), wanted.tobytes())
        self.assertEqual(self.scale.tobytes(), scale.tobytes())

    def test_act_mul_and_dequantize(self):
        codes, y = self.codes[:, :48].copy(), np.zeros((9, 48), np.float32)
        module.epiq_act_mul(self.x, None, None, None, None, None, codes,
                            self.scale, y, None, 1.702, 7.0, "format=e4m3")
        wanted = epiq.act_mul(self.x, format="e4m3", alpha=1.702, limit=7.0, y_out=True)
        self.assertEqual((codes.tobytes(), y.tobytes()), (wanted.codes.tobytes(), wanted.y.tobytes()))
        module.epiq_dequantize(codes, self.scale, None, y, "format=e4m3 grain=token")
        self.assertEqual(y.tobytes(), epiq.dequantize(codes, self.scale, format="e4m3", grain="token").tobytes())

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "epiq_quantize: 'fp8' is no word of format"):
            module.epiq_quantize(self.x, None, None, None, None, self.codes, self.scale, None, "format=fp8")
        with self.assertRaisesRegex(TypeError, "argument 4 .workspace. is missing"):
            module.epiq_quantize(self.x, None, None, None)
        with self.assertRaisesRegex(RuntimeError, "backend"):
            module.epiq_quantize(self.x, None, None, None, None, self.codes,
                                 self.scale, None, "format=e4m3 backend=neon")


@unittest.skipIf(torch is None, "PyTorch is not here")
class Torch(unittest.TestCase):
    def test_rms_norm(self):
        x, r, w = (torch.randn(5, 64).bfloat16(), torch.randn(5, 64).bfloat16(), torch.randn(64).bfloat16())
        gs, y = torch.tensor([3.0]), torch.empty(5, 64, dtype=torch.bfloat16)
        old = r.clone()
        sf = torch.empty(128, 4, dtype=torch.float8_e4m3fn)
        packed = torch.empty(5, 32, dtype=torch.float4_e2m1fn_x2)
        module.epiq_rms_norm(x, r, w, None, gs, None, None, packed, sf, y, r, None, 1e-6, 1.0,
                             "format=nvfp4 layout=tile128x4")
        wanted = epiq.rms_norm(x, w, 1e-6, residual=old, residual_out=True, weight_bias=1, format="nvfp4",
                               layout="tile128x4", inv_scale=gs, y_out=True)
        self.assertTrue(torch.equal(packed.view(torch.uint8), wanted.codes))
        self.assertTrue(torch.equal(sf.view(torch.uint8), wanted.scale.view(torch.uint8)))
        self.assertTrue(torch.equal(y, wanted.y) and torch.equal(r, wanted.residual))
        # The numbers of the enumerations, and a strided view.
        wide = torch.zeros(5, 100, dtype=torch.bfloat16)
        wide[:, 7:71] = y
        again = torch.empty(5, 32, dtype=torch.uint8)
        module.epiq_quantize(wide[:, 7:71], None, gs, None, None, again, sf, None, 306, 505)
        self.assertTrue(torch.equal(again, wanted.codes))


if __name__ == "__main__":
    unittest.main()
