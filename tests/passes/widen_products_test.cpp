// Products that are smaller than tensor cores multiply: they become large enough, their sums are what they were, loops
// carry what only products add to, and what does not fit stays.
#include "base/rounds.hpp"
#include "passes/passed.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/ir/parser.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::test {
namespace THIS_FILE {

template <class T, class C, int M, int N, int K>
void product(Mut<C, M, N> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  auto A = a.tiles(shape<M, K>);
  auto B = b.tiles(shape<K, N>);
  auto [i, j] = c.index();
  auto acc = c.load();
  for (auto k : range(A.count(1))) {
    auto x = A.load(i, k);
    auto y = B.load(k, j);
    acc = mma(x, y, acc);
  }
  c.store(acc);
}
/// step(sum, x, y, k) for the pieces of each row of a and column of b. The sums are stored.
template <int M>
void in_steps(Mut<f32, M, 16>& c, const In<f16, dyn, dyn>& a, const In<f16, dyn, dyn>& b, const auto& step) {
  auto A = a.tiles(shape<M, 16>);
  auto B = b.tiles(shape<16, 16>);
  auto [i, j] = c.index();
  auto sum = zeros<f32, M, 16>();
  for (auto k : range(A.count(1))) {
    auto x = A.load(i, k);
    auto y = B.load(k, j);
    step(sum, x, y, k);
  }
  c.store(sum);
}
/// Two products of each step are added, one after the other.
void chain(Mut<f32, 4, 16> c, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  in_steps(c, a, b, [](auto& sum, const auto& x, const auto& y, const auto&) {
    sum = mma(x, y, sum);
    sum = mma(x * f16(2.0f), y, sum);
  });
}
/// A sum that an inner loop goes on with, in each iteration of an outer one.
void nested(Mut<f32, 2, 16> c, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  auto A = a.tiles(shape<2, 16>);
  auto B = b.tiles(shape<16, 16>);
  auto [i, j] = c.index();
  auto acc = zeros<f32, 2, 16>();
  for (auto outer : range(Tile<i32>(3) + i * 0))
    for (auto k : range(A.count(1))) {
      auto x = A.load(i, k + outer * 0);
      auto y = B.load(k, j);
      acc = mma(x, y, acc);
    }
  c.store(acc);
}
/// The sum is scaled in each iteration, as in attention: the loop carries its few rows.
void scaled(Mut<f32, 4, 16> c, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  in_steps(c, a, b, [](auto& sum, const auto& x, const auto& y, const auto&) { sum = mma(x, y, sum * 0.5f); });
}
/// The sum is read beside the product: the loop carries its few rows.
void read_beside(Mut<f32, 4, 16> c, Mut<f32, 4, 16> last, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  auto before = zeros<f32, 4, 16>();
  in_steps(c, a, b, [&](auto& sum, const auto& x, const auto& y, const auto&) {
    before = sum + 1.0f;
    sum = mma(x, y, sum);
  });
  last.store(before);
}
/// The state is an operand of the product that gives the next one, so it is needed as it is.
void recurrence(Mut<f16, 4, 16> c, In<f16, dyn, dyn> x, In<f16, 16, 16> w) {
  auto [i, j] = c.index();
  auto X = x.tiles(shape<4, 16>);
  auto weights = w.tiles(shape<16, 16>).load(0, 0);
  auto state = X.load(i, 0);
  for (auto k : range(X.count(1))) state = mma(state, weights, X.load(i, k));
  c.store(state);
}
/// Only some iterations multiply.
void guarded(Mut<f32, 4, 16> c, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  in_steps(c, a, b, [](auto& sum, const auto& x, const auto& y, const auto& k) {
    tile_if (k != 1) { sum = mma(x, y, sum); }
  });
}
template <int Batch, int M, int N>
void batched(Mut<f32, Batch, M, N> c, In<f16, dyn, dyn, dyn> a, In<f16, dyn, dyn, dyn> b) {
  auto [batch, i, j] = c.index();
  auto acc = full<f32, Batch, M, N>(0.5f);
  for (auto k : range(a.tiles(shape<Batch, M, 16>).count(2))) {
    auto x = a.tiles(shape<Batch, M, 16>).load(batch, i, k);
    auto y = b.tiles(shape<Batch, 16, N>).load(batch, k, j);
    acc = mma(x, y, acc);
  }
  c.store(acc);
}
/// The result of a product is an operand of the next.
void two_layers(Mut<f32, 4, 8> c, In<f16, dyn, dyn> a, In<f16, 16, 16> b, In<f16, 16, 8> d) {
  auto [i, j] = c.index();
  auto h = mma(a.tiles(shape<4, 16>).load(i, 0), b.tiles(shape<16, 16>).load(0, 0), zeros<f32, 4, 16>());
  c.store(mma(cast<f16>(h), d.tiles(shape<16, 8>).load(0, 0), zeros<f32, 4, 8>()));
}

/// Products that tensor cores do not multiply.
int left(const Passed& p) {
  int n = 0;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      n += analysis::is_product(op) && !analysis::uses_tensor_cores(op) ? 1 : 0;
    });
  return n;
}
/// Rows of the products, in the order of the program.
std::vector<std::int64_t> rows_of_products(const Passed& p) {
  std::vector<std::int64_t> rows;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if (analysis::is_product(op)) rows.push_back(op.result().type().shape()[0]);
    });
  return rows;
}
/// The most rows of a tile that a loop carries.
std::int64_t rows_carried(const Passed& p) {
  std::int64_t most = 0;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if (op.op() != ir::Op::For) return;
      for (std::size_t i = 0; i < op.num_results(); ++i)
        if (op.result(i).type().is_tile() && op.result(i).type().rank() == 2)
          most = std::max(most, op.result(i).type().shape()[0]);
    });
  return most;
}
/// Results that are cut in a loop.
int cut_in_loops(const Passed& p) {
  int n = 0;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      n += op.op() == ir::Op::Extract && analysis::loops_around(op) > 0 ? 1 : 0;
    });
  return n;
}

const auto half_number = [](std::int64_t i) { return f16(number(i)); };
Array<f16> halves(std::int64_t m, std::int64_t n) { return Array<f16>({m, n}).each(half_number); }

template <class T, class C, int M, int N, int K>
void expect_widened(std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto value = [](std::int64_t i) { return static_cast<T>(static_cast<float>((i * 37) % 11 - 5)); };
  const int blocks = static_cast<int>(((m + M - 1) / M) * ((n + N - 1) / N));
  const Passed p = expect_same<&product<T, C, M, N, K>>({}, blocks, Array<C>({m, n}, static_cast<C>(3)),
                                                        Array<T>({m, k}).each(value), Array<T>({k, n}).each(value));
  EXPECT_EQ(left(p), 0) << M << 'x' << N << 'x' << K;
  EXPECT_EQ(cut_in_loops(p), 0) << M << 'x' << N << 'x' << K;
}

TEST(WidenProducts, RowsAndColumns) {
  expect_widened<f16, f32, 1, 16, 16>(3, 40, 50);
  expect_widened<f16, f32, 2, 32, 16>(5, 40, 48);
  expect_widened<bf16, f32, 4, 16, 32>(9, 20, 70);
  expect_widened<bf16, f32, 8, 8, 16>(17, 20, 40);
  expect_widened<f16, f32, 32, 1, 16>(40, 3, 50);
  expect_widened<f16, f32, 16, 4, 16>(40, 9, 40);
  expect_widened<f16, f32, 4, 2, 16>(9, 5, 40);
  expect_widened<f16, f16, 4, 2, 16>(9, 5, 16);
  expect_widened<i8, i32, 4, 4, 32>(9, 9, 70);
  expect_widened<tf32, f32, 4, 16, 8>(9, 20, 30);
}
/// Tensor cores multiply 8 rows of f64.
TEST(WidenProducts, RowsOfF64) {
  expect_widened<f64, f64, 4, 8, 8>(9, 20, 30);
  expect_widened<f64, f64, 8, 4, 8>(9, 9, 30);
  const std::vector<std::vector<std::int64_t>> dims{{64, 64}, {64, 64}, {64, 64}};
  const std::vector<std::int64_t> eight{8};
  EXPECT_EQ(rows_of_products(passed<&product<f64, f64, 8, 8, 8>>(dims, {}, "widen_products")), eight);
  EXPECT_EQ(rows_of_products(passed<&product<f64, f64, 4, 8, 8>>(dims, {}, "widen_products")), eight);
}
TEST(WidenProducts, ProductsOfF32Stay) {
  const Passed p = passed<&product<f32, f32, 4, 16, 16>>({{64, 64}, {64, 64}, {64, 64}}, {}, "widen_products");
  EXPECT_EQ(rows_of_products(p), std::vector<std::int64_t>{4});
}
TEST(WidenProducts, NotWhereTheyAreSwitchedOff) {
  passes::Tuning off;
  off.widen_products = false;
  EXPECT_EQ(left(passed<&product<f16, f32, 4, 16, 16>>({{64, 64}, {64, 64}, {64, 64}}, off, "widen_products")), 1);
}
/// 32 KiB: of sums 16 x 512 of f32, of operands 16 x 1024 of f16.
TEST(WidenProducts, WhatIsRepeatedFits) {
  const std::vector<std::vector<std::int64_t>> dims{{64, 1024}, {64, 2048}, {2048, 1024}};
  EXPECT_EQ(left(passed<&product<f16, f32, 2, 512, 16>>(dims, {}, "widen_products", 32)), 0);
  EXPECT_EQ(left(passed<&product<f16, f32, 2, 1024, 16>>(dims, {}, "widen_products", 32)), 1);
  EXPECT_EQ(left(passed<&product<f16, f32, 2, 16, 1024>>(dims, {}, "widen_products", 2048)), 0);
  EXPECT_EQ(left(passed<&product<f16, f32, 2, 16, 2048>>(dims, {}, "widen_products", 2048)), 1);
  EXPECT_EQ(left(passed<&batched<2, 4, 16>>({{8, 8, 16}, {8, 8, 16}, {8, 16, 16}}, {}, "widen_products", 8)), 0);
  EXPECT_EQ(left(passed<&batched<64, 4, 16>>({{64, 8, 16}, {64, 8, 16}, {64, 16, 16}}, {}, "widen_products", 2)), 1);
}
TEST(WidenProducts, LoopsCarryWideSums) {
  for (const std::int64_t k : {16, 40}) {
    const Passed two = expect_same<&chain>({}, 3, Array<float>({9, 16}), halves(9, k), halves(k, 16));
    EXPECT_EQ(left(two), 0);
    EXPECT_EQ(cut_in_loops(two), 0);
    EXPECT_EQ(rows_carried(two), 16);
    const Passed inner = expect_same<&nested>({}, 3, Array<float>({5, 16}), halves(5, k), halves(k, 16));
    EXPECT_EQ(left(inner), 0);
    EXPECT_EQ(cut_in_loops(inner), 0);
    EXPECT_EQ(rows_carried(inner), 16);
  }
}
TEST(WidenProducts, SumsThatOthersReadAreCutInTheLoop) {
  for (const std::int64_t k : {16, 40, 64}) {
    const Passed scales = expect_same<&scaled>({}, 3, Array<float>({9, 16}), halves(9, k), halves(k, 16));
    const Passed reads =
        expect_same<&read_beside>({}, 3, Array<float>({9, 16}), Array<float>({9, 16}), halves(9, k), halves(k, 16));
    const Passed guards = expect_same<&guarded>({}, 3, Array<float>({9, 16}), halves(9, k), halves(k, 16));
    const Passed recurs = expect_same<&recurrence>({}, 3, Array<f16>({9, 16}), halves(9, k), halves(16, 16));
    for (const Passed* p : {&scales, &reads, &guards, &recurs}) {
      EXPECT_EQ(left(*p), 0);
      EXPECT_GT(cut_in_loops(*p), 0);
      EXPECT_EQ(rows_carried(*p), 4);
    }
  }
}
/// A text that the language does not record: an iteration ends inside a branch. The loop carries its few rows.
TEST(WidenProducts, LoopsThatContinueEarlyCarryFewRows) {
  const auto module = ir::parse(R"(
entry @early(%n: tile<i32>, %c: tile<i1>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %a = constant <f16: 1.0> : tile<4x16xf16>
  %b = constant <f16: 2.0> : tile<16x16xf16>
  %z = constant <f32: 0.0> : tile<4x16xf32>
  %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%s = %z) -> (tile<4x16xf32>) {
    %p = mmaf %a, %b, %s : tile<4x16xf16>, tile<16x16xf16>, tile<4x16xf32>
    if %c {
      continue %p : tile<4x16xf32>
    } else {
    }
    %q = mmaf %a, %b, %p : tile<4x16xf16>, tile<16x16xf16>, tile<4x16xf32>
    continue %q : tile<4x16xf32>
  }
  return
}
)");
  EXPECT_TRUE(passes::widen_products(*module->functions[0]));
  EXPECT_EQ(problems(*module), "");
}
TEST(WidenProducts, BatchesAndLayers) {
  const auto three = [](std::int64_t a, std::int64_t b, std::int64_t c) {
    return Array<f16>({a, b, c}).each(half_number);
  };
  EXPECT_EQ(left(expect_same<&batched<2, 4, 16>>({}, 8, Array<float>({4, 8, 32}), three(4, 8, 40), three(4, 40, 32))),
            0);
  EXPECT_EQ(left(expect_same<&batched<2, 16, 4>>({}, 8, Array<float>({4, 32, 8}), three(4, 32, 40), three(4, 40, 8))),
            0);
  EXPECT_EQ(left(expect_same<&two_layers>({}, 3, Array<float>({9, 8}), halves(9, 16), halves(16, 16), halves(16, 8))),
            0);
}

}  // namespace THIS_FILE
}  // namespace tessera::test
