// Element types of the language: host types, the enumeration that stands for them at run time, and the map between
// both.
#pragma once
#include <cstdint>
#include <type_traits>

#include "tessera/base/float_types.hpp"

namespace tessera {

using f64 = double;
using f32 = float;
using i64 = std::int64_t;
using i32 = std::int32_t;
using i16 = std::int16_t;
using i8 = std::int8_t;
using u64 = std::uint64_t;
using u32 = std::uint32_t;
using u16 = std::uint16_t;
using u8 = std::uint8_t;
using boolean = bool;

enum class ElementType : std::uint8_t {
#define TESSERA_ELEMENT(name, ...) name,
#include "tessera/base/element_types.def"
};
enum class ElementClass : std::uint8_t { Float, Signed, Unsigned, Bool };

struct ElementInfo {
  const char* name;   ///< spelling in kernels ("f32"; bool is "bool")
  std::uint8_t bits;  ///< in memory
  ElementClass cls;
};
const ElementInfo& info(ElementType);
inline int size_of(ElementType t) { return info(t).bits / 8; }

namespace detail {
template <class T>
struct ElementOf {};
#define TESSERA_ELEMENT(name, host, ir, bits, cls)                   \
  template <>                                                        \
  struct ElementOf<host> {                                           \
    static constexpr ElementType value = ElementType::name;          \
    static constexpr ElementClass element_class = ElementClass::cls; \
  };
#include "tessera/base/element_types.def"
}  // namespace detail

/// T is one of the element types of the language.
template <class T>
concept Element = requires { detail::ElementOf<T>::value; };
template <Element T>
inline constexpr ElementType element_type = detail::ElementOf<T>::value;
template <Element T>
inline constexpr ElementClass element_class = detail::ElementOf<T>::element_class;

}  // namespace tessera
