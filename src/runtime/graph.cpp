// Recording submissions and their order; what a thread that captures may not do.
#include "tessera/runtime/graph.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/graph_plan.hpp"
#include "runtime/recording_memory.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime {

namespace {

thread_local CaptureScope* capturing_here = nullptr;

}  // namespace

// -- scopes ----------------------------------------------------------------------------------------------------------

void check_not_capturing(const char* what, const char* instead, SourceLocation where) {
  if (capturing_here == nullptr) [[likely]]
    return;
  throw DeviceError(concat(what, " cannot be captured into a graph.\n  ", instead), where);
}

CaptureScope::CaptureScope(GraphRecording& recording, SourceLocation where) : recording_(&recording) {
  check_not_capturing("capture() inside a flow that is being captured",
                      "Await the inner flow instead, or a replay of a graph that was captured before.", where);
  stream_ = StreamCore::create(recording.device());
  stream_->begin_capture(recording);
  capturing_here = this;
}

CaptureScope::~CaptureScope() {
  capturing_here = nullptr;
  stream_->end_capture();
}

GraphRecording* CaptureScope::innermost() noexcept {
  return capturing_here != nullptr ? capturing_here->recording_ : nullptr;
}

BodyScope::BodyScope(GraphRecording& body) {
  if (capturing_here == nullptr)
    throw InternalError("the body of a loop or a branch on a thread that does not capture");
  outer_ = std::exchange(capturing_here->recording_, &body);
  capturing_here->stream_->change_capture(body);
}

BodyScope::~BodyScope() {
  if (capturing_here == nullptr) return;  // the capture has ended before a flow of it
  capturing_here->recording_ = outer_;
  capturing_here->stream_->change_capture(*outer_);
}

GraphRecording::GraphRecording(Device device) : device_(device), memory_of_work_(make_recording_memory()) {}

// -- entries ---------------------------------------------------------------------------------------------------------

GraphRecording::Uses& GraphRecording::uses_of(const Access& access) {
  const auto [at, added] = numbers_.try_emplace(access.storage.get(), accesses_.size());
  if (!added) {
    AccessMode& mode = accesses_[at->second].mode;
    if (mode == AccessMode::Read && access.mode != AccessMode::Read) mode = AccessMode::ReadWrite;
    return uses_[at->second];
  }
  uses_.emplace_back();
  accesses_.push_back({access.storage, access.mode, nullptr});
  return uses_.back();
}

/// Entry `number` uses a storage: it follows what it conflicts with.
void GraphRecording::use(RecordedWork& entry, const Access& access, std::size_t number) {
  Uses& uses = uses_of(access);
  if (uses.writer != kNoEntry) entry.after.push_back(uses.writer);
  if (access.mode == AccessMode::Read) {
    uses.readers.push_back(number);
    return;
  }
  entry.after.insert(entry.after.end(), uses.readers.begin(), uses.readers.end());
  uses.writer = number;
  uses.readers.clear();
}

/// Sorts `after`, and leaves out what another of them follows already.
void GraphRecording::order(std::size_t number) {
  auto& after = work_[number].after;
  std::erase(after, number);  // a storage that one submission reads and writes
  if (after.size() < 2) return;
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  implied_.clear();
  for (const std::size_t other : after) {
    const auto& before = work_[other].after;
    implied_.insert(implied_.end(), before.begin(), before.end());
  }
  std::sort(implied_.begin(), implied_.end());
  std::erase_if(after, [&](std::size_t n) { return std::binary_search(implied_.begin(), implied_.end(), n); });
}

/// From here on the recording is incomplete, until `incomplete_` is reset: an exception leaves it like that, and
/// nothing can be added to it or made of it any more. Only memory can run out.
void GraphRecording::begin_adding() {
  check_complete();
  incomplete_ = true;
}
void GraphRecording::check_complete() const {
  if (incomplete_) throw std::bad_alloc();
}

/// Adds an entry, of which fill(entry) sets everything but the order.
template <class F>
void GraphRecording::append(F&& fill) {
  begin_adding();
  const std::size_t number = work_.size();
  RecordedWork& entry = work_.emplace_back(*memory_of_work_);
  fill(entry);
  for (Access& access : entry.accesses) {
    access.lease = nullptr;
    use(entry, access, number);
  }
  order(number);
  incomplete_ = false;
}

void GraphRecording::add(const Submission& submission) {
  append([&](RecordedWork& entry) {
    entry.call.work = submission.work;
    entry.call.grid = submission.grid;
    entry.call.args.assign(submission.args.begin(), submission.args.end());
    entry.accesses.assign(submission.accesses.begin(), submission.accesses.end());
    entry.label = submission.label;
    entry.where = submission.where;
    entry.movable = submission.movable;
    entry.addresses.assign(submission.addresses.begin(), submission.addresses.end());
    entry.scalars.assign(submission.scalars.begin(), submission.scalars.end());
    entry.update = submission.update;
  });
}

/// A body may run any number of times, or not at all: what it overwrites may also stay as it was, except what is made
/// in it.
void GraphRecording::add_control(RecordedWork::Kind kind, const GraphCondition& condition,
                                 std::vector<std::shared_ptr<GraphRecording>> bodies, const char* label,
                                 SourceLocation where) {
  for (const auto& body : bodies) body->check_complete();
  append([&](RecordedWork& entry) {
    entry.kind = kind;
    entry.condition = condition;
    entry.label = label;
    entry.where = where;
    entry.movable = true;
    const auto merge = [&](const Access& access) {
      const auto known = std::find_if(entry.accesses.begin(), entry.accesses.end(),
                                      [&](const Access& other) { return other.storage == access.storage; });
      if (known == entry.accesses.end()) {
        entry.accesses.push_back(access);
      } else if (known->mode != access.mode) {
        known->mode = AccessMode::ReadWrite;
      }
    };
    merge({condition.storage, AccessMode::Read, nullptr});
    for (const auto& body : bodies) {
      for (Access access : body->accesses_) {
        const bool scratch = body->scratch_.contains(access.storage.get());
        if (access.mode == AccessMode::Write && !scratch) access.mode = AccessMode::ReadWrite;
        merge(access);
      }
      scratch_.insert(body->scratch_.begin(), body->scratch_.end());
      planned_.insert(body->planned_.begin(), body->planned_.end());
      arenas_.insert(arenas_.end(), body->arenas_.begin(), body->arenas_.end());
      entry.bodies.push_back(body);
    }
  });
}

/// The order among the entries is that of `graph`; with the entries before them it follows from the storages, as for
/// single submissions. Temporaries of `graph` are known to it alone: instead of each of them their memory is ordered,
/// which other replays of `graph` use too.
void GraphRecording::add_graph(const GraphRecording& graph, const GraphCalls& calls, SourceLocation where) {
  begin_adding();
  const std::size_t first = work_.size(), first_group = groups_.size();
  groups_.push_back({where, kNoEntry});
  for (const RecordedGroup& group : graph.groups_)
    groups_.push_back({group.where, group.parent == kNoEntry ? first_group : group.parent + first_group + 1});
  const auto resolved = graph.with_calls(calls);
  std::vector<bool> followed(graph.work_.size());
  std::unordered_set<const Storage*> known;  // before this graph
  for (const Access& access : accesses_) known.insert(access.storage.get());
  for (RecordedWork& added : resolved->work_) {
    RecordedWork& entry = work_.emplace_back(std::move(added));
    for (std::size_t& before : entry.after) {
      followed[before] = true;
      before += first;
    }
    entry.group = entry.group == kNoEntry ? first_group : entry.group + first_group + 1;
    if (entry.after.empty()) {
      for (const StorageRef& arena : graph.arenas_) {
        const auto at = numbers_.find(arena.get());
        if (at == numbers_.end()) continue;
        const Uses& last = uses_[at->second];
        entry.after.insert(entry.after.end(), last.readers.begin(), last.readers.end());
        if (last.writer != kNoEntry) entry.after.push_back(last.writer);
      }
    }
    for (const Access& access : entry.accesses) {
      if (!graph.planned_.contains(access.storage.get())) use(entry, access, work_.size() - 1);
    }
    order(work_.size() - 1);
  }
  for (const StorageRef& arena : graph.arenas_) {
    Uses& uses = uses_of({arena, AccessMode::Write, nullptr});
    uses.readers.clear();
    for (std::size_t i = 0; i < followed.size(); ++i) {
      if (!followed[i]) uses.readers.push_back(first + i);
    }
    scratch_.insert(arena.get());
    arenas_.push_back(arena);
  }
  planned_.insert(graph.planned_.begin(), graph.planned_.end());
  for (const Access& access : graph.accesses_) {  // what it overwrites, it need not find in a good state
    if (access.mode == AccessMode::Write && !known.contains(access.storage.get()))
      accesses_[numbers_.at(access.storage.get())].mode = AccessMode::Write;
  }
  incomplete_ = false;
}

/// A copy whose entries have the present calls for good: their numbers do not change any more.
std::shared_ptr<GraphRecording> GraphRecording::with_calls(const GraphCalls& calls) const {
  auto copy = std::make_shared<GraphRecording>(*this);
  for (RecordedWork& entry : copy->work_) {
    if (entry.call_number != kNoEntry) entry.call = calls[entry.call_number];
    entry.call_number = kNoEntry;
    entry.scalars.clear();
    entry.update = nullptr;
    for (auto& body : entry.bodies) body = body->with_calls(calls);
  }
  return copy;
}

// -- storages that are made while capturing --------------------------------------------------------------------------

void GraphRecording::made(StorageRef storage) {
  if (storage->device() != device_) return;
  scratch_.insert(storage.get());
  made_.push_back(std::move(storage));
}

/// The references that the recording itself has.
void GraphRecording::count_references(std::unordered_map<const Storage*, long>& counts) const {
  for (const StorageRef& storage : made_) ++counts[storage.get()];
  for (const Access& access : accesses_) ++counts[access.storage.get()];
  for (const RecordedWork& entry : work_) {
    for (const Access& access : entry.accesses) ++counts[access.storage.get()];
    if (entry.condition.storage) ++counts[entry.condition.storage.get()];
    for (const auto& body : entry.bodies) body->count_references(counts);
  }
}

bool GraphRecording::is_held_outside(SourceLocation& first_use) const {
  std::unordered_map<const Storage*, long> counts;
  count_references(counts);
  const auto held =
      std::find_if(made_.begin(), made_.end(), [&](const StorageRef& s) { return s.use_count() != counts[s.get()]; });
  if (held == made_.end()) return false;
  for (const RecordedWork& entry : work_) {
    const bool uses = std::any_of(entry.accesses.begin(), entry.accesses.end(),
                                  [&](const Access& access) { return access.storage == *held; });
    if (!uses) continue;
    first_use = entry.where;
    break;
  }
  return true;
}

namespace {

bool same_calls(const RecordedWork& a, const RecordedWork& b) {
  const Launchable *const work = a.call.work.get(), *const other = b.call.work.get();
  if (work != other && (work == nullptr || other == nullptr || !work->same_as(*other))) return false;
  if (a.scalars != b.scalars) return false;
  if (a.call.grid.x != b.call.grid.x || a.call.grid.y != b.call.grid.y || a.call.grid.z != b.call.grid.z) return false;
  if (a.call.args.size() != b.call.args.size() || a.addresses != b.addresses) return false;
  const auto from = [](const RecordedWork& entry, std::size_t slot) {  // addresses: from the begin of their storages
    std::uint64_t value = entry.call.args[slot];
    for (std::size_t i = 0; i < entry.addresses.size(); ++i) {
      if (entry.addresses[i] == slot) value -= reinterpret_cast<std::uintptr_t>(entry.accesses[i].storage->data());
    }
    return value;
  };
  for (std::size_t slot = 0; slot < a.call.args.size(); ++slot) {
    if (from(a, slot) != from(b, slot)) return false;
  }
  return true;
}

}  // namespace

/// The storages that were made in the two recordings, bodies included, and which correspond.
struct GraphRecording::Comparison {
  const std::unordered_set<const Storage*>&made, &made_other;
  std::unordered_map<const Storage*, const Storage*> pairs{};

  bool same(const StorageRef& a, const StorageRef& b) {
    if (a == b) return true;
    if (!made.contains(a.get()) || !made_other.contains(b.get()) || a->bytes() != b->bytes()) return false;
    return pairs.try_emplace(a.get(), b.get()).first->second == b.get();
  }
};

bool GraphRecording::repeats_as(const GraphRecording& other, SourceLocation& found) const {
  Comparison all{scratch_, other.scratch_};
  return repeats_as(other, all, found);
}

bool GraphRecording::repeats_as(const GraphRecording& other, Comparison& all, SourceLocation& found) const {
  for (std::size_t i = 0; i < std::max(work_.size(), other.work_.size()); ++i) {
    found = i < work_.size() ? work_[i].where : other.work_[i].where;
    if (i >= work_.size() || i >= other.work_.size()) return false;
    const RecordedWork &a = work_[i], &b = other.work_[i];
    bool same = a.kind == b.kind && a.label == b.label && a.accesses.size() == b.accesses.size() &&
                a.bodies.size() == b.bodies.size() && a.condition.offset == b.condition.offset;
    for (std::size_t k = 0; same && k < a.bodies.size(); ++k) same = a.bodies[k]->repeats_as(*b.bodies[k], all, found);
    for (std::size_t k = 0; same && k < a.accesses.size(); ++k)
      same = a.accesses[k].mode == b.accesses[k].mode && all.same(a.accesses[k].storage, b.accesses[k].storage);
    if (!same || !same_calls(a, b)) return false;
  }
  return true;
}

// -- the end ---------------------------------------------------------------------------------------------------------

void GraphRecording::number_calls(GraphRecording& root) {
  for (RecordedWork& entry : work_) {
    if (!entry.scalars.empty()) {
      entry.call_number = root.calls_.size();
      root.calls_.push_back(entry.call);
      root.updatable_.push_back(&entry);
    }
    for (const auto& body : entry.bodies) body->number_calls(root);
  }
}

void GraphRecording::finish() {
  check_complete();
  GraphPlan(*this).apply();
  for (Access& access : accesses_) {
    if (scratch_.contains(access.storage.get())) access.mode = AccessMode::Write;
  }
  number_calls(*this);
}

std::size_t GraphRecording::call_count() const noexcept {
  std::size_t count = 0;
  for (const RecordedWork& entry : work_) {
    if (entry.kind == RecordedWork::Kind::Call) ++count;
    for (const auto& body : entry.bodies) count += body->call_count();
  }
  return count;
}

}  // namespace tessera::runtime
