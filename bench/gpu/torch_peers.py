"""The peers in PyTorch: for a case of plan.py, functions that do the same work on one of several groups of tensors.

Each maker gives a list of functions, one per group; calling a function enqueues the work once.
"""

import math
import time

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn}


def sets_for(size):
    """As sets_for of harness.hpp."""
    return max(1, min(64, math.ceil(256e6 / max(size, 1))))


def normal(*shape, dtype):
    if dtype == torch.float8_e4m3fn:
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).to(dtype)
    return torch.randn(*shape, device="cuda", dtype=dtype)


def elementwise(case, compiled):
    a = case.arguments
    dtype, n = DTYPES[a["dtype"]], a["n"]
    x, y, z = (normal(n, dtype=dtype) for _ in range(3))
    f = {
        "copy": lambda x, y, z: z.copy_(x),
        "add": lambda x, y, z: torch.add(x, y, out=z),
        "saxpy": lambda x, y, z: y.add_(x, alpha=0.5),
    }[case.name]
    f = compiled_function(f) if compiled else f
    return [lambda: f(x, y, z)]


def transpose(case, compiled):
    n = case.arguments["n"]
    x, y = normal(n, n, dtype=torch.float32), torch.empty(n, n, device="cuda")
    f = compiled_function(lambda x, y: y.copy_(x.t())) if compiled else lambda x, y: y.copy_(x.t())
    return [lambda: f(x, y)]


def row_function(name, columns, dtype=torch.bfloat16):
    w, b = (normal(columns, dtype=dtype) for _ in range(2))
    return {
        "softmax": lambda x: F.softmax(x, dim=-1),
        "rms_norm": lambda x: F.rms_norm(x, (columns,), w, 1e-6),
        "layer_norm": lambda x: F.layer_norm(x, (columns,), w, b, 1e-6),
        "row_sum": lambda x: x.sum(dim=-1, dtype=torch.float32),
        "argmax": lambda x: x.max(dim=-1),  # values and indices
    }[name]


def compiled_function(f):
    torch._dynamo.reset()
    return torch.compile(f, mode="max-autotune-no-cudagraphs", dynamic=False)


def compiled_rows(name, columns, dtype=torch.bfloat16):
    return compiled_function(row_function(name, columns, dtype))


def rows(case, compiled):
    a = case.arguments
    f = compiled_rows(case.name, a["columns"]) if compiled else row_function(case.name, a["columns"])
    x = normal(a["rows"], a["columns"], dtype=torch.bfloat16)
    return [lambda: f(x)]


def long_rows(case, compiled):
    a = case.arguments
    make = compiled_rows if compiled else row_function
    f = make(case.name.removeprefix("long_"), a["columns"], DTYPES[a["dtype"]])
    accesses = 1 if case.name in ("long_row_sum", "long_argmax") else 2
    size = accesses * a["rows"] * a["columns"] * torch.empty(0, dtype=DTYPES[a["dtype"]]).element_size()
    inputs = [normal(a["rows"], a["columns"], dtype=DTYPES[a["dtype"]]) for _ in range(sets_for(size))]
    return [lambda x=x: f(x) for x in inputs]


def gemm(case, compiled):
    a = case.arguments
    m, n, k, dtype, layout = a["m"], a["n"], a["k"], DTYPES[a["dtype"]], a["layout"]
    out_bytes = 2
    work = []
    for _ in range(sets_for((m * k + k * n) * torch.empty(0, dtype=dtype).element_size() + m * n * out_bytes)):
        left = normal(k, m, dtype=dtype).t() if layout[0] == "T" else normal(m, k, dtype=dtype)
        right = normal(n, k, dtype=dtype).t() if layout[1] == "T" else normal(k, n, dtype=dtype)
        if dtype == torch.float8_e4m3fn:
            one = torch.ones((), device="cuda")
            work.append(
                lambda l=left, r=right: torch._scaled_mm(
                    l, r, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
                )
            )
        elif a.get("residual"):
            out, added = torch.empty(m, n, device="cuda", dtype=dtype), normal(m, n, dtype=dtype)
            work.append(lambda l=left, r=right, o=out, x=added: torch.addmm(x, l, r, out=o))
        else:
            out = torch.empty(m, n, device="cuda", dtype=dtype)
            work.append(lambda l=left, r=right, o=out: torch.mm(l, r, out=o))
    return work


def batched_gemm(case, compiled):
    a = case.arguments
    batch, m, n, k, dtype = a["batch"], a["m"], a["n"], a["k"], DTYPES[a["dtype"]]
    work = []
    for _ in range(sets_for(2 * batch * (m * k + k * n + m * n))):
        left = normal(batch, m, k, dtype=dtype)
        right = normal(batch, n, k, dtype=dtype).transpose(1, 2) if a["layout"] == "NT" else normal(batch, k, n, dtype=dtype)
        out = torch.empty(batch, m, n, device="cuda", dtype=dtype)
        work.append(lambda l=left, r=right, o=out: torch.bmm(l, r, out=o))
    return work


def few_rows(case, compiled):
    a = case.arguments
    m, n, k = a["m"], a["n"], a["k"]
    work = []
    for _ in range(sets_for(2 * (m * k + n * k + m * n))):
        x, w = normal(m, k, dtype=torch.bfloat16), normal(n, k, dtype=torch.bfloat16)
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        work.append(lambda x=x, w=w, o=out: torch.mm(x, w.t(), out=o))
    return work


def decoder(case, compiled):
    """The same chain by cuBLAS, captured into a CUDA graph."""
    a = case.arguments
    hidden = a.get("hidden", 2560)

    def weights(out, into):
        return normal(out * hidden // 2560, into * hidden // 2560, dtype=torch.bfloat16) / into**0.5

    layers = [
        (weights(6144, 2560), weights(2560, 4096), weights(19456, 2560), weights(2560, 9728))
        for _ in range(a.get("layers", 36))
    ]
    vocabulary = weights(151936, 2560)
    x = normal(1, hidden, dtype=torch.bfloat16)

    def step():
        h = x
        for layer in layers:
            for w in layer:
                h = F.linear(h[:, : w.shape[1]], w)
        return F.linear(h, vocabulary)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()  # cuBLAS takes its workspace
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return [graph.replay]


def attention(case, compiled):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    a = case.arguments
    shape = (a["batch"], a["heads"], a["length"], a["d"])
    q, k, v = (normal(*shape, dtype=torch.bfloat16) for _ in range(3))

    def forward():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=bool(a["causal"]))

    return [forward]


def decode(case, compiled):
    a = case.arguments
    work = []
    for _ in range(sets_for(4 * a["batch"] * 8 * a["length"] * 128)):
        q = normal(a["batch"], 64, 1, 128, dtype=torch.bfloat16)
        k, v = (normal(a["batch"], 8, a["length"], 128, dtype=torch.bfloat16) for _ in range(2))
        work.append((q, k, v))

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    f = compiled_function(attend) if compiled else attend
    return [lambda one=one: f(*one) for one in work]


MAKERS = {
    "copy": elementwise,
    "add": elementwise,
    "saxpy": elementwise,
    "transpose": transpose,
    "softmax": rows,
    "rms_norm": rows,
    "layer_norm": rows,
    "row_sum": rows,
    "long_softmax": long_rows,
    "long_rms_norm": long_rows,
    "long_layer_norm": long_rows,
    "long_row_sum": long_rows,
    "long_argmax": long_rows,
    "gemm": gemm,
    "batched_gemm": batched_gemm,
    "linear": few_rows,
    "decoder": decoder,
    "attention": attention,
    "decode": decode,
}


SCRATCH_BYTES, FILL_BYTES_PER_MS, REST_MS = 1 << 28, 3e9, 0.3  # as in src/measure/device_clock.cpp and .hpp


class Timer:
    """As Bench::measure of src/measure/run_cases.cpp: batches between events, behind work that lets the host run ahead.
    Both let the device rest for as long between batches, longer than Python needs: at its power limit, who rests more
    is faster."""

    def __init__(self, budget_ms):
        self.budget_ms = budget_ms
        self.scratch = torch.empty(SCRATCH_BYTES, dtype=torch.uint8, device="cuda")
        self.next = 0
        self.ended = 0.0

    def occupy(self, ms):
        for _ in range(int(max(1.0, ms * FILL_BYTES_PER_MS / SCRATCH_BYTES) + 0.5)):
            self.scratch.zero_()

    def rest(self):
        time.sleep(max(0.0, self.ended + REST_MS / 1e3 - time.perf_counter()))

    def timed(self, work, count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.rest()
        self.occupy(0.05 + 0.030 * count)  # what a call may cost the host
        start.record()
        for _ in range(count):
            work[self.next % len(work)]()
            self.next += 1
        end.record()
        end.synchronize()
        self.ended = time.perf_counter()
        return start.elapsed_time(end)

    def median(self, work):
        """Milliseconds of one launch."""
        once = min(self.timed(work, 1) for _ in range(4))
        batch = max(1, min(200, int(1.0 / max(once, 1e-4))))
        spent = 0.0
        while spent < self.budget_ms / 4:
            spent += self.timed(work, batch) + REST_MS
        times, spent = [], 0.0
        while len(times) < 5 or spent < self.budget_ms:
            times.append(self.timed(work, batch) / batch)
            spent += times[-1] * batch + REST_MS
        times.sort()
        return times[len(times) // 2]


def precompile(cases):
    """Fills the compiler's cache on disk, so that later processes find what they ask for."""
    for case in cases:
        if "torch.compile" in case.peers:
            MAKERS[case.name](case, True)[0]()
            torch.cuda.synchronize()
            print("compiled", case.command(), flush=True)
