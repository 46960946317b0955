// Cheaper forms of approximate operations, and the operands for which they would leave their bounds.
#include <cmath>
#include <random>

#include "passes/pass_support.hpp"
#include "tessera/analysis/float_range.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Rounding;
using ir::Type;
using ir::Value;

const ir::NamedAttr kApprox = {AttrName::rounding_mode, Rounding::Approx};

TEST(RelaxMath, OnlyWhatIsMarkedApproximate) {
  Kernel k;
  const Value x = k.arg(Elem::F32);
  const Value precise = k.op(Op::Exp, {x}, x.type());
  const Value fast = k.op(Op::Exp, {x}, x.type(), {kApprox});
  k.keep(precise);
  k.keep(fast);
  ir::Function& f = k.function();
  EXPECT_TRUE(passes::relax_math(f));
  EXPECT_EQ(problems_of(k.module), "");
  EXPECT_EQ(count(f, Op::Exp), 1u);
  ASSERT_EQ(count(f, Op::Exp2), 1u);
  EXPECT_TRUE(first(f, Op::Exp2)->has_attr(AttrName::flush_to_zero));
  EXPECT_FALSE(passes::relax_math(f));
}

/// Divisors for which a form is right; x is an argument of the type that the row names.
struct Division {
  const char* name;
  Elem x;
  Value (*divisor)(Kernel&, Value x);
  Rounding rounding;
  bool flushes;
};
Value number(Kernel& k, double v) { return k.b.constant_float(Elem::F32, v); }
Value exp_of(Kernel& k, Value x) { return k.op(Op::Exp, {x}, x.type()); }
const Division kDivisions[] = {
    {"anything", Elem::F32, [](Kernel&, Value x) { return x; }, Rounding::Full, false},
    {"a number", Elem::F32, [](Kernel& k, Value) { return number(k, 3); }, Rounding::Approx, true},
    {"a denormal number", Elem::F32, [](Kernel& k, Value) { return number(k, 1e-39); }, Rounding::Approx, false},
    {"a huge number", Elem::F32, [](Kernel& k, Value) { return number(k, 2e38); }, Rounding::Approx, true},
    {"1 + exp", Elem::F32, [](Kernel& k, Value x) { return k.binary(Op::AddF, exp_of(k, x), number(k, 1)); },
     Rounding::Approx, true},
    {"exp - 1", Elem::F32, [](Kernel& k, Value x) { return k.binary(Op::SubF, exp_of(k, x), number(k, 1)); },
     Rounding::Full, false},
    {"a root", Elem::F32, [](Kernel& k, Value x) { return k.op(Op::Sqrt, {x}, x.type()); }, Rounding::Approx, true},
    {"at least 1", Elem::F32, [](Kernel& k, Value x) { return k.binary(Op::MaxF, x, number(k, 1)); }, Rounding::Approx,
     true},
    {"the larger of a number that may be small and one that may be NaN", Elem::F32,
     [](Kernel& k, Value x) { return k.binary(Op::MaxF, x, k.op(Op::CosH, {x}, x.type())); }, Rounding::Full, false},
    {"the same the other way round", Elem::F32,
     [](Kernel& k, Value x) { return k.binary(Op::MaxF, k.op(Op::CosH, {x}, x.type()), x); }, Rounding::Full, false},
    {"the smaller of a number that may be huge and one that may be NaN", Elem::F32,
     [](Kernel& k, Value x) {
       const Value negative = k.op(Op::NegF, {k.op(Op::CosH, {x}, x.type())}, x.type());
       return k.binary(Op::MinF, x, negative);
     },
     Rounding::Full, false},
    {"at most 1", Elem::F32, [](Kernel& k, Value x) { return k.binary(Op::MinF, x, number(k, 1)); }, Rounding::Full,
     false},
    {"between 1 and 9", Elem::F32,
     [](Kernel& k, Value x) { return k.binary(Op::MinF, k.binary(Op::MaxF, x, number(k, 1)), number(k, 9)); },
     Rounding::Approx, true},
    {"16 bits", Elem::F16, [](Kernel& k, Value x) { return k.op(Op::FToF, {x}, Type::tile(Elem::F32)); },
     Rounding::Approx, true},
    {"bf16", Elem::BF16, [](Kernel& k, Value x) { return k.op(Op::FToF, {x}, Type::tile(Elem::F32)); }, Rounding::Full,
     false},
    {"an integer", Elem::I32,
     [](Kernel& k, Value x) {
       return k.op(Op::IToF, {x}, Type::tile(Elem::F32), {{AttrName::signedness, ir::Signedness::Signed}});
     },
     Rounding::Approx, true},
};

TEST(RelaxMath, DivisionsTakeTheCheapestFormThatTheirDivisorAllows) {
  for (const Division& d : kDivisions) {
    Kernel k;
    const Value dividend = k.arg(Elem::F32), x = k.arg(d.x);
    k.keep(k.op(Op::DivF, {dividend, d.divisor(k, x)}, dividend.type(), {kApprox}));
    ir::Function& f = k.function();
    passes::relax_math(f);
    EXPECT_EQ(problems_of(k.module), "");
    const Operation& division = *first(f, Op::DivF);
    EXPECT_EQ(division.enum_attr<Rounding>(AttrName::rounding_mode), d.rounding) << d.name;
    EXPECT_EQ(division.has_attr(AttrName::flush_to_zero), d.flushes) << d.name;
    EXPECT_FALSE(passes::relax_math(f)) << d.name;
  }
}

TEST(RelaxMath, RootsFlushWhereTheirOperandIsNeverDenormal) {
  for (const bool biased : {false, true}) {
    Kernel k;
    Value x = k.arg(Elem::F32);
    x = k.binary(Op::MulF, x, x);
    if (biased) x = k.binary(Op::AddF, x, number(k, 1e-5));
    k.keep(k.op(Op::Sqrt, {x}, x.type(), {kApprox}));
    ir::Function& f = k.function();
    passes::relax_math(f);
    EXPECT_EQ(first(f, Op::Sqrt)->has_attr(AttrName::flush_to_zero), biased);
  }
}

/// The sum of a tile of 64 elements that are `a` or `b`.
analysis::FloatRange range_of_sum(double a, double b) {
  Kernel k;
  const std::int64_t shape[] = {64};
  const Value which = k.arg(Type::tile(Elem::I1, {64}));
  const Value x = k.b.constant_float(Elem::F32, a, shape), y = k.b.constant_float(Elem::F32, b, shape);
  const Value tile = k.op(Op::Select, {which, x, y}, x.type());
  const Type number = Type::tile(Elem::F32);
  const ir::ArrayAttr identities{{ir::FloatAttr{Elem::F32, 0}}};
  Operation* sum = k.b.create(Op::Reduce, {tile}, {number},
                              {{AttrName::dim, ir::IntAttr{Elem::I64, 0}}, {AttrName::identities, identities}});
  ir::Block& body = sum->add_region();
  const Value left = body.add_arg(number), right = body.add_arg(number);
  ir::Builder inner(body);
  inner.create(Op::Yield, {inner.create(Op::AddF, {left, right}, {number})->result()}, {});
  return analysis::float_range(sum->result());
}

TEST(RelaxMath, ASumReachesAsFarAsAllItsTermsTogether) {
  const analysis::FloatRange mixed = range_of_sum(-3, 2);
  EXPECT_LE(mixed.low, -192);
  EXPECT_GE(mixed.high, 128);
  EXPECT_EQ(range_of_sum(1, 2).least, 1) << "terms of one sign do not cancel";
  EXPECT_EQ(range_of_sum(0x1p-110, -0x1.000002p-110).least, 0) << "the sum of two is denormal";
}

/// What 64 x 64 quotients divide by: any numbers; any numbers that a row shares; numbers of at least 1, as the larger
/// of 1 and any number, and as sums, of which some are infinite.
enum class Divisors { Any, Shared, Limited, Sums, HugeSums };
constexpr float kHugeTerm = 0x1.8p127F;
float divisor(Divisors kind, float b) {
  switch (kind) {
    case Divisors::Any:
    case Divisors::Shared: return b;
    case Divisors::Limited: return std::max(b, 1.0F);
    case Divisors::Sums: return 1.0F + std::abs(b);
    case Divisors::HugeSums: return kHugeTerm + std::abs(b);
  }
  return 0;
}
struct Quotients {
  static constexpr std::int32_t kRows = 64, kCols = 64;
  Kernel k;
  explicit Quotients(Divisors kind) {
    const bool shared = kind == Divisors::Shared;
    const std::int64_t shape[] = {kRows, kCols}, strides[] = {kCols, 1}, column[] = {kRows, 1}, ones[] = {1, 1};
    const auto view = [&](std::span<const std::int64_t> s, std::span<const std::int64_t> by) {
      const Value pointer = k.pointer(Elem::F32);
      const Type type = Type::tensor_view(Elem::F32, s, by);
      const std::uint32_t groups[] = {1, 0, 0};
      const Value tensor =
          k.b.create_grouped(Op::MakeTensorView, std::span(&pointer, 1), groups, std::span(&type, 1))->result();
      const std::int32_t tile[] = {static_cast<std::int32_t>(s[0]), static_cast<std::int32_t>(s[1])};
      return k.op(Op::MakePartitionView, {tensor}, Type::partition_view(type, tile, {}, {}));
    };
    const Value a = view(shape, strides), b = shared ? view(column, ones) : view(shape, strides),
                out = view(shape, strides), zero = k.i32(0);
    const Value x = k.load(a, {zero, zero})->result(0);
    Value y = k.load(b, {zero, zero})->result(0);
    if (shared) y = k.op(Op::Broadcast, {y}, x.type());
    const Value one = k.b.constant_float(Elem::F32, 1, shape);
    if (kind == Divisors::Limited) y = k.binary(Op::MaxF, y, one);
    if (kind == Divisors::Sums) y = k.binary(Op::AddF, k.op(Op::AbsF, {y}, y.type()), one);
    if (kind == Divisors::HugeSums)
      y = k.binary(Op::AddF, k.op(Op::AbsF, {y}, y.type()), k.b.constant_float(Elem::F32, kHugeTerm, shape));
    k.store(k.op(Op::DivF, {x, y}, x.type(), {kApprox}), out, {zero, zero});
  }
};

TEST(RelaxMath, ADivisorThatARowSharesIsScaledOnce) {
  Quotients q(Divisors::Shared);
  ir::Function& f = q.k.function();
  EXPECT_TRUE(passes::relax_math(f));
  EXPECT_EQ(problems_of(q.k.module), "");
  std::size_t wide = 0;
  ir::walk(f.body(), [&](const Operation& op) {
    wide += (op.op() == Op::MulF || op.op() == Op::Select) && op.result().type().num_elements() > Quotients::kRows;
  });
  EXPECT_EQ(wide, 1u) << "one multiplication for each quotient";
  EXPECT_TRUE(first(f, Op::DivF)->has_attr(AttrName::flush_to_zero));
  EXPECT_FALSE(passes::relax_math(f));
}

/// Each row of x, less its largest number (or less a number of another row), as powers of e that sum to 1.
/// `identity_of_maximum`: bits of what the maximum starts with; with one above all numbers of a row, none of them is
/// the maximum.
struct Softmax {
  Kernel k;
  explicit Softmax(bool of_row, std::uint64_t identity_of_maximum) {
    const std::int64_t shape[] = {8, 64}, strides[] = {64, 1};
    const auto view = [&] {
      const Value pointer = k.pointer(Elem::F32);
      const Type type = Type::tensor_view(Elem::F32, shape, strides);
      const std::uint32_t groups[] = {1, 0, 0};
      const Value tensor =
          k.b.create_grouped(Op::MakeTensorView, std::span(&pointer, 1), groups, std::span(&type, 1))->result();
      const std::int32_t tile[] = {8, 64};
      return k.op(Op::MakePartitionView, {tensor}, Type::partition_view(type, tile, {}, {}));
    };
    const Value in = view(), out = view(), zero = k.i32(0);
    const Value x = k.load(in, {zero, zero})->result(0);
    const Value other = of_row ? x : k.load(in, {k.i32(1), zero})->result(0);
    const auto folded = [&](Op op, Value v, std::uint64_t identity) {
      const Type row = Type::tile(Elem::F32, {8});
      Operation* reduce = k.b.create(Op::Reduce, {v}, {row},
                                     {{AttrName::dim, ir::IntAttr{Elem::I64, 1}},
                                      {AttrName::identities, ir::ArrayAttr{{ir::FloatAttr{Elem::F32, identity}}}}});
      ir::Block& body = reduce->add_region();
      const Type one = Type::tile(Elem::F32);
      const Value a = body.add_arg(one), b = body.add_arg(one);
      ir::Builder inside(body);
      inside.create(Op::Yield, {inside.create(op, {a, b}, {one})->result()}, {});
      const Value column = k.op(Op::Reshape, {reduce->result()}, Type::tile(Elem::F32, {8, 1}));
      return k.op(Op::Broadcast, {column}, x.type());
    };
    const Value less = k.binary(Op::SubF, x, folded(Op::MaxF, other, identity_of_maximum));
    const Value terms = k.op(Op::Exp, {less}, x.type());
    k.store(k.op(Op::DivF, {terms, folded(Op::AddF, terms, 0)}, x.type(), {kApprox}), out, {zero, zero});
  }
};

TEST(RelaxMath, ASumOfPowersWhoseLargestIsOneIsAFineDivisor) {
  constexpr std::uint64_t kMinusInfinity = 0xFF800000, kInfinity = 0x7F800000, kZero = 0;
  for (const auto& [of_row, identity] :
       {std::pair(true, kMinusInfinity), {false, kMinusInfinity}, {true, kZero}, {true, kInfinity}}) {
    Softmax s(of_row, identity);
    ir::Function& f = s.k.function();
    EXPECT_TRUE(passes::relax_math(f));
    EXPECT_EQ(problems_of(s.k.module), "");
    EXPECT_EQ(count(f, Op::MulF), of_row && identity == kMinusInfinity ? 0u : 2u)
        << "powers of two that scale both sides";
    EXPECT_TRUE(first(f, Op::DivF)->has_attr(AttrName::flush_to_zero));
  }
}

/// The CPU flushes where flush_to_zero says so: whatever the pass chose keeps normal quotients of any operands.
TEST(RelaxMath, QuotientsOfAnyOperandsKeepTheirBound) {
  std::mt19937 random(1);
  const auto any = [&] {
    return std::ldexp(1.0F + static_cast<float>(random() % 4096) / 4096, static_cast<int>(random() % 276) - 149) *
           (random() % 2 != 0 ? 1.0F : -1.0F);
  };
  for (const Divisors kind : {Divisors::Any, Divisors::Shared, Divisors::Limited, Divisors::Sums, Divisors::HugeSums}) {
    const bool shared = kind == Divisors::Shared;
    Quotients q(kind);
    passes::relax_math(q.k.function());
    EXPECT_EQ(problems_of(q.k.module), "");
    const auto program = cpu::Program::compile(q.k.module);
    constexpr auto n = static_cast<std::size_t>(Quotients::kRows * Quotients::kCols);
    std::vector<float> a(n), b(shared ? Quotients::kRows : n), out(n);
    for (float& x : a) x = any();
    for (float& x : b) x = any();
    const std::uint64_t args[] = {reinterpret_cast<std::uint64_t>(a.data()), reinterpret_cast<std::uint64_t>(b.data()),
                                  reinterpret_cast<std::uint64_t>(out.data())};
    program->run({}, args, {});
    int compared = 0, infinite = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const float y = divisor(kind, b[shared ? i / Quotients::kCols : i]);
      const double want = static_cast<double>(a[i]) / static_cast<double>(y);
      if (std::isinf(y)) {
        ++infinite;
        EXPECT_EQ(out[i], 0) << a[i] << " / " << y;
      }
      if (std::abs(want) < 0x1p-126 || std::abs(want) > 0x1.fffffep127 || std::abs(a[i]) < 0x1p-126F) continue;
      ++compared;
      EXPECT_NEAR(out[i], want, std::abs(want) * (std::abs(y) > 0x1p126F ? 0x1p-21 : 0x1p-22)) << a[i] << " / " << y;
    }
    EXPECT_GT(kind == Divisors::HugeSums ? infinite : compared, kind == Divisors::HugeSums ? 10 : 1000);
  }
}

}  // namespace THIS_FILE
