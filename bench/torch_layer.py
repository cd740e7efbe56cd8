#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_layer.py: one MLP layer on a GPU, norm + quant -> FP8 product -> activation + quant -> FP8 product, with epiq,
with the unfused torch chain and with torch.compile, each captured in a CUDA graph, beside bf16 without quantizing.

    EPIQ_LIBRARY=build/cuda/libepiq.so PYTHONPATH=python python3 bench/torch_layer.py [--seconds S] [--json FILE]
        [--plot FILE.svg] [--rows LIST] [--grains LIST] [--layers LIST] [--modes LIST] [--dry]

Prints Markdown tables: microseconds a layer (median of batches of replays), the relative error of the output against
bf16 products of the same inputs, and how many codes differ: of epiq against the quantizer run in torch on the y that
epiq returns (0 is expected), and against the unfused chain. Grains: tensor (static scales), token (per row), and group
(1x128 by 128x128, rows padded to a multiple of 4, where this torch offers the product). NVFP4 is checked by decoding
codes and swizzled scales in torch, against epiq.dequantize (0 differing is expected), and multiplying in bf16; no GPU
of compute capability 9.0 multiplies it.

What cannot run (a product that is not offered, a compiler that is missing) is left out with its reason. --seconds: no
new measurement begins after so many; torch.compile comes last. --dry: on the CPU, small, the products emulated after a
look at shapes and strides; codes and errors, no times.

Layers: `production`, H 4096 and I 14336 with random inputs; `smollm2`, block 15 of data/ with its real x, residual and
norm weight; its first matrix is the least-squares one that maps the real y to the real gate and up (64 tokens), the
second is random. More rows than 64 repeat the tokens; H 576 has no groups of 128.
"""

import argparse
import json
import math
import struct
import sys
import time
from pathlib import Path

import torch

import epiq
import epiq.torch

E4M3, BF16 = torch.float8_e4m3fn, torch.bfloat16
EPS = 1e-5
ROOT = Path(__file__).resolve().parents[1]
MODES = {"epiq": "epiq", "unfused": "torch, unfused", "compiled": "torch.compile", "bf16": "torch in bf16"}


def padded(rows, grain):
    """Rows that a product is given: cuBLASLt wants vectors of 1x128 scales in multiples of four."""
    return (rows + 3) // 4 * 4 if grain == "group" else rows


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


# ---- Weights and products ----------------------------------------------


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
    codes = (blocks / s[:, None, :, None]).clamp(-448, 448).reshape(n, k).to(E4M3)
    lines = torch.zeros(n // 128, (k // 128 + 3) // 4 * 4, device=w.device)  # cuBLASLt: in fours too
    lines[:, : k // 128] = s
    return codes, lines[:, : k // 128].t()


def expect_layout(a, sa, w, sw):
    """What torch._scaled_mm asks for on compute capability 9.0."""
    (m, k), n = a.shape, w.shape[0]
    assert a.dtype == w.dtype == E4M3 and a.is_contiguous() and w.is_contiguous() and w.shape[1] == k
    assert k % 16 == 0 and n % 16 == 0, (m, n, k)
    assert sa.dtype == sw.dtype == torch.float32
    if sw.numel() == 1:
        assert sa.numel() == 1
    elif sw.shape == (1, n):
        assert sa.shape == (m, 1) and sa.is_contiguous() and sw.is_contiguous()
    else:
        assert m % 4 == 0 and sa.shape == (m, k // 128) and sa.stride() == (1, m), (sa.shape, sa.stride())
        assert sw.shape == (k // 128, n // 128) and sw.stride(0) == 1 and sw.stride(1) % 4 == 0


def product(a, sa, w):
    """[M, N] in bf16; on the CPU by decoding."""
    codes, sw = w
    if a.is_cuda:
        return torch._scaled_mm(a, codes.t(), scale_a=sa, scale_b=sw, out_dtype=BF16)
    expect_layout(a, sa, codes, sw)
    left, right = a.float(), codes.float()
    if sw.numel() == 1 or sw.shape[0] == 1:
        return (left * sa @ (right * sw.reshape(-1, 1)).t()).to(BF16)
    left = left * sa.repeat_interleave(128, 1)
    return (left @ (right * sw.t().repeat_interleave(128, 0).repeat_interleave(128, 1)).t()).to(BF16)


# ---- The chain in torch ------------------------------------------------


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
    rows = y.shape[0]
    more = padded(rows, grain) - rows
    if more:
        y = torch.nn.functional.pad(y, (0, 0, 0, more))
    q, sq = torch_quant(y, grain, s1)
    gate_up = product(q, sq, w1)
    a, sa = torch_quant(torch_act(gate_up), grain, s2)
    return product(a, sa, w2)[:rows], h, q[:rows], a[:rows], gate_up[:rows]


def bf16(t):
    return (torch_act(torch_norm(t["x"], t["residual"], t["weight"])[0] @ t["first"].t()) @ t["second"].t(),)


# ---- The same with epiq ------------------------------------------------


class Fused:
    """Buffers once, so that a captured graph holds two kernels of epiq and two products."""

    def __init__(self, t, grain, s1, s2):
        rows, hidden = t["x"].shape
        inner, device, lines = t["second"].shape[1], t["x"].device, padded(rows, grain)
        self.t, self.grain, self.static, self.rows = t, grain, (s1, s2), rows
        self.codes = [torch.zeros(lines, width, dtype=torch.uint8, device=device).view(E4M3)
                      for width in (hidden, inner)]
        self.new_residual = torch.empty_like(t["residual"])
        self.options = {"format": "e4m3", "grain": grain}
        if grain == "token":
            self.scales = [torch.empty(rows, 1, device=device) for _ in range(2)]
        elif grain == "group":
            self.options["layout"] = "col_aligned"
            self.scales = [torch.zeros(width // 128, lines, device=device) for width in (hidden, inner)]

    def outputs(self, at):
        """(arguments of epiq, scale for the product)."""
        given = {"codes_out": self.codes[at][: self.rows], **self.options}
        if self.grain == "tensor":
            return {"scale": self.static[at], **given}, self.static[at]
        scales = self.scales[at]
        return {"scale_out": scales, **given}, scales if self.grain == "token" else scales.t()

    def __call__(self, w1, w2):
        t, rows = self.t, self.rows
        given, scale = self.outputs(0)
        torch.ops.epiq.rms_norm_out(t["x"], t["weight"], EPS, residual=t["residual"], residual_out=self.new_residual,
                                    **given)
        gate_up = product(self.codes[0], scale, w1)[:rows]
        given, scale = self.outputs(1)
        torch.ops.epiq.act_mul_out(gate_up, **given)
        return product(self.codes[1], scale, w2)[:rows], self.new_residual, self.codes[0][:rows], \
            self.codes[1][:rows], gate_up

    def differing_given_y(self, q, a, gate_up):
        """Codes other than those of the quantizer in torch on the y that epiq returns."""
        t, count = self.t, 0
        for at, codes in enumerate((q, a)):
            given = {name: value for name, value in self.outputs(at)[0].items() if not name.endswith("_out")}
            if at == 0:
                out = epiq.rms_norm(t["x"], t["weight"], EPS, residual=t["residual"], y_out=True, **given)
            else:
                out = epiq.act_mul(gate_up, y_out=True, **given)
            count += differing(codes, torch_quant(out.y, self.grain, self.static[at])[0])
        return count


# ---- Measuring ---------------------------------------------------------


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


def decoded_nvfp4(q, rows, cols):
    """Codes and 128x4 tiles of scales as float32, in torch alone."""
    packed = q.codes.view(torch.uint8)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device=packed.device)
    nibbles = torch.stack([packed & 15, packed >> 4], -1).reshape(rows, cols).long()
    values = values[nibbles & 7] * torch.where(nibbles > 7, -1.0, 1.0)
    m = torch.arange(rows, device=packed.device)[:, None]
    k = torch.arange(cols // 16, device=packed.device)[None, :]
    tiles = (cols // 16 + 3) // 4
    at = ((m >> 7) * tiles + (k >> 2)) * 512 + (m & 31) * 16 + ((m >> 5) & 3) * 4 + (k & 3)
    scales = q.scale.view(torch.uint8).flatten()[at].view(E4M3).float()
    return values * scales.repeat_interleave(16, 1) * (1 / q.inv_scale)


def nvfp4(t, reference):
    """The layer with inputs of both products in NVFP4, multiplied in bf16: error, and values that epiq.dequantize has
    otherwise."""
    options = {"format": "nvfp4", "layout": "tile128x4"}
    wrong = 0

    def decoded(q, shape):
        nonlocal wrong
        ours = epiq.dequantize(q.codes, q.scale, inv_scale=q.inv_scale, dtype="f32", **options)
        y = decoded_nvfp4(q, *shape)
        wrong += int((y != ours).sum())
        return y.to(BF16)

    norm = epiq.rms_norm(t["x"], t["weight"], EPS, residual=t["residual"], inv_scale_out=True, **options)
    gate_up = decoded(norm, t["x"].shape) @ t["first"].t()
    act = epiq.act_mul(gate_up, inv_scale_out=True, **options)
    y = decoded(act, (gate_up.shape[0], gate_up.shape[1] // 2)) @ t["second"].t()
    return {"nvfp4_error": relative_error(y, reference), "nvfp4_differing": wrong}


def once(call):
    """In place of graph_time, on the CPU."""
    return None, call()


def measure(t, grain, modes, entry, timed):
    """Fills an entry: us, error, left_out by mode, and what codes differ."""
    entry.setdefault("us", {}), entry.setdefault("error", {}), entry.setdefault("left_out", {})
    y, h = torch_norm(t["x"], t["residual"], t["weight"])
    reference_act = torch_act(y @ t["first"].t())
    reference = reference_act @ t["second"].t()
    static = [(v.float().abs().max() / 448).reshape(1) for v in (y, reference_act)]
    if grain == "group" and t["x"].shape[1] % 128:
        entry["left_out"].update(dict.fromkeys(modes, f"H {t['x'].shape[1]} has no groups of 128"))
        return
    w1, w2 = quantized_weight(t["first"], grain), quantized_weight(t["second"], grain)
    found = {}
    for mode in modes:
        try:
            if mode == "epiq":
                fused = Fused(t, grain, *static)
                us, found[mode] = timed(lambda: fused(w1, w2))
                entry["codes"] = found[mode][2].numel() + found[mode][3].numel()
                entry["differing_given_y"] = fused.differing_given_y(*found[mode][2:])
                entry["residual_differing"] = differing(found[mode][1], h)
            elif mode == "unfused":
                us, found[mode] = timed(lambda: unfused(t, w1, w2, grain, *static))
            elif mode == "bf16":
                us, found[mode] = timed(lambda: bf16(t))
            elif not t["x"].is_cuda:
                raise RuntimeError("not in a dry run")
            else:  # its default mode makes no CUDA graph of its own, so that this can be captured like the others
                torch._dynamo.reset()
                compiled = torch.compile(unfused, fullgraph=True, dynamic=False)
                us, found[mode] = timed(lambda: compiled(t, w1, w2, grain, *static))
            entry["us"][mode] = us
            entry["error"][mode] = relative_error(found[mode][0], reference)
            if not math.isfinite(entry["error"][mode]):
                raise RuntimeError("the output is not finite")
        except Exception as error:  # the other modes go on
            reason = (str(error).strip().splitlines() or [""])[0][:160]
            entry["left_out"][mode] = f"{type(error).__name__}: {reason}"
            entry["us"].pop(mode, None), entry["error"].pop(mode, None)
            if t["x"].is_cuda:
                torch.cuda.synchronize()  # raises if the device is lost: nothing more can be measured then
    if "epiq" in found and "unfused" in found:
        entry["norm_differing_unfused"] = differing(found["epiq"][2], found["unfused"][2])


# ---- What is printed ---------------------------------------------------


def number(value, form):
    return "-" if value is None else format(value, form)


def tables(results, modes):
    times, errors, reasons = [], [], {}
    for e in results:
        us = e["us"]
        place = f"| {e['layer']} | {e['hidden']} x {e['inner']} | {e['rows']} | {e['grain']} |"
        ratio = us["unfused"] / us["epiq"] if us.get("epiq") and us.get("unfused") else None
        times.append(place + "".join(f" {number(us.get(mode), '.1f')} |" for mode in modes)
                     + f" {number(ratio, '.2f')} |")
        differ = [number(e.get(name), "d") for name in ("codes", "differing_given_y", "norm_differing_unfused",
                                                        "residual_differing", "nvfp4_differing")]
        errors.append(place + "".join(f" {number(e['error'].get(mode), '.5f')} |" for mode in modes)
                      + f" {number(e.get('nvfp4_error'), '.5f')} | " + " | ".join(differ) + " |")
        for mode, reason in e["left_out"].items():
            reasons.setdefault((MODES.get(mode, "NVFP4"), reason), []).append(f"{e['layer']} {e['rows']} {e['grain']}")
    lead, line = "| layer | H x I | M | grain |", "|---|---|--:|---|"
    heads = "".join(f" {MODES[mode]} |" for mode in modes)
    print(f"\nMicroseconds a layer, and those of the unfused chain over those of epiq:\n\n{lead}{heads} ratio |\n"
          f"{line}{'--:|' * (len(modes) + 1)}", *times, sep="\n")
    print(f"\nRelative error of the output against bf16, and with NVFP4 decoded. Differing: codes of epiq given y, "
          f"codes of its norm from the\nunfused chain's, residuals, decoded NVFP4 values.\n\n{lead}{heads} NVFP4 | "
          f"codes | given y | norm | residual | NVFP4 values |\n{line}{'--:|' * (len(modes) + 6)}", *errors, sep="\n")
    for (mode, reason), places in reasons.items():
        print(f"\nLeft out, {mode}: {reason}: {', '.join(places)}")


def plot(path, results, modes, title):
    """Bars of microseconds on a logarithmic scale, one panel a layer."""
    colours = {"epiq": "#0b6e4f", "unfused": "#c44536", "compiled": "#e09f3e", "bf16": "#8d99ae"}
    layers = [layer for layer in dict.fromkeys(e["layer"] for e in results)
              if any(us for e in results if e["layer"] == layer for us in e["us"].values())]
    bar, left, high = 11, 60, 240
    out, top, width = [], 44, 400
    for layer in layers:
        entries = [e for e in results if e["layer"] == layer and any(e["us"].values())]
        values = [us for e in entries for us in e["us"].values() if us]
        low, up = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
        at = lambda us: top + high - (math.log10(us) - low) / (up - low) * high
        step = bar * len(modes) + 14
        right = left + step * len(entries)
        width = max(width, right + 20)
        out.append(f'<text x="{left}" y="{top - 8}">{layer}, H {entries[0]["hidden"]}, I {entries[0]["inner"]}</text>')
        for power in range(low, up + 1):
            y = at(10.0**power)
            out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ccc"/>'
                       f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} us</text>')
        for i, e in enumerate(entries):
            for j, mode in enumerate(modes):
                us = e["us"].get(mode)
                if us:
                    x, y = left + i * step + 7 + j * bar, at(us)
                    out.append(f'<rect x="{x}" y="{y:.1f}" width="{bar - 1}" height="{top + high - y:.1f}" '
                               f'fill="{colours[mode]}"><title>{MODES[mode]}: {us:.1f} us</title></rect>')
            x = left + i * step + step / 2
            out.append(f'<text x="{x:.1f}" y="{top + high + 14}" text-anchor="middle">M {e["rows"]}</text>'
                       f'<text x="{x:.1f}" y="{top + high + 27}" text-anchor="middle">{e["grain"]}</text>')
        top += high + 70
    for j, mode in enumerate(modes):
        x = left + j * 110
        out.append(f'<rect x="{x}" y="{top - 30}" width="10" height="10" fill="{colours[mode]}"/>'
                   f'<text x="{x + 14}" y="{top - 21}">{MODES[mode]}</text>')
    width = max(width, left + 110 * len(modes), 60 + 6 * len(title))
    Path(path).write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" '
                          f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>\n'
                          f'<text x="{left}" y="16" font-size="12">{title}</text>\n' + "\n".join(out) + "\n</svg>\n")


def run(modes, entries, shape, device, timed, end):
    """One pass over the settings."""
    held = (None, None)
    for (layer, rows, grain), entry in entries.items():
        if time.monotonic() > end or not modes:
            entry["left_out"].update(dict.fromkeys(modes, "the time was over"))
            continue
        if held[0] != (layer, rows):
            held = (layer, rows), production(rows, *shape, device) if layer == "production" else smollm2(rows, device)
        t = held[1]
        entry.update(hidden=t["x"].shape[1], inner=t["second"].shape[1])
        if "compiled" not in modes:
            try:
                entry.update(nvfp4(t, bf16(t)[0]))
            except Exception as error:
                entry["left_out"]["nvfp4"] = f"{type(error).__name__}: {error}"
        begin = time.monotonic()
        measure(t, grain, modes, entry, timed)
        said = ", ".join(f"{mode} left out ({entry['left_out'][mode]})" if mode in entry["left_out"] else
                         f"{mode} {number(entry['us'].get(mode), '.1f')} us" for mode in modes)
        print(f"{layer} M {rows} {grain}: {said} ({time.monotonic() - begin:.1f} s)", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--plot")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--rows", default="1,16,128,1024")
    parser.add_argument("--grains", default="tensor,token,group")
    parser.add_argument("--layers", default="production,smollm2")
    parser.add_argument("--modes", default=",".join(MODES))
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    usable, text = epiq.backend_usable("c") if arguments.dry else epiq.backend_usable("cuda", 0)
    if not usable or not (arguments.dry or torch.cuda.is_available()):
        print(f"no GPU to measure on: {text}")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = False
    device, timed = ("cpu", once) if arguments.dry else ("cuda", graph_time)
    shape = (512, 1024) if arguments.dry else (4096, 14336)
    modes = [mode for mode in MODES if mode in arguments.modes.split(",")]
    results = {"gpu": "none" if arguments.dry else torch.cuda.get_device_name(), "torch": torch.__version__,
               "cuda": torch.version.cuda, "epiq": epiq.info()["version"], "build": epiq.info()["build"],
               "method": "CUDA graph, median of 15 batches of 20 replays", "results": []}
    print(f"{results['gpu']}, torch {results['torch']}, CUDA {results['cuda']}; {results['method']}")
    entries = {(layer, rows, grain): {"layer": layer, "rows": rows, "grain": grain, "us": {}, "error": {},
                                      "left_out": {}}
               for layer in arguments.layers.split(",") for rows in map(int, arguments.rows.split(","))
               for grain in arguments.grains.split(",")}
    try:
        for part in (set(modes) - {"compiled"}, set(modes) & {"compiled"}):  # torch.compile takes the most time
            run([mode for mode in modes if mode in part], entries, shape, device, timed, end)
    except Exception as error:  # for instance a lost device: what was measured is printed
        print(f"stopped: {type(error).__name__}: {error}")
    results["results"] = [entry for entry in entries.values() if "hidden" in entry]
    tables(results["results"], modes)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    if arguments.plot:
        plot(arguments.plot, results["results"], modes,
             f"Microseconds a layer, {results['gpu']}, torch {results['torch']}")
    bad = [e for e in results["results"] if e.get("differing_given_y") or e.get("nvfp4_differing")]
    print(f"\n{len(entries)} settings, {sum('differing_given_y' in e for e in results['results'])} run by epiq; "
          f"{len(bad)} with codes that differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
