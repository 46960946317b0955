"""Lists of cases for sweep.py, from which the tables of the kernel library were chosen. The first are open questions.

layer_norm: rows of 1000 elements (torch.compile is ahead there): warps and CTAs of the library's kernel, and the naive
one.

short_causal: causal attention over 2048 keys, where most of a block's keys are masked: tiles and passes (cuDNN is ahead
with d = 256), and for d = 64 and 128 the last tile of keys in the loop or after it (straight).

small_m: products of 256 and 512 rows: fewer tiles than SMs, or a last wave that is not full; split-K.

layers: products of transformer layers in which cuBLAS is ahead: tiles, and split-K for few rows.

ragged: a product whose extents are only multiples of 8.

attention: tiles, pairs of SMs that share keys, and single passes: software pipelining of products (pipeline=0: off), the
masked keys in a separate loop (split=0: off), long blocks first (order=0: off). tile= is the plain kernel with
a running maximum.

early: tensors without an in-flight writer are read before the wait for the predecessor, and where that gained the last
time the predecessor triggers early; without (early=0), and with a predecessor that always triggers early (overlap=2).

decode: keys per step, KV splits, CTAs and steps in flight of decoding attention, compared with a pure read of as many
bytes, and for one kernel of each kind the gain of programmatic dependent launch (overlap=0: without).

rows: odd rows (at least the better of torch.compile and PyTorch), row sums (4.4 TB/s), layer norm of 16384 (4.05): the
default first, then software pipelining of the loads of a loop over chunks, more blocks per SM, more warps.
"""


def gemm(m, n, k, alternatives, layout="NT"):
    """The library's choice, then the alternatives."""
    return f"gemm m={m} n={n} k={k} dtype=bf16 layout={layout} : " + "; ".join(["impl=matmul", *alternatives])


def layer_norm():
    shape = "layer_norm rows=268435 columns=1000"
    hints = "| warps=1,2,4; | warps=1 occupancy=8,16,24; | warps=2 occupancy=8,12; | warps=4 occupancy=4,6,8"
    yield f"{shape} : impl=library; impl=naive; " + "; ".join(f"impl=library {h}" for h in hints.split("; "))


def short_causal():
    shape = "attention batch=8 heads=8 length=2048 d=256 causal=1"
    tiles = ("128x128", "128x64")
    more = [f"library={t}{o}" for t in tiles for o in ("", " | split=0", " | order=0", " | occupancy=1,2")]
    # With 8 warps and pipelined products the assembler (13.5.37) rejects 64x128.
    more += ["library=64x128 | pipeline=0", "library=64x128 | warps=4", "library=64x128 | warps=4 pipeline=0"]
    yield f"{shape} : ; library=128x128max; tile=64x128; tile=128x128; " + "; ".join(more)
    for d in (64, 128):
        shape = f"attention batch=8 heads={2048 // d} length=2048 d={d} causal=1"
        yield (f"{shape} : ; library=64x128; library=64x64; library=128x128; library=64x128straight; "
               "library=64x64straight | occupancy=2,3")


def small_m():
    forms = [
        "tile=128x320x64",
        "tile=128x256x64",
        "tile=128x160x64 form=blocks",
        "tile=128x160x64 parts=2,4",
        "tile=128x128x64 parts=2,3",
        "tile=128x256x64 parts=2,4",
        "impl=stream_k",
    ]
    for m in (256, 512):
        for k in (4096, 9728):
            yield gemm(m, 2560, k, forms)
    for n, k in ((19456, 2560), (10240, 5120), (6144, 2560), (51200, 5120)):
        yield gemm(256, n, k, forms)


def layers():
    tiles = [
        "tile=256x256x64 | latency=4,6",
        "tile=128x256x64",
        "tile=128x320x64",
        "tile=256x128x64",
        "tile=128x128x64",
        "tile=256x192x64 form=blocks",
    ]
    split = ["tile=128x160x64 parts=2", "tile=128x128x64 parts=2,3", "tile=128x192x64"]
    for m, n, k in ((512, 19456, 2560), (512, 5120, 8192), (512, 5120, 25600), (256, 5120, 8192), (256, 5120, 25600)):
        yield gemm(m, n, k, tiles + split)
    for m, n, k in ((2048, 6144, 2560), (2048, 2560, 9728), (2048, 2560, 4096), (2048, 10240, 5120), (8192, 6144, 2560),
                    (8192, 2560, 4096), (8192, 2560, 9728), (8192, 10240, 5120)):
        yield gemm(m, n, k, tiles)


def ragged():
    tiles = ("128x256", "128x320", "256x192", "128x128", "256x256", "256x288")
    forms = [f"tile={tile}x64 form={form}" for tile in tiles for form in ("blocks", "persistent")]
    yield gemm(4104, 4088, 4120, forms, "NN")


def decoding():
    for batch, length, parts in ((1, 8192, "16,64"), (1, 32768, "16,64"), (32, 8192, "2,4"), (8, 32768, "2,8")):
        yield f"row_sum rows={batch * length // 2} columns=4096 : ; | overlap=0"
        yield (f"decode batch={batch} length={length} : ; | overlap=0; parts={parts}; keys=64 | latency=2,4; "
               f"keys=64 | occupancy=3; keys=64,128 | occupancy=1 latency=6; keys=64 parts={parts} | latency=4; "
               "impl=naive; impl=naive | overlap=0")


def early():
    for case in ("row_sum rows=4096 columns=4096", "row_sum rows=16384 columns=4096", "decode batch=1 length=8192",
                 "decode batch=1 length=32768", "decode batch=8 length=32768", "linear m=1 n=2560 k=4096",
                 "linear m=1 n=19456 k=2560", "linear m=8 n=2560 k=9728", "linear m=64 n=6144 k=2560",
                 "gemm m=1024 n=1024 k=1024 dtype=bf16 layout=NT", "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
                 "gemm m=512 n=2560 k=4096 dtype=bf16 layout=NT", "softmax rows=5341 columns=50257",
                 "attention batch=8 heads=8 length=2048 d=256 causal=1",
                 "attention batch=2 heads=16 length=8192 d=128 causal=0"):
        yield f"{case} : ; | early=0; | overlap=2"


def overlap():
    for case in ("add n=268435456 dtype=f32", "softmax rows=65536 columns=4096", "rms_norm rows=262144 columns=1024",
                 "gemm m=1024 n=1024 k=1024 dtype=bf16 layout=NT", "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
                 "attention batch=2 heads=16 length=8192 d=128 causal=0",
                 "attention batch=8 heads=32 length=2048 d=64 causal=1"):
        yield f"{case} : ; | overlap=0"


def attention():
    pair = "ctas=2 warps=4 occupancy=2"  # two SMs load the keys of both once
    tiles = {
        64: ["library=64x128", "library=128x128", f"library=128x128 | {pair}"],
        128: ["library=64x128", "library=128x128", f"library=128x128 | {pair}", "library=64x64"],
        256: ["library=128x128max", "library=128x128", "library=128x64"],
    }
    heads, plain = {64: 32, 128: 16, 256: 8}, {64: "64x128", 128: "64x128", 256: "128x128"}
    for batch, length in ((2, 8192), (8, 2048)):
        for d, some in tiles.items():
            shape = f"attention batch={batch} heads={heads[d]} length={length} d={d}"
            more = [f"{some[0]} | pipeline=0", f"tile={plain[d]}"]
            yield f"{shape} causal=0 : " + "; ".join(some + more)
            more += [f"{some[0]} | order=0", f"{some[0]} | split=0"]
            yield f"{shape} causal=1 : " + "; ".join(some + more)


def rows():
    def row(name, columns, alternatives, impl=" impl=library"):
        # 2^27 elements, half of what plan.py measures: beyond the caches, and quick to make.
        return f"{name} rows={(1 << 27) // columns} columns={columns}{impl} : ; {alternatives}"

    yield row("softmax", 50257, "| ahead=0; | warps=16 occupancy=2; | warps=8 occupancy=3 ahead=0; | overlap=0")
    yield row("layer_norm", 50257, "| ahead=0; | warps=16 occupancy=2; | overlap=0")
    yield row("rms_norm", 50257, "| ahead=0; | warps=16 occupancy=2")
    yield row("softmax", 4097, "| warps=4; | overlap=0")
    yield row("layer_norm", 4097, "| warps=4")
    yield row("rms_norm", 4097, "| warps=4")
    for name, warps in (("softmax", 2), ("layer_norm", 2), ("rms_norm", 1)):
        yield row(name, 1023, f"| warps={warps}; | overlap=0")
        yield row(name, 1000, "| overlap=0")
    yield row("row_sum", 1024, "| warps=4; | overlap=0", "")
    yield row("row_sum", 4096, "| overlap=0", "")
    yield row("layer_norm", 16384, "| occupancy=2; | warps=16 occupancy=2; | overlap=0", "")
    yield row("softmax", 16384, "| occupancy=2; | overlap=0", "")
    yield row("layer_norm", 4096, "| occupancy=12", "")
    yield row("softmax", 32768, "| ahead=2")


PRESETS = {
    "early": [*early()],
    "layer_norm": [*layer_norm()],
    "short_causal": [*short_causal()],
    "small_m": [*small_m()],
    "layers": [*layers()],
    "ragged": [*ragged()],
    "attention": [*attention()],
    "decode": [*decoding(), *overlap()],
    "rows": [*rows()],
}
