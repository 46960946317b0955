// The last launches of a queue. When a GPU fault is reported, the error lists them, because the driver does not report
// which kernel caused the fault.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "tessera/base/source_location.hpp"

namespace tessera::runtime::cuda {

/// Written by the thread that enqueues (one at a time) and read by the thread that sees a fault. Relaxed atomics and no
/// lock, because every launch writes to it. A launch that is logged during a read may be listed with the line of its
/// neighbour.
class LaunchLog {
 public:
  struct Entry {
    const char* label;  ///< static, as Submission::label
    SourceLocation where;
  };

  /// A null label: an operation that cannot fault.
  void add(const char* label, SourceLocation where, std::uint64_t number) noexcept {
    Slot& slot = slots_[number % kKept];
    slot.label.store(label, std::memory_order_relaxed);
    slot.file.store(where.file, std::memory_order_relaxed);
    slot.line.store(where.line, std::memory_order_relaxed);
    last_.store(number, std::memory_order_release);
  }
  /// Everything up to `number` is known to have ended.
  void ended(std::uint64_t number) noexcept {
    std::uint64_t known = ended_.load(std::memory_order_relaxed);
    while (known < number && !ended_.compare_exchange_weak(known, number, std::memory_order_relaxed)) {}
  }
  std::uint64_t ended() const noexcept { return ended_.load(std::memory_order_relaxed); }
  /// Appends what may still be running, oldest first; at most the last kKept.
  void list(std::vector<Entry>& out) const {
    const std::uint64_t last = last_.load(std::memory_order_acquire);
    std::uint64_t first = ended_.load(std::memory_order_relaxed) + 1;
    if (last >= kKept && first < last - kKept + 1) first = last - kKept + 1;
    for (std::uint64_t n = first; n <= last; ++n) {
      const Slot& slot = slots_[n % kKept];
      const char* label = slot.label.load(std::memory_order_relaxed);
      if (label == nullptr) continue;
      out.push_back(
          {label, {slot.file.load(std::memory_order_relaxed), "", slot.line.load(std::memory_order_relaxed)}});
    }
  }

 private:
  static constexpr std::uint64_t kKept = 8;
  struct Slot {
    std::atomic<const char*> label{nullptr}, file{""};
    std::atomic<std::uint32_t> line{0};
  };
  std::array<Slot, kKept> slots_;
  std::atomic<std::uint64_t> last_{0}, ended_{0};
};

/// The state that a queue shares with its events, which may outlive it.
struct Track {
  LaunchLog log;
};

}  // namespace tessera::runtime::cuda
