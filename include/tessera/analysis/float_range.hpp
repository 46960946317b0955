// What is known of a floating-point tile from the operations that make it: enough to say that an operand is neither
// denormal nor huge, so that a cheaper form of an operation is as good.
#pragma once
#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// Bounds of the finite elements. Computed without regard to rounding: compare with bounds that leave room for it.
struct FloatRange {
  double low, high;            ///< low <= element <= high
  double least = 0;            ///< |element| >= least, or the element is zero
  bool always_finite = false;  ///< never infinite and never NaN
};

/// Looks back through the operations that `v` is computed by; what comes from memory or around a loop may be anything
/// that its type holds.
FloatRange float_range(ir::Value v);

}  // namespace tessera::analysis
