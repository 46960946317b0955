// Compiling a module without a launch contract.
#include "tessera/jit/compile.hpp"

#include "jit/load/generate.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/profile.hpp"
#include "tessera/jit/forms.hpp"

namespace tessera::jit {

std::shared_ptr<const runtime::Launchable> compile(const ir::Module& module, Device device,
                                                   const CompileOptions& options) {
  const ProfileRange range(ProfileTopic::Compile, concat("kernel ", options.label).c_str(), entry_of(module).loc);
  const passes::Target target = target_of(device);
  return best_form(
             forms_for(nullptr), [&](Form form) { return prepare(module, target, options, form); },
             [&](const Prepared& p) { return generate(p, device, options); }, notes_of_code)
      .made.work;
}

}  // namespace tessera::jit
