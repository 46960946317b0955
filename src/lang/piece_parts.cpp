// Sub-tiles of a piece with an extent that is no power of two (tessera/lang/mut.hpp): each is a piece whose index is
// that of a tile in the grid of tiles of its extents.
#include <bit>

#include "lang/recording_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/lang/shape.hpp"

namespace tessera::lang {

using ir::Value;

void make_parts(Recording::Impl& s, PieceState& piece) {
  std::size_t axis = 0;
  while (axis < piece.extents.size() && tessera::detail::is_power_of_two(piece.extents[axis])) ++axis;
  if (axis == piece.extents.size()) return;
  int before = 0;
  for (int left = piece.extents[axis]; left > 0;) {
    const int extent = static_cast<int>(std::bit_floor(static_cast<unsigned>(left)));
    auto part = std::make_unique<PieceState>();
    part->number = static_cast<std::uint32_t>(s.pieces.size());
    part->tensor = piece.tensor;
    part->extents = piece.extents;
    part->extents[axis] = extent;
    part->whole = &piece;
    part->part_axis = static_cast<int>(axis);
    part->part_before = before;
    piece.parts.push_back(part->number);
    s.pieces.push_back(std::move(part));
    before += extent;
    left -= extent;
  }
}

std::vector<Value> part_index(ir::Builder& b, PieceState& part) {
  PieceState& whole = *part.whole;
  const auto axis = static_cast<std::size_t>(part.part_axis);
  std::vector<Value> index = index_of(whole);
  // The sub-tiles before this one take `pieces * part_before` elements, a multiple of this one's extent: the extents
  // are powers of two, largest first.
  const Value pieces = count_of(*whole.tensor, part.part_axis, whole.extents[axis]);
  const Value first = ints::mul(b, pieces, ints::i32(b, part.part_before / part.extents[axis]));
  index[axis] = ints::add(b, first, index[axis]);
  return index;
}

PieceRef piece_part(PieceRef ref, int number) {
  Recording::Impl& s = state();
  const PieceState& piece = s.piece(ref);
  if (number < 0 || static_cast<std::size_t>(number) >= piece.parts.size())
    throw TraceError("this piece has no sub-tile of that number", s.tracer.location());
  return s.ref(*s.pieces[piece.parts[static_cast<std::size_t>(number)]], ref.inbounds());
}

}  // namespace tessera::lang
