// The watch's thread: one loop over the connections, with the beats, the limits and the news of a failure.
#include "mesh/watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "mesh/exchange.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::mesh {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using Type = WatchMessage::Type;

constexpr int kRetryMs = 100;     // between attempts to connect
constexpr int kLingerMs = 1'000;  // for the other side to take the last message
constexpr const char* kMagic = "tessera watch 1, size ";

double seconds(int ms) { return ms / 1000.0; }

}  // namespace

class Watch::Loop {
 public:
  Loop(const WatchOptions& options, OnFailure on_failure, SourceLocation where)
      : options_(options),
        on_failure_(std::move(on_failure)),
        where_(where),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw MeshError("no descriptor is left for the watch of the processes", where);
    ranks_.resize(static_cast<std::size_t>(options_.size));
    if (options_.rank == 0 && options_.size > 1)
      listener_ = listen_at(options_.address, options_.port);
    else if (options_.rank != 0)
      connect_to_rank_0();
    thread_ = std::thread([this] { run(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_ || failure_; });
    if (!failure_) return;
    lock.unlock();
    end(false);
    throw_failure("starting a group of processes", where);
  }
  ~Loop() { end(false); }

  /// Leaves the group; `clean`: as it should.
  void end(bool clean) {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      clean_ = clean;
    }
    wake();
    thread_.join();
  }
  void stamp(bool in_step) noexcept {
    const std::lock_guard lock(mutex_);
    ++progress_;
    in_step_ = in_step;
  }
  void report(const std::string& reason) {
    std::unique_lock lock(mutex_);
    if (!failure_ && !reported_) reported_ = GroupFailure{options_.rank, reason};
    wake();
    changed_.wait_for(lock, Milliseconds(kLingerMs), [&] { return failure_.has_value(); });
    // Without rank 0, this process at least ends its own part.
    lock.unlock();
    if (keep({options_.rank, reason})) announce();
  }
  std::optional<GroupFailure> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  [[noreturn]] void throw_failure(const char* label, SourceLocation where) const {
    throw_group_failure(*failure(), label, where);
  }

 private:
  /// What is known of a rank.
  struct Rank {
    std::optional<WatchConnection> connection;  // of rank 0 with the others, and of the others with rank 0
    Clock::time_point heard{}, moved{};         // the last message; the last change of its progress
    std::uint64_t progress = 0;
    bool in_step = false, connected = false, left = false;
  };

  void connect_to_rank_0() {
    const auto limit = Clock::now() + Milliseconds(options_.start_ms);
    std::string why;
    while (true) {
      Descriptor made = connect_to(options_.address, options_.port, options_.start_ms, why);
      if (made) {
        Rank& rank = ranks_[0];
        rank.connection.emplace(std::move(made));
        rank.connected = true;
        rank.heard = Clock::now();
        rank.connection->send({Type::Hello, options_.rank, 0, false, concat(kMagic, options_.size)});
        return;
      }
      if (Clock::now() > limit) break;
      std::this_thread::sleep_for(Milliseconds(kRetryMs));
    }
    throw MeshError(concat("rank ", options_.rank, " could not reach rank 0 at ", options_.address, ":", options_.port,
                           " within ", seconds(options_.start_ms), " s (", why,
                           ").\n  Rank 0 has not started, or MASTER_ADDR names another machine, or the port is closed: "
                           "TESSERA_MESH_PORT chooses another one."),
                    where_);
  }

  // -- the thread ----------------------------------------------------------------------------------------------------

  void run() {
    started_ = checked_ = Clock::now();
    auto next_beat = started_;
    if (options_.size == 1) set_ready();
    while (true) {
      take_reported();
      if (Clock::now() >= next_beat) {
        beat();
        check_limits();
        next_beat = Clock::now() + Milliseconds(options_.beat_ms);
      }
      if (leave_if_ending()) return;
      wait_for_events(next_beat);
      accept_all();
      receive_all();
    }
  }
  void wait_for_events(Clock::time_point until) {
    std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}};
    if (listener_) waits.push_back({listener_.get(), POLLIN, 0});
    const auto add = [&](const WatchConnection& c) {
      if (c.open()) waits.push_back({c.fd(), static_cast<short>(POLLIN | (c.has_unsent() ? POLLOUT : 0)), 0});
    };
    for (const Rank& rank : ranks_) {
      if (rank.connection) add(*rank.connection);
    }
    for (const WatchConnection& stranger : strangers_) add(stranger);
    const auto left = std::chrono::duration_cast<Milliseconds>(until - Clock::now()).count();
    poll(waits.data(), waits.size(), static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, options_.beat_ms)));
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t ignored = read(wake_.get(), &count, sizeof count);
  }
  void accept_all() {
    if (!listener_) return;
    while (Descriptor made = accept_one(listener_)) strangers_.emplace_back(std::move(made));
    for (WatchConnection& stranger : strangers_) {
      const std::vector<WatchMessage> messages = stranger.receive();
      if (!messages.empty() && messages.front().type == Type::Hello) welcome(stranger, messages);
    }
    std::erase_if(strangers_, [](const WatchConnection& c) { return !c.open(); });
    if (!listener_) strangers_.clear();  // all have come
  }
  /// Rejects processes of another group, which has the same port.
  void welcome(WatchConnection& stranger, const std::vector<WatchMessage>& messages) {
    const WatchMessage& hello = messages.front();
    const std::string expected = concat(kMagic, options_.size);
    const bool exists = hello.rank > 0 && hello.rank < options_.size;
    std::string wrong;
    if (hello.text != expected)
      wrong = concat("it says \"", hello.text, "\", and rank 0 expects \"", expected, "\"");
    else if (!exists || ranks_[static_cast<std::size_t>(hello.rank)].connected)
      wrong = concat("rank ", hello.rank, exists ? " is connected already" : " does not exist");
    if (!wrong.empty()) {
      stranger.send({Type::Failure, 0, 0, false, concat("rank 0 belongs to another group: ", wrong)});
      stranger.close();
      return;
    }
    Rank& rank = ranks_[static_cast<std::size_t>(hello.rank)];
    rank.connection.emplace(std::move(stranger));
    rank.connected = true;
    rank.heard = rank.moved = Clock::now();
    for (const WatchMessage& message : messages) take(hello.rank, message);
    const auto known = failure();
    if (known) rank.connection->send({Type::Failure, known->rank, 0, false, known->reason});
    const bool all = std::all_of(ranks_.begin() + 1, ranks_.end(), [](const Rank& r) { return r.connected; });
    if (!all || known) return;
    send_to_all({Type::Ready, 0, 0, false, {}});
    set_ready();
  }
  void receive_all() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (!rank.connection || !rank.connection->open()) continue;
      rank.connection->flush();
      for (const WatchMessage& message : rank.connection->receive()) take(static_cast<int>(i), message);
      if (rank.connection->open() || rank.left || said_goodbye_to(rank)) continue;
      fail({static_cast<int>(i), concat("the process has ended (", rank.connection->end(), ")")});
    }
  }
  void take(int from, const WatchMessage& message) {
    Rank& rank = ranks_[static_cast<std::size_t>(from)];
    rank.heard = Clock::now();
    switch (message.type) {
      case Type::Beat:
        if (message.progress != rank.progress || message.in_step != rank.in_step) rank.moved = rank.heard;
        rank.progress = message.progress;
        rank.in_step = message.in_step;
        break;
      case Type::Ready: set_ready(); break;
      case Type::Failure: fail({message.rank, message.text}); break;
      case Type::Goodbye: rank.left = true; break;
      case Type::Hello: break;
    }
  }
  void beat() {
    WatchMessage message;
    message.rank = options_.rank;
    {
      const std::lock_guard lock(mutex_);
      message.progress = progress_;
      message.in_step = in_step_;
    }
    Rank& mine = ranks_[static_cast<std::size_t>(options_.rank)];
    if (message.progress != mine.progress) mine.moved = Clock::now();
    mine.progress = message.progress;
    mine.in_step = message.in_step;
    send_to_all(message);
  }
  void send_to_all(const WatchMessage& message) {
    for (Rank& rank : ranks_) {
      if (rank.connection && !said_goodbye_to(rank)) rank.connection->send(message);
    }
  }
  /// Rank 0 still listens to the others after it has left.
  bool said_goodbye_to(const Rank& rank) const { return said_goodbye_ && (options_.rank != 0 || rank.left); }

  // -- limits --------------------------------------------------------------------------------------------------------

  void check_limits() {
    const auto now = Clock::now();
    // This process itself was stopped: what others have sent meanwhile is still to be read.
    const bool was_stopped = now - checked_ > Milliseconds(options_.silence_ms / 2);
    checked_ = now;
    if (was_stopped) {
      for (Rank& rank : ranks_) rank.heard = rank.moved = now;
      return;
    }
    const bool started = is_ready();
    // Only rank 0 knows who is missing. A rank that has reached rank 0 has no limit of its own: either rank 0 reports
    // who has not connected, or it falls silent and the limit below names it.
    if (options_.rank == 0 && !started && now - started_ > Milliseconds(options_.start_ms))
      return fail(not_connected());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      if (!rank.connection || rank.left || now - rank.heard <= Milliseconds(options_.silence_ms)) continue;
      return fail({static_cast<int>(i), concat("the process has not answered for ", seconds(options_.silence_ms),
                                               " s: it is stopped, or its machine cannot be reached")});
    }
    if (options_.rank == 0 && started && options_.progress_ms != 0) check_progress(now);
  }
  GroupFailure not_connected() const {
    std::vector<int> missing;
    for (int i = 1; i < options_.size; ++i) {
      if (!ranks_[static_cast<std::size_t>(i)].connected) missing.push_back(i);
    }
    return {missing.front(), concat("has not connected within ", seconds(options_.start_ms),
                                    " s (missing: ", join(missing), " of ", options_.size, ")")};
  }
  /// A rank that waits for another one makes no progress either: the one that is behind all others is the cause.
  void check_progress(Clock::time_point now) {
    std::uint64_t least = UINT64_MAX, most = 0;
    int last = -1;
    bool hangs = false;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      if (rank.left) continue;
      hangs = hangs || (rank.in_step && now - rank.moved > Milliseconds(options_.progress_ms));
      most = std::max(most, rank.progress);
      if (rank.progress >= least) continue;
      least = rank.progress;
      last = static_cast<int>(i);
    }
    if (!hangs) return;
    const std::string limit = concat("no progress for ", seconds(options_.progress_ms), " s");
    if (least == most) return fail({-1, concat("no rank hangs behind the others, but the step makes ", limit)});
    fail({last, concat("the rank makes ", limit, " while others wait for it")});
  }

  // -- failure and end -----------------------------------------------------------------------------------------------

  void take_reported() {
    std::optional<GroupFailure> reported;
    {
      const std::lock_guard lock(mutex_);
      reported = std::exchange(reported_, std::nullopt);
    }
    if (!reported) return;
    if (options_.rank == 0) return fail(*reported);
    // Rank 0 answers with the failure of the group, which may be an earlier one.
    send_to_all({Type::Failure, reported->rank, 0, false, reported->reason});
  }
  /// Also rank 0 hears of it: it may have been stopped, and go on.
  void fail(const GroupFailure& failure) {
    if (!keep(failure)) return;
    send_to_all({Type::Failure, failure.rank, 0, false, failure.reason});
    announce();
  }
  /// The first failure counts. False if there was one.
  bool keep(const GroupFailure& failure) {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = failure;
    return true;
  }
  void announce() {
    if (on_failure_) on_failure_(*failure());
    changed_.notify_all();
  }
  /// True at the end. Before it closes, a side waits until the other has taken what it sent: closing a connection with
  /// bytes that were not read would reset it, and lose them.
  bool leave_if_ending() {
    bool ending = false, clean = false, failed = false;
    {
      const std::lock_guard lock(mutex_);
      ending = ending_, clean = clean_, failed = failure_.has_value();
    }
    if (!ending) return false;
    if (!said_goodbye_) {
      said_goodbye_ = true;
      left_at_ = Clock::now();
      for (Rank& rank : ranks_) {
        if (!rank.connection) continue;
        if (clean && !failed) rank.connection->send({Type::Goodbye, options_.rank, 0, false, {}});
        if (options_.rank != 0) rank.connection->finish_sending();
      }
    }
    const auto gone = [](const Rank& rank) { return !rank.connection || !rank.connection->open() || rank.left; };
    const bool all_gone = std::all_of(ranks_.begin(), ranks_.end(), gone);
    const bool waits_for_others = options_.rank == 0 && clean && !failed;
    return all_gone || (!waits_for_others && Clock::now() - left_at_ > Milliseconds(kLingerMs));
  }

  void set_ready() {
    listener_.close();
    const std::lock_guard lock(mutex_);
    ready_ = true;
    changed_.notify_all();
  }
  bool is_ready() const {
    const std::lock_guard lock(mutex_);
    return ready_;
  }
  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = write(wake_.get(), &one, sizeof one);
  }

  WatchOptions options_;
  OnFailure on_failure_;
  SourceLocation where_;
  Descriptor wake_, listener_;
  // Of the thread alone, once it runs.
  std::vector<Rank> ranks_;
  std::vector<WatchConnection> strangers_;  // that have not said who they are
  Clock::time_point started_{}, checked_{}, left_at_{};
  bool said_goodbye_ = false;

  mutable std::mutex mutex_;  // down to failure_
  std::condition_variable changed_;
  bool ready_ = false, ending_ = false, clean_ = false, in_step_ = false;
  std::uint64_t progress_ = 0;
  std::optional<GroupFailure> reported_, failure_;
  std::thread thread_;
};

WatchOptions watch_options(const ProcessRanks& ranks) {
  const MeetingPoint point = meeting_point(ranks);
  WatchOptions options;
  options.address = point.address;
  options.port = point.watch_port;
  options.rank = ranks.rank;
  options.size = ranks.size;
  options.start_ms = options.progress_ms = timeout_of_environment();
  return options;
}

Watch::Watch(const WatchOptions& options, OnFailure on_failure, SourceLocation where)
    : loop_(std::make_unique<Loop>(options, std::move(on_failure), where)), exceptions_(std::uncaught_exceptions()) {}

Watch::~Watch() {
  if (std::uncaught_exceptions() > exceptions_) loop_->report("the process left the group because of an exception");
  loop_->end(true);
}

void Watch::stamp(bool in_step) noexcept { loop_->stamp(in_step); }
void Watch::report(const std::string& reason) { loop_->report(reason); }
std::optional<GroupFailure> Watch::failure() const { return loop_->failure(); }
void Watch::throw_if_failed(const char* label, SourceLocation where) const {
  if (loop_->failure()) loop_->throw_failure(label, where);
}

}  // namespace tessera::mesh
