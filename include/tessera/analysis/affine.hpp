// Integers that grow by a constant per iteration of a loop.
#pragma once
#include <optional>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// coefficient * i + constant + sum of scale * invariant, over the integers (nothing wraps).
struct Affine {
  std::int64_t coefficient = 0;
  std::int64_t constant = 0;
  struct Term {
    ir::Value value;
    std::int64_t scale;
    ir::Signedness read;
  };
  std::vector<Term> terms;
};

/// A scalar integer as computed in the loop, and every intermediate result of it that must not wrap for `form` to be
/// what the kernel computes.
struct AffineValue {
  Affine form;
  struct Step {
    Affine form;
    int bits;
  };
  std::vector<Step> steps;
};

/// `v`, a scalar integer of at most 32 bits, as an affine form of the loop's induction variable. Values computed
/// outside the loop are invariants, read as signed. nullopt for anything else, or if numbers get large.
std::optional<AffineValue> affine_value(ir::Value v, const ir::Operation& loop);

}  // namespace tessera::analysis
