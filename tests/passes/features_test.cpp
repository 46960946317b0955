// What choose_hints knows of a kernel, as numbers, and whether the order in which a block combines elements matters.
#include <gmock/gmock.h>

#include <set>

#include "passes/passed.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/features.hpp"

namespace tessera::test {
namespace THIS_FILE {

using passes::Feature;

void scale(Mut<f32, 1024> y, In<f32, dyn> x) { y.store(exp(x.load_like(y)) * 2.0f); }
void softmax(Mut<f32, 1, 1024> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  auto e = exp(t - max(t, axis<1>));
  y.store(e / sum(e, axis<1>));
}
void integer_sum(Mut<i32, 1, 1> y, In<i32, dyn, 1024> x) {
  auto [i, zero] = y.origin();
  y.store(sum(x.load_at(shape<1, 1024>, i, 0), axis<1>));
}
void integer_max(Mut<i32, 1, 1> y, In<i32, dyn, 1024> x) {
  auto [i, zero] = y.origin();
  y.store(max(x.load_at(shape<1, 1024>, i, 0), axis<1>));
}
void place_of_max(Mut<i32, 1, 1> y, In<f32, dyn, 1024> x) {
  auto [i, zero] = y.origin();
  y.store(argmax(x.load_at(shape<1, 1024>, i, 0), axis<1>).index);
}
void running(Mut<f32, 1, 1024> y, In<f32, dyn, dyn> x) { y.store(cumsum(x.load_like(y), axis<1>)); }
void product(Mut<f32, 64, 64> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  auto [i, j] = c.origin();
  auto sums = zeros<f32, 64, 64>();
  for (auto k : range(0, a.dim(1), 64))
    sums = mma(a.load_at(shape<64, 64>, i, k), b.load_at(shape<64, 64>, k, j), sums);
  c.store(sums);
}

template <int Rows>
void largest_of_rows(Mut<f32, Rows, 1> y, In<f32, dyn, 512> x) {
  auto [i, zero] = y.origin();
  y.store(max(x.load_at(shape<Rows, 512>, i, 0), axis<1>));
}
void scaled_rows(Mut<f32, 4, 512> y, In<f32, dyn, 512> x) {
  auto t = x.load_like(y);
  y.store(t * sum(t, axis<1>));
}
template <auto K>
passes::Features features(const std::vector<std::vector<std::int64_t>>& dims) {
  return passed<K>(dims, {}).choices.features;
}
template <auto K>
bool matters(const std::vector<std::vector<std::int64_t>>& dims) {
  return analysis::order_matters(*passed<K>(dims, {}).module->functions.front());
}

TEST(Features, AreThoseOfTheKernel) {
  const auto f = features<&scale>({{1 << 20}, {1 << 20}});
  EXPECT_EQ(f[Feature::tile], 1024);
  EXPECT_EQ(f[Feature::tile_bytes], 4096);
  EXPECT_EQ(f[Feature::loads], 1);
  EXPECT_EQ(f[Feature::stores], 1);
  EXPECT_EQ(f[Feature::narrowest], 16);
  EXPECT_GT(f[Feature::functions], 30) << "an exponential is most of it";
  EXPECT_EQ(f[Feature::reductions], 0);
  EXPECT_EQ(f[Feature::live], 2 * 1024) << "what an operation reads, and its result";
  const auto s = features<&softmax>({{256, 1024}, {256, 1024}});
  EXPECT_EQ(s[Feature::reductions], 2);
  EXPECT_EQ(s[Feature::chained], 1);
  EXPECT_EQ(s[Feature::row], 1024);
  EXPECT_GE(s[Feature::kept], 1024);
  const auto p = features<&product>({{512, 512}, {512, 512}, {512, 512}});
  EXPECT_EQ(p[Feature::products], 1);
  EXPECT_EQ(p[Feature::tensor_cores], 1);
  EXPECT_EQ(p[Feature::accumulators], 64 * 64);
  EXPECT_EQ(p[Feature::step_bytes], 2 * 64 * 64 * 2);
  EXPECT_EQ(p[Feature::loop_loads], 2);
  EXPECT_GE(p[Feature::live_in_loop], 64 * 64 + 2 * 64 * 64 / 2) << "the sums and both operands";
}

TEST(LearntHints, OneWarpReducesRowsOfWhichNothingIsKept) {
  const auto warps = [](auto kernel, std::int64_t columns) {
    return passed<kernel()>({{4096, columns}, {4096, 512}}, {}).choices.warps;
  };
  EXPECT_EQ(warps([] { return &largest_of_rows<4>; }, 1), 1);
  EXPECT_EQ(warps([] { return &largest_of_rows<8>; }, 1), 4) << "too many for one";
  EXPECT_EQ(warps([] { return &scaled_rows; }, 512), 2) << "the rows are needed afterwards";
}

TEST(Features, TheTableNamesEachOnce) {
  std::set<std::string> names;
  for (const passes::FeatureInfo& info : passes::feature_table()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_STRNE(info.doc, "") << info.name;
  }
  EXPECT_EQ(names.size(), passes::kFeatures);
}

TEST(OrderMatters, WhereFloatsAreCombined) {
  EXPECT_FALSE(matters<&scale>({{4096}, {4096}}));
  EXPECT_FALSE(matters<&integer_sum>({{64, 1}, {64, 1024}}));
  EXPECT_FALSE(matters<&integer_max>({{64, 1}, {64, 1024}}));
  EXPECT_TRUE(matters<&softmax>({{64, 1024}, {64, 1024}}));
  EXPECT_TRUE(matters<&place_of_max>({{64, 1}, {64, 1024}})) << "of equal elements the first counts";
  EXPECT_TRUE(matters<&running>({{64, 1024}, {64, 1024}}));
  EXPECT_TRUE(matters<&product>({{512, 512}, {512, 512}, {512, 512}}));
}

}  // namespace THIS_FILE
}  // namespace tessera::test
