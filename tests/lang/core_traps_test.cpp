// Misuse that is only detected while tracing: each case is a TraceError with file and line, and leaves the tracer
// clean. After each control-flow mistake follows the nearest legal kernel, which must compute the right result.
#include <optional>
#include <stdexcept>
#include <thread>

#include "core_support.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Arguments;
using test::trace_error;

void expect_trap(const TraceError& e, const char* words, std::uint32_t line) {
  EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  EXPECT_NE(std::string(e.where().file).find("core_traps_test.cpp"), std::string::npos) << e.what();
  EXPECT_EQ(e.where().line, line) << e.what();
}

/// y[0..7] = 0, 1, ..., 7 after `K` with the scalar n.
template <auto K>
std::vector<f32> after(i32 n) {
  std::vector<f32> y{0, 1, 2, 3, 4, 5, 6, 7};
  test::run<K>(Arguments().vector(y).scalar(n));
  return y;
}
std::vector<f32> counted_from(f32 first) {
  std::vector<f32> y;
  for (int i = 0; i < 8; ++i) y.push_back(first + static_cast<f32>(i));
  return y;
}

constexpr std::uint32_t kBreak = __LINE__ + 3;
void early_break(Mut<f32, 8> y) {
  auto a = y.load();
  for (auto k : range(10)) {
    a += cast<f32>(k);
    break;
  }
  y.store(a);
}
TEST(Traps, BreakOutOfARange) { expect_trap(trace_error<early_break>(), "leaves a device loop", kBreak); }
void break_of_a_host_loop(Mut<f32, 8> y, Scalar<i32> n) {
  auto a = y.load();
  for (auto k : range(n)) {
    for (int i = 0; i < 10; ++i) {
      if (i == 2) break;
      a += cast<f32>(k);
    }
  }
  y.store(a);
}
TEST(Accepts, BreakOfAHostLoopInsideARange) { EXPECT_EQ(after<break_of_a_host_loop>(4), counted_from(12)); }

constexpr std::uint32_t kReturn = __LINE__ + 2;
void early_return(Mut<f32, 8> y, Scalar<i32> n) {
  tile_if (n == 0) return;
  y.store(y.load());
}
TEST(Traps, ReturnInATileIf) { expect_trap(trace_error<early_return>(), "leaves a tile_if", kReturn); }
void rest_in_the_arm(Mut<f32, 8> y, Scalar<i32> n) {
  tile_if (n != 0) { y.store(y.load() + 5.0f); }
}
TEST(Accepts, TheRestInsideTheArm) {
  EXPECT_EQ(after<rest_in_the_arm>(0), counted_from(0));
  EXPECT_EQ(after<rest_in_the_arm>(1), counted_from(5));
}
void return_at_the_end(Mut<f32, 8> y, Scalar<i32> n) {
  y.store(y.load() + cast<f32>(n));
  if (sizeof(y) > 0) return;
  y.store(y.load());
}
TEST(Accepts, ReturnOutsideEveryRegion) { EXPECT_EQ(after<return_at_the_end>(3), counted_from(3)); }

constexpr std::uint32_t kNested = __LINE__ + 3;
void return_in_nested(Mut<f32, 8> y, Scalar<i32> n) {
  for (auto k : range(n)) {
    tile_if (k > 3) {
      y.store(y.load());
      return;
    }
  }
}
TEST(Traps, ReturnThroughTwoRegions) { expect_trap(trace_error<return_in_nested>(), "leaves a tile_if", kNested); }
Scalar<i32> returns_between(Scalar<i32> k) {
  if (sizeof(k) > 0) return k + 1;
  return k;
}
void helper_returns(Mut<f32, 8> y, Scalar<i32> n) {
  for (auto k : range(n)) {
    tile_if (k > 1) { y.store(y.load() + cast<f32>(returns_between(k))); }
  }
}
TEST(Accepts, AHelperThatReturnsInsideTwoRegions) { EXPECT_EQ(after<helper_returns>(4), counted_from(7)); }

constexpr std::uint32_t kWhile = __LINE__ + 2;
void break_in_while(Mut<f32, 8> y, Scalar<i32> n) {
  tile_while(n > 0) {
    n -= 1;
    break;
  }
  y.store(y.load());
}
TEST(Traps, BreakOutOfATileWhile) { expect_trap(trace_error<break_in_while>(), "leaves a tile_while", kWhile); }
void exit_in_the_condition(Mut<f32, 8> y, Scalar<i32> n) {
  Scalar<i32> steps = 0;
  tile_while(n > 0 && steps < 3) {
    n -= 1;
    steps += 1;
  }
  y.store(y.load() + cast<f32>(steps));
}
TEST(Accepts, TheExitInTheConditionOfATileWhile) {
  EXPECT_EQ(after<exit_in_the_condition>(2), counted_from(2));
  EXPECT_EQ(after<exit_in_the_condition>(9), counted_from(3));
}

constexpr std::uint32_t kContinue = __LINE__ + 4;
void continue_in_arm(Mut<f32, 8> y, Scalar<i32> n) {
  auto a = y.load();
  for (auto k : range(10)) {
    tile_if (k < n) { continue; }  // NOLINT(continue)
    a += 1.0f;
  }
  y.store(a);
}
TEST(Traps, ContinueInATileIf) {
  expect_trap(trace_error<continue_in_arm>(), "`continue` ends only the arm", kContinue);
}
void inverted_condition(Mut<f32, 8> y, Scalar<i32> n) {
  auto a = y.load();
  for (auto k : range(10)) {
    tile_if (k >= n) { a += 1.0f; }
  }
  y.store(a);
}
TEST(Accepts, TheConditionInverted) { EXPECT_EQ(after<inverted_condition>(6), counted_from(4)); }

constexpr std::uint32_t kHostIf = __LINE__ + 3;
void arm_left_empty(Mut<f32, 8> y, Scalar<i32> n, Constant<bool> scaled) {
  auto a = y.load();
  tile_if (n > 0) {
    if (scaled) a *= 2.0f;
  }
  y.store(a);
}
TEST(Traps, AConstantThatLeavesTheArmEmpty) {
  lang::Specialization scaled;
  scaled.constants = {1};
  EXPECT_EQ(test::count(ir::print(*lang::trace<arm_left_empty>(scaled).module->functions[0]), "mulf"), 1);
  expect_trap(trace_error<arm_left_empty>(),
              "An `if` of the host (a Constant) that may leave the arm empty belongs outside the tile_if", kHostIf);
}
void if_around_the_branch(Mut<f32, 8> y, Scalar<i32> n, Constant<bool> scaled) {
  auto a = y.load();
  if (scaled) {
    tile_if (n > 0) { a *= 2.0f; }
  }
  y.store(a);
}
TEST(Accepts, TheIfOfTheHostAroundTheTileIf) {
  for (const std::uint64_t on : {0u, 1u}) {
    lang::Specialization s;
    s.constants = {on};
    EXPECT_EQ(test::count(ir::print(*lang::trace<if_around_the_branch>(s).module->functions[0]), "mulf"),
              static_cast<int>(on));
  }
}

constexpr std::uint32_t kElseBreak = __LINE__ + 4;
void break_in_else(Mut<f32, 8> y, Scalar<i32> n) {
  auto a = y.load();
  for (auto k : range(10)) {
    tile_if (k < n) {
      a += 1.0f;
    } else {
      break;
    }
  }
  y.store(a);
}
TEST(Traps, BreakInAnElseArm) { expect_trap(trace_error<break_in_else>(), "leaves a tile_if", kElseBreak); }
void else_arm(Mut<f32, 8> y, Scalar<i32> n) {
  auto a = y.load();
  for (auto k : range(10)) {
    tile_if (k < n) {
      a += 1.0f;
    } else {
      a -= 1.0f;
    }
  }
  y.store(a);
}
TEST(Accepts, WorkInAnElseArm) { EXPECT_EQ(after<else_arm>(7), counted_from(4)); }

struct UserError : std::runtime_error {
  using runtime_error::runtime_error;
};
void throws(Mut<f32, 8> y) {
  for (auto k : range(10)) {
    tile_if (k > 3) throw UserError("mine");
  }
  y.store(y.load());
}
void throws_in_combiner(Mut<f32, 8> y) {
  y.store(scan(y.load(), axis<0>, 0.0f, [](auto a, auto b) {
    if (true) throw UserError("mine");
    return a + b;
  }));
}
void fine(Mut<f32, 8> y) { y.store(y.load() * 2.0f); }
TEST(Traps, AnExceptionOfTheUserArrivesIntactAndTheNextTraceWorks) {
  EXPECT_THROW((void)lang::trace<throws>(), UserError);
  EXPECT_EQ(lang::Tracer::maybe(), nullptr);
  EXPECT_THROW((void)lang::trace<throws_in_combiner>(), UserError);
  EXPECT_EQ(lang::Tracer::maybe(), nullptr);
  EXPECT_EQ(test::count(test::text<fine>(), "mulf"), 1);
}

void swallows(Mut<f32, 8> y) {
  try {
    for (auto k : range(10)) {
      (void)k;
      throw UserError("mine");
    }
  } catch (const UserError&) {}
  y.store(y.load());
}
void catches_inside(Mut<f32, 8> y, Scalar<i32> n) {
  for (auto k : range(n)) {
    try {
      throw UserError("mine");
    } catch (const UserError&) { y.store(y.load() + cast<f32>(k)); }
  }
}
TEST(Accepts, AnExceptionCaughtInsideTheLoop) { EXPECT_EQ(after<catches_inside>(3), counted_from(3)); }
TEST(Traps, AnExceptionThatLeftALoopMayNotBeSwallowed) {
  EXPECT_NE(std::string(trace_error<swallows>().what()).find("swallowed"), std::string::npos);
}

void escape(Mut<f32, 8> y) {
  std::optional<Tile<f32, 8>> leaked;
  for (auto k : range(10)) {
    (void)k;
    leaked.emplace(y.load());
  }
  y.store(*leaked);
}
TEST(Traps, ATileUsedAfterItsLoop) {
  const TraceError e = trace_error<escape>();
  EXPECT_NE(std::string(e.what()).find("used after its end"), std::string::npos) << e.what();
  EXPECT_TRUE(e.where().known());
}

void outlives_its_loop(Mut<f32, 8> y, Scalar<i32> n) {
  std::optional<Tile<f32, 8>> kept(y.load());
  for (auto k : range(n)) *kept += cast<f32>(k);
  y.store(*kept);
}
TEST(Accepts, ATileDeclaredBeforeItsLoop) { EXPECT_EQ(after<outlives_its_loop>(4), counted_from(6)); }

std::optional<Tile<f32, 8>> stashed;
void stash(Mut<f32, 8> y) {
  stashed.emplace(y.load());
  y.store(*stashed);
}
void use_stashed(Mut<f32, 8> y) { y.store(*stashed + y.load()); }
TEST(Traps, ATileOfAnotherTrace) {
  (void)lang::trace<stash>();
  EXPECT_NE(std::string(trace_error<use_stashed>().what()).find("another kernel's trace"), std::string::npos);
  stashed.reset();
}

template <class F>
TraceError outside(F f) {
  try {
    f();
  } catch (const TraceError& e) { return e; }
  ADD_FAILURE() << "expected a TraceError";
  return TraceError("none");
}
TEST(Traps, ATileOutsideAnyKernel) {
  const std::uint32_t line = __LINE__ + 1;
  expect_trap(outside([] { (void)zeros<f32, 8>(); }), "outside a kernel", line);
  expect_trap(outside([] { (void)full<u8, 8>(7); }), "outside a kernel", line + 1);
  expect_trap(outside([] { (void)iota<i32, 8>(); }), "outside a kernel", line + 2);
  (void)lang::trace<stash>({}, SourceLocation{"user.cpp", "f", 77, 0});
  // Reading a tile does not know the line: the message names the nearest one.
  EXPECT_NE(std::string(outside([] { (void)(*stashed + 1.0f); }).what()).find("is stash (user.cpp:77)"),
            std::string::npos);
  stashed.reset();
}

void advanced_unread(Mut<f32, 8> y, Scalar<i32> n) {
  auto a = y.load();
  const auto r = range(n);
  for (auto it = r.begin(); it != r.end(); ++it) a += 2.0f;  // the iterator is never read
  auto once = range(5).begin();
  const auto k = *once, again = *once;
  a += cast<f32>(k + again);
  ++once;
  y.store(a);
}
TEST(Accepts, ARangeByItsIterators) { EXPECT_EQ(after<advanced_unread>(3), counted_from(6 + 20)); }

constexpr std::uint32_t kPastEnd = __LINE__ + 2;
void advanced_twice(Mut<f32, 8> y) {
  auto it = range(3).begin();
  ++it;
  ++it;
  y.store(y.load());
}
constexpr std::uint32_t kReadLate = __LINE__ + 2;
void read_after_the_end(Mut<f32, 8> y) {
  auto it = range(3).begin();
  ++it;
  y.store(y.load() + cast<f32>(*it));
}
constexpr std::uint32_t kNeverAdvanced = __LINE__ + 2;
void never_advanced(Mut<f32, 8> y) {
  auto it = range(3).begin();
  y.store(y.load() + cast<f32>(*it));
}
TEST(Traps, ARangeIteratorPastItsEnd) {
  expect_trap(trace_error<advanced_twice>(), "advanced past its end", kPastEnd);
  expect_trap(trace_error<read_after_the_end>(), "read after its loop", kReadLate);
  expect_trap(trace_error<never_advanced>(), "leaves a device loop", kNeverAdvanced);
}

void itself(Mut<f32, 8> y) {
  (void)lang::trace<itself>();
  y.store(y.load());
}
TEST(Traps, AKernelThatTracesItself) {
  EXPECT_NE(std::string(trace_error<itself>().what()).find("cannot call itself"), std::string::npos);
}

Scalar<i32> factorial(Scalar<i32> n) {
  Scalar<i32> r = 1;
  tile_if (n > 1) { r = n * factorial(n - 1); }
  return r;
}
void recursion_in_regions(Mut<i32, 1> y, Scalar<i32> n) { y.store(broadcast(factorial(n), shape<1>)); }
TEST(Traps, AHelperThatCallsItselfInABranch) {
  const TraceError e = trace_error<recursion_in_regions>();
  EXPECT_NE(std::string(e.what()).find("call itself"), std::string::npos) << e.what();
  EXPECT_TRUE(e.where().known());
}

int depth_limit = 1 << 30;
Scalar<i32> endless(Scalar<i32> n, int depth) {
  if (depth > depth_limit) return n;
  Scalar<i32> r = endless(n + 1, depth + 1);
  return r - 1;
}
void plain_recursion(Mut<i32, 1> y, Scalar<i32> n) { y.store(broadcast(endless(n, 0), shape<1>)); }
TEST(Traps, AHelperThatCallsItselfWithoutEnd) {
  EXPECT_NE(std::string(trace_error<plain_recursion>().what()).find("call itself"), std::string::npos);
}

constexpr std::uint32_t kStep = __LINE__ + 2;
void bad_step(Mut<f32, 8> y, Scalar<i32> n) {
  for (auto k : range(0, n, -1)) { y.store(y.load() + cast<f32>(k)); }
}
TEST(Traps, AHostStepBelowOne) { expect_trap(trace_error<bad_step>(), "must be positive, found -1", kStep); }

void combiner_reads_outside(Mut<f32, 8> y, Scalar<f32> s) {
  y.store(scan(y.load(), axis<0>, 0.0f, [&](auto a, auto b) { return a + b * s; }));
}
void combiner_writes_outside(Mut<f32, 8> y) {
  Scalar<f32> last = 0.0f;
  y.store(scan(y.load(), axis<0>, 0.0f, [&](auto a, auto b) {
    last = b;
    return a + b;
  }));
}
void combiner_stores(Mut<f32, 8> y) {
  y.store(scan(y.load(), axis<0>, 0.0f, [&](auto a, auto b) {
    y.store(full<f32, 8>(1.0f));
    return a + b;
  }));
}
TEST(Traps, AFunctionOfReduceThatReachesOutside) {
  EXPECT_NE(std::string(trace_error<combiner_reads_outside>().what()).find("only its two arguments"),
            std::string::npos);
  EXPECT_NE(std::string(trace_error<combiner_writes_outside>().what()).find("may not assign a tile from outside"),
            std::string::npos);
  EXPECT_NE(std::string(trace_error<combiner_stores>().what()).find("reduce or scan"), std::string::npos);
}

TEST(Threads, TwoTracesAtOnce) {
  std::string first, second;
  std::thread a([&] { first = test::text<fine>(); });
  std::thread b([&] { second = test::text<fine>(); });
  a.join();
  b.join();
  EXPECT_EQ(first, second);
  EXPECT_EQ(test::count(first, "mulf"), 1);
}

}  // namespace THIS_FILE
}  // namespace tessera
