// A plain product in f64.
#pragma once
#include <cstdint>
#include <vector>

namespace tessera::kernels {

inline std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, std::int64_t rows,
                                   std::int64_t columns) {
  const auto m = static_cast<std::size_t>(rows), n = static_cast<std::size_t>(columns);
  const std::size_t k = m > 0 ? a.size() / m : 0;
  std::vector<double> c(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t p = 0; p < k; ++p) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return c;
}
/// The rows of a matrix of `columns` as columns.
inline std::vector<double> turned(const std::vector<double>& a, std::int64_t columns) {
  const auto n = static_cast<std::size_t>(columns), m = a.size() / n;
  std::vector<double> t(a.size());
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) t[j * m + i] = a[i * n + j];
  }
  return t;
}

}  // namespace tessera::kernels
