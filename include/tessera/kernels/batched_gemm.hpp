// Products of many matrices: c[i] = a[i] b[i], for a of [batch, m, k] and b of [batch, k, n], with an epilogue.
//
//   auto c = kernels::batched_gemm(a, b).sync();
//   auto c = kernels::batched_gemm(a, b.permute<0, 2, 1>()).sync();    // NT
//
// A batch of 1 on one side is used for all matrices of the other, as is a residual of batch 1 for all products.
#pragma once
#include "tessera/kernels/gemm.hpp"

namespace tessera::kernels {

/// The product of the matrices that belong to one piece of c.
template <class E, class M, int BK, Operands Order = Operands::InOrder, class Out, class T, class... P>
void batched_piece(const Out& out, const In<T, dyn, dyn, dyn>& a, const In<T, dyn, dyn, dyn>& b, const P&... operands) {
  const Scalar<i32> batch = out.index()[0];
  product_piece<E, M, BK, Order>(out, MatrixOf<T>(a, batch), MatrixOf<T>(b, batch), operands...);
}
template <class E, class M, int BK, class U, class T, int BM, int BN, class... P>
void batched_gemm_tiles(MutTiles<U, 1, BM, BN> c, In<T, dyn, dyn, dyn> a, In<T, dyn, dyn, dyn> b, P... operands) {
  require(a.dim(2) == b.dim(1), "a's columns must be b's rows");
  for (auto out : c.grouped(8)) batched_piece<E, M, BK>(out, a, b, operands...);
}
template <class E, class M, int BK, class U, class T, int BM, int BN, class... P>
void batched_gemm_tile(Mut<U, 1, BM, BN> c, In<T, dyn, dyn, dyn> a, In<T, dyn, dyn, dyn> b, P... operands) {
  require(a.dim(2) == b.dim(1), "a's columns must be b's rows");
  batched_piece<E, M, BK>(c, a, b, operands...);
}
/// Columns of b times rows of a (Operands::Swapped), for pieces whose rows are made of sub-tiles.
template <class E, class M, int BK, class U, class T, int BM, int BN, class... P>
void batched_gemm_tile_swapped(Mut<U, 1, BM, BN> c, In<T, dyn, dyn, dyn> a, In<T, dyn, dyn, dyn> b, P... operands) {
  require(a.dim(2) == b.dim(1), "a's columns must be b's rows");
  batched_piece<E, M, BK, Operands::Swapped>(c, a, b, operands...);
}

/// The kernel of a row of the table.
template <class C, class X, int Number, Element T, class E, class... P>
constexpr auto batched_launcher() {
  constexpr GemmTile t = gemm_tile(multiplier_of<X>(), Number);
  constexpr int BK = t.k_bytes / static_cast<int>(sizeof(T));
  if constexpr (t.persistent)
    return kernel<batched_gemm_tiles<E, X, BK, C, T, t.m, t.n, epilogue_param<P>...>>.launcher();
  else if constexpr (t.order == Operands::Swapped)
    return kernel<batched_gemm_tile_swapped<E, X, BK, C, T, t.m, t.n, epilogue_param<P>...>>.launcher();
  else
    return kernel<batched_gemm_tile<E, X, BK, C, T, t.m, t.n, epilogue_param<P>...>>.launcher();
}
/// In the row that is requested (-1: chosen), of operands as they are.
template <class C, class X, Element T, class E, class... P>
Op<Tensor<C, 3>> batched_of_views(const View<T, 3>& a, const View<T, 3>& b, const Fused<E, P...>& epilogue, int asked,
                                  std::int64_t batch, SourceLocation where) {
  const ProductSize size = product_size<X>(a, b, batch, epilogue_work<3>(epilogue));
  const int row = asked >= 0 ? asked : gemm_heuristic(size, target_of(a.device(where)));
  const auto launch = with_constant<gemm_rows(sizeof(T))>(
      row, [](auto number) { return batched_launcher<C, X, number, T, E, P...>(); });
  return std::apply(
      [&](const auto&... p) {
        return launch(empty<C>(Dims<3>({batch, a.dim(1), b.dim(2)}, where), where), a, b, p..., where);
      },
      epilogue.operands);
}

/// a[i] b[i], then the epilogue (whose operands follow the axes of c). On a GPU, operands whose rows do not start at
/// multiples of 16 bytes are copied first where that pays. `row`: one of the first gemm_rows rows of
/// kGemmTiles. Throws ShapeError for other rows, and for extents that do not fit.
template <class U = void, class M = void, Operand A, Operand B, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<A>>, 3>> batched_gemm(const A& a, const B& b,
                                                        const Fused<E, P...>& epilogue = Fused<E, P...>{}, Row row = {},
                                                        SourceLocation where = SourceLocation::current()) {
  using T = element_of<A>;
  using C = product_t<U, T>;
  using X = std::conditional_t<std::is_void_v<M>, T, M>;
  static_assert(A::rank == 3 && B::rank == 3, "batched_gemm multiplies tensors of rank 3");
  static_assert(std::is_same_v<T, element_of<B>>, "batched_gemm: a and b must have one element type: cast one of them");
  const std::int64_t batch = a.dim(0, where) == 1 ? b.dim(0, where) : a.dim(0, where), m = a.dim(1, where),
                     n = b.dim(2, where);
  expect_dim("batched_gemm", "b", b, 1, a.dim(2, where), where);
  expect_shape(a.dim(0, where) == batch || a.dim(0, where) == 1, "batched_gemm", "a", a, "its batch must be b's, or 1",
               where);
  expect_shape(b.dim(0, where) == batch || b.dim(0, where) == 1, "batched_gemm", "b", b, "its batch must be a's, or 1",
               where);
  check_epilogue(epilogue, "batched_gemm", Dims<3>({batch, m, n}, where), where);
  const int asked = row_of_table(row, gemm_rows(sizeof(T)), "batched_gemm", where);
  const auto products = [=](const View<T, 3>& x, const View<T, 3>& y) {
    return batched_of_views<C, X>(x, y, epilogue, asked, batch, where);
  };
  const ProductSize size = product_size<X>(a, b, batch, epilogue_work<3>(epilogue));
  if (copies_rows(asked, size, target_of(a.device(where))))
    return reading_operands(with_aligned_rows(a.view(where), b.view(where), where, products), epilogue, where);
  return products(a.view(where), b.view(where));
}

}  // namespace tessera::kernels
