// What the examples share: reading the command line, timing, and the line of results that scripts/demo.sh turns into a
// table. Nothing here is needed to use Tessera.
#pragma once
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>
#include <vector>

#include <tessera/tessera.hpp>

namespace example {

/// One command line option: `--name VALUE`. A size has a default; a file has none.
struct Option {
  const char* name;
  const char* meaning;
  const char* default_value = "";
};

/// The parsed command line. Unknown options, missing values and sizes that are not positive numbers end the program
/// with a message.
class Args {
 public:
  Args(int argc, char** argv, const char* about, std::initializer_list<Option> options) : options_(options) {
    for (const Option& o : options_) values_.push_back(o.default_value);
    for (int i = 1; i < argc; ++i) {
      if (!std::strcmp(argv[i], "--help")) {
        std::printf("%s\n\n", about);
        for (const Option& o : options_)
          std::printf("  --%-8s %s%s%s\n", o.name, o.meaning, *o.default_value ? ", default " : "", o.default_value);
        std::exit(0);
      }
      const int k = std::strncmp(argv[i], "--", 2) ? -1 : find(argv[i] + 2);
      if (k < 0) fail(std::string("unknown option ") + argv[i] + "; --help lists the options");
      if (i + 1 == argc) fail(std::string(argv[i]) + " needs a value");
      values_[static_cast<std::size_t>(k)] = argv[++i];
    }
  }
  int size(const char* name) const {
    const std::string& text = values_[static_cast<std::size_t>(find(name))];
    char* end = nullptr;
    const long v = std::strtol(text.c_str(), &end, 10);
    if (text.empty() || *end || v < 1 || v > 0x7fffffff)
      fail(std::string("--") + name + " expects a positive number, found '" + text + "'");
    return static_cast<int>(v);
  }
  /// Empty if the option was not given.
  const std::string& file(const char* name) const { return values_[static_cast<std::size_t>(find(name))]; }

 private:
  [[noreturn]] static void fail(const std::string& message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::exit(2);
  }
  int find(const char* name) const {
    for (std::size_t i = 0; i < options_.size(); ++i)
      if (!std::strcmp(options_[i].name, name)) return static_cast<int>(i);
    return -1;
  }
  std::vector<Option> options_;
  std::vector<std::string> values_;
};

/// The tensor in a .npy file, or what `otherwise` makes if no file was named.
template <class T, int R>
tessera::Tensor<T, R> load_or(const std::string& file, tessera::Op<tessera::Tensor<T, R>> otherwise) {
  if (!file.empty()) return tessera::load_npy<T, R>(file).sync();
  return std::move(otherwise).sync();
}

/// Milliseconds of the fastest of `runs` calls.
template <class F>
double fastest_ms(int runs, F&& f) {
  double best = 1e300;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// |found - expected| / |expected| in the Euclidean norm; NaN or a difference in length counts as infinitely wrong.
template <class A, class B>
double relative_error(const std::vector<A>& found, const std::vector<B>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double f = static_cast<double>(found[i]), e = static_cast<double>(expected[i]);
    difference += (f - e) * (f - e);
    norm += e * e;
  }
  const double error = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  return error == error ? error : INFINITY;
}

/// Prints the line that scripts/demo.sh collects; the program's exit code is nonzero if the error exceeds the
/// tolerance.
inline int report(const char* name, const std::string& size, double error, double tolerance, double ms) {
  const bool ok = error <= tolerance;
  if (!ok) std::fprintf(stderr, "%s: error %.3g is above the tolerance %.3g\n", name, error, tolerance);
  std::printf("RESULT|%s|%s|%.2e|%.3f\n", name, size.c_str(), error, ms);
  return ok ? 0 : 1;
}

/// Runs an example and prints Tessera's error message if it throws.
template <class F>
int guarded(F&& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

}  // namespace example
