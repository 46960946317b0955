// Tiles that the first iterations of a loop load before the wait of a programmatic dependent launch, for early_reads.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// The first `iterations` iterations of `loop` are peeled, and load the tiles of one tensor before they wait for the
/// writers of the others.
struct EarlyTiles {
  ir::Operation* loop = nullptr;
  int address = 0;                    ///< argument of the entry: the tensor's address
  std::vector<ir::Operation*> loads;  ///< of that tensor, in the loop's body, in order
  int iterations = 0;                 ///< at least 1
  int registers = 0;                  ///< that a thread needs, about
};

/// The argument of `entry` that a view or pointer is derived from; nullopt for pointers that loops carry or branches
/// choose, and for integers converted to pointers.
std::optional<int> address_argument(ir::Value v, const ir::Block& entry);

/// What to peel off `loop`, an operation of `entry`; nullopt if it is no loop, or a loop that cannot be peeled, or if
/// that does not pay. `warps`: of a block, 0 if unknown. `requested`: the number of iterations instead of the chosen
/// one, 0 for none.
std::optional<EarlyTiles> early_tiles_of(ir::Operation& loop, const ir::Block& entry, int warps,
                                         std::optional<int> requested);

/// A token after all of these.
ir::Value join(ir::Builder&, const std::vector<ir::Value>& tokens);

/// A wait that the assembler places behind the loads that made these tokens. It only orders instructions: nothing waits
/// for the loaded values.
ir::Value wait_after(const std::vector<ir::Value>& issued, ir::Builder& b);

/// Adds an arm to `branch` that yields `token`, or the result of a wait after it.
void add_way(ir::Operation& branch, ir::Value token, bool waits);

/// A token after `earlier` (null: none) for which the kernel has waited for all earlier work unless the launch flags
/// have all of `bits`.
ir::Value wait_unless(ir::Builder&, ir::Value launch_flags, std::int64_t bits, ir::Value earlier = {});

/// Peels the loop, where bit 0 of the launch flags is that of its tensor and `bits` those of all tensors. Returns the
/// branch that replaces it. Its results are those of the loop, and a token on which everything after it has to depend.
ir::Operation& peel(const EarlyTiles& tiles, ir::Value launch_flags, std::int64_t bits);

}  // namespace tessera::passes
