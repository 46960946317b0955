// Every pair of operations compiles: random_pair(n) for the GPU whose turn it is, with NVIDIA's assembler.
//
//   test_pairs --first 1 --count 4000 --results pairs.txt  // goes on where the file ends
//   test_pairs --first today --count 100 --seconds 40      // numbers that no other day has; 40 s of processor time
//   test_pairs --first 17 --count 1 --gpu 90               // number 17 for that GPU instead
//   test_pairs --files FOLDER                              // programs as text, each for every GPU
//   test_pairs --first 17 --print                          // number 17 as text and as C++
//   test_pairs --count 200 --lines                         // are recorded operations of the lines of the text?
//
// A failure is printed as text; errors name its lines. Exit status: 0 clean, 1 failures, 2 bad arguments, 77 there is
// no assembler.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "generate/assembled.hpp"
#include "generate/cpp_text.hpp"
#include "generate/generator.hpp"
#include "generate/record.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/jit/cubin.hpp"

namespace tessera::generate {
namespace {

struct Arguments {
  std::uint64_t first = 1, count = 100;
  double seconds = 1e9;  ///< of processors
  int gpu = 0;           ///< 0: by turns
  bool print = false, lines = false;
  std::string results, files;
};

double processor_seconds() {
  double all = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    all += static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  }
  return all;
}

void print_numbered(const std::string& text) {
  std::stringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) std::printf("%3d  %s\n", ++number, line.c_str());
}

class Run {
 public:
  explicit Run(const Arguments& a) : a_(a) {
    if (a.results.empty()) return;
    std::ifstream before(a.results);
    std::uint64_t number = 0;
    for (std::string line; std::getline(before, line);) {
      if (std::sscanf(line.c_str(), "%lu", &number) != 1) continue;
      done_.insert(number);
      kept_failures_ += line.find("FAILED") != line.npos;
    }
    results_.open(a.results, std::ios::app);
  }

  void numbers() {
    for (std::uint64_t n = a_.first; n < a_.first + a_.count && processor_seconds() < a_.seconds; ++n) {
      if (done_.contains(n)) continue;
      const int sm = a_.gpu > 0 ? a_.gpu : gpu_of_pair(n);
      Program p = random_pair(n);
      const std::string line = std::to_string(n) + " " + one(p, std::to_string(n), sm);
      if (results_.is_open()) results_ << line << std::endl;
    }
  }
  void file(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    Program p = from_text(text.str());
    set_lines(p);
    for (const int sm : {80, 90, 100, 120})
      if (a_.gpu == 0 || a_.gpu == sm) one(p, path.filename().string(), sm);
  }
  int finish() const {
    std::printf(
        "%d kernels assembled, %zu before; %d failed, %d before; %d spill in every form; slowest %.1f s (%s); "
        "%.0f s of processors\n",
        ran_, done_.size(), failed_, kept_failures_, spilled_, slowest_, slowest_name_.c_str(), processor_seconds());
    return failed_ == 0 && kept_failures_ == 0 && ran_ + static_cast<int>(done_.size()) > 0 ? 0 : 1;
  }

 private:
  /// What was found, as a line; failures are printed.
  std::string one(Program& p, const std::string& name, int sm) {
    ++ran_;
    Assembled a;
    a.problem = check(p);
    if (a.problem.empty()) a = assembled(p, sm);
    if (a.seconds > slowest_) slowest_ = a.seconds, slowest_name_ = name;
    spilled_ += a.problem.empty() && a.resources.stack > 0;
    char line[160];
    std::snprintf(line, sizeof line, "sm_%d %.1f s, %u registers, %u bytes of stack, form %s%s", sm, a.seconds,
                  a.resources.registers, a.resources.stack, a.form.empty() ? "chosen" : a.form.c_str(),
                  a.problem.empty() ? "" : ", FAILED");
    std::printf("%s %s\n", name.c_str(), line);
    if (!a.problem.empty()) {
      ++failed_;
      std::printf("---- %s for sm_%d: %s\n", name.c_str(), sm, a.problem.c_str());
      print_numbered(to_text(p));
    }
    std::fflush(stdout);
    return line;
  }

  const Arguments& a_;
  std::set<std::uint64_t> done_;  ///< by the file of results
  std::ofstream results_;
  int ran_ = 0, failed_ = 0, kept_failures_ = 0, spilled_ = 0;
  double slowest_ = 0;
  std::string slowest_name_ = "none";
};

/// A million numbers per day.
std::uint64_t first_of_today() {
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()).time_since_epoch();
  return static_cast<std::uint64_t>(days.count()) * 1000000;
}

/// Scans and products must be recorded with the lines on which the text has them.
int check_lines(const Arguments& a) {
  int found = 0, wrong = 0;
  for (std::uint64_t n = a.first; n < a.first + a.count; ++n) {
    Program p = random_pair(n);
    if (const std::string error = check(p); !error.empty()) {
      std::printf("%lu: %s\n", n, error.c_str());
      ++wrong;
      continue;
    }
    std::stringstream text(to_text(p));
    std::vector<std::string> lines{""};
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    const lang::Trace trace = record(p, specialization_of(p));
    ir::walk(trace.module->functions.front()->body(), [&](const ir::Operation& op) {
      const char* const word = op.op() == ir::Op::Scan ? "(cum" : analysis::is_product(op) ? "(mma" : nullptr;
      if (word == nullptr) return;
      ++found;
      const std::string line = op.loc.line < lines.size() ? lines[op.loc.line] : "";
      if (line.find(word) != line.npos) return;
      std::printf("%lu: %s is of line %u: %s\n", n, word, op.loc.line, line.c_str());
      ++wrong;
    });
  }
  std::printf("%d scans and products, %d of other lines\n", found, wrong);
  return found > 0 && wrong == 0 ? 0 : 1;
}

bool parse(int argc, char** argv, Arguments& a) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--print" || word == "--lines") {
      (word == "--print" ? a.print : a.lines) = true;
      continue;
    }
    const char* const value = argv[++i];
    if (value == nullptr) return false;
    if (word == "--first") {
      a.first = std::strcmp(value, "today") == 0 ? first_of_today() : std::strtoull(value, nullptr, 10);
    } else if (word == "--count") {
      a.count = std::strtoull(value, nullptr, 10);
    } else if (word == "--seconds") {
      a.seconds = std::atof(value);
    } else if (word == "--gpu") {
      a.gpu = std::atoi(value);
    } else if (word == "--results") {
      a.results = value;
    } else if (word == "--files") {
      a.files = value;
    } else {
      return false;
    }
  }
  return true;
}

int main(int argc, char** argv) {
  Arguments a;
  if (!parse(argc, argv, a)) {
    std::fprintf(stderr,
                 "test_pairs [--first N] [--count N] [--seconds S] [--gpu SM] [--results FILE] [--files FOLDER] "
                 "[--print] [--lines]\n");
    return 2;
  }
  if (a.print) {
    Program p = random_pair(a.first);
    const std::string wrong = check(p);
    print_numbered(to_text(p));
    std::printf("%s\n%s\n", wrong.empty() ? to_cpp(p).c_str() : "", wrong.c_str());
    return wrong.empty() ? 0 : 1;
  }
  if (a.lines) return check_lines(a);
  std::string why;
  if (!jit::assembler_for("sm_90", &why)) {
    std::printf("%s\n", why.c_str());
    return std::getenv("TESSERA_REQUIRE_TILEIRAS") ? 1 : 77;
  }
  Run run(a);
  if (a.files.empty()) {
    run.numbers();
  } else {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(a.files)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) run.file(path);
  }
  return run.finish();
}

}  // namespace
}  // namespace tessera::generate

int main(int argc, char** argv) { return tessera::generate::main(argc, argv); }
