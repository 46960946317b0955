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

/// a b, then the epilogue: [m, n]. U and M as in gemm. Throws ShapeError for extents that do not fit.
template <class U = void, class M = void, Operand A, Operand B, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<A>>, 2>> matmul(const A& a, const B& b,
                                                  const Fused<E, P...>& epilogue = Fused<E, P...>{},
                                                  SourceLocation where = SourceLocation::current()) {
  expect_dim("matmul", "b", b, 0, a.dim(1, where), where);
  const MatmulPlan plan = matmul_heuristic(product_size(a, b, 1, loads_tile<2>(epilogue)), target_of(a.device(where)));
  switch (plan.way) {
    case MatmulWay::SplitK: return gemm_split_k<U, M>(a, b, plan.parts, epilogue, Row{plan.row}, where);
    case MatmulWay::StreamK: return gemm_stream_k<U, M>(a, b, epilogue, 0, where);
    case MatmulWay::Whole: break;
  }
  return gemm<U, M>(a, b, epilogue, Row{plan.row}, where);
}

}  // namespace tessera::kernels
