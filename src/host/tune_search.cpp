// An additive model with a correction by neighbours. Spaces have tens to thousands of points, and tens are measured.
#include "host/tune_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace tessera::detail {
namespace {

constexpr std::size_t kMaxConsidered = 4096;  // points of a large space that one choice is made from
constexpr int kSweeps = 30;                   // of the fit, which converges in fewer
constexpr double kShrink = 0.5;               // an effect that few points have is taken for small
constexpr double kNear = 0.3;                 // the weight of a point that differs in one word
constexpr double kDoubt = 0.5;                // so much weight do points have that are not there
constexpr double kLeastSpread = 0.1;          // points differ at least by a tenth, until they are known

}  // namespace

TuneSearch::TuneSearch(const std::vector<SearchPoint>& points) : left_(points.size(), true) {
  std::map<std::string, std::size_t> numbers;
  const auto number_of = [&](const std::string& name) { return numbers.emplace(name, numbers.size()).first->second; };
  for (const SearchPoint& point : points) {
    std::vector<std::size_t> parts{number_of("candidate " + std::to_string(point.candidate))};
    for (const std::string& word : point.hints) parts.push_back(number_of(word));
    std::ranges::sort(parts);
    parts_.push_back(std::move(parts));
  }
  effects_.assign(numbers.size(), 0);
  seen_.assign(numbers.size(), 0);
}

void TuneSearch::measured(std::size_t point, double time) {
  left_[point] = false;
  known_.push_back({point, std::log(time)});
}

void TuneSearch::drop(std::size_t point) { left_[point] = false; }

double TuneSearch::sum_of(std::size_t point) const {
  double sum = mean_;
  for (const std::size_t part : parts_[point]) sum += effects_[part];
  return sum;
}

/// Least squares with effects that are drawn to 0, one effect after the other.
void TuneSearch::fit(const std::vector<Known>& known) {
  std::ranges::fill(effects_, 0);
  std::ranges::fill(seen_, 0);
  residuals_.assign(known.size(), 0);
  mean_ = spread_ = 0;
  if (known.empty()) return;
  std::vector<std::vector<std::size_t>> having(effects_.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    mean_ += known[i].value / static_cast<double>(known.size());
    for (const std::size_t part : parts_[known[i].point]) having[part].push_back(i);
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    residuals_[i] = known[i].value - mean_;
    spread_ += residuals_[i] * residuals_[i] / static_cast<double>(known.size());
  }
  spread_ = std::sqrt(spread_);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t part = 0; part < effects_.size(); ++part) {
      double sum = 0;
      for (const std::size_t i : having[part]) sum += residuals_[i] + effects_[part];
      const double effect = sum / (static_cast<double>(having[part].size()) + kShrink);
      for (const std::size_t i : having[part]) residuals_[i] -= effect - effects_[part];
      effects_[part] = effect;
      seen_[part] = having[part].size();
    }
  }
}

/// Words in which the two differ; a word that one of them does not have counts, too.
std::size_t TuneSearch::difference(std::size_t a, std::size_t b) const {
  const auto &x = parts_[a], &y = parts_[b];
  std::size_t i = 0, j = 0, common = 0;
  while (i < x.size() && j < y.size()) {
    common += x[i] == y[j] ? 1 : 0;
    const bool low = x[i] <= y[j], high = x[i] >= y[j];
    i += low ? 1 : 0;
    j += high ? 1 : 0;
  }
  return std::max(x.size(), y.size()) - common;
}

double TuneSearch::promise(std::size_t point, const std::vector<Known>& known) const {
  double weight = 0, deviation = 0;
  for (std::size_t i = 0; i < known.size(); ++i) {
    double w = 1;
    for (std::size_t d = difference(point, known[i].point); d > 0; --d) w *= kNear;
    weight += w;
    deviation += w * residuals_[i];
  }
  double unseen = 0;
  for (const std::size_t part : parts_[point]) unseen += seen_[part] == 0 ? 1 : 0;
  const double doubt = kDoubt / (kDoubt + weight) + unseen / static_cast<double>(parts_[point].size());
  return sum_of(point) + deviation / (kDoubt + weight) - std::max(spread_, kLeastSpread) * doubt;
}

/// The model expects a time of each point that is chosen, and the next one is chosen as if that had been measured.
std::vector<std::size_t> TuneSearch::next(std::size_t count) {
  std::vector<std::size_t> chosen;
  std::vector<Known> known = known_;
  while (chosen.size() < count) {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < left_.size(); ++i)
      if (left_[i]) left.push_back(i);
    if (left.empty()) break;
    std::size_t best = left.front();
    fit(known);
    if (!known.empty()) {
      const std::size_t step = (left.size() + kMaxConsidered - 1) / kMaxConsidered;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = turn_++ % step; i < left.size(); i += step)
        if (const double p = promise(left[i], known); p < least) least = p, best = left[i];
    }
    chosen.push_back(best);
    left_[best] = false;
    known.push_back({best, sum_of(best)});
  }
  return chosen;
}

}  // namespace tessera::detail
