// Dealing the tiles of a MutTiles to blocks: block n takes tiles n, n + blocks, n + 2 blocks, ... of an order that is a
// permutation of all tiles, so every tile is dealt exactly once whatever the number of blocks.
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

/// Says again that an index is below its count. It always is, by the arithmetic of its order; but that takes several
/// relations at once to see, and what knows this one fact about the index needs no other proof that an access is
/// inside. One instruction per dealt tile.
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

std::vector<Value> dealt_tile(ir::Builder& b, Value t, std::span<const Value> counts, DealOrder order) {
  switch (order.kind) {
    case DealKind::Column: return column_coordinates(b, t, counts);
    case DealKind::Grouped: return grouped_coordinates(b, t, counts, order.group);
    case DealKind::Row: break;
  }
  return coordinates(b, t, counts);
}

/// The tiles of one tensor always go to the same blocks: another order would hand a tile to a block that does not wait
/// for the one that had it before.
void check_order(TensorState& t, DealOrder order, SourceLocation loc) {
  if (t.dealing) {
    throw TraceError(
        concat("a loop over the tiles of ", t.label(),
               " runs inside another loop over the same tiles; finish the first, or load inside it through its handle"),
        loc);
  }
  if (order.kind == DealKind::Grouped && order.group < 1) {
    throw TraceError(concat("grouped(", order.group, "): a group holds at least one row of tiles"), loc);
  }
  if (t.dealt && !(*t.dealt == order)) {
    throw TraceError(
        concat("the tiles of ", t.label(),
               " were dealt in another order before; every loop over them must use the same order, so that a tile "
               "stays with its block"),
        loc);
  }
}

}  // namespace

PieceRef begin_dealing(TensorRef ref, Extents tile, DealOrder order, SourceLocation loc) {
  Recording::Impl& s = state();
  TensorState& t = s.tensor(ref, ParamKind::MutTiles);
  check_order(t, order, loc);
  t.dealt = order;
  t.dealing = true;

  std::vector<Value> counts;
  for (int a = 0; a < t.rank; ++a) counts.push_back(count_of(t, a, tile[static_cast<std::size_t>(a)]));
  const Value total = total_tiles(t, tile);
  const Value number = s.block_number(), blocks = s.block_count();
  const Value before = s.tracer.read(t.order.all);

  const Value dealt = s.tracer.open_for(number, total, blocks, false, loc);
  auto piece = std::make_unique<PieceState>();
  piece->number = static_cast<std::uint32_t>(s.pieces.size());
  piece->tensor = &t;
  piece->extents.assign(tile.begin(), tile.end());
  piece->index = dealt_tile(s.tracer.at(loc), dealt, counts, order);
  // Tiles are disjoint: each starts from the order before the loop, not from the tile before it.
  piece->order = {s.tracer.fresh(before), s.tracer.fresh(before), true};
  piece->dealt = true;
  const PieceRef result = s.ref(*piece, ref.inbounds());
  PieceState& dealt_piece = *piece;
  s.pieces.push_back(std::move(piece));
  make_parts(s, dealt_piece);
  for (const std::uint32_t n : dealt_piece.parts) {
    PieceState& part = *s.pieces[n];
    part.index = part_index(s.tracer.at(loc), part);
    part.order = {s.tracer.fresh(before), s.tracer.fresh(before), true};
    part.dealt = true;
  }
  return result;
}

void end_dealing(PieceRef ref) {
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
  t.dealing = false;
}

void abandon_dealing(PieceRef ref, bool exception, SourceLocation loc) noexcept {
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
    end_dealing(ref);
  } catch (...) { tracer->abandon(); }
}

}  // namespace tessera::lang
