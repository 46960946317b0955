// Integers added at few places are counted first: the same sums for every index, inside, outside and beyond what is
// counted, and which operations are left alone.
#include <bit>
#include <cmath>
#include <limits>

#include "base/rounds.hpp"
#include "passes/passed.hpp"

namespace tessera::test {
namespace THIS_FILE {

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
void floats(Acc<f32, dyn> sums, In<u8, dyn> x, In<f32, dyn> v) {
  auto [i] = block_id<1>();
  sums.add(cast<i32>(x.tiles(shape<kTile>).load(i)), v.tiles(shape<kTile>).load(i));
}
/// Counts and two sums at one index, of which one tensor has fewer places than the others.
void several(Acc<i32, dyn> counts, Acc<f32, dyn> sums, Acc<f32, dyn> squares, In<i32, dyn> x, In<f32, dyn> v) {
  auto [i] = block_id<1>();
  auto at = x.tiles(shape<kTile>).load(i) & 127;
  auto values = v.tiles(shape<kTile>).load(i);
  counts.add(at, 2);
  sums.add(at, values);
  squares.add(at, values * values);
}
void one_float(Acc<f32, dyn> sums, In<u8, dyn> x) {
  auto [i] = block_id<1>();
  sums.add(cast<i32>(x.tiles(shape<kTile>).load(i)), 0.5f);
}
void doubles(Acc<f64, dyn> sums, In<u8, dyn> x) {
  auto [i] = block_id<1>();
  sums.add(cast<i32>(x.tiles(shape<kTile>).load(i)), 1.0);
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

TEST(CombineAtomics, SumsOfFloats) {
  // Whole numbers of 12 bits, whose sums are exact in any order.
  const auto whole = Array<float>({1300}).each([](std::int64_t i) { return static_cast<float>(any(i) % 4096); });
  for (const std::int64_t places : {1, 100, 256, 300}) {
    const Array<float> sums({places}, 17);
    const auto x = Array<std::uint8_t>({1300}).each(byte);
    EXPECT_EQ(products(expect_same<&floats>(combine(true), 3, sums, x, whole)), 3 * kTile / 128);
    EXPECT_GT(products(expect_same<&one_float>(combine(true), 3, sums, x)), 0);
  }
}

TEST(CombineAtomics, SeveralSumsAtOneIndex) {
  const auto x = Array<std::int32_t>({1300}).each(any);
  const auto whole = Array<float>({1300}).each([](std::int64_t i) { return static_cast<float>(any(i) % 64); });
  for (const std::int64_t places : {128, 77}) {
    const Passed p = expect_same<&several>(combine(true), 3, Array<std::int32_t>({100}, 3), Array<float>({places}, 1),
                                           Array<float>({128}, 2), x, whole);
    EXPECT_EQ(products(p), 7 * kTile / 128);
  }
}

TEST(CombineAtomics, EveryFloatIsExactlyTheSumOfItsParts) {
  // One element for each place: all bits of every value have to arrive. Half of the elements are zeros.
  const auto place = Array<std::uint8_t>({512}).each([](std::int64_t i) { return static_cast<std::uint8_t>(i); });
  const auto bits_of = [](std::uint32_t high) {
    return [high](std::int64_t i) {
      return i < 256 ? 0.0f : std::bit_cast<float>(high ^ (static_cast<std::uint32_t>(i * 2654435761LL) >> 8));
    };
  };
  // Exponents of all sizes, the largest number, denormal ones, infinities and NaN, with all bits of the significand.
  for (const std::uint32_t high : {0x3f800000u, 0xbf800000u, 0x7f000000u, 0x7e800000u, 0xff000000u, 0x14000000u,
                                   0x13800000u, 0x80000000u, 0x00000000u, 0x7f800000u, 0x00800000u}) {
    const auto values = Array<float>({512}).each(bits_of(high));
    EXPECT_GT(products(expect_same<&floats>(combine(true), 1, Array<float>({256}, 0), place, values)), 0) << high;
  }
}

/// A value that is not finite reaches its own place only.
TEST(CombineAtomics, NonFiniteFloatsStayAtTheirPlace) {
  const auto place = Array<std::uint8_t>({512}).each([](std::int64_t i) { return static_cast<std::uint8_t>(i % 50); });
  for (const float strange : {HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN(), 3e38f, 1e-44f}) {
    const auto values =
        Array<float>({512}).each([=](std::int64_t i) { return i == 77 ? strange : static_cast<float>(i % 7); });
    EXPECT_GT(products(expect_same<&floats>(combine(true), 1, Array<float>({50}, 0), place, values)), 0) << strange;
  }
}

/// Whole numbers, whose squares add up exactly, and values that are not finite, of any lengths, at any places, inside
/// and outside of each tensor.
TEST(CombineAtomics, AnyPlacesAndValues) {
  for (std::int64_t seed = 1; seed <= static_cast<std::int64_t>(rounds(40)); ++seed) {
    const auto random = [seed](std::int64_t i) {
      auto bits = static_cast<std::uint64_t>(i * 1000003 + seed) * 0x9e3779b97f4a7c15u;
      bits ^= bits >> 29;
      return static_cast<std::int64_t>((bits * 0xbf58476d1ce4e5b9u) >> 33);
    };
    const std::int64_t n = 1 + random(-1) % 2000, few = 1 + random(-2) % 127, spread = 1 + random(-3) % 128;
    const int blocks = static_cast<int>((n + kTile - 1) / kTile);
    const auto x = Array<std::int32_t>({n}).each(
        [&](std::int64_t i) { return static_cast<std::int32_t>(random(i) / 2000 % spread); });
    const auto v = Array<float>({n}).each([&](std::int64_t i) {
      const std::int64_t kind = random(i + 5000) % 400;
      return kind == 0   ? HUGE_VALF
             : kind == 1 ? -HUGE_VALF
             : kind == 2 ? std::numeric_limits<float>::quiet_NaN()
                         : static_cast<float>(random(i + 9000) % 121 - 60);
    });
    const Passed p = expect_same<&several>(combine(true), blocks, Array<std::int32_t>({few}, 3), Array<float>({128}, 1),
                                           Array<float>({few}, 2), x, v);
    EXPECT_GT(products(p), 0) << seed;
  }
}

TEST(CombineAtomics, LeftAlone) {
  const auto x = Array<std::uint8_t>({1024}).each(byte);
  const Array<std::int32_t> sums({256}, 1);
  EXPECT_EQ(products(expect_same<&anywhere>(combine(true), 2, sums, Array<std::int32_t>({1024}).each(any))), 0)
      << "nothing says that there are few places";
  EXPECT_EQ(products(expect_same<&each_its_own>(combine(true), 2, sums, x)), 0);
  EXPECT_EQ(products(expect_same<&largest>(combine(true), 2, sums, x)), 0);
  EXPECT_EQ(products(passed<&doubles>({{256}, {1024}}, combine(true))), 0) << "f64 is no sum of three bf16";
}

}  // namespace THIS_FILE
}  // namespace tessera::test
