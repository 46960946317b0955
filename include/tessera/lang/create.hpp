// Creating tiles: constants, iota, which block this is and how many there are, random numbers.
//
// Random numbers are those of Philox 4x32-10 by seed and element offset, so that a result does not depend on the grid
// or the device. Integers and floats are bit-identical to uniform_at and normal_at of base/philox.hpp on every device.
#pragma once
#include <array>
#include <utility>

#include "tessera/lang/access.hpp"
#include "tessera/lang/math.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera {

namespace detail {
/// The user's line. Not a SourceLocation: zeros<f32>({0}) is a host tensor, and {0} would initialise one.
struct CallSite {
  SourceLocation loc;
  constexpr CallSite(SourceLocation where) : loc(where) {}  // NOLINT(google-explicit-constructor)
};
}  // namespace detail

/// All elements equal `value`, a host number.
template <class T, int... D, detail::HostNumber S>
Tile<T, D...> full(S value, detail::CallSite at = SourceLocation::current()) {
  if constexpr (detail::Literal<T, S>::ok)
    return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, value, at.loc));
  else
    return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, 0));
}
/// All elements equal a scalar of the kernel.
template <class T, int... D, class U>
Tile<T, D...> full(const Tile<U>& value, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::SameElement<T, U>::ok)
    return Tile<T, D...>(lang::broadcast(value.value(), Tile<T, D...>::spec, loc));
  else
    return Tile<T, D...>(value.value());
}
template <class T, int... D>
Tile<T, D...> zeros(detail::CallSite at = SourceLocation::current()) {
  return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, 0, at.loc));
}
template <class T, int... D>
Tile<T, D...> ones(detail::CallSite at = SourceLocation::current()) {
  return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, 1, at.loc));
}

namespace detail {

template <class T, class S, int A>
struct Counting {
  static_assert(is_integer<T>, "iota makes tiles of integers: convert with cast<f32>(iota<i32, ...>(axis<0>))");
  static_assert(A >= 0 && A < S::rank, "iota: the axis is not one of the tile's axes (axis<0> is the outermost)");
  static constexpr int bits = 8 * sizeof(T) - (element_class<T> == ElementClass::Signed ? 1 : 0);
  static constexpr bool fits = bits >= 31 || extent<S>(A) <= (1 << (bits < 31 ? bits : 0));
  static_assert(!is_integer<T> || fits, "iota: the element type cannot count that far; count in i32");
  static constexpr bool ok = is_integer<T> && A >= 0 && A < S::rank && fits;
};

}  // namespace detail

/// 0, 1, 2, ... along one axis, the same along the others: `iota<i32, BM, 1>(axis<0>)`.
template <class T, int... D, int A>
Tile<T, D...> iota(Axis<A>, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::Counting<T, Shape<D...>, A>::ok)
    return Tile<T, D...>(lang::iota(Tile<T, D...>::spec, A, loc));
  else
    return Tile<T, D...>(lang::splat(Tile<T, D...>::spec, 0));
}
template <class T, int N>
Tile<T, N> iota(SourceLocation loc = SourceLocation::current()) {
  return iota<T, N>(axis<0>, loc);
}

/// block_id<1>() is one index, the block's number, 0 to num_blocks() - 1; in kernels with a Mut it is that of the
/// block's piece (row-major). auto [i, j] = block_id<2>() gives coordinates in a grid of that rank; launches number
/// their blocks along one axis, so all but the first are 0. The place of a piece along each axis is y.index().
template <int R>
auto block_id() {
  static_assert(R >= 1 && R <= 3, "a grid has one to three axes: block_id<1>(), block_id<2>() or block_id<3>()");
  if constexpr (R == 1) {
    return Tile<i32>(lang::block_coordinate(0, 1));
  } else {
    return []<int... A>(std::integer_sequence<int, A...>) {
      return std::array<Tile<i32>, R>{Tile<i32>(lang::block_coordinate(A, R))...};
    }(std::make_integer_sequence<int, R>{});
  }
}

/// One index can be named like several: auto [i] = block_id<1>();
template <std::size_t N>
  requires(N == 0)
Tile<i32> get(const Tile<i32>& index) {
  return index;
}

/// Number of blocks of the launch.
inline Tile<i32> num_blocks() { return Tile<i32>(lang::block_total()); }

}  // namespace tessera

template <>
struct std::tuple_size<tessera::Tile<tessera::i32>> : std::integral_constant<std::size_t, 1> {};
template <>
struct std::tuple_element<0, tessera::Tile<tessera::i32>> {
  using type = tessera::Tile<tessera::i32>;
};

namespace tessera {

namespace random {

/// Uniform in [0, 1) for floats (f64, f32, f16, bf16), all values for u32 and u64. `offsets` are element offsets,
/// usually y.offsets().
template <class T, int... D>
Tile<T, D...> uniform(const Tile<u64>& seed, const Tile<i64, D...>& offsets,
                      SourceLocation loc = SourceLocation::current()) {
  static_assert(std::is_same_v<T, f64> || std::is_same_v<T, f32> || std::is_same_v<T, f16> || std::is_same_v<T, bf16> ||
                    std::is_same_v<T, u32> || std::is_same_v<T, u64>,
                "random::uniform gives f64, f32, f16, bf16, u32 or u64");
  return Tile<T, D...>(
      lang::random_tile(lang::Distribution::Uniform, element_type<T>, seed.value(), offsets.value(), loc));
}

/// Standard normal (mean 0, variance 1) for f64, f32, f16, bf16.
template <class T, int... D>
Tile<T, D...> normal(const Tile<u64>& seed, const Tile<i64, D...>& offsets,
                     SourceLocation loc = SourceLocation::current()) {
  static_assert(std::is_same_v<T, f64> || std::is_same_v<T, f32> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>,
                "random::normal gives f64, f32, f16 or bf16");
  return Tile<T, D...>(
      lang::random_tile(lang::Distribution::Normal, element_type<T>, seed.value(), offsets.value(), loc));
}

}  // namespace random
}  // namespace tessera
