// References of kernels on rows, in f64.
#pragma once
#include <algorithm>
#include <cmath>

#include "work.hpp"

namespace generality {

inline constexpr float kRowEps = 1e-6f;

inline std::vector<double> softmax_of(std::vector<double> v) {
  const double top = *std::max_element(v.begin(), v.end());
  double total = 0;
  for (double& t : v) total += t = std::exp(t - top);
  for (double& t : v) t /= total;
  return v;
}

/// x / rms(x), or the same of what differs from the mean.
inline std::vector<double> normed_of(std::vector<double> v, bool centred) {
  const auto n = static_cast<double>(v.size());
  double mean = 0, square = 0;
  if (centred) {
    for (const double t : v) mean += t / n;
  }
  for (double& t : v) {
    t -= mean;
    square += t * t / n;
  }
  for (double& t : v) t /= std::sqrt(square + static_cast<double>(kRowEps));
  return v;
}

/// The rows of y = f(row of x) * weight + bias; a bias of no elements is 0 everywhere.
template <class T>
auto scaled_rows(const Input<T, 2>& x, const Input<T, 1>& weight, bool centred, const Input<T, 1>& bias = {}) {
  return by_line<T>(
      [=](Size i) {
        auto v = normed_of(row_of(x, i), centred);
        for (std::size_t j = 0; j < v.size(); ++j) v[j] = v[j] * weight(j) + bias(j);
        return v;
      },
      x.dims[0], x.dims[1]);
}

}  // namespace generality
