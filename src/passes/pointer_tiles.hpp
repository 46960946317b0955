// A load or store through a view, written as one through a tile of pointers.
#pragma once
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// Which axes of a partition view's access are known to stay inside the tensor: those that `inbounds` says, and those
/// where the tile's index being legal is enough (tiles of extent 1, static extents that the tile divides). Empty for
/// other views.
std::vector<bool> axes_in_bounds(const ir::Operation& access);

/// True if `access` goes through a partition view of a tensor, of rank 1 or more.
bool can_use_pointers(const ir::Operation& access);

/// Replaces `access` (can_use_pointers) by load_ptr_tko or store_ptr_tko over the same elements: masked along the axes
/// that may leave the tensor, padded with the view's padding value. Order, scope and tokens are kept.
void use_pointers(ir::Operation& access);

}  // namespace tessera::passes
