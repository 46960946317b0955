// Every elementwise primitive of every instruction set that this machine has, against ir/semantics: bit for bit where
// the meaning is exact, over random and special elements, all element types and attributes; and the shapes of operands
// (rows, columns, splats, gaps, in place) against the plain loop.
#include "base/rounds.hpp"
#include "prims_support.hpp"

namespace tessera::cpu::prims {
namespace {

using ir::ComparisonPredicate;
using ir::Elem;
using ir::ElementOp;
using ir::Op;
using ir::Rounding;

constexpr Elem kIntegers[] = {Elem::I1, Elem::I8, Elem::I16, Elem::I32, Elem::I64};
constexpr Elem kFloats[] = {Elem::F16, Elem::BF16, Elem::F32, Elem::F64};
constexpr Elem kAllFloats[] = {Elem::F16,      Elem::BF16,   Elem::F32,       Elem::TF32,     Elem::F64,
                               Elem::F8E4M3FN, Elem::F8E5M2, Elem::F8E8M0FNU, Elem::F4E2M1FN, Elem::F8E5M3FNU};
constexpr ComparisonPredicate kPredicates[] = {ComparisonPredicate::Equal,   ComparisonPredicate::NotEqual,
                                               ComparisonPredicate::Less,    ComparisonPredicate::LessEqual,
                                               ComparisonPredicate::Greater, ComparisonPredicate::GreaterEqual};

/// The operation on n contiguous random elements, by every instruction set, against the reference.
void check(const ElementOp& op, std::size_t n = 700) {
  RandomElements random(n);
  std::vector<Tile> operands;
  std::vector<Operand> views;
  for (int i = 0; i < op.arity; ++i) {
    const Elem e = operand_element(op, i);
    operands.emplace_back(e, n);
    for (std::size_t k = 0; k < n; ++k) operands.back().set(k, random(e));
  }
  for (const Tile& t : operands) views.push_back({t.data.data(), static_cast<std::int64_t>(n) * t.bytes, false});
  std::vector<std::uint64_t> want(n);
  for (std::size_t k = 0; k < n; ++k) {
    std::uint64_t bits[3] = {};
    for (std::size_t i = 0; i < operands.size(); ++i) bits[i] = operands[i].get(k);
    want[k] = ir::evaluate_element(op, {bits, op.arity});
  }
  for (const Isa isa : isas()) {
    const Elementwise f = elementwise(op, isa);
    ASSERT_TRUE(f) << describe(op);
    Tile out(op.result, n);
    f(out.data.data(), views.data(), 1, static_cast<std::int64_t>(n));
    for (std::size_t k = 0; k < n; ++k) {
      if (same(op.result, want[k], out.get(k))) continue;
      FAIL() << text(isa) << ": " << describe(op) << std::hex << " of " << operands[0].get(k) << " "
             << (op.arity > 1 ? operands[1].get(k) : 0) << " " << (op.arity > 2 ? operands[2].get(k) : 0)
             << ": expected " << want[k] << ", found " << out.get(k);
    }
  }
}

TEST(Elementwise, IntegerArithmetic) {
  for (const Elem e : kIntegers)
    for (const bool is_signed : {false, true}) {
      for (const Op op : {Op::AddI, Op::SubI, Op::MulI, Op::MulhiI, Op::AndI, Op::OrI, Op::XOrI, Op::MaxI, Op::MinI,
                          Op::ShLI, Op::ShRI, Op::RemI})
        check({.op = op, .source = e, .result = e, .is_signed = is_signed, .arity = 2});
      for (const Op op : {Op::AbsI, Op::NegI}) check({.op = op, .source = e, .result = e, .arity = 1});
      for (const Rounding r : {Rounding::Zero, Rounding::PositiveInf, Rounding::NegativeInf})
        if (is_signed || r != Rounding::NegativeInf)
          check({.op = Op::DivI, .source = e, .result = e, .rounding = r, .is_signed = is_signed, .arity = 2}, 5000);
      for (const auto p : kPredicates)
        check({.op = Op::CmpI, .source = e, .result = Elem::I1, .predicate = p, .is_signed = is_signed, .arity = 2});
    }
}

TEST(Elementwise, FloatArithmetic) {
  for (const Elem e : kFloats)
    for (const bool ftz : {false, true}) {
      if (ftz && e != Elem::F32) continue;
      for (const Rounding r : {Rounding::NearestEven, Rounding::Zero, Rounding::NegativeInf, Rounding::PositiveInf}) {
        for (const Op op : {Op::AddF, Op::SubF, Op::MulF, Op::DivF})
          check({.op = op, .source = e, .result = e, .rounding = r, .flush_to_zero = ftz, .arity = 2});
        check({.op = Op::Sqrt, .source = e, .result = e, .rounding = r, .flush_to_zero = ftz, .arity = 1});
        check({.op = Op::Fma, .source = e, .result = e, .rounding = r, .flush_to_zero = ftz, .arity = 3}, 5000);
      }
      for (const Op op : {Op::MaxF, Op::MinF})
        for (const bool nan : {false, true})
          check({.op = op, .source = e, .result = e, .flush_to_zero = ftz, .propagate_nan = nan, .arity = 2});
    }
}

TEST(Elementwise, FloatBitsRoundingAndComparisons) {
  for (const Elem e : kFloats) {
    for (const Op op : {Op::AbsF, Op::NegF, Op::Ceil, Op::Floor})
      check({.op = op, .source = e, .result = e, .arity = 1});
    check({.op = Op::RemF, .source = e, .result = e, .arity = 2});
    for (const auto p : kPredicates)
      for (const bool ordered : {false, true})
        check({.op = Op::CmpF, .source = e, .result = Elem::I1, .predicate = p, .ordered = ordered, .arity = 2});
    check({.op = Op::FPowI, .source = e, .result = e, .exponent = Elem::I32, .arity = 2});
  }
}

TEST(Elementwise, Conversions) {
  for (const Elem from : kAllFloats) {
    for (const Elem to : kAllFloats)
      if (from != to) {
        const Rounding r = to == Elem::F8E8M0FNU ? Rounding::PositiveInf : Rounding::NearestEven;
        check({.op = Op::FToF, .source = from, .result = to, .rounding = r, .arity = 1}, 5000);
      }
    for (const Elem to : kIntegers)
      for (const bool is_signed : {false, true})
        check({.op = Op::FToI, .source = from, .result = to, .is_signed = is_signed, .arity = 1}, 2000);
  }
  for (const Elem from : kIntegers)
    for (const bool is_signed : {false, true}) {
      for (const Elem to : kAllFloats)
        if (to != Elem::F8E8M0FNU)
          check({.op = Op::IToF, .source = from, .result = to, .is_signed = is_signed, .arity = 1}, 2000);
      for (const Elem to : {Elem::I8, Elem::I16, Elem::I32, Elem::I64})
        if (ir::info(to).bits > ir::info(from).bits) {
          check({.op = Op::ExtI, .source = from, .result = to, .is_signed = is_signed, .arity = 1});
          check({.op = Op::TruncI, .source = to, .result = from, .arity = 1});
        }
    }
  check({.op = Op::ExtI, .source = Elem::I4, .result = Elem::I8, .is_signed = true, .arity = 1});
  check({.op = Op::TruncI, .source = Elem::I8, .result = Elem::I4, .arity = 1});
}

TEST(Elementwise, EveryPatternOfTheNarrowFormatsConverts) {
  for (const Elem from : {Elem::F16, Elem::BF16, Elem::F8E4M3FN, Elem::F8E5M2, Elem::F4E2M1FN, Elem::F8E5M3FNU}) {
    const std::size_t n = element_mask(from) + 1;
    Tile in(from, n);
    for (std::size_t k = 0; k < n; ++k) in.set(k, k);
    const Operand view{in.data.data(), 0, false};
    for (const Elem to : {Elem::F32, Elem::F8E4M3FN, Elem::BF16, Elem::F16}) {
      if (to == from) continue;
      const ElementOp op{.op = Op::FToF, .source = from, .result = to, .arity = 1};
      for (const Isa isa : isas()) {
        Tile out(to, n);
        elementwise(op, isa)(out.data.data(), &view, 1, static_cast<std::int64_t>(n));
        for (std::size_t k = 0; k < n; ++k)
          ASSERT_TRUE(same(to, ir::evaluate_element(op, std::span(&k, 1)), out.get(k)))
              << text(isa) << " " << describe(op) << " of pattern " << k << " found " << out.get(k);
      }
    }
  }
}

/// f32 around every number of a 16-bit format and around the middle between neighbours, and random bits.
TEST(Elementwise, NarrowingRoundsToNearestEvenEverywhere) {
  std::mt19937_64 random(11);
  std::vector<std::uint64_t> bits;
  for (std::uint32_t p = 0; p < 0x10000; p += static_cast<std::uint32_t>(test::one_in(15))) {
    const auto half = static_cast<std::uint32_t>(ir::from_double(Elem::F32, ir::to_double(Elem::F16, p)));
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      bits.push_back(p << 16 | low);
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x1FFFu}) bits.push_back(half + low);
    for (int i = 0; i < 4; ++i) bits.push_back(random() & 0xFFFFFFFF);
  }
  bits.resize(bits.size() - 5);  // the last vector is not whole
  const std::size_t n = bits.size();
  Tile in(Elem::F32, n);
  for (std::size_t k = 0; k < n; ++k) in.set(k, bits[k]);
  const Operand view{in.data.data(), static_cast<std::int64_t>(n) * in.bytes, false};
  for (const Elem to : {Elem::BF16, Elem::F16}) {
    const ElementOp op{.op = Op::FToF, .source = Elem::F32, .result = to, .arity = 1};
    for (const Isa isa : isas()) {
      Tile out(to, n);
      elementwise(op, isa)(out.data.data(), &view, 1, static_cast<std::int64_t>(n));
      for (std::size_t k = 0; k < n; ++k)
        ASSERT_TRUE(same(to, ir::evaluate_element(op, std::span(&bits[k], 1)), out.get(k)))
            << text(isa) << " " << describe(op) << std::hex << " of " << bits[k] << " found " << out.get(k);
    }
  }
}

/// A divisor that is one value is not divided by element by element: bit for bit, over the whole range of exponents.
TEST(Elementwise, DivisionByOneValueIsRoundedOnce) {
  const ElementOp op{.op = Op::DivF, .source = Elem::F32, .result = Elem::F32, .arity = 2};
  std::mt19937_64 random(12);
  RandomElements special(13);
  constexpr std::size_t n = 1000;
  for (std::uint64_t round = 0; round < test::rounds(600); ++round) {
    // Divisors and dividends of any exponent; in most rounds dividends near one exponent, so that none is special.
    std::uint64_t d = round % 8 == 0 ? special(Elem::F32) : random() & 0xFFFFFFFF;
    if (round % 5 == 0) d |= 0x7FFFFF;
    const std::uint64_t exponent = random() % 256;
    Tile a(Elem::F32, n), copies(Elem::F32, kUniformCopies);
    for (std::size_t k = 0; k < n; ++k) {
      const std::uint64_t e = std::min<std::uint64_t>(exponent + random() % 4, 255);
      const std::uint64_t sign = round % 3 == 0 ? random() % 2 : 0;
      a.set(k, round % 4 == 0 ? special(Elem::F32) : sign << 31 | e << 23 | (random() & 0x7FFFFF));
      if (round % 4 == 1 && k % 3 == 0) a.set(k, 0);
    }
    for (std::size_t k = 0; k < kUniformCopies; ++k) copies.set(k, d);
    const std::int64_t row = static_cast<std::int64_t>(n) * a.bytes;
    for (const Isa isa : isas())
      for (const bool uniform : {false, true}) {
        const Operand views[2] = {{a.data.data(), row, false}, {copies.data.data(), 0, !uniform, uniform}};
        Tile out(Elem::F32, n);
        elementwise(op, isa)(out.data.data(), views, 1, n);
        for (std::size_t k = 0; k < n; ++k) {
          const std::uint64_t in[2] = {a.get(k), d};
          ASSERT_TRUE(same(Elem::F32, ir::evaluate_element(op, in), out.get(k)))
              << text(isa) << std::hex << " " << in[0] << " / " << d << " found " << out.get(k);
        }
      }
  }
}

TEST(Elementwise, SelectAndPointers) {
  for (const Elem e : {Elem::I1, Elem::I8, Elem::F16, Elem::F32, Elem::F64})
    check({.op = Op::Select, .source = e, .result = e, .arity = 3});
  for (const Elem e : {Elem::I8, Elem::I16, Elem::I32, Elem::I64})
    for (const std::uint8_t bytes : {1, 2, 4, 8})
      check({.op = Op::Offset, .source = e, .result = Elem::I64, .arity = 2, .pointee_bytes = bytes});
  for (const Op op : {Op::PtrToInt, Op::IntToPtr})
    check({.op = op, .source = Elem::I64, .result = Elem::I64, .arity = 1});
}

/// Shapes of operands: full, one value, a row for all rows, a column, rows with gaps, copies of one value.
struct Shape {
  const char* name;
  bool splat;
  std::int64_t (*row_elements)(std::int64_t cols);
  bool uniform = false;
};
constexpr Shape kShapes[] = {{"full", false, [](std::int64_t cols) { return cols; }},
                             {"one value", true, [](std::int64_t) { return std::int64_t{0}; }},
                             {"row", false, [](std::int64_t) { return std::int64_t{0}; }},
                             {"column", true, [](std::int64_t) { return std::int64_t{1}; }},
                             {"gaps", false, [](std::int64_t cols) { return cols + 3; }},
                             {"copies", false, [](std::int64_t) { return std::int64_t{0}; }, true}};

template <class F>
void check_shapes(const ElementOp& op, std::int64_t rows, std::int64_t cols, F&& reference) {
  RandomElements random(5);
  const std::size_t n = static_cast<std::size_t>((rows + 1) * (cols + 3));
  Tile a(op.source, n), b(op.source, n), out(op.result, n);
  Tile copies_of_a(op.source, kUniformCopies), copies_of_b(op.source, kUniformCopies);
  for (std::size_t k = 0; k < n; ++k) {
    a.set(k, random(op.source));
    b.set(k, random(op.source));
  }
  for (std::size_t k = 0; k < kUniformCopies; ++k) {
    copies_of_a.set(k, a.get(0));
    copies_of_b.set(k, b.get(0));
  }
  const auto operand = [&](const Tile& t, const Tile& copies, const Shape& s) {
    return Operand{(s.uniform ? copies : t).data.data(), s.row_elements(cols) * t.bytes, s.splat, s.uniform};
  };
  for (const Isa isa : isas())
    for (const Shape& x : kShapes)
      for (const Shape& y : kShapes) {
        const Operand views[2] = {operand(a, copies_of_a, x), operand(b, copies_of_b, y)};
        elementwise(op, isa)(out.data.data(), views, rows, cols);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c) {
            const auto at = [&](const Tile& t, const Shape& s) {
              return t.get(static_cast<std::size_t>(r * s.row_elements(cols) + (s.splat || s.uniform ? 0 : c)));
            };
            ASSERT_TRUE(same(op.result, reference(at(a, x), at(b, y)), out.get(static_cast<std::size_t>(r * cols + c))))
                << text(isa) << " " << x.name << " with " << y.name << " at " << r << ", " << c << " of " << rows
                << " x " << cols;
          }
      }
}

TEST(Elementwise, OperandsOfEveryShape) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 7}, {5, 1}, {4, 16}, {3, 33}, {2, 600}}) {
    check_shapes({.op = Op::AddI, .source = Elem::I32, .result = Elem::I32, .arity = 2}, rows, cols,
                 [](std::uint64_t a, std::uint64_t b) { return static_cast<std::uint32_t>(a + b); });
    check_shapes({.op = Op::DivF, .source = Elem::F32, .result = Elem::F32, .arity = 2}, rows, cols,
                 [](std::uint64_t a, std::uint64_t b) {
                   const std::uint64_t operands[2] = {a, b};
                   return ir::evaluate_element({.op = Op::DivF, .source = Elem::F32, .result = Elem::F32, .arity = 2},
                                               operands);
                 });
    check_shapes({.op = Op::SubI, .source = Elem::I8, .result = Elem::I8, .arity = 2}, rows, cols,
                 [](std::uint64_t a, std::uint64_t b) { return static_cast<std::uint8_t>(a - b); });
    check_shapes({.op = Op::CmpI,
                  .source = Elem::I64,
                  .result = Elem::I1,
                  .predicate = ComparisonPredicate::Less,
                  .is_signed = false,
                  .arity = 2},
                 rows, cols, [](std::uint64_t a, std::uint64_t b) { return static_cast<std::uint64_t>(a < b); });
  }
}

TEST(Elementwise, ResultsMayOverwriteTheirSource) {
  const std::size_t n = 1000;
  for (const ElementOp op : {ElementOp{.op = Op::FToF, .source = Elem::F32, .result = Elem::F16, .arity = 1},
                             ElementOp{.op = Op::FToF, .source = Elem::F64, .result = Elem::BF16, .arity = 1},
                             ElementOp{.op = Op::TruncI, .source = Elem::I64, .result = Elem::I8, .arity = 1},
                             ElementOp{.op = Op::NegF, .source = Elem::F32, .result = Elem::F32, .arity = 1},
                             ElementOp{.op = Op::Sin, .source = Elem::F32, .result = Elem::F32, .arity = 1},
                             ElementOp{.op = Op::Exp, .source = Elem::BF16, .result = Elem::BF16, .arity = 1}})
    for (const Isa isa : isas()) {
      RandomElements random(3);
      Tile tile(op.source, n), out(op.result, n);
      for (std::size_t k = 0; k < n; ++k) tile.set(k, random(op.source));
      const Operand view{tile.data.data(), static_cast<std::int64_t>(n) * tile.bytes, false};
      elementwise(op, isa)(out.data.data(), &view, 1, static_cast<std::int64_t>(n));
      elementwise(op, isa)(tile.data.data(), &view, 1, static_cast<std::int64_t>(n));
      tile.bytes = out.bytes;
      for (std::size_t k = 0; k < n; ++k)
        ASSERT_TRUE(same(op.result, out.get(k), tile.get(k))) << describe(op) << " at " << k;
    }
}

TEST(Elementwise, WhatIsNotElementwiseHasNoPrimitive) {
  for (const Isa isa : isas()) {
    EXPECT_FALSE(elementwise(ElementOp{.op = Op::MmaF, .source = Elem::F32, .result = Elem::F32, .arity = 3}, isa));
    EXPECT_FALSE(
        elementwise(ElementOp{.op = Op::AddF, .source = Elem::F8E5M2, .result = Elem::F8E5M2, .arity = 2}, isa));
  }
}

}  // namespace
}  // namespace tessera::cpu::prims
