// The state of the fake library: its communicators, and what their calls do to the streams.
#pragma once
#include "mesh/fake_nccl.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::mesh::fake {

constexpr int kSuccess = 0, kInternalError = 3, kInvalidArgument = 4, kInvalidUsage = 5, kInProgress = 7;
constexpr int kPolls = 3;  // how often a communicator is in progress after a call

struct Comm;
/// One collective of a group, or one message of a pair.
struct Op {
  std::string what;  // must be equal on all ranks
  int parts = 0;     // ranks that take part
  int arrived = 0, windowed = 0, ended = 0;
  bool aborted = false;
  std::map<int, std::vector<std::byte>> in;
};
struct Group {
  int size = 0;
  bool complete = false;  // all members have come
  std::vector<Comm*> members;
  std::map<std::string, std::shared_ptr<Op>> ops;  // by number, or pair and number
  int splits = 0, registering = 0;
};
struct Splitting {
  int colour = 0, key = 0;
  Comm** made = nullptr;
  bool blocking = false;
  Comm* comm = nullptr;  ///< appears in `made` after so many polls of the parent
  int polls = 0;
};
struct Comm {
  std::shared_ptr<Group> group;
  int rank = 0, device = 0;
  int polls = 0;
  bool blocking = false;
  bool hangs = false, finalized = false, splitting = false, registering = false;
  int in_flight = 0;
  int collectives = 0;
  std::map<std::string, int> messages;
  Splitting split;
  std::vector<std::pair<std::uintptr_t, std::size_t>> windows;
};

struct Pending {
  Comm* comm;
  std::function<void()> run;
};
inline thread_local int depth = 0;
inline thread_local std::vector<Pending> pending;
/// What reaches the driver when the library's lock is released: the driver calls back with its own lock held.
inline thread_local std::vector<std::function<void()>> enqueued;
inline int flush(int result) {
  for (const auto& one : std::exchange(enqueued, {})) one();
  return result;
}

inline std::size_t size_of_type(int type) {
  constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[type];
}

template <class T>
void combine_as(std::vector<std::byte>& into, const std::vector<std::byte>& other, int operation) {
  for (std::size_t i = 0; i + sizeof(T) <= into.size(); i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, &into[i], sizeof a);
    std::memcpy(&b, &other[i], sizeof b);
    a = operation == 0 ? static_cast<T>(a + b) : std::min(a, b);
    std::memcpy(&into[i], &a, sizeof a);
  }
}

class Library final : public Nccl {
 public:
  void reset(Driver* driver) override {
    const std::lock_guard lock(mutex);
    comms.clear(), groups.clear(), memory.clear();
    this->driver = driver;
    calls_ = aborts_ = in_windows_ = calls_that_blocked_ = 0;
    fail_ = hang_ = -1;
    happened = false;
    windows_supported = true;
    broken.clear();
    violation_.clear();
  }
  void fail_at(int k, int result) override {
    fail_ = k, fail_result = result;
    happened = false;
  }
  void hang_at(int k) override {
    hang_ = k;
    happened = false;
  }
  bool fault_happened() const override { return happened; }
  void break_rank(int rank, int result) override {
    const std::lock_guard lock(mutex);
    broken[rank] = result;
  }
  void support_windows(bool on) override { windows_supported = on; }
  int calls() const override { return calls_; }
  int aborts() const override { return aborts_; }
  int calls_that_blocked() const override { return calls_that_blocked_; }
  int in_windows() const override { return in_windows_; }
  std::string violation() const override {
    const std::lock_guard lock(mutex);
    return violation_;
  }
  std::string leaks() const override {
    const std::lock_guard lock(mutex);
    std::string text;
    if (!comms.empty()) text += std::to_string(comms.size()) + " communicators ";
    if (!memory.empty()) text += std::to_string(memory.size()) + " blocks";
    return text;
  }
  void violate(const std::string& text) {
    if (violation_.empty()) violation_ = text;
  }

  /// At the beginning of each call that can fail, under the lock: its result if it does nothing.
  int enter(const char* name, Comm* comm) {
    ++calls_;
    if (comm != nullptr && comms.count(comm) == 0) {
      violate(std::string(name) + " of a communicator that has ended");
      return kInvalidArgument;
    }
    if (comm != nullptr && (comm->polls > 0 || comm->hangs || comm->splitting) && depth == 0)
      violate(std::string(name) + " while the call before it is in progress");
    if (comm != nullptr && comm->finalized) violate(std::string(name) + " after ncclCommFinalize");
    if (fail_ >= 0 && fail_-- == 0) {
      happened = true;
      return fail_result;
    }
    if (hang_ >= 0 && hang_-- == 0) {
      happened = true;
      if (comm != nullptr) comm->hangs = true;
      if (comm == nullptr || !comm->blocking) return kInProgress;
      if (depth == 0) return block(comm, [] { return false; });
      pending.push_back({comm, [] {}});
      return kInProgress;  // the end of the group hangs
    }
    return kSuccess;
  }
  /// A call of a communicator that blocks waits here without the lock, which the thread holds once, until `done()` or
  /// the communicator is aborted.
  template <class F>
  int block(Comm* comm, const F& done) {
    while (comms.count(comm) != 0 && !done()) {
      mutex.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      mutex.lock();
    }
    return comms.count(comm) != 0 ? kSuccess : kInternalError;
  }
  /// The result of a call that enqueues or changes something.
  int done(Comm* comm) {
    if (comm->blocking) return kSuccess;
    comm->polls = kPolls;
    return kInProgress;
  }
  bool owns(const void* m) const { return memory.count(reinterpret_cast<std::uintptr_t>(m)) != 0; }
  bool in_window(const Comm& comm, const void* m, std::size_t bytes) const {
    const auto at = reinterpret_cast<std::uintptr_t>(m);
    return std::any_of(comm.windows.begin(), comm.windows.end(),
                       [&](const auto& w) { return at >= w.first && at + bytes <= w.first + w.second; });
  }
  std::shared_ptr<Op> op_of(Comm& comm, const std::string& key, const std::string& what, int parts) {
    auto& op = comm.group->ops[key];
    if (op == nullptr) op = std::make_shared<Op>(Op{what, parts, 0, 0, 0, false, {}});
    if (op->what != what) violate("rank " + std::to_string(comm.rank) + " calls " + what + ", another one " + op->what);
    return op;
  }

  /// Enqueues the two halves: what is read is taken when the stream gets there; what is written is written when all
  /// have.
  void run(Comm& comm, std::shared_ptr<Op> op, void* stream, const void* in, std::size_t in_bytes, void* out,
           std::function<std::vector<std::byte>(const Op&)> result) {
    const int rank = comm.rank;
    Comm* const c = &comm;
    ++comm.in_flight;
    const auto take = [=, this] {
      const std::lock_guard lock(mutex);
      if (in_bytes != 0 && !driver->live(in, in_bytes)) return violate("NCCL reads memory that is not usable");
      const auto* const bytes = static_cast<const std::byte*>(in);
      op->in[rank].assign(bytes, bytes + in_bytes);
      ++op->arrived;
    };
    const auto ready = [=, this] {
      const std::lock_guard lock(mutex);
      return op->arrived == op->parts || op->aborted;
    };
    const auto give = [=, this] {
      const std::lock_guard lock(mutex);
      if (comms.count(c) != 0) --c->in_flight;
      if (op->aborted) return;
      if (++op->ended == op->parts && op->windowed == op->parts) ++in_windows_;
      if (out == nullptr) return;
      const std::vector<std::byte> bytes = result(*op);
      if (!bytes.empty() && !driver->live(out, bytes.size())) return violate("NCCL writes memory that is not usable");
      std::memcpy(out, bytes.data(), bytes.size());
    };
    enqueued.push_back([=, this, device = comm.device] {
      driver->enqueue(
          device, stream, [] { return true; }, take);
      driver->enqueue(device, stream, ready, give);
    });
  }
  /// Now, or at the end of the thread's group.
  int call(Comm* comm, std::function<void()> f) {
    if (comm->blocking) ++calls_that_blocked_;
    if (depth > 0) {
      pending.push_back({comm, std::move(f)});
      return kSuccess;
    }
    f();
    return done(comm);
  }

  std::vector<std::byte> sum(const Op& op, int type, int operation) {
    std::vector<std::byte> all = op.in.begin()->second;
    for (auto i = std::next(op.in.begin()); i != op.in.end(); ++i) {
      switch (type) {
        case 0: combine_as<std::int8_t>(all, i->second, operation); break;
        case 1: combine_as<std::uint8_t>(all, i->second, operation); break;
        case 2: combine_as<std::int32_t>(all, i->second, operation); break;
        case 3: combine_as<std::uint32_t>(all, i->second, operation); break;
        case 4: combine_as<std::int64_t>(all, i->second, operation); break;
        case 5: combine_as<std::uint64_t>(all, i->second, operation); break;
        case 7: combine_as<float>(all, i->second, operation); break;
        case 8: combine_as<double>(all, i->second, operation); break;
        default: violate("the fake does not add this type");
      }
    }
    return all;
  }
  template <class... Args>
  int collective(const Args&... args) {
    return flush(collective_locked(args...));
  }
  template <class... Args>
  int message(const Args&... args) {
    return flush(message_locked(args...));
  }
  int collective_locked(const char* name, Comm* comm, void* stream, const void* in, std::size_t in_bytes, void* out,
                        std::size_t out_bytes, const std::string& more,
                        std::function<std::vector<std::byte>(const Op&)> result) {
    const std::lock_guard lock(mutex);
    if (const int entered = enter(name, comm); entered != kSuccess) return entered;
    return call(comm, [=, this] {
      const auto op = op_of(*comm, std::to_string(comm->collectives++), std::string(name) + more, comm->group->size);
      if (in_window(*comm, in, in_bytes) && in_window(*comm, out, out_bytes)) ++op->windowed;
      run(*comm, op, stream, in, in_bytes, out, result);
    });
  }
  int message_locked(const char* name, Comm* comm, void* stream, bool sends, const void* in, void* out,
                     std::size_t bytes, int peer) {
    const std::lock_guard lock(mutex);
    if (const int entered = enter(name, comm); entered != kSuccess) return entered;
    return call(comm, [=, this] {
      const int from = sends ? comm->rank : peer, to = sends ? peer : comm->rank;
      const std::string pair = std::to_string(from) + ">" + std::to_string(to);
      const int number = comm->messages[(sends ? "s" : "r") + pair]++;
      const auto op = op_of(*comm, pair + "#" + std::to_string(number), "message of " + std::to_string(bytes), 2);
      run(*comm, op, stream, in, sends ? bytes : 0, out, [from](const Op& o) { return o.in.at(from); });
    });
  }
  void finish_split(Group& group) {
    std::map<int, std::vector<Comm*>> parts;
    for (Comm* c : group.members) parts[c->split.colour].push_back(c);
    for (auto& [colour, members] : parts) {
      std::sort(members.begin(), members.end(), [](Comm* a, Comm* b) { return a->split.key < b->split.key; });
      const auto made = std::make_shared<Group>();
      made->size = static_cast<int>(members.size());
      made->complete = true;
      for (std::size_t i = 0; i < members.size(); ++i) {
        Comm* const c = new_comm(made, static_cast<int>(i), members[i]->device);
        c->blocking = members[i]->split.blocking;
        members[i]->split.comm = c;
        members[i]->split.polls = kPolls;
        members[i]->splitting = false;
      }
    }
    group.splits = 0;
  }
  Comm* new_comm(const std::shared_ptr<Group>& group, int rank, int device) {
    auto comm = std::make_unique<Comm>();
    Comm* const c = comm.get();
    c->group = group;
    c->rank = rank;
    c->device = device;
    c->polls = kPolls;
    group->members.push_back(c);
    comms[c] = std::move(comm);
    return c;
  }
  void end(Comm* comm, bool aborted) {
    for (auto& [key, op] : comm->group->ops) op->aborted = op->aborted || aborted;
    auto& members = comm->group->members;
    std::erase(members, comm);
    comms.erase(comm);
  }

  mutable std::recursive_mutex mutex;
  Driver* driver = nullptr;
  std::map<Comm*, std::unique_ptr<Comm>> comms;
  std::map<std::string, std::shared_ptr<Group>> groups;
  std::set<std::uintptr_t> memory;
  std::map<int, int> broken;
  int ids = 0, calls_ = 0, aborts_ = 0, in_windows_ = 0, calls_that_blocked_ = 0;
  int fail_ = -1, fail_result = 0, hang_ = -1;
  bool happened = false, windows_supported = true;
  std::string violation_;
};

}  // namespace tessera::mesh::fake
