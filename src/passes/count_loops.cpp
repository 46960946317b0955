// Loops that may step over the end of their type count their iterations. docs/compiler/count_loops.md.
//
// A `for` is defined by its number of iterations, computed exactly (docs/semantics.md). The assembler's code adds the
// step until the comparison fails; where that sum wraps around it goes on, and a loop such as
//   for i in (2147483640 to 2147483647, step 5)
// never ends. Rewritten in place, because claims name the loop and what is in it:
//   for n in (0 to count, step 1), unsigned { i = lower + n * step; ... }
#include <unordered_set>

#include "passes/values.hpp"
#include "tessera/passes/apply_claims.hpp"

namespace tessera::passes {

using analysis::Claim;
using analysis::ClaimKind;
using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// The sum of step and induction variable cannot leave the type, whatever a launch passes: a step of 1 ends at the
/// upper bound, and constants are added here.
bool always_fits(const Operation& loop) {
  const auto upper = constant_int(loop.operand(1)), step = constant_int(loop.operand(2));
  if (!step || *step < 1) return false;
  if (*step == 1) return true;
  if (!upper || *upper < 0) return false;  // as an unsigned number it is large
  const int bits = ir::info(loop.operand(2).type().elem()).bits;
  const std::int64_t largest = INT64_MAX >> (64 - bits);
  return *upper <= largest - (*step - 1);
}

void count_iterations(Operation& loop) {
  ir::Block& body = loop.region(0);
  const bool is_unsigned = loop.has_attr(AttrName::unsignedCmp);
  const auto sign = is_unsigned ? ir::Signedness::Unsigned : ir::Signedness::Signed;
  const Value lower = loop.operand(0), upper = loop.operand(1), induction = body.arg(0);
  const ir::Type type = lower.type();
  ir::Builder b = ir::Builder::before(&loop);
  b.loc = loop.loc;
  const auto binary = [&](ir::Builder& at, Op op, Value x, Value y) { return at.create(op, {x, y}, {type})->result(); };
  const Value zero = b.constant_int(type.elem(), 0), one = b.constant_int(type.elem(), 1);
  Value step = loop.operand(2);
  if (const auto known = constant_int(step); !known || *known < 1)
    step = b.create(Op::MaxI, {step, one}, {type}, {{AttrName::signedness, sign}})->result();
  // upper - lower > 0 fits the type read as unsigned; rounded up without a sum that could wrap.
  const Value last = binary(b, Op::SubI, binary(b, Op::SubI, upper, lower), one);
  const Value steps =
      b.create(Op::DivI, {last, step}, {type},
               {{AttrName::signedness, ir::Signedness::Unsigned}, {AttrName::rounding, ir::Rounding::Zero}})
          ->result();
  const Value runs = compared(b, ir::ComparisonPredicate::Less, lower, upper, sign);
  const Value count = b.create(Op::Select, {runs, binary(b, Op::AddI, steps, one), zero}, {type})->result();
  loop.set_operand(0, zero);
  loop.set_operand(1, count);
  loop.set_operand(2, one);
  loop.set_attr(AttrName::unsignedCmp, ir::UnitAttr{});
  ir::Builder inside = ir::Builder::before(body.front());
  inside.loc = loop.loc;
  const Value distance = binary(inside, Op::MulI, step, step);  // one operand becomes the number of the iteration
  const Value i = binary(inside, Op::AddI, lower, distance);
  induction.replace_all_uses_with(i);
  distance.def()->set_operand(0, induction);
}

}  // namespace

bool count_loops(ir::Function& f, std::span<const Claim> claims, std::uint64_t held) {
  std::unordered_set<const Operation*> proven;
  for (const Claim& c : claims) {
    if (c.kind == ClaimKind::StepFits && c.holds(held)) proven.insert(c.op);
  }
  std::vector<Operation*> loops;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::For && !proven.contains(&op) && !always_fits(op)) loops.push_back(&op);
  });
  for (Operation* loop : loops) count_iterations(*loop);
  return !loops.empty();
}

}  // namespace tessera::passes
