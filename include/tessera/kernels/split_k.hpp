// Split-K: the sum of each output tile is split among blocks, for outputs with too few tiles for all SMs. One kernel
// computes partials in f32, a second one adds them and applies the epilogue. The order of additions depends only on the
// shape and the number of partials.
//
//   auto c = kernels::gemm_split_k(a, b, 8).sync();     // 8 partials; 0: chosen by the heuristics
#pragma once
#include <algorithm>
#include <string>

#include "tessera/kernels/aligned_rows.hpp"
#include "tessera/kernels/matmul_plan.hpp"
#include "tessera/kernels/product_tiles.hpp"
#include "tessera/kernels/split_k_sums.hpp"

namespace tessera::kernels {

template <class M, int BK, class S, class T, int BM, int BN>
void partial_products(Mut<S, 1, BM, BN> parts, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  require(a.dim(1) == b.dim(0), "a's columns must be b's rows");
  auto [part, i, j] = parts.index();
  auto all = a.tiles(shape<BM, BK>).count(1), steps = ceil_div(all, parts.dim(0));
  auto pieces = parts_of(parts);
  auto sums = products<M, BM, BK>(a, b, i, pieces, range(part * steps, min((part + 1) * steps, all)));
  for_parts(pieces, sums,
            [](auto out, const auto& sum) { out.store(reshape(sum, shape<1, BM, kExtentOf<decltype(out), 2>>)); });
}

/// The rows of kGemmTiles that split-K has for an element type: those made of sub-tiles as well, or none.
template <Element T>
struct SplitRows {
  static_assert(std::size(kSplitRows) == 4 && kSplitRows[0] < kPlainGemmRows);
  static constexpr int rows[] = {0, kSplitRows[0], kSplitRows[1], kSplitRows[2], kSplitRows[3]};
  static constexpr int count = kPlainGemmRows < gemm_rows(sizeof(T)) ? 5 : 2;
  /// The index in `rows`. Throws ShapeError if the row is not there.
  static int find(int row, SourceLocation where) {
    const auto at = static_cast<int>(std::find(rows, rows + count, row) - rows);
    if (at < count) return at;
    throw ShapeError("kernels::gemm_split_k: row " + std::to_string(row) +
                         " of the table is not one for split-K; leave it out, or take one of kSplitRows",
                     where);
  }
};

/// As gemm_split_k, of operands as they are; `asked`: its row, or -1.
template <class C, class X, Element T, class E, class... P>
Op<Tensor<C, 2>> split_k_of_views(const View<T, 2>& a, const View<T, 2>& b, std::int64_t parts,
                                  const Fused<E, P...>& epilogue, int asked, SourceLocation where) {
  using S = acc_t<X>;
  const std::int64_t m = a.dim(0), n = b.dim(1);
  SplitPlan plan = split_heuristic(product_size<X>(a, b), target_of(a.device(where)));
  if (asked >= 0) plan.row = asked;
  if (parts > 0) plan.parts = std::min(parts, std::max<std::int64_t>(a.dim(1), 1));  // more would be empty
  return with_constant<SplitRows<T>::count>(SplitRows<T>::find(plan.row, where), [&](auto number) {
    constexpr GemmTile t = gemm_tile(multiplier_of<X>(), SplitRows<T>::rows[number]);
    constexpr int BK = t.k_bytes / static_cast<int>(sizeof(T));
    auto sums = kernel<partial_products<X, BK, S, T, t.m, t.n>>(empty<S>(Dims<3>({plan.parts, m, n}, where), where), a,
                                                                b, where);
    return sum_parts_of<C>(std::move(sums), Dims<2>({m, n}, where), plan.parts, epilogue, where);
  });
}

/// a b in `parts` split-K partials along k, then the epilogue: [m, n]. `row`: 0 (for the CPU), or one of kSplitRows
/// that the element type has. On a GPU, operands whose rows do not start at multiples of 16 bytes are copied first.
/// Throws ShapeError for other rows, and for extents that do not fit.
template <class U = void, class M = void, Operand A, Operand B, class E = epilogues::Plain, class... P>
Op<Tensor<product_t<U, element_of<A>>, 2>> gemm_split_k(const A& a, const B& b, std::int64_t parts = 0,
                                                        const Fused<E, P...>& epilogue = Fused<E, P...>{}, Row row = {},
                                                        SourceLocation where = SourceLocation::current()) {
  using T = element_of<A>;
  using C = product_t<U, T>;
  using X = std::conditional_t<std::is_void_v<M>, T, M>;
  static_assert(std::is_same_v<T, element_of<B>>, "gemm_split_k: a and b must have one element type: cast one of them");
  expect_dim("gemm_split_k", "b", b, 0, a.dim(1, where), where);
  check_epilogue(epilogue, "gemm_split_k", Dims<2>({a.dim(0, where), b.dim(1, where)}, where), where);
  const int asked = row_of_table(row, gemm_rows(sizeof(T)), "gemm_split_k", where);
  if (asked >= 0) SplitRows<T>::find(asked, where);
  const auto product = [=](const View<T, 2>& x, const View<T, 2>& y) {
    return split_k_of_views<C, X>(x, y, parts, epilogue, asked, where);
  };
  if (copies_rows(asked >= 0 ? asked : kSplitRows[0], product_size<X>(a, b), target_of(a.device(where))))
    return reading_operands(with_aligned_rows(a.view(where), b.view(where), where, product), epilogue, where);
  return product(a.view(where), b.view(where));
}

}  // namespace tessera::kernels
