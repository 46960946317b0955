// Reductions and scans along any axis: exact for operations without rounding, within the rounding error for sums and
// products, the same on every instruction set; identities, in place, reverse.
#include <limits>

#include "prims_support.hpp"

namespace tessera::cpu::prims {
namespace {

using ir::Elem;
using ir::ElementOp;
using ir::Op;

struct Extent {
  std::int64_t outer, n, inner;
};
constexpr Extent kExtents[] = {{1, 1, 1},  {3, 2, 1},   {2, 63, 1},  {2, 64, 1}, {5, 65, 1},  {1, 1000, 1},
                               {4, 16, 8}, {1, 128, 1}, {2, 3, 300}, {7, 5, 33}, {1, 512, 16}};

ElementOp binary(Op op, Elem e, bool is_signed = true, bool nan = false) {
  return {.op = op, .source = e, .result = e, .is_signed = is_signed, .propagate_nan = nan, .arity = 2};
}
std::size_t at(const Extent& x, std::int64_t o, std::int64_t k, std::int64_t i) {
  return static_cast<std::size_t>((o * x.n + k) * x.inner + i);
}
std::uint64_t combine(const ElementOp& op, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t both[] = {a, b};
  return ir::evaluate_element(op, both);
}

/// Operations without rounding: the result does not depend on the association.
void check_exact(const ElementOp& op) {
  for (const Extent& x : kExtents) {
    RandomElements random(41);
    const std::size_t size = static_cast<std::size_t>(x.outer * x.n * x.inner),
                      results = static_cast<std::size_t>(x.outer * x.inner);
    Tile src(op.source, size), initial(op.source, results);
    for (std::size_t k = 0; k < size; ++k) src.set(k, random(op.source));
    for (std::size_t k = 0; k < results; ++k) initial.set(k, random(op.source));
    for (const Isa isa : isas()) {
      const Reduce f = reduce(op, isa);
      ASSERT_TRUE(f) << describe(op);
      Tile dst = initial;
      f(dst.data.data(), src.data.data(), x.outer, x.n, x.inner);
      for (std::int64_t o = 0; o < x.outer; ++o)
        for (std::int64_t i = 0; i < x.inner; ++i) {
          std::uint64_t want = initial.get(static_cast<std::size_t>(o * x.inner + i));
          for (std::int64_t k = 0; k < x.n; ++k) want = combine(op, want, src.get(at(x, o, k, i)));
          ASSERT_TRUE(same(op.result, want, dst.get(static_cast<std::size_t>(o * x.inner + i))))
              << text(isa) << " " << describe(op) << " of " << x.outer << " " << x.n << " " << x.inner;
        }
    }
  }
}

TEST(Reduce, ExactOperationsInAnyOrder) {
  for (const Elem e : {Elem::I1, Elem::I8, Elem::I16, Elem::I32, Elem::I64})
    for (const Op op : {Op::AddI, Op::MulI, Op::AndI, Op::OrI, Op::XOrI, Op::MaxI, Op::MinI})
      for (const bool is_signed : {false, true}) check_exact(binary(op, e, is_signed));
  for (const Elem e : {Elem::F16, Elem::BF16, Elem::F32, Elem::F64})
    for (const Op op : {Op::MaxF, Op::MinF})
      for (const bool nan : {false, true}) check_exact(binary(op, e, true, nan));
}

// Rows whose extremum is a zero, an infinity or NaN: where one comparison per element does not determine the result.
TEST(Reduce, ExtremaOfZerosNansAndInfinities) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<double>> palettes = {
      {0.0, -0.0},       {-0.0},      {0.0},       {nan},      {nan, -inf},
      {nan, inf},        {inf, -inf}, {nan, -0.0}, {-inf},     {inf},
      {-0.0, -5.0, nan}, {0.0, 5.0},  {nan, 3.0},  {-2.0, -1}, {1, 2, nan}};
  std::mt19937 random(45);
  for (const Elem e : {Elem::F16, Elem::BF16, Elem::F32, Elem::F64})
    for (const auto& palette : palettes)
      for (const std::int64_t n : {64, 65, 200}) {
        Tile src(e, static_cast<std::size_t>(n)), initial(e, 1);
        const auto pick = [&] { return ir::from_double(e, palette[random() % palette.size()]); };
        for (std::int64_t k = 0; k < n; ++k) src.set(static_cast<std::size_t>(k), pick());
        initial.set(0, pick());
        for (const Op op : {Op::MaxF, Op::MinF})
          for (const bool propagate : {false, true}) {
            const ElementOp element = binary(op, e, true, propagate);
            std::uint64_t want = initial.get(0);
            for (std::int64_t k = 0; k < n; ++k) want = combine(element, want, src.get(static_cast<std::size_t>(k)));
            for (const Isa isa : isas()) {
              Tile dst = initial;
              reduce(element, isa)(dst.data.data(), src.data.data(), 1, n, 1);
              ASSERT_TRUE(same(e, want, dst.get(0)))
                  << text(isa) << " " << describe(element) << " of " << n << ", first " << palette[0];
            }
          }
      }
}

TEST(Reduce, SumsAreCloseAndEqualOnEveryInstructionSet) {
  for (const Elem e : {Elem::F16, Elem::BF16, Elem::F32, Elem::F64})
    for (const Extent& x : kExtents) {
      std::mt19937_64 random(43);
      const std::size_t size = static_cast<std::size_t>(x.outer * x.n * x.inner),
                        results = static_cast<std::size_t>(x.outer * x.inner);
      Tile src(e, size), first(e, results);
      for (std::size_t k = 0; k < size; ++k)
        src.set(k, ir::from_double(e, static_cast<double>(random()) * 0x1p-63 - 1.0));
      const double unit = e == Elem::F16 ? 0x1p-11 : e == Elem::BF16 ? 0x1p-8 : e == Elem::F32 ? 0x1p-24 : 0x1p-53;
      for (const Isa isa : isas()) {
        Tile dst(e, results);
        reduce(binary(Op::AddF, e), isa)(dst.data.data(), src.data.data(), x.outer, x.n, x.inner);
        for (std::int64_t o = 0; o < x.outer; ++o)
          for (std::int64_t i = 0; i < x.inner; ++i) {
            double want = 0, magnitude = 0;
            for (std::int64_t k = 0; k < x.n; ++k) {
              const double v = ir::to_double(e, src.get(at(x, o, k, i)));
              want += v;
              magnitude += std::fabs(v);
            }
            const std::size_t r = static_cast<std::size_t>(o * x.inner + i);
            ASSERT_LE(std::fabs(ir::to_double(e, dst.get(r)) - want), unit * static_cast<double>(x.n + 1) * magnitude)
                << text(isa) << " " << ir::info(e).text << " " << x.n << " " << x.inner;
            if (isa != Isa::Baseline) { ASSERT_EQ(first.get(r), dst.get(r)) << text(isa); }
          }
        first = dst;
      }
    }
}

// Each step is rounded to the element: 2048 + 1 = 2048 in f16, so a serial sum along a middle axis stays there.
TEST(Reduce, EveryStepIsRoundedToTheElement) {
  for (const Isa isa : isas()) {
    Tile src(Elem::F16, 12), dst(Elem::F16, 3);
    for (std::size_t k = 0; k < 12; ++k) src.set(k, ir::from_double(Elem::F16, 1.0));
    for (std::size_t k = 0; k < 3; ++k) dst.set(k, ir::from_double(Elem::F16, 2048.0));
    reduce(binary(Op::AddF, Elem::F16), isa)(dst.data.data(), src.data.data(), 1, 4, 3);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(2048.0, ir::to_double(Elem::F16, dst.get(k)));
  }
}

void check_scan(const ElementOp& op, bool reverse, bool in_place) {
  for (const Extent& x : kExtents) {
    RandomElements random(47);
    const std::size_t size = static_cast<std::size_t>(x.outer * x.n * x.inner);
    Tile src(op.source, size), identity(op.source, 1);
    for (std::size_t k = 0; k < size; ++k) src.set(k, random(op.source));
    identity.set(0, random(op.source));
    for (const Isa isa : isas()) {
      Tile dst = src;
      scan(op, isa)(dst.data.data(), in_place ? dst.data.data() : src.data.data(), identity.data.data(), x.outer, x.n,
                    x.inner, reverse);
      for (std::int64_t o = 0; o < x.outer; ++o)
        for (std::int64_t i = 0; i < x.inner; ++i) {
          std::uint64_t want = identity.get(0);
          for (std::int64_t k = 0; k < x.n; ++k) {
            const std::size_t p = at(x, o, reverse ? x.n - 1 - k : k, i);
            want = combine(op, want, src.get(p));
            ASSERT_TRUE(same(op.result, want, dst.get(p)))
                << text(isa) << " " << describe(op) << " " << x.n << " " << x.inner;
          }
        }
    }
  }
}

TEST(Scan, IsLeftToRightInEitherDirection) {
  for (const bool reverse : {false, true})
    for (const bool in_place : {false, true}) {
      for (const Elem e : {Elem::F16, Elem::BF16, Elem::F32, Elem::F64})
        for (const Op op : {Op::AddF, Op::MulF, Op::MaxF}) check_scan(binary(op, e), reverse, in_place);
      for (const Elem e : {Elem::I1, Elem::I8, Elem::I32, Elem::I64})
        for (const Op op : {Op::AddI, Op::MinI, Op::XOrI}) check_scan(binary(op, e), reverse, in_place);
    }
}

TEST(Reduce, OtherOperationsHaveNoPrimitive) {
  EXPECT_FALSE(reduce(binary(Op::SubF, Elem::F32), Isa::Baseline));
  EXPECT_FALSE(scan(binary(Op::DivI, Elem::I32), Isa::Baseline));
  ElementOp directed = binary(Op::AddF, Elem::F32);
  directed.rounding = ir::Rounding::PositiveInf;
  EXPECT_FALSE(reduce(directed, Isa::Baseline));
}

}  // namespace
}  // namespace tessera::cpu::prims
