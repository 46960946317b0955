// A load or store through a view, written as one through a tile of pointers.
#pragma once
#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// True if `access` goes through a partition view of a tensor, of rank 1 or more.
bool can_use_pointers(const ir::Operation& access);

/// Replaces `access` (can_use_pointers) by load_ptr_tko or store_ptr_tko over the same elements: masked along the axes
/// that may leave the tensor, padded with the view's padding value. Order, scope and tokens are kept. Returns it.
/// `valid`: of an access of several pieces at once (coarsen_blocks), i1 for each piece, false where it accesses
/// nothing. The access's tile then has the pieces as its first axis, and an index is a scalar or a number for each
/// piece.
ir::Operation* use_pointers(ir::Operation& access, ir::Value valid = {});

/// Memory order and scope.
void copy_ordering(const ir::Operation& from, ir::Operation& to);

}  // namespace tessera::passes
