// Persistent tile scheduling for MutTiles: block n takes tiles n, n + blocks, n + 2 blocks, ... of an order that is a
// permutation of all tiles, so every tile is computed exactly once for any number of blocks.
#include "lang/recording_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::lang {

using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

/// Tile coordinates of number t, first axis fastest.
std::vector<Value> column_coordinates(ir::Builder& b, Value t, std::span<const Value> counts) {
  std::vector<Value> reversed(counts.rbegin(), counts.rend());
  std::vector<Value> at = coordinates(b, t, reversed);
  return {at.rbegin(), at.rend()};
}

/// Clamps an index below its count. The arithmetic of the order implies it already, but proving that needs several
/// relations at once; with the clamp the analysis proves with one fact that accesses are in bounds. It costs one
/// instruction per tile.
Value clamped(ir::Builder& b, Value index, Value count) {
  ir::Builder& once = state().tracer.prologue();
  return ints::min_unsigned(b, index, ints::sub(once, count, ints::i32(once, 1)));
}

/// Groups of `group` rows of tiles over the last two axes: inside a group the row index runs fastest, so that
/// neighbouring blocks share columns of one operand and rows of the other. The last group may be lower. Leading axes
/// are slowest.
std::vector<Value> grouped_coordinates(ir::Builder& b, Value t, std::span<const Value> counts, int group) {
  const std::size_t rank = counts.size();
  const Value rows = counts[rank - 2], columns = counts[rank - 1];
  std::vector<Value> leading(counts.begin(), counts.end() - 2);
  std::vector<Value> at;
  if (!leading.empty()) {
    const Value plane = ints::mul(b, rows, columns);
    at = coordinates(b, ints::div_unsigned(b, t, plane), leading);
    t = ints::rem_unsigned(b, t, plane);
  }
  const Value height = ints::min_unsigned(b, ints::i32(b, group), rows);  // so that the products below cannot overflow
  const Value per_group = ints::mul(b, height, columns);
  const Value first = ints::mul(b, ints::div_unsigned(b, t, per_group), height);
  const Value inside = ints::rem_unsigned(b, t, per_group);
  const Value here = ints::min_unsigned(b, ints::sub(b, rows, first), height);
  at.push_back(clamped(b, ints::add(b, first, ints::rem_unsigned(b, inside, here)), rows));
  at.push_back(clamped(b, ints::div_unsigned(b, inside, here), columns));
  return at;
}

std::vector<Value> scheduled_tile(ir::Builder& b, Value t, std::span<const Value> counts, TileOrder order) {
  switch (order.kind) {
    case TileOrderKind::Column: return column_coordinates(b, t, counts);
    case TileOrderKind::Grouped: return grouped_coordinates(b, t, counts, order.group);
    case TileOrderKind::Row: break;
  }
  return coordinates(b, t, counts);
}

/// The tiles of one tensor must always be assigned to the same blocks: with another order, a block would access a tile
/// without waiting for the block that wrote it before.
void check_order(TensorState& t, TileOrder order, SourceLocation loc) {
  if (t.in_tile_loop) {
    throw TraceError(
        concat("a loop over the tiles of ", t.label(),
               " runs inside another loop over the same tiles; finish the first, or load inside it through its handle"),
        loc);
  }
  if (order.kind == TileOrderKind::Grouped && order.group < 1) {
    throw TraceError(concat("grouped(", order.group, "): a group holds at least one row of tiles"), loc);
  }
  if (t.tile_order && !(*t.tile_order == order)) {
    throw TraceError(
        concat("the tiles of ", t.label(),
               " were visited in another order before; every loop over them must use the same order, so that a tile "
               "stays with its block"),
        loc);
  }
}

}  // namespace

PieceRef begin_tile_loop(TensorRef ref, Extents tile, TileOrder order, SourceLocation loc) {
  Recording::Impl& s = state();
  TensorState& t = s.tensor(ref, ParamKind::MutTiles);
  check_order(t, order, loc);
  t.tile_order = order;
  t.in_tile_loop = true;

  std::vector<Value> counts;
  for (int a = 0; a < t.rank; ++a) counts.push_back(count_of(t, a, tile[static_cast<std::size_t>(a)]));
  const Value total = total_tiles(t, tile);
  const Value number = s.block_number(), blocks = s.block_count();
  const Value before = s.tracer.read(t.order.all);

  const Value number_in_order = s.tracer.open_for(number, total, blocks, false, loc);
  auto piece = std::make_unique<PieceState>();
  piece->number = static_cast<std::uint32_t>(s.pieces.size());
  piece->tensor = &t;
  piece->extents.assign(tile.begin(), tile.end());
  piece->index = scheduled_tile(s.tracer.at(loc), number_in_order, counts, order);
  // Tiles are disjoint: each starts from the order before the loop, not from the tile before it.
  piece->order = {s.tracer.fresh(before), s.tracer.fresh(before), true};
  piece->scheduled = true;
  const PieceRef result = s.ref(*piece, ref.inbounds());
  PieceState& whole = *piece;
  s.pieces.push_back(std::move(piece));
  make_parts(s, whole);
  for (const std::uint32_t n : whole.parts) {
    PieceState& part = *s.pieces[n];
    part.index = part_index(s.tracer.at(loc), part);
    part.order = {s.tracer.fresh(before), s.tracer.fresh(before), true};
    part.scheduled = true;
  }
  return result;
}

void end_tile_loop(PieceRef ref) {
  Recording::Impl& s = state();
  PieceState& p = s.piece(ref);
  TensorState& t = *p.tensor;
  std::vector<Value> tokens{s.tracer.read(t.order.all), s.tracer.read(p.order.all)};
  for (const std::uint32_t part : p.parts) tokens.push_back(s.tracer.read(s.pieces[part]->order.all));
  const Type token[] = {Type::token()};
  const Value joined = s.tracer.here().create(Op::JoinTokens, tokens, token)->result();
  s.tracer.write(t.order.all, joined);
  s.tracer.write(t.order.written, joined);
  s.tracer.close();
  t.in_tile_loop = false;
}

void abandon_tile_loop(PieceRef ref, bool exception, SourceLocation loc) noexcept {
  Tracer* tracer = Tracer::maybe();
  if (tracer == nullptr) return;
  if (exception) {
    tracer->abandon();
    return;
  }
  tracer->fail(
      "`break` or `return` leaves a loop over the tiles of a MutTiles; its body is recorded once, so the exit would be "
      "unconditional and tiles would stay unwritten. Put the work into tile_if",
      loc);
  try {
    end_tile_loop(ref);
  } catch (...) { tracer->abandon(); }
}

}  // namespace tessera::lang
