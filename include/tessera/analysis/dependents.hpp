// What depends on what, for many values at once: depends_on (kernel_facts.hpp) walks from one value to another, which
// for every pair of n values is a walk of n steps n * n times.
#pragma once
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// The values that depend on one of some values, found in one walk of a kernel.
class Dependents {
 public:
  /// The values of `body` and its regions for which depends_on(v, source) holds of a source, or that are one.
  Dependents(const ir::Block& body, std::span<const ir::Value> sources);
  bool contains(ir::Value v) const { return v && depth_.contains(v.impl()); }

 private:
  int walk(const ir::Block& block, int depth);
  std::unordered_set<const ir::ValueImpl*> sources_;
  /// How deep the outermost block stands that has one of the sources which a value depends on. No further than that
  /// block, outside of which it is another value in each iteration.
  std::unordered_map<const ir::ValueImpl*, int> depth_;
};

/// The values v with depends_on(`value`, v) that `body` defines, one of `values` being the value.
std::unordered_set<const ir::ValueImpl*> values_behind(std::span<const ir::Value> values, const ir::Block& body);

/// The values that are computed from results of some operations: through other operations as far as those pass them on,
/// and through what branches yield and counted loops carry.
class ComputedFrom {
 public:
  /// `is_source(op)`: results of the operation are such values. `passes(op)`: so are its results if an operand is.
  template <class IsSource, class Passes>
  ComputedFrom(const ir::Function& f, IsSource is_source, Passes passes) {
    std::vector<ir::Value> work;
    ir::walk(f.body(), [&](const ir::Operation& op) {
      for (std::size_t i = 0; i < op.num_results() && is_source(op); ++i) add(op.result(i), work);
    });
    while (!work.empty()) {
      const ir::Value v = work.back();
      work.pop_back();
      for (const ir::OpOperand* use = v.first_use(); use != nullptr; use = use->next)
        if (!through_control(*use, work) && passes(*use->owner))
          for (std::size_t i = 0; i < use->owner->num_results(); ++i) add(use->owner->result(i), work);
    }
  }
  bool contains(ir::Value v) const { return v && values_.contains(v.impl()); }

 private:
  void add(ir::Value v, std::vector<ir::Value>& work) {
    if (values_.insert(v.impl()).second) work.push_back(v);
  }
  /// True if the user is control flow.
  bool through_control(const ir::OpOperand& use, std::vector<ir::Value>& work);
  std::unordered_set<const ir::ValueImpl*> values_;
};

}  // namespace tessera::analysis
