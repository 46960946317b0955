// Memory that the next block will probably touch, fetched into the cache while this block computes. A tile of a
// few kilobytes ends before the processor's own prefetcher has detected the stream, and the next tile begins on another
// page.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tessera::cpu {

class Lookahead {
 public:
  /// Tiles larger than this are left to the processor's prefetcher (and would push each other out of the cache).
  static constexpr std::int64_t kLargest = 32768;

  /// An access went to `address`, the time before to `previous` (which is updated): the next one is expected as far
  /// on. Only a hint: any address may be fetched, also one that is not mapped.
  void expect(const std::byte* address, std::int64_t bytes, const std::byte*& previous) {
    expect(address, 1, bytes, bytes, previous);
  }
  /// Of a tile whose rows lie `pitch` bytes apart.
  void expect(const std::byte* address, std::int64_t rows, std::int64_t row_bytes, std::int64_t pitch,
              const std::byte*& previous) {
    const std::byte* before = previous;
    previous = address;
    if (pitch == row_bytes) {
      row_bytes *= rows;
      rows = 1;
    }
    if (before == nullptr || before == address || rows * row_bytes > kLargest || count_ == kRanges) return;
    const auto next = 2 * reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(before);
    ranges_[count_++] = {next, next + static_cast<std::uintptr_t>(row_bytes), rows,
                         static_cast<std::uintptr_t>(pitch - row_bytes), static_cast<std::uintptr_t>(row_bytes)};
    lines_ += rows * row_bytes / static_cast<std::int64_t>(kLine);
  }
  /// A block begins. Its lines are fetched in equal parts, as many as the block before had occasions: the processor
  /// can have only some under way, and waits for them where more come at once.
  void start_block() {
    if (occasions_ > 0) part_ = static_cast<std::uintptr_t>((lines_ + occasions_ - 1) / occasions_);
    lines_ = occasions_ = 0;
  }
  /// Fetches the next part of what is expected.
  void fetch() {
    ++occasions_;
    std::uintptr_t lines = part_;
    while (count_ > 0 && lines > 0) {
      Range& r = ranges_[count_ - 1];
      const std::uintptr_t begin = r.at, end = std::min(r.end, begin + lines * kLine);
      for (std::uintptr_t at = begin; at < end; at += kLine)
        __builtin_prefetch(reinterpret_cast<const void*>(at), 0, kLevel);
      lines -= (end - begin + kLine - 1) / kLine;
      r.at = end;
      if (end != r.end) continue;
      if (--r.rows == 0) {
        --count_;
      } else {
        r.at += r.gap;
        r.end = r.at + r.row_bytes;
      }
    }
  }
  void forget() { *this = {}; }

 private:
  static constexpr int kRanges = 8;
  static constexpr std::uintptr_t kLine = 64;
  /// To the second-level cache: the first holds what this block computes.
  static constexpr int kLevel = 2;
  struct Range {
    std::uintptr_t at, end;  ///< of the row that is being fetched
    std::int64_t rows;       ///< with this one
    std::uintptr_t gap, row_bytes;
  };
  Range ranges_[kRanges];
  int count_ = 0;
  std::uintptr_t part_ = 16;                ///< lines
  std::int64_t lines_ = 0, occasions_ = 0;  ///< of this block
};

}  // namespace tessera::cpu
