// A thread moves equally many elements of all tiles that are combined, and every element stays what it was.
#include <map>
#include <set>

#include "passes/passed.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"

namespace tessera::test {
namespace THIS_FILE {

template <class T>
Array<T> numbers(std::vector<std::int64_t> dims) {
  return Array<T>(std::move(dims)).each([](std::int64_t i) { return T(number(i)); });
}

/// Bytes that a thread moves at a time, of each load and store, by the bytes of an element.
std::map<std::int64_t, std::set<std::int64_t>> widths(const Passed& p) {
  std::map<std::int64_t, std::set<std::int64_t>> found;
  const ir::Function& f = *p.module->functions.front();
  const analysis::Divisibility known(f);
  ir::walk(f.body(), [&](const ir::Operation& op) {
    if (const auto access = analysis::access_of(op))
      found[ir::info(access->tile.elem()).bytes].insert(analysis::vector_bytes(op, known));
  });
  return found;
}
/// Why accesses of elements of so many bytes are narrow.
std::set<analysis::WidthLimit> limits(const Passed& p, int bytes) {
  std::set<analysis::WidthLimit> found;
  const ir::Function& f = *p.module->functions.front();
  const analysis::Divisibility known(f);
  ir::walk(f.body(), [&](const ir::Operation& op) {
    const auto access = analysis::access_of(op);
    if (access && ir::info(access->tile.elem()).bytes == bytes) found.insert(analysis::width_of(op, known).limit);
  });
  return found;
}
using Widths = std::map<std::int64_t, std::set<std::int64_t>>;

/// Nearly all neighbours along rows begin between two vectors.
template <class T, int From, int To>
void sum_of_neighbours(Mut<T, 16, 128> y, In<T, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = zeros<f32, 16, 128>();
  for (int d = From; d <= To; ++d) s += cast<f32>(x.load_at(shape<16, 128>, i, j + d));
  y.store(cast<T>(s));
}
/// Most are rows above and below, which begin where vectors do.
void mostly_aligned(Mut<f32, 16, 128> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = x.load_at(shape<16, 128>, i, j + 1);
  for (int d = -2; d <= 2; ++d) s += x.load_at(shape<16, 128>, i + d, j);
  y.store(s);
}
/// One narrow access before a loop over aligned ones.
void narrow_start(Mut<f32, 16, 128> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = x.load_at(shape<16, 128>, i, j + 1);
  for (auto d : range(x.dim(0))) s += x.load_at(shape<16, 128>, i - d, j);
  y.store(s);
}
/// The loop has the narrow accesses.
void narrow_loop(Mut<f32, 16, 128> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  auto s = x.load_at(shape<16, 128>, i - 1, j) + x.load_at(shape<16, 128>, i + 1, j) + x.load_like(y);
  for (auto d : range(x.dim(0))) s += x.load_at(shape<16, 128>, i, j + 2 * d + 1);
  y.store(s);
}

/// Gathers in a loop, whose places follow from what they loaded before; or one gather.
template <bool Loops>
void follow_links(Mut<i32, 1, 1024> y, In<i32, dyn, dyn> x, In<i32, dyn> next) {
  auto at = x.load_like(y);
  if constexpr (Loops) {
    auto steps = zeros<i32, 1, 1024>();
    tile_while(any(at >= 0)) {
      steps += where(at >= 0, 1, 0);
      at = where(at >= 0, next.gather(at), at);
    }
    y.store(steps);
  } else {
    y.store(next.gather(at));
  }
}

/// Nothing begins where vectors do.
void shifted_products(Mut<f32, 16> y, In<f32, dyn, dyn> x) {
  auto [i] = y.origin();
  auto left = x.load_at(shape<16, 128>, i, -2), right = x.load_at(shape<16, 128>, i, 2);
  y.store(reshape(sum(left * right, axis<1>), shape<16>));
}

passes::Tuning without() { return passes::parse_tuning("widths=0"); }

void add_mixed(Mut<bf16, 4, 512> y, In<bf16, dyn, dyn> x, In<f32, dyn, dyn> z) {
  y.store(cast<bf16>(cast<f32>(x.load_like(y)) + z.load_like(y)));
}
void add_equal(Mut<f32, 4, 512> y, In<f32, dyn, dyn> x, In<f32, dyn, dyn> z) {
  y.store(x.load_like(y) + z.load_like(y));
}
void add_small(Mut<f32, 2, 64> y, In<f32, dyn, dyn> x, In<bf16, dyn, dyn> z) {
  y.store(x.load_like(y) + cast<f32>(z.load_like(y)));
}
/// Through a loop's carried tile, a reshape and a broadcast.
void scaled_sums(Mut<f32, 4> y, In<bf16, dyn> row, In<f8e4m3, dyn, dyn> w) {
  auto W = w.tiles(shape<4, 512>);
  auto Row = row.tiles(shape<512>);
  auto [j] = y.index();
  auto acc = zeros<f32, 4, 512>();
  for (auto k : range(W.count(1))) acc += cast<f32>(W.load(j, k)) * reshape(cast<f32>(Row.load(k)), shape<1, 512>);
  y.store(reshape(sum(acc, axis<1>), shape<4>));
}
/// A column that is repeated along the rows does not decide how a thread reads rows.
void times_column(Mut<bf16, 4, 512> y, In<bf16, dyn, dyn> x, In<f32, dyn> column) {
  auto [i, j] = y.index();
  auto c = reshape(column.tiles(shape<4>).load(i), shape<4, 1>);
  y.store(cast<bf16>(cast<f32>(x.load_like(y)) * c));
}
/// Rows are summed before they meet the others.
void minus_means(Mut<f32, 4> y, In<bf16, dyn, dyn> x, In<f32, dyn> z) {
  auto [i] = y.index();
  y.store(z.load_like(y) - reshape(sum(cast<f32>(x.tiles(shape<4, 512>).load(i, 0)), axis<1>), shape<4>));
}

TEST(MatchWidths, TheWidestElementDecides) {
  const auto y = Array<bf16>({16, 1024}), x = numbers<bf16>({16, 1024});
  const auto z = numbers<f32>({16, 1024});
  EXPECT_EQ(widths(expect_same<&add_mixed>({}, 8, y, x, z)), (Widths{{2, {8}}, {4, {16}}}));
  EXPECT_EQ(widths(expect_same<&add_mixed>(without(), 8, y, x, z)), (Widths{{2, {16}}, {4, {16}}}));
}
/// `tessera explain` advises to widen accesses by their limit, and has nothing to say of these.
TEST(MatchWidths, TheLimitOfAnAccessSaysWhy) {
  const auto y = Array<bf16>({16, 1024}), x = numbers<bf16>({16, 1024});
  const auto z = numbers<f32>({16, 1024});
  using analysis::WidthLimit;
  EXPECT_EQ(limits(expect_same<&add_mixed>({}, 8, y, x, z), 2), (std::set{WidthLimit::Matched}));
  EXPECT_EQ(limits(expect_same<&add_mixed>(without(), 8, y, x, z), 2), (std::set{WidthLimit::None}));
}
TEST(MatchWidths, ThroughLoopsReshapesAndBroadcasts) {
  const auto y = Array<f32>({8});
  const auto row = numbers<bf16>({1024});
  const auto w = numbers<f8e4m3>({8, 1024});
  const Widths found = widths(expect_same<&scaled_sums>({}, 2, y, row, w));
  EXPECT_EQ(found.at(1), (std::set<std::int64_t>{8}));
  EXPECT_EQ(found.at(2), (std::set<std::int64_t>{16}));
}
TEST(MatchWidths, EqualElementsAreLeftAlone) {
  const auto x = numbers<f32>({16, 1024});
  EXPECT_EQ(widths(expect_same<&add_equal>({}, 8, Array<f32>({16, 1024}), x, x)), (Widths{{4, {16}}}));
}
TEST(MatchWidths, SmallTilesTakeTheLayoutOfOthers) {
  const auto found =
      widths(expect_same<&add_small>({}, 16, Array<f32>({4, 512}), numbers<f32>({4, 512}), numbers<bf16>({4, 512})));
  EXPECT_EQ(found.at(2), (std::set<std::int64_t>{16}));
}
TEST(MatchWidths, WhatIsRepeatedAlongRowsDoesNotCount) {
  const auto found =
      widths(expect_same<&times_column>({}, 8, Array<bf16>({16, 1024}), numbers<bf16>({16, 1024}), numbers<f32>({16})));
  EXPECT_EQ(found.at(2), (std::set<std::int64_t>{16}));
}
TEST(MatchWidths, WhatIsReducedDoesNotCount) {
  const auto found =
      widths(expect_same<&minus_means>({}, 4, Array<f32>({16}), numbers<bf16>({16, 512}), numbers<f32>({16})));
  EXPECT_EQ(found.at(2), (std::set<std::int64_t>{16}));
}
/// Rows that begin anywhere are narrow anyway: the others stay wide.
TEST(MatchWidths, NarrowAccessesDoNotMakeOthersNarrow) {
  const auto found = widths(
      expect_same<&add_mixed>({}, 8, Array<bf16>({16, 1023}), numbers<bf16>({16, 1023}), numbers<f32>({16, 1023})));
  EXPECT_EQ(found.at(2), (std::set<std::int64_t>{2}));
  EXPECT_EQ(found.at(4), (std::set<std::int64_t>{4}));
}

/// Where most accesses move single elements, the others do as well: nothing passes through shared memory.
TEST(MatchWidths, NeighboursAlongRowsMakeAllSingle) {
  const auto x = numbers<f32>({32, 256});
  EXPECT_EQ(widths(expect_same<&sum_of_neighbours<f32, -1, 1>>({}, 4, Array<f32>({32, 256}), x)), (Widths{{4, {4}}}));
  EXPECT_EQ(widths(expect_same<&sum_of_neighbours<f32, -1, 1>>(without(), 4, Array<f32>({32, 256}), x)),
            (Widths{{4, {4, 16}}}));
  const auto half = numbers<bf16>({32, 256});
  EXPECT_EQ(widths(expect_same<&sum_of_neighbours<bf16, -1, 1>>({}, 4, Array<bf16>({32, 256}), half)),
            (Widths{{2, {2}}}));
}
/// Two columns further is half a vector of f32: such accesses become single with the others, not half of them.
TEST(MatchWidths, NeighboursHalfAVectorAwayToo) {
  const auto x = numbers<f32>({32, 256});
  EXPECT_EQ(widths(expect_same<&sum_of_neighbours<f32, -2, 2>>({}, 4, Array<f32>({32, 256}), x)), (Widths{{4, {4}}}));
  EXPECT_EQ(widths(expect_same<&sum_of_neighbours<f32, -2, 2>>(without(), 4, Array<f32>({32, 256}), x)),
            (Widths{{4, {4, 8, 16}}}));
}
/// Tiles that all begin between two vectors have one layout as they are.
TEST(MatchWidths, HalfVectorsEverywhereAreLeftAlone) {
  const auto x = numbers<f32>({32, 256});
  EXPECT_EQ(widths(expect_same<&shifted_products>({}, 2, Array<f32>({32}), x)), (Widths{{4, {8, 16}}}));
}
TEST(MatchWidths, TheLimitOfWhatIsMadeSingleSaysWhy) {
  const auto x = numbers<f32>({32, 256});
  EXPECT_EQ(limits(expect_same<&sum_of_neighbours<f32, -1, 1>>({}, 4, Array<f32>({32, 256}), x), 4),
            (std::set{analysis::WidthLimit::Base, analysis::WidthLimit::Matched}));
}
TEST(MatchWidths, FewNeighboursAlongRowsPassThroughSharedMemory) {
  const auto x = numbers<f32>({32, 256});
  EXPECT_EQ(widths(expect_same<&mostly_aligned>({}, 4, Array<f32>({32, 256}), x)), (Widths{{4, {4, 16}}}));
}
/// What a loop gathers would be converted in each iteration.
TEST(MatchWidths, WhatALoopGathersMakesAllSingle) {
  const Array<std::int32_t> y({2, 1024});
  const auto x = Array<std::int32_t>({2, 1024}).each([](std::int64_t i) { return static_cast<std::int32_t>(i % 300); });
  const auto next =
      Array<std::int32_t>({300}).each([](std::int64_t i) { return static_cast<std::int32_t>(i / 2 - 1); });
  EXPECT_EQ(widths(expect_same<&follow_links<true>>({}, 2, y, x, next)), (Widths{{4, {4}}}));
  EXPECT_EQ(widths(expect_same<&follow_links<true>>(without(), 2, y, x, next)), (Widths{{4, {4, 16}}}));
  EXPECT_EQ(widths(expect_same<&follow_links<false>>({}, 2, y, x, next)), (Widths{{4, {4, 16}}}));
}
TEST(MatchWidths, WhatALoopRepeatsCountsMore) {
  const auto x = numbers<f32>({32, 256});
  EXPECT_EQ(widths(expect_same<&narrow_start>({}, 4, Array<f32>({32, 256}), x)), (Widths{{4, {4, 16}}}));
  EXPECT_EQ(widths(expect_same<&narrow_loop>({}, 4, Array<f32>({32, 256}), x)), (Widths{{4, {4}}}));
}

}  // namespace THIS_FILE
}  // namespace tessera::test
