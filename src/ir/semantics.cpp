// Which operations work element by element, what their meaning depends on, and the dispatch to integer, floating-point
// and conversion semantics.
#include "tessera/ir/semantics.hpp"

#include <array>
#include <string>

#include "ir/semantics_impl.hpp"
#include "tessera/base/error.hpp"

namespace tessera::ir {
namespace {

using detail::Family;

struct Meaning {
  Op op;
  std::uint8_t arity;
  Family family;
};

constexpr Meaning kMeanings[] = {
    // Integers.
    {Op::AbsI, 1, Family::Integer},
    {Op::AddI, 2, Family::Integer},
    {Op::AndI, 2, Family::Integer},
    {Op::CmpI, 2, Family::Integer},
    {Op::DivI, 2, Family::Integer},
    {Op::MaxI, 2, Family::Integer},
    {Op::MinI, 2, Family::Integer},
    {Op::MulhiI, 2, Family::Integer},
    {Op::MulI, 2, Family::Integer},
    {Op::NegI, 1, Family::Integer},
    {Op::OrI, 2, Family::Integer},
    {Op::RemI, 2, Family::Integer},
    {Op::ShLI, 2, Family::Integer},
    {Op::ShRI, 2, Family::Integer},
    {Op::SubI, 2, Family::Integer},
    {Op::XOrI, 2, Family::Integer},
    // Floating point, rounded once.
    {Op::AbsF, 1, Family::Exact},
    {Op::AddF, 2, Family::Exact},
    {Op::Ceil, 1, Family::Exact},
    {Op::CmpF, 2, Family::Exact},
    {Op::DivF, 2, Family::Exact},
    {Op::Floor, 1, Family::Exact},
    {Op::Fma, 3, Family::Exact},
    {Op::MaxF, 2, Family::Exact},
    {Op::MinF, 2, Family::Exact},
    {Op::MulF, 2, Family::Exact},
    {Op::NegF, 1, Family::Exact},
    {Op::RemF, 2, Family::Exact},
    {Op::Sqrt, 1, Family::Exact},
    {Op::SubF, 2, Family::Exact},
    // Floating point, computed in double and rounded.
    {Op::Atan2, 2, Family::Elementary},
    {Op::Cos, 1, Family::Elementary},
    {Op::CosH, 1, Family::Elementary},
    {Op::Exp, 1, Family::Elementary},
    {Op::Exp2, 1, Family::Elementary},
    {Op::FPowI, 2, Family::Elementary},
    {Op::Log, 1, Family::Elementary},
    {Op::Log2, 1, Family::Elementary},
    {Op::Pow, 2, Family::Elementary},
    {Op::Rsqrt, 1, Family::Elementary},
    {Op::Sin, 1, Family::Elementary},
    {Op::SinH, 1, Family::Elementary},
    {Op::Tan, 1, Family::Elementary},
    {Op::TanH, 1, Family::Elementary},
    // Conversions and what moves bits.
    {Op::Assume, 1, Family::Conversion},
    {Op::Bitcast, 1, Family::Conversion},
    {Op::ExtI, 1, Family::Conversion},
    {Op::FToF, 1, Family::Conversion},
    {Op::FToI, 1, Family::Conversion},
    {Op::IToF, 1, Family::Conversion},
    {Op::IntToPtr, 1, Family::Conversion},
    {Op::Offset, 2, Family::Conversion},
    {Op::PtrToInt, 1, Family::Conversion},
    {Op::PtrToPtr, 1, Family::Conversion},
    {Op::Select, 3, Family::Conversion},
    {Op::TruncI, 1, Family::Conversion},
};

/// Rows by operation; arity 0: not elementwise. (Conditions are evaluated at every launch: no search.)
constexpr auto kByOp = [] {
  std::array<Meaning, 256> rows{};
  for (const Meaning& row : kMeanings) rows[static_cast<std::size_t>(row.op)] = row;
  return rows;
}();

const Meaning* find(Op op) {
  const Meaning& row = kByOp[static_cast<std::size_t>(op)];
  return row.arity != 0 ? &row : nullptr;
}

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
  const Meaning* row = find(op.op());
  if (!row || op.num_operands() != row->arity || op.num_results() != 1) return std::nullopt;
  const Type source = op.operand(deciding_operand(op.op())).type(), result = op.result().type();
  if (!source.is_tile() || !result.is_tile()) return std::nullopt;  // assume also takes views and tokens
  ElementOp e;
  e.op = op.op();
  e.arity = row->arity;
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
  const Meaning* row = find(op.op);
  if (!row || operands.size() < row->arity)
    throw InternalError(std::string("evaluate_element: expected the operands of an elementwise operation, found ") +
                        std::string(info(op.op).mnemonic) + " with " + std::to_string(operands.size()));
  switch (row->family) {
    case Family::Integer: return detail::evaluate_integer(op, operands.data());
    case Family::Exact: return detail::evaluate_exact(op, operands.data());
    case Family::Elementary: return detail::evaluate_elementary(op, operands.data());
    case Family::Conversion: return detail::evaluate_conversion(op, operands.data());
  }
  return 0;
}

std::uint64_t evaluate_element(const Operation& op, std::span<const std::uint64_t> operands) {
  const auto e = element_op(op);
  if (!e) throw InternalError(std::string(op.info().mnemonic) + " does not work element by element");
  return evaluate_element(*e, operands);
}

}  // namespace tessera::ir
