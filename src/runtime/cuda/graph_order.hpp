// The order that the nodes of a graph get: which entries of a recording each entry follows directly.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/runtime/graph.hpp"

namespace tessera::runtime::cuda {

/// The entries of a recording in lanes. Those of one lane follow each other, those of different lanes may run at the
/// same time unless one conflicts with the other.
class GraphOrder {
 public:
  static constexpr std::size_t kMaxLanes = 8;  ///< more branches share the first one

  GraphOrder(const GraphRecording::Work& work, std::size_t most_lanes);

  std::size_t lanes() const noexcept { return last_.size(); }
  std::size_t lane(std::size_t entry) const noexcept { return entries_[entry].lane; }
  /// The entries before and after it in its lane; kNoEntry if there is none.
  std::size_t previous(std::size_t entry) const noexcept { return number(entries_[entry].previous); }
  std::size_t next(std::size_t entry) const noexcept { return number(entries_[entry].next); }
  /// The entries that it has to wait for, the latest first: none that another of them has waited for already.
  std::span<const std::size_t> follows(std::size_t entry) const noexcept {
    const Entry& e = entries_[entry];
    return std::span(follows_).subspan(e.first, e.count);
  }
  /// True if it waits for the entry before it in its lane and for nothing else.
  bool follows_previous_alone(std::size_t entry) const noexcept {
    return entries_[entry].count == 1 && follows_[entries_[entry].first] == previous(entry);
  }
  /// The last entry of each lane. All other entries have ended before one of them has.
  std::span<const std::size_t> last() const noexcept { return last_; }

 private:
  // Numbers of entries plus one, 0 for none, in half the memory.
  static std::size_t number(std::uint32_t plus_one) noexcept { return plus_one == 0 ? kNoEntry : plus_one - 1; }
  static std::uint32_t plus_one(std::size_t number) noexcept { return static_cast<std::uint32_t>(number + 1); }
  struct Entry {
    std::uint32_t lane = 0, previous = 0, next = 0;
    std::uint32_t first = 0, count = 0;  // of follows_
    /// The last entry of each lane that has ended before it: as each of a lane follows the one before, all up to there
    /// have.
    std::array<std::uint32_t, kMaxLanes> reach{};
  };
  void choose_lane(std::size_t entry, std::span<const std::size_t> after, std::size_t most_lanes);
  void choose_follows(std::size_t entry, std::span<const std::size_t> after);
  void follow(Entry& entry, std::size_t other);

  std::vector<Entry> entries_;
  std::vector<std::size_t> follows_, last_;
};

}  // namespace tessera::runtime::cuda
