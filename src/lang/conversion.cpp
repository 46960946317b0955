// Recording of casts. Tile IR converts to nearest even (floats) or toward zero (to integers) only and leaves integers
// out of range undefined; other roundings and saturation are built from operations here.
#include <cmath>

#include "lang/ints.hpp"
#include "lang/spec.hpp"
#include "tessera/base/float_types.hpp"
#include "tessera/base/format.hpp"
#include "tessera/lang/emit.hpp"

namespace tessera::lang {

using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

constexpr auto kSigned = ir::Signedness::Signed;
constexpr auto kUnsigned = ir::Signedness::Unsigned;

ir::Signedness sign_of(ElementType t) { return is_signed(t) ? kSigned : kUnsigned; }

Value float_constant(Builder& b, Value like, double v) {
  return b.constant_float(like.type().elem(), v, like.type().shape());
}
Value int_constant(Builder& b, Value like, std::int64_t v) {
  return b.constant_int(like.type().elem(), v, like.type().shape());
}

Value compare_floats(Builder& b, ir::ComparisonPredicate p, Value x, Value y, bool ordered = true) {
  const auto ordering = ordered ? ir::ComparisonOrdering::Ordered : ir::ComparisonOrdering::Unordered;
  return b
      .create(Op::CmpF, {x, y}, {x.type().with_element(Elem::I1)},
              {{AttrName::comparison_predicate, p}, {AttrName::comparison_ordering, ordering}})
      ->result();
}
Value compare_ints(Builder& b, ir::ComparisonPredicate p, Value x, Value y) {
  return b
      .create(Op::CmpI, {x, y}, {x.type().with_element(Elem::I1)},
              {{AttrName::comparison_predicate, p}, {AttrName::signedness, kSigned}})
      ->result();
}
Value choose(Builder& b, Value c, Value x, Value y) { return b.create(Op::Select, {c, x, y}, {x.type()})->result(); }
Value binary(Builder& b, Op op, Value x, Value y) { return b.create(op, {x, y}, {x.type()})->result(); }
Value signed_binary(Builder& b, Op op, Value x, Value y, ir::Signedness s) {
  return b.create(op, {x, y}, {x.type()}, {{AttrName::signedness, s}})->result();
}

Value float_to_float(Builder& b, Value x, Elem to) {
  return x.type().elem() == to ? x : b.create(Op::FToF, {x}, {x.type().with_element(to)})->result();
}

bool computes(Elem e) { return ir::info(e).arithmetic; }
/// A format that holds every value of the element and has arithmetic.
Value computable(Builder& b, Value x) { return computes(x.type().elem()) ? x : float_to_float(b, x, Elem::F32); }

// ---- float to float -----------------------------------------------------------------------------------------------

/// The largest finite value of a type; infinity for f64, which casts do not limit.
double largest_finite(ElementType t) {
  switch (t) {
    case ElementType::f32: return decode_float(kF32, kF32.largest());
    case ElementType::tf32: return decode_float(kTF32, kTF32.largest());
    case ElementType::f16: return decode_float(kF16, kF16.largest());
    case ElementType::bf16: return decode_float(kBF16, kBF16.largest());
    case ElementType::f8e4m3: return decode_float(kF8E4M3, kF8E4M3.largest());
    case ElementType::f8e5m2: return decode_float(kF8E5M2, kF8E5M2.largest());
    default: return HUGE_VAL;
  }
}

/// Limits finite values and infinities to the target's finite range; NaN passes. In a type that holds its limits, so
/// not always the type of `x`.
Value clamp_finite(Builder& b, Value x, ElementType from, ElementType to) {
  const double limit = largest_finite(to);
  if (limit == HUGE_VAL) return x;
  x = from == to || from == ElementType::f64 ? computable(b, x) : float_to_float(b, x, Elem::F32);
  const Value high = float_constant(b, x, limit), low = float_constant(b, x, -limit);
  x = choose(b, compare_floats(b, ir::ComparisonPredicate::Greater, x, high), high, x);
  return choose(b, compare_floats(b, ir::ComparisonPredicate::Less, x, low), low, x);
}

/// Moves the nearest value `y` of `x` to its neighbour in the requested direction if rounding went the other way.
Value directed(Builder& b, Value x, Value y, RoundingDirection direction) {
  const Elem wide = x.type().elem() == Elem::F64 ? Elem::F64 : Elem::F32;
  const Value exact = float_to_float(b, x, wide), back = float_to_float(b, y, wide);
  const Elem bits_elem = y.type().elem() == Elem::F32           ? Elem::I32
                         : ir::info(y.type().elem()).bits == 16 ? Elem::I16
                                                                : Elem::I8;
  const Value bits = b.create(Op::Bitcast, {y}, {y.type().with_element(bits_elem)})->result();
  const Value one = int_constant(b, bits, 1), minus_one = int_constant(b, bits, -1), none = int_constant(b, bits, 0);
  const Value negative = compare_ints(b, ir::ComparisonPredicate::Less, bits, none);
  const Value above = compare_floats(b, ir::ComparisonPredicate::Greater, back, exact);
  const Value below = compare_floats(b, ir::ComparisonPredicate::Less, back, exact);
  // Adding to the bits moves away from zero, subtracting moves toward it.
  const Value down = choose(b, negative, one, minus_one), up = choose(b, negative, minus_one, one);
  Value step = none;
  if (direction == RoundingDirection::Down) step = choose(b, above, down, none);
  if (direction == RoundingDirection::Up) step = choose(b, below, up, none);
  if (direction == RoundingDirection::Zero) step = choose(b, choose(b, negative, below, above), minus_one, none);
  return b.create(Op::Bitcast, {binary(b, Op::AddI, bits, step)}, {y.type()})->result();
}

bool is_directed(RoundingDirection d) { return d != RoundingDirection::Default && d != RoundingDirection::Nearest; }

Value convert_float(Builder& b, Value x, ElementType from, ElementType to, RoundingDirection direction, bool saturate) {
  // The conversion to 8 bits saturates, but a step from there would leave the finite values.
  const bool narrowest = info(to).bits == 8;
  if (narrowest ? is_directed(direction) : saturate) x = clamp_finite(b, x, from, to);
  const Value y = float_to_float(b, x, ints::elem_of(to));
  const bool exact = y == x || to == ElementType::f64;
  return exact || !is_directed(direction) ? y : directed(b, x, y, direction);
}

// ---- float to integer ---------------------------------------------------------------------------------------------

/// The integer value that `x` rounds to, as a float.
Value to_integral(Builder& b, Value x, RoundingDirection direction) {
  const auto unary = [&](Op op, Value v) { return b.create(op, {v}, {v.type()})->result(); };
  if (direction == RoundingDirection::Down) return unary(Op::Floor, x);
  if (direction == RoundingDirection::Up) return unary(Op::Ceil, x);
  // Nearest, ties to even. The distance to the floor decides; where it is not exact, x is tiny and the result is not
  // affected.
  const Value floor = unary(Op::Floor, x);
  const Value distance = binary(b, Op::SubF, x, floor);
  const Value half = float_constant(b, x, 0.5);
  const Value halved = binary(b, Op::MulF, floor, half);
  const Value odd = compare_floats(b, ir::ComparisonPredicate::NotEqual, unary(Op::Floor, halved), halved);
  const Value tie = compare_floats(b, ir::ComparisonPredicate::Equal, distance, half);
  const Value more = compare_floats(b, ir::ComparisonPredicate::Greater, distance, half);
  const Value up = binary(b, Op::OrI, more, binary(b, Op::AndI, tie, odd));
  return choose(b, up, binary(b, Op::AddF, floor, float_constant(b, x, 1.0)), floor);
}

Value clamp_int(Builder& b, Value x, std::int64_t low, std::int64_t high, ir::Signedness s) {
  x = signed_binary(b, Op::MaxI, x, int_constant(b, x, low), s);
  return signed_binary(b, Op::MinI, x, int_constant(b, x, high), s);
}

Value float_to_int(Builder& b, Value x, ElementType to, RoundingDirection direction) {
  x = computable(b, x);
  if (direction != RoundingDirection::Default && direction != RoundingDirection::Zero) x = to_integral(b, x, direction);
  const int bits = info(to).bits;
  // The device saturates conversions to 32 and 64 bits; narrower ones go through 32 bits and are clamped there.
  const Elem first = bits < 32 ? Elem::I32 : ints::elem_of(to);
  const ir::Signedness sign = bits < 32 ? kSigned : sign_of(to);
  Value y = b.create(Op::FToI, {x}, {x.type().with_element(first)}, {{AttrName::signedness, sign}})->result();
  if (bits >= 32) return y;
  const std::int64_t span = std::int64_t{1} << bits;
  y = is_signed(to) ? clamp_int(b, y, -span / 2, span / 2 - 1, kSigned) : clamp_int(b, y, 0, span - 1, kSigned);
  return b.create(Op::TruncI, {y}, {y.type().with_element(ints::elem_of(to))})->result();
}

// ---- integer to float, integer to integer, bool -------------------------------------------------------------------

/// Limits integers to the finite range of a float type, if they can exceed it: f16, the only one narrower than 64 bits.
Value clamp_to_finite(Builder& b, Value x, ElementType from, ElementType to) {
  const int value_bits = info(from).bits - (is_signed(from) ? 1 : 0);
  const double limit = largest_finite(to);
  if (limit >= std::ldexp(1.0, value_bits)) return x;
  const auto high = static_cast<std::int64_t>(limit);
  if (is_signed(from)) return clamp_int(b, x, -high, high, kSigned);
  return signed_binary(b, Op::MinI, x, int_constant(b, x, high), kUnsigned);
}

Value int_to_float(Builder& b, Value x, ElementType from, ElementType to, RoundingDirection direction, bool saturate) {
  const auto itof = [&](Value v, Elem e) {
    return b.create(Op::IToF, {v}, {v.type().with_element(e)}, {{AttrName::signedness, sign_of(from)}})->result();
  };
  // Directions are for sources of at most 32 bits, which f64 holds: nothing is rounded twice.
  if (is_directed(direction)) return convert_float(b, itof(x, Elem::F64), ElementType::f64, to, direction, saturate);
  // fp8 saturates as it does from floats. Through f32 nothing is rounded twice: what f32 rounds is out of range.
  if (info(to).bits == 8) return float_to_float(b, itof(x, Elem::F32), ints::elem_of(to));
  return itof(saturate ? clamp_to_finite(b, x, from, to) : x, ints::elem_of(to));
}

/// Clamps to the range that both types share, still in the source's type.
Value clamp_to_target(Builder& b, Value x, ElementType from, ElementType to) {
  const int from_bits = info(from).bits, to_bits = info(to).bits;
  const int value_bits = to_bits - (is_signed(to) ? 1 : 0), source_bits = from_bits - (is_signed(from) ? 1 : 0);
  if (is_signed(from)) {
    const std::int64_t low = is_signed(to) ? (to_bits >= 64 ? INT64_MIN : -(std::int64_t{1} << (to_bits - 1))) : 0;
    if (!is_signed(to) || to_bits < from_bits) x = signed_binary(b, Op::MaxI, x, int_constant(b, x, low), kSigned);
  }
  if (value_bits < source_bits) {
    const auto high = static_cast<std::int64_t>((std::uint64_t{1} << value_bits) - 1);
    x = signed_binary(b, Op::MinI, x, int_constant(b, x, high), sign_of(from));
  }
  return x;
}

Value int_to_int(Builder& b, Value x, ElementType from, ElementType to, bool saturate) {
  if (saturate) x = clamp_to_target(b, x, from, to);
  const int from_bits = info(from).bits, to_bits = info(to).bits;
  if (from_bits == to_bits) return x;
  if (from_bits > to_bits) return ints::truncate(b, x, ints::elem_of(to));
  return ints::extend(b, x, ints::elem_of(to), is_signed(from));
}

Value to_bool(Builder& b, Value x, ElementType from) {
  if (!is_float(from)) return compare_ints(b, ir::ComparisonPredicate::NotEqual, x, int_constant(b, x, 0));
  x = computable(b, x);
  return compare_floats(b, ir::ComparisonPredicate::NotEqual, x, float_constant(b, x, 0.0), false);
}

}  // namespace

namespace {

constexpr int kDeepest = 16;  // operations of one expression that checked mode looks through

/// Checked mode: asserts that the sums, differences and products that `x`, of 8 or 16 bits, was computed from by `of`
/// have not wrapped. They are computed again in 64 bits.
void assert_narrow(Value x, ElementType of, SourceLocation loc, int depth = 0) {
  const ir::Operation* op = x.def();
  if (op == nullptr || depth == kDeepest) return;
  const bool moved = op->op() == Op::Reshape || op->op() == Op::Broadcast || op->op() == Op::Permute;
  const bool computed = op->op() == Op::AddI || op->op() == Op::SubI || op->op() == Op::MulI;
  if (!moved && !computed) return;
  for (const Value v : op->operand_values()) assert_narrow(v, of, loc, depth + 1);
  if (!computed) return;
  Builder& b = Tracer::current().at(loc);
  const auto wide = [&](Value v) { return ints::extend(b, v, Elem::I64, is_signed(of)); };
  const Value exact = binary(b, op->op(), wide(op->operand(0)), wide(op->operand(1)));
  b.create(Op::Assert, {ints::equal(b, exact, wide(op->result()))}, {},
           {{AttrName::message, concat("arithmetic of ", info(of).name,
                                       " wraps before its result is converted to a wider "
                                       "type: convert the operands, as in cast<i32>(a) * cast<i32>(b)")}});
}

/// Results of narrow arithmetic that are then taken for numbers of a wider type were meant as such.
bool widens(ElementType from, const TileSpec& to) {
  return !is_float(from) && from != ElementType::boolean && info(from).bits < 32 &&
         (is_float(to.element) || info(to.element).bits > info(from).bits);
}

}  // namespace

Value convert(Value x, ElementType from, const TileSpec& to, RoundingDirection direction, bool saturate,
              SourceLocation loc) {
  if (Tracer::current(loc).checked && widens(from, to)) assert_narrow(x, from, loc);
  Builder& b = Tracer::current(loc).at(loc);
  const ElementType target = to.element;
  if (from == target) {
    // The clamped value is in f32 if the type has no arithmetic (tf32, fp8).
    return is_float(from) && saturate ? float_to_float(b, clamp_finite(b, x, from, target), x.type().elem()) : x;
  }
  if (from == ElementType::boolean) return choose(b, x, splat(to, 1), splat(to, 0));
  if (target == ElementType::boolean) return to_bool(b, x, from);
  if (is_float(from)) {
    return is_float(target) ? convert_float(b, x, from, target, direction, saturate)
                            : float_to_int(b, x, target, direction);
  }
  return is_float(target) ? int_to_float(b, x, from, target, direction, saturate)
                          : int_to_int(b, x, from, target, saturate);
}

Value bit_cast(Value x, const TileSpec& to, SourceLocation loc) {
  Builder& b = Tracer::current(loc).at(loc);
  const Type result = type_of(to);
  return result == x.type() ? x : b.create(Op::Bitcast, {x}, {result})->result();
}

}  // namespace tessera::lang
