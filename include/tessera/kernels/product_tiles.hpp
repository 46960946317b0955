// The main loop of a matrix product: a block computes a b over steps along k, for every part of its piece of the
// output. A piece of 128 x 160 is computed as 128 x 128 and 128 x 32 in one loop, which loads the rows of a once.
#pragma once
#include <tuple>

#include "tessera/kernels/gemm_table.hpp"

namespace tessera::kernels {

/// The extent of a piece along an axis, as a constant of its type.
template <template <Element, int...> class Any, Element T, int... D>
consteval int extent_of(const Any<T, D...>*, int axis) {
  const int all[] = {D...};
  return all[axis];
}
template <class Out, int Axis>
inline constexpr int kExtentOf = extent_of(static_cast<const Out*>(nullptr), Axis);

/// The sub-tiles of a piece; if its extents are powers of two, the piece itself.
template <class Out>
auto parts_of(const Out& out) {
  if constexpr (requires { out.parts(); })
    return out.parts();
  else
    return std::tuple(out);
}

/// The tiles of b that belong to a part of the output: its columns, BK rows per step.
template <int BK, class T, class Part>
class ColumnsOf {
  static constexpr int kAxis = Part::rank - 1, kExtent = kExtentOf<Part, kAxis>;

 public:
  /// A part beyond the last column computes the last tile again; it is not stored.
  ColumnsOf(const In<T, dyn, dyn>& b, const Part& part, bool first)
      : tiles_(b.tiles(shape<BK, kExtent>)), j_(part.index()[kAxis]) {
    if (!first) j_ = min(j_, tiles_.count(1) - 1);
  }
  auto load(const Scalar<i32>& k) const { return tiles_.load(k, j_); }
  template <class S, int BM>
  static auto zero() {
    return zeros<S, BM, kExtent>();
  }

 private:
  decltype(std::declval<const In<T, dyn, dyn>&>().tiles(shape<BK, kExtent>)) tiles_;
  Scalar<i32> j_;
};

/// One accumulator per part: rows i of a times the part's columns of b, over `steps` along k.
template <class M, int BM, int BK, class T, class... Part>
auto products(const In<T, dyn, dyn>& a, const In<T, dyn, dyn>& b, const Scalar<i32>& i,
              const std::tuple<Part...>& parts, const auto& steps) {
  return [&]<std::size_t... N>(std::index_sequence<N...>) {
    auto A = a.tiles(shape<BM, BK>);
    const std::tuple columns{ColumnsOf<BK, T, Part>(b, std::get<N>(parts), N == 0)...};
    std::tuple sums{ColumnsOf<BK, T, Part>::template zero<acc_t<M>, BM>()...};
    for (auto k : steps) {
      auto rows = A.load(i, k);
      ((std::get<N>(sums) = multiply<M>(rows, std::get<N>(columns).load(k), std::get<N>(sums))), ...);
    }
    return sums;
  }(std::index_sequence_for<Part...>{});
}

/// store(part, sum) for each.
template <class... Part, class... Sum, class Store>
void for_parts(const std::tuple<Part...>& parts, const std::tuple<Sum...>& sums, Store store) {
  [&]<std::size_t... N>(std::index_sequence<N...>) {
    (store(Part(std::get<N>(parts)), std::get<N>(sums)), ...);
  }(std::index_sequence_for<Part...>{});
}

/// a b over all of k for one piece, then the epilogue.
template <class E, class M, int BK, class Out, class T, class... P>
void product_piece(const Out& out, const In<T, dyn, dyn>& a, const In<T, dyn, dyn>& b, const P&... operands) {
  constexpr int BM = kExtentOf<Out, 0>;
  const auto parts = parts_of(out);
  const auto sums = products<M, BM, BK>(a, b, out.index()[0], parts, range(a.tiles(shape<BM, BK>).count(1)));
  for_parts(parts, sums, [&](auto part, const auto& sum) {
    part.store(narrow<typename Out::element>(E{}(sum, part, operands...)));
  });
}

}  // namespace tessera::kernels
