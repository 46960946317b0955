// The waits of a kernel that reads what nothing in flight writes before it waits: for overlap_launches.
#pragma once
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// For an entry that walks tensors in a loop before it needs anything else of the kernels before it (nothing in it
/// waits yet): puts the waits in, hangs every access and every print behind one of them, and adds the launch word to
/// the entry. The result names the arguments that are the addresses of what is read early: where bit n of the word is
/// set, nothing that may still run writes the tensor at argument result[n]. Empty, and nothing is changed, for other
/// entries.
std::vector<int> wait_behind_reads(ir::Function& f);

}  // namespace tessera::passes
