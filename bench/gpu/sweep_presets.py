"""Lists of cases for sweep.py: what decides the tables of the kernel library.

gemm: what the plan chooses for products of 16 bits, beside what it has no measurement of; 8-bit floats.

attention: tiles, pairs of processors that share keys, and what a pass does: products one step ahead (pipeline=0: not),
the masked keys in a loop of their own (split=0: not), long blocks first (order=0: not). tile= is the plain kernel with
a running maximum.

attention2: what the entry chooses by itself, beside one change each (128x128max: with a running maximum).

attention3: causal attention whose last tile of keys is no part of the loop (straight).

decode2: one sequence alone.

decode: keys a step, parts, CTAs and steps in flight of decoding attention, beside a pure read of as many bytes, and for
one kernel of each kind what starting before the predecessor's end gives (overlap=0: without).

few_rows: products of few rows whose table was changed, beside the rows that were taken before.

odd_rows: rows of 50257, 4097 and 1023, and the hints of their walks.

overlap: early starts of kernels of many short blocks, of few long ones, and short ones.

rows: odd rows (at least the better of torch.compile and PyTorch), row sums (4.4 TB/s), layer norm of 16384 (4.05): the
default first, then which loads of a loop over chunks go ahead, more blocks a multiprocessor, more warps.
"""

# k x n of the weights (plan.py).
LAYERS = [(2560, 6144), (4096, 2560), (2560, 19456), (9728, 2560), (5120, 10240), (8192, 5120), (25600, 5120)]
CHOSEN = "impl=matmul"


def product(m, n, k, alternatives, layout="NT"):
    return f"gemm m={m} n={n} k={k} dtype=bf16 layout={layout} : " + "; ".join(alternatives + [CHOSEN])


def blocks(*tiles):
    return [f"tile={tile}x64 form=blocks" for tile in tiles]


def dealt(*tiles):
    return [f"tile={tile}x64" for tile in tiles]


def plan():
    """What the plan takes, beside what it estimates to be as good and has no measurement of."""
    yield product(512, 51200, 5120, dealt("128x128", "128x320"))
    yield product(256, 5120, 8192, blocks("128x80"))
    yield product(512, 2560, 9728, blocks("128x80"))
    yield product(512, 2560, 4096, blocks("128x80"))
    yield product(256, 6144, 2560, blocks("128x96"))
    yield product(256, 19456, 2560, dealt("128x320"))
    yield product(512, 19456, 2560, dealt("128x320"))
    for n, k in ((10240, 5120), (51200, 5120), (5120, 25600)):
        yield product(2048, n, k, dealt("128x320"))
    for n, k in ((2560, 4096), (2560, 9728), (5120, 8192)):
        yield product(8192, n, k, dealt("128x320"))
    yield product(1000, 1160, 456, blocks("128x80"), layout="NN")
    for n in (2048, 4096):
        yield f"gemm m={n} n={n} k={n} dtype=f8e4m3 layout=NT : row=3,4,5; "


def decoding():
    for batch, length, parts in ((1, 8192, "16,64"), (1, 32768, "16,64"), (32, 8192, "2,4"), (8, 32768, "2,8")):
        yield f"row_sum rows={batch * length // 2} columns=4096 : ; | overlap=0"
        yield (f"decode batch={batch} length={length} : ; | overlap=0; parts={parts}; keys=64 | latency=2,4; "
               f"keys=64 | occupancy=3; keys=64,128 | occupancy=1 latency=6; keys=64 parts={parts} | latency=4; "
               "impl=naive; impl=naive | overlap=0")


def decoding_alone():
    """One sequence, and as many keys in several: parts, keys a step, CTAs and steps in flight, the plain kernels."""
    deep = "occupancy=1 latency=3"
    for length in (8192, 32768):
        yield f"row_sum rows={length // 2} columns=4096 : "
        yield (f"decode batch=1 length={length} : ; | {deep}; | warps=8; | occupancy=1 latency=2; parts=8,32; "
               f"keys=64; keys=64 | latency=6; keys=64 | occupancy=1 latency=6; keys=64 parts=32; impl=naive; "
               f"impl=naive steps={length // 2048}; impl=naive steps={length // 2048} | {deep}; | overlap=0")
    for batch, length, parts in ((32, 8192, "2"), (8, 32768, "1,4")):
        yield f"row_sum rows={batch * length // 2} columns=4096 : "
        yield f"decode batch={batch} length={length} : ; | {deep}; parts={parts}; keys=64"


def few_rows():
    """Products of few rows whose table was changed, beside the rows that were taken before."""
    first, second, third, fourth = LAYERS[:4]
    shape = lambda m, layer: f"linear m={m} n={layer[1]} k={layer[0]}"
    yield f"{shape(1, fourth)} : ; row=1,3"
    yield f"{shape(1, second)} : ; row=2"
    yield f"{shape(8, first)} : ; row=2"
    yield f"{shape(8, second)} : ; row=0"
    yield f"{shape(8, third)} : ; row=0"
    yield f"{shape(16, third)} : ; row=1"
    yield f"{shape(64, (5120, 51200))} : ; row=1"
    yield f"{shape(64, (2560, 151936))} : ; row=1"


def odd_rows():
    """The library's rows that begin at odd addresses: in flat tiles where that is what it chooses."""
    for name in ("softmax", "layer_norm", "rms_norm"):
        yield f"{name} rows=2670 columns=50257 impl=library : ; | overlap=0; | ahead=1"
        yield f"{name} rows=32760 columns=4097 impl=library : ; | ahead=2; | warps=2 ahead=2; | warps=1 occupancy=16"
        yield f"{name} rows=131200 columns=1023 impl=library : ; | overlap=0; | overlap=3"
    yield "softmax rows=4096 columns=32768 impl=library : ; | warps=16"


def early_starts():
    """What an early start costs and gains: 0 never, 2 and the successor is told, 3 and it is not."""
    for case in ("rms_norm rows=262144 columns=1024", "row_sum rows=131072 columns=1024",
                 "layer_norm rows=8192 columns=16384", "gemm m=1024 n=1024 k=1024 dtype=bf16 layout=NT",
                 "linear m=1 n=6144 k=2560", "decode batch=1 length=8192"):
        yield f"{case} : ; | overlap=0,2,3"


def overlap():
    for case in ("add n=268435456 dtype=f32", "softmax rows=65536 columns=4096", "rms_norm rows=262144 columns=1024",
                 "gemm m=1024 n=1024 k=1024 dtype=bf16 layout=NT", "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
                 "attention batch=2 heads=16 length=8192 d=128 causal=0",
                 "attention batch=8 heads=32 length=2048 d=64 causal=1"):
        yield f"{case} : ; | overlap=0"


def attention():
    pair = "ctas=2 warps=4 occupancy=2"  # two processors load the keys of both once
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


def attention_defaults():
    """The entry's own choice beside one change each: of hints, of passes, of the softmax and the tile."""
    pair = "library=128x128 | ctas=2 warps=4 occupancy=2"
    changes = {
        64: ["| pipeline=0", "library=64x64", "library=64x64 | occupancy=3"],
        128: ["| pipeline=0", "library=64x64", "library=64x64 | occupancy=3", pair],
        256: ["library=128x64 | pipeline=0", "| latency=1"],
    }
    for batch, length in ((8, 2048), (2, 8192)):
        for d, some in changes.items():
            for causal in (1, 0):
                shape = f"attention batch={batch} heads={2048 // d} length={length} d={d} causal={causal}"
                more = ["| order=0"] + (["tile=64x128 | split=0,1"] if d == 128 else []) if causal else []
                yield f"{shape} : ; " + "; ".join(some + more)


def attention_straight():
    for length, depths in ((2048, (64, 128)), (8192, (64, 128)), (4096, (64,))):
        for d in depths:
            shape = f"attention batch={16384 // length} heads={2048 // d} length={length} d={d} causal=1"
            yield f"{shape} : ; library=64x128straight; library=64x64straight | occupancy=2,3"


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
    "attention": [*attention()],
    "attention2": [*attention_defaults()],
    "attention3": [*attention_straight()],
    "decode2": [*decoding_alone()],
    "decode": [*decoding(), *overlap()],
    "odd_rows": [*odd_rows()],
    "overlap": [*early_starts()],
    "few_rows": [*few_rows()],
    "gemm": [*plan()],
    "rows": [*rows()],
}
