// What came behind the kernels of a stream, so that a kernel can be told when it is launched what its successor will
// be like. Programs repeat themselves; where this one does not, time is lost and nothing else.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera::runtime::cuda {

/// Of one stream; whoever enqueues, one at a time. Kernels that share an entry forget each other.
class Successors {
 public:
  /// What last came behind kernel `id` gained by being scheduled beside it, or would have. False for one not known.
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
