// Whether a tile can be used in place, and how far its rows are from each other.
#include "codegen/cpu/borrow.hpp"

#include <optional>

namespace tessera::cpu {
namespace {

struct Rows {
  std::int64_t count, length, pitch, step;  ///< the last two: bytes
};

/// The tile as rows that are equally far apart; nullopt: it is none.
std::optional<Rows> rows_of(std::span<const std::int64_t> tile, const std::int64_t* stride, std::int64_t elem_bytes) {
  Rows r{1, 1, elem_bytes, elem_bytes};
  bool in_row = true;
  for (std::size_t i = tile.size(); i-- > 0;) {
    if (tile[i] == 1) continue;
    if (in_row) {
      r.length = tile[i];
      r.step = stride[i];
      r.pitch = r.length * r.step;
      in_row = false;
      continue;
    }
    if (r.count == 1) r.pitch = stride[i];
    if (stride[i] != r.count * r.pitch) return std::nullopt;
    r.count *= tile[i];
  }
  return r;
}

}  // namespace

std::int64_t row_length(std::span<const std::int64_t> tile) {
  std::int64_t length = 0;
  for (std::size_t i = tile.size(); i-- > 0;) {
    if (tile[i] == 1) continue;
    if (length != 0) return length;
    length = tile[i];
  }
  return 0;
}

bool borrow_tile(Frame& f, std::uint32_t buffer, std::span<const std::int64_t> tile, std::int64_t elem_bytes,
                 Lying lying, Borrowed at) {
  const std::optional<Rows> r = rows_of(tile, at.stride, elem_bytes);
  if (!r || r->pitch % elem_bytes != 0 || r->step % elem_bytes != 0) return false;
  if (lying != Lying::Strides && r->step != elem_bytes) return false;
  if (lying == Lying::Whole && r->pitch != r->length * elem_bytes) return false;
  f.base[buffer] = at.address;
  f.pitch[buffer] = r->pitch;
  f.step[buffer] = r->step;
  if (r->step == elem_bytes)
    f.ahead->expect(at.address, r->count, r->length * elem_bytes, r->pitch, f.previous[buffer]);
  return true;
}

void own_tile(Frame& f, std::uint32_t buffer, std::span<const std::int64_t> tile, std::int64_t elem_bytes) {
  f.base[buffer] = f.home[buffer];
  f.pitch[buffer] = row_length(tile) * elem_bytes;
  f.step[buffer] = elem_bytes;
}

}  // namespace tessera::cpu
