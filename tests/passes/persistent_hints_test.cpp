// Blocks of persistent kernels that only load, compute and store: enough warps for each SM.
#include "passes/passed.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::test {
namespace THIS_FILE {

template <int N>
void add(MutTiles<f32, N> y, In<f32, dyn> a, In<f32, dyn> b) {
  for (auto out : y) out.store(a.load_like(out) + b.load_like(out));
}
template <int N>
void row_sums(MutTiles<bf16, 1, N> y, In<bf16, dyn, dyn> x) {
  for (auto out : y) {
    auto t = cast<f32>(x.load_like(out));
    out.store(cast<bf16>(t * sum(t, axis<1>)));
  }
}
void product(MutTiles<f32, 128, 128> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  auto A = a.tiles(shape<128, 64>);
  auto B = b.tiles(shape<64, 128>);
  for (auto out : c) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, 128, 128>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(acc);
  }
}

/// Products of 8-bit floats that are scaled before they are added, with a scale of each row if Scaled.
template <bool Scaled, int BK>
void scaled(MutTiles<bf16, 64, 128> c, In<f8e4m3, dyn, dyn> a, In<f8e4m3, dyn, dyn> b, In<f32, dyn, dyn> scale) {
  auto A = a.tiles(shape<64, BK>);
  auto B = b.tiles(shape<BK, 128>);
  auto S = scale.tiles(shape<64, 1>);
  for (auto out : c) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, 64, 128>();
    for (auto k : range(A.count(1))) {
      auto part = mma(A.load(i, k), B.load(k, j), zeros<f32, 64, 128>());
      if constexpr (Scaled) part = part * S.load(i, k);
      acc = acc + part;
    }
    out.store(cast<bf16>(acc));
  }
}

/// Few operations for each byte: 24 KB a step, and tiles of 32 KB to store.
void thin(MutTiles<f32, 64, 128> c, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto A = a.tiles(shape<64, 32>);
  auto B = b.tiles(shape<32, 128>);
  for (auto out : c) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, 64, 128>();
    for (auto k : range(A.count(1))) {
      auto x = A.load(i, k);
      auto y = B.load(k, j);
      acc = mma(cast<tf32>(x), cast<tf32>(y), acc);
    }
    out.store(acc);
  }
}

template <auto K>
passes::Choices chosen(const std::vector<std::vector<std::int64_t>>& dims, const char* tuning = "") {
  return passed<K>(dims, passes::parse_tuning(tuning), "choose_hints", 132).choices;
}

TEST(PersistentHints, WithoutProductsAnSmHas32Warps) {
  const std::vector<std::vector<std::int64_t>> vectors(3, {1 << 20}), rows(2, {1000, 1000});
  const passes::Choices large = chosen<&add<1024>>(vectors), small = chosen<&add<256>>(vectors);
  EXPECT_EQ(large.warps, 2);
  EXPECT_EQ(large.abi.persistent_blocks, 132 * 16);
  EXPECT_EQ(small.warps, 1);
  EXPECT_EQ(small.abi.persistent_blocks, 132 * 32);
  EXPECT_EQ(chosen<&row_sums<1024>>(rows).abi.persistent_blocks, 132 * 32);
}
TEST(PersistentHints, OccupancyAndProductsDecideByThemselves) {
  const std::vector<std::vector<std::int64_t>> vectors(3, {1 << 20}), matrices(3, {1024, 1024});
  EXPECT_EQ(chosen<&add<1024>>(vectors, "occupancy=2").abi.persistent_blocks, 132 * 2);
  EXPECT_EQ(chosen<&add<1024>>(vectors, "hints=0").abi.persistent_blocks, 132) << "left to the assembler";
  const passes::Choices c = chosen<&product>(matrices);
  EXPECT_EQ(c.abi.persistent_blocks, 132 * c.occupancy / c.ctas);
}

/// Three blocks of two steps and a stored tile each would need 240 KiB.
TEST(PersistentHints, SharedMemoryHoldsTheBlocksOfThinProducts) {
  const std::vector<std::vector<std::int64_t>> matrices(3, {512, 512});
  const passes::Choices c = chosen<&thin>(matrices);
  EXPECT_EQ(c.occupancy, 2);
  EXPECT_EQ(c.abi.persistent_blocks, 264);
}

/// Elements of 2 bytes at odd addresses pass through registers.
TEST(PersistentHints, OperandsLoadedByElementsHaveTwoStepsAndMoreWarps) {
  const passes::Choices odd = chosen<&product>({{205, 161}, {205, 149}, {149, 161}});
  EXPECT_EQ(odd.warps, 8);
  EXPECT_EQ(odd.latency, 2);
  EXPECT_EQ(odd.occupancy, 1);
  const passes::Choices even = chosen<&product>({{256, 160}, {256, 160}, {160, 160}});
  EXPECT_EQ(even.warps, 4);
  EXPECT_EQ(even.latency, 6);
  // Of 4 bytes they are copied without registers.
  const passes::Choices wide = chosen<&thin>({{205, 161}, {205, 149}, {149, 161}});
  EXPECT_EQ(wide.warps, 4);
  EXPECT_GT(wide.latency, 2);
}

/// Rows of odd length that start at multiples of 16 bytes are loaded by tensor copies.
TEST(PersistentHints, OperandsThatTensorCopiesLoadDoNotPassThroughRegisters) {
  const Recorded r = recorded<&product>();
  std::vector<std::uint64_t> slots = r.slots({{205, 161}, {205, 149}, {149, 161}}, 132);
  slots.at(8) = 152, slots.at(13) = 168;  // from row to row of a and of b
  const passes::Choices c = passed(r, slots, passes::parse_tuning(""), "choose_hints").choices;
  EXPECT_EQ(c.warps, 4);
  EXPECT_EQ(c.latency, 6);
}

TEST(PersistentHints, OccupancyAndLatencyCanBeBounded) {
  const std::vector<std::vector<std::int64_t>> matrices(3, {512, 512});
  const passes::Choices one = chosen<&thin>(matrices, "max_occupancy=1 max_latency=2");
  EXPECT_EQ(one.occupancy, 1);
  EXPECT_EQ(one.latency, 2);
  EXPECT_EQ(one.abi.persistent_blocks, 132);
  const passes::Choices beyond = chosen<&thin>(matrices, "max_occupancy=32 max_latency=10"),
                        free = chosen<&thin>(matrices);
  EXPECT_EQ(beyond, free) << "a bound is no request";
  EXPECT_THROW(chosen<&thin>(matrices, "max_occupancy=0"), CompileError);
  EXPECT_THROW(chosen<&thin>(matrices, "min_occupancy=33"), CompileError);
  EXPECT_EQ(chosen<&thin>(matrices, "min_occupancy=8").occupancy, 8);
  EXPECT_EQ(chosen<&thin>(matrices, "crowd=64").occupancy, chosen<&thin>(matrices, "").occupancy) << "it is chosen";
  EXPECT_THROW(chosen<&thin>(matrices, "max_latency=11"), CompileError);
}

/// The assembler divides the steps that are requested among all loads of the loop.
TEST(PersistentHints, MoreStepsAreRequestedWhereALoopLoadsOtherTiles) {
  const auto latency = []<bool Scaled, int BK>() {
    const auto wide = [](std::int64_t rows, std::int64_t columns) { return std::vector<std::int64_t>{rows, columns}; };
    return chosen<&scaled<Scaled, BK>>({wide(4096, 4096), wide(4096, 4096), wide(4096, 4096), wide(4096, 32)}).latency;
  };
  EXPECT_EQ((latency.operator()<false, 128>()), 4) << "four steps fit";
  EXPECT_EQ((latency.operator()<true, 128>()), 8);
  EXPECT_EQ((latency.operator()<true, 64>()), 6) << "nine fit";
  EXPECT_EQ((latency.operator()<true, 256>()), 2) << "two fit";
}

}  // namespace THIS_FILE
}  // namespace tessera::test
