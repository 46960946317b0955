// NCCL's communicators of one member, one for each of its ranks: their creation, their calls with a limit, and their
// end by a thread of its own.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "mesh/nccl_communicator.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::mesh::nccl {

/// One call of a collective for one rank, as the slots of a Launchable have it.
struct RankCall {
  Collective kind{};
  ElementType element{};
  Operation operation = Operation::Sum;
  bool reads = false, writes = false;  ///< `in` and `out` exist
  bool same = false;                   ///< they are one storage
  std::int64_t count = 0;
  int peer = 0;
  std::uint64_t in_offset = 0, out_offset = 0;

  using Slots = std::array<std::uint64_t, 5>;
  Slots slots() const noexcept;
  static RankCall of(std::span<const std::uint64_t> slots) noexcept;
  /// Bytes that a rank of a group of `ranks` reads and writes.
  std::size_t in_bytes(int ranks) const noexcept;
  std::size_t out_bytes(int ranks) const noexcept;
};

/// Whether NCCL adds elements of this type.
bool can_sum(ElementType element) noexcept;

class Group;

/// Groups that end together: those of a process whose threads have a member each. NCCL tells a rank nothing of another
/// rank that has given up, and a kernel that waits for it spins for ever.
class Siblings {
 public:
  /// A group that comes after the failure ends at once.
  void add(const std::shared_ptr<Group>& group);
  /// `from`: the group that has failed, and ends by itself; null: none. It is not held here, because its watchdog may
  /// be what calls this, and would join itself if this were the last to let it go.
  void end(const GroupFailure& failure, const Group* from) noexcept;

 private:
  struct Sibling {
    const Group* which;
    std::weak_ptr<Group> group;
  };
  std::mutex mutex_;
  std::vector<Sibling> groups_;
  std::optional<GroupFailure> failure_;
};

/// The collectives of one rank, as work of its stream.
class CollectiveWork final : public runtime::Launchable {
 public:
  CollectiveWork(std::shared_ptr<Group> group, std::size_t local) : group_(std::move(group)), local_(local) {}
  void launch(const runtime::LaunchContext& context) const override;
  /// NCCL keeps a stream for each number of a capture (ncclStrongStreamAcquire), and takes a second capture with that
  /// number for one that goes on: its stream is no longer captured, and the driver rejects the dependency.
  bool captured_apart() const noexcept override { return true; }

 private:
  std::shared_ptr<Group> group_;
  std::size_t local_;
};

/// Of each local rank. It keeps the group: so do graphs.
using Work = std::vector<std::shared_ptr<const runtime::Launchable>>;

class Group : public std::enable_shared_from_this<Group> {
 public:
  /// Makes nothing yet. `streams`: one for each local rank, of its device.
  Group(const Library& library, std::span<const Stream> streams, const NcclOptions& options);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Creates the communicators, from an id or as a part of another group, and what they need. Throws MeshError.
  void create(const UniqueId& id, int size, int first, SourceLocation where);
  void create_from(Group& parent, int colour, SourceLocation where);

  Work make_work();
  int size() const noexcept { return size_; }
  int first() const noexcept { return first_; }
  std::size_t locals() const noexcept { return ranks_.size(); }
  bool uses_windows() const noexcept { return windows_; }
  std::optional<GroupFailure> failure() const;
  void throw_if_failed(const char* label, SourceLocation where) const;
  void abort(const GroupFailure& failure) noexcept;

  /// The calls of all local ranks: the order of uses is noted behind all of them.
  void submit(const Work& work, std::span<const RankCall> calls, std::span<const RankOperands> operands,
              const char* label, SourceLocation where);
  /// A call reaches NCCL: `context` has the stream, and the storages in the order in which submit() names them.
  void launch(std::size_t local, const runtime::LaunchContext& context);

 private:
  struct Rank {
    explicit Rank(const Stream& of) : stream(of) {}
    Stream stream;
    int number = 0;    ///< in the group
    std::mutex mutex;  ///< held during calls of NCCL
    /// Two communicators of the same ranks, null before their creation and after their end. `comm` does not block: it
    /// is created, split, and takes messages, all of which may wait for other ranks. `calls` is split from it and
    /// blocks: collectives, which wait for no other rank on the host, are enqueued by the thread that calls them.
    std::atomic<Comm> comm{nullptr}, calls{nullptr};
    std::shared_ptr<Comm> made = std::make_shared<Comm>(nullptr);  ///< where NCCL's thread puts `comm`
    runtime::StorageRef token;   ///< every collective writes it: they follow each other on all streams and in graphs
    runtime::StorageRef window;  ///< of two halves: what is read, what is written
    Window registered = nullptr;
    std::shared_ptr<const runtime::Launchable> copy;
    /// When the call of NCCL began that enqueues a collective now, with the lock of its stream; in ticks of the steady
    /// clock, 0: there is none.
    std::atomic<std::chrono::steady_clock::rep> calling{0};
    runtime::Ticket launched;                     ///< the last collective that was not captured; under `mutex`
    std::deque<runtime::Ticket> in_flight;        ///< of the watchdog: collectives that it has seen, none of them ended
    std::chrono::steady_clock::time_point since;  ///< when the one before the first of them had ended
  };

  /// One of the two communicators of a rank.
  using Which = std::atomic<Comm> Rank::*;
  static Which which(Collective kind) noexcept;
  /// Marks a call of NCCL that enqueues a collective while it lives.
  class Calling;

  /// Runs f with the device of the rank's stream current.
  void on_device(Rank& rank, SourceLocation where, std::function<void()> f);
  /// Calls f for each local rank, by its number, as one group of NCCL's if there are several, and waits until NCCL is
  /// done with all. f uses the communicators `which`.
  void as_one(Which which, const char* call, const char* label, SourceLocation where,
              const std::function<Result(std::size_t)>& f);
  /// As as_one, for functions of NCCL that enqueue nothing: f is called with the rank's device current, and gets its
  /// communicator.
  void call_each(Which which, const char* call, const char* label, SourceLocation where,
                 const std::function<Result(Rank&, Comm)>& f);
  Result with_lock(Rank& rank, const std::function<Result()>& f);
  /// Waits until a result is no longer in progress. Throws MeshError if the call failed or the limit has passed.
  void settle(Rank& rank, Which which, Result result, const char* call, const char* label, SourceLocation where);
  Comm made_by_split(Rank& rank, const std::shared_ptr<Comm>& made, SourceLocation where);
  [[noreturn]] void fail(Rank& rank, Result result, const char* call, const char* label, SourceLocation where);
  /// Splits the communicators of `parent` into those of this group, or those of this group into their twins.
  void split_from(Group& parent, int colour, Which into, SourceLocation where);
  void prepare(SourceLocation where);
  void make_windows(SourceLocation where);
  void end_windows(SourceLocation where);
  /// True if `mine` is true on all members.
  bool all_agree(bool mine, SourceLocation where);
  void wait_for_tokens(SourceLocation where);
  Result issue(Rank& rank, const RankCall& call, const std::byte* in, std::byte* out, void* stream) const;
  bool goes_through_window(const Rank& rank, const RankCall& call) const noexcept;
  /// Waits for graphs with collectives that are in flight, where a launched one must not come between.
  void wait_for_graphs(Rank& rank, const char* label, SourceLocation where);
  runtime::Ticket submit_through_window(Rank& rank, const std::shared_ptr<const runtime::Launchable>& collective,
                                        const RankCall& call, const RankOperands& operands, const char* label,
                                        SourceLocation where);
  std::vector<runtime::Access> accesses_of(Rank& rank, const RankCall& call, const RankOperands& operands) const;
  void end_ranks() noexcept;
  void watch();
  void look_for_errors();
  void look_for_stuck_calls();
  void look_for_stalls();
  /// Whether the first collective of the rank that has not ended has been there for longer than the limit.
  bool stalls(Rank& rank);
  void begin();
  void abort_ranks() noexcept;

  const Library& library_;
  NcclOptions options_;
  int size_ = 0, first_ = 0;
  bool windows_ = false;
  bool mixes_graphs_ = true;  ///< NCCL orders graphs with collectives and launched ones itself
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::mutex open_group_;  ///< held while NCCL keeps calls of several ranks until the end of their group
  std::atomic<bool> failed_{false};
  mutable std::mutex state_mutex_;  // down to stopping_
  std::condition_variable changed_;
  std::optional<GroupFailure> failure_;
  bool stopping_ = false;
  std::thread watchdog_;
};

class Group::Calling {
 public:
  explicit Calling(Rank& rank) : since_(rank.calling) {
    since_.store(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  ~Calling() { since_.store(0); }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

 private:
  std::atomic<std::chrono::steady_clock::rep>& since_;
};

}  // namespace tessera::mesh::nccl
