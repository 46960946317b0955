// Shared by the GPU benchmarks, in addition to tessera/measure: random inputs, which a check can compute again, and the
// tables of cases. gpu_bench.cpp runs them.
#pragma once
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/philox.hpp"
#include "tessera/measure/measure.hpp"
#include "tessera/tessera.hpp"

namespace gpu_bench {

using tessera::measure::Accuracy;
using tessera::measure::Args;
using tessera::measure::Case;
using tessera::measure::Norm;
using tessera::measure::Prepared;
using tessera::measure::sets_for;

// One table per source file.
std::vector<Case> elementwise_cases();
std::vector<Case> row_cases();
std::vector<Case> gemm_cases();
std::vector<Case> batched_cases();
std::vector<Case> few_row_cases();
std::vector<Case> long_row_cases();
std::vector<Case> attention_cases();
std::vector<Case> decoder_cases();

// -- inputs: standard normal numbers by seed and element offset, so that a check can compute any of them again -------

/// Times `scale`, a power of two.
template <class T, int B>
void fill_normal(tessera::Mut<T, B> y, tessera::Scalar<tessera::u64> seed, tessera::Scalar<tessera::f32> scale) {
  using namespace tessera;
  if constexpr (sizeof(T) == 1)
    y.store(cast<T>(random::normal<f32>(seed, y.offsets()) * scale));
  else
    y.store(random::normal<T>(seed, y.offsets()) * cast<T>(scale));
}
/// The value of fill_normal at one offset, as the kernels see it.
template <class T>
double normal_input(std::uint64_t seed, std::int64_t offset, float scale = 1) {
  const auto at = static_cast<std::uint64_t>(offset);
  if constexpr (sizeof(T) == 1)
    return static_cast<double>(static_cast<float>(T(tessera::normal_at<tessera::f32>(seed, at) * scale)));
  else
    return static_cast<double>(tessera::normal_at<T>(seed, at)) * static_cast<double>(scale);
}
/// The scale of weights for which an output, a sum over `k` products, is about as large as the input: a power of two
/// near 1 / sqrt(k). Without it the numbers of a chain of products overflow.
inline float unit_scale(std::int64_t k) {
  return static_cast<float>(std::exp2(-std::round(std::log2(static_cast<double>(k)) / 2)));
}

/// Counts the launches of a chain: each reads what the one before has written, until the chain begins anew with the
/// first input, before its numbers have drifted away.
struct Chain {
  bool on = false;
  int launches = 0;
  int from = 0;  ///< the set of the last launch
  /// True if the next launch begins a chain.
  bool begins() { return !on || launches++ % kLength == 0; }
  static constexpr int kLength = 64;
};

template <class T, int R>
tessera::Tensor<T, R> normal(const tessera::Dims<R>& dims, std::uint64_t seed, float scale = 1) {
  const auto array = dims.array();
  std::int64_t count = 1;
  for (const std::int64_t d : array) count *= d;
  auto line = tessera::empty<T>({count}).sync();
  tessera::kernel<fill_normal<T, 1024>>(tessera::mut(line), seed, scale).sync();
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::move(line).reshape({array[I]...});
  }(std::make_index_sequence<static_cast<std::size_t>(R)>{});
}

/// An output whose elements are wrong until they are written.
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
