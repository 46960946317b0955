// Ranges of floating-point tiles, derived from the operations that compute them. They show that an operand is neither
// denormal nor huge, so that a cheaper form of an operation is as accurate.
#pragma once
#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// Bounds of the finite elements. Computed without regard to rounding: compare with bounds that leave room for it.
struct FloatRange {
  double low, high;            ///< low <= element <= high
  double least = 0;            ///< |element| >= least, or the element is zero
  bool always_finite = false;  ///< never infinite and never NaN
};

/// Follows the operations that compute `v`; loaded and loop-carried values may have any value of their type.
FloatRange float_range(ir::Value v);

}  // namespace tessera::analysis
