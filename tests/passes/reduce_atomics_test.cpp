// Atomic operations of a tile on one place: reduced first, with the same results for every operation, type, mask and
// axis; and pieces of a block that add to the same places, of kernels that are launched with a number of blocks.
#include <limits>

#include "passes/passed.hpp"

namespace tessera::test {
namespace THIS_FILE {

passes::Tuning tuned(bool on, std::optional<int> pieces = std::nullopt) {
  passes::Tuning t;
  t.combine_atomics = on;
  t.pieces = pieces;
  return t;
}

/// Elements of all atomic operations.
std::int64_t atomics(const Passed& p) {
  std::int64_t n = 0;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if (op.op() == ir::Op::AtomicRMWTko) n += op.operand(0).type().num_elements();
    });
  return n;
}

std::int32_t any(std::int64_t i) { return static_cast<std::int32_t>((i * 2654435761LL) >> 3); }
/// Whole numbers: their sums are exact in any order.
float whole(std::int64_t i) { return static_cast<float>((i * 37) % 101 - 50); }

template <class T>
void every_operation(Acc<T, dyn> y, In<T, dyn> x) {
  auto [i] = block_id<1>();
  auto t = x.tiles(shape<64>).load(i);
  y.add(0, t);
  y.max(1, t);
  y.min(2, t);
  y.bit_and(3, t);
  y.bit_or(4, t);
  y.bit_xor(5, t);
}
template <class T>
void floats(Acc<T, dyn> y, In<T, dyn> x) {
  auto [i] = block_id<1>();
  auto t = x.tiles(shape<64>).load(i);
  y.add(0, t);
  y.max(1, t);
  y.min(2, t);
}
/// A row of indices, some outside of the tensor, and a number for each.
void along_one_axis(Acc<i32, dyn> y, In<i32, dyn, dyn> x) {
  auto [i] = block_id<1>();
  auto rows = iota<i32, 4, 1>(axis<0>) * 2 + i;
  y.add(rows, x.tiles(shape<4, 32>).load(i, 0));
  y.max(iota<i32, 1, 32>(axis<1>), x.tiles(shape<4, 32>).load(i, 0));
}
void where_wanted(Acc<i32, dyn> y, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  auto t = x.tiles(shape<64>).load(i);
  y.add(where((t & 3) == 0, 0, -1), t);  // one place, or none
  y.add(where((t & 3) == 0, 1, 2), t);   // two places
}
void halves(Acc<f16, dyn> y, In<f16, dyn> x) {
  auto [i] = block_id<1>();
  y.add(0, x.tiles(shape<64>).load(i));
}

template <auto K, class... A>
std::int64_t same(const A&... arguments) {
  const std::int64_t before = atomics(expect_same<K>(tuned(false), 3, arguments...));
  const std::int64_t after = atomics(expect_same<K>(tuned(true), 3, arguments...));
  EXPECT_LT(after, before);
  return after;
}

TEST(ReduceAtomics, OneElementIsLeftOfEachTile) {
  for (const std::int64_t n : {1, 64, 150}) {
    const auto numbers = Array<std::int32_t>({n}).each(any);
    EXPECT_EQ((same<&every_operation<i32>>(Array<std::int32_t>({6}, 5), numbers)), 6);
    EXPECT_EQ((same<&every_operation<i32>>(Array<std::int32_t>({3}, 5), numbers)), 6) << "some are outside";
    EXPECT_EQ(
        (same<&every_operation<u32>>(Array<std::uint32_t>({6}, 5), Array<std::uint32_t>({n}).each([](std::int64_t i) {
          return static_cast<std::uint32_t>(any(i));
        }))),
        6);
    EXPECT_EQ((same<&every_operation<i64>>(Array<std::int64_t>({6}, -5), Array<std::int64_t>({n}).each([](auto i) {
                return std::int64_t{any(i)} << 20;
              }))),
              6);
    EXPECT_EQ((same<&every_operation<u64>>(Array<std::uint64_t>({6}, 5), Array<std::uint64_t>({n}).each([](auto i) {
                return static_cast<std::uint64_t>(any(i)) << 11;
              }))),
              6);
  }
}

TEST(ReduceAtomics, Floats) {
  const Array<float> before({3}, 0.5f);
  const auto some = [](std::int64_t i) { return i % 7 == 0 ? std::numeric_limits<float>::quiet_NaN() : whole(i); };
  EXPECT_EQ((same<&floats<f32>>(before, Array<float>({150}).each(whole))), 5) << "extremes are two operations each";
  auto numbers = Array<float>({150}).each(some);
  numbers.data[149] = -0.0f;
  const Passed p = passed<&floats<f32>>({{3}, {150}}, tuned(true));
  EXPECT_EQ(atomics(p), 5);
  expect_same<&floats<f32>>(tuned(true), 3, Array<float>({2}, -0.0f), Array<float>({128}, -0.0f));
  expect_same<&floats<f64>>(tuned(true), 3, Array<double>({3}, 1.0),
                            Array<double>({150}).each([](std::int64_t i) { return double{whole(i)}; }));
}

TEST(ReduceAtomics, AlongTheAxesThatHaveOnePlace) {
  for (const std::int64_t places : {3, 8, 40})
    EXPECT_EQ((same<&along_one_axis>(Array<std::int32_t>({places}, 2), Array<std::int32_t>({10, 30}).each(any))),
              4 + 32);
}

TEST(ReduceAtomics, OtherPlacesAndNarrowFloatsAreLeftAlone) {
  const auto numbers = Array<std::int32_t>({150}).each(any);
  EXPECT_EQ(atomics(expect_same<&where_wanted>(tuned(true), 3, Array<std::int32_t>({3}, 2), numbers)), 128);
  EXPECT_EQ(atomics(passed<&halves>({{3}, {150}}, tuned(true))), 64) << "each sum is rounded";
}

// ---- pieces of a block ----------------------------------------------------------------------------------------------

void extremes(Acc<i32, dyn> least, Acc<i32, dyn> most, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  least.min(0, min(x.tiles(shape<64>, pad(std::numeric_limits<i32>::max())).load(i)));
  most.max(0, max(x.tiles(shape<64>, pad(std::numeric_limits<i32>::min())).load(i)));
}
void columns(Acc<f32, dyn> sums, In<f32, dyn, dyn> x) {
  auto [i] = block_id<1>();
  sums.add(iota<i32, 1, 32>(axis<1>), x.tiles(shape<1, 32>).load(i, 0));
}
/// To a tile of places that depends on the block, and in a branch that some blocks take.
void some_places(Acc<i32, dyn> y, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  auto t = x.tiles(shape<32>).load(i);
  y.tiles(shape<32>).add(i / 2, t);
  tile_if (i % 3 == 0) { y.add(1, t); }
}
void numbers_of_blocks(Acc<i32, dyn> y) {
  auto [i] = block_id<1>();
  y.add(0, i + 1);
}
void counts_blocks(Acc<i32, dyn> y, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  y.add(0, sum(x.tiles(shape<32>).load(i)) + num_blocks());
}

TEST(ReduceAtomics, PiecesOfABlockAddOnce) {
  for (const int blocks : {1, 5, 8, 21})
    for (const int pieces : {2, 8}) {
      const std::int64_t n = blocks * 64 - 3;
      const Array<std::int32_t> low({1}, 1000), high({1}, -1000);
      const Passed p =
          expect_same<&extremes>(tuned(true, pieces), blocks, low, high, Array<std::int32_t>({n}).each(any));
      EXPECT_EQ(p.choices.abi.pieces, pieces);
      EXPECT_EQ(atomics(p), 2);
      const Passed c = expect_same<&columns>(tuned(true, pieces), blocks, Array<float>({30}, 1.0f),
                                             Array<float>({blocks, 30}).each(whole));
      EXPECT_EQ(c.choices.abi.pieces, pieces);
      EXPECT_EQ(atomics(c), 32);
      const Passed s = expect_same<&some_places>(tuned(true, pieces), blocks, Array<std::int32_t>({60}, 1),
                                                 Array<std::int32_t>({n / 2}).each(any));
      EXPECT_EQ(s.choices.abi.pieces, pieces);
      EXPECT_EQ(atomics(s), 32 * pieces + 1);
      EXPECT_EQ(atomics(expect_same<&numbers_of_blocks>(tuned(true, pieces), blocks, Array<std::int32_t>({2}, 7))), 1);
    }
}

/// A scan beside a reduction of several rows would be expanded (expand_scans).
void beside_a_scan(Mut<i32, 8, 64> y, Acc<i32, dyn> totals, In<i32, dyn, dyn> x) {
  auto t = x.load_like(y);
  totals.add(iota<i32, 1, 64>(axis<1>), t);
  y.store(cumsum(t, axis<1>));
}
/// Rows of 4 KB, whose sums are not reduced, and one byte a piece, which is too little to be counted first.
void wide_halves(Acc<f16, dyn> y, In<f16, dyn, dyn> x) {
  auto [i] = block_id<1>();
  y.add(iota<i32, 1, 2048>(axis<1>), x.tiles(shape<1, 2048>).load(i, 0));
}
void one_byte(Acc<i32, dyn> counts, Acc<i32, dyn> most, In<i32, dyn, dyn> x, In<u8, dyn> label) {
  auto [i] = block_id<1>();
  auto of_label = cast<i32>(label.tiles(shape<1>).load(i));
  counts.add(of_label, 1);
  most.max(i, max(x.tiles(shape<1, 1024>).load(i, 0)));
}

TEST(ReduceAtomics, NotBesideScans) {
  const Passed p = expect_same<&beside_a_scan>(tuned(true), 3, Array<std::int32_t>({20, 60}, 1),
                                               Array<std::int32_t>({60}, 4), Array<std::int32_t>({20, 60}).each(any));
  EXPECT_EQ(count(*p.module, ir::Op::Scan), 1);
  EXPECT_EQ(atomics(p), 8 * 64);
}

TEST(ReduceAtomics, WithoutBeingAskedWhereManyBlocksShareAPlace) {
  const auto pieces = [](const Passed& p) { return p.choices.abi.pieces; };
  EXPECT_GT(pieces(passed<&extremes>({{1}, {1}, {1 << 26}}, {}, "", 1 << 20)), 8);
  EXPECT_EQ(pieces(passed<&extremes>({{1}, {1}, {1 << 16}}, {}, "", 1 << 10)), 1) << "few blocks";
  EXPECT_EQ(pieces(passed<&counts_blocks>({{1}, {1 << 26}}, {}, "", 1 << 20)), 1) << "the number of blocks is visible";
  EXPECT_EQ(pieces(passed<&wide_halves>({{2048}, {1 << 20, 2048}}, {}, "", 1 << 20)), 1);
  EXPECT_EQ(pieces(passed<&one_byte>({{256}, {1 << 20}, {1 << 20, 1024}, {1 << 20}}, {}, "", 1 << 20)), 1);
}

}  // namespace THIS_FILE
}  // namespace tessera::test
