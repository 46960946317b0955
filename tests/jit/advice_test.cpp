// What `tessera explain` advises: each kind of advice for a kernel that needs it, and none for one that does not.
#include "jit/compile/advice.hpp"

#include "analysis/support.hpp"

namespace tessera::test {
namespace {

/// All advice for sm_90, for launches with tensors of these extents.
template <auto K>
std::string advised(const std::vector<std::vector<std::int64_t>>& dims) {
  const Recorded r = recorded<K>();
  const jit::Prepared p = jit::prepare(*r.trace.module, r.facts, r.held(dims), {90, 132});
  std::string all;
  for (const std::string& a : jit::advice(p)) all += a + "\n";
  return all;
}
bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

void copy_rows(Mut<f32, 1, 512> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y)); }
void shifted(Mut<f32, 1, 512> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.origin();
  y.store(x.load_at(shape<1, 512>, i, j + 1));
}
void gathered(Mut<f32, 512> y, In<f32, dyn> x, In<i32, dyn> at) { y.store(x.gather(axis<0>, at.load_like(y))); }
void narrow_rows(Mut<f32, 256, 2> y, In<f32, dyn, dyn> x) { y.store(x.load_like(y)); }

TEST(Advice, NarrowAccessesSayWhatWidensThem) {
  EXPECT_EQ(advised<&copy_rows>({{64, 512}, {64, 512}}), "");
  EXPECT_TRUE(says(advised<&copy_rows>({{64, 511}, {64, 511}}), "a thread loads 4 bytes at a time"));
  EXPECT_TRUE(says(advised<&copy_rows>({{64, 511}, {64, 511}}), "a thread stores 4 bytes at a time"));
  EXPECT_TRUE(says(advised<&shifted>({{64, 512}, {64, 512}}), "where it begins is not known to be a multiple of 16"));
  EXPECT_TRUE(says(advised<&gathered>({{512}, {512}, {512}}), "its elements are no neighbours"));
  EXPECT_TRUE(says(advised<&gathered>({{512}, {512}, {512}}), "write x.load_at(shape<...>, i, j)"));
  EXPECT_TRUE(says(advised<&narrow_rows>({{512, 4}, {512, 4}}), "4 elements and more make them wide"));
  EXPECT_TRUE(says(advised<&shifted>({{64, 512}, {64, 512}}), "advice_test.cpp:")) << "the user's line";
}

template <int M>
void few_rows(Mut<f32, M, 128> y, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  auto [i, j] = y.index();
  auto A = a.tiles(shape<M, 64>);
  auto B = b.tiles(shape<64, 128>);
  auto acc = zeros<f32, M, 128>();
  for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
  y.store(acc);
}
TEST(Advice, ProductsOfFewRowsExchangeTheirOperands) {
  const char* exchange = "exchange the operands, as in transpose(mma(transpose(b), transpose(a), transpose(acc)))";
  EXPECT_TRUE(says(advised<&few_rows<32>>({{32, 128}, {32, 512}, {512, 128}}), exchange));
  EXPECT_TRUE(says(advised<&few_rows<32>>({{32, 128}, {32, 512}, {512, 128}}), "the left operand has 32 rows"));
  EXPECT_FALSE(says(advised<&few_rows<64>>({{64, 128}, {64, 512}, {512, 128}}), exchange));
}

template <int A>
void scanned(Mut<f32, 32, 64> y, In<f32, dyn, dyn> x) {
  y.store(cumsum(x.load_like(y), axis<A>));
}
TEST(Advice, ScansAcrossLanesTakeTheOtherAxis) {
  EXPECT_TRUE(says(advised<&scanned<0>>({{32, 64}, {32, 64}}), "scan along axis<1>"));
  EXPECT_FALSE(says(advised<&scanned<1>>({{32, 64}, {32, 64}}), "scan along axis<1>"));
}

TEST(Advice, TheLargestTileNamesThePieceThatTakesHalf) {
  const Recorded r = recorded<&scanned<1>>();
  const std::string text =
      jit::largest_tile(jit::prepare(*r.trace.module, r.facts, r.held({{32, 64}, {32, 64}}), {90, 132}));
  EXPECT_TRUE(says(text, "tile<32x64xf32> at advice_test.cpp:")) << text;
  EXPECT_TRUE(says(text, "pieces that make it tile<16x64xf32>, or warps = ")) << text;
}

void counts(Acc<i32, dyn> y, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  y.add(x.tiles(shape<512>).load(i), 1);
}
void counts_of_bytes(Acc<i32, dyn> y, In<u8, dyn> x) {
  auto [i] = block_id<1>();
  y.add(cast<i32>(x.tiles(shape<512>).load(i)), 1);
}
void sums_of_columns(Acc<f32, dyn> y, In<f32, dyn, dyn> x) {
  auto [i] = block_id<1>();
  y.add(iota<i32, 1, 512>(axis<1>), x.tiles(shape<1, 512>).load(i, 0));
}
TEST(Advice, AtomicOperationsThatMayCollide) {
  EXPECT_TRUE(says(advised<&counts>({{100}, {1024}}), "each element is an atomic operation"));
  EXPECT_FALSE(says(advised<&counts_of_bytes>({{256}, {1024}}), "atomic")) << "counted first";
  EXPECT_FALSE(says(advised<&sums_of_columns>({{512}, {64, 512}}), "atomic")) << "indices that differ";
}

void walk(Mut<f32, 512> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<1, 512>);
  auto [j] = y.index();
  auto total = zeros<f32, 1, 512>();
  for (auto i : range(X.count(0))) total += X.load(i, j);
  y.store(reshape(total, shape<512>));
}
TEST(Advice, BlocksThatWalkAreFew) {
  EXPECT_TRUE(says(advised<&walk>({{512}, {64, 512}}), "fewer than 132 pieces leaves SMs idle"));
  EXPECT_FALSE(says(advised<&copy_rows>({{64, 512}, {64, 512}}), "idle"));
}

}  // namespace
}  // namespace tessera::test
