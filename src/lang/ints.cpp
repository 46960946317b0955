// Integer expressions over tiles with folding of scalar constants.
#include "lang/ints.hpp"

#include <algorithm>

#include "tessera/ir/types.hpp"

namespace tessera::lang::ints {

using ir::AttrName;
using ir::NamedAttr;
using ir::Op;
using ir::Type;

namespace {

std::int64_t wrap(Elem elem, std::int64_t v) {
  const int bits = ir::info(elem).bits;
  if (bits >= 64) return v;
  if (bits == 1) return v & 1;
  const int shift = 64 - bits;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(v) << shift) >> shift;
}

std::uint64_t as_unsigned(Elem elem, std::int64_t v) {
  const int bits = ir::info(elem).bits;
  return bits >= 64 ? static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v) & ((std::uint64_t{1} << bits) - 1);
}

Elem elem(Value v) { return v.type().elem(); }

/// Folds constants of scalars only; tiles stay operations.
std::optional<std::int64_t> scalar_constant(Value v) { return v.type().rank() == 0 ? constant_of(v) : std::nullopt; }

struct Pair {
  Value lhs, rhs;
};
Pair unify(Builder& b, Value lhs, Value rhs) {
  if (lhs.type() == rhs.type()) return {lhs, rhs};
  const auto shape = joint_shape(lhs, rhs);
  return {expand(b, lhs, shape), expand(b, rhs, shape)};
}

Value binary(Builder& b, Op op, Value lhs, Value rhs, std::initializer_list<NamedAttr> attrs = {}) {
  const Pair p = unify(b, lhs, rhs);
  return b.create(op, {p.lhs, p.rhs}, {p.lhs.type()}, attrs)->result();
}

Value compare(Builder& b, ir::ComparisonPredicate predicate, ir::Signedness sign, Value lhs, Value rhs) {
  const Pair p = unify(b, lhs, rhs);
  return b
      .create(Op::CmpI, {p.lhs, p.rhs}, {p.lhs.type().with_element(Elem::I1)},
              {{AttrName::comparison_predicate, predicate}, {AttrName::signedness, sign}})
      ->result();
}

Value folded(Builder& b, Elem e, std::int64_t v) { return b.constant_int(e, wrap(e, v)); }
Value truth(Builder& b, bool v) { return b.constant_int(Elem::I1, v ? 1 : 0); }

std::int64_t unsigned_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t unsigned_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace

Value i32(Builder& b, std::int64_t value) { return b.constant_int(Elem::I32, value); }
Value i64(Builder& b, std::int64_t value) { return b.constant_int(Elem::I64, value); }

std::optional<std::int64_t> constant_of(Value v) {
  const ir::Operation* def = v.def();
  if (def == nullptr || def->op() != Op::Constant || v.type().is_float() || v.type().is_pointer()) return std::nullopt;
  const auto* dense = def->attr(AttrName::value)->as<ir::DenseAttr>();
  const std::size_t size = ir::info(elem(v)).bytes;
  if (!dense->splat && dense->bytes.size() != size) return std::nullopt;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < size; ++i) bits |= static_cast<std::uint64_t>(dense->bytes[i]) << (8 * i);
  return wrap(elem(v), static_cast<std::int64_t>(bits));
}

std::optional<bool> known(Value condition) {
  const auto c = constant_of(condition);
  return c ? std::optional<bool>((*c & 1) != 0) : std::nullopt;
}

Value add(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (x && y) return folded(b, elem(lhs), unsigned_add(*x, *y));
  if (x && *x == 0) return rhs;
  if (y && *y == 0) return lhs;
  return binary(b, Op::AddI, lhs, rhs);
}

Value sub(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (x && y) return folded(b, elem(lhs), unsigned_add(*x, unsigned_mul(*y, -1)));
  if (y && *y == 0) return lhs;
  return binary(b, Op::SubI, lhs, rhs);
}

Value mul(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (x && y) return folded(b, elem(lhs), unsigned_mul(*x, *y));
  if ((x && *x == 0) || (y && *y == 1))
    return lhs.type().rank() >= rhs.type().rank() ? lhs : expand(b, lhs, rhs.type().shape());
  if ((y && *y == 0) || (x && *x == 1))
    return rhs.type().rank() >= lhs.type().rank() ? rhs : expand(b, rhs, lhs.type().shape());
  return binary(b, Op::MulI, lhs, rhs);
}

Value div_unsigned(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (y && *y == 1) return lhs;
  if (x && y && *y != 0) {
    return folded(b, elem(lhs), static_cast<std::int64_t>(as_unsigned(elem(lhs), *x) / as_unsigned(elem(rhs), *y)));
  }
  return binary(b, Op::DivI, lhs, rhs,
                {{AttrName::signedness, ir::Signedness::Unsigned}, {AttrName::rounding, ir::Rounding::Zero}});
}

Value rem_unsigned(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (y && *y == 1) return folded(b, elem(lhs), 0);
  if (x && y && *y != 0) {
    return folded(b, elem(lhs), static_cast<std::int64_t>(as_unsigned(elem(lhs), *x) % as_unsigned(elem(rhs), *y)));
  }
  return binary(b, Op::RemI, lhs, rhs, {{AttrName::signedness, ir::Signedness::Unsigned}});
}

Value ceil_div_unsigned(Builder& b, Value lhs, std::int64_t divisor) {
  if (divisor == 1) return lhs;
  if (const auto x = scalar_constant(lhs)) {
    const std::uint64_t n = as_unsigned(elem(lhs), *x), d = static_cast<std::uint64_t>(divisor);
    return folded(b, elem(lhs), static_cast<std::int64_t>(n / d + (n % d != 0 ? 1 : 0)));
  }
  return binary(b, Op::DivI, lhs, b.constant_int(elem(lhs), divisor),
                {{AttrName::signedness, ir::Signedness::Unsigned}, {AttrName::rounding, ir::Rounding::PositiveInf}});
}

Value min_unsigned(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (x && y) return as_unsigned(elem(lhs), *x) < as_unsigned(elem(rhs), *y) ? lhs : rhs;
  return binary(b, Op::MinI, lhs, rhs, {{AttrName::signedness, ir::Signedness::Unsigned}});
}

Value bit_and(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (elem(lhs) == Elem::I1) {
    if (x) return *x != 0 ? rhs : lhs;
    if (y) return *y != 0 ? lhs : rhs;
  }
  return binary(b, Op::AndI, lhs, rhs);
}

Value bit_or(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (elem(lhs) == Elem::I1) {
    if (x) return *x != 0 ? lhs : rhs;
    if (y) return *y != 0 ? rhs : lhs;
  }
  return binary(b, Op::OrI, lhs, rhs);
}

Value below(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (x && y) return truth(b, as_unsigned(elem(lhs), *x) < as_unsigned(elem(rhs), *y));
  return compare(b, ir::ComparisonPredicate::Less, ir::Signedness::Unsigned, lhs, rhs);
}

Value equal(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (x && y) return truth(b, *x == *y);
  return compare(b, ir::ComparisonPredicate::Equal, ir::Signedness::Signed, lhs, rhs);
}

Value greater(Builder& b, Value lhs, Value rhs) {
  const auto x = scalar_constant(lhs), y = scalar_constant(rhs);
  if (x && y) return truth(b, *x > *y);
  return compare(b, ir::ComparisonPredicate::Greater, ir::Signedness::Signed, lhs, rhs);
}

Value select(Builder& b, Value condition, Value if_true, Value if_false) {
  if (if_true == if_false) return if_true;
  if (condition.type().rank() == 0) {
    if (const auto c = known(condition)) return *c ? if_true : if_false;
  }
  auto shape = joint_shape(if_true, if_false);
  if (shape.size() <= condition.type().shape().size()) {
    const Value wider = condition;
    for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = std::max(shape[i], wider.type().shape()[i]);
    if (shape.empty()) shape.assign(wider.type().shape().begin(), wider.type().shape().end());
  }
  const Value t = expand(b, if_true, shape), f = expand(b, if_false, shape), c = expand(b, condition, shape);
  return b.create(Op::Select, {c, t, f}, {t.type()})->result();
}

Value extend(Builder& b, Value v, Elem to, bool is_signed) {
  if (elem(v) == to) return v;
  if (const auto x = scalar_constant(v)) {
    return folded(b, to, is_signed ? *x : static_cast<std::int64_t>(as_unsigned(elem(v), *x)));
  }
  return b
      .create(Op::ExtI, {v}, {v.type().with_element(to)},
              {{AttrName::signedness, is_signed ? ir::Signedness::Signed : ir::Signedness::Unsigned}})
      ->result();
}

Value truncate(Builder& b, Value v, Elem to) {
  if (elem(v) == to) return v;
  if (const auto x = scalar_constant(v)) return folded(b, to, *x);
  return b.create(Op::TruncI, {v}, {v.type().with_element(to)})->result();
}

Value reshape(Builder& b, Value v, Dims shape) {
  const Type type = v.type().with_shape(shape);
  return type == v.type() ? v : b.create(Op::Reshape, {v}, {type})->result();
}

Value expand(Builder& b, Value v, Dims shape) {
  const Type target = v.type().with_shape(shape);
  if (target == v.type()) return v;
  if (v.type().rank() == 0) v = reshape(b, v, std::vector<std::int64_t>(shape.size(), 1));
  return target == v.type() ? v : b.create(Op::Broadcast, {v}, {target})->result();
}

Value iota(Builder& b, Elem e, int axis, Dims shape) {
  const auto a = static_cast<std::size_t>(axis);
  std::vector<std::int64_t> line(shape.size(), 1);
  line[a] = shape[a];
  if (shape[a] == 1) return b.constant_int(e, 0, line);
  const Value flat = b.create(Op::Iota, {}, {Type::tile(e, {shape[a]})})->result();
  return reshape(b, flat, line);
}

std::vector<std::int64_t> joint_shape(Value a, Value b) {
  const auto x = a.type().shape(), y = b.type().shape();
  if (x.empty()) return {y.begin(), y.end()};
  std::vector<std::int64_t> shape(x.begin(), x.end());
  for (std::size_t i = 0; i < y.size(); ++i) shape[i] = std::max(shape[i], y[i]);
  return shape;
}

}  // namespace tessera::lang::ints
