// Copying and converting elements between strided arrays in host memory. Casts have the semantics of kernels: one
// rounding, floats to integers saturate and NaN becomes 0, integers to integers wrap, fp8 saturates
// (docs/semantics.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/element.hpp"

namespace tessera::detail {

struct SourceArray {
  ElementType element{};
  const std::byte* base = nullptr;  ///< of element (0, ..., 0)
  std::span<const std::int64_t> dims, strides;
};
struct TargetArray {
  ElementType element{};
  std::byte* base = nullptr;
  std::span<const std::int64_t> strides;  ///< extents are the source's
};

/// Converts element by element; the arrays must not overlap.
void convert(const SourceArray& from, const TargetArray& to);

/// Writes start + i * step for i in [0, count): one rounding to f64 and one to the element type for floats, wrapping
/// for integers.
void write_arange(ElementType, std::uint64_t start_bits, std::uint64_t step_bits, std::byte* to, std::int64_t count);

/// The value of an element, given and returned as raw bits: as f64, or widened to 64 bits by its sign.
std::uint64_t widened_bits(ElementType, std::uint64_t bits);

/// `count` floats or doubles, rounded once to the element type (floating types only).
void store_doubles(ElementType, const double* from, std::byte* to, std::int64_t count);

}  // namespace tessera::detail
