// Measuring kernels: cases that a benchmark program offers, and the main() that times them on any device. The program
// works alone, and under `tessera bench`, which walks over sizes, prints tables and draws (docs/tools.md).
//
//   Prepared saxpy_case(const Args& args) {
//     const std::int64_t n = args.number("n", 1 << 20);
//     auto x = std::make_shared<Tensor<f32, 1>>(...), y = ...;
//     Prepared p;
//     p.launch = [=](int, const Stream& on) { kernel<saxpy<1024>>(mut(*y), 2.0f, *x).on(on); };
//     p.bytes = 12.0 * n;
//     return p;
//   }
//   int main(int argc, char** argv) {
//     return measure::run_cases(argc, argv, {{"saxpy", "n=65536..67108864", saxpy_case}});
//   }
#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/runtime/stream.hpp"

namespace tessera::measure {

/// The key=value arguments of a case.
class Args {
 public:
  void set(std::string key, std::string value);
  /// Throws std::runtime_error if the value is not an integer.
  std::int64_t number(const std::string& key, std::int64_t otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  /// The keys that were set but not read by the case, separated by spaces: usually misspelt.
  std::string unread() const;

 private:
  struct Entry {
    std::string key, value;
    mutable bool read = false;
  };
  const std::string* find(const std::string& key) const;
  std::vector<Entry> values_;
};

/// A copyable function object; copies share what it holds.
template <class Signature>
class Action;
template <class R, class... A>
class Action<R(A...)> {
  struct Base {
    virtual ~Base() = default;
    virtual R call(A... a) = 0;
  };
  template <class F>
  struct Holder final : Base {
    F f;
    explicit Holder(F&& g) : f(std::move(g)) {}
    R call(A... a) override { return f(static_cast<A>(a)...); }
  };

 public:
  Action() = default;
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Action>)
  Action(F f) : held_(std::make_shared<Holder<F>>(std::move(f))) {}  // NOLINT(google-explicit-constructor)
  R operator()(A... a) const { return held_->call(static_cast<A>(a)...); }
  explicit operator bool() const noexcept { return held_ != nullptr; }

 private:
  std::shared_ptr<Base> held_;
};

/// The relative error of a sample of the result against a reference in f64 (Euclidean norm), and its tolerance.
struct Accuracy {
  double error = INFINITY;
  double tolerance = 0;
};

/// A case with its tensors. `launch(set, stream)` enqueues the work once, on one of `sets` equal groups of tensors that
/// together exceed the caches.
struct Prepared {
  Action<void(int set, const Stream&)> launch;
  int sets = 1;
  double bytes = 0;            ///< least traffic of one launch: inputs read once, outputs written once
  double flops = 0;            ///< 0: the figure is GB/s
  const char* math = nullptr;  ///< what the products multiply: "bf16", "f8" (roofline.hpp); null: no compute roofline
  Action<Accuracy()> check;    ///< checks set 0 after a launch; may be empty
};

struct Case {
  const char* name;
  /// Arguments with the values of a sweep, "n=1024..65536 dtype=f32,f16": a..b doubles. The first of each is the
  /// default; words without '=' are comments.
  const char* arguments;
  Prepared (*prepare)(const Args&);
};

/// The number of groups of `bytes` bytes that together exceed every cache (an H200's L2 has 50 MB), at most 64. 1 if
/// the case is only checked (one_set=1).
int sets_for(const Args& args, double bytes);

/// Accumulates |found - wanted| / |wanted| in the Euclidean norm; NaN never passes.
class Norm {
 public:
  void add(double found, double wanted) {
    difference_ += (found - wanted) * (found - wanted);
    total_ += wanted * wanted;
  }
  double relative() const {
    const double e = total_ > 0 ? std::sqrt(difference_ / total_) : std::sqrt(difference_);
    return e == e ? e : INFINITY;
  }

 private:
  double difference_ = 0, total_ = 0;
};

/// The main() of a benchmark program:
///
///   PROGRAM [--device cuda|cpu] --list                    the cases and their arguments
///   PROGRAM [--device ...] run NAME key=value ...         one case
///   PROGRAM [--device ...] --serve                        commands from standard input, one per line:
///       run NAME key=value ...    prepares (unless it is the case that is prepared), warms up, checks, measures
///       compile NAME key=value ...    prepares, and launches once: what a run would compile is compiled
///       learn NAME key=value ...    as run, after as many launches as kernels take that learn (docs/learning.md)
///       hints WORDS    what is compiled for the following commands takes these hints ("warps=4 occupancy=2",
///                      TuningScope); without words the compiler chooses. The case that is prepared stays so
///       quit
///   --ms N    measures each case for about N milliseconds (default 150)
///
/// An answer is a line of JSON: {"name", "arguments", "ms", "spread", "launches", "GB/s" or "TFLOP/s", "bytes",
/// "flops", "sets", "roofline_ms", "error", "tolerance", "correct"} or {"name", "arguments", "failed"}. roofline_ms is
/// the least time that the device's memory and arithmetic allow, where both are known; error to correct are there if
/// the case has a check. Without --device the default device is used. Returns the exit code.
int run_cases(int argc, char** argv, const std::vector<Case>& cases);

}  // namespace tessera::measure
