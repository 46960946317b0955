// A load or store through a view, written as one through a tile of pointers.
#pragma once
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// True if `access` goes through a partition view of a tensor, of rank 1 or more.
bool can_use_pointers(const ir::Operation& access);

/// Replaces `access` (can_use_pointers) by load_ptr_tko or store_ptr_tko over the same elements: masked along the axes
/// that may leave the tensor, padded with the view's padding value. Order, scope and tokens are kept.
void use_pointers(ir::Operation& access);

}  // namespace tessera::passes
