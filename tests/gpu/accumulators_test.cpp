// Accumulators: sums, extremes and bit operations of many blocks in every element type, at few places, at one place,
// and from several pieces of a block. GPU against CPU, bit for bit.
#include <cmath>

#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

template <class T>
void accumulates(Acc<T, dyn> sums, Acc<T, dyn, dyn> plane, In<i32, dyn> x) {
  auto [b] = block_id<1>();
  auto i = x.tiles(shape<64>, pad(-1)).load(b);
  sums.add(i, cast<T>(i));
  plane.add(i, i % 3, 1);
  plane.tiles(shape<8, 4>).add(0, 0, ones<T, 8, 4>());
}
template <class T>
void check_accumulates() {
  const auto x = values_in<i32>(1000, 1, -3, 12);  // whole numbers: sums are exact in every type
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto in = side.input(x, {1000});
    auto sums = side.input(std::vector<T>(10, T(0)), {10});
    auto plane = side.input(std::vector<T>(30, T(0)), {10, 3});
    kernel<accumulates<T>>.blocks(16)(sums.lend(), plane.lend(), in.view()).sync();
    auto all = sums.take();
    const auto more = plane.take();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<T>();
}
class Accumulators : public Gpu {};
TEST_F(Accumulators, I32) { check_accumulates<i32>(); }
TEST_F(Accumulators, I64) { check_accumulates<i64>(); }
TEST_F(Accumulators, U32) { check_accumulates<u32>(); }
TEST_F(Accumulators, F32) { check_accumulates<f32>(); }
TEST_F(Accumulators, F64) { check_accumulates<f64>(); }
TEST_F(Accumulators, F16) { check_accumulates<f16>(); }

/// Few places and many elements: equal indices are counted first (docs/compiler/combine_atomics.md).
void histograms(Acc<i32, dyn> counts, Acc<i64, dyn> sums, In<u8, dyn> x, Scalar<i64> number) {
  auto [b] = block_id<1>();
  auto bins = cast<i32>(x.tiles(shape<512>).load(b));
  counts.add(where(iota<i32, 512>() + b * 512 < x.dim(0), bins, -1), 1);
  sums.add(bins & 63, number);
}
/// The same with values of f32, and a count at the same index.
void group_sums(Acc<i32, dyn> counts, Acc<f32, dyn> sums, In<i32, dyn> keys, In<f32, dyn> v) {
  auto [b] = block_id<1>();
  auto group = keys.tiles(shape<1024>).load(b) & 255;
  counts.add(where(iota<i32, 1024>() + b * 1024 < keys.dim(0), group, -1), 1);
  sums.add(where(iota<i32, 1024>() + b * 1024 < keys.dim(0), group, -1), v.tiles(shape<1024>).load(b));
}
TEST_F(Accumulators, SumsOfFloatsAtFewPlaces) {
  // 256 places with one value each, of all bits of the significand and all exponents; then whole numbers at 100 places,
  // whose sums are exact in any order.
  const std::int64_t n = 30001;
  auto any = any_values<f32>(256, 5);
  for (f32& value : any)
    if (std::fpclassify(value) == FP_SUBNORMAL) value = 1.5f;  // the memory flushes them (docs/semantics.md)
  const auto whole = values_in<i32>(n, 6, -2000, 2000);
  std::vector<i32> keys(static_cast<std::size_t>(n));
  std::vector<f32> v(whole.begin(), whole.end());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<i32>(i < 256 ? i : 256 * i + 7 * i % 100);
  for (const bool bits : {true, false}) {
    const std::int64_t elements = bits ? 256 : n;
    std::vector<f32> values(bits ? any : v);
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto k = side.input(std::vector<i32>(keys.begin(), keys.begin() + elements), {elements});
      auto x = side.input(values, {elements});
      auto counts = side.input(std::vector<i32>(250, 1), {250});
      auto sums = side.input(std::vector<f32>(240, 0.0f), {240});
      kernel<group_sums>.blocks(ceil_div(elements, 1024))(counts.lend(), sums.lend(), k.view(), x.view()).sync();
      auto all = sums.take();
      for (const i32 count : counts.take()) all.push_back(static_cast<f32>(count));
      return all;
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << (bits ? "all bits" : "whole numbers");
  }
}
TEST_F(Accumulators, FewPlaces) {
  const auto x = values_in<u8>(3000, 1, 0, 255);
  for (const std::int64_t places : {256, 100, 300}) {
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto in = side.input(x, {3000});
      auto counts = side.input(std::vector<i32>(static_cast<std::size_t>(places), 7), {places});
      auto sums = side.input(std::vector<i64>(50, -3), {50});
      kernel<histograms>.blocks(6)(counts.lend(), sums.lend(), in.view(), std::int64_t{1} << 33).sync();
      const auto counted = counts.take();
      auto all = sums.take();
      all.insert(all.end(), counted.begin(), counted.end());
      return all;
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << places;
  }
}

template <class T>
void extremes_and_bits(Acc<T, dyn> most, Acc<T, dyn> least, Acc<T, dyn> both, Acc<T, dyn> either, Acc<T, dyn> parity,
                       In<T, dyn> x) {
  auto [b] = block_id<1>();
  auto v = x.tiles(shape<64>).load(b);
  auto at = iota<i32, 64>() % 7;
  most.max(at, v);
  least.min(at, v);
  both.bit_and(at, v);
  either.bit_or(at, v);
  parity.bit_xor(at, v);
}
template <class T>
void check_extremes() {
  const auto x = any_values<T>(640, 1);
  const auto results = on_both(Placement::Aligned, [&](const Side& side) {
    auto in = side.input(x, {640});
    const std::vector<T> start(5, T(77));
    auto a = side.input(start, {5}), b = side.input(start, {5}), c = side.input(start, {5}), d = side.input(start, {5});
    auto e = side.input(start, {5});
    kernel<extremes_and_bits<T>>.blocks(10)(a.lend(), b.lend(), c.lend(), d.lend(), e.lend(), in.view()).sync();
    std::vector<T> all;
    for (const auto* g : {&a, &b, &c, &d, &e}) {
      for (const T v : g->take()) all.push_back(v);
    }
    return all;
  });
  EXPECT_EQ(exact(results.cpu, results.gpu), "") << type_name<T>();
}
TEST_F(Accumulators, ExtremesAndBitsI32) { check_extremes<i32>(); }
TEST_F(Accumulators, ExtremesAndBitsU32) { check_extremes<u32>(); }
TEST_F(Accumulators, ExtremesAndBitsI64) { check_extremes<i64>(); }
TEST_F(Accumulators, ExtremesAndBitsU64) { check_extremes<u64>(); }

template <class T>
void extremes_alone(Acc<T, dyn> most, Acc<T, dyn> least, In<T, dyn> x) {
  auto [b] = block_id<1>();
  auto v = x.tiles(shape<64>).load(b);
  most.max(iota<i32, 64>() % 7, v);
  least.min(iota<i32, 64>() % 7, v);
  most.max(6, max(v));
  least.min(6, min(v));
}
template <class T>
void check_float_extremes() {
  for (const T start : {T(-1e30), T(-0.0), T(0.5)}) {
    const auto x = any_values<T>(640, 1);
    const auto results = on_both(Placement::Aligned, [&](const Side& side) {
      auto in = side.input(x, {640});
      const std::vector<T> from(7, start);
      auto most = side.input(from, {7}), least = side.input(from, {7});
      kernel<extremes_alone<T>>.blocks(10)(most.lend(), least.lend(), in.view()).sync();
      std::vector<T> all = most.take();
      for (const T v : least.take()) all.push_back(v);
      return all;
    });
    EXPECT_EQ(exact(results.cpu, results.gpu), "") << type_name<T>() << " from " << start;
  }
}
TEST_F(Accumulators, ExtremesF32) { check_float_extremes<f32>(); }
TEST_F(Accumulators, ExtremesF64) { check_float_extremes<f64>(); }

// -- places that all blocks share
// -----------------------------------------------------------------------------------------------------

/// Blocks of a launch that is coarsened (docs/compiler/coarsen_blocks.md), and a few of the rest.
constexpr std::int64_t kManyBlocks = 20001, kFewBlocks = 7;

template <class T>
void at_one_place(Acc<T, dyn> y, In<T, dyn> x) {
  auto [b] = block_id<1>();
  auto v = x.tiles(shape<64>).load(b);
  y.add(0, v);
  y.add(1, sum(v));
  y.add(where(v > T(0), 2, -1), T(1));
  y.max(3, v);
  y.min(4, min(v));
  y.max(5, max(v));  // outside of the tensor
}
template <class T>
void check_one_place() {
  for (const std::int64_t blocks : {kManyBlocks, kFewBlocks}) {
    const std::int64_t n = blocks * 64 - 37;
    const auto whole = values_in<i32>(n, 1, 0, 9);
    const std::vector<T> x(whole.begin(), whole.end());  // whole numbers: their sums are exact in any order
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto in = side.input(x, {n});
      auto y = side.input(std::vector<T>(5, T(3)), {5});
      kernel<at_one_place<T>>.blocks(blocks)(y.lend(), in.view()).sync();
      return y.take();
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << type_name<T>() << ", blocks " << blocks;
  }
}
TEST_F(Accumulators, OnePlaceI32) { check_one_place<i32>(); }
TEST_F(Accumulators, OnePlaceU32) { check_one_place<u32>(); }
TEST_F(Accumulators, OnePlaceI64) { check_one_place<i64>(); }
TEST_F(Accumulators, OnePlaceF32) { check_one_place<f32>(); }
TEST_F(Accumulators, OnePlaceF64) { check_one_place<f64>(); }

/// A row of places, a branch that some blocks take, and bits.
void rows_of_places(Acc<i32, dyn> sums, Acc<u32, dyn> bits, In<i32, dyn, dyn> x) {
  auto [b] = block_id<1>();
  auto v = x.tiles(shape<2, 64>).load(b, 0);
  sums.add(iota<i32, 1, 64>(axis<1>), v);
  tile_if (b % 3 == 0) { sums.add(iota<i32, 2, 1>(axis<0>), v); }
  bits.bit_xor(0, cast<u32>(v + b));
  bits.bit_or(1, cast<u32>(v));
  bits.bit_and(2, cast<u32>(v | 64));
}
TEST_F(Accumulators, RowsOfPlaces) {
  for (const std::int64_t blocks : {kManyBlocks, kFewBlocks}) {
    const std::int64_t rows = blocks * 2 - 1;
    const auto x = values_in<i32>(rows * 61, 1, -20, 20);
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto in = side.input(x, {rows, 61});
      auto sums = side.input(std::vector<i32>(63, 5), {63});
      auto bits = side.input(std::vector<u32>(3, 255u), {3});
      kernel<rows_of_places>.blocks(blocks)(sums.lend(), bits.lend(), in.view()).sync();
      std::vector<i32> all = sums.take();
      for (const u32 b : bits.take()) all.push_back(static_cast<i32>(b));
      return all;
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << "blocks " << blocks;
  }
}

/// Bytes counted by pieces of a block.
void many_bytes(Acc<i32, dyn> counts, In<u8, dyn> x) {
  auto [b] = block_id<1>();
  auto bins = cast<i32>(x.tiles(shape<256>).load(b));
  counts.add(where(iota<i32, 256>() + b * 256 < x.dim(0), bins, -1), 1);
}
TEST_F(Accumulators, BytesOfSeveralPieces) {
  const std::int64_t n = kManyBlocks * 256 - 100;
  const auto x = values_in<u8>(n, 1, 0, 255);
  for (const std::int64_t places : {256, 99}) {
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto in = side.input(x, {n});
      auto counts = side.input(std::vector<i32>(static_cast<std::size_t>(places), 7), {places});
      kernel<many_bytes>.blocks(kManyBlocks)(counts.lend(), in.view()).sync();
      return counts.take();
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << places;
  }
}

}  // namespace
}  // namespace gpu_test
