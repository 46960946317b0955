"""The Python package with PyTorch, on the CPU, or on a GPU: python.torch; `torch_test.py FOLDER cuda` on a machine with one.

On a GPU it also holds the order of streams: an array that is being written on a stream is read on that stream, the result
is used on another, and memory that is given up early is not reused before the work has ended.
"""
import gc
import sys

sys.path.insert(0, sys.argv[1])
device = sys.argv[2] if len(sys.argv) > 2 else "cpu"

import torch

import tessera

torch.manual_seed(3)
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def values(*shape, dtype=torch.float32):
    return torch.randn(shape, dtype=torch.float32).to(dtype).to(device)


def close(found, expected, tolerance):
    assert isinstance(found, torch.Tensor) and found.device.type == device, found
    assert found.shape == expected.shape, (found.shape, expected.shape)
    error = ((found.double() - expected).abs() / (1 + expected.abs())).max().item()
    assert error <= tolerance, f"error {error}"


def test_values():
    f = torch.nn.functional
    for dtype, t in TOLERANCE.items():
        x, w, b = values(37, 130, dtype=dtype), values(130, dtype=dtype), values(130, dtype=dtype)
        close(tessera.softmax(x), x.double().softmax(-1), t)
        close(tessera.rms_norm(x, w, 1e-5), f.rms_norm(x.double(), (130,), w.double(), 1e-5), t)
        close(tessera.layer_norm(x, w, b), f.layer_norm(x.double(), (130,), w.double(), b.double()), 2 * t)
        close(tessera.add(x, w), x.double() + w.double(), t)
        close(tessera.gelu(x.t()), f.gelu(x.double()).t(), t)
        close(tessera.mean(x, -1), x.double().mean(-1), t)
        m, n = values(64, 96, dtype=dtype), values(50, 96, dtype=dtype)
        close(tessera.matmul(m, n.t()), m.double() @ n.double().t(), 10 * t)
        close(tessera.linear(m[:3], n), m[:3].double() @ n.double().t(), 10 * t)
    for dtype in (torch.float16, torch.bfloat16):
        q, k, v = values(2, 4, 70, 64, dtype=dtype), values(2, 4, 90, 64, dtype=dtype), values(2, 4, 90, 64, dtype=dtype)
        close(tessera.attention(q, k, v), f.scaled_dot_product_attention(q.double(), k.double(), v.double()), 3e-2)


def test_types():
    x = values(8, 16, dtype=torch.bfloat16)
    q, scale = tessera.quantize_rows(x, "f8e4m3")
    assert q.dtype == torch.float8_e4m3fn and scale.dtype == torch.float32
    back = tessera.dequantize_rows(q, scale, "bf16")
    assert back.dtype == torch.bfloat16 and (back - x).abs().max() <= 0.07 * x.abs().max()
    assert tessera.convert(x, "f32").dtype == torch.float32
    try:
        tessera.softmax(values(4, 4).requires_grad_())
    except tessera.ElementError as error:
        assert "grad" in str(error)
    else:
        raise AssertionError("a tensor with a gradient was lent")


def test_memory():
    x = values(256, 256)
    y = tessera.relu(x)
    expected = x.double().relu()
    del x
    gc.collect()
    for i in range(10):
        values(256, 256).fill_(float("nan"))
    close(y, expected, 1e-6)
    y.mul_(2)  # the result may be written
    close(tessera.add(y, y), 4 * expected, 1e-6)


def test_streams():
    """Long work on a stream of PyTorch's, then a function there, then a reader on another stream."""
    if device == "cpu":
        return
    stream, other = torch.cuda.Stream(), torch.cuda.Stream()
    big = torch.randn(4096, 4096, device=device)
    torch.cuda.synchronize()
    for _ in range(5):
        x = torch.full((1024, 1024), float("nan"), device=device)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(20):
                big @ big
            x.fill_(3)
            y = tessera.add(x, 1.0)  # behind the fill
            x.fill_(float("nan"))  # and before this
        del x  # its memory is PyTorch's to reuse, on that stream
        with torch.cuda.stream(other):
            other.wait_stream(stream)
            total = (y == 4).all()
        assert total.item()
        # A stream that is named, and an array of the library that another stream takes.
        with torch.cuda.stream(stream):
            for _ in range(20):
                big @ big
            z = torch.full((512, 512), 2.0, device=device)
        made = tessera.relu(Lender(z), stream=stream.cuda_stream)
        with torch.cuda.stream(other):
            seen = torch.from_dlpack(made)
            assert (seen == 2).all().item()
        del made, seen, z


class Lender:
    """An array of no known library."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **named):
        return self.array.__dlpack__(**named)


def test_devices():
    if device == "cpu":
        return
    try:
        tessera.add(values(4), torch.zeros(4))
    except (tessera.DeviceError, tessera.Error) as error:
        assert "cpu" in str(error), error
    else:
        raise AssertionError("arrays of two devices were added")


tests = [(n, f) for n, f in globals().items() if n.startswith("test_")]
for name, test in tests:
    test()
    print(name, flush=True)
print(f"{len(tests)} tests passed on {device}")
