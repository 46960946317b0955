// Running regions: straight lines, loops to a fixpoint, branches under their condition.
#include "analysis/dataflow.hpp"

#include "analysis/interval.hpp"

namespace tessera::analysis {

using ir::AttrName;
using ir::Op;

namespace {

/// A loop's carried values lose a bound or gain a condition in every round, so few rounds are enough; after these
/// nothing is said about them.
constexpr int kMaxRounds = 6;

}  // namespace

Dataflow::Dataflow(const LaunchContract& contract, ConditionPool& conditions)
    : math_(conditions), launch_(contract, math_) {}

void Dataflow::run(const ir::Function& function) {
  const ir::Block& body = function.body();
  for (std::size_t i = 0; i < body.num_args(); ++i) {
    const ir::Type type = body.arg(i).type();
    if (is_integer(type)) facts_[body.arg(i).impl()] = launch_.argument(static_cast<int>(i), bits_of(type));
  }
  run_block(body, true);
}

IntRange Dataflow::range(ir::Value v) {
  for (Scope* s = scope_; s != nullptr; s = s->outer) {
    if (const auto it = s->known.find(v.impl()); it != s->known.end()) return it->second;
    if (!s->stale.contains(v.impl())) continue;
    const auto again = transfer(*v.def(), v.index());
    const IntRange r = again ? *again : math_.unknown(bits_of(v.type()));
    scope_->known.emplace(v.impl(), r);
    return r;
  }
  const auto it = facts_.find(v.impl());
  return it != facts_.end() ? it->second : math_.unknown(bits_of(v.type()));
}

void Dataflow::run_block(const ir::Block& block, bool final) {
  for (ir::Operation& op : block) {
    switch (op.op()) {
      case Op::For: run_for(op, final); break;
      case Op::Loop: run_loop(op, final); break;
      case Op::If: run_if(op, final); break;
      case Op::Continue:
      case Op::Break:
      case Op::Yield: leave(op); break;
      case Op::Reduce:
      case Op::Scan: break;
      default:
        for (std::size_t i = 0; i < op.num_results(); ++i) {
          if (const auto r = transfer(op, i)) facts_[op.result(i).impl()] = *r;
        }
    }
    if (final) visit(op);
  }
}

// ---- exits ----------------------------------------------------------------------------------------------------------

void Dataflow::merge(std::optional<std::vector<IntRange>>& into, const ir::Operation& terminator) {
  std::vector<IntRange> values;
  for (std::size_t i = 0; i < terminator.num_operands(); ++i) {
    const ir::Value v = terminator.operand(i);
    values.push_back(is_integer(v.type()) ? range(v) : IntRange{});
  }
  if (!into) {
    into = std::move(values);
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_integer(terminator.operand(i).type())) (*into)[i] = math_.join((*into)[i], values[i]);
  }
}

void Dataflow::leave(const ir::Operation& terminator) {
  if (terminator.op() == Op::Yield) {
    yielded_.reset();
    merge(yielded_, terminator);
  } else if (!loops_.empty()) {
    merge(terminator.op() == Op::Continue ? loops_.back()->continued : loops_.back()->broken, terminator);
  }
}

// ---- loops ----------------------------------------------------------------------------------------------------------

std::vector<IntRange> Dataflow::fixpoint(ir::Operation& op, std::size_t first_arg, std::vector<IntRange> state,
                                         bool final, Loop& last) {
  const ir::Block& body = op.region(0);
  const auto integer = [&](std::size_t i) { return is_integer(body.arg(first_arg + i).type()); };
  const auto enter = [&](bool finally) {
    for (std::size_t i = 0; i < state.size(); ++i) {
      if (integer(i)) facts_[body.arg(first_arg + i).impl()] = state[i];
    }
    last = Loop{&op, {}, {}};
    loops_.push_back(&last);
    run_block(body, finally);
    loops_.pop_back();
  };
  bool any = false;
  for (std::size_t i = 0; i < state.size(); ++i) any = any || integer(i);
  for (int round = 0; any; ++round) {
    enter(false);
    bool changed = false;
    for (std::size_t i = 0; i < state.size() && last.continued; ++i) {
      if (!integer(i)) continue;
      IntRange next = round < kMaxRounds ? math_.widen(state[i], (*last.continued)[i]) : math_.unknown(state[i].bits);
      changed = changed || !(next == state[i]);
      state[i] = next;
    }
    if (!changed) break;
  }
  if (final || op.op() == Op::Loop) enter(final);  // a loop's results are what its breaks carry
  return state;
}

Conditions Dataflow::step_fits(const ir::Operation& loop, const Bound& upper) {
  const IntRange step = range(loop.operand(2));
  const Bound& by = step.hi.front();
  ConditionPool& conditions = math_.conditions();
  ExprPool& e = math_.exprs();
  const Expr largest = e.constant(integers_of(step.bits, true).hi);
  const Conditions fits = conditions.less_equal(e.add(e.add(upper.value, e.constant(-1)), by.value), largest);
  Conditions when = math_.ge(step.lo, 1);
  if (loop.has_attr(AttrName::unsignedCmp)) {
    const Conditions start = math_.ge(range(loop.operand(0)).lo, 0), end = math_.ge(range(loop.operand(1)).lo, 0);
    when = conditions.both(when, conditions.both(start, end));
  }
  return conditions.both(conditions.both(upper.when, by.when), conditions.both(fits, when));
}

IntRange Dataflow::induction(ir::Operation& op) {
  const IntRange lower = range(op.operand(0)), upper = range(op.operand(1));
  ConditionPool& conditions = math_.conditions();
  ExprPool& e = math_.exprs();
  IntRange r;
  r.bits = upper.bits;
  for (const Bound& u : upper.hi) {
    const Conditions all = step_fits(op, u);
    r.hi.push({e.add(u.value, e.constant(-1)), all});
    for (const Bound& l : lower.lo) r.lo.push({l.value, conditions.both(l.when, all)});
  }
  const IntRange any = math_.unknown(r.bits);
  if (r.lo.empty()) r.lo = any.lo;
  if (r.hi.empty()) r.hi = any.hi;
  return r;
}

void Dataflow::run_for(ir::Operation& op, bool final) {
  const ir::Block& body = op.region(0);
  facts_[body.arg(0).impl()] = induction(op);
  std::vector<IntRange> state;
  for (std::size_t i = 1; i < body.num_args(); ++i) {
    const ir::Value init = op.operand(2 + i);
    state.push_back(is_integer(init.type()) ? range(init) : IntRange{});
  }
  Loop last;
  state = fixpoint(op, 1, std::move(state), final, last);
  for (std::size_t i = 0; i < op.num_results(); ++i) {
    if (is_integer(op.result(i).type())) facts_[op.result(i).impl()] = state[i];
  }
}

void Dataflow::run_loop(ir::Operation& op, bool final) {
  std::vector<IntRange> state;
  for (std::size_t i = 0; i < op.num_operands(); ++i) {
    const ir::Value init = op.operand(i);
    state.push_back(is_integer(init.type()) ? range(init) : IntRange{});
  }
  Loop last;
  fixpoint(op, 0, std::move(state), final, last);
  for (std::size_t i = 0; i < op.num_results(); ++i) {
    const ir::Value v = op.result(i);
    if (is_integer(v.type())) facts_[v.impl()] = last.broken ? (*last.broken)[i] : math_.unknown(bits_of(v.type()));
  }
}

// ---- branches -------------------------------------------------------------------------------------------------------

void Dataflow::run_if(ir::Operation& op, bool final) {
  std::optional<std::vector<IntRange>> results;
  for (std::size_t i = 0; i < op.num_regions(); ++i) {
    Scope scope;
    scope.outer = scope_;
    refine(op.operand(0), i == 0, scope);
    mark_stale(op, scope);
    scope_ = &scope;
    yielded_.reset();
    run_block(op.region(i), final);
    scope_ = scope.outer;
    const ir::Operation* end = op.region(i).terminator();
    if (end == nullptr || end->op() != Op::Yield || !yielded_) continue;
    if (!results) {
      results = std::move(yielded_);
    } else {
      for (std::size_t k = 0; k < results->size(); ++k) {
        if (is_integer(op.result(k).type())) (*results)[k] = math_.join((*results)[k], (*yielded_)[k]);
      }
    }
    yielded_.reset();
  }
  for (std::size_t k = 0; k < op.num_results(); ++k) {
    const ir::Value v = op.result(k);
    if (is_integer(v.type())) facts_[v.impl()] = results ? (*results)[k] : math_.unknown(bits_of(v.type()));
  }
}

void Dataflow::refine(ir::Value condition, bool truth, Scope& scope) {
  const ir::Operation* def = condition.def();
  if (def == nullptr) return;
  const bool splits = truth ? def->op() == Op::AndI : def->op() == Op::OrI;
  if (splits) {
    refine(def->operand(0), truth, scope);
    refine(def->operand(1), truth, scope);
  } else if (def->op() == Op::CmpI && is_integer(def->operand(0).type())) {
    refine_compare(*def, truth, scope);
  }
}

void Dataflow::refine_compare(const ir::Operation& compare, bool truth, Scope& scope) {
  using P = ir::ComparisonPredicate;
  constexpr P kNegated[] = {P::NotEqual, P::Equal, P::GreaterEqual, P::Greater, P::LessEqual, P::Less};
  auto predicate = compare.enum_attr<P>(AttrName::comparison_predicate);
  if (!truth) predicate = kNegated[static_cast<std::size_t>(predicate)];
  const bool unsigned_ = compare.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Unsigned;
  ir::Value small = compare.operand(0), large = compare.operand(1);
  if (predicate == P::Greater || predicate == P::GreaterEqual) std::swap(small, large);
  const IntRange a = range(small), b = range(large);
  if (predicate == P::NotEqual) return;
  if (predicate == P::Equal) {
    tighten(small, b.lo, b.hi, scope);
    tighten(large, a.lo, a.hi, scope);
    return;
  }
  ConditionPool& conditions = math_.conditions();
  ExprPool& e = math_.exprs();
  const std::int64_t gap = predicate == P::Less || predicate == P::Greater ? 1 : 0;
  const Conditions readable = unsigned_ ? math_.ge(b.lo, 0) : kAlways;
  Bounds below, above;
  for (const Bound& y : b.hi) {
    if (e.constant_value(y.value) == integers_of(b.bits, true).hi) continue;
    below.push({e.add(y.value, e.constant(-gap)), conditions.both(y.when, readable)});
  }
  if (unsigned_) {
    Bounds zero;
    zero.push({e.constant(0), readable});
    tighten(small, zero, below, scope);
    return;
  }
  for (const Bound& x : a.lo) {
    if (e.constant_value(x.value) == integers_of(a.bits, true).lo) continue;
    above.push({e.add(x.value, e.constant(gap)), x.when});
  }
  tighten(small, {}, below, scope);
  tighten(large, above, {}, scope);
}

void Dataflow::tighten(ir::Value v, const Bounds& lo, const Bounds& hi, Scope& scope) {
  if (v.def() != nullptr && v.def()->op() == Op::Constant) return;
  const auto it = scope.known.find(v.impl());
  scope.known[v.impl()] = math_.tightened(it != scope.known.end() ? it->second : range(v), lo, hi);
}

/// Everything computed before `branch` from what is known better in its arm. Values of the arm itself are not among
/// them, although an earlier round of a loop around the branch has left ranges for them: they are computed as the arm
/// runs, and change from round to round of a loop inside it, where a remembered range would be that of another round.
void Dataflow::mark_stale(const ir::Operation& branch, Scope& scope) const {
  const auto inside_branch = [&](const ir::Operation* op) {
    while (op != nullptr && op != &branch) op = op->parent_op();
    return op != nullptr;
  };
  std::vector<const ir::ValueImpl*> work;
  for (const auto& [v, r] : scope.known) work.push_back(v);
  while (!work.empty()) {
    const ir::ValueImpl* v = work.back();
    work.pop_back();
    for (const ir::OpOperand* use = v->first_use; use != nullptr; use = use->next) {
      const ir::Operation& user = *use->owner;
      if (!user.info().has(ir::traits::Pure) || user.num_regions() != 0 || inside_branch(&user)) continue;
      for (std::size_t i = 0; i < user.num_results(); ++i) {
        const ir::ValueImpl* r = user.result(i).impl();
        if (!facts_.contains(r) || scope.known.contains(r)) continue;
        if (scope.stale.insert(r).second) work.push_back(r);
      }
    }
  }
}

}  // namespace tessera::analysis
