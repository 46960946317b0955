// Recording of elementwise operations: which Tile IR operation, signedness, rounding and flags an operator of the
// language has.
#include <cmath>

#include "lang/accuracy.hpp"
#include "lang/ints.hpp"
#include "lang/spec.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/lang/emit.hpp"

namespace tessera::lang {

using ir::AttrName;
using ir::Elem;
using ir::NamedAttr;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

// ---- types ------------------------------------------------------------------------------------------

Type type_of(const TileSpec& spec) { return Type::tile(Type::element(ints::elem_of(spec.element)), shape_of(spec)); }

Value widened(ir::Builder& b, Value v, const TileSpec& spec) {
  const auto shape = shape_of(spec);
  if (v.type().rank() == 0 && !shape.empty() && v.def() && v.def()->op() == Op::Constant) {
    ir::DenseAttr dense = *v.def()->attr(AttrName::value)->as<ir::DenseAttr>();
    dense.type = v.type().with_shape(shape);
    dense.splat = true;
    return b.constant(dense.type, dense);
  }
  return ints::expand(b, v, shape);
}

// ---- one operand --------------------------------------------------------------------------------------------------

namespace {

/// Gives an operation its fast form, if it has one: now, or in finish() when the uses of its result are known.
void choose_form(Operation& op, MathAccuracy accuracy, ElementType element) {
  if (element != ElementType::f32) return;  // Tile IR: approx and flush_to_zero exist for f32 only
  Tracer& tracer = Tracer::current();
  const bool of_kernel = accuracy == MathAccuracy::OfKernel;
  if (of_kernel && tracer.accuracy == Accuracy::OfOutputs) return tracer.decide_later(op);
  if (of_kernel ? tracer.accuracy == Accuracy::Approximate : accuracy == MathAccuracy::Approximate) set_approximate(op);
}

Op unary_code(UnaryOp op, bool floating) {
  switch (op) {
    case UnaryOp::Neg: return floating ? Op::NegF : Op::NegI;
    case UnaryOp::Abs: return floating ? Op::AbsF : Op::AbsI;
    case UnaryOp::BitNot:
    case UnaryOp::Not: return Op::XOrI;
    case UnaryOp::Floor: return Op::Floor;
    case UnaryOp::Ceil: return Op::Ceil;
    case UnaryOp::Sin: return Op::Sin;
    case UnaryOp::Cos: return Op::Cos;
    case UnaryOp::Tan: return Op::Tan;
    case UnaryOp::Sinh: return Op::SinH;
    case UnaryOp::Cosh: return Op::CosH;
    case UnaryOp::Tanh: return Op::TanH;
    case UnaryOp::Exp: return Op::Exp;
    case UnaryOp::Exp2: return Op::Exp2;
    case UnaryOp::Log: return Op::Log;
    case UnaryOp::Log2: return Op::Log2;
    case UnaryOp::Sqrt: return Op::Sqrt;
    case UnaryOp::Rsqrt: return Op::Rsqrt;
  }
  throw InternalError("unary operation without a code");
}

ir::Signedness signedness(ElementType element) {
  return is_signed(element) ? ir::Signedness::Signed : ir::Signedness::Unsigned;
}

}  // namespace

Value unary(UnaryOp op, Value x, const TileSpec& spec, MathAccuracy accuracy, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  if (op == UnaryOp::Abs && !is_float(spec.element) && !is_signed(spec.element)) return x;
  if (op == UnaryOp::BitNot || op == UnaryOp::Not) {
    const Value ones = b.constant_int(ints::elem_of(spec.element), -1, shape_of(spec));
    return b.create(Op::XOrI, {x, ones}, {x.type()})->result();
  }
  if (op == UnaryOp::Neg && !is_float(spec.element) && spec.rank == 0) return ints::sub(b, splat(spec, 0), x);
  Operation* created = b.create(unary_code(op, is_float(spec.element)), {x}, {x.type()});
  // rsqrt has one form only: the fast one is as accurate.
  if (op == UnaryOp::Exp || op == UnaryOp::Exp2 || op == UnaryOp::Tanh || op == UnaryOp::Sqrt)
    choose_form(*created, accuracy, spec.element);
  return created->result();
}

// ---- two operands -------------------------------------------------------------------------------------------------

namespace {

Value float_binary(ir::Builder& b, BinaryOp op, Value x, Value y, const TileSpec& spec, MathAccuracy accuracy) {
  const auto create = [&](Op code) { return b.create(code, {x, y}, {x.type()}); };
  switch (op) {
    case BinaryOp::Add: return create(Op::AddF)->result();
    case BinaryOp::Sub: return create(Op::SubF)->result();
    case BinaryOp::Mul: return create(Op::MulF)->result();
    case BinaryOp::Rem: return create(Op::RemF)->result();
    case BinaryOp::Min: return create(Op::MinF)->result();
    case BinaryOp::Max: return create(Op::MaxF)->result();
    case BinaryOp::Pow: return create(Op::Pow)->result();
    case BinaryOp::Atan2: return create(Op::Atan2)->result();
    case BinaryOp::Div: {
      Operation* division = create(Op::DivF);
      choose_form(*division, accuracy, spec.element);
      return division->result();
    }
    default: throw InternalError("operation without a floating-point form");
  }
}

Value integer_binary(ir::Builder& b, BinaryOp op, Value x, Value y, const TileSpec& spec) {
  const ir::Signedness sign = signedness(spec.element);
  const auto create = [&](Op code, std::initializer_list<NamedAttr> attrs = {}) {
    return b.create(code, {x, y}, {x.type()}, attrs)->result();
  };
  switch (op) {
    case BinaryOp::Add: return ints::add(b, x, y);
    case BinaryOp::Sub: return ints::sub(b, x, y);
    case BinaryOp::Mul: return ints::mul(b, x, y);
    case BinaryOp::Div:
      return create(Op::DivI, {{AttrName::signedness, sign}, {AttrName::rounding, ir::Rounding::Zero}});
    case BinaryOp::CeilDiv:
      return create(Op::DivI, {{AttrName::signedness, sign}, {AttrName::rounding, ir::Rounding::PositiveInf}});
    case BinaryOp::Rem: return create(Op::RemI, {{AttrName::signedness, sign}});
    case BinaryOp::Min: return create(Op::MinI, {{AttrName::signedness, sign}});
    case BinaryOp::Max: return create(Op::MaxI, {{AttrName::signedness, sign}});
    case BinaryOp::And: return create(Op::AndI);
    case BinaryOp::Or: return create(Op::OrI);
    case BinaryOp::Xor: return create(Op::XOrI);
    case BinaryOp::Shl: return create(Op::ShLI);
    case BinaryOp::Shr: return create(Op::ShRI, {{AttrName::signedness, sign}});
    default: throw InternalError("operation without an integer form");
  }
}

}  // namespace

Value binary(BinaryOp op, Value x, Value y, const TileSpec& spec, MathAccuracy accuracy, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  x = widened(b, x, spec);
  y = widened(b, y, spec);
  if (is_float(spec.element)) return float_binary(b, op, x, y, spec, accuracy);
  return integer_binary(b, op, x, y, spec);
}

Value compare(CompareOp op, Value x, Value y, const TileSpec& spec) {
  static constexpr ir::ComparisonPredicate kPredicates[] = {
      ir::ComparisonPredicate::Equal,     ir::ComparisonPredicate::NotEqual, ir::ComparisonPredicate::Less,
      ir::ComparisonPredicate::LessEqual, ir::ComparisonPredicate::Greater,  ir::ComparisonPredicate::GreaterEqual};
  const ir::ComparisonPredicate predicate = kPredicates[static_cast<std::size_t>(op)];
  ir::Builder& b = Tracer::current().here();
  x = widened(b, x, spec);
  y = widened(b, y, spec);
  const Type result = x.type().with_element(Elem::I1);
  if (is_float(spec.element)) {
    // C++: a comparison with NaN is false, but != is true.
    const auto ordering =
        op == CompareOp::NotEqual ? ir::ComparisonOrdering::Unordered : ir::ComparisonOrdering::Ordered;
    return b
        .create(Op::CmpF, {x, y}, {result},
                {{AttrName::comparison_predicate, predicate}, {AttrName::comparison_ordering, ordering}})
        ->result();
  }
  return b
      .create(Op::CmpI, {x, y}, {result},
              {{AttrName::comparison_predicate, predicate}, {AttrName::signedness, signedness(spec.element)}})
      ->result();
}

// ---- three operands -----------------------------------------------------------------------------------------------

Value select(Value condition, Value x, Value y, const TileSpec& spec, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  x = widened(b, x, spec);
  y = widened(b, y, spec);
  condition = widened(b, condition, spec);
  return b.create(Op::Select, {condition, x, y}, {x.type()})->result();
}

Value fused_multiply_add(Value x, Value y, Value z, const TileSpec& spec, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  x = widened(b, x, spec);
  y = widened(b, y, spec);
  z = widened(b, z, spec);
  return b.create(Op::Fma, {x, y, z}, {x.type()})->result();
}

}  // namespace tessera::lang
