// Interval arithmetic over the pure operations that compute a value. Infinities and NaN may appear wherever an
// operation can produce them; the bounds are those of finite elements.
#include "tessera/analysis/float_range.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tessera/analysis/values.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::analysis {

using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr int kMaxDepth = 12;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// All that an element type can hold.
FloatRange whole(Elem e) {
  switch (e) {
    case Elem::F16: return {-65504, 65504, 0x1p-24};
    case Elem::F8E4M3FN: return {-448, 448, 0x1p-9};
    case Elem::F8E5M2: return {-57344, 57344, 0x1p-16};
    case Elem::F64: return {-kInfinity, kInfinity};
    default: return {-0x1p128, 0x1p128};
  }
}

FloatRange of_constant(const Operation& op) {
  const auto& dense = *op.attr(ir::AttrName::value)->as<ir::DenseAttr>();
  const Elem e = dense.type.elem();
  const auto width = static_cast<std::size_t>(ir::info(e).bytes);
  FloatRange r{kInfinity, -kInfinity, 0x1p128, true};
  for (std::size_t at = 0; at + width <= dense.bytes.size(); at += width) {
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < width; ++k) bits |= std::to_integer<std::uint64_t>(dense.bytes[at + k]) << (8 * k);
    const double x = ir::to_double(e, bits);
    if (!std::isfinite(x)) return whole(e);
    r.low = std::min(r.low, x);
    r.high = std::max(r.high, x);
    if (x != 0) r.least = std::min(r.least, std::abs(x));
  }
  return r;
}

/// Elements of either.
FloatRange either(const FloatRange& a, const FloatRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), std::min(a.least, b.least),
          a.always_finite && b.always_finite};
}

/// Away from zero by its bounds alone.
FloatRange bounded(double low, double high) { return {low, high, std::max({0.0, low, -high})}; }

FloatRange sum(const FloatRange& a, const FloatRange& b) { return bounded(a.low + b.low, a.high + b.high); }

FloatRange product(const FloatRange& a, const FloatRange& b, bool square) {
  if (square) {
    const double most = std::max(std::abs(a.low), std::abs(a.high));
    return {0, most * most, a.least * a.least};
  }
  const double ends[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  for (const double x : ends)
    if (std::isnan(x)) return {-kInfinity, kInfinity};  // 0 * infinity: of f64
  return {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4), a.least * b.least};
}

/// The larger (or smaller) of two. A NaN loses, and so may an infinity: only an operand that is neither bounds the
/// result.
FloatRange extreme(FloatRange a, FloatRange b, bool larger) {
  FloatRange r = either(a, b);
  if (larger) {
    if (a.always_finite) r.low = std::max(r.low, a.low);
    if (b.always_finite) r.low = std::max(r.low, b.low);
  } else {
    if (a.always_finite) r.high = std::min(r.high, a.high);
    if (b.always_finite) r.high = std::min(r.high, b.high);
  }
  r.least = std::max({r.least, r.low, -r.high});
  return r;
}

FloatRange range(Value v, int depth);

/// The axis along which `v` has, in each element, the maximum of the line of `x` that the element lies on.
std::optional<std::int64_t> axis_of_maximum(Value v, Value x) {
  std::vector<std::int64_t> shape(x.type().shape().begin(), x.type().shape().end());
  const Operation* op = v.def();
  if (op == nullptr || op->op() != Op::Broadcast || !std::ranges::equal(v.type().shape(), shape)) return std::nullopt;
  const Value column = op->operand(0);
  op = column.def();
  if (op != nullptr && op->op() == Op::Reshape) op = op->operand(0).def();  // gives the reduced axis back
  if (op == nullptr || op->op() != Op::Reduce || op->operand(0) != x) return std::nullopt;
  const Operation* step = single_combiner(*op);
  // An identity above all elements, which a kernel must not give, may be combined with them on some device.
  const auto* identity = op->attr(ir::AttrName::identities)->as<ir::ArrayAttr>()->items.at(0).as<ir::FloatAttr>();
  if (identity == nullptr) return std::nullopt;
  const double first = ir::to_double(identity->type, identity->bits);
  if (!std::isnan(first) && first != -kInfinity) return std::nullopt;
  const std::int64_t axis = op->int_attr(ir::AttrName::dim);
  shape[static_cast<std::size_t>(axis)] = 1;
  const bool is_maximum = step != nullptr && step->op() == Op::MaxF && std::ranges::equal(column.type().shape(), shape);
  return is_maximum ? std::optional(axis) : std::nullopt;
}

/// A number that at least one element of every finite row along `axis` reaches.
double reached(Value v, std::int64_t axis, int depth) {
  const Operation* op = v.def();
  if (depth > kMaxDepth || op == nullptr) return -kInfinity;
  switch (op->op()) {
    case Op::SubF: return axis_of_maximum(op->operand(1), op->operand(0)) == axis ? 0 : -kInfinity;
    case Op::MulF: {
      const FloatRange scale = range(op->operand(1), depth + 1);
      const bool one_number = scale.low == scale.high && scale.low > 0 && scale.always_finite;
      return one_number ? scale.low * reached(op->operand(0), axis, depth + 1) : -kInfinity;
    }
    case Op::Exp: return std::exp(reached(op->operand(0), axis, depth + 1));
    case Op::Exp2: return std::exp2(reached(op->operand(0), axis, depth + 1));
    default: return -kInfinity;
  }
}

FloatRange of_reduction(const Operation& op, int depth) {
  const Operation* step = single_combiner(op);
  if (step == nullptr) return whole(op.result().type().elem());
  const FloatRange x = range(op.operand(0), depth + 1);
  if (step->op() == Op::MaxF || step->op() == Op::MinF) return {x.low, x.high, x.least};
  if (step->op() != Op::AddF) return whole(op.result().type().elem());
  const auto n = static_cast<double>(op.operand(0).type().num_elements() / op.result().type().num_elements());
  // Of numbers that are not negative the sum is no less than each of them.
  const double one = x.low >= 0 ? reached(op.operand(0), op.int_attr(ir::AttrName::dim), depth + 1) : -kInfinity;
  return bounded(std::max(x.low > 0 ? x.low : n * x.low, one), x.high < 0 ? x.high : n * x.high);
}

FloatRange of_operation(const Operation& op, int depth) {
  const auto operand = [&](std::size_t i) { return range(op.operand(i), depth + 1); };
  switch (op.op()) {
    case Op::Constant: return of_constant(op);
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Permute:
    case Op::Extract:
    case Op::Assume: return operand(0);
    case Op::Select: return either(operand(1), operand(2));
    case Op::NegF: {
      const FloatRange x = operand(0);
      return {-x.high, -x.low, x.least, x.always_finite};
    }
    case Op::AbsF: {
      const FloatRange x = operand(0);
      const double low = std::max({0.0, x.low, -x.high});
      return {low, std::max(std::abs(x.low), std::abs(x.high)), std::max(low, x.least), x.always_finite};
    }
    case Op::MaxF:
    case Op::MinF:
      if (op.has_attr(ir::AttrName::propagate_nan)) return either(operand(0), operand(1));
      return extreme(operand(0), operand(1), op.op() == Op::MaxF);
    case Op::AddF: return sum(operand(0), operand(1));
    case Op::Fma: return sum(product(operand(0), operand(1), op.operand(0) == op.operand(1)), operand(2));
    case Op::SubF: {
      const FloatRange x = operand(0), y = operand(1);
      const bool below = axis_of_maximum(op.operand(1), op.operand(0)).has_value();
      return bounded(x.low - y.high, below ? 0 : x.high - y.low);
    }
    case Op::MulF: return product(operand(0), operand(1), op.operand(0) == op.operand(1));
    case Op::Sqrt: {
      const FloatRange x = operand(0);
      return {std::sqrt(std::max(0.0, x.low)), std::sqrt(std::max(0.0, x.high)),
              std::sqrt(std::max(x.least, 0x1p-149))};
    }
    case Op::Exp:
    case Op::Exp2: {  // may be too small for the type, and is then 0
      const FloatRange x = operand(0);
      return {0, op.op() == Op::Exp ? std::exp(x.high) : std::exp2(x.high)};
    }
    case Op::CosH: return {1, whole(op.result().type().elem()).high, 1};
    case Op::IToF: return {-0x1p64, 0x1p64, 1, true};
    case Op::FToF: {  // widening keeps the number; narrowing may round it to anything that the new type holds
      const auto from = op.operand(0).type().elem(), to = op.result().type().elem();
      return ir::info(from).bits < ir::info(to).bits ? operand(0) : whole(to);
    }
    case Op::Reduce: return of_reduction(op, depth);
    default: return whole(op.result().type().elem());
  }
}

FloatRange range(Value v, int depth) {
  const FloatRange type = whole(v.type().elem());
  if (depth > kMaxDepth || v.def() == nullptr || v.def()->num_results() != 1) return type;
  FloatRange r = of_operation(*v.def(), depth);
  r.low = std::max(r.low, type.low);
  r.high = std::min(r.high, type.high);
  r.least = std::max(r.least, type.least);
  return r;
}

}  // namespace

FloatRange float_range(Value v) { return range(v, 0); }

}  // namespace tessera::analysis
