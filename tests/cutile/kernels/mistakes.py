"""Kernels that are wrong where the comment `# here` is, or for some launches; each launch has a legal twin."""
import cuda.tile as ct
import numpy as np

from launches import Input, Launch, Output, blocks, rejected, wrong


@ct.kernel
def gather_outside(x, places, out, tile: ct.Constant[int]):
    at = (ct.bid(0),)
    place = ct.load(places, at, shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    t = ct.gather(x, place, check_bounds=False)  # here
    ct.store(out, at, t)


@wrong(gather_outside, "outside array 1")
def _(random, legal):
    n, m = random.extent(50), random.extent(100)
    x, places = random.array("f32", n), Input("i32", random.integers(0, n, m).astype(np.int32))
    if not legal:
        places.stored[random.integers(0, m)] = n
    return Launch([x, places, Output("f32", x.numbers[places.stored % n]), 16], (blocks(m, 16),))


@ct.kernel
def scatter_outside(x, places, out, tile: ct.Constant[int]):
    at = (ct.bid(0),)
    place = ct.load(places, at, shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    t = ct.load(x, at, shape=(tile,))
    ct.scatter(out, place, t, mask=place >= 0, check_bounds=False)  # here


@wrong(scatter_outside, "outside array 3")
def _(random, legal):
    n = 16 * random.extent(5)
    x, places = random.array("f32", n), random.permutation(n).astype(np.int32)
    out = np.empty(n)
    out[places] = x.numbers
    if not legal:
        places[random.integers(0, n)] = n + 3
    return Launch([x, Input("i32", places), Output("f32", out), 16], (n // 16,))


@ct.kernel
def tile_outside(x, out, tiles: ct.Constant[int], tile: ct.Constant[int]):
    """The index of the tile is not one of the array's tiles."""
    total = ct.zeros((tile,), ct.float32)
    for j in range(tiles):
        total += ct.load(x, (j,), shape=(tile,), padding_mode=ct.PaddingMode.ZERO)  # here
    ct.store(out, (0,), ct.sum(total))


@wrong(tile_outside, "outside")
def _(random, legal):
    n = random.extent(60)
    x = random.array("f32", n)
    return Launch([x, Output("f32", x.numbers.sum(keepdims=True), 1e-5), blocks(n, 8) + (0 if legal else 1), 8])


@ct.kernel
def same_tile(x, out, share: ct.Constant[int], tile: ct.Constant[int]):
    """With share = 2, two blocks store to each tile."""
    t = ct.load(x, (ct.bid(0),), shape=(tile,))
    ct.store(out, (ct.bid(0) // share,), t)  # here


@wrong(same_tile, "blocks conflict")
def _(random, legal):
    n = 2 * random.extent(4)
    x = random.array("f32", n * 16)
    return Launch([x, Output("f32", x.numbers), 1 if legal else 2, 16], (n,))


@ct.kernel
def neighbour(x, reach: ct.Constant[int], tile: ct.Constant[int]):
    """In place: reads the tile that another block writes."""
    i = ct.bid(0)
    t = ct.load(x, ((i + reach) % ct.num_blocks(0),), shape=(tile,))
    ct.store(x, (i,), t + 1.0)  # here


@wrong(neighbour, "blocks conflict")
def _(random, legal):
    n = 2 + random.extent(4)
    x = random.array("f32", n * 16)
    x.expected = x.numbers + 1
    return Launch([x, 0 if legal else 1, 16], (n,))


@ct.kernel
def never_written(x, scratch, out, written: ct.Constant[int], tile: ct.Constant[int]):
    """Reads more of the scratch array than it wrote."""
    for j in range(written):
        ct.store(scratch, (j,), ct.load(x, (j,), shape=(tile,)))
    total = ct.zeros((tile,), ct.float32)
    for j in range(ct.num_tiles(scratch, axis=0, shape=(tile,))):
        total += ct.load(scratch, (j,), shape=(tile,))  # here
    ct.store(out, (0,), total)


@wrong(never_written, "nothing has written")
def _(random, legal):
    n = 1 + random.extent(5)
    x = random.array("f32", n * 8)
    total = x.numbers.reshape(n, 8).sum(axis=0)
    return Launch([x, Output("f32", x.numbers), Output("f32", total, 1e-5), n if legal else n - 1, 8])


@ct.kernel
def twice(x, places, out, tile: ct.Constant[int]):
    """One store that writes an element twice."""
    at = (ct.bid(0),)
    ct.scatter(out, ct.load(places, at, shape=(tile,)), ct.load(x, at, shape=(tile,)))  # here


@wrong(twice, "writes one element more than once")
def _(random, legal):
    x, places = random.array("f32", 32), random.permutation(32).astype(np.int32)
    out = np.empty(32)
    out[places] = x.numbers
    if not legal:
        places[5] = places[20]
    return Launch([x, Input("i32", places), Output("f32", out), 32])


@ct.kernel
def plain_count(x, counts, atomic: ct.Constant[bool], tile: ct.Constant[int]):
    """A sum that blocks share, with and without atomic operations."""
    t = ct.load(x, (ct.bid(0),), shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    if atomic:
        ct.atomic_add(counts, 0, ct.sum(t))
    else:
        ct.store(counts, (0,), ct.load(counts, (0,), shape=()) + ct.sum(t))  # here


@wrong(plain_count, "blocks conflict")
def _(random, legal):
    n = 9 + random.extent(100)
    x = random.array("i32", n, scale=100)
    total = Input("i32", np.zeros(1, np.int32), x.stored.sum(keepdims=True))
    return Launch([x, total, bool(legal), 8], (blocks(n, 8),))


@ct.kernel
def overflowing(x, out, stride: ct.Constant[int], tile: ct.Constant[int]):
    """A place that does not fit 32 bits."""
    place = (ct.bid(0) + 1) * stride + ct.arange(tile, dtype=ct.int32)  # here
    ct.store(out, (ct.bid(0),), ct.gather(x, place))


@wrong(overflowing, "overflow")
def _(random, legal):
    x = random.array("f32", 100)
    expected = np.zeros(48)
    if legal:
        expected[:32], expected[32:36] = np.r_[x.numbers[32:48], x.numbers[64:80]], x.numbers[96:]
    return Launch([x, Output("f32", expected), 32 if legal else 1 << 30, 16], (3,))


@ct.kernel
def unsigned_floor(x, out, tile: ct.Constant[int]):
    """cuda-tile 1.7.0 rounds unsigned quotients down by an attribute that only signed ones have; tileiras rejects it too."""
    t = ct.load(x, (0,), shape=(tile,))
    ct.store(out, (0,), t // 3)  # here


@rejected(unsigned_floor, "divi: rounding negative_inf needs signed, found unsigned")
def _(random):
    return Launch([random.array("u32", 32), Output("u32", np.zeros(32, np.uint32)), 32])
