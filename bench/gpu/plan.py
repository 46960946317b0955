"""What is measured, in order of priority: groups of cases with their peers and required figures.

A requirement is one of
  ("TB/s", x)      at least that, in absolute terms
  ("ratio", x)     at least x times the best of the peers named (peer's time / ours)
Groups may also require a geometric mean of the ratios. cuTile Python's kernels, with the same assembler, are peers, too:
none may be faster by more than a hundredth.

The launches of a measurement do not depend on each other, and Tessera uses that: tensors without an in-flight writer are
read before the predecessor has ended (docs/compiler/overlap_launches.md). In a chain, where each launch reads what the
one before has written, less is gained by that. So short kernels are also measured in a chain (IN_A_CHAIN).
Requirements apply to the independent launches, as for the peer; a decoder's products are a chain by themselves.
docs/gpu.md, "Independent launches and chains".
"""

import dataclasses


IN_A_CHAIN = "Tessera in a chain"
WITHOUT = ("early=0", "overlap=0")  # peers that are Tessera with this TESSERA_TUNING, to be read beside it

RANDOM = "random_shapes"  # measured by bench/compare/against_torch.py: its cases differ from day to day


@dataclasses.dataclass
class Case:
    group: str
    name: str  # of gpu_bench
    arguments: dict
    peers: list = dataclasses.field(default_factory=list)  # names in peers.py
    requires: tuple = ()
    quick: bool = False
    rate: str = ""  # overrides the unit of the figure

    def command(self):
        return " ".join([self.name] + [f"{k}={v}" for k, v in self.arguments.items()])


@dataclasses.dataclass
class Group:
    name: str
    title: str
    mean: float = 0.0  # required geometric mean of the ratios; 0: none


GROUPS = [
    Group("memory", "copy, add, saxpy: 2^28 elements, compared with PyTorch"),
    Group("rows", "softmax, RMS norm, layer norm, bf16, 2^28 elements, naive sources, one row per piece"),
    Group("gemm", "matrix products, squares, compared with cuBLAS", 1.01),
    Group("attention", "attention forward, bf16, compared with cuDNN", 1.00),
    Group("sums", "row sums over 2^29 elements and a transpose, compared with PyTorch"),
    Group("odd_rows", "odd rows, compared with the better of torch.compile and PyTorch"),
    Group("long_rows", "few long rows, compared with the better of torch.compile and PyTorch"),
    Group("few_rows", "few rows times weights, bf16, weights beyond L2, compared with cuBLAS"),
    Group("decode", "decode attention, combining included, as a share of a pure read of the same bytes"),
    Group("decoder", "the products of a decoder's step, each reading the last one's output, compared with cuBLAS in a CUDA graph"),
    Group("short_wave", "matrix products whose last wave is short (bf16, NT), compared with cuBLAS"),
    Group("layers", "matrix products of transformer layers (bf16, NT), compared with cuBLAS", 0.99),
    Group("residual", "matrix products with a residual (bf16, NT), compared with PyTorch's addmm"),
    Group("fp8", "f8e4m3 with fast accumulation, compared with cuBLAS", 0.9),
    Group("ragged", "ragged matrix products (bf16, NN), multiples of 8, compared with cuBLAS"),
    Group("batched", "products of many matrices, compared with cuBLAS (torch.bmm)", 0.97),
    Group("twins", "the price of safety: unsafe twins that opt out of bounds"),
    Group(RANDOM, "library at random shapes, compared with PyTorch (`shapes` is the seed; bench/compare)"),
]

ROW_OPS = ["softmax", "rms_norm", "layer_norm"]
# k x n of the weights: Qwen3-4B's layers, a square one, its vocabulary, and one of 32B.
WEIGHTS = [(2560, 6144), (4096, 2560), (2560, 19456), (9728, 2560), (2560, 151936), (5120, 51200)]
LAYERS = [
    (2560, 6144),
    (4096, 2560),
    (2560, 19456),
    (9728, 2560),
    (5120, 10240),
    (8192, 5120),
    (5120, 51200),
    (25600, 5120),
]


def memory():
    n = 1 << 28
    for name in ("add", "saxpy", "copy"):
        for dtype in ("f32", "f16"):
            yield Case("memory", name, {"n": n, "dtype": dtype}, ["torch", "torch.compile"], ("ratio", 0.99), quick=True)


def rows():
    for columns, least in ((1024, 4.05), (4096, 4.05), (16384, 4.05), (512, 3.3)):
        for name in ROW_OPS:
            yield Case(
                "rows",
                name,
                {"rows": (1 << 28) // columns, "columns": columns},
                ["torch", "torch.compile", "cuTile"],
                ("TB/s", least),
                quick=True,
            )


def odd_rows():
    for columns in (1000, 1023, 4097, 50257):
        for name in ROW_OPS:
            yield Case(
                "odd_rows",
                name,
                {"rows": (1 << 28) // columns, "columns": columns, "impl": "library"},
                ["torch", "torch.compile"],
                ("ratio", 1.0),
            )


def long_rows():
    for rows, columns in ((16, 4194304), (64, 262144), (4, 1000003), (1, 16777216)):
        for name in ("long_layer_norm", "long_rms_norm", "long_softmax", "long_row_sum", "long_argmax"):
            for dtype in ("bf16", "f32"):
                arguments = {"rows": rows, "columns": columns, "dtype": dtype}
                yield Case("long_rows", name, arguments, ["torch", "torch.compile"], ("ratio", 1.0))


def sums():
    for columns in (1024, 4096, 16384):
        yield Case(
            "sums",
            "row_sum",
            {"rows": (1 << 29) // columns, "columns": columns},
            ["torch", "torch.compile"],
            ("TB/s", 4.4),
            quick=columns == 4096,
        )
    yield Case("sums", "transpose", {"n": 16384}, ["torch", "torch.compile"], ("TB/s", 4.0), quick=True)


def gemm():
    for n in (4096, 8192, 2048, 1024, 16384):
        for layout in ("NT", "NN", "TN"):
            for dtype in ("bf16", "f16"):
                quick = n in (1024, 2048, 4096, 8192) and dtype == "bf16" and layout != "TN"
                peers = ["cuBLAS", "cuTile"] if dtype == "bf16" and layout != "TN" else ["cuBLAS"]
                peers += [IN_A_CHAIN] if n <= 4096 else []
                yield Case(
                    "gemm",
                    "gemm",
                    {"m": n, "n": n, "k": n, "dtype": dtype, "layout": layout},
                    peers,
                    ("ratio", 0.97),
                    quick=quick,
                )


def attention():
    for length in (8192, 2048, 16384):
        for d, heads in ((128, 16), (64, 32), (256, 8)):
            for causal in (1, 0):
                arguments = {"batch": 16384 // length, "heads": heads, "length": length, "d": d, "causal": causal}
                peers = ["cuDNN", "cuTile", IN_A_CHAIN]
                yield Case("attention", "attention", arguments, peers, ("ratio", 0.93), quick=length == 8192)


def few_rows():
    for m in (1, 8, 16, 64):
        for k, n in WEIGHTS:
            quick = m == 1 and n in (19456, 2560)
            peers = ["cuBLAS", IN_A_CHAIN]
            yield Case("few_rows", "linear", {"m": m, "n": n, "k": k}, peers, ("ratio", 1.0), quick=quick)


def decode():
    for batch, length, least in ((1, 8192, 0.80), (1, 32768, 0.88), (32, 8192, 0.93), (8, 32768, 0.93)):
        yield Case(
            "decode",
            "decode",
            {"batch": batch, "length": length},
            ["read", "torch", "torch.compile", IN_A_CHAIN],
            ("ratio", least),
            quick=batch == 32,
        )


def decoder():
    for how, least in (("stream", 4.0), ("graph", 4.2)):
        yield Case("decoder", "decoder", {"how": how}, ["cuBLAS graph", *WITHOUT], ("TB/s", least), quick=True)


def short_wave():
    for n in (1536, 3072, 5120):
        yield Case(
            "short_wave",
            "gemm",
            {"m": n, "n": n, "k": n, "dtype": "bf16", "layout": "NT", "impl": "matmul"},
            ["cuBLAS", IN_A_CHAIN],
            ("ratio", 0.92),
        )


def layers():
    for m in (512, 2048, 256, 8192):
        for k, n in LAYERS:
            arguments = {"m": m, "n": n, "k": k, "dtype": "bf16", "layout": "NT", "impl": "matmul"}
            yield Case("layers", "gemm", arguments, ["cuBLAS", IN_A_CHAIN])


def residual():
    """The output and down projections of Qwen3-4B and 8B."""
    for m, k, n in ((2048, 4096, 4096), (2048, 12288, 4096), (8192, 4096, 4096), (2048, 9728, 2560), (512, 12288, 4096), (256, 4096, 4096)):
        arguments = {"m": m, "n": n, "k": k, "dtype": "bf16", "layout": "NT", "residual": 1}
        yield Case("residual", "gemm", arguments, ["cuBLAS"])


def fp8():
    for n in (2048, 4096, 8192):
        yield Case(
            "fp8", "gemm", {"m": n, "n": n, "k": n, "dtype": "f8e4m3", "layout": "NT"}, ["cuBLAS"], quick=n == 4096
        )


def ragged():
    for m, n, k in ((1000, 1160, 456), (2040, 3080, 1528), (4104, 4088, 4120), (8184, 1048, 2056)):
        arguments = {"m": m, "n": n, "k": k, "dtype": "bf16", "layout": "NN", "impl": "matmul"}
        yield Case("ragged", "gemm", arguments, ["cuBLAS"], ("ratio", 0.85))


def batched():
    """Squares, scores and values of attention heads, few large matrices, and ragged ones."""
    shapes = ((32, 512, 512, 512), (16, 1024, 1024, 64), (64, 128, 4096, 128), (8, 2048, 2048, 2048), (12, 777, 1000, 640))
    for batch, m, n, k in shapes:
        for layout in ("NN", "NT"):
            for dtype in ("bf16", "f16"):
                arguments = {"batch": batch, "m": m, "n": n, "k": k, "dtype": dtype, "layout": layout}
                yield Case("batched", "batched_gemm", arguments, ["cuBLAS"], ("ratio", 0.95), quick=dtype == "bf16")


def twins():
    yield Case("twins", "softmax", {"rows": 1 << 16, "columns": 4096}, ["twin"], ("ratio", 0.997), quick=True)
    yield Case(
        "twins",
        "gemm",
        {"m": 4096, "n": 4096, "k": 4096, "dtype": "bf16", "layout": "NT", "tile": "128x128x64"},
        ["twin"],
        ("ratio", 0.997),
    )
    for causal in (0, 1):
        yield Case(
            "twins",
            "attention",
            {"batch": 2, "heads": 16, "length": 8192, "d": 128, "causal": causal, "tile": "64x128"},
            ["twin"],
            ("ratio", 0.997),
        )


def all_cases():
    table = [memory, rows, gemm, attention, sums, odd_rows, long_rows, few_rows, decode, decoder, short_wave, layers, residual, fp8, ragged, batched, twins]
    return [case for part in table for case in part()]


def tiny(case):
    """The same case at a size for a CPU: shows that the programs work."""
    small = dict(case.arguments)
    for key, size in (("rows", 3), ("batch", 1), ("heads", 1), ("length", 256)):
        if key in small:
            small[key] = size
    if case.group == "long_rows":
        small.update({"columns": 20001, "parts": 3})
    if case.name in ("copy", "add", "saxpy"):
        small["n"] = 4096
    elif case.name == "transpose":
        small["n"] = 128
    elif case.name == "decoder":
        small.update({"layers": 2, "hidden": 40})
    elif case.name == "batched_gemm":
        small.update({"batch": 2, "m": 72, "n": 136, "k": 64})
    elif case.name in ("gemm", "linear"):
        small.update({"n": 256 if case.group == "twins" else 136, "k": 512 if case.name != "gemm" else 128})
        if case.name == "gemm":
            small["m"] = 128
    return dataclasses.replace(case, arguments=small)
