"""Random cases for compare_bench: every function of the kernel library, and a sample of bench/generality, at regular,
aligned and ragged shapes. A seed gives the same cases everywhere; by default the seed is the date.

    cases.py [--seed N] [--count N] [--tiny]      prints them, one a line
    cases.py --only NAME[,NAME] [--count N]       of these functions, for gpu-compare.sh --cases
    cases.py --selftest PROGRAM                   PROGRAM: compare_bench, whose --list must agree with this table
"""

import argparse
import datetime
import math
import random
import subprocess
import sys

PRODUCT_TYPES = ("bf16", "f16", "f32", "tf32", "f64", "i8", "f8e4m3")
SIXTEEN_BITS = ("bf16", "f16")


def today():
    return int(datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d"))


class Shapes:
    """Random extents. `tiny`: for a device on which only the path is tried, not the time."""

    def __init__(self, seed, tiny=False):
        self.random = random.Random(f"shapes {seed}")
        self.tiny = tiny

    def one_of(self, *values):
        return self.random.choice(values)

    def number(self, low, high):
        """A number whose logarithm is uniform."""
        if self.tiny:
            low, high = min(low, 24), min(high, 24 + 2 * int(math.log2(high)))
        return int(math.exp(self.random.uniform(math.log(low), math.log(high + 1))))

    def extent(self, low, high, kind=""):
        """Unless told: half of the extents are multiples of 128, a quarter are multiples of 8, the others are odd."""
        n = self.number(low, high)
        kind = kind or self.one_of("regular", "regular", "aligned", "ragged")
        if kind == "ragged":
            return n | 1
        if kind == "aligned" or self.tiny:
            return max(8, n // 8 * 8 + 8 * (n // 8 % 16 == 0))
        return max(128, (n + 64) // 128 * 128)

    def matrix(self, longest=16384, shortest=64, least=1 << 20, most=1 << 26):
        """{rows, columns} of between `least` and `most` elements."""
        columns = self.extent(shortest, longest)
        if self.tiny:
            return {"rows": self.number(2, 40), "columns": columns}
        elements = self.number(least, most)
        return {"rows": max(1, min(elements // columns, 1 << 20)), "columns": columns}

    def product(self, most_flops, least=256, longest=8192, ragged=0.25):
        """{m, n, k}: a third of the products have three regular extents; in the share `ragged`, one or more extents are odd.
        (Kernels for those often spill registers: ten forms of them are compiled, which takes a minute of a processor.)"""
        kinds = ["aligned"] * 3
        if self.random.random() < 1 / 3:
            kinds = ["regular"] * 3
        if self.random.random() < ragged:
            kinds = self.one_of(["ragged"] * 3, ["regular", "ragged", "aligned"], ["ragged", "regular", "aligned"])
        while True:
            m, n, k = (self.extent(least, longest, kind) for kind in kinds)
            if self.tiny or 2 * m * n * k <= most_flops and m * n + n * k + m * k <= 1 << 27:
                return {"m": m, "n": n, "k": k}


# -- a function of the shapes for each name ------------------------------------------------------------------------------


def gemm(s, type=None, epilogue=None):
    type = type or s.one_of("bf16", "bf16", "bf16", *PRODUCT_TYPES)
    epilogue = epilogue or (s.one_of("none", "none", "bias_silu", "residual") if type == "bf16" else "none")
    most = {"f32": 3e10, "f64": 3e10, "tf32": 2e11}.get(type, 5e11)
    usual = type == "bf16" and epilogue == "none"
    layout = s.one_of("NN", "NT", "TN") if usual else "NT"
    least, longest = (256, 4096) if most < 1e11 else (s.one_of(256, 1024), 8192)
    size = s.product(most, least, longest, ragged=0.25 if usual else 0.1)
    return {"type": type, "epilogue": epilogue, "layout": layout} | size


def matmul(s):
    return {"type": s.one_of("bf16", "bf16", "f16"), "layout": s.one_of("NN", "NT")} | s.product(5e11, least=s.one_of(256, 1024))


def gemm_split_k(s):
    size = s.product(1e11, longest=1024)
    return {"layout": s.one_of("NN", "NT")} | size | {"k": s.extent(2048, 16384)}


def gemm_stream_k(s):
    return {"layout": s.one_of("NN", "NT")} | s.product(4e11, least=1024)


def linear(s):
    type = s.one_of("bf16", "bf16", "f16", "f8e4m3")
    return {"type": type, "m": s.one_of(1, 1, 2, 3, 8, 16, 33, 64), "n": s.extent(512, 16384), "k": s.extent(512, 8192)}


def batched_gemm(s):
    size = s.product(2e10, longest=2048)
    return {"type": s.one_of(*SIXTEEN_BITS), "batch": s.number(2, 16) if not s.tiny else 3} | size


def block_scaled_linear(s):
    return s.product(4e11)


def attention(s):
    causal = s.one_of(0, 1, 1)
    kv_heads = s.one_of(1, 2, 4, 8)
    keys = s.extent(128, 8192)
    length = {"queries": keys if causal else s.extent(128, 4096), "keys": keys}
    window = {"window": s.one_of(64, 256, 1000)} if causal and s.random.random() < 0.2 else {}
    batch = 1 if s.tiny else max(1, min(16, (1 << 14) // keys))
    heads = kv_heads * s.one_of(1, 1, 4)
    type, d = s.one_of("bf16", "bf16", "f16"), s.one_of(64, 64, 128, 128, 128, 80, 256)
    return {"type": type, "batch": batch, "heads": heads, "kv_heads": kv_heads, "d": d, "causal": causal} | length | window


def attention_backward(s):
    shapes = attention(s)
    keys = min(int(shapes["keys"]), 4096)
    return shapes | {"keys": keys, "queries": keys if shapes["causal"] else min(int(shapes["queries"]), 4096)}


def convolution(s):
    """Layers as residual, depth-wise and encoding networks have, over one to three axes; a quarter has other extents."""
    axes = s.one_of(1, 2, 2, 2, 2, 3)
    names = "dhw"[3 - axes :]
    kind = s.one_of("residual", "residual", "pointwise", "by_channel", "first")
    longest = {1: 4096, 2: 128, 3: 32}[axes]
    most = 1 << (10 if s.tiny else 21)
    extents = {1: (256, 1000, 4096), 2: (7, 14, 28, 56, 56, 112), 3: (8, 16, 28)}[axes]
    in_space = s.one_of(*extents) if s.random.random() < 0.75 else s.number(5, longest)
    if s.tiny:
        in_space = s.number(4, 6)
    channels = s.one_of(64, 96, 128, 192, 256, 384, 512) if s.random.random() < 0.75 else s.extent(8, 512, "ragged")
    outputs = s.one_of(channels, 64, 128, 256, 512)
    filter, stride, groups = s.one_of(3, 3, 3, 5), s.one_of(1, 1, 1, 2), 1
    if kind == "pointwise":
        filter = 1
    if kind == "by_channel":
        filter, outputs, groups, stride = s.one_of(3, 7), channels, channels, 1
    if kind == "first":
        channels, outputs, filter, stride = s.one_of(1, 3, 4), s.one_of(64, 96), s.one_of(4, 7), s.one_of(2, 4)
    dilation = 2 if kind == "residual" and s.random.random() < 0.15 else 1
    while s.tiny and max(channels, outputs) > 40:
        channels, outputs, groups = channels // 2, outputs // 2, max(1, groups // 2)
    pixels = in_space**axes
    images = max(1, min(64, s.number(most // 4, most) // pixels))
    if kind != "by_channel":  # 1e12 operations at most
        images = max(1, min(images, int(5e11 / (pixels * channels * outputs * filter**axes / stride**axes))))
    images = max(1, min(images, (1 << 28) // (pixels * max(channels, outputs))))
    space = {f"in_{n}": in_space for n in names} | {f"filter_{n}": filter for n in names}
    space |= {f"padding_{n}": dilation * (filter // 2) for n in names}
    return {"type": s.one_of("bf16", "bf16", "f16"), "axes": axes, "images": images, "channels": channels, "outputs": outputs,
            "groups": groups, "stride": stride, "dilation": dilation} | space  # fmt: skip


def convolution_transposed(s):
    """Steps of decoders: from half the extent to the whole, with half the channels."""
    axes, in_space = s.one_of(1, 2, 2), s.one_of(7, 14, 28, 64) if not s.tiny else 4
    channels = s.one_of(64, 128, 256, 512) if not s.tiny else 16
    filter, padding = s.one_of((2, 0), (4, 1), (3, 1))
    names = "dhw"[3 - axes :]
    space = {f"in_{n}": in_space for n in names} | {f"filter_{n}": filter for n in names} | {f"padding_{n}": padding for n in names}
    images = s.number(1, 16) if not s.tiny else 2
    return {"type": s.one_of("bf16", "f16"), "axes": axes, "images": images, "channels": channels, "outputs": channels // 2,
            "stride": 2} | space  # fmt: skip


def attention_varlen(s):
    kv_heads = s.one_of(2, 4)
    return {"type": s.one_of(*SIXTEEN_BITS), "heads": kv_heads * s.one_of(1, 4), "kv_heads": kv_heads, "d": s.one_of(64, 128),
            "length": s.number(50, 2000), "sequences": s.number(2, 12), "causal": s.one_of(0, 1)}  # fmt: skip


def decode_attention(s):
    kv_heads = s.one_of(2, 8)
    return {"type": s.one_of(*SIXTEEN_BITS), "batch": s.number(1, 32), "heads": kv_heads * s.one_of(1, 4, 8), "kv_heads": kv_heads,
            "keys": s.extent(500, 8192), "d": s.one_of(64, 128)}  # fmt: skip


def paged_attention(s):
    kv_heads = s.one_of(2, 8)
    return {"batch": s.number(1, 32), "heads": kv_heads * s.one_of(1, 4), "kv_heads": kv_heads, "page": s.one_of(16, 64, 128),
            "pages": s.number(8, 64), "d": s.one_of(64, 128)}  # fmt: skip


def softmax(s):
    return {"type": s.one_of("bf16", "bf16", "f16", "f32")} | s.matrix(longest=60000)


def norm(s):
    return {"type": s.one_of("bf16", "bf16", "f16", "f32")} | s.matrix(longest=24000)


def norm_gradient(s):
    return {"type": s.one_of("bf16", "bf16", "f16", "f32")} | s.matrix(longest=16000, most=1 << 25)


def add_norm(s):
    return s.matrix(longest=16000)


def two_types(s, **limits):
    return {"type": s.one_of("bf16", "f32")} | s.matrix(**limits)


def reduction(s):
    return two_types(s, longest=40000)


def whole_reduction(s):
    return two_types(s, longest=8000, most=1 << 24)


def top_k(s):
    return two_types(s, longest=40000, least=1 << 18, most=1 << 23) | {"k": s.one_of(1, 4, 8, 20)}


def unary(s):
    return two_types(s, longest=30000)


def binary(s):
    return two_types(s, longest=30000) | {"broadcast": s.one_of(0, 0, 1)}


def line(s):
    return {"n": s.extent(1 << 19, 1 << 26)}


def typed_line(s):
    return {"type": s.one_of("bf16", "f32")} | line(s)


def rope(s):
    return {"type": s.one_of("bf16", "f32"), "tokens": s.number(200, 20000), "heads": s.number(4, 32), "d": s.one_of(64, 128),
            "interleaved": s.one_of(0, 1)}  # fmt: skip


def embedding(s):
    return {"type": s.one_of("bf16", "f32"), "rows": s.number(1000, 60000), "d": s.extent(256, 8192), "tokens": s.number(100, 8000)}


def quantized_rows(s):
    return s.matrix(longest=16000)


def moe_route(s):
    return {"tokens": s.number(500, 30000), "experts": s.one_of(16, 60, 128, 256), "k": s.one_of(2, 4, 8)}


def moe_plan(s):
    return {"tokens": s.number(200, 8000), "experts": s.one_of(8, 60, 128), "k": s.one_of(2, 8)}


def grouped_gemm(s):
    return {"gathered": s.one_of(0, 1), "experts": s.one_of(8, 32), "blocks": s.number(4, 128), "n": s.extent(256, 4096),
            "k": s.extent(256, 4096)}  # fmt: skip


def moe_combine(s):
    return {"tokens": s.number(200, 8000), "k": s.one_of(2, 8), "d": s.extent(256, 4096)}


def plane(s):
    return {"m": s.number(2000, 12000), "n": s.extent(2000, 12000)}


# name: (how often beyond the one case that each has, its shapes)
LIBRARY = {
    "gemm": (26, gemm),
    "matmul": (16, matmul),
    "gemm_split_k": (3, gemm_split_k),
    "gemm_stream_k": (3, gemm_stream_k),
    "linear": (8, linear),
    "batched_gemm": (4, batched_gemm),
    "block_scaled_linear": (2, block_scaled_linear),
    "attention": (14, attention),
    "attention_backward": (6, attention_backward),
    "convolution": (12, convolution),
    "attention_with_lse": (2, attention),
    "convolution_transposed": (2, convolution_transposed),
    "attention_varlen": (4, attention_varlen),
    "decode_attention": (5, decode_attention),
    "paged_attention": (3, paged_attention),
    "softmax": (6, softmax),
    "log_softmax": (2, softmax),
    "rms_norm": (5, norm),
    "layer_norm": (5, norm),
    "add_rms_norm": (2, add_norm),
    "add_layer_norm": (2, add_norm),
    "softmax_backward": (2, softmax),
    "log_softmax_backward": (1, softmax),
    "rms_norm_backward": (2, norm_gradient),
    "layer_norm_backward": (2, norm_gradient),
    "cross_entropy": (2, softmax),
    "cross_entropy_backward": (2, softmax),
    "row_sum": (2, reduction),
    "row_mean": (1, reduction),
    "row_max": (1, reduction),
    "row_min": (1, reduction),
    "sum_all": (1, whole_reduction),
    "mean_all": (0, whole_reduction),
    "max_all": (1, whole_reduction),
    "min_all": (0, whole_reduction),
    "argmax": (2, reduction),
    "top_k": (2, top_k),
    "map": (0, unary),
    "relu": (0, unary),
    "sigmoid": (0, unary),
    "silu": (1, unary),
    "gelu": (1, unary),
    "gelu_tanh": (0, unary),
    "add": (2, binary),
    "sub": (0, binary),
    "mul": (1, binary),
    "div": (0, binary),
    "maximum": (0, binary),
    "minimum": (0, binary),
    "silu_mul": (1, binary),
    "gelu_mul": (0, binary),
    "map_in_place": (0, line),
    "saxpy": (1, line),
    "dropout": (1, typed_line),
    "rope": (2, rope),
    "embedding": (2, embedding),
    "transpose": (2, two_types),
    "convert": (1, line),
    "quantize_rows": (1, quantized_rows),
    "dequantize_rows": (1, quantized_rows),
    "quantize_blocks": (1, quantized_rows),
    "moe_route": (1, moe_route),
    "moe_plan": (1, moe_plan),
    "grouped_gemm": (3, grouped_gemm),
    "moe_combine": (1, moe_combine),
}
# Kernels of bench/generality, as a newcomer writes them.
USERS = {
    "matrix_vector": lambda s: {"n": s.extent(500, 8192), "k": s.extent(500, 8192)},
    "column_argmin": lambda s: s.matrix(),
    "column_variance": lambda s: s.matrix(),
    "softmax_columns": lambda s: {"rows": s.number(100, 1000), "columns": s.extent(1000, 60000)},
    "jacobi": plane,
    "box_blur": plane,
    "periodic_laplacian": plane,
    "depthwise_3x3": lambda s: {"batch": s.number(2, 8), "n": s.number(30, 128), "channels": s.extent(64, 512)},
    "gated_product": lambda s: s.product(2e11, longest=4096),
    "product_to_int8": lambda s: s.product(2e11, longest=4096),
    "rms_norm_gradient": lambda s: s.matrix(longest=4096, shortest=1024, most=1 << 24),
}
TWICE = [("gemm", gemm, {"type": t, "epilogue": "none"}) for t in PRODUCT_TYPES[1:]] + [
    ("gemm", gemm, {"type": "bf16", "epilogue": e}) for e in ("bias_silu", "residual")
]


def command_of(name, arguments, seed):
    return " ".join([name, *(f"{k}={v}" for k, v in arguments.items()), f"seed={seed}"])


def generate(seed, count=200, tiny=False, only=None):
    """The commands of `count` cases: each function first (in an order that depends on the seed, if `count` is too small for
    all), then more of them by weight. `only`: of these functions."""
    s = Shapes(seed, tiny)
    if only:
        names = [only[i % len(only)] for i in range(count)]
        return [command_of(name, LIBRARY[name][1](s), s.random.randrange(1, 1 << 30)) for name in names]
    first = [(name, shapes, {}) for name, (_, shapes) in LIBRARY.items()] + TWICE
    first += [(name, shapes, {}) for name, shapes in USERS.items()]
    weights = {name: weight for name, (weight, _) in LIBRARY.items()}
    if count < len(first):
        s.random.shuffle(first)
    more = s.random.choices(list(weights), list(weights.values()), k=max(0, count - len(first)))
    chosen = first[:count] + [(name, LIBRARY[name][1], {}) for name in more]
    return [command_of(name, shapes(s, **fixed), s.random.randrange(1, 1 << 30)) for name, shapes, fixed in chosen]


def name_of(command):
    return command.split(" ", 1)[0]


def arguments_of(command):
    return dict(word.split("=", 1) for word in command.split()[1:])


def selftest(program):
    offered = set(subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split())
    named = set(LIBRARY) | set(USERS)
    assert named <= offered, f"compare_bench does not have {sorted(named - offered)}"
    assert set(LIBRARY) & set(USERS) == set()
    for seed in (1, 20260101, 77):
        cases = generate(seed)
        assert cases == generate(seed), "a seed gives the same cases"
        assert len(cases) == 200 and {name_of(c) for c in cases} == named, "every function is there"
        assert cases != generate(seed + 1) and cases[:30] != generate(seed, 30)
        products = [arguments_of(c) for c in cases if name_of(c) in ("gemm", "matmul")]
        assert {a.get("type") for a in products} == set(PRODUCT_TYPES)
        extents = [int(a[k]) for a in products for k in "mnk"]
        assert any(n % 2 for n in extents) and any(n % 128 == 0 for n in extents) and any(n % 128 and n % 8 == 0 for n in extents)
        for a in products:
            assert int(a["m"]) * int(a["n"]) * int(a["k"]) <= 2.5e11
        assert all(int(arguments_of(c)["columns"]) <= 16384 for c in cases if name_of(c).startswith("add_"))
    print(f"{len(named)} functions at random shapes, the same for a seed")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=today())
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", metavar="NAME[,NAME]", type=lambda names: names.split(","))
    parser.add_argument("--selftest", metavar="PROGRAM")
    options = parser.parse_args()
    if options.selftest:
        return selftest(options.selftest)
    print("\n".join(generate(options.seed, options.count, options.tiny, options.only)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
