// Compares results with their references; samples large ones.
#include "work.hpp"

#include <algorithm>
#include <cmath>

namespace generality {

void Distance::add(double found, double wanted) {
  norm_.add(found, wanted);
  const double off = std::abs(found - wanted);
  worst_ = off == off ? std::max(worst_, off) : INFINITY;
  squares_ += wanted * wanted;
  ++count_;
}

double Distance::value() const {
  if (count_ == 0) return INFINITY;
  const double mean = std::sqrt(squares_ / static_cast<double>(count_));
  return std::max(norm_.relative(), worst_ / 16 / std::max(mean, 1e-300));
}

void visit_lines(Size lines, Size length, bool all, const std::function<void(Size, Size, Size)>& visit) {
  if (all) {
    for (Size i = 0; i < lines; ++i) visit(i, 0, length);
    return;
  }
  constexpr Size kRuns = 8, kRun = 16;
  Size last = -1;
  for (const Size i : {Size{0}, lines / 3, lines / 2, lines - 1}) {
    if (i == last) continue;
    last = i;
    if (length <= kRuns * kRun) {
      visit(i, 0, length);
      continue;
    }
    for (Size r = 0; r < kRuns; ++r) visit(i, (length - kRun) * r / (kRuns - 1), kRun);
  }
}

}  // namespace generality
