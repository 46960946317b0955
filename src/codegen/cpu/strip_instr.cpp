// Running chains of elementwise operations strip by strip.
#include "codegen/cpu/strip_instr.hpp"

#include <algorithm>

namespace tessera::cpu {
void StripInstr::run_step(const Frame& f, const Step& s, std::int64_t row, std::int64_t col, std::int64_t n_rows,
                          std::int64_t n_cols) const {
  prims::Operand operands[ElementwiseInstr::kMaxSources];
  for (int i = 0; i < s.sources; ++i) {
    const Source& from = s.source[i];
    const std::byte* data = f.at<std::byte>(from.ref);
    if (from.in_strip) {
      operands[i] = {data, n_cols * from.elem_bytes, false, from.uniform};
    } else {
      operands[i] = {data + row * from.row_stride + col * from.col_stride, from.row_stride, from.col_stride == 0};
    }
  }
  std::byte* to = f.at<std::byte>(s.dst);
  if (!s.in_strip) to += (row * cols + col) * s.elem_bytes;
  s.fn(to, operands, n_rows, n_cols);
}

void StripInstr::run_steps(const Frame& f) const {
  // Strips are whole rows where rows are short, else pieces of one row.
  for (const Spread& s : spreads)
    fill_elements(f.at<std::byte>(s.strip), std::min(rows * cols, prims::kUniformCopies),
                  load_bits(f.at<std::byte>(s.value), s.elem_bytes), s.elem_bytes);
  const std::int64_t n_rows = std::max<std::int64_t>(1, strip / cols), n_cols = std::min(cols, strip);
  for (std::int64_t r = 0; r < rows; r += n_rows)
    for (std::int64_t c = 0; c < cols; c += n_cols)
      for (const Step& s : steps) {
        run_step(f, s, r, c, std::min(n_rows, rows - r), std::min(n_cols, cols - c));
        f.ahead->fetch();
      }
}

/// Whether the tile to be stored may be computed where it goes: all of it exists, without gaps, and no operand of the
/// chain shares its bytes, except one that is read element by element before the same element is written.
bool StripInstr::may_write_to(const Frame& f, const Window& w) const {
  if (!w.whole) return false;
  for (std::size_t i = 0; i < store->access.axes.size(); ++i)
    if (store->access.axes[i].tile != 1 && w.stride[i] != store->src_stride[i]) return false;
  const std::int64_t bytes = steps[stored].elem_bytes;
  const std::byte* end = w.address + rows * cols * bytes;
  for (std::size_t k = 0; k < steps.size(); ++k)
    for (int i = 0; i < steps[k].sources; ++i) {
      const Source& s = steps[k].source[i];
      if (s.in_strip) continue;
      const std::byte* from = f.at<std::byte>(s.ref);
      const std::byte* last = from + (rows - 1) * s.row_stride + (cols - 1) * s.col_stride;
      if (std::max(from, last) + s.elem_bytes <= w.address || std::min(from, last) >= end) continue;
      const bool same = from == w.address && s.elem_bytes == bytes && s.col_stride == bytes &&
                        (rows == 1 || s.row_stride == cols * bytes);
      if (!same || k > stored) return false;
    }
  return true;
}

Status StripInstr::run(Frame& f) const {
  if (store == nullptr) {
    run_steps(f);
    return Status::Next;
  }
  const std::uint32_t tile = store->src.buffer;
  const Window w = resolve(f, store->access);
  const bool there = f.checker == nullptr && may_write_to(f, w);
  f.base[tile] = there ? w.address : f.home[tile];
  if (there) f.ahead->expect(w.address, rows * cols * steps[stored].elem_bytes, f.previous[tile]);
  run_steps(f);
  return there ? Status::Next : store->run(f);
}

}  // namespace tessera::cpu
