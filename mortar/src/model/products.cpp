// Which kernel a product takes: by the number of rows, the element type of the weights, and the numerics.
#include "model/products.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "model/kernels.hpp"
#include "model/rounded_row_kernels.hpp"
#include "model/scaled_row_kernels.hpp"
#include "model/weight_kernels.hpp"
#include "tessera/kernels/block_scaled_gemm.hpp"
#include "tessera/kernels/rms_norm.hpp"

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wconsumed"  // it does not see what co_await returns
#endif

namespace mortar {
namespace {

/// acc rounded to bf16 before it is added, or stored as f32.
struct RoundedResidual {
  template <class T, int... D>
  auto operator()(const Tile<T, D...>& acc, const auto& out, const auto& r) const {
    return rounded(acc) + cast<f32>(r.load_like(out));
  }
};
struct Rounded {
  auto operator()(const auto& acc, const auto&) const { return rounded(acc); }
};

bool on_gpu(const Rows& x) { return kernels::target_of(x.device()).gpu; }

/// One row, and on a GPU two of bf16 weights: products are sums, with the norm inside.
bool are_summed(const Rows& x, bool fp8, const Numerics& numerics) {
  if (numerics.one_way()) return false;
  return x.dim(0) == 1 || (!fp8 && kernels::are_summed(x.dim(0), kernels::target_of(x.device())));
}
/// How these products are computed on a GPU (bench/notes/mortar.md), and on the CPU.
struct NormedTile {
  int n, k;       ///< rows of weights of a block (gated: of each half), elements of a step
  bool constant;  ///< the row's length is a constant of the code
};
constexpr NormedTile kNormedRows[] = {
    {32, 256, false}, {4, 512, false}, {2, 512, false}, {1, 512, true}, {16, 256, false}};
constexpr int kOnCpu = 0, kPlain = 1, kFewGated = 2, kManyGated = 3, kGatedOnCpu = 4;  ///< their rows
int normed_heuristic(bool gated, std::int64_t results, std::int64_t k, const kernels::Target& target) {
  constexpr std::int64_t kManyBlocks = 64;  // of an SM, with one row
  if (!target.gpu) return gated ? kGatedOnCpu : kOnCpu;
  if (!gated) return kPlain;
  const bool many = results >= kManyBlocks * target.num_sms && k <= kernels::kMaxUnrolled * kNormedRows[kManyGated].k;
  return many ? kManyGated : kFewGated;
}
/// Two warps for each block where an SM has few blocks, else one; gates are faster with one in either case.
Hints normed_hints(bool gated, std::int64_t blocks, const kernels::Target& target) {
  constexpr std::int64_t kFewBlocks = 8;  // of an SM
  return {.warps = !gated && blocks <= kFewBlocks * target.num_sms ? 2 : 1};
}
/// The products of a few rows, normalised inside. U: the element type of the result.
template <bool Gated, class U>
Op<Tensor<U, 2>> normed_product(const Rows& x, const Norm& norm, const Tensor<bf16, 2>& w) {
  constexpr int tiles = static_cast<int>(std::size(kNormedRows));
  const std::int64_t results = Gated ? w.dim(0) / 2 : w.dim(0);
  const kernels::Target target = kernels::target_of(x.device());
  if (x.dim(0) == kernels::kMaxSummed) {
    constexpr NormedTile tile = kNormedRows[Gated ? kFewGated : kPlain];
    return kernel<normed_rows<Gated, U, bf16, kernels::kMaxSummed, tile.n, tile.k, 1>>.hints({.warps = 2})(
        empty<U>({x.dim(0), results}), x, norm.weight, w, norm.epsilon, i32{0});
  }
  const int chosen = normed_heuristic(Gated, results, w.dim(1), target);
  return kernels::with_constant<tiles>(chosen, [&](auto number) {
    constexpr NormedTile tile = kNormedRows[number];
    constexpr auto& product = kernel<normed_rows<Gated, U, bf16, 1, tile.n, tile.k, 1>>;
    return product.hints(normed_hints(Gated, ceil_div(results, std::int64_t{tile.n}), target))(
        empty<U>({std::int64_t{1}, results}), x, norm.weight, w, norm.epsilon,
        tile.constant ? static_cast<i32>(w.dim(1)) : 0);
  });
}

/// A tile of the products of one row with FP8 weights (bench/notes/mortar.md).
struct ScaledRowTile {
  int n, k;      ///< rows and columns of weights
  bool counted;  ///< the trip count is read at run time, so that the loop is not unrolled
  bool half;     ///< products in f16
  int warps;
};
constexpr ScaledRowTile kScaledRow[] = {
    {8, 512, false, true, 4}, {4, 512, false, true, 2}, {4, 512, true, true, 2}, {32, 256, true, false, 2}};
constexpr int kShortRow = 0, kLongRow = 1, kLongestRow = 2, kRowOnCpu = 3;  ///< their rows
int scaled_row_heuristic(const Rows& x) {
  // Bytes of weights of a block whose loop is unrolled: with more it was slower.
  constexpr std::int64_t kMaxUnrolled = 48 << 10;
  const std::int64_t k = x.dim(1);
  if (!on_gpu(x)) return kRowOnCpu;
  if (kScaledRow[kShortRow].n * k <= kMaxUnrolled) return kShortRow;
  return kScaledRow[kLongRow].n * k <= kMaxUnrolled ? kLongRow : kLongestRow;
}
/// f(the type of products, the number of the tile, its hints) for the row x.
auto with_scaled_row(const Rows& x, const auto& f) {
  constexpr int tiles = static_cast<int>(std::size(kScaledRow));
  return kernels::with_constant<tiles>(scaled_row_heuristic(x), [&](auto number) {
    constexpr ScaledRowTile t = kScaledRow[number];
    return f(std::conditional_t<t.half, f16, f32>(), number, Hints{.warps = t.warps});
  });
}

/// The gates of one row with FP8 weights: a block, its sums on a GPU and its hints (bench/notes/mortar.md).
constexpr kernels::LinearTile kScaledGates = {4, 1024}, kScaledGatesOnCpu = {16, 256};
constexpr int kFold = 8;  ///< products that are added before a sum: the elements of one load of a thread
RowsOp scaled_gates(const Rows& x, const Norm& norm, const Matrix& w) {
  return kernels::with_constant<2>(on_gpu(x) ? 1 : 0, [&](auto gpu) {
    constexpr int fold = gpu ? kFold : 1;
    constexpr kernels::LinearTile tile = gpu ? kScaledGates : kScaledGatesOnCpu;
    constexpr auto& product = kernel<normed_rows<true, bf16, f8e4m3, 1, tile.n, tile.k, fold, In<f32, dyn, dyn>>>;
    return product.hints({.warps = 2})(empty<bf16>({std::int64_t{1}, w.quantized.dim(0) / 2}), x, norm.weight,
                                       w.quantized, norm.epsilon, 0, w.scales);
  });
}
/// The product of one normalised row with FP8 weights.
RowsOp normed_scaled_product(const Rows& x, const Norm& norm, const Matrix& w) {
  return with_scaled_row(x, [&]<class H>(H, auto number, const Hints& hints) {
    constexpr ScaledRowTile t = kScaledRow[number];
    constexpr auto& product = kernel<normed_scaled_row<H, t.counted, t.n, t.k>>;
    return product.hints(hints)(empty<bf16>({std::int64_t{1}, w.quantized.dim(0)}), x, norm.weight, w.quantized,
                                w.scales, norm.epsilon, static_cast<i32>(x.dim(1)));
  });
}

/// The product of a normalised row, or the gates, for weights of either type.
template <bool Gated>
RowsOp normed_product(const Rows& x, const Norm& norm, const Matrix& w) {
  if (!w.is_fp8) return normed_product<Gated, bf16>(x, norm, w.values);
  return Gated ? scaled_gates(x, norm, w) : normed_scaled_product(x, norm, w);
}

/// The product by one kernel for any number of rows.
template <class U, class E = kernels::epilogues::Plain, class... P>
Op<Tensor<U, 2>> product_in_one_way(const Rows& x, const Rows& w, const kernels::Fused<E, P...>& epilogue = {}) {
  return std::apply(
      [&](const auto&... p) {
        return kernel<kernels::few_rows<E, U, bf16, 64, 64, 256, kernels::epilogue_param<P>...>>(
            empty<U>({x.dim(0), w.dim(0)}), x, w, p...);
      },
      epilogue.operands);
}

/// The product with FP8 weights of one row.
template <class E, class... P>
RowsOp scaled_row_product(const Rows& x, const Matrix& w, const kernels::Fused<E, P...>& epilogue) {
  return with_scaled_row(x, [&]<class H>(H, auto number, const Hints& hints) {
    constexpr ScaledRowTile t = kScaledRow[number];
    constexpr auto& product = kernel<scaled_row<E, H, t.counted, t.n, t.k, kernels::epilogue_param<P>...>>;
    return std::apply(
        [&](const auto&... p) {
          return product.hints(hints)(empty<bf16>({std::int64_t{1}, w.quantized.dim(0)}), x, w.quantized, w.scales,
                                      static_cast<i32>(x.dim(1)), p...);
        },
        epilogue.operands);
  });
}

/// A block of the products of several rows with FP8 weights: rows of x, rows of w, and the order of columns.
struct ScaledTile {
  int m, n;
  bool ordered;
};
constexpr ScaledTile kScaledRows[] = {
    {16, 128, true}, {16, 32, true}, {64, 128, true}, {64, 64, false}, {16, 32, false}};
constexpr int kFewWide = 0, kFewNarrow = 1, kManyWide = 2, kOneWay = 3, kFewOnCpu = 4;  ///< their rows
/// Which of them (bench/notes/mortar.md): the wide tile if every SM has one. In one way, the number of rows does not
/// matter. On the CPU the order of columns only costs.
int scaled_rows_heuristic(const Rows& x, const Matrix& w, const Numerics& numerics) {
  const kernels::Target target = kernels::target_of(x.device());
  const bool few = x.dim(0) <= kScaledRows[0].m;
  if (numerics.one_way()) return kOneWay;
  if (!target.gpu) return few ? kFewOnCpu : kOneWay;
  const ScaledTile& wide = kScaledRows[few ? kFewWide : kManyWide];
  const std::int64_t tiles =
      ceil_div(x.dim(0), std::int64_t{wide.m}) * ceil_div(w.quantized.dim(0), std::int64_t{wide.n});
  if (tiles >= target.num_sms) return few ? kFewWide : kManyWide;
  return few ? kFewNarrow : kOneWay;
}
/// The product with FP8 weights of several rows.
template <class E, class... P>
RowsOp scaled_rows_product(const Rows& x, const Matrix& w, const Numerics& numerics,
                           const kernels::Fused<E, P...>& epilogue) {
  constexpr int tiles = static_cast<int>(std::size(kScaledRows));
  return kernels::with_constant<tiles>(scaled_rows_heuristic(x, w, numerics), [&](auto number) {
    constexpr ScaledTile t = kScaledRows[number];
    return std::apply(
        [&](const auto&... p) {
          return kernel<scaled_rows<E, t.ordered, t.m, t.n, kernels::epilogue_param<P>...>>(
              empty<bf16>({x.dim(0), w.quantized.dim(0)}), x, w.quantized, w.scales, p...);
        },
        epilogue.operands);
  });
}

/// Rows from which on they are rounded to FP8, where that is wanted: with fewer, the weights are the bound.
constexpr std::int64_t kWorthQuantizing = 17;
bool worth_quantizing(const Rows& x, const Numerics& numerics) {
  return x.dim(0) >= kWorthQuantizing && numerics.fp8_activations && !numerics.one_way();
}

/// Rows in FP8 and the scales of each 128 of their elements.
using RoundedRows = Op<std::tuple<Tensor<f8e4m3, 2>, Tensor<f32, 2>>>;
Dims<2> scales_of(const Dims<2>& rows) {
  return Dims<2>({rows[0], ceil_div(rows[1], std::int64_t{kernels::kScaleBlock})});
}
/// The norm of rows, in one tile each.
constexpr int kLongestNormed = 16384;
RoundedRows rounded_norms(const Rows& x, const Norm& norm) {
  return kernels::with_extent<kernels::kScaleBlock, kLongestNormed>(x.dim(1), [&](auto n) {
    return kernel<rounded_norm<n>>(empty<f8e4m3>(x.dims()), empty<f32>(scales_of(x.dims())), x, norm.weight,
                                   norm.epsilon);
  });
}
/// silu(gate) * up of [tokens, 2 n].
RoundedRows rounded_gates_of(const Rows& gate_up) {
  constexpr int kTogether = 8;  // rows of a block, as in kernels::quantize_blocks
  const std::int64_t n = gate_up.dim(1) / 2;
  const Dims<2> dims({gate_up.dim(0), n});
  return kernel<rounded_gates<kTogether>>(empty<f8e4m3>(dims), empty<f32>(scales_of(dims)), gate_up.slice<1>(0, n),
                                          gate_up.slice<1>(n, 2 * n));
}

/// Rows from which on weights are dequantized first (bench/notes/mortar.md).
constexpr std::int64_t kWorthDequantizing = 256;
bool worth_dequantizing(const Rows& x, const Numerics& numerics) {
  if (worth_quantizing(x, numerics)) return false;
  return x.dim(0) >= kWorthDequantizing && numerics.may_dequantize && !numerics.one_way();
}
RowsOp dequantized(const Matrix& w) {
  return kernel<dequantize<4, 1024>>(empty<bf16>(w.quantized.dims()), w.quantized, w.scales);
}

/// The product with FP8 weights.
template <class E = kernels::epilogues::Plain, class... P>
Flow<Tensor<bf16, 2>> scaled_product(Rows x, const Matrix& w, Numerics numerics,
                                     kernels::Fused<E, P...> epilogue = {}) {
  if (worth_quantizing(x, numerics)) {
    const auto [rows, scales] = co_await kernels::quantize_blocks<f8e4m3, 1>(x);
    co_return co_await kernels::block_scaled_linear(rows, scales, w.quantized, w.scales, epilogue);
  }
  if (worth_dequantizing(x, numerics)) {
    const auto wide = co_await dequantized(w);
    co_return co_await kernels::linear(x, wide, epilogue);
  }
  if (x.dim(0) == 1 && !numerics.one_way()) co_return co_await scaled_row_product(x, w, epilogue);
  co_return co_await scaled_rows_product(x, w, numerics, epilogue);
}

constexpr int kGatedTile = 128;  ///< rows and columns of a piece of gated_tiles

/// Products of gates inside take weights of a multiple of so many rows: gate and up in whole tiles.
constexpr std::int64_t kGatedRows = 16, kGatedRowsOnCpu = 2 * std::max(kNormedRows[kGatedOnCpu].n, kScaledGatesOnCpu.n);
std::int64_t gated_rows(const Rows& x) { return on_gpu(x) ? kGatedRows : kGatedRowsOnCpu; }
std::int64_t outputs(const Matrix& w) { return w.is_fp8 ? w.quantized.dim(0) : w.values.dim(0); }

/// Many rows on a GPU, in whole pieces of which every SM has several, and weights that are or will be in bf16.
bool gates_inside(const Rows& x, const Matrix& w, const Numerics& numerics) {
  const kernels::Target target = kernels::target_of(x.device());
  if (!target.gpu || numerics.one_way() || (w.is_fp8 && !worth_dequantizing(x, numerics))) return false;
  const std::int64_t n = outputs(w) / 2, pieces = ceil_div(x.dim(0), std::int64_t{kGatedTile}) * (n / kGatedTile);
  return n % kGatedTile == 0 && pieces >= 2 * target.num_sms;
}
RowsOp gated_product(const Rows& x, const Tensor<bf16, 2>& w) {
  constexpr int kDepth = 64;
  return kernel<gated_tiles<kGatedTile, kGatedTile, kDepth>>(empty<bf16>({x.dim(0), w.dim(0) / 2}), x, w);
}

Flow<Tensor<bf16, 2>> linear(Rows x, const Matrix& w, Numerics numerics) {
  if (w.is_fp8) co_return co_await scaled_product(x, w, numerics);
  if (numerics.one_way()) co_return co_await product_in_one_way<bf16>(x, w.values.view());
  co_return co_await kernels::linear(x, w.values);
}

/// One row times weights with few and short rows: all blocks run at once, and each has the registers to load its whole
/// rows before it waits for the row (bench/notes/mortar.md).
constexpr kernels::LinearTile kShortRows = kernels::kOneRow[2];
constexpr std::int64_t kMaxShortSteps = 6;
bool has_short_rows(const Rows& x, const Tensor<bf16, 2>& w) {
  constexpr std::int64_t kFewBlocks = 6;  // of an SM, which holds twice as many
  const kernels::Target target = kernels::target_of(x.device());
  const std::int64_t blocks = ceil_div(w.dim(0), std::int64_t{kShortRows.n}), k = w.dim(1);
  return target.gpu && target.overlaps && x.dim(0) == 1 && blocks <= kFewBlocks * target.num_sms && k > 0 &&
         k % kShortRows.k == 0 && k / kShortRows.k <= kMaxShortSteps;
}
/// All of `steps` steps before the wait.
Hints short_rows_hints(std::int64_t steps) { return {.early_tiles = static_cast<int>(steps)}; }
template <class U = bf16, class E = kernels::epilogues::Plain, class... P>
Op<Tensor<U, 2>> short_rows_product(const Rows& x, const Tensor<bf16, 2>& w,
                                    const kernels::Fused<E, P...>& epilogue = {}) {
  constexpr auto& product =
      kernel<kernels::summed_rows<E, U, bf16, 1, kShortRows.n, kShortRows.k, kernels::epilogue_param<P>...>>;
  return std::apply(
      [&](const auto&... p) {
        return product.hints(short_rows_hints(w.dim(1) / kShortRows.k))(empty<U>({x.dim(0), w.dim(0)}), x, w,
                                                                        static_cast<i32>(w.dim(1)), p...);
      },
      epilogue.operands);
}

}  // namespace

Flow<Tensor<bf16, 2>> normed_linear(Rows x, Norm norm, const Matrix& w, Numerics numerics) {
  if (are_summed(x, w.is_fp8, numerics)) co_return co_await normed_product<false>(x, norm, w);
  if (w.is_fp8 && worth_quantizing(x, numerics) && x.dim(1) <= kLongestNormed) {
    const auto [rows, scales] = co_await rounded_norms(x, norm);
    co_return co_await kernels::block_scaled_linear(rows, scales, w.quantized, w.scales);
  }
  const auto n = co_await normed(x, norm, numerics);
  co_return co_await linear(n.view(), w, numerics);
}

Flow<Tensor<bf16, 2>> normed_gates(Rows x, Norm norm, const Matrix& gate_up, Numerics numerics) {
  if (are_summed(x, gate_up.is_fp8, numerics) && outputs(gate_up) % gated_rows(x) == 0)
    co_return co_await normed_product<true>(x, norm, gate_up);
  if (!gates_inside(x, gate_up, numerics)) {
    const auto h = co_await normed_linear(x, norm, gate_up, numerics);
    co_return co_await gated(h.view(), numerics);
  }
  const auto n = co_await normed(x, norm, numerics);
  if (!gate_up.is_fp8) co_return co_await gated_product(n.view(), gate_up.values);
  const auto wide = co_await dequantized(gate_up);
  co_return co_await gated_product(n.view(), wide);
}

Flow<Tensor<bf16, 2>> dense_mlp(Rows x, Norm norm, const DenseMlp& w, Numerics numerics) {
  if (w.gate_up.is_fp8 && w.down.is_fp8 && worth_quantizing(x, numerics)) {
    const auto gate_up = co_await normed_linear(x, norm, w.gate_up, numerics);
    const auto [rows, scales] = co_await rounded_gates_of(gate_up.view());
    co_return co_await kernels::block_scaled_linear(rows, scales, w.down.quantized, w.down.scales,
                                                    kernels::residual(x));
  }
  const auto h = co_await normed_gates(x, norm, w.gate_up, numerics);
  co_return co_await linear_add(h.view(), w.down, x, numerics);
}

Flow<Tensor<bf16, 2>> linear_add(Rows x, const Matrix& w, Rows residual, Numerics numerics) {
  if (w.is_fp8) co_return co_await scaled_product(x, w, numerics, kernels::residual(residual));
  if (numerics.strict)
    co_return co_await product_in_one_way<bf16>(x, w.values.view(), kernels::fuse(RoundedResidual{}, residual));
  if (numerics.one_way()) co_return co_await product_in_one_way<bf16>(x, w.values.view(), kernels::residual(residual));
  if (has_short_rows(x, w.values)) co_return co_await short_rows_product(x, w.values, kernels::residual(residual));
  co_return co_await kernels::linear(x, w.values, kernels::residual(residual));
}

namespace {

/// x w^T as f32 with FP8 weights.
Op<Tensor<f32, 2>> scaled_sums(const Rows& x, const Matrix& w, const Numerics& numerics) {
  const Dims<2> dims({x.dim(0), w.quantized.dim(0)});
  if (x.dim(0) == 1 && !numerics.one_way())
    return with_scaled_row(x, [&]<class H>(H, auto number, const Hints& hints) {
      constexpr ScaledRowTile t = kScaledRow[number];
      constexpr auto& product = kernel<scaled_row_sums<H, t.counted, t.n, t.k>>;
      return product.hints(hints)(empty<f32>(dims), x, w.quantized, w.scales, static_cast<i32>(x.dim(1)));
    });
  constexpr int tiles = static_cast<int>(std::size(kScaledRows));
  return kernels::with_constant<tiles>(scaled_rows_heuristic(x, w, numerics), [&](auto number) {
    constexpr ScaledTile t = kScaledRows[number];
    return kernel<scaled_rows_sums<t.ordered, t.m, t.n>>(empty<f32>(dims), x, w.quantized, w.scales);
  });
}

}  // namespace

Flow<Tensor<f32, 2>> linear_sums(Rows x, const Matrix& w, Numerics numerics) {
  if (!w.is_fp8 && numerics.one_way()) co_return co_await product_in_one_way<f32>(x, w.values.view());
  if (!w.is_fp8 && has_short_rows(x, w.values)) co_return co_await short_rows_product<f32>(x, w.values);
  if (!w.is_fp8) co_return co_await kernels::linear<f32>(x, w.values);
  if (worth_quantizing(x, numerics)) {
    const auto [rows, scales] = co_await kernels::quantize_blocks<f8e4m3, 1>(x);
    co_return co_await kernels::block_scaled_linear<f32>(rows, scales, w.quantized, w.scales);
  }
  if (!worth_dequantizing(x, numerics)) co_return co_await scaled_sums(x, w, numerics);
  const auto wide = co_await dequantized(w);
  co_return co_await kernels::linear<f32>(x, wide);
}

Op<Tensor<f32, 2>> normed_logits(const Rows& x, const Norm& norm, const Tensor<bf16, 2>& w, const Numerics& numerics) {
  if (are_summed(x, false, numerics)) return normed_product<false, f32>(x, norm, w);
  return normed(x, norm, numerics).then([&w, numerics](const Tensor<bf16, 2>& n) {
    return logits_of(n.view(), w, numerics);
  });
}

Op<Tensor<f32, 2>> logits_of(const Rows& x, const Rows& w, const Numerics& numerics) {
  if (numerics.strict) return product_in_one_way<f32>(x, w, kernels::fuse(Rounded{}));
  if (numerics.one_way()) return product_in_one_way<f32>(x, w);
  return kernels::linear<f32>(x, w);
}

RowsOp normed(const Rows& x, const Norm& norm, const Numerics& numerics) {
  if (!numerics.strict) return kernels::rms_norm(x, norm.weight, norm.epsilon);
  return kernels::with_extent<1024, kMaxStrictHidden>(x.dim(1), [&](auto n) {
    return kernel<strict_rms_norm<n>>(empty<bf16>(x.dims()), x, norm.weight, norm.epsilon);
  });
}

RowsOp gated(const Rows& gate_up, const Numerics& numerics) {
  const std::int64_t n = gate_up.dim(1) / 2;
  return kernel<silu_gate<1024>>(empty<bf16>({gate_up.dim(0), n}), gate_up.slice<1>(0, n), gate_up.slice<1>(n, 2 * n),
                                 numerics.strict);
}

}  // namespace mortar
