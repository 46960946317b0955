// Works around an error of the assembler (tileiras 13.5.37). Where the iterations of a loop yield the same value for
// two results, it merges the results, also for a loop without iterations, whose results are two different initial
// values. It finds equal values after more simplification than ours (`max(x, smallest)`, results of an `if`), so scalar
// results are always protected; tiles only where the values are visibly equal. Results of a `for` are selected after
// the loop:
//
//   for i in (lower to upper) (a = x, b = y) { .. continue v, v }        a's result = lower < upper ? a's result : x
//                                                                        b's result = lower < upper ? b's result : y
//
// A second error of the assembler: the `continue` of a `for` with loads passes on the value that a variable had before
// the iteration, under another number (prev = cur; cur = cur + 2). If the assembler pipelines the loop, the result is
// the newer value (5 instead of 3). Such values are selected in each iteration, as in a `loop`.
//
// A `loop` has no such condition. There all values but the first are selected in each iteration by a condition that is
// always true, which the assembler cannot know: continue v, (truth ? v : y). Tokens cannot be selected: they start from
// the join of the initial ones.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "passes/opaque.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// The `continue` operations of a loop whose region begins with `block`, those of inner loops excepted.
void collect_continues(ir::Block& block, std::vector<Operation*>& found) {
  for (Operation& op : block) {
    if (op.op() == Op::Continue) found.push_back(&op);
    if (op.op() == Op::If)
      for (std::size_t r = 0; r < op.num_regions(); ++r) collect_continues(op.region(r), found);
  }
}

/// True if the two are the same value, or results of an `if` whose arms all yield the same value for both.
bool are_equal(Value a, Value b) {
  std::set<std::pair<const ir::ValueImpl*, const ir::ValueImpl*>> seen;  // arms may yield the same pair
  std::vector<std::pair<Value, Value>> work{{a, b}};
  while (!work.empty()) {
    const auto [x, y] = work.back();
    work.pop_back();
    if (x == y || !seen.emplace(x.impl(), y.impl()).second) continue;
    const Operation* branch = x.def();
    if (branch == nullptr || branch != y.def() || branch->op() != Op::If) return false;
    for (std::size_t r = 0; r < branch->num_regions(); ++r) {
      const Operation* end = branch->region(r).terminator();
      if (end->op() == Op::Yield) work.emplace_back(end->operand(x.index()), end->operand(y.index()));
    }
  }
  return true;
}

/// What all arms of an `if` hand on, where `v` is its result.
Value behind_branches(Value v) {
  while (const Operation* branch = v.def()) {
    if (branch->op() != Op::If) break;
    Value one;
    for (std::size_t r = 0; r < branch->num_regions(); ++r) {
      const Operation* end = branch->region(r).terminator();
      if (end->op() != Op::Yield) continue;
      const Value handed_on = end->operand(v.index());
      if (one && one != handed_on) return v;
      one = handed_on;
    }
    if (!one) break;
    v = one;
  }
  return v;
}

bool loads(const Operation& loop) {
  bool found = false;
  ir::walk(loop.region(0), [&](const Operation& op) { found = found || analysis::is_load(op); });
  return found;
}

class LoopResults {
 public:
  LoopResults(Operation& loop, Opaque& opaque) : loop_(loop), opaque_(opaque) {
    collect_continues(loop.region(0), continues_);
  }

  bool separate() {
    std::vector<std::size_t> found;
    const std::size_t n = continues_.empty() ? 0 : continues_.front()->num_operands();
    for (std::size_t c = 0; c < n; ++c)
      if (initial(c).type().kind() != ir::TypeKind::Token && may_be_another(c, n)) found.push_back(c);
    for (const std::size_t c : found)
      if (loop_.op() == Op::For)
        choose_behind(c);
      else if (c != found.front())
        choose_inside(c);
    const bool lagging = choose_lagging();
    return join_tokens() || lagging || !found.empty();
  }

 private:
  Value initial(std::size_t carried) const { return loop_.operand(first_carried_operand(loop_) + carried); }

  bool are_one(std::size_t first, std::size_t second) const {
    return std::ranges::all_of(
        continues_, [&](const Operation* end) { return are_equal(end->operand(first), end->operand(second)); });
  }
  /// True if the assembler may merge this result with another.
  bool may_be_another(std::size_t c, std::size_t n) const {
    const ir::Type type = initial(c).type();
    for (std::size_t other = 0; other < n; ++other)
      if (initial(other).type() == type && initial(other) != initial(c) && (type.rank() == 0 || are_one(c, other)))
        return true;
    return false;
  }

  void choose_behind(std::size_t carried) {
    const Value result = loop_.result(carried);
    if (!result.has_uses()) return;
    ir::Builder b = ir::Builder::before(loop_.next());
    b.loc = loop_.loc;
    const bool is_unsigned = loop_.has_attr(AttrName::unsignedCmp);
    const Value runs = compared(b, ir::ComparisonPredicate::Less, loop_.operand(0), loop_.operand(1),
                                is_unsigned ? ir::Signedness::Unsigned : ir::Signedness::Signed);
    const Value condition = splat(b, runs, result.type().shape());
    Operation* choice = b.create(Op::Select, {initial(carried), initial(carried), initial(carried)}, {result.type()});
    result.replace_all_uses_with(choice->result());
    choice->set_operand(0, condition);
    choice->set_operand(1, result);
  }

  /// True if this loop's `continue` hands on another of its own variables at the place `carried`.
  bool lags(const Operation& end, std::size_t carried) const {
    const Value handed_on = behind_branches(end.operand(carried));
    const ir::Block& body = loop_.region(0);
    const std::size_t first = body.num_args() - end.num_operands();
    return handed_on.argument_block() == &body && handed_on.index() >= first && handed_on.index() != first + carried &&
           handed_on.type().kind() != ir::TypeKind::Token;
  }
  bool choose_lagging() {
    if (loop_.op() != Op::For || !loads(loop_)) return false;
    bool found = false;
    for (std::size_t c = 0; !continues_.empty() && c < continues_.front()->num_operands(); ++c) {
      if (std::ranges::none_of(continues_, [&](const Operation* end) { return lags(*end, c); })) continue;
      choose_inside(c);
      found = true;
    }
    return found;
  }

  void choose_inside(std::size_t carried) {
    const ir::Type type = initial(carried).type();
    for (Operation* end : continues_) {
      ir::Builder b = ir::Builder::before(end);
      b.loc = end->loc;
      const Value condition = splat(b, opaque_.truth(), type.shape());
      const Value chosen = b.create(Op::Select, {condition, end->operand(carried), initial(carried)}, {type})->result();
      end->set_operand(carried, chosen);
    }
  }

  /// Tokens that are equal after an iteration start as equal.
  bool join_tokens() {
    bool changed = false;
    const std::size_t n = continues_.empty() ? 0 : continues_.front()->num_operands();
    for (std::size_t first = 0; first < n; ++first) {
      if (initial(first).type().kind() != ir::TypeKind::Token) continue;
      std::vector<std::size_t> one{first};
      for (std::size_t c = first + 1; c < n; ++c)
        if (initial(c).type() == initial(first).type() && are_one(first, c)) one.push_back(c);
      std::vector<Value> tokens;
      for (const std::size_t c : one)
        if (std::ranges::find(tokens, initial(c)) == tokens.end()) tokens.push_back(initial(c));
      if (tokens.size() == 1) continue;
      ir::Builder b = ir::Builder::before(&loop_);
      b.loc = loop_.loc;
      const std::vector<ir::Type> type{tokens.front().type()};
      const Value all = b.create(Op::JoinTokens, tokens, type)->result();
      for (const std::size_t c : one) loop_.set_operand(first_carried_operand(loop_) + c, all);
      changed = true;
    }
    return changed;
  }

  Operation& loop_;
  Opaque& opaque_;
  std::vector<Operation*> continues_;
};

}  // namespace

bool separate_results(ir::Function& f) {
  std::vector<Operation*> loops;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::For || op.op() == Op::Loop) loops.push_back(&op);
  });
  Opaque opaque(f);
  bool changed = false;
  for (Operation* loop : loops) changed = LoopResults(*loop, opaque).separate() || changed;
  return changed;
}

}  // namespace tessera::passes
