// Commands of several processes that share one model: rank 0 runs the command, the others follow it.
#pragma once
#include "command.hpp"
#include "mortar/mortar.hpp"

namespace mortar::cli {

/// torchrun, srun or mpirun has started this process as another one than rank 0 of several.
bool is_follower();
/// Loads the model. Of several processes, each loads its part; those that follow then do so, and throw Followed. Throws
/// UsageError unless --tensor-parallel is the number of processes, and what load() and follow() throw.
Model load_and_follow(const Arguments& arguments, ModelOptions options);

}  // namespace mortar::cli
