// Products of a mixture of experts: each token's row times the weights of its expert, all experts in one launch.
//
//   auto [weights, experts] = kernels::moe_route(scores, 8).sync();
//   auto [pairs, owners, places] = kernels::moe_plan(experts, n).sync();
//   auto up   = kernels::grouped_gemm(x, w_up, pairs, owners, 8).sync();         // rows of x by pairs / 8
//   auto down = kernels::grouped_gemm(kernels::silu(std::move(up)).sync(), w_down, owners).sync();   // rows in place
//   auto y    = kernels::moe_combine(down, weights, places).sync();             // [tokens, d]
//
// Weights are [experts, k, n]; a permuted view transposes them. The rows between are in the order of moe_plan. Numbers
// out of range give rows of zeros: an owner that is not an expert (-1, or any number out of range), and a pair that is
// not a pair of a token (-1, or beyond x).
#pragma once
#include "tessera/kernels/gemm_table.hpp"
#include "tessera/kernels/moe_plan.hpp"

namespace tessera::kernels {

template <class U, class T, int BN, int BK, class Rows>
void grouped_tiles(MutTiles<U, kMoeRows, BN> y, In<T, dyn, dyn, dyn> w, In<i32, dyn> owners, const Rows& rows) {
  auto W = w.tiles(shape<1, BK, BN>);
  for (auto out : y) {
    auto [i, j] = out.index();
    auto expert = owners.gather(i);
    auto weights = clamp(expert, 0, w.dim(0) - 1);
    auto acc = zeros<acc_t<T>, kMoeRows, BN>();
    tile_if (expert == weights) {  // places without an expert, such as those at the end, stay zero
      for (auto k : range(W.count(1)))
        acc = multiply<T>(rows(i, k), reshape(W.load(weights, k, j), shape<BK, BN>), acc);
    }
    out.store(narrow<U>(acc));
  }
}
template <class U, class T, int BN, int BK>
void grouped_gemm_gathered(MutTiles<U, kMoeRows, BN> y, In<T, dyn, dyn> x, In<T, dyn, dyn, dyn> w, In<i32, dyn> pairs,
                           In<i32, dyn> owners, Scalar<i32> slots) {
  require(x.dim(1) == w.dim(1), "x's columns must be the rows of an expert's weights");
  auto Pairs = pairs.tiles(shape<kMoeRows>, pad(-1));
  grouped_tiles<U, T, BN, BK>(y, w, owners, [&](const auto& i, const auto& k) {
    auto pair = reshape(Pairs.load(i), shape<kMoeRows, 1>);
    return x.gather(where(pair < 0, -1, pair / slots), iota<i32, 1, BK>(axis<1>) + k * BK);
  });
}
template <class U, class T, int BN, int BK>
void grouped_gemm_placed(MutTiles<U, kMoeRows, BN> y, In<T, dyn, dyn> x, In<T, dyn, dyn, dyn> w, In<i32, dyn> owners) {
  require(x.dim(1) == w.dim(1), "x's columns must be the rows of an expert's weights");
  auto X = x.tiles(shape<kMoeRows, BK>);
  grouped_tiles<U, T, BN, BK>(y, w, owners, [&](const auto& i, const auto& k) { return X.load(i, k); });
}
/// The rows of x with index pairs / slots, each times its expert's weights: [places, n]. Throws ShapeError for extents
/// that do not fit.
template <Operand X, Operand W, Operand P, Operand O>
Op<Tensor<product_t<void, element_of<X>>, 2>> grouped_gemm(const X& x, const W& w, const P& pairs, const O& owners,
                                                           int slots,
                                                           SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using U = product_t<void, T>;
  expect_dim("grouped_gemm", "w", w, 1, x.dim(1, where), where);
  expect_dim("grouped_gemm", "owners", owners, 0, ceil_div(pairs.dim(0, where), std::int64_t{kMoeRows}), where);
  if (slots < 1) throw ShapeError("kernels::grouped_gemm: slots, the experts of a token, must be at least 1", where);
  return kernel<grouped_gemm_gathered<U, T, 128, 64>>(
      empty<U>(Dims<2>({pairs.dim(0, where), w.dim(2, where)}, where), where), x.view(where), w.view(where),
      pairs.view(where), owners.view(where), slots, where);
}
/// The rows of x, which are in the order of places already, each times its expert's weights.
template <Operand X, Operand W, Operand O>
Op<Tensor<product_t<void, element_of<X>>, 2>> grouped_gemm(const X& x, const W& w, const O& owners,
                                                           SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using U = product_t<void, T>;
  expect_dim("grouped_gemm", "w", w, 1, x.dim(1, where), where);
  expect_dim("grouped_gemm", "owners", owners, 0, ceil_div(x.dim(0, where), std::int64_t{kMoeRows}), where);
  return kernel<grouped_gemm_placed<U, T, 128, 64>>(empty<U>(Dims<2>({x.dim(0, where), w.dim(2, where)}, where), where),
                                                    x.view(where), w.view(where), owners.view(where), where);
}
}  // namespace tessera::kernels
