// Both namespaces at once: the names of the language together with those of the standard library.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <functional>
#include <iostream>
#include <numeric>
#include <optional>
#include <ranges>
#include <string>
#include <valarray>
#include <vector>

#include "core_support.hpp"

namespace names {

using namespace std;
using namespace tessera;

template <int N>
void softmax(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = x.load_like(y, pad::neg_inf);
  t = exp(t - max(t, axis<1>));
  y.store(t / sum(t, axis<1>));
}

void many(Mut<f32, 8> y, Scalar<f32> s, Scalar<i32> n) {
  auto a = y.load();
  auto b = max(a, a);
  b = min(a, b);
  b = max(b, 0.0f);
  b = min(1.0f, b);
  b = clamp(b, a, a);
  b = clamp(b, 0.0f, 1.0f);
  b = abs(b) + floor(b) + ceil(b) + sqrt(b) + exp(b) + exp2(b) + log(b + 1.0f) + log2(b + 1.0f) + sin(b) + cos(b) +
      tan(b);
  b = sinh(b) + cosh(b) + tanh(b) + pow(b, b) + pow(b, 2.0f) + atan2(b, a) + fma(a, b, b) + fma(a, 2.0f, b);
  b += reduce(b, axis<0>, 0.0f, [](auto p, auto q) { return p + q; }) + prod(b, axis<0>) + sum(b) + max(b) + min(b);
  b = scan(b, axis<0>, 0.0f, [](auto p, auto q) { return max(p, q); });
  auto [value, index] = argmax(b, axis<0>);
  tile_if (all(b > 0.0f) && n > 0) { swap(a, b); }
  for (auto i : range(min(n, ceil_div(n, 2)))) b += cast<f32>(i) * s;
  for (auto i : range(max(n, 3))) b += cast<f32>(i + 1);
  b = where(isless(1.0f, 2.0f) ? b > 0.0f : b < 0.0f, b, -infinity<f32>);
  y.store(b + value + cast<f32>(index) + extract(b, shape<1>, 0) + cast<f32>(iota<i32, 8>(axis<0>)));
  print("m = {}", n);
}

TEST(Names, StdAndTesseraTogether) {
  EXPECT_GT(test::count(test::text<softmax<8>>(), "divf"), 0);
  EXPECT_GT(test::count(test::text<many>(), "maxf"), 0);
  // The names of the standard library keep their meaning.
  EXPECT_EQ(max(1, 2) + min(3, 4) + abs(-5) + static_cast<int>(floor(1.5)), 11);
  vector<int> v{3, 1, 2};
  EXPECT_EQ(reduce(v.begin(), v.end()), 6);
}

}  // namespace names
