// What the meaning of an elementwise operation depends on, and the dispatch to integer, floating-point and conversion
// semantics.
#include "tessera/ir/semantics.hpp"

#include <string>

#include "ir/semantics_impl.hpp"
#include "tessera/base/error.hpp"

namespace tessera::ir {
namespace {

Elem elem_or_address(Type t) { return t.is_pointer() ? Elem::I64 : t.elem(); }

/// Operand whose element type decides the meaning.
std::size_t deciding_operand(Op op) { return op == Op::Select || op == Op::Offset ? 1 : 0; }

void read_attributes(const Operation& op, ElementOp& e) {
  const Rounding implied = op.op() == Op::DivI ? Rounding::Zero : Rounding::NearestEven;
  const AttrName name = op.op() == Op::DivI ? AttrName::rounding : AttrName::rounding_mode;
  e.rounding = op.enum_attr(name, implied);
  e.predicate = op.enum_attr(AttrName::comparison_predicate, ComparisonPredicate::Equal);
  e.is_signed = op.enum_attr(AttrName::signedness, Signedness::Signed) == Signedness::Signed;
  e.ordered = op.enum_attr(AttrName::comparison_ordering, ComparisonOrdering::Ordered) == ComparisonOrdering::Ordered;
  e.flush_to_zero = op.has_attr(AttrName::flush_to_zero);
  e.propagate_nan = op.has_attr(AttrName::propagate_nan);
}

}  // namespace

std::optional<ElementOp> element_op(const Operation& op) {
  const OpInfo& row = op.info();
  if (!row.has(traits::Elementwise) || op.num_operands() != row.operands.size() || op.num_results() != 1)
    return std::nullopt;
  const Type source = op.operand(deciding_operand(op.op())).type(), result = op.result().type();
  if (!source.is_tile() || !result.is_tile()) return std::nullopt;  // assume also takes views and tokens
  ElementOp e;
  e.op = op.op();
  e.arity = static_cast<std::uint8_t>(op.num_operands());
  e.source = elem_or_address(source);
  e.result = elem_or_address(result);
  if (e.op == Op::Offset) {
    const Type pointee = op.operand(0).type();
    e.pointee_bytes = info(pointee.elem()).bytes;
  }
  if (e.op == Op::FPowI) e.exponent = elem_or_address(op.operand(1).type());
  read_attributes(op, e);
  return e;
}

bool has_element_semantics(const Operation& op) { return element_op(op).has_value(); }

std::uint64_t evaluate_element(const ElementOp& op, std::span<const std::uint64_t> operands) {
  const OpInfo& row = info(op.op);
  if (!row.has(traits::Elementwise) || operands.size() < row.operands.size())
    throw InternalError(std::string("evaluate_element: expected the operands of an elementwise operation, found ") +
                        std::string(row.mnemonic) + " with " + std::to_string(operands.size()));
  if (row.has(traits::Integer)) return detail::evaluate_integer(op, operands.data());
  if (row.has(traits::Exact)) return detail::evaluate_exact(op, operands.data());
  if (row.has(traits::Elementary)) return detail::evaluate_elementary(op, operands.data());
  return detail::evaluate_conversion(op, operands.data());
}

std::uint64_t evaluate_element(const Operation& op, std::span<const std::uint64_t> operands) {
  const auto e = element_op(op);
  if (!e) throw InternalError(std::string(op.info().mnemonic) + " does not work element by element");
  return evaluate_element(*e, operands);
}

}  // namespace tessera::ir
