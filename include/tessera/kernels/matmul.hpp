// The matrix product by whichever kernel suits the shape: gemm, its sums split where there are few tiles, its last wave
// split where that is short. A program that uses it compiles all of them; gemm.hpp alone compiles faster.
//
//   auto c = kernels::matmul(a, b).sync();                      // as gemm, with the same epilogues
#pragma once
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/split_k.hpp"
#include "tessera/kernels/stream_k.hpp"

namespace tessera::kernels {

enum class MatmulWay { Whole, SplitK, StreamK };

/// By how full the waves of 128 x 128 tiles are. (tileiras, H200: 1536 cubed, 144 tiles on 132 processors, has 0.71 of
/// cuBLAS whole; 3072 cubed, 4.4 waves, 0.89.) The thresholds follow from these figures, not from a sweep.
inline MatmulWay matmul_heuristic(std::int64_t m, std::int64_t n, std::int64_t k, const Target& target) {
  if (!target.gpu) return MatmulWay::Whole;
  const std::int64_t tiles = ceil_div(m, std::int64_t{128}) * ceil_div(n, std::int64_t{128}), slots = target.processors;
  if (4 * tiles <= slots && k >= 2048) return MatmulWay::SplitK;
  const bool short_wave = 10 * tiles < 9 * slots * ceil_div(tiles, slots);
  return tiles > slots && short_wave && k >= 512 ? MatmulWay::StreamK : MatmulWay::Whole;
}

/// a b, then the epilogue.
template <class U = void, class M = void, Operand A, Operand B, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<A>>, 2>> matmul(const A& a, const B& b,
                                                  const Fused<E, P...>& epilogue = Fused<E, P...>{},
                                                  SourceLocation where = SourceLocation::current()) {
  expect_dim("matmul", "b", b, 0, a.dim(1, where), where);
  switch (matmul_heuristic(a.dim(0), b.dim(1), a.dim(1), target_of(a.device(where)))) {
    case MatmulWay::SplitK: return gemm_split_k<U, M>(a, b, 0, epilogue, where);
    case MatmulWay::StreamK: return gemm_stream_k<U, M>(a, b, epilogue, 0, where);
    case MatmulWay::Whole: break;
  }
  return gemm<U, M>(a, b, epilogue, Row{}, where);
}

}  // namespace tessera::kernels
