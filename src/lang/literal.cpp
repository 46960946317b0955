// Host numbers in expressions with tiles: which numbers fit an element type, and their rounding. A finite number that
// would become an infinity (in f8e4m3 and f8e5m2: the largest finite value) is an error, because the change would be
// silent.
#include "lang/literal.hpp"

#include "lang/ints.hpp"
#include "lang/spec.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/float_types.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/number_range.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::lang {

namespace {

std::string text_of(const HostValue& v) {
  if (v.kind == HostValue::Kind::Real) return concat(v.real);
  return v.kind == HostValue::Kind::Signed ? concat(v.integer) : concat(static_cast<std::uint64_t>(v.integer));
}

[[noreturn]] void does_not_fit(ElementType element, const HostValue& value, SourceLocation loc) {
  throw TraceError(concat("the number ", text_of(value), " does not fit a tile of ",
                          tessera::detail::range_text(element), ": widen the tile with cast, or change the number"),
                   loc.known() ? loc : Tracer::current().location());
}

/// The number as a double that rounds to the element type as the number itself does.
double rounded_once(ElementType element, const HostValue& v) {
  if (v.kind == HostValue::Kind::Real) return v.real;
  const bool plain = element == ElementType::f64;  // the double is the result
  if (v.kind == HostValue::Kind::Signed) return plain ? static_cast<double>(v.integer) : to_double_odd(v.integer);
  const auto bits = static_cast<std::uint64_t>(v.integer);
  return plain ? static_cast<double>(bits) : to_double_odd(bits);
}

bool holds_integer(ElementType element, const HostValue& v) {
  const bool beyond_i64 = v.kind == HostValue::Kind::Unsigned && v.integer < 0;
  const int bits = info(element).bits;
  if (is_signed(element)) {
    const std::int64_t largest = INT64_MAX >> (64 - bits);
    return !beyond_i64 && v.integer >= -largest - 1 && v.integer <= largest;
  }
  if (!is_unsigned(element)) return true;  // bool: only true and false fit
  if (bits == 64) return beyond_i64 || v.integer >= 0;
  return !beyond_i64 && v.integer >= 0 && v.integer < std::int64_t{1} << bits;
}

double fitting_float(ElementType element, const HostValue& value, SourceLocation loc) {
  const double number = rounded_once(element, value);
  if (!tessera::detail::holds(element, number)) does_not_fit(element, value, loc);
  return number;
}

std::int64_t fitting_integer(ElementType element, const HostValue& value, SourceLocation loc) {
  if (!holds_integer(element, value)) does_not_fit(element, value, loc);
  return value.integer;
}

}  // namespace

ir::Attribute literal_attr(ElementType element, const HostValue& value, SourceLocation loc) {
  const ir::Elem e = ints::elem_of(element);
  if (is_float(element)) return ir::FloatAttr{e, ir::from_double(e, fitting_float(element, value, loc))};
  return ir::IntAttr{e, fitting_integer(element, value, loc)};
}

ir::Value splat(const TileSpec& spec, const HostValue& value, SourceLocation loc) {
  ir::Builder& b = Tracer::current(loc).at(loc);
  const ir::Elem e = ints::elem_of(spec.element);
  if (is_float(spec.element)) return b.constant_float(e, fitting_float(spec.element, value, loc), shape_of(spec));
  return b.constant_int(e, fitting_integer(spec.element, value, loc), shape_of(spec));
}

}  // namespace tessera::lang
