// Kernels with products: a block that is alone on its SM has all loads in flight, and what a loop of products loads
// beside tensor copies does not go through masked pointers.
#include "passes/hints.hpp"
#include "passes/passed.hpp"

namespace tessera::test {
namespace THIS_FILE {

template <int BM, int BN>
void product(Mut<bf16, BM, BN> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  auto A = a.tiles(shape<BM, 64>);
  auto B = b.tiles(shape<64, BN>);
  auto [i, j] = c.index();
  auto acc = zeros<f32, BM, BN>();
  for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
  c.store(cast<bf16>(acc));
}

/// Blocks on an SM and steps in flight of a product with so many pieces along n.
template <int BM, int BN>
std::pair<int, int> blocks_and_steps(std::int64_t pieces) {
  const std::int64_t n = pieces * BN;
  const auto choices = passed<&product<BM, BN>>({{BM, n}, {BM, 4096}, {4096, n}}, {}, "choose_hints").choices;
  return {choices.occupancy, choices.latency};
}

TEST(OneWave, ABlockOfALargeProductIsAloneOnItsSm) {
  const std::pair alone(1, 6), shared(2, 3);
  EXPECT_EQ((blocks_and_steps<128, 128>(128)), alone);
  EXPECT_EQ((blocks_and_steps<128, 128>(1)), alone);
  EXPECT_EQ((blocks_and_steps<128, 128>(129)), shared);
  EXPECT_EQ((blocks_and_steps<128, 128>(4000)), shared);
}

TEST(OneWave, BlocksOfSmallProductsShareAnSmWhereThereAreMany) {
  EXPECT_EQ((blocks_and_steps<64, 128>(1)), (std::pair(1, 4)));
  EXPECT_EQ((blocks_and_steps<64, 128>(255)), (std::pair(1, 4)));
  EXPECT_EQ((blocks_and_steps<64, 128>(256)), (std::pair(2, 4)));
}

TEST(OneWave, ProductsAskOneQuestion) {
  const auto conditions = [](const Recorded& r) {
    return std::ranges::count(r.facts.obligations(), analysis::ObligationUse::Waves, &analysis::Obligation::use);
  };
  EXPECT_EQ(conditions(recorded<&product<128, 128>>()), 1);
  EXPECT_EQ(conditions(recorded<&product<64, 128>>()), 1);
}

/// The values of rows that are not finite are left out; an epilogue adds a tile.
void product_of_finite(Mut<bf16, 128, 128> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b, In<bf16, dyn, dyn> more) {
  auto A = a.tiles(shape<128, 64>);
  auto B = b.tiles(shape<64, 128>);
  auto [i, j] = c.index();
  auto acc = zeros<f32, 128, 128>();
  for (auto k : range(A.count(1))) {
    auto rows = B.load(k, j);
    acc = mma(A.load(i, k), where(abs(cast<f32>(rows)) < infinity<f32>, rows, zeros<bf16, 64, 128>()), acc);
  }
  c.store(cast<bf16>(acc + cast<f32>(more.load_like(c))));
}

/// The operations that load tiles of these extents from clipped tensors.
std::vector<ir::Op> loads(const Passed& p, std::int64_t rows) {
  std::vector<ir::Op> found;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if ((op.op() == ir::Op::LoadViewTko || op.op() == ir::Op::LoadPtrTko) && op.result(0).type().shape()[0] == rows &&
          op.result(0).type().shape()[1] == 128)
        found.push_back(op.op());
    });
  return found;
}

TEST(OneWave, LoadsInALoopOfProductsKeepTheirViews) {
  const std::vector<std::vector<std::int64_t>> ragged{{500, 1000}, {500, 776}, {776, 1000}, {500, 1000}};
  const Passed p = passed<&product_of_finite>(ragged, {}, "choose_access_paths");
  EXPECT_FALSE(loads(p, 64).empty());
  for (const ir::Op op : loads(p, 64)) EXPECT_EQ(op, ir::Op::LoadViewTko) << "masked pointers stop tensor copies";
  ASSERT_EQ(loads(p, 128).size(), 1u);
  EXPECT_EQ(loads(p, 128)[0], ir::Op::LoadPtrTko) << "an epilogue is outside of the loop";
  // Without hints, as the fallback form has it, masks are cheaper.
  const Passed plain = passed<&product_of_finite>(ragged, passes::parse_tuning("hints=0"), "choose_access_paths");
  for (const ir::Op op : loads(plain, 64)) EXPECT_EQ(op, ir::Op::LoadPtrTko);
}

}  // namespace THIS_FILE
}  // namespace tessera::test
