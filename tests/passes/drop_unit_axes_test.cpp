// Axes of extent 1 that are the batch of a product leave all tiles that operations combine with it, and the numbers
// stay what they were.
#include <algorithm>

#include "passes/pass_support.hpp"
#include "passes/passed.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/analysis/values.hpp"

namespace tessera::test {
namespace THIS_FILE {

template <int B, class T, class O>
void product_kernel(Mut<O, B, 16, 16> c, In<T, dyn, dyn, dyn> a, In<T, dyn, dyn, dyn> b) {
  auto A = a.tiles(shape<B, 16, 8>);
  auto X = b.tiles(shape<B, 8, 16>);
  auto [n, i, j] = c.index();
  auto sum = full<f32, B, 16, 16>(0.5f);
  for (auto k : range(A.count(2))) {
    auto x = A.load(n, i, k);
    auto y = X.load(n, k, j);
    sum = mma(x, y, sum);
  }
  c.store(cast<O>(max(sum, 0.0f)));
}

/// Attention of one head and a block of queries, with a mask, in tiles of three axes throughout.
void attention_kernel(Mut<f32, 1, 16, 16> out, In<f32, dyn, dyn, dyn> q, In<f32, dyn, dyn, dyn> k,
                      In<f32, dyn, dyn, dyn> v) {
  auto [n, i, none] = out.index();
  auto queries = q.tiles(shape<1, 16, 16>).load(n, i, none);
  auto K = k.tiles(shape<1, 8, 16>), V = v.tiles(shape<1, 8, 16>);
  auto most = full<f32, 1, 16, 1>(-1e30f);
  auto sum = zeros<f32, 1, 16, 1>();
  auto acc = zeros<f32, 1, 16, 16>();
  auto rows = iota<i32, 1, 16, 1>(axis<1>) + i * 16;
  for (auto j : range(K.count(1))) {
    auto scores = mma(queries, permute(K.load(n, j, 0), order<0, 2, 1>), zeros<f32, 1, 16, 8>());
    auto columns = iota<i32, 1, 1, 8>(axis<2>) + j * 8;
    scores = where(columns <= rows, scores, -1e30f);
    auto top = max(most, max(scores, axis<2>));
    auto weights = exp(scores - top);
    auto old = exp(most - top);
    sum = sum * old + tessera::sum(weights, axis<2>);
    acc = mma(weights, V.load(n, j, 0), acc * old);
    most = top;
  }
  out.store(acc / sum);
}

/// The batch along another axis in memory, a branch around the loop, and running sums along the columns.
void branching_kernel(Mut<f32, 8, 1, 16> out, In<f32, dyn, dyn, dyn> a, In<f32, dyn, dyn, dyn> b, Scalar<i32> many) {
  auto [i, n, j] = out.index();
  auto A = a.tiles(shape<8, 1, 8>);
  auto X = b.tiles(shape<1, 8, 16>);
  auto acc = full<f32, 1, 8, 16>(1.0f);
  tile_if (many > 1) {
    for (auto k : range(A.count(2))) acc = mma(permute(A.load(i, n, k), order<1, 0, 2>), X.load(n, k, j), acc);
  }
  out.store(permute(acc + cumsum(acc, axis<2>), order<1, 0, 2>));
}

void rows_kernel(Mut<f32, 1, 64> out, In<f32, dyn, dyn> x) {
  auto row = x.load_like(out);
  out.store(row / sum(row, axis<1>));
}

template <class Visit>
void each(const ir::Module& module, Visit visit) {
  for (const auto& f : module.functions) ir::walk(f->body(), visit);
}
std::vector<int> ranks_of_products(const Passed& p) {
  std::vector<int> ranks;
  each(*p.module, [&](const ir::Operation& op) {
    if (analysis::is_product(op)) ranks.push_back(op.result().type().rank());
  });
  return ranks;
}
/// True if no operation but accesses and changes of shape has a tile of more than two axes.
bool only_accesses_have_three_axes(const Passed& p) {
  bool all = true;
  each(*p.module, [&](const ir::Operation& op) {
    if (op.op() == ir::Op::Reshape || op.op() == ir::Op::LoadViewTko || op.op() == ir::Op::StoreViewTko) return;
    for (const ir::Value v : op.operand_values()) all = all && (!v.type().is_tile() || v.type().rank() < 3);
    for (std::size_t i = 0; i < op.num_results(); ++i)
      all = all && (!op.result(i).type().is_tile() || op.result(i).type().rank() < 3);
  });
  return all;
}
int count(const Passed& p, ir::Op wanted) {
  int n = 0;
  each(*p.module, [&](const ir::Operation& op) { n += op.op() == wanted ? 1 : 0; });
  return n;
}
const std::vector<std::vector<std::int64_t>> kBatches{{4, 64, 64}, {4, 64, 64}, {4, 64, 64}};

TEST(DropUnitAxes, ProductsOfABatchOfOneHaveTwoAxes) {
  const Passed p = passed<&product_kernel<1, bf16, bf16>>(kBatches, {}, "clean_up");
  EXPECT_EQ(ranks_of_products(p), (std::vector<int>{2}));
  EXPECT_TRUE(only_accesses_have_three_axes(p));
  EXPECT_EQ(count(p, ir::Op::Reshape), 3) << "one beside each access";
  for (const std::int64_t m : {16, 21})
    expect_same<&product_kernel<1, f32, f32>>({}, 3 * 2 * 2, Array<float>({3, m + 8, 24}, 5),
                                              Array<float>({3, m + 8, 20}).each(number),
                                              Array<float>({3, 20, 24}).each(number));
}
TEST(DropUnitAxes, ProductsOfABatchOfTwoStay) {
  const Passed p = passed<&product_kernel<2, bf16, bf16>>(kBatches, {}, "clean_up");
  EXPECT_EQ(ranks_of_products(p), (std::vector<int>{3}));
  EXPECT_EQ(count(p, ir::Op::Reshape), 0);
  expect_same<&product_kernel<2, f32, f32>>({}, 4, Array<float>({4, 16, 24}, 5), Array<float>({4, 16, 20}).each(number),
                                            Array<float>({4, 20, 24}).each(number));
}
TEST(DropUnitAxes, ReductionsMasksAndCarriedTilesFollow) {
  const Passed p = passed<&attention_kernel>({{2, 32, 16}, {2, 32, 16}, {2, 32, 16}, {2, 32, 16}}, {}, "clean_up");
  EXPECT_EQ(ranks_of_products(p), (std::vector<int>{2, 2}));
  EXPECT_TRUE(only_accesses_have_three_axes(p));
  expect_same<&attention_kernel>({}, 4, Array<float>({2, 32, 16}, 5), Array<float>({2, 32, 16}).each(number),
                                 Array<float>({2, 32, 16}).each(number), Array<float>({2, 32, 16}).each(number));
}
TEST(DropUnitAxes, PermutationsBranchesAndScansFollow) {
  const Passed p = passed<&branching_kernel>({{16, 2, 32}, {16, 2, 24}, {2, 24, 32}}, {}, "clean_up");
  EXPECT_EQ(ranks_of_products(p), (std::vector<int>{2}));
  EXPECT_TRUE(only_accesses_have_three_axes(p));
  EXPECT_EQ(count(p, ir::Op::Permute), 0) << "of two axes in their order";
  for (const std::int32_t many : {0, 2})
    expect_same<&branching_kernel>({}, 2 * 2 * 2, Array<float>({16, 2, 32}, 5), Array<float>({16, 2, 24}).each(number),
                                   Array<float>({2, 24, 32}).each(number), many);
}
TEST(DropUnitAxes, KernelsWithoutProductsStay) {
  const Recorded r = recorded<&rows_kernel>();
  const auto copy = ir::clone(*r.trace.module);
  const std::string before = ir::print(*copy);
  EXPECT_FALSE(passes::drop_unit_axes(*copy->functions.front()));
  EXPECT_EQ(ir::print(*copy), before);
}

/// A product of a batch of one whose left operand `make` computes from a tile of `shape`.
template <class Make>
std::unique_ptr<Kernel> product_of(std::initializer_list<std::int64_t> shape, Make make) {
  auto k = std::make_unique<Kernel>();
  using ir::Op, ir::Type, ir::Elem;
  const ir::Value left = make(*k, k->b.constant_float(Elem::F32, 1, std::vector<std::int64_t>(shape)));
  const ir::Value right = k->b.constant_float(Elem::F32, 1, std::vector<std::int64_t>{1, 4, 8});
  const ir::Value zero = k->b.constant_float(Elem::F32, 0, std::vector<std::int64_t>{1, 8, 8});
  k->keep(k->op(Op::MmaF, {left, right, zero}, Type::tile(Elem::F32, {1, 8, 8})));
  ir::Function& f = k->function();
  EXPECT_TRUE(passes::drop_unit_axes(f));
  EXPECT_EQ(problems_of(k->module), "");
  ir::walk(f.body(), [](const ir::Operation& op) {
    if (analysis::is_product(op)) { EXPECT_EQ(op.result().type().rank(), 2); }
  });
  return k;
}
const ir::Operation* find(Kernel& k, ir::Op wanted) { return first(*k.module.functions.front(), wanted); }

TEST(DropUnitAxes, AnExtractOfOneSliceKeepsItsAxis) {
  const auto k = product_of({2, 8, 4}, [](Kernel& kernel, ir::Value v) {
    return kernel.op(ir::Op::Extract, {v, kernel.i32(1), kernel.i32(0), kernel.i32(0)},
                     ir::Type::tile(ir::Elem::F32, {1, 8, 4}));
  });
  EXPECT_EQ(find(*k, ir::Op::Extract)->num_operands(), 4u);
  EXPECT_EQ(find(*k, ir::Op::Extract)->result().type().rank(), 3);
}
TEST(DropUnitAxes, AnExtractAlongOtherAxesLosesAnIndex) {
  const auto k = product_of({1, 16, 4}, [](Kernel& kernel, ir::Value v) {
    return kernel.op(ir::Op::Extract, {v, kernel.i32(0), kernel.i32(1), kernel.i32(0)},
                     ir::Type::tile(ir::Elem::F32, {1, 8, 4}));
  });
  const ir::Operation* extract = find(*k, ir::Op::Extract);
  ASSERT_EQ(extract->num_operands(), 3u);
  EXPECT_EQ(analysis::constant_int(extract->operand(1)), 1);
  EXPECT_EQ(extract->result().type().rank(), 2);
}
TEST(DropUnitAxes, ABroadcastAlongAnotherAxisKeepsThatOne) {
  const auto k = product_of({1, 8, 1}, [](Kernel& kernel, ir::Value v) {
    return kernel.op(ir::Op::Broadcast, {v}, ir::Type::tile(ir::Elem::F32, {1, 8, 4}));
  });
  EXPECT_EQ(find(*k, ir::Op::Broadcast)->operand(0).type(), ir::Type::tile(ir::Elem::F32, {8, 1}));
}
TEST(DropUnitAxes, AConcatenationOfOtherAxesIsNumberedAnew) {
  const auto k = product_of({1, 8, 2}, [](Kernel& kernel, ir::Value v) {
    return kernel.b
        .create(ir::Op::Cat, {v, v}, {ir::Type::tile(ir::Elem::F32, {1, 8, 4})},
                {{ir::AttrName::dim, ir::IntAttr{ir::Elem::I64, 2}}})
        ->result();
  });
  EXPECT_EQ(find(*k, ir::Op::Cat)->int_attr(ir::AttrName::dim), 1);
}

}  // namespace THIS_FILE
}  // namespace tessera::test
