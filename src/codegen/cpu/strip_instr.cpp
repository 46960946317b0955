// Running chains of elementwise operations strip by strip.
#include "codegen/cpu/strip_instr.hpp"

#include <algorithm>

namespace tessera::cpu {

/// One operand may be one value, if a loop keeps such a one in a register; the other ones are stored.
void StripInstr::Step::choose_loop() {
  loop = nullptr;
  if (!fn.plain || !fn.any_length) return;
  if (fn.swapped) {
    std::swap(source[0], source[1]);
    fn.swapped = false;
  }
  int one = -1;
  for (int i = 0; i < sources; ++i) {
    const Source& s = source[i];
    if (!s.uniform && (s.in_strip || s.col_stride != 0)) continue;
    if (one >= 0 || i > 1 || sources != 2 || fn.with_one[i] == nullptr) return;
    one = i;
  }
  loop = one >= 0 ? fn.with_one[one] : fn.loop;
}

void StripInstr::run_step(const Frame& f, const Step& s, std::int64_t row, std::int64_t col, std::int64_t n_rows,
                          std::int64_t n_cols) const {
  prims::Operand operands[ElementwiseInstr::kMaxSources] = {};
  bool flat = true;  // the rows of every operand follow each other without a gap
  for (int i = 0; i < s.sources; ++i) {
    const Source& from = s.source[i];
    const std::byte* data = f.at<std::byte>(from.ref);
    if (from.in_strip) {
      operands[i] = {data, from.uniform ? 0 : n_cols * from.elem_bytes, false, from.uniform};
    } else {
      const std::int64_t stride = row_stride(f, from);
      operands[i] = {data + row * stride + col * from.col_stride, stride, from.col_stride == 0};
      flat = flat && stride == n_cols * from.col_stride;
    }
  }
  std::byte* to = f.at<std::byte>(s.dst);
  if (!s.in_strip) to += (row * cols + col) * s.elem_bytes;
  if (s.loop == nullptr) return s.fn(to, operands, n_rows, n_cols);
  if (flat || n_rows == 1) return s.loop(to, operands[0].data, operands[1].data, operands[2].data, n_rows * n_cols);
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const auto at = [&](int i) { return static_cast<const std::byte*>(operands[i].data) + r * operands[i].row_stride; };
    s.loop(to + r * n_cols * s.elem_bytes, at(0), at(1), at(2), n_cols);
  }
}

void StripInstr::finish() {
  outside_.clear();
  plain_ = rows * cols <= strip;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    plain_ = plain_ && steps[k].loop != nullptr;
    for (int i = 0; i < steps[k].sources; ++i) {
      const Source& s = steps[k].source[i];
      if (s.in_strip) continue;
      outside_.push_back({k, i});
      plain_ = plain_ && !s.apart && (rows == 1 || s.row_stride == cols * s.col_stride);
    }
  }
}

bool StripInstr::takes_rows(std::uint32_t buffer, std::int64_t length) const {
  if (rows > 1 ? cols != length : cols % length != 0) return false;
  for (const Step& step : steps)
    for (int i = 0; i < step.sources; ++i) {
      const Source& s = step.source[i];
      const bool full = s.col_stride != 0 && (rows == 1 || s.row_stride == length * s.elem_bytes);
      if (!s.in_strip && s.ref.buffer == buffer && (!full || s.ref.offset != 0)) return false;
    }
  return store == nullptr || std::none_of(store->accesses.begin(), store->accesses.end(),
                                          [&](const Access& a) { return a.buffer == buffer && !a.write; });
}

void StripInstr::take_rows(std::uint32_t buffer, std::int64_t length) {
  const bool split = rows == 1;
  if (split) {
    rows = cols / length;
    cols = length;
  }
  for (Step& step : steps)
    for (int i = 0; i < step.sources; ++i) {
      Source& s = step.source[i];
      if (s.in_strip) continue;
      if (split) s.row_stride = length * s.col_stride;
      s.apart |= s.ref.buffer == buffer;
    }
  finish();
}

void StripInstr::run_steps(const Frame& f) const {
  // Strips are whole rows where rows are short, else pieces of one row.
  for (const Spread& s : spreads)
    fill_elements(f.at<std::byte>(s.strip), std::min(rows * cols, prims::kUniformCopies),
                  load_bits(f.at<std::byte>(s.value), s.elem_bytes), s.elem_bytes);
  if (plain_) {
    for (const Step& s : steps) {
      const auto at = [&](int i) { return f.at<std::byte>(s.source[i].ref); };
      s.loop(f.at<std::byte>(s.dst), at(0), at(1), at(2), rows * cols);
      f.ahead->fetch();
    }
    return;
  }
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
  for (const Outside& o : outside_) {
    const Source& s = steps[o.step].source[o.source];
    const std::byte* from = f.at<std::byte>(s.ref);
    const std::int64_t stride = row_stride(f, s);
    const std::byte* last = from + (rows - 1) * stride + (cols - 1) * s.col_stride;
    if (std::max(from, last) + s.elem_bytes <= w.address || std::min(from, last) >= end) continue;
    const bool same =
        from == w.address && s.elem_bytes == bytes && s.col_stride == bytes && (rows == 1 || stride == cols * bytes);
    if (!same || o.step > stored) return false;
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
