// The plain loop that the matrix multiply examples are checked against: c[m, n] = sum over k of a[m, k] b[k, n], in
// double.
#pragma once
#include <cstddef>
#include <vector>

namespace example {

template <class T>
std::vector<double> matmul(const T* a, const T* b, int m, int n, int k) {
  std::vector<double> c(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
  for (int i = 0; i < m; ++i)
    for (int p = 0; p < k; ++p) {
      const double x = static_cast<double>(a[static_cast<std::size_t>(i) * k + p]);
      const T* row = b + static_cast<std::size_t>(p) * n;
      double* out = c.data() + static_cast<std::size_t>(i) * n;
      for (int j = 0; j < n; ++j) out[j] += x * static_cast<double>(row[j]);
    }
  return c;
}

}  // namespace example
