"""Parameters and operations beside the common ones: lists and tuples, extents of 64 bits and constant ones, offsets from an
address, claims, orders, checks and prints, scaled products."""
import cuda.tile as ct
import numpy as np

from launches import Input, Launch, Number, Output, blocks, case, wrong


@ct.kernel
def sum_of_list(arrays, out, tile: ct.Constant[int]):
    """A list of arrays of different lengths, which is in memory."""
    i = ct.bid(0)
    total = ct.zeros((tile,), ct.float32)
    for j in range(len(arrays)):
        array = arrays[j]
        if i * tile < array.shape[0]:
            total += ct.load(array, (i,), shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (i,), total)


@case(sum_of_list)
def _(random):
    arrays = [random.array("f32", random.extent(100)) for _ in range(random.extent(5))]
    total = np.zeros(max(len(a.stored) for a in arrays))
    for a in arrays:
        total[:len(a.stored)] += a.numbers
    return Launch([arrays, Output("f32", total), 16], (blocks(len(total), 16),))


@ct.kernel
def from_tuple(pair, out, tile: ct.Constant[int]):
    x, (y, factor) = pair
    at = (ct.bid(0),)
    ct.store(out, at, ct.load(x, at, shape=(tile,)) * factor + ct.load(y, at, shape=(tile,)))


@case(from_tuple)
def _(random):
    n, factor = random.extent(100), 1.25
    x, y = random.array("f32", n), random.array("f32", n)
    x.wide, y.fixed = True, True
    return Launch([(x, (y, Number("f32", factor))), Output("f32", x.numbers * factor + y.numbers), 32], (blocks(n, 32),))


@ct.kernel
def offsets(x, out, counts, tile: ct.Constant[int]):
    """Numbers by their offsets from an address."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = i < x.shape[0]
    t = x.get_raw_memory().load_offset(i * x.strides[0], mask=inside, padding_value=-1)
    out.get_raw_memory().store_offset(i, t * 2, mask=inside)
    counts.get_raw_memory().atomic_add_offset(ct.where(t < 0, 0, 1), 1, mask=inside)


@case(offsets)
def _(random):
    n = random.extent(100)
    x = random.array("i32", n, scale=50)
    negative = int((x.stored < 0).sum())
    counts = Input("i32", np.zeros(2, np.int32), np.array([negative, n - negative], np.int32))
    return Launch([x, Output("i32", 2 * x.stored), counts, 32], (blocks(n, 32),))


@ct.kernel
def spoken(x, out, most: ct.Constant[int], tile: ct.Constant[int]):
    """An assertion, a print, and a tile that is added to another atomically (bytecode 13.3)."""
    t = x.tiled_view((tile,), padding_mode=ct.PaddingMode.ZERO).load(ct.bid(0))
    ct.assert_(t <= most, "a number is too large")  # here
    ct.print("block", ct.bid(0), "sum", ct.sum(t))
    out.tiled_view((tile,)).atomic_store_add(0, t)


def spoken_launch(random, most=100):
    n = random.extent(100)
    x = random.array("i32", n, scale=100)
    rows = np.zeros(blocks(n, 16) * 16, np.int32)
    rows[:n] = x.stored
    out = Input("i32", np.arange(16, dtype=np.int32))
    out.expected = out.stored + rows.reshape(-1, 16).sum(axis=0, dtype=np.int32)
    return Launch([x, out, most, 16], (blocks(n, 16),))


case(spoken)(spoken_launch)


@wrong(spoken, "a number is too large")
def _(random, legal):
    return spoken_launch(random, 100 if legal else -101)


@ct.kernel
def claimed(x, out, tile: ct.Constant[int]):
    """The author claims that whole tiles are inside (bytecode 13.4)."""
    t = ct.load(x, (ct.bid(0),), shape=(tile,), check_bounds=False)  # here
    ct.store(out, (ct.bid(0),), t + 1.0)


@wrong(claimed, "claims that this load is inside")
def _(random, legal):
    n = 16 * random.extent(5) - (0 if legal else random.extent(15))
    x = random.array("f32", n)
    return Launch([x, Output("f32", x.numbers + 1), 16], (blocks(n, 16),))


@ct.kernel
def ordered(x, flag, out, tile: ct.Constant[int]):
    """Loads that acquire and stores that release."""
    scope = ct.MemoryScope.DEVICE
    t = ct.load(x, (ct.bid(0),), shape=(tile,), memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=scope)
    ct.store(out, (ct.bid(0),), -t)
    ct.store(flag, (ct.bid(0),), 1, memory_order=ct.MemoryOrder.RELEASE, memory_scope=scope)


@case(ordered)
def _(random):
    n = random.extent(100)
    x = random.array("f64", n)
    return Launch([x, Output("i32", np.ones(blocks(n, 32), np.int32)), Output("f64", -x.numbers), 32], (blocks(n, 32),))


@ct.kernel
def scaled(x, x_scale, y, y_scale, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """8-bit floats with a power of two for each 32 of them (bytecode 13.3)."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(x, axis=1, shape=(m, k))):
        a = ct.load(x, (i, step), shape=(m, k), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(y, (step, j), shape=(k, n), padding_mode=ct.PaddingMode.ZERO)
        s = ct.bitcast(ct.load(x_scale, (i, step), shape=(m, k // 32), padding_mode=ct.PaddingMode.ZERO), ct.float8_e8m0fnu)
        t = ct.bitcast(ct.load(y_scale, (step, j), shape=(k // 32, n), padding_mode=ct.PaddingMode.ZERO), ct.float8_e8m0fnu)
        total = ct.mma_scaled(a, s, b, t, total)
    ct.store(out, (i, j), total)


@case(scaled)
def _(random):
    m, n, groups = random.extent(30), random.extent(30), random.extent(4)
    x, y = random.array("f8e4m3", m, 32 * groups), random.array("f8e4m3", 32 * groups, n)
    s, t = (Input("u8", random.integers(125, 130, shape).astype(np.uint8)) for shape in ((m, groups), (groups, n)))
    left = x.numbers * np.repeat(np.exp2(s.stored - 127.0), 32, axis=1)
    right = y.numbers * np.repeat(np.exp2(t.stored - 127.0), 32, axis=0)
    return Launch([x, s, y, t, Output("f32", left @ right, 1e-5), 16, 16, 64], (blocks(m, 16), blocks(n, 16)))


@ct.kernel
def quotients(x, y, out, rest, angle, tile: ct.Constant[int]):
    """Division as Python rounds it (atan2: bytecode 13.2)."""
    at = (ct.bid(0),)
    a = ct.load(x, at, shape=(tile,))
    b = ct.load(y, at, shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    b = ct.where(ct.abs(b) < 0.125, 0.5, b)
    ct.store(out, at, a // b)
    ct.store(rest, at, a % b)
    ct.store(angle, at, ct.atan2(a, b) + ct.tan(a * 0.5))


@case(quotients)
def _(random):
    n = random.extent(200)
    x, y = random.array("f64", n, scale=9), random.array("f64", n)
    a, b = x.numbers, np.where(np.abs(y.numbers) < 0.125, 0.5, y.numbers)
    angle = np.arctan2(a, b) + np.tan(a * 0.5)
    return Launch([x, y, Output("f64", np.floor(a / b)), Output("f64", np.mod(a, b), 1e-12), Output("f64", angle, 1e-11), 32], (blocks(n, 32),))


@ct.kernel
def shared_right(x, y, out, tile: ct.Constant[int]):
    """A batch of matrices by one matrix."""
    page = ct.load(x, (ct.bid(0), 0, 0), shape=(2, tile, tile), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0), 0, 0), page @ ct.load(y, (0, 0), shape=(tile, tile), padding_mode=ct.PaddingMode.ZERO))


@case(shared_right)
def _(random):
    pages, m, k, n = random.extent(5), random.extent(16), random.extent(16), random.extent(16)
    x, y = random.array("f32", pages, m, k), random.array("f32", k, n)
    return Launch([x, y, Output("f32", x.numbers @ y.numbers, 1e-5), 16], (blocks(pages, 2),))
