// Which entries end before which others, where each temporary goes, and rewriting the addresses in the recording.
#include "runtime/graph_plan.hpp"

#include <algorithm>
#include <utility>

namespace tessera::runtime {

namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
}

/// A fill of new memory follows nothing, so it might run at any time before its result is used, and its memory could
/// not be shared with anything. It is ordered like the first entry that follows it.
void delay_fills(GraphRecording::Work& work, const std::unordered_set<const Storage*>& made) {
  std::vector<std::size_t> follower(work.size(), kNoEntry);
  for (std::size_t i = work.size(); i-- > 0;) {
    for (const std::size_t before : work[i].after) follower[before] = i;
  }
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (!work[i].after.empty() || follower[i] == kNoEntry) continue;
    const bool fills = std::all_of(work[i].accesses.begin(), work[i].accesses.end(), [&](const Access& access) {
      return access.mode == AccessMode::Write && made.contains(access.storage.get());
    });
    if (!fills) continue;
    for (const std::size_t before : work[follower[i]].after) {
      if (before < i) work[i].after.push_back(before);
    }
  }
}

}  // namespace

void GraphPlan::find_levels(GraphRecording& recording, const Level* parent, std::size_t entry) {
  const std::size_t depth = parent == nullptr ? 0 : parent->depth + 1;
  Level& level = levels_.emplace_back(Level{&recording, parent, entry, depth});
  for (std::size_t i = 0; i < recording.work_.size(); ++i) {
    for (const auto& body : recording.work_[i].bodies) find_levels(*body, &level, i);
  }
}

void GraphPlan::find_order(Level& level) {
  const GraphRecording::Work& work = level.recording->work_;
  level.before.reserve(work.size());
  for (const RecordedWork& entry : work) {
    EntrySet& before = level.before.emplace_back(work.size());
    for (const std::size_t other : entry.after) {
      before.unite(level.before[other]);
      before.add(other);
    }
  }
}

/// Storages that are used by work which may keep their addresses.
void GraphPlan::pin(const GraphRecording& recording) {
  for (const RecordedWork& entry : recording.work_) {
    for (const auto& body : entry.bodies) pin(*body);
    if (entry.movable) continue;
    for (const Access& access : entry.accesses) pinned_.insert(access.storage.get());
  }
}

void GraphPlan::find_temporaries() {
  const bool any =
      std::any_of(levels_.begin(), levels_.end(), [](const Level& level) { return !level.recording->made_.empty(); });
  if (!any) return;
  std::unordered_map<const Storage*, long> references;
  root_.count_references(references);
  pin(root_);
  for (Level& level : levels_) {
    std::unordered_set<const Storage*> made;
    for (const StorageRef& storage : level.recording->made_) made.insert(storage.get());
    delay_fills(level.recording->work_, made);
    for (StorageRef& storage : level.recording->made_) {
      const Storage* const key = storage.get();
      const bool held = storage.use_count() != references[key];
      if (held || pinned_.contains(key) || !storage->movable() || storage->bytes() == 0) continue;
      temporaries_.push_back({std::move(storage), &level, {}, {}, 0});
    }
    level.recording->made_.clear();
  }
  find_uses();
}

void GraphPlan::find_uses() {
  std::unordered_map<const Storage*, Temporary*> known;
  for (Temporary& temporary : temporaries_) known.emplace(temporary.storage.get(), &temporary);
  for (Level& level : levels_) {
    if (!known.empty()) find_order(level);
    for (std::size_t i = 0; i < level.before.size(); ++i) {
      for (const Access& access : level.recording->work_[i].accesses) {
        const auto at = known.find(access.storage.get());
        if (at == known.end() || at->second->home != &level) continue;
        Temporary& temporary = *at->second;
        if (temporary.uses.empty()) temporary.before = level.before[i];
        temporary.before.intersect(level.before[i]);
        std::erase_if(temporary.uses, [&](std::size_t use) { return level.before[i].contains(use); });
        temporary.uses.push_back(i);
      }
    }
  }
  std::erase_if(temporaries_, [](const Temporary& temporary) { return temporary.uses.empty(); });
}

/// Both are places of one level.
bool GraphPlan::Place::ends_before(const Place& other) const {
  const EntrySet& before = other.entry == kNoEntry ? other.temporary->before : level->before[other.entry];
  if (entry != kNoEntry) return before.contains(entry);
  return std::all_of(temporary->uses.begin(), temporary->uses.end(),
                     [&](std::size_t use) { return before.contains(use); });
}

/// The two bodies of a branch are two places of the same entry: one of them runs.
bool GraphPlan::may_share(const Temporary& a, const Temporary& b) {
  Place first{a.home, &a}, second{b.home, &b};
  while (first.level->depth > second.level->depth) first.to_parent();
  while (second.level->depth > first.level->depth) second.to_parent();
  while (first.level != second.level) {
    first.to_parent();
    second.to_parent();
  }
  if (first.entry != kNoEntry && first.entry == second.entry) return true;
  return first.ends_before(second) || second.ends_before(first);
}

/// The largest first, each at the lowest offset where nothing lies that it cannot share with. Returns the size of all.
std::size_t GraphPlan::place_all() {
  std::stable_sort(temporaries_.begin(), temporaries_.end(),
                   [](const Temporary& a, const Temporary& b) { return a.storage->bytes() > b.storage->bytes(); });
  std::size_t total = 0;
  std::vector<const Temporary*> placed;  // by offset
  for (Temporary& temporary : temporaries_) {
    const std::size_t bytes = aligned(temporary.storage->bytes());
    for (const Temporary* other : placed) {
      const std::size_t end = other->offset + aligned(other->storage->bytes());
      if (other->offset >= temporary.offset + bytes) break;
      if (end <= temporary.offset || may_share(temporary, *other)) continue;
      temporary.offset = end;
    }
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &temporary,
                                   [](const Temporary* a, const Temporary* b) { return a->offset < b->offset; }),
                  &temporary);
    total = std::max(total, temporary.offset + bytes);
  }
  return total;
}

void GraphPlan::patch(GraphRecording& recording, const std::unordered_map<const Storage*, std::uint64_t>& moved) {
  for (RecordedWork& entry : recording.work_) {
    for (const auto& body : entry.bodies) patch(*body, moved);
    for (std::size_t i = 0; i < entry.addresses.size() && i < entry.accesses.size(); ++i) {
      const auto at = moved.find(entry.accesses[i].storage.get());
      if (at != moved.end()) entry.call.args[entry.addresses[i]] += at->second;
    }
  }
}

/// The storages stay, as parts of the arena, because the entries reach memory through them. For the order between
/// replays the arena alone counts.
void GraphPlan::move_to(const StorageRef& arena) {
  std::unordered_map<const Storage*, std::uint64_t> moved;
  for (Temporary& temporary : temporaries_) {
    const auto old = reinterpret_cast<std::uintptr_t>(temporary.storage->planned_from());
    temporary.storage->place(arena, temporary.offset);
    moved.emplace(temporary.storage.get(), reinterpret_cast<std::uintptr_t>(temporary.storage->data()) - old);
    root_.planned_.insert(temporary.storage.get());
  }
  patch(root_, moved);
  std::erase_if(root_.accesses_, [&](const Access& access) { return root_.planned_.contains(access.storage.get()); });
  root_.accesses_.push_back({arena, AccessMode::Write, nullptr});
  root_.arenas_.push_back(arena);
  root_.scratch_.insert(arena.get());
}

void GraphPlan::apply() {
  find_levels(root_, nullptr, kNoEntry);
  find_temporaries();
  root_.memory_ = {temporaries_.size(), 0, 0};
  if (temporaries_.empty()) return;
  for (const Temporary& temporary : temporaries_) root_.memory_.temporary_bytes += temporary.storage->bytes();
  root_.memory_.planned_bytes = place_all();
  for (const Temporary& temporary : temporaries_) temporary.storage->leave_memory();
  StorageOptions options;
  options.label = "the temporaries of a graph";
  move_to(Storage::allocate(root_.device(), root_.memory_.planned_bytes, options));
}

}  // namespace tessera::runtime
