// The exchange between threads of one process: they meet, and each copies what the others have for it.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "mesh/exchange.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::mesh {

Exchange::~Exchange() = default;

namespace {

using Bytes = std::span<const std::byte>;

/// What the threads share.
class ThreadGroup {
 public:
  ThreadGroup(int members, int timeout_ms)
      : members_(members),
        timeout_ms_(timeout_ms),
        arrived_(static_cast<std::size_t>(members)),
        given_(static_cast<std::size_t>(members)) {}

  int members() const noexcept { return members_; }
  int timeout_ms() const noexcept { return timeout_ms_; }

  void all_to_all(int me, std::span<const Bytes> to, std::span<const std::span<std::byte>> from) {
    given_[static_cast<std::size_t>(me)] = to;  // read by others until all have left
    meet(me);
    const Leaving leaving(*this);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const Bytes source = given_[i][static_cast<std::size_t>(me)];
      if (source.size() != from[i].size())
        throw InternalError(
            concat("an exchange of ", from[i].size(), " bytes, of which member ", i, " gave ", source.size()));
      if (!source.empty()) std::memcpy(from[i].data(), source.data(), source.size());
    }
  }

  void send(int from, int to, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    if (failed_) throw_group_failure(*failed_, "send", {});
    mail_[{from, to}].emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
  }
  void receive(int from, int to, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    auto& box = mail_[{from, to}];
    wait(
        lock, [&] { return !box.empty(); },
        [&] {
          return GroupFailure{from, "sent nothing"};
        });
    if (box.front().size() != bytes.size())
      throw InternalError(concat("a message of ", box.front().size(), " bytes where ", bytes.size(), " were expected"));
    if (!bytes.empty()) std::memcpy(bytes.data(), box.front().data(), bytes.size());
    box.pop_front();
  }

  /// The group of the members with this colour, and this member's number in it.
  std::pair<std::shared_ptr<ThreadGroup>, int> split(int me, int colour, int timeout_ms) {
    {
      const std::lock_guard lock(mutex_);
      parts_[colour].members.push_back(me);
    }
    meet(me);
    std::pair<std::shared_ptr<ThreadGroup>, int> mine;
    {
      const std::lock_guard lock(mutex_);
      Part& part = parts_[colour];
      if (!part.group) part.group = std::make_shared<ThreadGroup>(static_cast<int>(part.members.size()), timeout_ms);
      mine.first = part.group;
      for (const int member : part.members) mine.second += member < me ? 1 : 0;
    }
    meet(me);
    const std::lock_guard lock(mutex_);
    parts_.erase(colour);
    return mine;
  }

  void abort(const GroupFailure& failure) noexcept {
    const std::lock_guard lock(mutex_);
    fail(failure);
  }

 private:
  struct Part {
    std::vector<int> members;
    std::shared_ptr<ThreadGroup> group;
  };

  /// The end of an exchange in which all members have met: each waits until all have copied what is theirs, also if the
  /// group has failed meanwhile, because the memory that a member gave is its own again when it returns. Every member
  /// gets here, so none waits for one that does not come.
  class Leaving {
   public:
    explicit Leaving(ThreadGroup& group) : group_(group) {}
    ~Leaving() {
      std::unique_lock lock(group_.mutex_);
      if (++group_.left_ == group_.members()) {
        group_.left_ = 0;
        ++group_.departures_;
        group_.changed_.notify_all();
        return;
      }
      const std::uint64_t departure = group_.departures_;
      group_.changed_.wait(lock, [&] { return group_.departures_ != departure; });
    }
    Leaving(const Leaving&) = delete;
    Leaving& operator=(const Leaving&) = delete;

   private:
    ThreadGroup& group_;
  };

  void fail(const GroupFailure& failure) noexcept {
    if (!failed_) failed_ = failure;
    changed_.notify_all();
  }

  /// Waits until `ready`, or throws the group's failure; `late()` is the failure if that takes too long.
  template <class Ready, class Late>
  void wait(std::unique_lock<std::mutex>& lock, Ready ready, Late late) {
    const auto done = [&] { return failed_ || ready(); };
    if (timeout_ms_ == 0) {
      changed_.wait(lock, done);
    } else if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms_), done)) {
      GroupFailure failure = late();
      failure.reason += concat(" for ", timeout_ms_, " ms");
      fail(failure);
    }
    // Another member may have gone on and failed since: what was waited for has happened all the same.
    if (!ready()) throw_group_failure(*failed_, nullptr, {});
  }

  /// Returns when all members are here.
  void meet(int me) {
    std::unique_lock lock(mutex_);
    if (failed_) throw_group_failure(*failed_, nullptr, {});
    arrived_[static_cast<std::size_t>(me)] = true;
    if (++count_ == members()) {
      count_ = 0;
      arrived_.assign(arrived_.size(), false);
      ++meetings_;
      changed_.notify_all();
      return;
    }
    const std::uint64_t meeting = meetings_;
    wait(
        lock, [&] { return meetings_ != meeting; },
        [&] {
          const auto missing = std::find(arrived_.begin(), arrived_.end(), false) - arrived_.begin();
          return GroupFailure{static_cast<int>(missing), "did not call the collective that the others are in"};
        });
  }

  const int members_, timeout_ms_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> arrived_;
  int count_ = 0, left_ = 0;
  std::uint64_t meetings_ = 0, departures_ = 0;
  std::optional<GroupFailure> failed_;
  std::vector<std::span<const Bytes>> given_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> mail_;
  std::map<int, Part> parts_;
};

class ThreadExchange final : public Exchange {
 public:
  ThreadExchange(std::shared_ptr<ThreadGroup> group, int me) : group_(std::move(group)), me_(me) {}
  int members() const noexcept override { return group_->members(); }
  int me() const noexcept override { return me_; }
  const char* name() const noexcept override { return "threads"; }
  void all_to_all(std::span<const Bytes> to, std::span<const std::span<std::byte>> from) override {
    group_->all_to_all(me_, to, from);
  }
  void send(int member, Bytes bytes) override { group_->send(me_, member, bytes); }
  void receive(int member, std::span<std::byte> bytes) override { group_->receive(member, me_, bytes); }
  std::shared_ptr<Exchange> split(int colour) override { return split(colour, group_->timeout_ms()); }
  std::shared_ptr<Exchange> companion() override { return split(0, 0); }
  std::shared_ptr<Exchange> split(int colour, int timeout_ms) {
    auto [group, me] = group_->split(me_, colour, timeout_ms);
    return std::make_shared<ThreadExchange>(std::move(group), me);
  }
  void abort(const GroupFailure& failure) noexcept override { group_->abort(failure); }

 private:
  std::shared_ptr<ThreadGroup> group_;
  int me_;
};

}  // namespace

std::vector<std::shared_ptr<Exchange>> thread_exchanges(int members, int timeout_ms) {
  const auto group = std::make_shared<ThreadGroup>(members, timeout_ms);
  std::vector<std::shared_ptr<Exchange>> all;
  for (int i = 0; i < members; ++i) all.push_back(std::make_shared<ThreadExchange>(group, i));
  return all;
}

GroupError::GroupError(const GroupFailure& failure, const char* label, SourceLocation where)
    : MeshError(
          concat(label != nullptr ? label : "a collective", ": ",
                 failure.rank >= 0 ? concat("rank ", failure.rank, ": ") : std::string(), failure.reason,
                 "; no rank of this mesh can go on.\n  Every rank makes the same operations in the same order; end "
                 "all of them, and start the group again."),
          where),
      failure_(failure) {}

void throw_group_failure(const GroupFailure& failure, const char* label, SourceLocation where) {
  throw GroupError(failure, label, where);
}

}  // namespace tessera::mesh
