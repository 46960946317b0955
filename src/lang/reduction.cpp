// Recording of reductions and scans: built-in ones, arg-extremes over (value, index) pairs, and regions given by
// functions.
#include <cmath>
#include <exception>

#include "lang/ints.hpp"
#include "lang/literal.hpp"
#include "lang/spec.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/semantics.hpp"
#include "tessera/lang/emit.hpp"

namespace tessera::lang {

using ir::AttrName;
using ir::Block;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

ir::Attribute integer_attr(Elem e, std::int64_t v) { return ir::IntAttr{e, v}; }
ir::Attribute float_attr(Elem e, double v) { return ir::FloatAttr{e, ir::from_double(e, v)}; }

std::int64_t extreme_integer(ElementType t, bool largest) {
  const int bits = info(t).bits;
  if (!is_signed(t)) return largest ? -1 : 0;
  const auto smallest = static_cast<std::int64_t>(~std::uint64_t{0} << (bits - 1));
  return largest ? -(smallest + 1) : smallest;
}

/// The greatest (least) value of the type.
ir::Attribute bound_attr(bool above, ElementType t) {
  const Elem e = ints::elem_of(t);
  return is_float(t) ? float_attr(e, above ? HUGE_VAL : -HUGE_VAL) : integer_attr(e, extreme_integer(t, above));
}

ir::Attribute identity_attr(ReduceOp op, ElementType t) {
  const Elem e = ints::elem_of(t);
  const bool floating = is_float(t);
  switch (op) {
    case ReduceOp::Add: return floating ? float_attr(e, 0.0) : integer_attr(e, 0);
    case ReduceOp::Mul: return floating ? float_attr(e, 1.0) : integer_attr(e, 1);
    // The identity of max and min is NaN: a NaN loses against every number, so elements of NaN alone give NaN, whether
    // a device combines the identity or not. An infinity would win against NaN.
    case ReduceOp::Max: return floating ? float_attr(e, NAN) : bound_attr(false, t);
    case ReduceOp::Min: return floating ? float_attr(e, NAN) : bound_attr(true, t);
    case ReduceOp::And: return integer_attr(e, -1);
    case ReduceOp::Or: return integer_attr(e, 0);
  }
  throw InternalError("reduction without an identity");
}

BinaryOp combination(ReduceOp op) {
  switch (op) {
    case ReduceOp::Add: return BinaryOp::Add;
    case ReduceOp::Mul: return BinaryOp::Mul;
    case ReduceOp::Max: return BinaryOp::Max;
    case ReduceOp::Min: return BinaryOp::Min;
    case ReduceOp::And: return BinaryOp::And;
    case ReduceOp::Or: return BinaryOp::Or;
  }
  throw InternalError("reduction without a combination");
}

TileSpec scalar_of(ElementType t) {
  static constexpr int kNone[] = {0};
  return {t, 0, kNone};
}

std::vector<std::int64_t> without_axis(Type t, int axis) {
  std::vector<std::int64_t> shape(t.shape().begin(), t.shape().end());
  shape.erase(shape.begin() + axis);
  return shape;
}
std::vector<std::int64_t> with_unit_axis(Type t, int axis) {
  std::vector<std::int64_t> shape(t.shape().begin(), t.shape().end());
  shape[static_cast<std::size_t>(axis)] = 1;
  return shape;
}

/// A reduce or scan whose region has its arguments and nothing else.
Operation* create_aggregate(Builder& b, Op op, std::span<const Value> operands, int axis,
                            std::vector<ir::Attribute> identities) {
  std::vector<Type> results;
  for (Value v : operands)
    results.push_back(op == Op::Reduce ? v.type().with_shape(without_axis(v.type(), axis)) : v.type());
  Operation* created = b.create(
      op, operands, results,
      {{AttrName::dim, ir::IntAttr{Elem::I64, axis}}, {AttrName::identities, ir::ArrayAttr{std::move(identities)}}});
  Block& body = created->add_region();
  for (Value v : operands) {
    const Type element = v.type().with_shape({});
    body.add_arg(element);
    body.add_arg(element);
  }
  return created;
}

/// Fills the region with one built-in combination.
Value fill(Operation* op, ReduceOp kind, ElementType element, SourceLocation loc) {
  Tracer& tracer = Tracer::current();
  tracer.open_combiner(op, loc);
  const Value result = binary(combination(kind), op->region(0).arg(0), op->region(0).arg(1), scalar_of(element),
                              MathAccuracy::OfKernel, loc);
  tracer.here().create(Op::Yield, {result}, {});
  tracer.close();
  return op->result();
}

}  // namespace

namespace {

/// True where checked mode looks for a result that has wrapped: sums and products of signed integers of up to 32 bits.
/// Unsigned ones are sums and products modulo 2^n, as in C++.
bool may_wrap(ReduceOp kind, ElementType t) {
  return (kind == ReduceOp::Add || kind == ReduceOp::Mul) && !is_float(t) && is_signed(t) && info(t).bits <= 32;
}

/// Checked mode: asserts that `result` is what the same sums of 64 bits give. `again` computes those.
template <class F>
void assert_exact(ReduceOp kind, Value x, Value result, ElementType t, SourceLocation loc, F again) {
  Tracer& tracer = Tracer::current();
  if (!tracer.checked || !may_wrap(kind, t)) return;
  const Value exact = again(ints::extend(tracer.at(loc), x, Elem::I64, true));
  Builder& b = tracer.at(loc);
  const Value same = ints::equal(b, ints::extend(b, result, Elem::I64, true), exact);
  const char* what = kind == ReduceOp::Add ? "sum" : "product";
  b.create(
      Op::Assert, {same}, {},
      {{AttrName::message, concat("a ", what, " wraps: it does not fit ", info(t).name, "; name a wider type, as in ",
                                  kind == ReduceOp::Add ? "sum" : "prod", "<i64>(tile)")}});
}

}  // namespace

Value reduce(ReduceOp kind, Value x, const TileSpec& spec, int axis, SourceLocation loc) {
  Builder& b = Tracer::current(loc).at(loc);
  if (spec.extents[axis] == 1) return x;
  Operation* op = create_aggregate(b, Op::Reduce, std::span(&x, 1), axis, {identity_attr(kind, spec.element)});
  const Value result = ints::reshape(b, fill(op, kind, spec.element, loc), with_unit_axis(x.type(), axis));
  assert_exact(kind, x, result, spec.element, loc, [&](Value wide) {
    return reduce(kind, wide, {ElementType::i64, spec.rank, spec.extents}, axis, loc);
  });
  return result;
}

Value reduce_all(ReduceOp kind, Value x, const TileSpec& spec, SourceLocation loc) {
  Builder& b = Tracer::current(loc).at(loc);
  const std::int64_t size = x.type().num_elements();
  if (size == 1) return ints::reshape(b, x, {});
  const Value flat = ints::reshape(b, x, std::span(&size, 1));
  Operation* op = create_aggregate(b, Op::Reduce, std::span(&flat, 1), 0, {identity_attr(kind, spec.element)});
  const Value result = fill(op, kind, spec.element, loc);
  assert_exact(kind, x, result, spec.element, loc, [&](Value wide) {
    return reduce_all(kind, wide, {ElementType::i64, spec.rank, spec.extents}, loc);
  });
  return result;
}

Value scan(ReduceOp kind, Value x, const TileSpec& spec, int axis, bool reverse, SourceLocation loc) {
  Builder& b = Tracer::current(loc).at(loc);
  if (spec.extents[axis] == 1) return x;
  Operation* op = create_aggregate(b, Op::Scan, std::span(&x, 1), axis, {identity_attr(kind, spec.element)});
  op->set_attr(AttrName::reverse, reverse);
  const Value result = fill(op, kind, spec.element, loc);
  assert_exact(kind, x, result, spec.element, loc, [&](Value wide) {
    return scan(kind, wide, {ElementType::i64, spec.rank, spec.extents}, axis, reverse, loc);
  });
  return result;
}

// ---- value and index ------------------------------------------------------------------------------------------------

namespace {

/// Whether (v, i) comes before (best, best_i): more extreme, NaN most of all, then the lower index.
Value comes_first(Builder& b, bool largest, ElementType element, Value v, Value best, Value i, Value best_i) {
  const TileSpec spec = scalar_of(element), flag = scalar_of(ElementType::boolean),
                 number = scalar_of(ElementType::i32);
  const auto all_of = [&](Value x, Value y) {
    return binary(BinaryOp::And, x, y, flag, MathAccuracy::OfKernel, b.loc);
  };
  const auto any_of = [&](Value x, Value y) { return binary(BinaryOp::Or, x, y, flag, MathAccuracy::OfKernel, b.loc); };
  const Value beyond = compare(largest ? CompareOp::Greater : CompareOp::Less, v, best, spec);
  const Value same = compare(CompareOp::Equal, v, best, spec);
  const Value lower = compare(CompareOp::Less, i, best_i, number);
  Value first = any_of(beyond, all_of(same, lower));
  if (!is_float(element)) return first;
  const Value v_nan = compare(CompareOp::NotEqual, v, v, spec),
              best_nan = compare(CompareOp::NotEqual, best, best, spec);
  // With best a NaN, `first` is false unless v is one too and has the lower index.
  return any_of(first, all_of(v_nan, any_of(compare(CompareOp::Equal, best_nan, splat(flag, 0), flag), lower)));
}

}  // namespace

Extremum reduce_extremum(bool largest, Value x, const TileSpec& spec, int axis, SourceLocation loc) {
  Tracer& tracer = Tracer::current();
  Builder& b = tracer.at(loc);
  const auto line = ints::iota(b, Elem::I32, axis, x.type().shape());
  const Value operands[] = {x, ints::expand(b, line, x.type().shape())};
  Operation* op = create_aggregate(b, Op::Reduce, operands, axis,
                                   {bound_attr(!largest, spec.element), integer_attr(Elem::I32, INT32_MAX)});
  tracer.open_combiner(op, loc);
  const Block& body = op->region(0);
  const Value v = body.arg(0), best = body.arg(1), i = body.arg(2), best_i = body.arg(3);
  const Value first = comes_first(b, largest, spec.element, v, best, i, best_i);
  const Value value = b.create(Op::Select, {first, v, best}, {v.type()})->result();
  const Value index = b.create(Op::Select, {first, i, best_i}, {i.type()})->result();
  b.create(Op::Yield, {value, index}, {});
  tracer.close();
  const auto shape = with_unit_axis(x.type(), axis);
  const Value kept = ints::reshape(b, op->result(0), shape);
  return {kept, ints::reshape(b, op->result(1), shape)};
}

// ---- functions of the user ------------------------------------------------------------------------------------------

namespace {

Combiner combiner_of(Operation* op) { return {op, op->region(0).arg(0), op->region(0).arg(1)}; }

}  // namespace

Combiner open_reduce(Value x, const TileSpec& spec, int axis, const HostValue& identity, SourceLocation loc) {
  Builder& b = Tracer::current(loc).at(loc);
  return combiner_of(
      create_aggregate(b, Op::Reduce, std::span(&x, 1), axis, {literal_attr(spec.element, identity, loc)}));
}

Combiner open_scan(Value x, const TileSpec& spec, int axis, bool reverse, const HostValue& identity,
                   SourceLocation loc) {
  Builder& b = Tracer::current(loc).at(loc);
  Operation* op = create_aggregate(b, Op::Scan, std::span(&x, 1), axis, {literal_attr(spec.element, identity, loc)});
  op->set_attr(AttrName::reverse, reverse);
  return combiner_of(op);
}

CombinerRegion::CombinerRegion(const Combiner& combiner) : op_(combiner.op) {
  Tracer::current().open_combiner(op_, Tracer::current().location());
}

CombinerRegion::~CombinerRegion() {
  if (open_) Tracer::current().abandon();
}

Value CombinerRegion::close(Value result) {
  Tracer& tracer = Tracer::current();
  tracer.here().create(Op::Yield, {result}, {});
  open_ = false;
  tracer.close();
  return op_->result();
}

}  // namespace tessera::lang
