// Loops, branches, early exits, printing, assertions.
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/cpu/kernel.hpp"

namespace tessera::test {
namespace {

/// Runs a kernel that stores one i32 per element of `out`.
std::vector<std::int32_t> run(Kernel& k, std::size_t n, std::initializer_list<std::int64_t> scalars = {},
                              Grid grid = {}) {
  std::vector<std::int32_t> o(n, -1);
  std::vector<std::uint64_t> args{slot(o.data())};
  for (auto s : scalars) args.push_back(slot(s));
  k.compile()->run(grid, args);
  return o;
}

TEST(Control, ForSumsWithSignedAndUnsignedBounds) {
  struct Case {
    std::int64_t lo, hi, step;
    bool is_unsigned;
    std::int32_t sum, trips;
  };
  const Case cases[] = {{0, 10, 1, false, 45, 10},
                        {0, 10, 3, false, 18, 4},
                        {5, 5, 1, false, 0, 0},
                        {7, 3, 1, false, 0, 0},
                        {-4, 3, 2, false, -4, 4},
                        {-4, 3, 2, true, 0, 0},
                        {2147483640, 2147483647, 5, false, 2147483640 + 2147483645U - 4294967296, 2}};
  for (const Case& c : cases) {
    Kernel k;
    const Value out = k.pointer(Elem::I32);
    const Value lo = k.arg(k.t(Elem::I32)), hi = k.arg(k.t(Elem::I32)), step = k.arg(k.t(Elem::I32));
    Operation* loop = k.for_loop(
        lo, hi, step, {k.i32(0), k.i32(0)},
        [&](Value i, const std::vector<Value>& v) {
          return std::vector<Value>{k.addi(v[0], i), k.addi(v[1], k.i32(1))};
        },
        c.is_unsigned);
    k.store_ptr(out, loop->result(0));
    k.store_ptr(k.offsets(out, k.i32(1)), loop->result(1));
    EXPECT_EQ(run(k, 2, {c.lo, c.hi, c.step}), (std::vector<std::int32_t>{c.sum, c.trips})) << c.lo << ' ' << c.hi;
  }
}

TEST(Control, UnsignedBoundsOf64BitsPassTheSign) {
  Kernel k;
  const Value out = k.pointer(Elem::I32);
  const Type wide = k.t(Elem::I64);
  const Value lo = k.arg(wide), hi = k.arg(wide);
  Operation* loop = k.for_loop(
      lo, hi, k.i64(1), {k.i32(0)},
      [&](Value, const std::vector<Value>& v) { return std::vector<Value>{k.addi(v[0], k.i32(1))}; }, true);
  k.store_ptr(out, loop->result(0));
  EXPECT_EQ(run(k, 1, {INT64_MAX - 1, INT64_MIN + 2}), std::vector<std::int32_t>{4});
}

TEST(Control, ANonPositiveStepIsAnErrorWithItsLine) {
  Kernel k;
  k.pointer(Elem::I32);
  const Value step = k.arg(k.t(Elem::I32));
  const Value lo = k.i32(0), hi = k.i32(4);
  k.at(17).for_loop(lo, hi, step, {}, [&](Value, const std::vector<Value>&) { return std::vector<Value>{}; });
  const std::string text = message_of<DeviceError>([&] { run(k, 1, {0}); });
  EXPECT_NE(text.find("kernel.cpp:17"), std::string::npos) << text;
  EXPECT_NE(text.find("step > 0, found 0"), std::string::npos) << text;
}

TEST(Control, CarriedValuesSwapAsIfAtOnce) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), n = k.arg(k.t(Elem::I32));
  const Value a = k.iota(16), b = k.addi(a, k.i32(100, {16}));
  Operation* loop = k.for_loop(k.i32(0), n, k.i32(1), {a, b, k.i32(0, {16})}, [&](Value, const std::vector<Value>& v) {
    return std::vector<Value>{v[1], v[0], k.addi(v[2], v[0])};
  });
  const Value view = k.partition(k.tensor(out, {48}, {1}), {16});
  for (std::size_t r = 0; r < 3; ++r) k.store(loop->result(r), view, {k.i32(static_cast<std::int64_t>(r))});
  const auto o = run(k, 48, {3});
  for (int i = 0; i < 16; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(o[at], i + 100);
    EXPECT_EQ(o[16 + at], i);
    EXPECT_EQ(o[32 + at], 3 * i + 100);
  }
}

TEST(Control, CarriedTransposesDoNotOverwriteThemselves) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), n = k.arg(k.t(Elem::I32));
  Operation* loop =
      k.for_loop(k.i32(0), n, k.i32(1), {k.reshape(k.iota(16), {4, 4})}, [&](Value, const std::vector<Value>& v) {
        return std::vector<Value>{k.permute(v[0], {1, 0})};
      });
  k.store(loop->result(), k.partition(k.tensor(out, {4, 4}, {4, 1}), {4, 4}), {k.i32(0), k.i32(0)});
  const auto o = run(k, 16, {3});
  for (int i = 0; i < 16; ++i) EXPECT_EQ(o[static_cast<std::size_t>(i)], i % 4 * 4 + i / 4);
}

TEST(Control, ValuesFromOutsideSurviveEveryIteration) {
  // `kept` is read late in the loop, after values of its size came and went.
  Kernel k;
  const Value out = k.pointer(Elem::I32), n = k.arg(k.t(Elem::I32));
  const Value seed = k.spread(n, {64});
  const Value kept = k.addi(k.iota(64), seed);
  Operation* loop = k.for_loop(k.i32(0), n, k.i32(1), {k.i32(0, {64})}, [&](Value i, const std::vector<Value>& v) {
    const Value x = k.muli(k.addi(v[0], k.spread(i, {64})), k.i32(2, {64}));
    const Value y = k.muli(x, k.spread(i, {64}));
    return std::vector<Value>{k.addi(k.addi(x, y), kept)};
  });
  k.store(loop->result(), k.partition(k.tensor(out, {64}, {1}), {64}), {k.i32(0)});
  const auto o = run(k, 64, {4});
  for (std::int32_t e = 0; e < 64; ++e) {
    std::int32_t acc = 0;
    for (std::int32_t i = 0; i < 4; ++i) acc = (acc + i) * 2 * (1 + i) + e + 4;
    ASSERT_EQ(o[static_cast<std::size_t>(e)], acc);
  }
}

TEST(Control, NestedLoopsShareAnAccumulator) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), n = k.arg(k.t(Elem::I32)), m = k.arg(k.t(Elem::I32));
  const Value zero = k.i32(0), one = k.i32(1);
  Operation* outer = k.for_loop(zero, n, one, {k.iota(8)}, [&](Value i, const std::vector<Value>& v) {
    Operation* inner = k.for_loop(zero, m, one, {v[0]}, [&](Value j, const std::vector<Value>& w) {
      return std::vector<Value>{k.addi(w[0], k.spread(k.muli(i, j), {8}))};
    });
    return std::vector<Value>{k.addi(inner->result(), k.i32(1, {8}))};
  });
  k.store(outer->result(), k.partition(k.tensor(out, {8}, {1}), {8}), {zero});
  const auto o = run(k, 8, {3, 4});
  for (int e = 0; e < 8; ++e) EXPECT_EQ(o[static_cast<std::size_t>(e)], e + 3 + (0 + 1 + 2) * (0 + 1 + 2 + 3));
}

/// Collatz steps until 1: loop, break with a value, continue in a branch.
TEST(Control, LoopsWithBreakAndContinue) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), start = k.arg(k.t(Elem::I32));
  const Type i32 = k.t(Elem::I32);
  Operation* loop = k.loop({start, k.i32(0)}, {i32}, [&](const std::vector<Value>& v) {
    k.if_only(k.equal(v[0], k.i32(1)), [&] { k.end(Op::Break, {v[1]}); });
    const Value steps = k.addi(v[1], k.i32(1));
    const Value odd = k.equal(k.same(Op::AndI, {v[0], k.i32(1)}), k.i32(1));
    k.if_only(odd, [&] { k.end(Op::Continue, {k.addi(k.muli(v[0], k.i32(3)), k.i32(1)), steps}); });
    k.end(Op::Continue, {k.same(Op::ShRI, {v[0], k.i32(1)}, {{AttrName::signedness, Signedness::Signed}}), steps});
  });
  k.store_ptr(out, loop->result());
  EXPECT_EQ(run(k, 1, {27}), std::vector<std::int32_t>{111});
}

TEST(Control, BranchesGiveTilesAndNest) {
  for (const std::int64_t which : {0, 1, 2}) {
    Kernel k;
    const Value out = k.pointer(Elem::I32), w = k.arg(k.t(Elem::I32));
    const Value x = k.iota(32);
    const Type tile = x.type();
    Operation* branch = k.if_else(
        k.equal(w, k.i32(0)), {tile, tile},
        [&] {
          k.end(Op::Yield, {k.addi(x, k.i32(1, {32})), x});
        },
        [&] {
          Operation* inner = k.if_else(
              k.equal(w, k.i32(1)), {tile}, [&] { k.end(Op::Yield, {k.muli(x, k.i32(2, {32}))}); },
              [&] { k.end(Op::Yield, {k.i32(-3, {32})}); });
          k.end(Op::Yield, {inner->result(), k.addi(inner->result(), k.i32(1000, {32}))});
        });
    const Value view = k.partition(k.tensor(out, {64}, {1}), {32});
    k.store(branch->result(0), view, {k.i32(0)});
    k.store(branch->result(1), view, {k.i32(1)});
    const auto o = run(k, 64, {which});
    for (std::int32_t e = 0; e < 32; ++e) {
      const std::int32_t first = which == 0 ? e + 1 : which == 1 ? 2 * e : -3;
      ASSERT_EQ(o[static_cast<std::size_t>(e)], first) << which;
      ASSERT_EQ(o[static_cast<std::size_t>(32 + e)], which == 0 ? e : first + 1000) << which;
    }
  }
}

TEST(Control, ReturnInABranchEndsTheBlock) {
  Kernel k;
  const Value out = k.pointer(Elem::I32);
  const Value i = k.block();
  const Value number =
      k.b.create(Op::GetNumTileBlocks, {}, {k.t(Elem::I32), k.t(Elem::I32), k.t(Elem::I32)})->result(0);
  k.if_only(k.less(i, k.i32(3)), [&] { k.end(Op::Return); });
  k.store_ptr(k.offsets(out, i), k.addi(k.muli(i, k.i32(10)), number));
  const auto o = run(k, 6, {}, {6});
  EXPECT_EQ(o, (std::vector<std::int32_t>{-1, -1, -1, 36, 46, 56}));
}

TEST(Control, BlocksHaveThreeCoordinates) {
  Kernel k;
  const Value out = k.pointer(Elem::I32);
  const Type i32 = k.t(Elem::I32);
  Operation* id = k.b.create(Op::GetTileBlockId, {}, {i32, i32, i32});
  Operation* n = k.b.create(Op::GetNumTileBlocks, {}, {i32, i32, i32});
  const Value at =
      k.addi(id->result(0), k.muli(n->result(0), k.addi(id->result(1), k.muli(n->result(1), id->result(2)))));
  k.store_ptr(k.offsets(out, at),
              k.addi(k.addi(id->result(0), k.muli(id->result(1), k.i32(100))), k.muli(id->result(2), k.i32(10000))));
  const auto o = run(k, 24, {}, {2, 3, 4});
  for (int z = 0; z < 4; ++z)
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 2; ++x) EXPECT_EQ(o[static_cast<std::size_t>(x + 2 * (y + 3 * z))], x + 100 * y + 10000 * z);
}

TEST(Control, PrintsWholeTilesInCFormat) {
  Kernel k;
  k.pointer(Elem::I32);
  const Value args[] = {k.reshape(k.iota(4), {2, 2}), k.f32(1.5), k.i32(-7)};
  const std::uint32_t groups[] = {3, 0};
  const Type token[] = {Type::token()};
  k.b.create_grouped(Op::PrintTko, args, groups, token,
                     {{AttrName::str, std::string("x = %d, y = %+6.2f, 100%%, z = %i\n")}});
  testing::internal::CaptureStdout();
  run(k, 1);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "x = [[0, 1], [2, 3]], y =  +1.50, 100%, z = -7\n");
}

TEST(Control, FailedAssertionsNameTheElementAndStopTheRun) {
  const auto attempt = [](std::int64_t limit) {
    Kernel k("limits");
    const Value out = k.pointer(Elem::I32), n = k.arg(k.t(Elem::I32));
    const Value ok = k.less(k.reshape(k.iota(8), {2, 4}), k.spread(n, {2, 4}));
    k.at(42).b.create(Op::Assert, {ok}, {}, {{AttrName::message, std::string("too large")}});
    k.store_ptr(out, n);
    run(k, 1, {limit});
  };
  EXPECT_NO_THROW(attempt(8));
  const std::string text = message_of<DeviceError>([&] { attempt(6); });
  EXPECT_NE(text.find("kernel.cpp:42"), std::string::npos) << text;
  EXPECT_NE(text.find("kernel limits"), std::string::npos) << text;
  EXPECT_NE(text.find("too large (first at element [1, 2])"), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera::test
