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

/// One matrix of a batch, as an operand of products().
template <class T>
class MatrixOf {
  template <int M, int N>
  class Tiles {
    using All = decltype(std::declval<const In<T, dyn, dyn, dyn>&>().tiles(shape<1, M, N>));

   public:
    Tiles(const All& all, const Scalar<i32>& at) : all_(all), at_(at) {}
    auto load(const Scalar<i32>& i, const Scalar<i32>& j) const { return reshape(all_.load(at_, i, j), shape<M, N>); }
    Scalar<i32> count(detail::AxisOf<2> axis) const { return axis.value == 0 ? all_.count(1) : all_.count(2); }

   private:
    All all_;
    Scalar<i32> at_;
  };

 public:
  /// Matrix `at`; of a batch of 1, which serves all of the other operand's, matrix 0.
  MatrixOf(const In<T, dyn, dyn, dyn>& x, const Scalar<i32>& at) : x_(x), at_(min(at, x.dim(0) - 1)) {}
  template <int M, int N>
  auto tiles(Shape<M, N> extents) const {
    (void)extents;
    return Tiles<M, N>(x_.tiles(shape<1, M, N>), at_);
  }

 private:
  In<T, dyn, dyn, dyn> x_;
  Scalar<i32> at_;
};

/// The tiles of an operand that belong to a part of the output, BK of k per step, as right operands: [BK, extent]. X: a
/// matrix (In or MatrixOf).
template <int BK, Operands Order, class X, class Part>
class OperandOf {
  static constexpr bool kSwapped = Order == Operands::Swapped;
  static constexpr int kAxis = Part::rank - (kSwapped ? 2 : 1), kExtent = kExtentOf<Part, kAxis>;
  static auto tiles_of(const X& x) {
    if constexpr (kSwapped)
      return x.tiles(shape<kExtent, BK>);
    else
      return x.tiles(shape<BK, kExtent>);
  }

 public:
  /// A part beyond the last row or column computes the last tile again; it is not stored.
  OperandOf(const X& x, const Part& part, bool first) : tiles_(tiles_of(x)), at_(part.index()[kAxis]) {
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
  decltype(tiles_of(std::declval<const X&>())) tiles_;
  Scalar<i32> at_;
};

/// The tiles of the left operand: of B rows or, swapped, columns.
template <int B, int BK, Operands Order, class X>
auto left_tiles(const X& a, const X& b) {
  if constexpr (Order == Operands::Swapped)
    return b.tiles(shape<BK, B>);
  else
    return a.tiles(shape<B, BK>);
}

/// One accumulator per part: rows i of a times the part's columns of b, over `steps` along k. Swapped: columns i of b
/// times the part's rows of a, transposed. B: the extent of the tile of that operand.
template <class M, int B, int BK, Operands Order = Operands::InOrder, class X, class... Part>
auto products(const X& a, const X& b, const Scalar<i32>& i, const std::tuple<Part...>& parts, const auto& steps) {
  constexpr bool swapped = Order == Operands::Swapped;
  return [&]<std::size_t... N>(std::index_sequence<N...>) {
    const auto left = left_tiles<B, BK, Order>(a, b);
    const std::tuple right{OperandOf<BK, Order, X, Part>(swapped ? a : b, std::get<N>(parts), N == 0)...};
    std::tuple sums{OperandOf<BK, Order, X, Part>::template zero<acc_t<M>, B>()...};
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

/// `sum` of a part, with the axes that the part has.
template <class Part, class T, int... D>
auto as_part(const Tile<T, D...>& sum) {
  if constexpr (Part::rank == 2)
    return sum;
  else
    return reshape(sum, shape<1, D...>);
}

/// a b over all of k for one piece, then the epilogue. X: a matrix (In or MatrixOf); the piece of a batch has the axis
/// of the batch.
template <class E, class M, int BK, Operands Order = Operands::InOrder, class Out, class X, class... P>
void product_piece(const Out& out, const X& a, const X& b, const P&... operands) {
  constexpr bool swapped = Order == Operands::Swapped;
  constexpr int kLeft = Out::rank - (swapped ? 1 : 2), B = kExtentOf<Out, kLeft>;
  const auto parts = parts_of(out);
  const auto steps = range(left_tiles<B, BK, Order>(a, b).count(swapped ? 0 : 1));
  const auto sums = products<M, B, BK, Order>(a, b, out.index()[kLeft], parts, steps);
  for_parts(parts, sums, [&](auto part, const auto& sum) {
    using Part = decltype(part);
    if constexpr (swapped)
      part.store(narrow<typename Out::element>(E{}(as_part<Part>(transpose(sum)), part, operands...)));
    else
      part.store(narrow<typename Out::element>(E{}(as_part<Part>(sum), part, operands...)));
  });
}

}  // namespace tessera::kernels
