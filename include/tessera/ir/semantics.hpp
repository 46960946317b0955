// The meaning of every elementwise operation on one element: used by constant folding, by conditions evaluated on the
// host, and as the reference of the CPU backend. Bits are the element's raw bits in the low end of a 64-bit word; bits
// above the element's width are ignored in operands and zero in results. docs/semantics.md says it in words.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "tessera/ir/operation.hpp"

namespace tessera::ir {

/// An elementwise operation, reduced to what its meaning on one element depends on. Trivially copyable, so that
/// programs can keep it beside their steps and evaluate without touching the IR. Pointers count as i64.
struct ElementOp {
  Op op{};
  Elem source = Elem::I32;    ///< element of the operands (select: of the values; offset: of the offsets)
  Elem result = Elem::I32;    ///< element of the result
  Elem exponent = Elem::I32;  ///< fpowi: element of the exponents
  Rounding rounding = Rounding::NearestEven;
  ComparisonPredicate predicate = ComparisonPredicate::Equal;
  bool is_signed = true;
  bool ordered = true;             ///< cmpf: false = true where an operand is NaN
  bool flush_to_zero = false;      ///< f32 only: denormal operands and results become zero of the same sign
  bool propagate_nan = false;      ///< maxf, minf
  std::uint8_t arity = 0;          ///< number of operands
  std::uint8_t pointee_bytes = 0;  ///< offset: storage of one pointee
  bool operator==(const ElementOp&) const = default;
};

/// The element form of an operation; nullopt if `op` does not work element by element.
std::optional<ElementOp> element_op(const Operation& op);

/// True if `op` works element by element and evaluate_element knows it.
bool has_element_semantics(const Operation& op);

/// Evaluates one element. `operands` are raw bits, in operand order. Where Tile IR leaves the result undefined
/// (division by zero, shift amount >= width, float to integer out of range) the result is Tessera's, defined in
/// docs/semantics.md: x/0 = 0, x%0 = x, shifts by the width or more give 0 (or the sign), float to integer saturates
/// and turns NaN into 0. Neither allocates nor throws, if the operation has element semantics (InternalError
/// otherwise).
std::uint64_t evaluate_element(const ElementOp& op, std::span<const std::uint64_t> operands);
std::uint64_t evaluate_element(const Operation& op, std::span<const std::uint64_t> operands);

/// The number that an element's bits stand for: exact for every format of at most 53 significant bits; i64 is rounded
/// to nearest. Integers are read as signed.
double to_double(Elem, std::uint64_t bits);
/// Bits of `value` in an element's format. Formats of 8 bits and fewer saturate (PTX cvt.satfinite), wider ones
/// overflow as IEEE 754 says. Integers: rounded as asked, saturated to the signed range (i1: 0 or 1), NaN gives 0.
std::uint64_t from_double(Elem, double value, Rounding = Rounding::NearestEven);
/// The number that a padding value of floating-point elements stands for (-0.0 for NegZero).
double padding_number(PaddingValue);
/// The signed reading of an integer element (i1 true is 1).
std::int64_t to_signed(Elem, std::uint64_t bits);

}  // namespace tessera::ir
