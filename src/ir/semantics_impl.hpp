// What the files of the element semantics share.
#pragma once
#include <cstdint>

#include "tessera/ir/semantics.hpp"

namespace tessera::ir::detail {

std::uint64_t evaluate_integer(const ElementOp&, const std::uint64_t* operands);
std::uint64_t evaluate_exact(const ElementOp&, const std::uint64_t* operands);
std::uint64_t evaluate_elementary(const ElementOp&, const std::uint64_t* operands);
std::uint64_t evaluate_conversion(const ElementOp&, const std::uint64_t* operands);

inline int width(Elem e) { return info(e).bits; }
inline std::uint64_t mask(int bits) { return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; }
inline std::uint64_t zero_extended(std::uint64_t v, int bits) { return v & mask(bits); }
inline std::int64_t sign_extended(std::uint64_t v, int bits) {
  return static_cast<std::int64_t>(v << (64 - bits)) >> (64 - bits);
}
/// f32 with flush_to_zero: a denormal becomes zero of its sign.
inline std::uint64_t flushed(const ElementOp& op, std::uint64_t bits) {
  const bool denormal = (bits & 0x7F800000u) == 0;
  return op.flush_to_zero && op.source == Elem::F32 && denormal ? bits & 0x80000000u : bits;
}
bool is_nan(Elem, std::uint64_t bits);
std::uint64_t canonical_nan(Elem);
bool compare(ComparisonPredicate, bool less, bool equal);

}  // namespace tessera::ir::detail
