// The default pipeline. Passes are added here, in order, as they come (folder passes); each leaves a module that
// verifies.
#include "jit/pipeline.hpp"

#include "tessera/ir/verifier.hpp"

namespace tessera::jit {

std::unique_ptr<ir::Module> prepared(const ir::Module& module) {
  ir::verify_or_throw(module);
  return ir::clone(module);
}

}  // namespace tessera::jit
