// Lanes, and what is left of an order when everything that follows from the rest of it is left out.
#include "runtime/cuda/graph_order.hpp"

#include <algorithm>
#include <utility>

namespace tessera::runtime::cuda {

GraphOrder::GraphOrder(const GraphRecording::Work& work, std::size_t most_lanes) : entries_(work.size()) {
  follows_.reserve(work.size());
  std::size_t i = 0;
  for (const RecordedWork& entry : work) {
    choose_lane(i, entry.after, most_lanes);
    choose_follows(i++, entry.after);
  }
}

/// An entry continues the lane of one that it follows, if that one is the last there.
void GraphOrder::choose_lane(std::size_t entry, std::span<const std::size_t> after, std::size_t most_lanes) {
  auto lane = std::find_if(last_.begin(), last_.end(), [&](std::size_t last) {
    return std::find(after.rbegin(), after.rend(), last) != after.rend();
  });
  if (lane == last_.end() && last_.size() < most_lanes) lane = last_.insert(last_.end(), kNoEntry);
  if (lane == last_.end()) lane = last_.begin();
  entries_[entry].lane = static_cast<std::uint32_t>(lane - last_.begin());
  const std::size_t previous = std::exchange(*lane, entry);
  if (previous == kNoEntry) return;
  entries_[entry].previous = plus_one(previous);
  entries_[previous].next = plus_one(entry);
}

/// The latest come first, because they may have waited for earlier ones.
void GraphOrder::choose_follows(std::size_t number, std::span<const std::size_t> after) {
  Entry& entry = entries_[number];
  entry.first = static_cast<std::uint32_t>(follows_.size());
  std::size_t previous = this->previous(number);
  for (auto other = after.rbegin(); other != after.rend(); ++other) {
    if (previous != kNoEntry && previous > *other) follow(entry, std::exchange(previous, kNoEntry));
    follow(entry, *other);
  }
  if (previous != kNoEntry) follow(entry, previous);
  entry.count = static_cast<std::uint32_t>(follows_.size()) - entry.first;
}

void GraphOrder::follow(Entry& entry, std::size_t other) {
  const Entry& before = entries_[other];
  if (entry.reach[before.lane] > other) return;
  follows_.push_back(other);
  std::transform(before.reach.begin(), before.reach.end(), entry.reach.begin(), entry.reach.begin(),
                 [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
  entry.reach[before.lane] = plus_one(other);
}

}  // namespace tessera::runtime::cuda
