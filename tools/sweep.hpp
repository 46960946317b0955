// The values that `tessera bench` walks over: "n=1024..65536 dtype=f32,f16".
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// A key with its values, in order.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};

class Sweep {
 public:
  /// The words with '=' of a text; others are ignored. A value a..b stands for a, 2a, 4a, ... up to b. Throws
  /// std::runtime_error for a range that is none.
  explicit Sweep(const std::string& text);
  /// Replaces an axis, or adds one. `word` is key=values.
  void set(const std::string& word);
  /// Of each axis only the first value stays.
  void keep_first();

  const std::vector<Axis>& axes() const noexcept { return axes_; }
  /// The axis that a chart's x is: of those whose values are numbers the one with most values. -1: none has several.
  int main_axis() const;

 private:
  std::vector<Axis> axes_;
};

/// One series of a sweep: all runs that differ along the main axis only.
struct SweepSeries {
  std::string name;                ///< the values of the other axes that vary: "dtype=f16"
  std::vector<std::string> words;  ///< the arguments of each run
  std::vector<double> at;          ///< values of the main axis, one per run
};
std::vector<SweepSeries> series_of(const Sweep& sweep);

}  // namespace tessera
