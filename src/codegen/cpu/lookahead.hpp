// Memory that the next block will probably touch, fetched into the cache while this block computes. A tile of few
// kilobytes is over before the processor's own prefetcher has found its rhythm, and the next begins on another page.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tessera::cpu {

class Lookahead {
 public:
  /// Tiles larger than this are left to the processor's prefetcher (and would push each other out of the cache).
  static constexpr std::int64_t kLargest = 8192;

  /// An access went to `address`, the time before to `previous` (which is updated): the next one is expected as far
  /// on. Only a hint: any address may be fetched, also one that is not mapped.
  void expect(const std::byte* address, std::int64_t bytes, const std::byte*& previous) {
    const std::byte* before = previous;
    previous = address;
    if (before == nullptr || before == address || bytes > kLargest || count_ == kRanges) return;
    const auto next = 2 * reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(before);
    ranges_[count_++] = {next, next + static_cast<std::uintptr_t>(bytes)};
  }
  /// Fetches up to this many cache lines of what is expected.
  void fetch(int lines) {
    while (count_ > 0 && lines > 0) {
      Range& r = ranges_[count_ - 1];
      for (; r.at < r.end && lines > 0; r.at += kLine, --lines) __builtin_prefetch(reinterpret_cast<const void*>(r.at));
      if (r.at >= r.end) --count_;
    }
  }
  void forget() { count_ = 0; }

 private:
  static constexpr int kRanges = 8;
  static constexpr std::uintptr_t kLine = 64;
  struct Range {
    std::uintptr_t at, end;
  };
  Range ranges_[kRanges];
  int count_ = 0;
};

}  // namespace tessera::cpu
