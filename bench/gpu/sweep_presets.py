"""Lists of cases for sweep.py: what decides the tables of the kernel library.

gemm: which tile, hints and way of splitting each product of issue 4 takes (kGemmTiles, kSplitRows, choose_hints). Every
case ends with what the library chooses by itself, so that the sweep also says how good the choice is.

parts: pieces of parts for the problems whose waves they fill, with as many steps in flight as choose_hints gives them
and (128x160) one less; 256 rows also by one CTA.

gemm2: after that: what the plan chooses, beside what it has no measurement of.

attention: tiles, pairs of processors that share keys, and what a pass does: products one step ahead (pipeline=0: not),
the masked keys in a loop of their own (split=0: not), long blocks first (order=0: not). tile= is the plain kernel with
a running maximum.

attention2: what the entry chooses by itself, beside one change each (128x128max: with a running maximum).

decode2: one sequence alone.

decode: keys a step, parts, CTAs and steps in flight of decoding attention, beside a pure read of as many bytes; tiles
of products of few rows (kOneRow, kFewRows); and for one kernel of each kind what starting before the predecessor's end
gives (overlap=0: without).

few_rows2: products of few rows again, with the tiles and hints that the first sweep suggested.

odd_rows: rows of 50257, 4097 and 1023, and the hints of their walks.

overlap: early starts of kernels of many short blocks, of few long ones, and short ones.

rows: odd rows (at least the better of torch.compile and PyTorch), row sums (4.4 TB/s), layer norm of 16384 (4.05): the
default first, then which loads of a loop over chunks go ahead, more blocks a multiprocessor, more warps.
"""

# k x n of the weights (plan.py).
LAYERS = [(2560, 6144), (4096, 2560), (2560, 19456), (9728, 2560), (5120, 10240), (8192, 5120), (25600, 5120)]
CHOSEN = "impl=matmul"


def product(m, n, k, alternatives, layout="NT", dtype="bf16"):
    return f"gemm m={m} n={n} k={k} dtype={dtype} layout={layout} : " + "; ".join(alternatives + [CHOSEN])


def squares():
    pair = "ctas=2 warps=4 occupancy=1"
    yield product(1024, 1024, 1024, [
        "tile=64x128x64 form=blocks | latency=4,6", "tile=64x128x64 form=blocks | warps=8",
        "tile=128x64x64", "tile=128x80x64", f"tile=128x128x64 form=blocks | {pair} latency=4,6", "row=2"])
    yield product(2048, 2048, 2048, [
        "tile=128x128x64 form=persistent,blocks", "tile=128x128x64 form=blocks | occupancy=1 latency=6",
        f"tile=256x128x64 | {pair} latency=4,6", "tile=256x128x64", "tile=256x256x64", "tile=256x192x64"])
    yield product(4096, 4096, 4096, [
        "tile=256x256x64", "tile=256x256x64 | latency=4", "tile=128x128x64", f"tile=256x128x64 | {pair} latency=6",
        "tile=256x192x64"])


def short_waves():
    for n in (1536, 3072, 5120):
        yield product(n, n, n, ["tile=128x160x64,128x192x64,256x160x64,256x192x64,256x96x64", "impl=stream_k"])


def fullness(m, n, rows, columns, processors=132):
    """The share of its waves that a product's tiles fill."""
    tiles = -(-m // rows) * -(-n // columns)
    return tiles / (-(-tiles // processors) * processors)


def layers():
    pair, deep = "ctas=2 warps=4 occupancy=1", "occupancy=1 latency=6"
    # Rows, columns, processors that can each have one, hints.
    tiles = [(256, 160, 66, ""), (256, 192, 66, ""), (128, 128, 132, ""), (256, 256, 66, ""), (64, 160, 132, ""),
             (128, 96, 132, deep), (128, 80, 132, deep), (128, 160, 66, f"{pair} latency=4"),
             (256, 80, 66, "ctas=2 warps=8 occupancy=1 latency=4")]
    for k, n in LAYERS:
        for m in (256, 512, 2048):
            if m == 2048 and (k, n) in ((2560, 19456), (5120, 10240)):
                continue  # were measured at cuBLAS's speed
            best = max(fullness(m, n, *tile[:3]) for tile in tiles)
            full = [tile for tile in tiles if fullness(m, n, *tile[:3]) > (0.9 if m == 2048 else 0.85) * best]
            some = [f"tile={rows}x{columns}x64 | {hints}" for rows, columns, _, hints in full]
            if k >= 4096 and m * n < 1.4e6:
                some += ["impl=split_k row=3 parts=3", "impl=split_k row=7 parts=2,4"]
            yield product(m, n, k, some)


def parts():
    def tiles(m, n, k, *some):
        return f"gemm m={m} n={n} k={k} dtype=bf16 layout=NT : " + "; ".join(f"tile={tile}" for tile in some)

    yield tiles(1536, 1536, 1536, "128x160x64", "128x192x64", "64x192x64", "256x160x64", "128x96x64",
                "128x160x64 | latency=5")
    yield tiles(3072, 3072, 3072, "128x160x64", "128x192x64", "256x192x64", "256x160x64")
    yield tiles(5120, 5120, 5120, "128x160x64", "128x192x64", "256x192x64", "256x160x64", "128x160x64 | latency=5",
                "256x160x64 | ctas=1 latency=4", "256x192x64 | ctas=1 latency=3")
    yield tiles(256, 2560, 4096, "64x160x64", "128x80x64")
    yield tiles(512, 2560, 4096, "128x160x64", "64x160x64", "128x80x64")
    for k in (4096, 9728):
        yield tiles(2048, 2560, k, "128x160x64", "256x160x64")
    two = "form=blocks | occupancy=2 latency=5"
    yield tiles(256, 6144, 2560, "128x96x64", "64x192x64", f"128x96x64 {two}", "128x96x64 form=blocks")
    yield tiles(512, 6144, 2560, "128x192x64", "256x192x64")
    for m in (256, 512):
        yield tiles(m, 10240, 5120, "128x160x64", "256x160x64")
    yield tiles(256, 5120, 8192, "64x160x64", "128x80x64", f"128x80x64 {two}", "128x80x64 form=blocks")
    yield tiles(512, 5120, 8192, "128x160x64", "256x160x64")
    for n in (2048, 4096):  # 128x128 of 8-bit floats with 8 warps: as parts were, a wait for each product
        yield f"gemm m={n} n={n} k={n} dtype=f8e4m3 layout=NT : row=3,4 | ; row=3 | warps=4; row=3 | warps=4 latency=4"


def ragged():
    for m, n, k in ((1000, 1160, 456), (2040, 3080, 1528), (4104, 4088, 4120), (8184, 1048, 2056)):
        yield product(m, n, k, ["tile=128x128x64,128x80x64,256x256x64,256x192x64,256x160x64"], layout="NN")


def fp8():
    yield ("gemm m=2048 n=2048 k=2048 dtype=f8e4m3 layout=NT : row=3,4,5 | warps=8; row=3,4 | warps=8 latency=4; "
           "row=4 | ctas=2 warps=8 latency=4")


def blocks(*tiles):
    return [f"tile={tile}x64 form=blocks" for tile in tiles]


def dealt(*tiles):
    return [f"tile={tile}x64" for tile in tiles]


def plan():
    """What the plan takes, beside what it estimates to be as good and has no measurement of."""
    six = "latency=6"
    yield product(5120, 5120, 5120, [*dealt("128x320", "128x128")])
    for k in (4096, 9728):
        yield product(2048, 2560, k, dealt("128x320"))
    yield product(512, 10240, 5120, dealt("128x320"))
    yield product(256, 6144, 2560, [*blocks("128x96"), f"tile=128x96x64 form=blocks | {six}"])
    yield product(1000, 1160, 456, [*blocks("128x80", "64x128", "64x160", "256x192"),
                                    f"tile=128x80x64 form=blocks | {six}"], layout="NN")
    for m, n, k in ((2040, 3080, 1528), (4104, 4088, 4120), (8184, 1048, 2056)):
        yield product(m, n, k, blocks("256x192"), layout="NN")
    yield product(512, 2560, 4096, [*dealt("128x128"), *blocks("128x80"), f"tile=128x80x64 form=blocks | {six}"])
    for m, n, k in ((256, 2560, 4096), (256, 2560, 9728), (512, 2560, 9728), (256, 5120, 8192), (512, 5120, 8192)):
        yield product(m, n, k, [])
    yield product(2048, 5120, 8192, dealt("128x320"))
    yield product(512, 51200, 5120, dealt("128x192"))
    yield product(2048, 19456, 2560, dealt("256x256"))
    yield product(256, 51200, 5120, [*dealt("128x128"), "impl=stream_k"])
    yield product(3072, 3072, 3072, ["impl=stream_k"])
    yield product(2048, 2048, 2048, blocks("256x128"))
    for layout in ("NN", "TN"):
        yield product(2048, 2048, 2048, dealt("256x128", "256x256"), layout=layout)
        yield product(4096, 4096, 4096, dealt("128x256"), layout=layout)
    yield product(8192, 8192, 8192, dealt("128x192", "128x256"))


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
    for k, n in [*LAYERS[:4], (2560, 151936), (5120, 51200)]:
        shape = f"n={n} k={k}"
        yield f"linear m=1 {shape} : row=1,2,3; row=1 | warps=4; | ahead=2; | overlap=0; "
        yield f"linear m=8 {shape} : row=0,1,2; | occupancy=1 latency=4; | overlap=0; "
        yield f"linear m=16 {shape} : row=0,1,2; | overlap=0; "
        yield f"linear m=64 {shape} : row=0,1; | occupancy=2 latency=3; "
    yield "gemv m=1 n=6144 k=2560 : ; | overlap=0"  # writes where it is told: what linear's allocations cost


def few_rows_again():
    """Products of few rows whose table is still open, also where each tells its successor (overlap=2)."""
    first, second, third, fourth = LAYERS[:4]
    shape = lambda m, layer: f"linear m={m} n={layer[1]} k={layer[0]}"
    yield f"{shape(1, fourth)} : ; row=1,2; row=1 | warps=4; | overlap=2"
    yield f"{shape(1, second)} : ; row=1 | warps=4; | overlap=2"
    yield f"{shape(1, first)} : ; | overlap=2"
    yield f"{shape(8, first)} : ; row=0; | overlap=2"
    yield f"{shape(8, third)} : ; row=1,2; | overlap=2"
    yield f"{shape(16, fourth)} : ; | overlap=2"
    yield f"{shape(64, fourth)} : ; row=3 | latency=3; row=1; | overlap=2"
    yield f"{shape(64, second)} : ; row=1; | overlap=2"
    for layer in ((2560, 151936), (5120, 51200)):
        yield f"{shape(64, layer)} : ; row=1,4; row=4 | occupancy=2 latency=2"


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
    "decode2": [*decoding_alone()],
    "decode": [*decoding(), *few_rows(), *overlap()],
    "odd_rows": [*odd_rows()],
    "overlap": [*early_starts()],
    "few_rows2": [*few_rows_again()],
    "gemm": [*squares(), *short_waves(), *layers(), *ragged(), *fp8()],
    "parts": [*parts()],
    "gemm2": [*plan()],
    "rows": [*rows()],
}
