// Loads, stores and reductions through views.
#include <algorithm>

#include "codegen/cpu/check_access.hpp"
#include "codegen/cpu/memory_instr.hpp"
#include "codegen/cpu/tile_instr.hpp"

namespace tessera::cpu {

std::int64_t Word::get(const Frame& f) const {
  return fixed ? value : static_cast<std::int64_t>(read_unsigned(f, ref, elem));
}

Status MakeViewInstr::run(Frame& f) const {
  auto* words = f.at<std::int64_t>(dst);
  *words++ = *f.at<std::int64_t>(base);
  for (const Word& w : extents) *words++ = w.get(f);
  for (const Word& w : strides) *words++ = w.get(f);
  return Status::Next;
}

Status ViewQueryInstr::run(Frame& f) const {
  const auto* words = f.at<std::int64_t>(view);
  for (const Result& r : results) {
    const std::int64_t extent = words[1 + r.axis];
    write_integer(f, r.dst, r.elem, static_cast<std::uint64_t>(extent / r.step + (extent % r.step != 0)));
  }
  return Status::Next;
}

Window resolve(const Frame& f, const ViewAccess& a) {
  const auto* words = f.at<std::int64_t>(a.view);
  Window w;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < a.axes.size(); ++i) {
    const ViewAccess::Axis& axis = a.axes[i];
    const std::int64_t extent = words[1 + axis.tensor_axis];
    const std::int64_t stride = words[1 + a.tensor_rank + axis.tensor_axis];
    w.stride[i] = stride * a.elem_bytes;
    if (static_cast<int>(i) == a.sparse) {
      w.inside[i] = axis.tile;
      w.origin[i] = 0;
      continue;
    }
    // The index is unsigned; one beyond the last tile has nothing inside, however large it is.
    const std::uint64_t index = read_unsigned(f, axis.index, axis.index_elem);
    const bool outside = extent <= 0 || index > static_cast<std::uint64_t>((extent - 1) / axis.step);
    const std::int64_t origin = outside ? 0 : static_cast<std::int64_t>(index) * axis.step;
    w.origin[i] = origin;
    w.inside[i] = outside ? 0 : std::min(axis.tile, extent - origin);
    w.whole &= w.inside[i] == axis.tile;
    w.empty |= w.inside[i] == 0;
    offset += origin * stride;
  }
  w.address = reinterpret_cast<std::byte*>(words[0]) + (w.empty ? 0 : offset * a.elem_bytes);
  return w;
}

std::int64_t sparse_index(const Frame& f, const ViewAccess& a, std::int64_t i) {
  const ViewAccess::Axis& axis = a.axes[static_cast<std::size_t>(a.sparse)];
  const std::int64_t bytes = ir::info(axis.index_elem).bytes;
  return read_signed(f, {axis.index.buffer, axis.index.offset + i * bytes}, axis.index_elem);
}

namespace {

/// Calls f(tile offset in bytes, element offset in the tensor relative to the window, exists) for the dense part of a
/// gathered tile: one call per index of the sparse axis with the shape of the remaining axes.
template <class F>
void for_each_slice(const Frame& f, const ViewAccess& a, const Window& w, F&& call) {
  const auto s = static_cast<std::size_t>(a.sparse);
  const auto& axis = a.axes[s];
  const std::int64_t extent = f.at<std::int64_t>(a.view)[1 + axis.tensor_axis];
  for (std::int64_t i = 0; i < axis.tile; ++i) {
    const std::int64_t row = sparse_index(f, a, i);
    call(i, row * w.stride[s], row >= 0 && row < extent);
  }
}

CopyShape window_shape(const ViewAccess& a, const Window& w, const std::vector<std::int64_t>& tile_stride, bool load) {
  CopyShape s;
  for (std::size_t i = 0; i < a.axes.size(); ++i) {
    const std::int64_t n = static_cast<int>(i) == a.sparse ? 1 : w.inside[i];
    s.add_axis(n, load ? tile_stride[i] : w.stride[i], load ? w.stride[i] : tile_stride[i]);
  }
  s.simplify(a.elem_bytes);
  return s;
}

/// Visits the elements of a window one by one: f(tile byte offset, element number from the view's base, sparse row
/// exists).
template <class F>
void for_each_element(const Frame& f, const ViewAccess& a, const Window& w,
                      const std::vector<std::int64_t>& tile_stride, F&& call) {
  if (w.empty) return;
  const std::size_t rank = a.axes.size();
  const auto* words = f.at<std::int64_t>(a.view);
  std::int64_t index[kMaxRank] = {};
  for (;;) {
    std::int64_t tile = 0, element = 0;
    bool exists = true;
    for (std::size_t i = 0; i < rank; ++i) {
      std::int64_t at = w.origin[i] + index[i];
      if (static_cast<int>(i) == a.sparse) {
        at = sparse_index(f, a, index[i]);
        exists = at >= 0 && at < words[1 + a.axes[i].tensor_axis];
      }
      tile += index[i] * tile_stride[i];
      element += at * words[1 + a.tensor_rank + a.axes[i].tensor_axis];
    }
    if (exists) call(tile, element);
    std::size_t i = rank;
    while (i > 0 && ++index[i - 1] == w.inside[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

void check(Frame& f, const ViewAccess& a, const Window& w, const Site& site,
           const std::vector<std::int64_t>& tile_stride) {
  check_view_claims(f, a, w, site);
  Checker& checker = *f.checker;
  const std::int32_t access = checker.begin(f, site);
  auto* base = reinterpret_cast<std::byte*>(f.at<std::int64_t>(a.view)[0]);
  for_each_element(f, a, w, tile_stride, [&](std::int64_t, std::int64_t element) {
    checker.touch(site, access, base + (a.nibbles ? element / 2 : element * a.elem_bytes), a.elem_bytes, base);
  });
}

}  // namespace

std::int64_t ViewLoadInstr::row_length() const { return cpu::row_length(tile); }

Status ViewLoadInstr::run(Frame& f) const {
  const Window w = resolve(f, access);
  if (f.checker != nullptr) check(f, access, w, site, dst_stride);
  if (borrow_) {
    if (w.whole && borrow_tile(f, dst.buffer, tile, access.elem_bytes, lying_, {w.address, w.stride}))
      return Status::Next;
    own_tile(f, dst.buffer, tile, access.elem_bytes);
  }
  auto* to = f.at<std::byte>(dst);
  if (!w.whole || access.sparse >= 0 || access.nibbles) fill_elements(to, count, padding, access.elem_bytes);
  if (w.empty) return Status::Next;
  if (access.nibbles) {
    const auto* base = reinterpret_cast<const std::byte*>(f.at<std::int64_t>(access.view)[0]);
    for_each_element(f, access, w, dst_stride, [&](std::int64_t tile, std::int64_t element) {
      to[tile] = (base[element / 2] >> (element % 2 * 4)) & std::byte{15};
    });
    return Status::Next;
  }
  const CopyShape shape = window_shape(access, w, dst_stride, true);
  if (access.sparse < 0) {
    copy_elements(shape, to, w.address, access.elem_bytes);
  } else {
    for_each_slice(f, access, w, [&](std::int64_t i, std::int64_t offset, bool exists) {
      if (exists)
        copy_elements(shape, to + i * dst_stride[static_cast<std::size_t>(access.sparse)], w.address + offset,
                      access.elem_bytes);
    });
  }
  if (access.bools) normalise_bools(to, count);
  return Status::Next;
}

Status ViewStoreInstr::run(Frame& f) const {
  const Window w = resolve(f, access);
  if (f.checker != nullptr) check(f, access, w, site, src_stride);
  if (w.empty) return Status::Next;
  const auto* from = f.at<std::byte>(src);
  if (access.nibbles) {
    auto* base = reinterpret_cast<std::byte*>(f.at<std::int64_t>(access.view)[0]);
    for_each_element(f, access, w, src_stride, [&](std::int64_t tile, std::int64_t element) {
      const int shift = static_cast<int>(element % 2 * 4);
      std::byte& b = base[element / 2];
      b = (b & ~(std::byte{15} << shift)) | ((from[tile] & std::byte{15}) << shift);
    });
    return Status::Next;
  }
  const CopyShape shape = window_shape(access, w, src_stride, false);
  if (access.sparse < 0) {
    if (!overlaps(shape, w.address, from, access.elem_bytes)) {
      copy_elements(shape, w.address, from, access.elem_bytes);
    } else if (w.address != from || !std::equal(shape.dst_stride, shape.dst_stride + shape.rank, shape.src_stride)) {
      copy_overlapping(shape, w.address, from, access.elem_bytes);
    }
    return Status::Next;
  }
  for_each_slice(f, access, w, [&](std::int64_t i, std::int64_t offset, bool exists) {
    if (exists)
      copy_elements(shape, w.address + offset, from + i * src_stride[static_cast<std::size_t>(access.sparse)],
                    access.elem_bytes);
  });
  return Status::Next;
}

Status ViewAtomicInstr::run(Frame& f) const {
  const Window w = resolve(f, access);
  if (f.checker != nullptr) check(f, access, w, site, src_stride);
  const auto* from = f.at<std::byte>(src);
  auto* base = reinterpret_cast<std::byte*>(f.at<std::int64_t>(access.view)[0]);
  for_each_element(f, access, w, src_stride, [&](std::int64_t tile, std::int64_t element) {
    atomic_update(base + element * access.elem_bytes, mode, elem, load_bits(from + tile, access.elem_bytes));
  });
  return Status::Next;
}

}  // namespace tessera::cpu
