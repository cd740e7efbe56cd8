#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_layer.py: one MLP layer on a GPU, norm + quant -> FP8 product -> activation + quant -> FP8 product, with epiq,
with the unfused torch chain and with torch.compile, each captured in a CUDA graph.

    EPIQ_LIBRARY=build/cuda/libepiq.so PYTHONPATH=python python3 bench/torch_layer.py [--json FILE]

Prints a table and writes JSON: microseconds a layer (median of batches of replays), the relative error of the output
against bf16 products of the same inputs, and how many codes differ: of epiq against the quantizer run in torch on the y
that epiq returns (0 is expected), and against the unfused chain. Grains: tensor (static scales), token (per row), and
group (1x128, where this torch offers the product). NVFP4 is checked by dequantizing and multiplying; no GPU of compute
capability 9.0 multiplies it.

Layers: `production`, H 4096 and I 14336 with random inputs; `smollm2`, block 15 of data/ with its real x, residual and
norm weight; its first matrix is the least-squares one that maps the real y to the real gate and up (64 tokens), the
second is random. More rows than 64 repeat the tokens.
"""

import argparse
import json
import struct
import sys
from pathlib import Path

import torch

import epiq
import epiq.torch

E4M3, BF16 = torch.float8_e4m3fn, torch.bfloat16
EPS = 1e-5
ROOT = Path(__file__).resolve().parents[1]


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8: 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + at for at in entry["data_offsets"])
            tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=BF16).reshape(entry["shape"])
    return tensors


def production(rows, hidden, inner, device):
    torch.manual_seed(0)
    return {"x": torch.randn(rows, hidden, dtype=BF16, device=device),
            "residual": torch.randn(rows, hidden, dtype=BF16, device=device) * 3,
            "weight": (1 + 0.2 * torch.randn(hidden, device=device)).to(BF16),
            "first": (torch.randn(2 * inner, hidden, device=device) / hidden**0.5).to(BF16),
            "second": (torch.randn(hidden, inner, device=device) / inner**0.5).to(BF16)}


def smollm2(rows, device):
    t = {name: tensor.to(device) for name, tensor in read_safetensors(
        ROOT / "data/smollm2_135m_layer15.safetensors").items()}
    y = epiq.rms_norm(t["x"], t["weight"], EPS, residual=t["residual"], y_out=True).y.double()
    solution = torch.linalg.lstsq(y.cpu(), t["gate_up"].double().cpu(), driver="gelsd").solution
    first = solution.t().to(BF16).contiguous().to(device)
    torch.manual_seed(0)
    inner = t["gate_up"].shape[1] // 2
    second = (torch.randn(t["x"].shape[1], inner, device=device) / inner**0.5).to(BF16)
    pick = torch.arange(rows, device=device) % len(t["x"])
    return {"x": t["x"][pick], "residual": t["residual"][pick], "weight": t["weight"], "first": first, "second": second}


# ---- Weights and products
# ----------------------------------------------------------------------------------------------


def quantized_weight(w, grain):
    """(codes [N, K], scale as the product wants it)."""
    f = w.float()
    if grain == "tensor":
        s = f.abs().max() / 448
        return (f / s).clamp(-448, 448).to(E4M3), s.reshape(1)
    if grain == "token":
        s = f.abs().amax(1, keepdim=True) / 448
        return (f / s).clamp(-448, 448).to(E4M3), s.t().contiguous()
    n, k = f.shape
    blocks = f.reshape(n // 128, 128, k // 128, 128)
    s = blocks.abs().amax((1, 3)) / 448
    return (blocks / s[:, None, :, None]).clamp(-448, 448).reshape(n, k).to(E4M3), s.t()


def product(a, sa, w):
    return torch._scaled_mm(a, w[0].t(), scale_a=sa, scale_b=w[1], out_dtype=BF16)


# ---- The chain in torch
# ------------------------------------------------------------------------------------------------


def torch_norm(x, residual, weight):
    h = x + residual
    f = h.float()
    y = (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + EPS)).to(BF16) * weight
    return y, h


def torch_act(gate_up):
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def torch_quant(y, grain, scale):
    f = y.float()
    if grain == "tensor":
        return (f * (1 / scale)).clamp(-448, 448).to(E4M3), scale
    if grain == "token":
        s = (f.abs().amax(-1, keepdim=True) / 448).clamp(min=1 / (448 * 512))
        return (f / s).clamp(-448, 448).to(E4M3), s
    blocks = f.reshape(f.shape[0], -1, 128)
    s = blocks.abs().amax(-1).clamp(min=1e-10) / 448
    return (blocks / s[..., None]).clamp(-448, 448).reshape(f.shape).to(E4M3), s.t().contiguous().t()


def unfused(t, w1, w2, grain, s1, s2):
    y, h = torch_norm(t["x"], t["residual"], t["weight"])
    q, sq = torch_quant(y, grain, s1)
    a, sa = torch_quant(torch_act(product(q, sq, w1)), grain, s2)
    return product(a, sa, w2), h, q, a


# ---- The same with epiq
# ------------------------------------------------------------------------------------------------


class Fused:
    """Buffers once, so that a captured graph holds two kernels of epiq and two products."""

    def __init__(self, t, grain, s1, s2):
        rows, hidden = t["x"].shape
        inner, device = t["second"].shape[1], t["x"].device
        self.t, self.grain, self.s1, self.s2 = t, grain, s1, s2
        self.q = torch.empty(rows, hidden, dtype=E4M3, device=device)
        self.a = torch.empty(rows, inner, dtype=E4M3, device=device)
        self.new_residual = torch.empty_like(t["residual"])
        self.options = {"format": "e4m3", "grain": grain}
        self.scales = [None, None]
        if grain == "token":
            self.scales = [torch.empty(rows, 1, device=device) for _ in range(2)]
        elif grain == "group":
            self.options["layout"] = "col"
            self.scales = [torch.empty(width // 128, rows, device=device) for width in (hidden, inner)]

    def given(self, at, static):
        if self.grain == "tensor":
            return {"scale": static}, static
        return {"scale_out": self.scales[at]}, self.scales[at] if self.grain == "token" else self.scales[at].t()

    def __call__(self, w1, w2):
        t = self.t
        given, sq = self.given(0, self.s1)
        torch.ops.epiq.rms_norm_out(t["x"], t["weight"], EPS, residual=t["residual"], residual_out=self.new_residual,
                                    codes_out=self.q, **self.options, **given)
        gate_up = product(self.q, sq, w1)
        given, sa = self.given(1, self.s2)
        torch.ops.epiq.act_mul_out(gate_up, codes_out=self.a, **self.options, **given)
        return product(self.a, sa, w2), self.new_residual, self.q, self.a


# ---- Measuring
# ---------------------------------------------------------------------------------------------------------


def graph_time(call, batches=15, replays=20):
    """(microseconds a replay, outputs): median over batches."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = call()
    for _ in range(replays):
        graph.replay()
    times = []
    for _ in range(batches):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / replays)
    return sorted(times)[batches // 2], tuple(tensor.clone() for tensor in outputs)


def differing(a, b):
    return int((a.contiguous().view(torch.uint8) != b.contiguous().view(torch.uint8)).sum())


def relative_error(found, wanted):
    return float((found.float() - wanted.float()).norm() / wanted.float().norm())


def nvfp4_error(t, reference):
    """The layer with inputs of both products in NVFP4 (128x4 tiles), dequantized and multiplied in bf16."""
    def through(x_or_q):
        q = x_or_q
        return epiq.dequantize(q.codes, q.scale, format="nvfp4", layout="tile128x4", inv_scale=q.inv_scale,
                               dtype="bf16")

    options = {"format": "nvfp4", "layout": "tile128x4", "inv_scale_out": True}
    norm = epiq.rms_norm(t["x"], t["weight"], EPS, residual=t["residual"], **options)
    act = epiq.act_mul(through(norm) @ t["first"].t(), **options)
    return relative_error(through(act) @ t["second"].t(), reference)


def measure(name, t, grains):
    y, _ = torch_norm(t["x"], t["residual"], t["weight"])
    reference_act = torch_act(y @ t["first"].t())
    reference = reference_act @ t["second"].t()
    static = [(v.float().abs().max() / 448).reshape(1) for v in (y, reference_act)]
    bf16, _ = graph_time(lambda: (torch_act(torch_norm(t["x"], t["residual"], t["weight"])[0] @ t["first"].t())
                                  @ t["second"].t(),))
    rows, hidden = t["x"].shape
    common = {"layer": name, "rows": rows, "hidden": hidden, "inner": t["second"].shape[1], "bf16_us": bf16,
              "nvfp4_dequantized_error": nvfp4_error(t, reference)}
    for grain in grains:
        entry = dict(common, grain=grain)
        try:
            w1, w2 = quantized_weight(t["first"], grain), quantized_weight(t["second"], grain)
            fused = Fused(t, grain, *static)
            entry["epiq_us"], ours = graph_time(lambda: fused(w1, w2))
            entry["unfused_us"], theirs = graph_time(lambda: unfused(t, w1, w2, grain, *static))
            torch._dynamo.reset()
            compiled = torch.compile(unfused, fullgraph=True)
            entry["compiled_us"], theirs_compiled = graph_time(lambda: compiled(t, w1, w2, grain, *static))
        except (RuntimeError, ValueError) as error:
            entry["not_offered"] = str(error).splitlines()[0][:200]
            yield entry
            continue
        # Codes given y, then the whole chains.
        options = {"format": "e4m3", "grain": grain, "y_out": True}
        if grain == "tensor":
            norm = epiq.rms_norm(t["x"], t["weight"], EPS, residual=t["residual"], scale=static[0], **options)
        else:
            layout = {"layout": "col"} if grain == "group" else {}
            norm = epiq.rms_norm(t["x"], t["weight"], EPS, residual=t["residual"], **options, **layout)
        entry["codes"] = ours[2].numel() + ours[3].numel()
        entry["codes_differing_given_y"] = differing(norm.codes, torch_quant(norm.y, grain, static[0])[0])
        gate_up = product(norm.codes, {"tensor": static[0], "token": norm.scale, "group": None}.get(grain)
                          if grain != "group" else norm.scale.t(), w1)
        act_given = {"scale": static[1]} if grain == "tensor" else {"layout": "col"} if grain == "group" else {}
        act = epiq.act_mul(gate_up, **options, **act_given)
        entry["codes_differing_given_y"] += differing(act.codes, torch_quant(act.y, grain, static[1])[0])
        entry["same_as_eager"] = differing(ours[2], norm.codes) + differing(ours[3], act.codes) == 0
        entry["norm_codes_differing_unfused"] = differing(ours[2], theirs[2])
        entry["norm_codes_differing_compiled"] = differing(ours[2], theirs_compiled[2])
        entry["residual_differing_unfused"] = differing(ours[1], theirs[1])
        for label, outputs in (("epiq", ours), ("unfused", theirs), ("compiled", theirs_compiled)):
            entry[f"{label}_error"] = relative_error(outputs[0], reference)
        yield entry


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--rows", default="1,16,128,1024")
    parser.add_argument("--grains", default="tensor,token,group")
    parser.add_argument("--layers", default="production,smollm2")
    arguments = parser.parse_args()
    usable, text = epiq.backend_usable("cuda", 0)
    if not torch.cuda.is_available() or not usable:
        print(f"no GPU to measure on: {text}")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = False
    results = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "epiq": epiq.info()["version"],
               "build": epiq.info()["build"], "method": "CUDA graph, median of 15 batches of 20 replays", "results": []}
    print(f"{results['gpu']}, torch {results['torch']}; microseconds a layer, CUDA graph, median of 15 x 20 replays")
    print(f"{'layer':10} {'rows':>5} {'grain':6} | {'epiq':>8} {'unfused':>8} {'compile':>8} {'bf16':>8} | "
          f"{'error':>8} {'unfused':>8} {'nvfp4':>8} | codes differing given y, from the unfused norm")
    for layer in arguments.layers.split(","):
        for rows in map(int, arguments.rows.split(",")):
            t = production(rows, 4096, 14336, "cuda") if layer == "production" else smollm2(rows, "cuda")
            grains = [g for g in arguments.grains.split(",") if g != "group" or t["x"].shape[1] % 128 == 0]
            for entry in measure(layer, t, grains):
                results["results"].append(entry)
                if "not_offered" in entry:
                    print(f"{layer:10} {rows:5} {entry['grain']:6} | not offered: {entry['not_offered']}")
                    continue
                print(f"{layer:10} {rows:5} {entry['grain']:6} | {entry['epiq_us']:8.2f} {entry['unfused_us']:8.2f} "
                      f"{entry['compiled_us']:8.2f} {entry['bf16_us']:8.2f} | {entry['epiq_error']:8.5f} "
                      f"{entry['unfused_error']:8.5f} {entry['nvfp4_dequantized_error']:8.5f} | "
                      f"{entry['codes_differing_given_y']} of {entry['codes']}, "
                      f"{entry['norm_codes_differing_unfused']}",
                      flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    bad = [e for e in results["results"] if e.get("codes_differing_given_y") or e.get("same_as_eager") is False]
    print(f"{len(results['results'])} rows; {len(bad)} with codes that differ given y")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
