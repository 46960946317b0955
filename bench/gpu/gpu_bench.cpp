// Runs GPU benchmarks and prints one JSON line each. Alone, or as a co-process of peers.py, which alternates between
// this program and its own measurements.
//
//   gpu_bench [--device cuda|cpu] --list                       the cases and their arguments
//   gpu_bench [--device ...] run NAME key=value ...            one case
//   gpu_bench [--device ...] --serve                           commands from standard input, one per line:
//       run NAME key=value ...    prepares (unless it is the case that is prepared), warms up, checks, measures
//       quit
//   --ms N    measures each case for about N milliseconds (default 150)
//
// An answer is {"name", "arguments", "ms", "spread", "launches", "GB/s" or "TFLOP/s", "error", "tolerance", "correct"}
// or
// {"name", "arguments", "failed"}.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>

#include "driver.hpp"
#include "harness.hpp"

namespace gpu_bench {
namespace {

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto cases : {elementwise_cases, row_cases, gemm_cases, few_row_cases, attention_cases}) {
    const auto some = cases();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

struct Figures {
  double ms = 0;      ///< median of the batches
  double spread = 0;  ///< (third quartile - first quartile) / median
  int launches = 0;   ///< timed ones
};

class Bench {
 public:
  Bench(tessera::Device device, double budget_ms) : device_(device), stream_(device), budget_ms_(budget_ms) {}

  /// One command: the name of a case and its arguments.
  void run(const std::string& command) {
    try {
      prepare(command);
      const Figures f = measure();
      const double rate = (p_.flops > 0 ? p_.flops / 1e12 : p_.bytes / 1e9) / (f.ms * 1e-3);
      std::printf(
          "{\"name\": \"%s\", \"arguments\": \"%s\", \"ms\": %.6g, \"spread\": %.3g, \"launches\": %d, "
          "\"%s\": %.5g, \"error\": %.3g, \"tolerance\": %.3g, \"correct\": %s}\n",
          name_.c_str(), arguments_.c_str(), f.ms, f.spread, f.launches, p_.flops > 0 ? "TFLOP/s" : "GB/s", rate,
          std::isfinite(accuracy_.error) ? accuracy_.error : 1e30, accuracy_.tolerance,
          accuracy_.error <= accuracy_.tolerance ? "true" : "false");
    } catch (const std::exception& e) {
      prepared_.clear();
      std::printf("{\"name\": \"%s\", \"arguments\": \"%s\", \"failed\": \"%s\"}\n", name_.c_str(), arguments_.c_str(),
                  escaped(e.what()).c_str());
    }
    std::fflush(stdout);
  }

 private:
  void prepare(const std::string& command) {
    if (command == prepared_) return;
    prepared_.clear();
    p_ = {};  // frees what the last case held
    std::istringstream words(command);
    Args args;
    words >> name_;
    arguments_.clear();
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) throw std::runtime_error("expected key=value, found " + word);
      args.set(word.substr(0, equals), word.substr(equals + 1));
      arguments_ += (arguments_.empty() ? "" : " ") + word;
    }
    for (const Case& c : all_cases()) {
      if (name_ != c.name) continue;
      p_ = c.prepare(args);
      p_.launch(0, stream_);
      stream_.synchronize();
      accuracy_ = p_.check();
      prepared_ = command;
      return;
    }
    throw std::runtime_error("there is no case " + name_ + "; --list names them");
  }

  /// Milliseconds of `count` launches, one after the other, as the device sees them.
  double timed(int count) {
    occupy(stream_, 0.05 + 0.015 * count);  // what a launch may cost the host
    start_.place(stream_);
    for (int i = 0; i < count; ++i) p_.launch(next_++ % p_.sets, stream_);
    end_.place(stream_);
    return end_.since(start_);
  }

  Figures measure() {
    double once = timed(1);
    for (int i = 0; i < 3; ++i) once = std::min(once, std::max(timed(1), 1e-4));
    const int batch = std::clamp(static_cast<int>(1.0 / once), 1, 200);
    double spent = 0;
    while (spent < budget_ms_ / 4) spent += std::max(timed(batch), 0.01);  // warm-up
    std::vector<double> times;
    spent = 0;
    while (times.size() < 5 || spent < budget_ms_) {
      times.push_back(timed(batch) / batch);
      spent += std::max(times.back() * batch, 0.01);
      if (times.size() >= 3 && spent > 20 * budget_ms_) break;  // a case far slower than expected
    }
    std::sort(times.begin(), times.end());
    const std::size_t n = times.size();
    return {times[n / 2], (times[n * 3 / 4] - times[n / 4]) / times[n / 2], static_cast<int>(n) * batch};
  }

  tessera::Device device_;
  tessera::Stream stream_;
  double budget_ms_;
  Mark start_, end_;
  Prepared p_;
  Accuracy accuracy_;
  std::string prepared_, name_, arguments_;
  int next_ = 0;
};

int serve(Bench& bench) {
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "quit") break;
    if (line.rfind("run ", 0) == 0) {
      bench.run(line.substr(4));
    } else {
      std::printf("{\"failed\": \"expected 'run NAME key=value ...' or 'quit'\"}\n");
      std::fflush(stdout);
    }
  }
  return 0;
}

int main_of(int argc, char** argv) {
  std::string device = "cuda", command;
  double ms = 150;
  bool serving = false;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--device" && i + 1 < argc) {
      device = argv[++i];
    } else if (a == "--ms" && i + 1 < argc) {
      ms = std::stod(argv[++i]);
    } else if (a == "--serve") {
      serving = true;
    } else if (a == "--list") {
      for (const Case& c : all_cases()) std::printf("%-18s %s\n", c.name, c.arguments);
      return 0;
    } else if (a == "run" && i + 1 < argc) {
      while (++i < argc) command += (command.empty() ? "" : " ") + std::string(argv[i]);
    } else {
      std::fprintf(stderr, "usage: gpu_bench [--device cuda|cpu] [--ms N] --list | --serve | run NAME key=value ...\n");
      return 2;
    }
  }
  Bench bench(open_device(device), ms);
  if (serving) {
    std::printf("{\"device\": \"%s\"}\n", escaped(device_description()).c_str());
    std::fflush(stdout);
    return serve(bench);
  }
  bench.run(command);
  return 0;
}

}  // namespace
}  // namespace gpu_bench

int main(int argc, char** argv) {
  try {
    return gpu_bench::main_of(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_bench: %s\n", e.what());
    return 1;
  }
}
