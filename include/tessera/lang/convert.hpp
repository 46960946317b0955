// Conversions between element types. Nothing converts silently: cast<T>(tile).
//
//   - float to float: rounds to nearest even unless a direction is given; to fp8 saturates to the largest finite value,
//     whatever the direction; NaN stays NaN
//   - float to integer: toward zero unless a direction is given; saturates, NaN gives 0
//   - integer to float: to nearest even, rounded once; to fp8 saturates (a direction needs a source of at most 32 bits)
//   - integer to integer: keeps the low bits; with `saturate` the nearest value of the target
//   - to bool: x != 0 (NaN gives true); from bool: 0 or 1
#pragma once
#include "tessera/lang/math.hpp"

namespace tessera {

namespace rounding {
inline constexpr RoundingDirection nearest = RoundingDirection::Nearest;  ///< ties to even
inline constexpr RoundingDirection zero = RoundingDirection::Zero;
inline constexpr RoundingDirection down = RoundingDirection::Down;
inline constexpr RoundingDirection up = RoundingDirection::Up;
}  // namespace rounding

/// Makes a cast saturate: values out of range give the nearest finite value of the target. For integers the nearest
/// integer; for f16, bf16, tf32 and f32 the largest finite value instead of infinity, also if x is infinite. NaN stays
/// NaN.
struct Saturate {};
inline constexpr Saturate saturate{};

namespace detail {

template <class To>
struct CastTarget {
  static_assert(Element<To>, "cast<T>: T must be one of f64 f32 tf32 f16 bf16 f8e4m3 f8e5m2 i64..i8 u64..u8 bool");
  static constexpr bool ok = Element<To>;
};
template <class To, class From>
struct DirectedCast {
  static constexpr bool tf32_target = std::is_same_v<To, tf32>;
  static constexpr bool wide_integer = is_integer<From> && sizeof(From) == 8 && is_float<To>;
  static_assert(!tf32_target, "a cast to tf32 rounds to nearest even: leave the rounding direction out");
  static_assert(!wide_integer,
                "a cast of 64-bit integers to floating point rounds to nearest even: leave the rounding direction out");
  static constexpr bool ok = !tf32_target && !wide_integer;
};
template <class To, class From, int... D>
Tile<To, D...> converted(const Tile<From, D...>& x, RoundingDirection direction, bool saturating, SourceLocation loc) {
  if constexpr (CastTarget<To>::ok)
    return Tile<To, D...>(
        lang::convert(x.value(), element_type<From>, Tile<To, D...>::spec, direction, saturating, loc));
  else
    return x;
}

}  // namespace detail

template <class To, class From, int... D>
Tile<To, D...> cast(const Tile<From, D...>& x, SourceLocation loc = SourceLocation::current()) {
  return detail::converted<To>(x, RoundingDirection::Default, false, loc);
}
template <class To, class From, int... D>
Tile<To, D...> cast(const Tile<From, D...>& x, RoundingDirection direction,
                    SourceLocation loc = SourceLocation::current()) {
  (void)sizeof(detail::DirectedCast<To, From>);
  return detail::converted<To>(x, direction, false, loc);
}
template <class To, class From, int... D>
Tile<To, D...> cast(const Tile<From, D...>& x, Saturate, SourceLocation loc = SourceLocation::current()) {
  return detail::converted<To>(x, RoundingDirection::Default, true, loc);
}
template <class To, class From, int... D>
Tile<To, D...> cast(const Tile<From, D...>& x, RoundingDirection direction, Saturate,
                    SourceLocation loc = SourceLocation::current()) {
  (void)sizeof(detail::DirectedCast<To, From>);
  return detail::converted<To>(x, direction, true, loc);
}

namespace detail {

template <class To, class From>
struct SameBits {
  static constexpr bool plain = !std::is_same_v<To, bool> && !std::is_same_v<From, bool> && !std::is_same_v<To, tf32> &&
                                !std::is_same_v<From, tf32>;
  static_assert(plain,
                "bitcast does not take bool and tf32, whose bits in registers are not those in memory: use cast");
  static_assert(!plain || sizeof(To) == sizeof(From), "bitcast needs element types of equal size");
  static constexpr bool ok = plain && sizeof(To) == sizeof(From);
};

}  // namespace detail

/// The same bits as another element type of equal size.
template <class To, class From, int... D>
Tile<To, D...> bitcast(const Tile<From, D...>& x, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::SameBits<To, From>::ok)
    return Tile<To, D...>(lang::bit_cast(x.value(), Tile<To, D...>::spec, loc));
  else
    return Tile<To, D...>(x.value());
}

}  // namespace tessera
