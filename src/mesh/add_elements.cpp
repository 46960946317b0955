// Sums by element type.
#include "mesh/add_elements.hpp"

#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/mesh/communicator.hpp"

namespace tessera::mesh {

namespace {

template <class T>
constexpr bool kAdds = (element_class<T> == ElementClass::Float && sizeof(T) > 1 && !std::is_same_v<T, tf32>) ||
                       element_class<T> == ElementClass::Signed || element_class<T> == ElementClass::Unsigned;

/// What sums of T are made in.
template <class T>
using Sum =
    std::conditional_t<element_class<T> == ElementClass::Float, std::conditional_t<sizeof(T) == 8, f64, f32>, u64>;

template <class T>
void add(std::span<const std::byte* const> parts, std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * sizeof(T);
    Sum<T> sum{};
    for (std::size_t part = 0; part < parts.size(); ++part) {
      T value;
      std::memcpy(&value, parts[part] + at, sizeof value);
      sum = part == 0 ? static_cast<Sum<T>>(value) : static_cast<Sum<T>>(sum + static_cast<Sum<T>>(value));  // keeps -0
    }
    const T rounded = static_cast<T>(sum);
    std::memcpy(to + at, &rounded, sizeof rounded);
  }
}

}  // namespace

bool can_add(ElementType element) noexcept {
  switch (element) {
#define TESSERA_ELEMENT(name, host, ir, bits, cls) \
  case ElementType::name: return kAdds<host>;
#include "tessera/base/element_types.def"
  }
  return false;
}

void add_elements(ElementType element, std::span<const std::byte* const> parts, std::int64_t count, std::byte* to) {
  switch (element) {
#define TESSERA_ELEMENT(name, host, ir, bits, cls)                 \
  case ElementType::name:                                          \
    if constexpr (kAdds<host>) return add<host>(parts, count, to); \
    break;
#include "tessera/base/element_types.def"
  }
  throw InternalError("sums of an element type that can_add() rejects");
}

}  // namespace tessera::mesh
