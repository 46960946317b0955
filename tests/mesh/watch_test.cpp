// Processes that watch each other, started here and killed, stopped or left alone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mesh/group_watch.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/watch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/mesh/mesh.hpp"
#include "tessera/mesh/processes.hpp"

namespace tessera::mesh {
namespace THIS_FILE {

using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// What anything may take that is to happen: the start of a process, and a failure until all processes know it and have
/// ended. It is far more than either takes on a busy machine; that a failure is noticed for the right reason shows in
/// what the processes say.
constexpr auto kLimit = milliseconds(60'000);

/// When the processes of a group take one of them for dead or hanging. Where a test is about neither, it takes longer
/// than the test, however busy the machine is.
struct Patience {
  int silence_ms = 30'000, progress_ms = 30'000;
};
/// A process that is stopped, and one that makes no progress, are noticed soon, but not one that a busy machine delays.
constexpr Patience kShortSilence{1'500, 30'000}, kShortProgress{30'000, 1'500};

std::string program() {
  char path[4096] = {};
  if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return {};
  const std::string self(path);
  return self.substr(0, self.rfind('/') + 1) + "watch_main";
}

/// A port that is free now.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  bind(fd, reinterpret_cast<const sockaddr*>(&address), length);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

class Process {
 public:
  Process(int port, int rank, int size, const std::string& action, Patience patience = {}) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    const std::string exe = program(), port_text = std::to_string(port), rank_text = std::to_string(rank),
                      size_text = std::to_string(size), silence_text = std::to_string(patience.silence_ms),
                      progress_text = std::to_string(patience.progress_ms);
    pid_ = ::fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(exe.c_str(), exe.c_str(), port_text.c_str(), rank_text.c_str(), size_text.c_str(), action.c_str(),
            silence_text.c_str(), progress_text.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~Process() {
    kill(SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    close(out_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void kill(int signal) {
    if (pid_ > 0) ::kill(pid_, signal);
  }
  /// Reads until the output contains `text`; false at the limit or the end.
  bool wait_for(const std::string& text, Clock::time_point limit) {
    while (said_.find(text) == std::string::npos) {
      if (!read_some(limit)) return false;
    }
    return true;
  }
  /// All that it has said, once it has ended; "still runs" in front if it has not by the limit.
  std::string end(Clock::time_point limit) {
    while (read_some(limit)) {}
    if (!ended_) return "still runs: " + said_;
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return said_;
  }

 private:
  bool read_some(Clock::time_point limit) {
    const auto left = std::chrono::duration_cast<milliseconds>(limit - Clock::now()).count();
    pollfd waits{out_, POLLIN, 0};
    if (ended_ || poll(&waits, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) != 1) return false;
    char block[4096];
    const ssize_t count = read(out_, block, sizeof block);
    ended_ = count <= 0;
    if (count > 0) said_.append(block, static_cast<std::size_t>(count));
    return count > 0;
  }
  pid_t pid_ = -1;
  int out_ = -1;
  std::string said_;
  bool ended_ = false;
};

struct Group {
  /// Process `last` starts when the others run: then its limit to connect does not count the time of their start.
  explicit Group(const std::vector<std::string>& actions, Patience patience = {}, std::size_t last = 0)
      : port(free_port()), processes(actions.size()) {
    const auto start = [&](std::size_t i) {
      processes[i] =
          std::make_unique<Process>(port, static_cast<int>(i), static_cast<int>(actions.size()), actions[i], patience);
    };
    for (std::size_t i = 0; i < actions.size(); ++i)
      if (i != last) start(i);
    for (std::size_t i = 0; i < actions.size(); ++i)
      if (i != last) { EXPECT_TRUE(processes[i]->wait_for("starts", Clock::now() + kLimit)); }
    start(last);
  }
  ~Group() {
    processes.clear();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
    EXPECT_EQ(errno, ECHILD);
  }
  Process& operator[](std::size_t i) { return *processes[i]; }
  void wait_for_all(const std::string& text) {
    for (const auto& process : processes) ASSERT_TRUE(process->wait_for(text, Clock::now() + kLimit));
  }
  /// All but `victim` end with `text` in their output before the limit.
  void expect_ends(std::size_t victim, const std::string& text) {
    const auto until = Clock::now() + kLimit;
    for (std::size_t i = 0; i < processes.size(); ++i) {
      if (i == victim) continue;
      const std::string said = processes[i]->end(until);
      EXPECT_THAT(said, HasSubstr(text)) << "process " << i;
      EXPECT_THAT(said, Not(HasSubstr("leaked"))) << "process " << i;
    }
  }
  void expect_said(std::size_t victim, const std::string& text) {
    for (std::size_t i = 0; i < processes.size(); ++i) {
      if (i == victim) continue;
      EXPECT_THAT(processes[i]->end(Clock::now()), HasSubstr(text)) << "process " << i;
    }
  }
  int port;
  std::vector<std::unique_ptr<Process>> processes;
};
constexpr std::size_t kNone = 99;

TEST(MeshWatch, AllLeaveWithoutAFalseAlarm) {
  for (const std::vector<std::string>& actions : {std::vector<std::string>{"leaves"},
                                                  {"leaves", "leaves"},
                                                  {"leaves", "late", "leaves", "late"},
                                                  {"late", "leaves", "leaves"}}) {
    Group group(actions);
    group.expect_ends(kNone, "left");
    for (const auto& process : group.processes) EXPECT_THAT(process->end(Clock::now()), Not(HasSubstr("rror")));
  }
}

TEST(MeshWatch, AProcessThatIsKilledEndsAllOthers) {
  for (const char* action : {"work", "idle", "waits"}) {
    for (const std::size_t victim : {0, 1, 2}) {
      SCOPED_TRACE(action + std::to_string(victim));
      Group group({action, action, action});
      group.wait_for_all("connected");
      std::this_thread::sleep_for(milliseconds(150));  // in its steps
      group[victim].kill(SIGKILL);
      group.expect_ends(victim, "rank " + std::to_string(victim) + ": the process has ended");
      if (std::string(action) != "work") { group.expect_said(victim, "\nabort\n"); }
    }
  }
}

TEST(MeshWatch, AProcessThatIsKilledBeforeItConnectsIsNamed) {
  {
    Group group({"short", "work", "before"});
    ASSERT_TRUE(group[2].wait_for("before", Clock::now() + kLimit));
    group[2].kill(SIGKILL);
    group.expect_ends(2, "rank 2: has not connected within 0.7 s");
  }
  Group without_0({"before", "short"});
  without_0[0].kill(SIGKILL);
  without_0.expect_ends(0, "rank 1 could not reach rank 0 at 127.0.0.1");
}

// A rank whose limit ends before that of rank 0 waits for the name of the missing rank, which only rank 0 knows.
TEST(MeshWatch, OnlyRank0SaysWhoHasNotConnected) {
  Group group({"longer", "short", "before"}, {}, 1);
  group.expect_ends(2, "rank 2: has not connected within 3 s");
}

TEST(MeshWatch, AProcessThatIsKilledWhileOthersConnectEndsThem) {
  Group group({"work", "work", "before"});
  ASSERT_TRUE(group[2].wait_for("before", Clock::now() + kLimit));
  std::this_thread::sleep_for(milliseconds(500));  // 0 and 1 wait for 2
  group[1].kill(SIGKILL);
  EXPECT_THAT(group[0].end(Clock::now() + kLimit),
              HasSubstr("starting a group of processes: rank 1: the process has ended"));
}

TEST(MeshWatch, AProcessThatIsKilledAfterItLeftIsNoFailure) {
  Group group({"late", "stays", "late"});
  ASSERT_TRUE(group[1].wait_for("left", Clock::now() + kLimit));
  group[1].kill(SIGKILL);
  group.expect_ends(1, "left");
}

TEST(MeshWatch, Rank0PassesFailuresOnUntilAllHaveLeft) {
  Group group({"leaves", "idle", "idle"});
  group.wait_for_all("connected");
  ASSERT_TRUE(group[0].wait_for("leaves", Clock::now() + kLimit));
  std::this_thread::sleep_for(milliseconds(200));
  group[1].kill(SIGKILL);
  EXPECT_THAT(group[2].end(Clock::now() + kLimit), HasSubstr("rank 1: the process has ended"));
  EXPECT_THAT(group[0].end(Clock::now() + kLimit), HasSubstr("left"));
}

TEST(MeshWatch, AProcessThatEndsWithoutLeavingIsAFailure) {
  Group group({"work", "exits", "work"});
  group.expect_ends(1, "rank 1: the process has ended");
}

TEST(MeshWatch, AProcessThatIsStoppedEndsAllOthers) {
  for (const std::size_t victim : {0, 1}) {
    SCOPED_TRACE(victim);
    Group group({"work", "work", "work"}, kShortSilence);
    group.wait_for_all("connected");
    group[victim].kill(SIGSTOP);
    const std::string text = "rank " + std::to_string(victim) + ": the process has not answered for 1.5 s";
    group.expect_ends(victim, text);
    group[victim].kill(SIGCONT);
    EXPECT_THAT(group[victim].end(Clock::now() + kLimit), HasSubstr("error: ")) << "it learns of the end, too";
  }
}

TEST(MeshWatch, ARankThatHangsIsNamedByThoseThatWait) {
  {
    Group group({"waits", "hangs", "waits"}, kShortProgress);
    ASSERT_TRUE(group[1].wait_for("hangs", Clock::now() + kLimit));
    group.expect_ends(1, "rank 1: the rank makes no progress for 1.5 s while others wait for it");
  }
  Group all({"waits", "waits"}, kShortProgress);
  all.wait_for_all("connected");
  all.expect_ends(kNone, "no rank hangs behind the others");
}

TEST(MeshWatch, AnIdleGroupDoesNotHang) {
  Group group({"idle", "idle"}, kShortProgress);
  group.wait_for_all("connected");
  std::this_thread::sleep_for(milliseconds(kShortProgress.progress_ms + 500));
  for (const auto& process : group.processes) EXPECT_THAT(process->end(Clock::now()), HasSubstr("still runs"));
}

TEST(MeshWatch, AReportedFailureReachesAll) {
  for (const std::size_t who : {0, 1}) {
    std::vector<std::string> actions(3, "work");
    actions[who] = "reports";
    Group group(actions);
    group.wait_for_all("connected");
    group.expect_ends(kNone, "rank " + std::to_string(who) + ": out of memory");
  }
}

TEST(MeshWatch, AnExceptionIsReported) {
  for (const std::size_t who : {0, 1}) {
    std::vector<std::string> actions(3, "work");
    actions[who] = "throws";
    Group group(actions);
    group.wait_for_all("connected");
    group.expect_ends(who, "rank " + std::to_string(who) + ": the process left the group because of an exception");
    EXPECT_THAT(group[who].end(Clock::now() + kLimit), HasSubstr("exception: a bug"));
  }
}

TEST(MeshWatch, APortInUseAndForeignProcessesAreReported) {
  const int port = free_port();
  const Descriptor taken = listen_at("127.0.0.1", port);
  try {
    Watch watch({.address = "127.0.0.1", .port = port, .rank = 0, .size = 2, .start_ms = 100}, {});
    ADD_FAILURE() << "no error";
  } catch (const MeshError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot listen at 127.0.0.1:" + std::to_string(port)));
    EXPECT_THAT(error.what(), HasSubstr("TESSERA_MESH_PORT"));
  }
  // A process of a larger group, one that connects twice, and one that speaks something else.
  Group group({"longer", "before"});
  group[1].kill(SIGKILL);
  Process larger(group.port, 1, 3, "work");
  EXPECT_THAT(larger.end(Clock::now() + kLimit), HasSubstr("rank 0 belongs to another group"));
  std::string why;
  const Descriptor stranger = connect_to("127.0.0.1", group.port, 100, why);
  if (stranger) send(stranger.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
  group.expect_ends(1, "rank 1: has not connected within 3 s");
}

/// A communicator that tells no other process anything, as NCCL's.
class Alone final : public Communicator {
 public:
  explicit Alone(int rank) : rank_(rank) {}
  int size() const noexcept override { return 2; }
  int first() const noexcept override { return rank_; }
  int locals() const noexcept override { return 1; }
  const char* name() const noexcept override { return "alone"; }
  void enqueue(const CollectiveCall&) override {}
  std::shared_ptr<Communicator> split(int, SourceLocation) override { return nullptr; }
  void abort(const GroupFailure& failure) noexcept override {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  std::optional<GroupFailure> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  const int rank_;
  mutable std::mutex mutex_;
  std::optional<GroupFailure> failure_;
};

/// Two ranks that only their watches connect.
struct Pair {
  explicit Pair(int progress_ms = 0) {
    for (const int rank : {0, 1}) {
      communicators.push_back(std::make_shared<Alone>(rank));
      auto watch = std::make_shared<GroupWatch>();
      watch->add(communicators.back());
      watches.push_back(watch);
    }
    const auto start = [port = free_port(), progress_ms, this](int rank) {
      WatchOptions options{.address = "127.0.0.1", .port = port, .rank = rank, .size = 2};
      options.progress_ms = progress_ms, options.beat_ms = 50;
      watches[static_cast<std::size_t>(rank)]->start(options, {});
    };
    std::thread other(start, 1);
    start(0);
    other.join();
    for (const std::size_t rank : {0, 1}) {
      auto state = std::make_shared<tessera::detail::MeshState>(
          communicators[rank], std::vector<Stream>{Stream(Device::cpu())}, tessera::detail::MeshState::Grid{});
      state->keep(std::exchange(watches[rank], nullptr), true);
      meshes.emplace_back(std::move(state));
    }
  }
  ~Pair() { meshes.pop_back(); }  // rank 0 stays until the other has left
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  std::string failure_of(std::size_t rank) const {
    const auto limit = Clock::now() + kLimit;
    while (!meshes[rank].failure() && Clock::now() < limit) std::this_thread::sleep_for(milliseconds(5));
    return meshes[rank].failure().value_or("");
  }

  std::vector<std::shared_ptr<Alone>> communicators;
  std::vector<std::shared_ptr<GroupWatch>> watches;
  std::vector<Mesh> meshes;
};

/// The communicator notices that its rank has failed; its thread knows the cause.
TEST(MeshWatch, AFailureOfACommunicatorIsToldToTheOthers) {
  for (const int rank : {0, 1}) {
    for (const int known : {rank, -1}) {
      const Pair pair;
      const auto own = static_cast<std::size_t>(rank);
      pair.communicators[own]->abort({known, "what it was to pass on has failed"});
      EXPECT_FALSE(pair.meshes[1 - own].failure());
      pair.meshes[own].abort("no memory is left");
      EXPECT_EQ(pair.failure_of(1 - own), "rank " + std::to_string(rank) + ": no memory is left");
    }
  }
}

/// A process lives, and does not come to a step of the others.
TEST(MeshWatch, AProcessThatDoesNotComeToAStepIsNamed) {
  for (const std::size_t missing : {0U, 1U}) {
    const Pair pair(1'000);
    { const Step first(pair.meshes[0]), second(pair.meshes[1]); }
    std::this_thread::sleep_for(milliseconds(1'400));
    EXPECT_FALSE(pair.meshes[0].failure()) << "between two steps it may be idle";
    const Step next(pair.meshes[1 - missing]);
    const std::string expected =
        "rank " + std::to_string(missing) + ": the rank makes no progress for 1 s while others wait for it";
    EXPECT_EQ(pair.failure_of(0), expected);
    EXPECT_EQ(pair.failure_of(1), expected);
  }
}

TEST(MeshWatch, WhatAnotherRankDidIsNotReported) {
  const Pair pair;
  pair.communicators[1]->abort({0, "no memory is left"});
  pair.meshes[1].abort("rank 0: no memory is left");
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(pair.meshes[0].failure()) << "rank 0 says so itself";
  pair.meshes[0].abort("no memory is left");
  EXPECT_EQ(pair.failure_of(0), "rank 0: no memory is left");
}

}  // namespace THIS_FILE
}  // namespace tessera::mesh
