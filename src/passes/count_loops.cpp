// Rewrites loops whose induction variable may overflow, and loops that compare as unsigned, to count their iterations
// as signed numbers; and keeps bounds away from the ends of the type. docs/compiler/count_loops.md.
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

bool count_loops(ir::Function& f, std::span<const Claim> claims, std::uint64_t predicates) {
  std::unordered_set<const Operation*> proven;
  for (const Claim& c : claims) {
    if (c.kind == ClaimKind::StepFits && c.holds(predicates)) proven.insert(c.op);
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

std::int64_t quarter_of(ir::Type type) { return std::int64_t{1} << (ir::info(type.elem()).bits - 2); }

/// True if the steps that the assembler has in flight (50 at most, in what was observed) add up to less than a quarter
/// of the type's range, which is the distance from the bounds that are left unchanged to the ends of the type: the step
/// is the number of blocks of a persistent kernel (at most 2^24 - 1), or small.
bool steps_are_short(const Operation& loop) {
  constexpr std::int64_t kInFlight = 64;
  const auto most = unsigned_most(loop.operand(2));
  return most && *most <= static_cast<std::uint64_t>(quarter_of(loop.operand(2).type()) / kInFlight);
}

/// What is known of a bound of a loop.
struct Bound {
  bool low = false;   ///< it is at least minus a quarter of the type's range
  bool high = false;  ///< it is at most a quarter of it
};

/// Finds out what is known of bounds: by the operations that compute them, or from a certifier.
class Bounds {
 public:
  /// Asks for `bound.low` or `bound.high` of operand `index` of `loop`, if the operations that compute it say nothing.
  /// `bound` must live until answer().
  void find(Operation& loop, int index, Bound& bound, bool Bound::*side) {
    const Value v = loop.operand(static_cast<std::size_t>(index));
    const int bits = ir::info(v.type().elem()).bits;
    const std::int64_t quarter = quarter_of(v.type());
    const bool low = side == &Bound::low;
    const auto constant = constant_int(v);
    const auto most = unsigned_most(v);
    const auto limit = static_cast<std::uint64_t>(low ? INT64_MAX >> (64 - bits) : quarter);
    bound.*side = constant ? (low ? *constant >= -quarter : *constant <= quarter) : most && *most <= limit;
    if (bound.*side || constant) return;
    claims_.push_back({.kind = low ? ClaimKind::AtLeast : ClaimKind::AtMost,
                       .op = &loop,
                       .index = index,
                       .lower = low ? -quarter : 0,
                       .upper = low ? 0 : quarter});
    answers_.push_back(&(bound.*side));
  }
  /// Asks the certifier for all that was not known, at once: it walks over the kernel.
  void answer(const ir::Function& f, const Certifier* certifier) {
    const std::vector<bool> may = answered(certifier, f, claims_);
    for (std::size_t i = 0; i < answers_.size(); ++i) *answers_[i] = may[i];
    claims_.clear();
    answers_.clear();
  }

 private:
  std::vector<Claim> claims_;
  std::vector<bool*> answers_;
};

struct BoundedLoop {
  Operation* loop;
  Bound lower = {}, upper = {};
  bool counted = false;

  bool stays() const { return !counted && lower.high && upper.low; }
};

/// `index`: of the bound that becomes the maximum or minimum (`op`) of both.
void clamp(Operation& loop, std::size_t index, Op op) {
  ir::Builder b = ir::Builder::before(&loop);
  b.loc = loop.loc;
  const Value lower = loop.operand(0), upper = loop.operand(1);
  loop.set_operand(
      index, b.create(op, {upper, lower}, {upper.type()}, {{AttrName::signedness, ir::Signedness::Signed}})->result());
}

/// for i in (lower to upper)  =>  for n in (lower - s to max(upper, lower) - s) { i = n + s; ... }, where s is a
/// quarter of the type's range if lower is above it, and 0 otherwise.
void shift(Operation& loop) {
  clamp(loop, 1, Op::MaxI);
  ir::Builder b = ir::Builder::before(&loop);
  b.loc = loop.loc;
  const Value lower = loop.operand(0), upper = loop.operand(1);
  const ir::Type type = lower.type();
  const Value quarter = b.constant_int(type.elem(), quarter_of(type)), zero = b.constant_int(type.elem(), 0);
  const Value above = compared(b, ir::ComparisonPredicate::Greater, lower, quarter, ir::Signedness::Signed);
  const Value s = b.create(Op::Select, {above, quarter, zero}, {type})->result();
  loop.set_operand(0, b.create(Op::SubI, {lower, s}, {type})->result());
  loop.set_operand(1, b.create(Op::SubI, {upper, s}, {type})->result());
  ir::Block& body = loop.region(0);
  ir::Builder inside = ir::Builder::before(body.front());
  inside.loc = loop.loc;
  const Value i = inside.create(Op::AddI, {s, s}, {type})->result();  // one operand becomes the induction variable
  body.arg(0).replace_all_uses_with(i);
  i.def()->set_operand(0, body.arg(0));
}

}  // namespace

bool bound_loops(ir::Function& f, const Certifier* certifier) {
  std::vector<BoundedLoop> loops;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::For && !op.has_attr(AttrName::unsignedCmp)) loops.push_back({&op});
  });
  Bounds bounds;
  for (BoundedLoop& l : loops) {
    l.counted = !steps_are_short(*l.loop);
    if (l.counted) continue;
    bounds.find(*l.loop, 0, l.lower, &Bound::high);
    bounds.find(*l.loop, 1, l.upper, &Bound::low);
  }
  bounds.answer(f, certifier);
  for (BoundedLoop& l : loops) {  // what the forms below need
    if (l.counted || l.stays()) continue;
    if (l.upper.low)
      bounds.find(*l.loop, 1, l.upper, &Bound::high);
    else
      bounds.find(*l.loop, 0, l.lower, &Bound::low);
  }
  bounds.answer(f, certifier);
  bool changed = false;
  for (const BoundedLoop& l : loops) {
    if (l.stays()) continue;
    changed = true;
    if (l.counted || !(l.lower.low || l.upper.low)) {
      count_iterations(*l.loop);
    } else if (l.lower.high) {
      clamp(*l.loop, 1, Op::MaxI);
    } else if (l.upper.high) {
      clamp(*l.loop, 0, Op::MinI);
    } else {
      shift(*l.loop);
    }
  }
  return changed;
}

}  // namespace tessera::passes
