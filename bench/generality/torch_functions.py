"""What each case of generality_bench computes, in PyTorch: as a program would write it, with the fused operation where
PyTorch has one.

functions_of(case, device) gives the ways to write it, {name: function of the inputs}, of which the fastest is measured;
compiled_of(case, device) those that are given to torch.compile, where they are others. A function returns one tensor or
a tuple, in the order of the case's outputs; integers may be of other widths.
"""

import math
import re

import torch
import torch.nn.functional as F

BF16, F32 = torch.bfloat16, torch.float32
EPS, BATCH_EPS = 1e-6, 1e-5  # of rows and group norm; of batch norm
RANDOM = {"dropout"}  # results are PyTorch's own
# How far results may be from ours, as a relative norm, where inner results are rounded (to bf16; tf32 in convolutions).
ROUNDED = {
    "cosine_similarity": 2e-2,
    "causal_convolution": 2e-2,
    "convolution_3x3": 1e-2,
    "filter": 2e-2,
    "mandelbrot": 5e-2,
}
TOLERANCE = 1e-2


def work_of(name):
    """softmax_96 and library_softmax_96 are softmax."""
    return re.sub(r"_[0-9]+$", "", name.removeprefix("library_"))


def product_f32(a, b):
    """a b of 16-bit operands as f32, rounded once."""
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=F32)
    return a.float() @ b.float()


# -- products --------------------------------------------------------------------------------------------------------


def product_gelu(a, b, bias):
    t = torch.addmm(bias, a, b)
    return t * torch.sigmoid(1.702 * t)


def pairwise_distances(x, y):
    xx, yy = x.float().square().sum(1), y.float().square().sum(1)
    return xx[:, None] + yy - 2 * product_f32(x, y.t())


def nearest_centre(x, centres):
    return (centres.float().square().sum(1) - 2 * product_f32(x, centres.t())).argmin(1)


def in_window(window):
    return lambda b, h, q, k: (q >= k) & (q - k < window)


def window_attention(case, device):
    length, window = case["arguments"]["length"], case["arguments"]["window"]
    place = torch.arange(length, device=device)
    mask = in_window(window)(0, 0, place[:, None], place[None, :])
    return {"scaled_dot_product_attention": lambda q, k, v: F.scaled_dot_product_attention(
        q[None], k[None], v[None], attn_mask=mask)[0]}


def window_attention_compiled(case, device):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    length, window = case["arguments"]["length"], case["arguments"]["window"]
    blocks = create_block_mask(in_window(window), None, None, length, length, device=device)
    return {"flex_attention": lambda q, k, v: flex_attention(q[None], k[None], v[None], block_mask=blocks)[0]}


# -- rows ------------------------------------------------------------------------------------------------------------


def mean_variance(x):
    variance, mean = torch.var_mean(x, dim=1, correction=0)
    return mean, variance


def quantise(x):
    scale = x.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
    return torch.clamp(torch.floor(x / scale + 0.5), -127, 127).to(torch.int8), scale[:, 0]


def layer_norm_gradient(x, dy, weight, mean, rstd):
    if not x.is_cuda:  # where all must be of one type
        mean, rstd = mean.to(x.dtype), rstd.to(x.dtype)
    return torch.ops.aten.native_layer_norm_backward(
        dy, x, [x.shape[1]], mean[:, None], rstd[:, None], weight, None, [True, False, False]
    )[0]


def add_rms_norm(x, residual, weight):
    h = x + residual
    return F.rms_norm(h, (x.shape[1],), weight, EPS), h


def group_norm(x, weight, bias):
    batch, groups, channels, places = x.shape
    y = F.group_norm(x.view(batch, groups * channels, places), groups, weight.view(-1), bias.view(-1), EPS)
    return y.view(x.shape)


# -- element by element ----------------------------------------------------------------------------------------------


def swiglu(x):
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


def rope(x, cosines, sines):
    a, b = x.chunk(2, -1)
    c, s = cosines[None, :, None, :], sines[None, :, None, :]
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(BF16)


def polynomial(x):
    s = torch.zeros_like(x)
    for k in range(64, -1, -1):
        s = s * x + 1.0 / (k + 1)
    return s


def complex_product(ar, ai, br, bi):
    return ar * br - ai * bi, ar * bi + ai * br


def hash_bits(x):
    h = (x ^ ((x >> 16) & 0xFFFF)) * 0x45D9F3B
    h = (h ^ ((h >> 16) & 0xFFFF)) * 0x45D9F3B
    h = h ^ ((h >> 16) & 0xFFFF)
    h = h - ((h >> 1) & 0x55555555)
    h = (h & 0x33333333) + ((h >> 2) & 0x33333333)
    h = (h + (h >> 4)) & 0x0F0F0F0F
    return (h * 0x01010101) >> 24


def mandelbrot(case, device):
    m, n = case["arguments"]["m"], case["arguments"]["n"]

    def steps():
        ci = (torch.arange(m, device=device, dtype=F32) * 3.0 / m - 1.5)[:, None]
        cr = (torch.arange(n, device=device, dtype=F32) * 3.0 / n - 2.0)[None, :]
        zr, zi = torch.zeros(m, n, device=device), torch.zeros(m, n, device=device)
        count = torch.zeros(m, n, device=device, dtype=torch.int32)
        inside = torch.ones(m, n, device=device, dtype=torch.bool)
        for _ in range(64):
            zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
            count = count + inside
            inside = inside & (zr * zr + zi * zi <= 4.0)
        return count

    return {"loop": steps}


# -- neighbours, shared results, recurrences -------------------------------------------------------------------------


def convolution_by_shifts(x, w):
    padded, length = F.pad(x, (0, 0, 3, 0)), x.shape[1]
    return F.silu(sum(padded[:, tap : tap + length] * w[tap] for tap in range(4)))


def convolution_by_conv1d(x, w):
    y = F.conv1d(x.transpose(1, 2), w.t()[:, None, :], padding=3, groups=x.shape[2])
    return F.silu(y[:, :, : x.shape[1]]).transpose(1, 2).contiguous()


def depthwise_3x3(x, w):
    y = F.conv2d(x.permute(0, 3, 1, 2), w.permute(2, 0, 1)[:, None], padding=1, groups=x.shape[3])
    return y.permute(0, 2, 3, 1).contiguous()


def depthwise_by_shifts(x, w):
    p, n = F.pad(x, (0, 0, 1, 1, 1, 1)), x.shape[1]
    return sum(p[:, i : i + n, j : j + n].float() * w[i, j].float() for i in range(3) for j in range(3)).bfloat16()


def filter_by_shifts(x, w):
    padded, length = F.pad(x, (0, 0, 7, 0)), x.shape[1]
    return sum(padded[:, tap : tap + length].float() * w[tap] for tap in range(8)).bfloat16()


def filter_by_conv1d(x, w):
    y = F.conv1d(x.transpose(1, 2), w.t()[:, None, :].bfloat16(), padding=7, groups=x.shape[2])
    return y[:, :, : x.shape[1]].transpose(1, 2).contiguous()


def seven_point_stencil(x):
    p = F.pad(x, (1,) * 6)
    sums = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
    return sums + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] - 6 * x


def jacobi(x, f):
    p = F.pad(x, (1,) * 4)
    return 0.25 * (f + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])


def box_blur(x):
    return F.avg_pool2d(x[None, None], 3, stride=1, padding=1)[0, 0]


def add_rows(case, device):
    rows = case["arguments"]["rows"]
    return {"index_add": lambda x, ids: torch.zeros(rows, x.shape[1], device=x.device).index_add_(0, ids, x)}


def segment_sums(case, device):
    segments = case["arguments"]["segments"]

    def by_index(x, limits):  # what lies outside goes into one more row
        ids = torch.bucketize(torch.arange(x.shape[0], device=x.device), limits, right=True) - 1
        ids = torch.where(ids < 0, segments, ids)
        return torch.zeros(segments + 1, x.shape[1], device=x.device).index_add_(0, ids, x)[:segments]

    def by_segment(x, limits):
        return torch.segment_reduce(x, "sum", offsets=limits, unsafe=True)

    return {"segment_reduce": by_segment, "index_add": by_index}


def combine(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


def scanned(a, b):
    """h = a h + b along the time."""
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(combine, (a, b), dim=1)[1]


def moving_average_scanned(x):
    first = torch.arange(x.shape[1], device=x.device)[None, :, None] == 0
    return scanned(torch.full_like(x, 0.9), torch.where(first, x, 0.1 * x))


def moving_average(x):
    s, y = x[:, 0], torch.empty_like(x)
    for t in range(x.shape[1]):
        s = torch.lerp(s, x[:, t], 0.1)
        y[:, t] = s
    return y


def recurrence(a, x):
    h, y = torch.zeros_like(x[:, 0]), torch.empty_like(x)
    for t in range(x.shape[1]):
        h = torch.addcmul(x[:, t], a[:, t], h)
        y[:, t] = h
    return y


# -- the table -------------------------------------------------------------------------------------------------------

NEG_INF = -math.inf
FUNCTIONS = {
    "product_gelu": product_gelu,
    "product_relu_residual": lambda a, b, r: torch.relu(a @ b) + r,
    "batched_product": torch.bmm,
    "gram": lambda x: product_f32(x.t(), x),
    "two_layers": lambda x, a, b: torch.relu(x @ a) @ b,
    "pairwise_distances": pairwise_distances,
    "nearest_centre": nearest_centre,
    "gemm": torch.matmul,
    "matmul": torch.matmul,
    "matrix_vector": torch.mv,
    "batched_matrix_vector": lambda a, x: torch.bmm(a, x[:, :, None])[:, :, 0],
    "softmax": lambda x: F.softmax(x, dim=-1),
    "rms_norm": lambda x, w: F.rms_norm(x, (x.shape[1],), w, EPS),
    "layer_norm": lambda x, w, b: F.layer_norm(x, (x.shape[1],), w, b, EPS),
    "cross_entropy": lambda x, t: F.cross_entropy(x, t.long(), reduction="none"),
    "log_sum_exp": lambda x: torch.logsumexp(x, dim=1),
    "argmax": lambda x: x.argmax(1),
    "top_one": lambda x: tuple(torch.max(x, dim=1)),
    "mean_variance": mean_variance,
    "cosine_similarity": lambda a, b: F.cosine_similarity(a, b, dim=1),
    "quantise": quantise,
    "softmax_gradient": lambda y, dy: torch.ops.aten._softmax_backward_data(dy, y, 1, y.dtype),
    "layer_norm_gradient": layer_norm_gradient,
    "masked_softmax": lambda x, mask: F.softmax(torch.where(mask, x, NEG_INF), dim=-1),
    "add_rms_norm": add_rms_norm,
    "group_norm": group_norm,
    "prefix_sum": lambda x: torch.cumsum(x, 1),
    "running_max": lambda x: torch.cummax(x, 1).values,
    "channel_bias": lambda x, b: x + b[:, None],
    "batch_norm": lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, False, 0.0, BATCH_EPS),
    "dequantise": lambda x, s: (x * s[:, None]).to(BF16),
    "one_hot": lambda ids: (ids[:, None] == torch.arange(128, device=ids.device, dtype=ids.dtype)).float(),
    "upper_triangle": torch.triu,
    "outer_product": torch.outer,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_gradient": lambda x, dy: torch.ops.aten.gelu_backward(dy, x, approximate="tanh"),
    "swiglu": swiglu,
    "dropout": lambda x: F.dropout(x, 0.25, training=True),
    "rope": rope,
    "polynomial": polynomial,
    "f64_hypotenuse": torch.hypot,
    "complex_product": complex_product,
    "hash_bits": hash_bits,
    "transpose": lambda x: x.t().contiguous(),
    "heads_last": lambda x: x.transpose(1, 2).contiguous(),
    "embedding": lambda table, ids: F.embedding(ids, table),
    "upsample": lambda x: F.interpolate(x[None], scale_factor=2, mode="bilinear", align_corners=False)[0],
    "seven_point_stencil": seven_point_stencil,
    "jacobi": jacobi,
    "box_blur": box_blur,
    "convolution_3x3": lambda x, w: F.conv2d(x, w, padding=1),
    "max_pool": lambda x: F.max_pool2d(x[:, None], 2)[:, 0],
    "average_pool": lambda x: F.avg_pool2d(x[:, None], 3, 1, 1)[:, 0],
    "column_sums_added": lambda x: x.sum(0),
    "column_sums": lambda x: x.sum(0),
    "byte_histogram": lambda x: torch.bincount(x, minlength=256),
    "moving_average": moving_average,
    "recurrence": recurrence,
}
WAYS = {  # several, of which the fastest counts
    "convolution_1x1": {"matmul": lambda x, w: torch.matmul(w, x), "conv1d": lambda x, w: F.conv1d(x, w[:, :, None])},
    "causal_convolution": {"shifts": convolution_by_shifts, "conv1d": convolution_by_conv1d},
    "depthwise_3x3": {"shifts": depthwise_by_shifts, "conv2d": depthwise_3x3},
    "filter": {"shifts": filter_by_shifts, "conv1d": filter_by_conv1d},
}
MAKERS = {
    "window_attention": window_attention,
    "mandelbrot": mandelbrot,
    "add_rows": add_rows,
    "segment_sums": segment_sums,
}
COMPILED = {  # loops over the time take the compiler hours
    "window_attention": window_attention_compiled,
    "moving_average": lambda case, device: {"associative_scan": moving_average_scanned},
    "recurrence": lambda case, device: {"associative_scan": scanned},
}


def functions_of(case, device):
    work = work_of(case["name"])
    if work in MAKERS:
        return MAKERS[work](case, device)
    return WAYS.get(work) or {"torch": FUNCTIONS[work]}


def compiled_of(case, device):
    make = COMPILED.get(work_of(case["name"]))
    return make(case, device) if make else functions_of(case, device)
