// Constant<T>: a value of the host that a kernel is specialized by. Inside the kernel it is an ordinary host value, so
// plain `if`, loop bounds and `switch` may use it; a launch takes an ordinary T, and each value has a recording of its
// own.
#pragma once
#include <cstdint>
#include <type_traits>

#include "tessera/base/element.hpp"

namespace tessera {
namespace detail {

/// bool, integers, enumerations and floating-point numbers of up to 64 bits.
template <class T>
inline constexpr bool is_constant_type = (std::is_arithmetic_v<T> || std::is_enum_v<T>)&&sizeof(T) <= 8;
template <Element T>
inline constexpr bool is_constant_type<T> = true;

/// The element type that holds the values of T; for an enumeration those of its underlying type.
template <class T>
constexpr ElementType constant_element() {
  if constexpr (Element<T>) {
    return element_type<T>;
  } else if constexpr (std::is_enum_v<T>) {
    return constant_element<std::underlying_type_t<T>>();
  } else {  // long long, char, ...: the integer of its size and sign
    constexpr ElementType of_size[2][4] = {{ElementType::u8, ElementType::u16, ElementType::u32, ElementType::u64},
                                           {ElementType::i8, ElementType::i16, ElementType::i32, ElementType::i64}};
    return of_size[std::is_signed_v<T>][sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3];
  }
}

}  // namespace detail

/// A kernel parameter: any bool, integer, enumeration or floating-point number that the call passes. Values are
/// distinguished by their bits (0.0 and -0.0 are two values).
template <class T>
class Constant {
  static_assert(detail::is_constant_type<T>,
                "a Constant<T> holds a bool, an integer, an enumeration or a floating-point number of up to 64 bits");

 public:
  using value_type = T;
  explicit constexpr Constant(T value) noexcept : value_(value) {}
  Constant(const Constant&) = default;
  Constant& operator=(const Constant&) = delete;            // it is constant in the whole recording
  constexpr operator T() const noexcept { return value_; }  // NOLINT(google-explicit-constructor): intended
  constexpr operator float() const noexcept  // NOLINT(google-explicit-constructor): as f16 and its like convert
    requires(!std::is_arithmetic_v<T> && !std::is_enum_v<T>)
  {
    return static_cast<float>(value_);
  }

 private:
  T value_;
};

namespace detail {

/// The host number that an argument represents: a Constant<T> gives its T, anything else itself.
template <class X>
struct HostValueOf {
  using type = X;
};
template <class T>
struct HostValueOf<Constant<T>> {
  using type = T;
};
template <class X>
using host_value_t = typename HostValueOf<X>::type;

/// An integer of the host, except bool.
template <class X>
inline constexpr bool is_host_integer = std::is_integral_v<host_value_t<X>> && !std::is_same_v<host_value_t<X>, bool>;

}  // namespace detail
}  // namespace tessera
