// Kernels that combine what other tests show one by one: tiles in structs and arrays through loops and branches,
// MutTiles with sums, permuted views with sub-tiles; each compared with a plain reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tessera/tessera.hpp>
#include <utility>
#include <vector>

#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;

struct Running {
  Tile<f32, 4, 1> largest, sum;
};
Running extended(Running r, const Tile<f32, 4, 8>& t) {
  auto larger = max(r.largest, max(t, axis<1>));
  return {larger, r.sum * exp(r.largest - larger) + sum(exp(t - larger), axis<1>)};
}
void logsumexp_of_first(MutTiles<f32, 4, 1> y, In<f32, dyn, dyn> x, Scalar<i32> tiles) {
  auto X = x.tiles(shape<4, 8>, pad::neg_inf);
  for (auto out : y.column_order()) {
    auto [i, zero] = out.index();
    Running r{full<f32, 4, 1>(-infinity<f32>), zeros<f32, 4, 1>()};
    for (auto c : range(X.count(1))) {
      tile_if (c < tiles) {
        r = extended(r, X.load(i, c));
      } else {
        tile_if (c == tiles) { check(c > 0, "at least one tile"); }
      }
    }
    out.store(r.largest + log(r.sum));
  }
}
TEST(MixedKernels, StructsOfTilesThroughScheduledTilesLoopsAndBranches) {
  const auto x = random::normal<f32>({10, 30}, 3).sync();
  const auto values = host(x).sync();
  for (const int tiles : {100, 3, 1}) {
    const auto y = host(kernel<logsumexp_of_first>(empty<f32>({10, 1}), x, tiles)).sync();
    for (std::size_t i = 0; i < 10; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < std::min<std::size_t>(30, 8 * static_cast<std::size_t>(tiles)); ++j)
        sum += std::exp(double{values[i * 30 + j]});
      EXPECT_NEAR(y[i], std::log(sum), 1e-5) << i << ' ' << tiles;
    }
  }
}

void collatz_statistics(Mut<i32, 8> y, In<i32, dyn> x, Acc<i32, dyn> statistics) {
  auto v = x.load_like(y);
  auto steps = zeros<i32, 8>();
  tile_while(any(v > 1)) {
    auto active = v > 1;
    v = where(active, where((v & 1) == 0, v >> 1, 3 * v + 1), v);
    tile_if (any(active)) { steps += cast<i32>(active); }
  }
  y.store(steps);
  statistics.max(0, max(steps));
  statistics.add(1, sum(steps));
}
TEST(MixedKernels, AWhileWithABranchAndSumsBesideAMut) {
  auto statistics = zeros<i32>({2}).sync();
  const auto y = host(kernel<collatz_statistics>(empty<i32>({30}), arange<i32>(30, 1), mut(statistics))).sync();
  int most = 0, total = 0;
  for (int i = 0; i < 30; ++i) {
    int n = 0;
    for (long v = i + 1; v > 1; v = v % 2 != 0 ? 3 * v + 1 : v / 2) ++n;
    EXPECT_EQ(y[static_cast<std::size_t>(i)], n);
    most = std::max(most, n);
    total += n;
  }
  EXPECT_EQ(host(statistics).sync(), (std::vector<i32>{most, total}));
}

template <std::size_t... I>
auto windows(Mut<f32, 4>& y, In<f32, dyn> x, std::index_sequence<I...>) {
  return std::array{x.load_at(shape<4>, y.origin()[0] + static_cast<int>(I))...};
}
void sum_of_windows(Mut<f32, 4> y, In<f32, dyn> x) {
  auto tiles = windows(y, x, std::make_index_sequence<3>{});
  for (auto k : range(3)) {
    for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] += cast<f32>(k) * static_cast<float>(i);
  }
  auto s = zeros<f32, 4>();
  for (const auto& t : tiles) s += t;
  y.store(s);
}
TEST(MixedKernels, AnArrayOfTilesThroughALoop) {
  const auto y = host(kernel<sum_of_windows>(empty<f32>({8}), arange<f32>(8))).sync();
  for (int i = 0; i < 8; ++i) {
    float expected = 0;
    for (int k = 0; k < 3; ++k) expected += static_cast<float>((i + k < 8 ? i + k : 0) + 3 * k);
    EXPECT_EQ(y[static_cast<std::size_t>(i)], expected);
  }
}

void halves_exchanged(Mut<f32, 8, 8> y, In<f32, dyn, dyn> x) {
  auto t = x.permuted(order<1, 0>).tiles(shape<8, 8>).load(y.index()[0], y.index()[1]);
  y.store(t);
  auto top = extract(t, shape<4, 8>, 0, 0), bottom = extract(t, shape<4, 8>, 1, 0);
  y.store(cat(bottom, top, axis<0>) + y.load());
}
TEST(MixedKernels, APermutedViewTakenApartAndStoredTwice) {
  const auto y = host(kernel<halves_exchanged>(empty<f32>({8, 8}), arange<f32>({8, 8}))).sync();
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j)
      EXPECT_EQ(y[static_cast<std::size_t>(i * 8 + j)], static_cast<float>(j * 8 + i + j * 8 + (i + 4) % 8));
}

void sum_of_range(Mut<i64, 4> y, Scalar<u32> lo, Scalar<u32> hi) {
  auto a = zeros<i64, 4>();
  for (auto k : range(lo, hi, 3u)) a += cast<i64>(k);
  y.store(a);
}
TEST(MixedKernels, UnsignedBoundsNearTheirEnd) {
  EXPECT_EQ(host(kernel<sum_of_range>(empty<i64>({4}), 4294967290u, 4294967295u)).sync()[0],
            4294967290ll + 4294967293ll);
  EXPECT_EQ(host(kernel<sum_of_range>(empty<i64>({4}), 5u, 3u)).sync()[0], 0);
}

void diagonal_neighbours(Mut<f32, 4, 4> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = zeros<f32, 4, 4>();
  for (const int d : {-5, 0, 3}) s += x.load_at(shape<4, 4>, i + d, j - d, pad(0.5f));
  y.store(s);
}
TEST(MixedKernels, NeighboursOutsideReadTheGivenValue) {
  const auto y = host(kernel<diagonal_neighbours>(empty<f32>({6, 6}), arange<f32>({6, 6}))).sync();
  const auto at = [](int i, int j) { return i < 0 || j < 0 || i > 5 || j > 5 ? 0.5f : static_cast<float>(i * 6 + j); };
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j)
      EXPECT_EQ(y[static_cast<std::size_t>(i * 6 + j)], at(i - 5, j + 5) + at(i, j) + at(i + 3, j - 3));
}

void exchange_if(Mut<f32, 4> a, Mut<f32, 4> b, Scalar<bool> wanted) {
  auto x = a.load(), y = b.load();
  tile_if (wanted) {
    auto t = x;
    x = y;
    y = t;
  }
  a.store(x);
  b.store(y);
}
TEST(MixedKernels, TilesExchangedInABranch) {
  auto a = zeros<f32>({6}).sync(), b = ones<f32>({6}).sync();
  kernel<exchange_if>(mut(a), mut(b), true).sync();
  EXPECT_EQ(host(a).sync(), std::vector<f32>(6, 1));
  EXPECT_EQ(host(b).sync(), std::vector<f32>(6, 0));
  kernel<exchange_if>(mut(a), mut(b), false).sync();
  EXPECT_EQ(host(a).sync(), std::vector<f32>(6, 1));
}

void triangle(Mut<i32, 4> y) {
  auto a = y.load();
  for (auto i : range(4)) {
    for (auto j : range(i)) {
      for (auto k : range(j, i)) {
        tile_if ((i + j + k) % 2 == 0) {
          a += i * 100 + j * 10 + k;
        } else {
          a -= 1;
        }
      }
    }
  }
  y.store(a);
}
TEST(MixedKernels, LoopsWhoseBoundsAreLoopVariables) {
  int expected = 0;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < i; ++j)
      for (int k = j; k < i; ++k) expected += (i + j + k) % 2 == 0 ? i * 100 + j * 10 + k : -1;
  EXPECT_EQ(host(kernel<triangle>(zeros<i32>({4}))).sync(), std::vector<i32>(4, expected));
}

void gathered_and_scattered(Mut<f32, 2, 4> y, In<f32, dyn, 4> table, In<i32, dyn> ids) {
  auto rows = table.gather(axis<0>, ids.load_like(y, axes<0>));
  y.store(rows);
  y.scatter(axis<0>, 1 - iota<i32, 2>(), rows * 2.0f);
}
TEST(MixedKernels, GatheredRowsScatteredIntoTheOwnPiece) {
  const auto ids = from(std::vector<i32>{4, -1, 9, 0}, {4}).sync();
  const auto y = host(kernel<gathered_and_scattered>(empty<f32>({4, 4}), arange<f32>({5, 4}), ids)).sync();
  EXPECT_EQ(y, (std::vector<f32>{0, 0, 0, 0, 32, 34, 36, 38, 0, 2, 4, 6, 0, 0, 0, 0}));
}

void check_in_a_loop(Mut<f32, 8> y, In<f32, dyn> x, Scalar<i32> n) {
  auto t = x.load_like(y);
  for (auto k : range(n)) {
    check(k < 5, "k stays below five");
    t += 1.0f;
  }
  y.store(t);
}
TEST(MixedKernels, AfterAFailedCheckTheTensorsAreUsable) {
  const auto x = ones<f32>({8}).sync();
  auto y = zeros<f32>({8}).sync();
  kernel<check_in_a_loop>(mut(y), x, 5).sync();
  EXPECT_EQ(host(y).sync(), std::vector<f32>(8, 6));
  EXPECT_ERROR(DeviceError, kernel<check_in_a_loop>(mut(y), x, 6).sync(), "k stays below five", "mixed_kernels_test");
  kernel<check_in_a_loop>(mut(y), x, 1).sync();
  EXPECT_EQ(host(y).sync(), std::vector<f32>(8, 2));
}

void narrow(Mut<f8e4m3, 16> y, Mut<f32, 16> back, In<f32, dyn> x) {
  auto t = cast<f8e4m3>(x.load_like(y));
  y.store(t);
  back.store(cast<f32>(t));
}
TEST(MixedKernels, EightBitFloatsAsTwoOutputs) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<f32> values{0, 1, -2, 448, 1000, -1000, 0.001f, 17, 18, 19, nan, inf, -inf, 0.1f, 240, 3};
  auto [y, back] = kernel<narrow>(empty<f8e4m3>({16}), empty<f32>({16}), from(values, {16})).sync();
  const auto stored = host(cast<f32>(y)).sync(), direct = host(back).sync();
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 10)
      EXPECT_TRUE(std::isnan(stored[i]) && std::isnan(direct[i]));
    else
      EXPECT_EQ(stored[i], direct[i]) << i;
  }
  EXPECT_EQ(direct[4], 448);
  EXPECT_EQ(direct[5], -448);
}

}  // namespace THIS_FILE
