// Compiling a kernel for a GPU that need not be on this machine: for tools, ahead-of-time bundles and tests.
#pragma once
#include <cstdint>
#include <string>

#include "tessera/analysis/launch_contract.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::jit {

/// A kernel ready to be loaded on the GPU that it was built for.
struct Build {
  Cubin cubin;
  passes::Choices choices;   ///< with the ABI by which it is launched
  Form form = Form::Chosen;  ///< a fallback one if the assembler rejected what was chosen
};

/// The target for a GPU of compute capability `sm` that is not in this machine, with the number of SMs of the largest
/// member of its generation (it only affects the grid of persistent kernels).
passes::Target target_for(int sm);

/// Compiles the module's only entry as a launch with the obligations `predicates` would. Throws as make_cubin does if
/// the assembler rejects every form.
Build build(const ir::Module& module, const analysis::LaunchContract& contract, std::uint64_t predicates,
            const passes::Target& target, const std::string& label);

}  // namespace tessera::jit
