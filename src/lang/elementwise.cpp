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

/// The operations behind a row of elementwise.def.
struct Codes {
  Op floating, integer;
};
constexpr Codes kUnary[] = {
#define TESSERA_LANG_UNARY(Name, floating, integer) {Op::floating, Op::integer},
#define TESSERA_LANG_UNARY_FUNCTION(Name, function, operands, floating, integer) {Op::floating, Op::integer},
#include "tessera/lang/elementwise.def"
};
constexpr Codes kBinary[] = {
#define TESSERA_LANG_BINARY(Name, floating, integer) {Op::floating, Op::integer},
#define TESSERA_LANG_BINARY_FUNCTION(Name, function, operands, floating, integer) {Op::floating, Op::integer},
#include "tessera/lang/elementwise.def"
};
Op code_of(const Codes& codes, ElementType element) {
  const Op code = is_float(element) ? codes.floating : codes.integer;
  const bool of_floats = ir::info(code).operands.front().type_class == ir::TypeClass::Float;
  if (of_floats != is_float(element))
    throw InternalError(concat("the language has no ", ir::info(code).mnemonic, " of ",
                               is_float(element) ? "floating-point" : "integer", " elements"));
  return code;
}

/// exp, tanh and what is rounded in a given direction have fast forms. (rsqrt has one form only: it is as accurate.)
bool has_fast_form(Op op) {
  return op == Op::Exp || op == Op::Exp2 || op == Op::TanH || op == Op::Sqrt || op == Op::DivF;
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
  Operation* created = b.create(code_of(kUnary[static_cast<std::size_t>(op)], spec.element), {x}, {x.type()});
  if (has_fast_form(created->op())) choose_form(*created, accuracy, spec.element);
  return created->result();
}

// ---- two operands -------------------------------------------------------------------------------------------------

Value binary(BinaryOp op, Value x, Value y, const TileSpec& spec, MathAccuracy accuracy, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  x = widened(b, x, spec);
  y = widened(b, y, spec);
  const Op code = code_of(kBinary[static_cast<std::size_t>(op)], spec.element);
  switch (code) {  // of constants there is nothing to record
    case Op::AddI: return ints::add(b, x, y);
    case Op::SubI: return ints::sub(b, x, y);
    case Op::MulI: return ints::mul(b, x, y);
    default: break;
  }
  Operation* created = b.create(code, {x, y}, {x.type()});
  if (created->info().attribute(AttrName::signedness) != nullptr)
    created->set_attr(AttrName::signedness, signedness(spec.element));
  if (code == Op::DivI)
    created->set_attr(AttrName::rounding, op == BinaryOp::CeilDiv ? ir::Rounding::PositiveInf : ir::Rounding::Zero);
  if (has_fast_form(code)) choose_form(*created, accuracy, spec.element);
  return created->result();
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
