// TESSERA_COLLECT: a program that runs on the CPU leaves its kernels behind as bytecode for GPUs, for `tessera build`.
#pragma once
#include "jit/compile/pipeline.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/tuning.hpp"
#include "tessera/passes/optimize.hpp"

namespace tessera::jit {

/// Names the code of a recording for a GPU: the recording without its source lines, the obligations that hold and what
/// they mean, the GPU, explicit hints (TESSERA_TUNING's, or those of a tuning record; null: none), the
/// generation of bundles, and the arguments that a launch passes to `chosen`, its chosen form (whether there is a
/// launch flags, and what its bits say, depends on the bytecode that the assembler reads). That is what bundles are
/// searched by.
CacheKey bundle_key(const ir::Module& recording, const analysis::LaunchContract& contract, const analysis::Facts& facts,
                    std::uint64_t predicates, const Prepared& chosen, const passes::Tuning* tuning = nullptr);

/// If TESSERA_COLLECT names a folder: writes the bytecode of this specialization there for every GPU of
/// TESSERA_COLLECT_GPUS. `tuning`: the record that the launch names; `asked`: that launch has these obligations, and
/// not only more of them. Throws IoError, CompileError.
void collect(const ir::Module& recording, const analysis::LaunchContract& contract, const analysis::Facts& facts,
             std::uint64_t predicates, const std::string& label, TuningId tuning, bool asked);

}  // namespace tessera::jit
