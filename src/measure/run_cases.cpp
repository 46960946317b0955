// The benchmark program: commands in, lines of JSON out.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "measure/device_clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/learning.hpp"
#include "tessera/jit/tuning.hpp"
#include "tessera/measure/measure.hpp"
#include "tessera/measure/roofline.hpp"

namespace tessera::measure {
namespace {

constexpr double kLongestMs = 1e9;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

/// "12.3 GB/s, measured: a pure read of 256 MB with 2 threads".
std::string describe_roofline(Device device) {
  const Roofline& roofline = memory_roofline(device);
  char rate[64];
  std::snprintf(rate, sizeof rate, "memory: %.5g GB/s, ", roofline.bytes_per_second / 1e9);
  return rate + roofline.origin;
}

struct Figures {
  double ms = 0;      ///< median of the batches
  double spread = 0;  ///< (third quartile - first quartile) / median
  int launches = 0;   ///< timed ones
};

class Bench {
 public:
  /// `strict`: rejects arguments that a case does not know. `checked`: compares results with the reference.
  Bench(Device device, double budget_ms, bool strict, bool checked, const std::vector<Case>& cases)
      : device_(device),
        stream_(device),
        clock_(stream_),
        budget_ms_(budget_ms),
        strict_(strict),
        checked_(checked),
        cases_(cases) {}

  /// Hints of the launches that are measured from now on (TuningScope); empty: the compiler chooses.
  void use_hints(const std::string& hints) {
    TuningScope valid(hints);
    hints_ = hints;
  }

  enum class Asked : std::uint8_t {
    Measured,
    Compiled,  ///< and launched once
    Learnt,    ///< measured after as many launches as learning takes (docs/learning.md)
  };
  /// Runs one command: the name of a case and its arguments. Returns why it failed; empty if it did not.
  std::string run(const std::string& command, Asked asked = Asked::Measured) {
    constexpr int kLaunchesToLearn = 200, kLaunchesAhead = 16;
    std::string failure;
    try {
      prepare(command);
      const TuningScope scope(hints_);
      if (!hints_.empty()) launch_once();
      finish_compiling_for_learning();
      for (int i = 0; asked == Asked::Learnt && i < kLaunchesToLearn; ++i) {
        p_.launch(i % p_.sets, stream_);
        // A host far ahead of its device would leave most launches untimed.
        if (i % kLaunchesAhead == 0) stream_.synchronize();
      }
      stream_.synchronize();
      if (asked == Asked::Compiled)
        std::printf("{\"name\": \"%s\", \"arguments\": \"%s\", \"compiled\": true}\n", name_.c_str(),
                    arguments_.c_str());
      else
        print(measure());
    } catch (const std::exception& e) {
      prepared_.clear();
      failure = e.what();
      const bool rejected = dynamic_cast<const std::invalid_argument*>(&e) != nullptr;
      std::printf("{\"name\": \"%s\", \"arguments\": \"%s\", \"%s\": \"%s\"}\n", name_.c_str(), arguments_.c_str(),
                  rejected ? "rejected" : "failed", escaped(e.what()).c_str());
    }
    std::fflush(stdout);
    return failure;
  }

 private:
  void print(const Figures& f) const {
    const double rate = (p_.flops > 0 ? p_.flops / 1e12 : p_.bytes / 1e9) / (f.ms * 1e-3);
    std::printf(
        "{\"name\": \"%s\", \"arguments\": \"%s\", \"ms\": %.6g, \"spread\": %.3g, \"launches\": %d, \"%s\": %.5g, "
        "\"bytes\": %.0f, \"flops\": %.0f, \"sets\": %d, \"roofline_ms\": %.6g",
        name_.c_str(), arguments_.c_str(), f.ms, f.spread, f.launches, p_.flops > 0 ? "TFLOP/s" : "GB/s", rate,
        p_.bytes, p_.flops, p_.sets, least_ms(device_, p_.bytes, p_.flops, p_.math));
    if (p_.check) {
      std::printf(", \"error\": %.3g, \"tolerance\": %.3g, \"correct\": %s",
                  std::isfinite(accuracy_.error) ? accuracy_.error : 1e30, accuracy_.tolerance,
                  accuracy_.error <= accuracy_.tolerance ? "true" : "false");
    }
    std::puts("}");
  }

  void prepare(const std::string& command) {
    if (!command.empty() && command == prepared_) return;
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
    for (const Case& c : cases_) {
      if (name_ != c.name) continue;
      args.number("one_set", 0);  // valid for every case
      p_ = c.prepare(args);
      if (const std::string wrong = args.unread(); !wrong.empty()) {
        if (strict_) throw std::invalid_argument(concat(name_, " has no argument ", wrong));
        std::fprintf(stderr, "warning: %s does not read the argument %s\n", name_.c_str(), wrong.c_str());
      }
      if (!checked_) p_.check = {};
      launch_once();
      prepared_ = command;
      return;
    }
    throw std::runtime_error("there is no case " + name_ + "; --list prints them");
  }

  void launch_once() {
    p_.launch(0, stream_);
    stream_.synchronize();
    if (p_.check) accuracy_ = p_.check();
  }

  /// Milliseconds of `count` launches, one after the other, as the device sees them.
  double timed(int count) {
    // The expected time of the launches, as for a peer (bench/gpu/torch_peers.py).
    const double host_ms = 0.05 + 0.030 * count;
    return clock_.time(host_ms, [&] {
      for (int i = 0; i < count; ++i) p_.launch(next_++ % p_.sets, stream_);
    });
  }

  Figures measure() {
    double once = timed(1);
    for (int i = 0; i < 3; ++i) once = std::min(once, std::max(timed(1), 1e-4));
    const int batch = std::clamp(static_cast<int>(1.0 / once), 1, 200);
    double spent = 0;
    while (spent < budget_ms_ / 4) spent += std::max(timed(batch), 0.01) + clock_.rest_ms();  // warm-up
    std::vector<double> times;
    spent = 0;
    while (times.size() < 5 || spent < budget_ms_) {
      times.push_back(timed(batch) / batch);
      spent += std::max(times.back() * batch, 0.01) + clock_.rest_ms();
      if (times.size() >= 3 && spent > 20 * budget_ms_) break;  // a case far slower than expected
    }
    std::sort(times.begin(), times.end());
    const std::size_t n = times.size();
    return {times[n / 2], (times[n * 3 / 4] - times[n / 4]) / times[n / 2], static_cast<int>(n) * batch};
  }

  Device device_;
  Stream stream_;
  DeviceClock clock_;
  double budget_ms_;
  bool strict_, checked_;
  const std::vector<Case>& cases_;
  Prepared p_;
  Accuracy accuracy_;
  std::string prepared_, name_, arguments_, hints_;
  int next_ = 0;
};

/// Answers a command that runs nothing.
void answer_to(Bench& bench, const std::string& line) {
  std::string failure;
  try {
    if (line == "hints" || line.starts_with("hints "))
      bench.use_hints(line.substr(std::min<std::size_t>(line.size(), 6)));
    else
      failure =
          "expected 'run NAME key=value ...', 'compile NAME key=value ...', 'learn NAME key=value ...', 'hints WORDS' "
          "or 'quit'";
  } catch (const Error& e) { failure = e.message(); }
  std::printf(failure.empty() ? "{\"hints\": \"%s\"}\n" : "{\"failed\": \"%s\"}\n",
              escaped(failure.empty() ? line.substr(std::min<std::size_t>(line.size(), 6)) : failure).c_str());
  std::fflush(stdout);
}

int serve(Bench& bench) {
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "quit") break;
    if (line.starts_with("run ")) {
      bench.run(line.substr(4));
    } else if (line.starts_with("compile ")) {
      bench.run(line.substr(8), Bench::Asked::Compiled);
    } else if (line.starts_with("learn ")) {
      bench.run(line.substr(6), Bench::Asked::Learnt);
    } else {
      answer_to(bench, line);
    }
  }
  return 0;
}

int usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s [--device cuda|cpu] [--ms N] [--strict] [--unchecked] --list | --serve | run NAME key=value "
               "...\n",
               program);
  return 2;
}

int run(int argc, char** argv, const std::vector<Case>& cases) {
  std::string device, command;
  double ms = 150;
  bool serving = false, strict = false, checked = true;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--device" && i + 1 < argc) {
      device = argv[++i];
    } else if (a == "--ms" && i + 1 < argc) {
      char* end = nullptr;
      ms = std::strtod(argv[++i], &end);
      if (end == argv[i] || *end != '\0' || !(ms >= 0 && ms <= kLongestMs))
        throw std::runtime_error(concat("--ms takes a number of milliseconds, found ", argv[i]));
    } else if (a == "--strict") {
      strict = true;
    } else if (a == "--unchecked") {
      checked = false;
    } else if (a == "--serve") {
      serving = true;
    } else if (a == "--list") {
      for (const Case& c : cases) std::printf("%-18s %s\n", c.name, c.arguments);
      return 0;
    } else if (a == "run" && i + 1 < argc) {
      while (++i < argc) command += (command.empty() ? "" : " ") + std::string(argv[i]);
    } else {
      return usage(argv[0]);
    }
  }
  if (!serving && command.empty()) return usage(argv[0]);
  if (!device.empty()) set_default_device(runtime::parse_device(device));
  Bench bench(default_device({}), ms, strict, checked, cases);
  if (serving) {
    const Device used = default_device({});
    std::printf("{\"device\": \"%s\", \"roofline\": \"%s\"}\n", escaped(device_description(used)).c_str(),
                escaped(describe_roofline(used)).c_str());
    std::fflush(stdout);
    return serve(bench);
  }
  const std::string failure = bench.run(command);
  if (!failure.empty()) std::fprintf(stderr, "%s: %s\n", argv[0], failure.c_str());
  return failure.empty() ? 0 : 1;
}

}  // namespace

int run_cases(int argc, char** argv, const std::vector<Case>& cases) {
  try {
    return run(argc, argv, cases);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argc > 0 ? argv[0] : "benchmark", e.what());
    return 1;
  }
}

}  // namespace tessera::measure
