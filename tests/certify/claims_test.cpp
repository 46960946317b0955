// Claims that say nothing that their kind can say are rejected, each beside one that is certified; claims about
// arguments are about whole slots of the launch.
#include "certify/program.hpp"

namespace tessera::test {
namespace {

using analysis::Claim;
using analysis::ClaimKind;
using ir::Elem;
using ir::Value;

/// Entry arguments of each type, of whose slots the launch has found out that they are in [0, 100] and multiples of 48.
struct Arguments : Program {
  Arguments() {
    arg(Elem::I32);
    arg(Elem::I64);
    pointer(Elem::F32);
    arg(Elem::F32);
    end();
    contract.args.resize(4);
    const std::uint32_t zero = constant(0), hundred = constant(100);
    for (int i = 0; i < 4; ++i) {
      holds({false, zero, slot(i), 1});
      holds({false, slot(i), hundred, 1});
      holds({true, slot(i), 0, 48});
    }
  }
  bool bounded(int argument, std::int64_t lower, std::int64_t upper) const {
    return certifies({.kind = ClaimKind::ArgBounded, .index = argument, .lower = lower, .upper = upper});
  }
  bool divisible(int argument, std::uint64_t divisor) const {
    return certifies({.kind = ClaimKind::ArgDivisible, .index = argument, .divisor = divisor});
  }
};

TEST(CertifyClaims, BoundsOfArgumentsAreOfWholeSlots) {
  const Arguments k;
  EXPECT_TRUE(k.bounded(1, 0, 100));
  EXPECT_TRUE(k.bounded(1, -5, 200));
  EXPECT_FALSE(k.bounded(1, 1, 100));
  EXPECT_FALSE(k.bounded(1, 0, 99));
  EXPECT_FALSE(k.bounded(0, 0, 100)) << "an i32 of -1 is a slot of 0xFFFFFFFF";
  EXPECT_FALSE(k.bounded(0, INT64_MIN, INT64_MAX));
  EXPECT_FALSE(k.bounded(2, 0, 100)) << "an address";
  EXPECT_FALSE(k.bounded(3, 0, 100)) << "a float";
}

TEST(CertifyClaims, DivisorsOfArgumentsArePowersOfTwo) {
  const Arguments k;
  EXPECT_TRUE(k.divisible(1, 16));
  EXPECT_TRUE(k.divisible(1, 1));
  EXPECT_TRUE(k.divisible(2, 16)) << "an address";
  EXPECT_FALSE(k.divisible(1, 32));
  EXPECT_FALSE(k.divisible(1, 48)) << "it is, but no `assume` can say so";
  EXPECT_FALSE(k.divisible(1, 0));
  EXPECT_FALSE(k.divisible(0, 16)) << "of an i32 other bits are read";
  EXPECT_FALSE(k.divisible(3, 16));
}

TEST(CertifyClaims, ClaimsAboutTheEntryNameNoOperation) {
  Arguments k;
  ir::Operation* op = k.module.functions.front()->body().front();
  Claim bounded{.kind = ClaimKind::ArgBounded, .index = 1, .lower = 0, .upper = 100};
  Claim divisible{.kind = ClaimKind::ArgDivisible, .index = 1, .divisor = 16};
  for (Claim* c : {&bounded, &divisible}) {
    EXPECT_TRUE(k.certifies(*c));
    c->op = op;  // which may be in an arm, where more is known
    EXPECT_FALSE(k.certifies(*c));
  }
}

TEST(CertifyClaims, ObligationsHaveNumbers) {
  Arguments k;
  Claim c{.kind = ClaimKind::ArgBounded, .index = 1, .lower = 0, .upper = 100};
  for (const int good : {analysis::kHoldsAlways, 0, 11}) {
    c.obligation = good;
    EXPECT_TRUE(k.certifies(c)) << good;
    EXPECT_EQ(k.judged(c).unproven, 0u);
  }
  for (const int bad : {-2, 64, INT32_MAX, INT32_MIN}) {
    c.obligation = bad;
    EXPECT_FALSE(k.certifies(c)) << bad;
    EXPECT_EQ(k.judged(c).unproven, 1u);
  }
}

/// A kernel with one operation of each kind that claims name.
struct Named : Program {
  ir::Operation *compare_op, *inside_op, *divide_op, *loop_op, *load_op, *store_op, *earlier_op;
  Named() {
    const Value v = arg(Elem::I32), two = i32(2), one = i32(1), zero = i32(0);
    compare_op = compare(one, ir::ComparisonPredicate::Less, two).def();
    inside_op = compare(one, ir::ComparisonPredicate::Less, two, ir::Signedness::Unsigned).def();
    divide_op = divide(v, one).def();
    const Value tiles = fixed_view();
    load_op = load(tiles, {one});
    const Value tile = load_op->result(0);
    loop_op = loop(zero, i32(8), one, [&](Value i) { store_op = store(tile, tiles, {i}); });
    earlier_op = store(tile, tiles, {one});
    end();
  }
  /// 8 tiles of 16 numbers, all of them inside.
  Value fixed_view() {
    const std::vector<std::int64_t> shape{128}, strides{1};
    const std::vector<Value> operands{pointer(Elem::F32)};
    const std::vector<ir::Type> type{ir::Type::tensor_view(Elem::F32, shape, strides)};
    const std::vector<std::uint32_t> groups{1, 0, 0};
    const Value tensor = b.create_grouped(ir::Op::MakeTensorView, operands, groups, type)->result();
    return op(ir::Op::MakePartitionView, {tensor},
              ir::Type::partition_view(tensor.type(), std::vector<std::int32_t>{16}, {}, {}));
  }
};

TEST(CertifyClaims, WhatAClaimNamesExists) {
  const Named k;
  const std::vector<Claim> good{
      {.kind = ClaimKind::Condition, .op = k.compare_op},
      {.kind = ClaimKind::Inbounds, .op = k.load_op},
      {.kind = ClaimKind::DivisorIsOne, .op = k.divide_op},
      {.kind = ClaimKind::StepFits, .op = k.loop_op},
      {.kind = ClaimKind::StartsTile, .op = k.inside_op},
      {.kind = ClaimKind::AtLeast, .op = k.compare_op, .index = 1, .lower = 2},
      {.kind = ClaimKind::AtMost, .op = k.compare_op, .index = 1, .upper = 2},
      {.kind = ClaimKind::DisjointIterations, .op = k.store_op},
  };
  for (const Claim& c : good) {
    const auto kind = static_cast<int>(c.kind);
    EXPECT_TRUE(k.certifies(c)) << kind;
    Claim bad = c;
    bad.op = nullptr;
    EXPECT_FALSE(k.certifies(bad)) << kind << ": no operation";
    for (const int index : {-1, 7, INT32_MAX, INT32_MIN}) {
      if (c.kind == ClaimKind::DivisorIsOne || c.kind == ClaimKind::StepFits || c.kind == ClaimKind::StartsTile ||
          c.kind == ClaimKind::DisjointIterations)
        break;
      bad = c;
      bad.index = index;
      EXPECT_FALSE(k.certifies(bad)) << kind << ": index " << index;
    }
    for (ir::Operation* op : {k.compare_op, k.divide_op, k.loop_op, k.load_op, k.store_op}) {
      bad = c;
      bad.op = op;
      bad.index = 0;
      const bool also = op == c.op || (c.kind == ClaimKind::Inbounds && op == k.store_op);
      if (c.kind == ClaimKind::AtLeast || c.kind == ClaimKind::AtMost || also) continue;  // others may be so as well
      EXPECT_FALSE(k.certifies(bad)) << kind << ": of another operation";
    }
  }
  EXPECT_FALSE(k.certifies({.kind = static_cast<ClaimKind>(200), .op = k.compare_op}));
  const analysis::LaunchQuestion any{.bounds = {{.least = -5}}};
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::OfLaunch, .op = k.compare_op, .question = &any})) << "of an operation";
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::AtLeast, .op = k.load_op, .index = 0})) << "a view";
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::AtMost, .op = k.load_op, .index = 0})) << "a view";
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::AtMost, .op = k.compare_op, .index = 1, .upper = 1}));
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::AtLeast, .op = k.compare_op, .index = 1, .lower = 3}));
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::Condition, .op = k.divide_op})) << "an i32";
}

TEST(CertifyClaims, AConditionIsOneBit) {
  Program k;
  const Value one = k.b.constant_int(Elem::I1, 1), all = k.i32(-1);
  k.end();
  EXPECT_TRUE(k.certifies(one));
  EXPECT_FALSE(k.certifies(all)) << "a number of ones";
}

TEST(CertifyClaims, AnAccessIsApartFromEarlierOnesOnly) {
  Named k;
  Claim c{.kind = ClaimKind::Disjoint, .op = k.earlier_op, .other = k.load_op};
  EXPECT_FALSE(k.certifies(c)) << "the same tile";
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::Disjoint, .op = k.load_op, .other = k.earlier_op}));
  int nothing = 0;
  c.other = reinterpret_cast<const ir::Operation*>(&nothing);
  EXPECT_FALSE(k.certifies(c)) << "it is not looked at";
  // Of two tiles that are apart, the later one is.
  Program two;
  const Value tiles = two.view(Elem::F32, {16}), zero = two.i32(0);
  const Value tile = two.load(tiles, {zero})->result(0);
  ir::Operation *first = two.store(tile, tiles, {zero}), *second = two.store(tile, tiles, {two.i32(1)});
  two.end();
  EXPECT_TRUE(two.certifies({.kind = ClaimKind::Disjoint, .op = second, .other = first}));
  EXPECT_FALSE(two.certifies({.kind = ClaimKind::Disjoint, .op = first, .other = second}));
}

/// A kernel that compares slot 0, an i64, with 100, and a condition of the launch that says what it is.
struct Conditioned : Program {
  Value c;
  Conditioned() {
    const Value v = arg(Elem::I64);
    contract.args.resize(1);
    c = compare(v, ir::ComparisonPredicate::LessEqual, b.constant_int(Elem::I64, 100));
    end();
  }
  bool with(const analysis::Term& t) {
    certificate = {};
    held = 0;
    const std::uint32_t limit = constant(100);
    holds({false, term(t), limit, 1});
    return certifies(c);
  }
};
TEST(CertifyClaims, NoNumberOfBitsIsAnotherArgument) {
  using enum analysis::ExprKind;
  for (const bool right : {true, false}) {
    Program k;
    k.arg(Elem::I64);
    const Value c = k.compare(k.arg(Elem::I64), ir::ComparisonPredicate::LessEqual, k.b.constant_int(Elem::I64, 100));
    k.contract.args.resize(2);
    const std::uint32_t limit = k.constant(100);
    // 192 bits of slot 0 must not be taken for 64 bits of slot 1: a key of both has 8 bits for this number and the
    // sign.
    const std::uint32_t read = right ? k.slot(1) : k.term({Arg, 192, true, 0, 0, 0});
    k.holds({false, read, limit, 1});
    k.end();
    EXPECT_EQ(k.certifies(c), right);
  }
}

TEST(CertifyClaims, LaunchExpressionsReadWhatThereIs) {
  using enum analysis::ExprKind;
  Conditioned k;
  EXPECT_TRUE(k.with({Arg, 64, true, 0, 0, 0}));
  EXPECT_FALSE(k.with({Arg, 32, true, 0, 0, 0})) << "its low half";
  EXPECT_FALSE(k.with({Arg, 0, true, 0, 0, 0}));
  EXPECT_FALSE(k.with({Arg, 65, true, 0, 0, 0}));
  EXPECT_FALSE(k.with({Arg, 255, false, 0, 0, 0}));
  EXPECT_FALSE(k.with({Arg, 64, true, 1, 0, 0})) << "there is no such argument";
  EXPECT_FALSE(k.with({Arg, 64, true, -1, 0, 0}));
  EXPECT_FALSE(k.with({Arg, 64, true, std::int64_t{1} << 56, 0, 0})) << "a number that is 0 where it is cut";
  EXPECT_FALSE(k.with({Add, 64, true, 0, 7, 7})) << "operands that come later";
  EXPECT_FALSE(k.with({static_cast<analysis::ExprKind>(99), 64, true, 0, 0, 0}));
}

}  // namespace
}  // namespace tessera::test
