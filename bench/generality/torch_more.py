"""The cases of transformers.cpp, vision.cpp, datasets.cpp and physics.cpp in PyTorch, as a program would write them:
FUNCTIONS, WAYS, MAKERS, COMPILED and ROUNDED as in torch_functions.py, which reads them.
"""

import torch
import torch.nn.functional as F
import torch_operations as ops

BF16, F32, I32 = torch.bfloat16, torch.float32, torch.int32
ROW_EPS, NORM_EPS = 1e-6, 1e-5
INF = float("inf")


# -- transformers ----------------------------------------------------------------------------------------------------


def gated_product(x, w, v):
    return F.silu(x @ w) * (x @ v)


def product_to_int8(a, b, row_scale, column_scale):
    scaled = (a @ b) * row_scale[:, None] * column_scale
    return torch.floor(scaled + 0.5).clamp(-127, 127).to(torch.int8)


def experts_by_bmm(x, w, bias):
    return torch.relu(torch.bmm(x, w) + bias[:, None]).to(BF16)


def experts_by_baddbmm(x, w, bias):
    return torch.relu(torch.baddbmm(bias.to(BF16)[:, None], x, w))


def softcap_by_products(q, k, v):
    heads, length, depth = q.shape
    group = heads // k.shape[0]
    s = torch.matmul(q.view(-1, group, length, depth), k[:, None].transpose(2, 3)) * depth**-0.5
    s = 30.0 * torch.tanh(s / 30.0)
    later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    p = F.softmax(s.masked_fill(later, -INF), dim=-1)
    return torch.matmul(p, v[:, None]).view(heads, length, depth)


def softcap_compiled(case, device):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    length = case["arguments"]["length"]
    blocks = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device=device)

    def capped(score, b, h, i, j):
        return 30.0 * torch.tanh(score / 30.0)

    def attention(q, k, v):
        return flex_attention(q[None], k[None], v[None], score_mod=capped, block_mask=blocks, enable_gqa=True)[0]

    return {"flex_attention": attention, "matmul": softcap_by_products}


def cross_attention(q, k, v, lengths):
    mask = torch.arange(k.shape[2], device=q.device) < lengths[:, None, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def cross_by_sequences(q, k, v, lengths):
    """A call without a mask for each sequence; the host waits for the lengths."""
    parts = [
        F.scaled_dot_product_attention(q[i : i + 1], k[i : i + 1, :, :n], v[i : i + 1, :, :n])
        for i, n in enumerate(lengths.tolist())
    ]
    return torch.cat(parts)


def cross_by_flex(q, k, v, lengths):
    from torch.nn.attention.flex_attention import flex_attention

    def known(score, b, h, i, j):
        return torch.where(j < lengths[b], score, -INF)

    return flex_attention(q, k, v, score_mod=known)


def scan_by_steps(x, dt, a, b, c):
    h, y = torch.zeros(x.shape[0], x.shape[2], a.shape[1], device=x.device), torch.empty_like(x)
    for t in range(x.shape[1]):
        step = dt[:, t, :, None]
        h = torch.exp(step * a) * h + (step * x[:, t, :, None]) * b[:, t, None]
        y[:, t] = torch.bmm(h, c[:, t, :, None])[:, :, 0]
    return y


def scan_by_chunks(x, dt, a, b, c, chunk=32):
    """Inside of a chunk: h = decay * (h before + sum of what came in / decay since the chunk began)."""
    h, y = torch.zeros(x.shape[0], 1, x.shape[2], a.shape[1], device=x.device), torch.empty_like(x)
    for t in range(0, x.shape[1], chunk):
        now = slice(t, t + chunk)
        total = torch.cumsum(dt[:, now, :, None] * a, 1)
        came = (dt[:, now] * x[:, now])[..., None] * b[:, now, None]
        states = torch.exp(total) * (h + torch.cumsum(came * torch.exp(-total), 1))
        y[:, now] = torch.matmul(states, c[:, now, :, None])[..., 0]
        h = states[:, -1:]
    return y


def scan_by_association(x, dt, a, b, c):
    h = ops.scanned(torch.exp(dt[..., None] * a), (dt * x)[..., None] * b[:, :, None])
    return (h * c[:, :, None]).sum(-1)


def rms_norm_gradient(x, dy, weight):
    t, d = x.float(), dy.float()
    scale = torch.rsqrt(t.square().mean(1, keepdim=True) + ROW_EPS)
    normed, g = t * scale, d * weight.float()
    dx = (g - normed * (g * normed).mean(1, keepdim=True)) * scale
    return dx.to(BF16), (d * normed).sum(0)


def rms_norm_by_autograd(x, dy, weight):
    t, w = x.detach().requires_grad_(), weight.detach().requires_grad_()
    with torch.enable_grad():
        y = F.rms_norm(t, (t.shape[1],), w, ROW_EPS)
    return torch.autograd.grad(y, (t, w), dy)


def smoothed_loss_gradient(x, labels):
    p = F.softmax(x, dim=1).sub_(0.1 / x.shape[1])
    at = labels.long()[:, None]
    return p.scatter_add_(1, at, torch.full_like(at, -0.9, dtype=F32)).div_(x.shape[0])


def smoothed_loss_by_comparison(x, labels):
    here = labels[:, None] == torch.arange(x.shape[1], device=x.device)
    return (F.softmax(x, dim=1) - 0.1 / x.shape[1] - torch.where(here, 0.9, 0.0)) / x.shape[0]


def smoothed_loss_by_autograd(x, labels):
    t = x.detach().requires_grad_()
    with torch.enable_grad():
        loss = F.cross_entropy(t, labels.long(), label_smoothing=0.1)
    return torch.autograd.grad(loss, t)[0]


def sgd_clipped(p, m, g):
    scale = (1.0 / (torch.linalg.vector_norm(g) + 1e-6)).clamp(max=1.0)
    m = 0.9 * m + (g * scale + 0.01 * p)
    return p - 0.1 * m, m


def sgd_in_place(p, m, g):
    scale = (1.0 / (torch.linalg.vector_norm(g) + 1e-6)).clamp_(max=1.0)
    m = torch.add(torch.mul(m, 0.9), p, alpha=0.01).addcmul_(g, scale)
    return torch.add(p, m, alpha=-0.1), m


# -- vision ----------------------------------------------------------------------------------------------------------


def grid_sample(x, grid):
    return F.grid_sample(x, grid, align_corners=False)


def box_overlaps(a, b):
    near = torch.maximum(a[:, None, :2], b[None, :, :2])
    far = torch.minimum((a[:, :2] + a[:, 2:])[:, None], (b[:, :2] + b[:, 2:])[None])
    common = (far - near).clamp(min=0).prod(2)
    return common / ((a[:, 2] * a[:, 3])[:, None] + b[:, 2] * b[:, 3] - common)


def overlaps_by_axes(a, b):
    def length(k):
        far = torch.minimum((a[:, k] + a[:, k + 2])[:, None], b[:, k] + b[:, k + 2])
        return (far - torch.maximum(a[:, k, None], b[:, k])).clamp_(min=0)

    common = length(0) * length(1)
    return common / ((a[:, 2] * a[:, 3])[:, None] + b[:, 2] * b[:, 3] - common)


def binomial(x):
    return torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], device=x.device) / 16


def sharpened(x, blurred):
    return (x + 1.5 * (x - blurred)).clamp(0, 1)


def unsharp_mask(x):
    w = binomial(x)
    return sharpened(x, F.conv2d(x[None, None], torch.outer(w, w)[None, None], padding=2)[0, 0])


def unsharp_by_axes(x):
    w = binomial(x)
    rows = F.conv2d(x[None, None], w[None, None, None, :], padding=(0, 2))
    return sharpened(x, F.conv2d(rows, w[None, None, :, None], padding=(2, 0))[0, 0])


def unsharp_by_shifts(x):
    (m, n), w = x.shape, (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
    p = F.pad(x, (2, 2, 2, 2))
    rows = sum(w[j] * p[:, j : j + n] for j in range(5))
    return sharpened(x, sum(w[i] * rows[i : i + m] for i in range(5)))


def rgb_to_hsv(x):
    r, g, b = x
    value, least = x.amax(0), x.amin(0)
    spread = value - least
    divisor = torch.where(spread == 0, 1.0, spread)
    sixth = torch.where(
        value == r, (g - b) / divisor, torch.where(value == g, (b - r) / divisor + 2, (r - g) / divisor + 4)
    )
    saturation = torch.where(value == 0, 0.0, spread / torch.where(value == 0, 1.0, value))
    return (sixth / 6) % 1.0, saturation, value


def half_by_views(x):
    m, n, _ = x.shape
    return ((x.view(m // 2, 2, n // 2, 2, 4).sum((1, 3), dtype=I32) + 2) >> 2).to(torch.uint8)


def half_by_slices(x):
    t = x[::2, ::2].short() + x[::2, 1::2] + x[1::2, ::2] + x[1::2, 1::2]
    return ((t + 2) >> 2).to(torch.uint8)


def max_pool_gradient(x, dy):
    _, places = F.max_pool2d(x, 2, return_indices=True)
    return torch.ops.aten.max_pool2d_with_indices_backward(dy, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places)


def max_pool_by_windows(x, dy):
    p, m, n = dy.shape
    windows = x.view(p, m, 2, n, 2).permute(0, 1, 3, 2, 4).reshape(p, m, n, 4)
    here = windows.argmax(3, keepdim=True) == torch.arange(4, device=x.device)
    g = torch.where(here, dy[..., None], 0.0).view(p, m, n, 2, 2)
    return g.permute(0, 1, 3, 2, 4).reshape(p, 2 * m, 2 * n)


def instance_norm(x, weight, bias):
    return F.instance_norm(x, weight=weight, bias=bias, eps=NORM_EPS)


def instance_by_means(x, weight, bias):
    t = x.float()
    variance, mean = torch.var_mean(t, dim=2, correction=0, keepdim=True)
    return ((t - mean) * torch.rsqrt(variance + NORM_EPS) * weight[:, None] + bias[:, None]).to(BF16)


def block_transform(x, cosines):
    m, n = x.shape
    blocks = x.view(m // 8, 8, n // 8, 8).transpose(1, 2)
    return (cosines @ blocks @ cosines.t()).transpose(1, 2).reshape(m, n)


def transform_by_products(x, cosines):
    """Rows first: a product of a long matrix, then one for each row of blocks."""
    m, n = x.shape
    rows = x.view(-1, 8) @ cosines.t()
    return torch.matmul(cosines, rows.view(m // 8, 8, n)).view(m, n)


def transform_by_conv2d(x, cosines):
    """A filter of 8x8 for each element of the result, in steps of 8."""
    m, n = x.shape
    filters = (cosines[:, None, :, None] * cosines[None, :, None, :]).reshape(64, 1, 8, 8)
    y = F.conv2d(x[None, None], filters, stride=8)
    return y.view(8, 8, m // 8, n // 8).permute(2, 0, 3, 1).reshape(m, n)


# -- data sets -------------------------------------------------------------------------------------------------------


def group_maximum(keys, values):
    return torch.full((1000,), -INF, device=keys.device).scatter_reduce_(0, keys.long(), values, "amax")


def groups_by_index_reduce(keys, values):
    return torch.full((1000,), -INF, device=keys.device).index_reduce_(0, keys, values, "amax")


def join_by_table(keys, values, wanted):
    table = torch.full((4 * keys.numel(),), -1, dtype=I32, device=keys.device)
    table[keys.long()] = torch.arange(keys.numel(), dtype=I32, device=keys.device)
    rows = table.index_select(0, wanted)
    return rows, torch.where(rows >= 0, values.index_select(0, rows.clamp(min=0)), 0.0)


def join_by_search(keys, values, wanted):
    at = torch.searchsorted(keys, wanted, out_int32=True).clamp_(max=keys.numel() - 1)
    hit = keys.index_select(0, at) == wanted
    return torch.where(hit, at, -1), torch.where(hit, values.index_select(0, at), 0.0)


def delta_decode(first, deltas):
    return torch.cumsum(deltas, 1, dtype=I32) + first[:, None]


def days_of(year, month, day):
    early = month <= 2
    year = year - early.int()
    place = torch.where(early, month + 9, month - 3)

    def over(t, n):  # as in C++
        return torch.div(t, n, rounding_mode="trunc")

    days = 365 * year + over(year, 4) - over(year, 100) + over(year, 400) + over(153 * place + 2, 5)
    return days + day - 719469


def parse_dates(text):
    d = text.int() - 48
    year = 1000 * d[:, 0] + 100 * d[:, 1] + 10 * d[:, 2] + d[:, 3]
    return days_of(year, 10 * d[:, 5] + d[:, 6], 10 * d[:, 8] + d[:, 9])


def dates_by_columns(text):
    def number(*places):
        total = 0
        for k in places:
            total = total * 10 + (text[:, k].int() - 48)
        return total

    return days_of(number(0, 1, 2, 3), number(5, 6), number(8, 9))


def six_bits(x):
    a, b, c = x[:, 0], x[:, 1], x[:, 2]
    return torch.stack((a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63), 1)


def base64_by_table(x):
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    table = torch.tensor(list(letters), dtype=torch.uint8, device=x.device)
    return table[six_bits(x).int()]


def base64_by_ranges(x):
    six = six_bits(x)
    sign = torch.where(six == 62, 43, 47).to(torch.uint8)
    letter = torch.where(six < 52, six + 71, torch.where(six < 62, six - 4, sign))
    return torch.where(six < 26, six + 65, letter)


def best_of_rows(x):
    return tuple(torch.topk(x, 8, dim=1))


def best_by_sorting(x):
    values, places = torch.sort(x, dim=1, descending=True)
    return values[:, :8].contiguous(), places[:, :8].contiguous()


def edge_sums(x, source, target):
    sums = torch.zeros_like(x).index_add_(0, target, x.index_select(0, source))
    return sums, torch.bincount(target, minlength=x.shape[0])


def edge_sums_by_scatter(x, source, target):
    features = x.index_select(0, source)
    sums = torch.zeros_like(x).scatter_add_(0, target.long()[:, None].expand_as(features), features)
    ones = torch.ones_like(target)
    return sums, torch.zeros(x.shape[0], dtype=I32, device=x.device).index_add_(0, target, ones)


def edge_softmax(case, device):
    nodes = case["arguments"]["nodes"]

    def by_scatter(target, scores):
        most = torch.full((nodes,), -INF, device=scores.device).scatter_reduce_(0, target.long(), scores, "amax")
        e = torch.exp(scores - most.index_select(0, target))
        totals = torch.zeros(nodes, device=scores.device).index_add_(0, target, e)
        return e / totals.index_select(0, target)

    return {"scatter_reduce": by_scatter}


def dictionary_decode(words, codes, known):
    return torch.where(known, words[codes.int()], 0.0)


def dictionary_by_index_select(words, codes, known):
    return words.index_select(0, codes.int()).mul_(known)


def chosen_revenue(days, discounts, quantities, prices):
    near = (discounts >= 0.05) & (discounts <= 0.07)
    chosen = (days >= 365) & (days < 730) & near & (quantities < 24)
    return torch.where(chosen, prices.double() * discounts, 0.0).sum()[None]


def revenue_of_rows(days, discounts, quantities, prices):
    """Only the rows that are chosen are multiplied; the host waits for their number."""
    near = (discounts >= 0.05) & (discounts <= 0.07)
    rows = ((days >= 365) & (days < 730) & near & (quantities < 24)).nonzero()[:, 0]
    return (prices[rows].double() * discounts[rows]).sum()[None]


# -- physics ---------------------------------------------------------------------------------------------------------


def heat_3d(heat, conductivity):
    t, c, (l, m, n) = F.pad(heat, (1,) * 6), F.pad(conductivity, (1,) * 6), heat.shape
    total = torch.zeros_like(heat)
    for axis in range(3):
        for d in (-1, 1):
            i, j, k = (1 + d * (a == axis) for a in range(3))
            near = slice(i, i + l), slice(j, j + m), slice(k, k + n)
            total = total + 0.5 * (conductivity + c[near]) * (t[near] - heat)
    return heat + 0.1 * total


def heat_by_faces(heat, conductivity):
    """The flow through each face once, with those of the border."""
    t, c = F.pad(heat, (1,) * 6), F.pad(conductivity, (1,) * 6)
    total = 0
    for axis in range(3):
        a, b = t, c
        for other in range(3):
            if other != axis:
                a, b = a.narrow(other, 1, heat.shape[other]), b.narrow(other, 1, heat.shape[other])
        n = heat.shape[axis]
        flow = 0.5 * (b.narrow(axis, 0, n + 1) + b.narrow(axis, 1, n + 1)) * a.diff(dim=axis)
        total = total + flow.diff(dim=axis)
    return heat + 0.1 * total


def electromagnetic_step(hx, hy, e, material):
    x2 = hx - 0.5 * (F.pad(e, (0, 1))[:, 1:] - e)
    y2 = hy + 0.5 * (F.pad(e, (0, 0, 0, 1))[1:] - e)
    curl = y2 - F.pad(y2, (0, 0, 1, 0))[:-1] - x2 + F.pad(x2, (1, 0))[:, :-1]
    return x2, y2, e + material * curl


def electromagnetic_in_place(hx, hy, e, material):
    x2, y2 = torch.add(hx, e, alpha=0.5), torch.sub(hy, e, alpha=0.5)
    x2[:, :-1].sub_(e[:, 1:], alpha=0.5)
    y2[:-1].add_(e[1:], alpha=0.5)
    curl = y2 - x2
    curl[1:] -= y2[:-1]
    curl[:, 1:] += x2[:, :-1]
    return x2, y2, torch.addcmul(e, material, curl)


def gravity(x, y, z, mass):
    dx, dy, dz = (p[None, :] - p[:, None] for p in (x, y, z))
    r = torch.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
    pull = mass * r * r * r
    return (pull * dx).sum(1), (pull * dy).sum(1), (pull * dz).sum(1)


def gravity_by_product(x, y, z, mass):
    p = torch.stack((x, y, z), 1)
    dx, dy, dz = (t[None, :] - t[:, None] for t in (x, y, z))
    pull = mass * torch.rsqrt(dx * dx + dy * dy + dz * dz + 0.01) ** 3
    force = pull @ p - p * pull.sum(1, keepdim=True)
    return force[:, 0], force[:, 1], force[:, 2]


def black_scholes(spot, strike, years):
    rate, volatility = 0.02, 0.3
    spread = volatility * torch.sqrt(years)
    d1 = (torch.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    d2 = d1 - spread
    paid = strike * torch.exp(-rate * years)
    n1, n2 = torch.special.ndtr(d1), torch.special.ndtr(d2)
    return spot * n1 - paid * n2, paid * (1 - n2) - spot * (1 - n1)


def complex_matrix_vector(a, x):
    return torch.view_as_real(torch.mv(torch.view_as_complex(a), torch.view_as_complex(x)))


def complex_by_real(a, x):
    """As a real matrix of twice the width, times two vectors."""
    re, im = x.unbind(1)
    both = torch.stack((torch.stack((re, -im), 1).flatten(), torch.stack((im, re), 1).flatten()), 1)
    return a.flatten(1) @ both


def signed(t):
    """The number of 32 bits with a sign that has the same bits."""
    return (t + 0x80000000) % 0x100000000 - 0x80000000


def random_pi(seeds):
    k = signed(torch.arange(64, device=seeds.device) * 0x9E3779B1).int()
    h = seeds[:, None] + k
    h = (h ^ ((h >> 16) & 0xFFFF)) * signed(0x85EBCA6B)
    h = (h ^ ((h >> 13) & 0x7FFFF)) * signed(0xC2B2AE35)
    h = h ^ ((h >> 16) & 0xFFFF)
    x, y = h & 0x7FFF, (h >> 17) & 0x7FFF
    return (x * x + y * y < 0x40000000).sum()[None]


FUNCTIONS = {
    "gated_product": gated_product,
    "product_to_int8": product_to_int8,
    "softcap_attention": softcap_by_products,
    "grid_sample": grid_sample,
    "rgb_to_hsv": rgb_to_hsv,
    "delta_decode": delta_decode,
    "black_scholes": black_scholes,
    "random_pi": random_pi,
}
WAYS = {
    "sgd_clipped": {"formula": sgd_clipped, "in_place": sgd_in_place},
    "block_transform": {"blocks": block_transform, "products": transform_by_products, "conv2d": transform_by_conv2d},
    "dictionary_decode": {"index": dictionary_decode, "index_select": dictionary_by_index_select},
    "chosen_revenue": {"where": chosen_revenue, "rows": revenue_of_rows},
    "expert_products": {"bmm": experts_by_bmm, "baddbmm": experts_by_baddbmm},
    "cross_attention": {"mask": cross_attention, "sequences": cross_by_sequences},
    "selective_scan": {"steps": scan_by_steps, "chunks": scan_by_chunks},
    "rms_norm_gradient": {"formula": rms_norm_gradient, "autograd": rms_norm_by_autograd},
    "smoothed_loss_gradient": {"scatter": smoothed_loss_gradient, "autograd": smoothed_loss_by_autograd},
    "box_overlaps": {"pairs": box_overlaps, "axes": overlaps_by_axes},
    "unsharp_mask": {"conv2d": unsharp_mask, "axes": unsharp_by_axes, "shifts": unsharp_by_shifts},
    "half_size": {"views": half_by_views, "slices": half_by_slices},
    "max_pool_gradient": {"max_pool2d": max_pool_gradient, "windows": max_pool_by_windows},
    "instance_norm": {"instance_norm": instance_norm, "var_mean": instance_by_means},
    "group_maximum": {"scatter_reduce": group_maximum, "index_reduce": groups_by_index_reduce},
    "join_by_key": {"table": join_by_table, "searchsorted": join_by_search},
    "parse_dates": {"all": parse_dates, "columns": dates_by_columns},
    "base64": {"table": base64_by_table, "ranges": base64_by_ranges},
    "best_of_rows": {"topk": best_of_rows, "sort": best_by_sorting},
    "edge_sums": {"index_add": edge_sums, "scatter_add": edge_sums_by_scatter},
    "heat_3d": {"neighbours": heat_3d, "faces": heat_by_faces},
    "electromagnetic_step": {"pad": electromagnetic_step, "in_place": electromagnetic_in_place},
    "gravity": {"sums": gravity, "matmul": gravity_by_product},
    "complex_matrix_vector": {"complex": complex_matrix_vector, "real": complex_by_real},
}
MAKERS = {"edge_softmax": edge_softmax}
# Where torch.compile takes other ways: it has attention of its own, and loops over the time take it hours.
COMPILED = {
    "chosen_revenue": lambda case, device: {"where": chosen_revenue},
    "softcap_attention": softcap_compiled,
    "cross_attention": lambda case, device: {"mask": cross_attention, "flex_attention": cross_by_flex},
    "selective_scan": lambda case, device: {"associative_scan": scan_by_association},
    "rms_norm_gradient": lambda case, device: {"formula": rms_norm_gradient},
    "smoothed_loss_gradient": lambda case, device: {
        "scatter": smoothed_loss_gradient,
        "comparison": smoothed_loss_by_comparison,
    },
    "complex_matrix_vector": lambda case, device: {"real": complex_by_real},
}
# How far results may be from ours, as a relative norm: products of rounded numbers, and integers made of them.
ROUNDED = {
    "gated_product": 2e-2,
    "product_to_int8": 5e-2,
    "expert_products": 2e-2,
    "softcap_attention": 5e-2,
    "cross_attention": 2e-2,
}
