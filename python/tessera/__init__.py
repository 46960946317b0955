"""Tessera's kernels for arrays of NumPy, PyTorch, CuPy, JAX and everything else that speaks DLPack.

Arguments are read where they are, without a copy; results are new arrays of the first argument's library. On the CPU a
call returns when the work has ended. On a GPU it is enqueued on `stream`, a CUDA stream as DLPack numbers them (1 is the
legacy default stream); without one, on the current stream of the argument's library.
"""
from __future__ import annotations

import os
from typing import Any, Literal

_folder = os.path.dirname(os.path.abspath(__file__))


def _use_installed_assembler() -> None:
    """NVIDIA's assembler lies beside this package if the extra `gpu` was installed."""
    path = os.path.join(os.path.dirname(_folder), "nvidia", "cu13", "bin", "tileiras")
    if "TESSERA_TILEIRAS" not in os.environ and os.path.exists(path):
        os.environ["TESSERA_TILEIRAS"] = path


_use_installed_assembler()

from ._array import Array, call as _call  # noqa: E402
from ._errors import (BorrowError, CompileError, DeviceError, ElementError, Error, InternalError,  # noqa: E402
                      IoError, MeshError, ShapeError, TraceError)

__version__ = "0.1.0"

__all__ = ["Array", "BorrowError", "CompileError", "DeviceError", "ElementError", "Error", "InternalError", "IoError",
           "MeshError", "ShapeError", "TraceError", "add", "attention", "attention_backward", "attention_with_lse", "cmake_dir",
           "convert", "cross_entropy", "cross_entropy_backward", "dequantize_rows", "div", "exp", "gelu", "gelu_mul", "gelu_tanh",
           "layer_norm", "layer_norm_backward", "linear", "log_softmax", "log_softmax_backward", "matmul", "max", "maximum", "mean",
           "min", "minimum", "mul", "quantize_rows", "relu", "rms_norm", "rms_norm_backward", "sigmoid", "silu", "silu_mul",
           "softmax", "softmax_backward", "sub", "sum", "tanh", "transpose"]


def cmake_dir() -> str:
    """The folder of the CMake packages `tessera` and `mortar`: cmake -DCMAKE_PREFIX_PATH=<it>."""
    return os.path.join(_folder, "lib", "cmake")


def _binary(name: str, x: Any, y: Any, stream: int | None) -> Any:
    if isinstance(y, (int, float)) or (hasattr(y, "__float__") and not hasattr(y, "__dlpack__")):  # NumPy's numbers too
        return _call(name + "_number", (x,), (float(y),), stream)
    return _call(name, (x, y), (), stream)


def relu(x: Any, /, *, stream: int | None = None) -> Any:
    """x where it is positive, else 0; NaN stays NaN."""
    return _call("relu", (x,), (), stream)


def sigmoid(x: Any, /, *, stream: int | None = None) -> Any:
    """1 / (1 + e^-x)"""
    return _call("sigmoid", (x,), (), stream)


def silu(x: Any, /, *, stream: int | None = None) -> Any:
    """x * sigmoid(x)"""
    return _call("silu", (x,), (), stream)


def gelu(x: Any, /, *, stream: int | None = None) -> Any:
    """x * (1 + erf(x / sqrt(2))) / 2, within 1.5e-7 * |x|"""
    return _call("gelu", (x,), (), stream)


def gelu_tanh(x: Any, /, *, stream: int | None = None) -> Any:
    """The approximation of gelu by tanh."""
    return _call("gelu_tanh", (x,), (), stream)


def exp(x: Any, /, *, stream: int | None = None) -> Any:
    """e^x"""
    return _call("exp", (x,), (), stream)


def tanh(x: Any, /, *, stream: int | None = None) -> Any:
    """The hyperbolic tangent."""
    return _call("tanh", (x,), (), stream)


def add(x: Any, y: Any, /, *, stream: int | None = None) -> Any:
    """x + y; y is an array of x's element type, which broadcasts, or with floating-point x a number."""
    return _binary("add", x, y, stream)


def sub(x: Any, y: Any, /, *, stream: int | None = None) -> Any:
    """x - y; y as in add."""
    return _binary("sub", x, y, stream)


def mul(x: Any, y: Any, /, *, stream: int | None = None) -> Any:
    """x * y; y as in add."""
    return _binary("mul", x, y, stream)


def div(x: Any, y: Any, /, *, stream: int | None = None) -> Any:
    """x / y of floating-point elements; y as in add."""
    return _binary("div", x, y, stream)


def maximum(x: Any, y: Any, /, *, stream: int | None = None) -> Any:
    """The larger of x and y; y as in add."""
    return _binary("maximum", x, y, stream)


def minimum(x: Any, y: Any, /, *, stream: int | None = None) -> Any:
    """The smaller of x and y; y as in add."""
    return _binary("minimum", x, y, stream)


def silu_mul(gate: Any, up: Any, /, *, stream: int | None = None) -> Any:
    """silu(gate) * up"""
    return _call("silu_mul", (gate, up), (), stream)


def gelu_mul(gate: Any, up: Any, /, *, stream: int | None = None) -> Any:
    """gelu(gate) * up"""
    return _call("gelu_mul", (gate, up), (), stream)


def softmax(x: Any, /, *, stream: int | None = None) -> Any:
    """e^x / sum of e^x along the last axis."""
    return _call("softmax", (x,), (), stream)


def log_softmax(x: Any, /, *, stream: int | None = None) -> Any:
    """The logarithm of softmax(x), computed without underflow."""
    return _call("log_softmax", (x,), (), stream)


def rms_norm(x: Any, weight: Any, /, eps: float = 1e-6, *, stream: int | None = None) -> Any:
    """x * weight / sqrt(mean of x^2 + eps) along the last axis; weight has its length and x's element type."""
    return _call("rms_norm", (x, weight), (eps,), stream)


def layer_norm(x: Any, weight: Any, bias: Any, /, eps: float = 1e-5, *, stream: int | None = None) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias along the last axis."""
    return _call("layer_norm", (x, weight, bias), (eps,), stream)


def softmax_backward(dy: Any, y: Any, /, *, stream: int | None = None) -> Any:
    """The gradient of softmax for its argument, from that of its result y."""
    return _call("softmax_backward", (dy, y), (), stream)


def log_softmax_backward(dy: Any, y: Any, /, *, stream: int | None = None) -> Any:
    """The gradient of log_softmax for its argument, from that of its result y."""
    return _call("log_softmax_backward", (dy, y), (), stream)


def rms_norm_backward(dy: Any, x: Any, weight: Any, /, eps: float = 1e-6, *, stream: int | None = None) -> Any:
    """(dx, d_weight): the gradients of rms_norm(x, weight, eps), from that of its result."""
    return _call("rms_norm_backward", (dy, x, weight), (eps,), stream)


def layer_norm_backward(dy: Any, x: Any, weight: Any, /, eps: float = 1e-5, *, stream: int | None = None) -> Any:
    """(dx, d_weight, d_bias): the gradients of layer_norm(x, weight, bias, eps), from that of its result."""
    return _call("layer_norm_backward", (dy, x, weight), (eps,), stream)


def cross_entropy(logits: Any, targets: Any, /, *, ignore_index: int = -100, label_smoothing: float = 0.0,
                  stream: int | None = None) -> Any:
    """(losses, lse), float32 [rows], for logits [rows, classes] and the class of each row, targets [rows] of 32- or 64-bit
    integers. lse: the logarithm of the sum of the exponentials of a row, for the gradient."""
    return _call("cross_entropy", (logits, targets), (ignore_index, label_smoothing), stream)


def cross_entropy_backward(d_losses: Any, logits: Any, targets: Any, lse: Any, /, *, ignore_index: int = -100,
                           label_smoothing: float = 0.0, stream: int | None = None) -> Any:
    """The gradient of cross_entropy for the logits, from that of the losses."""
    return _call("cross_entropy_backward", (d_losses, logits, targets, lse), (ignore_index, label_smoothing), stream)


def _reduced(name: str, x: Any, axis: int | None, stream: int | None) -> Any:
    if axis is None:
        return _call(name + "_all", (x,), (), stream)
    rank = len(x.shape)
    if axis not in (-1, rank - 1):
        raise ShapeError(f"{name}: axis is {axis}; expected -1, the last axis, or None, the whole array.\n"
                         "  Move the axis to the end first: the array need not be copied.")
    return _call(name, (x,), (), stream)


def sum(x: Any, /, axis: int | None = None, *, stream: int | None = None) -> Any:
    """The sum over the last axis (-1) or the whole array (None). Sums of 16-bit floats are float32, those of integers
    have 64 bits."""
    return _reduced("sum", x, axis, stream)


def mean(x: Any, /, axis: int | None = None, *, stream: int | None = None) -> Any:
    """The mean over the last axis (-1) or the whole array (None); of 16-bit floats it is float32."""
    return _reduced("mean", x, axis, stream)


def max(x: Any, /, axis: int | None = None, *, stream: int | None = None) -> Any:
    """The largest element of the last axis (-1) or the whole array (None). NaN is ignored."""
    return _reduced("max", x, axis, stream)


def min(x: Any, /, axis: int | None = None, *, stream: int | None = None) -> Any:
    """The smallest element of the last axis (-1) or the whole array (None). NaN is ignored."""
    return _reduced("min", x, axis, stream)


def matmul(a: Any, b: Any, /, *, stream: int | None = None) -> Any:
    """The product of the matrices a [m, k] and b [k, n]; a transposed view costs no copy."""
    return _call("matmul", (a, b), (), stream)


def linear(x: Any, w: Any, bias: Any = None, /, *, residual: Any = None,
           activation: Literal["relu", "silu", "gelu", "gelu_tanh"] | None = None, stream: int | None = None) -> Any:
    """x w^T + bias, for x [..., k], w [n, k] and bias [n]: the result is [..., n]. In the same kernel: `activation` of the
    result, for 16-bit floats; or without a bias + `residual` [..., n]."""
    return _call(_linear_name(bias, residual, activation), tuple(t for t in (x, w, bias, residual) if t is not None), (), stream)


def _linear_name(bias: Any, residual: Any, activation: str | None) -> str:
    """The function of the library for what linear() was given."""
    if residual is not None:
        if bias is not None or activation is not None:
            raise ShapeError("linear: a residual is added to x w^T alone: leave out bias and activation")
        return "linear_add"
    if activation not in (None, "relu", "silu", "gelu", "gelu_tanh"):
        raise ShapeError(f"linear: activation is {activation!r}; expected 'relu', 'silu', 'gelu', 'gelu_tanh' or None")
    return "linear" if activation is None else f"linear_{activation}"


def attention(q: Any, k: Any, v: Any, /, *, scale: float | None = None, causal: bool = False, window: int = 0,
              stream: int | None = None) -> Any:
    """softmax(scale * q k^T) v for q [batch, heads, queries, d], k and v [batch, kv_heads, keys, d], d up to 1024.
    scale: without one, 1 / sqrt(d). causal: the last query sees all keys, the one before it all but the last, and so
    on. window: with causal, the number of nearest keys that a query sees; 0 for all."""
    return _call("attention", (q, k, v), (scale or 0.0, causal, window), stream)


def attention_with_lse(q: Any, k: Any, v: Any, /, *, scale: float | None = None, causal: bool = False, window: int = 0,
                       stream: int | None = None) -> Any:
    """(o, lse): attention, and for its gradients the logarithm of the sum of the exponentials of each query's scores, float32
    [batch, heads, queries]."""
    return _call("attention_with_lse", (q, k, v), (scale or 0.0, causal, window), stream)


def attention_backward(d_o: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, /, *, scale: float | None = None,
                       causal: bool = False, window: int = 0, stream: int | None = None) -> Any:
    """(dq, dk, dv): the gradients of attention, from that of its result; o and lse as attention_with_lse gave them for the
    same numbers."""
    return _call("attention_backward", (d_o, q, k, v, o, lse), (scale or 0.0, causal, window), stream)


def transpose(x: Any, /, *, stream: int | None = None) -> Any:
    """A transposed copy of a matrix."""
    return _call("transpose", (x,), (), stream)


def quantize_rows(x: Any, dtype: Literal["i8", "f8e4m3", "f8e5m2"] = "i8", /, *, stream: int | None = None) -> Any:
    """(q, scale) with x = q * scale[row]: a matrix with 8 bits an element, and one float32 for each row."""
    return _call(f"quantize_rows_{_one_of(dtype, ('i8', 'f8e4m3', 'f8e5m2'))}", (x,), (), stream)


def dequantize_rows(q: Any, scale: Any, dtype: Literal["f32", "bf16", "f16"] = "f32", /, *,
                    stream: int | None = None) -> Any:
    """q * scale[row], as elements of `dtype`."""
    return _call(f"dequantize_rows_{_one_of(dtype, ('f32', 'bf16', 'f16'))}", (q, scale), (), stream)


def convert(x: Any, dtype: Literal["f64", "f32", "bf16", "f16"], /, *, stream: int | None = None) -> Any:
    """x with elements of `dtype`, rounded once."""
    return _call(f"convert_{_one_of(dtype, ('f64', 'f32', 'bf16', 'f16'))}", (x,), (), stream)


def _one_of(dtype: str, names: tuple[str, ...]) -> str:
    if dtype not in names:
        raise ElementError(f"dtype is {dtype!r}; expected one of {', '.join(names)}")
    return dtype
