// The matrix product by the kernel that is estimated to be fastest for the shape: gemm, split-K where there are few
// tiles, or stream-K where the last wave is not full. A program that uses it compiles all of them; gemm.hpp alone
// compiles faster.
//
//   auto c = kernels::matmul(a, b).sync();                      // as gemm, with the same epilogues
#pragma once
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/split_k.hpp"
#include "tessera/kernels/stream_k.hpp"

namespace tessera::kernels {

template <class U, class M, Element T, class E, class... P>
Op<Tensor<product_t<U, T>, 2>> matmul_of_views(const View<T, 2>& a, const View<T, 2>& b, const Fused<E, P...>& epilogue,
                                               SourceLocation where) {
  const MatmulPlan plan =
      matmul_heuristic(product_size<M>(a, b, 1, epilogue_work<2>(epilogue)), target_of(a.device(where)));
  switch (plan.way) {
    case MatmulWay::SplitK: return gemm_split_k<U, M>(a, b, plan.parts, epilogue, Row{plan.row}, where);
    case MatmulWay::StreamK: return gemm_stream_k<U, M>(a, b, epilogue, 0, where);
    case MatmulWay::Whole: break;
  }
  return gemm<U, M>(a, b, epilogue, Row{plan.row}, where);
}

/// a b, then the epilogue: [m, n]. U and M as in gemm. On a GPU, operands whose rows do not start at multiples of 16
/// bytes are copied first where that pays. Throws ShapeError for extents that do not fit.
template <class U = void, class M = void, Operand A, Operand B, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<A>>, 2>> matmul(const A& a, const B& b,
                                                  const Fused<E, P...>& epilogue = Fused<E, P...>{},
                                                  SourceLocation where = SourceLocation::current()) {
  using T = element_of<A>;
  static_assert(std::is_same_v<T, element_of<B>>, "matmul: a and b must have one element type: cast one of them");
  expect_dim("matmul", "b", b, 0, a.dim(1, where), where);
  check_epilogue(epilogue, "matmul", Dims<2>({a.dim(0, where), b.dim(1, where)}, where), where);
  const auto product = [=](const View<T, 2>& x, const View<T, 2>& y) {
    return matmul_of_views<U, M>(x, y, epilogue, where);
  };
  const ProductSize size = product_size<M>(a, b, 1, epilogue_work<2>(epilogue));
  if (copies_rows(-1, size, target_of(a.device(where))))
    return reading_operands(with_aligned_rows(a.view(where), b.view(where), where, product), epilogue, where);
  return product(a.view(where), b.view(where));
}

}  // namespace tessera::kernels
