"""The Python package `tessera` against NumPy in double precision: values, shapes, types, strides, lifetimes, threads.

    package_test.py FOLDER     the folder that contains the package; without one, the installed package

Every test runs in this process. suite.cmake runs the file a second time in checked mode, in which the memory of results
is filled with NaN before a kernel runs and reading what was not written is an error, and with MALLOC_PERTURB_, which fills
what malloc() returns.
"""
import gc
import os
import shutil
import subprocess
import sys
import threading
import time

if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv[1])

import numpy as np

import tessera

rng = np.random.default_rng(7)
TOLERANCE = {np.float64: 1e-12, np.float32: 2e-5, np.float16: 4e-3}


def values(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def close(found, expected, tolerance):
    expected = np.asarray(expected, dtype=np.float64)
    assert isinstance(found, np.ndarray), type(found)
    assert found.shape == expected.shape, f"{found.shape}, expected {expected.shape}"
    error = np.max(np.abs(found.astype(np.float64) - expected) / (1 + np.abs(expected)), initial=0)
    assert error <= tolerance, f"error {error}"  # of NaN, too


def raises(kind, part, f, *arguments, **named):
    try:
        f(*arguments, **named)
    except kind as error:
        assert type(error) is kind, f"{type(error)}: {error}"
        assert part in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__} with '{part}'")


def d(x):
    return x.astype(np.float64)


def erf(x):
    import math
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def softmax(x):
    e = np.exp(d(x) - d(x).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


UNARY = {
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), "exp": np.exp, "tanh": np.tanh}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum}


def test_unary():
    for name, expected in UNARY.items():
        for dtype in (np.float64, np.float32, np.float16):
            loose = 1e-6 if name.startswith("gelu") else 0
            for shape in ((), (1,), (1000,), (3, 5, 7), (2, 3, 1, 2, 5), (0, 4)):
                x = np.asarray(values(*shape, dtype=dtype))
                close(getattr(tessera, name)(x), expected(d(x)), TOLERANCE[dtype] + loose)


def test_binary():
    for name, expected in BINARY.items():
        for dtype in (np.float64, np.float32, np.float16):
            for left, right in (((17, 33), (17, 33)), ((4, 1, 3), (5, 1)), ((7,), (3, 7)), ((2, 3, 4, 5, 6), (6,))):
                x, y = values(*left, dtype=dtype), values(*right, dtype=dtype) + dtype(3)
                close(getattr(tessera, name)(x, y), expected(d(x), d(y)), 2 * TOLERANCE[dtype])
            x = values(5, 9, dtype=dtype)
            for number in (1.5, np.float32(1.5), 2):
                close(getattr(tessera, name)(x, number), expected(d(x), float(number)), TOLERANCE[dtype])
    a, b = np.arange(20, dtype=np.int32), np.arange(20, dtype=np.int32) * 3 - 7
    for name in ("add", "sub", "mul", "maximum", "minimum"):
        found = getattr(tessera, name)(a, b)
        assert found.dtype == np.int32 and (found == BINARY[name](a, b)).all()
    gate, up = values(6, 40), values(6, 40)
    close(tessera.silu_mul(gate, up), UNARY["silu"](d(gate)) * d(up), 1e-5)
    close(tessera.gelu_mul(gate, up), UNARY["gelu"](d(gate)) * d(up), 1e-5)


def test_rows():
    for dtype in (np.float32, np.float16):
        for shape in ((1,), (5, 1), (3, 1000), (2, 3, 129), (2, 20000), (0, 8)):
            x = values(*shape, dtype=dtype)
            w, b = values(shape[-1], dtype=dtype), values(shape[-1], dtype=dtype)
            t = TOLERANCE[dtype]
            if x.size:
                close(tessera.softmax(x), softmax(x), t)
                close(tessera.log_softmax(x), np.log(softmax(x)), t)
            else:
                assert tessera.softmax(x).shape == x.shape
            square = np.mean(d(x)**2, -1, keepdims=True)
            close(tessera.rms_norm(x, w, 1e-3), d(x) * d(w) / np.sqrt(square + 1e-3), t)
            centred = d(x) - d(x).mean(-1, keepdims=True)
            close(tessera.layer_norm(x, w, b, 1e-3),
                  centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * d(w) + d(b), 2 * t)


def test_reductions():
    for dtype in (np.float64, np.float32, np.float16):
        for shape in ((1,), (3, 1000), (2, 3, 129), (1, 70000)):
            x = values(*shape, dtype=dtype)
            for name in ("sum", "mean", "max", "min"):
                f, expected = getattr(tessera, name), getattr(np, name)
                t = 1e-4 if dtype == np.float32 else TOLERANCE[dtype]
                close(f(x, axis=-1), expected(d(x), axis=-1), t)
                close(f(x), expected(d(x)), t)
                close(f(x, x.ndim - 1), expected(d(x), axis=-1), t)
    n = rng.integers(-2**31, 2**31 - 1, (5, 333), dtype=np.int32)
    assert tessera.sum(n).dtype == np.int64 and tessera.sum(n) == n.sum(dtype=np.int64)
    assert (tessera.max(n, -1) == n.max(-1)).all()
    raises(tessera.ShapeError, "axis is 0", tessera.sum, n, 0)
    raises(tessera.ShapeError, "needs an element", tessera.max, np.empty((3, 0), np.float32), -1)


def test_products():
    for dtype in (np.float32, np.float16):
        for m, k, n in ((1, 1, 1), (1, 100, 50), (7, 33, 9), (65, 130, 70), (4, 0, 3)):
            a, b, bias = values(m, k, dtype=dtype), values(k, n, dtype=dtype), values(n, dtype=dtype)
            t = TOLERANCE[dtype] * 5
            close(tessera.matmul(a, b), d(a) @ d(b), t)
            close(tessera.matmul(a, np.ascontiguousarray(b.T).T), d(a) @ d(b), t)
            w = np.ascontiguousarray(b.T)
            close(tessera.linear(a, w), d(a) @ d(b), t)
            close(tessera.linear(a, w, bias), d(a) @ d(b) + d(bias), t)
    x, w = values(2, 3, 40), values(8, 40)
    close(tessera.linear(x, w), d(x) @ d(w).T, 1e-4)
    r = values(2, 3, 8)
    close(tessera.linear(x, w, residual=r), d(x) @ d(w).T + d(r), 1e-4)
    h, g, b = values(5, 40, dtype=np.float16), values(8, 40, dtype=np.float16), values(8, dtype=np.float16)
    for name in ("relu", "silu", "gelu", "gelu_tanh"):
        close(tessera.linear(h, g, b, activation=name), UNARY[name](d(h) @ d(g).T + d(b)), 2e-2)
        close(tessera.linear(h, g, activation=name), UNARY[name](d(h) @ d(g).T), 2e-2)
    raises(tessera.ElementError, "elements of f32; expected bf16 or f16", tessera.linear, x, w, activation="relu")
    raises(tessera.ShapeError, "residual", tessera.linear, x, w, residual=r[:1])
    raises(tessera.ShapeError, "b has the extents [5, 6]: axis 0 must be 4", tessera.matmul, values(3, 4), values(5, 6))
    raises(tessera.ShapeError, "expected 2 axes", tessera.matmul, values(3, 4), values(4))
    raises(tessera.ShapeError, "bias", tessera.linear, values(3, 4), values(6, 4), values(5))


def attention(q, k, v, scale, causal, window):
    heads, kv_heads, queries, keys = q.shape[1], k.shape[1], q.shape[2], k.shape[2]
    k, v = np.repeat(d(k), heads // kv_heads, 1), np.repeat(d(v), heads // kv_heads, 1)
    s = d(q) @ k.transpose(0, 1, 3, 2) * scale
    position = np.arange(queries)[:, None] + keys - queries
    seen = np.arange(keys)[None] <= position if causal else np.ones((queries, keys), bool)
    if window:
        seen &= np.arange(keys)[None] > position - window
    s = np.where(seen, s, -np.inf)
    return softmax(s) @ v


def test_attention():
    for dtype in (np.float16, np.float32):
        q, k, v = values(1, 4, 33, 32, dtype=dtype), values(1, 2, 65, 32, dtype=dtype), values(1, 2, 65, 32, dtype=dtype)
        for causal, window in ((False, 0), (True, 0), (True, 9)):
            close(tessera.attention(q, k, v, causal=causal, window=window),
                  attention(q, k, v, 1 / np.sqrt(32), causal, window), 5e-3)
        close(tessera.attention(q, k, v, scale=0.1), attention(q, k, v, 0.1, False, 0), 5e-3)
    raises(tessera.ShapeError, "window", tessera.attention, q, k, v, window=3)
    raises(tessera.ShapeError, "expected 4 axes", tessera.attention, q[0], k, v)


def test_conversions():
    x = values(37, 65)
    found = tessera.transpose(x)
    assert (found == x.T).all() and found.flags.c_contiguous
    q, scale = tessera.quantize_rows(x)
    assert q.dtype == np.int8 and q.shape == x.shape and scale.shape == (37,)
    np.testing.assert_allclose(scale, np.abs(x).max(1) / 127, rtol=1e-6)
    assert np.abs(d(q) * scale[:, None] - d(x)).max() <= scale.max() * 0.501
    close(tessera.dequantize_rows(q, scale), d(q) * d(scale)[:, None], 1e-6)
    q8, scale8 = tessera.quantize_rows(x, "f8e4m3")  # NumPy has no such elements
    assert isinstance(q8, tessera.Array) and q8.dtype == "f8e4m3" and q8.shape == x.shape and q8.device == "cpu"
    back = np.from_dlpack(tessera.dequantize_rows(q8, scale8))
    assert np.abs(back - x).max() <= 0.07 * np.abs(x).max()
    b = tessera.convert(x, "bf16")
    assert isinstance(b, tessera.Array) and b.dtype == "bf16"
    close(np.from_dlpack(tessera.convert(tessera.softmax(b), "f32")), softmax(x), 1e-2)
    assert tessera.convert(x, "f16").dtype == np.float16 and tessera.convert(x, "f64").dtype == np.float64
    raises(tessera.ElementError, "dtype is 'i4'", tessera.quantize_rows, x, "i4")


def test_strides():
    x = values(12, 40)
    for part in (x[::2], x[:, 3:20], x[:, ::2], x.T, x[2:2], x[:, 5:6]):
        close(tessera.add(part, part), 2 * d(part), 1e-6)
        close(tessera.relu(part), np.maximum(d(part), 0), 1e-6)
        close(tessera.sum(part, -1), d(part).sum(-1), 1e-5)
    close(tessera.softmax(x[:, 3:20]), softmax(x[:, 3:20]), 1e-6)
    y = values(4, 6, 10)
    close(tessera.softmax(y[:, :, :7]), softmax(y[:, :, :7]), 1e-6)  # its first two axes can be read as one
    raises(tessera.ShapeError, "cannot be read as one", tessera.softmax, y[:, :4])
    raises(tessera.ShapeError, "negative", tessera.relu, x[::-1])
    raises(tessera.ShapeError, "share memory", tessera.relu, np.broadcast_to(x[0], (3, 40)))
    deep = values(2, 3, 2, 3, 2, 3)
    close(tessera.tanh(deep), np.tanh(d(deep)), 1e-5)
    raises(tessera.ShapeError, "more than 4", tessera.tanh, deep[:, ::2, :, ::2, :, ::2])


def test_wrong_arguments():
    x = values(4, 8)
    raises(tessera.ShapeError, "argument 2 (y) has the extents [3, 8], and argument 1 (x) has [4, 8]", tessera.add, x, x[:3])
    raises(tessera.ElementError, "argument 2 (y) has elements of f64; expected f32", tessera.add, x, d(x))
    raises(tessera.ElementError, "elements of i32; expected f32, bf16 or f16", tessera.softmax, x.astype(np.int32))
    raises(tessera.ElementError, "type code 5", tessera.softmax, x.astype(np.complex64))
    raises(tessera.ElementError, "cannot be lent by DLPack", tessera.softmax, np.array(["a"]))
    raises(tessera.ShapeError, "weight", tessera.rms_norm, x, x[0, :5])
    raises(tessera.ShapeError, "expected 1 axis", tessera.softmax, np.zeros((), np.float32))
    raises(tessera.ShapeError, "has no streams", tessera.softmax, x, stream=1)
    raises(TypeError, "argument 1 is a list", tessera.softmax, [1.0])
    raises(TypeError, "argument 2 is a str", tessera.add, x, "1")
    assert issubclass(tessera.ShapeError, ValueError) and issubclass(tessera.ElementError, TypeError)
    assert issubclass(tessera.DeviceError, RuntimeError) and issubclass(tessera.IoError, OSError)
    close(tessera.softmax(x), softmax(x), 1e-6)  # the next call works


def test_read_only_and_unchanged():
    x = values(9, 30)
    kept = x.copy()
    x.flags.writeable = False
    y = tessera.softmax(x)
    close(y, softmax(kept), 1e-6)
    assert (x == kept).all()
    assert y.flags.writeable
    y[:] = 5  # memory of its own
    assert (x == kept).all() and (tessera.add(x, x) == 2 * kept).all()


class Lender:
    """An array that says when its memory is given back; `old` is without max_version."""

    def __init__(self, array, old=False):
        self.array, self.old = array, old

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **named):
        if self.old and "max_version" in named:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**named)


class Broken(Lender):
    def __dlpack__(self, **named):
        return object()


def test_lifetimes():
    x = values(64, 64)
    before = sys.getrefcount(x)
    for _ in range(50):
        tessera.softmax(x)
        tessera.add(x, x)
        raises(tessera.ShapeError, "extents", tessera.add, x, x[:3])
    gc.collect()
    assert sys.getrefcount(x) == before, "an array that was lent is kept"
    y = tessera.softmax(x)
    expected = softmax(x)
    del x  # the result does not depend on it
    gc.collect()
    close(y, expected, 1e-6)
    part = y[3:5]
    del y  # nor the view on the result
    gc.collect()
    filler = [np.full((64, 64), 7, np.float32) for _ in range(20)]
    close(part, expected[3:5], 1e-6)
    del filler


def resident():
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_results_end():
    x = values(1 << 20)

    def as_numpy():
        tessera.relu(x)

    def as_array():
        tessera.relu(Lender(x))

    def as_capsule():
        tessera.relu(Lender(x)).__dlpack__()

    def as_array_after_an_error():
        made = tessera.relu(Lender(x))
        raises(tessera.ElementError, "f64", tessera.add, made, np.zeros(1))

    for make in (as_numpy, as_array, as_capsule, as_array_after_an_error):
        make()
        before = resident()
        for _ in range(30):
            make()
        grown = (resident() - before) >> 20
        assert grown < 60, f"{make.__name__}: 30 results of 4 MiB leave {grown} MiB"


def test_protocol():
    x = values(5, 6)
    made = tessera.relu(Lender(x))
    assert isinstance(made, tessera.Array) and made.shape == (5, 6) and made.dtype == "f32"
    assert isinstance(tessera.relu(Lender(x, old=True)), tessera.Array)
    raises(tessera.ElementError, "lends no tensor", tessera.relu, Broken(x))
    raises(tessera.ElementError, "argument 2 lends no tensor", tessera.add, x, Broken(x))
    a, b = np.from_dlpack(made), np.from_dlpack(made)  # lent twice: the same memory
    a[0, 0] = 42
    assert b[0, 0] == 42
    again = np.from_dlpack(tessera.add(made, made))
    close(again, 2 * d(a), 1e-6)
    capsule = made.__dlpack__()
    assert "dltensor" in repr(capsule) and "versioned" not in repr(capsule)
    assert "dltensor_versioned" in repr(made.__dlpack__(max_version=(1, 0)))
    del capsule, made  # a capsule that no library took is given back
    gc.collect()
    assert b[0, 0] == 42
    raises(BufferError, "without a copy", tessera.relu(Lender(x)).__dlpack__, copy=True)
    raises(tessera.ShapeError, "no stream", tessera.relu(Lender(x)).__dlpack__, stream=1)


def test_threads():
    x = values(50, 200)
    expected, failures = softmax(x), []

    def work(number):
        try:
            for i in range(20):
                close(tessera.softmax(x), expected, 1e-6)
                raises(tessera.ShapeError, f"[{number + 2}, 200]", tessera.add, x, x[:number + 2])
                own = np.full((number + 1, 300), float(i), np.float32)
                close(tessera.add(own, own), 2 * d(own), 1e-6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


def test_gradients():
    for dtype in (np.float32, np.float16):
        t = 4 * TOLERANCE[dtype]
        for shape in ((1,), (3, 1000), (2, 3, 33), (9, 9000)):
            x, dy, w = values(*shape, dtype=dtype), values(*shape, dtype=dtype), values(shape[-1], dtype=dtype)
            y, g = softmax(x), d(dy)
            close(tessera.softmax_backward(dy, y.astype(dtype)), y * (g - (g * y).sum(-1, keepdims=True)), t)
            log = np.log(y).astype(dtype)
            close(tessera.log_softmax_backward(dy, log), g - np.exp(d(log)) * g.sum(-1, keepdims=True), t)
            for function, mean in ((tessera.rms_norm_backward, 0), (tessera.layer_norm_backward, d(x).mean(-1, keepdims=True))):
                scale = 1 / np.sqrt(((d(x) - mean)**2).mean(-1, keepdims=True) + 1e-2)
                normed, gw = (d(x) - mean) * scale, g * d(w)
                found = function(dy, x, w, 1e-2)
                wanted = gw - normed * (gw * normed).mean(-1, keepdims=True)
                if function is tessera.layer_norm_backward:
                    wanted = wanted - gw.mean(-1, keepdims=True)
                    close(found[2], g.reshape(-1, shape[-1]).sum(0), t)
                close(found[0], scale * wanted, t)
                close(found[1], (g * normed).reshape(-1, shape[-1]).sum(0), t)
        q, k, v, g = (values(1, 2, 5, 16, dtype=dtype) for _ in range(4))
        o, lse = tessera.attention_with_lse(q, k, v)
        scores = d(q) @ d(k).swapaxes(-1, -2) / 4
        p = softmax(scores)
        close(lse, np.log(np.exp(scores).sum(-1)), 1e-5)
        dp = d(g) @ d(v).swapaxes(-1, -2)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / 4
        for found, wanted in zip(tessera.attention_backward(g, q, k, v, o, lse), (ds @ d(k), ds.swapaxes(-1, -2) @ d(q), p.swapaxes(-1, -2) @ d(g))):
            close(found, wanted, t)
        logits, targets = values(6, 30, dtype=dtype), np.array([0, 29, 3, -100, 5, 5])
        for integers in (np.int64, np.int32):
            losses, lse = tessera.cross_entropy(logits, targets.astype(integers), label_smoothing=0.1)
            kept, p = (targets >= 0)[:, None], softmax(logits)
            share = 0.1 / 30 + 0.9 * (targets[:, None] == np.arange(30))
            close(losses, (-np.log(p) * share * kept).sum(-1), t)
            given = np.arange(6, dtype=np.float32)
            close(tessera.cross_entropy_backward(given, logits, targets.astype(integers), lse, label_smoothing=0.1), given[:, None] * (p - share) * kept, t)
    raises(tessera.ElementError, "expected i64 or i32", tessera.cross_entropy, logits, given)
    raises(tessera.ElementError, "expected f32, bf16 or f16", tessera.cross_entropy_backward, given, d(logits), targets, lse)
    raises(tessera.ShapeError, "expected those of argument 2 (y), [6, 30]", tessera.softmax_backward, logits[:3], logits)


def test_every_function_of_the_library():
    """Each row of the library's tables has a function in Python, and the other way round."""
    from tessera import _library
    rows = set()
    for name in _library.FUNCTIONS:
        base = name.removesuffix("_number").removesuffix("_all")
        for prefix in ("quantize_rows", "dequantize_rows", "convert", "linear"):
            if base.startswith(prefix + "_"):
                base = prefix
        rows.add(base)
    here = {n for n in tessera.__all__ if callable(getattr(tessera, n)) and not isinstance(getattr(tessera, n), type)}
    assert rows == here - {"cmake_dir"}, rows ^ (here - {"cmake_dir"})


def test_exports():
    """Nothing but the C functions is visible, so that another library may have a Tessera of its own."""
    if shutil.which("nm") is None:
        print("    not tested: there is no nm")
        return
    library = os.path.join(os.path.dirname(tessera.__file__), "libtessera_python.so")
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = [line.split()[-1] for line in out.splitlines()]
    assert "tessera_py_call" in names
    assert not [n for n in names if not n.startswith("tessera_py_")], names[:20]


def test_import():
    """Importing takes no NumPy; its time is printed, and bounded where nothing else runs."""
    folder = os.path.dirname(os.path.dirname(tessera.__file__))
    program = ("import sys, time; t = time.process_time(); import tessera; "
               "print(time.process_time() - t, 'numpy' in sys.modules, 'torch' in sys.modules)")
    out = [subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": folder}, check=True,
                          capture_output=True, text=True).stdout.split() for _ in range(5)]
    assert all(o[1:] == ["False", "False"] for o in out), out
    best = float(np.min([float(o[0]) for o in out]))
    print(f"    import: {1000 * best:.0f} ms of processor time")
    assert best < 0.05, best


def main():
    tests = [(n, f) for n, f in globals().items() if n.startswith("test_")]
    for name, test in tests:
        start = time.time()
        test()
        print(f"{name}: {time.time() - start:.1f} s", flush=True)
    print(f"{len(tests)} tests passed ({tessera.__file__})")


if __name__ == "__main__":
    main()
