// Integer ranges as an analysis of the dataflow driver: bounds of every integer, by what the launch contract, branches
// and loops say. Private to the layer. docs/compiler/facts.md.
#pragma once
#include <optional>

#include "analysis/dataflow.hpp"
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
  /// How many pieces a launch has; none where its blocks are not numbered by pieces, or one number does not do.
  std::optional<Expr> pieces() const { return contract_->wide_grid ? std::nullopt : pieces_; }
  /// The same along one axis, where pieces() is known.
  Expr pieces_along(int axis) const;

 private:
  void count_pieces();
  const LaunchContract* contract_;
  RangeMath math_;
  std::optional<Expr> pieces_;
};

class RangeAnalysis : public Dataflow<IntRange> {
 public:
  RangeAnalysis(const LaunchContract& contract, ConditionPool& conditions);

  /// After run(): the range of an argument of a region or a result; null if none was computed.
  const IntRange* final_range(ir::Value v) const { return final_fact(v); }

 protected:
  /// What is known here, at the operation being visited. For integers only.
  IntRange range(ir::Value v) { return fact(v); }
  /// Extent `axis` of a tensor view.
  IntRange extent(ir::Value tensor_view, std::size_t axis);
  /// When the induction variable of a `for` is at most `upper` - 1, starts where the comparison reads it as signed, and
  /// stays in its type when it is stepped for the last time.
  Conditions step_fits(const ir::Operation& loop, const Bound& upper);
  const RangeMath& math() const { return math_; }
  const LaunchRanges& launch() const { return launch_; }

 private:
  bool follows(ir::Type type) const override;
  IntRange unknown(ir::Type type) const override;
  IntRange join(const IntRange& a, const IntRange& b) const override { return math_.join(a, b); }
  IntRange widen(const IntRange& before, const IntRange& after, int round) const override;
  std::optional<IntRange> argument(ir::Value v) override;
  IntRange induction(const ir::Operation& loop) override;
  std::optional<IntRange> transfer(const ir::Operation& op, std::size_t result) override;
  void refine(ir::Value condition, bool truth, Scope& scope) override;

  std::optional<IntRange> arithmetic(const ir::Operation& op);
  IntRange constant(const ir::Operation& op) const;
  IntRange assumed(const ir::Operation& op);
  void refine_compare(const ir::Operation& compare, bool truth, Scope& scope);
  void tighten(ir::Value v, const Bounds& lo, const Bounds& hi, Scope& scope);

  RangeMath math_;
  LaunchRanges launch_;
};

/// True for integers and tiles of integers of more than one bit.
bool is_integer(ir::Type type);
int bits_of(ir::Type type);

}  // namespace tessera::analysis
