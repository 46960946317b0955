// A load or store through a view, written as one through a tile of pointers.
#pragma once
#include <optional>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// True if `access` goes through a partition view of a tensor, of rank 1 or more.
bool can_use_pointers(const ir::Operation& access);

/// Replaces `access` (can_use_pointers) by load_ptr_tko or store_ptr_tko over the same elements: masked along the axes
/// that may leave the tensor, padded with the view's padding value. Order, scope and tokens are kept. Returns it.
/// `valid`: in a coarsened block (coarsen_blocks), an i1 for each piece, false for pieces that do not exist. The tile
/// then has the pieces as its first axis, and an index is a scalar or one number for each piece.
ir::Operation* use_pointers(ir::Operation& access, ir::Value valid = {});

/// True where a load of `tile` through a view without tensor copies may read wrong elements: the assembler (13.5.37)
/// gives a tile with fewer elements than the block has threads the layout of the tile that it is combined with. Where
/// the elements of a thread are then apart along the last axis, and the tile is longer than 1 along another, it loads
/// them as if they were contiguous, 8 or 16 bytes at once, also from unaligned addresses. Through pointers it loads
/// single ones. Threads are at most 1024. docs/compiler/choose_access_paths.md.
bool views_misread(ir::Type tile);

/// What a load gives for elements outside of a tensor: zeros if the padding is not specified, or not of floats.
ir::Value padding_tile(ir::Builder&, ir::Type tile, std::optional<ir::PaddingValue> padding);

/// Memory order and scope.
void copy_ordering(const ir::Operation& from, ir::Operation& to);

}  // namespace tessera::passes
