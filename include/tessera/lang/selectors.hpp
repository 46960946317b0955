// Small compile-time arguments of parameters: which axes, in which order, dynamic extents, an axis number checked while
// compiling.
#pragma once
#include <type_traits>

#include "tessera/lang/shape.hpp"

namespace tessera {

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
