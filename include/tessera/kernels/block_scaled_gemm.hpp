// Products of fp8 matrices with a scale for each block, and the quantisation that makes them (as in DeepSeek-V3, 2024):
// activations have one scale for 128 elements of a row, weights one for a square of 128 x 128.
//
//   auto [qx, sx] = kernels::quantize_blocks<f8e4m3, 1>(x).sync();        // [m, k], [m, ceil(k / 128)]
//   auto [qw, sw] = kernels::quantize_blocks<f8e4m3, 128>(w).sync();      // [n, k], [ceil(n / 128), ceil(k / 128)]
//   auto y = kernels::block_scaled_linear(qx, sx, qw, sw).sync();         // x w^T as bf16; epilogues as for gemm
//
// Each product of 128 elements along k is scaled and added in f32, so the lower precision of fast accumulation is
// limited to 128 elements.
#pragma once
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/quantize.hpp"

namespace tessera::kernels {

inline constexpr int kScaleBlock = 128;

/// A tile of block_scaled_linear.
struct BlockScaledTile {
  int m, n;     ///< rows of x and of w
  bool behind;  ///< a step adds the product of the step before, beside which its own is computed
};
/// How they were measured: bench/notes/serving.md.
inline constexpr BlockScaledTile kBlockScaledTiles[] = {{64, 64, false}, {64, 128, true}};
/// The larger tile reads a quarter less and has a product in flight while it adds the one before; it pays as soon as
/// there is one for each SM. Where tensor cores read registers instead of shared memory (sm_80, sm_120), it spills.
inline int block_scaled_heuristic(std::int64_t m, std::int64_t n, const Target& target) {
  constexpr BlockScaledTile t = kBlockScaledTiles[1];
  return target.gpu && target.clusters &&
                 ceil_div(m, std::int64_t{t.m}) * ceil_div(n, std::int64_t{t.n}) >= target.num_sms
             ? 1
             : 0;
}

/// Rows: with one scale together, or (Rows == 1) R of them with one each.
template <class Q, class T, int R, int Rows>
void quantize_block(Mut<Q, R, kScaleBlock> q, Mut<f32, R / Rows, 1> scale, In<T, dyn, dyn> x) {
  static_assert(Rows == 1 || Rows == R);
  auto t = cast<f32>(x.load_like(q));
  auto top = max(abs(t), axis<1>);
  if constexpr (Rows > 1) {
    auto s = scale_of<Q>(max(top, axis<0>));
    q.store(cast<Q>(t / s));
    scale.store(s);
  } else {
    auto s = scale_of<Q>(top);
    q.store(cast<Q>(t / s));
    scale.store(s);
  }
}

/// S: blocks of 128 elements along k in each step of the loop, whose scales are loaded together. Behind (with S == 1):
/// a product is scaled and added while the next one is computed, which takes registers for one more product.
template <class E, class U, class Q, int BM, int BN, int S, bool Behind, class... P>
void block_scaled_tiles(MutTiles<U, BM, BN> y, In<Q, dyn, dyn> x, In<f32, dyn, dyn> x_scale, In<Q, dyn, dyn> w,
                        In<f32, dyn, dyn> w_scale, P... operands) {
  static_assert(kScaleBlock % BN == 0, "the rows of w of a tile share their scales");
  require(x.dim(1) == w.dim(1), "x and w must have equally long rows");
  auto X = x.tiles(shape<BM, kScaleBlock>);
  auto W = w.tiles(shape<BN, kScaleBlock>);
  auto XS = x_scale.tiles(shape<BM, S>);
  for (auto out : y.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    const auto scale = [&](const auto& block) { return w_scale.gather(j * BN / kScaleBlock, block); };
    const auto product = [&](const auto& block) {
      return multiply<Q>(X.load(i, block), transpose(W.load(j, block)), zeros<f32, BM, BN>());
    };
    if constexpr (Behind) {
      static_assert(S == 1);
      auto part = zeros<f32, BM, BN>();
      auto factor = zeros<f32, BM, 1>();
      for (auto k : range(X.count(1))) {
        auto next = product(k);
        acc = acc + part * factor;
        factor = XS.load(i, k) * scale(k);
        part = next;
      }
      acc = acc + part * factor;
    } else if constexpr (S == 1) {
      for (auto k : range(X.count(1))) {
        auto part = product(k);
        acc = acc + part * (XS.load(i, k) * scale(k));
      }
    } else {
      for (auto k : range(XS.count(1))) {
        auto scales = XS.load(i, k);
        for (int s = 0; s < S; ++s) {
          // Beyond the last block, the scales of x are 0: the last one is added once more, times 0.
          auto block = min(k * S + s, X.count(1) - 1);
          auto part = product(block);
          acc = acc + part * (extract(scales, shape<BM, 1>, 0, s) * scale(block));
        }
      }
    }
    out.store(narrow<U>(E{}(acc, out, operands...)));
  }
}

/// {q, scales}: one scale for each block of `Rows` rows and 128 columns of x. Throws ShapeError for extents that do not
/// fit.
template <Element Q, int Rows, Operand X>
Op<std::tuple<Tensor<Q, 2>, Tensor<f32, 2>>> quantize_blocks(const X& x,
                                                             SourceLocation where = SourceLocation::current()) {
  static_assert(X::rank == 2, "quantize_blocks takes a matrix");
  static_assert(std::is_same_v<Q, f8e4m3> || std::is_same_v<Q, f8e5m2>, "f8e4m3 or f8e5m2");
  const Dims<2> blocks(
      {ceil_div(x.dim(0, where), std::int64_t{Rows}), ceil_div(x.dim(1, where), std::int64_t{kScaleBlock})}, where);
  constexpr int kTogether = 8;  // rows of a block that have a scale each
  return kernel<quantize_block<Q, element_of<X>, Rows == 1 ? kTogether : Rows, Rows>>(
      empty<Q>(x.dims(where), where), empty<f32>(blocks, where), x.view(where), where);
}
/// x w^T of quantised x [m, k] and w [n, k], then the epilogue, as U: [m, n]. Throws ShapeError for extents that do not
/// fit.
template <Element U = bf16, Operand X, Operand XS, Operand W, Operand WS, class E = epilogues::Plain, class... P>
Op<Tensor<U, 2>> block_scaled_linear(const X& x, const XS& x_scale, const W& w, const WS& w_scale,
                                     const Fused<E, P...>& epilogue = Fused<E, P...>{},
                                     SourceLocation where = SourceLocation::current()) {
  using Q = element_of<X>;
  static_assert(std::is_same_v<Q, element_of<W>>, "x and w must have one element type");
  const std::int64_t m = x.dim(0, where), k = x.dim(1, where), n = w.dim(0, where),
                     steps = ceil_div(k, std::int64_t{kScaleBlock});
  expect_dim("block_scaled_linear", "w", w, 1, k, where);
  expect_shape(x_scale.dims(where) == Dims<2>({m, steps}, where), "block_scaled_linear", "x_scale", x_scale,
               "one for each row and 128 columns of x", where);
  expect_shape(w_scale.dims(where) == Dims<2>({ceil_div(n, std::int64_t{kScaleBlock}), steps}, where),
               "block_scaled_linear", "w_scale", w_scale, "one for each 128 rows and 128 columns of w", where);
  check_epilogue(epilogue, "block_scaled_linear", Dims<2>({m, n}, where), where);
  return with_constant<2>(block_scaled_heuristic(m, n, target_of(x.device(where))), [&](auto row) {
    constexpr BlockScaledTile t = kBlockScaledTiles[row];
    return std::apply(
        [&](const auto&... p) {
          return kernel<block_scaled_tiles<E, U, Q, t.m, t.n, 1, t.behind, epilogue_param<P>...>>(
              empty<U>(Dims<2>({m, n}, where), where), x.view(where), x_scale.view(where), w.view(where),
              w_scale.view(where), p..., where);
        },
        epilogue.operands);
  });
}

}  // namespace tessera::kernels
