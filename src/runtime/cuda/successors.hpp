// What came behind the kernels of a stream the last time. Whether a kernel lets its successor be scheduled beside it is
// decided when it is launched, and the successor is not known then; programs repeat themselves, so this is the guess. A
// wrong guess costs time, never a result. docs/compiler/overlap_launches.md, "Telling where the launch asks for it".
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera::runtime::cuda {

/// Of one stream; not for several threads at a time (a queue's calls come one at a time). Kernels whose ids share an
/// entry overwrite each other: the guess is then "no".
class Successors {
 public:
  /// True if the kernel that last came behind kernel `id` gained by being scheduled beside it, or would have (see
  /// KernelLaunch::gains). False for an id that is not known.
  bool gained_behind(std::uint64_t id) const noexcept {
    const Entry& entry = entries_[id % kEntries];
    return entry.id == id && entry.gained;
  }
  void came_behind(std::uint64_t id, bool gained) noexcept { entries_[id % kEntries] = {id, gained}; }

 private:
  static constexpr std::size_t kEntries = 64;
  struct Entry {
    std::uint64_t id = 0;
    bool gained = false;
  };
  std::array<Entry, kEntries> entries_{};
};

}  // namespace tessera::runtime::cuda
