// Blocks of persistent kernels that only load, compute and store: enough warps for each SM.
#include "passes/passed.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::test {
namespace {

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

template <auto K>
passes::Choices chosen(const std::vector<std::vector<std::int64_t>>& dims, const char* tuning = "") {
  return passed<K>(dims, passes::parse_tuning(tuning), "choose_hints", 132).choices;
}

TEST(PersistentHints, WithoutProductsAnSmHas32Warps) {
  const std::vector<std::vector<std::int64_t>> vectors(3, {1 << 20}), rows(2, {1000, 1000});
  const passes::Choices large = chosen<&add<1024>>(vectors), small = chosen<&add<256>>(vectors);
  EXPECT_EQ(large.warps, 2);
  EXPECT_EQ(large.persistent_blocks, 132 * 16);
  EXPECT_EQ(small.warps, 1);
  EXPECT_EQ(small.persistent_blocks, 132 * 32);
  EXPECT_EQ(chosen<&row_sums<1024>>(rows).persistent_blocks, 132 * 32);
}
TEST(PersistentHints, OccupancyAndProductsDecideByThemselves) {
  const std::vector<std::vector<std::int64_t>> vectors(3, {1 << 20}), matrices(3, {1024, 1024});
  EXPECT_EQ(chosen<&add<1024>>(vectors, "occupancy=2").persistent_blocks, 132 * 2);
  EXPECT_EQ(chosen<&add<1024>>(vectors, "hints=0").persistent_blocks, 132) << "left to the assembler";
  const passes::Choices c = chosen<&product>(matrices);
  EXPECT_EQ(c.persistent_blocks, 132 * c.occupancy / c.ctas);
}

}  // namespace
}  // namespace tessera::test
