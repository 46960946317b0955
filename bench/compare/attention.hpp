// The reference of attention for one query, in f64.
#pragma once
#include <cmath>

#include "case.hpp"

namespace compare {

/// softmax(q k^T / sqrt(d)) v over the keys [first, last); 0 without keys. `query(i)`, `key(j, i)` and `value(j, i)`
/// give elements.
template <class Q, class K, class V>
Line attended(Size d, Size first, Size last, Q query, K key, V value) {
  std::vector<double> q, scores, y(static_cast<std::size_t>(d), 0.0);
  for (Size i = 0; i < d; ++i) q.push_back(query(i) / std::sqrt(static_cast<double>(d)));
  double top = -INFINITY, total = 0;
  for (Size j = first; j < last; ++j) {
    double s = 0;
    for (Size i = 0; i < d; ++i) s += q[static_cast<std::size_t>(i)] * key(j, i);
    scores.push_back(s);
    top = std::max(top, s);
  }
  for (double& s : scores) total += s = std::exp(s - top);
  for (Size j = first; j < last; ++j) {
    const double weight = scores[static_cast<std::size_t>(j - first)] / total;
    for (Size i = 0; i < d; ++i) y[static_cast<std::size_t>(i)] += weight * value(j, i);
  }
  return [y](Size i) { return y[static_cast<std::size_t>(i)]; };
}

}  // namespace compare
