// Attention of one head in f64: `sees(query, key)` is true for the keys that a query sees.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tessera::kernels {

/// One query against n keys at `k` and `v`, `stride` elements apart, into o (d elements).
template <class Sees>
void attend(const double* q, const double* k, const double* v, std::ptrdiff_t n, std::ptrdiff_t stride, int d,
            double scale, Sees sees, double* o) {
  std::vector<double> p(static_cast<std::size_t>(n), 0.0);
  double top = -1e300, total = 0;
  for (std::ptrdiff_t j = 0; j < n; ++j) {
    if (!sees(j)) continue;
    double s = 0;
    for (int c = 0; c < d; ++c) s += q[c] * k[j * stride + c];
    p[static_cast<std::size_t>(j)] = s * scale;
    top = std::max(top, s * scale);
  }
  std::fill_n(o, d, 0.0);
  for (std::ptrdiff_t j = 0; j < n; ++j) {
    if (sees(j)) total += std::exp(p[static_cast<std::size_t>(j)] - top);
  }
  for (std::ptrdiff_t j = 0; j < n; ++j) {
    if (!sees(j)) continue;
    const double weight = std::exp(p[static_cast<std::size_t>(j)] - top) / total;
    for (int c = 0; c < d; ++c) o[c] += weight * v[j * stride + c];
  }
}

}  // namespace tessera::kernels
