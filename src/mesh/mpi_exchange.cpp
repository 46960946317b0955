// Every wait polls non-blocking calls of MPI, with a limit, for messages of other members that the group has ended, and
// for an abort of this process. Elements are bytes to MPI, which neither knows bf16 nor has to add.
#include "mesh/mpi_exchange.hpp"

#include "tessera/base/error.hpp"

#if !defined(TESSERA_HAS_MPI)

namespace tessera::mesh {

bool has_mpi() noexcept { return false; }

std::shared_ptr<Exchange> mpi_exchange(const MpiOptions&, SourceLocation where) {
  throw MeshError(
      "this build of Tessera has no MPI.\n  Install it (Debian, Ubuntu: apt-get install libopenmpi-dev openmpi-bin) "
      "and "
      "build Tessera again with -DTESSERA_MPI=ON.",
      where);
}

}  // namespace tessera::mesh

#else

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/format.hpp"

namespace tessera::mesh {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kDataTag = 1, kAbortTag = 2;

std::string text_of_result(int result) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(result, text.data(), &length) != MPI_SUCCESS) return concat("error ", result);
  return text.data();
}

/// MPI in this process. Its state outlives every exchange.
class Mpi {
 public:
  static Mpi& get(SourceLocation where) {
    Mpi& mpi = instance();
    mpi.start(where);
    return mpi;
  }

  /// Held around every call, unless MPI allows several threads at a time.
  std::unique_lock<std::timed_mutex> lock() {
    return several_threads_ ? std::unique_lock<std::timed_mutex>() : std::unique_lock(mutex_);
  }
  /// The same for at most 100 ms; false if another thread is still in a call.
  bool try_lock(std::unique_lock<std::timed_mutex>& held) {
    if (several_threads_) return true;
    held = std::unique_lock(mutex_, std::chrono::milliseconds(100));
    return held.owns_lock();
  }
  /// MPI may still read or write memory of a call that has thrown: no call is made any more, because messages move only
  /// during calls.
  void end() noexcept { ended_.store(true); }
  void group_failed() noexcept { group_failed_.store(true); }
  bool usable() const noexcept {
    int finalized = 0;
    return !ended_.load() && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0;
  }

 private:
  static Mpi& instance() {
    static Mpi& mpi = *new Mpi;  // never destroyed: finalised at exit
    return mpi;
  }
  void start(SourceLocation where) {
    const std::lock_guard guard(start_mutex_);
    if (started_ && usable()) return;
    int initialized = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialized);
    if (initialized == 0) {
      const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
      if (result != MPI_SUCCESS) throw MeshError(concat("MPI does not start: ", text_of_result(result)), where);
      std::atexit([] { instance().finalize(); });
    } else if (usable()) {
      MPI_Query_thread(&level);
    }
    if (!usable()) throw MeshError("MPI has ended in this process, and cannot be started again.", where);
    if (level < MPI_THREAD_SERIALIZED)
      throw MeshError(concat("MPI was initialised for one thread (level ", level,
                             "); expected MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE, because streams of the CPU are "
                             "threads.\n  Call MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave it to Tessera."),
                      where);
    several_threads_ = level == MPI_THREAD_MULTIPLE;
    started_ = true;
  }
  /// After a failure not: it would wait for the members that are gone.
  void finalize() const noexcept {
    if (usable() && !group_failed_.load()) MPI_Finalize();
  }

  std::mutex start_mutex_;
  std::timed_mutex mutex_;
  std::atomic<bool> ended_{false}, group_failed_{false};
  bool started_ = false, several_threads_ = false;  // written once, before any exchange exists
};

/// "The group has ended", to every other member.
struct AbortMessage {
  std::int32_t rank = -1;
  std::array<char, 1020> reason{};
};

/// Messages under way, and the members at their other ends.
struct Requests {
  std::vector<MPI_Request> requests;
  std::vector<int> members;
  std::vector<bool> receives;
};

class MpiExchange final : public Exchange {
 public:
  /// Owns `comm`.
  MpiExchange(Mpi& mpi, MPI_Comm comm, const MpiOptions& options) : mpi_(mpi), comm_(comm), options_(options) {
    MPI_Comm_size(comm_, &members_);
    MPI_Comm_rank(comm_, &me_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~MpiExchange() override {
    if (failed_.load() || !mpi_.usable()) return;
    const auto held = mpi_.lock();
    MPI_Comm_free(&comm_);
  }

  int members() const noexcept override { return members_; }
  int me() const noexcept override { return me_; }
  const char* name() const noexcept override { return "MPI"; }

  /// A pair without bytes exchanges an empty message: so a member that does not arrive is noticed in every call.
  void all_to_all(std::span<const std::span<const std::byte> > to,
                  std::span<const std::span<std::byte> > from) override {
    begin();
    Requests requests;
    for (int n = 0; n < members_; ++n) {
      const auto i = static_cast<std::size_t>(n);
      if (n != me_)
        post_receive(requests, n, from[i]);
      else if (!from[i].empty())
        std::memmove(from[i].data(), to[i].data(), from[i].size());
    }
    for (int step = 1; step < members_; ++step) {
      const int n = (me_ + step) % members_;
      post_send(requests, n, to[static_cast<std::size_t>(n)]);
    }
    complete(requests);
  }
  void send(int member, std::span<const std::byte> bytes) override {
    begin();
    Requests requests;
    post_send(requests, member, bytes);
    complete(requests);
  }
  void receive(int member, std::span<std::byte> bytes) override {
    begin();
    Requests requests;
    post_receive(requests, member, bytes);
    complete(requests);
  }
  /// MPI_Comm_split waits without a limit: the members first meet in a call that has one.
  std::shared_ptr<Exchange> split(int colour) override { return split(colour, options_); }
  std::shared_ptr<Exchange> companion() override {
    MpiOptions options = options_;
    options.timeout_ms = 0;
    return split(0, options);
  }
  std::shared_ptr<Exchange> split(int colour, const MpiOptions& options) {
    meet();
    MPI_Comm made = MPI_COMM_NULL;
    {
      const auto held = mpi_.lock();
      check(MPI_Comm_split(comm_, colour, me_, &made), -1, "MPI_Comm_split");
    }
    return std::make_shared<MpiExchange>(mpi_, made, options);
  }
  void abort(const GroupFailure& failure) noexcept override {
    if (!fail(failure)) return;
    try {
      notify_others(failure);
    } catch (...) {
      // Members that cannot be reached find the end of this one by their own limits.
    }
  }

 private:
  /// Keeps the first failure. False if there was one.
  bool fail(const GroupFailure& failure) {
    {
      const std::lock_guard guard(failure_mutex_);
      if (failure_) return false;
      failure_ = failure;
    }
    failed_.store(true);
    mpi_.group_failed();
    return true;
  }
  [[noreturn]] void throw_failure() const {
    const std::lock_guard guard(failure_mutex_);
    throw_group_failure(*failure_, "a message of MPI", {});
  }
  void begin() {
    if (!failed_.load() && !mpi_.usable()) fail({-1, "MPI has ended in this process"});
    if (!failed_.load()) take_abort();
    if (failed_.load()) throw_failure();
  }
  void check(int result, int member, const char* call) {
    if (result == MPI_SUCCESS) return;
    abort({member, concat(call, ": ", text_of_result(result))});
    throw_failure();
  }

  template <class Post>
  void post(Requests& requests, int member, bool receive, std::size_t bytes, Post one) {
    std::size_t offset = 0;
    do {
      const std::size_t size = std::min(bytes - offset, options_.message_bytes);
      MPI_Request request = MPI_REQUEST_NULL;
      int result = MPI_SUCCESS;
      {
        const auto held = mpi_.lock();
        result = one(offset, static_cast<int>(size), &request);
      }
      requests.requests.push_back(request);
      requests.members.push_back(member);
      requests.receives.push_back(receive);
      if (result != MPI_SUCCESS) {
        abort({member, concat(receive ? "MPI_Irecv: " : "MPI_Isend: ", text_of_result(result))});
        give_up(requests);
      }
      offset += size;
    } while (offset < bytes);
  }
  void post_receive(Requests& requests, int member, std::span<std::byte> to) {
    post(requests, member, true, to.size(), [&](std::size_t offset, int size, MPI_Request* request) {
      return MPI_Irecv(to.data() + offset, size, MPI_BYTE, member, kDataTag, comm_, request);
    });
  }
  void post_send(Requests& requests, int member, std::span<const std::byte> from) {
    post(requests, member, false, from.size(), [&](std::size_t offset, int size, MPI_Request* request) {
      return MPI_Isend(from.data() + offset, size, MPI_BYTE, member, kDataTag, comm_, request);
    });
  }

  /// Returns when all messages are complete. The limit begins anew with each that is.
  void complete(Requests& requests) {
    auto limit = Clock::now() + std::chrono::milliseconds(options_.timeout_ms);
    std::vector<int> indices(requests.requests.size());
    std::vector<MPI_Status> statuses(indices.size());
    for (int idle = 0;; ++idle) {
      int count = 0, result = MPI_SUCCESS;
      {
        const auto held = mpi_.lock();
        result = MPI_Testsome(static_cast<int>(indices.size()), requests.requests.data(), &count, indices.data(),
                              statuses.data());
      }
      if (result != MPI_SUCCESS) fail_by_status(requests, result, count, indices, statuses);
      if (count == MPI_UNDEFINED) return;  // none is left
      if (count > 0) {
        idle = 0;
        limit = Clock::now() + std::chrono::milliseconds(options_.timeout_ms);
        continue;
      }
      if (idle % 16 == 15) take_abort();
      if (failed_.load()) give_up(requests);
      if (options_.timeout_ms != 0 && Clock::now() > limit) {
        abort(missing(requests));
        give_up(requests);
      }
      pause(idle);
    }
  }
  void fail_by_status(Requests& requests, int result, int count, const std::vector<int>& indices,
                      const std::vector<MPI_Status>& statuses) {
    int member = -1;
    for (int i = 0; result == MPI_ERR_IN_STATUS && i < count; ++i) {
      const int error = statuses[static_cast<std::size_t>(i)].MPI_ERROR;
      if (error == MPI_SUCCESS) continue;
      member = requests.members[static_cast<std::size_t>(indices[static_cast<std::size_t>(i)])];
      result = error;
    }
    abort({member, concat("MPI_Testsome: ", text_of_result(result))});
    give_up(requests);
  }
  /// Those of which a message was expected; without any, those that have not taken theirs.
  GroupFailure missing(const Requests& requests) const {
    for (const bool receives : {true, false}) {
      std::vector<int> members;
      for (std::size_t i = 0; i < requests.requests.size(); ++i) {
        const int member = requests.members[i];
        if (requests.requests[i] == MPI_REQUEST_NULL || requests.receives[i] != receives) continue;
        if (std::find(members.begin(), members.end(), member) == members.end()) members.push_back(member);
      }
      if (members.empty()) continue;
      const std::string who = members.size() == 1 ? "process " : "processes ";
      return {members.front(), concat(who, join(members), " of ", members_, " did not arrive within ",
                                      options_.timeout_ms / 1000.0, " s")};
    }
    return {-1, "a message is missing"};
  }
  /// The memory of the messages belongs to the caller, whom an error reaches now.
  [[noreturn]] void give_up(Requests& requests) {
    for (std::size_t i = 0; i < requests.requests.size(); ++i) {
      if (requests.requests[i] == MPI_REQUEST_NULL || !requests.receives[i]) continue;
      const auto held = mpi_.lock();
      MPI_Cancel(&requests.requests[i]);
    }
    if (!finish(requests.requests, std::chrono::milliseconds(50))) mpi_.end();
    throw_failure();
  }
  /// False if messages are still under way after `limit`.
  bool finish(std::vector<MPI_Request>& requests, std::chrono::milliseconds limit) {
    const auto end = Clock::now() + limit;
    int done = 0;
    while (true) {
      {
        const auto held = mpi_.lock();
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
      }
      if (done != 0 || Clock::now() > end) return done != 0;
      std::this_thread::yield();
    }
  }
  /// What waits for others must leave them the processor: several ranks may share it.
  static void pause(int idle) {
    constexpr int kYields = 500;
    if (idle < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(idle < 2 * kYields ? 20 : 200));
  }

  void meet() {
    const auto n = static_cast<std::size_t>(members_);
    all_to_all(std::vector<std::span<const std::byte> >(n), std::vector<std::span<std::byte> >(n));
  }

  /// Takes the message of another member that the group has ended, if there is one.
  void take_abort() {
    AbortMessage message;
    {
      const auto held = mpi_.lock();
      int found = 0;
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, kAbortTag, comm_, &found, &status) != MPI_SUCCESS || found == 0) return;
      MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, kAbortTag, comm_, MPI_STATUS_IGNORE);
    }
    message.reason.back() = '\0';
    fail({message.rank, message.reason.data()});
  }
  void notify_others(const GroupFailure& failure) {
    auto& message = *new AbortMessage;  // MPI may read it as long as the process lives
    message.rank = failure.rank;
    failure.reason.copy(message.reason.data(), message.reason.size() - 1);
    if (!mpi_.usable()) return;
    std::vector<MPI_Request> requests;
    {
      std::unique_lock<std::timed_mutex> held;
      if (!mpi_.try_lock(held)) return;
      for (int n = 0; n < members_; ++n) {
        if (n == me_) continue;
        requests.push_back(MPI_REQUEST_NULL);
        MPI_Isend(&message, sizeof message, MPI_BYTE, n, kAbortTag, comm_, &requests.back());
      }
    }
    finish(requests, std::chrono::milliseconds(20));
  }

  Mpi& mpi_;
  MPI_Comm comm_;
  MpiOptions options_;
  int members_ = 0, me_ = 0;
  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  std::optional<GroupFailure> failure_;
};

/// A duplicate of MPI_COMM_WORLD.
MPI_Comm duplicate(Mpi& mpi, const MpiOptions& options, SourceLocation where) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  int done = 0, result = MPI_SUCCESS;
  {
    const auto held = mpi.lock();
    result = MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
  }
  const auto limit = Clock::now() + std::chrono::milliseconds(options.timeout_ms);
  while (result == MPI_SUCCESS) {
    {
      const auto held = mpi.lock();
      result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    if (done != 0) break;
    if (options.timeout_ms != 0 && Clock::now() > limit) {
      mpi.end();
      throw MeshError(concat("not all processes of MPI_COMM_WORLD made a mesh within ", options.timeout_ms / 1000.0,
                             " s.\n  All of them have to make the same meshes in the same order."),
                      where);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  if (result != MPI_SUCCESS) throw MeshError(concat("MPI_Comm_idup: ", text_of_result(result)), where);
  return made;
}

}  // namespace

bool has_mpi() noexcept { return true; }

std::shared_ptr<Exchange> mpi_exchange(const MpiOptions& options, SourceLocation where) {
  Mpi& mpi = Mpi::get(where);
  return std::make_shared<MpiExchange>(mpi, duplicate(mpi, options, where), options);
}

}  // namespace tessera::mesh

#endif
