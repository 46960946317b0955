#!/usr/bin/env python3
"""Operators of every kind on tensors of the CPU: values, PyTorch's own check of a registration, torch.compile, derivatives,
and errors, after which the next call works.

    operators_test.py LIBRARY WRONG_LIBRARY

WRONG_LIBRARY is made of wrong_op.cpp.
"""

import os
import subprocess
import sys
import threading

import torch

OPS = None  # torch.ops.tessera_test


def close(found, wanted, tolerance=1e-6):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def opcheck(name, *arguments):
    torch.library.opcheck(getattr(OPS, name).default, arguments)


def raises(words, call):
    """The call throws a RuntimeError with these words."""
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), f"expected '{words}' in: {error}"
        return
    raise AssertionError(f"nothing was thrown; expected: {words}")


def norm_affine(x, weight):
    x, weight = x.float(), weight.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight * 2 + 1


def test_schemas():
    """They follow from the lambda's types."""
    wanted = {
        "affine": "affine(Tensor x, float a, int n, bool negate) -> Tensor",
        "positive": "positive(Tensor arg0) -> Tensor",
        "sin_cos": "sin_cos(Tensor x) -> (Tensor, Tensor)",
        "add_": "add_(Tensor(a!) y, Tensor x) -> ()",
        "take": "take(Tensor x, Tensor index) -> Tensor",
    }
    for name, schema in wanted.items():
        found = str(getattr(OPS, name).default._schema)
        assert found == f"tessera_test::{schema}", found


def test_values():
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.bfloat16, 1e-2)):
        for shape in ((1, 1), (7, 300), (33, 128)):
            x = torch.randn(shape).to(dtype)
            close(OPS.affine(x, 1.5, 2, True), -(x.float() * 1.5 + 2).to(dtype), tolerance)
            weight = torch.randn(shape[1]).to(dtype)
            close(OPS.norm_affine(x, weight).float(), norm_affine(x, weight), 2 * tolerance if tolerance < 1e-3 else 3e-2)
    x = torch.randn(1000)
    assert torch.equal(OPS.positive(x), x > 0)
    for found, wanted in zip(OPS.sin_cos(x), (x.sin(), x.cos())):
        close(found, wanted)
    for rows, inner, columns in ((5, 70, 33), (1, 1, 1), (3, 0, 4), (0, 5, 2)):
        a, b = torch.randn(rows, inner), torch.randn(inner, columns)
        close(OPS.product(a, b), a @ b, 1e-4)
        close(OPS.row_sums(a), a.sum(1, keepdim=True), 1e-4)
    index = torch.randint(0, 1000, (77,))
    assert torch.equal(OPS.take(x, index), x[index])
    close(OPS.affine(x=torch.ones(1, 2), a=2.0, n=1, negate=False), torch.full((1, 2), 3.0))


def test_in_place():
    for dtype in (torch.float32, torch.float64, torch.int32):
        y, x = torch.arange(600).reshape(3, 200).to(dtype), torch.ones(3, 200, dtype=dtype)
        before, version = y.clone(), y._version
        assert OPS.add_(y, x) is None
        assert torch.equal(y, before + x)
        assert y._version > version, "autograd has to learn of the write"
    base = torch.zeros(8, 40)
    OPS.add_(base[:, 10:20], torch.ones(8, 10))  # a part of a tensor, not contiguous
    assert base[:, 10:20].eq(1).all() and base.sum() == 80
    OPS.add_(base.t(), torch.ones(40, 8))
    assert base.sum() == 80 + 320


def test_strides():
    x = torch.randn(64, 96)
    for view in (x.t(), x[::2], x[:, ::3], x[5:, 7:], torch.randn(96).expand(64, 96), torch.randn(1, 1).expand(9, 300)):
        found = OPS.affine(view, 2.0, 0, False)
        close(found, view * 2)
        assert found.is_contiguous()
        close(OPS.norm_affine(view, torch.ones(view.shape[1])), norm_affine(view, torch.ones(view.shape[1])), 1e-5)


def test_no_elements():
    assert OPS.affine(torch.empty(0, 5), 1.0, 0, False).shape == (0, 5)
    assert OPS.affine(torch.empty(5, 0), 1.0, 0, False).shape == (5, 0)
    assert OPS.positive(torch.empty(0)).dtype == torch.bool
    OPS.add_(torch.empty(0, 3), torch.empty(0, 3))
    assert [t.numel() for t in OPS.sin_cos(torch.empty(0))] == [0, 0]


def test_opcheck():
    for dtype in (torch.float32, torch.bfloat16):
        opcheck("affine", torch.randn(5, 40).to(dtype), 0.5, 3, True)
        opcheck("affine", torch.randn(5, 40).to(dtype).requires_grad_(), 0.5, 3, False)
        opcheck("affine", torch.randn(40, 5).to(dtype).t(), 0.5, 3, False)
        opcheck("norm_affine", torch.randn(5, 40).to(dtype), torch.randn(40).to(dtype))
    opcheck("positive", torch.randn(40))
    opcheck("sin_cos", torch.randn(40, requires_grad=True))
    opcheck("product", torch.randn(5, 40).bfloat16(), torch.randn(40, 7).bfloat16())
    opcheck("product", torch.randn(0, 40), torch.randn(40, 7))
    opcheck("row_sums", torch.randn(5, 40))
    opcheck("take", torch.randn(40), torch.randint(0, 40, (9,)))
    opcheck("add_", torch.randn(4, 40), torch.randn(4, 40))
    opcheck("add_", torch.randn(40, 4).t(), torch.randn(4, 40))


def test_compile():
    """One graph without breaks, also with sizes that are symbols, and with a write in place."""

    def program(x, y):
        y = y.clone()
        OPS.add_(y, x)
        s, c = OPS.sin_cos(OPS.affine(y, 0.5, 1, False).flatten())
        return (s * c).reshape(x.shape) + OPS.norm_affine(x, torch.ones(x.shape[1])) + OPS.row_sums(OPS.product(y, x.t()))

    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(program, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for rows, columns in ((3, 50), (4, 60), (9, 70)):
            x, y = torch.randn(rows, columns), torch.randn(rows, columns)
            close(compiled(x, y), program(x, y), 1e-5)
    torch._dynamo.reset()
    trained = torch.compile(lambda x: OPS.affine(x, 3.0, 1, True).sum(), fullgraph=True, backend="aot_eager")
    x = torch.randn(6, 20, requires_grad=True)
    trained(x).backward()
    close(x.grad, torch.full((6, 20), -3.0))


def test_derivatives():
    x = torch.randn(4, 300, requires_grad=True)
    OPS.affine(x, 2.5, 7, True).sum().backward()
    close(x.grad, torch.full_like(x, -2.5))
    x = torch.randn(500, requires_grad=True)
    s, c = OPS.sin_cos(x)
    (s * 2 + c * c).sum().backward()
    close(x.grad, 2 * x.detach().cos() - 2 * x.detach().cos() * x.detach().sin(), 1e-5)
    with torch.no_grad():
        assert not OPS.affine(x.reshape(1, -1), 1.0, 0, False).requires_grad
    x = torch.randn(3, 5, requires_grad=True)
    OPS.affine(x, 1.0, 0, False).bfloat16().sum().backward()
    assert x.grad is not None


def test_errors():
    x = torch.randn(4, 40)
    flat = torch.randn(40)
    raises("argument 0 (x) has elements of torch.int64; the operator takes torch.float32 or torch.bfloat16",
           lambda: OPS.affine(torch.ones(4, 4, dtype=torch.int64), 1.0, 0, False))
    raises("takes torch.float32, torch.float64 or torch.int32", lambda: OPS.add_(x.half(), x.half()))
    raises("argument 1 (x) has elements of torch.float64; the operator takes torch.float32", lambda: OPS.add_(x, x.double()))
    raises("argument 1 (index) has elements of torch.int32", lambda: OPS.take(flat, torch.zeros(3, dtype=torch.int32)))
    raises("argument 0 (x) has 1 axis; the operator takes tensors with 2", lambda: OPS.affine(flat, 1.0, 0, False))
    raises("is written and shares memory with argument 1 (x)", lambda: OPS.add_(x, x))
    raises("several elements share memory", lambda: OPS.add_(torch.zeros(1, 40).expand(4, 40), x))
    raises("integer of 32 bits does not hold", lambda: OPS.affine(x, 1.0, 1 << 40, False))
    raises("ShapeError", lambda: OPS.add_(x, torch.randn(3, 40)))
    raises("x must not be negative", lambda: OPS.root(-flat.abs() - 1))
    close(OPS.root(flat.abs()), flat.abs().sqrt())  # the next call works
    raises("neither its argument nor made by it", lambda: OPS.outsider(torch.randn(128)))
    raises("leave .sync() and .on(stream) out", lambda: OPS.waits(flat))
    close(OPS.affine(x, 2.0, 0, False), 2 * x)


def test_fake_errors():
    """Element types and ranks are checked while torch.compile traces."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: OPS.affine(x, 1.0, 0, False), fullgraph=True, backend="aot_eager")
    raises("takes torch.float32 or torch.bfloat16", lambda: compiled(torch.ones(2, 2, dtype=torch.float64)))
    assert OPS.affine(torch.empty(3, 7, device="meta"), 1.0, 0, False).shape == (3, 7)


def test_wrong_derivatives():
    """A derivative whose counts do not fit the operator's ends the program that loads it; one that fits is loaded."""
    load = (f"import torch; torch.ops.load_library({sys.argv[2]!r}); x = torch.ones(3, requires_grad=True)\n"
            "torch.ops.tessera_wrong.product(x, 2 * x).sum().backward(); print(x.grad)")
    wanted = {
        "parameters": "the lambda has 3 parameters; it takes the gradients of results with floating-point elements (1) and what is kept (1)",
        "results": "the lambda's operation makes 1 tensors; it makes the gradients of tensor arguments with floating-point elements (2)",
        "kept": "tessera_wrong::product has 2 parameters: saves<...> counts them from 0",
        "": "tensor([4., 4., 4.])",
    }
    for wrong, words in wanted.items():
        ran = subprocess.run([sys.executable, "-c", load], env=dict(os.environ, TESSERA_WRONG_OPERATOR=wrong), capture_output=True, text=True)
        assert words in ran.stdout + ran.stderr, f"{wrong}: {ran.stdout}{ran.stderr}"
        assert (ran.returncode == 0) == (wrong == ""), f"{wrong}: exit code {ran.returncode}"


def test_threads():
    """Calls of several threads at once."""
    failures = []

    def work(seed):
        try:
            x = torch.randn(16, 200, generator=torch.Generator().manual_seed(seed))
            for _ in range(50):
                close(OPS.affine(x, 2.0, 1, False), 2 * x + 1)
        except Exception as error:  # told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_memory():
    """Results are PyTorch's: they live as long as a reference to them, whatever else goes."""
    results = [OPS.affine(torch.full((1, 100), float(i)), 1.0, 0, False) for i in range(100)]
    for i, result in enumerate(results):
        assert result.eq(i).all()
    result = results[7]
    del results
    result.add_(1)
    assert result.eq(8).all() and result.untyped_storage().resizable()


def main():
    global OPS
    torch.ops.load_library(sys.argv[1])
    OPS = torch.ops.tessera_test
    torch.manual_seed(1)
    failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            print(f"ok {name}", flush=True)
        except Exception as error:  # the other tests tell more
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {str(error)[:1500]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
