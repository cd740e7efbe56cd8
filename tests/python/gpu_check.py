#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_check.py: everything of the Python package that needs a GPU, in one command; CUDA bytes against CPU bytes.

    EPIQ_LIBRARY=build/cuda/libepiq.so PYTHONPATH=python python3 tests/python/gpu_check.py [WORD...]

WORD: only the checks with one of them in their names.

Operators on CUDA tensors, the seed function, strides and streams, padding kept, y over x, graph capture and replay with
changed scales, opcheck, torch.compile(fullgraph=True), tvm-ffi on CUDA tensors, CuPy, JAX, the blocks of doc/python.md,
and eager call overhead. What is not installed (tvm-ffi, CuPy, JAX with jax-tvm-ffi) is named and left out. Ends with
`N passed, N failed`.
"""

import importlib.util
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[1] / "python"))

import numpy_oracle as oracle  # noqa: E402


def jax_only():
    """In a process of its own, so that the first call is the first that XLA makes on the GPU: JAX against the bytes of
    the backend `c`."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import epiq
    import epiq.jax

    assert jax.default_backend() == "gpu", jax.default_backend()
    x, r, w = oracle.inputs(1, 130, 512), oracle.inputs(2, 130, 512), oracle.inputs(3, 1, 512)[0]
    gs = np.float32([4])
    on_gpu = [jnp.asarray(array) for array in (x, r, w, gs)]
    norm = {"weight_bias": 1.0, "format": "nvfp4", "layout": "tile128x4"}
    counted = {}

    def compare(name, found, wanted):
        for one, other in zip(found, wanted):
            if other is not None:
                one, other = (np.asarray(array).view(np.uint8).ravel() for array in (one, other))
                assert one.size == other.size, (name, one.size, other.size)
                assert (one != other).sum() == 0, f"{name}: {int((one != other).sum())} of {one.size} bytes differ"
                counted[name] = counted.get(name, 0) + one.size

    def c_norm(x, r, **options):
        return epiq.rms_norm(x, w, 1e-6, residual=r, residual_out=True, y_out=True, backend="c", **options)

    # The first call, not under jit, with options whose words have more than 7 bytes.
    found = epiq.jax.quantize(on_gpu[0], format="e4m3", grain="group", group=64, layout="col_aligned")
    compare("first call", found, epiq.quantize(x, format="e4m3", grain="group", group=64, layout="col_aligned",
                                               backend="c"))

    jitted = jax.jit(lambda x, r, w, gs: epiq.jax.rms_norm(x, w, 1e-6, residual=r, inv_scale=gs, y=True, **norm))
    for _ in range(3):
        compare("jit", jitted(*on_gpu), c_norm(x, r, inv_scale=gs, **norm))

    # Ten calls in one program, most with a workspace: enough in a row for XLA to make them a CUDA graph.
    kinds = [{"format": "e4m3", "grain": "tensor"}, {"format": "int8"}, {"format": "mxfp8"}, {"format": "mxfp4"},
             {"format": "e5m2", "grain": "tensor"},
             {"format": "e4m3", "grain": "group", "layout": "col", "ue8m0": True}]
    acts = [{"format": "e4m3"}, {"format": "e4m3", "act": "gelu_tanh", "order": "interleaved", "limit": 7.0}]

    @jax.jit
    def many(x):
        nvfp4 = epiq.jax.quantize(x, format="nvfp4", layout="tile128x4", compute_inv_scale=True)
        return ([epiq.jax.quantize(x, **kind) for kind in kinds] + [epiq.jax.act_mul(x, **act) for act in acts]
                + [nvfp4], epiq.jax.dequantize(nvfp4.codes, nvfp4.scale, inv_scale=nvfp4.inv_scale, format="nvfp4",
                                               layout="tile128x4"))

    nvfp4 = epiq.quantize(x, format="nvfp4", layout="tile128x4", inv_scale_out=True, backend="c")
    wanted = ([epiq.quantize(x, backend="c", **kind) for kind in kinds]
              + [epiq.act_mul(x, backend="c", **act) for act in acts] + [nvfp4])
    y = epiq.dequantize(nvfp4.codes, nvfp4.scale, inv_scale=nvfp4.inv_scale, format="nvfp4", layout="tile128x4",
                        backend="c")
    for _ in range(3):
        found, back = many(on_gpu[0])
        for one, other in zip(found, wanted):
            compare("ten calls in one program", one, other)
        compare("ten calls in one program", [back], [y])

    # In place: JAX gives a donated buffer to the first output of its shape, so the residual comes before y.
    def residual_first(x, r):
        out = epiq.jax.rms_norm(x, w, 1e-6, residual=r, inv_scale=gs, y=True, **norm)
        return out.residual, out.codes, out.scale, out.y

    mine = jnp.array(on_gpu[1], copy=True)
    address = mine.unsafe_buffer_pointer()
    found = jax.jit(residual_first, donate_argnums=1)(on_gpu[0], mine)
    assert mine.is_deleted() and found[0].unsafe_buffer_pointer() == address, "the residual is not in place"
    out = c_norm(x, r, inv_scale=gs, **norm)
    compare("donated residual", found, (out.residual, out.codes, out.scale, out.y))

    # In a loop on the device: y and the residual of one step are the inputs of the next.
    def step(_, state):
        out = epiq.jax.rms_norm(state[0], w, 1e-6, residual=state[1], format="e4m3", grain="tensor", y=True)
        return out.y, out.residual, out.codes, out.scale

    loop = jax.jit(lambda x, r: jax.lax.fori_loop(
        0, 4, step, (x, r, jnp.zeros(x.shape, jnp.float8_e4m3fn), jnp.zeros((1,), jnp.float32))))
    for _ in range(2):
        found, (a, b) = loop(*on_gpu[:2]), (x, r)
        for _ in range(4):
            out = c_norm(a, b, format="e4m3", grain="tensor")
            a, b = out.y, out.residual
        compare("fori_loop", found, (out.y, out.residual, out.codes, out.scale))
    try:
        epiq.jax.dequantize(on_gpu[0].astype(jnp.uint8), format="e4m3", grain="tensor").block_until_ready()
    except Exception as error:  # what JAX raises for a call that fails while running
        assert "epiq_dequantize" in str(error) and "scale" in str(error), error
    else:
        raise AssertionError("a call without a scale was accepted")
    said = ", ".join(f"{name} {count}" for name, count in counted.items())
    print(f"JAX {jax.__version__} on {jax.devices()[0]}, bytes compared: {said}; 0 differing")


if "--jax" in sys.argv:
    jax_only()
    sys.exit(0)

import test_python_torch as cpu  # noqa: E402
import torch  # noqa: E402
from torch import library as torch_ops  # noqa: E402

import epiq  # noqa: E402
import epiq.torch  # noqa: E402
from epiq import library_path  # noqa: E402

E4M3 = torch.float8_e4m3fn
opcheck = torch_ops.opcheck
counts = {"passed": 0, "failed": 0}


def here(name):
    return importlib.util.find_spec(name) is not None


def check(name):
    def run(function):
        words = [word for word in sys.argv[1:] if not word.startswith("-")]
        if words and not any(word in name for word in words):
            return function
        begin = time.monotonic()
        try:
            said = function()
            counts["passed"] += 1
            print(f"ok      {name}: {said} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Exception:
            counts["failed"] += 1
            print(f"FAILED  {name}", flush=True)
            traceback.print_exc()
        return function

    return run


def same(found, wanted, what):
    found, wanted = found.cpu().contiguous().view(torch.uint8), wanted.contiguous().view(torch.uint8)
    assert found.shape == wanted.shape, (what, found.shape, wanted.shape)
    wrong = int((found != wanted).sum())
    assert wrong == 0, f"{what}: {wrong} of {found.numel()} bytes differ"
    return found.numel()


def to(device, thing):
    return thing.to(device) if isinstance(thing, torch.Tensor) else thing


def run_script(*command):
    done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout.rstrip())
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}"
    return done.stdout.strip().splitlines()[-1]


usable, text = epiq.backend_usable("cuda", 0)
if not torch.cuda.is_available() or not usable:
    print(f"no GPU to check: {text}")
    sys.exit(77)
print(f"{torch.cuda.get_device_name()}; torch {torch.__version__}; {text}")


@check("operators, CUDA against CPU")
def operators():
    compared = calls = 0
    for dtype in ("bf16", "f16", "f32"):
        for rows, cols in ((1, 128), (17, 192), (130, 512), (257, 4096)):
            x = cpu.tensors(rows, rows, cols, dtype)
            for op, options, wants in cpu.CASES:
                if options.get("padded_cols", cols) < cols or ("padded_cols" in options and cols != 128):
                    continue
                torch.manual_seed(rows)
                arguments, given = cpu.case_arguments(op, options, wants, x)
                wanted = getattr(torch.ops.epiq, op)(*arguments, **given)
                found = getattr(torch.ops.epiq, op)(*(to("cuda", a) for a in arguments),
                                                    **{name: to("cuda", a) for name, a in given.items()})
                for one, other in zip(found, wanted):
                    compared += same(one, other, (op, options, dtype, rows, cols))
                calls += 1
                if wanted[0].numel() and dtype != "f16" and op == "quantize" and "padded_cols" not in options:
                    gs = wanted[2] if "new_inv_scale" in wants else given.get("inv_scale")
                    scale = given.get("scale") if given.get("scale") is not None else wanted[1]
                    grain = options.get("grain", "tensor" if "scale" in wants else "token")
                    back = {"format": options["format"], "grain": None if gs is not None or "mx" in options["format"]
                            else grain, "group": options.get("group", 0), "layout": options.get("layout"),
                            "inv_scale": gs}
                    compared += same(epiq.dequantize(wanted[0].cuda(), scale.cuda(), **{
                        name: to("cuda", a) for name, a in back.items()}), epiq.dequantize(wanted[0], scale, **back),
                        ("dequantize", options))
                    calls += 1
    return f"{calls} calls, {compared} bytes, 0 differing"


@check("gemma_add_rms_norm_quant against the CPU and the emulated chain")
def seed():
    total = 0
    for dtype in ("bf16", "f16"):
        for rows, hidden in ((1, 64), (33, 80), (130, 5120)):
            x = cpu.tensors(1, rows, hidden, dtype).clamp(-1e4, 1e4)
            r = cpu.tensors(2, rows, hidden, dtype).roll(1, 0).clamp(-1e4, 1e4)
            w = torch.randn(hidden).to(x.dtype)
            for nvfp4, scale in ((False, 0.02), (True, 100.0)):
                for residual in (None, r):
                    s = torch.tensor([scale])
                    mine, gpu = (None, None) if residual is None else (r.clone(), r.cuda())
                    q, sf, y = epiq.torch.gemma_add_rms_norm_quant(x, mine, w, 1e-6, s, nvfp4, True)
                    g = epiq.torch.gemma_add_rms_norm_quant(x.cuda(), gpu, w.cuda(), 1e-6, s.cuda(), nvfp4, True)
                    assert all(tensor.is_cuda for tensor in g)
                    total += same(g[0], q, "codes") + same(g[2], y, "y")
                    if residual is not None:
                        total += same(gpu, mine, "residual")
                    if nvfp4:
                        kt = sf.shape[1] // 4
                        m, k = torch.arange(rows)[:, None], torch.arange(sf.shape[1])[None, :]
                        at = ((m >> 7) * kt + (k >> 2)) * 512 + (m & 31) * 16 + ((m >> 5) & 3) * 4 + (k & 3)
                        flat = [tensor.view(torch.uint8).flatten().cpu()[at] for tensor in (g[1], sf)]
                        total += same(flat[0], flat[1], "block scales")
                    y_wanted, _ = cpu.emulated_norm(x, residual, w, 1e-6, 1.0, False, False)
                    total += same(g[2], y_wanted, "y against the emulated chain")
    return f"{total} bytes, 0 differing"


@check("column slices and a side stream")
def strides():
    wide = torch.randn(64, 3 * 1024, device="cuda").bfloat16()
    wanted = torch.ops.epiq.quantize(wide.cpu()[:, 1024:2048], format="e4m3")
    out = torch.zeros(64, 2000, dtype=E4M3, device="cuda")
    scale = torch.empty(64, 1, device="cuda")
    torch.ops.epiq.quantize_out(wide[:, 1024:2048], format="e4m3", codes_out=out[:, 100:1124], scale_out=scale)
    same(out[:, 100:1124], wanted[0], "slice")
    assert not out[:, :100].view(torch.uint8).any() and not out[:, 1124:].view(torch.uint8).any()
    # The call goes to the current stream: behind work that is still running there.
    side = torch.cuda.Stream()
    x = torch.zeros(512, 4096, device="cuda").bfloat16()
    real = torch.randn_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.copy_(real)
        codes = torch.ops.epiq.quantize(x, format="e4m3")[0]
    side.synchronize()
    return f"{same(codes, torch.ops.epiq.quantize(real.cpu(), format='e4m3')[0], 'side stream')} bytes"


def other_device():
    """Case S99: all tensors on cuda:1 while cuda:0 is current, on cuda:1's own stream and on a side stream of it."""
    x, r = torch.randn(64, 4096).bfloat16(), torch.randn(64, 4096).bfloat16()
    w, scale = torch.randn(4096).bfloat16(), torch.tensor([0.02])
    tensors = [tensor.to("cuda:1") for tensor in (x, r, w, scale)]

    def calls(x, r, w, scale):
        a = torch.ops.epiq.act_mul(x, format="e4m3", scale=scale)
        n = torch.ops.epiq.rms_norm(x, w, 1e-6, residual=r, format="mxfp8", new_residual=True)
        d = torch.ops.epiq.quantize(x, format="e4m3", grain="tensor")
        return a[0], n[0], n[1], n[4], d[0], d[1]

    compared, wanted = 0, calls(x, r, w, scale)
    for stream in (torch.cuda.default_stream(1), torch.cuda.Stream(1)):
        with torch.cuda.stream(stream):
            torch.cuda.set_device(0)
            found = calls(*tensors)
            assert torch.cuda.current_device() == 0
        torch.cuda.synchronize(1)
        compared += sum(same(one, other, "cuda:1") for one, other in zip(found, wanted))
    torch.cuda.set_device(0)
    try:
        torch.ops.epiq.act_mul(tensors[0], format="e4m3", scale=scale.to("cuda:0"))
    except ValueError as refusal:
        return f"{compared} bytes, 0 differing; a scale elsewhere: {refusal}"
    raise AssertionError("a scale on another device was taken")


if torch.cuda.device_count() > 1:
    check("another device than the current one")(other_device)
else:
    print("left out: another device than the current one (needs two GPUs)")


@check("graph capture, replay with changed inputs and scales")
def graphs():
    x, r = torch.randn(64, 4096, device="cuda").bfloat16(), torch.randn(64, 4096, device="cuda").bfloat16()
    w = torch.randn(4096, device="cuda").bfloat16()
    scale, gs = torch.tensor([0.02], device="cuda"), torch.tensor([300.0], device="cuda")

    def calls(x, r, w, scale, gs):
        a = epiq.torch.act_mul(x, format="e4m3", scale=scale)
        n = epiq.torch.rms_norm(x, w, 1e-6, residual=r, format="nvfp4", layout="tile128x4", inv_scale=gs,
                                weight_bias=1.0,
                                y=True, new_residual=True)
        d = epiq.torch.quantize(x, format="e4m3", grain="tensor")
        return a.codes, n.codes, n.scale, n.y, n.residual, d.codes, d.scale

    calls(x, r, w, scale, gs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = calls(x, r, w, scale, gs)
    compared = 0
    for step in range(4):
        scale.fill_(0.01 * (step + 1))
        gs.fill_(100.0 * (step + 1))
        x.copy_(torch.randn_like(x) * (step + 1))
        graph.replay()
        torch.cuda.synchronize()
        for one, other in zip(outputs, calls(*(tensor.cpu() for tensor in (x, r, w, scale, gs)))):
            compared += same(one, other, f"replay {step}")
    return f"4 replays, {compared} bytes, 0 differing"


@check("opcheck on CUDA")
def opchecks():
    x = torch.randn(10, 128, device="cuda").bfloat16()
    for op, options, wants in cpu.CASES:
        arguments, given = cpu.case_arguments(op, options, wants, x.cpu())
        arguments = tuple(to("cuda", a) for a in arguments)
        opcheck(getattr(torch.ops.epiq, op).default, arguments, {name: to("cuda", a) for name, a in given.items()})
    w, scale = torch.randn(128, device="cuda").bfloat16(), torch.tensor([0.5], device="cuda")
    q = torch.zeros(10, 128, dtype=torch.uint8, device="cuda")
    opcheck(torch.ops.epiq.quantize_out.default, (x,), {"format": "e4m3", "scale": scale, "codes_out": q})
    opcheck(torch.ops.epiq.add_rms_norm_out.default, (x, x.clone(), w, 1e-6),
            {"format": "e4m3", "scale": scale, "codes_out": q})
    return f"{len(cpu.CASES) + 2} calls"


@check("torch.compile(fullgraph=True), default and reduce-overhead")
def fullgraph():
    def layer(x, r, w, gs, scale):
        q, sf, y = epiq.torch.gemma_add_rms_norm_quant(x, r, w, 1e-6, gs, True, True)
        a = epiq.torch.act_mul(y * 2, format="e4m3", scale=scale, y=True)
        return q, y, a.codes, a.y, epiq.torch.quantize(a.y, format="e4m3").codes

    compared = 0
    for mode in (None, "reduce-overhead"):
        torch._dynamo.reset()
        compiled = torch.compile(layer, fullgraph=True, mode=mode)
        for step in range(4):
            x, r = torch.randn(16, 512, device="cuda").bfloat16(), torch.randn(16, 512, device="cuda").bfloat16()
            w, gs = torch.randn(512, device="cuda").bfloat16(), torch.tensor([5.0 + step], device="cuda")
            scale = torch.tensor([0.1 * (step + 1)], device="cuda")
            one, other = r.clone(), r.clone()
            found = [tensor.clone() for tensor in compiled(x, one, w, gs, scale)]
            for tensor, wanted in zip(found, layer(x, other, w, gs, scale)):
                compared += same(tensor, wanted.cpu(), f"mode {mode}")
            compared += same(one, other.cpu(), "residual")
    return f"{compared} bytes, 0 differing"


@check("unfused chains with torch's own CUDA operations")
def chains():
    lines = []
    gates = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    gates = gates[gates.isfinite()].reshape(-1, 128).cuda()
    ups = torch.randn(gates.shape, device="cuda").bfloat16()
    x, scale = torch.cat([gates, ups], 1), torch.tensor([0.05], device="cuda")
    found = epiq.act_mul(x, format="e4m3", scale=scale, y_out=True)
    given_y = cpu.differing(found.codes, cpu.emulated_fp8(found.y, scale))
    y = torch.nn.functional.silu(gates) * ups
    whole = cpu.differing(found.codes, cpu.emulated_fp8(y, scale))
    lines.append(f"silu_and_mul: given y {given_y}, whole chain {whole} of {found.codes.numel()} codes")
    x, r = torch.randn(4096, 4096, device="cuda").bfloat16(), torch.randn(4096, 4096, device="cuda").bfloat16()
    w, scale = torch.randn(4096, device="cuda").bfloat16(), torch.tensor([0.02], device="cuda")
    found = epiq.rms_norm(x, w, 1e-6, residual=r, residual_out=True, format="e4m3", scale=scale, y_out=True,
                          weight_bias=1)
    given_y += cpu.differing(found.codes, cpu.emulated_fp8(found.y, scale))
    h = x.float() + r.float()
    y = (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6) * (1 + w.float())).bfloat16()
    whole = cpu.differing(found.codes, cpu.emulated_fp8(y, scale))
    lines.append(f"gemma norm: given y {given_y}, with torch's row sum {whole} of {found.codes.numel()} codes, "
                 f"residual "
                 f"{cpu.differing(found.residual, h.bfloat16())}")
    assert given_y == 0
    return "; differing: ".join(lines)


if here("tvm_ffi"):
    @check("tvm-ffi on CUDA tensors")
    def tvm():
        import tvm_ffi

        module = tvm_ffi.load_module(str(library_path()))
        x, gs = torch.zeros(130, 512, device="cuda").bfloat16(), torch.tensor([3.0], device="cuda")
        real = torch.randn_like(x)
        q = torch.empty(130, 256, dtype=torch.uint8, device="cuda")
        sf = torch.empty(256, 32, dtype=E4M3, device="cuda")
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            x.copy_(real)
            module.epiq_quantize(x, None, gs, None, None, q, sf, None, "format=nvfp4 layout=tile128x4")
        side.synchronize()
        wanted = epiq.quantize(real.cpu(), format="nvfp4", layout="tile128x4", inv_scale=gs.cpu())
        compared = same(q, wanted.codes, "codes") + same(sf, wanted.scale, "scales")
        try:
            module.epiq_quantize(x, None, gs.cpu(), None, None, q, sf, None, "format=nvfp4 layout=tile128x4")
        except ValueError as error:
            assert "not on the device" in str(error), error
        else:
            raise AssertionError("a scale on the CPU was accepted")
        return f"{compared} bytes, 0 differing, on the side stream"
else:
    print("left out: tvm-ffi (pip install apache-tvm-ffi)")


blocks = ["torch"] + (["cupy"] if here("cupy") else [])
if not here("cupy"):
    print("left out: CuPy")


@check("the blocks of doc/python.md")
def docs():
    return run_script(str(HERE / "test_python_docs.py"), *blocks)


if here("jax") and here("jax_tvm_ffi"):
    @check("JAX on the GPU")
    def jax_on_gpu():
        return run_script(str(HERE / "gpu_check.py"), "--jax")

    for what, flag in (("every command in a CUDA graph", "--xla_gpu_graph_min_graph_size=1"),
                       ("no CUDA graphs", "--xla_gpu_enable_command_buffer=")):
        @check(f"JAX on the GPU, {what}")
        def jax_with_flag():
            os.environ["XLA_FLAGS"] = flag
            if subprocess.run([sys.executable, "-c", "import jax; jax.devices()"], capture_output=True).returncode:
                return f"left out: this XLA does not know {flag}"
            return run_script(str(HERE / "gpu_check.py"), "--jax")
else:
    print("left out: JAX (needs jax-tvm-ffi)")


@check("the same rows in calls of every size, and sizes beyond 2^31 elements")
def sizes():
    """Every kernel and launch shape that is chosen by size, against calls of 64 rows, which `epiq check` covers; and
    the first rows against the CPU."""
    forms = ({"format": "e4m3", "grain": "tensor"}, {"format": "e4m3", "grain": "token"},
             {"format": "e4m3", "grain": "group"}, {"format": "mxfp8"}, {"format": "nvfp4"}, {"format": "mxfp4"})
    inverse = torch.tensor([4.0], device="cuda")
    compared = calls = 0

    def run(op, x, residual, weight, form):
        given = {"inv_scale": inverse} if form["format"] == "nvfp4" or form.get("grain") == "tensor" else {}
        if not x.is_cuda:
            given = {name: value.cpu() for name, value in given.items()}
        if op == "act_mul":
            return epiq.act_mul(x, **form, **given)
        if op == "quantize":
            return epiq.quantize(x, **form, **given)
        out = torch.empty_like(residual)
        return (*epiq.rms_norm(x, weight, 1e-6, residual=residual, residual_out=out, weight_bias=1.0, **form,
                               **given)[:2], out)

    def of_rows(result, first, last):
        return [t[first:last].contiguous().view(torch.uint8) for t in result
                if isinstance(t, torch.Tensor) and t.dim() == 2 and t.shape[0] >= last]

    shapes = [(rows, cols) for cols in (768, 2048, 2880, 4096, 5120, 8192, 14336) for rows in (384, 1100, 5000)]
    shapes += [(20000, 2048), (20000, 4096), (20000, 5376), (70000, 1024), (3, 16384), (1, 1 << 20), (130, 769 * 8)]
    for op in ("act_mul", "rms_norm", "quantize"):
        for rows, cols in shapes + ([(75000, 14336)] if op == "act_mul" else []):
            width = 2 * cols if op == "act_mul" else cols
            torch.manual_seed(rows + cols)
            x = torch.empty(rows, width, dtype=torch.bfloat16, device="cuda").normal_(0, 2)
            residual = torch.empty(rows, cols, dtype=torch.bfloat16, device="cuda").normal_(0, 2)
            weight = (torch.randn(cols, device="cuda") * 0.3).bfloat16()
            for form in forms[:1] + forms[4:5] if rows * width >= 1 << 30 else forms:
                block = {"nvfp4": 16, "mxfp8": 32, "mxfp4": 32}.get(form["format"], 1)
                if cols % (128 if form.get("grain") == "group" else block):
                    continue
                big = run(op, x, residual, weight, form)
                starts = {0, max(0, rows // 2 - 32), max(0, rows - 64)}
                starts |= set(range(0, max(1, rows - 64), 64)) if rows <= 1100 else set()
                for first in sorted(starts):
                    last = min(rows, first + 64)
                    part = run(op, x[first:last], residual[first:last], weight, form)
                    for a, b in zip(of_rows(big, first, last), of_rows(part, 0, last - first)):
                        wrong = int((a != b).sum())
                        assert wrong == 0, (op, rows, cols, form, first, wrong)
                        compared += a.numel()
                few = min(rows, 2)
                small = run(op, x[:few].cpu(), residual[:few].cpu(), weight.cpu(), form)
                for a, b in zip(of_rows(big, 0, few), of_rows(small, 0, few)):
                    compared += same(a, b, (op, rows, cols, form))
                calls += 1
            del x, residual
    return f"{calls} calls, {compared} bytes, 0 differing"


@check("padding rows kept, y over x")
def kept_and_in_place():
    """Cases S40 and S65: what is not to be written keeps its bytes; what is written over has been read."""
    compared = calls = 0
    inverse = torch.tensor([4.0])

    def on(device, function, x, *others, **options):
        return function(x.to(device).clone(), *(to(device, a) for a in others),
                        **{name: to(device, a) for name, a in options.items()})

    def tiled(x, weight, op, form, kept):
        given = {"inv_scale": inverse.to(x.device)} if form == "nvfp4" else {}
        norm = (weight, 1e-6) if op == "rms_norm" else ()
        getattr(epiq, op)(x, *norm, format=form, layout="tile128x4", pad_rows="keep", scale_out=kept, **given)
        return kept

    for form in ("nvfp4", "mxfp8", "mxfp4"):
        for rows in (1, 5, 33, 127, 129, 255):
            for op, cols in (("act_mul", 480), ("rms_norm", 14880), ("quantize", 96), ("quantize", 4096)):
                x = torch.randn(rows, 2 * cols if op == "act_mul" else cols).bfloat16()
                weight = torch.randn(cols).bfloat16()
                options = {"format": form, "layout": "tile128x4", **({"eps": 1e-6} if op == "rms_norm" else {})}
                present = ("inv_scale",) if form == "nvfp4" else ()
                shape = epiq.sizes(op, rows, x.shape[1], present=present, **options).scale_shape
                results = []
                for device in ("cuda", "cpu"):
                    kept = torch.full(shape, 0x5a, dtype=torch.uint8, device=device)
                    kept = kept.view(E4M3 if form == "nvfp4" else torch.float8_e8m0fnu)
                    results.append(on(device, tiled, x, weight, op, form, kept))
                compared += same(*results, ("keep", form, op, rows, cols))
                calls += 1

    def in_place(x, weight, form):
        scaled = form and (form["format"] == "nvfp4" or form["grain"] == "tensor")
        given = {"inv_scale": inverse.to(x.device)} if scaled else {}
        codes = epiq.rms_norm(x, weight, 1e-6, y_out=x, **form, **given)[0]
        return (x,) if codes is None else (x, codes)

    for form in ({}, {"format": "e4m3", "grain": "tensor"}, {"format": "e4m3", "grain": "token"},
                 {"format": "mxfp8", "grain": None}, {"format": "nvfp4", "grain": None}):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for rows, cols in ((1, 64), (3, 96), (7, 4096), (300, 2048), (2, 16384), (2, 65536), (1, 1 << 20)):
                x, weight = torch.randn(rows, cols).to(dtype), torch.randn(cols).to(dtype)
                for one, other in zip(on("cuda", in_place, x, weight, form), on("cpu", in_place, x, weight, form)):
                    compared += same(one, other, ("in place", form, dtype, rows, cols))
                calls += 1
            odd = torch.randn(4, 771).to(dtype)[:, 1:770] if not form else torch.randn(4, 770).to(dtype)[:, :768]
            weight = torch.randn(odd.shape[1]).to(dtype)
            for one, other in zip(on("cuda", in_place, odd, weight, form), on("cpu", in_place, odd, weight, form)):
                compared += same(one, other, ("in place", form, dtype, "odd"))
            calls += 1
    return f"{calls} calls, {compared} bytes, 0 differing"


@check("eager call overhead")
def overhead():
    """Microseconds of the host for one call, kernels of a few microseconds queued behind each other."""
    x, out = torch.randn(4, 8192, device="cuda").bfloat16(), torch.empty(4, 4096, dtype=E4M3, device="cuda")
    scale, y = torch.tensor([0.05], device="cuda"), torch.empty(4, 4096, dtype=torch.bfloat16, device="cuda")
    calls = {"torch.ops.epiq.act_mul_out": lambda: torch.ops.epiq.act_mul_out(
        x, format="e4m3", scale=scale, codes_out=out),
             "epiq.act_mul, outputs given": lambda: epiq.act_mul(x, format="e4m3", scale=scale, codes_out=out),
             "torch.mul, out given": lambda: torch.mul(x[:, :4096], x[:, 4096:], out=y),
             "silu * up -> fp8 in torch (5 ops)": lambda: ((torch.nn.functional.silu(x[:, :4096]) * x[:, 4096:]).float()
                                                           * (1 / scale)).clamp(-448, 448).to(E4M3)}
    if here("tvm_ffi"):
        import tvm_ffi

        function = tvm_ffi.load_module(str(library_path())).epiq_act_mul
        calls["tvm-ffi epiq_act_mul"] = lambda: function(x, None, scale, None, None, None, out, None, None, None,
                                                         "format=e4m3")
    if here("flashinfer"):
        import flashinfer

        calls["flashinfer.silu_and_mul"] = lambda: flashinfer.activation.silu_and_mul(x, out=y)
    said = []
    for name, call in calls.items():
        best = float("inf")
        for _ in range(5):
            for _ in range(20):
                call()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(200):
                call()
            best = min(best, (time.perf_counter() - begin) / 200)
            torch.cuda.synchronize()
        said.append(f"{name} {best * 1e6:.1f} us")
    return "; ".join(said)


print(f"{counts['passed']} passed, {counts['failed']} failed")
sys.exit(1 if counts["failed"] else 0)
