// Which numbers of the host an element type holds: what a literal, a padding value or an argument may be.
#pragma once
#include <string>

#include "tessera/base/element.hpp"

namespace tessera::detail {

/// Whether `x` has a value in the floating type `element`, rounded to nearest even: NaN, an infinity that the type has,
/// or a number that does not round beyond the largest finite one.
bool holds(ElementType element, double x) noexcept;

/// "f16, which holds numbers from -65504 to 65504".
std::string range_text(ElementType element);

}  // namespace tessera::detail
