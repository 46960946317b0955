// Compiling a module of which nothing is known beyond what it says.
#include "tessera/jit/compile.hpp"

#include "jit/generate.hpp"

namespace tessera::jit {

std::shared_ptr<const runtime::Launchable> compile(const ir::Module& module, Device device,
                                                   const CompileOptions& options) {
  return generate(prepare(module, target_of(device)), device, options).work;
}

}  // namespace tessera::jit
