// Copies between strided arrays of up to kMaxRank axes: tiles to tiles, memory to tiles and back.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tessera::cpu {

inline constexpr int kMaxRank = 16;

/// A loop nest over two arrays; strides in bytes, axis 0 outermost. Strides of a source may be 0 (broadcast) or
/// negative.
struct CopyShape {
  int rank = 0;
  std::int64_t extent[kMaxRank];
  std::int64_t dst_stride[kMaxRank];
  std::int64_t src_stride[kMaxRank];

  void add_axis(std::int64_t n, std::int64_t dst, std::int64_t src) {
    extent[rank] = n;
    dst_stride[rank] = dst;
    src_stride[rank] = src;
    ++rank;
  }
  /// Drops axes of extent 1 and merges neighbours that one loop can walk.
  void simplify(std::int64_t elem_bytes);
};

/// Copies elements of 1, 2, 4 or 8 bytes. The arrays do not overlap (or are identical with identical strides).
void copy_elements(const CopyShape&, std::byte* dst, const std::byte* src, std::int64_t elem_bytes);

/// Whether the stretches of memory that source and destination span share bytes; strides are not negative.
bool overlaps(const CopyShape&, const std::byte* dst, const std::byte* src, std::int64_t elem_bytes);
/// copy_elements for arrays that may overlap in any way: as if the source were read first.
void copy_overlapping(const CopyShape&, std::byte* dst, const std::byte* src, std::int64_t elem_bytes);

/// Makes every byte that is not 0 a 1. Memory of others may hold any byte for true, tiles hold 0 and 1 only.
void normalise_bools(std::byte*, std::int64_t count);

/// `count` elements of 1, 2, 4 or 8 bytes, all equal to the low bytes of `bits`.
void fill_elements(std::byte* dst, std::int64_t count, std::uint64_t bits, std::int64_t elem_bytes);

}  // namespace tessera::cpu
