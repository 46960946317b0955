"""Lists of cases for sweep.py: what decides the tables of the kernel library.

gemm: which tile, hints and way of splitting each product of issue 4 takes (kGemmTiles, kSplitRows, choose_hints). Every
case ends with what the library chooses by itself, so that the sweep also says how good the choice is.
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


def layers():
    for k, n in LAYERS:
        small = ["tile=128x96x64,128x80x64,256x160x64", "tile=256x96x64,256x80x64 | ctas=2"]
        splits = ["impl=split_k row=3,6 parts=2,4"] if k >= 4096 else []
        yield product(256, n, k, small + ["tile=64x160x64"] + splits)
        yield product(512, n, k, small + ["tile=256x192x64"] + (splits if n < 4096 else []))
        if (k, n) not in ((2560, 19456), (5120, 10240)):  # were measured at cuBLAS's speed
            yield product(2048, n, k, ["tile=128x160x64,256x160x64,256x256x64,128x128x64"])


def ragged():
    for m, n, k in ((1000, 1160, 456), (2040, 3080, 1528), (4104, 4088, 4120), (8184, 1048, 2056)):
        yield product(m, n, k, ["tile=128x128x64,128x80x64,256x256x64,256x192x64,256x160x64"], layout="NN")


def fp8():
    yield ("gemm m=2048 n=2048 k=2048 dtype=f8e4m3 layout=NT : row=3,4,5 | warps=8; row=3,4 | warps=8 latency=4; "
           "row=4 | ctas=2 warps=8 latency=4")


PRESETS = {"gemm": [*squares(), *short_waves(), *layers(), *ragged(), *fp8()]}
