// Sums of the ranks' elements, in the order of the ranks: the same bits on every rank.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/element.hpp"

namespace tessera::mesh {

/// to[i] = parts[0][i] + parts[1][i] + ... for `count` elements. Floating-point numbers of at most 32 bits are added in
/// f32 and rounded once, f64 in f64; integers wrap. The element type is one of can_add(). No alignment is needed.
void add_elements(ElementType element, std::span<const std::byte* const> parts, std::int64_t count, std::byte* to);

}  // namespace tessera::mesh
