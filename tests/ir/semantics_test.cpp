// The element semantics against the machine's own arithmetic (all rounding modes), the host's narrow floats, and
// hand-picked edge cases of docs/semantics.md.
#include "tessera/ir/semantics.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "tessera/base/float_types.hpp"

namespace tessera::ir {
namespace {

std::uint64_t evaluate(const ElementOp& op, std::initializer_list<std::uint64_t> operands) {
  return evaluate_element(op, std::span(operands.begin(), operands.size()));
}
ElementOp float_op(Op op, Elem e, std::uint8_t arity, Rounding rounding = Rounding::NearestEven) {
  return {.op = op, .source = e, .result = e, .rounding = rounding, .arity = arity};
}
ElementOp int_op(Op op, Elem e, bool is_signed = true, Rounding rounding = Rounding::Zero) {
  return {.op = op, .source = e, .result = e, .rounding = rounding, .is_signed = is_signed, .arity = 2};
}
std::uint64_t bits(float v) { return std::bit_cast<std::uint32_t>(v); }
std::uint64_t bits(double v) { return std::bit_cast<std::uint64_t>(v); }
float f32_of(std::uint64_t b) { return std::bit_cast<float>(static_cast<std::uint32_t>(b)); }
double f64_of(std::uint64_t b) { return std::bit_cast<double>(b); }

/// Random bits, with many exponents close to each other and all the special values.
template <class U, class F>
class Source {
 public:
  U next() {
    const U raw = static_cast<U>(random_());
    switch (random_() % 8) {
      case 0: return specials_[random_() % specials_.size()];
      case 1: return static_cast<U>(std::bit_cast<U>(F(1)) ^ (raw & ((U{1} << (sizeof(U) * 4)) - 1)));
      case 2: return raw & (std::bit_cast<U>(std::numeric_limits<F>::min()) * 2 - 1);  // denormals and their neighbours
      case 3: return std::bit_cast<U>(F(static_cast<std::int64_t>(raw % 2001) - 1000));
      default: return raw;
    }
  }

 private:
  using L = std::numeric_limits<F>;
  std::array<U, 10> specials_ = {std::bit_cast<U>(F(0)),
                                 std::bit_cast<U>(-F(0)),
                                 std::bit_cast<U>(L::infinity()),
                                 std::bit_cast<U>(-L::infinity()),
                                 std::bit_cast<U>(L::quiet_NaN()),
                                 std::bit_cast<U>(L::max()),
                                 std::bit_cast<U>(-L::max()),
                                 std::bit_cast<U>(L::min()),
                                 std::bit_cast<U>(L::denorm_min()),
                                 std::bit_cast<U>(-L::denorm_min())};
  std::mt19937_64 random_{7};
};

struct Mode {
  Rounding rounding;
  int machine;
};
constexpr Mode kModes[] = {{Rounding::NearestEven, FE_TONEAREST},
                           {Rounding::Zero, FE_TOWARDZERO},
                           {Rounding::NegativeInf, FE_DOWNWARD},
                           {Rounding::PositiveInf, FE_UPWARD}};

template <class F>
__attribute__((noinline)) F machine(Op op, F a, F b, F c, int mode) {
  std::fesetround(mode);
  volatile F x = a, y = b, z = c, r = 0;
  switch (op) {
    case Op::AddF: r = x + y; break;
    case Op::SubF: r = x - y; break;
    case Op::MulF: r = x * y; break;
    case Op::DivF: r = x / y; break;
    case Op::Sqrt: r = std::sqrt(x); break;
    default: r = std::fma(x, y, z); break;
  }
  std::fesetround(FE_TONEAREST);
  return r;
}

template <class U, class F>
void check_against_machine(Elem e, int rounds) {
  Source<U, F> source;
  for (int i = 0; i < rounds; ++i) {
    const U a = source.next(), b = source.next(), c = source.next();
    for (const Op op : {Op::AddF, Op::SubF, Op::MulF, Op::DivF, Op::Sqrt, Op::Fma})
      for (const Mode mode : kModes) {
        const std::uint8_t arity = op == Op::Fma ? 3 : op == Op::Sqrt ? 1 : 2;
        const F want = machine(op, std::bit_cast<F>(a), std::bit_cast<F>(b), std::bit_cast<F>(c), mode.machine);
        const auto got = static_cast<U>(evaluate(float_op(op, e, arity, mode.rounding), {a, b, c}));
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(std::bit_cast<F>(got))) << info(op).mnemonic;
        } else {
          ASSERT_EQ(std::bit_cast<U>(want), got)
              << info(op).mnemonic << " mode " << int(mode.rounding) << std::hex << " of " << a << " " << b << " " << c;
        }
      }
  }
}

TEST(Semantics, ArithmeticOfF32IsTheMachines) { check_against_machine<std::uint32_t, float>(Elem::F32, 20000); }
TEST(Semantics, ArithmeticOfF64IsTheMachines) { check_against_machine<std::uint64_t, double>(Elem::F64, 20000); }

// Addition, product, quotient and root of 11 bits, computed in f32 and rounded again, are correctly rounded (24 >= 2 *
// 11 + 2).
TEST(Semantics, ArithmeticOfNarrowFloatsIsRoundedOnce) {
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    const auto a = static_cast<std::uint16_t>(random()), b = static_cast<std::uint16_t>(random());
    const auto check = [&](Elem e, float x, float y, auto narrow) {
      const struct {
        Op op;
        float value;
      } cases[] = {{Op::AddF, x + y}, {Op::SubF, x - y}, {Op::MulF, x * y}, {Op::DivF, x / y}};
      for (const auto& k : cases) {
        const auto got = evaluate(float_op(k.op, e, 2), {a, b});
        if (std::isnan(k.value))
          ASSERT_TRUE(std::isnan(to_double(e, got)));
        else
          ASSERT_EQ(narrow(k.value), got) << info(k.op).mnemonic << " " << x << " " << y;
      }
    };
    check(Elem::F16, detail::f16_to_float(a), detail::f16_to_float(b), [](float v) { return f16(v).bits; });
    check(Elem::BF16, detail::bf16_to_float(a), detail::bf16_to_float(b), [](float v) { return bf16(v).bits; });
  }
}

TEST(Semantics, ConversionsFromF32AgreeWithTheHostTypes) {
  Source<std::uint32_t, float> source;
  const auto convert = [](Elem to, std::uint32_t v) {
    return evaluate({.op = Op::FToF, .source = Elem::F32, .result = to, .arity = 1}, {v});
  };
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t v = source.next();
    const float x = f32_of(v);
    if (std::isnan(x)) {
      for (const Elem e : {Elem::F16, Elem::BF16, Elem::F8E4M3FN, Elem::F8E5M2})
        ASSERT_TRUE(std::isnan(to_double(e, convert(e, v))));
      continue;
    }
    ASSERT_EQ(f16(x).bits, convert(Elem::F16, v)) << x;
    ASSERT_EQ(bf16(x).bits, convert(Elem::BF16, v)) << x;
    ASSERT_EQ(f8e4m3(x).bits, convert(Elem::F8E4M3FN, v)) << x;
    ASSERT_EQ(f8e5m2(x).bits, convert(Elem::F8E5M2, v)) << x;
    ASSERT_EQ(bits(detail::round_to_tf32(x)), convert(Elem::TF32, v)) << x;
  }
}

TEST(Semantics, EveryNarrowPatternHasTheHostsValueAndComesBack) {
  const auto check = [](Elem e, std::uint32_t v, float want) {
    const double got = to_double(e, v);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << v;
    } else {
      EXPECT_EQ(want, got) << v;
      if (!std::isinf(want) || info(e).bits > 8) {  // 8-bit formats saturate
        EXPECT_EQ(v, from_double(e, got));
      }
    }
  };
  for (std::uint32_t v = 0; v < 0x10000; ++v) {
    check(Elem::F16, v, detail::f16_to_float(static_cast<std::uint16_t>(v)));
    check(Elem::BF16, v, detail::bf16_to_float(static_cast<std::uint16_t>(v)));
  }
  for (std::uint32_t v = 0; v < 256; ++v) {
    check(Elem::F8E4M3FN, v, detail::f8e4m3_to_float(static_cast<std::uint8_t>(v)));
    check(Elem::F8E5M2, v, detail::f8e5m2_to_float(static_cast<std::uint8_t>(v)));
  }
}

TEST(Semantics, SmallFormatsSaturateFromFloatsAndOverflowFromIntegers) {
  EXPECT_EQ(448.0, to_double(Elem::F8E4M3FN, from_double(Elem::F8E4M3FN, 1e9)));
  EXPECT_EQ(-57344.0, to_double(Elem::F8E5M2, from_double(Elem::F8E5M2, -INFINITY)));
  EXPECT_EQ(6.0, to_double(Elem::F4E2M1FN, from_double(Elem::F4E2M1FN, 100.0)));
  const auto itof = [](Elem to, std::int64_t v) {
    return to_double(
        to, evaluate({.op = Op::IToF, .source = Elem::I32, .result = to, .arity = 1}, {static_cast<std::uint64_t>(v)}));
  };
  EXPECT_TRUE(std::isnan(itof(Elem::F8E4M3FN, 1000)));
  EXPECT_EQ(INFINITY, itof(Elem::F8E5M2, 100000));
  EXPECT_EQ(-INFINITY, itof(Elem::F16, -100000));
  EXPECT_EQ(-12.0, itof(Elem::F8E4M3FN, -12));
}

TEST(Semantics, PowersOfTwoWithoutSignRoundAsAsked) {
  const auto e8m0 = [](double v, Rounding r) { return to_double(Elem::F8E8M0FNU, from_double(Elem::F8E8M0FNU, v, r)); };
  EXPECT_EQ(2.0, e8m0(3.9, Rounding::Zero));
  EXPECT_EQ(4.0, e8m0(2.1, Rounding::PositiveInf));
  EXPECT_EQ(0.25, e8m0(0.25, Rounding::PositiveInf));
  EXPECT_EQ(0x1p127, e8m0(1e300, Rounding::PositiveInf));
  EXPECT_TRUE(std::isnan(e8m0(NAN, Rounding::Zero)));
}

TEST(Semantics, ExtremaOrderZerosAndTreatNaNAsAsked) {
  ElementOp max = float_op(Op::MaxF, Elem::F32, 2), min = float_op(Op::MinF, Elem::F32, 2);
  const std::uint64_t nan = bits(NAN), one = bits(1.0f), zero = bits(0.0f), negative_zero = bits(-0.0f);
  EXPECT_EQ(one, evaluate(max, {nan, one}));
  EXPECT_EQ(one, evaluate(min, {one, nan}));
  EXPECT_EQ(0x7FC00000u, evaluate(max, {0xFFC12345u, nan}));
  EXPECT_EQ(zero, evaluate(max, {negative_zero, zero}));
  EXPECT_EQ(zero, evaluate(max, {zero, negative_zero}));
  EXPECT_EQ(negative_zero, evaluate(min, {zero, negative_zero}));
  max.propagate_nan = true;
  EXPECT_EQ(0x7FC00000u, evaluate(max, {0xFFC12345u, one}));
  EXPECT_EQ(one, evaluate(max, {one, zero}));
}

TEST(Semantics, FlushToZeroKeepsTheSign) {
  ElementOp add = float_op(Op::AddF, Elem::F32, 2), mul = float_op(Op::MulF, Elem::F32, 2);
  add.flush_to_zero = mul.flush_to_zero = true;
  EXPECT_EQ(bits(-0.0f), evaluate(add, {0x80000001u, 0x80000001u}));
  EXPECT_EQ(bits(0.0f), evaluate(mul, {bits(0x1p-100f), bits(0x1p-100f)}));
  EXPECT_EQ(bits(-0.0f), evaluate(mul, {bits(-0x1p-70f), bits(0x1p-70f)}));
  EXPECT_EQ(bits(1.0f), evaluate(add, {bits(1.0f), 1u}));
}

TEST(Semantics, ComparisonsOfNaN) {
  ElementOp cmp{.op = Op::CmpF, .source = Elem::F32, .result = Elem::I1, .arity = 2};
  for (const auto p : {ComparisonPredicate::Equal, ComparisonPredicate::NotEqual, ComparisonPredicate::Less,
                       ComparisonPredicate::GreaterEqual}) {
    cmp.predicate = p;
    cmp.ordered = true;
    EXPECT_EQ(0u, evaluate(cmp, {bits(NAN), bits(1.0f)}));
    cmp.ordered = false;
    EXPECT_EQ(1u, evaluate(cmp, {bits(NAN), bits(1.0f)}));
  }
  cmp.predicate = ComparisonPredicate::Equal;
  EXPECT_EQ(1u, evaluate(cmp, {bits(0.0f), bits(-0.0f)}));
}

template <class S>
void check_integers(Elem e) {
  using U = std::make_unsigned_t<S>;
  std::mt19937_64 random(11);
  const S extremes[] = {0, 1, -1, 2, -2, std::numeric_limits<S>::min(), std::numeric_limits<S>::max()};
  for (int i = 0; i < 20000; ++i) {
    const S a = i % 3 == 0 ? extremes[random() % 7] : static_cast<S>(random());
    const S b = i % 2 == 0 ? extremes[random() % 7] : static_cast<S>(random());
    const U ua = static_cast<U>(a), ub = static_cast<U>(b);
    __extension__ using Wide = unsigned __int128;
    const auto expect = [&](Op op, bool is_signed, U want, Rounding r = Rounding::Zero) {
      ASSERT_EQ(want, evaluate(int_op(op, e, is_signed, r),
                               {ua | (random() << 8 * (sizeof(U) % 8) & (sizeof(U) == 8 ? 0 : ~U{0})), ub}))
          << info(op).mnemonic << " " << +a << " " << +b;
    };
    expect(Op::AddI, true, static_cast<U>(Wide(ua) + ub));
    expect(Op::SubI, true, static_cast<U>(Wide(ua) - ub));
    expect(Op::MulI, true, static_cast<U>(Wide(ua) * ub));
    expect(Op::MulhiI, false, static_cast<U>(Wide(ua) * ub >> (8 * sizeof(U))));
    expect(Op::MaxI, true, static_cast<U>(std::max(a, b)));
    expect(Op::MinI, false, std::min(ua, ub));
    const bool overflow = a == std::numeric_limits<S>::min() && b == -1;
    if (b == 0) {
      expect(Op::DivI, true, 0);
      expect(Op::DivI, false, 0);
      expect(Op::RemI, true, ua);
      expect(Op::RemI, false, ua);
    } else {
      expect(Op::DivI, false, static_cast<U>(ua / ub));
      expect(Op::RemI, false, static_cast<U>(ua % ub));
      expect(Op::DivI, true, overflow ? ua : static_cast<U>(a / b));
      expect(Op::RemI, true, overflow ? U{0} : static_cast<U>(a % b));
      if (!overflow) {
        const S q = static_cast<S>(a / b);
        const bool inexact = a % b != 0, negative = (a < 0) != (b < 0);
        expect(Op::DivI, true, static_cast<U>(q - (inexact && negative)), Rounding::NegativeInf);
        expect(Op::DivI, true, static_cast<U>(q + (inexact && !negative)), Rounding::PositiveInf);
        expect(Op::DivI, false, static_cast<U>(ua / ub + (ua % ub != 0)), Rounding::PositiveInf);
      }
    }
    const bool past = ub >= 8 * sizeof(U);
    expect(Op::ShLI, false, past ? U{0} : static_cast<U>(ua << ub));
    expect(Op::ShRI, false, past ? U{0} : static_cast<U>(ua >> ub));
    expect(Op::ShRI, true, static_cast<U>(past ? (a < 0 ? -1 : 0) : a >> ub));
  }
}
TEST(Semantics, IntegersWrapAndDivideAsCpp) {
  check_integers<std::int8_t>(Elem::I8);
  check_integers<std::int16_t>(Elem::I16);
  check_integers<std::int32_t>(Elem::I32);
  check_integers<std::int64_t>(Elem::I64);
}

TEST(Semantics, OneBitIntegers) {
  EXPECT_EQ(0u, evaluate(int_op(Op::AddI, Elem::I1), {1, 1}));
  EXPECT_EQ(1u, evaluate(int_op(Op::MaxI, Elem::I1, false), {1, 0}));
  EXPECT_EQ(0u, evaluate(int_op(Op::MaxI, Elem::I1, true), {1, 0}));  // 1 reads as -1
  EXPECT_EQ(1u, evaluate({.op = Op::XOrI, .source = Elem::I1, .result = Elem::I1, .arity = 2}, {0xFF, 0}));
}

TEST(Semantics, FloatToIntegerSaturates) {
  const auto convert = [](double v, Elem to, bool is_signed) {
    return evaluate({.op = Op::FToI, .source = Elem::F64, .result = to, .is_signed = is_signed, .arity = 1}, {bits(v)});
  };
  EXPECT_EQ(0x7FFFFFFFu, convert(1e10, Elem::I32, true));
  EXPECT_EQ(0x80000000u, convert(-1e10, Elem::I32, true));
  EXPECT_EQ(0xFFFFFFFFu, convert(INFINITY, Elem::I32, false));
  EXPECT_EQ(0u, convert(-3.0, Elem::I32, false));
  EXPECT_EQ(0u, convert(NAN, Elem::I64, true));
  EXPECT_EQ(0xFFFFFFFDu, convert(-3.99, Elem::I32, true));
  EXPECT_EQ(0x7FFFFFFFFFFFFFFFu, convert(0x1p63, Elem::I64, true));
  EXPECT_EQ(0x8000000000000000u, convert(0x1p63, Elem::I64, false));
  EXPECT_EQ(127u, convert(127.9, Elem::I8, true));
  EXPECT_EQ(0x80u, convert(-128.9, Elem::I8, true));
}

TEST(Semantics, IntegerToFloatRoundsOnce) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t v = random() >> (random() % 64);
    const ElementOp s{.op = Op::IToF, .source = Elem::I64, .result = Elem::F32, .is_signed = true, .arity = 1};
    ElementOp u = s;
    u.is_signed = false;
    ASSERT_EQ(bits(static_cast<float>(static_cast<std::int64_t>(v))), evaluate(s, {v}));
    ASSERT_EQ(bits(static_cast<float>(v)), evaluate(u, {v}));
    u.result = Elem::F64;
    ASSERT_EQ(bits(static_cast<double>(v)), evaluate(u, {v}));
  }
}

TEST(Semantics, ElementaryFunctionsAndRemainders) {
  const auto f = [](Op op, std::uint8_t arity, double a, double b = 0) {
    return f64_of(evaluate(float_op(op, Elem::F64, arity), {bits(a), bits(b)}));
  };
  EXPECT_EQ(std::exp(1.25), f(Op::Exp, 1, 1.25));
  EXPECT_EQ(0.5, f(Op::Rsqrt, 1, 4.0));
  EXPECT_EQ(std::atan2(1.0, -2.0), f(Op::Atan2, 2, 1.0, -2.0));
  EXPECT_EQ(-1.0, f(Op::RemF, 2, -7.0, 3.0));
  EXPECT_TRUE(std::isnan(f(Op::RemF, 2, 1.0, 0.0)));
  const auto powi = [](double x, std::int32_t n) {
    return f64_of(
        evaluate({.op = Op::FPowI, .source = Elem::F64, .result = Elem::F64, .exponent = Elem::I32, .arity = 2},
                 {bits(x), static_cast<std::uint32_t>(n)}));
  };
  EXPECT_EQ(-8.0, powi(-2.0, 3));
  EXPECT_EQ(0.0625, powi(-2.0, -4));
  EXPECT_EQ(-INFINITY, powi(-0.0, -1));
}

TEST(Semantics, ReadsOperations) {
  Module module;
  Function& f = module.add_function("k");
  const Type scalar = Type::tile(Elem::F32);
  const Value x = f.body().add_arg(scalar),
              pointer = f.body().add_arg(Type::tile(Type::pointer(Type::element(Elem::F16)), {}));
  Builder b(f.body());
  const Operation* add = b.create(Op::AddF, {x, x}, {scalar}, {{AttrName::rounding_mode, Rounding::PositiveInf}});
  EXPECT_EQ(bits(std::nextafter(2.0f, 3.0f) * 2), [&] {
    const std::uint64_t v = bits(std::nextafter(2.0f, 3.0f));
    return evaluate_element(*add, std::array{v, v});
  }());
  EXPECT_EQ(Rounding::PositiveInf, element_op(*add)->rounding);
  const Value i = b.constant_int(Elem::I32, -3);
  const Operation* offset = b.create(Op::Offset, {pointer, i}, {pointer.type()});
  EXPECT_EQ(994u, evaluate_element(*offset, std::array<std::uint64_t, 2>{1000, 0xFFFFFFFDu}));
  EXPECT_FALSE(has_element_semantics(*i.def()));
  EXPECT_TRUE(has_element_semantics(*offset));
}

}  // namespace
}  // namespace tessera::ir
