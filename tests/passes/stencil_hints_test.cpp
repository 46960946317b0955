// Warps and registers of kernels that load neighbours, after all passes. bench/notes/choose_hints.md has the times.
#include "passes/passed.hpp"

namespace tessera::test {
namespace {

void five_points(Mut<f32, 32, 64> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = x.load_like(y);
  for (int d : {-1, 1}) s += x.load_at(shape<32, 64>, i + d, j) + x.load_at(shape<32, 64>, i, j + d);
  y.store(s);
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
  for (const auto& [warps, occupancy] : {std::pair(2, 7), {8, 3}, {16, 1}, {32, 1}}) {
    given.warps = warps;
    EXPECT_EQ(passed<&five_points>(dims, given).choices.occupancy, occupancy) << "72 registers, with " << warps;
  }
  given.occupancy = 5;
  EXPECT_EQ(passed<&five_points>(dims, given).choices.occupancy, 5);
  EXPECT_EQ(chosen([] { return &rows_around; }, true), std::pair(4, 7)) << "whole vectors only";
  EXPECT_EQ(chosen([] { return &one_row_beside; }, true), std::pair(8, 0)) << "two loads";
}

}  // namespace
}  // namespace tessera::test
