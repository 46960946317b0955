// The meaning of every elementwise operation on one element: used by constant folding, by conditions evaluated on the host,
// and as the reference of the CPU backend. Bits are the element's raw bits in the low end of a 64-bit word.
#pragma once
#include <cstdint>
#include <span>

#include "tessera/ir/operation.hpp"

namespace tessera::ir {

/// True if `op` works element by element and evaluate_element knows it.
bool has_element_semantics(const Operation& op);

/// Evaluates one element. `operands` are raw bits, in operand order. Where Tile IR leaves the result undefined (division by zero,
/// shift amount >= width, float to integer out of range) the result is Tessera's: x/0 = 0 ("zero" quotient), x%0 = x... see
/// docs/semantics.md, the one place that defines them.
std::uint64_t evaluate_element(const Operation& op, std::span<const std::uint64_t> operands);

/// Conversions between an element's bits and double / int64 (exact where the format allows it).
double to_double(Elem, std::uint64_t bits);
std::uint64_t from_double(Elem, double value, Rounding = Rounding::NearestEven);
std::int64_t to_signed(Elem, std::uint64_t bits);

}  // namespace tessera::ir
