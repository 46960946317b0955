// Products with FP8 weights (activations stay bf16): several rows with weights that are converted to bf16 on the way to
// the tensor cores, and the weights in bf16 for many rows; and the mixture of experts for few tokens. One row is in
// scaled_row_kernels.hpp and in normed_rows. docs/mortar/design.md has the rule.
#pragma once
#include <tuple>
#include <vector>

#include "mortar/config.hpp"
#include "tessera/kernels/functions.hpp"
#include "tessera/kernels/grouped_gemm.hpp"
#include "tessera/kernels/linear.hpp"
#include "tessera/kernels/mma_order.hpp"

namespace mortar {

using namespace tessera;  // NOLINT: the language of kernels

/// Columns of weights that share a scale, as the number of an extent.
inline constexpr int kScaled = static_cast<int>(kScaleBlock);

/// The weights in bf16, rounded once: for products of many rows, which read them many times.
template <int R, int C>
void dequantize(Mut<bf16, R, C> y, In<f8e4m3, dyn, dyn> w, In<f32, dyn, dyn> scales) {
  static_assert(kScaled % R == 0 && C % kScaled == 0, "the rows of a tile share their scales, one for each block");
  constexpr int B = C / kScaled;
  auto [i, j] = y.index();
  auto tile = reshape(scales.tiles(shape<1, B>).load(i * R / kScaled, j), shape<1, B, 1>);
  auto values = reshape(cast<f32>(w.load_like(y)), shape<R, B, kScaled>) * tile;
  y.store(cast<bf16>(reshape(values, shape<R, C>)));
}

/// Tile y of x w^T for weights with a scale for each block of 128 x 128. Ordered: by kernels::in_mma_order, which gains
/// where there is mma.
template <bool Ordered, int M, int N>
Tile<f32, M, N> scaled_tile(const auto& y, const In<bf16, dyn, dyn>& x, const In<f8e4m3, dyn, dyn>& w,
                            const In<f32, dyn, dyn>& scales) {
  static_assert(kScaled % N == 0, "the rows of a tile share a scale");
  require(x.dim(1) == w.dim(1), "x and w must have equally long rows");
  auto X = x.tiles(shape<M, kScaled>);
  auto W = w.tiles(shape<N, kScaled>);
  auto [i, j] = y.index();
  auto ordered = [](const auto& tile) {
    if constexpr (Ordered)
      return kernels::in_mma_order(tile);
    else
      return tile;
  };
  auto acc = zeros<f32, N, M>();
  for (auto k : range(W.count(1))) {
    auto part = mma(ordered(cast<bf16>(W.load(j, k))), transpose(ordered(X.load(i, k))), zeros<f32, N, M>());
    acc = acc + part * scales.gather(j * N / kScaled, k);
  }
  return transpose(acc);
}
/// x w^T, then the epilogue.
template <class E, bool Ordered, int M, int N, class... P>
void scaled_rows(Mut<bf16, M, N> y, In<bf16, dyn, dyn> x, In<f8e4m3, dyn, dyn> w, In<f32, dyn, dyn> scales,
                 P... operands) {
  y.store(cast<bf16>(E{}(scaled_tile<Ordered, M, N>(y, x, w, scales), y, operands...)));
}
/// x w^T as f32.
template <bool Ordered, int M, int N>
void scaled_rows_sums(Mut<f32, M, N> y, In<bf16, dyn, dyn> x, In<f8e4m3, dyn, dyn> w, In<f32, dyn, dyn> scales) {
  y.store(scaled_tile<Ordered, M, N>(y, x, w, scales));
}

template <class>
inline constexpr int kOnePlace = 1;  ///< along each leading axis of a tile

/// `row` times the scales of tile (lead..., j, k) of FP8 weights, a tile of N rows and K columns.
template <int N, int K, class S, class... Lead>
Tile<f32, 1, K> times_scales(const Tile<f32, 1, K>& row, const S& scales, const Scalar<i32>& j, const Scalar<i32>& k,
                             const Lead&... lead) {
  static_assert(kScaled % N == 0 && K % kScaled == 0, "the rows of a tile share their scales, one for each block");
  constexpr int B = K / kScaled;
  auto tile = scales.tiles(shape<kOnePlace<Lead>..., 1, B>).load(lead..., j * N / kScaled, k);
  return reshape(reshape(row, shape<1, B, kScaled>) * reshape(tile, shape<1, B, 1>), shape<1, K>);
}

/// The row that tile (lead..., j, k) of the weights is multiplied with. `scales`: one tensor for FP8 weights, nothing
/// for bf16.
template <int N, int K, class... S>
Tile<f32, 1, K> row_for(const std::tuple<S...>& scales, const Tile<f32, 1, K>& row, const Scalar<i32>& j,
                        const Scalar<i32>& k, const auto&... lead) {
  if constexpr (sizeof...(S) == 0)
    return row;
  else
    return times_scales<N>(row, std::get<0>(scales), j, k, lead...);
}

/// acc + a b, with one sum for each Fold neighbours: where acc has an element for each product (Fold of 1), its
/// registers limit how many blocks run at a time.
template <int Fold, int N, int K>
Tile<f32, N, K / Fold> add_products(const Tile<f32, N, K>& a, const Tile<f32, 1, K>& b,
                                    const Tile<f32, N, K / Fold>& acc) {
  if constexpr (Fold == 1)
    return fma(a, b, acc);
  else
    return acc + reshape(sum(reshape(a * b, shape<N, K / Fold, Fold>), axis<2>), shape<N, K / Fold>);
}

/// acc + a b, with one sum for each Fold neighbours, by Fold multiply-adds. For bf16, of which a thread
/// loads eight neighbours at a time: fewer registers than one sum for each place (bench/notes/mortar.md).
template <int Fold, int N, int K>
Tile<f32, N, K / Fold> fold_products(const Tile<f32, N, K>& a, const Tile<f32, 1, K>& b, Tile<f32, N, K / Fold> acc) {
  if constexpr (Fold == 1) {
    return fma(a, b, acc);
  } else {
    const auto nth = []<int R>(const Tile<f32, R, K>& tile, int e) {  // of each Fold neighbours
      auto parts = reshape(tile, shape<R, K / Fold, Fold>);
      return reshape(extract(parts, shape<R, K / Fold, 1>, 0, 0, e), shape<R, K / Fold>);
    };
    for (int e = 0; e < Fold; ++e) acc = fma(nth(a, e), nth(b, e), acc);
    return acc;
  }
}

/// silu(gate) * up of norm(x) for each pair of a token and one of its experts: y is [tokens * per_token, intermediate].
template <class T, int N, int K, int Fold, class... S>
void expert_gates(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x, In<bf16, dyn> norm, In<T, dyn, dyn, dyn> w,
                  In<i32, dyn, dyn> experts, Scalar<f32> eps, S... scales) {
  require(w.dim(1) == 2 * y.dim(1) && y.dim(1) % N == 0, "rows of gate, then of up, in whole tiles");
  require(x.dim(1) == w.dim(2) && norm.dim(0) == x.dim(1), "x, norm and w must have equally long rows");
  auto [pair, j] = y.index();
  auto token = pair / experts.dim(1);
  auto expert = clamp(experts.gather(token, pair % experts.dim(1)), 0, w.dim(0) - 1);
  auto X = x.tiles(shape<1, K>);
  auto Norm = norm.tiles(shape<K>);
  auto W = w.tiles(shape<1, N, K>);
  auto squares = zeros<f32, 1, K / Fold>();
  auto gate = zeros<f32, N, K / Fold>(), up = gate;
  auto weights = [&](const auto& rows, const auto& k) {
    return reshape(cast<f32>(W.load(expert, rows, k)), shape<N, K>);
  };
  for (auto k : range(X.count(1))) {
    auto row = cast<f32>(X.load(token, k));
    squares = fold_products<Fold>(row, row, squares);
    row = row * reshape(cast<f32>(Norm.load(k)), shape<1, K>);
    auto of_up = j + y.dim(1) / N;
    gate = fold_products<Fold>(weights(j, k), row_for<N>(std::tie(scales...), row, j, k, expert), gate);
    up = fold_products<Fold>(weights(of_up, k), row_for<N>(std::tie(scales...), row, of_up, k, expert), up);
  }
  auto scale = rsqrt(sum(squares, axis<1>) / cast<f32>(x.dim(1)) + eps);
  auto sums = [&](const auto& acc) { return reshape(sum(acc, axis<1>), shape<1, N>) * scale; };
  y.store(cast<bf16>(kernels::functions::Silu{}(sums(gate)) * sums(up)));
}

/// The sum over a token's experts of weight * (w h), tile y of it: h is [tokens * per_token, intermediate]. The loop
/// over the experts is the host's, so that their weights are loaded at the same time.
template <int N, int K, class T, class... S>
Tile<f32, 1, N> sum_of_experts(const auto& y, const In<bf16, dyn, dyn>& h, const In<T, dyn, dyn, dyn>& w,
                               const In<i32, dyn, dyn>& experts, const In<f32, dyn, dyn>& weights,
                               const Constant<int>& per_token, const S&... scales) {
  require(h.dim(1) == w.dim(2), "h and w must have equally long rows");
  require(experts.dim(1) == int(per_token) && weights.dim(1) == int(per_token), "the experts of a token");
  auto [token, j] = y.index();
  auto H = h.tiles(shape<1, K>);
  auto W = w.tiles(shape<1, N, K>);
  std::vector<Scalar<i32>> chosen;
  std::vector<Scalar<f32>> shares;
  for (int slot = 0; slot < per_token; ++slot) {
    chosen.push_back(clamp(experts.gather(token, slot), 0, w.dim(0) - 1));
    shares.push_back(weights.gather(token, slot));
  }
  auto acc = zeros<f32, N, K>();
  for (auto k : range(H.count(1))) {
    for (int slot = 0; slot < per_token; ++slot) {
      const auto& expert = chosen[static_cast<std::size_t>(slot)];
      auto row = cast<f32>(H.load(token * int(per_token) + slot, k)) * shares[static_cast<std::size_t>(slot)];
      auto weights_of = reshape(cast<f32>(W.load(expert, j, k)), shape<N, K>);
      acc = fma(weights_of, row_for<N>(std::tie(scales...), row, j, k, expert), acc);
    }
  }
  return reshape(sum(acc, axis<1>), shape<1, N>);
}
/// residual + that sum.
template <class T, int N, int K, class... S>
void expert_sums(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> residual, In<bf16, dyn, dyn> h, In<T, dyn, dyn, dyn> w,
                 In<i32, dyn, dyn> experts, In<f32, dyn, dyn> weights, Constant<int> per_token, S... scales) {
  auto sums = sum_of_experts<N, K>(y, h, w, experts, weights, per_token, scales...);
  y.store(cast<bf16>(sums + cast<f32>(residual.load_like(y))));
}
/// A rank's summand of that sum.
template <class T, int N, int K, class... S>
void expert_summands(Mut<f32, 1, N> y, In<bf16, dyn, dyn> h, In<T, dyn, dyn, dyn> w, In<i32, dyn, dyn> experts,
                     In<f32, dyn, dyn> weights, Constant<int> per_token, S... scales) {
  y.store(sum_of_experts<N, K>(y, h, w, experts, weights, per_token, scales...));
}

/// acc + the sum over the token's experts of weight * row.
template <int B, class T>
Tile<f32, 1, B> weighted_rows(Tile<f32, 1, B> acc, const auto& y, const In<T, dyn, dyn>& placed,
                              const In<f32, dyn, dyn>& weights, const In<i32, dyn>& places) {
  auto Placed = placed.tiles(shape<1, B>);
  auto [token, part] = y.index();
  for (auto slot : range(weights.dim(1))) {
    auto place = places.gather(token * weights.dim(1) + slot);
    auto row = cast<f32>(Placed.load(clamp(place, 0, placed.dim(0) - 1), part));
    acc = acc + where(place >= 0 && place < placed.dim(0), row * weights.gather(token, slot), zeros<f32, 1, B>());
  }
  return acc;
}
/// kernels::moe_combine, and the residual.
template <int B>
void add_experts(Mut<bf16, 1, B> y, In<bf16, dyn, dyn> residual, In<bf16, dyn, dyn> placed, In<f32, dyn, dyn> weights,
                 In<i32, dyn> places) {
  y.store(cast<bf16>(weighted_rows<B>(cast<f32>(residual.load_like(y)), y, placed, weights, places)));
}
/// A rank's summand of kernels::moe_combine.
template <int B>
void add_summands(Mut<f32, 1, B> y, In<f32, dyn, dyn> placed, In<f32, dyn, dyn> weights, In<i32, dyn> places) {
  y.store(weighted_rows<B>(zeros<f32, 1, B>(), y, placed, weights, places));
}

/// The owners of tiles, or the experts of tokens, as the rank numbers its whole experts: those of other ranks are -1.
template <int B>
void number_experts(Mut<i32, B> y, In<i32, dyn> experts, Scalar<i32> first, Scalar<i32> count) {
  auto own = experts.load_like(y) - first;
  y.store(where(own >= 0 && own < count, own, -1));
}
/// Weights of experts that other ranks have become 0.
template <int B>
void keep_own_weights(Mut<f32, B> y, In<f32, dyn> weights, In<i32, dyn> own) {
  y.store(where(own.load_like(y) >= 0, weights.load_like(y), 0.0f));
}

/// kernels::grouped_gemm for FP8 weights, [experts, outputs, inputs]; `slots` of 0: the rows of x are in place already.
template <int N, class U = bf16>
void scaled_groups(MutTiles<U, kernels::kMoeRows, N> y, In<bf16, dyn, dyn> x, In<f8e4m3, dyn, dyn, dyn> w,
                   In<f32, dyn, dyn, dyn> scales, In<i32, dyn> pairs, In<i32, dyn> owners, Constant<int> slots) {
  require(x.dim(1) == w.dim(2), "x and w must have equally long rows");
  constexpr int M = kernels::kMoeRows;
  auto W = w.tiles(shape<1, N, kScaled>);
  for (auto out : y) {
    auto [i, j] = out.index();
    auto owner = owners.gather(i);
    auto expert = clamp(owner, 0, w.dim(0) - 1);
    auto acc = zeros<f32, M, N>();
    tile_if (expert == owner) {
      auto place = iota<i32, M, 1>(axis<0>) + i * M;
      auto rows = place;
      if (slots > 0) {
        auto pair = pairs.gather(place);
        rows = where(pair < 0, -1, pair / int(slots));
      }
      for (auto k : range(W.count(2))) {
        auto X = x.gather(rows, iota<i32, 1, kScaled>(axis<1>) + k * kScaled);
        auto tile = cast<bf16>(reshape(W.load(expert, j, k), shape<N, kScaled>));
        acc = acc + mma(X, transpose(tile), zeros<f32, M, N>()) * scales.gather(expert, j * N / kScaled, k);
      }
    }
    out.store(cast<U>(acc));
  }
}

}  // namespace mortar
