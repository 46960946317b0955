// Which point of a tuning space is measured next where there is no time for all of them.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace tessera::detail {

/// A point of a space: a candidate, and its hints as words ("warps=4").
struct SearchPoint {
  std::size_t candidate = 0;
  std::vector<std::string> hints;
};

/// The model: the logarithm of a point's time is a sum, with an effect of its candidate and one of each word, and what
/// similar points have deviated from such a sum. The next point is the one whose time may be the least: the model
/// expects a time and subtracts a doubt, which is larger where less was measured near the point. docs/tuning.md, "Less
/// than all".
class TuneSearch {
 public:
  explicit TuneSearch(const std::vector<SearchPoint>& points);
  /// The points to be measured next, at most `count`, the most promising first, none twice. The first of all is point
  /// 0. Empty when there is none left.
  std::vector<std::size_t> next(std::size_t count);
  /// What a point took. Times of the same unit, more than 0.
  void measured(std::size_t point, double time);
  /// The point has no time: it does not compile, or its code is that of another one. The model learns nothing from it.
  void drop(std::size_t point);

 private:
  struct Known {
    std::size_t point;
    double value;  ///< the logarithm of its time
  };
  void fit(const std::vector<Known>& known);
  double sum_of(std::size_t point) const;
  /// A bound that the time of the point lies above, by the last fit().
  double promise(std::size_t point, const std::vector<Known>& known) const;
  std::size_t difference(std::size_t a, std::size_t b) const;

  std::vector<std::vector<std::size_t>> parts_;  ///< of each point: its effects, ascending
  std::vector<bool> left_;                       ///< neither measured nor handed out
  std::vector<Known> known_;
  // The fit.
  double mean_ = 0, spread_ = 0;
  std::vector<double> effects_, residuals_;
  std::vector<std::size_t> seen_;  ///< of each effect: how many known points have it
  std::size_t turn_ = 0;
};

}  // namespace tessera::detail
