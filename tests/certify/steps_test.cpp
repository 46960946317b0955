// Claims in code that never runs, proofs by the bounds of single operations, and what is known of the other elements of
// a tile.
#include "certify/program.hpp"

namespace tessera::test {
namespace {

using enum ir::ComparisonPredicate;
using ir::Value;

TEST(CertifySteps, AnythingIsTrueWhereNothingRuns) {
  Program k;
  const Value a = k.arg(ir::Elem::I32), b = k.arg(ir::Elem::I32), x = k.arg(ir::Elem::I32);
  Value dead, deeper, behind, other, outside;
  const auto small = [&] { return k.compare(x, LessEqual, k.i32(5)); };
  k.branch(k.compare(a, Less, b), [&] {
    k.branch(
        k.compare(b, Less, a),
        [&] {
          dead = small();
          k.branch(k.compare(x, Greater, k.i32(7)), [&] { deeper = small(); });
          behind = small();
        },
        [&] { other = small(); });
    outside = small();
  });
  k.end();
  EXPECT_TRUE(k.certifies(dead));
  EXPECT_TRUE(k.certifies(dead, false));
  EXPECT_TRUE(k.certifies(deeper));
  EXPECT_TRUE(k.certifies(behind)) << "a scope inside has ended";
  EXPECT_FALSE(k.certifies(other)) << "x is 6";
  EXPECT_FALSE(k.certifies(outside)) << "x is 6";
}

TEST(CertifySteps, ALoopWithoutIterations) {
  for (const std::int64_t first : {9, 3}) {
    Program k;
    const Value x = k.arg(ir::Elem::I32);
    Value c;
    k.loop(k.with_sign(ir::Op::MaxI, x, k.i32(first)), k.i32(5), k.i32(1),
           [&](Value) { c = k.compare(x, LessEqual, k.i32(-5)); });
    k.end();
    EXPECT_EQ(k.certifies(c), first > 5) << first;
  }
}

/// s = min(x, 7) + y and the claim s <= 100, with the bound `most` of s.
struct Stepped : Program {
  Value s, c;
  Stepped() {
    const Value x = arg(ir::Elem::I32), y = arg(ir::Elem::I32);
    s = binary(ir::Op::AndI, with_sign(ir::Op::MinI, x, i32(7)), y);
    c = compare(s, LessEqual, i32(100));
    end();
  }
  void bound_by(std::int64_t most) {
    std::uint32_t at = 0, number = 0;
    ir::walk(module.functions.front()->body(), [&](const ir::Operation& op) {
      if (&op == s.def()) number = at;
      ++at;
    });
    certificate.invariants.push_back({number, 0, false, true, constant(most), {}});
  }
};
TEST(CertifySteps, ABoundOfOneOperationIsProvenToo) {
  Stepped forged;
  forged.bound_by(100);
  EXPECT_FALSE(forged.certifies(forged.c)) << "x = y = -1 & y has any value";
  EXPECT_EQ(forged.judged(condition_claim(*forged.c.def(), true)).bad_invariants, 0u) << "it is no fact of a loop";
}

TEST(CertifySteps, FactsOfAnElementAreThoseOfEach) {
  Program k;
  const ir::Type tile = ir::Type::tile(ir::Elem::I32, {8});
  const std::vector<std::int64_t> wide{1, 8};
  const Value view_of_x = k.view(ir::Elem::I32, {8}), view_of_y = k.view(ir::Elem::I32, {8});
  const Value x = k.load(view_of_x, {k.i32(0)})->result(0), y = k.load(view_of_y, {k.i32(0)})->result(0);
  const std::vector<std::byte> bytes{std::byte{7}, std::byte{0}, std::byte{0}, std::byte{0}};
  const Value seven = k.b.constant(tile, ir::DenseAttr{tile, bytes, true});
  const auto reshaped = [&](Value v) { return k.op(ir::Op::Reshape, {v}, v.type().with_shape(wide)); };
  const Value least = k.with_sign(ir::Op::MinI, x, y), lowest = k.with_sign(ir::Op::MinI, least, seven);
  const Value small = k.compare(reshaped(lowest), LessEqual, reshaped(seven));
  const Value same_place = k.compare(least, LessEqual, y),
              other_place = k.compare(reshaped(least), LessEqual, reshaped(y));
  k.end();
  EXPECT_TRUE(k.certifies(small));
  EXPECT_TRUE(k.certifies(same_place));
  EXPECT_FALSE(k.certifies(other_place)) << "the polynomials are of any two elements";
}

}  // namespace
}  // namespace tessera::test
