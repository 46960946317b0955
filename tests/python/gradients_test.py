"""The gradients that the library's own kernels compute for operators of PyTorch: of attention, norms, softmax and cross entropy.
They are compared with PyTorch's in double precision at random shapes, compiled and eager. python.gradients;
`gradients_test.py FOLDER cuda [SEED]` on a machine with a GPU.

An element of a gradient is a sum of products. Each factor is rounded to the element type at most once, and so is the result:
an error is at most a few roundings of the sum of the products' absolute values, which `near` is given as `size`.
"""
import random
import sys

from torch_values import ROUNDING, device, raises, run_all, values, wide

import torch
import torch.nn.functional as f
from torch.utils._python_dispatch import TorchDispatchMode

import tessera.torch as tt
from tessera import _library

OPS = torch.ops.tessera
TYPES = (torch.float32, torch.bfloat16, torch.float16)
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 11
rng = random.Random(seed)
torch.manual_seed(seed)


def near(found, wanted, size, what, roundings=3):
    """`size`: for each element, what its error is relative to."""
    assert found.shape == wanted.shape, f"{what}: {tuple(found.shape)}, expected {tuple(wanted.shape)}"
    unit = ROUNDING[found.dtype]
    if found.dtype == torch.float32:
        unit *= 16  # sums of hundreds of products, each rounded
    least = 2.0**-24 if found.dtype == torch.float16 else 2.0**-60  # smaller numbers have fewer digits
    error = ((wide(found) - wanted).abs() / (size * roundings * unit + least)).max().item() if found.numel() else 0
    assert error <= 1, f"{what}: {error * roundings:.2f} roundings, expected {roundings}"


def spread(x, kind):
    """The values of x in memory of another layout."""
    if kind == "transposed" and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == "inner" and x.dim() > 2:
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if kind == "sliced":
        return torch.cat((x, x), -1)[..., :x.shape[-1]]
    return x


def of_both(*tensors):
    return [x.detach().requires_grad_() for x in tensors], [wide(x).requires_grad_() for x in tensors]


# Attention


def seen_keys(queries, keys, causal, window):
    at = torch.arange(queries, device=device)[:, None] + keys - queries
    key = torch.arange(keys, device=device)[None]
    seen = torch.ones(queries, keys, dtype=torch.bool, device=device)
    if causal:
        seen = key <= at
    if window:
        seen = seen & (at - key < window)
    return seen


def attention(q, k, v, scale, seen):
    """In the precision of q. A query that sees no key gives 0."""
    group = q.shape[1] // k.shape[1]
    scores = scale * q @ k.repeat_interleave(group, 1).transpose(-1, -2)
    return (scores.masked_fill(~seen, -1e30).softmax(-1) * seen) @ v.repeat_interleave(group, 1)


def sizes_of_gradients(q, k, v, g, scale, seen):
    """The sums of the absolute values of what is added to the gradients."""
    group = q.shape[1] // k.shape[1]
    heads = lambda x: x.repeat_interleave(group, 1)  # noqa: E731
    shared = lambda x: x.unflatten(1, (k.shape[1], group)).sum(2)  # noqa: E731
    scores = scale * q @ heads(k).transpose(-1, -2)
    p = scores.masked_fill(~seen, -1e30).softmax(-1) * seen
    # Scores are sums in float32 whose error is one of the exponent.
    exponent = 1 + abs(scale) * (q.abs() @ heads(k).abs().transpose(-1, -2)) / 8
    p = p * exponent
    weighed = p * (g.abs() @ heads(v).abs().transpose(-1, -2) + (g.abs() * (p @ heads(v).abs())).sum(-1, keepdim=True))
    return (abs(scale) * weighed @ heads(k).abs(), shared(abs(scale) * weighed.transpose(-1, -2) @ q.abs()),
            shared(p.transpose(-1, -2) @ g.abs()))


def attention_case(dtype, batch, kv_heads, group, queries, keys, d, causal, window, scale, layout):
    what = f"attention {dtype} {batch}x{kv_heads}*{group}x{queries}/{keys}x{d} causal={causal} window={window} scale={scale} {layout}"
    q = spread(values(batch, kv_heads * group, queries, d, dtype=dtype), layout)
    k, v = (spread(values(batch, kv_heads, keys, d, dtype=dtype), layout) for _ in range(2))
    g = spread(values(*q.shape, dtype=dtype), layout)
    ours, theirs = of_both(q, k, v)
    tt.attention(*ours, scale=scale, causal=causal, window=window).backward(g)
    seen = seen_keys(queries, keys, causal, window)
    factor = d**-0.5 if scale is None else scale
    attention(*theirs, factor, seen).backward(wide(g))
    sizes = sizes_of_gradients(*map(wide, (q, k, v, g)), factor, seen)
    for name, found, wanted, size in zip("qkv", ours, theirs, sizes):
        assert found.grad.dtype == dtype
        near(found.grad, wanted.grad, size, f"{what}: d{name}")


def test_attention():
    for dtype in TYPES:
        for _ in range(6):
            causal = rng.random() < 0.7
            attention_case(dtype, rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 150), rng.randint(1, 150),
                           rng.choice((1, 16, 33, 64, 80, 128)), causal, rng.randint(1, 60) if causal and rng.random() < 0.5 else 0,
                           rng.choice((None, 0.3, -0.2)), rng.choice(("", "inner", "sliced", "transposed")))
    attention_case(torch.bfloat16, 1, 1, 2, 37, 50, 300, True, 0, None, "")  # rows in several tiles
    attention_case(torch.float32, 1, 2, 1, 9, 5, 16, True, 0, None, "")  # queries that see no key


def test_scaled_dot_product_attention():
    for causal, group in ((False, 1), (True, 3)):
        n = rng.randint(2, 90)
        q, k, v = values(2, 2 * group, n, 24), values(2, 2, n, 24), values(2, 2, n, 24)
        ours, theirs = of_both(q, k, v)
        made = tt.scaled_dot_product_attention(*ours, is_causal=causal, enable_gqa=True)
        wanted = f.scaled_dot_product_attention(*theirs, is_causal=causal, enable_gqa=True)
        made.sum().backward()  # an expanded gradient
        wanted.sum().backward()
        sizes = sizes_of_gradients(*map(wide, (q, k, v, torch.ones_like(q))), 24**-0.5, seen_keys(n, n, causal, 0))
        for found, right, size in zip(ours, theirs, sizes):
            near(found.grad, right.grad, size, f"scaled_dot_product_attention, causal={causal}")


class Called(TorchDispatchMode):
    """The library's operators that ran."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "tessera":
            self.names.append(func._schema.name.removeprefix("tessera::"))
        return func(*args, **(kwargs or {}))


def called(function, *arguments):
    with Called() as mode:
        made = function(*arguments)
    return mode.names, made


def test_sums_of_exponentials_only_for_gradients():
    q, k, v = values(1, 2, 5, 16), values(1, 1, 7, 16), values(1, 1, 7, 16)
    assert called(OPS.attention, q, k, v)[0] == ["attention"]
    for needed in (q, k, v):
        given = [x.detach().requires_grad_(x is needed) for x in (q, k, v)]
        names, made = called(OPS.attention, *given)
        assert names == ["attention_with_lse"] and made.requires_grad
        assert called(made.sum().backward)[0] == ["attention_backward"]
        assert [x.grad is not None for x in given] == [x is needed for x in (q, k, v)]
        with torch.no_grad():
            assert called(OPS.attention, *given)[0] == ["attention"]
        with torch.inference_mode():
            assert called(OPS.attention, *given)[0] == ["attention"]


def test_of_the_first_result_alone():
    q = values(1, 1, 4, 16).requires_grad_()
    raises("a derivative of its first result alone", lambda: OPS.attention_with_lse(q, q, q)[1].sum().backward())
    raises("a derivative of its first result alone", lambda: sum(x.sum() for x in OPS.attention_with_lse(q, q, q)).backward())
    o, lse = OPS.attention_with_lse(q, q, q)
    (o * lse.detach().unsqueeze(-1)).sum().backward()
    assert q.grad is not None
    x = values(3, 8).requires_grad_()
    raises("a derivative of its first result alone", lambda: OPS.cross_entropy(x, torch.zeros(3, dtype=torch.int64, device=device))[1].sum().backward())


# Rows


def row_sizes(name, x, w, g, eps):
    """What the errors of dx, of the weight's gradient and of the bias's are relative to."""
    if name in ("softmax", "log_softmax"):
        y = x.softmax(-1)
        if name == "softmax":
            return (y * (g.abs() + (y * g.abs()).sum(-1, keepdim=True)),)
        return (g.abs() + y * (1 - y.log()) * g.abs().sum(-1, keepdim=True),)  # y.log() is rounded
    centred = x - x.mean(-1, keepdim=True) if name == "layer_norm" else x
    scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    t, gw = (centred * scale).abs(), (g * w).abs()
    if name == "layer_norm":
        t = t + x.abs().mean(-1, keepdim=True) * scale
    dx = scale * (gw + t * (t * gw).mean(-1, keepdim=True) + gw.mean(-1, keepdim=True))
    rows = (g.abs() * t).flatten(0, -2).sum(0) if x.dim() > 1 else g.abs() * t
    bias = g.abs().flatten(0, -2).sum(0) if x.dim() > 1 else g.abs()
    return (dx, rows, bias)[:3 if name == "layer_norm" else 2]


def row_call(module, name, x, w, b, eps):
    if name == "rms_norm":
        return module.rms_norm(x, x.shape[-1:], w, eps)
    if name == "layer_norm":
        return module.layer_norm(x, x.shape[-1:], w, b, eps)
    return getattr(module, name)(x, dim=-1)


ROWS = ("softmax", "log_softmax", "rms_norm", "layer_norm")


def row_case(name, dtype, shape, layout):
    what, eps = f"{name} {dtype} {shape} {layout}", 1e-3
    x, w, b = values(*shape, dtype=dtype), values(shape[-1], dtype=dtype), values(shape[-1], dtype=dtype)
    if layout == "sliced":
        x = spread(x, layout)
    g = spread(values(*shape, dtype=dtype), layout)
    used = 1 if "softmax" in name else 2 if name == "rms_norm" else 3
    ours, theirs = of_both(x, w, b)
    names, _ = called(row_call(tt, name, *ours, eps).backward, g)
    assert names == [f"{name}_backward"], names
    row_call(f, name, *theirs, eps).backward(wide(g))
    for i, size in enumerate(row_sizes(name, *map(wide, (x, w, g)), eps)):
        assert ours[i].grad.dtype == dtype
        near(ours[i].grad, theirs[i].grad, size, f"{what}: gradient {i}")
    assert all(x.grad is None for x in ours[used:])


def test_rows():
    for name in ROWS:
        for dtype in TYPES:
            for _ in range(3):
                rank = rng.randint(1, 3)
                shape = (*(rng.randint(1, 9) for _ in range(rank - 1)), rng.choice((1, 2, 7, 33, 50, 129, 257, 1023)))
                row_case(name, dtype, shape, rng.choice(("", "sliced", "transposed")))
        row_case(name, torch.float32, (3, 9001), "")  # in chunks
        row_case(name, torch.bfloat16, (71, 5), "transposed")  # rows of several blocks
        x = values(4, 6).requires_grad_()
        row_call(tt, name, x, values(6), values(6), 1e-3).sum().backward()  # an expanded gradient
        assert x.grad.shape == x.shape


def test_no_rows():
    for shape in ((0, 8), (2, 0, 8)):
        for name in ROWS:
            x, w, b = (values(*s).requires_grad_() for s in (shape, (8,), (8,)))
            row_call(tt, name, x, w, b, 1e-3).sum().backward()
            assert x.grad.shape == shape
            if "norm" in name:
                assert w.grad.eq(0).all(), name
    x = values(0, 5).requires_grad_()
    tt.cross_entropy(x, torch.empty(0, dtype=torch.int64, device=device), reduction="sum").backward()
    assert x.grad.shape == (0, 5)
    for queries, keys in ((0, 5), (5, 0)):
        q, k = values(1, 2, queries, 16).requires_grad_(), values(1, 1, keys, 16).requires_grad_()
        OPS.attention(q, k, k).sum().backward()
        assert q.grad.eq(0).all() and k.grad.eq(0).all()


# Cross entropy


def test_cross_entropy():
    for dtype in TYPES:
        for _ in range(4):
            rows, classes = rng.randint(1, 40), rng.choice((1, 2, 17, 300, 5001))
            smoothing, reduction = rng.choice((0.0, 0.1)), rng.choice(("mean", "sum", "none"))
            what = f"cross_entropy {dtype} {rows}x{classes} {smoothing} {reduction}"
            x = values(rows, classes, dtype=dtype)
            target = torch.randint(0, classes, (rows,), device=device)
            ignored = rng.choice((-100, 0))
            target[rng.randrange(rows)] = ignored if classes > 1 and rows > 1 else 0
            ours, theirs = of_both(x)
            given = target.to(rng.choice((torch.int32, torch.int64)))
            named = {"ignore_index": ignored, "reduction": reduction, "label_smoothing": smoothing}
            made, wanted = tt.cross_entropy(*ours, given, **named), f.cross_entropy(*theirs, target, **named)
            g = torch.randn(made.shape).to(device)
            assert called(made.backward, g)[0] == ["cross_entropy_backward"]
            wanted.backward(g.double())
            if wanted.isnan().any():  # the mean of no losses
                assert made.isnan().all(), what
                continue
            logits = wide(x)
            near(made.detach(), wanted.detach(), 1 + wanted.detach().abs() + logits.abs().max(), what)
            p = logits.softmax(-1)
            kept = (target != ignored).double()
            of_rows = g.double() * kept if reduction == "none" else g.double() * kept / (kept.sum() if reduction == "mean" else 1)
            size = of_rows.abs()[:, None] * (p * (1 + logits.abs()) + smoothing / classes + f.one_hot(target.clamp(min=0), classes))
            near(ours[0].grad, theirs[0].grad, size, f"{what}: gradient")
            assert ours[0].grad[kept == 0].eq(0).all()


def test_cross_entropy_errors():
    x, target = values(3, 8), torch.zeros(3, dtype=torch.int64, device=device)
    tt.cross_entropy(x, target)
    raises("expected i64 or i32", lambda: OPS.cross_entropy(x, values(3)))
    raises("targets", lambda: OPS.cross_entropy(x, target[:2]))
    raises("label_smoothing is", lambda: OPS.cross_entropy(x, target, -100, 1.5))
    raises("reduction is 'max'", lambda: tt.cross_entropy(x, target, reduction="max"), ValueError)
    raises("expected [rows, classes] and [rows]", lambda: tt.cross_entropy(x[None], target), ValueError)
    raises("weight is not available", lambda: tt.cross_entropy(x, target, x[0]), ValueError)
    for far in (2**53 + 1, -2**63, 2**63 - 1):
        raises("expected an ignore_index between -2^53 and 2^53", lambda: OPS.cross_entropy(x, target, far))
    lse = OPS.cross_entropy(x, target)[1]
    raises("the operator takes torch.float32", lambda: OPS.cross_entropy_backward(lse, x.double(), target, lse))
    raises("argument 1 (d_losses) has elements of bf16; expected f32", lambda: OPS.cross_entropy_backward(lse.bfloat16(), x.half(), target, lse))


def test_backward_errors():
    x, w = values(3, 8), values(8)
    raises("argument 1 (dy) has the extents [24]; expected those of argument 2 (x), [3, 8]", lambda: OPS.rms_norm_backward(x.flatten(), x, w))
    raises("expected those of argument 2 (y)", lambda: OPS.softmax_backward(x[:2], x))
    raises("weight", lambda: OPS.layer_norm_backward(x, x, w[:5]))
    q = values(1, 2, 4, 16)
    o, lse = OPS.attention_with_lse(q, q, q)
    raises("lse", lambda: OPS.attention_backward(o, q, q, q, o, lse[..., :3]))
    raises("d_o", lambda: OPS.attention_backward(o[:, :1], q, q, q, o, lse))
    raises("expected f32", lambda: OPS.attention_backward(o, q, q, q, o, lse.double()))
    OPS.attention_backward(o, q, q, q, o, lse)


# What all share


def test_double_backward():
    """Gradients of gradients are PyTorch's; those of attention have none."""
    def penalty(call, *given):
        made = torch.autograd.grad(call(*given).square().sum(), given[0], create_graph=True)[0]
        return torch.autograd.grad(made.square().sum(), given)

    target = torch.tensor([0, 3, 7], device=device)
    for name in ROWS:
        used = 1 if "softmax" in name else 2 if name == "rms_norm" else 3
        ours, theirs = of_both(values(3, 8), values(8), values(8))
        found, wanted = (penalty(lambda *t, m=module, all=all_of: row_call(m, name, *t, *all[len(t):], 1e-2), *all_of[:used])
                         for module, all_of in ((tt, ours), (f, theirs)))
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-3)
    ours, theirs = of_both(values(3, 8))
    for found, wanted in zip(penalty(lambda x: tt.cross_entropy(x, target, reduction="none"), *ours),
                             penalty(lambda x: f.cross_entropy(x, target, reduction="none"), *theirs)):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=1e-3)
    q = values(1, 1, 4, 16).requires_grad_()
    raises("torch.ops.tessera.attention_backward has no derivative", lambda: penalty(lambda x: OPS.attention(x, x, x), q))


class Gate(torch.autograd.Function):
    """Its first argument gets no gradient."""

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient


def test_no_gradient_of_a_result():
    q = values(1, 2, 3, 16)
    for call, arguments in ((OPS.softmax, [values(2, 3)]), (OPS.relu, [values(2, 3)]), (OPS.mul, [values(2, 3), values(2, 3)]),
                            (OPS.attention, [q, q.clone(), q.clone()]), (OPS.rms_norm, [values(2, 8), values(8), 1e-3])):
        given = [a.requires_grad_() if isinstance(a, torch.Tensor) else a for a in arguments]
        made = call(*given)
        other = torch.zeros_like(made, requires_grad=True)
        Gate.apply(made, other).sum().backward()
        assert other.grad is not None
        assert all(a.grad is None or a.grad.eq(0).all() for a in given if isinstance(a, torch.Tensor)), call


def test_what_is_kept():
    """Tensors that the backward pass does not read are not kept until then."""
    x, w, y = values(4, 8).requires_grad_(), values(8).requires_grad_(), values(4, 8).requires_grad_()
    for call, count in ((lambda: OPS.add(x, y), 0), (lambda: OPS.mul(x, y), 2), (lambda: OPS.rms_norm(x, w), 2), (lambda: OPS.softmax(x), 1),
                        (lambda: OPS.layer_norm(x, w, w), 2), (lambda: OPS.relu(x), 1), (lambda: OPS.linear(x, values(3, 8)), 2)):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            call().sum().backward()
        assert len(kept) == count, (len(kept), count)


def test_opcheck():
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic", "test_autograd_registration")
    x, w = values(5, 8), values(8)
    q, k = values(1, 4, 5, 16), values(1, 2, 7, 16)
    target = torch.tensor([0, 1, 2, 3, -100], device=device)
    o, lse = OPS.attention_with_lse(q, k, k)
    losses, sums = OPS.cross_entropy(x, target)
    cases = {"attention": (q, k, k), "attention_with_lse": (q, k, k, 0.3, True, 3), "cross_entropy": (x, target, -100, 0.1),
             "attention_backward": (o, q, k, k, o, lse), "cross_entropy_backward": (losses, x, target, sums),
             "softmax_backward": (x, x.softmax(-1)), "log_softmax_backward": (x, x.log_softmax(-1)),
             "rms_norm_backward": (x, x, w), "layer_norm_backward": (x, x, w)}
    assert {n for n in _library.FUNCTIONS if n.endswith("_backward")} <= set(cases)
    for name, given in cases.items():
        torch.library.opcheck(getattr(OPS, name).default, given, test_utils=checks)
    # PyTorch's check takes the gradient of every result: of functions with one.
    for given in ((q, k, k), (q.bfloat16(), k.bfloat16(), k.bfloat16(), 0.3, True, 3), (q.transpose(1, 2), k.transpose(1, 2)[:, :1], k.transpose(1, 2)[:, :1])):
        given = [x.requires_grad_() if isinstance(x, torch.Tensor) else x for x in given]
        torch.library.opcheck(OPS.attention.default, given, test_utils=checks)


def test_compile():
    def block(x, w, b, a, target):
        h = tt.rms_norm(x, x.shape[-1:], w, 1e-5)
        q, k, v = (t.unflatten(-1, (2, 16)).transpose(1, 2) for t in tt.linear(h, a).chunk(3, -1))
        h = tt.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return tt.cross_entropy(tt.log_softmax(tt.layer_norm(x + h, x.shape[-1:], w, b)).flatten(0, 1), target)

    def small(x, w):
        q = tt.rms_norm(x, x.shape[-1:], w, 1e-5).unflatten(-1, (2, 16)).transpose(1, 2)
        return tt.attention(q, q, q, causal=True).square().mean()

    fixed = [values(32), values(32), values(96, 32) / 6]
    for backend, dynamic, lengths in (("aot_eager", False, (3,)), ("aot_eager", True, (3, 5, 9)), ("inductor", True, (3, 5))):
        torch._dynamo.reset()
        function = small if backend == "inductor" else block  # C++ is compiled for what is between the operators
        compiled = torch.compile(function, fullgraph=True, backend=backend, dynamic=dynamic)
        for rows in lengths:
            x, target = values(2, rows, 32), torch.randint(0, 32, (2 * rows,), device=device)
            given = (x, fixed[0]) if function is small else (x, *fixed)
            rest = () if function is small else (target,)
            eager, traced = ([t.detach().requires_grad_() for t in given] for _ in range(2))
            function(*eager, *rest).backward()
            compiled(*traced, *rest).backward()
            for i, (a, b) in enumerate(zip(eager, traced)):
                torch.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-5, msg=lambda m: f"{backend} {dynamic} {rows} {i}: {m}")
            with torch.no_grad():
                torch.testing.assert_close(compiled(*given, *rest), function(*given, *rest), rtol=1e-5, atol=1e-5)


def test_graphs_of_compile():
    """Those of training have the log-sum-exp, those of inference do not."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    names = set()

    def collect(module, inputs):
        names.update(str(node.target).removeprefix("tessera.").removesuffix(".default") for node in module.graph.nodes if "tessera" in str(node.target))
        return make_boxed_func(module.forward)

    q = values(1, 2, 5, 16)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: OPS.attention(x, x, x), backend=aot_autograd(fw_compiler=collect, bw_compiler=collect))
    compiled(q)
    assert names == {"attention"}, names
    names.clear()
    compiled(q.requires_grad_()).sum().backward()
    assert names == {"attention_with_lse", "attention_backward"}, names


def test_checkpoint():
    """Activations that are computed again give the same bits."""
    from torch.utils.checkpoint import checkpoint

    q, w = values(1, 2, 9, 16), values(16)
    grads = []
    for call in (lambda f, *x: f(*x), lambda f, *x: checkpoint(f, *x, use_reentrant=False)):
        x = q.detach().requires_grad_()
        call(lambda x: OPS.rms_norm(OPS.attention(x, x, x, 0.0, True), w), x).square().sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


def test_training():
    """Steps of gradient descent lower a loss as they do in double precision."""
    w, a, b = values(16) / 4 + 1, values(16, 16) / 4, values(16, 10) / 4
    x, target = values(2, 2, 6, 16), torch.randint(0, 10, (24,), device=device)

    def loss(module, x, w, a, b):
        h = module.rms_norm(x, (16,), w, 1e-5)
        o = module.scaled_dot_product_attention(h @ a, h, h, is_causal=True)
        return module.cross_entropy((o @ b).flatten(0, -2), target)

    losses = []
    for module, convert in ((tt, lambda t: t.clone()), (f, wide)):
        weights = [convert(t).requires_grad_() for t in (w, a, b)]
        for _ in range(20):
            value = loss(module, convert(x), *weights)
            for t, g in zip(weights, torch.autograd.grad(value, weights)):
                t.data.sub_(g, alpha=0.3)
        losses.append(value.item())
    assert abs(losses[0] - losses[1]) < 1e-3 * losses[1], losses


run_all(globals())
