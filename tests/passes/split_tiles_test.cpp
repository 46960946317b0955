// Rows that leave much of their tile empty: what kernels become, that they compute the same numbers, and which are left
// alone. Numbers whose sums are exact: the order of a sum changes.
#include <algorithm>

#include "base/rounds.hpp"
#include "passes/pass_support.hpp"
#include "passes/passed.hpp"
#include "passes/tile_axis.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::test {
namespace THIS_FILE {

constexpr std::int64_t kTile = 256;  // of the kernels below

/// Extents of the last axes of all loads and stores, in program order.
std::vector<std::int64_t> lengths(const ir::Module& module) {
  std::vector<std::int64_t> found;
  ir::walk(module.functions[0]->body(), [&](const ir::Operation& op) {
    if (const auto access = analysis::access_of(op)) found.push_back(access->tile.shape().back());
  });
  return found;
}
bool has_tile(const ir::Module& module, std::int64_t extent) {
  bool found = false;
  ir::walk(module.functions[0]->body(), [&](const ir::Operation& op) {
    for (std::size_t r = 0; r < op.num_results(); ++r)
      if (const ir::Type t = op.result(r).type(); t.is_tile())
        found = found || std::ranges::find(t.shape(), extent) != t.shape().end();
  });
  return found;
}
/// True if rows of this length are done in two tiles.
template <auto K>
bool splits(std::int64_t columns, std::size_t tensors = 2, const passes::Tuning& tuning = {}) {
  const std::vector<std::vector<std::int64_t>> dims(tensors, {3, columns});
  const Passed before = passed<K>(dims, tuning, "version_guards"), after = passed<K>(dims, tuning, "split_tiles");
  EXPECT_TRUE(has_tile(*before.module, kTile));
  const bool split = !has_tile(*after.module, kTile);
  EXPECT_EQ(lengths(*after.module) != lengths(*before.module), split);
  return split;
}

/// The tiles that such a row is done in.
std::vector<std::int64_t> parts_of(std::int64_t columns) {
  if (columns > 192) return {256};
  if (columns > 160) return {128, 64};
  if (columns > 128) return {128, 32};
  if (columns > 96) return {128};
  if (columns > 64) return {64, 32};
  return {64};
}

float small(std::int64_t i) { return static_cast<float>((i * 37) % 19 - 9); }
std::int32_t whole(std::int64_t i) { return static_cast<std::int32_t>((i * 7919) % 1009 - 504); }

/// The same bits in rows of every kind of length, with one row per block and with several.
template <auto K, class T>
void expect_same_rows(T (*number)(std::int64_t), bool is_split = true) {
  for (const std::int64_t columns : {1, 63, 64, 65, 90, 96, 97, 128, 129, 144, 160, 161, 176, 192, 193, 256}) {
    EXPECT_EQ(splits<K>(columns), columns <= 192 && is_split) << columns;
    for (const int pieces : {1, 2, 4}) {
      if (kSanitizer && pieces != 2) continue;
      SCOPED_TRACE(std::to_string(columns) + " columns, pieces " + std::to_string(pieces));
      passes::Tuning tuning;
      tuning.pieces = pieces;
      expect_same<K>(tuning, 5, Array<T>({5, columns}, 5), Array<T>({5, columns}).each(number));
    }
  }
}

template <class T>
auto inside(const T& x) {
  return iota<i32, 1, kTile>(axis<1>) < x.dim(1);
}

// ---- what becomes of kernels ----------------------------------------------------------------------------------------

void centred(Mut<f32, 1, kTile> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  auto d = where(inside(x), t - sum(t, axis<1>), 0.0f);
  y.store(d * sum(d * d, axis<1>));
}
TEST(SplitTiles, ARowIsDoneInTheTilesThatItFills) {
  for (const std::int64_t columns : {1, 64, 65, 96, 97, 128, 129, 160, 161, 192, 193, 255, 256}) {
    std::vector<std::int64_t> twice = parts_of(columns);  // of the load, of the store
    for (const std::int64_t n : parts_of(columns)) twice.push_back(n);
    EXPECT_EQ(lengths(*passed<&centred>({{3, columns}, {3, columns}}, {}, "split_tiles").module), twice) << columns;
  }
  const Passed p = passed<&centred>({{3, 150}, {3, 150}}, {}, "split_tiles");
  EXPECT_EQ(count(*p.module, ir::Op::Reduce), 4);
  EXPECT_FALSE(has_tile(*p.module, kTile));
}
TEST(SplitTiles, NothingOfTheRestIsLeftWhereItAddsNothing) {
  const Passed p = passed<&centred>({{3, 150}, {3, 150}}, {}, "split_tiles");
  EXPECT_EQ(count(*p.module, ir::Op::AddF), 6) << "four in reductions, two that combine them: " << ir::print(*p.module);
}
TEST(SplitTiles, TheSwitchAndTheFallbackFormLeaveTilesWhole) {
  passes::Tuning off;
  off.split_tiles = false;
  EXPECT_FALSE(splits<&centred>(150, 2, off));
  EXPECT_TRUE(splits<&centred>(150));
}
TEST(SplitTiles, OnlyWhatIsCertified) {
  const Recorded r = recorded<&centred>();
  const std::vector<std::vector<std::int64_t>> dims{{3, 150}, {3, 150}};
  Passed p = passed(r, dims, {}, "version_guards");
  const std::string before = ir::print(*p.module);
  EXPECT_FALSE(passes::split_tiles(*p.module->functions[0], nullptr));
  EXPECT_EQ(ir::print(*p.module), before);
}

void weighted(Mut<f32, 1, kTile> y, In<f32, dyn, dyn> x, In<f32, dyn> weight) {
  auto t = x.load_like(y);
  y.store(t * weight.load_like(y, axes<1>) + sum(t, axis<1>));
}
TEST(SplitTiles, VectorsAsLongAsRows) {
  const auto parts = [](std::int64_t columns, std::int64_t weights) {
    return lengths(*passed<&weighted>({{3, columns}, {3, columns}, {weights}}, {}, "split_tiles").module);
  };
  EXPECT_EQ(parts(150, 150), (std::vector<std::int64_t>{128, 32, 128, 32, 128, 32}));
  EXPECT_EQ(parts(150, 200), (std::vector<std::int64_t>{256, 256, 256})) << "nothing is known of its length";
  for (const std::int64_t weights : {150, 140, 200})
    expect_same<&weighted>({}, 5, Array<float>({5, 150}, 5), Array<float>({5, 150}).each(small),
                           Array<float>({weights}).each(small));
}

/// An access at a tile index beyond its tensor is undefined on a GPU: every part has to exist in every tensor.
void with_a_few(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x, In<i32, 64> few) {
  y.store(x.load_like(y) + reshape(few.tiles(shape<kTile>).load(0), shape<1, kTile>));
}
void two_lengths(Mut<i32, 1, kTile> y, Mut<i32, 1, kTile> z, In<i32, dyn, dyn> x, In<i32, dyn, dyn> w) {
  auto t = x.load_like(y) + w.load_like(z);
  y.store(t);
  z.store(t * 2);
}
TEST(SplitTiles, NoPartLiesBeyondATensor) {
  const auto few = [](std::int64_t n) {
    return lengths(*passed<&with_a_few>({{3, n}, {3, n}, {64}}, {}, "split_tiles").module);
  };
  EXPECT_EQ(few(60), (std::vector<std::int64_t>{64, 64, 64}));
  EXPECT_EQ(few(90), (std::vector<std::int64_t>{256, 256, 256})) << "the second part would begin at 64";
  EXPECT_EQ(few(150), (std::vector<std::int64_t>{256, 256, 256}));
  const auto two = [](std::int64_t n, std::int64_t m) {
    return lengths(*passed<&two_lengths>({{3, n}, {3, m}, {3, n}, {3, m}}, {}, "split_tiles").module);
  };
  EXPECT_EQ(two(150, 140), (std::vector<std::int64_t>{128, 32, 128, 32, 128, 32, 128, 32}));
  EXPECT_EQ(two(150, 90), (std::vector<std::int64_t>{256, 256, 256, 256}));
}

// ---- reductions and what lies beyond the row ------------------------------------------------------------------------

void statistics(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);  // zeros beyond the row count in extremes
  y.store(t * 3 - sum(t, axis<1>) + max(t, axis<1>) * 5 - min(t, axis<1>) * 7);
}
TEST(SplitTiles, SumsAndExtremes) { expect_same_rows<&statistics>(&whole); }

void last_of_a_row(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t + reduce(t % 3, axis<1>, 0, [](auto before, auto here) { return where(here != 0, here, before); }));
}
TEST(SplitTiles, PartsAreCombinedInTheirOrder) { expect_same_rows<&last_of_a_row>(&whole); }

void sums_of_what_is_beyond(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t + sum(where(inside(x), t, 7), axis<1>) + sum(t * 2 + 1, axis<1>));
}
TEST(SplitTiles, WhatLiesBeyondCountsAsOftenAsItIsThere) { expect_same_rows<&sums_of_what_is_beyond>(&whole); }

void sums_of_floats_beyond(Mut<f32, 1, kTile> y, In<f32, dyn, dyn> x) {
  auto t = x.load_like(y);
  auto top = max(x.load_like(y, pad::neg_inf), axis<1>);
  y.store(t + sum(exp(t * 0.0f), axis<1>) + top);
}
TEST(SplitTiles, FloatsBeyondTheRowAndPaddingOfAnExtreme) { expect_same_rows<&sums_of_floats_beyond>(&small); }

void bits(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t + where(all(t < 600, axis<1>), 1, 2) + where(any((t == 0) & inside(x), axis<1>), 10, 20));
}
TEST(SplitTiles, AnyAndAll) { expect_same_rows<&bits>(&whole); }

void largest_place(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t + argmax(t, axis<1>).index);
}
/// One addition, but not of both elements.
void doubled(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t + reduce(t + 5, axis<1>, 0, [](auto, auto b) { return b + b; }));
}
void products(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t + prod(t + 2, axis<1>));
}
void places(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t + sum(where(t > 3, iota<i32, 1, kTile>(axis<1>), 0) + 1, axis<1>));
}
void places_and_numbers(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t + sum(t + iota<i32, 1, kTile>(axis<1>), axis<1>));
}
TEST(SplitTiles, WhereTheRestIsNotKnown) {
  expect_same_rows<&largest_place>(&whole, false);
  expect_same_rows<&products>(&whole, false);
  expect_same_rows<&places_and_numbers>(&whole, false);
  EXPECT_FALSE(splits<&doubled>(150));
}
void products_inside(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  y.store(t + prod(where(inside(x), t | 1, 1), axis<1>));
}
void places_inside(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  auto place = iota<i32, 1, kTile>(axis<1>);
  y.store(t + place + sum(where(inside(x), place * t, 0), axis<1>));
}
TEST(SplitTiles, WhereTheRestIsMasked) {
  expect_same_rows<&products_inside>(&whole);
  expect_same_rows<&places_inside>(&whole);
  expect_same_rows<&places>(&whole);  // zeros are not above 3
}

// ---- what is left alone ---------------------------------------------------------------------------------------------

TEST(SplitTiles, ASingleIndexThatIsBroadcastDoesNotCount) {
  Kernel k;
  const ir::Type row = ir::Type::tile(ir::Elem::I32, {kTile}), one = ir::Type::tile(ir::Elem::I32, {1});
  EXPECT_EQ(passes::axis_counted(k.op(ir::Op::Iota, {}, row)), 0u);
  EXPECT_EQ(passes::axis_counted(k.op(ir::Op::Broadcast, {k.op(ir::Op::Iota, {}, one)}, row)), std::nullopt);
}

void scanned(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) { y.store(cumsum(x.load_like(y), axis<1>)); }
void folded(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = reshape(x.load_like(y), shape<1, 2, 128>);
  y.store(reshape(t + sum(t, axis<1>), shape<1, kTile>));
}
void carried(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y), s = t;
  for ([[maybe_unused]] auto k : range(5)) s = s * 2 + t;
  y.store(s);
}
TEST(SplitTiles, WhatCannotBeDoneInParts) {
  expect_same_rows<&scanned>(&whole, false);
  expect_same_rows<&folded>(&whole, false);
  expect_same_rows<&carried>(&whole, false);
}
void used_in_a_loop(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  auto s = zeros<i32, 1, 1>();
  for (auto k : range(5)) s = s + sum(t * k, axis<1>);
  y.store(t + s);
}
void transposed(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto t = transpose(x.load_like(y));
  y.store(transpose(t + sum(t, axis<0>)));
}
TEST(SplitTiles, LoopsAndTransposes) {
  expect_same_rows<&used_in_a_loop>(&whole);
  expect_same_rows<&transposed>(&whole);
}

// ---- hints ----------------------------------------------------------------------------------------------------------

template <int N>
void centred_row(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x) {
  auto t = cast<f32>(x.load_like(y));
  auto d = where(iota<i32, 1, N>(axis<1>) < x.dim(1), t - sum(t, axis<1>), 0.0f);
  y.store(cast<bf16>(d * sum(d * d, axis<1>)));
}
template <int N>
void scaled_row(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x) {
  auto t = cast<f32>(x.load_like(y));
  y.store(cast<bf16>(t * sum(t * t, axis<1>)));
}
/// Warps and blocks of an SM.
template <auto K>
std::pair<int, int> hints(std::int64_t columns) {
  const passes::Choices c = passed<K>({{3, columns}, {3, columns}}, {}).choices;
  return {c.warps, c.occupancy};
}
TEST(SplitTiles, HintsCountBothTiles) {
  EXPECT_EQ(hints<&centred_row<1024>>(640), std::pair(1, 9)) << "20 elements a thread and 32 other registers";
  EXPECT_EQ(hints<&centred_row<4096>>(2560), std::pair(1, 4)) << "one warp needs no barrier";
  EXPECT_EQ(hints<&centred_row<4096>>(3072), std::pair(1, 4));
  EXPECT_EQ(hints<&centred_row<8192>>(5120), std::pair(4, 7)) << "more than two warps hold";
  EXPECT_EQ(hints<&centred_row<8192>>(6144), std::pair(4, 6));
  EXPECT_EQ(hints<&scaled_row<1024>>(768).first, 1);
  EXPECT_EQ(hints<&scaled_row<2048>>(1536).first, 1) << "one warp needs no barrier";
  EXPECT_EQ(hints<&scaled_row<4096>>(2560).first, 2) << "the nearest";
  EXPECT_EQ(hints<&scaled_row<4096>>(3072).first, 4);
  EXPECT_EQ(hints<&scaled_row<8192>>(5120).first, 4);
  EXPECT_EQ(hints<&scaled_row<8192>>(6144).first, 8);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

/// A row is read at other places than it is written: all of it has to be read first.
void reversed_in_place(Mut<i32, 1, kTile> y, In<i32, dyn, dyn> x) {
  auto place = where(inside(x), x.dim(1) - 1 - iota<i32, 1, kTile>(axis<1>), -1);
  y.store(y.gather(zeros<i32, 1, kTile>(), place) * 2 + x.load_like(y));
}
/// Every store waits for the parts of a load: the CPU runs in program order, so only the tokens show it.
bool stores_wait_for_all_loads(const ir::Module& module, std::size_t parts) {
  bool wait = true;
  ir::walk(module.functions[0]->body(), [&](const ir::Operation& op) {
    const auto access = analysis::access_of(op);
    if (!access || !access->stores()) return;
    const ir::Operation* join = access->token ? access->token.def() : nullptr;
    wait =
        wait && join != nullptr && (parts == 1 || (join->op() == ir::Op::JoinTokens && join->num_operands() >= parts));
  });
  return wait;
}
TEST(SplitTiles, ARowIsReadBeforeAPartOfItIsWritten) {
  for (const std::int64_t columns : {129, 150, 160, 190, 250}) {
    passes::Tuning one;
    one.pieces = 1;
    EXPECT_EQ(splits<&reversed_in_place>(columns), columns <= 192);
    EXPECT_TRUE(stores_wait_for_all_loads(
        *passed<&reversed_in_place>({{5, columns}, {5, columns}}, one, "split_tiles").module, columns <= 192 ? 2 : 1));
    expect_same<&reversed_in_place>(one, 5, Array<std::int32_t>({5, columns}).each(whole),
                                    Array<std::int32_t>({5, columns}, 3));
  }
}

void added(Acc<i32, dyn> sums, In<i32, dyn, dyn> x) {
  auto [row] = block_id<1>();
  auto t = x.tiles(shape<1, kTile>).load(row, 0);
  auto column = iota<i32, 1, kTile>(axis<1>);
  sums.add(where(column < x.dim(1), column, -1), t);
}
/// Rows of one element more than 128 and 32.
void added_of_161(Acc<i32, dyn> sums, In<i32, dyn, 161> x) {
  auto [row] = block_id<1>();
  auto column = iota<i32, 1, kTile>(axis<1>);
  sums.add(where(column < x.dim(1), column, -1), x.tiles(shape<1, kTile>).load(row, 0));
}
TEST(SplitTiles, AtomicAdditionsOfWhatIsInside) {
  EXPECT_EQ(lengths(*passed<&added_of_161>({{161}, {5, 161}}, {}, "split_tiles", 5).module),
            (std::vector<std::int64_t>{128, 64, 128, 64}));
  expect_same<&added_of_161>({}, 5, Array<std::int32_t>({161}, 5), Array<std::int32_t>({5, 161}).each(whole));

  EXPECT_FALSE(has_tile(*passed<&added>({{150}, {5, 150}}, {}, "split_tiles", 5).module, kTile));
  for (const std::int64_t columns : {50, 100, 150, 180, 250})
    expect_same<&added>({}, 5, Array<std::int32_t>({columns}, 5), Array<std::int32_t>({5, columns}).each(whole));
}

}  // namespace THIS_FILE
}  // namespace tessera::test
