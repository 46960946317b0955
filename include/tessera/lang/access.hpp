// The accesses of kernel parameters, out of line and without templates: dimensions, tile counts, bounds-checked loads
// and stores, element access, tile scheduling, atomics. The typed classes (In, Mut, MutTiles, Acc) check shapes and
// element types and call these.
//
// Every access is total: an index outside the tensor or its grid of tiles reads padding and stores nothing.
#pragma once
#include <cstdint>
#include <span>

#include "tessera/base/source_location.hpp"
#include "tessera/ir/value.hpp"
#include "tessera/lang/handles.hpp"

namespace tessera::lang {

using Extents = std::span<const int>;
using Values = std::span<const ir::Value>;

enum class PadKind : std::uint8_t { Zero, NegInf, PosInf, NaN, Value };

/// The value that elements outside a tensor read as. `value` is a scalar of the tensor's element type, for
/// PadKind::Value only.
struct PadSpec {
  PadKind kind = PadKind::Zero;
  ir::Value value;
};

// Shape of a tensor. Axes are valid (checked at compile time).
ir::Value tensor_dim(TensorRef, int axis);              ///< i32
ir::Value tensor_stride(TensorRef, int axis);           ///< i64, elements
ir::Value tile_count(TensorRef, int axis, int extent);  ///< i32: ceil(dim / extent)
TensorRef permuted_tensor(TensorRef, Extents order);    ///< axis a of the result is axis order[a]

// Reading shared tensors.
/// The tile at a tile index (i32 per axis); all padding if an index is outside the grid.
ir::Value load_tile(TensorRef, Extents tile, Values index, const PadSpec&, SourceLocation);
/// The tile whose first element has the given element offsets (i32 per axis, any sign).
ir::Value load_region(TensorRef, Extents tile, Values start, const PadSpec&, SourceLocation);
/// One element per position: `positions[a]` is an integer tile that broadcasts to `shape`; outside reads padding.
ir::Value load_elements(TensorRef, Values positions, Extents shape, const PadSpec&, SourceLocation);
/// Slices by index along `axis`; along the others the whole static extent. `index` has one element per slice.
ir::Value load_slices(TensorRef, int axis, ir::Value index, Extents shape, const PadSpec&, SourceLocation);
/// Whether load_like requires equal extents.
enum class Regions : std::uint8_t {
  Agree,   ///< each axis has the extent of the piece's tensor, or 1 and is repeated; a launch checks it
  Partial  ///< any extents: elements outside the tensor read as padding
};
/// The region of a piece: axis k of the tensor follows axis axes[k] of the piece. Gives a tile of the piece's rank with
/// extent 1 along the axes that are not named.
ir::Value load_like(TensorRef, PieceRef, Extents axes, Regions, const PadSpec&, SourceLocation);

// Pieces of mutable tensors.
ir::Value piece_dim(PieceRef, int axis);
ir::Value piece_count(PieceRef, int axis);          ///< number of pieces along an axis
ir::Value piece_index(PieceRef, int axis);          ///< i32
ir::Value piece_origin(PieceRef, int axis);         ///< i32: first element
ir::Value piece_offsets(PieceRef, SourceLocation);  ///< i64 tile: row-major element offsets in the whole tensor
/// Sub-tile `number`, largest first, of a piece with an extent that is no power of two (lang/parts.hpp).
PieceRef piece_part(PieceRef, int number);
ir::Value load_piece(PieceRef, const PadSpec&, SourceLocation);
void store_piece(PieceRef, ir::Value tile, SourceLocation);
ir::Value load_sub(PieceRef, Extents tile, Values index, const PadSpec&, SourceLocation);
void store_sub(PieceRef, Extents tile, Values index, ir::Value value, SourceLocation);
/// Elements of the piece by index, which counts from the piece's first element: `index[a]` is an integer tile that
/// broadcasts to `shape`. Outside the piece or the tensor they read padding and store nothing; of equal indices the
/// last one in row-major order is stored.
ir::Value load_piece_elements(PieceRef, Values index, Extents shape, const PadSpec&, SourceLocation);
void store_piece_elements(PieceRef, Values index, Extents shape, ir::Value value, SourceLocation);
/// The same for slices by index along `axis`, and the whole piece along the others.
ir::Value load_piece_slices(PieceRef, int axis, ir::Value index, Extents shape, const PadSpec&, SourceLocation);
void store_piece_slices(PieceRef, int axis, ir::Value index, Extents shape, ir::Value value, SourceLocation);
/// Any region of the piece's tensor by element offsets (unsafe_::Mut only: regions of blocks may overlap).
ir::Value load_anywhere(PieceRef, Extents tile, Values start, const PadSpec&, SourceLocation);
void store_anywhere(PieceRef, Extents tile, Values start, ir::Value value, SourceLocation);

// Scheduling the tiles of a MutTiles on the blocks.
enum class TileOrderKind : std::uint8_t { Row, Column, Grouped };
struct TileOrder {
  TileOrderKind kind = TileOrderKind::Row;
  int group = 0;  ///< Grouped: rows of tiles in one group
  bool operator==(const TileOrder&) const = default;
};
PieceRef begin_tile_loop(TensorRef, Extents tile, TileOrder, SourceLocation);  ///< opens the loop
void end_tile_loop(PieceRef);                                                  ///< closes it
/// The loop was left by break, return or an exception.
void abandon_tile_loop(PieceRef, bool exception, SourceLocation) noexcept;

// Adding into shared tensors. `is_signed` is that of the element type.
enum class AccOp : std::uint8_t { Add, Max, Min, And, Or, Xor };
void accumulate(TensorRef, AccOp, bool is_signed, Values positions, Extents shape, ir::Value value, SourceLocation);
/// The same for the tile at a tile index.
void accumulate_tile(TensorRef, AccOp, bool is_signed, Extents tile, Values index, ir::Value value, SourceLocation);
/// Adds values of f32 exactly, into a tensor of i64 whose first axis are the bins of a sum (reproducible<f32>::bins).
/// `positions` and `index` are along the other axes. `value` broadcasts to `shape`.
void accumulate_exactly(TensorRef, Values positions, Extents shape, ir::Value value, SourceLocation);
void accumulate_tile_exactly(TensorRef, Extents tile, Values index, ir::Value value, SourceLocation);

// The grid.
ir::Value block_coordinate(int axis, int rank);  ///< i32
ir::Value block_total();                         ///< i32

// Raw pointers.
ir::Value raw_load(ir::Value pointers, ir::Value mask, SourceLocation);  ///< `mask` may be null; zero where it is false
void raw_store(ir::Value pointers, ir::Value value, ir::Value mask, SourceLocation);
ir::Value raw_offset(ir::Value pointers, ir::Value offsets, Extents shape);

// Random numbers (base/philox.hpp) for the element offsets of an i64 tile; `seed` is a scalar i64.
enum class Distribution : std::uint8_t { Uniform, Normal };
ir::Value random_tile(Distribution, ElementType, ir::Value seed, ir::Value offsets, SourceLocation);

// Promises that the compiler relies on (unsafe_::assume).
ir::Value assume_divisible(ir::Value, std::uint64_t divisor, SourceLocation);
ir::Value assume_bounded(ir::Value, std::int64_t lower, std::int64_t upper, SourceLocation);

/// Widens an index tile to i32 or i64 (by zeros if unsigned), as positions need it.
ir::Value as_position(ir::Value index, bool is_signed);
/// An unsigned element offset as an i64.
ir::Value widened_offset(ir::Value, SourceLocation);
/// A host number as an i32 constant; throws TraceError if it does not fit.
ir::Value index_constant(std::int64_t value, SourceLocation);

}  // namespace tessera::lang
