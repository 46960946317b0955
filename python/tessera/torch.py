"""The kernels as operators of PyTorch: torch.ops.tessera.<name>, and functions with PyTorch's names and arguments.

Importing this module imports PyTorch (2.10 or newer) and registers the operators, once. They have schemas, fake kernels
(torch.compile traces them) and derivatives; results are PyTorch's memory, work goes to PyTorch's current stream, also while
it is captured into a graph. An operator without a derivative raises a RuntimeError in the backward pass.

The gradients of attention, norms, softmax and cross entropy are operators too, `<name>_backward`, without derivatives of
their own. With create_graph=True the gradients of the latter three are computed by PyTorch's functions, which have some.
"""
from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Literal, cast

import torch
from torch import Tensor

from . import _folder, _linear_name

__all__ = ["add", "attention", "convert", "cross_entropy", "dequantize_rows", "div", "exp", "gelu", "gelu_mul", "layer_norm",
           "linear", "log_softmax", "matmul", "maximum", "minimum", "mul", "quantize_rows", "relu", "rms_norm",
           "scaled_dot_product_attention", "sigmoid", "silu", "silu_mul", "softmax", "sub", "tanh", "transpose"]


def _load() -> None:
    path = os.path.join(_folder, "libtessera_torch.so")
    if not os.path.exists(path):
        raise ImportError(f"this package was built without PyTorch's operators ({path} is missing): build it where "
                          "PyTorch 2.10 or newer is installed")
    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if release < (2, 10):
        raise ImportError(f"tessera.torch needs PyTorch 2.10 or newer, found {torch.__version__}")
    load: Any = torch.ops.load_library
    load(path)


class _Operators:
    """What torch.ops.tessera is to a type checker."""

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        raise AttributeError(name)


_load()
_ops = cast(_Operators, torch.ops.tessera)
_aten = cast(_Operators, torch.ops.aten)

# Derivatives. The gradients of attention, norms, softmax and cross entropy are computed by the library's kernels, those of
# products with the library's products, the others with PyTorch's functions. PyTorch sums the gradient of an argument that was
# broadcast. With create_graph=True, gradients are enabled during the backward pass: where they are, PyTorch's functions
# compute gradients that have derivatives themselves.


def _extreme(g: Tensor, x: Tensor, y: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Of maximum or minimum: the argument that was taken gets the gradient, equal ones half of it each."""
    half = torch.where(x == y, g / 2, torch.zeros_like(g))
    zero = torch.zeros_like(g)
    to_x = torch.where(first, g, zero) + half
    return to_x, g - to_x


def _softmax(g: Tensor, y: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        return _aten._softmax_backward_data(g, y, -1, y.dtype)
    return _ops.softmax_backward(g.contiguous(), y)


def _log_softmax(g: Tensor, y: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        return _aten._log_softmax_backward_data(g, y, -1, y.dtype)
    return _ops.log_softmax_backward(g.contiguous(), y)


def _rms_norm(g: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, ...]:
    if not torch.is_grad_enabled():
        return tuple(_ops.rms_norm_backward(g.contiguous(), x, weight, eps))
    wide, dy = x.float(), g.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    normed, scaled = wide * scale, dy * weight.float()
    dx = scale * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy * normed).reshape(-1, x.shape[-1]).sum(0).to(weight.dtype)


def _layer_norm(g: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, ...]:
    if not torch.is_grad_enabled():
        return tuple(_ops.layer_norm_backward(g.contiguous(), x, weight, eps))
    wide, dy = x.float(), g.float()
    centred = wide - wide.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    normed, scaled = centred * scale, dy * weight.float()
    dx = scale * (scaled - scaled.mean(-1, keepdim=True) - normed * (scaled * normed).mean(-1, keepdim=True))
    rows = dy.reshape(-1, x.shape[-1])
    return dx.to(x.dtype), (rows * normed.reshape(rows.shape)).sum(0).to(weight.dtype), rows.sum(0).to(weight.dtype)


def _cross_entropy(g: Tensor, logits: Tensor, targets: Tensor, ignore_index: int, label_smoothing: float, lse: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return _ops.cross_entropy_backward(g, logits, targets, lse, ignore_index, label_smoothing)
    again = torch.nn.functional.cross_entropy(logits.float(), targets.long(), ignore_index=ignore_index, reduction="none",
                                              label_smoothing=label_smoothing)
    return torch.autograd.grad(again, logits, g, create_graph=True)[0]


def _linear(g: Tensor, x: Tensor, w: Tensor) -> tuple[Callable[[], Tensor], ...]:
    rows, inputs = g.reshape(-1, g.shape[-1]), x.reshape(-1, x.shape[-1])
    return (lambda: _ops.matmul(rows, w).reshape(x.shape), lambda: _ops.matmul(rows.t(), inputs), lambda: rows.sum(0))


def _row_extreme(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Equal extremes share the gradient, as in torch.amax."""
    taken = x == y.unsqueeze(-1)
    return _shares(g.unsqueeze(-1), taken, taken.sum(-1, keepdim=True)).to(x.dtype)


def _all_extreme(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    taken = x == y
    return _shares(g, taken, taken.sum()).to(x.dtype)


def _shares(g: Tensor, taken: Tensor, count: Tensor) -> Tensor:
    """g divided by an integer that a 16-bit float may not hold, where taken."""
    wide = torch.promote_types(g.dtype, torch.float32)
    return taken * (g.to(wide) / count)


def _silu_mul(g: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return _aten.silu_backward(g * up, gate.expand_as(g)), g * torch.nn.functional.silu(gate)


def _gelu_mul(g: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return _aten.gelu_backward(g * up, gate.expand_as(g)), g * torch.nn.functional.gelu(gate)


#: The gradients of an operator's arguments, from the gradient of its first result, its arguments and its results. Values whose
#: names begin with an underscore are not kept for the backward pass. A gradient that is a function is called where it is
#: needed; numbers after the tensors have none.
_DERIVATIVES: dict[str, Callable[..., Any]] = {
    "relu": lambda g, x, _y: _aten.threshold_backward(g, x, 0),
    "sigmoid": lambda g, _x, y: _aten.sigmoid_backward(g, y),
    "silu": lambda g, x, _y: _aten.silu_backward(g, x),
    "gelu": lambda g, x, _y: _aten.gelu_backward(g, x),
    "gelu_tanh": lambda g, x, _y: _aten.gelu_backward(g, x, approximate="tanh"),
    "exp": lambda g, _x, y: g * y,
    "tanh": lambda g, _x, y: _aten.tanh_backward(g, y),
    "add": lambda g, _x, _y, _z: (g, g),
    "sub": lambda g, _x, _y, _z: (g, -g),
    "mul": lambda g, x, y, _z: (g * y, g * x),
    "div": lambda g, _x, y, z: (g / y, -g * z / y),
    "maximum": lambda g, x, y, _z: _extreme(g, x, y, x > y),
    "minimum": lambda g, x, y, _z: _extreme(g, x, y, x < y),
    "silu_mul": lambda g, gate, up, _z: _silu_mul(g, gate, up),
    "gelu_mul": lambda g, gate, up, _z: _gelu_mul(g, gate, up),
    "add_number": lambda g, _x, _y, _z: g,
    "sub_number": lambda g, _x, _y, _z: g,
    "mul_number": lambda g, _x, y, _z: g * y,
    "div_number": lambda g, _x, y, _z: g / y,
    "maximum_number": lambda g, x, y, _z: torch.where(x > y, g, torch.where(x == y, g / 2, torch.zeros_like(g))),
    "minimum_number": lambda g, x, y, _z: torch.where(x < y, g, torch.where(x == y, g / 2, torch.zeros_like(g))),
    "softmax": lambda g, _x, y: _softmax(g, y),
    "log_softmax": lambda g, _x, y: _log_softmax(g, y),
    "rms_norm": lambda g, x, weight, eps, _y: _rms_norm(g, x, weight, eps),
    "layer_norm": lambda g, x, weight, _bias, eps, _y: _layer_norm(g, x, weight, eps),
    "cross_entropy": lambda g, logits, targets, ignored, smoothing, _losses, lse: _cross_entropy(g, logits, targets, ignored, smoothing, lse),
    "attention_with_lse": lambda g, q, k, v, scale, causal, window, o, lse: _ops.attention_backward(
        g, q, k, v, o, lse, scale, causal, window),
    "sum": lambda g, x, _y: g.unsqueeze(-1).expand_as(x).to(x.dtype),
    "mean": lambda g, x, _y: (g.unsqueeze(-1) / x.shape[-1]).expand_as(x).to(x.dtype),
    "max": _row_extreme,
    "min": _row_extreme,
    "sum_all": lambda g, x, _y: g.expand_as(x).to(x.dtype),
    "mean_all": lambda g, x, _y: (g / x.numel()).expand_as(x).to(x.dtype),
    "max_all": _all_extreme,
    "min_all": _all_extreme,
    "transpose": lambda g, _x, _y: g.t(),
    "matmul": lambda g, a, b, _y: (lambda: _ops.matmul(g, b.t()), lambda: _ops.matmul(a.t(), g)),
    "linear": lambda g, x, w, _bias, _y: _linear(g, x, w),
    "linear_relu": lambda g, x, w, _bias, y: _linear(_aten.threshold_backward(g, y, 0), x, w),
    "linear_silu": lambda g, x, w, bias, _y: _linear(_aten.silu_backward(g, _ops.linear(x, w, bias)), x, w),
    "linear_gelu": lambda g, x, w, bias, _y: _linear(_aten.gelu_backward(g, _ops.linear(x, w, bias)), x, w),
    "linear_gelu_tanh": lambda g, x, w, bias, _y: _linear(
        _aten.gelu_backward(g, _ops.linear(x, w, bias), approximate="tanh"), x, w),
    "linear_add": lambda g, x, w, _residual, _y: (*_linear(g, x, w)[:2], g),
    **{f"convert_{name}": lambda g, x, _y: g.to(x.dtype) for name in ("f64", "f32", "bf16", "f16")},
}


def _register(name: str, derivative: Callable[..., Any]) -> None:
    kept = [not parameter.startswith("_") for parameter in list(inspect.signature(derivative).parameters)[1:]]

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        values = [value if used else None for value, used in zip((*inputs, *results), kept, strict=True)]
        ctx.save_for_backward(*(value if isinstance(value, Tensor) else None for value in values))
        ctx.tessera_numbers = [None if isinstance(value, Tensor) else value for value in values]
        ctx.tessera_inputs = len(inputs)
        ctx.set_materialize_grads(False)

    def backward(ctx: Any, gradient: Tensor | None, *others: Tensor | None) -> Any:
        if any(other is not None for other in others):
            raise RuntimeError(f"torch.ops.tessera.{name} has a derivative of its first result alone.\n  Use x.detach() of the others.")
        if gradient is None:  # what reads the result has none for it
            return (None,) * ctx.tessera_inputs
        values = (number if tensor is None else tensor for tensor, number in zip(ctx.saved_tensors, ctx.tessera_numbers))
        made = derivative(gradient, *values)
        gradients = made if isinstance(made, tuple) else (made,)
        gradients += (None,) * (ctx.tessera_inputs - len(gradients))
        return tuple((g() if callable(g) else g) if needed else None for g, needed in zip(gradients, ctx.needs_input_grad))

    torch.library.register_autograd(f"tessera::{name}", backward, setup_context=keep)


def _register_none(name: str) -> None:
    def keep_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    def fail(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError(f"torch.ops.tessera.{name} has no derivative.\n  Call it under torch.no_grad() or with "
                           "x.detach(), or use PyTorch's own function where gradients are needed.")

    torch.library.register_autograd(f"tessera::{name}", fail, setup_context=keep_nothing)


def _attention(q: Tensor, k: Tensor, v: Tensor, *numbers: Any) -> Tensor:
    """Where a gradient is needed, attention_with_lse; the log-sum-exp of each query is neither computed nor kept elsewhere."""
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return _ops.attention_with_lse(q, k, v, *numbers)[0]
    with torch._C._AutoDispatchBelowAutograd():
        return _ops.attention(q, k, v, *numbers)


#: Registrations last as long as this.
_overrides: Any = cast(Any, torch.library.Library)("tessera", "FRAGMENT")


def _register_all() -> None:
    from ._library import FUNCTIONS
    for name in FUNCTIONS:
        if name == "attention":
            _overrides.impl(name, _attention, "Autograd")
        elif name in _DERIVATIVES:
            _register(name, _DERIVATIVES[name])
        else:
            _register_none(name)


_register_all()

# Functions with PyTorch's names and arguments.


def _last(name: str, x: Tensor, dim: int) -> None:
    if dim not in (-1, x.dim() - 1):
        raise ValueError(f"{name}: expected dim to be the last one, -1, found {dim}.\n  Move the axis there with x.transpose(dim, -1).")


def relu(x: Tensor) -> Tensor:
    """torch.nn.functional.relu"""
    return _ops.relu(x)


def sigmoid(x: Tensor) -> Tensor:
    """torch.sigmoid"""
    return _ops.sigmoid(x)


def silu(x: Tensor) -> Tensor:
    """torch.nn.functional.silu"""
    return _ops.silu(x)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """torch.nn.functional.gelu"""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is {approximate!r}; expected 'none' or 'tanh'")
    return _ops.gelu(x) if approximate == "none" else _ops.gelu_tanh(x)


def exp(x: Tensor) -> Tensor:
    """torch.exp"""
    return _ops.exp(x)


def tanh(x: Tensor) -> Tensor:
    """torch.tanh"""
    return _ops.tanh(x)


def _binary(name: str, x: Tensor, y: Tensor | float) -> Tensor:
    operator: Callable[..., Tensor] = getattr(_ops, name if isinstance(y, Tensor) else name + "_number")
    return operator(x, y)


def add(x: Tensor, y: Tensor | float) -> Tensor:
    """torch.add, without conversion: y has x's element type, or is a number and x floating-point."""
    return _binary("add", x, y)


def sub(x: Tensor, y: Tensor | float) -> Tensor:
    """torch.sub; y as in add."""
    return _binary("sub", x, y)


def mul(x: Tensor, y: Tensor | float) -> Tensor:
    """torch.mul; y as in add."""
    return _binary("mul", x, y)


def div(x: Tensor, y: Tensor | float) -> Tensor:
    """torch.div of floating-point elements; y as in add."""
    return _binary("div", x, y)


def maximum(x: Tensor, y: Tensor | float) -> Tensor:
    """torch.maximum; y as in add."""
    return _binary("maximum", x, y)


def minimum(x: Tensor, y: Tensor | float) -> Tensor:
    """torch.minimum; y as in add."""
    return _binary("minimum", x, y)


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up, in one kernel."""
    return _ops.silu_mul(gate, up)


def gelu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """gelu(gate) * up, in one kernel."""
    return _ops.gelu_mul(gate, up)


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """torch.softmax along the last axis."""
    _last("softmax", x, dim)
    return _ops.softmax(x)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """torch.log_softmax along the last axis."""
    _last("log_softmax", x, dim)
    return _ops.log_softmax(x)


def cross_entropy(input: Tensor, target: Tensor, weight: None = None, *, ignore_index: int = -100,
                  reduction: Literal["mean", "sum", "none"] = "mean", label_smoothing: float = 0.0) -> Tensor:
    """torch.nn.functional.cross_entropy of logits [rows, classes] with a class for each row. The losses are float32."""
    if weight is not None:
        raise ValueError("cross_entropy: weight is not available; expected None")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy: reduction is {reduction!r}; expected 'mean', 'sum' or 'none'")
    if input.dim() != 2 or target.dim() != 1:
        raise ValueError(f"cross_entropy: input is {tuple(input.shape)} and target {tuple(target.shape)}; expected [rows, classes] and [rows].\n"
                         "  Move the classes to the last axis and join the others with x.flatten.")
    losses = _ops.cross_entropy(input, target, ignore_index, label_smoothing)[0]
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / (target != ignore_index).sum()


def _one_axis(name: str, x: Tensor, normalized_shape: Any) -> None:
    if tuple(normalized_shape) != tuple(x.shape[-1:]):
        raise ValueError(f"{name}: normalized_shape is {tuple(normalized_shape)}; expected {tuple(x.shape[-1:])}, the last axis of x.\n"
                         "  Join the axes with x.flatten first.")


def rms_norm(x: Tensor, normalized_shape: Any, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """torch.nn.functional.rms_norm over the last axis."""
    _one_axis("rms_norm", x, normalized_shape)
    return _ops.rms_norm(x, weight, eps)


def layer_norm(x: Tensor, normalized_shape: Any, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """torch.nn.functional.layer_norm over the last axis."""
    _one_axis("layer_norm", x, normalized_shape)
    return _ops.layer_norm(x, weight, bias, eps)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """torch.matmul of two matrices."""
    return _ops.matmul(a, b)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, residual: Tensor | None = None,
           activation: Literal["relu", "silu", "gelu", "gelu_tanh"] | None = None) -> Tensor:
    """torch.nn.functional.linear; activation and residual as in tessera.linear."""
    operator: Callable[..., Tensor] = getattr(_ops, _linear_name(bias, residual, activation))
    return operator(x, weight, bias if residual is None else residual)


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, causal: bool = False, window: int = 0) -> Tensor:
    """tessera.attention: causal from the last query, sliding windows, fewer heads of k and v than of q."""
    if scale == 0:
        raise ValueError("scale: expected a number other than 0, or None for 1 / sqrt(d), found 0")
    return _ops.attention(q, k, v, scale or 0.0, causal, window)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention without a mask and without dropout."""
    if attn_mask is not None or dropout_p != 0.0:
        raise ValueError("scaled_dot_product_attention: attn_mask and dropout_p are not available; expected None and 0")
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError(f"scaled_dot_product_attention: is_causal with {query.shape[-2]} queries and {key.shape[-2]} keys; PyTorch aligns the "
                         "first query with the first key.\n  tessera.torch.attention(causal=True) aligns the last ones.")
    if not enable_gqa and query.shape[-3] != key.shape[-3]:
        raise ValueError(f"scaled_dot_product_attention: {query.shape[-3]} heads of queries and {key.shape[-3]} of keys: pass enable_gqa=True")
    return attention(query, key, value, scale, is_causal)


def transpose(x: Tensor) -> Tensor:
    """A transposed copy of a matrix."""
    return _ops.transpose(x)


_NAMES = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int8: "i8",
          torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}


def _named(operator: str, dtype: torch.dtype) -> Callable[..., Any]:
    name = f"{operator}_{_NAMES.get(dtype, dtype)}"
    if not hasattr(_ops, name):
        raise ValueError(f"{operator}: expected a dtype that it makes, found {dtype}")
    found: Callable[..., Any] = getattr(_ops, name)
    return found


def convert(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x.to(dtype) for floating-point types of 16 bits and more."""
    made: Tensor = _named("convert", dtype)(x)
    return made


def quantize_rows(x: Tensor, dtype: torch.dtype = torch.int8) -> tuple[Tensor, Tensor]:
    """(q, scale) with x = q * scale[row]; dtype is torch.int8, float8_e4m3fn or float8_e5m2."""
    made: tuple[Tensor, Tensor] = _named("quantize_rows", dtype)(x)
    return made


def dequantize_rows(q: Tensor, scale: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """q * scale[row] with elements of dtype."""
    made: Tensor = _named("dequantize_rows", dtype)(q, scale)
    return made
