"""The peers in cuTile Python, NVIDIA's tile language over the same assembler: the naive sources of kernels.hpp, and
tuned variants (hints, unchecked bounds, fast division), of which the fastest is used as the peer.

Each maker gives {peer name: {variant's name: functions}} and a function that says how far off a result is. There is one
function per group of tensors, as in torch_peers; calling it enqueues the work once.

    cutile_peers.py                      compiles all of them for sm_90, on any machine: without a GPU, without PyTorch
    cutile_peers.py warm I N GROUP...    launches the plan's cases I, I + N, ... of these groups once, each at a small
                                         size, for later processes: cuTile Python keeps what the assembler gave on disk
"""

import math
import os
import sys

import cuda.tile as ct

# cuTile Python finds the assembler in PATH and hands it CUDA_HOME; of an older toolkit it then takes a libnvvm that
# does not understand it ("failed to compile Tile IR program"). Without the variable it finds its own.
for variable in ("CUDA_HOME", "CUDA_PATH"):
    os.environ.pop(variable, None)

Int = ct.Constant[int]
Flag = ct.Constant[bool]


@ct.kernel
def softmax(x, y, N: Int, FAST: Flag):
    row = ct.bid(0)
    if FAST:
        t = ct.load(x, (row, 0), (1, N), check_bounds=False, allow_tma=False).astype(ct.float32)
        t = ct.exp2((t - ct.max(t, axis=1, keepdims=True)) * 1.4426950408889634, flush_to_zero=True)
        s = ct.sum(t, axis=1, keepdims=True)
        y_tile = ct.truediv(t, s, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True).astype(ct.bfloat16)
        ct.store(y, (row, 0), y_tile, check_bounds=False, allow_tma=False)
    else:
        t = ct.load(x, (row, 0), (1, N)).astype(ct.float32)
        t = ct.exp(t - ct.max(t, axis=1, keepdims=True))
        ct.store(y, (row, 0), (t / ct.sum(t, axis=1, keepdims=True)).astype(ct.bfloat16))


@ct.kernel
def rms_norm(x, y, w, eps, N: Int, FAST: Flag):
    row = ct.bid(0)
    if FAST:
        t = ct.load(x, (row, 0), (1, N), check_bounds=False, allow_tma=False).astype(ct.float32)
        weight = ct.load(w, (0,), (N,), check_bounds=False, allow_tma=False).astype(ct.float32).reshape((1, N))
        scale = ct.rsqrt(ct.sum(t * t, axis=1, keepdims=True) * (1.0 / N) + eps, flush_to_zero=True)
        ct.store(y, (row, 0), (t * scale * weight).astype(ct.bfloat16), check_bounds=False, allow_tma=False)
    else:
        t = ct.load(x, (row, 0), (1, N)).astype(ct.float32)
        weight = ct.load(w, (0,), (N,)).astype(ct.float32).reshape((1, N))
        scale = ct.rsqrt(ct.sum(t * t, axis=1, keepdims=True) / N + eps)
        ct.store(y, (row, 0), (t * scale * weight).astype(ct.bfloat16))


@ct.kernel
def layer_norm(x, y, w, b, eps, N: Int, FAST: Flag):
    row = ct.bid(0)
    if FAST:
        t = ct.load(x, (row, 0), (1, N), check_bounds=False, allow_tma=False).astype(ct.float32)
        weight = ct.load(w, (0,), (N,), check_bounds=False, allow_tma=False).astype(ct.float32).reshape((1, N))
        bias = ct.load(b, (0,), (N,), check_bounds=False, allow_tma=False).astype(ct.float32).reshape((1, N))
        d = t - ct.sum(t, axis=1, keepdims=True) * (1.0 / N)
        scale = ct.rsqrt(ct.sum(d * d, axis=1, keepdims=True) * (1.0 / N) + eps, flush_to_zero=True)
        ct.store(y, (row, 0), (d * scale * weight + bias).astype(ct.bfloat16), check_bounds=False, allow_tma=False)
    else:
        t = ct.load(x, (row, 0), (1, N)).astype(ct.float32)
        weight = ct.load(w, (0,), (N,)).astype(ct.float32).reshape((1, N))
        bias = ct.load(b, (0,), (N,)).astype(ct.float32).reshape((1, N))
        d = t - ct.sum(t, axis=1, keepdims=True) / N
        scale = ct.rsqrt(ct.sum(d * d, axis=1, keepdims=True) / N + eps)
        ct.store(y, (row, 0), (d * scale * weight + bias).astype(ct.bfloat16))


@ct.kernel
def gemm(a, b, c, BM: Int, BN: Int, BK: Int, LATENCY: Int, BT: Flag, FAST: Flag):
    """c = a b, or a b^T if BT (b is [n, k] then); blocks take tiles in groups of 8 rows."""
    rows = ct.cdiv(c.shape[0], BM)
    columns = ct.cdiv(c.shape[1], BN)
    zero = ct.PaddingMode.ZERO
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        group = tile // (8 * columns)
        height = ct.minimum(rows - group * 8, 8)
        i = group * 8 + tile % (8 * columns) % height
        j = tile % (8 * columns) // height
        acc = ct.zeros((BM, BN), ct.float32)
        for k in range(ct.cdiv(a.shape[1], BK)):
            x = ct.load(a, (i, k), (BM, BK), padding_mode=zero, check_bounds=not FAST, latency=LATENCY)
            if BT:
                y = ct.load(b, (j, k), (BN, BK), padding_mode=zero, check_bounds=not FAST, latency=LATENCY).transpose()
            else:
                y = ct.load(b, (k, j), (BK, BN), padding_mode=zero, check_bounds=not FAST, latency=LATENCY)
            acc = ct.mma(x, y, acc)
        ct.store(c, (i, j), acc.astype(c.dtype), check_bounds=not FAST)


def scores(Q, k, head, j, BM, BN, D, FAST):
    """Of a query tile and the key tile j, unscaled."""
    K = ct.load(k, (head, j, 0), (1, BN, D), check_bounds=not FAST, latency=2).reshape((BN, D))
    return ct.mma(Q, K.transpose(), ct.zeros((BM, BN), ct.float32))


@ct.kernel
def attention(q, k, v, o, scale, BM: Int, BN: Int, D: Int, AHEAD: Flag, CAUSAL: Flag, FAST: Flag):
    """q, k, v, o are [batch * heads, length, D]; one query tile per block; BN divides the length. AHEAD: the next step's
    scores are issued before this step's softmax."""
    block = ct.bid(0)
    head = ct.bid(1)
    Q = ct.load(q, (head, block, 0), (1, BM, D), check_bounds=not FAST).reshape((BM, D))
    rows = block * BM + ct.arange(BM, dtype=ct.int32).reshape((BM, 1))
    m = ct.full((BM, 1), -math.inf, ct.float32)
    l = ct.zeros((BM, 1), ct.float32)
    acc = ct.zeros((BM, D), ct.float32)
    steps = ct.cdiv(k.shape[1], BN)
    if CAUSAL:
        steps = ct.minimum(steps, ct.cdiv((block + 1) * BM, BN))
    ready = scores(Q, k, head, 0, BM, BN, D, FAST) if AHEAD else 0.0
    for j in range(steps):
        if AHEAD:
            s = ready
            ready = scores(Q, k, head, ct.minimum(j + 1, steps - 1), BM, BN, D, FAST)
        else:
            s = scores(Q, k, head, j, BM, BN, D, FAST)
        s = s * (scale * 1.4426950408889634)
        if CAUSAL:
            if (j + 1) * BN > block * BM:
                s = ct.where(rows >= j * BN + ct.arange(BN, dtype=ct.int32).reshape((1, BN)), s, -math.inf)
        m2 = ct.maximum(m, ct.max(s, axis=1, keepdims=True))
        p = ct.exp2(s - m2, flush_to_zero=True)
        alpha = ct.exp2(m - m2, flush_to_zero=True)
        l = l * alpha + ct.sum(p, axis=1, keepdims=True)
        V = ct.load(v, (head, j, 0), (1, BN, D), check_bounds=not FAST, latency=2).reshape((BN, D))
        acc = ct.mma(p.astype(ct.bfloat16), V, acc * alpha)
        m = m2
    out = ct.truediv(acc, l, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
    ct.store(o, (head, block, 0), out.astype(ct.bfloat16).reshape((1, BM, D)), check_bounds=not FAST)


# The variants: tiles and hints with which this assembler's code was fastest on an H200, and their neighbours.
# cuTile Python 1.7.0 takes other numbers than 4 and 8 with bytecode 13.5 only, which it never writes outside of its
# development mode, whatever the assembler reads: "requires tileiras 13.5 or later. Current version is 13.4".
ROW_HINTS = [{}, {"num_worker_warps": 4}, {"num_worker_warps": 8}]
# hints, tile, latency of the loads, blocks take several tiles
GEMM_VARIANTS = [
    ({"num_worker_warps": 4}, (128, 64, 64), 4, False),
    ({"num_worker_warps": 4, "occupancy": 2}, (128, 128, 64), 2, False),
    ({"num_worker_warps": 4, "occupancy": 2}, (128, 128, 64), 2, True),
    ({"num_worker_warps": 8}, (256, 128, 64), 6, True),
    ({"num_worker_warps": 8, "num_ctas": 2}, (256, 256, 64), 4, True),
]
# of each head size: hints, tile, software pipelining of the scores
ATTENTION_VARIANTS = {
    64: [({"occupancy": 2, "num_worker_warps": 4}, (64, 128), ahead) for ahead in (False, True)],
    128: [({"occupancy": 2, "num_worker_warps": 4}, (64, 128), ahead) for ahead in (False, True)],
    256: [({"occupancy": 1, "num_worker_warps": 8}, (128, 128), False), ({"occupancy": 1}, (64, 128), False)],
}


def launcher(kernel, grid, arguments):
    import torch

    return lambda: ct.launch(torch.cuda.current_stream(), grid, kernel, arguments)


def named(hints, tile=(), **more):
    """The name of a variant in the results: its tile, hints and further arguments."""
    words = ["x".join(map(str, tile))] if tile else []
    words += [f"{key}={int(value)}" for key, value in (hints | more).items()]
    return " ".join(words) or "no hints"


def against(expected, result):
    """The relative norm of the error of what the first function of a variant has written; PyTorch computes the same."""
    import torch

    def error():
        want = expected()
        off = (torch.linalg.vector_norm(result - want) / torch.linalg.vector_norm(want)).item()
        result.zero_()
        return off

    return error


def rows(case):
    import torch
    import torch.nn.functional as F

    a = case.arguments
    n, columns = a["rows"], a["columns"]
    x = torch.randn(n, columns, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    w, b = (torch.randn(columns, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    kernel, arguments, expected = {
        "softmax": (softmax, (x, y), lambda: F.softmax(x, dim=-1)),
        "rms_norm": (rms_norm, (x, y, w, 1e-6), lambda: F.rms_norm(x, (columns,), w, 1e-6)),
        "layer_norm": (layer_norm, (x, y, w, b, 1e-6), lambda: F.layer_norm(x, (columns,), w, b, 1e-6)),
    }[case.name]
    tuned = {}
    for h in ROW_HINTS:
        hinted = kernel.replace_hints(**h) if h else kernel
        tuned[named(h)] = [launcher(hinted, (n,), (*arguments, columns, True))]
    naive = {"naive": [launcher(kernel, (n,), (*arguments, columns, False))]}
    return {"cuTile": naive, "cuTile tuned": tuned}, against(expected, y)


def products(case):
    import torch
    import torch_peers

    a = case.arguments
    m, n, k, bt = a["m"], a["n"], a["k"], a["layout"][1] == "T"
    if a["layout"][0] == "T":
        return {}, None
    dtype = torch_peers.DTYPES[a["dtype"]]
    tensors = [
        [torch_peers.normal(*shape, dtype=dtype) for shape in ((m, k), (n, k) if bt else (k, n), (m, n))]
        for _ in range(torch_peers.sets_for(2 * (m * k + k * n + m * n)))
    ]
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    variants = {}
    for hints, (bm, bn, bk), latency, persistent in GEMM_VARIANTS:
        tiles = math.ceil(m / bm) * math.ceil(n / bn)
        slots = processors * hints.get("occupancy", 1) // hints.get("num_ctas", 1)
        fast = m % bm == 0 and n % bn == 0 and k % bk == 0
        grid = (min(tiles, slots) if persistent else tiles,)
        kernel = gemm.replace_hints(**hints)
        name = named(hints, (bm, bn, bk), latency=latency, persistent=persistent)
        variants[name] = [launcher(kernel, grid, (*xyz, bm, bn, bk, latency, bt, fast)) for xyz in tensors]
    x, y, z = tensors[0]
    return {"cuTile tuned": variants}, against(lambda: torch.mm(x, y.t() if bt else y), z)


def heads(case):
    import torch
    import torch.nn.functional as F

    a = case.arguments
    count, length, d = a["batch"] * a["heads"], a["length"], a["d"]
    q, k, v = (torch.randn(count, length, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o = torch.empty_like(q)
    variants = {}
    for hints, (bm, bn), ahead in ATTENTION_VARIANTS[d]:
        arguments = (q, k, v, o, 1 / math.sqrt(d), bm, bn, d, ahead, bool(a["causal"]), True)
        name = named(hints, (bm, bn), ahead=ahead)
        variants[name] = [launcher(attention.replace_hints(**hints), (length // bm, count), arguments)]

    def expected():
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=bool(a["causal"]))[0]

    return {"cuTile tuned": variants}, against(expected, o)


MAKERS = {"softmax": rows, "rms_norm": rows, "layer_norm": rows, "gemm": products, "attention": heads}


def check(gpu):
    """Compiles every kernel and variant for `gpu`: cuTile Python and the assembler accept what will be measured."""
    import io

    from cuda.tile import compilation as cc

    def array(ndim, dtype=ct.bfloat16):
        return cc.ArrayConstraint(
            dtype,
            ndim,
            index_dtype=ct.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
            stride_constant=(*[None] * (ndim - 1), 1),
            stride_divisible_by=(*[16] * (ndim - 1), 1),
            shape_divisible_by=16,
            base_addr_divisible_by=16,
        )

    def constant(value):
        return cc.ConstantConstraint(value)

    eps = cc.ScalarConstraint(ct.float32)
    x, v, t = array(2), array(1), array(3)
    work = []
    for hints, fast in [({}, False), ({"num_worker_warps": 4}, True)]:
        flags = [constant(1024), constant(fast)]
        work += [(softmax, hints, [x, x, *flags]), (rms_norm, hints, [x, x, v, eps, *flags])]
        work.append((layer_norm, hints, [x, x, v, v, eps, *flags]))
    for hints, tile, latency, _ in GEMM_VARIANTS:
        for bt in (True, False):
            work.append((gemm, hints, [x, x, x, *map(constant, (*tile, latency, bt, True))]))
    for d, variants in ATTENTION_VARIANTS.items():
        for hints, tile, ahead in variants:
            for causal in (True, False):
                work.append((attention, hints, [t, t, t, t, eps, *map(constant, (*tile, d, ahead, causal, True))]))
    for kernel, hints, parameters in work:
        signature = cc.KernelSignature(parameters, cc.CallingConvention.cutile_python_v1())
        out = io.BytesIO()
        cc.export_kernel(
            kernel.replace_hints(**hints) if hints else kernel, [signature], out, gpu_code=gpu, output_format="cubin"
        )
        print(f"{kernel._pyfunc.__name__} {hints}: {len(out.getvalue())} bytes", flush=True)


def warm(first, step, groups):
    """Launches every variant of a part of the plan's cases at a small size: its kernels are then on disk."""
    import dataclasses

    import plan
    import torch

    cases = [case for case in plan.all_cases() if "cuTile" in case.peers and case.group in groups]
    extents = ("rows", "m", "n", "k", "length", "heads")
    seen = set()
    for case in cases[first::step]:
        small = {k: min(v, 512) if k in extents else v for k, v in case.arguments.items()}
        if (key := (case.name, *small.items())) in seen:
            continue
        seen.add(key)
        for variants in MAKERS[case.name](dataclasses.replace(case, arguments=small))[0].values():
            for functions in variants.values():
                try:
                    functions[0]()
                    torch.cuda.synchronize()
                except Exception as e:  # the measurement says it, too
                    print(f"{case.command()}: {type(e).__name__}: {str(e)[:200]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["warm"]:
        warm(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    else:
        check("sm_90")
