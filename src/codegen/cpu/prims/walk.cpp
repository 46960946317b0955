// The driver of elementwise primitives: rows without gaps become one row, splats are spread over a buffer.
#include "codegen/cpu/prims/walk.hpp"

#include <algorithm>
#include <cstring>

#include "codegen/cpu/copy.hpp"

namespace tessera::cpu::prims {
namespace {

/// One operand while a matrix is walked: where its row starts, in memory or in the buffer of a splat.
struct Cursor {
  const char* at = nullptr;
  std::int64_t step = 0;  ///< bytes per element: 0 for splats
  alignas(64) std::uint64_t buffer[kChunk];

  void start_row(const Operand& o, int bytes, std::int64_t row, std::int64_t cols) {
    if (o.uniform) {
      at = static_cast<const char*>(o.data);
      return;
    }
    const char* first = static_cast<const char*>(o.data) + row * o.row_stride;
    if (!o.splat) {
      at = first;
      step = bytes;
      return;
    }
    if (row == 0 || o.row_stride != 0) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, first, static_cast<std::size_t>(bytes));  // low bytes first, as fill_elements takes them
      fill_elements(reinterpret_cast<std::byte*>(buffer), std::min(cols, kChunk), bits, bytes);
    }
    at = reinterpret_cast<const char*>(buffer);
  }
};

/// True if the operand's rows follow each other without a gap, or it is one value for the whole matrix.
bool is_flat(const Operand& o, int bytes, std::int64_t cols) {
  return o.uniform || (o.splat ? o.row_stride == 0 : o.row_stride == cols * bytes);
}

template <int arity>
void walk_rows(ChunkFn chunk, const Layout& layout, char* out, const Operand* srcs, std::int64_t rows,
               std::int64_t cols) {
  Cursor cursors[arity];
  const char* at[3] = {};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int i = 0; i < arity; ++i) cursors[i].start_row(srcs[i], layout.bytes[i], r, cols);
    for (std::int64_t c = 0; c < cols; c += kChunk) {
      const std::int64_t n = std::min(cols - c, kChunk);
      for (int i = 0; i < arity; ++i) at[i] = cursors[i].at + c * cursors[i].step;
      chunk(out, at[0], at[1], at[2], n);
      out += n * layout.out_bytes;
    }
  }
}

/// One row whose operands are stored, or uniform: nothing needs a buffer.
void walk_line(ChunkFn chunk, const Layout& layout, char* out, const Operand* srcs, std::int64_t n) {
  const char* at[3] = {};
  std::int64_t step[3] = {};  // bytes
  for (int i = 0; i < layout.arity; ++i) {
    at[i] = static_cast<const char*>(srcs[i].data);
    step[i] = srcs[i].uniform ? 0 : layout.bytes[i] * kChunk;
  }
  for (; n > 0; n -= kChunk) {
    chunk(out, at[0], at[1], at[2], std::min(n, kChunk));
    out += kChunk * layout.out_bytes;
    for (int i = 0; i < 3; ++i) at[i] += step[i];
  }
}

}  // namespace

void walk(ChunkFn chunk, const Layout& layout, void* dst, const Operand* srcs, std::int64_t rows, std::int64_t cols) {
  bool flat = true, splat = false;
  for (int i = 0; i < layout.arity; ++i) {
    flat = flat && (rows == 1 || is_flat(srcs[i], layout.bytes[i], cols));
    splat = splat || (srcs[i].splat && !srcs[i].uniform);
  }
  auto* out = static_cast<char*>(dst);
  if (flat) {
    cols *= rows;
    rows = 1;
    if (!splat) return walk_line(chunk, layout, out, srcs, cols);
  }
  switch (layout.arity) {
    case 1: return walk_rows<1>(chunk, layout, out, srcs, rows, cols);
    case 2: return walk_rows<2>(chunk, layout, out, srcs, rows, cols);
    default: return walk_rows<3>(chunk, layout, out, srcs, rows, cols);
  }
}

}  // namespace tessera::cpu::prims
