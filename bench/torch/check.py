#!/usr/bin/env python3
"""The operators of examples/torch_op compared with PyTorch's own, and what a call costs.

    check.py [--device cuda|cpu] [--build FOLDER] [--compiled BACKEND]

Builds bench/torch (with PyTorch's headers of this Python) into --build, unless the libraries are there. Checks the results
in eager mode, under torch.compile, inside torch.cuda.graph and backward; then measures host time per call, which has to
be at most 3 microseconds above that of an operator that does nothing (with derivatives 6: both pass through Python). Exits
with 1 if a check fails.
"""

import argparse
import pathlib
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 3.0  # microseconds
TOLERANCES = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float64: 1e-12}
failed = False


def report(ok, what, text=""):
    global failed
    failed = failed or not ok
    print(f"{'ok' if ok else 'FAILED':7}{what}{': ' if text else ''}{text}", flush=True)


def error_of(found, wanted):
    wanted = wanted.double()
    return ((found.double() - wanted).norm() / wanted.norm().clamp_min(1e-30)).item()


def build(folder):
    if not all((folder / f"{name}.so").exists() for name in ("tessera_torch_op", "tessera_torch_bench")):
        subprocess.run(["cmake", "-S", ROOT / "bench/torch", "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        f"-DPython3_EXECUTABLE={sys.executable}"], check=True)
        subprocess.run(["ninja", "-C", folder], check=True)
    for name in ("tessera_torch_op", "tessera_torch_bench"):
        torch.ops.load_library(str(folder / f"{name}.so"))


def program(ops):
    """A softmax of a gated product, with ours or with PyTorch's own operators."""
    if ops is None:
        return lambda gate, up: (F.silu(gate) * up).softmax(-1)
    return lambda gate, up: ops.softmax(ops.silu_mul(gate, up))


def check_results(ops, device, backend):
    ours, theirs = program(ops), program(None)
    for dtype, tolerance in TOLERANCES.items():
        for shape in ((1, 1), (37, 1000), (512, 1024)):
            gate, up = (torch.randn(shape, device=device, dtype=dtype) for _ in range(2))
            error = error_of(ours(gate, up), theirs(gate.double(), up.double()))
            report(error <= 4 * tolerance, f"eager {dtype} {shape}", f"relative error {error:.1e}")
    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(lambda g, u: ours(g, u) * 2 + 1, fullgraph=True, dynamic=dynamic, backend=backend)
        for rows in (64, 65, 200):
            gate, up = (torch.randn(rows, 500, device=device) for _ in range(2))
            error = error_of(compiled(gate, up), theirs(gate.double(), up.double()) * 2 + 1)
            report(error <= 1e-5, f"torch.compile dynamic={dynamic} rows={rows}", f"relative error {error:.1e}")
    for name, run in (("eager", ours), ("torch.compile", torch.compile(ours, fullgraph=True, backend=backend))):
        inputs = [torch.randn(33, 700, device=device, requires_grad=True) for _ in range(2)]
        wanted = [x.detach().double().requires_grad_() for x in inputs]
        weight = torch.randn(33, 700, device=device)
        (run(*inputs) * weight).sum().backward()
        (theirs(*wanted) * weight.double()).sum().backward()
        error = max(error_of(x.grad, w.grad) for x, w in zip(inputs, wanted))
        report(error <= 1e-5, f"derivatives, {name}", f"relative error {error:.1e}")


def check_graph(ops, device):
    gate, up = (torch.randn(256, 1024, device=device) for _ in range(2))
    ours, theirs = program(ops), program(None)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        ops.scale_(ours(gate, up), 0.5)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = ours(gate, up)
        ops.scale_(result, 0.5)
    worst = 0.0
    for _ in range(10):
        for x in (gate, up):
            x.copy_(torch.randn_like(x))
        graph.replay()
        worst = max(worst, error_of(result, 0.5 * theirs(gate.double(), up.double())))
    report(worst <= 1e-5, "torch.cuda.graph, 10 replays", f"relative error {worst:.1e}")
    torch._dynamo.reset()
    reduced = torch.compile(ours, mode="reduce-overhead", fullgraph=True)
    for _ in range(4):
        gate, up = (torch.randn(64, 512, device=device) for _ in range(2))
        error = error_of(reduced(gate, up), theirs(gate.double(), up.double()))
    report(error <= 1e-5, "torch.compile(mode='reduce-overhead')", f"relative error {error:.1e}")


def microseconds(call, device, calls=2000, rounds=15):
    """Host time of a call: the least of some rounds, each with an empty queue at its start, and shorter than the queue."""
    least = float("inf")
    calls = calls if device == "cpu" else min(calls, 500)  # the driver's queue has room for some 1000 launches
    for _ in range(rounds):
        if device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        least = min(least, time.perf_counter() - start)
    return 1e6 * least / calls


def check_costs(ops, device):
    """A tensor without elements takes every step but the launch."""
    bench = torch.ops.tessera_bench
    small, none = torch.ones(8, 128, device=device), torch.empty(0, 128, device=device)
    with torch.inference_mode():  # an operator with a derivative otherwise passes through Python
        rows = (
            ("in place", lambda x: ops.scale_.default(x, 1.0), lambda x: bench.nothing_.default(x, 1.0), lambda x: x.mul_(1.0)),
            ("with a result", lambda x: ops.softmax.default(x), lambda x: bench.fresh.default(x), lambda x: torch.softmax(x, -1)),
        )
        for what, ours, nothing, theirs in rows:
            ours(small), ours(none)
            base, empty, launched, peer = (microseconds(lambda: f(x), device) for f, x in
                                           ((nothing, none), (ours, none), (ours, small), (theirs, small)))
            report(empty - base <= LIMIT, f"a call {what}",
                   f"{empty - base:.2f} us above an operator that does nothing ({base:.2f} us); with the launch "
                   f"{launched:.2f} us; PyTorch's own operator {peer:.2f} us")


def check_derivative_costs(ops, device):
    """softmax beside an operator that computes nothing and has a derivative that computes nothing, registered with PyTorch's
    own register_autograd. Most of both times is PyTorch's: a call of an operator with a derivative passes through Python."""
    nothing, nothing_backward = torch.ops.tessera_bench.fresh.default, torch.ops.tessera_bench.fresh_backward.default

    def backward(ctx, gradient):
        return nothing_backward(gradient, *ctx.saved_tensors)

    torch.library.register_autograd("tessera_bench::fresh", backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output))
    x = torch.empty(0, 128, device=device, requires_grad=True)
    gradient = torch.empty(0, 128, device=device)
    base, ours = (microseconds(lambda: f(x), device) for f in (nothing, ops.softmax.default))
    report(ours - base <= 2 * LIMIT, "a call that keeps its result for a derivative", f"{ours:.2f} us; an operator that does nothing {base:.2f} us")

    def derivative(f):
        y = f(x)
        return microseconds(lambda: torch.autograd.grad(y, x, gradient, retain_graph=True), device)

    base, ours, peer = (derivative(f) for f in (nothing, ops.softmax.default, lambda x: torch.softmax(x, -1)))
    report(ours - base <= 2 * LIMIT, "a derivative",
           f"{ours:.2f} us; of an operator that does nothing {base:.2f} us; of PyTorch's own operator {peer:.2f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/torch_bench", help="default: build/torch_bench")
    parser.add_argument("--compiled", default="inductor", help="the backend of torch.compile (default: inductor)")
    options = parser.parse_args()
    build(options.build)
    torch.manual_seed(1)
    ops = torch.ops.tessera_example
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name() if options.device == 'cuda' else 'the CPU'}")
    check_results(ops, options.device, options.compiled)
    if options.device == "cuda":
        check_graph(ops, options.device)
    check_costs(ops, options.device)
    check_derivative_costs(ops, options.device)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
