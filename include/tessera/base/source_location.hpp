// A place in the user's program. A trimmed std::source_location: copyable, comparable, and
// constructible from stored strings, so that locations survive in IR, in caches and in error texts.
#pragma once
#include <cstdint>

namespace tessera {

struct SourceLocation {
  const char* file = "";      ///< static or interned storage; never freed
  const char* function = "";  ///< same
  std::uint32_t line = 0;     ///< 1-based; 0 means unknown
  std::uint32_t column = 0;

  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          const char* function = __builtin_FUNCTION(),
                                          std::uint32_t line = __builtin_LINE()) {
    return {file, function, line, 0};
  }
  constexpr bool known() const { return line != 0; }
  constexpr bool operator==(const SourceLocation&) const = default;
};

}  // namespace tessera
