// Reads before the wait of a programmatic dependent launch, for overlap_launches.
#pragma once
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// For an entry that reads tensors in a loop before any other access that depends on earlier kernels, and that has no
/// wait yet: inserts the waits, makes every access and print depend on one of them, and adds the launch flags as the
/// last argument. Returns the arguments that are the addresses of the tensors read early: bit n of the flags says that
/// the tensor at argument result[n] has no in-flight writer. For other entries returns nothing and changes nothing.
std::vector<int> wait_behind_reads(ir::Function& f);

}  // namespace tessera::passes
