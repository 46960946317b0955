// The k largest elements of a row that is one tile. Shared by the kernels of top_k.
#pragma once
#include "tessera/kernels/rows.hpp"

namespace tessera::kernels {

template <class U, int K>
struct Largest {
  Tile<U, 1, K> values;
  Tile<i32, 1, K> columns;
};

/// The `count` largest of the elements where `left` is true, in descending order of value and ascending order of
/// column: `count` times the largest of what is left. A NaN counts as the largest. If too few are left, the lowest
/// value and column N.
template <int K, class U, int N>
Largest<U, K> k_largest(const Tile<U, 1, N>& t, Tile<bool, 1, N> left, const Scalar<i32>& count) {
  auto columns = iota<i32, 1, N>(axis<1>);
  auto slots = iota<i32, 1, K>(axis<1>);
  Largest<U, K> found{full<U, 1, K>(lowest<U>), zeros<i32, 1, K>()};
  for (auto k : range(count)) {
    auto best = argmax(where(left, t, full<U, 1, N>(lowest<U>)), axis<1>);
    // Elements that are not left count as the lowest value, which others may have as well: of equal ones the first that
    // is left is taken.
    auto first = min(where(left && t == best.value, columns, N), axis<1>);
    auto column = where(best.value == best.value, first, best.index);
    found.values = where(slots == k, best.value, found.values);
    found.columns = where(slots == k, column, found.columns);
    left = left && columns != column;
  }
  return found;
}

}  // namespace tessera::kernels
