// Decides conditions: comparisons by the ranges of their operands, and combinations of comparisons.
#include <algorithm>

#include "analysis/collector.hpp"

namespace tessera::analysis {

using ir::AttrName;
using ir::Op;

namespace {

/// A branch that loads, or else has a constant: the guard of a load, which is meant to be true.
bool guards_load(const ir::Operation& branch) {
  if (branch.op() != Op::If || branch.num_results() == 0 || branch.num_regions() != 2) return false;
  const ir::Operation *end = branch.region(0).terminator(), *otherwise = branch.region(1).terminator();
  const auto yields = [](const ir::Operation* yield, auto&& what) {
    return yield != nullptr && yield->op() == Op::Yield && std::ranges::all_of(yield->operands(), [&](const auto& o) {
             return o.value.def() != nullptr && what(*o.value.def());
           });
  };
  return yields(end, [](const ir::Operation& op) { return access_of(op).has_value(); }) &&
         yields(otherwise, [](const ir::Operation& op) { return op.op() == Op::Constant; });
}

}  // namespace

Samples::Samples(const LaunchContract& contract) {
  struct Extents {
    std::int64_t leading, rows, columns;
  };
  // `largest`: a tensor whose extents are `most`, whatever those of the others are. -1: there is none.
  const auto sample = [&](const Extents& usual, std::int64_t scalar, int largest = -1, std::int64_t most = 0) {
    std::vector<std::uint64_t> slots;
    for (const ArgContract& a : contract.args) {
      std::int64_t value = a.role == ArgRole::Base ? 0 : a.role == ArgRole::Value ? scalar : usual.columns;
      if (a.role == ArgRole::Dim) {
        const int from_end = contract.tensors[static_cast<std::size_t>(a.tensor)].rank - a.axis;
        value = from_end == 1 ? usual.columns : from_end == 2 ? usual.rows : usual.leading;
        if (a.tensor == largest) value = most;
      }
      slots.push_back(static_cast<std::uint64_t>(value));
    }
    return Sample{std::move(slots), {}};
  };
  // Multiples of every usual tile extent, also of 3, 5 and 7 tiles (pieces made of sub-tiles); rows of a head's size;
  // all that fits into one tile, and one block, which makes the blocks of tensors of different ranks equally many.
  constexpr std::int64_t of_parts = 1024 * 3 * 5 * 7;
  for (const Extents& e : {Extents{16, 65536, 65536}, Extents{16, 4096, 65536}, Extents{16, 4096, 4096},
                           Extents{16, 4096, 64}, Extents{16, of_parts, of_parts}})
    large_.push_back(sample(e, e.columns));
  for (const Extents& e : {Extents{64, 64, 64}, Extents{1, 1, 64}}) small_.push_back(sample(e, e.columns));
  // One tensor is larger than what is computed from it, as the framed input of a convolution: indices with an offset.
  for (int t = 0; t < static_cast<int>(contract.tensors.size()); ++t)
    small_.push_back(sample({16, 64, 64}, 1, t, std::int64_t{1} << 20));
}

bool Samples::Sample::holds(ConditionPool& pool, Conditions when) {
  const ExprPool& exprs = pool.exprs();
  for (auto id = static_cast<std::uint32_t>(values.size()); id < exprs.size(); ++id)
    values.push_back(exprs.evaluate_node({id}, slots, values));
  const auto terms = pool.terms(when);
  return std::all_of(terms.begin(), terms.end(), [&](std::uint32_t t) {
    const Condition& c = pool.term(t);
    const auto a = values[c.a.id];
    if (c.kind == ConditionKind::Divides) return a && *a % static_cast<std::int64_t>(c.divisor) == 0;
    const auto b = values[c.b.id];
    return a && b && *a <= *b;
  });
}

int Samples::score(ConditionPool& pool, Conditions when) {
  if (when.always()) return 3;
  if (when.never()) return 0;
  const auto holds = [&](Sample& s) { return s.holds(pool, when); };
  if (std::any_of(large_.begin(), large_.end(), holds)) return 2;
  return std::any_of(small_.begin(), small_.end(), holds) ? 1 : 0;
}

Collector::Truth Collector::truth(ir::Value v) const {
  const auto it = truths_.find(v.impl());
  return it != truths_.end() ? it->second : Truth{};
}

Conditions Collector::proof(ir::ComparisonPredicate predicate, const IntRange& a, const IntRange& b,
                            bool is_signed) const {
  using P = ir::ComparisonPredicate;
  const RangeMath& m = math();
  const auto less = [&](const IntRange& x, const IntRange& y, std::int64_t slack) {
    const Conditions c = m.ordered(x, y, slack);
    return is_signed ? c : conditions_->both(c, m.ge(x.lo, 0));
  };
  const auto cheaper = [&](Conditions x, Conditions y) { return conditions_->cost(y) < conditions_->cost(x) ? y : x; };
  switch (predicate) {
    case P::Less: return less(a, b, -1);
    case P::LessEqual: return less(a, b, 0);
    case P::Greater: return less(b, a, -1);
    case P::GreaterEqual: return less(b, a, 0);
    case P::Equal: return conditions_->both(m.ordered(a, b), m.ordered(b, a));
    case P::NotEqual: return cheaper(m.ordered(a, b, -1), m.ordered(b, a, -1));
  }
  return kNever;
}

Collector::Truth Collector::compared(const ir::Operation& op) {
  using P = ir::ComparisonPredicate;
  constexpr P kNegated[] = {P::NotEqual, P::Equal, P::GreaterEqual, P::Greater, P::LessEqual, P::Less};
  if (!is_integer(op.operand(0).type())) return {};
  const auto predicate = op.enum_attr<P>(AttrName::comparison_predicate);
  const bool is_signed = op.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Signed;
  const IntRange a = range(op.operand(0)), b = range(op.operand(1));
  return {proof(predicate, a, b, is_signed), proof(kNegated[static_cast<std::size_t>(predicate)], a, b, is_signed)};
}

Collector::Truth Collector::truth_of(const ir::Operation& op) {
  const auto at = [&](std::size_t i) { return truth(op.operand(i)); };
  const auto both = [&](Conditions a, Conditions b) { return conditions_->both(a, b); };
  const auto either = [&](Conditions a, Conditions b) { return conditions_->cost(b) < conditions_->cost(a) ? b : a; };
  switch (op.op()) {
    case Op::CmpI: return compared(op);
    case Op::AndI: return {both(at(0).yes, at(1).yes), either(at(0).no, at(1).no)};
    case Op::OrI: return {either(at(0).yes, at(1).yes), both(at(0).no, at(1).no)};
    case Op::XOrI:
      return {either(both(at(0).yes, at(1).no), both(at(0).no, at(1).yes)),
              either(both(at(0).yes, at(1).yes), both(at(0).no, at(1).no))};
    case Op::Cat: return {both(at(0).yes, at(1).yes), both(at(0).no, at(1).no)};
    case Op::Select: return {both(at(1).yes, at(2).yes), both(at(1).no, at(2).no)};
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Permute:
    case Op::Extract: return at(0);
    case Op::Constant: {
      const auto& bytes = op.attr(AttrName::value)->as<ir::DenseAttr>()->bytes;
      const auto all = [&](int v) {
        return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return (std::to_integer<int>(b) & 1) == v; });
      };
      return {all(1) ? kAlways : kNever, all(0) ? kAlways : kNever};
    }
    default: return {};
  }
}

void Collector::claim_condition(ir::Value v, bool truth, Conditions when, SourceLocation where) {
  ir::Operation* def = v.def();
  if (def == nullptr || def->op() == Op::Constant) return;
  FoundClaim f;
  f.claim.kind = ClaimKind::Condition;
  f.claim.op = def;
  f.claim.index = static_cast<int>(v.index());
  f.claim.truth = truth;
  f.when = when;
  f.where = where;
  found_.push_back(f);
}

/// Makes claims that decide `condition`, as a whole or in parts. A scalar guard is one obligation; of a mask every
/// comparison is one, because each that remains has a cost. Where parts are decided for large tensors, a whole that is
/// decided only for small ones is left out. Returns the best score of the claims.
int Collector::want(ir::Value condition, const ir::Operation& user) {
  const ir::Operation* def = condition.def();
  if (def == nullptr || !wanted_.insert(condition.impl()).second) return 0;
  const Truth t = truth(condition);
  const int yes = samples_.score(*conditions_, t.yes), no = samples_.score(*conditions_, t.no);
  const int best = std::max(yes, no);
  const bool logical = def->op() == Op::AndI || def->op() == Op::OrI || def->op() == Op::XOrI;
  const bool shaped =
      def->op() == Op::Broadcast || def->op() == Op::Reshape || def->op() == Op::Permute || def->op() == Op::Extract;
  const bool whole = best == 3 || (best > 0 && !shaped && (!logical || condition.type().rank() == 0));
  int parts = 0;
  if ((logical || shaped) && !(whole && best >= 2)) {
    for (std::size_t i = 0; i < (shaped ? 1 : def->num_operands()); ++i)
      parts = std::max(parts, want(def->operand(i), user));
  }
  if (!whole || parts > best) return parts;
  const bool outcome = yes >= no || (yes > 0 && guards_load(user));
  claim_condition(condition, outcome, outcome ? t.yes : t.no, user.loc);
  return best;
}

/// A division at the start of a block is a chain of some 30 dependent instructions before the first address is known.
/// Where rows fit into one piece, the divisor (the number of pieces along them) is 1. Kernels with products are left
/// out: their blocks run too long for a second variant to pay.
void Collector::want_division(ir::Operation& op) {
  if (has_products_ || op.result().type().rank() != 0 || math().exact(range(op.operand(1)))) return;
  if (!division_) division_ = &op;
  const IntRange by = range(op.operand(1));
  const Expr one = math().exprs().constant(1);
  const Conditions when = conditions_->both(math().ge(by.lo, one), math().le(by.hi, one));
  if (samples_.score(*conditions_, when) == 0) return;
  FoundClaim f;
  f.claim.kind = ClaimKind::DivisorIsOne;
  f.claim.op = &op;
  f.use = ObligationUse::Division;
  f.when = when;
  f.where = op.loc;
  found_.push_back(f);
}

/// Without it code for GPUs counts the iterations (passes::count_loops).
void Collector::want_step(ir::Operation& loop) {
  FoundClaim f;
  f.claim.kind = ClaimKind::StepFits;
  f.claim.op = &loop;
  f.when = kNever;
  const IntRange end = range(loop.operand(1));
  for (const Bound& upper : end.hi) {
    const Conditions when = step_fits(loop, upper);
    if (conditions_->cost(when) < conditions_->cost(f.when)) f.when = when;
  }
  f.where = loop.loc;
  if (samples_.score(*conditions_, f.when) > 0) found_.push_back(f);
}

}  // namespace tessera::analysis
