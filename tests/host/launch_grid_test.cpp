// The grid of a launch: how many blocks, and along which axes they lie.
#include "host/launch_grid.hpp"

#include <gtest/gtest.h>

#include <random>
#include <tuple>
#include <vector>

#include "passes/passed.hpp"

namespace tessera::detail {
namespace THIS_FILE {

using calling::GridAxes;
using Axes = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
using Slots = std::vector<std::uint64_t>;

Axes axes_of(const runtime::LaunchGrid& g) { return {g.x, g.y, g.z}; }
Axes grid_of(const GridAxes& grid, std::uint64_t blocks, const Slots& slots) {
  return axes_of(launch_grid(grid, blocks, slots));
}

TEST(LaunchGrid, BlocksLieAlongXWhileTheyFit) {
  for (const std::uint64_t blocks : {std::uint64_t{1}, std::uint64_t{132}, kMaxGridAxis})
    EXPECT_EQ(grid_of({}, blocks, {}), Axes(blocks, 1, 1));
}

TEST(LaunchGrid, MoreBlocksLieAlongTwoAxes) {
  EXPECT_EQ(kMaxGridAxis, 16777215u) << "Tile IR: get_num_tile_blocks";
  EXPECT_EQ(grid_of({}, kMaxGridAxis + 1, {}), Axes((kMaxGridAxis + 1) / 2, 2, 1));
  EXPECT_EQ(grid_of({}, kMaxGridAxis + 2, {}), Axes((kMaxGridAxis + 3) / 2, 2, 1)) << "one block does nothing";
  EXPECT_EQ(grid_of({}, 2 * kMaxGridAxis, {}), Axes(kMaxGridAxis, 2, 1));
  for (const std::uint64_t blocks :
       {2 * kMaxGridAxis + 1, 3 * kMaxGridAxis + 7, std::uint64_t{INT32_MAX} - 1, std::uint64_t{INT32_MAX}}) {
    const auto [x, y, z] = grid_of({}, blocks, {});
    EXPECT_LE(x, kMaxGridAxis);
    EXPECT_EQ(z, 1u);
    EXPECT_GE(x * y, blocks) << "a block for each piece";
    EXPECT_LT(x * y - blocks, y) << "and few more";
  }
}

// A tensor of 40 x 20 x 9 x 30 elements: its address, extents, strides.
const Slots kTensor{0x1000, 40, 20, 9, 30, 5400, 270, 30, 1};

TEST(LaunchGrid, AxesFollowTheirExtents) {
  // Pieces of 4 x 8 x 2 x 16: 10 x 3 x 5 x 2.
  EXPECT_EQ(grid_of({true, {}, {2, 8}}, 30, kTensor), Axes(1, 3, 10)) << "two axes of pieces";
  EXPECT_EQ(grid_of({true, {3, 2}, {2, 8}}, 150, kTensor), Axes(5, 3, 10)) << "three";
  EXPECT_EQ(grid_of({true, {4, 16}, {3, 2}}, 300, kTensor), Axes(2, 5, 30)) << "z has the first two of four";
  EXPECT_EQ(grid_of({true, {1, 4}, {3, 2}}, 150, kTensor), Axes(10, 5, 3)) << "z has the axis in the middle";
  EXPECT_EQ(grid_of({true, {2, 8}, {}}, 30, kTensor), Axes(3, 1, 10));
  EXPECT_EQ(grid_of({false, {3, 2}, {2, 8}}, 150, kTensor), Axes(150, 1, 1)) << "they are not used";
}

TEST(LaunchGrid, TheLastPieceOfAnAxisNeedNotBeFull) {
  for (const std::int64_t extent : {1, 2, 8, 1024})
    for (const std::uint64_t pieces : {std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{65535}}) {
      const GridAxes grid{true, {}, {0, extent}};
      const std::uint64_t full = pieces * static_cast<std::uint64_t>(extent);
      EXPECT_EQ(grid_of(grid, 7 * pieces, {full}), Axes(1, pieces, 7));
      EXPECT_EQ(grid_of(grid, 7 * pieces, {full - static_cast<std::uint64_t>(extent) + 1}), Axes(1, pieces, 7));
      EXPECT_EQ(grid_of(grid, 7 * (pieces + 1), {full + 1}), Axes(1, pieces + 1, 7));
    }
}

/// Nothing is divided by it: a launch that is read from elsewhere may say anything.
TEST(LaunchGrid, AnEmptyAxisHasABlock) {
  EXPECT_EQ(grid_of({true, {0, 8}, {1, 8}}, 6, {0, 16}), Axes(1, 2, 3));
  EXPECT_EQ(grid_of({true, {0, 8}, {1, 8}}, 6, {16, 0}), Axes(2, 1, 3));
  EXPECT_EQ(grid_of({true, {0, 8}, {1, 8}}, 6, {0, 0}), Axes(1, 1, 6));
  EXPECT_EQ(grid_of({true, {}, {0, 8}}, 6, {0}), Axes(1, 1, 6));
}

TEST(LaunchGrid, NoNumberEndsTheProgram) {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 32, kMost = 0x7FFFFFFF;
  EXPECT_EQ(grid_of({true, {0, 1}, {1, 1}}, 6, {kFar, kFar}), Axes(kMost, kMost, 0)) << "the driver rejects it";
}

TEST(LaunchGrid, ABlockMayHaveSeveralPieces) {
  jit::Code code;
  const auto blocks_of = [&](std::uint64_t pieces) { return axes_of(launch_grid(code, pieces, false, {})); };
  EXPECT_EQ(blocks_of(10), Axes(10, 1, 1));
  code.abi.pieces = 4;
  EXPECT_EQ(blocks_of(8), Axes(2, 1, 1));
  EXPECT_EQ(blocks_of(9), Axes(3, 1, 1)) << "the last has one";
  EXPECT_EQ(blocks_of(1), Axes(1, 1, 1));
  EXPECT_EQ(blocks_of(4 * kMaxGridAxis), Axes(kMaxGridAxis, 1, 1));
  EXPECT_EQ(blocks_of(4 * kMaxGridAxis + 1), Axes((kMaxGridAxis + 1) / 2, 2, 1));
}

TEST(LaunchGrid, PersistentBlocksFillTheDeviceOnce) {
  jit::Code code;
  code.abi.persistent_blocks = 132;
  const auto blocks_of = [&](std::uint64_t most) { return axes_of(launch_grid(code, most, true, {})); };
  EXPECT_EQ(blocks_of(100000), Axes(132, 1, 1));
  EXPECT_EQ(blocks_of(132), Axes(132, 1, 1));
  EXPECT_EQ(blocks_of(5), Axes(5, 1, 1)) << "there is no more work";
  EXPECT_EQ(axes_of(launch_grid(code, 100000, false, {})), Axes(100000, 1, 1)) << "one block for each piece";
}

TEST(LaunchGrid, CodeSaysWhichAxes) {
  jit::Code code;
  code.abi.grid = {true, {3, 2}, {2, 8}};
  EXPECT_EQ(axes_of(launch_grid(code, 150, false, kTensor)), Axes(5, 3, 10));
}

/// tests/passes runs kernels over a grid of its own making, for it may not use the launcher's.
TEST(LaunchGrid, IsTheOneOverWhichPassesAreTested) {
  std::mt19937_64 rng(1);
  const auto any = [&](std::initializer_list<std::int64_t> of) { return of.begin()[rng() % of.size()]; };
  for (int i = 0; i < 2000; ++i) {
    Slots slots{0x1000};
    std::vector<std::int64_t> piece;
    std::uint64_t pieces = 1;
    const auto rank = static_cast<int>(2 + rng() % 3);
    for (int a = 0; a < rank; ++a) {
      piece.push_back(any({1, 2, 8, 64}));
      slots.push_back(1 + rng() % 60);
      const auto extent = static_cast<std::uint64_t>(piece.back());
      pieces *= (slots.back() + extent - 1) / extent;
    }
    const auto axis = [&](int a) { return calling::GridAxis{1 + a, piece[static_cast<std::size_t>(a)]}; };
    passes::Choices choices;
    if (rng() % 4 != 0)
      choices.abi.grid = {true, rank > 2 ? axis(rank - 1) : calling::GridAxis{}, axis(rank > 2 ? rank - 2 : 1)};
    if (!choices.abi.grid.used) choices.abi.pieces = static_cast<int>(any({1, 2, 32}));
    jit::Code code;
    code.abi.pieces = choices.abi.pieces;
    code.abi.grid = choices.abi.grid;
    const cpu::Grid wanted = test::grid_of(choices, pieces, slots);
    EXPECT_EQ(axes_of(launch_grid(code, pieces, false, slots)), Axes(wanted.x, wanted.y, wanted.z));
  }
}

}  // namespace THIS_FILE
}  // namespace tessera::detail
