// Floating-point numbers that a compiler can know without running the kernel: constants, padding, what is computed from
// them, values in code that runs only where they equal a constant, and integers converted to floating point. The
// assembler folds conversions of such numbers to integers, and where Tile IR leaves a conversion undefined, it makes
// use of that (docs/compiler/define_results.md).
#pragma once
#include <limits>
#include <unordered_map>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// The numbers that elements of a value may have where a compiler can know them. Elements of which nothing is known,
/// such as loaded ones, are not counted. Nothing known at all: an empty range and no NaN.
struct KnownFloat {
  double low = std::numeric_limits<double>::infinity();  ///< low <= number <= high, infinities included
  double high = -std::numeric_limits<double>::infinity();
  bool nan = false;  ///< it may be NaN

  bool any() const { return nan || low <= high; }
  bool finite() const;  ///< none of them is infinite or NaN
  bool operator==(const KnownFloat&) const = default;
};

class KnownFloats {
 public:
  static KnownFloats analyze(const ir::Function&);
  /// Of a tile of floating-point elements. Every number, if the analysis has not seen the value.
  KnownFloat of(ir::Value) const;

 private:
  std::unordered_map<const ir::ValueImpl*, KnownFloat> facts_, compared_;
};

}  // namespace tessera::analysis
