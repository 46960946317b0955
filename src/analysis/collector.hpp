// Finds claims while the dataflow runs. Private to the layer. docs/compiler/facts.md.
#pragma once
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analysis/ranges.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/certificate.hpp"
#include "tessera/analysis/dependents.hpp"
#include "tessera/analysis/facts.hpp"

namespace tessera::analysis {

/// A claim whose condition has no number yet.
struct FoundClaim {
  Claim claim;
  ObligationUse use = ObligationUse::Guard;
  Conditions when;
  SourceLocation where;
};

/// Sample launches of large and small tensors, which separate useful obligations from trivial ones such as
/// "x.dim(0) <= 0" (there is nothing to do).
class Samples {
 public:
  explicit Samples(const LaunchContract& contract);
  /// 3: always; 2: holds for large tensors; 1: for small ones; 0: for none of the samples.
  int score(ConditionPool& pool, Conditions when);

 private:
  /// A launch, and the values of all expressions so far: operands have lower numbers than what is made of them.
  struct Sample {
    std::vector<std::uint64_t> slots;
    std::vector<std::optional<std::int64_t>> values;
    bool holds(ConditionPool& pool, Conditions when);
  };
  std::vector<Sample> large_, small_;
};

class Collector final : public RangeAnalysis {
 public:
  /// `questions` takes what the rows of `predicates` ask; claims point into it.
  Collector(const LaunchContract& contract, ConditionPool& conditions, std::span<const LaunchPredicate> predicates,
            std::deque<LaunchQuestion>& questions);
  /// All claims about `function`, in program order, those about arguments last.
  std::vector<FoundClaim> collect(const ir::Function& function);
  /// The certificate of the claims collected for `function`: `obligations` by their numbers.
  Certificate certificate(const ir::Function& function, const std::vector<Conditions>& obligations);

 private:
  /// When a condition is true in all its elements, and when it is false in all of them.
  struct Truth {
    Conditions yes = kNever, no = kNever;
  };
  void visit(ir::Operation& op) override;

  // collect_conditions.cpp
  Truth truth_of(const ir::Operation& op);
  Truth compared(const ir::Operation& op);
  Conditions proof(ir::ComparisonPredicate predicate, const IntRange& a, const IntRange& b, bool is_signed) const;
  Truth truth(ir::Value v) const;
  int want(ir::Value condition, const ir::Operation& user);
  void claim_condition(ir::Value v, bool truth, Conditions when, SourceLocation where);
  void want_division(ir::Operation& op);
  void want_step(ir::Operation& loop);

  // collect_access.cpp
  void want_tile(const ir::Operation& load);
  void want_inbounds(ir::Operation& op, const Access& access);
  Conditions inside(ir::Value index, ir::Value tensor_view, std::size_t axis, std::int64_t step, std::int64_t tile);
  bool is_the_blocks(ir::Value v);
  void note_partition(const ir::Operation& make_view);
  void claim_arguments(const ir::Function& function);
  int claim_strides(const TensorContract& t, const ir::Block& entry, std::uint64_t bytes);
  bool is_vectorised(int dim_arg, ir::Value base, std::uint64_t vector) const;
  bool is_moved_in_rows(int dim_arg, ir::Value base, std::uint64_t elements);
  void claim_divisible(int arg, std::uint64_t divisor, Conditions when,
                       ObligationUse use = ObligationUse::Divisibility);
  void claim_parts_of_vectors(const TensorContract& t, const ir::Block& entry, int unit_axis);
  void claim_bounded(int arg, std::int64_t lower, std::int64_t upper, ObligationUse use, Conditions when);
  Conditions stride_condition(Expr stride, std::uint64_t bytes);

  // answer_questions.cpp
  void answer_questions(const ir::Function& function);
  void answer(const LaunchQuestion& question, int row);
  std::vector<TakenAxis> axes_taken(const ir::Block& entry) const;
  std::optional<Expr> subject_of(const LaunchBound& bound);

  const LaunchContract* contract_;
  ConditionPool* conditions_;
  std::span<const LaunchPredicate> predicates_;
  std::deque<LaunchQuestion>* questions_;
  Samples samples_;
  std::unordered_map<const ir::ValueImpl*, Truth> truths_;
  std::unordered_set<const ir::ValueImpl*> wanted_;
  /// A dimension's argument, and the extent of tiles that it is cut into.
  using CutAxis = std::pair<int, std::uint64_t>;
  std::vector<CutAxis> divisors_, taken_once_, walked_;  ///< all; where a block takes one tile; where a loop walks
  std::unordered_map<const ir::ValueImpl*, bool> is_the_blocks_;
  std::optional<ComputedFrom> from_memory_;  ///< what depends on loaded values
  std::vector<FoundClaim> found_;
  bool has_products_ = false;                               ///< matrix products
  std::unordered_set<const ir::Operation*> operand_loads_;  ///< what they multiply
  const ir::Operation* division_ = nullptr;                 ///< the first that want_division considers
};

}  // namespace tessera::analysis
