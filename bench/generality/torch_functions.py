"""What each case of generality_bench computes, in PyTorch: as a program would write it, with the fused operation where
PyTorch has one.

functions_of(case, device) gives the ways to write it, {name: function of the inputs}, of which the fastest is measured;
compiled_of(case, device) those that are given to torch.compile, where they are others. A function returns one tensor or
a tuple, in the order of the case's outputs; integers may be of other widths.
"""

import re

import torch
import torch.nn.functional as F
import torch_corpus as corpus
import torch_layers as layers
import torch_more as more
import torch_operations as ops
import torch_programs as programs

BATCH_EPS = 1e-5  # of batch norm
RANDOM = {"dropout"} | corpus.RANDOM  # results are PyTorch's own
# How far results may be from ours, as a relative norm, where inner results are rounded (to bf16; tf32 in convolutions).
ROUNDED = {
    "cosine_similarity": 2e-2,
    "causal_convolution": 2e-2,
    "convolution_3x3": 1e-2,
    "filter": 2e-2,
    "mandelbrot": 5e-2,
} | programs.ROUNDED | more.ROUNDED | corpus.ROUNDED | layers.ROUNDED
TOLERANCE = 1e-2


def work_of(name):
    """softmax_96 and library_softmax_96 are softmax."""
    return re.sub(r"_[0-9]+$", "", name.removeprefix("library_"))


FUNCTIONS = {
    "product_gelu": ops.product_gelu,
    "product_relu_residual": lambda a, b, r: torch.relu(a @ b) + r,
    "product_of_regions": torch.matmul,
    "few_rows_product": lambda a, w: ops.product_f32(a, w.t()),
    "batched_product": torch.bmm,
    "gram": lambda x: ops.product_f32(x.t(), x),
    "two_layers": lambda x, a, b: torch.relu(x @ a) @ b,
    "pairwise_distances": ops.pairwise_distances,
    "nearest_centre": ops.nearest_centre,
    "gemm": torch.matmul,
    "matmul": torch.matmul,
    "matrix_vector": torch.mv,
    "batched_matrix_vector": lambda a, x: torch.bmm(a, x[:, :, None])[:, :, 0],
    "softmax": lambda x: F.softmax(x, dim=-1),
    "rms_norm": lambda x, w: F.rms_norm(x, (x.shape[1],), w, ops.EPS),
    "layer_norm": lambda x, w, b: F.layer_norm(x, (x.shape[1],), w, b, ops.EPS),
    "cross_entropy": lambda x, t: F.cross_entropy(x, t.long(), reduction="none"),
    "log_sum_exp": lambda x: torch.logsumexp(x, dim=1),
    "argmax": lambda x: x.argmax(1),
    "top_one": lambda x: tuple(torch.max(x, dim=1)),
    "mean_variance": ops.mean_variance,
    "cosine_similarity": lambda a, b: F.cosine_similarity(a, b, dim=1),
    "quantise": ops.quantise,
    "softmax_gradient": lambda y, dy: torch.ops.aten._softmax_backward_data(dy, y, 1, y.dtype),
    "layer_norm_gradient": ops.layer_norm_gradient,
    "masked_softmax": lambda x, mask: F.softmax(torch.where(mask, x, ops.NEG_INF), dim=-1),
    "add_rms_norm": ops.add_rms_norm,
    "group_norm": ops.group_norm,
    "prefix_sum": lambda x: torch.cumsum(x, 1),
    "running_max": lambda x: torch.cummax(x, 1).values,
    "channel_bias": lambda x, b: x + b[:, None],
    "batch_norm": lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, False, 0.0, BATCH_EPS),
    "dequantise": lambda x, s: (x * s[:, None]).to(ops.BF16),
    "one_hot": lambda ids: (ids[:, None] == torch.arange(128, device=ids.device, dtype=ids.dtype)).float(),
    "upper_triangle": torch.triu,
    "outer_product": torch.outer,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_gradient": lambda x, dy: torch.ops.aten.gelu_backward(dy, x, approximate="tanh"),
    "swiglu": ops.swiglu,
    "dropout": lambda x: F.dropout(x, 0.25, training=True),
    "rope": ops.rope,
    "polynomial": ops.polynomial,
    "f64_hypotenuse": torch.hypot,
    "complex_product": ops.complex_product,
    "hash_bits": ops.hash_bits,
    "transpose": lambda x: x.t().contiguous(),
    "heads_last": lambda x: x.transpose(1, 2).contiguous(),
    "embedding": lambda table, ids: F.embedding(ids, table),
    "upsample": lambda x: F.interpolate(x[None], scale_factor=2, mode="bilinear", align_corners=False)[0],
    "seven_point_stencil": ops.seven_point_stencil,
    "jacobi": ops.jacobi,
    "box_blur": ops.box_blur,
    "convolution_3x3": lambda x, w: F.conv2d(x, w, padding=1),
    "max_pool": lambda x: F.max_pool2d(x[:, None], 2)[:, 0],
    "average_pool": lambda x: F.avg_pool2d(x[:, None], 3, 1, 1)[:, 0],
    "column_sums_added": lambda x: x.sum(0),
    "column_sums": lambda x: x.sum(0),
    "byte_histogram": lambda x: torch.bincount(x, minlength=256),
    "moving_average": ops.moving_average,
    "recurrence": ops.recurrence,
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "im2col": lambda x: F.unfold(x, 3, padding=1),
    "reflect_pad": ops.reflect_pad,
    "nearest_3d": lambda x: F.interpolate(x[None, None], scale_factor=1.5, mode="nearest")[0, 0],
    "max_pool_1d": lambda x: F.max_pool1d(x[:, None], 5, 3)[:, 0],
    "column_argmin": lambda x: x.argmin(0),
    "column_variance": lambda x: x.var(0, correction=0),
    "softmax_columns": lambda x: F.softmax(x, dim=0),
    "kl_divergence": ops.kl_divergence,
    "cumulative_product": lambda x: torch.cumprod(x, 1),
    "take_along": lambda x, ids: torch.take_along_dim(x, ids.long(), 1),
    "prefix_softmax": ops.prefix_softmax,
    "pack_bits": ops.pack_bits,
    "rotate_points": ops.rotate_points,
    "int8_product": ops.int8_product,
    "transposed_product": lambda a, b: a.t() @ b,
    "l1_distances": lambda x, y: torch.cdist(x, y, p=1.0),
    "adam_step": ops.adam_step,
    "huber_gradient": ops.huber_gradient,
    "interleave": lambda a, b: torch.stack((a, b), -1),
    "bucketize": lambda x, limits: torch.bucketize(x, limits, right=True, out_int32=True),
    "butterfly": ops.butterfly,
    "accuracy_count": ops.accuracy_count,
    "sum_of_squares": lambda x: x.square().sum()[None],
    "min_max": ops.min_max,
} | programs.FUNCTIONS | more.FUNCTIONS | corpus.FUNCTIONS | layers.FUNCTIONS
WAYS = {  # several, of which the fastest counts
    "convolution_1x1": {"matmul": lambda x, w: torch.matmul(w, x), "conv1d": lambda x, w: F.conv1d(x, w[:, :, None])},
    "causal_convolution": {"shifts": ops.convolution_by_shifts, "conv1d": ops.convolution_by_conv1d},
    "depthwise_3x3": {"shifts": ops.depthwise_by_shifts, "conv2d": ops.depthwise_3x3},
    "filter": {"shifts": ops.filter_by_shifts, "conv1d": ops.filter_by_conv1d},
    "periodic_laplacian": {"roll": ops.periodic_laplacian, "pad": ops.laplacian_by_padding},
    "sobel": {"conv2d": ops.sobel_by_conv2d, "shifts": ops.sobel_by_shifts},
    "median_filter": {"exchanges": ops.median_by_exchanges, "median": ops.median_by_stack},
    "rgb_to_grey": {"planes": ops.grey_by_planes, "matmul": ops.grey_by_product},
    "channel_norm": {"layer_norm": ops.channel_norm, "var_mean": ops.channel_norm_by_means},
    "triplet_loss": {"triplet_margin_loss": ops.triplet_loss, "norm": ops.triplet_by_norms},
    "sparse_product": {"gather": lambda c, a, x: (a * x[c]).sum(1), "sparse_csr": ops.sparse_by_rows},
    "decode_attention": {"scaled_dot_product_attention": ops.decode_attention, "matmul": ops.decode_by_products},
    "weighted_histogram": {
        "index_add": lambda ids, w: torch.zeros(1000, device=w.device).index_add_(0, ids, w),
        "bincount": lambda ids, w: torch.bincount(ids, weights=w, minlength=1000),
    },
} | programs.WAYS | more.WAYS | corpus.WAYS | layers.WAYS
MAKERS = {
    "window_attention": ops.window_attention,
    "mandelbrot": ops.mandelbrot,
    "add_rows": ops.add_rows,
    "segment_sums": ops.segment_sums,
} | programs.MAKERS | more.MAKERS | corpus.MAKERS | layers.MAKERS
COMPILED = {  # loops over the time take the compiler hours
    "window_attention": ops.window_attention_compiled,
    "moving_average": lambda case, device: {"associative_scan": ops.moving_average_scanned},
    "recurrence": lambda case, device: {"associative_scan": ops.scanned},
    "sparse_product": lambda case, device: {"gather": WAYS["sparse_product"]["gather"]},
} | programs.COMPILED | more.COMPILED | corpus.COMPILED | layers.COMPILED


def functions_of(case, device):
    work = work_of(case["name"])
    if work in MAKERS:
        return MAKERS[work](case, device)
    return WAYS.get(work) or {"torch": FUNCTIONS[work]}


def compiled_of(case, device):
    make = COMPILED.get(work_of(case["name"]))
    return make(case, device) if make else functions_of(case, device)
