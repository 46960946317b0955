// Kernels that find out by themselves which hints are the fastest: while they run, on the program's data.
// docs/learning.md.
#pragma once
#include <string>

namespace tessera {

/// While it lives, kernels that this thread compiles for a GPU learn (`on`), or do not, whatever TESSERA_LEARN says:
/// their first launches time several codes that compute the same bits, each launch running one of them once, and the
/// later ones run the fastest. What is learnt is kept in the file jit::learnt_records(), and later processes use it.
class LearningScope {
 public:
  explicit LearningScope(bool on = true) noexcept;
  ~LearningScope();
  LearningScope(const LearningScope&) = delete;
  LearningScope& operator=(const LearningScope&) = delete;

 private:
  signed char before_;
};
/// Blocks until every code that kernels want to try so far has been compiled, and what they have learnt is in the file:
/// for programs that measure, and before a short program ends.
void finish_compiling_for_learning();

}  // namespace tessera
