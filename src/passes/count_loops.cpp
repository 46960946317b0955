// Rewrites loops whose induction variable may overflow, and loops that compare as unsigned, to count their iterations
// as signed numbers; and keeps upper bounds away from the smallest number of the type. docs/compiler/count_loops.md.
//
// A `for` is defined by its exact number of iterations (docs/semantics.md). The assembler's code adds the step until
// the comparison fails. Where that sum wraps around, the loop continues: this one never ends:
//   for i in (2147483640 to 2147483647, step 5)
// A loop that compares as unsigned is wrong where it has fewer iterations than the assembler keeps loads in flight: it
// runs to `upper - loads`, which wraps to a large number (tileiras 13.5.37). Loops are rewritten in place, because
// claims name the loop and the operations in it:
//   for n in (0 to count, step 1) { i = lower + n * step; ... }     n has a type in which every count is positive
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

/// True if induction variable + step cannot overflow, whatever a launch passes: with a step of 1 the last sum is the
/// upper bound; of constants the sum is computed here.
bool always_fits(const Operation& loop) {
  const auto upper = constant_int(loop.operand(1)), step = constant_int(loop.operand(2));
  if (!step || *step < 1) return false;
  if (*step == 1) return true;
  if (!upper) return false;
  const int bits = ir::info(loop.operand(2).type().elem()).bits;
  const std::int64_t largest = INT64_MAX >> (64 - bits);
  return *upper <= largest - (*step - 1);
}

/// Converts an unsigned number of iterations to a signed type. 2^63 and more become 2^63 - 1: such a loop does not end
/// in practice.
Value as_counter(ir::Builder& b, Value count, ir::Type type) {
  if (count.type() != type)
    return b.create(Op::ExtI, {count}, {type}, {{AttrName::signedness, ir::Signedness::Unsigned}})->result();
  const Value most = b.constant_int(type.elem(), INT64_MAX);
  return b.create(Op::MinI, {count, most}, {type}, {{AttrName::signedness, ir::Signedness::Unsigned}})->result();
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
  // upper - lower > 0 fits the unsigned type; the division rounds up without a sum that could wrap.
  const Value last = binary(b, Op::SubI, binary(b, Op::SubI, upper, lower), one);
  const Value steps =
      b.create(Op::DivI, {last, step}, {type},
               {{AttrName::signedness, ir::Signedness::Unsigned}, {AttrName::rounding, ir::Rounding::Zero}})
          ->result();
  const Value runs = compared(b, ir::ComparisonPredicate::Less, lower, upper, sign);
  const Value count = b.create(Op::Select, {runs, binary(b, Op::AddI, steps, one), zero}, {type})->result();
  const ir::Elem counter = ir::info(type.elem()).bits < 32 ? ir::Elem::I32 : ir::Elem::I64;
  const ir::Type counted = type.with_element(counter);
  loop.set_operand(0, b.constant_int(counter, 0));
  loop.set_operand(1, as_counter(b, count, counted));
  loop.set_operand(2, b.constant_int(counter, 1));
  loop.remove_attr(AttrName::unsignedCmp);
  ir::Builder inside = ir::Builder::before(body.front());
  inside.loc = loop.loc;
  const Value distance = binary(inside, Op::MulI, step, step);  // one operand becomes the number of the iteration
  const Value i = binary(inside, Op::AddI, lower, distance);
  induction.replace_all_uses_with(i);
  induction.set_type(counted);
  Value number = induction;  // its low bits: the count never exceeds the type
  if (counted != type) number = ir::Builder::before(distance.def()).create(Op::TruncI, {induction}, {type})->result();
  distance.def()->set_operand(0, number);
}

}  // namespace

bool count_loops(ir::Function& f, std::span<const Claim> claims, std::uint64_t held) {
  std::unordered_set<const Operation*> proven;
  for (const Claim& c : claims) {
    if (c.kind == ClaimKind::StepFits && c.holds(held)) proven.insert(c.op);
  }
  std::vector<Operation*> loops;
  bool changed = false;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() != Op::For) return;
    const bool is_unsigned = op.has_attr(AttrName::unsignedCmp);
    if (proven.contains(&op)) {  // its bounds are the same read as signed
      op.remove_attr(AttrName::unsignedCmp);
      changed = changed || is_unsigned;
    } else if (is_unsigned || !always_fits(op)) {
      loops.push_back(&op);
    }
  });
  for (Operation* loop : loops) count_iterations(*loop);
  return changed || !loops.empty();
}

namespace {

/// True if the steps that the assembler has in flight (31 at most, in what was observed) add up to less than a quarter
/// of the type's range, which is the distance to the lowest bound that is left unchanged: the step is the number of
/// blocks of a persistent kernel (at most 2^24 - 1), or small.
bool steps_are_short(const Operation& loop) {
  const Value step = loop.operand(2);
  if (step.def() != nullptr && step.def()->op() == Op::GetNumTileBlocks) return true;
  constexpr std::uint64_t kInFlight = 64;
  const std::uint64_t positive = (std::uint64_t{1} << (ir::info(step.type().elem()).bits - 1)) - 1;
  const auto most = unsigned_most(step);
  return most && *most <= positive / kInFlight;
}

}  // namespace

bool bound_loops(ir::Function& f, const Certifier* certifier) {
  struct Ends {
    Operation* loop;
    bool lower = false, upper = false;  ///< known to be far from the smallest number
  };
  std::vector<Ends> loops;
  std::vector<Claim> claims;
  std::vector<bool*> answers;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::For && !op.has_attr(AttrName::unsignedCmp)) loops.push_back({&op});
  });
  for (Ends& e : loops) {
    const int bits = ir::info(e.loop->operand(1).type().elem()).bits;
    const std::int64_t least = INT64_MIN >> (65 - bits), positive = INT64_MAX >> (64 - bits);
    const auto is_far = [&](int operand, bool& known) {
      const Value v = e.loop->operand(static_cast<std::size_t>(operand));
      const auto constant = constant_int(v);
      const auto most = unsigned_most(v);
      known = constant ? *constant >= least : most && *most <= static_cast<std::uint64_t>(positive);
      if (known) return;
      claims.push_back({.kind = ClaimKind::AtLeast, .op = e.loop, .index = operand, .lower = least});
      answers.push_back(&known);
    };
    if (!steps_are_short(*e.loop)) continue;
    is_far(1, e.upper);
    if (!e.upper) is_far(0, e.lower);
  }
  const std::vector<bool> may = certified(certifier, f, claims);
  for (std::size_t i = 0; i < answers.size(); ++i) *answers[i] = may[i];
  bool changed = false;
  for (const Ends& e : loops) {
    if (e.upper) continue;
    changed = true;
    if (!e.lower) {
      count_iterations(*e.loop);
      continue;
    }
    ir::Builder b = ir::Builder::before(e.loop);
    b.loc = e.loop->loc;
    const Value lower = e.loop->operand(0), upper = e.loop->operand(1);
    e.loop->set_operand(
        1,
        b.create(Op::MaxI, {upper, lower}, {upper.type()}, {{AttrName::signedness, ir::Signedness::Signed}})->result());
  }
  return changed;
}

}  // namespace tessera::passes
