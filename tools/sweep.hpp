// The sizes of `tessera bench`: "n=1024..65536 dtype=f32,f16".
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// A key with its values, in order.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

class Sweep {
 public:
  /// Parses the words of a text that contain '='; others are ignored. A value a..b means a, 2a, 4a, ... up to b. Throws
  /// std::runtime_error for an invalid range.
  explicit Sweep(const std::string& text);
  /// Replaces an axis, or adds one. `word` is key=values.
  void set(const std::string& word);
  /// Keeps only the first value of each axis.
  void keep_first();

  const std::vector<SweepAxis>& axes() const noexcept { return axes_; }
  /// The axis for a chart's x: the numeric axis with the most values; -1 if none has several.
  int main_axis() const;

 private:
  std::vector<SweepAxis> axes_;
};

/// One series of a sweep: runs that differ only along the main axis.
struct SweepSeries {
  std::string name;                ///< the values of the other axes that vary: "dtype=f16"
  std::vector<std::string> words;  ///< the arguments of each run
  std::vector<double> at;          ///< values of the main axis, one per run
};
std::vector<SweepSeries> series_of(const Sweep& sweep);

}  // namespace tessera
