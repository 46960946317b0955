// posix_spawn in a process group of its own, so that a time limit ends the child and whatever it started.
#include "codegen/tileiras/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>

extern char** environ;

namespace tessera::tileiras {

namespace {

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;
constexpr std::string_view kDropped[] = {"CUDA_HOME=", "CUDA_PATH=", "CUDA_ROOT="};

using Clock = std::chrono::steady_clock;

/// Both ends of a pipe; closed when it goes.
struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) == 0) {
      read_end = ends[0];
      write_end = ends[1];
    }
  }
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=') + 1); }

std::vector<std::string> environment(const std::vector<std::string>& set) {
  std::vector<std::string> entries = set;
  for (char** e = environ; e && *e; ++e) {
    bool keep = true;
    for (std::string_view dropped : kDropped) keep = keep && !std::string_view(*e).starts_with(dropped);
    for (const std::string& s : set) keep = keep && !std::string_view(*e).starts_with(name_of(s));
    if (keep) entries.emplace_back(*e);
  }
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

/// Starts the child; returns errno (0: started).
int spawn(pid_t& pid, std::vector<std::string> arguments, std::vector<std::string> env, const Pipe& out,
          const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write_end, 1);
  posix_spawn_file_actions_adddup2(&actions, err.write_end, 2);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  std::vector<char*> argv = pointers(arguments), envp = pointers(env);
  int error = posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

/// Reads what is there; false at the end of the stream.
bool drain(int fd, std::string& into) {
  std::array<char, 16384> buffer;
  ssize_t n = 0;
  do { n = read(fd, buffer.data(), buffer.size()); } while (n < 0 && errno == EINTR);
  if (n <= 0) return false;
  if (into.size() < kMaxOutput) into.append(buffer.data(), static_cast<std::size_t>(n));
  return true;
}

/// Collects output until both streams end; false if the deadline came first.
bool collect(Pipe& out, Pipe& err, ProcessResult& result, Clock::time_point deadline) {
  while (out.read_end >= 0 || err.read_end >= 0) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> fds = {pollfd{out.read_end, POLLIN, 0}, pollfd{err.read_end, POLLIN, 0}};
    int ready = poll(fds.data(), fds.size(), static_cast<int>(left < 60'000 ? left : 60'000));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    if (fds[0].revents != 0 && !drain(out.read_end, result.out)) Pipe::close_end(out.read_end);
    if (fds[1].revents != 0 && !drain(err.read_end, result.err)) Pipe::close_end(err.read_end);
  }
  return true;
}

/// Waits for the child until the deadline; false if it still runs then (streams may be closed early by a daemon).
bool reap(pid_t pid, int& status, Clock::time_point deadline) {
  for (useconds_t pause = 200;; pause = pause < 20'000 ? pause * 2 : pause) {
    pid_t done = waitpid(pid, &status, WNOHANG);
    if (done == pid || (done < 0 && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
    usleep(pause);
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const std::vector<std::string>& set,
                          double time_limit_s) {
  ProcessResult result;
  const auto start = Clock::now();
  const auto deadline =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time_limit_s));
  Pipe out, err;
  if (out.read_end < 0 || err.read_end < 0) {
    result.start_error = errno;
    return result;
  }
  pid_t pid = 0;
  result.start_error = spawn(pid, arguments, environment(set), out, err);
  if (result.start_error != 0) return result;
  Pipe::close_end(out.write_end);
  Pipe::close_end(err.write_end);
  int status = 0;
  if (!collect(out, err, result, deadline) || !reap(pid, status, deadline)) {
    result.timed_out = true;
    kill(-pid, SIGKILL);  // its process group: what it started as well
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace tessera::tileiras
