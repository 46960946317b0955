"""Larger kernels, as models of language and of other things have them."""
import math

import cuda.tile as ct
import numpy as np

from launches import Input, Launch, Output, blocks, case

ZERO = ct.PaddingMode.ZERO


def swizzled(tile, rows, columns, group):
    """Row and column of a tile: some rows at a time, column by column."""
    in_group = group * columns
    first = tile // in_group * group
    height = ct.minimum(rows - first, group)
    return first + tile % in_group % height, tile % in_group // height


@ct.kernel
def persistent_product(a, b, bias, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """Fewer blocks than tiles: each takes every num_blocks-th one."""
    rows, columns = ct.cdiv(c.shape[0], m), ct.cdiv(c.shape[1], n)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = swizzled(tile, rows, columns, 2)
        total = ct.zeros((m, n), ct.float32)
        for step in range(ct.cdiv(a.shape[1], k)):
            left = ct.load(a, (i, step), shape=(m, k), padding_mode=ZERO)
            total = ct.mma(left, ct.load(b, (step, j), shape=(k, n), padding_mode=ZERO), total)
        total = ct.maximum(total + ct.load(bias, (j,), shape=(n,), padding_mode=ZERO), 0.0)
        ct.store(c, (i, j), total.astype(c.dtype))


@case(persistent_product)
def _(random):
    m, n, k = random.extent(60), random.extent(60), random.extent(50)
    a, b, bias = random.array("bf16", m, k), random.array("bf16", k, n), random.array("f32", n)
    c = np.maximum(a.numbers @ b.numbers + bias.numbers, 0)
    return Launch([a, b, bias, Output("bf16", c), 16, 8, 16], (random.extent(5),))


@ct.kernel
def rotary(x, cos, sin, out, half: ct.Constant[int]):
    """Halves of each head are rotated by angles of the position."""
    row, head = ct.bid(0), ct.bid(1)
    first = ct.load(x, (row, head, 0), shape=(1, 1, half)).astype(ct.float32)
    second = ct.load(x, (row, head, 1), shape=(1, 1, half)).astype(ct.float32)
    c, s = ct.load(cos, (row, 0), shape=(1, half)), ct.load(sin, (row, 0), shape=(1, half))
    ct.store(out, (row, head, 0), (first * c - second * s).astype(out.dtype))
    ct.store(out, (row, head, 1), (second * c + first * s).astype(out.dtype))


@case(rotary)
def _(random):
    rows, heads = random.extent(9), random.extent(4)
    x = random.array("f16", rows, heads, 16)
    cos, sin = random.array("f32", rows, 8, scale=1), random.array("f32", rows, 8, scale=1)
    c, s = cos.numbers[:, None], sin.numbers[:, None]
    first, second = x.numbers[..., :8], x.numbers[..., 8:]
    out = np.concatenate([first * c - second * s, second * c + first * s], axis=2)
    return Launch([x, cos, sin, Output("f16", out), 8], (rows, heads))


@ct.kernel
def quantized(gate, up, codes, scales, tile: ct.Constant[int]):
    """gate * sigmoid(gate) * up in 8 bits, with a scale for each row."""
    row = ct.bid(0)
    g = ct.load(gate, (row, 0), shape=(1, tile), padding_mode=ZERO)
    y = g / (1.0 + ct.exp(-g)) * ct.load(up, (row, 0), shape=(1, tile), padding_mode=ZERO)
    largest = ct.maximum(ct.max(ct.abs(y), axis=1, keepdims=True), 1e-6)
    ct.store(scales, (row, 0), largest / 127.0)
    ct.store(codes, (row, 0), ct.floor(y * (127.0 / largest) + 0.5).astype(ct.int8))


@case(quantized)
def _(random):
    rows, columns = random.extent(9), random.extent(64)
    gate, up = random.array("f64", rows, columns), random.array("f64", rows, columns)
    y = gate.numbers / (1 + np.exp(-gate.numbers)) * up.numbers
    largest = np.abs(y).max(axis=1, keepdims=True)
    return Launch([gate, up, Output("i8", np.floor(y * (127 / largest) + 0.5).astype(np.int8)), Output("f64", largest / 127, 1e-11), 64], (rows,))


@ct.kernel
def cross_entropy(logits, labels, losses, gradient, tile: ct.Constant[int]):
    """The loss of a label, and its gradient written over several tiles; labels below zero count nothing."""
    row = ct.bid(0)
    label = ct.gather(labels, row)
    top = ct.full((), -math.inf, ct.float32)
    total = ct.zeros((), ct.float32)
    tiles = ct.num_tiles(logits, axis=1, shape=(1, tile))
    for j in range(tiles):
        t = ct.load(logits, (row, j), shape=(1, tile), padding_mode=ct.PaddingMode.NEG_INF)
        higher = ct.maximum(top, ct.max(t))
        total = total * ct.exp(top - higher) + ct.sum(ct.exp(t - higher))
        top = higher
    counted = label >= 0
    own = ct.gather(logits, (row, label))
    ct.store(losses, (row,), ct.where(counted, top + ct.log(total) - own, 0.0))
    for j in range(tiles):
        t = ct.load(logits, (row, j), shape=(1, tile), padding_mode=ct.PaddingMode.NEG_INF)
        hit = (ct.arange(tile, dtype=ct.int32) + j * tile == label)[None, :]
        ct.store(gradient, (row, j), ct.where(counted, ct.exp(t - top) / total - hit.astype(ct.float32), 0.0))


@case(cross_entropy)
def _(random):
    rows, classes = random.extent(9), random.extent(90)
    logits = random.array("f32", rows, classes, scale=8)
    labels = random.integers(-1, classes, rows).astype(np.int32)
    e = np.exp(logits.numbers - logits.numbers.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    counted, row = labels >= 0, np.arange(rows)
    losses = np.where(counted, -np.log(p[row, labels]), 0)
    p[row, labels] -= 1
    return Launch([logits, Input("i32", labels), Output("f32", losses, 1e-5), Output("f32", np.where(counted[:, None], p, 0), 1e-5), 32], (rows,))


@ct.kernel
def best(scores, values, places, count: ct.Constant[int], tile: ct.Constant[int]):
    """The largest numbers of a row in order, one after the other."""
    row = ct.bid(0)
    t = ct.load(scores, (row, 0), shape=(1, tile), padding_mode=ct.PaddingMode.NEG_INF).reshape((tile,))
    index = ct.arange(tile, dtype=ct.int32)
    for rank in range(count):
        at = ct.argmax(t)
        ct.store(values, (row, rank), ct.max(t))
        ct.store(places, (row, rank), at)
        t = ct.where(index == at, -math.inf, t)


@case(best)
def _(random):
    rows, columns = random.extent(8), 4 + random.extent(60)
    scores = random.array("f32", rows, columns)
    order = np.argsort(-scores.stored, axis=1, kind="stable")[:, :4].astype(np.int32)
    return Launch([scores, Output("f32", np.take_along_axis(scores.numbers, order, 1)), Output("i32", order), 4, 64], (rows,))


@ct.kernel
def grouped(x, weights, starts, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """Rows of x in groups, each by its own matrix; the bounds of the groups are in memory."""
    group, j = ct.bid(0), ct.bid(1)
    first, last = ct.gather(starts, group), ct.gather(starts, group + 1)
    rows, results = x.slice(axis=0, start=first, stop=last), out.slice(axis=0, start=first, stop=last)
    for i in range(ct.cdiv(last - first, m)):
        total = ct.zeros((m, n), ct.float32)
        for step in range(ct.cdiv(x.shape[1], k)):
            right = ct.load(weights, (group, step, j), shape=(1, k, n), padding_mode=ZERO).reshape((k, n))
            total = ct.mma(ct.load(rows, (i, step), shape=(m, k), padding_mode=ZERO), right, total)
        ct.store(results, (i, j), total)


@case(grouped)
def _(random):
    groups, n, k = random.extent(4), random.extent(20), random.extent(40)
    sizes = random.integers(0, 12, groups)
    sizes[0] += 1
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    x, weights = random.array("f16", int(starts[-1]), k), random.array("f16", groups, k, n)
    out = np.concatenate([x.numbers[a:b] @ w for a, b, w in zip(starts, starts[1:], weights.numbers)])
    return Launch([x, weights, Input("i32", starts), Output("f32", out, 1e-5), 8, 16, 16], (groups, blocks(n, 16)))


@ct.kernel
def sorted_rows(x, out, size: ct.Constant[int]):
    """A bitonic network: partners are the other half of a reshaped tile."""
    t = ct.load(x, (ct.bid(0), 0), shape=(1, size), padding_mode=ct.PaddingMode.POS_INF).reshape((size,))
    index = ct.arange(size, dtype=ct.int32)
    for stage in ct.static_iter([1 << s for s in range(1, size.bit_length())]):
        for step in ct.static_iter([stage >> s for s in range(1, stage.bit_length())]):
            pairs = t.reshape((size // (2 * step), 2, step))
            low, high = ct.extract(pairs, (0, 0, 0), shape=(size // (2 * step), 1, step)), ct.extract(pairs, (0, 1, 0), shape=(size // (2 * step), 1, step))
            other = ct.cat((high, low), axis=1).reshape((size,))
            upward = (index & stage) == 0
            keeps_least = ((index & step) == 0) == upward
            t = ct.where(keeps_least, ct.minimum(t, other), ct.maximum(t, other))
    ct.store(out, (ct.bid(0), 0), t.reshape((1, size)))


@case(sorted_rows)
def _(random):
    rows, columns = random.extent(8), random.extent(16)
    x = random.array("f32", rows, columns)
    return Launch([x, Output("f32", np.sort(x.numbers, axis=1)), 16], (rows,))


@ct.kernel
def cholesky(a, out, size: ct.Constant[int]):
    """A small factorization: each step takes one column out of a tile and subtracts its outer product."""
    page = ct.bid(0)
    t = ct.load(a, (page, 0, 0), shape=(1, size, size)).reshape((size, size))
    row, column = ct.arange(size, dtype=ct.int32)[:, None], ct.arange(size, dtype=ct.int32)[None, :]
    result = ct.zeros((size, size), ct.float64)
    for k in range(size):
        pivot = ct.sum(ct.where((row == k) & (column == k), t, 0.0))
        below = ct.where(row >= k, ct.sum(ct.where(column == k, t, 0.0), axis=1, keepdims=True) * ct.rsqrt(pivot), 0.0)
        result = ct.where(column == k, below, result)
        t = t - below * below.reshape((1, size))
    ct.store(out, (page, 0, 0), result.reshape((1, size, size)))


@case(cholesky)
def _(random):
    pages = random.extent(4)
    factor = random.array("f64", pages, 8, 8)
    a = factor.numbers @ factor.numbers.transpose(0, 2, 1) + 2 * np.eye(8)
    return Launch([Input("f64", a), Output("f64", np.linalg.cholesky(a), 1e-9), 8], (pages,))


@ct.kernel
def depthwise(x, taps, out, width: ct.Constant[int], tile: ct.Constant[int]):
    """A causal convolution along time, of each channel: gathers that begin before the array give zeros."""
    t, c = ct.bid(0), ct.bid(1)
    time = t * tile + ct.arange(tile, dtype=ct.int32)[:, None]
    channel = c * tile + ct.arange(tile, dtype=ct.int32)[None, :]
    total = ct.zeros((tile, tile), ct.float32)
    for k in range(width):
        tap = ct.load(taps, (k, c), shape=(1, tile), padding_mode=ZERO)
        total += ct.gather(x, (time - (width - 1 - k), channel)) * tap
    ct.store(out, (t, c), total)


@case(depthwise)
def _(random):
    times, channels = random.extent(40), random.extent(20)
    x, taps = random.array("f32", times, channels), random.array("f32", 4, channels)
    before = np.concatenate([np.zeros((3, channels)), x.numbers])
    out = sum(before[k:k + times] * taps.numbers[k] for k in range(4))
    return Launch([x, taps, Output("f32", out), 4, 16], (blocks(times, 16), blocks(channels, 16)))
