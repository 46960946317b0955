"""Matrix products: element types, batches, transposes, parts added by atomic operations, attention."""
import math

import cuda.tile as ct
import numpy as np

from launches import Launch, Output, Random, blocks, case

ZERO = ct.PaddingMode.ZERO


@ct.kernel
def product(a, b, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int], tf32: ct.Constant[bool]):
    """c = a b with the accumulator that the element type has."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((m, n), ct.int32 if a.dtype == ct.int8 else ct.float64 if a.dtype == ct.float64 else ct.float32)
    for step in range(ct.num_tiles(a, axis=1, shape=(m, k))):
        left = ct.load(a, (i, step), shape=(m, k), padding_mode=ZERO)
        right = ct.load(b, (step, j), shape=(k, n), padding_mode=ZERO)
        if tf32:
            left, right = left.astype(ct.tfloat32), right.astype(ct.tfloat32)
        total = ct.mma(left, right, total)
    ct.store(c, (i, j), total.astype(c.dtype))


def rounded_to_tf32(x):
    """f32 with 10 bits after the point, nearest even."""
    bits = x.astype(np.float32).view(np.uint32)
    bits = bits + 0xFFF + (bits >> 13 & 1)
    return (bits & ~np.uint32(0x1FFF)).view(np.float32).astype(np.float64)


def product_case(element, result, tolerance=None, scale=2.0, tf32=False, second=Random.array):
    def make(random):
        m, n, k = random.extent(40), random.extent(40), random.extent(70)
        a, b = random.array(element, m, k, scale=scale), second(random, element, k, n, scale=scale)
        x, y = a.numbers, b.numbers
        if element == "i8":
            x, y = x.astype(np.int32), y.astype(np.int32)
        if tf32:
            x, y = rounded_to_tf32(x), rounded_to_tf32(y)
        c = x @ y
        return Launch([a, b, Output(result, c, tolerance), 16, 16, 32, tf32], (blocks(m, 16), blocks(n, 16)))
    return make


case(product, "product_f16")(product_case("f16", "f16"))
case(product, "product_bf16")(product_case("bf16", "f32", 1e-5))
case(product, "product_tf32")(product_case("f32", "f32", 1e-5, tf32=True))
case(product, "product_f64")(product_case("f64", "f64", 1e-12))
case(product, "product_e4m3")(product_case("f8e4m3", "f32", 1e-5))
case(product, "product_e5m2")(product_case("f8e5m2", "f32", 1e-5))
case(product, "product_i8")(product_case("i8", "i32", scale=127))
case(product, "product_transposed")(product_case("f32", "f32", 1e-5, second=Random.transposed))
case(product, "product_padded")(product_case("f16", "f32", 1e-5, second=Random.padded))


@ct.kernel
def batched(a, b, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """Three axes; b is stored as [batch, columns, depth] and read transposed."""
    page, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((2, m, n), ct.float32)
    for step in range(ct.num_tiles(a, axis=2, shape=(2, m, k))):
        left = ct.load(a, (page, i, step), shape=(2, m, k), padding_mode=ZERO)
        right = ct.load(b, (page, step, j), shape=(2, k, n), order=(0, 2, 1), padding_mode=ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (page, i, j), total)


@case(batched)
def _(random):
    pages, m, n, k = random.extent(5), random.extent(20), random.extent(20), random.extent(40)
    a, b = random.array("bf16", pages, m, k), random.array("bf16", pages, n, k)
    c = a.numbers @ b.numbers.transpose(0, 2, 1)
    return Launch([a, b, Output("f32", c, 1e-5), 8, 16, 16], (blocks(pages, 2), blocks(m, 8), blocks(n, 16)))


@ct.kernel
def split(a, b, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """Each block multiplies one part of the depth and adds it to c atomically."""
    i, j, part = ct.bid(0), ct.bid(1), ct.bid(2)
    left = ct.load(a, (i, part), shape=(m, k), padding_mode=ZERO)
    right = ct.load(b, (part, j), shape=(k, n), padding_mode=ZERO)
    rows = i * m + ct.arange(m, dtype=ct.int32)
    columns = j * n + ct.arange(n, dtype=ct.int32)
    ct.atomic_add(c, (rows[:, None], columns[None, :]), ct.matmul(left, right))


@case(split)
def _(random):
    m, n, k = random.extent(20), random.extent(20), random.extent(64)
    a, b = random.array("f32", m, k), random.array("f32", k, n)
    c = random.array("f32", m, n)
    c.expected = c.numbers + a.numbers @ b.numbers
    return Launch([a, b, c, 8, 8, 16], (blocks(m, 8), blocks(n, 8), blocks(k, 16)))


@ct.kernel
def attention(q, k, v, out, lse, scale: ct.Constant[float], rows: ct.Constant[int], columns: ct.Constant[int], width: ct.Constant[int]):
    """Causal attention: a running maximum, and a loop that ends at the diagonal."""
    head, i = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), shape=(1, rows, width), padding_mode=ZERO).reshape((rows, width))
    top = ct.full((rows, 1), -math.inf, ct.float32)
    total = ct.zeros((rows, 1), ct.float32)
    result = ct.zeros((rows, width), ct.float32)
    row = i * rows + ct.arange(rows, dtype=ct.int32)[:, None]
    for j in range(ct.num_tiles(k, axis=1, shape=(1, columns, width))):
        if j * columns > i * rows + rows - 1:
            break
        key = ct.load(k, (head, j, 0), shape=(1, columns, width), padding_mode=ZERO).reshape((columns, width))
        value = ct.load(v, (head, j, 0), shape=(1, columns, width), padding_mode=ZERO).reshape((columns, width))
        score = ct.mma(query, ct.transpose(key), ct.zeros((rows, columns), ct.float32)) * scale
        column = j * columns + ct.arange(columns, dtype=ct.int32)[None, :]
        score = ct.where((column <= row) & (column < k.shape[1]), score, -math.inf)
        higher = ct.maximum(top, ct.max(score, axis=1, keepdims=True))
        weight = ct.exp(score - higher)
        shrink = ct.exp(top - higher)
        total = total * shrink + ct.sum(weight, axis=1, keepdims=True)
        result = ct.mma(weight.astype(v.dtype), value, result * shrink)
        top = higher
    ct.store(out, (head, i, 0), (result / total).astype(out.dtype).reshape((1, rows, width)))
    ct.store(lse, (head, i), (top + ct.log(total)).reshape((1, rows)))


@case(attention)
def _(random):
    heads, length, width = random.extent(3), random.extent(50), random.extent(16)
    q, k, v = (random.array("f16", heads, length, width) for _ in range(3))
    score = q.numbers @ k.numbers.transpose(0, 2, 1) * 0.3
    score = np.where(np.tril(np.ones((length, length), bool)), score, -np.inf)
    top = score.max(axis=2, keepdims=True)
    weight = np.exp(score - top)
    total = weight.sum(axis=2, keepdims=True)
    return Launch([q, k, v, Output("f16", weight @ v.numbers / total), Output("f32", (top + np.log(total))[:, :, 0], 1e-5), 0.3, 16, 8, 16],
                  (heads, blocks(length, 16)))


@ct.kernel
def rotate(x, out, a: ct.Constant[int], b: ct.Constant[int], c: ct.Constant[int]):
    """[a, b, c] to [c, a, b]."""
    i, j, k = ct.bid(0), ct.bid(1), ct.bid(2)
    t = ct.load(x, (i, j, k), shape=(a, b, c))
    ct.store(out, (k, i, j), ct.permute(t, (2, 0, 1)))


@case(rotate)
def _(random):
    a, b, c = random.extent(9), random.extent(20), random.extent(20)
    x = random.array("i16", a, b, c, scale=30000)
    return Launch([x, Output("i16", x.stored.transpose(2, 0, 1)), 2, 4, 8], (blocks(a, 2), blocks(b, 4), blocks(c, 8)))
