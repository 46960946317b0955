// The pipeline: a copy of the recording, the claims that hold, the passes. Each leaves a module that verifies.
#include "jit/pipeline.hpp"

#include "tessera/ir/verifier.hpp"

namespace tessera::jit {

Prepared prepare(const ir::Module& module, const passes::Target&) {
  ir::verify_or_throw(module);
  Prepared p;
  p.module = ir::clone(module);
  p.blocks_per_multiprocessor = 4;
  return p;
}

}  // namespace tessera::jit
