// The child has a process group of its own, so that a limit counts and ends it and everything it started. The system
// ends it with the thread that waits for it, so a killed program leaves no assembler behind.
#include "codegen/tileiras/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
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

/// What the child needs before exec.
struct Becoming {
  char* const* argv;
  char* const* envp;
  int out, err, report;  ///< `report` gets errno if it cannot; it closes by itself if it can
  pid_t parent;
};

/// In the child: system calls only, because it shares the parent's memory until it is another program (vfork). All
/// signals are blocked; the parent's handlers must not run here when they are let through.
[[noreturn]] void become(const Becoming& b) {
  struct sigaction action {};
  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != b.parent) _exit(1);  // the parent has ended before it could be known
  const int in = open("/dev/null", O_RDONLY);
  if (in >= 0 && dup2(in, 0) == 0 && dup2(b.out, 1) == 1 && dup2(b.err, 2) == 2) {
    if (in != 0) close(in);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(b.argv[0], b.argv, b.envp);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(b.report, &error, sizeof error);
  _exit(127);
}

/// Starts the child; returns errno (0: started). vfork, not fork: the page tables of a process that uses a GPU are
/// large.
[[gnu::noinline]] int spawn(pid_t& pid, std::vector<std::string> arguments, std::vector<std::string> env,
                            const Pipe& out, const Pipe& err) {
  Pipe report;
  if (report.read_end < 0) return errno;
  const std::vector<char*> argv = pointers(arguments), envp = pointers(env);
  const Becoming becoming{argv.data(), envp.data(), out.write_end, err.write_end, report.write_end, getpid()};
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const pid_t child = vfork();
  if (child == 0) become(becoming);
  const int rejected = errno;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (child < 0) return rejected;
  Pipe::close_end(report.write_end);
  int error = 0;
  ssize_t n = 0;
  do { n = read(report.read_end, &error, sizeof error); } while (n < 0 && errno == EINTR);
  pid = child;
  if (n != sizeof error) return 0;
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
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

/// Seconds of processor time that a process has used, together with its children that have ended, if it belongs to
/// `group` (proc(5), /proc/<pid>/stat: fields 5 and 14 to 17, counted behind the name in parentheses). 0 otherwise.
double processor_time(const std::string& pid, pid_t group) {
  std::ifstream in("/proc/" + pid + "/stat");
  std::string text;
  std::getline(in, text, '\0');  // where the process has just ended, reading fails, which an iterator would throw
  const std::size_t name = text.rfind(')');
  if (name == std::string::npos) return 0;
  std::istringstream fields(text.substr(name + 1));
  std::string word;
  double ticks = 0;
  for (int field = 3; field <= 17 && fields >> word; ++field) {
    if (field == 5 && std::atoll(word.c_str()) != group) return 0;
    if (field >= 14) ticks += std::atof(word.c_str());
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// The same of all processes of a group; negative where /proc cannot be read.
double processor_time_of(pid_t group) {
  const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc"), closedir);
  if (!all) return -1;
  double seconds = 0;
  while (const dirent* entry = readdir(all.get()))
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') seconds += processor_time(entry->d_name, group);
  return seconds;
}

/// When a child has to be stopped.
class Limits {
 public:
  Limits(pid_t group, Clock::time_point start, double time_s, double processor_s)
      : group_(group), start_(start), deadline_(start + seconds(time_s)), processor_s_(processor_s) {}
  bool reached() {
    const auto now = Clock::now();
    if (now >= deadline_) return true;
    return by_processor_ = processor_s_ > 0 && now >= next_look() && used(now) >= processor_s_;
  }
  bool by_processor() const noexcept { return by_processor_; }
  /// Until the next call of reached() that can find something.
  std::int64_t milliseconds_left() const {
    const auto next = processor_s_ > 0 ? std::min(deadline_, std::max(next_look(), Clock::now() + kPause)) : deadline_;
    return std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count() + 1;
  }

 private:
  static constexpr std::chrono::milliseconds kPause{200};
  static Clock::duration seconds(double s) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  }
  /// The assembler works in one thread at a time, so it cannot have used more time than has passed.
  Clock::time_point next_look() const { return start_ + seconds(processor_s_); }
  double used(Clock::time_point now) const {
    const double known = processor_time_of(group_);
    return known >= 0 ? known : std::chrono::duration<double>(now - start_).count();
  }

  pid_t group_;
  Clock::time_point start_, deadline_;
  double processor_s_;
  bool by_processor_ = false;
};

/// Collects output until both streams end; false if a limit came first.
bool collect(Pipe& out, Pipe& err, ProcessResult& result, Limits& limits) {
  while (out.read_end >= 0 || err.read_end >= 0) {
    if (limits.reached()) return false;
    const std::int64_t left = limits.milliseconds_left();
    std::array<pollfd, 2> fds = {pollfd{out.read_end, POLLIN, 0}, pollfd{err.read_end, POLLIN, 0}};
    int ready = poll(fds.data(), fds.size(), static_cast<int>(left < 60'000 ? left : 60'000));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    if (fds[0].revents != 0 && !drain(out.read_end, result.out)) Pipe::close_end(out.read_end);
    if (fds[1].revents != 0 && !drain(err.read_end, result.err)) Pipe::close_end(err.read_end);
  }
  return true;
}

/// How a child ended.
struct Ended {
  int status = 0;
  rusage used{};
};

/// Waits for the child until a limit is reached; false if it still runs then (streams may be closed early by a daemon).
bool reap(pid_t pid, Ended& ended, Limits& limits) {
  for (useconds_t pause = 200;; pause = pause < 20'000 ? pause * 2 : pause) {
    pid_t done = wait4(pid, &ended.status, WNOHANG, &ended.used);
    if (done == pid || (done < 0 && errno != EINTR)) return true;
    if (limits.reached()) return false;
    usleep(pause);
  }
}

double seconds_of(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const std::vector<std::string>& set,
                          double time_limit_s, double processor_limit_s) {
  ProcessResult result;
  const auto start = Clock::now();
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
  Limits limits(pid, start, time_limit_s, processor_limit_s);
  Ended ended;
  if (!collect(out, err, result, limits) || !reap(pid, ended, limits)) {
    result.timed_out = true;
    result.by_processor = limits.by_processor();
    kill(-pid, SIGKILL);  // its process group: what it started as well
    kill(pid, SIGKILL);
    while (wait4(pid, &ended.status, 0, &ended.used) < 0 && errno == EINTR) {}
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result.processor_seconds = seconds_of(ended.used.ru_utime) + seconds_of(ended.used.ru_stime);
  if (WIFEXITED(ended.status)) result.exit_code = WEXITSTATUS(ended.status);
  if (WIFSIGNALED(ended.status)) result.signal = WTERMSIG(ended.status);
  return result;
}

}  // namespace tessera::tileiras
