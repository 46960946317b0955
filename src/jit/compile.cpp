// Compiling a module of which nothing is known beyond what it says.
#include "tessera/jit/compile.hpp"

#include "jit/generate.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"

namespace tessera::jit {

std::shared_ptr<const runtime::Launchable> compile(const ir::Module& module, Device device,
                                                   const CompileOptions& options) {
  const ProfileRange range(ProfileTopic::Compile, concat("kernel ", options.label).c_str(), entry_of(module).loc);
  return generate(prepare(module, target_of(device), options), device, options).work;
}

}  // namespace tessera::jit
