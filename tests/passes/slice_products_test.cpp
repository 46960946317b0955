// Products of f32 by f32: chains over slices of k that compute the same, the paths of their operands, and the registers
// that their blocks get.
#include "passes/hints.hpp"
#include "passes/passed.hpp"

namespace tessera::test {
namespace THIS_FILE {

template <class T, int M, int N, int K>
void product(MutTiles<f32, M, N> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  auto A = a.tiles(shape<M, K>);
  auto B = b.tiles(shape<K, N>);
  for (auto out : c) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, M, N>();
    for (auto k : range(A.count(1))) {
      auto x = A.load(i, k);  // named: compilers differ in which argument of a call comes first
      auto y = B.load(k, j);
      acc = mma(x, y, acc);
    }
    out.store(acc);
  }
}
/// Of a^T and b^T: the neighbours in memory of the operands lie the other way round.
template <int M, int N, int K>
void product_of_columns(MutTiles<f32, M, N> c, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto A = a.permuted(order<1, 0>).tiles(shape<M, K>);
  auto B = b.permuted(order<1, 0>).tiles(shape<K, N>);
  for (auto out : c) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, M, N>();
    for (auto k : range(A.count(1))) {
      auto x = A.load(i, k);
      auto y = B.load(k, j);
      acc = mma(x, y, acc);
    }
    out.store(acc);
  }
}
void batched(Mut<f32, 2, 4, 8> c, In<f32, dyn, dyn, dyn> a, In<f32, dyn, dyn, dyn> b) {
  auto [batch, i, j] = c.index();
  auto acc = full<f32, 2, 4, 8>(0.5f);
  for (auto k : range(a.tiles(shape<2, 4, 16>).count(2)))
    acc = mma(a.tiles(shape<2, 4, 16>).load(batch, i, k), b.tiles(shape<2, 16, 8>).load(batch, k, j), acc);
  c.store(acc);
}

std::vector<std::int64_t> depths(const Passed& p) {
  std::vector<std::int64_t> k;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if (op.op() == ir::Op::MmaF) k.push_back(op.operand(0).type().shape().back());
    });
  return k;
}
/// Whether each load of an operand may use tensor copies, in the order of the program.
std::vector<bool> copied(const Passed& p) {
  std::vector<bool> all;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if (op.op() != ir::Op::LoadViewTko) return;
      const ir::Attribute* allowed = passes::hint(op, "allow_tma");
      all.push_back(allowed == nullptr || *allowed->as<bool>());
    });
  return all;
}
const std::vector<std::vector<std::int64_t>> kSquare{{512, 512}, {512, 512}, {512, 512}};

TEST(SliceProducts, TheSumsAreTheSame) {
  for (const std::int64_t m : {16, 37})
    for (const std::int64_t k : {16, 40, 50})
      expect_same<&product<f32, 16, 16, 16>>({}, 3, Array<float>({m, 24}, 5), Array<float>({m, k}).each(number),
                                             Array<float>({k, 24}).each(number));
  expect_same<&batched>({}, 4, Array<float>({4, 8, 8}, 5), Array<float>({4, 8, 48}).each(number),
                        Array<float>({4, 48, 8}).each(number));
}

TEST(SliceProducts, EightOfKOrFourWhereAThreadHasManySums) {
  EXPECT_EQ(depths(passed<&product<f32, 64, 64, 32>>(kSquare, {}, "slice_products")),
            (std::vector<std::int64_t>{8, 8, 8, 8}));
  EXPECT_EQ(depths(passed<&product<f32, 128, 128, 16>>(kSquare, {}, "slice_products")),
            (std::vector<std::int64_t>{4, 4, 4, 4}));
  EXPECT_EQ(depths(passed<&product<f32, 64, 64, 8>>(kSquare, {}, "slice_products")), (std::vector<std::int64_t>{8}));
}

/// 128 x 128 x K in 8 warps are 64 K multiplications of a thread.
TEST(SliceProducts, LongChainsAreLoops) {
  const auto unrolled = [](const Passed& p) { return depths(p).size(); };
  EXPECT_EQ(unrolled(passed<&product<f32, 128, 128, 128>>(kSquare, {}, "slice_products")), 32u) << "8192";
  EXPECT_EQ(unrolled(passed<&product<f32, 128, 128, 256>>(kSquare, {}, "slice_products")), 64u) << "16384";
  EXPECT_EQ(depths(passed<&product<f32, 128, 128, 512>>(kSquare, {}, "slice_products")),
            (std::vector<std::int64_t>{4}));
  passes::Tuning loops, chains;
  loops.roll = 1;
  chains.roll = 0;
  EXPECT_EQ(depths(passed<&product<f32, 64, 64, 32>>(kSquare, loops, "slice_products")),
            (std::vector<std::int64_t>{8}));
  EXPECT_EQ(unrolled(passed<&product<f32, 128, 128, 512>>(kSquare, chains, "slice_products")), 128u);
}

TEST(SliceProducts, TheSumsOfLoopsAreTheSame) {
  passes::Tuning loops;
  loops.roll = 1;
  for (const std::int64_t k : {16, 40, 50})
    expect_same<&product<f32, 16, 16, 16>>(loops, 3, Array<float>({37, 24}, 5), Array<float>({37, k}).each(number),
                                           Array<float>({k, 24}).each(number));
  expect_same<&batched>(loops, 4, Array<float>({4, 8, 8}, 5), Array<float>({4, 8, 48}).each(number),
                        Array<float>({4, 48, 8}).each(number));
}

TEST(SliceProducts, NotWhatTensorCoresMultiply) {
  EXPECT_EQ(depths(passed<&product<bf16, 64, 64, 32>>(kSquare, {}, "slice_products")), (std::vector<std::int64_t>{32}));
  EXPECT_EQ(depths(passed<&product<tf32, 64, 64, 32>>(kSquare, {}, "slice_products")), (std::vector<std::int64_t>{32}));
}

template <int M, int N>
void product_of_bytes(Mut<i32, M, N> c, In<i8, dyn, dyn> a, In<i8, dyn, dyn> b) {
  auto [i, j] = c.index();
  auto A = a.tiles(shape<M, 64>);
  auto B = b.tiles(shape<64, N>);
  auto acc = zeros<i32, M, N>();
  for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
  c.store(acc);
}
/// Small products stay small.
passes::Tuning not_widened() {
  passes::Tuning tuning;
  tuning.widen_products = false;
  return tuning;
}
template <int M, int N>
int products_of_bytes() {
  const auto byte = [](std::int64_t i) { return static_cast<std::int8_t>(i * 37 % 255 - 127); };
  const Passed p = expect_same<&product_of_bytes<M, N>>(not_widened(), 1, Array<std::int32_t>({M, N}),
                                                        Array<std::int8_t>({M, 100}).each(byte),
                                                        Array<std::int8_t>({100, N}).each(byte));
  return count(*p.module, ir::Op::MmaI);
}
/// 16 rows and 8 columns, of f64 8 rows.
TEST(SliceProducts, WhatIsSmallerThanTensorCoresMultiply) {
  const std::vector<std::vector<std::int64_t>> dims{{64, 64}, {64, 64}, {64, 64}};
  const auto sliced = [&](const Passed& p) { return depths(p) == std::vector<std::int64_t>(8, 8); };
  EXPECT_TRUE(sliced(passed<&product<f16, 8, 64, 64>>(dims, not_widened(), "", 4)));
  EXPECT_FALSE(sliced(passed<&product<f16, 16, 8, 64>>(dims, not_widened(), "", 4)));
  EXPECT_EQ((products_of_bytes<16, 8>()), 1);
}
/// The assembler reserves less shared memory than it writes for smaller ones.
TEST(SliceProducts, SlicesHaveAtLeast128Bytes) {
  const std::vector<std::vector<std::int64_t>> dims{{64, 64}, {64, 64}, {64, 64}};
  const auto of = [&](const Passed& p) { return depths(p); };
  EXPECT_EQ(of(passed<&product<f16, 64, 4, 64>>(dims, not_widened(), "", 4)),
            (std::vector<std::int64_t>{16, 16, 16, 16}));
  EXPECT_EQ(of(passed<&product<f16, 2, 64, 64>>(dims, not_widened(), "", 4)), (std::vector<std::int64_t>{32, 32}));
  EXPECT_EQ(of(passed<&product<f16, 64, 1, 64>>(dims, not_widened(), "", 4)), (std::vector<std::int64_t>{64}));
  EXPECT_EQ(of(passed<&product<f32, 64, 2, 64>>(dims, not_widened(), "", 4)),
            (std::vector<std::int64_t>{16, 16, 16, 16}));
  EXPECT_EQ((products_of_bytes<8, 64>()), 4) << "16 of k";
  EXPECT_EQ((products_of_bytes<16, 4>()), 2) << "32 of k";
  EXPECT_EQ((products_of_bytes<64, 1>()), 1) << "all of k are 64 bytes";
}

TEST(SliceProducts, OperandsWhoseRowsRunAlongKAreNotCopied) {
  const std::vector<bool> rows{false, true}, columns{true, false}, both{true, true};
  EXPECT_EQ(copied(passed<&product<f32, 64, 64, 32>>(kSquare, {}, "choose_hints")), rows);
  EXPECT_EQ(copied(passed<&product_of_columns<64, 64, 32>>(kSquare, {}, "choose_hints")), columns);
  EXPECT_EQ(copied(passed<&product<tf32, 64, 64, 32>>(kSquare, {}, "choose_hints")), both);
}

TEST(SliceProducts, BlocksOfAnSmAsRegistersAllow) {
  const auto hints = [](const Passed& p) { return std::pair(p.choices.warps, p.choices.occupancy); };
  EXPECT_EQ(hints(passed<&product<f32, 64, 64, 32>>(kSquare, {}, "choose_hints")), std::pair(8, 1));
  EXPECT_EQ(hints(passed<&product<f32, 128, 128, 16>>(kSquare, {}, "choose_hints")), std::pair(8, 1));
  EXPECT_EQ(hints(passed<&product<f32, 32, 32, 32>>(kSquare, {}, "choose_hints")), std::pair(4, 3));
}

}  // namespace THIS_FILE
}  // namespace tessera::test
