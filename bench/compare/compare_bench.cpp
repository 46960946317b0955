// One side of a comparison of two builds (driver.py): prepares a case, checks its result, and times batches of
// launches, as told on standard input. Each command has an answer of one line of JSON, with "failed" if it did not
// succeed:
//
//   prepare NAME key=value ...    allocates, launches once, compares with the reference
//   compile NAME key=value ...    launches once, without a check: with a driver that runs nothing, to fill the cache
//   again BYTES                   the tensors anew, elsewhere in memory: BYTES are allocated first
//   time N                        device milliseconds of N launches, which other device work precedes
//   free                          releases the case's tensors
//   quit
//
//   compare_bench --list          the names of all cases
//   compare_bench [--device cuda|cpu]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>

#include "case.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/timing.hpp"

namespace compare {
namespace {

constexpr std::size_t kLeadBytes = std::size_t{1} << 26;
constexpr double kLeadBytesPerMs = 2.5e9;  // of an H200; more or less does not matter

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto some :
       {product_cases, product_plan_cases, linear_cases, batched_cases, attention_cases, attention_backward_cases,
        convolution_cases, row_gradient_cases, decode_cases, row_cases, norm_cases, reduction_cases, elementwise_cases,
        table_cases, quantize_cases, expert_cases, user_cases}) {
    const auto cases = some();
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' || c == '\t' ? ' ' : c;
  }
  return out;
}

/// The compiled kernels in the cache's folder.
Size cached_kernels() {
  const char* folder = std::getenv("TESSERA_CACHE_DIR");
  if (folder == nullptr) return 0;
  Size count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(folder) + "/kernels", ignored))
    count += entry.path().extension() == ".tsk" ? 1 : 0;
  return count;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class Side {
 public:
  explicit Side(Device device) : device_(device), stream_(device), cases_(all_cases()) {}

  /// The answer to a command, without the braces.
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "prepare" || verb == "compile") return prepare(words, verb == "prepare");
    if (verb == "again") return again(words);
    if (verb == "time") return time(words);
    if (verb == "free") {
      ready_.reset();
      spacer_.reset();
      return "\"ok\": true";
    }
    throw std::runtime_error("there is no command " + verb);
  }

 private:
  std::string prepare(std::istringstream& words, bool checked) {
    ready_.reset();
    spacer_.reset();
    Args args;
    std::string name;
    words >> name;
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) throw std::runtime_error("expected key=value, found " + word);
      args.set(word.substr(0, equals), word.substr(equals + 1));
    }
    const auto found = std::find_if(cases_.begin(), cases_.end(), [&](const Case& c) { return name == c.name; });
    if (found == cases_.end()) throw std::runtime_error("there is no case " + name);
    case_ = &*found;
    if (!checked) args.set("one_set", "1");
    args_ = args;
    const Size before = cached_kernels();
    ready_.emplace(case_->prepare(args_));
    if (const std::string unread = args_.unread(); !unread.empty())
      throw std::runtime_error(name + " has no argument " + unread);
    ready_->poison();
    const auto start = std::chrono::steady_clock::now();
    ready_->launch(0, stream_);
    const double first = milliseconds_since(start);
    stream_.synchronize();
    const Verdict verdict = checked ? ready_->check() : Verdict{};
    char text[320];
    std::snprintf(text, sizeof text,
                  "\"compiled\": %lld, \"first_ms\": %.3f, \"sets\": %d, \"bytes\": %.0f, \"flops\": %.0f, \"error\": "
                  "%.3g, \"tolerance\": %.3g, \"unwritten\": %lld, \"correct\": %s",
                  static_cast<long long>(cached_kernels() - before), first, ready_->sets, ready_->bytes, ready_->flops,
                  std::isfinite(verdict.error) ? verdict.error : 1e30, verdict.tolerance,
                  static_cast<long long>(verdict.unwritten), verdict.wrong() ? "false" : "true");
    return text;
  }

  std::string again(std::istringstream& words) {
    if (case_ == nullptr) throw std::runtime_error("no case is prepared");
    Size bytes = 0;
    words >> bytes;
    ready_.reset();
    spacer_.reset();
    spacer_.emplace(empty<u8>({std::max<Size>(bytes, 1)}).sync());
    ready_.emplace(case_->prepare(args_));
    for (int s = 0; s < ready_->sets; ++s) ready_->launch(s, stream_);
    stream_.synchronize();
    return "\"ok\": true";
  }

  /// Enqueues `count` launches after device work that takes about as long as enqueueing them does, so that the device
  /// never waits for the host.
  std::string time(std::istringstream& words) {
    if (!ready_) throw std::runtime_error("no case is prepared");
    int count = 0;
    words >> count;
    if (count < 1) throw std::runtime_error("time takes a number of launches");
    occupy(0.03 + 1.5 * host_ms_ * count);
    const auto start_host = std::chrono::steady_clock::now();
    const auto start = runtime::place_time_mark(stream_);
    for (int i = 0; i < count; ++i) ready_->launch(next_++ % ready_->sets, stream_);
    const auto end = runtime::place_time_mark(stream_);
    host_ms_ = std::min(0.2, milliseconds_since(start_host) / count);
    stream_.synchronize();
    char text[64];
    std::snprintf(text, sizeof text, "\"ms\": %.7g", end->seconds_since(*start) * 1e3);
    return text;
  }

  void occupy(double milliseconds) {
    if (device_.kind() != DeviceKind::Cuda) return;
    if (!lead_) lead_ = runtime::Storage::allocate(device_, kLeadBytes);
    const double fills = milliseconds * kLeadBytesPerMs / static_cast<double>(kLeadBytes);
    for (int i = 0; i <= static_cast<int>(fills); ++i) runtime::overwrite(stream_, lead_, "work enqueued first");
  }

  Device device_;
  Stream stream_;
  std::vector<Case> cases_;
  const Case* case_ = nullptr;
  Args args_;
  std::optional<Ready> ready_;
  std::optional<Tensor<u8, 1>> spacer_;
  runtime::StorageRef lead_;
  double host_ms_ = 0.02;  ///< of enqueueing a launch, as last measured
  int next_ = 0;
};

int serve(Device device) {
  set_default_device(device);
  Side side(device);
  std::printf("{\"device\": \"%s\"}\n", escaped(device.name()).c_str());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    std::string answer;
    try {
      answer = side.answer(line);
    } catch (const std::exception& e) { answer = "\"failed\": \"" + escaped(e.what()) + "\""; }
    std::printf("{%s}\n", answer.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace compare

int main(int argc, char** argv) {
  try {
    std::string device = "cuda";
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--list") == 0) {
        for (const auto& c : compare::all_cases()) std::puts(c.name);
        return 0;
      }
      if (std::strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
        device = argv[++i];
      } else {
        std::fprintf(stderr, "usage: %s [--list] [--device cuda|cpu]\n", argv[0]);
        return 2;
      }
    }
    return compare::serve(tessera::runtime::parse_device(device));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
}
