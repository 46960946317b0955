"""Kernels that reach memory by indices, atomically, in place, in overlapping tiles or in slices."""
import cuda.tile as ct
import numpy as np

from launches import Input, Launch, Number, Output, blocks, case


@ct.kernel
def gather_rows(table, tokens, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    """Rows of a table by number; numbers outside the table give zeros."""
    i, j = ct.bid(0), ct.bid(1)
    token = ct.gather(tokens, i * rows + ct.arange(rows, dtype=ct.int32), padding_value=-1)
    column = j * columns + ct.arange(columns, dtype=ct.int32)
    ct.store(out, (i, j), ct.gather(table, (token[:, None], column[None, :])))


def embedding(random):
    rows, columns, n = random.extent(30), random.extent(70), random.extent(40)
    table = random.array("f16", rows, columns)
    tokens = Input("i64", random.integers(-2, rows + 2, n))
    inside = (tokens.stored >= 0) & (tokens.stored < rows)
    out = np.where(inside[:, None], table.numbers[np.clip(tokens.stored, 0, rows - 1)], 0)
    return Launch([table, tokens, Output("f16", out), 8, 32], (blocks(n, 8), blocks(columns, 32)))


case(gather_rows)(embedding)


@ct.kernel
def advanced_rows(table, tokens, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    """Rows are gathered by a view with a list of places along one axis (bytecode 13.3)."""
    i, j = ct.bid(0), ct.bid(1)
    token = ct.load(tokens, (i,), shape=(rows,), padding_mode=ct.PaddingMode.ZERO).astype(ct.int32)
    t = ct.load_advanced_indexing(table, (token, ct.Slice(j * columns, columns)), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (i, j), t)


@case(advanced_rows)
def _(random):
    launch = embedding(random)
    tokens, table = launch.parameters[1].stored, launch.parameters[0]
    tokens[:] = random.integers(0, len(table.stored), len(tokens))
    launch.parameters[2].expected = table.numbers[tokens]
    return launch


@ct.kernel
def permuted(x, places, out, tile: ct.Constant[int]):
    """out[places[i]] = x[i]; what a mask leaves out stays as it was."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    t = ct.gather(x, i)
    place = ct.gather(places, i, padding_value=-1)
    ct.scatter(out, place, t * 2, mask=t > 0)


@case(permuted)
def _(random):
    n = random.extent(300)
    x, out = random.array("i32", n, scale=100), random.array("i32", n, scale=9)
    places = random.permutation(n).astype(np.int32)
    out.expected = out.stored.copy()
    out.expected[places[x.stored > 0]] = 2 * x.stored[x.stored > 0]
    return Launch([x, Input("i32", places), out, 64], (blocks(n, 64),))


@ct.kernel
def histogram(x, counts, largest, tile: ct.Constant[int]):
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    t = ct.gather(x, i, padding_value=-1)
    ct.atomic_add(counts, t, 1)
    ct.atomic_max(largest, 0, ct.max(t))


@case(histogram)
def _(random):
    n, bins = random.extent(500), random.extent(40)
    x = Input("i32", random.integers(0, bins, n).astype(np.int32))
    counts = np.bincount(x.stored, minlength=bins).astype(np.int32)
    largest = Input("i32", np.array([-5], np.int32), np.array([x.stored.max()], np.int32))
    return Launch([x, Input("i32", np.zeros(bins, np.int32), counts), largest, 64], (blocks(n, 64),))


@ct.kernel
def combined(x, key, ors, ands, xors, low, swapped, tile: ct.Constant[int]):
    """Every atomic update, of an element chosen by a key."""
    at = (ct.bid(0),)
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    t = ct.load(x, at, shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    place = ct.where(i < x.shape[0], ct.load(key, at, shape=(tile,), padding_mode=ct.PaddingMode.ZERO), -1)
    ct.atomic_or(ors, place, t)
    ct.atomic_and(ands, place, t)
    ct.atomic_xor(xors, place, t)
    ct.atomic_min(low, place, t)
    ct.atomic_cas(swapped, i, ct.full((tile,), 7, ct.uint32), t)


@case(combined)
def _(random):
    n, keys = random.extent(200), random.extent(8)
    x = Input("u32", random.integers(0, 1 << 32, n, dtype=np.uint32))
    key = random.integers(0, keys, n).astype(np.int32)
    parameters = [x, Input("i32", key)]
    for function in (np.bitwise_or, np.bitwise_and, np.bitwise_xor, np.minimum):
        before = Input("u32", random.integers(0, 1 << 32, keys, dtype=np.uint32))
        before.expected = before.stored.copy()
        function.at(before.expected, key, x.stored)
        parameters.append(before)
    before = random.choice(np.array([7, 9], np.uint32), n)
    parameters.append(Input("u32", before, np.where(before == 7, x.stored, before)))
    return Launch([*parameters, 32], (blocks(n, 32),))


@ct.kernel
def collatz(x, steps, tile: ct.Constant[int]):
    """A loop whose length depends on the numbers."""
    at = (ct.bid(0),)
    t = ct.load(x, at, shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    t = ct.maximum(t, 1)
    count = ct.zeros((tile,), ct.int32)
    while ct.max(t) > 1:
        going = t > 1
        t = ct.where(going, ct.where(t % 2 == 0, t // 2, 3 * t + 1), t)
        count += going.astype(ct.int32)
    ct.store(steps, at, count)


@case(collatz)
def _(random):
    n = random.extent(60)
    x = Input("i64", random.integers(1, 200, n))
    t, steps = x.stored.copy(), np.zeros(n, np.int32)
    while t.max() > 1:
        steps += t > 1
        t = np.where(t > 1, np.where(t % 2 == 0, t // 2, 3 * t + 1), t)
    return Launch([x, Output("i32", steps), 16], (blocks(n, 16),))


@ct.kernel
def lower_bound(sorted_values, wanted, places, tile: ct.Constant[int]):
    """Binary search of a tile of numbers at once."""
    at = (ct.bid(0),)
    w = ct.load(wanted, at, shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    low = ct.zeros((tile,), ct.int32)
    left = sorted_values.shape[0]
    high = ct.full((tile,), left, ct.int32)
    while left > 0:
        half = (low + high) // 2
        go_right = (low < high) & (ct.gather(sorted_values, half, padding_value=0.0) < w)
        high = ct.where(go_right | (low >= high), high, half)
        low = ct.where(go_right, half + 1, low)
        left = left // 2
    ct.store(places, at, low)


@case(lower_bound)
def _(random):
    n, m = random.extent(300), random.extent(100)
    values, wanted = random.array("f32", n), random.array("f32", m)
    values.stored.sort()
    return Launch([values, wanted, Output("i32", np.searchsorted(values.stored, wanted.stored).astype(np.int32)), 32], (blocks(m, 32),))


@ct.kernel
def segment_sums(values, starts, sums, tile: ct.Constant[int]):
    """Sums over slices of an array whose bounds are numbers in memory."""
    i = ct.bid(0)
    first, last = ct.load(starts, (i,), shape=()), ct.load(starts, (i + 1,), shape=())
    part = values.slice(axis=0, start=first, stop=last)
    total = ct.zeros((tile,), ct.float64)
    for j in range(ct.num_tiles(part, axis=0, shape=(tile,))):
        total += ct.load(part, (j,), shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(sums, (i,), ct.sum(total))


@case(segment_sums)
def _(random):
    n, segments = random.extent(300), random.extent(12)
    values = random.array("f64", n)
    starts = np.concatenate([[0], np.sort(random.integers(0, n, segments, endpoint=True))]).astype(np.int32)
    starts[-1] = n
    sums = [values.numbers[a:b].sum() for a, b in zip(starts, starts[1:])]
    return Launch([values, Input("i32", starts), Output("f64", np.array(sums), 1e-11), 16], (segments,))


@ct.kernel
def pooled(x, out, tile: ct.Constant[int], step: ct.Constant[int]):
    """The largest of overlapping windows (bytecode 13.3)."""
    view = x.tiled_view((1, tile), padding_mode=ct.PaddingMode.NEG_INF, traversal_steps=(1, step))
    i = ct.bid(0)
    for j in range(view.num_tiles(1)):
        ct.store(out, (i, j), ct.max(view.load((i, j)), axis=1, keepdims=True))


@case(pooled)
def _(random):
    rows, columns = random.extent(6), random.extent(60)
    x = random.array("f32", rows, columns)
    windows = blocks(columns, 3)
    out = np.stack([x.numbers[:, 3 * j:3 * j + 8].max(axis=1) for j in range(windows)], axis=1)
    return Launch([x, Output("f32", out), 8, 3], (rows,))


@ct.kernel
def smooth(x, rounds, tile: ct.Constant[int]):
    """In place, over and over: each round reads what the round before wrote."""
    row = ct.bid(0)
    for _ in range(rounds):
        for j in range(ct.num_tiles(x, axis=1, shape=(1, tile))):
            t = ct.load(x, (row, j), shape=(1, tile))
            ct.store(x, (row, j), t * 0.5 + 1.0)
        first = ct.load(x, (row, 0), shape=(1, 1))
        ct.store(x, (row, 0), first + 1.0)


@case(smooth)
def _(random):
    rows, columns, rounds = random.extent(6), random.extent(70), random.extent(4)
    x = random.array("f32", rows, columns)
    x.expected = x.numbers.copy()
    for _ in range(rounds):
        x.expected = x.expected * 0.5 + 1
        x.expected[:, 0] += 1
    return Launch([x, Number("i32", rounds), 16], (rows,))


@ct.kernel
def shuffled(x, y, out, bytes_out, tile: ct.Constant[int]):
    """Tiles taken apart, put together, and looked at as bytes."""
    at = (ct.bid(0),)
    a, b = ct.load(x, at, shape=(tile,)), ct.load(y, at, shape=(tile,))
    both = ct.cat((a, b), axis=0)
    second = ct.extract(both, (1,), shape=(tile // 2,))
    both = ct.insert(both, (0,), second * 2)
    ct.store(out, at, both)
    ct.store(bytes_out, at, ct.pack_to_bytes(b))


@case(shuffled)
def _(random):
    tiles = random.extent(6)
    x, y = random.array("i32", tiles * 16, scale=1e6), random.array("i32", tiles * 16, scale=1e6)
    both = np.concatenate([x.stored.reshape(tiles, 16), y.stored.reshape(tiles, 16)], axis=1)
    both[:, :8] = both[:, 8:16] * 2
    return Launch([x, y, Output("i32", both.reshape(-1)), Output("u8", y.stored.view(np.uint8)), 16], (tiles,))


@ct.kernel
def first_above(x, found, limit, tile: ct.Constant[int]):
    """A search with a flag that ends the loop over tiles."""
    row = ct.bid(0)
    place = -1
    for j in range(ct.num_tiles(x, axis=1, shape=(1, tile))):
        t = ct.load(x, (row, j), shape=(1, tile), padding_mode=ct.PaddingMode.NEG_INF)
        hits = (t > limit).astype(ct.int32).reshape((tile,))
        if ct.max(hits) > 0:
            place = j * tile + ct.argmax(hits)
            break
    ct.store(found, (row,), place)


@case(first_above)
def _(random):
    rows, columns = random.extent(12), random.extent(70)
    x = random.array("f32", rows, columns)
    above = x.stored > np.float32(1.75)
    found = np.where(above.any(axis=1), above.argmax(axis=1), -1).astype(np.int32)
    return Launch([x, Output("i32", found), Number("f32", 1.75), 8], (rows,))


@ct.kernel
def moving_origin(x, tiles: ct.Constant[int], tile: ct.Constant[int]):
    """Slices that begin earlier in each step, so that tile after tile is one place of the array."""
    for j in range(tiles):
        part = x.slice(axis=0, start=(tiles - j) * tile, stop=x.shape[0])
        t = ct.load(part, (j,), shape=(tile,))
        ct.store(part, (j,), t * 2.0 + j)


@case(moving_origin)
def _(random):
    tiles = 1 + random.extent(4)
    x = random.array("f32", (tiles + 1) * 8)
    x.expected = x.numbers.copy()
    for j in range(tiles):
        x.expected[tiles * 8:] = x.expected[tiles * 8:] * 2 + j
    return Launch([x, tiles, 8])
