// What is known in a scope ends with it: the atoms that the scope has made stay, but what defines a quotient holds only
// where its divisor is known to be at least 1.
#include <memory_resource>

#include "certify/program.hpp"
#include "certify/prover.hpp"

namespace tessera::test {
namespace {

using enum ir::ComparisonPredicate;
using analysis::Claim;
using certify::Poly;
using ir::Value;

/// if (v >= 1) { y = 5 / v; w = y / n } else { if (a >= 0) { z = a / n; c = z <= 5 } }, with or without "a <= y" and
/// the inner branch in the arm of y. n: the number of blocks.
struct Divided : Program {
  Value c;
  explicit Divided(bool in_one_arm) {
    const Value v = arg(ir::Elem::I32), a = arg(ir::Elem::I32), n = number_of_blocks();
    const Value positive = compare(v, GreaterEqual, i32(1)), from_zero = compare(a, GreaterEqual, i32(0));
    Value y;
    const auto asks = [&] {
      const Value z = divide(a, n);
      c = compare(z, LessEqual, i32(5));
    };
    branch(
        positive,
        [&] {
          y = divide(i32(5), v);
          (void)divide(y, n);
          if (!in_one_arm) return;
          const Value below = compare(a, LessEqual, y);
          branch(op(ir::Op::AndI, {from_zero, below}, below.type()), asks);
        },
        [&] {
          if (!in_one_arm) branch(from_zero, asks);
        });
    end();
  }
};
TEST(CertifyScopes, AQuotientOfAnotherArmSaysNothing) {
  const Divided one(true), other(false);
  EXPECT_TRUE(one.certifies(one.c));
  EXPECT_FALSE(other.certifies(other.c)) << "v = 0, a = 1000, one block";
}

/// The same with a remainder: if (v >= 1) { m = min(5 / v, 6 / v) } else { if (a >= 0) { r = a % n } }.
struct Remaining : Program {
  Value c;
  explicit Remaining(bool in_one_arm) {
    const Value v = arg(ir::Elem::I32), n = arg(ir::Elem::I32), a = arg(ir::Elem::I32);
    Value least;
    const auto asks = [&] {
      const Value rest = with_sign(ir::Op::RemI, a, n);
      c = compare(rest, LessEqual, i32(5));
    };
    const Value of_n = op(ir::Op::AndI, {compare(n, GreaterEqual, i32(1)), compare(a, GreaterEqual, i32(0))},
                          ir::Type::tile(ir::Elem::I1));
    branch(
        compare(v, GreaterEqual, i32(1)),
        [&] {
          least = with_sign(ir::Op::MinI, divide(i32(5), v), divide(i32(6), v));
          if (!in_one_arm) return;
          branch(of_n, [&] { branch(compare(n, LessEqual, least), asks); });
        },
        [&] {
          if (!in_one_arm) branch(of_n, asks);
        });
    end();
  }
};
TEST(CertifyScopes, ARemainderIsNotBelowAMinimumOfAnotherArm) {
  const Remaining one(true), other(false);
  EXPECT_TRUE(one.certifies(one.c));
  EXPECT_FALSE(other.certifies(other.c));
}

/// The prover alone.
struct OfProver : ::testing::Test {
  std::pmr::monotonic_buffer_resource memory;
  certify::Prover p{certify::Prover::Effort::Full, &memory};
  Poly number(certify::Int lo, certify::Int hi) { return Poly::of(p.make({lo, hi})); }
};

TEST_F(OfProver, AQuotientIsDefinedWhereItsDivisorIsKnown) {
  const Poly a = number(0, 1000), b = number(-1000, 1000);
  const std::size_t outside = p.mark();
  p.know(b - Poly(1));
  const Poly q = p.quotient(a, b);
  const std::size_t inside = p.mark();
  p.know(a - Poly(5) * b);
  EXPECT_TRUE(p.never_negative(q - Poly(5)));
  p.release(inside);
  EXPECT_FALSE(p.never_negative(q - Poly(5)));
  p.release(outside);
  p.know(a - Poly(5) * b);
  EXPECT_FALSE(p.never_negative(q - Poly(5))) << "b may be 0";
  p.know(b - Poly(1));
  EXPECT_EQ(p.quotient(a, b), q);
  EXPECT_TRUE(p.never_negative(q - Poly(5))) << "it is known again";
}

TEST_F(OfProver, ABoundOfAQuotientIsOneOfItsDividendWhereTheDivisorIsKnown) {
  const Poly a = number(0, 1000), b = number(-1000, 1000);
  const std::size_t outside = p.mark();
  p.know(b - Poly(1));
  const Poly q = p.quotient(a, b);
  const std::size_t inside = p.mark();
  p.know(q - Poly(5));
  EXPECT_TRUE(p.never_negative(a - Poly(5) * b));
  p.release(inside);
  p.release(outside);
  p.know(q - Poly(5));
  EXPECT_FALSE(p.never_negative(a - Poly(5) * b)) << "b may be 1000, and a 7";
}

TEST_F(OfProver, WhatAnImpossibleDivisorLeavesIsANumber) {
  const Poly a = number(0, 1000), b = number(-5, 0), possible = number(1, 5);
  const std::size_t outside = p.mark();
  p.know(b - Poly(1));  // no execution comes here
  const Poly rest = p.remainder(a, b), quotient = p.quotient(a, b);
  p.release(outside);
  EXPECT_FALSE(p.never_negative(Poly(-1) - rest));
  EXPECT_FALSE(p.never_negative(Poly(-1) - quotient));
  const Poly other = p.remainder(a, possible);
  EXPECT_TRUE(p.never_negative(Poly(4) - other));
  EXPECT_TRUE(p.never_negative(other));
}

TEST_F(OfProver, RemaindersAreNotAboveNumbersThatAreNotNegative) {
  const Poly a = number(-10, 10), b = number(1, 5), c = number(0, 10);
  EXPECT_FALSE(p.never_negative(a - p.remainder(a, b))) << "-3 mod 5 is 2";
  EXPECT_TRUE(p.never_negative(c - p.remainder(c, b)));
}

TEST_F(OfProver, NothingIsProvenOnceAtomsHaveNoNumbersLeft) {
  const Poly first = number(0, 1000);
  p.know_multiple(first, 16);
  EXPECT_TRUE(p.multiple(first, 16));
  EXPECT_TRUE(p.never_negative(first));
  Poly last = first;
  for (int i = 0; i < 0x10000; ++i) last = number(0, 1000);
  EXPECT_FALSE(p.multiple(last, 16)) << "it is no multiple of anything";
  EXPECT_FALSE(p.never_negative(last - first));
  EXPECT_FALSE(p.never_zero(Poly(1)));
}

TEST_F(OfProver, NothingIsAMultipleOfZero) {
  const Poly n = number(0, 1000);
  p.know_multiple(n, 0);
  EXPECT_FALSE(p.multiple(n, 16));
  p.know_multiple(n, 16);
  EXPECT_TRUE(p.multiple(n, 16));
  EXPECT_FALSE(p.multiple(n, 32));
}

// ---- what is an operand of many others is looked at once ------------------------------------------------------------

constexpr int kMany = 100;  // 2^100 paths

/// if (v < 3) { n = 5; for i in (0 to 8) { n = n } } with the bound `term` for what the loop carries.
struct CountedInABranch : Program {
  Value c;
  CountedInABranch() {
    const Value v = arg(ir::Elem::I32);
    contract.args.resize(1);
    branch(compare(v, Less, i32(3)), [&] {
      ir::Operation* made = b.create(ir::Op::For, {i32(0), i32(8), i32(1), i32(5)}, {v.type()});
      ir::Block& region = made->add_region();
      region.add_arg(v.type());
      const Value n = region.add_arg(v.type());
      inside(region, [&] {
        c = compare(n, LessEqual, i32(5));
        b.create(ir::Op::Continue, {n}, {});
      });
    });
    end();
  }
  void bound_by(std::uint32_t number) {
    std::uint32_t at = 0, loop = 0;
    ir::walk(module.functions.front()->body(), [&](const ir::Operation& op) {
      if (op.op() == ir::Op::For) loop = at;
      ++at;
    });
    certificate.invariants.push_back({loop, 1, true, true, number, {}});
  }
};
TEST(CertifyScopes, LaunchExpressionsAreFoundOncePerScope) {
  using enum analysis::ExprKind;
  CountedInABranch good, bad;
  std::uint32_t x = good.slot(0);
  for (int i = 0; i < kMany; ++i) x = good.combined(i == 0 ? Sub : Add, x, x);  // 0 + 0 + ...
  good.bound_by(good.combined(Add, x, good.constant(5)));
  EXPECT_TRUE(good.certifies(good.c));
  std::uint32_t y = bad.combined(FloorDiv, bad.slot(0), bad.slot(0));  // of an unknown divisor
  for (int i = 0; i < kMany; ++i) y = bad.combined(Sub, y, y);
  bad.bound_by(bad.combined(Add, y, bad.constant(5)));
  EXPECT_FALSE(bad.certifies(bad.c));
}

TEST(CertifyScopes, ALaunchExpressionOfAScopeEndsWithIt) {
  // What is a number where v >= 1 is one, slot 0 / slot 0, is needed behind that branch as well.
  for (const bool known : {true, false}) {
    Program k;
    const Value v = k.arg(ir::Elem::I64);
    k.contract.args.resize(1);
    const ir::Type i32 = ir::Type::tile(ir::Elem::I32);
    std::vector<Value> asked;
    const auto counts = [&] {
      ir::Operation* made = k.b.create(ir::Op::For, {k.i32(0), k.i32(8), k.i32(1), k.i32(1)}, {i32});
      ir::Block& region = made->add_region();
      region.add_arg(i32);
      const Value n = region.add_arg(i32);
      k.inside(region, [&] {
        asked.push_back(k.compare(n, LessEqual, k.i32(1)));
        k.b.create(ir::Op::Continue, {n}, {});
      });
    };
    const Value positive = k.compare(v, GreaterEqual, k.b.constant_int(ir::Elem::I64, 1));
    k.branch(positive, [&] {
      counts();
      if (known) counts();
    });
    if (!known) counts();
    k.end();
    const std::uint32_t slot = k.slot(0), one = k.combined(analysis::ExprKind::FloorDiv, slot, slot);
    std::uint32_t at = 0;
    ir::walk(k.module.functions.front()->body(), [&](const ir::Operation& op) {
      if (op.op() == ir::Op::For) k.certificate.invariants.push_back({at, 1, true, true, one, {}});
      ++at;
    });
    ASSERT_EQ(asked.size(), 2u);
    EXPECT_TRUE(k.certifies(asked[0]));
    EXPECT_EQ(k.certifies(asked[1]), known) << "slot 0 may be 0";
  }
}

TEST(CertifyScopes, ConditionsOfConditionsAreAskedOnce) {
  for (const bool known : {true, false}) {
    Program k;
    const Value v = k.arg(ir::Elem::I32);
    Value c = k.compare(known ? k.i32(0) : v, Less, k.i32(1));
    for (int i = 0; i < kMany; ++i) c = k.op(ir::Op::XOrI, {c, c}, c.type());
    k.end();
    EXPECT_EQ(k.certifies(c, false), known) << "true if its operands are found to be anything";
    EXPECT_FALSE(k.certifies(c, true));
  }
}

TEST(CertifyScopes, ConditionsOfBranchesAreTakenOnce) {
  Program k;
  const Value v = k.arg(ir::Elem::I32);
  Value c = k.compare(v, Less, k.i32(3)), below, more;
  for (int i = 0; i < kMany; ++i) c = k.op(ir::Op::AndI, {c, c}, c.type());
  k.branch(c, [&] {
    below = k.compare(v, Less, k.i32(4));
    more = k.compare(v, Less, k.i32(2));
  });
  k.end();
  EXPECT_TRUE(k.certifies(below));
  EXPECT_FALSE(k.certifies(more));
}

TEST(CertifyScopes, LongChainsOfOperandsAreFollowedSoFar) {
  Program k;
  const Value v = k.arg(ir::Elem::I32);
  Value sum = v, below, c = k.compare(v, Less, k.i32(3));
  const Value first = c;
  for (int i = 0; i < 20000; ++i) {
    sum = k.binary(ir::Op::AddI, sum, v);  // it may wrap
    c = k.op(ir::Op::XOrI, {c, first}, c.type());
  }
  k.branch(first, [&] { below = k.compare(sum, Less, v); });
  k.end();
  EXPECT_FALSE(k.certifies(below));
  EXPECT_FALSE(k.certifies(c));
}

}  // namespace
}  // namespace tessera::test
