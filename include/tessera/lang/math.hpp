// Elementwise functions on tiles: selection, minimum and maximum, elementary functions.
//
// The elementary functions take f16, bf16, f32 and f64. `exp(x, approx)` or `exp(x, precise)` sets the accuracy of one
// call; otherwise the launch's setting applies, or else the rule of docs/language.md. Approximate changes f32 only:
// exp, exp2, sqrt, tanh and division then use the device's fast instructions and may give zero for a denormal result;
// docs/semantics.md has their bounds.
//
// Nothing converts between element types silently: cast<T>(tile).
//
//   - float to float: rounds to nearest even unless a direction is given; to fp8 saturates to the largest finite value,
//     whatever the direction; NaN stays NaN
//   - float to integer: toward zero unless a direction is given; saturates, NaN gives 0
//   - integer to float: to nearest even, rounded once; to fp8 saturates (a direction needs a source of at most 32 bits)
//   - integer to integer: keeps the low bits; with `saturate` the nearest value of the target
//   - to bool: x != 0 (NaN gives true); from bool: 0 or 1
#pragma once
#include "tessera/lang/ops.hpp"

namespace tessera {

/// Infinity, for floating-point tiles: `-infinity<f32>`.
template <class T>
  requires(Element<T> && detail::is_float<T> && !std::is_same_v<T, f8e4m3>)
inline constexpr auto infinity =
    static_cast<std::conditional_t<std::is_same_v<T, f64>, double, float>>(__builtin_inf());
/// Base-2 logarithm of e; exp(x) = exp2(x * log2e<f32>).
template <class T>
  requires(Element<T> && detail::is_float<T>)
inline constexpr auto log2e =
    static_cast<std::conditional_t<std::is_same_v<T, f64>, double, float>>(1.4426950408889634074);
template <class T>
  requires(Element<T> && detail::is_float<T>)
inline constexpr auto pi =
    static_cast<std::conditional_t<std::is_same_v<T, f64>, double, float>>(3.1415926535897932385);

namespace detail {

template <class X>
struct OperandOf {  // a host number
  static constexpr bool is_tile = false;
  using element = host_value_t<X>;
  using shape = Shape<>;
};
template <class T, int... D>
struct OperandOf<Tile<T, D...>> {
  static constexpr bool is_tile = true;
  using element = T;
  using shape = Shape<D...>;
};
template <class X>
concept TileOrNumber = OperandOf<X>::is_tile || HostNumber<X>;
template <class X>
concept AnyTile = OperandOf<X>::is_tile;

/// Element type of an expression over tiles and numbers: that of the first tile, or of the numbers if there is no tile.
template <class A, class B>
using element_of_two = std::conditional_t<OperandOf<A>::is_tile || !OperandOf<B>::is_tile,
                                          typename OperandOf<A>::element, typename OperandOf<B>::element>;

template <class T, class X>
constexpr bool check_operand() {
  if constexpr (OperandOf<X>::is_tile)
    return SameElement<T, typename OperandOf<X>::element>::ok;
  else
    return Literal<T, X>::ok;
}
template <class T, class X>
ir::Value operand_value(const X& x) {
  if constexpr (OperandOf<X>::is_tile)
    return x.value();
  else
    return lang::splat(spec_of<T, Shape<>>, x);
}

}  // namespace detail

/// `a` where `condition` is true, else `b`: element by element, broadcasting. Both are computed.
template <int... C, detail::TileOrNumber A, detail::TileOrNumber B>
auto where(const Tile<bool, C...>& condition, const A& a, const B& b, SourceLocation loc = SourceLocation::current()) {
  using T = detail::element_of_two<A, B>;
  using SA = typename detail::OperandOf<A>::shape;
  using SB = typename detail::OperandOf<B>::shape;
  using S = detail::stretch_t<Shape<C...>, detail::stretch_t<SA, SB>>;
  const ir::Value c = condition.value();
  if constexpr (detail::check_operand<T, A>() && detail::check_operand<T, B>() && detail::SameShape<SA, SB>::ok) {
    if constexpr (detail::SameShape<Shape<C...>, detail::stretch_t<SA, SB>>::ok) {
      const ir::Value x = detail::operand_value<T>(a);
      return detail::tile_of_t<T, S>(lang::select(c, x, detail::operand_value<T>(b), detail::spec_of<T, S>, loc));
    } else {
      return detail::tile_of_t<T, S>(c);
    }
  } else {
    return detail::tile_of_t<T, S>(c);
  }
}
template <class C, int... D, class A, class B>
  requires(!std::is_same_v<C, bool>)
auto where(const Tile<C, D...>& condition, const A&, const B&) {
  static_assert(detail::never<C>, "where(condition, a, b) needs a condition of bool: compare first, as in x != 0");
  return condition;
}

namespace detail {

/// max(t, 1) of a tile of floats: the axis, or a number? An integer beside such a tile is taken for neither. Beside
/// tiles of integers, and scalars, which have no axes, it is a number.
template <lang::BinaryOp O, class T, int Rank, class S>
struct NumberBeside {
  static constexpr bool extreme = O == lang::BinaryOp::Max || O == lang::BinaryOp::Min;
  static_assert(
      !extreme || !is_float<T> || Rank == 0 || !is_host_integer<S>,
      "write max(t, axis<1>) for the maximum along an axis, or max(t, 1.0f) for the larger of each element and "
      "a number (min likewise): an integer beside a tile of floats could mean either");
};

}  // namespace detail

// The overload for equal types is the more specialised one against std::min and std::max of two references.
#define TESSERA_LANG_BINARY_FUNCTION(Name, name, Accepted, ...)                                                        \
  template <class T, int... A>                                                                                         \
  Tile<T, A...> name(const Tile<T, A...>& a, const Tile<T, A...>& b, SourceLocation loc = SourceLocation::current()) { \
    return detail::binary<lang::BinaryOp::Name, detail::Operands::Accepted>(a, b, MathAccuracy::OfKernel, loc);        \
  }                                                                                                                    \
  template <class T, int... A, class U, int... B>                                                                      \
  auto name(const Tile<T, A...>& a, const Tile<U, B...>& b, SourceLocation loc = SourceLocation::current()) {          \
    return detail::binary<lang::BinaryOp::Name, detail::Operands::Accepted>(a, b, MathAccuracy::OfKernel, loc);        \
  }                                                                                                                    \
  template <class T, int... A, detail::HostNumber S>                                                                   \
  auto name(const Tile<T, A...>& a, S s, SourceLocation loc = SourceLocation::current()) {                             \
    (void)sizeof(detail::NumberBeside<lang::BinaryOp::Name, T, sizeof...(A), S>);                                      \
    return detail::binary_right<lang::BinaryOp::Name, detail::Operands::Accepted>(a, s, MathAccuracy::OfKernel, loc);  \
  }                                                                                                                    \
  template <class T, int... A, detail::HostNumber S>                                                                   \
  auto name(S s, const Tile<T, A...>& a, SourceLocation loc = SourceLocation::current()) {                             \
    return detail::binary_left<lang::BinaryOp::Name, detail::Operands::Accepted>(s, a, MathAccuracy::OfKernel, loc);   \
  }
#include "tessera/lang/elementwise.def"

/// a / b rounded up, on the host; b > 0.
template <class A, class B>
  requires(std::is_integral_v<detail::host_value_t<A>> && std::is_integral_v<detail::host_value_t<B>>)
constexpr auto ceil_div(A a, B b) {
  using C = std::common_type_t<detail::host_value_t<A>, detail::host_value_t<B>>;
  const C x = static_cast<C>(a), y = static_cast<C>(b);
  return static_cast<C>(x / y + (x % y > 0 ? 1 : 0));
}

namespace detail {
/// The minimum or maximum with a bound of any kind.
template <lang::BinaryOp O, class T, int... D, class B>
auto bounded(const Tile<T, D...>& x, const B& bound, SourceLocation loc) {
  if constexpr (OperandOf<B>::is_tile)
    return binary<O, Operands::Numbers>(x, bound, MathAccuracy::OfKernel, loc);
  else
    return binary_right<O, Operands::Numbers>(x, bound, MathAccuracy::OfKernel, loc);
}
}  // namespace detail

/// min(max(x, low), high).
template <class T, int... D>
Tile<T, D...> clamp(const Tile<T, D...>& x, const Tile<T, D...>& low, const Tile<T, D...>& high,
                    SourceLocation loc = SourceLocation::current()) {
  return min(max(x, low, loc), high, loc);
}
template <class T, int... D, detail::TileOrNumber L, detail::TileOrNumber H>
auto clamp(const Tile<T, D...>& x, const L& low, const H& high, SourceLocation loc = SourceLocation::current()) {
  return detail::bounded<lang::BinaryOp::Min>(detail::bounded<lang::BinaryOp::Max>(x, low, loc), high, loc);
}

/// a * b + c with one rounding; floating-point tiles and numbers, at least one tile.
template <detail::TileOrNumber A, detail::TileOrNumber B, detail::TileOrNumber C>
  requires(detail::AnyTile<A> || detail::AnyTile<B> || detail::AnyTile<C>)
auto fma(const A& a, const B& b, const C& c, SourceLocation loc = SourceLocation::current()) {
  using AB = std::conditional_t<detail::AnyTile<A>, A, B>;
  using T = detail::element_of_two<AB, C>;
  using SA = typename detail::OperandOf<A>::shape;
  using SB = typename detail::OperandOf<B>::shape;
  using SC = typename detail::OperandOf<C>::shape;
  using S = detail::stretch_t<detail::stretch_t<SA, SB>, SC>;
  constexpr bool elements =
      detail::check_operand<T, A>() && detail::check_operand<T, B>() && detail::check_operand<T, C>();
  constexpr bool shapes = detail::SameShape<SA, SB>::ok && detail::SameShape<detail::stretch_t<SA, SB>, SC>::ok;
  const ir::Value x = detail::operand_value<T>(a);
  if constexpr (elements && shapes && detail::ElementClassCheck<detail::Operands::Floats, T>::ok) {
    const ir::Value y = detail::operand_value<T>(b);
    return detail::tile_of_t<T, S>(
        lang::fused_multiply_add(x, y, detail::operand_value<T>(c), detail::spec_of<T, S>, loc));
  } else {
    return detail::tile_of_t<T, S>(x);
  }
}

#define TESSERA_LANG_UNARY_FUNCTION(Name, name, Accepted, ...)                                                        \
  template <class T, int... D>                                                                                        \
  Tile<T, D...> name(const Tile<T, D...>& x, SourceLocation loc = SourceLocation::current()) {                        \
    return detail::unary<lang::UnaryOp::Name, detail::Operands::Accepted>(x, MathAccuracy::OfKernel, loc);            \
  }                                                                                                                   \
  template <class T, int... D>                                                                                        \
  Tile<T, D...> name(const Tile<T, D...>& x, MathAccuracy accuracy, SourceLocation loc = SourceLocation::current()) { \
    return detail::unary<lang::UnaryOp::Name, detail::Operands::Accepted>(x, accuracy, loc);                          \
  }
#include "tessera/lang/elementwise.def"

/// a / b with the accuracy of this call.
template <class T, int... A, class U, int... B>
auto div(const Tile<T, A...>& a, const Tile<U, B...>& b, MathAccuracy accuracy,
         SourceLocation loc = SourceLocation::current()) {
  return detail::binary<lang::BinaryOp::Div, detail::Operands::Numbers>(a, b, accuracy, loc);
}

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
