"""Hints, roundings, helper functions, early returns, and element types and sizes that are rare."""
import cuda.tile as ct
import numpy as np

from launches import Input, Launch, Number, Output, blocks, case


@ct.kernel(num_ctas=ct.ByTarget(sm_100=2, default=1), occupancy=4, opt_level=2)
def hinted(x, out, tile: ct.Constant[int]):
    """Hints for the kernel and for its accesses."""
    at = (ct.bid(0), ct.bid(1))
    t = ct.load(x, at, shape=(tile, tile), latency=3, allow_tma=False)
    ct.store(out, at, ct.exp2(t, flush_to_zero=True) + ct.sqrt(ct.abs(t), rounding_mode=ct.RoundingMode.APPROX), latency=2, allow_tma=True)


@case(hinted)
def _(random):
    m, n = random.extent(40), random.extent(40)
    x = random.array("f32", m, n)
    return Launch([x, Output("f32", np.exp2(x.numbers) + np.sqrt(np.abs(x.numbers)), 1e-5), 16], (blocks(m, 16), blocks(n, 16)))


@ct.kernel
def rounded(x, y, up, down, narrow, tile: ct.Constant[int]):
    """Directed roundings enclose the exact sum."""
    at = (ct.bid(0),)
    a, b = ct.load(x, at, shape=(tile,)), ct.load(y, at, shape=(tile,))
    ct.store(up, at, ct.add(a, b, rounding_mode=ct.RoundingMode.RP))
    ct.store(down, at, ct.add(a, b, rounding_mode=ct.RoundingMode.RM))
    ct.store(narrow, at, ct.mul(a, b, rounding_mode=ct.RoundingMode.RZ))


@case(rounded)
def _(random):
    n = random.extent(100)
    x, y = random.array("f32", n), random.array("f32", n, scale=1e-3)
    total, product = x.numbers + y.numbers, x.numbers * y.numbers
    near = total.astype(np.float32)
    up = np.where(near < total, np.nextafter(near, np.float32(np.inf)), near).astype(np.float32)
    down = np.where(near > total, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)
    near = product.astype(np.float32)
    zero = np.where(np.abs(near) > np.abs(product), np.nextafter(near, np.float32(0)), near)
    bits = [Output("f32", r.astype(np.float64), 1e-300) for r in (up, down, zero)]
    return Launch([x, y, *bits, 32], (blocks(n, 32),))


def clipped(t, most):
    def smaller(a):
        return ct.minimum(a, most)
    return smaller(t) if most > 0 else t


@ct.kernel
def helped(x, out, tile: ct.Constant[int]):
    """Functions that call functions: their lines have call sites."""
    i = ct.bid(0)
    t = ct.load(x, (i,), shape=(tile,))
    ct.store(out, (i,), clipped(t, 0.5) + clipped(-t, 0.25))


@case(helped)
def _(random):
    n = random.extent(100)
    x = random.array("f32", n)
    return Launch([x, Output("f32", np.minimum(x.numbers, 0.5) + np.minimum(-x.numbers, 0.25)), 32], (blocks(n, 32),))


@ct.kernel
def returning(x, out, tile: ct.Constant[int]):
    """Blocks that have nothing to do return; a loop ends the kernel."""
    i = ct.bid(0)
    if i % 3 == 1:
        return
    for j in range(4):
        t = ct.load(x, (i,), shape=(tile,))
        if ct.max(t) > j:
            continue
        ct.store(out, (i,), t + j)
        return


@case(returning)
def _(random):
    tiles = random.extent(9)
    x, out = random.array("i32", tiles * 8, scale=4), random.array("i32", tiles * 8)
    x.stored = x.stored - random.integers(0, 4, tiles).repeat(8).astype(np.int32)
    rows = x.stored.reshape(tiles, 8)
    expected = out.stored.reshape(tiles, 8).copy()
    for i in range(tiles):
        least = max(0, rows[i].max())
        if i % 3 != 1 and least < 4:
            expected[i] = rows[i] + least
    out.expected = expected.reshape(-1)
    return Launch([x, out, 8], (tiles,))


@ct.kernel
def small_integers(x, y, total, order, flags, tile: ct.Constant[int]):
    at = (ct.bid(0),)
    a, b = ct.load(x, at, shape=(tile,)), ct.load(y, at, shape=(tile,))
    ct.store(total, at, a * b - (a >> 1))
    ct.store(order, at, ct.where((a > b) ^ (a == -b), a, ct.negative(b)))
    ct.store(flags, at, (a < b) & ~(b == 0) | (a != a))


@case(small_integers)
def _(random):
    n = random.extent(200)
    x, y = random.array("i8", n, scale=127), random.array("i8", n, scale=127)
    a, b, one = x.stored, y.stored, np.int8(1)
    order = np.where((a > b) ^ (a == -b), a, -b)
    return Launch([x, y, Output("i8", a * b - (a >> one)), Output("i8", order), Output("bool", (a < b) & (b != 0)), 64], (blocks(n, 64),))


@ct.kernel
def counts(x, ascending, descending, any_above, all_above, most, limit, tile: ct.Constant[int]):
    """Integer scans and reductions, of truth values too."""
    row = ct.bid(0)
    t = ct.load(x, (row, 0), shape=(1, tile), padding_mode=ct.PaddingMode.ZERO)
    inside = (ct.arange(tile, dtype=ct.int32) < x.shape[1])[None, :]
    ct.store(ascending, (row, 0), ct.cumsum(t, axis=1))
    ct.store(descending, (row, 0), ct.scan(t, 1, lambda a, b: ct.maximum(a, b), 0, reverse=True))
    ct.store(any_above, (row,), ct.reduce((t > limit) & inside, 1, lambda a, b: a | b, False))
    ct.store(all_above, (row,), ct.reduce((t > limit) | ~inside, 1, lambda a, b: a & b, True))
    ct.store(most, (row,), ct.max(t, axis=1))


@case(counts)
def _(random):
    rows, columns = random.extent(9), random.extent(32)
    x = Input("u32", random.integers(0, 1 << 32, (rows, columns), dtype=np.uint32))
    limit = int(random.integers(0, 1 << 31))
    backward = np.flip(np.maximum.accumulate(np.flip(x.stored, 1), axis=1), 1)
    above = x.stored > limit
    return Launch([x, Output("u32", x.stored.cumsum(axis=1, dtype=np.uint32)), Output("u32", backward), Output("bool", above.any(axis=1)),
                   Output("bool", above.all(axis=1)), Output("u32", x.stored.max(axis=1)), Number("u32", limit), 32], (rows,))


@ct.kernel
def added_halves(x, total, wide, tile: ct.Constant[int]):
    """Atomic sums of f16 and f64."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    t = ct.gather(x, i)
    ct.atomic_add(total, i % 4, t)
    ct.atomic_add(wide, 0, ct.sum(t.astype(ct.float64)))


@case(added_halves)
def _(random):
    n = random.extent(200)
    x = Input("f16", random.integers(-8, 8, n).astype(np.float16))
    sums = np.zeros(4)
    np.add.at(sums, np.arange(n) % 4, x.numbers)
    total, wide = Input("f16", np.zeros(4, np.float16), sums), Input("f64", np.ones(1), 1 + x.numbers.sum(keepdims=True))
    return Launch([x, total, wide, 32], (blocks(n, 32),))


@ct.kernel
def extremes(x, first, last, greatest, tile: ct.Constant[int]):
    """NaN in comparisons, maxima and their places."""
    row = ct.bid(0)
    t = ct.load(x, (row, 0), shape=(1, tile), padding_mode=ct.PaddingMode.NEG_INF)
    ct.store(first, (row,), ct.max(t, axis=1))
    ct.store(last, (row,), ct.max(t, axis=1, propagate_nan=True))
    ct.store(greatest, (row, 0), ct.maximum(t, 0.0))


@case(extremes)
def _(random):
    rows, columns = random.extent(12), random.extent(16)
    x = random.array("f32", rows, columns)
    x.stored[random.random((rows, columns)) < 0.1] = np.nan
    x.stored[:, 0] = 1.0
    return Launch([x, Output("f32", np.fmax.reduce(x.numbers, axis=1)), Output("f32", x.numbers.max(axis=1)),
                   Output("f32", np.fmax(x.numbers, 0.0)), 16], (rows,))


@ct.kernel
def pairs(x, out, pages: ct.Constant[int], tile: ct.Constant[int]):
    """Four axes, constant loops that are unrolled, and tiles of one element."""
    i = ct.bid(0)
    for page in ct.static_iter(range(pages)):
        t = ct.load(x, (i, page, 0, 0), shape=(1, 1, tile, tile), padding_mode=ct.PaddingMode.ZERO)
        upper = ct.where(ct.arange(tile, dtype=ct.int32)[:, None] <= ct.arange(tile, dtype=ct.int32)[None, :], t.reshape((tile, tile)), 0.0)
        ct.store(out, (i, page), ct.sum(ct.transpose(upper) * 2.0))


@case(pairs)
def _(random):
    n, pages, m = random.extent(4), random.extent(3), random.extent(8)
    x = random.array("f64", n, pages, m, m)
    return Launch([x, Output("f64", 2 * np.triu(x.numbers).sum(axis=(2, 3)), 1e-11), pages, 8], (n,))
