"""torch.ops.tessera.* and tessera.torch on the CPU, or on a GPU: against PyTorch's own functions in double precision, eager,
compiled and backward; PyTorch's check of each registration; errors. python.operators; `operators_test.py FOLDER cuda` on a
machine with a GPU, which also holds streams and graphs.
"""
from torch_values import close, device, raises, run_all, values, wide

import torch
import torch.nn.functional as f

import tessera
import tessera.torch as tt
from tessera import _library

OPS = torch.ops.tessera
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
torch.manual_seed(5)


def rms(x, w, eps):
    return f.rms_norm(x, x.shape[-1:], w, eps)


def layer(x, w, b, eps):
    return f.layer_norm(x, x.shape[-1:], w, b, eps)


X, Y, ROW = (3, 4, 50), (4, 1), (50,)
#: The operators with what PyTorch computes instead, and the arguments: extents of tensors, and numbers.
CASES = {
    **{name: (function, (X,)) for name, function in {
        "relu": torch.relu, "sigmoid": torch.sigmoid, "silu": f.silu, "gelu": f.gelu, "exp": torch.exp, "tanh": torch.tanh,
        "gelu_tanh": lambda x: f.gelu(x, approximate="tanh"), "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: x.log_softmax(-1), "sum": lambda x: x.sum(-1), "mean": lambda x: x.mean(-1),
        "max": lambda x: x.amax(-1), "min": lambda x: x.amin(-1), "sum_all": torch.sum, "mean_all": torch.mean,
        "max_all": torch.amax, "min_all": torch.amin}.items()},
    **{name: (function, (X, Y)) for name, function in {
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
        "minimum": torch.minimum, "silu_mul": lambda a, b: f.silu(a) * b, "gelu_mul": lambda a, b: f.gelu(a) * b}.items()},
    **{f"{name}_number": (function, (X, 0.5)) for name, function in {
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": lambda x, y: x.clamp(min=y),
        "minimum": lambda x, y: x.clamp(max=y)}.items()},
    "rms_norm": (rms, (X, ROW, 1e-3)), "layer_norm": (layer, (X, ROW, ROW, 1e-3)),
    "transpose": (lambda x: x.t(), ((7, 30),)), "matmul": (torch.matmul, ((7, 33), (33, 20))),
    "linear": (f.linear, (X, (9, 50), (9,))),
    "linear_add": (lambda x, w, r: f.linear(x, w) + r, (X, (9, 50), (3, 4, 9))),
    **{f"linear_{name}": (lambda x, w, b, g=function: g(f.linear(x, w, b)), (X, (9, 50), (9,))) for name, function in {
        "relu": torch.relu, "silu": f.silu, "gelu": f.gelu, "gelu_tanh": lambda x: f.gelu(x, approximate="tanh")}.items()},
    "attention": (lambda q, k, v, s, c, w: f.scaled_dot_product_attention(q, k, v, is_causal=c, scale=s),
                  ((2, 4, 33, 16), (2, 4, 33, 16), (2, 4, 33, 16), 0.3, True, 0)),
    **{f"convert_{n}": (lambda x: x, (X,)) for n in ("f64", "f32", "bf16", "f16")},
}
#: Those with several results, or elements that PyTorch does not compute with: test_quantized.
QUANTIZED = [n for n in _library.FUNCTIONS if "quantize" in n]
#: Those of gradients, and with results for them: gradients_test.py.
GRADIENTS = [n for n in _library.FUNCTIONS if n.endswith("_backward")] + ["attention_with_lse", "cross_entropy"]
WIDE = [n for n in CASES if not any(part in n for part in ("softmax", "norm", "matmul", "linear", "attention", "_mul"))] + ["mul"]


#: For 16-bit floats alone.
SMALL = [f"linear_{n}" for n in ("relu", "silu", "gelu", "gelu_tanh")]


def types_of(name, *types):
    return [t for t in types if name not in SMALL or t in (torch.bfloat16, torch.float16)]


def arguments(name, dtype):
    made = [values(*a, dtype=dtype) if isinstance(a, tuple) else a for a in CASES[name][1]]
    if name == "div":
        made[1] = made[1].abs() + 1
    return made


def tolerance(name, dtype, more=1):
    loose = {"gelu": 1e-6, "gelu_mul": 1e-6, "gelu_tanh": 1e-6, "attention": 5e-3, "sum_all": 1e-4}.get(name, 0)
    if name.startswith("convert_"):
        loose = {"bf16": 1e-2, "f16": 1e-3, "f32": 1e-6}.get(name[8:], 0)
    if name == "matmul" or name.startswith("linear"):
        more *= 5
    return more * TOLERANCE[dtype] + loose


def test_every_function_is_an_operator():
    assert set(_library.FUNCTIONS) == {*CASES, *QUANTIZED, *GRADIENTS}, set(_library.FUNCTIONS) ^ {*CASES, *QUANTIZED, *GRADIENTS}
    for name in _library.FUNCTIONS:
        assert hasattr(OPS, name), name
    schema = str(OPS.layer_norm.default._schema)
    assert schema.startswith("tessera::layer_norm(Tensor x, Tensor weight, Tensor bias, float eps=") and schema.endswith(") -> Tensor"), schema
    assert str(OPS.linear.default._schema) == "tessera::linear(Tensor x, Tensor w, Tensor? bias=None) -> Tensor"
    assert "float scale=0., bool causal=False, int window=0" in str(OPS.attention.default._schema)
    x = values(3, 8)
    close(OPS.rms_norm(x, values(8).fill_(1)), rms(wide(x), wide(x[0]).fill_(1), 1e-6), 1e-5, "defaults")


def test_values():
    for name, (function, _) in CASES.items():
        for dtype in types_of(name, torch.float32, torch.bfloat16, torch.float16) + ([torch.float64] if name in WIDE else []):
            given = arguments(name, dtype)
            found = getattr(OPS, name)(*given)
            close(found, function(*map(wide, given)), tolerance(name, dtype, 2), f"{name} {dtype}")
            assert found.is_contiguous() and found.device.type == device
    i = torch.arange(-30, 30, dtype=torch.int32, device=device).reshape(4, 15)
    assert torch.equal(OPS.add(i, i), i + i) and torch.equal(OPS.sum(i), i.sum(-1)) and OPS.sum(i).dtype == torch.int64
    assert OPS.sum(values(3, 4, dtype=torch.bfloat16)).dtype == torch.float32


def test_opcheck():
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic", "test_autograd_registration")
    for name in CASES:
        given = arguments(name, types_of(name, torch.float32, torch.bfloat16)[0])
        for x in given:
            if isinstance(x, torch.Tensor):
                x.requires_grad_()
        torch.library.opcheck(getattr(OPS, name).default, given, test_utils=checks)
    torch.library.opcheck(OPS.linear.default, (values(5, 8), values(4, 8)))
    torch.library.opcheck(OPS.linear.default, (values(8), values(4, 8), values(4)))
    torch.library.opcheck(OPS.quantize_rows_f8e4m3.default, (values(5, 8),))
    torch.library.opcheck(OPS.dequantize_rows_bf16.default, OPS.quantize_rows_i8(values(5, 8)))
    torch.library.opcheck(OPS.softmax.default, (values(5, 8).t(),))


def test_derivatives():
    for name, (function, _) in CASES.items():
        for dtype in types_of(name, torch.float32, torch.bfloat16) if name[:8] != "convert_" else (torch.float32,):
            given = arguments(name, dtype)
            ours = [x.clone().requires_grad_() if isinstance(x, torch.Tensor) else x for x in given]
            theirs = [wide(x).requires_grad_() if isinstance(x, torch.Tensor) else x for x in given]
            made, wanted = getattr(OPS, name)(*ours), function(*theirs)
            g = torch.randn(made.shape).to(device).to(made.dtype)
            made.backward(g)
            wanted.backward(g.double())
            for i, (a, b) in enumerate(zip(ours, theirs)):
                if isinstance(a, torch.Tensor):
                    assert a.grad.dtype == a.dtype
                    close(a.grad, b.grad, tolerance(name, dtype, 8), f"{name} {dtype}: gradient {i}")
    x, w = values(6, 8).requires_grad_(), values(4, 8)
    OPS.linear(x, w).sum().backward()  # without a bias, and where w needs none
    close(x.grad, wide(w).sum(0).expand(6, 8), 1e-5, "linear without a bias")
    tied = torch.zeros(2, 3, device=device).requires_grad_()
    OPS.maximum(tied, torch.zeros(2, 3, device=device)).sum().backward()
    assert tied.grad.eq(0.5).all()


def test_many_equal_extremes():
    """More than the largest number of f16: each has its share."""
    for reduced, axis in ((OPS.max_all, None), (OPS.min_all, None), (OPS.max, -1)):
        x = torch.zeros((100000,) if axis is None else (1, 100000), device=device, dtype=torch.float16).requires_grad_()
        reduced(x).sum().backward(gradient=torch.tensor(1000.0, device=device, dtype=torch.float16))
        assert x.grad.eq(torch.tensor(0.01, dtype=torch.float16).item()).all(), x.grad.unique()


def test_no_scale():
    import tessera.torch

    q = values(1, 1, 4, 16)
    raises("expected a number other than 0", lambda: tessera.torch.attention(q, q, q, scale=0.0), ValueError)
    tessera.torch.attention(q, q, q, scale=0.5)


def test_no_derivative():
    x = values(3, 8).requires_grad_()
    raises("quantize_rows_i8 has no derivative", lambda: OPS.quantize_rows_i8(x)[1].sum().backward())
    y = x.softmax(-1)
    raises("torch.ops.tessera.softmax_backward has no derivative", lambda: OPS.softmax_backward(y, y).sum().backward())
    with torch.no_grad():
        assert not OPS.quantize_rows_i8(x)[1].requires_grad


def test_compile():
    def block(x, w, gate, up, down):
        h = OPS.rms_norm(x, w, 1e-5)
        return OPS.add(x, OPS.linear(OPS.silu_mul(OPS.linear(h, gate), OPS.linear(h, up)), down)) * 2

    weights = [values(32), values(48, 32), values(48, 32), values(32, 48)]
    for backend, dynamic in (("aot_eager", False), ("aot_eager", True), ("inductor", None)):
        torch._dynamo.reset()
        compiled = torch.compile(block, fullgraph=True, backend=backend, dynamic=dynamic)
        for rows in (3, 5, 9):
            x = values(2, rows, 32)
            close(compiled(x, *weights), wide(block(x, *weights)), 1e-5, f"{backend}, dynamic={dynamic}")
    torch._dynamo.reset()
    trained = torch.compile(lambda x: OPS.softmax(x).square().sum(), fullgraph=True, backend="aot_eager")
    x = values(4, 20).requires_grad_()
    y = wide(x).requires_grad_()
    trained(x).backward()
    y.softmax(-1).square().sum().backward()
    close(x.grad, y.grad, 1e-5, "compiled backward")


def test_strides():
    x = values(16, 24)
    for view in (x.t(), x[::2], x[:, ::3], x[3:, 5:], x[0].expand(5, 24), x[:, :1].expand(16, 24), x[:0], x[:, :0], x[:1]):
        close(OPS.tanh(view), wide(view).tanh(), 1e-5, f"{view.shape} {view.stride()}")
        if view.numel():
            close(OPS.softmax(view), wide(view).softmax(-1), 1e-5, f"softmax {view.shape} {view.stride()}")
        close(OPS.linear(view, values(3, view.shape[1]).fill_(1)), wide(view).sum(-1, keepdim=True).expand(-1, 3), 1e-4, "linear")
    close(OPS.matmul(x, x.t()), wide(x) @ wide(x).t(), 1e-4, "a transposed operand")
    raises("cannot be read as one", lambda: OPS.softmax(values(4, 6, 8)[:, :4]))


def test_errors():
    x = values(4, 8)
    raises("must be 8", lambda: OPS.matmul(x, x))
    raises("expected 2 axes", lambda: OPS.matmul(x, x[0]))
    raises("argument 0 (x) has elements of torch.int32; the operator takes torch.float32", lambda: OPS.softmax(x.int()))
    raises("has elements of f64; expected f32", lambda: OPS.add(x, x.double()))
    raises("complex64", lambda: OPS.add(x, x.to(torch.complex64)))
    raises("equally long", lambda: OPS.add(x, x[:3]))
    raises("weight", lambda: OPS.rms_norm(x, x[0, :5]))
    raises("on meta, an argument before it on", lambda: OPS.add(x, x.to("meta")))
    raises("expected dim to be the last one", lambda: tt.softmax(x, dim=0), ValueError)
    raises("normalized_shape is (4, 8)", lambda: tt.rms_norm(x, (4, 8), x[0]), ValueError)
    raises("not available", lambda: tt.scaled_dot_product_attention(x, x, x, dropout_p=0.5), ValueError)
    raises("expected 'none' or 'tanh'", lambda: tt.gelu(x, "erf"), ValueError)
    raises("expected a dtype that it makes", lambda: tt.convert(x, torch.int64), ValueError)
    q, k = values(1, 4, 5, 16), values(1, 2, 7, 16)
    raises("aligns the first query", lambda: tt.scaled_dot_product_attention(q, k, k, is_causal=True), ValueError)
    raises("enable_gqa", lambda: tt.scaled_dot_product_attention(q, k, k), ValueError)
    close(OPS.softmax(x), wide(x).softmax(-1), 1e-5, "the next call")


def test_module():
    x, w, b = values(3, 5, 8), values(8), values(8)
    close(tt.rms_norm(x, (8,), w, 1e-5), rms(wide(x), wide(w), 1e-5), 1e-5, "rms_norm")
    close(tt.layer_norm(x, (8,), w, b), layer(wide(x), wide(w), wide(b), 1e-5), 1e-5, "layer_norm")
    close(tt.gelu(x, approximate="tanh"), f.gelu(wide(x), approximate="tanh"), 1e-5, "gelu")
    close(tt.add(tt.mul(x, 2.0), w), wide(x) * 2 + wide(w), 1e-5, "numbers")
    close(tt.linear(x, values(4, 8).fill_(1)), wide(x).sum(-1, keepdim=True).expand(-1, -1, 4), 1e-4, "linear")
    h, v = x.bfloat16(), values(4, 8, dtype=torch.bfloat16)
    close(tt.linear(h, v, activation="silu"), f.silu(wide(h) @ wide(v).t()), 5e-2, "linear with an activation")
    close(tt.linear(h, v, values(4).bfloat16().zero_(), activation="gelu_tanh"), f.gelu(wide(h) @ wide(v).t(), approximate="tanh"), 5e-2, "with a bias")
    r = values(3, 5, 4)
    close(tt.linear(x, values(4, 8).fill_(1), residual=r), wide(x).sum(-1, keepdim=True) + wide(r), 1e-4, "linear with a residual")
    raises("leave out bias and activation", lambda: tt.linear(x, v, b, residual=r), tessera.ShapeError)
    raises("activation is 'tanh'", lambda: tt.linear(x, v, activation="tanh"), tessera.ShapeError)
    q, k = values(2, 4, 9, 16), values(2, 2, 9, 16)
    for causal in (False, True):
        close(tt.scaled_dot_product_attention(q, k, k, is_causal=causal, enable_gqa=True),
              f.scaled_dot_product_attention(wide(q), wide(k), wide(k), is_causal=causal, enable_gqa=True), 5e-3, f"attention, causal={causal}")
    assert tt.convert(x, torch.bfloat16).dtype == torch.bfloat16
    for name in tt.__all__:
        assert callable(getattr(tt, name)), name


def test_quantized():
    x = values(5, 64)
    for dtype, error in ((torch.int8, 0.01), (torch.float8_e4m3fn, 0.07), (torch.float8_e5m2, 0.14)):
        q, scale = tt.quantize_rows(x, dtype)
        assert q.dtype == dtype and scale.shape == (5,) and scale.dtype == torch.float32
        for to in (torch.float32, torch.bfloat16, torch.float16):
            back = tt.dequantize_rows(q, scale, to)
            assert back.dtype == to
            assert (back.float() - x).abs().max() <= error * x.abs().max(), (dtype, to)


def test_memory():
    results = [OPS.relu(torch.full((100,), float(i), device=device)) for i in range(50)]
    assert all(r.eq(i).all() for i, r in enumerate(results))
    assert results[3].untyped_storage().resizable()  # memory of PyTorch's allocator
    if device == "cuda":
        before = torch.cuda.memory_allocated()
        big = OPS.relu(torch.zeros(1 << 20, device=device))
        assert torch.cuda.memory_allocated() >= before + (4 << 20)
        del big


def test_graphs():
    if device == "cpu":
        return
    x, w = values(64, 256), values(256)
    OPS.rms_norm(x, w)  # compiles
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=stream):
        y = OPS.softmax(OPS.rms_norm(x, w))
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay()
        close(y, rms(wide(x), wide(w), 1e-6).softmax(-1), 1e-5, "a graph")
    with torch.cuda.stream(stream):
        z = torch.full((1 << 20,), float("nan"), device=device)
        z.fill_(2)
        made = OPS.add(z, z)
        z.fill_(float("nan"))
    torch.cuda.current_stream().wait_stream(stream)
    assert made.eq(4).all().item()


run_all(globals())
