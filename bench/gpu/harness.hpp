// What every GPU benchmark is made of: a case prepares its tensors once, launches on a stream, and can say how wrong a
// sample of its result is. The program that runs them (gpu_bench.cpp) times them by events.
#pragma once
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/philox.hpp"
#include "tessera/tessera.hpp"

namespace gpu_bench {

/// key=value arguments of a case.
class Args {
 public:
  void set(const std::string& key, const std::string& value) { values_[key] = value; }
  std::int64_t number(const std::string& key, std::int64_t otherwise) const {
    const auto at = values_.find(key);
    return at == values_.end() ? otherwise : std::stoll(at->second);
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    const auto at = values_.find(key);
    return at == values_.end() ? otherwise : at->second;
  }

 private:
  std::map<std::string, std::string> values_;
};

/// How far a sample of the result is from a reference in f64, by relative norm, and how far it may be.
struct Accuracy {
  double error = INFINITY;
  double tolerance = 0;
};

/// A case with its tensors. `launch(set, stream)` enqueues the work once, on one of `sets` equal groups of tensors that
/// together exceed the caches.
struct Prepared {
  std::function<void(int set, const tessera::Stream&)> launch;
  int sets = 1;
  double bytes = 0;                 ///< least traffic of one launch: inputs read once, outputs written once
  double flops = 0;                 ///< 0: the figure is GB/s
  std::function<Accuracy()> check;  ///< of set 0, after a launch
};

struct Case {
  const char* name;
  const char* arguments;  ///< for --list
  Prepared (*prepare)(const Args&);
};

// One table per source file.
std::vector<Case> elementwise_cases();
std::vector<Case> row_cases();
std::vector<Case> gemm_cases();
std::vector<Case> few_row_cases();
std::vector<Case> attention_cases();

/// So many groups of `bytes` bytes that together they are beyond every cache (an H200's L2 has 50 MB), at most 64. One
/// if the case is only checked (one_set=1).
inline int sets_for(const Args& args, double bytes) {
  if (args.number("one_set", 0)) return 1;
  const double wanted = std::ceil(256e6 / (bytes > 1 ? bytes : 1));
  return wanted < 1 ? 1 : wanted > 64 ? 64 : static_cast<int>(wanted);
}

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

// -- inputs: standard normal numbers by seed and element offset, so that a check can compute any of them again -------

template <class T, int B>
void fill_normal(tessera::Mut<T, B> y, tessera::Scalar<tessera::u64> seed) {
  using namespace tessera;
  if constexpr (sizeof(T) == 1)
    y.store(cast<T>(random::normal<f32>(seed, y.offsets())));
  else
    y.store(random::normal<T>(seed, y.offsets()));
}
/// What fill_normal gives at one offset, as the kernels see it.
template <class T>
double normal_input(std::uint64_t seed, std::int64_t offset) {
  const auto at = static_cast<std::uint64_t>(offset);
  if constexpr (sizeof(T) == 1)
    return static_cast<double>(static_cast<float>(T(tessera::normal_at<tessera::f32>(seed, at))));
  else
    return static_cast<double>(tessera::normal_at<T>(seed, at));
}

template <class T, int R>
tessera::Tensor<T, R> normal(const tessera::Dims<R>& dims, std::uint64_t seed) {
  const auto array = dims.array();
  std::int64_t count = 1;
  for (const std::int64_t d : array) count *= d;
  auto line = tessera::empty<T>({count}).sync();
  tessera::kernel<fill_normal<T, 1024>>(tessera::mut(line), seed).sync();
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::move(line).reshape({array[I]...});
  }(std::make_index_sequence<static_cast<std::size_t>(R)>{});
}

/// An output whose every element is wrong until it is written.
template <class T, int R>
tessera::Tensor<T, R> poisoned(const tessera::Dims<R>& dims) {
  return normal<T, R>(dims, 0xBAD);
}

/// One element of a tensor or a short run of it, as doubles.
template <class X>
std::vector<double> values(X&& view) {
  const auto narrow = tessera::host(std::forward<X>(view)).sync();
  return std::vector<double>(narrow.begin(), narrow.end());
}

}  // namespace gpu_bench
