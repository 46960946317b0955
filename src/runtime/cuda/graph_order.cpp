// Lanes, and what is left of an order when everything that follows from the rest of it is left out.
#include "runtime/cuda/graph_order.hpp"

#include <algorithm>
#include <utility>

namespace tessera::runtime::cuda {

GraphOrder::GraphOrder(std::span<const RecordedWork> work, std::size_t most_lanes) : entries_(work.size()) {
  follows_.reserve(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    choose_lane(i, work[i].after, most_lanes);
    choose_follows(entries_[i], work[i].after);
  }
}

/// An entry continues the lane of one that it follows, if that one is the last there.
void GraphOrder::choose_lane(std::size_t number, std::span<const std::size_t> after, std::size_t most_lanes) {
  auto lane = std::find_if(last_.begin(), last_.end(), [&](std::size_t last) {
    return std::find(after.rbegin(), after.rend(), last) != after.rend();
  });
  if (lane == last_.end() && last_.size() < most_lanes) lane = last_.insert(last_.end(), kNoEntry);
  if (lane == last_.end()) lane = last_.begin();
  Entry& entry = entries_[number];
  entry.previous = std::exchange(*lane, number);
  entry.lane = static_cast<std::size_t>(lane - last_.begin());
  if (entry.previous != kNoEntry) entries_[entry.previous].next = number;
}

/// The latest come first, because they may have waited for earlier ones.
void GraphOrder::choose_follows(Entry& entry, std::span<const std::size_t> after) {
  entry.first = follows_.size();
  bool in_line = entry.previous == kNoEntry;
  for (auto other = after.rbegin(); other != after.rend(); ++other) {
    if (!in_line && entry.previous > *other) {
      follow(entry, entry.previous);
      in_line = true;
    }
    follow(entry, *other);
  }
  if (!in_line) follow(entry, entry.previous);
  entry.count = follows_.size() - entry.first;
}

void GraphOrder::follow(Entry& entry, std::size_t other) {
  const Entry& before = entries_[other];
  if (entry.reach[before.lane] > other) return;
  follows_.push_back(other);
  for (std::size_t lane = 0; lane < kMostLanes; ++lane)
    entry.reach[lane] = std::max(entry.reach[lane], before.reach[lane]);
  entry.reach[before.lane] = std::max(entry.reach[before.lane], other + 1);
}

}  // namespace tessera::runtime::cuda
