// The driver of all forward analyses over SSA: straight-line code, loops to a fixpoint, branches refined by their
// condition. An analysis is a lattice and a transfer function. Private to the layer. docs/compiler/facts.md.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tessera/analysis/values.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// `Fact` is an element of the lattice: default-constructible and comparable.
template <class Fact>
class Dataflow {
 public:
  virtual ~Dataflow() = default;
  Dataflow(const Dataflow&) = delete;
  Dataflow& operator=(const Dataflow&) = delete;

  void run(const ir::Function& f) {
    const ir::Block& body = f.body();
    for (std::size_t i = 0; i < body.num_args(); ++i) {
      if (!follows(body.arg(i).type())) continue;
      if (auto known = argument(body.arg(i))) facts_[body.arg(i).impl()] = std::move(*known);
    }
    run_block(body, true);
  }

  /// After run(): the fact of a value at all of its uses, without refinements by conditions; null if unknown. For
  /// arguments of regions and results of loops and branches it holds in every iteration and for every arm.
  const Fact* final_fact(ir::Value v) const {
    const auto it = facts_.find(v.impl());
    return it != facts_.end() ? &it->second : nullptr;
  }
  /// Values that were looked up because a branch refines what they may be made of.
  std::size_t stale_visits() const { return stale_visits_; }
  /// All of them.
  std::unordered_map<const ir::ValueImpl*, Fact> facts() && { return std::move(facts_); }

 protected:
  /// The facts that an arm of a branch refines.
  class Scope {
   public:
    const Fact* find(ir::Value v) const {
      const auto it = known_.find(v.impl());
      return it != known_.end() ? &it->second : nullptr;
    }
    void set(ir::Value v, Fact fact) { known_[v.impl()] = std::move(fact); }

   private:
    friend class Dataflow;
    Scope* outer_ = nullptr;
    const ir::Operation* branch_ = nullptr;
    std::unordered_map<const ir::ValueImpl*, Fact> known_;
    std::unordered_set<const ir::ValueImpl*> refined_;  ///< by the branch's condition
    /// Whether a value is to be recomputed from the refined facts, of those that were looked up.
    std::unordered_map<const ir::ValueImpl*, bool> stale_;
    int visits_ = 0;  ///< of values that were looked up
  };

  /// `visits`: call visit().
  explicit Dataflow(bool visits) : visits_(visits) {}

  // The lattice.
  /// True for types whose values have facts.
  virtual bool follows(ir::Type) const = 0;
  /// The fact that holds for every value (top).
  virtual Fact unknown(ir::Type) const = 0;
  /// The fact of a value that has one of the two facts.
  virtual Fact join(const Fact&, const Fact&) const = 0;
  /// The fact of a carried value that has the fact `before` in some iterations and `after` in the next ones. Must
  /// return `before` after finitely many rounds, which count from 0.
  virtual Fact widen(const Fact& before, const Fact& after, [[maybe_unused]] int round) const {
    return join(before, after);
  }

  // The transfer function. nullopt: unknown.
  virtual std::optional<Fact> argument([[maybe_unused]] ir::Value entry_argument) { return std::nullopt; }
  /// Of the induction variable of a `for`.
  virtual Fact induction(const ir::Operation& loop) = 0;
  /// For a result of an operation without regions. It calls fact() for the operands.
  virtual std::optional<Fact> transfer(const ir::Operation&, std::size_t result) = 0;
  /// For a result of a reduce or scan, whose region is not run.
  virtual std::optional<Fact> reduction(const ir::Operation&, [[maybe_unused]] std::size_t result) {
    return std::nullopt;
  }
  /// Adds to `scope` the facts that hold where `condition` is `truth`.
  virtual void refine([[maybe_unused]] ir::Value condition, [[maybe_unused]] bool truth,
                      [[maybe_unused]] Scope& scope) {}
  /// Called once for every operation outside reduce and scan, when the facts of its results are final.
  virtual void visit(ir::Operation&) {}

  /// The fact at the operation that the driver is visiting.
  Fact fact(ir::Value v) {
    for (Scope* s = scope_; s != nullptr; s = s->outer_) {
      if (const Fact* known = s->find(v)) return *known;
      if (!is_stale(*s, v)) continue;
      auto again = transfer(*v.def(), v.index());
      Fact found = again ? std::move(*again) : unknown(v.type());
      scope_->known_.emplace(v.impl(), found);
      return found;
    }
    const Fact* known = final_fact(v);
    return known ? *known : unknown(v.type());
  }

 private:
  using Facts = std::vector<Fact>;  ///< of carried or yielded values; of those that are not followed, Fact{}
  /// What the exits of a loop's body carry; empty where there is none.
  struct Exits {
    std::optional<Facts> continued, broken;
  };

  void set(ir::Value v, Fact fact) { facts_[v.impl()] = std::move(fact); }

  void run_block(const ir::Block& block, bool final) {
    for (ir::Operation& op : block) {
      switch (op.op()) {
        case ir::Op::For:
        case ir::Op::Loop: run_loop(op, final); break;
        case ir::Op::If: run_if(op, final); break;
        case ir::Op::Continue:
          if (loop_ != nullptr) leave(op, loop_->continued);
          break;
        case ir::Op::Break:
          if (loop_ != nullptr) leave(op, loop_->broken);
          break;
        case ir::Op::Yield:
          yielded_.reset();
          leave(op, yielded_);
          break;
        default:
          for (std::size_t i = 0; i < op.num_results(); ++i) {
            if (!follows(op.result(i).type())) continue;
            const bool reduces = op.op() == ir::Op::Reduce || op.op() == ir::Op::Scan;
            if (auto known = reduces ? reduction(op, i) : transfer(op, i)) set(op.result(i), std::move(*known));
          }
      }
      if (final && visits_) visit(op);
    }
  }

  /// Joins what `terminator` carries into what other exits do.
  void leave(const ir::Operation& terminator, std::optional<Facts>& into) {
    Facts values;
    for (const ir::OpOperand& use : terminator.operands())
      values.push_back(follows(use.value.type()) ? fact(use.value) : Fact{});
    merge(into, std::move(values), terminator);
  }

  void merge(std::optional<Facts>& into, Facts values, const ir::Operation& terminator) {
    if (!into) {
      into = std::move(values);
      return;
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      if (follows(terminator.operand(i).type())) (*into)[i] = join((*into)[i], values[i]);
  }

  void run_loop(ir::Operation& op, bool final) {
    const bool counted = op.op() == ir::Op::For;
    const ir::Block& body = op.region(0);
    if (counted && follows(body.arg(0).type())) set(body.arg(0), induction(op));
    Exits exits;
    const Facts state = fixpoint(op, final, exits);
    // A counted loop ends with what it carries, also after no iteration; any other with what its breaks carry.
    for (std::size_t i = 0; i < op.num_results(); ++i) {
      const ir::Value v = op.result(i);
      if (follows(v.type())) set(v, counted ? state[i] : exits.broken ? (*exits.broken)[i] : unknown(v.type()));
    }
  }

  /// What holds of the carried values in every iteration. `exits` is of a run of the body with that.
  Facts fixpoint(ir::Operation& op, bool final, Exits& exits) {
    const ir::Block& body = op.region(0);
    const std::size_t first = first_carried_arg(op);
    Facts state;
    bool carries = false;
    for (std::size_t i = first; i < body.num_args(); ++i) {
      const ir::Value init = op.operand(first_carried_operand(op) + i - first);
      const bool followed = follows(init.type());
      carries = carries || followed;
      state.push_back(followed ? fact(init) : Fact{});
    }
    // Each round of a fixpoint runs the inner fixpoints again, so their number grows exponentially with the depth: from
    // some depth on, carried values are unknown.
    const bool iterate = carries && depth_ < kDeepestFixpoint;
    for (std::size_t i = 0; carries && !iterate && i < state.size(); ++i)
      if (const ir::Type type = body.arg(first + i).type(); follows(type)) state[i] = unknown(type);
    for (int round = 0; iterate; ++round) {
      run_body(body, first, state, exits, false);
      bool changed = false;
      for (std::size_t i = 0; exits.continued && i < state.size(); ++i) {
        if (!follows(body.arg(first + i).type())) continue;
        Fact next = widen(state[i], (*exits.continued)[i], round);
        changed = changed || !(next == state[i]);
        state[i] = std::move(next);
      }
      if (!changed) break;
    }
    // If operations are visited at the end, a body whose values are not used outside is run only then.
    const bool visiting = final && visits_, asked = !visits_ || op.op() == ir::Op::Loop;
    if (visiting || (!iterate && asked)) run_body(body, first, state, exits, visiting);
    return state;
  }

  void run_body(const ir::Block& body, std::size_t first, const Facts& state, Exits& exits, bool final) {
    for (std::size_t i = 0; i < state.size(); ++i)
      if (follows(body.arg(first + i).type())) set(body.arg(first + i), state[i]);
    exits = {};
    Exits* const outer = std::exchange(loop_, &exits);
    ++depth_;
    run_block(body, final);
    --depth_;
    loop_ = outer;
  }

  void run_if(ir::Operation& op, bool final) {
    std::optional<Facts> results;
    for (std::size_t i = 0; i < op.num_regions(); ++i) {
      Scope scope;
      scope.outer_ = scope_;
      scope.branch_ = &op;
      refine(op.operand(0), i == 0, scope);
      for (const auto& [v, known] : scope.known_) scope.refined_.insert(v);
      scope_ = &scope;
      yielded_.reset();
      run_block(op.region(i), final);
      scope_ = scope.outer_;
      const ir::Operation* end = op.region(i).terminator();
      if (end != nullptr && end->op() == ir::Op::Yield && yielded_) merge(results, std::move(*yielded_), *end);
      yielded_.reset();
    }
    for (std::size_t i = 0; i < op.num_results(); ++i) {
      const ir::Value v = op.result(i);
      if (follows(v.type())) set(v, results ? (*results)[i] : unknown(v.type()));
    }
  }

  /// True for values computed before the branch of `scope` from values that its arm refines. Values of the arm itself
  /// are excluded, although an earlier round of a surrounding loop has left facts for them: they are computed as the
  /// arm runs, and a cached fact would be that of another round. Looked up from what the arm uses, so an arm that uses
  /// little costs little, however often what it refines is used elsewhere.
  bool is_stale(Scope& scope, ir::Value v, int depth = 0) {
    if (scope.refined_.empty()) return false;
    if (const auto it = scope.stale_.find(v.impl()); it != scope.stale_.end()) return it->second;
    bool stale = false;
    const ir::Operation* def = v.def();
    const bool follow = depth < kDeepestStale && scope.visits_ < kMaxStale && def != nullptr;
    if (follow && is_pure(*def) && def->num_regions() == 0 && facts_.contains(v.impl()) &&
        !stands_in(*def, *scope.branch_)) {
      ++scope.visits_;
      ++stale_visits_;
      for (const ir::OpOperand& use : def->operands())
        stale = stale || scope.refined_.contains(use.value.impl()) || is_stale(scope, use.value, depth + 1);
    }
    scope.stale_.emplace(v.impl(), stale);
    return stale;
  }
  static bool stands_in(const ir::Operation& op, const ir::Operation& branch) {
    const ir::Operation* at = &op;
    while (at != nullptr && at != &branch) at = at->parent_op();
    return at != nullptr;
  }

  const bool visits_;
  std::unordered_map<const ir::ValueImpl*, Fact> facts_;
  Scope* scope_ = nullptr;
  static constexpr int kDeepestFixpoint = 6;
  // Of the values behind one that an arm uses; beyond, what the condition says is not carried on.
  static constexpr int kDeepestStale = 200, kMaxStale = 1000;
  std::size_t stale_visits_ = 0;
  int depth_ = 0;  // loops around what runs
  Exits* loop_ = nullptr;
  std::optional<Facts> yielded_;  ///< by the block that was run last
};

}  // namespace tessera::analysis
