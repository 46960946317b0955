// Strided copies. Inner loops: memcpy where both sides are contiguous, a fill where the source is one element,
// otherwise element loops that are blocked when one side is contiguous along another axis than the other (a transpose),
// so that every cache line is used whole while it is at hand.
#include "codegen/cpu/copy.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tessera::cpu {
namespace {

/// Rows and columns of a transposed copy that are moved together: 16 columns of 8 bytes are two cache lines.
constexpr std::int64_t kBlock = 16;

template <class T>
T read(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void write(std::byte* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

template <class T>
void copy_line(std::int64_t n, std::byte* dst, std::int64_t ds, const std::byte* src, std::int64_t ss) {
  constexpr std::int64_t size = sizeof(T);
  if (ds == size && ss == size) {
    std::memcpy(dst, src, static_cast<std::size_t>(n * size));
  } else if (ds == size && ss == 0) {
    fill_elements(dst, n, read<T>(src), size);
  } else if (ds == size) {
    for (std::int64_t i = 0; i < n; ++i) write(dst + i * size, read<T>(src + i * ss));
  } else {
    for (std::int64_t i = 0; i < n; ++i) write(dst + i * ds, read<T>(src + i * ss));
  }
}

/// Two innermost axes where a neighbour in one array is a stride away in the other.
template <class T>
void copy_transposed(const std::int64_t* n, std::byte* dst, const std::int64_t* ds, const std::byte* src,
                     const std::int64_t* ss) {
  for (std::int64_t i0 = 0; i0 < n[0]; i0 += kBlock)
    for (std::int64_t j0 = 0; j0 < n[1]; j0 += kBlock) {
      const std::int64_t i1 = std::min(i0 + kBlock, n[0]), j1 = std::min(j0 + kBlock, n[1]);
      for (std::int64_t i = i0; i < i1; ++i)
        for (std::int64_t j = j0; j < j1; ++j) write(dst + i * ds[0] + j * ds[1], read<T>(src + i * ss[0] + j * ss[1]));
    }
}

template <class T>
void copy_nest(const CopyShape& s, int axis, std::byte* dst, const std::byte* src) {
  constexpr std::int64_t size = sizeof(T);
  const int left = s.rank - axis;
  if (left == 0) return write(dst, read<T>(src));
  if (left == 1) return copy_line<T>(s.extent[axis], dst, s.dst_stride[axis], src, s.src_stride[axis]);
  const bool transposed = (s.src_stride[axis + 1] != size && s.src_stride[axis] == size) ||
                          (s.dst_stride[axis + 1] != size && s.dst_stride[axis] == size);
  if (left == 2 && transposed && s.src_stride[axis + 1] != 0)
    return copy_transposed<T>(s.extent + axis, dst, s.dst_stride + axis, src, s.src_stride + axis);
  for (std::int64_t i = 0; i < s.extent[axis]; ++i)
    copy_nest<T>(s, axis + 1, dst + i * s.dst_stride[axis], src + i * s.src_stride[axis]);
}

}  // namespace

void CopyShape::simplify(std::int64_t elem_bytes) {
  int kept = 0;
  for (int a = 0; a < rank; ++a) {
    if (extent[a] == 1) continue;
    extent[kept] = extent[a];
    dst_stride[kept] = dst_stride[a];
    src_stride[kept] = src_stride[a];
    if (kept > 0 && dst_stride[kept - 1] == dst_stride[kept] * extent[kept] &&
        src_stride[kept - 1] == src_stride[kept] * extent[kept]) {
      --kept;
      extent[kept] *= extent[kept + 1];
      dst_stride[kept] = dst_stride[kept + 1];
      src_stride[kept] = src_stride[kept + 1];
    }
    ++kept;
  }
  rank = kept;
  if (rank == 0) add_axis(1, elem_bytes, elem_bytes);
}

void copy_elements(const CopyShape& s, std::byte* dst, const std::byte* src, std::int64_t elem_bytes) {
  switch (elem_bytes) {
    case 1: return copy_nest<std::uint8_t>(s, 0, dst, src);
    case 2: return copy_nest<std::uint16_t>(s, 0, dst, src);
    case 4: return copy_nest<std::uint32_t>(s, 0, dst, src);
    default: return copy_nest<std::uint64_t>(s, 0, dst, src);
  }
}

bool overlaps(const CopyShape& s, const std::byte* dst, const std::byte* src, std::int64_t elem_bytes) {
  std::int64_t to = elem_bytes, from = elem_bytes;
  for (int a = 0; a < s.rank; ++a) {
    to += (s.extent[a] - 1) * s.dst_stride[a];
    from += (s.extent[a] - 1) * s.src_stride[a];
  }
  return src < dst + to && dst < src + from;
}

void copy_overlapping(const CopyShape& s, std::byte* dst, const std::byte* src, std::int64_t elem_bytes) {
  CopyShape in = s, out = s;
  std::int64_t bytes = elem_bytes;
  for (int a = s.rank; a-- > 0;) {
    in.dst_stride[a] = out.src_stride[a] = bytes;
    bytes *= s.extent[a];
  }
  std::vector<std::byte> saved(static_cast<std::size_t>(bytes));
  copy_elements(in, saved.data(), src, elem_bytes);
  copy_elements(out, dst, saved.data(), elem_bytes);
}

void normalise_bools(std::byte* p, std::int64_t count) {
  constexpr std::uint64_t ones = 0x0101010101010101, others = ~ones;
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto word = read<std::uint64_t>(p + i);
    if ((word & others) == 0) continue;  // as our own memory always is: nothing is written
    word |= (word & 0xF0F0F0F0F0F0F0F0) >> 4;
    word |= (word & 0x0C0C0C0C0C0C0C0C) >> 2;
    word |= (word & 0x0202020202020202) >> 1;
    write(p + i, word & ones);
  }
  for (; i < count; ++i) p[i] = p[i] != std::byte{0} ? std::byte{1} : std::byte{0};
}

}  // namespace tessera::cpu
