// What the tests of kernels share: random tensors, readback in f64, and the relative norm of the error.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "host/expect_error.hpp"
#include "tessera/tessera.hpp"

namespace tessera::kernels {

template <class A>
std::vector<double> doubles(const A& tensor) {
  return host(cast<f64>(tensor.view())).sync();
}

/// Normal numbers times `scale`, rounded to T.
template <Element T, int R>
Tensor<T, R> random_tensor(const Dims<R>& dims, u64 seed, double scale = 1) {
  std::vector<double> v = host(random::normal<f64>(Dims<1>(dims.numel()), seed)).sync();
  for (double& x : v) x *= scale;
  return cast<T>(from(v, dims)).sync();
}
template <Element T, std::size_t N>
Tensor<T, static_cast<int>(N)> random_tensor(BracedDims<N> dims, u64 seed, double scale = 1) {
  return random_tensor<T>(Dims<static_cast<int>(N)>(dims, SourceLocation::current()), seed, scale);
}

/// ||got - want|| / ||want||; infinite if the sizes differ, a NaN stands where none should, or the other way around.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) {
      norm += std::isfinite(want[i]) ? want[i] * want[i] : 0;
      continue;
    }
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) return std::numeric_limits<double>::infinity();
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

/// What a result of T may be off by, relative norm: some roundings of the type; `growth` more for long sums.
template <Element T>
double tolerance(double growth = 1) {
  if (std::is_same_v<T, f64>) return 1e-13 * growth;
  if (std::is_same_v<T, f32>) return 2e-6 * growth;
  if (std::is_same_v<T, f16>) return 1e-3;
  if (std::is_same_v<T, bf16>) return 4e-3;
  return 4e-2;  // fp8 e4m3: half of 2^-3, and what saturates
}

template <Element T, int R>
void expect_close(const Tensor<T, R>& got, const std::vector<double>& want, double allowed, const std::string& what) {
  EXPECT_LE(relative_error(doubles(got), want), allowed) << what;
}

}  // namespace tessera::kernels
