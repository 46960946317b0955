// Plain references in f64 for the programs of API.md.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <tessera/tessera.hpp>
#include <vector>

namespace {

inline std::size_t at(int row, int column, int columns) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
}

template <class A>
std::vector<double> doubles(A&& tensor) {
  return tessera::host(tessera::cast<tessera::f64>(std::forward<A>(tensor))).sync();
}

inline std::vector<double> matmul(const std::vector<double>& a, const std::vector<double>& b, int m, int n, int k) {
  std::vector<double> c(static_cast<std::size_t>(m) * static_cast<std::size_t>(n), 0.0);
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      for (int j = 0; j < n; ++j) c[at(i, j, n)] += a[at(i, p, k)] * b[at(p, j, n)];
    }
  }
  return c;
}

/// Elementwise |got - want| <= tolerance * max(1, |want|); never true of NaN.
inline void expect_matrix(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << i;
}

/// [batch, heads, length, d] queries over [batch, kv_heads, length, d] keys and values; a query sees the keys up to its
/// own position.
inline std::vector<double> causal_attention(const std::vector<double>& q, const std::vector<double>& k,
                                            const std::vector<double>& v, int batch, int heads, int kv_heads,
                                            int length, int d, double scale) {
  std::vector<double> o(q.size(), 0.0);
  for (int bh = 0; bh < batch * heads; ++bh) {
    const int kv = bh / heads * kv_heads + bh % heads / (heads / kv_heads);
    for (int i = 0; i < length; ++i) {
      std::vector<double> p(static_cast<std::size_t>(i) + 1);
      double top = -1e300, total = 0;
      for (int j = 0; j <= i; ++j) {
        double s = 0;
        for (int c = 0; c < d; ++c) s += q[at(bh * length + i, c, d)] * k[at(kv * length + j, c, d)];
        p[static_cast<std::size_t>(j)] = s * scale;
        top = std::max(top, s * scale);
      }
      for (double& s : p) total += s = std::exp(s - top);
      for (int j = 0; j <= i; ++j) {
        for (int c = 0; c < d; ++c)
          o[at(bh * length + i, c, d)] += p[static_cast<std::size_t>(j)] / total * v[at(kv * length + j, c, d)];
      }
    }
  }
  return o;
}

}  // namespace
