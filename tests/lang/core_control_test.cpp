// Device control flow: what variables hold after loops and branches, and what is carried.
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "core_support.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Arguments;
using test::count;
using test::run;
using test::text;

void loop_sum(Mut<i32, 1> y, Scalar<i32> lo, Scalar<i32> hi, Scalar<i32> step) {
  Scalar<i32> total = 0;
  for (auto i : range(lo, hi, step)) total += i;
  y.store(broadcast(total, shape<1>));
}
int host_sum(int lo, int hi, int step) {
  int total = 0;
  for (int i = lo; i < hi; i += step < 1 ? 1 : step) total += i;
  return total;
}
TEST(Range, CountsAsTheHostDoes) {
  for (auto [lo, hi, step] :
       {std::array{0, 10, 1}, {3, 20, 4}, {-5, 5, 3}, {7, 7, 1}, {9, 2, 1}, {0, 5, 0}, {0, 4, -2}}) {
    std::vector<i32> y{-1};
    run<loop_sum>(Arguments().vector(y).scalar(lo).scalar(hi).scalar(step));
    EXPECT_EQ(y[0], host_sum(lo, hi, step)) << lo << ' ' << hi << ' ' << step;
  }
}

void unsigned_loop(Mut<u32, 1> y, Scalar<u32> n) {
  Scalar<u32> last = 0;
  for (auto i : range(0x7FFFFFFEu, n)) last = i;
  y.store(broadcast(last, shape<1>));
}
TEST(Range, UnsignedBoundsAreComparedAsUnsigned) {
  std::vector<u32> y{0};
  run<unsigned_loop>(Arguments().vector(y).scalar(0x80000003u));
  EXPECT_EQ(y[0], 0x80000002u);
}

void bounds_are_taken_once(Mut<i32, 1> y, Scalar<i32> n) {
  Scalar<i32> turns = 0;
  for (auto i : range(n)) {
    (void)i;
    n += 1;
    turns += 1;
  }
  y.store(broadcast(turns * 100 + n, shape<1>));
}
TEST(Range, ReadsItsBoundsOnce) {
  std::vector<i32> y{0};
  run<bounds_are_taken_once>(Arguments().vector(y).scalar(4));
  EXPECT_EQ(y[0], 408);
}

void fibonacci(Mut<i64, 1> y, Scalar<i32> n) {
  Scalar<i64> a = 0, b = 1;
  for (auto i : range(n)) {
    (void)i;
    std::swap(a, b);
    b += a;
  }
  y.store(broadcast(a, shape<1>));
}
TEST(Variables, SwappedInALoop) {
  std::vector<i64> y{0};
  run<fibonacci>(Arguments().vector(y).scalar(50));
  EXPECT_EQ(y[0], 12586269025);
}

void collatz(Mut<i32, 1> y, Scalar<i32> n) {
  Scalar<i32> steps = 0;
  tile_while(n != 1) {
    tile_if (n % 2 == 0) {
      n /= 2;
    } else {
      n = 3 * n + 1;
    }
    ++steps;
  }
  y.store(broadcast(steps, shape<1>));
}
TEST(TileWhile, RunsUntilItsConditionFails) {
  for (auto [n, steps] : {std::pair{27, 111}, {1, 0}, {6, 8}}) {
    std::vector<i32> y{0};
    run<collatz>(Arguments().vector(y).scalar(n));
    EXPECT_EQ(y[0], steps);
  }
}

void changing_condition(Mut<i32, 1> y, Scalar<i32> n) {
  Scalar<i32> body = 0;
  tile_while(n-- > 0) { body += 10; }
  y.store(broadcast(body + n, shape<1>));
}
TEST(TileWhile, ItsConditionMayAssign) {
  std::vector<i32> y{0};
  run<changing_condition>(Arguments().vector(y).scalar(3));
  EXPECT_EQ(y[0], 29);  // 3 iterations; n is -1 after the condition that fails
}

void chain(Mut<i32, 1> y, Scalar<i32> n) {
  Scalar<i32> r = -1;
  tile_if (n < 10) {
    r = 1;
  } else tile_if (n < 20) {
    r = 2;
    tile_if (n == 15) { r = 3; }
  } else {
    r = n;
  }
  y.store(broadcast(r, shape<1>));
}
TEST(TileIf, ElseBindsAsInCpp) {
  for (auto [n, r] : {std::pair{0, 1}, {12, 2}, {15, 3}, {99, 99}}) {
    std::vector<i32> y{0};
    run<chain>(Arguments().vector(y).scalar(n));
    EXPECT_EQ(y[0], r);
  }
}

struct State {
  Tile<f32, 4> value;
  std::array<Scalar<i32>, 2> counts;
};
void bump(Tile<f32, 4>& t, Scalar<i32> by) {
  by += 1;  // a copy
  t += cast<f32>(by);
}
void struct_and_helpers(Mut<f32, 4> y, Scalar<i32> n) {
  State s{zeros<f32, 4>(), {0, 10}};
  auto step = [&](Scalar<i32> i) { bump(s.value, i); };
  for (auto i : range(n)) {
    step(i);
    tile_if (i % 2 == 0) {
      s.counts[0] += 1;
    } else {
      s.counts[1] -= 1;
    }
  }
  y.store(s.value + cast<f32>(s.counts[0] * 100 + s.counts[1]));
}
TEST(Variables, InStructsArraysReferencesAndLambdas) {
  std::vector<f32> y(4);
  run<struct_and_helpers>(Arguments().vector(y).scalar(5));
  EXPECT_EQ(y, std::vector<f32>(4, 15.0f + 300 + 8));
}

void containers(Mut<f32, 4> y) {
  auto a = y.load();
  auto b = std::move(a);
  b *= 3.0f;
  std::vector<Tile<f32, 4>> v{a, b};
  for (auto k : range(4)) {
    (void)k;
    for (auto& t : v) t *= 2.0f;
    std::swap(v[0], v[1]);
  }
  auto& first = v[0];
  first = first + v[1];
  y.store(v[0]);
}
TEST(Variables, MovedCopiedAndInContainers) {
  std::vector<f32> y{1, 2, 3, 4};
  run<containers>(Arguments().vector(y));
  EXPECT_EQ(y, (std::vector<f32>{64, 128, 192, 256}));
}

// Assignments in every combination of regions, compared with the same program on the host.
template <class Int, class For, class If>
Int torture(Int n, For&& loop, If&& branch) {
  Int a = 1, b = 2, c = 3, unused = 4;
  loop(n, [&](Int i) {
    Int local = i + a;
    branch(
        local % 3 == 0,
        [&] {
          a = b;
          b = local;
        },
        [&] { c = c + a; });
    loop(i % 4, [&](Int j) {
      branch(
          j > 1, [&] { std::swap(a, c); }, [&] {});
      b = b + j;
      loop(j, [&](Int k) { c = c + k - b % 7; });
    });
    unused = unused + c;
    branch(
        a > 1000, [&] { a = a % 1000; },
        [&] {
          branch(
              b > 500, [&] { b = b - 500; }, [&] { a = a + 1; });
        });
  });
  return a * 10000 + b * 10 + c;
}
void torture_kernel(Mut<i32, 1> y, Scalar<i32> n) {
  using I = Scalar<i32>;
  auto r = torture<I>(
      n,
      [](I count, auto body) {
        for (auto i : range(count)) body(i);
      },
      [](auto condition, auto then, auto otherwise) {
        tile_if (condition) {
          auto mark = condition;  // records something in the arm, whatever `then` does
          mark = !mark;
          then();
        } else {
          otherwise();
        }
      });
  y.store(broadcast(r, shape<1>));
}
TEST(Variables, NestedLoopsAndBranchesMatchTheHost) {
  for (int n : {0, 1, 2, 5, 17, 40}) {
    const int expected = torture<int>(
        n,
        [](int count, auto body) {
          for (int i = 0; i < count; ++i) body(i);
        },
        [](bool condition, auto then, auto otherwise) { condition ? then() : otherwise(); });
    std::vector<i32> y{0};
    run<torture_kernel>(Arguments().vector(y).scalar(n));
    EXPECT_EQ(y[0], expected) << n;
  }
}

void kept_beside_its_sum(Mut<i32, 64> y, Mut<i32, 64> z, In<i32, dyn> x, Scalar<i32> c) {
  auto t = x.load_like(y);
  auto u = t + 1000;
  auto v = t;
  tile_if (c > 0) { v = zeros<i32, 64>(); }
  y.store(v + 5);
  z.store(u);
}
TEST(Variables, ATileThatABranchKeepsIsNotTheOneComputedFromIt) {
  for (const int c : {0, 1}) {
    std::vector<i32> y(64), z(64), x(64, 1);
    run<kept_beside_its_sum>(Arguments().vector(y).vector(z).vector(x).scalar(c));
    EXPECT_EQ(y, std::vector<i32>(64, c > 0 ? 5 : 6));
    EXPECT_EQ(z, std::vector<i32>(64, 1001));
  }
}

void carries_only_what_changes(Mut<f32, 4> y, Scalar<i32> n, Scalar<f32> s) {
  auto kept = y.load();
  auto acc = zeros<f32, 4>();
  auto dead = zeros<f32, 4>();
  auto dead2 = zeros<f32, 4>();
  for (auto i : range(n)) {
    auto local = kept * s;
    acc += local;
    for (auto j : range(i)) {
      dead += cast<f32>(j);
      dead2 = dead;
    }
    dead += dead2;
  }
  y.store(acc);
}
TEST(Liveness, ValuesThatOnlyKeepEachOtherAliveAreNotCarried) {
  const std::string ir = text<carries_only_what_changes>();
  EXPECT_EQ(count(ir, " for %"), 1) << ir;      // the inner loop is gone
  EXPECT_EQ(count(ir, "%iterArg"), 2) << ir;    // acc: its declaration and its read
  EXPECT_EQ(count(ir, "make_token"), 1) << ir;  // the tensor's, not the tracer's marker
}

void branch_without_assignment(Mut<f32, 4> y, Scalar<i32> n) {
  auto a = y.load();
  tile_if (n > 0) {
    auto b = a * 2.0f;
    y.store(b);
  }
}
TEST(TileIf, YieldsNothingButTokensIfNothingIsAssigned) {
  std::vector<f32> y{1, 2, 3, 4};
  run<branch_without_assignment>(Arguments().vector(y).scalar(1));
  EXPECT_EQ(y[3], 8);
  run<branch_without_assignment>(Arguments().vector(y).scalar(0));
  EXPECT_EQ(y[3], 8);
}

void host_control_flow(Mut<f32, 4> y) {
  auto a = y.load();
  for (int i = 0; i < 3; ++i) {
    if (i == 1) continue;
    a += static_cast<float>(i);
  }
  y.store(a);
}
TEST(HostControlFlow, UnrollsWhileTracing) {
  const std::string ir = text<host_control_flow>();
  EXPECT_EQ(count(ir, " for "), 0);
  EXPECT_EQ(count(ir, "addf"), 2);
}

TEST(Locations, NamedCallsCarryTheirLine) {
  const lang::Trace trace = lang::trace<host_control_flow>();
  EXPECT_STREQ(trace.module->functions.front()->body().back()->info().mnemonic.data(), "return");
  bool found = false;
  ir::walk(trace.module->functions.front()->body(), [&](ir::Operation& op) {
    if (op.op() == ir::Op::AddF)
      found = found || std::string(op.loc.file).find("core_control_test") != std::string::npos;
  });
  EXPECT_TRUE(found);
}

}  // namespace THIS_FILE
}  // namespace tessera
