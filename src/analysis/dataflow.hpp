// The one dataflow driver: integer ranges forward over SSA, loops to a fixpoint, branches with what their condition
// says. Private to the layer. docs/compiler/facts.md.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analysis/int_range.hpp"
#include "tessera/analysis/launch_contract.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// What the launch contract says of an entry's arguments and grid.
class LaunchRanges {
 public:
  LaunchRanges(const LaunchContract& contract, const RangeMath& math);
  /// Entry argument `number`, an integer of `bits` bits.
  IntRange argument(int number, int bits) const;
  IntRange block_id(int axis) const;
  IntRange grid_size(int axis) const;

 private:
  void count_pieces();
  const LaunchContract* contract_;
  RangeMath math_;
  std::optional<Expr> pieces_;
};

class Dataflow {
 public:
  Dataflow(const LaunchContract& contract, ConditionPool& conditions);
  virtual ~Dataflow() = default;
  Dataflow(const Dataflow&) = delete;
  Dataflow& operator=(const Dataflow&) = delete;

  void run(const ir::Function& function);

 protected:
  /// Called once for every operation outside reduce and scan, when its results' ranges are final.
  virtual void visit(ir::Operation& op) = 0;

  /// What is known here, at the operation being visited. Anything but integers is not to be asked for.
  IntRange range(ir::Value v);
  /// Extent `axis` of a tensor view.
  IntRange extent(ir::Value tensor_view, std::size_t axis);
  /// When the induction variable of a `for` is at most `upper` - 1, starts where the comparison reads it as signed, and
  /// stays in its type when it is stepped for the last time.
  Conditions step_fits(const ir::Operation& loop, const Bound& upper);
  const RangeMath& math() const { return math_; }

 private:
  struct Scope {
    Scope* outer = nullptr;
    std::unordered_map<const ir::ValueImpl*, IntRange> known;
    std::unordered_set<const ir::ValueImpl*> stale;  ///< to be computed again from what is known here
  };
  /// A loop whose body is being run: what its exits carry.
  struct Loop {
    const ir::Operation* op = nullptr;
    std::optional<std::vector<IntRange>> continued, broken;
  };

  void run_block(const ir::Block& block, bool final);
  void run_for(ir::Operation& op, bool final);
  void run_loop(ir::Operation& op, bool final);
  void run_if(ir::Operation& op, bool final);
  /// Finds what bounds the carried values in every iteration, starting from `state`, then runs the body with it.
  std::vector<IntRange> fixpoint(ir::Operation& op, std::size_t first_arg, std::vector<IntRange> state, bool final,
                                 Loop& last);
  IntRange induction(ir::Operation& op);
  void leave(const ir::Operation& terminator);
  void merge(std::optional<std::vector<IntRange>>& into, const ir::Operation& terminator);

  std::optional<IntRange> transfer(const ir::Operation& op, std::size_t result);
  std::optional<IntRange> arithmetic(const ir::Operation& op);
  IntRange constant(const ir::Operation& op) const;
  IntRange assumed(const ir::Operation& op);

  void refine(ir::Value condition, bool truth, Scope& scope);
  void refine_compare(const ir::Operation& compare, bool truth, Scope& scope);
  void tighten(ir::Value v, const Bounds& lo, const Bounds& hi, Scope& scope);
  void mark_stale(const ir::Operation& branch, Scope& scope) const;

  RangeMath math_;
  LaunchRanges launch_;
  Scope* scope_ = nullptr;
  std::unordered_map<const ir::ValueImpl*, IntRange> facts_;
  std::vector<Loop*> loops_;
  std::optional<std::vector<IntRange>> yielded_;
};

/// True for integers and tiles of integers of more than one bit.
bool is_integer(ir::Type type);
int bits_of(ir::Type type);

}  // namespace tessera::analysis
