// Elementary functions: error in units of the last place against the C library in double, over random bits, the
// function's interesting range and special values; the same bits on every instruction set. The bounds are those of
// docs/semantics.md.
#include <cfloat>
#include <cstdio>
#include <tuple>

#include "prims_support.hpp"

namespace tessera::cpu::prims {
namespace {

using ir::Elem;
using ir::ElementOp;
using ir::Op;

struct Function {
  Op op;
  double (*reference)(double);
  double low, high;  ///< the range that random numbers are drawn from, besides random bits
  double bound;      ///< units of the last place of f32
};
double rsqrt(double x) { return 1.0 / std::sqrt(x); }
const Function kFunctions[] = {
    {Op::Exp, std::exp, -104, 89, 1.0},   {Op::Exp2, std::exp2, -150, 128, 1.0}, {Op::Log, std::log, 0, 4, 1.0},
    {Op::Log2, std::log2, 0, 4, 1.0},     {Op::Sin, std::sin, -100, 100, 0.51},  {Op::Cos, std::cos, -100, 100, 0.51},
    {Op::Tan, std::tan, -100, 100, 0.51}, {Op::SinH, std::sinh, -90, 90, 0.51},  {Op::CosH, std::cosh, -90, 90, 0.51},
    {Op::TanH, std::tanh, -10, 10, 1.5},  {Op::Rsqrt, rsqrt, 0, 1000, 0.51},
};

/// |found - expected| in units of the last place of a format with `mantissa` bits and smallest normal exponent
/// `lowest`.
double ulps(double expected, double found, int mantissa, int lowest, double largest) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found) ? 0 : INFINITY;
  if (expected == found) return expected == 0 && std::signbit(expected) != std::signbit(found) ? INFINITY : 0;
  if (std::isinf(expected)) return INFINITY;
  if (std::isinf(found)) {  // overflow: allowed from half a unit above the largest number
    const double unit = std::ldexp(1.0, std::ilogb(largest) - mantissa);
    if (std::signbit(expected) != std::signbit(found)) return INFINITY;
    return std::fabs(expected) >= largest + unit / 2 ? 0 : (largest + unit - std::fabs(expected)) / unit;
  }
  const int exponent = expected == 0 ? lowest : std::max(std::ilogb(expected), lowest);
  return std::fabs(found - expected) / std::ldexp(1.0, exponent - mantissa);
}
double ulps(Elem e, double expected, std::uint64_t bits) {
  const double found = ir::to_double(e, bits);
  if (e == Elem::F16) return ulps(expected, found, 10, -14, 65504);
  if (e == Elem::BF16) return ulps(expected, found, 7, -126, 0x1.FEp127);
  return ulps(expected, found, 23, -126, FLT_MAX);
}

/// Runs on all instruction sets, expects equal bits, returns the result.
Tile run_everywhere(const ElementOp& op, const std::vector<Tile>& in, std::size_t n) {
  std::vector<Operand> views;
  for (const Tile& t : in) views.push_back({t.data.data(), static_cast<std::int64_t>(n) * t.bytes, false});
  Tile first(op.result, n);
  bool have = false;
  for (const Isa isa : isas()) {
    Tile out(op.result, n);
    elementwise(op, isa)(out.data.data(), views.data(), 1, static_cast<std::int64_t>(n));
    for (std::size_t k = 0; have && k < n; ++k)
      EXPECT_TRUE(same(op.result, first.get(k), out.get(k)))
          << describe(op) << ": " << text(isa) << " differs from " << text(isas().front()) << " for " << in[0].get(k);
    if (!have) first = out;
    have = true;
  }
  return first;
}

double worst(const Function& f, const Tile& in, const Tile& out, Elem e, std::size_t n, double& at) {
  double most = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const double x = ir::to_double(e, in.get(k)), error = ulps(e, f.reference(x), out.get(k));
    if (error > most) at = x;
    most = std::max(most, error);
  }
  return most;
}

TEST(Elementary, SinglePrecisionIsWithinTheDocumentedError) {
  const std::size_t n = 400000;
  for (const Function& f : kFunctions) {
    RandomElements random(17);
    std::mt19937_64 uniform(23);
    std::vector<Tile> in(1, Tile(Elem::F32, n));
    for (std::size_t k = 0; k < n; ++k) {
      const double x = f.low + (f.high - f.low) * static_cast<double>(uniform()) * 0x1p-64;
      in[0].set(k, k % 2 == 0 ? ir::from_double(Elem::F32, x) : random(Elem::F32));
    }
    const Tile out = run_everywhere({.op = f.op, .source = Elem::F32, .result = Elem::F32, .arity = 1}, in, n);
    double at = 0;
    const double most = worst(f, in[0], out, Elem::F32, n, at);
    std::printf("%-6s f32: %.3f ulp\n", std::string(ir::info(f.op).mnemonic).c_str(), most);
    EXPECT_LE(most, f.bound) << ir::info(f.op).mnemonic << " at " << at;
  }
}

TEST(Elementary, EveryHalfIsRoundedAlmostCorrectly) {
  const std::size_t n = 65536;
  for (const Elem e : {Elem::F16, Elem::BF16})
    for (const Function& f : kFunctions) {
      std::vector<Tile> in(1, Tile(e, n));
      for (std::size_t k = 0; k < n; ++k) in[0].set(k, k);
      const Tile out = run_everywhere({.op = f.op, .source = e, .result = e, .arity = 1}, in, n);
      double at = 0;
      EXPECT_LE(worst(f, in[0], out, e, n, at), 0.501)
          << ir::info(f.op).mnemonic << " " << ir::info(e).text << " at " << at;
    }
}

TEST(Elementary, DoublePrecisionIsTheLibrarys) {
  const std::size_t n = 20000;
  for (const Function& f : kFunctions) {
    RandomElements random(29);
    std::vector<Tile> in(1, Tile(Elem::F64, n));
    for (std::size_t k = 0; k < n; ++k) in[0].set(k, random(Elem::F64));
    const ElementOp op{.op = f.op, .source = Elem::F64, .result = Elem::F64, .arity = 1};
    const Tile out = run_everywhere(op, in, n);
    for (std::size_t k = 0; k < n; ++k) {
      const std::uint64_t x = in[0].get(k);
      ASSERT_TRUE(same(Elem::F64, ir::evaluate_element(op, std::span(&x, 1)), out.get(k))) << ir::info(f.op).mnemonic;
    }
  }
}

TEST(Elementary, PowersAndArcTangents) {
  const std::size_t n = 400000;
  for (const Op op : {Op::Pow, Op::Atan2}) {
    RandomElements random(31);
    std::mt19937_64 uniform(37);
    std::vector<Tile> in(2, Tile(Elem::F32, n));
    for (std::size_t k = 0; k < n; ++k)
      for (int i = 0; i < 2; ++i) {
        const double u = static_cast<double>(uniform()) * 0x1p-64, x = i == 0 ? 4 * u : 100 * u - 50;
        in[static_cast<std::size_t>(i)].set(k, k % 2 == 0 ? ir::from_double(Elem::F32, x) : random(Elem::F32));
      }
    const Tile out = run_everywhere({.op = op, .source = Elem::F32, .result = Elem::F32, .arity = 2}, in, n);
    double most = 0;
    for (std::size_t k = 0; k < n; ++k) {
      const double x = ir::to_double(Elem::F32, in[0].get(k)), y = ir::to_double(Elem::F32, in[1].get(k));
      const double error = ulps(Elem::F32, op == Op::Pow ? std::pow(x, y) : std::atan2(x, y), out.get(k));
      ASSERT_LE(error, 0.51) << ir::info(op).mnemonic << "(" << x << ", " << y << ") found "
                             << ir::to_double(Elem::F32, out.get(k));
      most = std::max(most, error);
    }
    std::printf("%-6s f32: %.3f ulp\n", std::string(ir::info(op).mnemonic).c_str(), most);
  }
}

TEST(Elementary, FlushToZeroFlushesBothEnds) {
  for (const auto& [op, x, want] :
       {std::tuple{Op::Exp2, -130.0, 0.0}, {Op::Exp2, 1e-40, 1.0}, {Op::Rsqrt, 1e-40, INFINITY}})
    for (const Isa isa : isas()) {
      Tile in(Elem::F32, 1), out(Elem::F32, 1);
      in.set(0, ir::from_double(Elem::F32, x));
      const Operand view{in.data.data(), 4, false};
      elementwise(ElementOp{.op = op, .source = Elem::F32, .result = Elem::F32, .flush_to_zero = true, .arity = 1},
                  isa)(out.data.data(), &view, 1, 1);
      EXPECT_EQ(want, ir::to_double(Elem::F32, out.get(0))) << ir::info(op).mnemonic;
    }
}

}  // namespace
}  // namespace tessera::cpu::prims
