// The key of a recording as it was traced.
#pragma once
#include "tessera/analysis/launch_contract.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/jit/disk_cache.hpp"

namespace tessera::jit {

/// SHA-256 over the whole recording, source lines included, and the launch contract. Everything that
/// this build of the compiler makes of a recording follows from what is hashed here. Any module will do, whether it
/// verifies or not.
CacheKey recording_key(const ir::Module& recording, const analysis::LaunchContract& contract);

}  // namespace tessera::jit
