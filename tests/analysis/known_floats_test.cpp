// Which floating-point numbers a compiler may know without running the kernel: rules on small modules.
#include "tessera/analysis/known_floats.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "passes/pass_support.hpp"

namespace tessera::test {
namespace {

using analysis::KnownFloat;
using analysis::KnownFloats;
using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr KnownFloat kAnything{-kInfinity, kInfinity, true};

std::string text(const KnownFloat& k) {
  return k.any() ? std::to_string(k.low) + " to " + std::to_string(k.high) + (k.nan ? " or NaN" : "") : "nothing";
}

/// Values of four f32 elements.
struct Floats : Kernel {
  const std::vector<std::int64_t> shape{4};
  Value number(double x, Elem e = Elem::F32) { return b.constant_float(e, x, shape); }
  Value loaded(std::optional<ir::PaddingValue> padding, std::vector<bool> inbounds = {}) {
    return load(view(Elem::F32, {4}, padding), {i32(0)}, std::move(inbounds))->result(0);
  }
  Value argument() {
    const std::vector<std::int64_t> ones{1};
    const Value one = op(Op::Reshape, {arg(Elem::F32)}, number(0).type().with_shape(ones));
    return op(Op::Broadcast, {one}, number(0).type());
  }
  Value unary(Op o, Value x) { return op(o, {x}, x.type()); }
  Value converted(Elem from, Elem to, ir::Signedness s) {
    const Value x = load(view(from, {4}, ir::PaddingValue::Zero), {i32(0)})->result(0);
    return op(Op::IToF, {x}, x.type().with_element(to), {{AttrName::signedness, s}});
  }
  Value compared(ir::ComparisonPredicate p, Value x, Value y) {
    return op(Op::CmpF, {x, y}, x.type().with_element(Elem::I1),
              {{AttrName::comparison_predicate, p}, {AttrName::comparison_ordering, ir::ComparisonOrdering::Ordered}});
  }
};

TEST(KnownFloats, ConstantsPaddingAndWhatIsComputedFromThem) {
  using ir::PaddingValue;
  Floats k;
  const auto binary = [&](Op op, Value x, Value y) { return k.binary(op, x, y); };
  const Value zero = k.loaded(PaddingValue::Zero), infinite = k.loaded(PaddingValue::PosInf);
  const Value nan = k.loaded(PaddingValue::NaN), unpadded = k.loaded({}), argument = k.argument();
  const Value ten = k.number(10), huge = k.number(3e38), infinity = k.number(kInfinity);
  const Value scaled = binary(Op::MulF, infinite, argument), clamped = binary(Op::MaxF, scaled, k.number(-128));
  struct Row {
    const char* what;
    Value v;
    KnownFloat expected;
  };
  const Row table[] = {
      {"a constant", ten, {10, 10}},
      {"an argument", argument, {}},
      {"loaded without padding", unpadded, {}},
      {"loaded within bounds", k.loaded(PaddingValue::PosInf, {true}), {}},
      {"padding", zero, {0, 0}},
      {"infinite padding", infinite, {kInfinity, kInfinity}},
      {"NaN as padding", nan, {kInfinity, -kInfinity, true}},
      {"padding + 10", binary(Op::AddF, zero, ten), {10, 10}},
      {"padding - 10", binary(Op::SubF, zero, ten), {-10, -10}},
      {"10 * argument", binary(Op::MulF, ten, argument), {}},
      {"NaN + argument is NaN", binary(Op::AddF, nan, argument), {kInfinity, -kInfinity, true}},
      {"infinite padding * argument", scaled, {}},
      {"infinite padding * 10", binary(Op::MulF, infinite, ten), kAnything},
      {"3e38 * 10 overflows", binary(Op::MulF, huge, ten), {kInfinity, kInfinity}},
      {"10 / padding of zero", binary(Op::DivF, ten, zero), kAnything},
      {"padding of zero / 10", binary(Op::DivF, zero, ten), {0, 0}},
      {"-padding", k.unary(Op::NegF, infinite), {-kInfinity, -kInfinity}},
      {"abs(-infinity)", k.unary(Op::AbsF, k.unary(Op::NegF, infinite)), {kInfinity, kInfinity}},
      {"floor", k.unary(Op::Floor, k.number(-2.5)), {-3, -3}},
      {"log", k.unary(Op::Log, zero), kAnything},
      {"log of an argument", k.unary(Op::Log, argument), {}},
      {"a limit from below", clamped, {-128, -128}},
      {"limits of infinite padding", binary(Op::MinF, infinite, ten), {10, 10}},
      {"NaN loses against a limit", binary(Op::MinF, nan, ten), {10, 10}},
      {"infinity may win against an argument", binary(Op::MaxF, argument, infinity), {kInfinity, kInfinity}},
      {"all of i32", k.converted(Elem::I32, Elem::F64, ir::Signedness::Signed), {-0x1p31, 0x1p31 - 1}},
      {"all of i32, rounded", k.converted(Elem::I32, Elem::F32, ir::Signedness::Signed), {-0x1p31, 0x1p31}},
      {"all of u16", k.converted(Elem::I16, Elem::F32, ir::Signedness::Unsigned), {0, 65535}},
  };
  const KnownFloats known = KnownFloats::analyze(k.function());
  for (const Row& row : table) { EXPECT_EQ(text(known.of(row.v)), text(row.expected)) << row.what; }
}

TEST(KnownFloats, EqualToAConstantIsThatConstant) {
  Floats k;
  const Value x = k.argument(), y = k.argument(), z = k.argument();
  k.compared(ir::ComparisonPredicate::Equal, x, k.number(kInfinity));
  k.compared(ir::ComparisonPredicate::GreaterEqual, k.number(-kInfinity), y);
  k.compared(ir::ComparisonPredicate::Greater, z, k.number(1e30));
  const Value twice = k.binary(Op::MulF, x, k.number(2));
  const KnownFloats known = KnownFloats::analyze(k.function());
  EXPECT_EQ(text(known.of(x)), text({kInfinity, kInfinity}));
  EXPECT_EQ(text(known.of(twice)), text(kAnything));
  EXPECT_EQ(text(known.of(y)), text({-kInfinity, -kInfinity})) << "nothing is below";
  EXPECT_EQ(text(known.of(z)), text({})) << "a bound is no number";
}

}  // namespace
}  // namespace tessera::test
