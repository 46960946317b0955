// Applies the claims whose obligations the launch fulfils: conditions become constants, accesses become `inbounds`,
// arguments get `assume` operations. docs/compiler/apply_claims.md.
//
// Claims name operations, so nothing is erased until all of them are applied. Then conditions are folded from operands
// to users, and finally branches with a constant condition are replaced by the taken arm, innermost first.
#include "tessera/passes/apply_claims.hpp"
#include "tessera/analysis/access.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "passes/rewriter.hpp"
#include "passes/values.hpp"

namespace tessera::passes {

using analysis::Claim;
using analysis::ClaimKind;
using ir::AttrName;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// The value of a condition that is the same constant in every element.
std::optional<bool> decided(Value v) {
  const Operation* def = v.def();
  if (def == nullptr || def->op() != Op::Constant || v.type().elem() != ir::Elem::I1) return std::nullopt;
  const auto& bytes = def->attr(AttrName::value)->as<ir::DenseAttr>()->bytes;
  const auto bit = [](std::byte b) { return (std::to_integer<int>(b) & 1) != 0; };
  if (bytes.empty()) return std::nullopt;
  const bool first = bit(bytes.front());
  const bool same = std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return bit(b) == first; });
  return same ? std::optional(first) : std::nullopt;
}

void decide(Operation* op, std::size_t result, bool truth) {
  Builder b = Builder::before(op);
  b.loc = op->loc;
  const Value v = op->result(result);
  v.replace_all_uses_with(b.constant_int(ir::Elem::I1, truth ? 1 : 0, v.type().shape()));
}

/// `later` runs after `op`, if at all.
bool comes_after(const Operation& op, const Operation& later) {
  const Operation* at = &later;
  while (at && at->block() != op.block()) at = at->parent_op();
  while (at && at != &op) at = at->prev();
  return at != nullptr && &later != &op;
}

/// Where `number < x` always holds, the upper bound x of a loop gets an assumption that says so. Passes that move work
/// out of a loop need no guard if the loop is known to run at least once.
void assume_loop_bounds(Operation& comparison) {
  using enum ir::ComparisonPredicate;
  if (comparison.op() != Op::CmpI ||
      comparison.enum_attr<ir::Signedness>(AttrName::signedness) != ir::Signedness::Signed)
    return;
  const auto predicate = comparison.enum_attr<ir::ComparisonPredicate>(AttrName::comparison_predicate);
  if (predicate != Less && predicate != Greater) return;
  const auto low = constant_int(comparison.operand(predicate == Less ? 0 : 1));
  const Value x = comparison.operand(predicate == Less ? 1 : 0);
  if (!low || x.type().rank() != 0) return;
  std::vector<ir::OpOperand*> bounds;
  for (ir::OpOperand* use = x.first_use(); use; use = use->next)
    if (use->owner->op() == Op::For && use->number() == 1 && comes_after(comparison, *use->owner))
      bounds.push_back(use);
  for (ir::OpOperand* use : bounds) {
    Builder b = Builder::before(use->owner);
    b.loc = comparison.loc;
    use->set(b.create(Op::Assume, {x}, {x.type()}, {{AttrName::predicate, ir::BoundedAttr{*low + 1, {}}}})->result());
  }
}

void mark_inbounds(Operation* op, std::size_t axis) {
  const std::size_t axes = op->group("index").size();
  const ir::Attribute* old = op->attr(AttrName::inbounds);
  ir::BoolArrayAttr flags = old ? *old->as<ir::BoolArrayAttr>() : ir::BoolArrayAttr{};
  flags.values.resize(axes);
  flags.values[axis] = true;
  op->set_attr(AttrName::inbounds, flags);
}

void divide_by_one(Operation* op) {
  Value result = op->operand(0);
  if (op->op() == Op::RemI) {
    Builder b = Builder::before(op);
    b.loc = op->loc;
    result = b.constant_int(result.type().elem(), 0, result.type().shape());
  }
  op->result().replace_all_uses_with(result);
}

void apply(const Claim& c) {
  switch (c.kind) {
    case ClaimKind::Condition:
      if (c.truth) assume_loop_bounds(*c.op);
      decide(c.op, static_cast<std::size_t>(c.index), c.truth);
      break;
    case ClaimKind::Inbounds: mark_inbounds(c.op, static_cast<std::size_t>(c.index)); break;
    case ClaimKind::DivisorIsOne: divide_by_one(c.op); break;
    default: break;  // all of an argument's at once, below; other passes use the others
  }
}

// ---- conditions
// -------------------------------------------------------------------------------------------------------

/// One side of a logical operation decides the result (`absorbs` = its value that does) or leaves the other side.
void fold_logical(Operation& op, bool absorbs) {
  for (std::size_t i = 0; i < 2; ++i) {
    const auto c = decided(op.operand(i));
    if (!c) continue;
    op.result().replace_all_uses_with(op.operand(*c == absorbs ? i : 1 - i));
    return;
  }
}

void fold_condition(Operation& op) {
  switch (op.op()) {
    case Op::AndI:
    case Op::OrI:
      if (op.result().type().elem() == ir::Elem::I1) fold_logical(op, op.op() == Op::OrI);
      break;
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Permute:
    case Op::Extract:
      if (!op.operand(0).type().is_pointer()) {
        if (const auto c = decided(op.operand(0))) decide(&op, 0, *c);
      }
      break;
    case Op::Select:
      if (const auto c = decided(op.operand(0))) op.result().replace_all_uses_with(op.operand(*c ? 1 : 2));
      break;
    default:
      if (const auto access = analysis::access_of(op); access && access->mask && decided(access->mask) == true)
        drop_mask(op);
  }
}

// ---- branches
// ---------------------------------------------------------------------------------------------------------

bool ends_with_yield(const Operation& branch) {
  for (std::size_t i = 0; i < branch.num_regions(); ++i) {
    const Operation* end = branch.region(i).terminator();
    if (end == nullptr ? branch.num_results() != 0 : end->op() != Op::Yield) return false;
  }
  return true;
}

/// Puts the taken arm in the branch's place.
void open_branch(Operation* branch, bool truth) {
  const std::size_t taken = truth ? 0 : 1;
  if (taken < branch->num_regions()) {
    ir::Block& arm = branch->region(taken);
    while (Operation* op = arm.front()) {
      if (op->op() != Op::Yield) {
        op->move_before(branch);
        continue;
      }
      for (std::size_t i = 0; i < branch->num_results(); ++i) branch->result(i).replace_all_uses_with(op->operand(i));
      op->erase();
    }
  }
  branch->erase();
}

void collect(const ir::Block& block, std::vector<Operation*>& inner_first) {
  for (Operation& op : block) {
    for (std::size_t i = 0; i < op.num_regions(); ++i) collect(op.region(i), inner_first);
    if (op.op() == Op::If || op.op() == Op::Assert) inner_first.push_back(&op);
  }
}

void open_decided(ir::Function& f) {
  std::vector<Operation*> ops;
  collect(f.body(), ops);
  for (Operation* op : ops) {
    const auto c = decided(op->operand(0));
    if (!c) continue;
    if (op->op() == Op::If) {
      if (ends_with_yield(*op)) open_branch(op, *c);
    } else if (*c) {
      op->erase();
    }
  }
}

// ---- arguments
// --------------------------------------------------------------------------------------------------------

struct KnownArg {
  std::uint64_t divisor = 1;
  std::optional<ir::BoundedAttr> bounds;
};

void note(const Claim& c, std::vector<KnownArg>& args) {
  KnownArg& a = args[static_cast<std::size_t>(c.index)];
  if (c.kind == ClaimKind::ArgDivisible) a.divisor = std::max(a.divisor, c.divisor);
  if (c.kind != ClaimKind::ArgBounded) return;
  const std::int64_t lower = a.bounds ? std::max(*a.bounds->lower, c.lower) : c.lower;
  const std::int64_t upper = a.bounds ? std::min(*a.bounds->upper, c.upper) : c.upper;
  if (lower <= upper) a.bounds = ir::BoundedAttr{lower, upper};  // else no launch holds all of these
}

void assume(ir::Function& f, const std::vector<KnownArg>& known) {
  if (f.body().empty()) return;
  Builder b = Builder::before(f.body().front());
  b.loc = f.loc;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const Value arg = f.body().arg(i);
    if (!arg.has_uses()) continue;
    const auto say = [&](Value v, const ir::Attribute& predicate) {
      return b.create(Op::Assume, {v}, {v.type()}, {{AttrName::predicate, predicate}})->result();
    };
    if (!known[i].bounds && known[i].divisor == 1) continue;
    // The uses move to the last assumption; the first one gets the argument back.
    Operation* first = nullptr;
    Value v = arg;
    if (known[i].bounds) {
      v = say(v, *known[i].bounds);
      first = v.def();
    }
    if (known[i].divisor > 1) {
      v = say(v, ir::DivByAttr{known[i].divisor, {}, {}});
      if (first == nullptr) first = v.def();
    }
    Operation* last = v.def();
    arg.replace_all_uses_with(v);
    if (last != first) last->set_operand(0, first->result());
    first->set_operand(0, arg);
  }
}

}  // namespace

void apply_claims(ir::Module& module, const analysis::Facts& facts, std::uint64_t predicates) {
  apply_claims(module, facts.claims(), predicates);
}

void apply_claims(ir::Module& module, std::span<const analysis::Claim> claims, std::uint64_t predicates) {
  for (const auto& f : module.functions) {
    if (f->entry) return apply_claims(*f, claims, predicates);
  }
}

void apply_claims(ir::Function& f, std::span<const analysis::Claim> claims, std::uint64_t predicates) {
  std::vector<KnownArg> args(f.body().num_args());
  for (const Claim& c : claims) {
    if (!c.holds(predicates)) continue;
    apply(c);
    if (c.op == nullptr) note(c, args);
  }
  ir::walk(f.body(), fold_condition);
  open_decided(f);
  assume(f, args);
}

}  // namespace tessera::passes
