// Extents of host tensors. Braced shapes take any integer type and their rank follows from how many there are:
//   Dims d{rows, 1024};                                              // Dims<2>
//   template <class T, std::size_t R> ... zeros(BracedDims<R>);      // called as zeros<f32>({rows, 1024})
// An axis holds 0 to 2^31 - 1 elements (kernels count in i32); anything else is a ShapeError.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "tessera/base/source_location.hpp"

namespace tessera {

inline constexpr std::int64_t kMaxExtent = std::numeric_limits<std::int32_t>::max();

/// One number of a braced shape. Holds any integer; what is not representable as i64 is kept as the largest i64, which
/// no extent may be.
struct Extent {
  std::int64_t value;
  template <class I>
    requires(std::is_integral_v<I> && !std::is_same_v<I, bool>)
  constexpr Extent(I v) : value(clamped(v)) {}

 private:
  template <class I>
  static constexpr std::int64_t clamped(I v) {
    if constexpr (std::is_unsigned_v<I> && sizeof(I) == sizeof(std::int64_t)) {
      if (v > static_cast<I>(std::numeric_limits<std::int64_t>::max())) return std::numeric_limits<std::int64_t>::max();
    }
    return static_cast<std::int64_t>(v);
  }
};

/// The first number of several, with the line that it stands in.
struct PlacedExtent {
  std::int64_t value;
  SourceLocation where;
  template <class I>
    requires std::is_convertible_v<I, Extent>
  constexpr PlacedExtent(I v, SourceLocation line = SourceLocation::current()) : value(Extent(v).value), where(line) {}
};

/// Parameter type that deduces R from a braced list: f({2, n, 3}) with f(BracedDims<R>) finds R = 3.
template <std::size_t R>
using BracedDims = const Extent (&)[R];

namespace detail {
/// Throws ShapeError unless every extent is 0 to kMaxExtent.
void check_extents(std::span<const std::int64_t> extents, SourceLocation where);
/// The product; throws ShapeError if it exceeds 2^63 - 1 (an extent of 0 gives 0 whatever the others are).
std::int64_t element_count(std::span<const std::int64_t> extents, SourceLocation where);
std::string extents_text(std::span<const std::int64_t> extents);  ///< "[2, 3]"
}  // namespace detail

/// The extents of a tensor of rank R, checked when made.
template <int R>
class Dims {
  static_assert(R >= 0, "a rank is not negative");

 public:
  /// All extents 0.
  constexpr Dims() = default;
  // NOLINTBEGIN(google-explicit-constructor): braced shapes
  template <class I>
    requires(R == 1 && std::is_convertible_v<I, Extent>)
  Dims(I extent, SourceLocation where = SourceLocation::current()) : extents_{Extent(extent).value} {
    detail::check_extents(extents_, where);
  }
  template <class... I>
    requires(sizeof...(I) + 1 == R && R > 1 && (std::is_convertible_v<I, Extent> && ...))
  Dims(PlacedExtent first, I... others) : extents_{first.value, Extent(others).value...} {
    detail::check_extents(extents_, first.where);
  }
  // NOLINTEND(google-explicit-constructor)
  /// From a braced parameter, with the caller's place for the error.
  template <std::size_t N>
    requires(N == R)
  Dims(BracedDims<N> extents, SourceLocation where) {
    for (std::size_t i = 0; i < N; ++i) extents_[i] = extents[i].value;
    detail::check_extents(extents_, where);
  }
  /// From extents known at run time; throws ShapeError if their number is not R.
  static Dims from(std::span<const std::int64_t> extents, SourceLocation where = SourceLocation::current());

  static constexpr int rank() { return R; }
  constexpr std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  constexpr auto begin() const { return extents_.begin(); }
  constexpr auto end() const { return extents_.end(); }
  constexpr const std::array<std::int64_t, R>& array() const { return extents_; }
  constexpr operator std::span<const std::int64_t>() const { return extents_; }

  /// Number of elements (1 for rank 0); ShapeError if it does not fit in 63 bits.
  std::int64_t numel(SourceLocation where = SourceLocation::current()) const {
    return detail::element_count(extents_, where);
  }
  std::string to_string() const { return detail::extents_text(extents_); }  ///< "[2, 3]"

  constexpr bool operator==(const Dims&) const = default;

 private:
  std::array<std::int64_t, R> extents_{};
};

template <class... I>
Dims(I...) -> Dims<static_cast<int>(sizeof...(I))>;
template <std::size_t N>
Dims(BracedDims<N>, SourceLocation) -> Dims<static_cast<int>(N)>;

namespace detail {
[[noreturn]] void wrong_rank(int expected, std::span<const std::int64_t> found, SourceLocation where);
}  // namespace detail

template <int R>
Dims<R> Dims<R>::from(std::span<const std::int64_t> extents, SourceLocation where) {
  if (extents.size() != static_cast<std::size_t>(R)) detail::wrong_rank(R, extents, where);
  detail::check_extents(extents, where);
  Dims dims;
  for (std::size_t i = 0; i < extents.size(); ++i) dims.extents_[i] = extents[i];
  return dims;
}

}  // namespace tessera
