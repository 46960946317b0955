// A mixture of experts against plain C++: routing, the order by experts, products by expert, the weighted sum.
#include <algorithm>
#include <numeric>

#include "kernels/gemm_reference.hpp"
#include "kernels/support.hpp"
#include "tessera/kernels/grouped_gemm.hpp"
#include "tessera/kernels/moe_combine.hpp"
#include "tessera/kernels/moe_route.hpp"
#include "tessera/kernels/top_k.hpp"

namespace tessera::kernels {
namespace {

TEST(MoeRoute, TheLargestScores) {
  const std::size_t tokens = 20, n = 60, k = 8;
  const auto scores = random_tensor<bf16>({tokens, n}, 1);
  const auto in = doubles(scores);
  for (const bool normalize : {true, false}) {
    const auto [weights, experts] = moe_route(scores, 8, normalize).sync();
    const auto w = doubles(weights);
    const auto at = host(experts).sync();
    for (std::size_t t = 0; t < tokens; ++t) {
      const double* row = in.data() + t * n;
      std::vector<i32> order(n);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](i32 a, i32 b) { return row[a] > row[b]; });
      double total = 0;
      for (std::size_t i = 0; i < (normalize ? k : n); ++i) total += std::exp(row[order[i]]);
      for (std::size_t i = 0; i < k; ++i) {
        ASSERT_EQ(at[t * k + i], order[i]);
        ASSERT_NEAR(w[t * k + i], std::exp(row[order[i]]) / total, 1e-6);
      }
    }
  }
  EXPECT_ERROR(ShapeError, (void)moe_route(scores, 17), "k is 1 to 16");
}

/// Every pair stands in a place of its expert, once, in order; places[pair] is where.
void check_plan(const std::vector<i32>& experts, i32 number) {
  const auto [pairs, owners, places] = moe_plan(from(experts, {experts.size() / 2, 2}).sync(), number).sync();
  const auto at = host(pairs).sync(), owner = host(owners).sync(), where = host(places).sync();
  ASSERT_EQ(at.size(), owner.size() * kMoeRows);
  std::vector<i32> seen(experts.size(), -1);
  i32 previous = -1, of = -1;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (at[i] < 0) continue;
    const auto pair = static_cast<std::size_t>(at[i]);
    ASSERT_EQ(experts[pair], owner[i / kMoeRows]);
    ASSERT_EQ(seen[pair], -1);
    ASSERT_TRUE(experts[pair] > of || at[i] > previous);
    seen[pair] = static_cast<i32>(i);
    previous = at[i], of = experts[pair];
  }
  ASSERT_EQ(where, seen);
}
TEST(MoePlan, EveryPairHasAPlace) {
  std::vector<i32> spread(3000), one(130, 3), outside{0, -1, 2, 1000};
  for (std::size_t i = 0; i < spread.size(); ++i) spread[i] = static_cast<i32>(i * i * 7 % 11);
  check_plan(spread, 16);  // some experts have none, one step of counting is not enough
  check_plan(one, 4);
  check_plan({0, 0}, 1);
  check_plan({}, 5);
  const auto [pairs, owners, places] = moe_plan(from(outside, {2, 2}).sync(), 4).sync();
  const auto at = host(places).sync();
  EXPECT_TRUE(at[0] == 0 && at[1] == -1 && at[2] == kMoeRows && at[3] == -1);
}

TEST(GroupedGemm, AMixtureOfExperts) {
  const std::size_t tokens = 90, d = 100, n = 5;
  const auto x = random_tensor<f32>({tokens, d}, 2), scores = random_tensor<f32>({tokens, n}, 3);
  const auto up = random_tensor<f32>({n, d, std::size_t{70}}, 4, 0.1),
             down = random_tensor<f32>({n, d, std::size_t{70}}, 5, 0.1);
  const auto [weights, experts] = moe_route(scores, 2).sync();
  const auto [pairs, owners, places] = moe_plan(experts, n).sync();
  const auto h = grouped_gemm(x, up, pairs, owners, 2).sync();
  const auto o = grouped_gemm(h, down.permute<0, 2, 1>(), owners).sync();
  const auto y = moe_combine(o, weights, places).sync();

  const auto hx = doubles(x), hu = doubles(up), hd = doubles(down), hw = doubles(weights);
  const auto he = host(experts).sync();
  std::vector<double> want(tokens * d, 0.0);
  for (std::size_t p = 0; p < tokens * 2; ++p) {
    const auto e = static_cast<std::ptrdiff_t>(he[p]) * 7000, t = static_cast<std::ptrdiff_t>(p / 2 * d);
    const std::vector<double> row(hx.begin() + t, hx.begin() + t + 100);
    const std::vector<double> u(hu.begin() + e, hu.begin() + e + 7000), v(hd.begin() + e, hd.begin() + e + 7000);
    const auto r = product(product(row, u, 1, 70), turned(v, 70), 1, 100);
    for (std::size_t c = 0; c < d; ++c) want[p / 2 * d + c] += hw[p] * r[c];
  }
  expect_close(y, want, 1e-5, "two layers of experts");
  EXPECT_ERROR(ShapeError, (void)grouped_gemm(h, up, owners), "argument w");
}

constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                kNotANumber = std::numeric_limits<float>::quiet_NaN();

/// {weights, experts} of one token, two of its experts.
std::pair<std::vector<float>, std::vector<i32>> routed(const std::vector<float>& scores, bool normalize = true) {
  const auto x = from(scores, {std::size_t{1}, scores.size()}).sync();
  const auto [weights, experts] = moe_route(x, 2, normalize).sync();
  const auto [values, indices] = top_k(x, 2).sync();
  EXPECT_EQ(host(experts).sync(), host(indices).sync()) << "ranked as by top_k";
  return {host(weights).sync(), host(experts).sync()};
}
TEST(MoeRoute, RanksScoresNotTheirExponentials) {
  EXPECT_EQ(routed({0.001f, 0.00100001f, 0.00100002f, 0}).second, (std::vector<i32>{2, 1}));
  EXPECT_EQ(routed({0, -200, -150, -300}).second, (std::vector<i32>{0, 2}));
  EXPECT_EQ(routed({-1e30f, -3e38f, -2e30f}).second, (std::vector<i32>{0, 2}));
  EXPECT_EQ(routed({1, 3, 3, 3}).second, (std::vector<i32>{1, 2})) << "equal ones by number";
  EXPECT_EQ(routed({-0.0f, 0.0f, -1}).second, (std::vector<i32>{0, 1}));
}
TEST(MoeRoute, ScoresThatAreNoNumbers) {
  EXPECT_EQ(routed({-kInfinity, -kInfinity, -kInfinity}).first, (std::vector<float>{0, 0}));
  EXPECT_EQ(routed({-kInfinity, -kInfinity, -kInfinity}, false).first, (std::vector<float>{0, 0}));
  EXPECT_EQ(routed({-kInfinity, 2, -kInfinity}).first, (std::vector<float>{1, 0}));
  EXPECT_EQ(routed({-kInfinity, 2, -kInfinity}).second, (std::vector<i32>{1, 0}));
  EXPECT_EQ(routed({1, kInfinity, 2}).first, (std::vector<float>{1, 0}));
  EXPECT_EQ(routed({kInfinity, 5, kInfinity, kInfinity}).first, (std::vector<float>{0.5f, 0.5f}));
  for (const bool normalize : {true, false}) {
    const auto [weights, experts] = routed({1, 7, kNotANumber, 2}, normalize);
    EXPECT_EQ(experts, (std::vector<i32>{2, 1})) << "a NaN counts as the largest";
    EXPECT_TRUE(std::isnan(weights[0]) && std::isnan(weights[1]));
  }
}

TEST(MoeCombine, APlaceOutsideAddsNothing) {
  const auto placed = arange<f32>({2, 3}, 1).sync();
  const auto w = from(std::vector<float>{1, kNotANumber, 2}, {1, 3}).sync();
  for (const i32 outside : {999, 2, -1, -7, 0x7fffffff}) {
    const auto places = from(std::vector<i32>{0, outside, 1}, {3}).sync();
    EXPECT_EQ(host(moe_combine(placed, w, places).sync()).sync(), (std::vector<float>{9, 12, 15})) << outside;
  }
}
TEST(GroupedGemm, NumbersOutsideGiveZeros) {
  const auto x = ones<f32>({1, 5}).sync();
  const auto weights = arange<f32>({2, 5, 3}).sync();
  std::vector<i32> numbers(kMoeRows, -1);
  numbers[1] = 0, numbers[2] = 1, numbers[3] = 999, numbers[4] = -5;  // x has one row, so pair 0 alone
  const auto pairs = from(numbers, {kMoeRows}).sync();
  for (const i32 owner : {1, 7, 2, -1, -9}) {
    const auto g = host(grouped_gemm(x, weights, pairs, from(std::vector<i32>{owner}, {1}).sync(), 1).sync()).sync();
    for (std::size_t i = 0; i < g.size(); ++i)
      ASSERT_EQ(g[i], owner == 1 && i / 3 == 1 ? static_cast<float>(105 + 5 * (i % 3)) : 0.0f) << owner << " " << i;
    const auto rows = ones<f32>({kMoeRows, 5}).sync();
    const auto p = host(grouped_gemm(rows, weights, from(std::vector<i32>{owner}, {1}).sync()).sync()).sync();
    EXPECT_EQ(p[0], owner == 1 ? 105 : 0) << owner;
  }
}

}  // namespace
}  // namespace tessera::kernels
