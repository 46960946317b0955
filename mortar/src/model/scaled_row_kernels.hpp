// Products of one row with FP8 weights. The row is bf16 in memory. The products are sums, because most of an mma would
// be empty.
//
// A weight is one byte, so the instructions that each weight takes limit a GPU as well as memory does. On a GPU the row
// is therefore scaled and rounded to f16, FP8 is converted to f16 in pairs, and products are f16, two an instruction.
// kTerms products, of columns that lie K apart, are added in f16, and these sums in f32. The elements of the row whose
// products are added in f16 are first multiplied by one power of two, such that the largest is at least 16 and at most
// 32, so no sum is too large for f16. Elements below 2^-18 of the largest lose bits, and those below 2^-29 become 0:
// that is small beside the largest product, unless its weight is 0. docs/mortar/design.md has what f16 costs in
// accuracy.
#pragma once
#include <type_traits>
#include <vector>

#include "model/weight_kernels.hpp"

namespace mortar {

using namespace tessera;  // NOLINT: the language of kernels

inline constexpr int kTerms = 4;  ///< products that are added in f16
static_assert(kTerms * 32 * 448 <= 65504, "of the largest element and weight (f8e4m3); f16 ends at 65504");

/// acc + the sum over e of weights(e) * rows[e]. H: the type of the products and of their sum: f16, or f32 for CPUs,
/// which compute f16 by f32.
template <class H, int N, int K>
Tile<f32, N, K> add_terms(const auto& weights, const std::vector<Tile<f32, 1, K>>& rows, Tile<f32, N, K> acc) {
  if constexpr (std::is_same_v<H, f32>) {
    for (std::size_t e = 0; e < rows.size(); ++e) acc = fma(cast<f32>(weights(static_cast<int>(e))), rows[e], acc);
    return acc;
  } else {
    constexpr int kExponent = 0x7f800000, kOne = 1 << 23;  // of f32: the bits of the exponent, and the lowest of them
    auto largest = full<f32, 1, K>(0x1p-122f);             // so that both powers of two are normal numbers
    for (const auto& row : rows) largest = max(largest, abs(row));
    auto bits = (bitcast<i32>(largest) & kExponent) - 4 * kOne;  // the largest element becomes [2^4, 2^5)
    auto unscale = bitcast<f32>(bits), scale = bitcast<f32>(254 * kOne - bits);  // a power of two and its inverse
    auto products = zeros<H, N, K>();
    for (std::size_t e = 0; e < rows.size(); ++e) {
      auto row = cast<H>(rows[e] * scale);
      auto values = cast<H>(weights(static_cast<int>(e)));
      products = e == 0 ? values * row : fma(values, row, products);
    }
    return fma(cast<f32>(products), unscale, acc);
  }
}

/// w row, one number for each row of tile j of w. row(k) is tile k of the row, and is called once for each. `length`:
/// of the row, a compile-time constant. Counted: the trip count is read at run time, so that the loop is not unrolled.
template <class H, bool Counted, int N, int K>
Tile<f32, 1, N> sum_terms(const In<f8e4m3, dyn, dyn>& w, const In<f32, dyn, dyn>& scales, const Scalar<i32>& j,
                          const Constant<i32>& length, const auto& row) {
  auto W = w.tiles(shape<N, K>);
  auto acc = zeros<f32, N, K>();
  const auto add = [&](const Scalar<i32>& first, int count) {
    std::vector<Tile<f32, 1, K>> rows;
    for (int e = 0; e < count; ++e) rows.push_back(times_scales<N>(row(first + e), scales, j, first + e));
    acc = add_terms<H>([&](int e) { return W.load(j, first + e); }, rows, acc);
  };
  const int tiles = static_cast<int>(ceil_div(static_cast<i32>(length), K)), rest = tiles % kTerms;
  for (auto k : range(Counted ? W.count(1) / kTerms : Scalar<i32>(tiles / kTerms))) add(k * kTerms, kTerms);
  if (rest > 0) add(Scalar<i32>(tiles - rest), rest);
  return reshape(sum(acc, axis<1>), shape<1, N>);
}

/// What both kernels below require of their tensors: y [1, n], x [1, k], w [n, k], a scale for each block of w.
void check_row(const auto& y, const auto& x, const auto& w, const auto& scales, const Constant<i32>& length) {
  require(x.dim(0) == 1 && y.dim(0) == 1, "x and y must be one row");
  require(y.dim(1) == w.dim(0), "y must have an element for each row of w");
  require(x.dim(1) == w.dim(1) && x.dim(1) == static_cast<i32>(length), "x, w and `length` must agree");
  require(scales.dim(0) * kScaled >= w.dim(0) && scales.dim(1) * kScaled >= w.dim(1), "a scale for each block of w");
}

/// x w^T, then the epilogue.
template <class E, class H, bool Counted, int N, int K, class... P>
void scaled_row(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x, In<f8e4m3, dyn, dyn> w, In<f32, dyn, dyn> scales,
                Constant<i32> length, P... operands) {
  check_row(y, x, w, scales, length);
  auto X = x.tiles(shape<1, K>);
  auto row = [&](const Scalar<i32>& k) { return cast<f32>(X.load(0, k)); };
  y.store(cast<bf16>(E{}(sum_terms<H, Counted, N, K>(w, scales, y.index()[1], length, row), y, operands...)));
}

/// x w^T as f32.
template <class H, bool Counted, int N, int K>
void scaled_row_sums(Mut<f32, 1, N> y, In<bf16, dyn, dyn> x, In<f8e4m3, dyn, dyn> w, In<f32, dyn, dyn> scales,
                     Constant<i32> length) {
  check_row(y, x, w, scales, length);
  auto X = x.tiles(shape<1, K>);
  auto row = [&](const Scalar<i32>& k) { return cast<f32>(X.load(0, k)); };
  y.store(sum_terms<H, Counted, N, K>(w, scales, y.index()[1], length, row));
}

/// w (x * norm) / rms(x): normed_rows for one row and FP8 weights.
template <class H, bool Counted, int N, int K>
void normed_scaled_row(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x, In<bf16, dyn> norm, In<f8e4m3, dyn, dyn> w,
                       In<f32, dyn, dyn> scales, Scalar<f32> eps, Constant<i32> length) {
  check_row(y, x, w, scales, length);
  require(x.dim(1) == norm.dim(0), "x and its norm must be equally long");
  auto X = x.tiles(shape<1, K>);
  auto Norm = norm.tiles(shape<K>);
  auto squares = zeros<f32, 1, K>();
  auto row = [&](const Scalar<i32>& k) {
    auto values = cast<f32>(X.load(0, k));
    squares = fma(values, values, squares);
    return values * reshape(cast<f32>(Norm.load(k)), shape<1, K>);
  };
  auto sums = sum_terms<H, Counted, N, K>(w, scales, y.index()[1], length, row);
  y.store(cast<bf16>(sums * rsqrt(sum(squares, axis<1>) / cast<f32>(x.dim(1)) + eps)));
}

}  // namespace mortar
