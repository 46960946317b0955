#!/usr/bin/env python3
"""Tests torch.ops.tessera_example: values, derivatives, torch.compile, errors; on a GPU also PyTorch's streams, its memory
and its graphs.

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
SHAPES = ((1, 1), (1, 1000), (3, 1024), (65, 127))


def silu_mul(gate, up):
    return F.silu(gate) * up


def pair(device, *shape, dtype=torch.float32, requires_grad=False):
    return [torch.randn(*shape, device=device, dtype=dtype, requires_grad=requires_grad) for _ in range(2)]


def assert_close(found, wanted, dtype=torch.float32):
    """In the Euclidean norm, relative to f64."""
    error = (found.double() - wanted.double()).norm() / wanted.double().norm().clamp_min(1e-30)
    assert error <= TOLERANCES[dtype], f"{dtype}: relative error {error:.2g}"


def test_values(ops, device):
    for dtype in TOLERANCES:
        for shape in SHAPES:
            gate, up = pair(device, *shape, dtype=dtype)
            found = ops.silu_mul(gate, up)
            assert found.dtype == dtype and found.shape == gate.shape and found.device == gate.device
            assert_close(found, silu_mul(gate.double(), up.double()), dtype)
            assert_close(ops.softmax(gate), gate.double().softmax(-1), dtype)
    assert ops.silu_mul(*pair(device, 0, 5)).shape == (0, 5)
    y = torch.ones(5, 300, device=device)
    ops.scale_(y, 2.5)
    assert y.eq(2.5).all()


def test_views(ops, device):
    """Arguments that are not contiguous, that share memory, and that are the same tensor."""
    both = torch.randn(8, 200, device=device)
    gate, up = both.chunk(2, dim=-1)
    assert_close(ops.silu_mul(gate, up), silu_mul(gate.double(), up.double()))
    assert_close(ops.silu_mul(both.t(), both.t()), silu_mul(both.t().double(), both.t().double()))
    assert_close(ops.softmax(both[:, :1].expand(8, 50)), torch.full((8, 50), 0.02, device=device))
    ops.scale_(both[:, 50:60], 0.0)
    assert both[:, 50:60].eq(0).all() and both.ne(0).sum() == 8 * 190


def test_derivatives(ops, device):
    gate, up = pair(device, 5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ops.silu_mul, (gate, up))
    assert torch.autograd.gradcheck(ops.softmax, (gate,))
    gate, up = pair(device, 33, 65, requires_grad=True)
    ops.softmax(ops.silu_mul(gate, up)).square().sum().backward()
    wanted = [x.detach().double().requires_grad_() for x in (gate, up)]
    silu_mul(*wanted).softmax(-1).square().sum().backward()
    for ours, theirs in zip((gate, up), wanted):
        assert_close(ours.grad, theirs.grad, torch.float32)


def test_registration(ops, device):
    """The schema, fake tensors and autograd, as PyTorch's own checks want them; a graph without breaks."""
    torch.library.opcheck(ops.silu_mul.default, tuple(pair(device, 4, 300, requires_grad=True)))
    torch.library.opcheck(ops.softmax.default, (torch.randn(4, 300, device=device, requires_grad=True),))
    torch.library.opcheck(ops.scale_.default, (torch.randn(4, 300, device=device), 0.5))
    for dynamic in (False, True):
        compiled = torch.compile(lambda g, u: ops.softmax(ops.silu_mul(g, u)) + 1, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for rows in (6, 7):
            gate, up = pair(device, rows, 50)
            assert_close(compiled(gate, up), silu_mul(gate.double(), up.double()).softmax(-1) + 1)


def test_errors(ops, device):
    gate, up = pair(device, 4, 4)
    for bad, words in (((gate, up[:2]), "ShapeError"), ((gate, up.double()), "torch.float64"), ((gate.int(), up.int()), "torch.float32"),
                       ((gate[0], up[0]), "has 1 axis")):
        try:
            ops.silu_mul(*bad)
        except RuntimeError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"accepted: {words}")
    try:
        ops.softmax(torch.zeros(2, 1025, device=device))
    except RuntimeError as error:
        assert "a row must fit in one piece" in str(error), error
    else:
        raise AssertionError("accepted a row that is too long")
    assert_close(ops.silu_mul(gate, up), silu_mul(gate.double(), up.double()))  # the next call works


def test_streams(ops, device):
    """The operator comes behind what PyTorch's current stream has enqueued, and before what it will; the host waits for
    nothing."""
    if device == "cpu":
        return "needs a GPU"
    side = torch.cuda.Stream()
    n = 1 << 12

    def run():
        start = time.perf_counter()
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)  # some 50 ms before the arguments are there
            gate, up = torch.full((n, n), 2.0, device=device), torch.full((n, n), 3.0, device=device)
            chain = gate
            for _ in range(5):  # results and arguments are used again while the work is in flight
                chain = ops.silu_mul(chain, up)
            total = (chain - chain.mean()).abs().sum()
        enqueued = time.perf_counter() - start
        side.synchronize()
        return chain, total, enqueued, time.perf_counter() - start

    run()  # compiles, and PyTorch gets its memory
    chain, total, enqueued, took = run()
    wanted = torch.tensor(2.0, dtype=torch.float64)
    for _ in range(5):
        wanted = silu_mul(wanted, torch.tensor(3.0, dtype=torch.float64))
    assert_close(chain, wanted.to(device).expand(n, n))
    assert total.item() / n**2 < 1e-3 * wanted.item()
    assert enqueued < 0.5 * took, f"enqueuing took {enqueued:.3f} s of {took:.3f} s: the host waited"


def test_memory(ops, device):
    """Results come from PyTorch's allocator, and nothing keeps them."""
    if device == "cpu":
        return "needs a GPU"
    ops.silu_mul(*pair(device, 1024, 1024))
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_allocated()
    kept = ops.silu_mul(*pair(device, 1024, 1024))
    assert torch.cuda.memory_allocated() - before == 4 << 20, "the result is PyTorch's memory"
    del kept
    for _ in range(20):
        gate, up = pair(device, 1024, 1024, requires_grad=True)
        ops.silu_mul(gate, up).sum().backward()
    del gate, up
    assert torch.cuda.memory_allocated() == before, "at once, without waiting"


def test_graphs(ops, device):
    """Inside torch.cuda.graph, with results in the graph's pool; replayed with other contents."""
    if device == "cpu":
        return "needs a GPU"
    gate, up = pair(device, 64, 512)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compiled before the capture, as PyTorch asks
        ops.softmax(ops.silu_mul(gate, up))
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inner = ops.silu_mul(gate, up)
        result = ops.softmax(inner)
        ops.scale_(result, 2.0)
    for _ in range(3):
        for x in (gate, up):
            x.copy_(torch.randn_like(x))
        graph.replay()
        assert_close(result, 2 * silu_mul(gate.double(), up.double()).softmax(-1))
    # An operator whose kernel is compiled while the stream is captured: for a type that was not used before.
    x = torch.randn(8, 256, device=device, dtype=torch.float16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        late = ops.softmax(x)
    graph.replay()
    assert_close(late, x.double().softmax(-1), torch.float16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.ops.load_library(str(options.build / "tessera_torch_op.so"))
    ops = torch.ops.tessera_example
    failed = skipped = passed = 0
    for test in (test_graphs, test_values, test_views, test_derivatives, test_registration, test_errors, test_streams, test_memory):
        try:
            reason = test(ops, options.device)
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
