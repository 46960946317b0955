"""Kernels that compute element by element: numbers, masks, conversions, broadcasts, bits."""
import cuda.tile as ct
import numpy as np

from launches import Launch, Number, Output, blocks, case, several


@ct.kernel
def axpy(x, y, out, a, size: ct.Constant[int]):
    at = (ct.bid(0),)
    xs = ct.load(x, at, shape=(size,))
    ys = ct.load(y, at, shape=(size,))
    ct.store(out, at, xs * a + ys)


@case(axpy)
@several(axpy)
def _(random, element="f32"):
    n, a = random.extent(700), round(random.uniform(-3, 3), 3)
    x, y = random.array(element, n), random.array(element, n)
    return Launch([x, y, Output(element, a * x.numbers + y.numbers), Number(element, a), 64], (blocks(n, 64),))


@ct.kernel
def activation(x, value, slope, alpha: ct.Constant[float], rows: ct.Constant[int], columns: ct.Constant[int]):
    """x / (1 + exp(-alpha x)) and its derivative."""
    at = (ct.bid(1), ct.bid(0))
    t = ct.load(x, at, shape=(rows, columns)).astype(ct.float32)
    sigmoid = 1.0 / (1.0 + ct.exp(-alpha * t))
    ct.store(value, at, (t * sigmoid).astype(value.dtype))
    ct.store(slope, at, (sigmoid * (1.0 + alpha * t * (1.0 - sigmoid))).astype(slope.dtype))


@case(activation)
def _(random):
    rows, columns = random.extent(40), random.extent(90)
    x = random.array("f16", rows, columns, scale=6)
    t = x.numbers
    sigmoid = 1 / (1 + np.exp(-1.5 * t))
    slope = sigmoid * (1 + 1.5 * t * (1 - sigmoid))
    return Launch([x, Output("f16", t * sigmoid), Output("f16", slope), 1.5, 8, 32], (blocks(columns, 32), blocks(rows, 8)))


@ct.kernel
def integers(x, y, quotient, remainder, mixed, shift, size: ct.Constant[int]):
    at = (ct.bid(0),)
    a = ct.load(x, at, shape=(size,))
    b = ct.load(y, at, shape=(size,), padding_mode=ct.PaddingMode.ZERO)
    b = ct.where(b == 0, 7, b)
    ct.store(quotient, at, a // b)
    ct.store(remainder, at, a % b)
    ct.store(mixed, at, (a ^ b) + (a & ~b) * 3 - (a | b))
    ct.store(shift, at, (a >> (b & 3)) + (b << 2))


def integers_case(element):
    def make(random):
        n = random.extent(300)
        x, y = random.array(element, n, scale=100), random.array(element, n, scale=20)
        two, three, seven = (x.stored.dtype.type(i) for i in (2, 3, 7))
        a, b = x.stored, np.where(y.stored == 0, seven, y.stored)
        results = [a // b, a % b, (a ^ b) + (a & ~b) * three - (a | b), (a >> (b & three)) + (b << two)]
        return Launch([x, y, *(Output(element, r) for r in results), 128], (blocks(n, 128),))
    return make


for of in ("i16", "i32", "i64"):
    case(integers, f"integers_{of}")(integers_case(of))


@ct.kernel
def unsigned(x, y, remainder, order, mixed, tile: ct.Constant[int]):
    """Unsigned numbers, where signed operations would give others."""
    at = (ct.bid(0),)
    a = ct.load(x, at, shape=(tile,))
    b = ct.maximum(ct.load(y, at, shape=(tile,), padding_mode=ct.PaddingMode.ZERO), 1)
    ct.store(remainder, at, a % b)
    ct.store(order, at, ct.where(a < b, ct.minimum(a, b) >> 3, ct.maximum(a, b) >> 1))
    ct.store(mixed, at, a.astype(ct.float64) - (b * a).astype(ct.float64))


def unsigned_case(element):
    def make(random):
        n = random.extent(200)
        x, y = random.bits(element, n), random.bits(element, n)
        one, three = x.stored.dtype.type(1), x.stored.dtype.type(3)
        a, b = x.stored, np.maximum(y.stored, one)
        order = np.where(a < b, np.minimum(a, b) >> three, np.maximum(a, b) >> one)
        return Launch([x, y, Output(element, a % b), Output(element, order), Output("f64", a.astype(np.float64) - (a * b).astype(np.float64)), 64],
                      (blocks(n, 64),))
    return make


for of in ("u8", "u32", "u64"):
    case(unsigned, f"unsigned_{of}")(unsigned_case(of))


@ct.kernel
def masked(x, keep, low, high, out, count, tile: ct.Constant[int]):
    """Clamps where `keep` says so and counts what was out of range; NaN becomes -1."""
    at = (ct.bid(0), 0)
    t = ct.load(x, at, shape=(1, tile), padding_mode=ct.PaddingMode.ZERO)
    k = ct.load(keep, at, shape=(1, tile))
    inside = ct.minimum(ct.maximum(t, low), high)
    ct.store(out, at, ct.where(ct.isnan(t), -1.0, ct.where(k, inside, t)))
    outside = ct.sum(((t < low) | (t > high)).astype(ct.int32), axis=1)
    ct.store(count, (ct.bid(0),), outside)


@case(masked)
def _(random):
    rows, columns = random.extent(9), random.extent(64)
    x, keep = random.array("f64", rows, columns), random.array("bool", rows, columns)
    x.stored[random.random(x.stored.shape) < 0.1] = np.nan
    t = x.numbers
    clamped = np.where(keep.stored, np.clip(t, -0.5, 1.25), t)
    return Launch([x, keep, Number("f64", -0.5), Number("f64", 1.25), Output("f64", np.where(np.isnan(t), -1, clamped)),
                   Output("i32", ((t < -0.5) | (t > 1.25)).sum(axis=1)), 64], (rows,))


@ct.kernel
def outer(column, row, page, out, tile: ct.Constant[int]):
    """A column, a row and a page of numbers, broadcast over three axes."""
    i, j, k = ct.bid(0), ct.bid(1), ct.bid(2)
    c = ct.load(column, (i, 0), shape=(tile, 1))
    r = ct.load(row, (j,), shape=(tile,))
    p = ct.load(page, (k,), shape=(2,)).reshape((2, 1, 1))
    ct.store(out, (k, i, j), c * r + p)


@case(outer)
def _(random):
    m, n, pages = random.extent(40), random.extent(50), random.extent(5)
    column, row, page = random.array("f32", m, 1), random.array("f32", n), random.array("f32", pages)
    out = column.numbers * row.numbers + page.numbers[:, None, None]
    return Launch([column, row, page, Output("f32", out), 16], (blocks(m, 16), blocks(n, 16), blocks(pages, 2)))


@ct.kernel
def dice(seed, bits, uniform, rounds: ct.Constant[int], size: ct.Constant[int]):
    """Random numbers from bit operations on the element's number: each round multiplies, rotates and mixes."""
    first = ct.bid(0) * size
    state = (ct.arange(size, dtype=ct.int32) + first).astype(ct.uint32) ^ seed
    for _ in range(rounds):
        state = state * 0x9E3779B1 + 0x7F4A7C15
        state = (state << 13) | (state >> 19)
        state = state ^ (state >> 16)
    ct.store(bits, (ct.bid(0),), state)
    ct.store(uniform, (ct.bid(0),), (state >> 8).astype(ct.float32) * (1.0 / (1 << 24)))


@case(dice)
def _(random):
    n, seed = random.extent(500), int(random.integers(0, 1 << 32))
    state = np.arange(n, dtype=np.uint32) ^ np.uint32(seed)
    for _ in range(5):
        state = state * np.uint32(0x9E3779B1) + np.uint32(0x7F4A7C15)
        state = (state << np.uint32(13)) | (state >> np.uint32(19))
        state = state ^ (state >> np.uint32(16))
    return Launch([Number("u32", seed), Output("u32", state), Output("f32", (state >> np.uint32(8)) / (1 << 24)), 5, 128], (blocks(n, 128),))


@ct.kernel
def conversions(x, half, brain, small, wide, whole, bits, tile: ct.Constant[int]):
    at = (ct.bid(0),)
    t = ct.load(x, at, shape=(tile,))
    ct.store(half, at, t.astype(ct.float16))
    ct.store(brain, at, t.astype(ct.bfloat16))
    ct.store(small, at, t.astype(ct.float8_e4m3fn))
    ct.store(wide, at, t.astype(ct.float8_e5m2).astype(ct.float64))
    ct.store(whole, at, t.astype(ct.int16))
    ct.store(bits, at, ct.bitcast(t, ct.uint32))


@case(conversions)
def _(random):
    n = random.extent(300)
    x = random.array("f32", n, scale=40)
    t = x.numbers
    return Launch([x, Output("f16", t), Output("bf16", t), Output("f8e4m3", t), Output("f64", t, tolerance=0.13),
                   Output("i16", np.trunc(t).astype(np.int16)), Output("u32", x.stored.view(np.uint32)), 64], (blocks(n, 64),))


@ct.kernel
def functions(x, a, b, c, d, tile: ct.Constant[int]):
    at = (ct.bid(0),)
    t = ct.load(x, at, shape=(tile,), padding_mode=ct.PaddingMode.ZERO)
    positive = ct.abs(t) + 0.25
    ct.store(a, at, ct.sin(t) * ct.cos(t) + ct.tanh(t))
    ct.store(b, at, ct.log(positive) + ct.exp2(t) * ct.rsqrt(positive))
    ct.store(c, at, ct.sqrt(positive) ** 3.0 - ct.log2(positive))
    ct.store(d, at, ct.floor(t * 3.0) - ct.ceil(t) + ct.sinh(t) / ct.cosh(t))


def functions_case(element, tolerance):
    def make(random):
        n = random.extent(200)
        x = random.array(element, n, scale=3)
        t = x.numbers
        positive = np.abs(t) + 0.25
        outputs = [np.sin(t) * np.cos(t) + np.tanh(t), np.log(positive) + np.exp2(t) / np.sqrt(positive),
                   positive**1.5 - np.log2(positive), np.floor(x.stored * x.stored.dtype.type(3)) - np.ceil(t) + np.tanh(t)]
        return Launch([x, *(Output(element, o, tolerance) for o in outputs), 64], (blocks(n, 64),))
    return make


case(functions, "functions_f32")(functions_case("f32", 1e-5))
case(functions, "functions_f64")(functions_case("f64", 1e-12))


@ct.kernel
def escape(real, imaginary, steps, limit: ct.Constant[int], tile: ct.Constant[int]):
    """How long z*z + c stays small: a loop that ends when no element goes on."""
    i, j = ct.bid(0), ct.bid(1)
    c_re = ct.load(real, (j,), shape=(tile,)).reshape((1, tile))
    c_im = ct.load(imaginary, (i,), shape=(tile,)).reshape((tile, 1))
    re = ct.zeros((tile, tile), ct.float64)
    im = ct.zeros((tile, tile), ct.float64)
    count = ct.zeros((tile, tile), ct.int32)
    step = 0
    while step < limit:
        alive = re * re + im * im <= 4.0
        if ct.sum(alive.astype(ct.int32)) == 0:
            break
        re, im = ct.where(alive, re * re - im * im + c_re, re), ct.where(alive, 2.0 * re * im + c_im, im)
        count = count + alive.astype(ct.int32)
        step += 1
    ct.store(steps, (i, j), count)


@case(escape)
def _(random):
    m, n = random.extent(20), random.extent(20)
    # Far from the set in one case of three, so that the loop ends early.
    shift = random.choice([0.0, 0.0, 3.0])
    real, imaginary = random.array("f64", n), random.array("f64", m)
    real.stored += shift
    c_re, c_im = real.numbers[None, :], imaginary.numbers[:, None]
    re, im, count = np.zeros((m, n)), np.zeros((m, n)), np.zeros((m, n), np.int32)
    for _ in range(30):
        alive = re * re + im * im <= 4.0
        re, im = np.where(alive, re * re - im * im + c_re, re), np.where(alive, 2 * re * im + c_im, im)
        count += alive
    return Launch([real, imaginary, Output("i32", count), 30, 8], (blocks(m, 8), blocks(n, 8)))
