// Cheaper forms of operations marked approximate, within the bounds of docs/semantics.md for every operand. NVIDIA GPUs
// compute a / b as a * rcp(b), and a square root and exp2 in one instruction each. Without flush_to_zero the assembler
// adds a comparison and two multiplications to each, for denormal operands and results; and rcp of more than 2^126 is
// zero (PTX ISA, div.approx).
#include <cmath>
#include <vector>

#include "passes/values.hpp"
#include "tessera/analysis/float_range.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using analysis::float_range;
using analysis::FloatRange;
using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Rounding;
using ir::Value;

namespace {

constexpr double kLog2E = 1.44269504088896340736;
// Between these bounds (with room for the rounding that float_range ignores) neither an operand nor its reciprocal is
// denormal.
constexpr double kTiny = 0x1p-120, kHuge = 0x1p120;
constexpr double kMaxTerm = 0x1p100;  // added to any finite number, it gives a finite one
/// A divisor shared by at least this many quotients is scaled before it is broadcast.
constexpr std::int64_t kShared = 4;

bool is_approximate(const Operation& op) {
  return op.num_results() == 1 && op.result().type().is_tile() && op.result().type().elem() == ir::Elem::F32 &&
         op.enum_attr<Rounding>(AttrName::rounding_mode, Rounding::NearestEven) == Rounding::Approx;
}

/// exp is a multiplication and exp2, whose denormal results Tile IR lets us flush.
void relax_exp(Operation& op) {
  ir::Builder b = ir::Builder::before(&op);
  b.loc = op.loc;
  const ir::Type t = op.result().type();
  const Value scaled =
      b.create(Op::MulF, {op.operand(0), b.constant_float(ir::Elem::F32, kLog2E, t.shape())}, {t})->result();
  const Value result = b.create(Op::Exp2, {scaled}, {t}, {{AttrName::flush_to_zero, ir::UnitAttr{}}})->result();
  op.result().replace_all_uses_with(result);
  op.erase();
}

bool never_denormal(const FloatRange& r) { return r.least >= kTiny; }
bool never_huge(const FloatRange& r) { return r.low >= -kHuge && r.high <= kHuge; }

bool flush(Operation& op) {
  if (op.has_attr(AttrName::flush_to_zero)) return false;
  op.set_attr(AttrName::flush_to_zero, ir::UnitAttr{});
  return true;
}

/// Elementwise, a power of two that scales a divisor into [2^-100, 2^100]; 1 for divisors already there. Where the
/// scaled dividend overflows or underflows, so does the quotient.
Value scale_of(ir::Builder& b, Value divisor) {
  const ir::Type t = divisor.type();
  const auto number = [&](double x) { return b.constant_float(ir::Elem::F32, x, t.shape()); };
  const Value size = b.create(Op::AbsF, {divisor}, {t})->result();
  const auto choose = [&](ir::ComparisonPredicate p, double limit, double scale, Value otherwise) {
    const Value beyond = b.create(Op::CmpF, {size, number(limit)}, {t.with_element(ir::Elem::I1)},
                                  {{AttrName::comparison_predicate, p},
                                   {AttrName::comparison_ordering, ir::ComparisonOrdering::Ordered}})
                             ->result();
    return b.create(Op::Select, {beyond, number(scale), otherwise}, {t})->result();
  };
  const Value large = choose(ir::ComparisonPredicate::Greater, 0x1p100, 0x1p-60, number(1));
  return choose(ir::ComparisonPredicate::Less, 0x1p-100, 0x1p60, large);
}

/// a / b = (a * s) / (b * s), where b * s is computed once for all that share it.
void scale_division(Operation& op, Operation& broadcast) {
  ir::Builder b = ir::Builder::before(&broadcast);
  b.loc = op.loc;
  const Value small = broadcast.operand(0);
  const ir::Type narrow = small.type(), wide = op.result().type();
  const Value scale = scale_of(b, small);
  const Value divisor = b.create(Op::MulF, {small, scale}, {narrow})->result();
  b = ir::Builder::before(&op);
  b.loc = op.loc;
  const auto spread = [&](Value v) { return b.create(Op::Broadcast, {v}, {wide})->result(); };
  op.set_operand(0, b.create(Op::MulF, {op.operand(0), spread(scale)}, {wide})->result());
  op.set_operand(1, spread(divisor));
  flush(op);
}

// b / 16 is at most 2^124, whose reciprocal is a normal number whatever its last bit.
constexpr double kSixteenth = 0x1p-4;

/// b / 16, exactly, for numbers that are never denormal; a sum of a number and a constant without another operation.
Value sixteenth(ir::Builder& b, Value divisor) {
  const ir::Type t = divisor.type();
  const auto number = [&](double x) { return b.constant_float(ir::Elem::F32, x, t.shape()); };
  const Operation* sum = divisor.def();
  if (sum != nullptr && sum->op() == Op::AddF && divisor.has_one_use() && rounds_plainly(*sum))
    for (const std::size_t i : {0, 1}) {
      const auto c = constant_float(sum->operand(i));
      if (c && std::abs(*c) >= kTiny && std::abs(*c) <= kMaxTerm)
        return b.create(Op::Fma, {sum->operand(1 - i), number(kSixteenth), number(*c * kSixteenth)}, {t})->result();
    }
  return b.create(Op::MulF, {divisor, number(kSixteenth)}, {t})->result();
}

/// a / b = a * (rcp(b / 16) / 16) for a divisor that may be huge but not denormal; the products keep denormal numbers.
void divide_by_scaled(Operation& op) {
  ir::Builder b = ir::Builder::before(&op);
  b.loc = op.loc;
  const ir::Type t = op.result().type();
  const auto number = [&](double x) { return b.constant_float(ir::Elem::F32, x, t.shape()); };
  const Value reciprocal =
      b.create(Op::DivF, {number(1), sixteenth(b, op.operand(1))}, {t},
               {{AttrName::rounding_mode, Rounding::Approx}, {AttrName::flush_to_zero, ir::UnitAttr{}}})
          ->result();
  const Value scaled = b.create(Op::MulF, {reciprocal, number(kSixteenth)}, {t})->result();
  const bool is_one = constant_float(op.operand(0)) == 1.0;
  const Value quotient = is_one ? scaled : b.create(Op::MulF, {op.operand(0), scaled}, {t})->result();
  op.result().replace_all_uses_with(quotient);
  op.erase();
}

bool relax_division(Operation& op) {
  if (op.has_attr(AttrName::flush_to_zero)) return false;
  const FloatRange divisor = float_range(op.operand(1));
  const bool normal = never_denormal(divisor), moderate = never_huge(divisor);
  if (normal && moderate) return flush(op);
  Operation* broadcast = op.operand(1).def();
  if (broadcast != nullptr && broadcast->op() == Op::Broadcast &&
      broadcast->operand(0).type().num_elements() * kShared <= op.result().type().num_elements()) {
    scale_division(op, *broadcast);
    return true;
  }
  if (normal) {
    divide_by_scaled(op);
    return true;
  }
  if (!moderate) op.set_attr(AttrName::rounding_mode, Rounding::Full);
  return !moderate;
}

}  // namespace

bool relax_math(ir::Function& f) {
  std::vector<Operation*> found;
  ir::walk(f.body(), [&](Operation& op) {
    if (is_approximate(op)) found.push_back(&op);
  });
  bool changed = false;
  for (Operation* op : found) {
    switch (op->op()) {
      case Op::Exp:
        relax_exp(*op);
        changed = true;
        break;
      case Op::DivF: changed |= relax_division(*op); break;
      case Op::Sqrt: changed |= never_denormal(float_range(op->operand(0))) && flush(*op); break;
      default: break;
    }
  }
  return changed;
}

}  // namespace tessera::passes
