// Shapes, axes and orders as values of tag types (`shape<BM, BK>`, `axis<1>`), and the arithmetic of static shapes.
//
// Small arguments that are known while compiling are here, too: which axes, in which order, dynamic extents, an axis
// number that is checked.
#pragma once
#include <type_traits>
#include <utility>

namespace tessera {

template <int... D>
struct Shape {
  static constexpr int rank = sizeof...(D);
  static constexpr long long size = (1LL * ... * D);  ///< elements
  static constexpr int extents[sizeof...(D) + 1] = {D..., 0};
};
template <int A>
struct Axis {
  static constexpr int value = A;
};
template <int... A>
struct Axes {
  static constexpr int rank = sizeof...(A);
  static constexpr int values[sizeof...(A) + 1] = {A..., 0};
};
template <int... A>
struct Order {
  static constexpr int rank = sizeof...(A);
  static constexpr int values[sizeof...(A) + 1] = {A..., 0};
};

template <int... D>
inline constexpr Shape<D...> shape{};  ///< `shape<128, 64>`
template <int A>
inline constexpr Axis<A> axis{};  ///< `axis<1>`: counted from 0, outermost first
template <int... A>
inline constexpr Axes<A...> axes{};  ///< `axes<0, 2>`
template <int... A>
inline constexpr Order<A...> order{};  ///< `order<1, 0>`: axis k of the result is axis order[k] of the source

namespace detail {

template <class...>
inline constexpr bool never = false;

template <class X>
inline constexpr bool is_axis = false;
template <int A>
inline constexpr bool is_axis<Axis<A>> = true;

/// Explains a number where axis<k> is meant.
template <class S>
struct ExplainAxisNumber {
  static_assert(never<S>,
                "write the axis as axis<k>, as in sum(t, axis<1>): it decides the type of the result, so it "
                "is a constant and no number");
};
/// Explains extents between angle brackets where shape<...> is meant.
template <int... D>
struct ExplainShapeInBrackets {
  static_assert(never<Shape<D...>>, "write the extents as an argument: name(shape<...>) instead of name<...>()");
};

constexpr bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

/// Extents of 1 broadcast, ranks must agree, rank 0 fits anything.
template <int... A, int... B>
constexpr bool fits(Shape<A...>, Shape<B...>) {
  if constexpr (sizeof...(A) == 0 || sizeof...(B) == 0)
    return true;
  else if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return ((A == B || A == 1 || B == 1) && ...);
}

/// The shape that both broadcast to; if they do not fit, the left one (so that one mistake gives one error).
template <int... A, int... B>
constexpr auto stretch(Shape<A...> a, Shape<B...> b) {
  if constexpr (sizeof...(A) == 0)
    return b;
  else if constexpr (sizeof...(B) == 0 || sizeof...(A) != sizeof...(B))
    return a;
  else
    return Shape<(A > B ? A : B)...>{};
}
template <class A, class B>
using stretch_t = decltype(stretch(A{}, B{}));

/// The shape with the extent of one axis replaced.
template <int A, int N, int... D, int... I>
constexpr auto with_extent(Shape<D...>, std::integer_sequence<int, I...>) {
  return Shape<(I == A ? N : D)...>{};
}
template <class S, int A, int N>
using with_extent_t = decltype(with_extent<A, N>(S{}, std::make_integer_sequence<int, S::rank>{}));

template <class S>
constexpr int extent(int axis) {
  return axis >= 0 && axis < S::rank ? S::extents[axis] : 1;
}

template <class O>
constexpr bool is_permutation() {
  for (int i = 0; i < O::rank; ++i) {
    bool found = false;
    for (int k = 0; k < O::rank; ++k) found = found || O::values[k] == i;
    if (!found) return false;
  }
  return true;
}

}  // namespace detail

/// An extent that is only known at the launch: In<f32, dyn, 64>.
inline constexpr int dyn = -1;

namespace detail {
struct Partial {};

/// Not constexpr: reached only while compiling, for an axis number that the tensor does not have; its name is the
/// message.
void this_axis_does_not_exist_it_must_be_at_least_0_and_below_the_rank();

/// An axis number of a tensor of rank R, checked while compiling: a literal, or axis<k>.
template <int R>
class AxisOf {
 public:
  consteval AxisOf(int axis) : value(axis) {  // NOLINT(google-explicit-constructor)
    if (axis < 0 || axis >= R) this_axis_does_not_exist_it_must_be_at_least_0_and_below_the_rank();
  }
  template <int A>
  consteval AxisOf(Axis<A>) : AxisOf(A) {}  // NOLINT(google-explicit-constructor)
  int value;
};
}  // namespace detail

/// x.load_like(y, partial): x may have any extents; elements outside it read as the padding value.
inline constexpr detail::Partial partial{};

namespace detail {
template <int... V>
struct Ints {
  static constexpr int size = sizeof...(V);
  static constexpr int values[sizeof...(V) == 0 ? 1 : sizeof...(V)] = {V...};
};

template <int... V>
constexpr bool contains(int x) {
  return ((V == x) || ...);
}
template <int... V>
constexpr bool all_different() {
  const int v[] = {V..., -1};
  for (int i = 0; i < static_cast<int>(sizeof...(V)); ++i) {
    for (int j = 0; j < i; ++j) {
      if (v[i] == v[j]) return false;
    }
  }
  return true;
}
}  // namespace detail
}  // namespace tessera
