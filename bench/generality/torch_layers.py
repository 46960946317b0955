"""The cases of operands.cpp, uneven.cpp, two_passes.cpp, wide_attention.cpp, attention_gradients.cpp,
transcendental.cpp, library_layers.cpp and library_gradients.cpp, and some of training.cpp, times.cpp and pools.cpp in
PyTorch, as a program would write them: FUNCTIONS, WAYS, MAKERS, COMPILED and ROUNDED as in torch_functions.py, which
reads them.
"""

import functools
import math

import torch
import torch.nn.functional as F
import torch_operations as ops

BF16, F16, F32, I32 = torch.bfloat16, torch.float16, torch.float32, torch.int32
NORM_EPS, ROW_EPS = 1e-5, 1e-6
INF = float("inf")


# -- products --------------------------------------------------------------------------------------------------------


def in_tf32(f):
    """f with products of tf32, as a program allows them."""

    @functools.wraps(f)
    def rounded(*inputs):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return f(*inputs)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return rounded


def i8_product(a, b):
    extents = (a.shape[0], a.shape[1], b.shape[1])
    if a.is_cuda and all(n % 8 == 0 for n in extents):
        return torch._int_mm(a, b)
    return (a.double() @ b.double()).to(I32)


def mv(a, x):
    return a.t() @ x


# -- tiles that differ in work ---------------------------------------------------------------------------------------


def causal_scores(q, k):
    return (torch.bmm(q, k.transpose(1, 2)) * 0.125).tril()


def block_sparse_by_bmm(limits, columns, blocks, b):
    first, last, rows = int(limits[0]), int(limits[-1]), limits.shape[0] - 1
    which = torch.arange(rows, device=b.device)
    owner = torch.repeat_interleave(which, limits.diff(), output_size=last - first)
    products = torch.bmm(blocks[first:last], b.view(rows, 64, -1)[columns[first:last]])
    return torch.zeros(rows, 64, b.shape[1], device=b.device).index_add_(0, owner, products.float()).flatten(0, 1).to(F16)


def block_sparse_by_bsr(limits, columns, blocks, b):
    first, last = int(limits[0]), int(limits[-1])
    n = b.shape[0]
    return torch.sparse_bsr_tensor(limits - first, columns[first:last], blocks[first:last], (n, n)) @ b


def block_sparse_product(case, device):
    ways = {"bmm": block_sparse_by_bmm}
    return ways if device == "cpu" else ways | {"sparse_bsr": block_sparse_by_bsr}  # which the CPU has not for f16


def lengths_product(a, b, lengths):
    inside = torch.arange(a.shape[2], device=a.device) < lengths[:, None, None]
    return torch.bmm(torch.where(inside, a, 0), b)


def lengths_softmax(x, lengths):
    inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return F.softmax(x.masked_fill(~inside, -INF), 1)


def kepler(m, e):
    x = m
    for _ in range(12):
        x = x - (x - e * torch.sin(x) - m) / (1 - e * torch.cos(x))
    return x


# -- norms in two passes ---------------------------------------------------------------------------------------------


def long_group_norm(x, weight, bias):
    images, groups, n = x.shape
    planes = x.view(images, groups * weight.shape[1], n // weight.shape[1])
    return F.group_norm(planes, groups, weight.flatten().to(BF16), bias.flatten().to(BF16), NORM_EPS).view(x.shape)


def group_norm_last(x, weight, bias):
    planes = x.flatten(2).transpose(1, 2)
    y = F.group_norm(planes, x.shape[2], weight.flatten().to(F16), bias.flatten().to(F16), NORM_EPS)
    return y.transpose(1, 2).reshape(x.shape)


def standardised_columns(x):
    variance, mean = torch.var_mean(x, dim=0, correction=0)
    return (x - mean) * torch.rsqrt(variance)


def weight_norm(v, g):
    return (v * (g / v.float().norm(dim=1))[:, None]).to(BF16)


# -- attention -------------------------------------------------------------------------------------------------------


def latent_by_products(q, q_turned, cache, turned):
    s = torch.bmm(q, cache.mT) + torch.bmm(q_turned, turned.mT)
    return torch.bmm(F.softmax(s.float() * 576**-0.5, -1).to(BF16), cache)


def latent_decode(q, q_turned, cache, turned):
    query, keys = torch.cat((q, q_turned), -1), torch.cat((cache, turned), -1)
    return F.scaled_dot_product_attention(query[:, None], keys[:, None], cache[:, None])[:, 0]


def two_part_keys(q, q_turned, k, k_turned, v):
    query = torch.cat((q, q_turned), -1)
    keys = torch.cat((k, k_turned.expand(k.shape[0], -1, -1)), -1)
    return F.scaled_dot_product_attention(query[None], keys[None], v[None], is_causal=True)[0]


def distance_bias(length, slopes):
    at = torch.arange(length, device=slopes.device)
    apart = at[:, None] - at
    return torch.where(apart >= 0, -slopes[:, None, None] * apart, -INF)


def distance_attention(q, k, v, slopes):
    bias = distance_bias(q.shape[1], slopes).to(F16)
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=bias[None])[0]


def distance_flex(q, k, v, slopes):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    length = q.shape[1]
    blocks = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device=q.device)

    def sloped(score, b, h, i, j):
        return score - slopes[h] * (i - j)

    return flex_attention(q[None], k[None], v[None], score_mod=sloped, block_mask=blocks)[0]


def decode_lengths(q, k, v, lengths):
    inside = torch.arange(k.shape[2], device=q.device) < lengths[:, None, None, None]
    y = F.scaled_dot_product_attention(q[:, :, None], k, v, attn_mask=inside, enable_gqa=True)
    return y[:, :, 0]


# -- gradients -------------------------------------------------------------------------------------------------------


def probabilities(q, k, v, d_o, lse, delta):
    p = torch.exp(torch.bmm(q, k.mT).float() * 0.125 - lse[:, :, None])
    return p.to(BF16), (p * (torch.bmm(d_o, v.mT).float() - delta[:, :, None])).to(BF16)


def query_gradient(q, k, v, d_o, lse, delta):
    return torch.bmm(probabilities(q, k, v, d_o, lse, delta)[1], k) * 0.125


def key_value_gradient(q, k, v, d_o, lse, delta):
    p, ds = probabilities(q, k, v, d_o, lse, delta)
    return torch.bmm(ds.mT, q) * 0.125, torch.bmm(p.mT, d_o)


def gelu_bias_gradient(x, dy, bias):
    d = torch.ops.aten.gelu_backward(dy.float(), x + bias, approximate="tanh")
    return d.to(BF16), d.sum(0)


def batch_norm_gradient(x, dy, mean, scale):
    r = scale[:, None]
    normed = (x - mean[:, None]) * r
    plain, by_x = dy.mean((0, 2), keepdim=True), (dy * normed).mean((0, 2), keepdim=True)
    return (dy - plain - normed * by_x) * r


def rms_norm_backward(dy, x, weight):
    x, g = x.float(), dy.float() * weight
    scale = torch.rsqrt(x.square().mean(1, keepdim=True) + ROW_EPS)
    normed = x * scale
    dx = (g - normed * (g * normed).mean(1, keepdim=True)) * scale
    return dx.to(BF16), (dy * normed).sum(0).to(BF16)


def layer_norm_backward(dy, x, weight):
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, [x.shape[1]], weight, weight, ROW_EPS)
    mask = [True, True, True]
    return torch.ops.aten.native_layer_norm_backward(dy, x, [x.shape[1]], mean, rstd, weight, weight, mask)


def cross_entropy_losses(x, targets):
    lse = torch.logsumexp(x.float(), 1)
    return lse - x.gather(1, targets.long()[:, None])[:, 0], lse


def cross_entropy_backward(d, x, targets, lse):
    p = torch.exp(x - lse[:, None])
    own = torch.arange(x.shape[1], device=x.device) == targets[:, None]
    return (d[:, None] * (p - own.float())).to(BF16)


def attention_gradient(q, k, v, d_o):
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    with torch.enable_grad():
        return torch.autograd.grad(F.scaled_dot_product_attention(q, k, v), (q, k, v), d_o)


# -- transcendental functions ----------------------------------------------------------------------------------------


def spherical_to_cartesian(r, theta, phi):
    flat = r * torch.sin(theta)
    return flat * torch.cos(phi), flat * torch.sin(phi), r * torch.cos(theta)


def haversine(lat_a, lon_a, lat_b, lon_b):
    up, along = torch.sin((lat_b - lat_a) / 2), torch.sin((lon_b - lon_a) / 2)
    h = (up * up + torch.cos(lat_a) * torch.cos(lat_b) * along * along).clamp(0, 1)
    return 2 * 6371 * torch.atan2(h.sqrt(), (1 - h).sqrt())


def srgb_to_linear(x):
    t = x / 255
    light = torch.where(t <= 0.04045, t / 12.92, ((t + 0.055) / 1.055) ** 2.4)
    return 1 - torch.exp(-1.5 * light)


def log_normal_density(x, mean, log_deviation):
    lx = torch.log(x)
    z = (lx - mean) * torch.exp(-log_deviation)
    return -0.5 * z * z - lx - log_deviation - 0.9189385332


def chirps(case, device):
    length = case["arguments"]["length"]

    def swings(frequency, growth):
        t = torch.arange(length, device=frequency.device) * (4.0 / length)
        return torch.exp(-t) * torch.sin((frequency[:, None] + growth[:, None] * t) * t)

    return {"formula": swings}


def rotary_tables(case, device):
    depth = case["arguments"]["depth"]

    def tables(positions):
        frequency = torch.exp(torch.arange(depth, device=positions.device) * (-math.log(10000.0) / depth))
        angle = positions[:, None] * frequency
        return torch.cos(angle), torch.sin(angle)

    return {"formula": tables}


def mercator(latitude, longitude):
    turn = 2 * math.pi
    return longitude / turn + 0.5, 0.5 - torch.log(torch.tan(turn / 8 + latitude / 2)) / turn


# -- steps of training, recurrences, pools ---------------------------------------------------------------------------


def lion_step(p, m, g):
    sign = torch.sign(0.9 * m + 0.1 * g)
    return (p - 0.01 * (sign + 0.1 * p)).to(BF16), torch.lerp(m, g.float(), 0.01)


def rmsprop_step(p, v, g):
    square = 0.99 * v + 0.01 * g * g
    return p - 0.01 * g / (square.sqrt() + 1e-6), square


def gated_recurrence(gates, x):
    f = torch.sigmoid(gates.float())
    return ops.recurrence(f, (1 - f) * torch.tanh(x.float())).to(BF16)


def gated_scan(gates, x):
    f = torch.sigmoid(gates.float())
    return ops.scanned(f, (1 - f) * torch.tanh(x.float())).to(BF16)


def level_and_trend(x):
    level, trend, y = x[0], torch.zeros_like(x[0]), torch.empty_like(x)
    for t in range(x.shape[0]):
        before, level = level, 0.3 * x[t] + 0.7 * (level + trend)
        trend = torch.lerp(trend, level - before, 0.1)
        y[t] = level + trend
    return y


# -- the library's layers --------------------------------------------------------------------------------------------


def filter_2d(stride, padding, groups):
    def filtered(x, w):
        y = F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), None, stride, padding, 1, groups)
        return y.permute(0, 2, 3, 1)

    return filtered


def line_filter(x, w):
    return F.conv1d(x.transpose(1, 2), w.permute(0, 2, 1), padding=2).transpose(1, 2)


def transposed_filter(x, w):
    y = F.conv_transpose2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=2)
    return y.permute(0, 2, 3, 1)


FUNCTIONS = {
    "tf32_product": in_tf32(torch.matmul),
    "tf32_product_tn": in_tf32(lambda a, b: a.t() @ b),
    "tf32_product_nt": in_tf32(lambda a, b: a @ b.t()),
    "f32_product_tt": lambda a, b: a.t() @ b.t(),
    "f64_product": torch.matmul,
    "f64_product_nt": lambda a, b: a @ b.t(),
    "f16_product_tt": lambda a, b: a.t() @ b.t(),
    "bf16_product_tn": lambda a, b: ops.product_f32(a.t(), b),
    "i8_product_nn": i8_product,
    "f64_gram": lambda x: x @ x.t(),
    "batched_transposed": lambda a, b: torch.bmm(a.mT, b),
    "transposed_matrix_vector": mv,
    "lower_product": lambda a, b: a.tril() @ b,
    "causal_scores": causal_scores,
    "lengths_product": lengths_product,
    "banded_product": in_tf32(lambda a, b: a.triu(-256).tril(256) @ b),
    "lengths_softmax": lengths_softmax,
    "kepler": kepler,
    "long_group_norm": long_group_norm,
    "group_norm_last": group_norm_last,
    "batch_norm_training": lambda x: F.batch_norm(x, None, None, training=True, eps=NORM_EPS),
    "long_rms_norm": lambda x, w: F.rms_norm(x, (x.shape[1],), w, NORM_EPS),
    "standardised_columns": standardised_columns,
    "weight_norm": weight_norm,
    "two_part_keys": two_part_keys,
    "distance_attention": distance_attention,
    "block_attention": F.scaled_dot_product_attention,
    "row_products": lambda a, b: (a.float() * b.float()).sum(1),
    "query_gradient": query_gradient,
    "key_value_gradient": key_value_gradient,
    "score_gradient": lambda p, dp, delta: (p * (dp - delta[:, None])).to(BF16),
    "gelu_bias_gradient": gelu_bias_gradient,
    "batch_norm_gradient": batch_norm_gradient,
    "mish": F.mish,
    "exact_gelu": F.gelu,
    "spherical_to_cartesian": spherical_to_cartesian,
    "haversine": haversine,
    "srgb_to_linear": srgb_to_linear,
    "black_body": lambda l, t: 119.1 / (l**5 * torch.expm1(14.388 / (l * t))),
    "log_normal_density": log_normal_density,
    "mercator": mercator,
    "lion_step": lion_step,
    "rmsprop_step": rmsprop_step,
    "factored_step": lambda p, g, r, c: p - 0.01 * g * torch.rsqrt(r[:, None] * c),
    "average_of_weights": lambda average, weights: torch.lerp(average, weights.float(), 0.001),
    "gated_recurrence": gated_recurrence,
    "level_and_trend": level_and_trend,
    "overlapping_max_pool": lambda x: F.max_pool2d(x[:, None], 3, 2, 1)[:, 0],
    "plane_means": lambda x: x.mean(2, dtype=F32),
    "square_lengths": lambda x: x.square().sum((2, 4)).sqrt(),
    "filter_3x3": filter_2d(1, 1, 1),
    "filter_7x7": filter_2d(2, 3, 1),
    "grouped_filter": filter_2d(1, 1, 8),
    "line_filter": line_filter,
    "transposed_filter": transposed_filter,
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
    "decode_lengths": decode_lengths,
    "batched_gemm": torch.bmm,
    "linear": F.linear,
    "tf32_gemm": in_tf32(lambda a, b: a @ b.t()),
    "f64_gemm": lambda a, b: a @ b.t(),
    "rms_norm_backward": rms_norm_backward,
    "layer_norm_backward": layer_norm_backward,
    "softmax_backward": lambda dy, y: torch.ops.aten._softmax_backward_data(dy, y, 1, y.dtype),
    "log_softmax_backward": lambda dy, y: torch.ops.aten._log_softmax_backward_data(dy, y, 1, y.dtype),
    "cross_entropy_losses": cross_entropy_losses,
    "cross_entropy_backward": cross_entropy_backward,
    "attention_gradient": attention_gradient,
    "top_k": lambda x: torch.topk(x, 8),
    "row_sum": lambda x: x.sum(1),
}
WAYS = {
    "latent_decode": {"matmul": latent_by_products, "scaled_dot_product_attention": latent_decode},
}
MAKERS = {"block_sparse_product": block_sparse_product, "chirps": chirps, "rotary_tables": rotary_tables}
# Where torch.compile takes other ways, or none: lists whose lengths are data, and loops over
# the time.
COMPILED = {
    "block_sparse_product": lambda case, device: {},
    "gated_recurrence": lambda case, device: {"associative_scan": gated_scan},
    "level_and_trend": lambda case, device: {},
    "distance_attention": lambda case, device: {"flex_attention": distance_flex, "mask": distance_attention},
}
ROUNDED = {
    name: 2e-2
    for name in (
        "two_part_keys",
        "latent_decode",
        "distance_attention",
        "block_attention",
        "query_gradient",
        "key_value_gradient",
        "attention",
        "attention_gradient",
        "decode_lengths",
        "lower_product",
        "filter_3x3",
        "line_filter",
    )
}
