// A specialization that learns which hints are the fastest. docs/learning.md.
#pragma once
#include <functional>

#include "jit/compile/pipeline.hpp"
#include "jit/learn/learning_work.hpp"
#include "jit/tuning/tuning_choice.hpp"
#include "tessera/analysis/launch_contract.hpp"
#include "tessera/base/env.hpp"
#include "tessera/jit/code.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::jit {

/// A specialization that was compiled as the compiler chooses.
struct LearningSubject {
  TuningSubject subject;
  std::function<Prepared(const passes::Tuning&)> prepare;  ///< the same kernel with these hints; called at once
  const analysis::LaunchContract& contract;
  Device device;
  const CompileOptions& options;
};

/// What the innermost LearningScope of this thread says: 1 or 0; -1 without one.
extern thread_local constinit signed char scoped_learning;
/// True where launches of this thread learn: in a LearningScope, else as TESSERA_LEARN says.
inline bool learning_is_on() { return scoped_learning >= 0 ? scoped_learning == 1 : env_flag(Env::LEARN, false); }

/// The hints that may be faster and cannot change a result: occupancy, and the latency of products; warps too, where no
/// result depends on the order in which a block combines elements. `own`: as the compiler chooses.
std::vector<passes::Tuning> hints_to_try(const Prepared& own);

/// `code`, or the same code as work that compiles others in the background and times them. `own` is what the code was
/// made from. What is found goes to the file learnt_records().
Code learning(Code code, const Prepared& own, const LearningSubject& subject);

}  // namespace tessera::jit
