// Operators on tiles: arithmetic, comparisons, bits and logic, with broadcasting of extents of 1, scalars and host
// numbers.
//
//   + - * /     numbers of one element type; integers wrap, / truncates toward zero (x / 0 is 0)
//   %           integers: the sign of the dividend (x % 0 is x); floats: as C's fmod
//   & | ^ ~     integers and bool; << >> integers (>> fills with the sign if the type is signed)
//   < == ...    give tiles of bool; comparisons with NaN are false, != is true
//   && || !     tiles of bool; both sides are always computed
//
// A host number takes the tile's element type. Operators have the source line of the nearest named call before them.
#pragma once
#include "tessera/lang/tile.hpp"

namespace tessera {
namespace detail {

/// Which element types an operation takes.
enum class Operands { Numbers, Integers, Floats, IntegersOrBool, Bools, Comparable };

template <Operands K, class T>
constexpr bool accepts() {
  switch (K) {
    case Operands::Numbers: return is_number<T>;
    case Operands::Integers: return is_integer<T>;
    case Operands::Floats: return is_number<T> && is_float<T>;
    case Operands::IntegersOrBool: return is_integer<T> || std::is_same_v<T, bool>;
    case Operands::Bools: return std::is_same_v<T, bool>;
    case Operands::Comparable: return is_number<T> || std::is_same_v<T, bool>;
  }
  return false;
}

template <Operands K, class T>
struct ElementClassCheck {
  static_assert(
      K != Operands::Numbers || accepts<K, T>(),
      "tf32, f8e4m3, f8e5m2 and bool have no arithmetic: compute with cast<f32>(tile), or cast<i32>(tile) for bool");
  static_assert(K != Operands::Integers || accepts<K, T>(), "this operation needs tiles of integers");
  static_assert(K != Operands::Floats || accepts<K, T>(),
                "this function needs tiles of f16, bf16, f32 or f64: convert with cast<f32>(tile)");
  static_assert(K != Operands::IntegersOrBool || accepts<K, T>(), "bit operations need tiles of integers or bool");
  static_assert(K != Operands::Bools || accepts<K, T>(),
                "logical operations need tiles of bool: compare first, as in x != 0");
  static_assert(K != Operands::Comparable || accepts<K, T>(),
                "tf32, f8e4m3 and f8e5m2 cannot be compared: compare cast<f32>(tile)");
  static constexpr bool ok = accepts<K, T>();
};

template <lang::BinaryOp O, Operands K, class T, int... A, class U, int... B>
auto binary(const Tile<T, A...>& a, const Tile<U, B...>& b, MathAccuracy accuracy = MathAccuracy::OfKernel,
            SourceLocation loc = {}) {
  using S = stretch_t<Shape<A...>, Shape<B...>>;
  if constexpr (SameElement<T, U>::ok && SameShape<Shape<A...>, Shape<B...>>::ok) {
    if constexpr (ElementClassCheck<K, T>::ok) {
      const ir::Value x = a.value();
      return tile_of_t<T, S>(lang::binary(O, x, b.value(), spec_of<T, S>, accuracy, loc));
    } else {
      return a;
    }
  } else {
    return a;
  }
}
template <lang::BinaryOp O, Operands K, class T, int... A, class S>
Tile<T, A...> binary_right(const Tile<T, A...>& a, S s, MathAccuracy accuracy = MathAccuracy::OfKernel,
                           SourceLocation loc = {}) {
  if constexpr (Literal<T, S>::ok && ElementClassCheck<K, T>::ok) {
    const ir::Value x = a.value();
    return Tile<T, A...>(lang::binary(O, x, lang::splat(spec_of<T, Shape<>>, s), Tile<T, A...>::spec, accuracy, loc));
  } else {
    return a;
  }
}
template <lang::BinaryOp O, Operands K, class T, int... A, class S>
Tile<T, A...> binary_left(S s, const Tile<T, A...>& a, MathAccuracy accuracy = MathAccuracy::OfKernel,
                          SourceLocation loc = {}) {
  if constexpr (Literal<T, S>::ok && ElementClassCheck<K, T>::ok) {
    const ir::Value x = lang::splat(spec_of<T, Shape<>>, s);
    return Tile<T, A...>(lang::binary(O, x, a.value(), Tile<T, A...>::spec, accuracy, loc));
  } else {
    return a;
  }
}

template <lang::CompareOp O, class T, int... A, class U, int... B>
auto compared(const Tile<T, A...>& a, const Tile<U, B...>& b) {
  using S = stretch_t<Shape<A...>, Shape<B...>>;
  using Result = tile_of_t<bool, S>;
  const ir::Value x = a.value();
  if constexpr (SameElement<T, U>::ok && SameShape<Shape<A...>, Shape<B...>>::ok) {
    if constexpr (ElementClassCheck<Operands::Comparable, T>::ok)
      return Result(lang::compare(O, x, b.value(), spec_of<T, S>));
  }
  return Result(x);
}
template <lang::CompareOp O, class T, int... A, class S>
Tile<bool, A...> compared_right(const Tile<T, A...>& a, S s) {
  const ir::Value x = a.value();
  if constexpr (Literal<T, S>::ok && ElementClassCheck<Operands::Comparable, T>::ok)
    return Tile<bool, A...>(lang::compare(O, x, lang::splat(spec_of<T, Shape<>>, s), Tile<T, A...>::spec));
  else
    return Tile<bool, A...>(x);
}

/// `a OP b` with a host number on the left is `b OP' a`.
constexpr lang::CompareOp mirrored(lang::CompareOp o) {
  switch (o) {
    case lang::CompareOp::Less: return lang::CompareOp::Greater;
    case lang::CompareOp::LessEqual: return lang::CompareOp::GreaterEqual;
    case lang::CompareOp::Greater: return lang::CompareOp::Less;
    case lang::CompareOp::GreaterEqual: return lang::CompareOp::LessEqual;
    default: return o;
  }
}

template <lang::UnaryOp O, Operands K, class T, int... D>
Tile<T, D...> unary(const Tile<T, D...>& x, MathAccuracy accuracy = MathAccuracy::OfKernel, SourceLocation loc = {}) {
  if constexpr (ElementClassCheck<K, T>::ok)
    return Tile<T, D...>(lang::unary(O, x.value(), Tile<T, D...>::spec, accuracy, loc));
  else
    return x;
}

}  // namespace detail

#define TESSERA_BINARY_OPERATOR(token, Name, Accepted)                                   \
  template <class T, int... A, class U, int... B>                                        \
  auto operator token(const Tile<T, A...>& a, const Tile<U, B...>& b) {                  \
    return detail::binary<lang::BinaryOp::Name, detail::Operands::Accepted>(a, b);       \
  }                                                                                      \
  template <class T, int... A, detail::HostNumber S>                                     \
  auto operator token(const Tile<T, A...>& a, S s) {                                     \
    return detail::binary_right<lang::BinaryOp::Name, detail::Operands::Accepted>(a, s); \
  }                                                                                      \
  template <class T, int... A, detail::HostNumber S>                                     \
  auto operator token(S s, const Tile<T, A...>& a) {                                     \
    return detail::binary_left<lang::BinaryOp::Name, detail::Operands::Accepted>(s, a);  \
  }
TESSERA_BINARY_OPERATOR(+, Add, Numbers)
TESSERA_BINARY_OPERATOR(-, Sub, Numbers)
TESSERA_BINARY_OPERATOR(*, Mul, Numbers)
TESSERA_BINARY_OPERATOR(/, Div, Numbers)
TESSERA_BINARY_OPERATOR(%, Rem, Numbers)
TESSERA_BINARY_OPERATOR(&, And, IntegersOrBool)
TESSERA_BINARY_OPERATOR(|, Or, IntegersOrBool)
TESSERA_BINARY_OPERATOR(^, Xor, IntegersOrBool)
TESSERA_BINARY_OPERATOR(<<, Shl, Integers)
TESSERA_BINARY_OPERATOR(>>, Shr, Integers)
TESSERA_BINARY_OPERATOR(&&, And, Bools)
TESSERA_BINARY_OPERATOR(||, Or, Bools)
#undef TESSERA_BINARY_OPERATOR

#define TESSERA_COMPARISON(token, Name)                                           \
  template <class T, int... A, class U, int... B>                                 \
  auto operator token(const Tile<T, A...>& a, const Tile<U, B...>& b) {           \
    return detail::compared<lang::CompareOp::Name>(a, b);                         \
  }                                                                               \
  template <class T, int... A, detail::HostNumber S>                              \
  auto operator token(const Tile<T, A...>& a, S s) {                              \
    return detail::compared_right<lang::CompareOp::Name>(a, s);                   \
  }                                                                               \
  template <class T, int... A, detail::HostNumber S>                              \
  auto operator token(S s, const Tile<T, A...>& a) {                              \
    return detail::compared_right<detail::mirrored(lang::CompareOp::Name)>(a, s); \
  }
TESSERA_COMPARISON(==, Equal)
TESSERA_COMPARISON(!=, NotEqual)
TESSERA_COMPARISON(<, Less)
TESSERA_COMPARISON(<=, LessEqual)
TESSERA_COMPARISON(>, Greater)
TESSERA_COMPARISON(>=, GreaterEqual)
#undef TESSERA_COMPARISON

template <class T, int... D>
Tile<T, D...> operator-(const Tile<T, D...>& x) {
  return detail::unary<lang::UnaryOp::Neg, detail::Operands::Numbers>(x);
}
template <class T, int... D>
Tile<T, D...> operator+(const Tile<T, D...>& x) {
  return x;
}
template <class T, int... D>
Tile<T, D...> operator~(const Tile<T, D...>& x) {
  return detail::unary<lang::UnaryOp::BitNot, detail::Operands::Integers>(x);
}
template <class T, int... D>
Tile<T, D...> operator!(const Tile<T, D...>& x) {
  return detail::unary<lang::UnaryOp::Not, detail::Operands::Bools>(x);
}

}  // namespace tessera
