// Loops of products whose loads have a guard that does not change: two loops, the same outcome, and no branch where the
// guard holds.
#include "passes/pass_support.hpp"
#include "passes/passed.hpp"

namespace tessera::test {
namespace THIS_FILE {

constexpr int kRows = 32, kDepth = 16;

/// Each block of rows has its own weights, or none.
void of_expert(Mut<f32, kRows, kRows> y, In<f32, dyn, dyn> x, In<f32, dyn, dyn, dyn> w, In<i32, dyn> experts) {
  auto [i, j] = y.index();
  auto X = x.tiles(shape<kRows, kDepth>);
  auto W = w.tiles(shape<1, kDepth, kRows>);
  auto expert = reshape(experts.load_at(shape<1>, i), shape<>);
  auto sums = zeros<f32, kRows, kRows>();
  for (auto k : range(X.count(1))) sums = mma(X.load(i, k), reshape(W.load(expert, k, j), shape<kDepth, kRows>), sums);
  y.store(sums);
}
/// Rows from one number, weights from another: two guards.
void of_two_numbers(Mut<f32, kRows, kRows> y, In<f32, dyn, dyn, dyn> x, In<f32, dyn, dyn, dyn> w,
                    In<i32, dyn> numbers) {
  auto [i, j] = y.index();
  auto X = x.tiles(shape<1, kRows, kDepth>);
  auto W = w.tiles(shape<1, kDepth, kRows>);
  auto rows = reshape(numbers.load_at(shape<1>, i), shape<>),
       expert = reshape(numbers.load_at(shape<1>, i + 1), shape<>);
  auto sums = zeros<f32, kRows, kRows>();
  for (auto k : range(X.count(2)))
    sums = mma(reshape(X.load(rows, 0, k), shape<kRows, kDepth>), reshape(W.load(expert, k, j), shape<kDepth, kRows>),
               sums);
  y.store(sums);
}
/// The expert of each step: its guard changes.
void of_steps(Mut<f32, kRows, kRows> y, In<f32, dyn, dyn> x, In<f32, dyn, dyn, dyn> w, In<i32, dyn> experts) {
  auto [i, j] = y.index();
  auto X = x.tiles(shape<kRows, kDepth>);
  auto W = w.tiles(shape<1, kDepth, kRows>);
  auto sums = zeros<f32, kRows, kRows>();
  for (auto k : range(X.count(1))) {
    auto expert = reshape(experts.load_at(shape<1>, k), shape<>);
    sums = mma(X.load(i, k), reshape(W.load(expert, k, j), shape<kDepth, kRows>), sums);
  }
  y.store(sums);
}
/// No product: the loop stays one.
void sums_of_expert(Mut<f32, kRows, kRows> y, In<f32, dyn, dyn, dyn> w, In<i32, dyn> experts) {
  auto [i, j] = y.index();
  auto W = w.tiles(shape<1, kRows, kRows>);
  auto expert = reshape(experts.load_at(shape<1>, i), shape<>);
  auto sums = zeros<f32, kRows, kRows>();
  for (auto k : range(W.count(1))) sums = sums + reshape(W.load(expert, k, j), shape<kRows, kRows>);
  y.store(sums);
}

struct Loops {
  int loops = 0, with_branch = 0;
};
Loops loops_of(const ir::Module& module) {
  Loops found;
  ir::walk(module.functions.front()->body(), [&](const ir::Operation& op) {
    if (op.op() != ir::Op::For) return;
    bool branch = false;
    ir::walk(op.region(0), [&](const ir::Operation& inner) { branch = branch || inner.op() == ir::Op::If; });
    ++found.loops;
    found.with_branch += branch ? 1 : 0;
  });
  return found;
}

TEST(UnswitchLoops, AGuardThatDoesNotChangeLeavesTheLoop) {
  const Array<float> y({96, 64}, 5), x = Array<float>({96, 48}).each(number),
                                     w = Array<float>({3, 48, 64}).each(number);
  for (const auto& experts : {std::vector<std::int32_t>{0, 2, 1}, {-1, 3, 1 << 30}, {2, 3, -7}}) {
    Array<std::int32_t> at({3});
    at.data = experts;
    const Passed p = expect_same<&of_expert>({}, 6, y, x, w, at);
    const Loops found = loops_of(*p.module);
    EXPECT_EQ(found.loops, 2);
    EXPECT_EQ(found.with_branch, 0) << ir::print(*p.module);
  }
  passes::Tuning off;
  off.split_loops = false;
  Array<std::int32_t> at({3});
  EXPECT_EQ(loops_of(*expect_same<&of_expert>(off, 6, y, x, w, at).module).with_branch, 1);
}
TEST(UnswitchLoops, AllGuardsHaveToHold) {
  const Array<float> y({96, 64}, 5), x = Array<float>({3, 32, 48}).each(number),
                                     w = Array<float>({3, 48, 64}).each(number);
  for (const auto& numbers : {std::vector<std::int32_t>{0, 2, 1, 2}, {1, 3, 1, -1}, {7, 8, 9, 2}}) {
    Array<std::int32_t> at({4});
    at.data = numbers;
    const Loops found = loops_of(*expect_same<&of_two_numbers>({}, 6, y, x, w, at).module);
    EXPECT_EQ(found.loops, 2);
    EXPECT_EQ(found.with_branch, 1) << "where one of them does not hold the loop is as it was";
  }
}
/// Zeros that stand for a tile outside are multiplied, too.
TEST(UnswitchLoops, WhatIsNoNumberStaysSo) {
  Array<float> x = Array<float>({32, 16}).each(number);
  x.data[5] = std::numeric_limits<float>::quiet_NaN();
  Array<std::int32_t> none({1});
  none.data = {9};
  (void)expect_same<&of_expert>({}, 2, Array<float>({32, 64}, 5), x, Array<float>({3, 16, 64}).each(number), none);
}
TEST(UnswitchLoops, OtherLoopsStayOne) {
  Array<std::int32_t> at({3});
  at.data = {0, 5, 1};
  const Array<float> y({96, 64}, 5), w = Array<float>({3, 48, 64}).each(number);
  const Passed steps = expect_same<&of_steps>({}, 6, y, Array<float>({96, 48}).each(number), w, at);
  EXPECT_EQ(loops_of(*steps.module).loops, 1);
  const Passed sums = expect_same<&sums_of_expert>({}, 6, y, w, at);
  EXPECT_GT(loops_of(*sums.module).with_branch, 0) << "it has no product";
}

}  // namespace THIS_FILE
}  // namespace tessera::test
