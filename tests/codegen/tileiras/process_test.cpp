// Child processes: what they inherit, how they end, and that none outlives the program that started it.
#include "codegen/tileiras/process.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace tessera::tileiras {
namespace {

constexpr double kLimit = 60;

ProcessResult shell(const std::string& script, double limit = kLimit, double processor_limit = 0) {
  return run_process({"/bin/sh", "-c", script}, {"TESSERA_TEST=set"}, limit, processor_limit);
}

TEST(Process, GivesOutputExitCodeAndSignal) {
  const ProcessResult said = shell("echo $TESSERA_TEST; echo wrong >&2; exit 3");
  EXPECT_EQ(said.start_error, 0);
  EXPECT_EQ(said.out, "set\n");
  EXPECT_EQ(said.err, "wrong\n");
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_EQ(said.signal, 0);
  EXPECT_EQ(shell("kill -9 $$").signal, SIGKILL);
}

TEST(Process, SaysWhyItCannotStart) {
  EXPECT_EQ(run_process({"/no/such/program"}, {}, kLimit).start_error, ENOENT);
  EXPECT_EQ(run_process({"/"}, {}, kLimit).start_error, EACCES);
}

TEST(Process, StartsWithTheSystemsSignals) {
  std::signal(SIGUSR1, [](int) {});
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  EXPECT_EQ(shell("kill -USR1 $$; exit 0").signal, SIGUSR1) << "neither handled nor blocked in the child";
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, &old, &now);
  EXPECT_EQ(sigismember(&now, SIGUSR1), 1);
  EXPECT_EQ(sigismember(&now, SIGTERM), 0) << "the caller's mask is what it was";
  std::signal(SIGUSR1, SIG_DFL);
}

TEST(Process, IsKilledWithItsChildrenWhenTheTimeIsOver) {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult late = shell("sleep 100 & sleep 100", 0.3);
  EXPECT_TRUE(late.timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

bool alive(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string word, state;
  in >> word >> word >> state;
  return !state.empty() && state != "Z" && state != "X";
}

/// The number in a file that another process writes; 0 if it does not come.
pid_t wait_for_number(const std::string& file) {
  for (int i = 0; i < 1000; ++i) {
    pid_t pid = 0;
    if (std::ifstream(file) >> pid) return pid;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return 0;
}

TEST(Process, IsStoppedAtItsLimitOfProcessorTimeAndNotForWaiting) {
  constexpr double kProcessor = 0.3;
  for (const char* busy : {"while :; do :; done", "echo begun; (while :; do :; done); echo ended",
                           "exec 1>&- 2>&-; while :; do :; done"}) {
    const ProcessResult run = shell(busy, kLimit, kProcessor);
    EXPECT_TRUE(run.timed_out && run.by_processor) << busy;
    EXPECT_LT(run.processor_seconds, kLimit / 2) << busy;
  }
  EXPECT_GE(shell("while :; do :; done", kLimit, kProcessor).processor_seconds, kProcessor / 2);
  const ProcessResult waits = shell("sleep 1; echo ended", kLimit, kProcessor);
  EXPECT_FALSE(waits.timed_out);
  EXPECT_EQ(waits.out, "ended\n");
  EXPECT_LT(waits.processor_seconds, kProcessor);
  const ProcessResult out_of_time = shell("sleep 60", 0.5, kProcessor);
  EXPECT_TRUE(out_of_time.timed_out);
  EXPECT_FALSE(out_of_time.by_processor);
}

TEST(Process, EndsWithTheProgramThatIsKilled) {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/tessera-process-XXXXXX";
  const std::string folder = mkdtemp(pattern.data());
  const std::string file = folder + "/pid";
  const pid_t program = fork();
  if (program == 0) {
    shell("echo $$ > " + file + ".new; mv " + file + ".new " + file + "; exec sleep 100");
    _exit(0);
  }
  const pid_t child = wait_for_number(file);
  ASSERT_NE(child, 0);
  EXPECT_TRUE(alive(child));
  kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
  for (int i = 0; i < 1000 && alive(child); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(alive(child));
  if (alive(child)) kill(child, SIGKILL);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::tileiras
