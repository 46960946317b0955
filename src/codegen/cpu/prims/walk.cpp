// The driver of elementwise primitives: rows without gaps become one row, splats are spread over a buffer, narrow
// formats are converted a chunk at a time. Shared by all instruction sets: the work is in the loops.
#include <algorithm>
#include <cstring>

#include "codegen/cpu/copy.hpp"
#include "codegen/cpu/prims/prims.hpp"

namespace tessera::cpu::prims {
namespace {

/// Elements handled between two looks at the operands: buffers of this length stay in the first-level cache.
constexpr std::int64_t kChunk = kUniformCopies;

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

/// Operations that are rare and of no interest to speed: one element at a time.
void by_reference(const Elementwise& e, char* out, const char* const* at, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint64_t bits[3] = {};
    for (int k = 0; k < e.arity; ++k)
      std::memcpy(&bits[k], at[k] + i * e.bytes[k], static_cast<std::size_t>(e.bytes[k]));
    const std::uint64_t result = ir::evaluate_element(e.op, {bits, static_cast<std::size_t>(e.arity)});
    std::memcpy(out + i * e.out_bytes, &result, static_cast<std::size_t>(e.out_bytes));
  }
}

/// A loop between conversions. They are from and to types of at most 32 bits, but f64 as an operand.
void by_conversion(const Elementwise& e, char* out, const char* const* at, std::int64_t n) {
  alignas(64) std::uint32_t buffer[3][kChunk];
  const void* in[3] = {at[0], at[1], at[2]};
  for (int i = 0; i < e.arity; ++i)
    if (e.load[i] != nullptr) {
      e.load[i](buffer[i], at[i], nullptr, nullptr, n);
      in[i] = buffer[i];
    }
  if (e.store == nullptr) return e.loop(out, in[0], in[1], in[2], n);
  if (e.loop != nullptr) {
    e.loop(buffer[0], in[0], in[1], in[2], n);
    in[0] = buffer[0];
  }
  e.store(out, in[0], nullptr, nullptr, n);
}

/// At most kChunk contiguous elements.
void chunk(const Elementwise& e, char* out, const char* const* at, std::int64_t n) {
  if (e.plain) return e.loop(out, at[0], at[1], at[2], n);
  return e.by_reference ? by_reference(e, out, at, n) : by_conversion(e, out, at, n);
}

/// True if the operand's rows follow each other without a gap, or it is one value for the whole matrix.
bool is_flat(const Operand& o, int bytes, std::int64_t cols) {
  return o.uniform || (o.splat ? o.row_stride == 0 : o.row_stride == cols * bytes);
}
/// Whether the operand is one value for the whole matrix.
bool is_one(const Operand& o) { return o.uniform || (o.splat && o.row_stride == 0); }
/// Whether the elements are stored row after row.
bool is_stored(const Operand& o, std::int64_t bytes, std::int64_t rows, std::int64_t cols) {
  return !o.splat && !o.uniform && (rows == 1 || o.row_stride == cols * bytes);
}

template <int arity>
void walk_rows(const Elementwise& e, char* out, const Operand* srcs, std::int64_t rows, std::int64_t cols) {
  Cursor cursors[arity];
  const char* at[3] = {};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int i = 0; i < arity; ++i) cursors[i].start_row(srcs[i], e.bytes[i], r, cols);
    for (std::int64_t c = 0; c < cols; c += kChunk) {
      const std::int64_t n = std::min(cols - c, kChunk);
      for (int i = 0; i < arity; ++i) at[i] = cursors[i].at + c * cursors[i].step;
      chunk(e, out, at, n);
      out += n * e.out_bytes;
    }
  }
}

/// One row whose operands are stored, or uniform: nothing needs a buffer.
void walk_line(const Elementwise& e, char* out, const Operand* srcs, std::int64_t n) {
  for (std::int64_t first = 0; first < n; first += kChunk) {
    const char* at[3] = {};
    for (int i = 0; i < e.arity; ++i)
      at[i] = static_cast<const char*>(srcs[i].data) + (srcs[i].uniform ? 0 : first * e.bytes[i]);
    chunk(e, out + first * e.out_bytes, at, std::min(n - first, kChunk));
  }
}

void walk(const Elementwise& e, char* out, const Operand* srcs, std::int64_t rows, std::int64_t cols) {
  bool flat = true, splat = false;
  for (int i = 0; i < e.arity; ++i) {
    flat = flat && (rows == 1 || is_flat(srcs[i], e.bytes[i], cols));
    splat = splat || (srcs[i].splat && !srcs[i].uniform);
  }
  if (flat) {
    cols *= rows;
    rows = 1;
    if (!splat) return walk_line(e, out, srcs, cols);
  }
  switch (e.arity) {
    case 1: return walk_rows<1>(e, out, srcs, rows, cols);
    case 2: return walk_rows<2>(e, out, srcs, rows, cols);
    default: return walk_rows<3>(e, out, srcs, rows, cols);
  }
}

/// The whole matrix as one call of a loop, if the operands allow it.
bool run_whole(const Elementwise& e, void* dst, const Operand* s, std::int64_t rows, std::int64_t cols) {
  const bool whole = e.any_length && is_stored(s[0], e.bytes[0], rows, cols) &&
                     (e.arity < 2 || is_stored(s[1], e.bytes[1], rows, cols)) &&
                     (e.arity < 3 || is_stored(s[2], e.bytes[2], rows, cols));
  const std::int64_t n = rows * cols;
  if (whole) {
    e.loop(dst, s[0].data, e.arity > 1 ? s[1].data : nullptr, e.arity > 2 ? s[2].data : nullptr, n);
    return true;
  }
  if (e.with_one[1] != nullptr && is_one(s[1]) && is_stored(s[0], e.bytes[0], rows, cols)) {
    e.with_one[1](dst, s[0].data, s[1].data, nullptr, n);
    return true;
  }
  if (e.with_one[0] != nullptr && is_one(s[0]) && is_stored(s[1], e.bytes[1], rows, cols)) {
    e.with_one[0](dst, s[0].data, s[1].data, nullptr, n);
    return true;
  }
  return false;
}

/// A loop with a form for one value as its second operand, over rows that have one each.
bool run_rows_with_one(const Elementwise& e, char* dst, const Operand* s, std::int64_t rows, std::int64_t cols) {
  if (e.with_one[1] == nullptr || cols < 16 || s[0].splat || s[0].uniform || !(s[1].splat || s[1].uniform))
    return false;
  const std::int64_t step = s[1].uniform ? 0 : s[1].row_stride;
  for (std::int64_t r = 0; r < rows; ++r)
    e.with_one[1](dst + r * cols * e.out_bytes, static_cast<const char*>(s[0].data) + r * s[0].row_stride,
                  static_cast<const char*>(s[1].data) + r * step, nullptr, cols);
  return true;
}

/// Rows that are stored, each as one call of a loop.
bool run_stored_rows(const Elementwise& e, char* dst, const Operand* s, std::int64_t rows, std::int64_t cols) {
  if (!e.any_length) return false;
  const char* at[3] = {};
  for (int i = 0; i < e.arity; ++i) {
    if (s[i].splat || s[i].uniform) return false;
    at[i] = static_cast<const char*>(s[i].data);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    e.loop(dst, at[0], at[1], at[2], cols);
    dst += cols * e.out_bytes;
    for (int i = 0; i < e.arity; ++i) at[i] += s[i].row_stride;
  }
  return true;
}

/// What is not the loop alone on one element.
__attribute__((noinline)) void run_any(const Elementwise& e, char* dst, const Operand* srcs, std::int64_t rows,
                                       std::int64_t cols) {
  Operand exchanged[3];
  if (e.swapped) {
    std::copy_n(srcs, e.arity, exchanged);
    std::swap(exchanged[0], exchanged[1]);
    srcs = exchanged;
  }
  if (rows == 1 && cols == 1) {
    const char* at[3] = {};
    for (int i = 0; i < e.arity; ++i) at[i] = static_cast<const char*>(srcs[i].data);
    return chunk(e, dst, at, 1);
  }
  if (e.plain && (run_whole(e, dst, srcs, rows, cols) || run_rows_with_one(e, dst, srcs, rows, cols) ||
                  run_stored_rows(e, dst, srcs, rows, cols)))
    return;
  walk(e, dst, srcs, rows, cols);
}

}  // namespace

void Elementwise::operator()(void* dst, const Operand* srcs, std::int64_t rows, std::int64_t cols) const {
  if (plain && !swapped && rows == 1 && cols == 1)
    return loop(dst, srcs[0].data, arity > 1 ? srcs[1].data : nullptr, arity > 2 ? srcs[2].data : nullptr, 1);
  run_any(*this, static_cast<char*>(dst), srcs, rows, cols);
}

}  // namespace tessera::cpu::prims
