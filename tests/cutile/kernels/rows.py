"""Kernels over rows: reductions along each axis, softmax, normalization, scans, reductions and scans of one's own."""
import cuda.tile as ct
import numpy as np

from launches import Launch, Output, blocks, case


@ct.kernel
def softmax(x, out, columns: ct.Constant[int]):
    row = ct.bid(0)
    t = ct.load(x, (row, 0), shape=(1, columns), padding_mode=ct.PaddingMode.NEG_INF)
    e = ct.exp(t - ct.max(t, axis=1, keepdims=True))
    ct.store(out, (row, 0), e / ct.sum(e, axis=1, keepdims=True))


@case(softmax)
def _(random):
    rows, columns = random.extent(20), random.extent(128)
    x = random.padded("f32", rows, columns, scale=20)
    e = np.exp(x.numbers - x.numbers.max(axis=1, keepdims=True))
    return Launch([x, Output("f32", e / e.sum(axis=1, keepdims=True)), 128], (rows,))


@ct.kernel
def layer_norm(x, weight, bias, out, mean, rstd, eps: ct.Constant[float], tile: ct.Constant[int]):
    """Rows longer than a tile: one pass for the mean, one for the variance, one for the result."""
    row, n = ct.bid(0), x.shape[1]
    total = ct.zeros((1, tile), ct.float32)
    for j in range(ct.num_tiles(x, axis=1, shape=(1, tile))):
        total += ct.load(x, (row, j), shape=(1, tile), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    average = ct.sum(total, axis=1) / n
    squares = ct.zeros((1, tile), ct.float32)
    for j in range(ct.num_tiles(x, axis=1, shape=(1, tile))):
        t = ct.load(x, (row, j), shape=(1, tile), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        apart = ct.where(j * tile + ct.arange(tile, dtype=ct.int32) < n, t - average, 0.0)
        squares += apart * apart
    scale = ct.rsqrt(ct.sum(squares, axis=1) / n + eps)
    ct.store(mean, (row,), average)
    ct.store(rstd, (row,), scale)
    for j in range(ct.num_tiles(x, axis=1, shape=(1, tile))):
        t = ct.load(x, (row, j), shape=(1, tile)).astype(ct.float32)
        w, b = ct.load(weight, (j,), shape=(tile,)), ct.load(bias, (j,), shape=(tile,))
        ct.store(out, (row, j), ((t - average) * scale * w + b).astype(out.dtype))


@case(layer_norm)
def _(random):
    rows, columns = random.extent(12), 1 + random.extent(150)
    x, weight, bias = random.array("bf16", rows, columns), random.array("f32", columns), random.array("f32", columns)
    mean = x.numbers.mean(axis=1)
    rstd = 1 / np.sqrt(x.numbers.var(axis=1) + 1e-5)
    out = (x.numbers - mean[:, None]) * rstd[:, None] * weight.numbers + bias.numbers
    return Launch([x, weight, bias, Output("bf16", out), Output("f32", mean), Output("f32", rstd, 1e-5), 1e-5, 32], (rows,))


@ct.kernel
def along_axes(x, by_row, by_column, both, largest, smallest, product, m: ct.Constant[int], n: ct.Constant[int]):
    t = ct.load(x, (0, 0), shape=(m, n), padding_mode=ct.PaddingMode.ZERO)
    ct.store(by_row, (0,), ct.sum(t, axis=1))
    ct.store(by_column, (0,), ct.sum(t, axis=0))
    ct.store(both, (0, 0), ct.sum(t, axis=(0, 1), keepdims=True))
    ct.store(largest, (0,), ct.max(t, axis=0))
    ct.store(smallest, (0, 0), ct.min(t, axis=1, keepdims=True))
    ct.store(product, (0,), ct.prod(t * 0.5 + 1.0, axis=1))


@case(along_axes)
def _(random):
    m, n = random.extent(16), random.extent(32)
    x = random.array("f64", m, n)
    t = np.zeros((16, 32))
    t[:m, :n] = x.numbers
    return Launch([x, Output("f64", t.sum(axis=1)[:m]), Output("f64", t.sum(axis=0)[:n]), Output("f64", t.sum(keepdims=True)),
                   Output("f64", t.max(axis=0)[:n]), Output("f64", t.min(axis=1, keepdims=True)[:m]),
                   Output("f64", (t * 0.5 + 1).prod(axis=1)[:m], tolerance=1e-11), 16, 32])


@ct.kernel
def middle(x, sums, places, extent: ct.Constant[int]):
    """Along the middle axis of three: sums, and where the largest and the smallest are."""
    i, k = ct.bid(0), ct.bid(1)
    t = ct.load(x, (i, 0, k), shape=(2, extent, 8), padding_mode=ct.PaddingMode.ZERO)
    ct.store(sums, (i, k), ct.sum(t, axis=1))
    ct.store(places, (0, i, k), ct.argmax(t, axis=1).reshape((1, 2, 8)))
    ct.store(places, (1, i, k), ct.argmin(t, axis=1).reshape((1, 2, 8)))


@case(middle)
def _(random):
    a, c = random.extent(5), random.extent(20)
    x = random.array("i32", a, 16, c, scale=1000000)
    places = np.stack([x.stored.argmax(axis=1), x.stored.argmin(axis=1)]).astype(np.int32)
    return Launch([x, Output("i32", x.stored.sum(axis=1, dtype=np.int32)), Output("i32", places), 16], (blocks(a, 2), blocks(c, 8)))


@ct.kernel
def scans(x, along, back, products, m: ct.Constant[int], n: ct.Constant[int]):
    at = (ct.bid(0), 0)
    t = ct.load(x, at, shape=(m, n), padding_mode=ct.PaddingMode.ZERO)
    ct.store(along, at, ct.cumsum(t, axis=1))
    ct.store(back, at, ct.cumsum(t, axis=0, reverse=True))
    ct.store(products, at, ct.cumprod(t * 0.1 + 1.0, axis=1))


@case(scans)
def _(random):
    rows, columns = 8 * random.extent(3), random.extent(64)
    x = random.array("f32", rows, columns)
    back = np.flip(np.flip(x.numbers.reshape(-1, 8, columns), 1).cumsum(axis=1), 1).reshape(rows, columns)
    return Launch([x, Output("f32", x.numbers.cumsum(axis=1), 2e-5), Output("f32", back, 1e-5),
                   Output("f32", (x.numbers * 0.1 + 1).cumprod(axis=1), 2e-5), 8, 64], (rows // 8,))


def join_moments(count_a, mean_a, square_a, count_b, mean_b, square_b):
    """Number, mean and squared distances of two samples together."""
    count = count_a + count_b
    apart = mean_b - mean_a
    share = ct.where(count == 0.0, 0.0, count_b / ct.where(count == 0.0, 1.0, count))
    return count, mean_a + apart * share, square_a + square_b + apart * apart * count_a * share


@ct.kernel
def moments(x, mean, variance, tile: ct.Constant[int]):
    """A reduction of three values by a function of the kernel's author."""
    row = ct.bid(0)
    t = ct.load(x, (row, 0), shape=(1, tile), padding_mode=ct.PaddingMode.ZERO).reshape((tile,))
    one = (ct.arange(tile, dtype=ct.int32) < x.shape[1]).astype(ct.float64)
    count, average, square = ct.reduce((one, t, ct.zeros((tile,), ct.float64)), 0, join_moments, (0.0, 0.0, 0.0))
    ct.store(mean, (row,), average)
    ct.store(variance, (row,), square / count)


@case(moments)
def _(random):
    rows, columns = random.extent(9), random.extent(64)
    x = random.array("f64", rows, columns)
    return Launch([x, Output("f64", x.numbers.mean(axis=1), 1e-11), Output("f64", x.numbers.var(axis=1), 1e-11), 64], (rows,))


def after(decay, value, decay_before, value_before):
    """The first group of a scan's function is the later element (Tile IR, scan: current, previous)."""
    return decay_before * decay, value_before * decay + value


@ct.kernel
def recurrence(decay, x, out, tile: ct.Constant[int]):
    """y[i] = decay[i] * y[i - 1] + x[i] as a scan of pairs, over tiles that carry the last value on."""
    carried = ct.zeros((1, 1), ct.float64)
    last = ct.arange(tile, dtype=ct.int32) == tile - 1
    for j in range(ct.num_tiles(x, axis=1, shape=(1, tile))):
        d = ct.load(decay, (ct.bid(0), j), shape=(1, tile), padding_mode=ct.PaddingMode.ZERO)
        t = ct.load(x, (ct.bid(0), j), shape=(1, tile), padding_mode=ct.PaddingMode.ZERO)
        decays, values = ct.scan((d, t), 1, after, (1.0, 0.0))
        y = decays * carried + values
        ct.store(out, (ct.bid(0), j), y)
        carried = ct.sum(ct.where(last, y, 0.0), axis=1, keepdims=True)


@case(recurrence)
def _(random):
    rows, columns = random.extent(6), random.extent(100)
    decay, x = random.array("f64", rows, columns, scale=0.9), random.array("f64", rows, columns)
    out, y = np.zeros((rows, columns)), np.zeros(rows)
    for j in range(columns):
        y = decay.numbers[:, j] * y + x.numbers[:, j]
        out[:, j] = y
    return Launch([decay, x, Output("f64", out, 1e-11), 32], (rows,))


@ct.kernel
def log_sum_exp(x, out, tile: ct.Constant[int]):
    """A running maximum and a running sum over the tiles of a row, with a while loop."""
    row, j = ct.bid(0), 0
    top = ct.full((1, 1), -float("inf"), ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    while j * tile < x.shape[1]:
        t = ct.load(x, (row, j), shape=(1, tile), padding_mode=ct.PaddingMode.NEG_INF)
        higher = ct.maximum(top, ct.max(t, axis=1, keepdims=True))
        total = total * ct.exp(top - higher) + ct.sum(ct.exp(t - higher), axis=1, keepdims=True)
        top = higher
        j += 1
    ct.store(out, (row, 0), top + ct.log(total))


@case(log_sum_exp)
def _(random):
    rows, columns = random.extent(10), random.extent(120)
    x = random.array("f32", rows, columns, scale=30)
    top = x.numbers.max(axis=1, keepdims=True)
    out = top + np.log(np.exp(x.numbers - top).sum(axis=1, keepdims=True))
    return Launch([x, Output("f32", out), 32], (rows,))
