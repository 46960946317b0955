// The pipeline: a copy of the recording, the claims that hold, the passes. Each leaves a module that verifies.
#include "jit/pipeline.hpp"

#include <algorithm>

#include "tessera/ir/verifier.hpp"

namespace tessera::jit {
namespace {

constexpr int kBlocksPerThread = 4;  // CPU: uneven pieces are evened out by having more of them

}  // namespace

Prepared prepare(const ir::Module& module, const passes::Target& target) {
  ir::verify_or_throw(module);
  Prepared p;
  p.target = target;
  p.module = ir::clone(module);
  p.choices = passes::optimize(*p.module, target);
  const int blocks = target.is_gpu() ? p.choices.persistent_blocks : target.multiprocessors * kBlocksPerThread;
  p.persistent_blocks = static_cast<std::uint64_t>(std::max(1, blocks));
  if (target.is_gpu()) p.checks = passes::lower_checks(*p.module);
  return p;
}

}  // namespace tessera::jit
