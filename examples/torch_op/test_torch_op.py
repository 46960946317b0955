#!/usr/bin/env python3
"""Tests torch.ops.tessera_example.silu_mul: values, derivatives, fake tensors, errors, and PyTorch's streams.

    test_torch_op.py BUILD_FOLDER [--device cpu|cuda]

BUILD_FOLDER has tessera_torch_op.so (README.md). Without --device: the GPU where PyTorch sees one, else the CPU.
"""

import argparse
import gc
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}


def reference(gate, up):
    return F.silu(gate) * up


def pair(device, *shape, dtype=torch.float32, requires_grad=False):
    return [torch.randn(*shape, device=device, dtype=dtype, requires_grad=requires_grad) for _ in range(2)]


def assert_close(found, wanted, dtype):
    """In the Euclidean norm, relative to f64."""
    error = (found.double() - wanted).norm() / wanted.norm().clamp_min(1e-30)
    assert error <= TOLERANCES[dtype], f"{dtype}: relative error {error:.2g}"


def test_values(silu_mul, device):
    for dtype in TOLERANCES:
        for shape in ((1,), (1000,), (3, 1025), (64, 1024)):
            gate, up = pair(device, *shape, dtype=dtype)
            found = silu_mul(gate, up)
            assert found.dtype == dtype and found.shape == gate.shape and found.device == gate.device
            assert_close(found, reference(gate.double(), up.double()), dtype)
    assert silu_mul(*pair(device, 0, 5)).shape == (0, 5)


def test_views(silu_mul, device):
    """Arguments that are not contiguous, that share memory, and that are the same tensor."""
    both = torch.randn(8, 200, device=device)
    gate, up = both.chunk(2, dim=-1)
    assert_close(silu_mul(gate, up), reference(gate.double(), up.double()), torch.float32)
    assert_close(silu_mul(both.t(), both.t()), reference(both.t().double(), both.t().double()), torch.float32)
    line = torch.randn(3000, device=device)
    gate, up = line[:2000], line[1000:]
    assert_close(silu_mul(gate, up), reference(gate.double(), up.double()), torch.float32)


def test_derivatives(silu_mul, device):
    gate, up = pair(device, 5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(silu_mul, (gate, up))
    gate, up = pair(device, 33, 65, requires_grad=True)
    silu_mul(gate, up).square().sum().backward()
    wanted = [x.detach().double().requires_grad_() for x in (gate, up)]
    reference(*wanted).square().sum().backward()
    for ours, theirs in zip((gate, up), wanted):
        assert_close(ours.grad, theirs.grad, torch.float32)


def test_registration(silu_mul, device):
    """The schema, fake tensors and autograd, as PyTorch's own checks want them; a graph without breaks."""
    torch.library.opcheck(silu_mul, tuple(pair(device, 4, 300, requires_grad=True)))
    compiled = torch.compile(lambda g, u: silu_mul(g, u) + 1, fullgraph=True, backend="aot_eager")
    gate, up = pair(device, 6, 50)
    assert_close(compiled(gate, up), reference(gate.double(), up.double()) + 1, torch.float32)


def test_errors(silu_mul, device):
    gate, up = pair(device, 4, 4)
    for bad, words in (((gate, up[:2]), "gate's shape"), ((gate, up.double()), "element type"), ((gate.int(), up.int()), "float32")):
        try:
            silu_mul(*bad)
        except RuntimeError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"accepted: {words}")
    assert_close(silu_mul(gate, up), reference(gate.double(), up.double()), torch.float32)  # the next call works


def test_streams(silu_mul, device):
    """The operator comes behind what PyTorch's current stream has enqueued, and before what it will; the host waits for
    nothing."""
    if device == "cpu":
        return "needs a GPU"
    side = torch.cuda.Stream()
    n = 1 << 24

    def run():
        start = time.perf_counter()
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)  # some 50 ms before the arguments are there
            gate, up = torch.full((n,), 2.0, device=device), torch.full((n,), 3.0, device=device)
            chain = gate
            for _ in range(5):  # results and arguments are used again while the work is in flight
                chain = silu_mul(chain, up)
            total = (chain - chain.mean()).abs().sum()
        enqueued = time.perf_counter() - start
        side.synchronize()
        return chain, total, enqueued, time.perf_counter() - start

    run()  # compiles, and PyTorch gets its memory
    chain, total, enqueued, took = run()
    wanted = torch.tensor(2.0, dtype=torch.float64)
    for _ in range(5):
        wanted = reference(wanted, torch.tensor(3.0, dtype=torch.float64))
    assert_close(chain, wanted.to(device).expand(n), torch.float32)
    assert total.item() / n < 1e-3 * wanted.item()
    assert enqueued < 0.5 * took, f"enqueuing took {enqueued:.3f} s of {took:.3f} s: the host waited"


def test_memory(silu_mul, device):
    """Nothing keeps PyTorch's memory when the work has ended."""
    if device == "cpu":
        return "needs a GPU"
    silu_mul(*pair(device, 1 << 20))
    torch.cuda.synchronize()
    silu_mul(*pair(device, 1024))  # what has ended is released at the latest by the next call
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(20):
        gate, up = pair(device, 1 << 20, requires_grad=True)
        silu_mul(gate, up).sum().backward()
    del gate, up
    torch.cuda.synchronize()
    silu_mul(*pair(device, 1024))
    torch.cuda.synchronize()
    gc.collect()
    kept = torch.cuda.memory_allocated() - before
    assert kept <= 1 << 20, f"{kept} bytes are still kept"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.ops.load_library(str(options.build / "tessera_torch_op.so"))
    silu_mul = torch.ops.tessera_example.silu_mul.default
    failed = skipped = passed = 0
    for test in (test_values, test_views, test_derivatives, test_registration, test_errors, test_streams, test_memory):
        try:
            reason = test(silu_mul, options.device)
        except Exception as error:  # the other tests tell more
            failed += 1
            print(f"FAILED {test.__name__}: {type(error).__name__}: {str(error)[:500]}")
            continue
        skipped += reason is not None
        passed += reason is None
        print(f"skipped {test.__name__}: {reason}" if reason else f"ok {test.__name__}")
    print(f"PyTorch {torch.__version__} on {options.device}: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
