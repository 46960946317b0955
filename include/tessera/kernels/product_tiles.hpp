// The main loop of a matrix product: a block computes a b over steps along k, for every part of its piece of the
// output. A piece of 128 x 160 is computed as 128 x 128 and 128 x 32 in one loop, which loads the rows of a once; one
// of 160 x 128 as their transposes.
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

/// The tiles of an operand that belong to a part of the output, BK of k per step, as right operands: [BK, extent].
template <int BK, Operands Order, class T, class Part>
class OperandOf {
  static constexpr bool kSwapped = Order == Operands::Swapped;
  static constexpr int kAxis = Part::rank - (kSwapped ? 2 : 1), kExtent = kExtentOf<Part, kAxis>;
  static auto tiles_of(const In<T, dyn, dyn>& x) {
    if constexpr (kSwapped)
      return x.tiles(shape<kExtent, BK>);
    else
      return x.tiles(shape<BK, kExtent>);
  }

 public:
  /// A part beyond the last row or column computes the last tile again; it is not stored.
  OperandOf(const In<T, dyn, dyn>& x, const Part& part, bool first) : tiles_(tiles_of(x)), at_(part.index()[kAxis]) {
    if (!first) at_ = min(at_, tiles_.count(kSwapped ? 0 : 1) - 1);
  }
  auto load(const Scalar<i32>& k) const {
    if constexpr (kSwapped)
      return transpose(tiles_.load(at_, k));
    else
      return tiles_.load(k, at_);
  }
  template <class S, int Rows>
  static auto zero() {
    return zeros<S, Rows, kExtent>();
  }

 private:
  decltype(tiles_of(std::declval<const In<T, dyn, dyn>&>())) tiles_;
  Scalar<i32> at_;
};

/// The tiles of the left operand: of B rows or, swapped, columns.
template <int B, int BK, Operands Order, class T>
auto left_tiles(const In<T, dyn, dyn>& a, const In<T, dyn, dyn>& b) {
  if constexpr (Order == Operands::Swapped)
    return b.tiles(shape<BK, B>);
  else
    return a.tiles(shape<B, BK>);
}

/// One accumulator per part: rows i of a times the part's columns of b, over `steps` along k. Swapped: columns i of b
/// times the part's rows of a, transposed. B: the extent of the tile of that operand.
template <class M, int B, int BK, Operands Order = Operands::InOrder, class T, class... Part>
auto products(const In<T, dyn, dyn>& a, const In<T, dyn, dyn>& b, const Scalar<i32>& i,
              const std::tuple<Part...>& parts, const auto& steps) {
  constexpr bool swapped = Order == Operands::Swapped;
  return [&]<std::size_t... N>(std::index_sequence<N...>) {
    const auto left = left_tiles<B, BK, Order>(a, b);
    const std::tuple right{OperandOf<BK, Order, T, Part>(swapped ? a : b, std::get<N>(parts), N == 0)...};
    std::tuple sums{OperandOf<BK, Order, T, Part>::template zero<acc_t<M>, B>()...};
    for (auto k : steps) {
      auto rows = [&] {
        if constexpr (swapped)
          return transpose(left.load(k, i));
        else
          return left.load(i, k);
      }();
      ((std::get<N>(sums) = multiply<M>(rows, std::get<N>(right).load(k), std::get<N>(sums))), ...);
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
template <class E, class M, int BK, Operands Order = Operands::InOrder, class Out, class T, class... P>
void product_piece(const Out& out, const In<T, dyn, dyn>& a, const In<T, dyn, dyn>& b, const P&... operands) {
  constexpr bool swapped = Order == Operands::Swapped;
  constexpr int kLeft = swapped ? 1 : 0, B = kExtentOf<Out, kLeft>;
  const auto parts = parts_of(out);
  const auto steps = range(left_tiles<B, BK, Order>(a, b).count(swapped ? 0 : 1));
  const auto sums = products<M, B, BK, Order>(a, b, out.index()[kLeft], parts, steps);
  for_parts(parts, sums, [&](auto part, const auto& sum) {
    if constexpr (swapped)
      part.store(narrow<typename Out::element>(E{}(transpose(sum), part, operands...)));
    else
      part.store(narrow<typename Out::element>(E{}(sum, part, operands...)));
  });
}

}  // namespace tessera::kernels
