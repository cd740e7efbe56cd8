#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_peers.py: the operations beside the same chain in PyTorch, eager and torch.compile, in one run on one GPU.

    EPIQ_LIBRARY=build/cuda/libepiq.so PYTHONPATH=python python3 bench/gpu_peers.py [--rows 1,16,8192]

Every number is microseconds a call: the median over batches of replays of a CUDA graph that holds ten calls. Outputs of
a call are overwritten by the next. `differ` counts codes of epiq that are not those of the eager chain.
"""

import argparse

import torch

import epiq.torch  # noqa: F401
from torch_layer import E4M3, BF16, EPS, differing, graph_time, torch_act, torch_norm, torch_quant

HIDDEN, INNER, CALLS = 4096, 14336, 10


def chains(rows):
    """name -> (epiq, the chain in torch), both of no arguments, both answering the codes first."""
    torch.manual_seed(rows)
    new = lambda *shape: torch.randn(*shape, dtype=BF16, device="cuda")  # noqa: E731
    gate_up, x, residual, weight = new(rows, 2 * INNER), new(rows, HIDDEN), new(rows, HIDDEN), new(HIDDEN)
    scale = torch.tensor([0.02], device="cuda")
    h = torch.empty_like(residual)
    a, q = (torch.empty(rows, width, dtype=E4M3, device="cuda") for width in (INNER, HIDDEN))
    token = torch.empty(rows, 1, device="cuda")
    ops = torch.ops.epiq

    def given(grain):
        return {"scale": scale} if grain == "tensor" else {"scale_out": token}

    def act(grain):
        def ours():
            ops.act_mul_out(gate_up, codes_out=a, format="e4m3", grain=grain, **given(grain))
            return a,
        return ours, lambda gate_up=gate_up, scale=scale: torch_quant(torch_act(gate_up), grain, scale)[:1]

    def norm(grain):
        def ours():
            ops.rms_norm_out(x, weight, EPS, residual=residual, residual_out=h, codes_out=q, format="e4m3", grain=grain,
                             **given(grain))
            return q, h

        def theirs(x=x, residual=residual, weight=weight, scale=scale):
            y, sum_ = torch_norm(x, residual, weight)
            return torch_quant(y, grain, scale)[0], sum_
        return ours, theirs

    def quant(grain):
        def ours():
            ops.quantize_out(x, codes_out=q, format="e4m3", grain=grain, **given(grain))
            return q,
        return ours, lambda x=x, scale=scale: torch_quant(x, grain, scale)[:1]

    return {f"{name} {grain}": make(grain) for name, make in
            (("act_mul", act), ("rms_norm + residual", norm), ("quantize", quant)) for grain in ("tensor", "token")}


def repeated(call):
    def run():
        for _ in range(CALLS - 1):
            call()
        return call()
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default="1,16,8192")
    rows = [int(n) for n in parser.parse_args().rows.split(",")]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, bf16 -> e4m3, H {HIDDEN}, I {INNER}; us a call")
    print("| | rows | epiq | torch.compile | eager | differ |\n|---|---|---|---|---|---|")
    for m in rows:
        for name, (ours, theirs) in chains(m).items():
            torch._dynamo.reset()
            compiled = torch.compile(theirs, dynamic=False)
            epiq_us, found = graph_time(repeated(ours))
            compiled_us, _ = graph_time(repeated(compiled))
            eager_us, wanted = graph_time(repeated(theirs))
            codes = found[0]
            print(f"| {name} | {m} | {epiq_us / CALLS:.2f} | {compiled_us / CALLS:.2f} ({compiled_us / epiq_us:.2f}x) "
                  f"| {eager_us / CALLS:.2f} | {differing(codes, wanted[0])} of {codes.numel()} |", flush=True)


main()
