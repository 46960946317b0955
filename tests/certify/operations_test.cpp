// What each operation computes, at its boundaries: the tightest bound is certified, and one that is tighter by one is
// not.
#include "certify/program.hpp"

namespace tessera::test {
namespace {

using analysis::Claim;
using analysis::ClaimKind;
using enum ir::ComparisonPredicate;
using ir::Elem;
using ir::Op;
using ir::Rounding;
using ir::Signedness;
using ir::Value;

/// A kernel with comparisons that are certified, and others that are not.
struct Asking : Program {
  struct Asked {
    Value condition;
    bool expected;
    std::size_t number;
  };
  std::vector<Asked> asked;
  Value number(Value like, std::int64_t n) { return b.constant_int(like.type().elem(), n, like.type().shape()); }
  void ask(Value condition, bool expected) { asked.push_back({condition, expected, asked.size()}); }
  void yes(Value x, ir::ComparisonPredicate p, Value y) { ask(compare(x, p, y), true); }
  void no(Value x, ir::ComparisonPredicate p, Value y) { ask(compare(x, p, y), false); }
  /// `lo` and `hi` are the best bounds that are certified of v, and are reached.
  void within(Value v, std::int64_t lo, std::int64_t hi) {
    yes(v, GreaterEqual, number(v, lo));
    yes(v, LessEqual, number(v, hi));
    no(v, GreaterEqual, number(v, lo + 1));
    no(v, LessEqual, number(v, hi - 1));
  }
  /// Nothing is known of v that the type does not say.
  void unknown(Value v) {
    const int bits = ir::info(v.type().elem()).bits;
    no(v, Greater, number(v, INT64_MIN >> (64 - bits)));
    no(v, Less, number(v, INT64_MAX >> (64 - bits)));
  }
  /// In a branch where lo <= v <= hi.
  void where(Value v, std::int64_t lo, std::int64_t hi, auto&& body) {
    const Value above = compare(v, GreaterEqual, number(v, lo)), below = compare(v, LessEqual, number(v, hi));
    branch(op(Op::AndI, {above, below}, above.type()), body);
  }
  void judge() {
    end();
    for (const Asked& a : asked)
      EXPECT_EQ(certifies(a.condition), a.expected) << "number " << a.number << "\n" << text();
  }
};

TEST(CertifyOperations, Divisions) {
  Asking k;
  const Value v = k.arg(Elem::I32), w = k.arg(Elem::I32), two = k.i32(2);
  k.where(v, -7, 7, [&] {
    k.within(k.divide(v, two, Rounding::NegativeInf), -4, 3);
    k.within(k.divide(v, two, Rounding::PositiveInf), -3, 4);
    const Value to_zero = k.divide(v, two);
    k.yes(to_zero, GreaterEqual, k.i32(-4));  // -3 is so, too
    k.yes(to_zero, LessEqual, k.i32(4));
    k.no(to_zero, GreaterEqual, k.i32(-2));
    k.no(to_zero, LessEqual, k.i32(2));
    k.no(k.binary(Op::AddI, to_zero, to_zero), LessEqual, v);  // of -7 it is -6
    const Value down = k.divide(v, two, Rounding::NegativeInf);
    k.yes(k.binary(Op::AddI, down, down), LessEqual, v);
    k.no(to_zero, Equal, down);
    k.unknown(k.divide(v, two, Rounding::Zero, Signedness::Unsigned));
    k.unknown(k.divide(v, w));
    k.unknown(k.divide(v, k.i32(-2)));
  });
  k.where(v, 0, 7, [&] {
    k.within(k.divide(v, two), 0, 3);
    k.within(k.divide(v, two, Rounding::Zero, Signedness::Unsigned), 0, 3);
    k.within(k.divide(v, two, Rounding::PositiveInf, Signedness::Unsigned), 0, 4);
    k.where(w, 0, 9, [&] { k.unknown(k.divide(v, w)); });
    k.where(w, 1, 9, [&] { k.within(k.divide(v, w), 0, 7); });
    k.where(w, 3, 9, [&] { k.within(k.divide(v, w), 0, 2); });
  });
  k.judge();
}

TEST(CertifyOperations, QuotientsByNumbersThatAreNotConstant) {
  Asking k;
  const Value v = k.arg(Elem::I32), n = k.arg(Elem::I32), m = k.arg(Elem::I32), u = k.arg(Elem::I32);
  k.where(n, 1, 1000, [&] {
    k.where(v, 0, 1 << 20, [&] {
      const Value five = k.binary(Op::MulI, n, k.i32(5));
      k.branch(
          k.compare(v, Less, five), [&] { k.within(k.divide(v, n), 0, 4); },
          [&] {
            const Value q = k.divide(v, n);
            k.yes(q, GreaterEqual, k.i32(5));
            k.no(q, GreaterEqual, k.i32(6));
          });
      // In n rows of m numbers, v is in one of the rows: v < n m.
      k.where(m, 1, 1000, [&] {
        const Value all = k.binary(Op::MulI, n, m);
        k.branch(k.compare(v, Less, all), [&] {
          const Value row = k.divide(v, m), rest = k.with_sign(Op::RemI, v, m);
          k.yes(row, Less, n);
          k.no(row, Less, k.binary(Op::SubI, n, k.i32(1)));
          k.yes(k.binary(Op::AddI, k.binary(Op::MulI, row, m), rest), Equal, v);
        });
        k.branch(k.compare(v, LessEqual, all), [&] {
          const Value row = k.divide(v, m);
          k.yes(row, LessEqual, n);
          k.no(row, Less, n);
        });
      });
      k.branch(k.compare(v, LessEqual, u), [&] {
        const Value x = k.divide(v, n), y = k.divide(u, n);
        k.yes(x, LessEqual, y);
        k.no(y, LessEqual, x);
        k.no(x, Less, y);
      });
    });
    k.where(v, -5, 5, [&] {  // not above 0
      const Value x = k.divide(v, n, Rounding::NegativeInf);
      k.within(x, -5, 5);
    });
  });
  k.judge();
}

TEST(CertifyOperations, Remainders) {
  Asking k;
  const Value v = k.arg(Elem::I32), n = k.arg(Elem::I32), x = k.arg(Elem::I32), y = k.arg(Elem::I32);
  const auto less = [&](Value number) { return k.binary(Op::SubI, number, k.i32(1)); };
  k.unknown(k.with_sign(Op::RemI, v, n));
  k.where(n, 1, 9, [&] {
    const Value rest = k.with_sign(Op::RemI, v, n), unsigned_rest = k.with_sign(Op::RemI, v, n, Signedness::Unsigned);
    k.yes(rest, Less, n);
    k.yes(rest, Greater, k.op(Op::NegI, {n}, n.type()));
    k.within(rest, -8, 8);
    k.no(rest, GreaterEqual, k.i32(0));
    k.within(unsigned_rest, 0, 8);
    k.yes(unsigned_rest, Less, n);
    k.no(unsigned_rest, Less, less(n));
    k.no(unsigned_rest, LessEqual, v);
    k.where(v, 0, 100, [&] {
      const Value positive = k.with_sign(Op::RemI, v, n);
      k.yes(positive, GreaterEqual, k.i32(0));
      k.yes(positive, Less, n);
      k.yes(positive, LessEqual, v);
      k.no(positive, Less, less(n));
      k.no(positive, Less, v);
      const Value below_both =
          k.op(Op::AndI, {k.compare(n, LessEqual, x), k.compare(n, LessEqual, y)}, ir::Type::tile(Elem::I1));
      k.branch(below_both, [&] {
        const Value least = k.with_sign(Op::MinI, x, y), again = k.with_sign(Op::RemI, v, n);
        k.yes(again, Less, least);
        k.no(again, Less, less(least));
      });
      k.branch(k.compare(n, LessEqual, x), [&] {
        const Value least = k.with_sign(Op::MinI, x, y), again = k.with_sign(Op::RemI, v, n);
        k.no(again, Less, least);
      });
    });
  });
  k.where(v, 0, 100, [&] { k.within(k.with_sign(Op::RemI, v, k.i32(7)), 0, 6); });
  k.judge();
}

TEST(CertifyOperations, Shifts) {
  Asking k;
  const Value v = k.arg(Elem::I32), one = k.i32(1);
  k.unknown(k.binary(Op::ShLI, v, k.i32(3)));
  k.where(v, -7, 10, [&] {
    k.within(k.binary(Op::ShLI, v, k.i32(3)), -56, 80);
    k.within(k.with_sign(Op::ShRI, v, k.i32(2)), -2, 2);
    k.unknown(k.with_sign(Op::ShRI, v, k.i32(2), Signedness::Unsigned));
    k.unknown(k.binary(Op::ShLI, one, v));
    k.unknown(k.with_sign(Op::ShRI, v, k.i32(32)));
    k.unknown(k.with_sign(Op::ShRI, v, k.i32(-1)));
    k.within(k.with_sign(Op::ShRI, v, k.i32(30)), -1, 0);
    k.unknown(k.with_sign(Op::ShRI, v, k.i32(31)));  // -1 or 0: such a shift is not looked at
  });
  k.where(v, 0, 10, [&] {
    k.within(k.with_sign(Op::ShRI, v, k.i32(2), Signedness::Unsigned), 0, 2);
    k.yes(k.binary(Op::ShLI, v, k.i32(3)), GreaterEqual, v);
  });
  k.where(v, 0, INT32_MAX, [&] { k.no(k.binary(Op::ShLI, v, k.i32(3)), GreaterEqual, v); });  // it wraps
  k.no(k.binary(Op::ShLI, one, k.i32(31)), Greater, k.i32(0));
  k.judge();
}

TEST(CertifyOperations, Masks) {
  Asking k;
  const Value v = k.arg(Elem::I32), w = k.arg(Elem::I32);
  k.within(k.binary(Op::AndI, v, k.i32(7)), 0, 7);
  k.unknown(k.binary(Op::AndI, v, w));
  k.unknown(k.binary(Op::AndI, v, k.i32(-8)));
  k.where(v, 0, 20, [&] {
    const Value both = k.binary(Op::AndI, v, k.i32(7)), one = k.binary(Op::AndI, v, w);
    k.within(both, 0, 7);
    k.yes(both, LessEqual, v);
    k.no(both, Less, v);
    k.within(one, 0, 20);
    k.no(one, LessEqual, w);
    k.yes(k.binary(Op::AndI, w, v), LessEqual, v);
  });
  k.judge();
}

TEST(CertifyOperations, AbsoluteAndNegatedNumbers) {
  Asking k;
  const Value v = k.arg(Elem::I32);
  const auto absolute = [&] { return k.op(Op::AbsI, {v}, v.type()); };
  const auto negated = [&] { return k.op(Op::NegI, {v}, v.type()); };
  k.unknown(absolute());  // of the smallest number it is that number
  k.unknown(negated());
  k.where(v, -7, 3, [&] {
    k.yes(absolute(), LessEqual, k.i32(7));
    k.no(absolute(), LessEqual, k.i32(6));
    k.no(absolute(), GreaterEqual, k.i32(1));
    k.within(negated(), -3, 7);
  });
  k.where(v, 2, 3, [&] { k.within(absolute(), 2, 3); });
  k.where(v, -3, -2, [&] { k.within(absolute(), 2, 3); });
  k.judge();
}

TEST(CertifyOperations, ExtremesOfTwoNumbers) {
  Asking k;
  const Value v = k.arg(Elem::I32), five = k.i32(5);
  const Value least = k.with_sign(Op::MinI, v, five), most = k.with_sign(Op::MaxI, v, five);
  k.within(least, INT32_MIN, 5);
  k.within(most, 5, INT32_MAX);
  k.yes(least, LessEqual, v);
  k.no(least, Less, v);
  k.yes(most, GreaterEqual, v);
  k.within(k.with_sign(Op::MinI, v, five, Signedness::Unsigned), 0, 5);
  k.unknown(k.with_sign(Op::MaxI, v, five, Signedness::Unsigned));
  k.no(k.with_sign(Op::MinI, v, five, Signedness::Unsigned), LessEqual, v);
  k.judge();
}

TEST(CertifyOperations, NumbersOfOtherWidths) {
  Asking k;
  const Value v = k.arg(Elem::I32), wide = k.arg(Elem::I64), bit = k.arg(Elem::I1), byte = k.arg(Elem::I8);
  const ir::Type i64 = ir::Type::tile(Elem::I64), i32 = ir::Type::tile(Elem::I32);
  const auto extended = [&](Value x, ir::Type to, Signedness s) {
    return k.op(Op::ExtI, {x}, to, {{ir::AttrName::signedness, s}});
  };
  k.within(extended(v, i64, Signedness::Signed), INT32_MIN, INT32_MAX);
  k.within(extended(v, i64, Signedness::Unsigned), 0, UINT32_MAX);
  k.within(extended(byte, i32, Signedness::Signed), -128, 127);
  k.within(extended(byte, i32, Signedness::Unsigned), 0, 255);
  k.within(extended(bit, i32, Signedness::Signed), -1, 0);
  k.within(extended(bit, i32, Signedness::Unsigned), 0, 1);
  k.where(v, 2, 9, [&] { k.within(extended(v, i64, Signedness::Unsigned), 2, 9); });
  const auto cut = [&] { return k.op(Op::TruncI, {wide}, i32); };
  k.unknown(cut());
  k.where(wide, -2, INT32_MAX, [&] { k.within(cut(), -2, INT32_MAX); });
  k.where(wide, -2, std::int64_t{INT32_MAX} + 1, [&] { k.unknown(cut()); });
  k.judge();
}

TEST(CertifyOperations, BranchesAndTheirOpposites) {
  Asking k;
  const Value v = k.arg(Elem::I32), five = k.i32(5), four = k.i32(4), six = k.i32(6);
  const auto in_arm = [&](ir::ComparisonPredicate p, bool truth, auto&& body) {
    truth ? k.branch(k.compare(v, p, five), body)
          : k.branch(
                k.compare(v, p, five), [] {}, body);
  };
  const auto at_least = [&](Value low, Value lower) {
    return [&k, v, low, lower] {
      k.yes(v, GreaterEqual, low);
      k.no(v, Greater, low);
      k.yes(v, Greater, lower);
      k.no(v, LessEqual, low);
      k.ask(k.compare(v, Less, low), false);
    };
  };
  const auto at_most = [&](Value high, Value higher) {
    return [&k, v, high, higher] {
      k.yes(v, LessEqual, high);
      k.no(v, Less, high);
      k.yes(v, Less, higher);
      k.no(v, GreaterEqual, high);
    };
  };
  in_arm(Less, true, at_most(four, five));
  in_arm(Less, false, at_least(five, four));
  in_arm(LessEqual, true, at_most(five, six));
  in_arm(LessEqual, false, at_least(six, five));
  in_arm(Greater, true, at_least(six, five));
  in_arm(Greater, false, at_most(five, six));
  in_arm(GreaterEqual, true, at_least(five, four));
  in_arm(GreaterEqual, false, at_most(four, five));
  for (const bool truth : {true, false}) {
    in_arm(Equal, truth, [&] { k.ask(k.compare(v, Equal, five), truth); });
    in_arm(NotEqual, truth, [&] { k.ask(k.compare(v, Equal, five), !truth); });
  }
  k.judge();
}

TEST(CertifyOperations, ComparisonsThatAreFalse) {
  Asking k;
  const Value v = k.arg(Elem::I32), five = k.i32(5);
  struct Of {
    ir::ComparisonPredicate p;
    std::int64_t lo, hi;  ///< v is in it, and the comparison with 5 is false
    std::int64_t more;    ///< ... and with this number, too, not
    Value condition, other;
  };
  std::vector<Of> all{{Less, 5, 9, 4, {}, {}},         {LessEqual, 6, 9, 5, {}, {}}, {Greater, 1, 5, 6, {}, {}},
                      {GreaterEqual, 1, 4, 5, {}, {}}, {Equal, 6, 9, 5, {}, {}},     {NotEqual, 5, 5, 4, {}, {}}};
  for (Of& of : all) {
    k.where(v, of.lo, of.hi, [&] { of.condition = k.compare(v, of.p, five); });
    k.where(v, std::min(of.lo, of.more), std::max(of.hi, of.more), [&] { of.other = k.compare(v, of.p, five); });
  }
  k.end();
  for (const Of& of : all) {
    EXPECT_TRUE(k.certifies(of.condition, false)) << static_cast<int>(of.p);
    EXPECT_FALSE(k.certifies(of.condition, true)) << static_cast<int>(of.p);
    EXPECT_FALSE(k.certifies(of.other, false)) << static_cast<int>(of.p);
  }
}

TEST(CertifyOperations, NumbersOfBlocks) {
  Asking k;
  k.within(k.number_of_block(), 0, (1 << 24) - 2);
  k.within(k.number_of_blocks(), 1, (1 << 24) - 1);
  k.judge();
}

/// Blocks of pieces of 16 of a tensor with one axis.
struct CountsPieces : Asking {
  CountsPieces(bool wide, bool is_expected) {
    pointer(Elem::F32);
    const Value dim = arg(Elem::I64);
    arg(Elem::I64);
    using analysis::ArgRole;
    contract.args = {{ArgRole::Base, 0, -1}, {ArgRole::Dim, 0, 0}, {ArgRole::Stride, 0, 0}};
    contract.tensors = {{0, 1, true, true, true}};
    contract.pieces_of_tensor = 0;
    contract.piece = {16};
    contract.wide_grid = wide;
    const ir::Type i32t = ir::Type::tile(Elem::I32);
    ir::Operation* block = b.create(Op::GetTileBlockId, {}, {i32t, i32t, i32t});
    ir::Operation* grid = b.create(Op::GetNumTileBlocks, {}, {i32t, i32t, i32t});
    const Value id = block->result(0), narrow = op(Op::TruncI, {dim}, i32t);
    const Value start = binary(
        Op::MulI, op(Op::ExtI, {id}, dim.type(), {{ir::AttrName::signedness, Signedness::Signed}}), number(dim, 16));
    ask(compare(start, Less, dim), is_expected);
    no(binary(Op::AddI, start, number(dim, 1)), Less, dim);
    ask(compare(id, Less, grid->result(0)), is_expected);
    ask(compare(block->result(1), Equal, i32(0)), is_expected);
    ask(compare(grid->result(2), Equal, i32(1)), is_expected);
    yes(id, GreaterEqual, i32(0));
    no(id, Greater, i32(0));
    yes(narrow, GreaterEqual, i32(1));  // no block runs where there is no piece
    no(narrow, Greater, i32(1));
    judge();
  }
};
TEST(CertifyOperations, NumbersOfBlocksOfPieces) { const CountsPieces one(false, true), wide(true, false); }

TEST(CertifyOperations, AssumptionsHoldBehindThem) {
  Asking k;
  const Value v = k.arg(Elem::I32);
  k.unknown(v);
  k.branch(k.compare(v, NotEqual, k.i32(77)), [&] {
    const Value known = k.op(Op::Assume, {v}, v.type(), {{ir::AttrName::predicate, ir::BoundedAttr{0, 10}}});
    k.within(known, 0, 10);
    k.within(v, 0, 10);
  });
  k.unknown(v);
  k.judge();
}

// ---- loops ----------------------------------------------------------------------------------------------------------

bool steps_fit(std::int64_t lower, std::int64_t upper, std::int64_t step, bool is_unsigned) {
  Program k;
  ir::Operation* made = k.loop(k.i32(lower), k.i32(upper), k.i32(step), [](Value) {});
  if (is_unsigned) made->set_attr(ir::AttrName::unsignedCmp, ir::UnitAttr{});
  k.end();
  return k.certifies({.kind = ClaimKind::StepFits, .op = made});
}
TEST(CertifyOperations, LastStepsThatFit) {
  constexpr std::int64_t kMost = INT32_MAX;
  for (const bool is_unsigned : {false, true}) {
    EXPECT_TRUE(steps_fit(0, 8, 1, is_unsigned));
    EXPECT_TRUE(steps_fit(0, kMost, 1, is_unsigned));
    EXPECT_FALSE(steps_fit(0, kMost, 2, is_unsigned));
    EXPECT_TRUE(steps_fit(0, kMost - 1, 2, is_unsigned));
    EXPECT_FALSE(steps_fit(0, 8, 0, is_unsigned));
    EXPECT_FALSE(steps_fit(0, 8, -1, is_unsigned));
    EXPECT_EQ(steps_fit(-2, 8, 1, is_unsigned), !is_unsigned) << "read as unsigned it is above 8";
    EXPECT_EQ(steps_fit(0, -1, 1, is_unsigned), !is_unsigned) << "read as unsigned it is the largest number";
  }
  Program k;
  const Value v = k.arg(Elem::I32);
  ir::Operation* any = k.loop(k.i32(0), k.i32(8), v, [](Value) {});
  ir::Operation* counted = k.loop(v, k.i32(8), k.i32(1), [](Value) {});
  ir::Operation* by_three = k.loop(k.i32(0), v, k.i32(3), [](Value) {});
  k.end();
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::StepFits, .op = any}));
  EXPECT_TRUE(k.certifies({.kind = ClaimKind::StepFits, .op = counted}));
  EXPECT_FALSE(k.certifies({.kind = ClaimKind::StepFits, .op = by_three}));
}

TEST(CertifyOperations, InductionVariables) {
  Asking k;
  const Value v = k.arg(Elem::I32), w = k.arg(Elem::I32), one = k.i32(1);
  k.loop(k.i32(3), k.i32(8), one, [&](Value i) { k.within(i, 3, 7); });
  k.loop(v, w, one, [&](Value i) {
    k.yes(i, GreaterEqual, v);
    k.no(i, Greater, v);
    k.yes(i, Less, w);
    k.no(i, Less, k.binary(Op::SubI, w, one));
    k.yes(v, Less, w);  // else there is no iteration
  });
  k.no(v, Less, w);
  k.loop(v, w, k.i32(2), [&](Value i) {  // may wrap, and go on
    k.no(i, GreaterEqual, v);
    k.no(i, Less, w);
  });
  k.loop(k.i32(0), k.i32(8), v, [&](Value i) { k.unknown(i); });
  k.judge();
}

// ---- accesses -------------------------------------------------------------------------------------------------------

/// Tiles of 16 of tensors of 128 numbers.
struct Tiles : Program {
  Value tensor(std::int64_t extent = 128, std::int64_t stride = 1) {
    const std::vector<std::int64_t> shape{extent}, strides{stride};
    const std::vector<Value> operands{pointer(Elem::F32)};
    const std::vector<std::uint32_t> groups{1, 0, 0};
    const std::vector<ir::Type> type{ir::Type::tensor_view(Elem::F32, shape, strides)};
    return b.create_grouped(Op::MakeTensorView, operands, groups, type)->result();
  }
  Value tiles(Value tensor, std::int32_t tile = 16) {
    return op(Op::MakePartitionView, {tensor},
              ir::Type::partition_view(tensor.type(), std::vector<std::int32_t>{tile}, {}, {}));
  }
};

TEST(CertifyOperations, TilesInsideATensor) {
  const auto inside = [](std::int64_t index, std::int64_t extent) {
    Tiles k;
    ir::Operation* made = k.load(k.tiles(k.tensor(extent)), {k.i32(index)});
    k.end();
    return k.certifies({.kind = ClaimKind::Inbounds, .op = made});
  };
  EXPECT_TRUE(inside(0, 128));
  EXPECT_TRUE(inside(7, 128));
  EXPECT_FALSE(inside(8, 128));
  EXPECT_FALSE(inside(7, 127));
  EXPECT_FALSE(inside(-1, 128));
}

/// The positions start, start + 1, ... of a tile of `count` are compared with `extent`, in a loop over 0 to 7.
struct Positions : Program {
  Value tile(Value v, std::int64_t count) {
    const ir::Type t = ir::Type::tile(Elem::I32, {count});
    const std::vector<std::int64_t> one{1};
    return op(Op::Broadcast, {op(Op::Reshape, {v}, v.type().with_shape(one))}, t);
  }
  Value counted(std::int64_t count) { return op(Op::Iota, {}, ir::Type::tile(Elem::I32, {count})); }
  /// `start` is made of the induction variable.
  bool begin_tile(auto&& start, std::int64_t count, std::int64_t extent,
                  ir::ComparisonPredicate p = ir::ComparisonPredicate::Less,
                  ir::Signedness sign = ir::Signedness::Unsigned) {
    ir::Operation* made = nullptr;
    loop(i32(0), i32(8), i32(1), [&](Value i) {
      const Value from = start(i), most = i32(extent);
      made = count == 1 ? compare(from, p, most, sign).def()
                        : compare(op(Op::AddI, {tile(from, count), counted(count)}, tile(from, count).type()), p,
                                  tile(most, count), sign)
                              .def();
    });
    end();
    return certifies({.kind = ClaimKind::StartsTile, .op = made});
  }
};

TEST(CertifyOperations, PositionsThatBeginATile) {
  const auto times = [](std::int64_t by, std::int64_t more = 0) {
    return [=](Positions& k) {
      return [=, &k](Value i) {
        const Value product = k.op(Op::MulI, {i, k.i32(by)}, i.type());
        return more == 0 ? product : k.op(Op::AddI, {product, k.i32(more)}, i.type());
      };
    };
  };
  const auto begins = [](auto&& start, std::int64_t count, std::int64_t extent, auto... how) {
    Positions k;
    return k.begin_tile(start(k), count, extent, how...);
  };
  EXPECT_TRUE(begins(times(16), 16, 128));
  EXPECT_TRUE(begins(times(16), 16, 113)) << "the last tile reaches beyond the tensor";
  EXPECT_FALSE(begins(times(16), 16, 112)) << "the last tile is outside";
  EXPECT_TRUE(begins(times(32, 16), 16, 241));
  EXPECT_TRUE(begins(times(16), 8, 128));
  EXPECT_FALSE(begins(times(8), 16, 128)) << "every other one is no multiple";
  EXPECT_FALSE(begins(times(16, 8), 16, 1000));
  EXPECT_FALSE(begins(times(16, -16), 16, 1000)) << "the first is negative";
  EXPECT_TRUE(begins(times(3, 1), 1, 23));
  EXPECT_FALSE(begins(times(3, 1), 1, 22));
  EXPECT_FALSE(begins(times(3, -1), 1, 100));
  EXPECT_FALSE(begins(times(std::int64_t{1} << 29), 16, INT32_MAX)) << "the product wraps";
  EXPECT_FALSE(begins(times(16), 16, -1)) << "an extent that is negative as a signed number";
  EXPECT_FALSE(begins(times(16), 16, 128, ir::ComparisonPredicate::LessEqual));
  EXPECT_FALSE(begins(times(16), 16, 128, Less, ir::Signedness::Signed));
}

TEST(CertifyOperations, PositionsAreAStartAndWhatIsCounted) {
  Positions k;
  const Value v = k.arg(Elem::I32), most = k.tile(k.i32(128), 16), counted = k.counted(16);
  const auto inside = [&](Value places, Value extent) {
    return k.compare(places, Less, extent, ir::Signedness::Unsigned).def();
  };
  ir::Operation* const counts = inside(counted, most);
  ir::Operation* const twice = inside(k.op(Op::AddI, {counted, counted}, counted.type()), most);
  ir::Operation* const times = inside(k.op(Op::MulI, {counted, counted}, counted.type()), most);
  ir::Operation* const any = inside(k.op(Op::AddI, {k.tile(v, 16), counted}, counted.type()), most);
  ir::Operation* const ends = inside(counted, counted);
  k.end();
  const auto begins = [&](ir::Operation* op) { return k.certifies({.kind = ClaimKind::StartsTile, .op = op}); };
  EXPECT_TRUE(begins(counts));
  EXPECT_FALSE(begins(twice));
  EXPECT_FALSE(begins(times));
  EXPECT_FALSE(begins(any));
  EXPECT_FALSE(begins(ends)) << "another extent for each element";
}

TEST(CertifyOperations, ExtentsAreReadAsUnsigned) {
  // A tensor of slot 1 numbers, which the launch knows to be in [least, 100]: at most 7 tiles of 16.
  const auto is_few = [](std::int64_t least) {
    Asking k;
    const Value view = k.view(Elem::F32, {16});
    k.contract.args.resize(2);
    const std::uint32_t low = k.constant(least), high = k.constant(100), dim = k.slot(1);
    k.holds({false, low, dim, 1});
    k.holds({false, dim, high, 1});
    const Value count = k.op(Op::GetIndexSpaceShape, {view}, ir::Type::tile(Elem::I64));
    const Value c = k.compare(count, LessEqual, k.number(count, 7)), less = k.compare(count, Less, k.number(count, 7));
    k.end();
    EXPECT_FALSE(k.certifies(less));
    return k.certifies(c);
  };
  EXPECT_TRUE(is_few(0));
  EXPECT_FALSE(is_few(-1)) << "it is the largest number";
}

TEST(CertifyOperations, TilesOfOneTensorAreApart) {
  const auto apart = [](bool one_tensor, std::int32_t tile, std::int64_t stride) {
    Tiles k;
    const Value x = k.tensor(128, stride), y = one_tensor ? x : k.tensor(128, stride);
    const Value here = k.tiles(x), there = k.tiles(y, tile);
    const Value v = k.arg(Elem::I32), next = k.binary(Op::AddI, k.with_sign(Op::MinI, v, k.i32(100)), k.i32(1));
    ir::Operation* const first = k.load(here, {k.with_sign(Op::MinI, v, k.i32(100))});
    ir::Operation* const second = k.load(there, {next});
    k.end();
    return k.certifies({.kind = ClaimKind::Disjoint, .op = second, .other = first});
  };
  EXPECT_TRUE(apart(true, 16, 1));
  EXPECT_TRUE(apart(true, 16, 5));
  EXPECT_FALSE(apart(false, 16, 1)) << "another tensor may begin anywhere";
  EXPECT_FALSE(apart(true, 32, 1)) << "tiles of another size are elsewhere";
}

}  // namespace
}  // namespace tessera::test
