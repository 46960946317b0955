// Interval arithmetic over the numbers that are known, on the dataflow driver. Operations on finite bounds are computed
// in double and rounded to the element type, which keeps their order; with infinities the result may be anything.
#include "tessera/analysis/known_floats.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/dataflow.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/values.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::analysis {

using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Value;

bool KnownFloat::finite() const { return !nan && (low > high || (std::isfinite(low) && std::isfinite(high))); }

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kSmallestNormal = 0x1p-126;  ///< of f32: smaller divisors may be read as zero
constexpr double kExpMargin = 1.01;           ///< for exponentials that a device computes less exactly
constexpr KnownFloat kAnything{-kInf, kInf, true};

KnownFloat exactly(double x) { return std::isnan(x) ? KnownFloat{kInf, -kInf, true} : KnownFloat{x, x}; }

KnownFloat either(const KnownFloat& a, const KnownFloat& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.nan || b.nan};
}

KnownFloat rounded(Elem e, KnownFloat x) {
  if (x.low > x.high) return x;
  return {ir::to_double(e, ir::from_double(e, x.low)), ir::to_double(e, ir::from_double(e, x.high)), x.nan};
}

KnownFloat known_of_constant(const Operation& op) {
  const auto& dense = *op.attr(AttrName::value)->as<ir::DenseAttr>();
  const Elem e = dense.type.elem();
  const auto width = static_cast<std::size_t>(ir::info(e).bytes);
  KnownFloat all;
  for (std::size_t at = 0; at + width <= dense.bytes.size(); at += width) {
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < width; ++k) bits |= std::to_integer<std::uint64_t>(dense.bytes[at + k]) << (8 * k);
    all = either(all, exactly(ir::to_double(e, bits)));
  }
  return all;
}

/// An integer that becomes floating point: all that its type can hold, but for splats and counts.
KnownFloat of_integer(const Operation& conversion) {
  const bool is_signed =
      conversion.enum_attr<ir::Signedness>(AttrName::signedness, ir::Signedness::Signed) == ir::Signedness::Signed;
  const Value v = conversion.operand(0);
  const int bits = ir::info(v.type().elem()).bits;
  const auto constant = constant_int(v);
  if (constant && (is_signed || *constant >= 0)) return exactly(static_cast<double>(*constant));
  if (v.def() != nullptr && v.def()->op() == Op::Iota) return {0, static_cast<double>(v.type().num_elements() - 1)};
  return is_signed ? KnownFloat{-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1}
                   : KnownFloat{0, std::ldexp(1.0, bits) - 1};
}

KnownFloat product(const KnownFloat& a, const KnownFloat& b) {
  const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return {low, high};
}
KnownFloat sum(const KnownFloat& a, const KnownFloat& b) { return {a.low + b.low, a.high + b.high}; }

/// The larger (or smaller) of two. A NaN loses, or wins with `propagate_nan`. Of operands that are not known only an
/// infinity or a NaN decides the result, and those are in the range of what is known.
KnownFloat extreme(const Operation& op, const KnownFloat& a, const KnownFloat& b) {
  if (!a.any() || !b.any()) return either(a, b);
  const bool propagates = op.has_attr(AttrName::propagate_nan);
  KnownFloat r = op.op() == Op::MaxF ? KnownFloat{std::max(a.low, b.low), std::max(a.high, b.high)}
                                     : KnownFloat{std::min(a.low, b.low), std::min(a.high, b.high)};
  r.nan = propagates ? a.nan || b.nan : a.nan && b.nan;
  if (a.nan && !propagates) r = either(r, {b.low, b.high});
  if (b.nan && !propagates) r = either(r, {a.low, a.high});
  return r;
}

/// Of operations whose operands are all known and finite.
KnownFloat computed(const Operation& op, const std::vector<KnownFloat>& x) {
  switch (op.op()) {
    case Op::AddF: return sum(x[0], x[1]);
    case Op::SubF: return {x[0].low - x[1].high, x[0].high - x[1].low};
    case Op::MulF: return product(x[0], x[1]);
    case Op::Fma: return sum(product(x[0], x[1]), x[2]);
    case Op::MmaF: {
      const auto k = static_cast<double>(op.operand(0).type().shape().back());
      const KnownFloat one = product(x[0], x[1]);
      return sum({k * one.low, k * one.high}, x[2]);
    }
    case Op::DivF:
      if (x[1].low < kSmallestNormal && x[1].high > -kSmallestNormal) return kAnything;
      return product(x[0], {1 / x[1].high, 1 / x[1].low});
    case Op::Sqrt: return x[0].low < 0 ? kAnything : KnownFloat{std::sqrt(x[0].low), std::sqrt(x[0].high)};
    case Op::Exp: return {std::exp(x[0].low) / kExpMargin, std::exp(x[0].high) * kExpMargin};
    case Op::Exp2: return {std::exp2(x[0].low) / kExpMargin, std::exp2(x[0].high) * kExpMargin};
    case Op::Sin:
    case Op::Cos:
    case Op::TanH: return {-1, 1};
    default: return kAnything;
  }
}

/// What values are compared with. Where x == c holds, x is c for the assembler.
using Compared = std::unordered_map<const ir::ValueImpl*, KnownFloat>;

/// Comparisons with constants that may become x == c: those with infinity too (x >= infinity).
Compared comparisons_in(const ir::Function& f) {
  Compared compared;
  ir::walk(f.body(), [&](const Operation& op) {
    if (op.op() != Op::CmpF) return;
    const auto predicate = op.enum_attr<ir::ComparisonPredicate>(AttrName::comparison_predicate);
    const bool equality = predicate == ir::ComparisonPredicate::Equal || predicate == ir::ComparisonPredicate::NotEqual;
    for (std::size_t side = 0; side < 2; ++side) {
      const Operation* other = behind_shapes(op.operand(1 - side)).def();
      if (other == nullptr || other->op() != Op::Constant) continue;
      const KnownFloat c = known_of_constant(*other);
      KnownFloat& all = compared[behind_shapes(op.operand(side)).impl()];
      if (equality || !c.finite()) all = either(all, c);
    }
  });
  return compared;
}

KnownFloat compared_with(const Compared& compared, Value v) {
  const auto it = compared.find(behind_shapes(v).impl());
  return it != compared.end() ? it->second : KnownFloat{};
}

class KnownFloatAnalysis final : public Dataflow<KnownFloat> {
 public:
  explicit KnownFloatAnalysis(const Compared& compared) : Dataflow(false), compared_(compared) {}

 private:
  static constexpr int kRounds = 4;

  bool follows(ir::Type t) const override { return t.is_tile() && t.is_float(); }
  KnownFloat unknown(ir::Type) const override { return kAnything; }
  KnownFloat join(const KnownFloat& a, const KnownFloat& b) const override { return either(a, b); }
  KnownFloat widen(const KnownFloat& before, const KnownFloat& after, int round) const override {
    const KnownFloat both = either(before, after);
    return both == before || round < kRounds ? both : kAnything;
  }
  std::optional<KnownFloat> argument(Value) override { return KnownFloat{}; }
  KnownFloat induction(const Operation&) override { return kAnything; }
  std::optional<KnownFloat> transfer(const Operation&, std::size_t result) override;
  std::optional<KnownFloat> reduction(const Operation&, std::size_t result) override;

  KnownFloat known(Value v) { return either(fact(v), compared_with(compared_, v)); }
  KnownFloat of_access(const Operation&);
  KnownFloat of_arithmetic(const Operation&);

  const Compared& compared_;
};

/// What a load gives outside of the tensor, or where its mask is false.
KnownFloat KnownFloatAnalysis::of_access(const Operation& op) {
  const Access access = *access_of(op);
  if (!access.loads()) return {};
  if (access.padding) return known(access.padding);
  if (!access.view || !access.view.type().padding()) return {};
  const std::vector<bool> inside = axes_in_bounds(op);
  const bool padded = inside.empty() || std::ranges::find(inside, false) != inside.end();
  return padded ? exactly(ir::padding_number(*access.view.type().padding())) : KnownFloat{};
}

/// A result is known where all operands are. NaN makes every result NaN.
KnownFloat KnownFloatAnalysis::of_arithmetic(const Operation& op) {
  std::vector<KnownFloat> x;
  for (const ir::OpOperand& use : op.operands()) x.push_back(follows(use.value.type()) ? known(use.value) : kAnything);
  if (!std::ranges::all_of(x, &KnownFloat::any)) {
    KnownFloat r;
    r.nan = std::ranges::any_of(x, [](const KnownFloat& k) { return k.nan; });
    return r;
  }
  return std::ranges::all_of(x, &KnownFloat::finite) ? computed(op, x) : kAnything;
}

std::optional<KnownFloat> KnownFloatAnalysis::transfer(const Operation& op, std::size_t result) {
  if (is_access(op)) return of_access(op);
  const Elem elem = op.result(result).type().elem();
  const auto operand = [&](std::size_t i) { return known(op.operand(i)); };
  switch (op.op()) {
    case Op::Constant: return known_of_constant(op);
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Permute:
    case Op::Extract:
    case Op::Assume: return operand(0);
    case Op::Cat:
    case Op::Insert: return either(operand(0), operand(1));
    case Op::Select: return either(operand(1), operand(2));
    case Op::IToF: return rounded(elem, of_integer(op));
    case Op::FToF: return rounded(elem, operand(0));
    case Op::NegF: return KnownFloat{-operand(0).high, -operand(0).low, operand(0).nan};
    case Op::AbsF: {
      const KnownFloat x = operand(0);
      if (x.low > x.high) return x;
      return KnownFloat{std::max({0.0, x.low, -x.high}), std::max(std::abs(x.low), std::abs(x.high)), x.nan};
    }
    case Op::Floor: return KnownFloat{std::floor(operand(0).low), std::floor(operand(0).high), operand(0).nan};
    case Op::Ceil: return KnownFloat{std::ceil(operand(0).low), std::ceil(operand(0).high), operand(0).nan};
    case Op::MaxF:
    case Op::MinF: return extreme(op, operand(0), operand(1));
    case Op::Bitcast:
    case Op::Unpack: return std::nullopt;
    default: return rounded(elem, of_arithmetic(op));
  }
}

std::optional<KnownFloat> KnownFloatAnalysis::reduction(const Operation& op, std::size_t result) {
  KnownFloat x;
  for (const ir::OpOperand& use : op.operands())
    x = either(x, follows(use.value.type()) ? known(use.value) : KnownFloat{});
  if (!x.any()) return x;
  const Operation* step = single_combiner(op);
  if (step == nullptr) return kAnything;
  if (step->op() == Op::MaxF || step->op() == Op::MinF) return x;
  if (step->op() != Op::AddF || !x.finite()) return kAnything;
  const auto n =
      static_cast<double>(op.operand(0).type().shape()[static_cast<std::size_t>(op.int_attr(AttrName::dim))]);
  // Of a scan the results are sums of 1 to n elements.
  return rounded(op.result(result).type().elem(), {std::min(x.low, n * x.low), std::max(x.high, n * x.high)});
}

}  // namespace

KnownFloats KnownFloats::analyze(const ir::Function& f) {
  KnownFloats known;
  known.compared_ = comparisons_in(f);
  KnownFloatAnalysis analysis(known.compared_);
  analysis.run(f);
  known.facts_ = std::move(analysis).facts();
  return known;
}

KnownFloat KnownFloats::of(Value v) const {
  const auto it = facts_.find(v.impl());
  return it != facts_.end() ? either(it->second, compared_with(compared_, v)) : kAnything;
}

}  // namespace tessera::analysis
