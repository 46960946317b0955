// Generates random programs and runs them in every way that must agree:
//
//   test_generate --seed 1 --count 100000 --jobs 2
//   test_generate --seed 1 --minutes 10
//   test_generate --seed today --minutes 1      // seeds that no other day has
//   test_generate --files tests/generate/found  // programs as text: one file, or all in a folder
//   test_generate --count 5000 --jobs 16 --device  // on the default device (TESSERA_DEVICE) beside the reference
//   test_generate --count 1000 --judge          // asks the checker about the claims of the analysis, runs nothing
//   test_generate --rounds 600 --judge          // the same; a sixteenth of them in slow builds (tests/base/rounds.hpp)
//   test_generate --seed 1 --days 3 --count 30  // a third of the 30 programs, another one each day
//   test_generate --seed 17 --print             // program 17 as text and as C++
//   test_generate --pairs --count 400           // pairs of operations on larger tiles (random_pair())
//
// A failure is made smaller and printed, unless --no-reduce. Exit status: 0 clean, 1 failures, 2 bad arguments.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/rounds.hpp"
#include "generate/cpp_text.hpp"
#include "generate/generator.hpp"
#include "generate/reduce.hpp"
#include "generate/run.hpp"

namespace tessera::generate {
namespace {

struct Arguments {
  std::uint64_t seed = 1, count = 0;  // count 0: until the time is over, or 1000
  double minutes = 0;
  int jobs = 1, failures = 10;
  bool print = false, reduce = true, device = false, judge = false, pairs = false;
  std::string files;
  Program program(std::uint64_t number) const { return pairs ? random_pair(number) : random_program(number); }
};

constexpr int kSecondsPerProgram = 20, kMaxFailures = 16, kGoOn = 3;

/// A program that takes longer, in time of the processor, ends the process.
void limit_time() {
  itimerval limit{};
  limit.it_value.tv_sec = kSecondsPerProgram;  // also of what waits for a device
  setitimer(ITIMER_PROF, &limit, nullptr);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return strsignal(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status)) + ", as of a sanitizer's finding";
}

/// Runs `f` in a child process with a time limit; returns its result, or how it ended.
template <class F>
std::string isolated(F f) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    limit_time();
    const std::string answer = f();
    (void)!write(ends[1], answer.data(), answer.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? text : "crash: " + how_it_ended(status);
}

std::string failure_text(Program& p, bool device) {
  Counts counts;
  const auto failure = Runner(Options{100, 100, 100, 100, device}).run(p, counts);
  if (!failure && counts.runs == 0) return "nothing: no launch was run";
  return failure ? failure->kind + ": " + failure->detail : std::string();
}

void report(Program p, bool reduced, bool device) {
  const std::string found = isolated([&] { return failure_text(p, device); });
  if (found.empty())
    return std::printf("program %llu fails only after others\n", static_cast<unsigned long long>(p.seed)), void();
  std::printf("---- program %llu fails\n%s\n", static_cast<unsigned long long>(p.seed), found.c_str());
  if (reduced) {
    const std::string kind = found.substr(0, found.find(':'));
    p = reduce(
        p,
        [&](Program& next) {
          const std::string text = isolated([&] { return failure_text(next, device); });
          return !text.empty() && text.substr(0, text.find(':')) == kind;
        },
        device ? 200 : 4000);
    std::printf("---- smaller\n%s\n", isolated([&] { return failure_text(p, device); }).c_str());
  }
  std::printf("---- as text\n%s---- as C++\n%s\n", to_text(p).c_str(), to_cpp(p).c_str());
  std::fflush(stdout);
}

/// Memory shared by workers and their parent.
struct Worker {
  std::atomic<std::uint64_t> seed;  ///< that it is running
  Counts counts;
  int failures;
  std::uint64_t failed[kMaxFailures];
};

class Crew {
 public:
  explicit Crew(const Arguments& a) : a_(a) {
    const std::size_t bytes = sizeof(Worker) * static_cast<std::size_t>(a.jobs);
    workers_ = static_cast<Worker*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (workers_ == MAP_FAILED) std::abort();
  }
  int run() {
    for (int w = 0; w < a_.jobs; ++w) start(w, a_.seed + static_cast<std::uint64_t>(w));
    while (!children_.empty()) {
      int status = 0;
      const pid_t child = waitpid(-1, &status, 0);
      const int w = children_[child];
      children_.erase(child);
      const std::uint64_t seed = workers_[w].seed;
      if (WIFEXITED(status) && WEXITSTATUS(status) == kGoOn) {
        start(w, seed + static_cast<std::uint64_t>(a_.jobs));
        continue;
      }
      if (status == 0) continue;
      std::printf("program %llu: %s\n", static_cast<unsigned long long>(seed), how_it_ended(status).c_str());
      fail(w, seed);
      start(w, seed + static_cast<std::uint64_t>(a_.jobs));
    }
    return finish();
  }

 private:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  void fail(int w, std::uint64_t seed) {
    Worker& worker = workers_[w];
    if (worker.failures < kMaxFailures) worker.failed[worker.failures++] = seed;
  }
  void start(int w, std::uint64_t seed) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child != 0) {
      children_[child] = w;
      return;
    }
    work(w, seed);
    _exit(0);
  }
  void work(int w, std::uint64_t seed) {
    Worker& worker = workers_[w];
    Options options;
    options.device = a_.device;
    options.judge = a_.judge;
    Runner runner(options);
    for (; worker.failures < a_.failures; seed += static_cast<std::uint64_t>(a_.jobs)) {
      const bool late = a_.minutes > 0 && seconds() > 60 * a_.minutes;
      const std::uint64_t most = a_.count > 0 ? a_.count : a_.minutes > 0 ? ~std::uint64_t{0} : 1000;
      if (late || seed - a_.seed >= most) return;
      worker.seed = seed;
      limit_time();
      Program p = a_.program(seed);
      const auto failure = runner.run(p, worker.counts);
      if (!failure) continue;
      // Printed at once, because output at the end may be cut off.
      std::printf("program %llu: %s: %s\n", static_cast<unsigned long long>(seed), failure->kind.c_str(),
                  failure->detail.c_str());
      std::fflush(stdout);
      fail(w, seed);
      if (a_.device) _exit(kGoOn);  // a fault on the device poisons its context
    }
  }
  int finish() {
    Counts all;
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    const double busy = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                        1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    std::uint64_t last = 0;
    std::vector<std::uint64_t> failed;
    for (int w = 0; w < a_.jobs; ++w) {
      all += workers_[w].counts;
      last = std::max<std::uint64_t>(last, workers_[w].seed);
      failed.insert(failed.end(), workers_[w].failed, workers_[w].failed + workers_[w].failures);
    }
    const bool enough = all.runs > 0 && (all.programs < 100 || all.runs >= all.programs);
    // A claim that is not certified costs a guard and is no error: the checker searches within limits, and fewer than
    // one random program in a thousand exceeds them. (So these programs run without TESSERA_VERIFY=claims.) More would
    // mean that the analysis no longer gives it what it needs.
    const bool certified = all.uncertified * 500 <= all.judged;
    if (!certified) std::printf("more than 0.2 %% of the claims are not certified\n");
    if (!enough) std::printf("almost nothing was run: most launches are not made or rejected\n");
    say_totals(all, last, busy, failed.size());
    for (const std::uint64_t seed : a_.judge ? std::vector<std::uint64_t>() : failed)
      report(a_.program(seed), a_.reduce, a_.device);
    if (!failed.empty()) say_totals(all, last, busy, failed.size());
    return failed.empty() && enough && certified ? 0 : 1;
  }
  void say_totals(const Counts& all, std::uint64_t last, double busy, std::size_t failed) const {
    std::printf("seeds %llu to %llu: %s, %zu failed; %.1f s, %.1f s of processors: %.0f programs a second of one\n",
                static_cast<unsigned long long>(a_.seed), static_cast<unsigned long long>(last), to_text(all).c_str(),
                failed, seconds(), busy, static_cast<double>(all.programs) / busy);
    std::fflush(stdout);
  }

  Arguments a_;
  Worker* workers_;
  std::map<pid_t, int> children_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::uint64_t today() {
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()).time_since_epoch();
  return static_cast<std::uint64_t>(days.count());
}

/// A billion seeds per day.
std::uint64_t first_of_today() { return today() * 1000000000; }

/// Leaves the seeds whose turn is today: each day has equally many of the `count` seeds, and after `days` days all have
/// had their turn.
void take_share_of_today(std::uint64_t days, Arguments& a) {
  const std::uint64_t share = (a.count + days - 1) / days, first = today() % days * share;
  a.seed += first;
  a.count = std::min(share, a.count - std::min(a.count, first));
}

bool parse(int argc, char** argv, Arguments& a) {
  std::uint64_t days = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--print") {
      a.print = true;
    } else if (word == "--device") {
      a.device = true;
    } else if (word == "--pairs") {
      a.pairs = true;
    } else if (word == "--judge") {
      a.judge = true;
      a.reduce = false;
    } else if (word == "--no-reduce") {
      a.reduce = false;
    } else if (value == nullptr) {
      return false;
    } else {
      ++i;
      const std::string text = value;
      if (word == "--seed") {
        a.seed = text == "today" ? first_of_today() : std::strtoull(value, nullptr, 10);
      } else if (word == "--count") {
        a.count = std::strtoull(value, nullptr, 10);
      } else if (word == "--days") {
        days = std::max<std::uint64_t>(1, std::strtoull(value, nullptr, 10));
      } else if (word == "--rounds") {
        a.count = test::rounds(std::strtoull(value, nullptr, 10));
      } else if (word == "--minutes") {
        a.minutes = std::atof(value);
      } else if (word == "--jobs") {
        a.jobs = std::max(1, std::atoi(value));
      } else if (word == "--failures") {
        a.failures = std::min(kMaxFailures, std::atoi(value));
      } else if (word == "--files") {
        a.files = text;
      } else {
        return false;
      }
    }
  }
  if (days > 1) take_share_of_today(days, a);
  return true;
}

/// One file, or all in a folder.
int run_files(const Arguments& a) {
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(a.files)) {
    for (const auto& entry : std::filesystem::directory_iterator(a.files)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
  } else {
    paths.push_back(a.files);
  }
  int failed = 0;
  for (const auto& path : paths) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    Program p = from_text(text.str());
    const std::string found = isolated([&] { return failure_text(p, a.device); });
    std::printf("%s: %s\n", path.filename().c_str(), found.empty() ? "no difference" : found.c_str());
    if (found.empty()) continue;
    ++failed;
    report(p, a.reduce, a.device);
  }
  std::printf("%zu passed, %d failed\n", paths.size() - static_cast<std::size_t>(failed), failed);
  return failed == 0 && !paths.empty() ? 0 : 1;
}

int main(int argc, char** argv) {
  Arguments a;
  if (!parse(argc, argv, a)) {
    std::fprintf(stderr,
                 "test_generate [--seed N] [--count N | --rounds N] [--days N] [--minutes M] [--jobs N] [--failures N] "
                 "[--no-reduce] "
                 "[--device] [--judge] [--pairs] "
                 "[--print] [--files PATH]\n");
    return 2;
  }
  if (a.print) {
    Program p = a.program(a.seed);
    const std::string wrong = check(p);
    std::printf("%s%s%s\n", to_text(p).c_str(), to_cpp(p).c_str(), wrong.c_str());
    return wrong.empty() ? 0 : 1;
  }
  return a.files.empty() ? Crew(a).run() : run_files(a);
}

}  // namespace
}  // namespace tessera::generate

int main(int argc, char** argv) { return tessera::generate::main(argc, argv); }
