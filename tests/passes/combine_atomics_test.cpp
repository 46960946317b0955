// Integers added at few places are counted first: the same sums for every index, inside, outside and beyond what is
// counted, and which operations are left alone.
#include "passes/passed.hpp"

namespace tessera::test {
namespace {

constexpr int kTile = 512;

passes::Tuning combine(bool on) {
  passes::Tuning t;
  t.combine_atomics = on;
  return t;
}

void bytes(Acc<i32, dyn> counts, In<u8, dyn> x) {
  auto [i] = block_id<1>();
  auto bins = cast<i32>(x.tiles(shape<kTile>).load(i));
  counts.add(where(iota<i32, kTile>() + i * kTile < x.dim(0), bins, -1), 1);
}
/// Two axes of tiles, i64 sums, every number added twice and more.
void pairs(Acc<i64, dyn> sums, In<i32, dyn, dyn> x, Scalar<i64> number) {
  auto [i] = block_id<1>();
  sums.add(x.tiles(shape<4, 128>).load(i, 0) & 127, number);
}
/// Said to be below 256 by a branch that is not always taken.
void either(Acc<i32, dyn> sums, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  auto v = x.tiles(shape<kTile>).load(i);
  sums.add(where(v < 0, -1, v & 255), 3);
}
void anywhere(Acc<i32, dyn> sums, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  sums.add(x.tiles(shape<kTile>).load(i), 1);
}
void floats(Acc<f32, dyn> sums, In<u8, dyn> x) {
  auto [i] = block_id<1>();
  sums.add(cast<i32>(x.tiles(shape<kTile>).load(i)), 1.0f);
}
void each_its_own(Acc<i32, dyn> sums, In<u8, dyn> x) {
  auto [i] = block_id<1>();
  sums.add(cast<i32>(x.tiles(shape<kTile>).load(i)), iota<i32, kTile>());
}
void largest(Acc<i32, dyn> sums, In<u8, dyn> x) {
  auto [i] = block_id<1>();
  sums.max(cast<i32>(x.tiles(shape<kTile>).load(i)), 1);
}

std::uint8_t byte(std::int64_t i) { return static_cast<std::uint8_t>(i * i * 7 + i / 3); }
std::int32_t any(std::int64_t i) { return static_cast<std::int32_t>((i * 2654435761LL) >> 3); }

int products(const Passed& p) { return count(*p.module, ir::Op::MmaF); }

TEST(CombineAtomics, HistogramsOfBytes) {
  for (const std::int64_t n : {1, 511, 512, 1300})
    for (const std::int64_t bins : {1, 100, 256, 300}) {
      const int blocks = static_cast<int>((n + kTile - 1) / kTile);
      const Array<std::int32_t> counts({bins}, 17);
      const auto x = Array<std::uint8_t>({n}).each(byte);
      EXPECT_EQ(products(expect_same<&bytes>(combine(true), blocks, counts, x)), kTile / 128);
      EXPECT_EQ(products(expect_same<&bytes>(combine(false), blocks, counts, x)), 0);
    }
}

TEST(CombineAtomics, OtherShapesNumbersAndPlaces) {
  const auto x = Array<std::int32_t>({9, 128}).each(any);
  for (const std::int64_t number : {std::int64_t{1}, std::int64_t{-5}, std::int64_t{1} << 40})
    EXPECT_GT(products(expect_same<&pairs>(combine(true), 3, Array<std::int64_t>({128}, 2), x, number)), 0);
  EXPECT_GT(products(expect_same<&either>(combine(true), 2, Array<std::int32_t>({200}, 2),
                                          Array<std::int32_t>({1000}).each(any))),
            0);
}

TEST(CombineAtomics, LeftAlone) {
  const auto x = Array<std::uint8_t>({1024}).each(byte);
  const Array<std::int32_t> sums({256}, 1);
  EXPECT_EQ(products(expect_same<&anywhere>(combine(true), 2, sums, Array<std::int32_t>({1024}).each(any))), 0)
      << "nothing says that there are few places";
  EXPECT_EQ(products(expect_same<&each_its_own>(combine(true), 2, sums, x)), 0);
  EXPECT_EQ(products(expect_same<&largest>(combine(true), 2, sums, x)), 0);
  EXPECT_EQ(products(passed<&floats>({{256}, {1024}}, combine(true))), 0) << "sums of floats would round otherwise";
}

}  // namespace
}  // namespace tessera::test
