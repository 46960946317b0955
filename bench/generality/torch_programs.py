"""The cases of science.cpp, signals.cpp, networks.cpp and tables.cpp in PyTorch, as a program would write them:
FUNCTIONS, WAYS and COMPILED as in torch_functions.py, which reads them.
"""

import torch
import torch.nn.functional as F

BF16, F32 = torch.bfloat16, torch.float32


# -- science ---------------------------------------------------------------------------------------------------------


def shifted(x, reach):
    """Neighbours of a matrix by their distances; zeros around it."""
    p, (m, n) = F.pad(x, (reach,) * 4), x.shape
    return lambda i, j: p[reach + i : reach + i + m, reach + j : reach + j + n]


def wave_step(u, before, speed):
    at = shifted(u, 2)
    near = at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)
    far = at(-2, 0) + at(2, 0) + at(0, -2) + at(0, 2)
    return 2 * u - before + speed * speed * ((16 * near - far - 60 * u) / 12)


def wave_by_conv2d(u, before, speed):
    w = torch.zeros(5, 5, device=u.device)
    w[2] = w[2] + torch.tensor([-1.0, 16, -30, 16, -1], device=u.device) / 12
    return 2 * u - before + speed * speed * F.conv2d(u[None, None], (w + w.t())[None, None], padding=2)[0, 0]


def red_black(x, f):
    at = shifted(x, 1)
    relaxed = 0.25 * (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) - f)
    place = torch.arange(x.shape[0], device=x.device)[:, None] + torch.arange(x.shape[1], device=x.device)
    return torch.where(place % 2 == 0, relaxed, x)


COLUMNS, ROWS = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)  # the directions of a lattice
WEIGHTS = (4 / 9,) + (1 / 9,) * 4 + (1 / 36,) * 4


def lattice_boltzmann(f):
    g = [shifted(f[q], 1)(-ROWS[q], -COLUMNS[q]) for q in range(9)]
    density = sum(g)
    u = sum(COLUMNS[q] * g[q] for q in range(1, 9)) / density
    v = sum(ROWS[q] * g[q] for q in range(1, 9)) / density
    square, y = 1.5 * (u * u + v * v), []
    for q in range(9):
        c = 3 * (COLUMNS[q] * u + ROWS[q] * v)
        y.append(g[q] + 1.2 * (WEIGHTS[q] * density * (1 + c + 0.5 * c * c - square) - g[q]))
    return torch.stack(y)


def field_gradient(f):
    return torch.gradient(f)


def gradient_by_slices(f):
    def along(axis):
        n = f.shape[axis]
        first, last = f.narrow(axis, 1, 1) - f.narrow(axis, 0, 1), f.narrow(axis, n - 1, 1) - f.narrow(axis, n - 2, 1)
        middle = 0.5 * (f.narrow(axis, 2, n - 2) - f.narrow(axis, 0, n - 2))
        return torch.cat((first, middle, last), axis)

    return along(0), along(1), along(2)


def lennard_jones(x, y, z, neighbours):
    inside, other = neighbours >= 0, neighbours.clamp(min=0)

    def distance(p):
        d = p[:, None] - p[other]
        return d - 20.0 * torch.floor(d / 20.0 + 0.5)

    dx, dy, dz = distance(x), distance(y), distance(z)
    square = (dx * dx + dy * dy + dz * dz).clamp(min=0.8)
    r2 = 1.0 / square
    r6 = r2 * r2 * r2
    force = torch.where(inside & (square < 6.25), 24.0 * r2 * r6 * (2.0 * r6 - 1.0), 0.0)
    return (force * dx).sum(1), (force * dy).sum(1), (force * dz).sum(1)


def csr_product(limits, columns, values, x):
    """What lies before the first limit and behind the last one belongs to no row."""
    first, last = int(limits[0]), int(limits[-1])
    rows = torch.sparse_csr_tensor(
        limits - first, columns[first:last], values[first:last], (limits.numel() - 1, x.numel())
    )
    return torch.mv(rows, x)


def csr_by_segments(limits, columns, values, x):
    return torch.segment_reduce(values * x[columns], "sum", offsets=limits, unsafe=True)


def csr_by_index(limits, columns, values, x):
    rows = torch.bucketize(torch.arange(values.numel(), device=x.device), limits, right=True) - 1
    rows = torch.where(rows < 0, limits.numel() - 1, rows)
    return torch.zeros(limits.numel(), device=x.device).index_add_(0, rows, values * x[columns])[:-1]


def tridiagonal_by_sweeps(lower, diagonal, upper, right):
    ratios, y = torch.empty_like(right), torch.empty_like(right)
    r = t = torch.zeros_like(right[0])
    for i in range(right.shape[0]):
        divisor = diagonal[i] - lower[i] * r
        r, t = upper[i] / divisor, (right[i] - lower[i] * t) / divisor
        ratios[i], y[i] = r, t
    for i in range(right.shape[0] - 2, -1, -1):
        y[i] -= ratios[i] * y[i + 1]
    return y


def tridiagonal_by_reduction(lower, diagonal, upper, right):
    """Parallel cyclic reduction: equations lose their neighbours at distances 1, 2, 4, ..."""
    n, step = right.shape[0], 1
    first = torch.arange(n, device=right.device)[:, None] == 0
    last = torch.arange(n, device=right.device)[:, None] == n - 1
    a, b, c, d = torch.where(first, 0.0, lower), diagonal, torch.where(last, 0.0, upper), right
    while step < n:

        def above(t, value, step=step):
            return F.pad(t[:-step], (0, 0, step, 0), value=value)

        def below(t, value, step=step):
            return F.pad(t[step:], (0, 0, 0, step), value=value)

        up, down = -a / above(b, 1.0), -c / below(b, 1.0)
        a, b, c, d = (
            up * above(a, 0.0),
            b + up * above(c, 0.0) + down * below(a, 0.0),
            down * below(c, 0.0),
            d + up * above(d, 0.0) + down * below(d, 0.0),
        )
        step *= 2
    return d / b


def charges_to_grid(case, device):
    m, n = case["arguments"]["m"], case["arguments"]["n"]

    def with_border(x, y, charges):
        """A node outside the grid is in one more row or column."""
        i, j = x.floor(), y.floor()
        a, b = x - i, y - j
        at = i.long() * (n + 1) + j.long()
        grid = torch.zeros((m + 1) * (n + 1), device=x.device)
        grid.index_add_(0, at, charges * (1 - a) * (1 - b))
        grid.index_add_(0, at + 1, charges * (1 - a) * b)
        grid.index_add_(0, at + n + 1, charges * a * (1 - b))
        grid.index_add_(0, at + n + 2, charges * a * b)
        return grid.view(m + 1, n + 1)[:m, :n].contiguous()

    return {"index_add": with_border}


def radix_four(re, im, w_re, w_im):
    (r0, r1, r2, r3), (i0, i1, i2, i3) = re.unbind(1), im.unbind(1)
    sr, si, dr, di = r0 + r2, i0 + i2, r0 - r2, i0 - i2
    tr, ti, er, ei = r1 + r3, i1 + i3, r1 - r3, i1 - i3
    r = torch.stack((sr + tr, dr + ei, sr - tr, dr - ei), 1)
    i = torch.stack((si + ti, di - er, si - ti, di + er), 1)
    return r * w_re - i * w_im, r * w_im + i * w_re


# -- signals ---------------------------------------------------------------------------------------------------------


def resize_bilinear(case, device):
    size = case["arguments"]["m"], case["arguments"]["n"]
    return {"interpolate": lambda x: F.interpolate(x[None].float(), size=size, mode="bilinear")[0]}


def yuv_to_rgb(y, u, v):
    def spread(t):
        return t.int().repeat_interleave(2, 1).repeat_interleave(2, 2) - 128

    c, d, e = 298 * (y.int() - 16) + 128, spread(u), spread(v)
    colours = c + 409 * e, c - 100 * d - 208 * e, c + 516 * d
    return tuple((t >> 8).clamp(0, 255).to(torch.uint8) for t in colours)


def yuv_by_views(y, u, v):
    """Pixels as 2x2 of each colour."""
    f, m, n = y.shape
    c = 298 * (y.view(f, m // 2, 2, n // 2, 2).int() - 16) + 128
    d, e = u[:, :, None, :, None].int() - 128, v[:, :, None, :, None].int() - 128
    colours = c + 409 * e, c - 100 * d - 208 * e, c + 516 * d
    return tuple((t >> 8).clamp(0, 255).to(torch.uint8).view(f, m, n) for t in colours)


def box_means(x):
    return F.avg_pool2d(x[None, None], 17, stride=1, padding=8)[0, 0]


def box_by_axes(x):
    rows = F.avg_pool2d(x[None, None], (1, 17), stride=1, padding=(0, 8))
    return F.avg_pool2d(rows, (17, 1), stride=1, padding=(8, 0))[0, 0]


def alpha_blend(front, back):
    f, b = front.int(), back.int()
    alpha = f[:, :, 3:]
    return torch.div(f * alpha + b * (255 - alpha) + 127, 255, rounding_mode="trunc").to(torch.uint8)


def dilation(x):
    return F.max_pool2d(x[None, None].half(), 7, stride=1, padding=3)[0, 0].to(torch.uint8)


def dilation_by_axes(x):
    m, n = x.shape
    y, p = x, F.pad(x, (3, 3))
    for j in range(7):
        y = torch.maximum(y, p[:, j : j + n])
    p = F.pad(y, (0, 0, 3, 3))
    for i in range(7):
        y = torch.maximum(y, p[i : i + m])
    return y


def bilateral(x):
    at, inside = shifted(x, 2), shifted(torch.ones_like(x), 2)
    total, weights = torch.zeros_like(x), torch.zeros_like(x)
    for i in range(-2, 3):
        for j in range(-2, 3):
            d = at(i, j) - x
            w = inside(i, j) * torch.exp(-0.125 * (i * i + j * j) - 8 * d * d)
            total, weights = total + w * at(i, j), weights + w
    return total / weights


def decimate(x, taps):
    return F.conv1d(x[:, None], taps[None, None], stride=4)[:, 0]


def decimate_by_windows(x, taps):
    return x.unfold(1, 32, 4) @ taps


def pack_nibbles(x):
    t = x.float().view(x.shape[0], -1, 32)
    scale = t.abs().amax(2, keepdim=True).clamp(min=1e-12) / 7
    q = (torch.floor(t / scale + 0.5).clamp(-7, 7) + 8).to(torch.uint8).view(x.shape[0], -1, 2)
    return q[:, :, 0] | (q[:, :, 1] << 4), scale[:, :, 0]


# -- networks --------------------------------------------------------------------------------------------------------


def swiglu_gradient(gate, up, dy):
    g, u, d = gate.float(), up.float(), dy.float()
    s = torch.sigmoid(g)
    return (d * u * s * (1 + g * (1 - s))).to(BF16), (d * g * s).to(BF16)


def focal_loss(x, labels):
    positive = labels[:, None] == torch.arange(x.shape[1], device=x.device, dtype=labels.dtype)
    p, t = torch.sigmoid(x), positive.float()
    cross_entropy = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    missed = torch.where(positive, 1 - p, p)
    return (torch.where(positive, 0.25, 0.75) * missed * missed * cross_entropy).sum(1)


def embedding_bag(table, bags):
    return F.embedding_bag(bags, table, mode="sum").float()


def bag_by_rows(table, bags):
    return table[bags].sum(1, dtype=F32)


def rope_pairs(x, cosines, sines):
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    c, s = cosines[None, :, None], sines[None, :, None]
    return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2).to(BF16)


def rope_by_complex(x, cosines, sines):
    z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(z * torch.complex(cosines, sines)[None, :, None]).flatten(-2).to(BF16)


def lora_product(base, x, a, b):
    return torch.addmm(base, x @ a, b, alpha=0.5)


def top_two_gate(x):
    values, places = torch.topk(x, 2, dim=1)
    return F.softmax(values, dim=1), places


def int8_weights(x, w, scale):
    return ((x @ w.to(BF16).t()).float() * scale).to(BF16)


def int8_weights_scaled_first(x, w, scale):
    return x @ (w.float() * scale[:, None]).to(BF16).t()


def attention_state(keys, values):
    if keys.is_cuda:
        return torch.bmm(keys.transpose(1, 2), values, out_dtype=F32)
    return torch.bmm(keys.transpose(1, 2).float(), values.float())


def attention_state_rounded(keys, values):
    return torch.bmm(keys.transpose(1, 2), values).float()


def gather_pages(pages, table):
    return pages[table].flatten(1, 2)


# -- tables ----------------------------------------------------------------------------------------------------------


def group_sums(keys, values):
    group = keys & 63
    sums = torch.zeros(64, device=values.device).index_add_(0, group, values)
    return torch.bincount(group, minlength=64), sums


def groups_by_bincount(keys, values):
    group = keys & 63
    return torch.bincount(group, minlength=64), torch.bincount(group, weights=values, minlength=64)


def masked_sum(x, mask):
    return torch.where(mask, x, 0.0).sum()[None], mask.sum()[None]


def first_maximum(x):
    value, place = torch.max(x, 0)
    return value[None], place[None]


def run_numbers(x):
    return F.pad((x[:, 1:] != x[:, :-1]).int(), (1, 0)).cumsum(1, dtype=torch.int32)


def civil_dates(days):
    def over(t, n):  # of numbers that are not negative
        return torch.div(t, n, rounding_mode="trunc")

    z = days + 719468
    era = over(z, 146097)
    day_of_era = z - era * 146097
    year = over(day_of_era - over(day_of_era, 1460) + over(day_of_era, 36524) - over(day_of_era, 146096), 365)
    day_of_year = day_of_era - (365 * year + over(year, 4) - over(year, 100))
    place = over(5 * day_of_year + 2, 153)
    day = day_of_year - over(153 * place + 2, 5) + 1
    month = torch.where(place < 10, place + 3, place - 9)
    return (year + era * 400 + (month <= 2)) * 10000 + month * 100 + day


def bitonic_by_index(x):
    i = torch.arange(x.numel(), device=x.device, dtype=torch.int32)
    other = x[i ^ 1024]
    smaller = ((i >> 10) ^ (i >> 12)) & 1 == 0
    return torch.where(smaller, torch.minimum(x, other), torch.maximum(x, other))


def bitonic_by_views(x):
    """Runs of 4096 that rise and fall in turns, pairs at a distance of 1024."""
    v = x.view(-1, 2, 2, 2, 1024)
    low, high = v.amin(3), v.amax(3)
    rising, falling = torch.stack((low[:, 0], high[:, 0]), 2), torch.stack((high[:, 1], low[:, 1]), 2)
    return torch.stack((rising, falling), 1).flatten()


def sort_rows(x):
    return torch.sort(x, dim=1).values


def row_medians(x):
    return x.median(dim=1).values


def medians_by_sorting(x):
    return torch.sort(x, dim=1).values[:, (x.shape[1] - 1) // 2].contiguous()


def hamming_distances(a, b):
    d = a ^ b
    d = d - ((d >> 1) & 0x55)
    d = (d & 0x33) + ((d >> 2) & 0x33)
    return ((d + (d >> 4)) & 0x0F).sum(1, dtype=torch.int32)


def hamming_by_table(a, b):
    """The number of bits of every byte, looked up."""
    bits = torch.arange(256, device=a.device)
    counts = sum((bits >> k) & 1 for k in range(8)).to(torch.uint8)
    return counts[(a ^ b).int()].sum(1, dtype=torch.int32)


def upper_case(text):
    return torch.where((text >= 97) & (text <= 122), text - 32, text)


def histogram_2d(x, y):
    at = (x * 100).long() * 120 + (y * 120).long()
    return torch.bincount(at, minlength=12000).view(100, 120)


FUNCTIONS = {
    "red_black": red_black,
    "lennard_jones": lennard_jones,
    "radix_four": radix_four,
    "alpha_blend": alpha_blend,
    "bilateral": bilateral,
    "pack_nibbles": pack_nibbles,
    "log_softmax_gradient": lambda y, dy: torch.ops.aten._log_softmax_backward_data(dy, y, 1, y.dtype),
    "swiglu_gradient": swiglu_gradient,
    "focal_loss": focal_loss,
    "lora_product": lora_product,
    "top_two_gate": top_two_gate,
    "gather_pages": gather_pages,
    "masked_sum": masked_sum,
    "first_maximum": first_maximum,
    "run_numbers": run_numbers,
    "civil_dates": civil_dates,
    "upper_case": upper_case,
    "lattice_boltzmann": lattice_boltzmann,
    "sort_rows": sort_rows,
    "mean_of_all": lambda x: x.mean(dtype=torch.float64)[None],
    "histogram_2d": histogram_2d,
    "long_prefix_sum": lambda x: torch.cumsum(x, 1),
}
WAYS = {
    "wave_step": {"shifts": wave_step, "conv2d": wave_by_conv2d},
    "field_gradient": {"gradient": field_gradient, "slices": gradient_by_slices},
    "csr_product": {"sparse_csr": csr_product, "segment_reduce": csr_by_segments, "index_add": csr_by_index},
    "tridiagonal": {"sweeps": tridiagonal_by_sweeps, "cyclic_reduction": tridiagonal_by_reduction},
    "yuv_to_rgb": {"repeat_interleave": yuv_to_rgb, "views": yuv_by_views},
    "box_means": {"avg_pool2d": box_means, "axes": box_by_axes},
    "dilation": {"max_pool2d": dilation, "axes": dilation_by_axes},
    "decimate": {"conv1d": decimate, "windows": decimate_by_windows},
    "embedding_bag": {"embedding_bag": embedding_bag, "rows": bag_by_rows},
    "rope_pairs": {"pairs": rope_pairs, "complex": rope_by_complex},
    "int8_weights": {"matmul": int8_weights, "scaled_first": int8_weights_scaled_first},
    "attention_state": {"bmm": attention_state, "rounded": attention_state_rounded},
    "group_sums": {"index_add": group_sums, "bincount": groups_by_bincount},
    "row_medians": {"median": row_medians, "sort": medians_by_sorting},
    "hamming_distances": {"bits": hamming_distances, "table": hamming_by_table},
    "bitonic_step": {"index": bitonic_by_index, "views": bitonic_by_views},
}
MAKERS = {"charges_to_grid": charges_to_grid, "resize_bilinear": resize_bilinear}
# Where torch.compile takes other ways: loops over the time take it hours, and it has no sparse tensors.
COMPILED = {
    "csr_product": lambda case, device: {"index_add": csr_by_index, "segment_reduce": csr_by_segments},
    "tridiagonal": lambda case, device: {"cyclic_reduction": tridiagonal_by_reduction},
}
# How far results may be from ours, as a relative norm: a bag's and a product's of rounded numbers.
ROUNDED = {"embedding_bag": 2e-2, "attention_state": 2e-2, "int8_weights": 2e-2, "pack_nibbles": 2e-2}
