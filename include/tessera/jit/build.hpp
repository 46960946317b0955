// Compiling a kernel for a GPU that need not be on this machine: for tools, ahead-of-time bundles and tests.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/jit/cubin.hpp"
#include "tessera/jit/kernel.hpp"
#include "tessera/passes/lower_checks.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::jit {

/// A kernel ready to be loaded on the GPU that it was built for.
struct Build {
  Cubin cubin;
  std::string entry;  ///< symbol in the cubin
  int num_args = 0;   ///< without the launch word (choices.launch_word) and, behind it, the error record's address
  /// If there are any, the entry has one more argument: the address of the error record.
  std::vector<passes::LoweredCheck> checks;
  passes::Choices choices;
  Form form = Form::Chosen;  ///< a plainer one if the assembler refused what was chosen
};

/// The multiprocessors of a GPU of compute capability `sm` where none is at hand to be asked: those of the largest
/// member of its generation (their number decides only how persistent kernels are dealt out).
passes::Target target_for(int sm);

/// Compiles the module's only entry as a launch would whose obligations `held` are fulfilled. Throws as make_cubin, of
/// what the assembler refuses in every form.
Build build(const ir::Module& module, const LaunchContract& contract, std::uint64_t held, const passes::Target& target,
            const std::string& label);

}  // namespace tessera::jit
