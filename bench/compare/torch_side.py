"""PyTorch as a side of a comparison: as compare_bench, with the functions that PyTorch has (cuBLAS, cuDNN, its own kernels).
The commands are those of compare_bench.cpp; a case that PyTorch has no function for is answered with "failed"."""

import ctypes
import json
import sys
import time

import torch
import torch.nn.attention
import torch.nn.functional as F

from cases import arguments_of, name_of

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "tf32": torch.float32, "f64": torch.float64}
SCRATCH_BYTES = 1 << 26
BYTES_PER_MS = 2.5e9  # written by a fill on an H200; more or less does not matter
CACHE_BYTES = 256e6  # as measure::sets_for: together larger than any cache


class Missing(Exception):
    pass


def type_of(a, otherwise="bf16"):
    name = a.get("type", otherwise)
    if name not in TYPES:
        raise Missing(f"PyTorch is not compared for {name}")
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    return TYPES[name]


def normal(*shape, dtype):
    return torch.randn(*shape, dtype=torch.float32 if dtype != torch.float64 else dtype, device=DEVICE).to(dtype)


def product(a):
    m, n, k, dtype = int(a["m"]), int(a["n"]), int(a["k"]), type_of(a)
    left, right = a.get("layout", "NN")
    x = normal(k, m, dtype=dtype).t() if left == "T" else normal(m, k, dtype=dtype)
    y = normal(n, k, dtype=dtype).t() if right == "T" else normal(k, n, dtype=dtype)
    epilogue = a.get("epilogue", "none")
    if epilogue == "residual":
        r = normal(m, n, dtype=dtype)
        return [lambda: torch.addmm(r, x, y)]
    if epilogue != "none":
        raise Missing("PyTorch has no function for this epilogue")
    return [lambda: x @ y]


def linear(a):
    dtype = type_of(a)
    x, w = normal(int(a["m"]), int(a["k"]), dtype=dtype), normal(int(a["n"]), int(a["k"]), dtype=dtype)
    return [lambda: F.linear(x, w)]


def batched(a):
    b, m, n, k, dtype = int(a["batch"]), int(a["m"]), int(a["n"]), int(a["k"]), type_of(a)
    x, y = normal(b, m, k, dtype=dtype), normal(b, k, n, dtype=dtype)
    return [lambda: torch.bmm(x, y)]


def attention(a):
    if "window" in a:
        raise Missing("PyTorch has no function with a window")
    dtype, causal = type_of(a), a["causal"] != "0"
    batch, heads, kv, d = int(a["batch"]), int(a["heads"]), int(a["kv_heads"]), int(a["d"])
    q = normal(batch, heads, int(a["queries"]), d, dtype=dtype)
    k, v = (normal(batch, kv, int(a["keys"]), d, dtype=dtype) for _ in range(2))

    def by(backend):
        def call():
            with torch.nn.attention.sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv)

        return call

    backends = torch.nn.attention.SDPBackend
    return [by(backends.CUDNN_ATTENTION), by(backends.FLASH_ATTENTION)] if DEVICE == "cuda" else [by(backends.MATH)]


def attention_backward(a):
    if "window" in a:
        raise Missing("PyTorch has no function with a window")
    dtype, causal = type_of(a), a["causal"] != "0"
    batch, heads, kv, d = int(a["batch"]), int(a["heads"]), int(a["kv_heads"]), int(a["d"])
    q, g = (normal(batch, heads, int(a["queries"]), d, dtype=dtype) for _ in range(2))
    k, v = (normal(batch, kv, int(a["keys"]), d, dtype=dtype) for _ in range(2))
    for x in (q, k, v):
        x.requires_grad_()

    def by(backend):
        made = []

        def call():
            if not made:  # the forward pass, once
                with torch.nn.attention.sdpa_kernel(backend):
                    made.append(F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv))
            return torch.autograd.grad(made[0], (q, k, v), g, retain_graph=True)

        return call

    backends = torch.nn.attention.SDPBackend
    return [by(backends.CUDNN_ATTENTION), by(backends.FLASH_ATTENTION)] if DEVICE == "cuda" else [by(backends.MATH)]


def convolution(a):
    torch.backends.cudnn.benchmark = True
    names, dtype = "dhw"[3 - int(a["axes"]) :], type_of(a)
    channels, outputs, groups = int(a["channels"]), int(a["outputs"]), int(a["groups"])

    def of(key):
        return tuple(int(a[f"{key}_{n}"]) for n in names)

    x = normal(int(a["images"]), *of("in"), channels, dtype=dtype).movedim(-1, 1)  # channels last in memory
    w = normal(outputs, *of("filter"), channels // groups, dtype=dtype).movedim(-1, 1)
    function = (F.conv1d, F.conv2d, F.conv3d)[len(names) - 1]
    return [lambda: function(x, w, None, int(a["stride"]), of("padding"), int(a["dilation"]), groups)]


def convolution_transposed(a):
    torch.backends.cudnn.benchmark = True
    names, dtype = "dhw"[3 - int(a["axes"]) :], type_of(a)

    def of(key):
        return tuple(int(a[f"{key}_{n}"]) for n in names)

    x = normal(int(a["images"]), *of("in"), int(a["channels"]), dtype=dtype).movedim(-1, 1)
    w = normal(int(a["channels"]), *of("filter"), int(a["outputs"]), dtype=dtype).movedim(-1, 1)
    function = (F.conv_transpose1d, F.conv_transpose2d)[len(names) - 1]
    return [lambda: function(x, w, None, int(a["stride"]), of("padding"))]


def matrix(a):
    return normal(int(a["rows"]), int(a["columns"]), dtype=type_of(a))


def of_rows(function):
    def ways(a):
        x = matrix(a)
        return [lambda: function(x)]

    return ways


def rms_norm(a):
    x, w = matrix(a), normal(int(a["columns"]), dtype=type_of(a))
    return [lambda: F.rms_norm(x, (x.shape[1],), w, 1e-6)]


def layer_norm(a):
    x, w, b = matrix(a), normal(int(a["columns"]), dtype=type_of(a)), normal(int(a["columns"]), dtype=type_of(a))
    return [lambda: F.layer_norm(x, (x.shape[1],), w, b, 1e-6)]


def gradient_of(function, *more):
    """The backward pass of function(x, ...) for the gradient of its result; `more`: which vectors of a row's length follow x."""

    def ways(a):
        x, vectors = matrix(a).requires_grad_(), [normal(int(a["columns"]), dtype=type_of(a)).requires_grad_() for _ in more]
        y = function(x, *vectors)
        g = torch.randn_like(y)
        return [lambda: torch.autograd.grad(y, (x, *vectors), g, retain_graph=True)]

    return ways


def cross_entropy(a):
    x, t = matrix(a), torch.randint(int(a["columns"]), (int(a["rows"]),), device=DEVICE)
    return [lambda: F.cross_entropy(x, t, reduction="none")]


def cross_entropy_backward(a):
    x, t = matrix(a).requires_grad_(), torch.randint(int(a["columns"]), (int(a["rows"]),), device=DEVICE)
    y = F.cross_entropy(x, t, reduction="none")
    g = torch.randn_like(y)
    return [lambda: torch.autograd.grad(y, x, g, retain_graph=True)]


def top_k(a):
    x, k = matrix(a), int(a["k"])
    return [lambda: torch.topk(x, k)]


WAYS = {
    "gemm": product,
    "matmul": product,
    "gemm_split_k": product,
    "gemm_stream_k": product,
    "linear": linear,
    "batched_gemm": batched,
    "attention": attention,
    "attention_backward": attention_backward,
    "convolution": convolution,
    "convolution_transposed": convolution_transposed,
    "softmax": of_rows(lambda x: torch.softmax(x, 1)),
    "log_softmax": of_rows(lambda x: torch.log_softmax(x, 1)),
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "softmax_backward": gradient_of(lambda x: torch.softmax(x, 1)),
    "log_softmax_backward": gradient_of(lambda x: torch.log_softmax(x, 1)),
    "rms_norm_backward": gradient_of(lambda x, w: F.rms_norm(x, (x.shape[1],), w, 1e-6), "weight"),
    "layer_norm_backward": gradient_of(lambda x, w, b: F.layer_norm(x, (x.shape[1],), w, b, 1e-6), "weight", "bias"),
    "cross_entropy": cross_entropy,
    "cross_entropy_backward": cross_entropy_backward,
    "row_sum": of_rows(lambda x: torch.sum(x, 1, dtype=torch.float32)),
    "row_mean": of_rows(lambda x: torch.mean(x, 1, dtype=torch.float32)),
    "row_max": of_rows(lambda x: torch.amax(x, 1)),
    "row_min": of_rows(lambda x: torch.amin(x, 1)),
    "sum_all": of_rows(lambda x: torch.sum(x, dtype=torch.float32)),
    "mean_all": of_rows(lambda x: torch.mean(x, dtype=torch.float32)),
    "max_all": of_rows(torch.max),
    "min_all": of_rows(torch.min),
    "argmax": of_rows(lambda x: torch.max(x, 1)),
    "top_k": top_k,
    "transpose": of_rows(lambda x: x.t().contiguous()),
    "relu": of_rows(torch.relu),
    "silu": of_rows(F.silu),
    "gelu": of_rows(F.gelu),
}


class Torch:
    def __init__(self):
        self.sets, self.count, self.next, self.host_ms = [], 1, 0, 0.02
        self.scratch = torch.empty(SCRATCH_BYTES, dtype=torch.uint8, device=DEVICE)

    def prepare(self, line):
        self.free()
        self.line = line
        if name_of(line) not in WAYS:
            raise Missing("PyTorch has no function for it")
        before = torch.cuda.memory_allocated() if DEVICE == "cuda" else 0
        ways = WAYS[name_of(line)](arguments_of(line))
        used = (torch.cuda.memory_allocated() if DEVICE == "cuda" else 0) - before
        good = {}
        for i, way in enumerate(ways):
            try:
                way()
                good[i] = min(self.timed([way], 3) for _ in range(3))
            except RuntimeError:
                continue  # a backend that does not take these shapes
        if not good:
            raise Missing("none of PyTorch's ways takes these shapes")
        best = min(good, key=good.get)
        self.sets = [ways[best]]
        for _ in range(min(63, int(CACHE_BYTES / max(used, 1)))):
            self.sets.append(WAYS[name_of(line)](arguments_of(line))[best])
        self.timed(self.sets, len(self.sets))
        return {"correct": True, "compiled": 0, "sets": len(self.sets), "bytes": used}

    def free(self):
        self.sets = []
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        return {"ok": True}

    def timed(self, work, count):
        """As compare_bench's time."""
        if DEVICE != "cuda":
            start = time.perf_counter()
            for i in range(count):
                work[i % len(work)]()
            return (time.perf_counter() - start) * 1e3
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(1 + int((0.03 + 1.5 * self.host_ms * count) * BYTES_PER_MS / SCRATCH_BYTES)):
            self.scratch.zero_()
        began = time.perf_counter()
        start.record()
        for _ in range(count):
            work[self.next % len(work)]()
            self.next += 1
        end.record()
        self.host_ms = min(0.2, (time.perf_counter() - began) * 1e3 / count)
        end.synchronize()
        return start.elapsed_time(end)

    def answer(self, line):
        verb, _, rest = line.partition(" ")
        if verb == "prepare":
            return self.prepare(rest)
        if verb == "again":
            return self.prepare(self.line)
        if verb == "time":
            return {"ms": self.timed(self.sets, int(rest))}
        return self.free()


def main():
    side = Torch()
    name = "cpu"
    if DEVICE == "cuda":  # as gpu_bench describes it: "NVIDIA H200, driver API 13.0"
        version = ctypes.c_int()
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
        driver = version.value
        name = f"{torch.cuda.get_device_name()}, driver API {driver // 1000}.{driver % 1000 // 10}"
    print(json.dumps({"device": name, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        try:
            answer = side.answer(line.strip())
        except Exception as error:  # the other side goes on
            answer = {"failed": f"{type(error).__name__}: {str(error)[:200]}", "missing": isinstance(error, Missing)}
        print(json.dumps(answer), flush=True)


DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cuda"
if __name__ == "__main__":
    main()
