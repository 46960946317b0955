// Matrix product: c = a b, for a of [m, k] and b of [k, n], with an epilogue.
//
//   auto c = kernels::gemm(a, b).sync();                               // NN
//   auto c = kernels::gemm(a, w.permute<1, 0>(), kernels::bias(v)).sync();   // NT: transposed operands are views
//   auto c = kernels::gemm<f32>(a, b).sync();                          // the element type of c
//   auto c = kernels::gemm<f32, tf32>(a, b).sync();                    // f32 operands multiplied as tf32
//
// f64 f32 f16 bf16 give their own type, fp8 (with fast accumulation) bf16, i8 and u8 i32; sums are in acc_t.
#pragma once
#include "tessera/kernels/aligned_rows.hpp"
#include "tessera/kernels/epilogue.hpp"
#include "tessera/kernels/product_tiles.hpp"

namespace tessera::kernels {

template <class E, class M, int BK, class U, class T, int BM, int BN, class... P>
void gemm_tiles(MutTiles<U, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b, P... operands) {
  require(a.dim(1) == b.dim(0), "a's columns must be b's rows");
  for (auto out : c.grouped(8)) product_piece<E, M, BK>(out, a, b, operands...);
}
template <class E, class M, int BK, class U, class T, int BM, int BN, class... P>
void gemm_tile(Mut<U, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b, P... operands) {
  require(a.dim(1) == b.dim(0), "a's columns must be b's rows");
  product_piece<E, M, BK>(c, a, b, operands...);
}

/// The same by columns of b times rows of a (Operands::Swapped), for pieces whose rows are made of sub-tiles.
template <class E, class M, int BK, class U, class T, int BM, int BN, class... P>
void gemm_tile_swapped(Mut<U, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b, P... operands) {
  require(a.dim(1) == b.dim(0), "a's columns must be b's rows");
  product_piece<E, M, BK, Operands::Swapped>(c, a, b, operands...);
}

/// The kernel of a row of the table.
template <class C, class X, int Number, Element T, class E, class... P>
constexpr auto gemm_launcher() {
  constexpr GemmTile t = gemm_tile(multiplier_of<X>(), Number);
  constexpr int BK = t.k_bytes / static_cast<int>(sizeof(T));
  if constexpr (t.persistent)
    return kernel<gemm_tiles<E, X, BK, C, T, t.m, t.n, epilogue_param<P>...>>.launcher();
  else if constexpr (t.order == Operands::Swapped)
    return kernel<gemm_tile_swapped<E, X, BK, C, T, t.m, t.n, epilogue_param<P>...>>.launcher();
  else
    return kernel<gemm_tile<E, X, BK, C, T, t.m, t.n, epilogue_param<P>...>>.launcher();
}
/// In the row that is requested (-1: chosen), of operands as they are.
template <class C, class X, Element T, class E, class... P>
Op<Tensor<C, 2>> gemm_of_views(const View<T, 2>& a, const View<T, 2>& b, const Fused<E, P...>& epilogue, int asked,
                               SourceLocation where) {
  const int row =
      asked >= 0 ? asked
                 : gemm_heuristic(product_size<X>(a, b, 1, epilogue_work<2>(epilogue)), target_of(a.device(where)));
  const auto launch =
      with_constant<gemm_rows(sizeof(T))>(row, [](auto number) { return gemm_launcher<C, X, number, T, E, P...>(); });
  return std::apply(
      [&](const auto&... p) {
        return launch(empty<C>(Dims<2>({a.dim(0), b.dim(1)}, where), where), a, b, p..., where);
      },
      epilogue.operands);
}

/// a b, then the epilogue: [m, n]. U: the element type of the result (void: product_t); M: the element type that is
/// multiplied (void: a's). On a GPU, operands whose rows do not start at multiples of 16 bytes are copied first where
/// that pays. `row`: one of the first gemm_rows rows of kGemmTiles. Throws ShapeError for other rows, and
/// for extents that do not fit.
template <class U = void, class M = void, Operand A, Operand B, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<A>>, 2>> gemm(const A& a, const B& b,
                                                const Fused<E, P...>& epilogue = Fused<E, P...>{}, Row row = {},
                                                SourceLocation where = SourceLocation::current()) {
  using T = element_of<A>;
  using C = product_t<U, T>;
  using X = std::conditional_t<std::is_void_v<M>, T, M>;
  static_assert(A::rank == 2 && B::rank == 2, "gemm multiplies matrices: batched_gemm takes tensors of rank 3");
  static_assert(std::is_same_v<T, element_of<B>>, "gemm: a and b must have one element type: cast one of them");
  expect_dim("gemm", "b", b, 0, a.dim(1, where), where);
  const std::int64_t m = a.dim(0, where), n = b.dim(1, where);
  check_epilogue(epilogue, "gemm", Dims<2>({m, n}, where), where);
  const int asked = row_of_table(row, gemm_rows(sizeof(T)), "gemm", where);
  const auto product = [=](const View<T, 2>& x, const View<T, 2>& y) {
    return gemm_of_views<C, X>(x, y, epilogue, asked, where);
  };
  const ProductSize size = product_size<X>(a, b, 1, epilogue_work<2>(epilogue));
  if (copies_rows(asked, size, target_of(a.device(where))))
    return reading_operands(with_aligned_rows(a.view(where), b.view(where), where, product), epilogue, where);
  return product(a.view(where), b.view(where));
}

}  // namespace tessera::kernels
