// Which kernel a product takes: by the number of rows, the element type of the weights, and the numerics.
#include "model/products.hpp"

#include "model/kernels.hpp"
#include "model/weight_kernels.hpp"
#include "tessera/kernels/rms_norm.hpp"

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

/// One row: products have the norm inside.
bool norms_inside(const Rows& x, const Numerics& numerics) { return x.dim(0) == 1 && !numerics.one_way(); }
/// The product of one row, normalised inside. U: the element type of the result.
template <bool Gated, class U>
Op<Tensor<U, 2>> normed_product(const Rows& x, const Norm& norm, const Tensor<bf16, 2>& w) {
  const std::int64_t n = w.dim(0), k = w.dim(1);
  constexpr int rows = static_cast<int>(std::size(kernels::kOneRow));
  return kernels::with_constant<rows>(kernels::one_row_heuristic(n, k, kernels::target_of(x.device())), [&](auto r) {
    constexpr kernels::LinearTile tile = kernels::kOneRow[r];
    return kernel<normed_row<Gated, U, bf16, tile.n, tile.k>>(empty<U>({std::int64_t{1}, Gated ? n / 2 : n}), x,
                                                              norm.weight, w, norm.epsilon);
  });
}

/// A block of the products of one row with FP8 weights, and its hints (bench/notes/mortar.md).
constexpr kernels::LinearTile kScaledRow = {4, 1024};
const TuningRecord& scaled_row_hints() {
  static const TuningRecord hints = [] {
    TuningRecord record;
    record.hints = "warps=2";
    return record;
  }();
  return hints;
}

/// The same for weights of either type.
template <bool Gated>
RowsOp normed_product(const Rows& x, const Norm& norm, const Matrix& w) {
  if (!w.is_fp8) return normed_product<Gated, bf16>(x, norm, w.values);
  const std::int64_t n = w.quantized.dim(0);
  constexpr auto& product = kernel<normed_row<Gated, bf16, f8e4m3, kScaledRow.n, kScaledRow.k, In<f32, dyn, dyn>>>;
  return product.tuned(scaled_row_hints())(empty<bf16>({std::int64_t{1}, Gated ? n / 2 : n}), x, norm.weight,
                                           w.quantized, norm.epsilon, w.scales);
}

/// The product by one kernel for any number of rows.
template <class U, class E = kernels::epilogues::Plain, class... P>
Op<Tensor<U, 2>> product_in_one_way(const Rows& x, const Tensor<bf16, 2>& w,
                                    const kernels::Fused<E, P...>& epilogue = {}) {
  return std::apply(
      [&](const auto&... p) {
        return kernel<kernels::few_rows<E, U, bf16, 64, 64, 256, kernels::epilogue_param<P>...>>(
            empty<U>({x.dim(0), w.dim(0)}), x, w, p...);
      },
      epilogue.operands);
}

/// The product with FP8 weights.
template <class E = kernels::epilogues::Plain, class... P>
RowsOp scaled_product(const Rows& x, const Matrix& w, const Numerics& numerics,
                      const kernels::Fused<E, P...>& epilogue = {}) {
  const std::int64_t m = x.dim(0);
  if (m == 1 && !numerics.one_way())
    return std::apply(
        [&](const auto&... p) {
          constexpr auto& product = kernel<scaled_row<E, kScaledRow.n, kScaledRow.k, kernels::epilogue_param<P>...>>;
          return product.tuned(scaled_row_hints())(empty<bf16>({m, w.quantized.dim(0)}), x, w.quantized, w.scales,
                                                   p...);
        },
        epilogue.operands);
  const int size = numerics.one_way() ? 1 : m <= 16 ? 0 : m <= 64 ? 1 : 2;
  return std::apply(
      [&](const auto&... p) {
        return kernels::with_constant<3>(size, [&](auto number) {
          constexpr int M = number == 0 ? 16 : number == 1 ? 64 : 128, N = number == 0 ? 32 : number == 1 ? 64 : 128;
          return kernel<scaled_rows<E, M, N, kernels::epilogue_param<P>...>>(empty<bf16>({m, w.quantized.dim(0)}), x,
                                                                             w.quantized, w.scales, p...);
        });
      },
      epilogue.operands);
}

constexpr int kGatedTile = 128;  ///< rows and columns of a piece of gated_tiles

/// Many rows of bf16 on a GPU, in whole pieces of which every SM has several.
bool gates_inside(const Rows& x, const Matrix& w, const Numerics& numerics) {
  const kernels::Target target = kernels::target_of(x.device());
  if (!target.gpu || w.is_fp8 || numerics.one_way()) return false;
  const std::int64_t n = w.values.dim(0) / 2, pieces = ceil_div(x.dim(0), std::int64_t{kGatedTile}) * (n / kGatedTile);
  return n % kGatedTile == 0 && pieces >= 2 * target.num_sms;
}
RowsOp gated_product(const Rows& x, const Matrix& w) {
  constexpr int kDepth = 64;
  return kernel<gated_tiles<kGatedTile, kGatedTile, kDepth>>(empty<bf16>({x.dim(0), w.values.dim(0) / 2}), x, w.values);
}

RowsOp linear(const Rows& x, const Matrix& w, const Numerics& numerics) {
  if (w.is_fp8) return scaled_product(x, w, numerics);
  if (numerics.one_way()) return product_in_one_way<bf16>(x, w.values);
  return kernels::linear(x, w.values);
}

}  // namespace

RowsOp normed_linear(const Rows& x, const Norm& norm, const Matrix& w, const Numerics& numerics) {
  if (norms_inside(x, numerics)) return normed_product<false>(x, norm, w);
  return normed(x, norm, numerics).then([&w, numerics](const Tensor<bf16, 2>& n) {
    return linear(n.view(), w, numerics);
  });
}

RowsOp normed_gates(const Rows& x, const Norm& norm, const Matrix& gate_up, const Numerics& numerics) {
  const std::int64_t outputs = gate_up.is_fp8 ? gate_up.quantized.dim(0) : gate_up.values.dim(0);
  if (norms_inside(x, numerics) && outputs % 16 == 0) return normed_product<true>(x, norm, gate_up);
  if (gates_inside(x, gate_up, numerics))
    return normed(x, norm, numerics).then([&gate_up](const Tensor<bf16, 2>& n) {
      return gated_product(n.view(), gate_up);
    });
  return normed_linear(x, norm, gate_up, numerics).then([numerics](const Tensor<bf16, 2>& h) {
    return gated(h.view(), numerics);
  });
}

RowsOp linear_add(const Rows& x, const Matrix& w, const Rows& residual, const Numerics& numerics) {
  if (w.is_fp8) return scaled_product(x, w, numerics, kernels::residual(residual));
  if (numerics.strict) return product_in_one_way<bf16>(x, w.values, kernels::fuse(RoundedResidual{}, residual));
  if (numerics.one_way()) return product_in_one_way<bf16>(x, w.values, kernels::residual(residual));
  return kernels::linear(x, w.values, kernels::residual(residual));
}

Op<Tensor<f32, 2>> normed_logits(const Rows& x, const Norm& norm, const Tensor<bf16, 2>& w, const Numerics& numerics) {
  if (norms_inside(x, numerics)) return normed_product<false, f32>(x, norm, w);
  return normed(x, norm, numerics).then([&w, numerics](const Tensor<bf16, 2>& n) {
    return logits_of(n.view(), w, numerics);
  });
}

Op<Tensor<f32, 2>> logits_of(const Rows& x, const Tensor<bf16, 2>& w, const Numerics& numerics) {
  if (numerics.strict) return product_in_one_way<f32>(x, w, kernels::fuse(Rounded{}));
  if (numerics.one_way()) return product_in_one_way<f32>(x, w);
  return kernels::linear<f32>(x, w);
}

RowsOp normed(const Rows& x, const Norm& norm, const Numerics& numerics) {
  if (!numerics.strict) return kernels::rms_norm(x, norm.weight, norm.epsilon);
  return kernels::with_extent<1024, 8192>(x.dim(1), [&](auto n) {
    return kernel<strict_rms_norm<n>>(empty<bf16>(x.dims()), x, norm.weight, norm.epsilon);
  });
}

RowsOp gated(const Rows& gate_up, const Numerics& numerics) {
  const std::int64_t n = gate_up.dim(1) / 2;
  return kernel<silu_gate<1024>>(empty<bf16>({gate_up.dim(0), n}), gate_up.slice<1>(0, n), gate_up.slice<1>(n, 2 * n),
                                 numerics.strict);
}

}  // namespace mortar
