// Results of a loop that its iterations make one: which loops are changed, into what, and that a run computes the same,
// also without iterations.
#include <array>

#include "lang/run_kernel.hpp"
#include "passes/pass_support.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;

using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

/// for i in (0 to n) { s = a + 7; continue s, s, s }, from the initial values x, y and z; keeps the results.
struct OneValue : Kernel {
  explicit OneValue(bool same_initial) {
    const Value n = arg(Elem::I32), x = arg(Elem::I32), y = arg(Elem::I32), z = arg(Elem::I32);
    const Type t = x.type();
    ir::Operation* loop =
        b.create(Op::For, {i32(0), n, i32(1), x, same_initial ? x : y, same_initial ? x : z}, {t, t, t});
    ir::Block& body = loop->add_region();
    body.add_arg(n.type());
    const Value a = body.add_arg(t);
    body.add_arg(t);
    body.add_arg(t);
    ir::Builder in(body);
    const Value sum = in.create(Op::AddI, {a, in.constant_int(Elem::I32, 7)}, {t})->result();
    in.create(Op::Continue, {sum, sum, sum}, {});
    for (std::size_t r = 0; r < 3; ++r) keep(loop->result(r));
    (void)function();
  }
};

TEST(SeparateResults, OtherResultsAreChosenBehindTheLoop) {
  OneValue k(false);
  EXPECT_TRUE(passes::separate_results(*k.module.functions.front()));
  EXPECT_EQ(problems_of(k.module), "");
  const std::string text = k.text();
  EXPECT_NE(text.find("cmpi less_than %cst_0_i32, %arg0, signed"), std::string::npos) << text;
  EXPECT_NE(text.find(", %for#0, %arg1 : tile<i1>, tile<i32>"), std::string::npos) << text;
  EXPECT_NE(text.find(", %for#1, %arg2 : tile<i1>, tile<i32>"), std::string::npos) << text;
  EXPECT_NE(text.find(", %for#2, %arg3 : tile<i1>, tile<i32>"), std::string::npos) << text;
  const auto program = cpu::Program::compile(k.module);
  for (const std::int32_t n : {-1, 0, 1, 5}) {
    std::array<std::int32_t, 3> found{};
    Slots slots;
    for (const std::int32_t v : {n, 100, 200, 300}) slots.add(v);
    for (std::int32_t& v : found) slots.add(&v);
    program->run(cpu::Grid{1}, slots.values());
    for (std::int32_t r = 0; r < 3; ++r)
      EXPECT_EQ(found[static_cast<std::size_t>(r)], n > 0 ? 100 + 7 * n : 100 * (r + 1))
          << "without an iteration it is its own initial value";
  }
}

TEST(SeparateResults, OneInitialValueIsOneResult) {
  OneValue k(true);
  const std::string before = k.text();
  EXPECT_FALSE(passes::separate_results(*k.module.functions.front()));
  EXPECT_EQ(k.text(), before);
}

TEST(SeparateResults, TokensAreJoined) {
  Kernel k;
  const Value n = k.arg(Elem::I32), view = k.view(Elem::F32, {16}), i = k.i32(0);
  const auto token = [&] { return k.load(view, {i})->result(1); };
  const Value x = token(), y = token(), z = token();
  const Type t = x.type();
  ir::Operation* loop = k.b.create(Op::For, {i, n, k.i32(1), x, y, z}, {t, t, t});
  ir::Block& body = loop->add_region();
  body.add_arg(n.type());
  for (int c = 0; c < 3; ++c) body.add_arg(t);
  ir::Builder outside = k.b;
  k.b = ir::Builder(body);
  const Value last = k.load(view, {k.i32(0)})->result(1);
  k.b.create(Op::Continue, {last, last, last}, {});
  k.b = outside;
  for (std::size_t r = 0; r < 3; ++r) k.store(k.load(view, {i})->result(0), view, {i}, {}, loop->result(r));
  ir::Function& f = k.function();
  EXPECT_TRUE(passes::separate_results(f));
  EXPECT_EQ(problems_of(k.module), "");
  ASSERT_EQ(count(f, Op::JoinTokens), 1u);
  ir::Operation* joined = first(f, Op::JoinTokens);
  EXPECT_EQ(joined->num_operands(), 3u);
  for (std::size_t c = 3; c < 6; ++c) EXPECT_EQ(loop->operand(c), joined->result());
}

void names(Mut<i32, 16> y, Scalar<i32> n, Scalar<i32> other) {
  Scalar<i32> a = 1, b = other, c = 1, d = other;
  auto p = zeros<i32, 16>(), q = full<i32, 16>(3);
  for (auto i : range(n)) {
    tile_if (i == 3) { a += 5; }
    b = a;
    p += i;
    q = p;
  }
  auto r = zeros<i32, 16>(), s = full<i32, 16>(4);
  for (auto i : range(n)) {
    tile_if (i % 2 == 0) {
      r = r * 3 + i;
      s = r;
    } else {
      r = r * 5 + 1;
      s = r;
    }
  }
  p += r * 7 + s;
  tile_while(c < n) {
    c = c * 3 + 1;
    d = c;
  }
  y.store(p * 3 + q + a + b * 10 + c * 100 + d * 1000);
}

/// What variables held an iteration ago, in loops with loads and without.
void lagging(Mut<i32, 16> y, In<i32, dyn> x, Scalar<i32> n) {
  auto X = x.tiles(shape<16>);
  Scalar<i32> older = n, old = 50, now = 1;
  auto s = zeros<i32, 16>(), before = full<i32, 16>(9), tile = full<i32, 16>(1);
  for (auto k : range(n)) {
    older = old;
    old = now;
    tile_if (k > 1) {
      before = tile;
    } else {
      before = tile;
    }
    now = now + 2;
    tile = tile * 3;
    s += X.load(k);
  }
  y.store(s + older + old * 100 + now * 10000 + before);
}
void lagging_without_loads(Mut<i32, 16> y, In<i32, dyn>, Scalar<i32> n) {
  Scalar<i32> old = n, now = 1;
  for (auto k : range(n)) {
    old = now;
    now = now + k;
  }
  y.store(full<i32, 16>(1) * (old + now * 100));
}
TEST(SeparateResults, WhatAVariableHeldBeforeIsChosenWhereTheLoopLoads) {
  for (const bool loads : {true, false}) {
    lang::Trace t = loads ? lang::trace<lagging>() : lang::trace<lagging_without_loads>();
    auto changed = ir::clone(*t.module);
    ir::Function& f = *changed->functions.front();
    passes::separate_results(f);
    EXPECT_EQ(problems(*changed), "");
    std::size_t handed_on = 0;  // by `continue` as they came
    ir::walk(f.body(), [&](const ir::Operation& op) {
      if (op.op() != Op::Continue) return;
      for (std::size_t i = 0; i < op.num_operands(); ++i)
        if (op.operand(i).type().kind() != ir::TypeKind::Token && !op.operand(i).def()) ++handed_on;
    });
    EXPECT_EQ(handed_on, loads ? 0u : 1u) << ir::print(*changed);
    for (const std::int32_t n : {-2, 0, 1, 2, 5}) {
      const auto run = [&](const ir::Module& module) {
        Array<std::int32_t> y({16}, 77), x({40}, 3);
        Slots slots;
        slots.add(y);
        slots.add(x);
        slots.add(n);
        cpu::Program::compile(module)->run(cpu::Grid{1}, slots.values());
        return y.data;
      };
      EXPECT_EQ(run(*t.module), run(*changed)) << n;
    }
  }
}

TEST(SeparateResults, KernelsComputeTheSame) {
  lang::Trace t = lang::trace<names>();
  auto changed = ir::clone(*t.module);
  ir::Function& f = *changed->functions.front();
  const std::size_t selects = count(f, Op::Select);
  EXPECT_TRUE(passes::separate_results(f));
  EXPECT_EQ(problems(*changed), "");
  EXPECT_EQ(count(f, Op::Select), selects + 7);
  for (const std::int32_t n : {-2, 0, 1, 4, 9}) {
    const auto run = [&](const ir::Module& module) {
      Array<std::int32_t> y({16}, 77);
      Slots slots;
      slots.add(y);
      slots.add(n);
      slots.add(50);
      cpu::Program::compile(module)->run(cpu::Grid{1}, slots.values());
      return y.data;
    };
    EXPECT_EQ(run(*t.module), run(*changed)) << n;
  }
}

}  // namespace THIS_FILE
