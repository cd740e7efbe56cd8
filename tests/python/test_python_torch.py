#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_torch.py: epiq.torch and epiq.compat.vllm on CPU tensors: bytes against numpy_oracle.py, unfused chains
of vLLM emulated step by step in torch, fake implementations against epiq_check_*, opcheck,
torch.compile(fullgraph=True). The number of differing codes of each chain is printed: 0 for the quantizer given y.

Seen failing: with the Gemma bias left out, with scale given as inv_scale, with rows of tile128x4 rounded to 64 in
torch.py, with a fake implementation that returns H codes for nvfp4, and with the mutation of y_out not declared.
"""

import inspect
import unittest

import numpy as np
import numpy_oracle as oracle
import torch
import torch.nn.functional as F
from torch import library as torch_ops

import epiq
import epiq.torch
from epiq.compat import vllm

E4M3 = torch.float8_e4m3fn
opcheck = torch_ops.opcheck


def tensors(seed, rows, cols, dtype="bf16"):
    """Adversarial rows of numpy_oracle.inputs as a tensor."""
    x = oracle.inputs(seed, rows, cols, dtype)
    kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    return torch.from_numpy(x.astype(np.float32)).to(kind)


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).flatten()


def differing(found, wanted):
    return int((raw(found) != raw(wanted)).sum())


def tree_sum_of_squares(h):
    """doc/spec.md 3.2, in torch operations on fp32."""
    q = h * h
    width = 1 << (q.shape[-1] - 1).bit_length()
    q = F.pad(q, (0, width - q.shape[-1]))
    while q.shape[-1] > 1:
        q = q[..., 0::2] + q[..., 1::2]
    return q


def emulated_norm(x, residual, weight, eps, bias, sum_rounded, twice):
    """(y, residual) of an unfused chain, rounding where it rounds."""
    h = x.float() if residual is None else x.float() + residual.float()
    stored = h.to(x.dtype)
    if sum_rounded and residual is not None:
        h = stored.float()
    rinv = 1 / torch.sqrt(tree_sum_of_squares(h) / h.shape[-1] + eps)
    t = h * rinv
    if twice:
        t = t.to(x.dtype).float()
    return (t * (weight.float() + bias if bias else weight.float())).to(x.dtype), stored


def emulated_fp8(y, scale):
    """scaled_fp8_quant, static."""
    return (y.float() * (1.0 / scale)).clamp(-448, 448).to(E4M3)


def emulated_fp4(y, gs):
    codes, scales = oracle.nvfp4(y.float().numpy(), float(gs))
    return torch.from_numpy(codes), torch.from_numpy(oracle.stored(scales, "tile128x4"))


class SeedFunction(unittest.TestCase):
    """gemma_add_rms_norm_quant against the chain that it replaces."""

    def chain(self, what, x, residual, weight, eps, scale, nvfp4):
        kept = None if residual is None else residual.clone()
        before = x.clone()
        q, block_scale, y = epiq.torch.gemma_add_rms_norm_quant(x, residual, weight, eps, scale, nvfp4, write_y=True)
        rows, hidden = x.shape
        y_wanted, stored = emulated_norm(x, kept, weight, eps, 1.0, False, False)
        self.assertEqual((y.dtype, y.shape), (x.dtype, x.shape))
        self.assertTrue(torch.equal(raw(x), raw(before)))
        if nvfp4:
            self.assertEqual((q.dtype, q.shape), (torch.uint8, (rows, hidden // 2)))
            up = (-(-rows // 128) * 128, -(-(hidden // 16) // 4) * 4)
            self.assertEqual((block_scale.dtype, block_scale.shape), (E4M3, up))
            codes, scales = emulated_fp4(y, scale)
            m = torch.arange(rows)[:, None]
            k = torch.arange(up[1])[None, :]
            at = ((m >> 7) * (up[1] // 4) + (k >> 2)) * 512 + (m & 31) * 16 + ((m >> 5) & 3) * 4 + (k & 3)
            wrong_scales = int((raw(block_scale)[at] != scales[at]).sum())
        else:
            self.assertEqual((q.dtype, q.shape), (E4M3, x.shape))
            self.assertIs(block_scale, scale)
            codes, wrong_scales = emulated_fp8(y, scale), 0
        counts = (differing(q, codes), wrong_scales, differing(y, y_wanted),
                  0 if residual is None else differing(residual, stored))
        print(f"{what:52} differing: codes {counts[0]}, scales {counts[1]}, y {counts[2]}, residual {counts[3]}")
        self.assertEqual(counts, (0, 0, 0, 0), what)

    def test_chain(self):
        for dtype in ("bf16", "f16"):
            for rows, hidden in ((1, 16), (7, 80), (130, 512)):
                x, r = tensors(1, rows, hidden, dtype), tensors(2, rows, hidden, dtype).roll(1, 0)
                if dtype == "f16":
                    x, r = x.clamp(-1e4, 1e4), r.clamp(-1e4, 1e4)  # the stored residual stays finite
                for weight in (torch.randn(hidden).to(x.dtype), torch.randn(hidden)):
                    for nvfp4, scale in ((False, 0.02), (True, 100.0)):
                        for residual in (None, r.clone()):
                            self.chain(f"{dtype} [{rows}, {hidden}] w {weight.dtype} nvfp4 {nvfp4} "
                                       f"residual {residual is not None}", x, residual, weight, 1e-6,
                                       torch.tensor([scale]), nvfp4)

    def test_signature_and_returns(self):
        signature = inspect.signature(epiq.torch.gemma_add_rms_norm_quant)
        self.assertEqual(list(signature.parameters), ["x", "residual", "weight", "eps", "scale", "nvfp4", "write_y"])
        self.assertIs(signature.parameters["write_y"].default, False)
        x = torch.randn(3, 64).bfloat16()
        w, s = torch.zeros(64, dtype=torch.bfloat16), torch.tensor(0.5)
        q, scale, y = epiq.torch.gemma_add_rms_norm_quant(x, None, w, 1e-6, s, False)
        self.assertIsNone(y)
        self.assertIs(scale, s)
        for nvfp4 in (False, True):
            q, scale, y = epiq.torch.gemma_add_rms_norm_quant(x[:0], None, w, 1e-6, s, nvfp4, True)
            self.assertEqual((len(q), len(y)), (0, 0))

    def test_value_errors_where_the_seed_asserts(self):
        x, w, s = torch.randn(3, 64).bfloat16(), torch.zeros(64, dtype=torch.bfloat16), torch.tensor([0.5])
        good = {"x": x, "residual": None, "weight": w, "eps": 1e-6, "scale": s, "nvfp4": True}
        for name, bad in (("x", x[None]), ("x", x.t()), ("x", x.float()), ("residual", x[:2]), ("residual", x.float()),
                          ("residual", torch.randn(64, 3).bfloat16().t()), ("weight", w[:32]), ("weight", w[None]),
                          ("scale", torch.ones(2)), ("scale", s.double()), ("x", x[:, :40].contiguous())):
            arguments = dict(good, **{name: bad})
            if name == "x" and bad.shape[-1] == 40:
                arguments["weight"] = w[:40]
            with self.assertRaises(ValueError, msg=f"{name} {tuple(bad.shape)} {bad.dtype}"):
                epiq.torch.gemma_add_rms_norm_quant(**arguments)

    def test_rows_beyond_the_last_stay_unwritten(self):
        scale_out = torch.full((128, 4), 3, dtype=torch.uint8)
        x = torch.randn(2, 32).bfloat16()
        torch.ops.epiq.rms_norm_out(x, torch.ones(32).bfloat16(), 1e-6, format="nvfp4", layout="tile128x4",
                                    pad_rows="keep", inv_scale=torch.ones(1), scale_out=scale_out,
                                    codes_out=torch.empty(2, 16, dtype=torch.uint8))
        flat = scale_out.flatten()
        self.assertTrue((flat[32:] == 3).all())
        self.assertTrue((flat[2:4] == 0).all() and (flat[18:20] == 0).all())


class VllmFunctions(unittest.TestCase):
    def test_silu_and_mul_quant(self):
        """All finite bf16 gates against a few ups: torch's silu rounds to bf16 like vLLM's kernel."""
        gates = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
        gates = gates[gates.isfinite()].reshape(-1, 128)
        for up in (1.0, -0.3, 7.0):
            ups = torch.full_like(gates, up) * torch.randn(gates.shape).bfloat16()
            x, scale = torch.cat([gates, ups], 1), torch.tensor([0.05])
            q = torch.empty(gates.shape, dtype=E4M3)
            vllm.silu_and_mul_quant(q, x, scale)
            y = F.silu(gates.float()).bfloat16() * ups
            ours = epiq.act_mul(x, y_out=True).y
            given_y, unfused = differing(q, emulated_fp8(ours, scale)), differing(q, emulated_fp8(y, scale))
            print(f"silu_and_mul -> scaled_fp8_quant, all bf16 gates, up {up}: differing codes given y {given_y}, "
                  f"against torch's silu {unfused}, y {differing(ours, y) }")
            self.assertEqual((given_y, unfused), (0, 0))
            vllm.silu_and_mul_quant(q, x, scale, chain="direct")
            self.assertGreater(differing(q, emulated_fp8(y, scale)), 0)

    def test_silu_and_mul_nvfp4_quant(self):
        x, gs = tensors(3, 130, 2 * 96), torch.tensor([50.0])
        for kind, width in ((E4M3, 8), (torch.int32, 2)):
            q, sf = torch.empty(130, 48, dtype=torch.uint8), torch.zeros(256, width, dtype=kind)
            vllm.silu_and_mul_nvfp4_quant(q, sf, x, gs)
            y = epiq.act_mul(x, act_round="once", y_out=True).y
            codes, scales = emulated_fp4(y, gs)
            self.assertEqual((differing(q, codes), differing(sf, scales)), (0, 0))

    def test_fused_add_rms_norm_static_fp8_quant(self):
        x, r, w = tensors(4, 40, 256), tensors(5, 40, 256).roll(1, 0), torch.randn(256).bfloat16()
        scale, q, place = torch.tensor([0.03]), torch.empty(40, 256, dtype=E4M3), r.clone()
        vllm.fused_add_rms_norm_static_fp8_quant(q, x, place, w, scale, 1e-5)
        y, stored = emulated_norm(x, r, w, 1e-5, 0, True, True)
        counts = differing(q, emulated_fp8(y, scale)), differing(place, stored)
        print(f"fused_add_rms_norm_static_fp8_quant: differing codes {counts[0]}, residual {counts[1]}")
        self.assertEqual(counts, (0, 0))
        vllm.rms_norm_static_fp8_quant(q, x, w, scale, 1e-5)
        self.assertEqual(differing(q, emulated_fp8(emulated_norm(x, None, w, 1e-5, 0, True, True)[0], scale)), 0)

    def test_rms_norm_dynamic_per_token_quant(self):
        x, r, w = tensors(4, 40, 256), tensors(5, 40, 256).roll(1, 0), torch.randn(256).bfloat16()
        for kind, word in ((E4M3, "e4m3"), (torch.int8, "int8")):
            for residual in (None, r.clone()):
                y, stored = emulated_norm(x, None if residual is None else r, w, 1e-5, 0, False, True)
                q, scales = vllm.rms_norm_dynamic_per_token_quant(x, w, 1e-5, kind, residual=residual)
                codes, wanted = oracle.token(y.float().numpy(), word)
                self.assertEqual((q.dtype, scales.shape), (kind, (40, 1)))
                self.assertEqual(
    (differing(
        q, torch.from_numpy(codes)), differing(
            scales, torch.from_numpy(wanted))), (0, 0))
                if residual is not None:
                    self.assertEqual(differing(residual, stored), 0)
        bound = torch.tensor([1.5])
        q, scales = vllm.rms_norm_dynamic_per_token_quant(x, w, 1e-5, E4M3, scale_ub=bound)
        y, _ = emulated_norm(x, None, w, 1e-5, 0, False, True)
        self.assertEqual(differing(q, torch.from_numpy(oracle.token(y.float().numpy(), "e4m3", 1.5)[0])), 0)

    def test_scaled_fp8_quant(self):
        x = tensors(6, 24, 128)
        q, s = vllm.scaled_fp8_quant(x, torch.tensor([0.1]))
        self.assertEqual(differing(q, emulated_fp8(x, torch.tensor([0.1]))), 0)
        q, s = vllm.scaled_fp8_quant(x)
        codes, scale = oracle.tensor_dynamic(x.float().numpy(), "e4m3")
        self.assertEqual((differing(q, torch.from_numpy(codes)), differing(s, torch.from_numpy(scale))), (0, 0))
        q, s = vllm.scaled_fp8_quant(x, num_token_padding=32, use_per_token_if_dynamic=True)
        codes, scale = oracle.token(x.float().numpy(), "e4m3")
        self.assertEqual((q.shape, s.shape), ((32, 128), (32, 1)))
        self.assertEqual((differing(q[:24], torch.from_numpy(codes)),
                         differing(s[:24], torch.from_numpy(scale))), (0, 0))
        with self.assertRaises(ValueError):
            vllm.scaled_fp8_quant(x, torch.ones(2))

    def test_scaled_fp4_quant(self):
        x, gs = tensors(6, 24, 96), torch.tensor([9.0])
        codes, scales = oracle.nvfp4(x.float().numpy(), 9.0)
        for layout, arguments in (("tile128x4", {}), ("row", {"is_sf_swizzled_layout": False}),
                                  ("tile8x4", {"backend": "trtllm"})):
            q, sf = vllm.scaled_fp4_quant(x.reshape(4, 6, 96), gs, **arguments)
            self.assertEqual((q.dtype, sf.dtype, q.shape), (torch.uint8, E4M3, (24, 48)))
            self.assertEqual(differing(q, torch.from_numpy(codes)), 0)
            self.assertEqual(differing(sf, torch.from_numpy(oracle.stored(scales, layout))), 0)
        q, sf = vllm.scaled_fp4_quant(x, gs, padded_n=128)
        self.assertEqual((q.shape, sf.shape), ((24, 64), (128, 8)))


CASES = [
    ("quantize", {"format": "e4m3"}, ()), ("quantize", {"format": "e4m3", "grain": "tensor"}, ()),
    ("quantize", {"format": "e5m2", "grain": "group", "group": 64, "layout": "col_aligned"}, ()),
    ("quantize", {"format": "e4m3", "grain": "group", "layout": "packed_ue8m0"}, ()),
    ("quantize", {"format": "e4m3", "grain": "group", "layout": "col"},
     ()), ("quantize", {"format": "int8"}, ("scale",)),
    ("quantize", {"format": "mxfp8", "layout": "tile128x4"}, ()), ("quantize", {"format": "mxfp4"}, ()),
    ("quantize", {"format": "nvfp4", "layout": "tile8x4", "padded_cols": 128}, ("inv_scale",)),
    ("quantize", {"format": "nvfp4", "layout": "tile128x4"}, ("new_inv_scale",)),
    ("act_mul", {"format": "e4m3", "grain": "tensor", "chain": "direct"}, ("inv_scale",)),
    ("act_mul", {"format": "mxfp8", "order": "interleaved",
     "alpha": 1.702, "limit": 7.0, "up_offset": 1.0}, ("new_y",)),
    ("act_mul", {"order": "ungated", "act": "relu2"}, ("new_y",)),
    ("act_mul", {"format": "nvfp4", "layout": "tile128x4"}, ("inv_scale", "new_y")),
    ("rms_norm", {"format": "e4m3", "weight_bias": 1.0}, ("residual", "new_y", "new_residual")),
    ("rms_norm", {"format": "nvfp4", "layout": "tile128x4"}, ("new_inv_scale",)),
    ("rms_norm", {}, ("new_y",)),
]


def case_arguments(op, options, wants, x):
    given = dict(options)
    for name in wants:
        given[name] = (torch.tensor([2.0]) if name in ("scale", "inv_scale") else x.flip(0).contiguous()
                       if name == "residual" else True)
    arguments = (x, torch.randn(x.shape[-1]).to(x.dtype), 1e-6) if op == "rms_norm" else (x,)
    return arguments, given


class Operators(unittest.TestCase):
    def test_new_tensors_equal_the_plain_package(self):
        x = tensors(8, 10, 128)
        for op, options, wants in CASES:
            arguments, given = case_arguments(op, options, wants, x)
            found = getattr(torch.ops.epiq, op)(*arguments, **given)
            plain = {"new_y": "y_out", "new_residual": "residual_out", "new_inv_scale": "inv_scale_out"}
            given = {plain.get(name, name): wanted for name, wanted in given.items()}
            wanted = getattr(epiq, op)(*arguments, **given)
            for name, tensor in zip(("codes", "scale", "inv_scale", "y", "residual"), found):
                other = getattr(wanted, name)
                if tensor.numel() == 0:
                    continue
                self.assertEqual((tensor.dtype, tensor.shape), (other.dtype, other.shape), (op, options, name))
                self.assertEqual(differing(tensor, other), 0, (op, options, name))

    def test_fakes_answer_like_the_library(self):
        """Shapes by arithmetic on symbols equal those of epiq_check_*, and refusals come at trace time."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        for op, options, wants in CASES:
            for shape in ((10, 128), (130, 192), (2, 3, 128), (0, 128)):
                if options.get("padded_cols", shape[-1]) < shape[-1]:
                    continue
                x = torch.randn(shape).bfloat16()
                arguments, given = case_arguments(op, options, wants, x)
                real = getattr(torch.ops.epiq, op)(*arguments, **given)
                with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                    fake = getattr(torch.ops.epiq, op)(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a
                                                         for a in arguments), **given)
                for one, other in zip(real, fake):
                    self.assertEqual((one.shape, one.dtype, one.stride()), (other.shape, other.dtype, other.stride()),
                                     (op, options, shape))
        with FakeTensorMode() as mode, self.assertRaisesRegex(epiq.Error, "multiple of 16"):
            torch.ops.epiq.quantize(torch.empty(4, 40, dtype=torch.bfloat16), format="nvfp4", new_inv_scale=True)

    def test_opcheck(self):
        x = torch.randn(10, 128).bfloat16()
        count = 0
        for op, options, wants in CASES:
            arguments, given = case_arguments(op, options, wants, x)
            opcheck(getattr(torch.ops.epiq, op).default, arguments, given)
            count += 1
        w, scale = torch.randn(128).bfloat16(), torch.tensor([0.5])
        def byte(*shape):
            return torch.zeros(shape, dtype=torch.uint8)  # torch's comparison has no float8

        outs = [("quantize_out", (x,), {"format": "e4m3", "codes_out": byte(10, 128), "scale_out": torch.zeros(10, 1)}),
                ("act_mul_out", (x,), {"format": "int8", "scale": scale, "codes_out": byte(10, 64),
                                       "y_out": torch.zeros(10, 64, dtype=x.dtype)}),
                ("rms_norm_out", (x, w, 1e-6), {"format": "mxfp4", "codes_out": byte(10, 64), "scale_out": byte(10, 4),
                                                "residual": x.clone(), "residual_out": torch.zeros_like(x)}),
                ("add_rms_norm_out", (x, x.clone(), w, 1e-6), {"format": "nvfp4", "inv_scale": scale,
                                                               "codes_out": byte(10, 64), "scale_out": byte(10, 8)}),
                ("dequantize_out", (byte(10, 128), scale), {
                 "format": "e4m3", "grain": "tensor", "y_out": torch.zeros(10, 128)}),
                ("dequantize", (byte(10, 64), byte(10, 4)), {"format": "mxfp4", "dtype": torch.bfloat16})]
        for op, arguments, given in outs:
            opcheck(getattr(torch.ops.epiq, op).default, arguments, given)
            count += 1
        print(f"opcheck passed for {count} calls of {len({op for op, *_ in CASES + outs})} operators")

    def test_fullgraph(self):
        torch._dynamo.reset()

        def layer(x, residual, w, gs, scale):
            q, sf, y = epiq.torch.gemma_add_rms_norm_quant(x, residual, w, 1e-6, gs, True, True)
            a = epiq.torch.act_mul(y * 2, format="e4m3", scale=scale, y=True)
            back = epiq.torch.dequantize(a.codes, scale, format="e4m3", grain="tensor", dtype=torch.bfloat16)
            tokens = epiq.torch.quantize(back, format="e4m3").scale
            return q, sf[:, :0], y, a.codes, a.y, back, tokens

        compiled = torch.compile(layer, fullgraph=True, dynamic=True)
        for rows in (8, 12, 130):
            x, r = tensors(9, rows, 64), tensors(10, rows, 64).roll(1, 0)
            w, gs, scale = torch.randn(64).bfloat16(), torch.tensor([5.0]), torch.tensor([0.1])
            one, other = r.clone(), r.clone()
            for found, wanted in zip(compiled(x, one, w, gs, scale), layer(x, other, w, gs, scale)):
                self.assertEqual(differing(found, wanted), 0)
            self.assertEqual(differing(one, other), 0)
            self.assertNotEqual(differing(one, r), 0)

    def test_strided_input_and_output(self):
        x = tensors(11, 6, 64)
        wide = torch.zeros(6, 192, dtype=torch.bfloat16)
        wide[:, 64:128] = x
        out = torch.zeros(6, 100, dtype=E4M3)
        torch.ops.epiq.quantize_out(wide[:, 64:128], format="e4m3", scale=torch.tensor([0.1]), codes_out=out[:, 3:67])
        wanted = torch.ops.epiq.quantize(x, format="e4m3", scale=torch.tensor([0.1]))[0]
        self.assertEqual(differing(out[:, 3:67], wanted), 0)
        self.assertFalse(raw(out[:, :3]).any() or raw(out[:, 67:]).any())
        with self.assertRaises(ValueError):
            torch.ops.epiq.quantize(x.t(), format="e4m3")


if __name__ == "__main__":
    unittest.main()
