// Warps and registers of kernels that load neighbours, after all passes. bench/notes/choose_hints.md has the times.
#include "passes/passed.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::test {
namespace THIS_FILE {

void five_points(Mut<f32, 32, 64> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = x.load_like(y);
  for (int d : {-1, 1}) s += x.load_at(shape<32, 64>, i + d, j) + x.load_at(shape<32, 64>, i, j + d);
  y.store(s);
}
/// A loop that ends when no element goes on, and one that ends for all at once.
void halved(Mut<f32, 1024> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  tile_while(any(t > 1.0f)) { t = where(t > 1.0f, t * 0.5f, t); }
  y.store(t);
}
void halved_equally(Mut<f32, 1024> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  for ([[maybe_unused]] auto i : range(x.dim(0))) t = where(any(t > 1.0f), t * 0.5f, t);
  y.store(t);
}
void rows_around(Mut<f32, 32, 64> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = x.load_like(y);
  for (int d : {-1, 1}) s += x.load_at(shape<32, 64>, i + d, j);
  y.store(s);
}
void one_row_beside(Mut<f32, 32, 64> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  y.store(x.load_like(y) + x.load_at(shape<32, 64>, i + 1, j));
}
TEST(IterationHints, ALoopThatEndsByATileHasMoreWarps) {
  const std::vector<std::vector<std::int64_t>> dims{{65536}, {65536}};
  EXPECT_EQ(passed<&halved>(dims, {}).choices.warps, 4) << "256 elements each";
  EXPECT_LT(passed<&halved_equally>(dims, {}).choices.warps, 4);
}

TEST(StencilHints, AreThoseOfKernelsThatComputeMuch) {
  const std::vector<std::vector<std::int64_t>> dims{{1024, 1024}, {1024, 1024}};
  const auto chosen = [&](auto kernel, bool limit) {
    passes::Tuning tuning;
    tuning.limit_registers = limit;
    const passes::Choices c = passed<kernel()>(dims, tuning).choices;
    return std::pair(c.warps, c.occupancy);
  };
  EXPECT_EQ(chosen([] { return &five_points; }, true), std::pair(4, 7));
  EXPECT_EQ(chosen([] { return &five_points; }, false), std::pair(4, 0)) << "the form without the limit";
  passes::Tuning given;
  for (const auto& [warps, occupancy] : {std::pair(2, 7), {8, 4}, {16, 1}, {32, 1}}) {
    given.warps = warps;
    EXPECT_EQ(passed<&five_points>(dims, given).choices.occupancy, occupancy) << "72 registers, with " << warps;
  }
  for (const auto& [registers, occupancy] : {std::pair(64, 4), {72, 3}, {80, 3}, {96, 2}, {128, 2}}) {
    given.warps = 8;
    given.registers = registers;
    EXPECT_EQ(passed<&five_points>(dims, given).choices.occupancy, occupancy) << registers << " as asked";
  }
  given.occupancy = 5;
  EXPECT_EQ(passed<&five_points>(dims, given).choices.occupancy, 5);
  EXPECT_EQ(chosen([] { return &rows_around; }, true), std::pair(4, 7)) << "whole vectors only";
  EXPECT_EQ(chosen([] { return &one_row_beside; }, true), std::pair(8, 0)) << "two loads";
}

template <int Rows, bool Sideways, bool Much>
void rows_above(Mut<f32, 16, 128> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = x.load_like(y);
  for (int d = 1; d <= Rows; ++d) s += x.load_at(shape<16, 128>, i - d, j);
  if constexpr (Sideways) s += x.load_at(shape<16, 128>, i, j + 1);
  if constexpr (Much)
    for (int n = 0; n < 40; ++n) s = s * s + s;
  y.store(s);
}

/// Pieces of 8 KiB: 512 vectors.
TEST(StencilHints, NeighboursInWholeVectorsHaveMoreVectorsForEachThread) {
  const auto choices = []<auto K>(const char* tuning) {
    return passed<K>({{160, 1280}, {160, 1280}}, passes::parse_tuning(tuning)).choices;
  };
  const auto warps = [&]<auto K>(const char* tuning = "") { return choices.template operator()<K>(tuning).warps; };
  EXPECT_EQ((warps.template operator()<&rows_above<1, false, false>>()), 8) << "two loads";
  EXPECT_EQ((warps.template operator()<&rows_above<3, false, false>>()), 4);
  EXPECT_EQ((warps.template operator()<&rows_above<3, false, true>>()), 2) << "bound by instructions";
  EXPECT_EQ((warps.template operator()<&rows_above<3, true, true>>()), 4) << "some in single elements";
  EXPECT_EQ((warps.template operator()<&rows_above<1, false, true>>()), 4) << "bound, without neighbours";
  EXPECT_EQ((warps.template operator()<&rows_above<3, false, true>>("vectors=4")), 4);
  EXPECT_EQ((warps.template operator()<&rows_above<3, false, true>>("vectors=1")), 8);
  EXPECT_THROW((warps.template operator()<&rows_above<3, false, true>>("vectors=3")), CompileError);
  EXPECT_THROW((warps.template operator()<&rows_above<3, false, true>>("registers=0")), CompileError);
  const auto occupancy = [&](const char* tuning) {
    const auto c = choices.template operator()<&rows_above<3, false, true>>(tuning);
    EXPECT_EQ(c.limits_registers, c.occupancy != 0) << tuning;
    return c.occupancy;
  };
  EXPECT_EQ(occupancy(""), 7) << "72 registers for each of four warps";
  EXPECT_EQ(occupancy("registers=128"), 4);
  EXPECT_EQ(occupancy("vectors=1"), 4) << "the limit stays";
  EXPECT_EQ(occupancy("limit=0"), 0);
}

/// Rows above and below and columns beside, as the passes before have made them.
void mean_of_nine(Mut<f32, 16, 64> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = zeros<f32, 16, 64>();
  for (int d : {-1, 0, 1})
    for (int e : {-1, 0, 1}) s += x.load_at(shape<16, 64>, i + d, j + e);
  y.store(s * (1.0f / 9.0f));
}
TEST(StencilHints, ComputeMuchForEachByte) {
  const auto passed = expect_same<&mean_of_nine>({}, 4, Array<f32>({32, 128}), Array<f32>({32, 128}));
  EXPECT_GT(analysis::instructions_per_byte(*passed.module->functions.front()), 6.2);
}

}  // namespace THIS_FILE
}  // namespace tessera::test
