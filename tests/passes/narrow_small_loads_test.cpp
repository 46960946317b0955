// Small tiles are loaded element by element in kernels whose reshapes join axes, and in no others.
#include "passes/hints.hpp"
#include "passes/passed.hpp"

namespace tessera::test {
namespace THIS_FILE {

void interleaved(Mut<f32, 8> y, In<f32, dyn> x, In<u8, dyn, dyn> w) {
  auto X = x.tiles(shape<32>);
  auto W = w.tiles(shape<8, 16>);
  auto [j] = y.index();
  auto acc = zeros<f32, 8>();
  for (auto k : range(X.count(0))) {
    auto b = reshape(W.load(j, k), shape<8, 16, 1>);
    auto pairs = reshape(cat(b & std::uint8_t{15}, b >> std::uint8_t{4}, axis<2>), shape<8, 32>);
    acc += reshape(sum(cast<f32>(pairs) * reshape(X.load(k), shape<1, 32>), axis<1>), shape<8>);
  }
  y.store(acc);
}
/// The reshapes only add axes.
void plain(Mut<f32, 8> y, In<f32, dyn> x, In<u8, dyn, dyn> w) {
  auto X = x.tiles(shape<32>);
  auto W = w.tiles(shape<8, 32>);
  auto [j] = y.index();
  auto acc = zeros<f32, 8>();
  for (auto k : range(X.count(0)))
    acc += reshape(sum(cast<f32>(W.load(j, k)) * reshape(X.load(k), shape<1, 32>), axis<1>), shape<8>);
  y.store(acc);
}

/// The row is a region.
void with_a_region(Mut<f32, 8> y, In<f32, dyn> x, In<u8, dyn, dyn> w) {
  auto W = w.tiles(shape<8, 16>);
  auto [j] = y.index();
  auto acc = zeros<f32, 8>();
  for (auto k : range(W.count(1))) {
    auto b = reshape(W.load(j, k), shape<8, 16, 1>);
    auto pairs = reshape(cat(b & std::uint8_t{15}, b >> std::uint8_t{4}, axis<2>), shape<8, 32>);
    acc += reshape(sum(cast<f32>(pairs) * reshape(x.load_at(shape<32>, k * 32), shape<1, 32>), axis<1>), shape<8>);
  }
  y.store(acc);
}
/// The axes that are joined are those of what was loaded.
void of_groups(Mut<f32, 8> y, In<f32, dyn> x, In<u8, dyn, dyn> w) {
  auto X = x.tiles(shape<32>);
  auto W = w.tiles(shape<8, 32>);
  auto [j] = y.index();
  auto acc = zeros<f32, 8>();
  for (auto k : range(X.count(0))) {
    auto groups = reshape(sum(reshape(cast<f32>(W.load(j, k)), shape<8, 16, 2>), axis<2>), shape<8, 16>);
    auto row = reshape(sum(reshape(X.load(k), shape<1, 16, 2>), axis<2>), shape<1, 16>);
    acc += reshape(sum(groups * row, axis<1>), shape<8>);
  }
  y.store(acc);
}

float whole_number(std::int64_t i) { return static_cast<float>(i * 37 % 61 - 30); }
std::uint8_t byte_of(std::int64_t i) { return static_cast<std::uint8_t>(i * 57 % 256); }

/// How many elements the loads of each kind take: those whose address is known to be a multiple of 16 bytes, and
/// others.
struct Loads {
  std::vector<std::int64_t> aligned, single;
};
Loads loads_of(const Passed& p) {
  Loads loads;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if (op.op() != ir::Op::LoadViewTko) return;
      const ir::Operation* tensor = op.operand(0).def()->operand(0).def();
      const ir::Operation* address = tensor->operand(0).def();
      const bool known = address != nullptr && address->op() == ir::Op::Assume;
      (known ? loads.aligned : loads.single).push_back(op.result(0).type().num_elements());
    });
  return loads;
}

template <auto K>
Passed with_warps(int warps, std::int64_t width) {
  passes::Tuning tuning;
  tuning.warps = warps;
  const auto y = Array<float>({16}, 5), x = Array<float>({64}).each(whole_number);
  const auto w = Array<std::uint8_t>({16, width}).each(byte_of);
  return expect_same<K>(tuning, 2, y, x, w);
}

TEST(NarrowSmallLoads, ATileOfFewerElementsThanThreads) {
  const Loads found = loads_of(with_warps<&interleaved>(4, 32));
  EXPECT_FALSE(found.single.empty());
  for (const std::int64_t n : found.single) EXPECT_LT(n, 4 * 32);
  for (const std::int64_t n : found.aligned) EXPECT_GE(n, 4 * 32);
}
TEST(NarrowSmallLoads, RegionsStayLoadsThroughPointers) {
  for (const std::int64_t n : loads_of(with_warps<&with_a_region>(4, 32)).aligned) EXPECT_GE(n, 4 * 32);
}
TEST(NarrowSmallLoads, NotWhereEachThreadHasAnElement) {
  const Loads found = loads_of(with_warps<&interleaved>(1, 32));
  EXPECT_TRUE(found.single.empty());
  EXPECT_FALSE(found.aligned.empty());
}
TEST(NarrowSmallLoads, NotWhereWhatIsReshapedIsInTheOrderOfMemory) {
  const Loads found = loads_of(with_warps<&of_groups>(4, 64));
  EXPECT_TRUE(found.single.empty());
  EXPECT_FALSE(found.aligned.empty());
}
TEST(NarrowSmallLoads, NotWhereReshapesOnlyAddAxes) {
  const Loads found = loads_of(with_warps<&plain>(4, 64));
  EXPECT_TRUE(found.single.empty());
  EXPECT_FALSE(found.aligned.empty());
}

}  // namespace THIS_FILE
}  // namespace tessera::test
