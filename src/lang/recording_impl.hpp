// The state of a recording: tensors with their cached dimensions, counts and views, pieces with their order tokens, the
// block's number. Private to the layer.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lang/ints.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/lang/access.hpp"
#include "tessera/lang/handles.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::lang {

/// Order of a mutable tensor's (or piece's) accesses inside a block, as token variables: loads wait for `written`,
/// stores for `all`, so loads do not wait for each other.
struct OrderTokens {
  Var written = 0;
  Var all = 0;
  bool used = false;  ///< false: no order is kept (In)
};

struct TensorState {
  std::uint32_t number = 0;
  const ParamInfo* param = nullptr;
  int position = 0;  ///< 1-based argument number
  ir::Elem elem = ir::Elem::F32;
  int rank = 0;
  ir::Value pointer;
  std::vector<ir::Value> dims, strides;  ///< i64
  std::vector<std::int64_t> extents;     ///< static dims or kDyn
  int unit_axis = -1;
  std::uint32_t unit_dims = 0, long_dims = 0;
  OrderTokens order;

  // Made on first use, at the start of the entry.
  std::vector<ir::Value> dims32;
  ir::Value tensor_view;
  struct View {
    std::vector<int> tile;
    int padding;
    ir::Value value;
  };
  std::vector<View> views;
  struct Count {
    int axis, extent;
    ir::Value value;
  };
  std::vector<Count> counts;

  // MutTiles: the order of its tile loops.
  std::optional<TileOrder> tile_order;
  bool in_tile_loop = false;

  std::string label() const;  ///< "argument 3 (In<f32, dyn>)"
};

struct PieceState {
  std::uint32_t number = 0;
  TensorState* tensor = nullptr;
  std::vector<int> extents;
  std::vector<ir::Value> index;  ///< i32; empty until it is needed (Mut)
  OrderTokens order;
  bool scheduled = false;  ///< lives in a loop over MutTiles
  // For a part (piece_parts.cpp): the piece that it is a part of, along which axis, and the extents before it.
  PieceState* whole = nullptr;
  int part_axis = 0, part_before = 0;
  std::vector<std::uint32_t> parts;  ///< sub-tiles of a piece with an extent that is no power of two
};

struct Recording::Impl {
  std::uint32_t serial = 0;
  Tracer tracer;
  Specialization specialization;
  Trace trace;
  SourceLocation where;
  std::vector<ir::Value> arguments;  ///< first entry argument of each parameter
  std::vector<std::unique_ptr<TensorState>> tensors;
  std::vector<std::unique_ptr<PieceState>> pieces;
  std::vector<int> tensor_of_param, piece_of_param;
  ir::Value number, blocks, grid[3], grid_size[3];
  OrderTokens raw;  ///< accesses through unsafe_::Ptr
  Var print_order{};
  bool guarded = false;  ///< the body runs inside `number < pieces`

  Impl(std::string name, SourceLocation at) : tracer(std::move(name), at), where(at) {}

  /// References to objects of this recording. `inbounds`: as in the reference that it is derived from.
  TensorRef ref(const TensorState&, bool inbounds) const;
  PieceRef ref(const PieceState&, bool inbounds) const;
  /// Throws TraceError for references of another recording.
  TensorState& tensor(TensorRef);
  /// The tensor of a parameter of this kind. Throws TraceError for another kind: reading a Mut tensor through an In,
  /// for example, would read what other blocks write.
  TensorState& tensor(TensorRef, ParamKind);
  PieceState& piece(PieceRef);
  void add_tensor(const ParamInfo&, int position, const TensorFacts&);
  OrderTokens fresh_order();

  ir::Value block_number();
  ir::Value block_count();
  TensorState* first_mut() const;
};

/// The current recording's state.
Recording::Impl& state();

// Values at the start of the entry, computed once.
ir::Value dim32(TensorState&, int axis);
ir::Value count_of(TensorState&, int axis, int extent);
ir::Value tensor_view_of(TensorState&);
ir::Value partition_view_of(TensorState&, Extents tile, std::optional<ir::PaddingValue>);
/// Product of the tile counts, i32.
ir::Value total_tiles(TensorState&, Extents tile);
const std::vector<ir::Value>& index_of(PieceState&);
/// Makes the parts of a piece one of whose extents is no power of two; none for other pieces.
void make_parts(Recording::Impl&, PieceState&);
/// The index of a part, from the index of its piece.
std::vector<ir::Value> part_index(ir::Builder&, PieceState& part);
/// Row-major coordinates of `number` in a grid of `counts`.
std::vector<ir::Value> coordinates(ir::Builder&, ir::Value number, std::span<const ir::Value> counts);

/// A tile of the padding value.
ir::Value padding_tile(ir::Builder&, const TensorState&, Extents tile, const PadSpec&);

/// Loads or stores the tile at a tile index through a partition view; the index is known to be in range. `inbounds`:
/// the kernel claims that every element of the tile is in range, too.
ir::Value load_view(TensorState&, Extents tile, Values index, const PadSpec&, OrderTokens*, SourceLocation,
                    bool inbounds = false);
void store_view(TensorState&, Extents tile, Values index, ir::Value tile_value, OrderTokens*, SourceLocation,
                bool inbounds = false);
/// For an access through a handle with an in-bounds claim: true if the claim is used. In checked mode it is asserted
/// instead, and the access stays total.
bool believed(bool claimed, TensorState&, Extents tile, Values index, SourceLocation);

/// i1: every index is inside the grid of tiles, along as many of the last axes as there are. Folded where statically
/// known. Checked mode reports an index that is not, unless that is `usual`.
ir::Value indices_in_range(TensorState&, Extents tile, Values index, SourceLocation, bool usual = false);

/// Loads at a tile index if `in_range` holds, else gives the padding value.
ir::Value load_if(ir::Value in_range, TensorState&, Extents tile, Values index, const PadSpec&, OrderTokens*,
                  SourceLocation);

/// A load of an In at a tile index, total or with an in-bounds claim of its handle. Both compute the counts first, used
/// or not, so that common values are recorded in the same order and a load that is proven to be in bounds is identical
/// to a claimed one. `usual`: as in indices_in_range.
ir::Value load_total_or_claimed(bool claimed, TensorState&, Extents tile, Values index, const PadSpec&, SourceLocation,
                                bool usual = false);

/// Pointers to, and mask of, the elements at `positions` (one i32 or i64 tile per axis, broadcasting to `shape`).
struct Elements {
  ir::Value pointers, mask;
};
Elements elements_at(ir::Builder&, TensorState&, Values positions, Extents shape);
/// In strict checked mode, an assertion of `inside` (null: nothing to assert), that the positions of an access, "gather
/// from", are in the tensor.
void assert_inside(ir::Value inside, const char* access, const TensorState&, SourceLocation);
/// accumulate() of positions that may lie outside by design, such as those of a tile over the tensor's edge: they are
/// dropped in strict checked mode as well.
void accumulate_clipped(TensorRef, AccOp, bool is_signed, Values positions, Extents shape, ir::Value, SourceLocation);
/// For a handle with an in-bounds claim: without a mask, or in checked mode with the mask asserted.
Elements claimed_elements(Elements, bool claimed, const TensorState&, SourceLocation);
ir::Value load_pointers(const Elements&, TensorState&, Extents shape, const PadSpec&, OrderTokens*, SourceLocation);
void store_pointers(const Elements&, ir::Value value, OrderTokens*, SourceLocation);
/// start + 0, 1, ... along `axis`, of the type of `start` (i32 or i64).
ir::Value positions_along(ir::Builder&, ir::Value start, int axis, Extents shape);

std::vector<std::int64_t> wide(Extents);

// Tokens.
void loaded(OrderTokens&, ir::Value token, SourceLocation);
void stored(OrderTokens&, ir::Value token);

}  // namespace tessera::lang
