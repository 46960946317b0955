// The successor of each kernel of a stream, as of its last launch. Whether a kernel triggers its dependents
// (griddepcontrol.launch_dependents) is decided at its launch, when its successor is not known yet. Programs repeat
// themselves, so the last successor is the prediction. A wrong prediction costs time, never a result.
// docs/compiler/overlap_launches.md, "Triggering where the launch asks for it".
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera::runtime::cuda {

/// Of one stream; not thread-safe (a queue's calls are serialised). Kernels whose ids share an entry overwrite each
/// other; the prediction is then false.
class Successors {
 public:
  /// True if the kernel that last followed kernel `id` gained from running concurrently with it, or would have (see
  /// KernelLaunch::gains). False for an unknown id.
  bool successor_gained(std::uint64_t id) const noexcept {
    const Entry& entry = entries_[id % kEntries];
    return entry.id == id && entry.gained;
  }
  void record(std::uint64_t id, bool gained) noexcept { entries_[id % kEntries] = {id, gained}; }

 private:
  static constexpr std::size_t kEntries = 64;
  struct Entry {
    std::uint64_t id = 0;
    bool gained = false;
  };
  std::array<Entry, kEntries> entries_{};
};

}  // namespace tessera::runtime::cuda
