// Stream-K (after Osama et al. 2023): if the last wave of tiles is not full, its tiles are split along k among all SMs.
// Full waves are computed tile by tile. Each tile of the last wave is computed in equal partials, which another kernel
// adds. For sizes like 5120 cubed: 1600 tiles of 128 x 128, 12.1 waves. Whole and split tiles are two kernels, because
// the assembler reserves shared memory for the loads of every loop over k of a kernel: with two loops in one kernel
// each has a single buffer, and loads are not pipelined.
//
//   auto c = kernels::gemm_stream_k(a, b).sync();
#pragma once
#include "tessera/kernels/aligned_rows.hpp"
#include "tessera/kernels/matmul_plan.hpp"
#include "tessera/kernels/product_tiles.hpp"
#include "tessera/kernels/stream_k_sums.hpp"

namespace tessera::kernels {

/// Computes the tiles before `whole`, row-major.
template <class E, class M, int BK, class U, class T, int BM, int BN, class... P>
void whole_tiles(MutTiles<U, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b, Scalar<i32> whole, P... operands) {
  require(a.dim(1) == b.dim(0), "a's columns must be b's rows");
  for (auto out : c.row_order()) {
    auto [i, j] = out.index();
    tile_if (i * c.count(1) + j < whole) { product_piece<E, M, BK>(out, a, b, operands...); }
  }
}
/// As gemm_stream_k, of operands as they are.
template <class C, class X, Element T, class E, class... P>
Op<Tensor<C, 2>> stream_k_of_views(const View<T, 2>& a, const View<T, 2>& b, const Fused<E, P...>& epilogue, int slots,
                                   SourceLocation where) {
  using S = acc_t<X>;
  const std::int64_t m = a.dim(0), n = b.dim(1);
  const Target target = target_of(a.device(where));
  return with_constant<2>(target.gpu ? 1 : 0, [&](auto gpu) {
    static constexpr GemmTile t = gemm_tile(multiplier_of<X>(), gpu ? kStreamRow : 0);
    constexpr int BK = t.k_bytes / static_cast<int>(sizeof(T));
    const int wave = slots > 0 ? slots : target.gpu ? target.num_sms : 4;
    const StreamShare s = stream_share(ceil_div(m, std::int64_t{t.m}) * ceil_div(n, std::int64_t{t.n}), wave);
    auto first = std::apply(
        [&](const auto&... p) {
          return kernel<whole_tiles<E, X, BK, C, T, t.m, t.n, epilogue_param<P>...>>(
              empty<C>(Dims<2>({m, n}, where), where), a, b, s.whole, p..., where);
        },
        epilogue.operands);
    auto second = kernel<shared_tiles<X, BK, S, T, t.m, t.n>>(
        empty<S>(Dims<3>({s.rest * s.share, t.m, t.n}, where), where), a, b, s.whole, s.share, where);
    return all(std::move(first), std::move(second))
        .then([s, epilogue, where](std::tuple<Tensor<C, 2>, Tensor<S, 3>> made) {
          return std::apply(
              [&](const auto&... p) {
                return kernel<stream_k_sums<E, C, S, t.m, t.n, epilogue_param<P>...>>(
                    std::move(std::get<0>(made)), std::get<1>(made), s.whole, s.share, p..., where);
              },
              epilogue.operands);
        });
  });
}

/// a b, then the epilogue: [m, n]. `slots`: tiles per wave (0: the device's number). On a GPU, operands whose rows do
/// not start at multiples of 16 bytes are copied first. Throws ShapeError for extents that do not fit.
template <class U = void, class M = void, Operand A, Operand B, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<A>>, 2>> gemm_stream_k(const A& a, const B& b,
                                                         const Fused<E, P...>& epilogue = Fused<E, P...>{},
                                                         int slots = 0,
                                                         SourceLocation where = SourceLocation::current()) {
  using T = element_of<A>;
  using C = product_t<U, T>;
  using X = std::conditional_t<std::is_void_v<M>, T, M>;
  static_assert(std::is_same_v<T, element_of<B>>,
                "gemm_stream_k: a and b must have one element type: cast one of them");
  expect_dim("gemm_stream_k", "b", b, 0, a.dim(1, where), where);
  check_epilogue(epilogue, "gemm_stream_k", Dims<2>({a.dim(0, where), b.dim(1, where)}, where), where);
  const auto product = [=](const View<T, 2>& x, const View<T, 2>& y) {
    return stream_k_of_views<C, X>(x, y, epilogue, slots, where);
  };
  if (copies_rows(kStreamRow, product_size<X>(a, b), target_of(a.device(where))))
    return reading_operands(with_aligned_rows(a.view(where), b.view(where), where, product), epilogue, where);
  return reading_operands(product(a.view(where), b.view(where)), epilogue, where);
}

}  // namespace tessera::kernels
