"""The cases of unpacked.cpp, first_axis.cpp, draws.cpp, axis_scans.cpp, ragged.cpp, systems.cpp, filters.cpp and
strides.cpp in PyTorch, as a program would write them: FUNCTIONS, WAYS, MAKERS, COMPILED, ROUNDED and RANDOM as in
torch_functions.py, which reads them.
"""

import torch
import torch.nn.functional as F
import torch_operations as ops

BF16, F16, F32, I32 = torch.bfloat16, torch.float16, torch.float32, torch.int32
INF = float("inf")
GROUP, BLOCK = 128, 32  # weights that share a scale


# -- weights of few bits ---------------------------------------------------------------------------------------------


def nibbles(w):
    return torch.stack((w & 15, w >> 4), -1).flatten(1)


def grouped(numbers, scales):
    return numbers * scales.repeat_interleave(GROUP, 1)[:, : numbers.shape[1]]


def nibble_weights(x, w, scales):
    return x @ grouped(nibbles(w).to(scales.dtype) - 8, scales).to(x.dtype).t()


def zero_point_product(x, w, zero, scales):
    return x @ ((w - zero) * scales).to(F16)


def table_weights(x, w, table):
    return x @ table.to(BF16)[nibbles(w).int()].t()


def ternary_weights(x, w):
    shifts = torch.arange(0, 8, 2, device=w.device, dtype=torch.uint8)
    codes = (w[:, :, None] >> shifts) & 3
    return ops.product_f32(x, (codes.flatten(1).to(BF16) - 1).t())


def block_scaled_bytes(x, w, scales):
    return x @ (w * scales.repeat_interleave(BLOCK, 0)[: w.shape[0]]).to(BF16)


def nibble_vector(x, w, scales):
    return grouped(nibbles(w).float() - 8, scales) @ x


def byte_keys_attention(q, keys, scales, values):
    s = torch.bmm(keys.to(BF16), q[:, :, None])[:, :, 0] * scales * q.shape[1] ** -0.5
    return torch.bmm(F.softmax(s, 1).to(BF16)[:, None], values)[:, 0]


def unpack_groups(w, scales):
    return grouped(nibbles(w).float() - 8, scales).to(BF16)


# -- along the first axis --------------------------------------------------------------------------------------------


def attention_pool(x, scores):
    return torch.bmm(F.softmax(scores, 1).to(BF16)[:, None], x)[:, 0].float()


def softmax_columns_gradient(y, dy):
    return y * (dy - (y * dy).sum(0))


# -- random numbers --------------------------------------------------------------------------------------------------


def laplace_noise(x):
    u = torch.rand_like(x) - 0.5
    return x - u.sign() * torch.log1p(-2 * u.abs())


def gumbel_choice(x):
    return (x - torch.empty_like(x).exponential_().log()).argmax(1)


def round_by_chance(x):
    return torch.floor(x * 20 + torch.rand_like(x)).clamp(-127, 127).to(torch.int8)


def price_paths(start):
    price = start
    for _ in range(32):
        price = price * torch.exp(0.001 + 0.02 * torch.randn_like(start))
    return price


def drop_paths(x, residual):
    stays = torch.rand(x.shape[0], 1, device=x.device) < 0.8
    return residual + torch.where(stays, x / 0.8, 0)


def weibull(case, device):
    rows = case["arguments"]["rows"]

    def drawn(scale, form):
        u = torch.rand(rows, scale.shape[0], device=scale.device)
        return scale * (-torch.log1p(-u)) ** (1 / form)

    return {"formula": drawn}


# -- scans -----------------------------------------------------------------------------------------------------------


def discounted_returns(rewards, last):
    total, results = torch.zeros_like(rewards[0]), torch.empty_like(rewards)
    for t in range(rewards.shape[0] - 1, -1, -1):
        total = rewards[t] + torch.where(last[t], 0, 0.99 * total)
        results[t] = total
    return results


def returns_scanned(rewards, last):
    return ops.scanned(torch.where(last, 0.0, 0.99).flip(0)[None], rewards.flip(0)[None])[0].flip(0)


# -- graphs and other lists of many lengths --------------------------------------------------------------------------


class Lists:
    """The entries of lists, one list after the other, and the list that each belongs to."""

    def __init__(self, limits, entries):
        self.first, last = int(limits[0]), int(limits[-1])
        self.count = limits.shape[0] - 1
        self.counts = limits.diff()
        self.entries = entries[self.first : last]
        which = torch.arange(self.count, device=limits.device)
        self.owner = torch.repeat_interleave(which, self.counts, output_size=last - self.first)
        self.starts = limits - self.first

    def sums(self, values):
        out = torch.zeros((self.count,) + values.shape[1:], device=values.device, dtype=values.dtype)
        return out.index_add_(0, self.owner, values)

    def largest(self, values, start):
        index = self.owner if values.dim() == 1 else self.owner[:, None].expand_as(values)
        return start.scatter_reduce(0, index, values, "amax")

    def log_sums(self, scores):
        """The largest score of each list, and the weights of all entries by it."""
        most = self.largest(scores, torch.full((self.count,), -1e30, device=scores.device))
        return most, torch.exp(scores - most[self.owner])


def neighbour_mean(x, limits, neighbours):
    lists = Lists(limits, neighbours)
    return lists.sums(x[lists.entries].float()) / lists.counts.clamp(min=1)[:, None]


def neighbour_mean_sparse(x, limits, neighbours):
    lists = Lists(limits, neighbours)
    ones = torch.ones(lists.entries.shape[0], device=x.device)
    matrix = torch.sparse_csr_tensor(lists.starts, lists.entries, ones, (lists.count, x.shape[0]))
    return (matrix @ x.float()) / lists.counts.clamp(min=1)[:, None]


def neighbour_max(x, limits, neighbours):
    lists = Lists(limits, neighbours)
    return lists.largest(x[lists.entries], x)


def csr_times_dense(limits, columns, values, x):
    lists = Lists(limits, columns)
    some = values[lists.first : lists.first + lists.entries.shape[0]]
    return torch.sparse_csr_tensor(lists.starts, lists.entries, some, (lists.count, x.shape[0])) @ x


def csr_by_index(limits, columns, values, x):
    lists = Lists(limits, columns)
    some = values[lists.first : lists.first + lists.entries.shape[0]]
    return lists.sums(some[:, None] * x[lists.entries])


def ragged_log_sum_exp(x, limits):
    lists = Lists(limits, x)
    most, weights = lists.log_sums(lists.entries)
    return most + torch.log(lists.sums(weights))


def graph_attention(q, x, limits, neighbours):
    lists = Lists(limits, neighbours)
    rows = x[lists.entries]
    _, weights = lists.log_sums((q[lists.owner] * rows).sum(1) * 0.125)
    return lists.sums(weights[:, None] * rows) / lists.sums(weights).clamp(min=1e-30)[:, None]


def page_rank_step(ranks, shares, limits, sources):
    lists = Lists(limits, sources)
    return 0.15 + 0.85 * lists.sums((ranks * shares)[lists.entries])


def mean_of_sequence(x, lengths):
    inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return torch.where(inside[:, :, None], x, 0).sum(1, dtype=F32) / lengths[:, None]


def chain_lengths(divisors):
    at = torch.arange(divisors.shape[0], device=divisors.device, dtype=I32)
    steps = torch.zeros_like(at)
    for _ in range(divisors.shape[0].bit_length()):
        steps += at > 0
        at = at // divisors[at]
    return steps


def string_lengths(x):
    ended = x == 0
    return torch.where(ended.any(1), ended.to(torch.int8).argmax(1), x.shape[1])


def hash_lookup(keys, table):
    size = table.shape[0]
    place = (keys.long() * 0x9E3779B1 & 0xFFFFFFFF) % size
    found = table[place]
    searching = (found != keys) & (found >= 0)
    while searching.any():
        place = torch.where(searching, (place + 1) % size, place)
        found = table[place]
        searching = (found != keys) & (found >= 0)
    return torch.where(found == keys, place, -1)


# -- small systems ---------------------------------------------------------------------------------------------------


def damped(x, shift):
    return x + shift * torch.eye(x.shape[-1], device=x.device, dtype=x.dtype)


def cholesky(x):
    return torch.linalg.cholesky(damped(x + x.mT, 2.0 * x.shape[-1]))


def lu_factors(x):  # the diagonal is the largest of each column, so that no rows are exchanged
    return torch.linalg.lu_factor(damped(x, 16.0), pivot=not x.is_cuda)[0]


def solve_lower(x, b):
    return torch.linalg.solve_triangular(damped(x, 32.0), b, upper=False)


def solve_upper(x, b):
    return torch.linalg.solve_triangular(damped(x, 16.0), b, upper=True)


def orthonormal(x):
    q, r = torch.linalg.qr(x)
    return q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None]


def power_iteration(x):
    v = torch.ones(x.shape[:2], device=x.device)[:, :, None]
    for _ in range(32):
        v = torch.bmm(x, v)
        v = v / v.norm(dim=1, keepdim=True)
    return v[:, :, 0]


# -- filters ---------------------------------------------------------------------------------------------------------


def filter_rows(x, w):
    return F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1).permute(0, 2, 3, 1)


def filter_squares(x, w, bias):
    taps = w.view(3, 3, *w.shape[1:]).permute(3, 2, 0, 1)
    y = F.conv2d(x.permute(0, 3, 1, 2), taps, bias.to(BF16), padding=1)
    return torch.relu(y).permute(0, 2, 3, 1)


def time_filter(x, w):
    return F.conv1d(F.pad(x.transpose(1, 2), (8, 0)), w.permute(2, 1, 0), dilation=2).transpose(1, 2)


def halving_filter(x, w):
    images, m, _, n, pair = x.shape
    taps = w.view(2, 2, pair // 2, -1).permute(3, 2, 0, 1)
    y = F.conv2d(x.view(images, 2 * m, 2 * n, pair // 2).permute(0, 3, 1, 2), taps, stride=2)
    return y.permute(0, 2, 3, 1)


def patch_embedding(x, w):
    images, channels, m, _, n, _ = x.shape
    taps = w.view(channels, 16, 16, -1).permute(3, 0, 1, 2)
    return F.conv2d(x.view(images, channels, 16 * m, 16 * n), taps, stride=16).permute(0, 2, 3, 1)


def filter_gradient(x, dy):
    x, dy = x.permute(0, 3, 1, 2), dy.permute(0, 3, 1, 2)
    size = (dy.shape[1], x.shape[1], 3, 3)
    dw = torch.nn.grad.conv2d_weight(x, size, dy, padding=1)
    return dw.permute(2, 3, 1, 0).flatten(0, 1)


# -- strides ---------------------------------------------------------------------------------------------------------


def split_channels(x):
    return (x.t().float() / 255).contiguous().unbind(0)


FUNCTIONS = {
    "nibble_weights": nibble_weights,
    "nibble_product": nibble_weights,
    "zero_point_product": zero_point_product,
    "table_weights": table_weights,
    "ternary_weights": ternary_weights,
    "block_scaled_bytes": block_scaled_bytes,
    "nibble_vector": nibble_vector,
    "byte_keys_attention": byte_keys_attention,
    "unpack_groups": unpack_groups,
    "column_log_sum_exp": lambda x: torch.logsumexp(x, 0),
    "long_softmax_columns": lambda x: F.softmax(x, 0),
    "column_entropy": lambda p: torch.special.entr(p).sum(0),
    "column_lengths": lambda x: torch.linalg.vector_norm(x, dim=0),
    "column_geometric_mean": lambda x: x.float().log().mean(0).exp(),
    "column_sigmoid_means": lambda x: torch.sigmoid(x.float()).mean(0),
    "attention_pool": attention_pool,
    "softmax_columns_gradient": softmax_columns_gradient,
    "exponential_noise": lambda x: x + torch.empty_like(x).exponential_(0.5),
    "normal_noise": lambda x: x + 0.25 * torch.randn_like(x),
    "laplace_noise": laplace_noise,
    "gumbel_choice": gumbel_choice,
    "round_by_chance": round_by_chance,
    "price_paths": price_paths,
    "drop_paths": drop_paths,
    "column_prefix_sum": lambda x: x.cumsum(0),
    "time_prefix_sum": lambda x: x.cumsum(1, dtype=F32),
    "column_running_max": lambda x: x.cummax(0).values,
    "column_log_cumsum_exp": lambda x: torch.logcumsumexp(x, 0),
    "discounted_returns": discounted_returns,
    "integral_image": lambda x: x.cumsum(1, dtype=F32).cumsum(0),
    "exclusive_offsets": lambda x: x.cumsum(0, dtype=I32) - x,
    "suffix_sums": lambda x: x.flip(1).cumsum(1).flip(1),
    "neighbour_max": neighbour_max,
    "ragged_log_sum_exp": ragged_log_sum_exp,
    "graph_attention": graph_attention,
    "page_rank_step": page_rank_step,
    "mean_of_sequence": mean_of_sequence,
    "chain_lengths": chain_lengths,
    "string_lengths": string_lengths,
    "hash_lookup": hash_lookup,
    "cholesky": cholesky,
    "lu_factors": lu_factors,
    "determinant": lambda x: torch.linalg.det(damped(x, 4.0)),
    "solve_lower": solve_lower,
    "solve_upper": solve_upper,
    "inverse": lambda x: torch.linalg.inv(damped(x, float(x.shape[-1]))),
    "orthonormal": orthonormal,
    "matrix_exponential": torch.matrix_exp,
    "power_iteration": power_iteration,
    "filter_rows": filter_rows,
    "filter_squares": filter_squares,
    "time_filter": time_filter,
    "halving_filter": halving_filter,
    "patch_embedding": patch_embedding,
    "depthwise_5x5": lambda x, w: F.conv2d(x, w[:, None], padding=2, groups=x.shape[1]),
    "filter_3d": lambda x, w: F.conv3d(x[None, None], w[None, None], padding=1)[0, 0],
    "filter_gradient": filter_gradient,
    "every_third": lambda x: x[1::3].contiguous(),
    "split_channels": split_channels,
    "join_channels": lambda r, g, b: torch.stack((r, g, b), 1),
    "complex_magnitude": lambda x: torch.view_as_complex(x).abs(),
    "pair_means": lambda x: x.view(-1, 2).mean(1),
    "last_axis_first": lambda x: x.permute(2, 0, 1).contiguous(),
    "reversed_rows": lambda x: x.flip(1),
    "rolled": lambda x: torch.roll(x, (3, 5), (0, 1)),
    "strided_rows": lambda x: x[::4, ::2].contiguous(),
    "window_partition": lambda x: x.permute(0, 1, 3, 2, 4, 5).contiguous(),
}
WAYS = {
    "neighbour_mean": {"index_add": neighbour_mean, "sparse_csr": neighbour_mean_sparse},
    "csr_times_dense": {"sparse_csr": csr_times_dense, "index_add": csr_by_index},
}
MAKERS = {"weibull": weibull}
# Where torch.compile takes other ways, or none: lists whose lengths are data, and loops until all is found.
COMPILED = {
    "discounted_returns": lambda case, device: {"associative_scan": returns_scanned},
} | {
    name: lambda case, device: {}
    for name in (
        "neighbour_mean",
        "neighbour_max",
        "csr_times_dense",
        "ragged_log_sum_exp",
        "graph_attention",
        "page_rank_step",
        "hash_lookup",
    )
}
ROUNDED = {
    "filter_gradient": 2e-2,
    "byte_keys_attention": 2e-2,
    "attention_pool": 2e-2,
    "patch_embedding": 2e-2,
}
RANDOM = {
    "exponential_noise",
    "normal_noise",
    "laplace_noise",
    "gumbel_choice",
    "round_by_chance",
    "price_paths",
    "drop_paths",
    "weibull",
}
