// The rules by operation. Floating-point rules hold for every operand, NaN, infinities and signed zeros included, so
// they need no approximate mode.
#include "passes/fold_rules.hpp"

#include <algorithm>
#include <optional>

#include "passes/values.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

Value splat_of_bits(Builder& b, Type tile, std::uint64_t bits) {
  std::vector<std::byte> bytes(ir::info(tile.elem()).bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(bits >> (8 * i));
  return b.constant(tile, ir::DenseAttr{tile, std::move(bytes), true});
}
Value constant_like(Operation& op, std::int64_t value) {
  Builder b = Builder::before(&op);
  b.loc = op.loc;
  const Type t = op.result().type();
  return b.constant_int(t.elem(), value, t.shape());
}

/// Raw bits of a float splat that equals `value` in its own format.
bool is_float_constant(Value v, double value) {
  if (!v.type().is_float()) return false;
  const auto bits = splat_bits(v);
  return bits && *bits == ir::from_double(v.type().elem(), value);
}

// ---- all operands constant --------------------------------------------------------------------------------------

/// Elementary functions are not folded: the result would differ from the one that the device computes.
bool is_exact(const Operation& op) {
  switch (op.op()) {
    case Op::Exp:
    case Op::Exp2:
    case Op::Log:
    case Op::Log2:
    case Op::Sin:
    case Op::Cos:
    case Op::Tan:
    case Op::SinH:
    case Op::CosH:
    case Op::TanH:
    case Op::Pow:
    case Op::FPowI:
    case Op::Atan2:
    case Op::Rsqrt: return false;
    default: return true;
  }
}

Value fold_elements(Operation& op) {
  if (op.num_operands() == 0 || !is_exact(op) || !op.result().type().is_tile() || op.result().type().is_pointer() ||
      !ir::has_element_semantics(op))
    return {};
  std::vector<std::uint64_t> bits;
  for (const ir::OpOperand& use : op.operands()) {
    const auto b = splat_bits(use.value);
    if (!b) return {};
    bits.push_back(*b);
  }
  Builder b = Builder::before(&op);
  b.loc = op.loc;
  return splat_of_bits(b, op.result().type(), ir::evaluate_element(op, bits));
}

/// Shape operations applied to a splat.
Value fold_moved_splat(Operation& op) {
  if (op.num_operands() == 0 || op.result().type().is_pointer()) return {};
  const auto bits = splat_bits(op.operand(0));
  if (!bits) return {};
  if (op.op() == Op::Cat && splat_bits(op.operand(1)) != bits) return {};
  Builder b = Builder::before(&op);
  b.loc = op.loc;
  return splat_of_bits(b, op.result().type(), *bits);
}

// ---- shapes -----------------------------------------------------------------------------------------------------

/// Merges an operation with an operand made by the same operation: reshape of reshape.
Value of_its_operand(Operation& op) {
  Operation* inner = op.operand(0).def();
  if (!inner || inner->op() != op.op()) return {};
  Builder b = Builder::before(&op);
  b.loc = op.loc;
  return b.create(op.op(), {inner->operand(0)}, {op.result().type()})->result();
}

Value fold_shape(Operation& op) {
  if (op.operand(0).type() == op.result().type()) return op.operand(0);
  return of_its_operand(op);
}

Value fold_permute(Operation& op) {
  const auto& order = op.attr(AttrName::permutation)->as<ir::I32ArrayAttr>()->values;
  if (std::is_sorted(order.begin(), order.end())) return op.operand(0);
  Operation* inner = op.operand(0).def();
  if (!inner || inner->op() != Op::Permute) return {};
  ir::I32ArrayAttr both;
  const auto& first = inner->attr(AttrName::permutation)->as<ir::I32ArrayAttr>()->values;
  for (const std::int32_t axis : order) both.values.push_back(first[static_cast<std::size_t>(axis)]);
  Builder b = Builder::before(&op);
  b.loc = op.loc;
  return b.create(Op::Permute, {inner->operand(0)}, {op.result().type()}, {{AttrName::permutation, both}})->result();
}

// ---- integers ---------------------------------------------------------------------------------------------------

/// A constant operand with which the operation gives x or a constant.
struct Neutral {
  Op op;
  std::int64_t number;
  bool left;                            ///< the number may also be the left operand
  std::optional<std::int64_t> becomes;  ///< the result; none: x
};
constexpr Neutral kNeutral[] = {
    {Op::AddI, 0, true, {}},  {Op::SubI, 0, false, {}}, {Op::MulI, 1, true, {}}, {Op::MulI, 0, true, 0},
    {Op::DivI, 1, false, {}}, {Op::RemI, 1, false, 0},  {Op::AndI, 0, true, 0},  {Op::AndI, -1, true, {}},
    {Op::OrI, 0, true, {}},   {Op::OrI, -1, true, -1},  {Op::XOrI, 0, true, {}}, {Op::ShLI, 0, false, {}},
    {Op::ShRI, 0, false, {}},
};

Value fold_integer(Operation& op) {
  const bool truth = op.result().type().elem() == Elem::I1;  // its only number with all bits set is 1
  for (const Neutral& n : kNeutral) {
    if (n.op != op.op()) continue;
    const std::int64_t number = truth && n.number == -1 ? 1 : n.number;
    for (std::size_t side = n.left ? 0 : 1; side < 2; ++side) {
      if (constant_int(op.operand(side)) != number) continue;
      return n.becomes ? constant_like(op, *n.becomes) : op.operand(1 - side);
    }
  }
  const bool same = op.num_operands() == 2 && op.operand(0) == op.operand(1);
  if (!same) return {};
  switch (op.op()) {
    case Op::AndI:
    case Op::OrI:
    case Op::MaxI:
    case Op::MinI: return op.operand(0);
    case Op::SubI:
    case Op::XOrI: return constant_like(op, 0);
    default: return {};
  }
}

/// A comparison of a constant with a value that is known to be larger.
bool is_below_bound(const Operation& less) {
  const Operation* known = less.operand(1).def();
  const ir::Attribute* predicate = known && known->op() == Op::Assume ? known->attr(AttrName::predicate) : nullptr;
  const auto* bounds = predicate ? predicate->as<ir::BoundedAttr>() : nullptr;
  const auto low = constant_int(less.operand(0));
  return bounds && bounds->lower && low && *low < *bounds->lower &&
         less.enum_attr<ir::ComparisonPredicate>(AttrName::comparison_predicate) == ir::ComparisonPredicate::Less &&
         less.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Signed;
}

/// largest < x and x > largest, of unsigned numbers: the index -1, which is outside of every tensor.
bool is_above_largest(const Operation& op) {
  if (op.enum_attr<ir::Signedness>(AttrName::signedness) != ir::Signedness::Unsigned) return false;
  const auto how = op.enum_attr<ir::ComparisonPredicate>(AttrName::comparison_predicate);
  return (how == ir::ComparisonPredicate::Less && constant_int(op.operand(0)) == -1) ||
         (how == ir::ComparisonPredicate::Greater && constant_int(op.operand(1)) == -1);
}

Value fold_compare(Operation& op) {
  if (is_below_bound(op)) return constant_like(op, 1);
  if (is_above_largest(op)) return constant_like(op, 0);
  if (op.operand(0) != op.operand(1)) return {};
  switch (op.enum_attr<ir::ComparisonPredicate>(AttrName::comparison_predicate)) {
    case ir::ComparisonPredicate::Equal:
    case ir::ComparisonPredicate::LessEqual:
    case ir::ComparisonPredicate::GreaterEqual: return constant_like(op, 1);
    default: return constant_like(op, 0);
  }
}

Value fold_select(Operation& op) {
  if (op.operand(1) == op.operand(2)) return op.operand(1);
  if (const auto c = constant_int(op.operand(0))) return op.operand(*c ? 1 : 2);
  return {};
}

// ---- floats -----------------------------------------------------------------------------------------------------

bool flushes(const Operation& op) { return op.has_attr(AttrName::flush_to_zero); }

/// x * 1, x / 1, x - 0, x + -0. (x + 0 is not x for x = -0.) Not where denormals are flushed.
Value fold_float(Operation& op) {
  if (flushes(op)) return {};
  switch (op.op()) {
    case Op::MulF:
      if (is_float_constant(op.operand(0), 1.0)) return op.operand(1);
      [[fallthrough]];
    case Op::DivF: return is_float_constant(op.operand(1), 1.0) ? op.operand(0) : Value();
    case Op::SubF: return is_float_constant(op.operand(1), 0.0) ? op.operand(0) : Value();
    case Op::AddF:
      if (is_float_constant(op.operand(0), -0.0)) return op.operand(1);
      return is_float_constant(op.operand(1), -0.0) ? op.operand(0) : Value();
    default: return {};
  }
}

/// An operation that is its own inverse: -(-x).
Value fold_involution(Operation& op) {
  Operation* inner = op.operand(0).def();
  return inner && inner->op() == op.op() ? inner->operand(0) : Value();
}

// ---- conversions ------------------------------------------------------------------------------------------------

/// True if every value of `narrow` can be represented in `wide`.
bool holds_all_of(Elem wide, Elem narrow) {
  if (narrow == Elem::BF16 || narrow == Elem::F16) return wide == Elem::F32 || wide == Elem::F64;
  if (narrow == Elem::F8E4M3FN || narrow == Elem::F8E5M2)
    return wide == Elem::F16 || wide == Elem::BF16 || wide == Elem::F32 || wide == Elem::F64;
  return narrow == Elem::F32 && wide == Elem::F64;
}

/// Narrowing to the format that the value was widened from.
Value fold_float_cast(Operation& op) {
  Operation* inner = op.operand(0).def();
  if (!inner || inner->op() != Op::FToF || inner->operand(0).type() != op.result().type()) return {};
  return holds_all_of(inner->result().type().elem(), op.result().type().elem()) ? inner->operand(0) : Value();
}

Value fold_truncation(Operation& op) {
  Operation* inner = op.operand(0).def();
  if (!inner || inner->op() != Op::ExtI) return {};
  return inner->operand(0).type() == op.result().type() ? inner->operand(0) : Value();
}

Value fold_bitcast(Operation& op) {
  if (op.operand(0).type() == op.result().type()) return op.operand(0);
  return of_its_operand(op);
}

// ---- shapes of views --------------------------------------------------------------------------------------------

using Rule = Value (*)(Operation&);
struct RuleFor {
  Op op;
  Rule rule;
};
constexpr RuleFor kRules[] = {
    {Op::Reshape, fold_moved_splat}, {Op::Reshape, fold_shape},       {Op::Broadcast, fold_moved_splat},
    {Op::Broadcast, fold_shape},     {Op::Permute, fold_moved_splat}, {Op::Permute, fold_permute},
    {Op::Extract, fold_moved_splat}, {Op::Cat, fold_moved_splat},     {Op::AddI, fold_integer},
    {Op::SubI, fold_integer},        {Op::MulI, fold_integer},        {Op::DivI, fold_integer},
    {Op::RemI, fold_integer},        {Op::AndI, fold_integer},        {Op::OrI, fold_integer},
    {Op::XOrI, fold_integer},        {Op::ShLI, fold_integer},        {Op::ShRI, fold_integer},
    {Op::MaxI, fold_integer},        {Op::MinI, fold_integer},        {Op::CmpI, fold_compare},
    {Op::Select, fold_select},       {Op::AddF, fold_float},          {Op::SubF, fold_float},
    {Op::MulF, fold_float},          {Op::DivF, fold_float},          {Op::NegF, fold_involution},
    {Op::FToF, fold_float_cast},     {Op::TruncI, fold_truncation},   {Op::Bitcast, fold_bitcast},
};

}  // namespace

Value simplified(Operation& op) {
  if (const Value v = fold_elements(op)) return v;
  for (const RuleFor& r : kRules)
    if (r.op == op.op())
      if (const Value v = r.rule(op)) return v;
  return {};
}

}  // namespace tessera::passes
