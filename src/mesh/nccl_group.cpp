// The life of a group of NCCL. What may wait for other ranks on the host goes to communicators that do not block
// (config.blocking = 0): every call returns at once, and what NCCL does in a thread of its own is polled until it is
// done, or until the limit. That thread costs more than the enqueuing of a collective, so collectives go to
// communicators that block, and the watchdog ends what takes longer than the limit. NCCL itself never gives up, neither
// on the host nor in its kernels; the watchdog aborts the communicators, and only then the kernels end.
#include "mesh/nccl_group.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "mesh/exchange.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::mesh::nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kTokenBytes = 256;
constexpr int kYields = 1000;  // a collective that is only enqueued is in progress for some 10 us
constexpr auto kPoll = std::chrono::microseconds(50);
constexpr auto kWatch = std::chrono::milliseconds(100);
/// After this long, a call that another thread makes counts as stuck, and is aborted under it.
constexpr auto kStuck = std::chrono::milliseconds(500);

void pause(int polls) {
  if (polls < kYields)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kPoll);
}

/// For the rest of the process: a thread of NCCL may still write there.
void keep(std::shared_ptr<Comm> place) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::vector<std::shared_ptr<Comm>>;
  const std::lock_guard lock(mutex);
  all.push_back(std::move(place));
}

const char* const kSplit = "ncclCommSplit";
const char* const kSplitting = "splitting a mesh";

bool is_same(const runtime::Ticket& a, const runtime::Ticket& b) noexcept {
  return a.stream == b.stream && a.number == b.number;
}

class Limit {
 public:
  explicit Limit(int timeout_ms)
      : never_(timeout_ms == 0), end_(Clock::now() + std::chrono::milliseconds(timeout_ms)) {}
  bool passed() const { return !never_ && Clock::now() > end_; }

 private:
  bool never_;
  Clock::time_point end_;
};

}  // namespace

Group::Group(const Library& library, std::span<const Stream> streams, const NcclOptions& options)
    : library_(library), options_(options) {
  for (const Stream& stream : streams) ranks_.push_back(std::make_unique<Rank>(stream));
}

Group::~Group() {
  end_ranks();  // calls of NCCL, which the watchdog ends if they take too long
  {
    const std::lock_guard lock(state_mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (watchdog_.joinable()) watchdog_.join();
}

void Siblings::add(const std::shared_ptr<Group>& group) {
  std::optional<GroupFailure> ended;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(groups_, [](const Sibling& one) { return one.group.expired(); });
    groups_.push_back({group.get(), group});
    ended = failure_;
  }
  if (ended) group->abort(*ended);
}

void Siblings::end(const GroupFailure& failure, const Group* from) noexcept {
  std::vector<Sibling> groups;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    groups.swap(groups_);
  }
  for (const Sibling& sibling : groups) {
    if (sibling.which == from) continue;
    if (const auto group = sibling.group.lock()) group->abort(failure);
  }
}

Work Group::make_work() {
  Work work;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    work.push_back(std::make_shared<const CollectiveWork>(shared_from_this(), i));
  return work;
}

// -- creation --------------------------------------------------------------------------------------------------------

void Group::create(const UniqueId& id, int size, int first, SourceLocation where) {
  size_ = size;
  first_ = first;
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i]->number = first + static_cast<int>(i);
  begin();
  call_each(&Rank::comm, "ncclCommInitRankConfig", "making a mesh", where, [&](Rank& rank, Comm) {
    Config config(library_.version);
    const Result result = library_.ncclCommInitRankConfig(rank.made.get(), size, id, rank.number, &config);
    rank.comm = *rank.made;
    return result;
  });
  split_from(*this, 0, &Rank::calls, where);
  prepare(where);
}

/// The communicator that the split of a parent's rank makes. NCCL's thread writes the pointer, which may still be null
/// when the parent is no longer in progress. Meanwhile the parent is asked whether it has failed.
Comm Group::made_by_split(Rank& rank, const std::shared_ptr<Comm>& made, SourceLocation where) {
  const Limit limit(options_.timeout_ms);
  for (int polls = 0;; ++polls) {
    settle(rank, &Rank::comm, Result::InProgress, kSplit, kSplitting, where);
    const Comm comm = std::atomic_ref<Comm>(*made).load(std::memory_order_acquire);
    if (comm != nullptr) return comm;
    if (limit.passed()) {
      abort({-1, concat(kSplit, " of rank ", rank.number, " made no communicator within ", options_.timeout_ms / 1000.0,
                        " s")});
      throw_if_failed(kSplitting, where);
    }
    pause(polls);
  }
}

/// The new communicators appear after the parents are no longer in progress; then their own state is polled.
void Group::split_from(Group& parent, int colour, Which into, SourceLocation where) {
  std::vector<std::shared_ptr<Comm>> made;
  for (std::size_t i = 0; i < ranks_.size(); ++i) made.push_back(std::make_shared<Comm>(nullptr));
  std::size_t next = 0;
  try {
    parent.call_each(&Rank::comm, kSplit, kSplitting, where, [&](Rank& rank, Comm comm) {
      Config config(library_.version);
      config.blocking = into == &Rank::calls ? 1 : 0;
      return library_.ncclCommSplit(comm, colour, rank.number, made[next++].get(), &config);
    });
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      (*ranks_[i]).*into = parent.made_by_split(*parent.ranks_[i], made[i], where);
  } catch (...) {
    for (const auto& place : made) keep(place);
    throw;
  }
  for (const auto& rank : ranks_) settle(*rank, into, Result::InProgress, kSplit, kSplitting, where);
}

void Group::create_from(Group& parent, int colour, SourceLocation where) {
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i]->number = parent.ranks_[i]->number;
  split_from(parent, colour, &Rank::comm, where);
  for (const auto& rank : ranks_) {
    int number = 0;
    library_.ncclCommCount(rank->comm, &size_);
    library_.ncclCommUserRank(rank->comm, &number);
    rank->number = number;
  }
  first_ = ranks_.front()->number;
  begin();
  split_from(*this, 0, &Rank::calls, where);
  prepare(where);
}

void Group::begin() {
  watchdog_ = std::thread([this] { watch(); });
  if (options_.siblings) options_.siblings->add(shared_from_this());
}

void Group::prepare(SourceLocation where) {
  mixes_graphs_ = library_.mixes_graphs();
  for (const auto& rank : ranks_) {
    auto token = runtime::Storage::allocate(rank->stream.core(), kTokenBytes, {.label = "the order of collectives"});
    const std::lock_guard lock(rank->mutex);  // the watchdog looks at it
    rank->token = std::move(token);
    rank->copy = rank->stream.device().backend().range_copy();
  }
  const bool several = size_ > 1 || options_.window_of_one_rank;
  const bool possible = several && locals() == 1 && options_.window_bytes > 0 && library_.has_windows() &&
                        ranks_.front()->copy != nullptr;
  if (all_agree(possible, where)) make_windows(where);
}

/// A library without support on these devices registers nothing and reports no error.
void Group::make_windows(SourceLocation where) {
  Rank& rank = *ranks_.front();
  void* memory = nullptr;
  const std::size_t bytes = 2 * options_.window_bytes;
  on_device(rank, where, [&] {
    if (library_.ncclMemAlloc(&memory, bytes) != Result::Success) memory = nullptr;
  });
  if (memory != nullptr) {
    std::shared_ptr<void> owner(memory, [free = library_.ncclMemFree](void* m) { free(m); });
    rank.window = runtime::Storage::adopt(rank.stream.device(), memory, bytes, std::move(owner), {.label = "a window"});
  }
  if (!all_agree(memory != nullptr, where)) return;
  call_each(&Rank::calls, "ncclCommWindowRegister", "making a mesh", where, [&](Rank& r, Comm comm) {
    return library_.ncclCommWindowRegister(comm, memory, bytes, &r.registered, kSymmetricWindow);
  });
  windows_ = all_agree(rank.registered != nullptr, where);
  if (windows_ || rank.registered == nullptr) return;
  end_windows(where);
}

void Group::end_windows(SourceLocation where) {
  if (ranks_.front()->registered == nullptr) return;  // which a thread with several ranks never has
  call_each(&Rank::calls, "ncclCommWindowDeregister", "the end of a window", where, [&](Rank& rank, Comm comm) {
    return library_.ncclCommWindowDeregister(comm, std::exchange(rank.registered, nullptr));
  });
}

/// A barrier gives the smallest of what the ranks put into their tokens; the first one also connects the ranks.
bool Group::all_agree(bool mine, SourceLocation where) {
  const Work work = make_work();
  RankCall barrier;
  barrier.kind = Collective::Barrier;
  const std::vector<RankCall> calls(ranks_.size(), barrier);
  std::vector<RankOperands> operands;
  for (const auto& rank : ranks_) {
    const std::int32_t value = mine ? 1 : 0;
    rank->token->wait_unused();
    rank->stream.device().backend().copy(rank->token->data(), &value, sizeof value);
    operands.push_back({rank->stream, nullptr, 0, nullptr, 0});
  }
  submit(work, calls, operands, "the first collective of a mesh", where);
  wait_for_tokens(where);
  std::int32_t value = 0;
  Rank& rank = *ranks_.front();
  rank.stream.device().backend().copy(&value, rank.token->data(), sizeof value);
  return value == 1;
}

void Group::wait_for_tokens(SourceLocation where) {
  const Limit limit(options_.timeout_ms);
  for (const auto& rank : ranks_) {
    if (rank->token == nullptr) continue;
    const runtime::Ticket last = rank->token->last_write();
    while (last.stream != nullptr && !last.stream->has_ended(last.number)) {
      throw_if_failed("the first collective of a mesh", where);
      if (limit.passed()) {
        abort({-1, concat("a collective did not end within ", options_.timeout_ms / 1000.0, " s")});
        throw_if_failed("the first collective of a mesh", where);
      }
      std::this_thread::sleep_for(kPoll);
    }
  }
}

// With graph mixing off, NCCL supports no call that is launched while a graph with calls of the communicator is in
// flight, "regardless of stream ordering": the host of a launched call may tell its helper threads of it before the
// graph does. A graph that is launched behind calls, and graphs behind each other, are ordered by the token, as NCCL
// asks.
void Group::wait_for_graphs(Rank& rank, const char* label, SourceLocation where) {
  if (mixes_graphs_ || rank.token == nullptr) return;
  const runtime::Ticket last = rank.token->last_write();
  {
    const std::lock_guard lock(rank.mutex);
    if (last.stream == nullptr || is_same(last, rank.launched)) return;  // no graph has come since
  }
  for (int polls = 0; !last.stream->has_ended(last.number); ++polls) {
    throw_if_failed(label, where);
    pause(polls);
  }
}

// -- calls -----------------------------------------------------------------------------------------------------------

void Group::on_device(Rank& rank, SourceLocation where, std::function<void()> f) {
  // A GPU's queue calls work when it is enqueued, with the context current.
  const auto work = runtime::host_work([&](const runtime::LaunchContext&) { f(); });
  rank.stream.core()->submit({work, {}, {}, {}, "a call of NCCL", where});
}

Result Group::with_lock(Rank& rank, const std::function<Result()>& f) {
  const std::lock_guard lock(rank.mutex);
  throw_if_failed("a call of NCCL", {});
  return f();
}

void Group::as_one(Which which, const char* call, const char* label, SourceLocation where,
                   const std::function<Result(std::size_t)>& f) {
  const bool several = ranks_.size() > 1;
  std::unique_lock<std::mutex> open;
  if (several) {
    open = std::unique_lock(open_group_);
    library_.ncclGroupStart();
  }
  std::vector<Result> results(ranks_.size(), Result::Success);
  try {
    for (std::size_t i = 0; i < ranks_.size(); ++i) results[i] = f(i);
  } catch (...) {
    if (several) library_.ncclGroupEnd();
    abort({ranks_.front()->number, concat(call, ": not all ranks of this thread could call it")});
    throw;
  }
  Result end = Result::Success;
  if (several) {
    const Calling calling(*ranks_.front());
    end = library_.ncclGroupEnd();
    open.unlock();
  }
  // What has failed first: the others may wait for it.
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (results[i] != Result::Success && results[i] != Result::InProgress)
      fail(*ranks_[i], results[i], call, label, where);
  }
  if (end != Result::Success && end != Result::InProgress) fail(*ranks_.front(), end, call, label, where);
  // A call may return Success although its communicator is still in progress, and then the communicator rejects
  // the next call. So its state is polled in any case.
  for (const auto& rank : ranks_) settle(*rank, which, Result::InProgress, call, label, where);
}

void Group::call_each(Which which, const char* call, const char* label, SourceLocation where,
                      const std::function<Result(Rank&, Comm)>& f) {
  as_one(which, call, label, where, [&](std::size_t i) {
    Result result = Result::Success;
    Rank& rank = *ranks_[i];
    const auto locked = [&] {
      const Calling calling(rank);
      result = with_lock(rank, [&] { return f(rank, rank.*which); });
    };
    on_device(rank, where, locked);
    return result;
  });
}

void Group::settle(Rank& rank, Which which, Result result, const char* call, const char* label, SourceLocation where) {
  const Limit limit(options_.timeout_ms);
  for (int polls = 0; result == Result::InProgress; ++polls) {
    {
      const std::lock_guard lock(rank.mutex);
      const Comm comm = rank.*which;
      if (comm == nullptr || failed_.load()) throw_if_failed(label, where);
      if (library_.ncclCommGetAsyncError(comm, &result) != Result::Success) result = Result::InternalError;
    }
    if (result != Result::InProgress) break;
    if (limit.passed()) {
      abort({-1, concat(call, " of rank ", rank.number, " did not end within ", options_.timeout_ms / 1000.0,
                        " s: another rank has not called it, or cannot be reached")});
      throw_if_failed(label, where);
    }
    pause(polls);
  }
  if (result != Result::Success) fail(rank, result, call, label, where);
}

void Group::fail(Rank& rank, Result result, const char* call, const char* label, SourceLocation where) {
  std::string text;
  {
    const std::lock_guard lock(rank.mutex);
    text = result_text(library_, result, rank.comm);
  }
  abort({result == Result::RemoteError ? -1 : rank.number, concat(call, ": ", text)});
  throw_if_failed(label, where);
  throw InternalError("a failed group without a failure");
}

// -- failure and end -------------------------------------------------------------------------------------------------

std::optional<GroupFailure> Group::failure() const {
  if (!failed_.load()) return std::nullopt;
  const std::lock_guard lock(state_mutex_);
  return failure_;
}

void Group::throw_if_failed(const char* label, SourceLocation where) const {
  if (const std::optional<GroupFailure> failed = failure()) throw_group_failure(*failed, label, where);
}

void Group::abort(const GroupFailure& failure) noexcept {
  {
    const std::lock_guard lock(state_mutex_);
    if (failure_) return;
    failure_ = failure;
    failed_.store(true);
  }
  changed_.notify_all();
  if (options_.siblings) options_.siblings->end(failure, this);
}

void Group::watch() {
  std::unique_lock lock(state_mutex_);
  while (!stopping_) {
    if (failure_) {
      lock.unlock();
      return abort_ranks();
    }
    changed_.wait_for(lock, kWatch, [&] { return stopping_ || failure_.has_value(); });
    if (stopping_ || failure_) continue;
    lock.unlock();
    look_for_errors();
    look_for_stuck_calls();
    look_for_stalls();
    lock.lock();
  }
  const bool failed = failure_.has_value();
  lock.unlock();
  if (failed) abort_ranks();
}

void Group::look_for_errors() {
  for (const auto& rank : ranks_) {
    for (const Which which : {&Rank::comm, &Rank::calls}) {
      Result result = Result::Success;
      std::string text;
      {
        const std::unique_lock lock(rank->mutex, std::try_to_lock);
        const Comm comm = (*rank).*which;
        if (!lock || comm == nullptr) continue;
        if (library_.ncclCommGetAsyncError(comm, &result) != Result::Success) result = Result::InternalError;
        if (result == Result::Success || result == Result::InProgress) continue;
        text = result_text(library_, result, comm);
      }
      abort({result == Result::RemoteError ? -1 : rank->number,
             concat("NCCL reports for rank ", rank->number, ": ", text)});
    }
  }
}

/// A call that blocks returns at once unless NCCL waits for another rank (to connect to it for the first time), or the
/// queue of the driver is full of work that does not end.
void Group::look_for_stuck_calls() {
  if (options_.timeout_ms == 0) return;
  for (const auto& rank : ranks_) {
    const Clock::rep began = rank->calling.load();
    if (began == 0) continue;
    if (Clock::now() - Clock::time_point(Clock::duration(began)) < std::chrono::milliseconds(options_.timeout_ms))
      continue;
    abort({-1, concat("a call of NCCL of rank ", rank->number, " did not end within ", options_.timeout_ms / 1000.0,
                      " s: another rank has not made it, or cannot be reached")});
  }
}

/// Collectives of a rank end in their order. One that has not ended within the limit, since the one before it has,
/// waits for a rank that does not come (or behind other work that takes as long: the limit has to be longer than that).
void Group::look_for_stalls() {
  if (options_.collective_ms == 0) return;
  for (const auto& rank : ranks_) {
    // The queue may be asked only while nothing holds its lock for as long as a call of NCCL takes.
    if (rank->calling.load() != 0) continue;
    try {
      if (stalls(*rank))
        abort({-1, concat("a collective of rank ", rank->number, " has not ended ", options_.collective_ms / 1000.0,
                          " s after the one before it: another rank has not made it, or other work takes longer")});
    } catch (const Error& error) {  // the device has failed
      abort({rank->number, error.message()});
    }
    if (failed_.load()) return;
  }
}

bool Group::stalls(Rank& rank) {
  runtime::StorageRef token;
  {
    const std::unique_lock lock(rank.mutex, std::try_to_lock);
    if (lock) token = rank.token;
  }
  if (token == nullptr) return false;
  auto& flight = rank.in_flight;
  bool moved = flight.empty();
  const runtime::Ticket last = token->last_write();
  if (last.stream != nullptr && (flight.empty() || !is_same(flight.back(), last))) flight.push_back(last);
  while (!flight.empty() && flight.front().stream->has_ended(flight.front().number)) {
    flight.pop_front();
    moved = true;
  }
  if (moved) rank.since = Clock::now();
  return !flight.empty() && Clock::now() - rank.since > std::chrono::milliseconds(options_.collective_ms);
}

namespace {
/// The lock, or none if it is not free within `limit`. Not a timed mutex, whose waiting the thread sanitizer of GCC 12
/// does not see.
std::unique_lock<std::mutex> lock_within(std::mutex& mutex, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (lock.try_lock()) break;
  }
  return lock;
}
}  // namespace

void Group::abort_ranks() noexcept {
  const std::unique_lock open = lock_within(open_group_, kStuck);
  for (const auto& rank : ranks_) {
    const std::unique_lock lock = lock_within(rank->mutex, kStuck);
    // Without the lock, another thread is stuck in NCCL: ending its call is all that is left.
    for (const Which which : {&Rank::calls, &Rank::comm}) {
      if (const Comm comm = ((*rank).*which).exchange(nullptr); comm != nullptr) library_.ncclCommAbort(comm);
    }
  }
}

void Group::end_ranks() noexcept {
  try {
    const auto live = [](const auto& rank) { return rank->comm != nullptr && rank->calls != nullptr; };
    if (failed_.load() || !std::all_of(ranks_.begin(), ranks_.end(), live)) return abort_ranks();
    wait_for_tokens({});
    end_windows({});
    for (const Which which : {&Rank::calls, &Rank::comm}) {
      call_each(which, "ncclCommFinalize", "the end of a mesh", {},
                [&](Rank&, Comm comm) { return library_.ncclCommFinalize(comm); });
      for (const auto& rank : ranks_)
        on_device(*rank, {}, [&] { library_.ncclCommDestroy(((*rank).*which).exchange(nullptr)); });
    }
  } catch (...) { abort_ranks(); }
}

}  // namespace tessera::mesh::nccl
