// Memory that will probably be touched next, fetched into the cache while this block computes. A tile of a few
// kilobytes ends before the processor's own prefetcher has detected the stream, and the next tile, or the next row of a
// tile, begins on another page.
//
// Blocks repeat: they make the same accesses in the same order, each as far from that of the block before as that one
// was from its own. The accesses of a block are therefore listed, and a cursor runs ahead of the present one, into the
// next block too. The first two blocks, and blocks of very many accesses, expect the next tile of a tensor as far from
// the last one as that was from the one before it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tessera::cpu {

class Lookahead {
 public:
  /// Tiles larger than this are left to the processor's prefetcher (and would push each other out of the cache).
  static constexpr std::int64_t kLargest = 32768;

  /// An access went to `address`, the time before to `previous` (which is updated). Only hints follow: any address may
  /// be fetched, also one that is not mapped.
  void expect(const std::byte* address, std::int64_t bytes, const std::byte*& previous) {
    expect(address, 1, bytes, bytes, previous);
  }
  /// An access to a tile whose rows lie `pitch` bytes apart.
  void expect(const std::byte* address, std::int64_t rows, std::int64_t row_bytes, std::int64_t pitch,
              const std::byte*& previous) {
    const std::byte* before = previous;
    previous = address;
    if (pitch == row_bytes) {
      row_bytes *= rows;
      rows = 1;
    }
    if (rows * row_bytes > kLargest) return;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const Tile tile{at, rows, row_bytes, pitch};
    if (call_ < kCalls) note(tile);
    ++call_;
    if (repeats_ >= kWarm && calls_ <= kCalls) return run_ahead();
    if (before == nullptr || before == address) return;
    push({2 * at - reinterpret_cast<std::uintptr_t>(before), rows, row_bytes, pitch});
  }
  /// A block begins. Its lines are fetched in equal parts, as many as the block before had occasions: the processor
  /// can have only some under way, and waits for them where more come at once.
  void start_block() {
    if (occasions_ > 0) part_ = static_cast<std::uintptr_t>((lines_ + occasions_ - 1) / occasions_);
    lines_ = occasions_ = 0;
    repeats_ = call_ == calls_ && call_ > 0 ? std::min(repeats_ + 1, kWarm) : 0;
    if (repeats_ < kWarm) ahead_ = 0, ahead_bytes_ = 0;
    calls_ = call_;
    call_ = 0;
  }
  /// Fetches the next part of what is expected.
  void fetch() {
    ++occasions_;
    std::uintptr_t lines = part_;
    while (count_ > 0 && lines > 0) {
      Range& r = ranges_[first_];
      const std::uintptr_t begin = r.at, end = std::min(r.end, begin + lines * kLine);
      for (std::uintptr_t at = begin; at < end; at += kLine)
        __builtin_prefetch(reinterpret_cast<const void*>(at), 0, kLevel);
      lines -= (end - begin + kLine - 1) / kLine;
      r.at = end;
      if (end != r.end) continue;
      if (--r.rows == 0) {
        first_ = (first_ + 1) % kRanges;
        --count_;
      } else {
        r.at += r.gap;
        r.end = r.at + r.row_bytes;
      }
    }
  }
  void forget() { *this = {}; }

 private:
  static constexpr int kRanges = 16, kCalls = 256, kWarm = 2;
  static constexpr std::uintptr_t kLine = 64;
  /// To the second-level cache: the first holds what this block computes.
  static constexpr int kLevel = 2;
  /// How far the cursor runs ahead: what memory delivers in a microsecond.
  static constexpr std::int64_t kAheadBytes = 16384;
  struct Tile {
    std::uintptr_t at;
    std::int64_t rows, row_bytes, pitch;
  };
  struct Call {
    Tile tile{};
    std::uintptr_t step = 0;   ///< from the block before
    std::int64_t counted = 0;  ///< bytes of it that the cursor is ahead
  };
  struct Range {
    std::uintptr_t at, end;  ///< of the row that is being fetched
    std::int64_t rows;       ///< with this one
    std::uintptr_t gap, row_bytes;
  };

  void note(const Tile& tile) {
    Call& c = calls_made_[call_];
    c.step = tile.at - c.tile.at;
    c.tile = tile;
  }
  /// One access was made; the cursor goes on until it is far enough ahead.
  void run_ahead() {
    if (ahead_ > 0) {
      --ahead_;
      ahead_bytes_ -= calls_made_[call_ - 1].counted;
    }
    while (ahead_ < calls_ && ahead_bytes_ < kAheadBytes && count_ < kRanges) {
      int next = call_ + ahead_;
      if (next >= calls_) next -= calls_;
      if (next >= calls_) return;  // this block makes more accesses than the one before
      Call& c = calls_made_[next];
      c.counted = c.step == 0 ? 0 : c.tile.rows * c.tile.row_bytes;
      if (c.step != 0) push({c.tile.at + c.step, c.tile.rows, c.tile.row_bytes, c.tile.pitch});
      ahead_bytes_ += c.counted;
      ++ahead_;
    }
  }
  void push(const Tile& t) {
    if (count_ == kRanges) return;
    ranges_[(first_ + count_++) % kRanges] = {t.at, t.at + static_cast<std::uintptr_t>(t.row_bytes), t.rows,
                                              static_cast<std::uintptr_t>(t.pitch - t.row_bytes),
                                              static_cast<std::uintptr_t>(t.row_bytes)};
    lines_ += t.rows * t.row_bytes / static_cast<std::int64_t>(kLine);
  }

  Range ranges_[kRanges];
  int first_ = 0, count_ = 0;
  std::uintptr_t part_ = 16;                ///< lines
  std::int64_t lines_ = 0, occasions_ = 0;  ///< of this block
  Call calls_made_[kCalls];                 ///< by this block, then by the one before
  int call_ = 0, calls_ = 0;                ///< numbers of accesses: of this block so far, of the one before
  int repeats_ = 0;                         ///< blocks in a row with as many accesses as the one before
  int ahead_ = 0;                           ///< accesses from the present one to the cursor
  std::int64_t ahead_bytes_ = 0;
};

}  // namespace tessera::cpu
