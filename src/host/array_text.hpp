// Text of an array of numbers, summarised as NumPy does it. Works on memory, extents and strides, not on tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tessera/base/element.hpp"

namespace tessera::detail {

struct ArrayView {
  ElementType element{};
  const std::byte* base = nullptr;  ///< of element (0, ..., 0)
  std::span<const std::int64_t> dims;
  std::span<const std::int64_t> strides;  ///< in elements
};

struct TextOptions {
  int threshold = 1000;  ///< arrays with more elements are summarised
  int edge = 3;          ///< elements shown at each end of a summarised axis
  int decimals = 4;      ///< at most, for floating-point values
  int width = 100;       ///< columns before a row is wrapped
};

/// Nested brackets, aligned columns, `...` where an axis is summarised. Empty arrays are "[]".
std::string array_text(const ArrayView&, const TextOptions& = {});

}  // namespace tessera::detail
