"""The cases of generality_bench that take more than an expression, in PyTorch: as a program would write them, by kind.
torch_functions.py has the table of all cases.
"""

import math

import torch
import torch.nn.functional as F

BF16, F32 = torch.bfloat16, torch.float32
EPS = 1e-6  # of rows and group norm
NEG_INF = -math.inf


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


# -- images ----------------------------------------------------------------------------------------------------------


def periodic_laplacian(x):
    return x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x


def laplacian_by_padding(x):
    p = F.pad(x[None, None], (1,) * 4, mode="circular")[0, 0]
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x


def sobel_by_conv2d(x):
    gx = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], device=x.device)
    g = F.conv2d(x[None, None].float(), torch.stack((gx, gx.t()))[:, None], padding=1)[0]
    return g.square().sum(0).sqrt().clamp(max=255).to(torch.uint8)


def sobel_by_shifts(x):
    p, (m, n) = F.pad(x.float(), (1,) * 4), x.shape

    def at(i, j):
        return p[1 + i : 1 + i + m, 1 + j : 1 + j + n]

    gx = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1)
    gy = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1)
    return (gx * gx + gy * gy).sqrt().clamp(max=255).to(torch.uint8)


def shifted_3x3(x):
    p, (m, n) = F.pad(x, (1,) * 4), x.shape
    return [p[i : i + m, j : j + n] for i in range(3) for j in range(3)]


def median_by_stack(x):
    return torch.stack(shifted_3x3(x)).median(0).values


def median_by_exchanges(x):
    v = shifted_3x3(x)
    for last in range(8, 3, -1):  # the largest ones move to the end
        for k in range(last):
            v[k], v[k + 1] = torch.minimum(v[k], v[k + 1]), torch.maximum(v[k], v[k + 1])
    return v[4]


def grey_by_planes(x):
    r, g, b = x.float().unbind(-1)
    return (0.299 * r + 0.587 * g + 0.114 * b) / 255


def grey_by_product(x):
    return x.float() @ (torch.tensor([0.299, 0.587, 0.114], device=x.device) / 255)


def reflect_pad(x):
    return F.pad(x[:, None], (3,) * 4, mode="reflect")[:, 0]


# -- along the first axis, rows --------------------------------------------------------------------------------------


def channel_norm(x, w, b):
    return F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), w, b, EPS).permute(0, 3, 1, 2).contiguous()


def channel_norm_by_means(x, w, b):
    variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + EPS) * w[:, None, None] + b[:, None, None]


def triplet_loss(a, p, n):
    return F.triplet_margin_loss(a, p, n, margin=1.0, reduction="none")


def triplet_by_norms(a, p, n):
    return torch.relu((a - p).norm(dim=1) - (a - n).norm(dim=1) + 1)


def kl_divergence(p, q):
    log_p, log_q = F.log_softmax(p.float(), -1), F.log_softmax(q.float(), -1)
    return F.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)


def prefix_softmax(x, prefix):
    place = torch.arange(x.shape[1], device=x.device)
    seen = (place[None, :] <= place[:, None]) | (place[None, None, :] < prefix[:, None, None])
    return F.softmax(x.masked_fill(~seen, NEG_INF), dim=-1)


def sparse_by_rows(columns, values, x):
    """As a CSR matrix whose rows are equally long."""
    n, k = columns.shape
    rows = torch.arange(n + 1, device=x.device, dtype=torch.int32) * k
    return torch.mv(torch.sparse_csr_tensor(rows, columns.view(-1), values.view(-1), (n, n)), x)


def pack_bits(x):
    place = torch.arange(32, device=x.device, dtype=torch.int32)
    return (x.int() << place).sum(1, dtype=torch.int32)


def rotate_points(q, p):
    w, v = q[:, :1], q[:, 1:]
    t = 2 * torch.linalg.cross(v, p)
    return p + w * t + torch.linalg.cross(v, t)


# -- products, steps, searches ---------------------------------------------------------------------------------------


def int8_product(a, w, scale):
    return (torch._int_mm(a, w.t()).float() * scale[:, None]).to(BF16)


def decode_attention(q, k, v):
    return F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)[:, :, 0]


def decode_by_products(q, k, v):
    batch, heads, depth = q.shape
    grouped = q.view(batch, k.shape[1], heads // k.shape[1], depth)
    p = F.softmax(grouped @ k.transpose(2, 3) * depth**-0.5, dim=-1, dtype=F32).to(q.dtype)
    return (p @ v).view(batch, heads, depth)


def adam_step(p, m, v, gradient):
    g = gradient.float()
    m2 = 0.9 * m + 0.1 * g
    v2 = 0.999 * v + 0.001 * g * g
    return p - 0.01 * (m2 / 0.5) / ((v2 / 0.01).sqrt() + 1e-8), m2, v2


def huber_gradient(x, target):
    d = x.float() - target.float()
    return torch.where(d.abs() < 0.1, 0.0, d.clamp(-1, 1)).half()


def butterfly(re, im, w_re, w_im):
    (ar, br), (ai, bi) = re.unbind(1), im.unbind(1)
    tr, ti = br * w_re - bi * w_im, br * w_im + bi * w_re
    return torch.stack((ar + tr, ar - tr), 1), torch.stack((ai + ti, ai - ti), 1)


def accuracy_count(x, labels):
    chosen = x.gather(1, labels[:, None].long())[:, 0]
    return (chosen == x.amax(1)).sum()[None]


def min_max(x):
    least, most = torch.aminmax(x)
    return least[None], most[None]
