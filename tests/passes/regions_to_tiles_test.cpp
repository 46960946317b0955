// Operands of products that are loaded as regions: those that are whole tiles of their tensor become loads of tiles,
// the others stay what they are, and every element is what it was.
#include <limits>
#include <random>

#include "base/rounds.hpp"
#include "passes/pass_support.hpp"
#include "passes/passed.hpp"

namespace tessera::test {
namespace THIS_FILE {

constexpr std::int64_t kRows = 64, kColumns = 32, kWidth = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A start along one axis: base * scale + more.
struct Along {
  enum class Base : std::uint8_t { Zero, Block, Loop, Argument };
  Base base = Base::Zero;
  int scale = 1, more = 0;
};
using enum Along::Base;

struct Form {
  Along plane, rows, columns;
  float padding = 0;
  bool guarded = false;  ///< only where the argument is a number of a tile of rows
};
Form form;  // NOLINT: what the kernel below records

Tile<i32> start(const Along& a, const Tile<i32>& block, const Tile<i32>& step, const Tile<i32>& argument) {
  const Tile<i32> base = a.base == Block ? block : a.base == Loop ? step : a.base == Argument ? argument : Tile<i32>(0);
  return base * a.scale + a.more;
}

/// Regions of x times tiles of w, in a loop over the tiles.
void product(Mut<f32, kRows, kWidth> y, In<f32, dyn, dyn, dyn> x, In<f32, dyn, kWidth> w, Scalar<i32> argument) {
  auto [block, zero] = y.index();
  auto weights = w.tiles(shape<kColumns, kWidth>);
  auto sum = zeros<f32, kRows, kWidth>();
  for (auto k : range(weights.count(0))) {
    const auto step = [&] {
      const auto at = [&](const Along& a) { return start(a, block, k, argument); };
      const auto tile =
          x.load_at(shape<1, kRows, kColumns>, at(form.plane), at(form.rows), at(form.columns), pad(form.padding));
      sum = mma(reshape(tile, shape<kRows, kColumns>), weights.load(k, 0), sum);
    };
    if (form.guarded) {
      tile_if (argument >= 0 && argument < x.dim(1) / static_cast<int>(kRows)) { step(); }
    } else {
      step();
    }
  }
  y.store(sum);
}

/// Regions of x that the passes load as tiles, of the only one in the kernel.
int whole_tiles(const passes::Tuning& tuning, const Form& recorded_form, const Array<float>& y, const Array<float>& x,
                const Array<float>& w, int argument = 0) {
  form = recorded_form;
  const int blocks = static_cast<int>((y.dims[0] + kRows - 1) / kRows);
  const Passed p = expect_same<&product>(tuning, blocks, y, x, w, argument);
  const Recorded r = recorded<&product>();
  std::vector<std::uint64_t> slots = r.slots({y.dims, x.dims, w.dims});
  slots.back() = static_cast<std::uint64_t>(argument);
  const Passed early = passed(r, slots, tuning, "regions_to_tiles");
  return 1 - count(*early.module, ir::Op::LoadPtrTko);
}
int whole_tiles(const Form& f, std::vector<std::int64_t> x, std::int64_t rows = 128, std::int64_t steps = 3,
                int argument = 0) {
  return whole_tiles({}, f, Array<float>({rows, kWidth}, 5), Array<float>(std::move(x)).each(number),
                     Array<float>({steps * kColumns, kWidth}).each(number), argument);
}
constexpr Along kPlane{Zero, 1, 1}, kByRows{Block, static_cast<int>(kRows), 0},
    kByColumns{Loop, static_cast<int>(kColumns), 0};

TEST(RegionsToTiles, MultiplesOfTheTileInsideTheTensor) {
  const Form tiles{kPlane, kByRows, kByColumns};
  EXPECT_EQ(whole_tiles(tiles, {2, 128, 96}), 1);
  EXPECT_EQ(whole_tiles(tiles, {2, 127, 95}), 1) << "the last ones reach beyond the tensor";
  EXPECT_EQ(whole_tiles(tiles, {2, 65, 65}), 1) << "by one element";
  EXPECT_EQ(whole_tiles(tiles, {2, 64, 96}), 0) << "the rows of the second block are outside";
  EXPECT_EQ(whole_tiles(tiles, {2, 128, 64}), 0) << "the columns of the last step are outside";
  EXPECT_EQ(whole_tiles(tiles, {1, 128, 96}), 0) << "there is no second plane";
  EXPECT_EQ(whole_tiles({kPlane, kByRows, {Zero, 1, 32}}, {2, 128, 33}), 1);
  EXPECT_EQ(whole_tiles({kPlane, kByRows, {Zero, 1, 32}}, {2, 128, 32}), 0);
  EXPECT_EQ(whole_tiles({{Loop, 1, 0}, kByRows, {}}, {3, 128, 32}), 1) << "an axis of one element has any start";
  EXPECT_EQ(whole_tiles({{Loop, 1, 1}, kByRows, {}}, {3, 128, 32}), 0) << "but not beyond the tensor";
  EXPECT_EQ(whole_tiles({{Loop, 2, 0}, {Loop, 64, 0}, {Loop, 32, 0}}, {5, 192, 96}), 1);
}

TEST(RegionsToTiles, OtherPlacesAreNoTiles) {
  EXPECT_EQ(whole_tiles({kPlane, {Block, 32, 0}, kByColumns}, {2, 500, 500}), 0) << "every other one begins in a tile";
  EXPECT_EQ(whole_tiles({kPlane, {Block, 64, 1}, kByColumns}, {2, 500, 500}), 0);
  EXPECT_EQ(whole_tiles({kPlane, {Block, 64, -64}, kByColumns}, {2, 500, 500}), 0) << "the first is outside";
  EXPECT_EQ(whole_tiles({kPlane, {Block, -64, 64}, kByColumns}, {2, 500, 500}), 1) << "both blocks are inside";
  EXPECT_EQ(whole_tiles({kPlane, {Block, -64, 64}, kByColumns}, {2, 500, 500}, 192), 0) << "the third is outside";
  EXPECT_EQ(whole_tiles({kPlane, kByRows, {Loop, 32, 16}}, {2, 500, 500}), 0);
}

TEST(RegionsToTiles, WhatAnArgumentSaysIsKnownOfTheLaunch) {
  Form f{kPlane, {Argument, 64, 0}, kByColumns};
  for (const int argument : {0, 1, -1, 1 << 26, (1 << 26) + 1, 1 << 30})
    EXPECT_EQ(whole_tiles(f, {2, 128, 96}, 64, 3, argument), argument == 0 || argument == 1 ? 1 : 0) << argument;
  f.guarded = true;
  for (const int argument : {0, 1, -1, 2, 1 << 26, (1 << 26) + 1, 1 << 30})
    EXPECT_EQ(whole_tiles(f, {2, 140, 96}, 64, 3, argument), 1) << argument;
  f.rows.more = 128;
  EXPECT_EQ(whole_tiles(f, {2, 140, 96}, 64, 3, 1), 0) << "the guard says nothing of that tile";
}

TEST(RegionsToTiles, PaddingIsThatOfAView) {
  for (const float padding : {0.0f, -0.0f, kInfinity, -kInfinity}) {
    Form f{kPlane, kByRows, kByColumns, padding};
    EXPECT_EQ(whole_tiles(f, {2, 127, 95}), 1) << padding;
  }
  EXPECT_EQ(whole_tiles({kPlane, kByRows, kByColumns, 7.0f}, {2, 127, 96}), 0) << "views have no such padding";
  EXPECT_EQ(whole_tiles({kPlane, kByRows, kByColumns, 7.0f}, {2, 128, 96}), 1) << "nothing is padded";
}

TEST(RegionsToTiles, AnywhereElementsAreTheSame) {
  std::mt19937_64 rng(7);
  const auto pick = [&](std::initializer_list<int> from) { return *(from.begin() + rng() % from.size()); };
  int found = 0, left = 0;
  const int all = std::max(static_cast<int>(rounds(150)), 50);  // so that some of both kinds are among them
  for (int i = 0; i < all; ++i) {
    const auto along = [&](int tile) {
      return Along{static_cast<Along::Base>(rng() % 4), pick({tile, tile, tile, tile, tile, 2 * tile, tile / 2, -tile}),
                   pick({0, 0, 0, 0, 0, tile, 1, -tile})};
    };
    Form f{along(1), along(kRows), along(kColumns), std::array{0.0f, 0.0f, 7.0f, -kInfinity}[rng() % 4],
           rng() % 4 == 0};
    const auto extent = [&](int tile) { return std::int64_t{tile} * pick({1, 2, 3, 4}) - pick({0, 0, 1, tile / 2}); };
    passes::Tuning tuning;
    tuning.regions_to_tiles = rng() % 8 != 0;
    const int argument = pick({0, 1, 2, -1, 64, INT32_MAX, 1 << 26});
    const int whole = whole_tiles(
        tuning, f, Array<float>({pick({1, 64, 65, 128, 190}), kWidth}, 5),
        Array<float>({pick({1, 2, 4}), std::max<std::int64_t>(extent(kRows), 1), extent(kColumns)}).each(number),
        Array<float>({pick({1, 32, 33, 96}), kWidth}).each(number), argument);
    EXPECT_LE(whole, tuning.regions_to_tiles ? 1 : 0) << "round " << i;
    (whole == 1 ? found : left) += 1;
    if (HasFailure()) FAIL() << "round " << i;
  }
  EXPECT_GT(found, all / 30);
  EXPECT_GT(left, all / 30);
}

/// That product with loads of tiles instead of regions.
void product_of_tiles(Mut<f32, 64, 64> y, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto [i, j] = y.index();
  auto A = a.tiles(shape<64, 32>);
  auto B = b.tiles(shape<32, 64>);
  auto sum = zeros<f32, 64, 64>();
  for (auto k : range(A.count(1))) sum = mma(A.load(i, k), B.load(k, j), sum);
  y.store(sum);
}
void product_of_regions(Mut<f32, 64, 64> y, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto [i, j] = y.origin();
  auto A = a.tiles(shape<64, 32>);
  auto sum = zeros<f32, 64, 64>();
  for (auto k : range(A.count(1)))
    sum = mma(a.load_at(shape<64, 32>, i, k * 32), b.load_at(shape<32, 64>, k * 32, j), sum);
  y.store(sum);
}
/// How many accesses, products, loops, branches and additions there are.
std::vector<int> operations(const ir::Module& module) {
  std::vector<int> all;
  for (const ir::Op op : {ir::Op::LoadPtrTko, ir::Op::LoadViewTko, ir::Op::StoreViewTko, ir::Op::MmaF, ir::Op::For,
                          ir::Op::If, ir::Op::AddI, ir::Op::MulI, ir::Op::DivI, ir::Op::MakePartitionView})
    all.push_back(count(module, op));
  return all;
}

TEST(RegionsToTiles, TheCodeIsThatOfLoadsOfTiles) {
  for (const std::int64_t n : {128, 100, 96}) {
    const std::vector<std::vector<std::int64_t>> dims{{n, n}, {n, n}, {n, n}};
    const Passed regions = passed<&product_of_regions>(dims, {}), tiles = passed<&product_of_tiles>(dims, {});
    EXPECT_EQ(operations(*regions.module), operations(*tiles.module)) << ir::print(*regions.module);
    EXPECT_EQ(regions.choices, tiles.choices);
    EXPECT_EQ(inbounds(*regions.module), inbounds(*tiles.module));
    EXPECT_EQ(count(*regions.module, ir::Op::ShRI), 0) << "indices are what the kernel multiplied";
  }
  passes::Tuning off;
  off.regions_to_tiles = false;
  EXPECT_EQ(count(*passed<&product_of_regions>({{128, 128}, {128, 128}, {128, 128}}, off).module, ir::Op::LoadPtrTko),
            2);
}

/// Without a certifier nothing is known of products that may wrap, and indices are divided by a shift.
TEST(RegionsToTiles, IndicesAreExactWithoutACertifier) {
  const Recorded r = recorded<&product_of_regions>();
  const std::vector<std::vector<std::int64_t>> dims{{100, 100}, {100, 100}, {100, 100}};
  const auto module = ir::clone(*r.trace.module);
  const auto claims = r.facts.claims_of(*module);
  passes::Work work;
  work.claims = claims;
  work.predicates = r.held(dims);
  work.contract = &r.contract;
  work.stop_after = "regions_to_tiles";
  const passes::Passed made = passes::run_passes(*module, {90, 132}, nullptr, work);
  EXPECT_EQ(made.whole_tiles.size(), 2u);
  EXPECT_EQ(problems(*module), "");
  EXPECT_EQ(count(*module, ir::Op::LoadPtrTko), 0);
  EXPECT_GT(count(*module, ir::Op::ShRI), 0);
  const auto run = [&](const ir::Module& m) {
    Array<float> y({100, 100}, 5), a({100, 100}), b({100, 100});
    a.each(number), b.each(number);
    Slots slots;
    slots.add(y), slots.add(a), slots.add(b);
    cpu::Program::compile(m)->run({4, 1, 1}, slots.values(), {});
    return y.data;
  };
  EXPECT_EQ(run(*module), run(*r.trace.module));
}

TEST(RegionsToTiles, NotForTheCpuAndNotWithoutAContract) {
  const Recorded r = recorded<&product_of_regions>();
  const auto loads = [&](const passes::Target& target, const analysis::LaunchContract* contract) {
    const auto module = ir::clone(*r.trace.module);
    const auto claims = r.facts.claims_of(*module);
    passes::Work work;
    work.claims = claims;
    work.predicates = ~std::uint64_t{0};
    work.contract = contract;
    work.stop_after = "regions_to_tiles";
    (void)passes::run_passes(*module, target, nullptr, work);
    return count(*module, ir::Op::LoadPtrTko);
  };
  EXPECT_EQ(loads({90, 132}, &r.contract), 0);
  EXPECT_EQ(loads({0, 4}, &r.contract), 2);
  EXPECT_EQ(loads({90, 132}, nullptr), 2);
}

/// What is left: tiles that are not multiplied, small ones, and a tensor that the kernel writes.
void summed(Mut<f32, 64> y, In<f32, dyn, dyn> x) {
  auto [i] = y.origin();
  y.store(reshape(sum(x.load_at(shape<64, 32>, i, 0), axis<1>), shape<64>));
}
void small(Mut<f32, 16, 16> y, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto [i, j] = y.origin();
  y.store(mma(a.load_at(shape<16, 16>, i, 0), b.load_at(shape<16, 16>, 0, j), zeros<f32, 16, 16>()));
}
TEST(RegionsToTiles, OnlyLargeOperandsOfProducts) {
  const auto loads = [](const Passed& p) { return count(*p.module, ir::Op::LoadPtrTko); };
  EXPECT_EQ(loads(passed<&summed>({{64}, {64, 32}}, {}, "regions_to_tiles")), 1);
  EXPECT_EQ(loads(passed<&small>({{16, 16}, {16, 16}, {16, 16}}, {}, "regions_to_tiles")), 2);
}

/// Tensors whose contiguous axis is the first, and static extents.
void permuted(Mut<f32, 64, 64> y, In<f32, dyn, dyn> a, In<f32, 96, 64> b) {
  auto [i, j] = y.origin();
  auto at = a.permuted(order<1, 0>);
  auto sum = zeros<f32, 64, 64>();
  for (auto k : range(3)) sum = mma(at.load_at(shape<64, 32>, i, k * 32), b.load_at(shape<32, 64>, k * 32, 0), sum);
  y.store(sum);
}
TEST(RegionsToTiles, PermutedTensorsAndStaticExtents) {
  for (const std::int64_t rows : {64, 100}) {
    const Passed p = expect_same<&permuted>({}, static_cast<int>((rows + 63) / 64), Array<float>({rows, 64}, 5),
                                            Array<float>({96, rows}).each(number), Array<float>({96, 64}).each(number));
    EXPECT_EQ(count(*p.module, ir::Op::LoadPtrTko), 0) << ir::print(*p.module);
  }
}

/// Two axes with one start.
void diagonal(Mut<f32, 64, 32> y, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto [i, j] = y.origin();
  y.store(mma(a.load_at(shape<64, 32>, i, i), b.load_at(shape<32, 32>, i * 0, j), zeros<f32, 64, 32>()));
}
TEST(RegionsToTiles, OneStartForTwoAxes) {
  for (const std::int64_t n : {64, 100, 200})
    (void)expect_same<&diagonal>({}, static_cast<int>((n + 63) / 64), Array<float>({n, 32}, 5),
                                 Array<float>({n, n}).each(number), Array<float>({32, 32}).each(number));
}

}  // namespace THIS_FILE
}  // namespace tessera::test
