// The search through a tuning space: on invented spaces, whose best point is known.
#include "host/tune_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tessera::detail {
namespace {

/// Candidates times values of hints, each candidate first without hints, as the tuner lists them.
std::vector<SearchPoint> points_of(std::size_t candidates, const std::vector<int>& values) {
  std::vector<SearchPoint> points;
  for (std::size_t c = 0; c < candidates; ++c) {
    points.push_back({c, {}});
    std::vector<std::vector<std::string>> all{{}};
    for (std::size_t h = 0; h < values.size(); ++h) {
      std::vector<std::vector<std::string>> longer;
      for (const auto& before : all)
        for (int v = 0; v < values[h]; ++v) {
          longer.push_back(before);
          longer.back().push_back("hint" + std::to_string(h) + "=" + std::to_string(v));
        }
      all = std::move(longer);
    }
    for (auto& hints : all) points.push_back({c, std::move(hints)});
  }
  return points;
}

/// Times of points: words and candidates have effects, pairs of them too, and every measurement some noise.
class Surface {
 public:
  Surface(const std::vector<SearchPoint>& points, double effect, double pairs, std::mt19937& random) : random_(random) {
    std::map<std::string, double> of;
    std::normal_distribution<double> normal;
    const auto value = [&](const std::string& name, double size) {
      return of.emplace(name, size * normal(random)).first->second;
    };
    for (const SearchPoint& p : points) {
      std::vector<std::string> words = p.hints;
      words.push_back("candidate" + std::to_string(p.candidate));
      double sum = 0;
      for (std::size_t i = 0; i < words.size(); ++i) {
        sum += value(words[i], effect);
        for (std::size_t j = i + 1; j < words.size(); ++j) sum += value(words[i] + " " + words[j], pairs);
      }
      times_.push_back(std::exp(sum));
    }
  }
  double measure(std::size_t point) {
    return times_[point] * std::exp(0.01 * std::normal_distribution<double>()(random_));
  }
  double time(std::size_t point) const { return times_[point]; }
  double least() const { return *std::ranges::min_element(times_); }

 private:
  std::mt19937& random_;
  std::vector<double> times_;
};

/// How much slower than the best the best of the first `count` points is.
double loss_by_search(const std::vector<SearchPoint>& points, Surface& surface, std::size_t count, std::size_t batch) {
  TuneSearch search(points);
  double best = INFINITY;
  for (std::size_t done = 0; done < count;) {
    for (const std::size_t p : search.next(batch)) {
      search.measured(p, surface.measure(p));
      best = std::min(best, surface.time(p));
      ++done;
    }
  }
  return best / surface.least();
}
double loss_by_chance(const std::vector<SearchPoint>& points, const Surface& surface, std::size_t count,
                      std::mt19937& random) {
  std::vector<std::size_t> order(points.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::shuffle(order, random);
  double best = INFINITY;
  for (std::size_t i = 0; i < count; ++i) best = std::min(best, surface.time(order[i]));
  return best / surface.least();
}

TEST(TuneSearch, EveryPointComesOnceAndTheDefaultFirst) {
  const auto points = points_of(3, {4, 3, 2});
  TuneSearch search(points);
  std::set<std::size_t> seen;
  std::mt19937 random(1);
  for (std::size_t round = 0; seen.size() < points.size(); ++round) {
    const auto some = search.next(1 + round % 4);
    ASSERT_FALSE(some.empty());
    if (round == 0) { EXPECT_EQ(some.front(), 0U); }
    for (const std::size_t p : some) {
      EXPECT_TRUE(seen.insert(p).second) << p;
      if (random() % 3 == 0)
        search.drop(p);
      else
        search.measured(p, 1.0 + static_cast<double>(random() % 100));
    }
  }
  EXPECT_TRUE(search.next(4).empty());
  EXPECT_TRUE(TuneSearch({}).next(1).empty());
}

TEST(TuneSearch, EachCandidateIsTriedEarly) {
  const auto points = points_of(4, {4, 4});
  TuneSearch search(points);
  std::set<std::size_t> candidates;
  for (int i = 0; i < 10; ++i)
    for (const std::size_t p : search.next(1)) {
      candidates.insert(points[p].candidate);
      search.measured(p, points[p].candidate == 0 ? 1.0 : 1.2);
    }
  EXPECT_EQ(candidates.size(), 4U);
}

/// Two dozens of points are measured, or a sixth of them. What chance finds in the same number says that the spaces are
/// not easy.
TEST(TuneSearch, ASixthOfThePointsFindsTheBestWithinFivePercent) {
  struct Row {
    std::size_t candidates;
    std::vector<int> values;
    double effect, pairs;
  };
  const Row rows[] = {{1, {4, 4, 3, 3}, 0.2, 0.05},
                      {3, {4, 4, 3, 3}, 0.25, 0.08},
                      {6, {4, 4, 3}, 0.15, 0.05},
                      {2, {6, 6, 4}, 0.3, 0.02}};
  constexpr int kRounds = 10;
  std::mt19937 random(20261130);
  for (const Row& row : rows) {
    const auto points = points_of(row.candidates, row.values);
    const std::size_t count = std::max<std::size_t>(24, points.size() / 6);
    int by_search = 0, by_chance = 0;
    double worst = 1;
    for (int round = 0; round < kRounds; ++round) {
      Surface surface(points, row.effect, row.pairs, random);
      const double loss = loss_by_search(points, surface, count, 1 + static_cast<std::size_t>(round) % 8);
      worst = std::max(worst, loss);
      by_search += loss <= 1.05 ? 1 : 0;
      by_chance += loss_by_chance(points, surface, count, random) <= 1.05 ? 1 : 0;
    }
    const std::string which = std::to_string(points.size()) + " points, worst " + std::to_string(worst);
    EXPECT_GE(by_search, kRounds * 9 / 10) << which;
    EXPECT_LE(by_chance, kRounds * 6 / 10) << which;
  }
}

}  // namespace
}  // namespace tessera::detail
