// The ranges of the element types.
#include "tessera/base/number_range.hpp"

#include <cmath>
#include <limits>

#include "tessera/base/float_types.hpp"
#include "tessera/base/format.hpp"

namespace tessera::detail {

namespace {

/// The format of a floating type; null for f64, which holds every number of the host.
const FloatFormat* narrow_format(ElementType element) {
  switch (element) {
    case ElementType::f32: return &kF32;
    case ElementType::tf32: return &kTF32;
    case ElementType::f16: return &kF16;
    case ElementType::bf16: return &kBF16;
    case ElementType::f8e4m3: return &kF8E4M3;
    case ElementType::f8e5m2: return &kF8E5M2;
    default: return nullptr;
  }
}

}  // namespace

bool holds(ElementType element, double x) noexcept {
  const FloatFormat* format = narrow_format(element);
  if (format == nullptr || std::isnan(x)) return true;
  if (std::isinf(x)) return format->has_infinity;
  const FloatFormat wide{8, format->mantissa_bits, true, false};  // rounds large numbers alike, and goes on
  return std::abs(decode_float(wide, encode_float(wide, x))) <= decode_float(*format, format->largest());
}

std::string range_text(ElementType element) {
  const ElementInfo& e = info(element);
  if (e.cls == ElementClass::Float) {
    const FloatFormat* format = narrow_format(element);
    const double largest =
        format == nullptr ? std::numeric_limits<double>::max() : decode_float(*format, format->largest());
    return concat(e.name, ", which holds numbers from ", -largest, " to ", largest);
  }
  if (e.cls == ElementClass::Bool) return e.name;
  const std::uint64_t half = std::uint64_t{1} << (e.bits - 1);
  if (e.cls == ElementClass::Signed) return concat(e.name, ", which holds numbers from -", half, " to ", half - 1);
  return concat(e.name, ", which holds numbers from 0 to ", half - 1 + half);
}

}  // namespace tessera::detail
