// A product whose sums are split among blocks, for outputs of too few tiles to keep a device busy: parts of the sum in
// f32 first, then their sum and the epilogue. The order of additions depends on the shape and the number of parts
// alone.
//
//   auto c = kernels::gemm_split_k(a, b, 8).sync();     // 8 parts; 0: by the heuristics
#pragma once
#include "tessera/kernels/gemm.hpp"

namespace tessera::kernels {

template <class M, int BK, class S, class T, int BM, int BN>
void partial_products(Mut<S, 1, BM, BN> parts, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  require(a.dim(1) == b.dim(0), "a's columns must be b's rows");
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  auto [part, i, j] = parts.index();
  auto steps = ceil_div(A.count(1), parts.dim(0));
  auto acc = zeros<S, BM, BN>();
  for (auto k : range(part * steps, min((part + 1) * steps, A.count(1))))
    acc = multiply<M>(A.load(i, k), B.load(k, j), acc);
  parts.store(reshape(acc, shape<1, BM, BN>));
}

template <class E, class U, class S, int BM, int BN, class... P>
void sum_parts(Mut<U, BM, BN> c, In<S, dyn, dyn, dyn> parts, P... operands) {
  auto Parts = parts.tiles(shape<1, BM, BN>);
  auto [i, j] = c.index();
  auto acc = zeros<S, BM, BN>();
  for (auto part : range(parts.dim(0))) acc = acc + reshape(Parts.load(part, i, j), shape<BM, BN>);
  c.store(narrow<U>(E{}(acc, c, operands...)));
}

/// As many parts as fill the device once, each of at least 8 steps along k.
inline std::int64_t split_heuristic(std::int64_t tiles, std::int64_t steps, const Target& target) {
  if (!target.gpu) return 2;
  const std::int64_t fill = 2 * target.processors / std::max<std::int64_t>(tiles, 1);
  return std::max<std::int64_t>(1, std::min(fill, steps / 8));
}

/// a b in `parts` parts along k, then the epilogue.
template <class U = void, class M = void, Operand A, Operand B, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<A>>, 2>> gemm_split_k(const A& a, const B& b, std::int64_t parts = 0,
                                                        const Fused<E, P...>& epilogue = Fused<E, P...>{},
                                                        SourceLocation where = SourceLocation::current()) {
  using T = element_of<A>;
  using C = product_t<U, T>;
  using X = std::conditional_t<std::is_void_v<M>, T, M>;
  using S = acc_t<X>;
  static_assert(std::is_same_v<T, element_of<B>>, "gemm_split_k: a and b must have one element type: cast one of them");
  expect_dim("gemm_split_k", "b", b, 0, a.dim(1, where), where);
  const std::int64_t m = a.dim(0), n = b.dim(1);
  check_epilogue(epilogue, "gemm_split_k", m, n, where);
  const Target target = target_of(a.device(where));
  return with_constant<2>(target.gpu ? 1 : 0, [&](auto gpu) {
    constexpr GemmTile t = kGemmTiles[gpu ? 3 : 0];
    constexpr int BK = t.k_bytes / static_cast<int>(sizeof(T));
    const std::int64_t tiles = ceil_div(m, std::int64_t{t.m}) * ceil_div(n, std::int64_t{t.n});
    const std::int64_t s = parts > 0 ? parts : split_heuristic(tiles, ceil_div(a.dim(1), std::int64_t{BK}), target);
    auto sums =
        kernel<partial_products<X, BK, S, T, t.m, t.n>>(empty<S>(Dims<3>(s, m, n), where), a.view(), b.view(), where);
    return std::apply(
        [&](const auto&... p) {
          return kernel<sum_parts<E, C, S, 32, 64, epilogue_param<P>...>>(empty<C>(Dims<2>(m, n), where),
                                                                          std::move(sums), p..., where);
        },
        epilogue.operands);
  });
}

}  // namespace tessera::kernels
