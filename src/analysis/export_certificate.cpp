// The certificate of an analysis: its launch expressions and conditions as plain data, and the bounds of integers: of
// what loops carry and branches yield, and of other results. These are the analysis's assertions; tessera::certify
// verifies them.
#include <algorithm>
#include <unordered_map>

#include "analysis/collector.hpp"
#include "tessera/analysis/certificate.hpp"

namespace tessera::analysis {
namespace {

class Export {
 public:
  Export(ConditionPool& conditions, const RangeAnalysis& known) : pool_(conditions), known_(known) {}

  Certificate make(const ir::Function& entry, const std::vector<Conditions>& obligations) {
    for (const Conditions obligation : obligations) {
      std::vector<std::uint32_t>& numbers = out_.obligations.emplace_back();
      for (const std::uint32_t t : pool_.terms(obligation)) numbers.push_back(condition(t));
    }
    std::uint32_t number = 0;
    ir::walk(entry.body(), [&](const ir::Operation& op) { bounds_of(op, number++); });
    return std::move(out_);
  }

 private:
  /// Without recursion: an expression may be as deep as a kernel is long.
  std::uint32_t term(Expr e) {
    std::vector<Expr> open{e};
    while (!open.empty()) {
      const Expr next = open.back();
      const ExprNode& n = pool_.exprs()[next];
      const bool leaf = n.kind == ExprKind::Const || n.kind == ExprKind::Arg;
      const std::size_t before = open.size();
      if (!leaf && !terms_.contains(n.rhs.id)) open.push_back(n.rhs);
      if (!leaf && !terms_.contains(n.lhs.id)) open.push_back(n.lhs);
      if (open.size() > before) continue;
      open.pop_back();
      if (terms_.contains(next.id)) continue;
      Term t{n.kind, n.bits, n.is_signed, n.value, 0, 0};
      if (!leaf) t.lhs = terms_.at(n.lhs.id), t.rhs = terms_.at(n.rhs.id);
      terms_.emplace(next.id, static_cast<std::uint32_t>(out_.terms.size()));
      out_.terms.push_back(t);
    }
    return terms_.at(e.id);
  }

  std::uint32_t condition(std::uint32_t number) {
    if (const auto it = conditions_.find(number); it != conditions_.end()) return it->second;
    const Condition& c = pool_.term(number);
    const bool divides = c.kind == ConditionKind::Divides;
    out_.conditions.push_back({divides, term(c.a), divides ? 0 : term(c.b), c.divisor});
    return conditions_[number] = static_cast<std::uint32_t>(out_.conditions.size() - 1);
  }

  void bounds_of(const ir::Operation& op, std::uint32_t number) {
    const bool loop = op.op() == ir::Op::For || op.op() == ir::Op::Loop;
    if (op.op() == ir::Op::Constant) return;  // says what it is itself
    if (loop) {
      const ir::Block& body = op.region(0);
      // The induction variable is bounded by the loop's own operands.
      for (std::size_t i = op.op() == ir::Op::For ? 1 : 0; i < body.num_args(); ++i)
        bounds_of(body.arg(i), {number, static_cast<std::uint32_t>(i), true, false, 0, {}});
    }
    for (std::size_t i = 0; i < op.num_results(); ++i)
      bounds_of(op.result(i), {number, static_cast<std::uint32_t>(i), false, false, 0, {}});
  }

  void bounds_of(ir::Value v, Invariant at) {
    if (!is_integer(v.type())) return;
    const IntRange* range = known_.final_range(v);
    if (range == nullptr) return;
    for (const bool upper : {false, true}) {
      at.is_upper = upper;
      for (const Bound& b : upper ? range->hi : range->lo) add(b, at);
    }
  }

  /// Leaves out trivial bounds, and bounds whose conditions no obligation contains.
  void add(const Bound& b, Invariant at) {
    const auto k = pool_.exprs().constant_value(b.value);
    if (b.when.never() || (k && *k == (at.is_upper ? INT64_MAX : INT64_MIN))) return;
    for (const std::uint32_t t : pool_.terms(b.when)) {
      const auto it = conditions_.find(t);
      if (it == conditions_.end()) return;
      at.when.push_back(it->second);
    }
    at.bound = term(b.value);
    out_.invariants.push_back(std::move(at));
  }

  ConditionPool& pool_;
  const RangeAnalysis& known_;
  Certificate out_;
  std::unordered_map<std::uint32_t, std::uint32_t> terms_, conditions_;
};

}  // namespace

Certificate Collector::certificate(const ir::Function& entry, const std::vector<Conditions>& obligations) {
  return Export(*conditions_, *this).make(entry, obligations);
}

}  // namespace tessera::analysis
