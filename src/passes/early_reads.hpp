// Reads before the wait of a programmatic dependent launch, for overlap_launches.
#pragma once
#include <optional>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

struct EarlyReads {
  /// Arguments that are the addresses of the tensors read early: bit n of the launch flags says that the tensor at
  /// addresses[n] has no in-flight writer.
  std::vector<int> addresses;
  /// The first so many of these tensors are read before the wait even if others have an in-flight writer. 0: all of
  /// them, only if none has one.
  int alone = 0;
  /// So many iterations of the loop load their tiles of the first of these tensors before the wait even if others have
  /// an in-flight writer.
  int tiles = 0;
  int registers = 0;  ///< that a thread of an entry with such tiles needs, about
};

/// For an entry that reads tensors in a loop before any other access that depends on earlier kernels, or that loads
/// there the address of a later load, and that has no wait yet: inserts the waits, makes every access and print depend
/// on one of them, and adds the launch flags as the last argument. For other entries returns nothing and changes
/// nothing. `warps`: of a block, 0 if unknown. `early_tiles`: EarlyReads::tiles where loops can be peeled, instead of
/// the chosen number.
EarlyReads wait_behind_reads(ir::Function& f, int warps, std::optional<int> early_tiles);

}  // namespace tessera::passes
