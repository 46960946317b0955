// Routers of mixtures of experts in tests: what they decide, decisions that a test makes, and how nearly a router
// decides otherwise.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "model/products.hpp"
#include "tessera/tessera.hpp"

namespace mortar::test {

/// Scores of two ways to compute may differ by this much. The hidden state of a token, its norm and what the layer
/// before computed are rounded to bf16, each in its own way, by up to 2^-9 of an element. A score is the product of the
/// normalised state, whose elements are about 1, and a row of weights of length 1: an error of an element adds
/// 2^-9 / sqrt(3) times a normally distributed number to it. With the errors of eight roundings that is a deviation of
/// 2^-9 * sqrt(8 / 3) = 0.0032; five of them are 2^-6.
inline constexpr double kScoreError = 0x1p-6;

/// Numbers of a step on the host.
struct Decisions {
  std::int64_t experts = 0, per_token = 0;
  std::vector<float> scores;   ///< [tokens, experts]
  std::vector<float> weights;  ///< [tokens, per_token]
  std::vector<int> chosen;     ///< [tokens, per_token]

  std::vector<float> scores_of(std::int64_t token) const {
    return {scores.begin() + token * experts, scores.begin() + (token + 1) * experts};
  }
  std::vector<int> chosen_for(std::int64_t token) const {
    return {chosen.begin() + token * per_token, chosen.begin() + (token + 1) * per_token};
  }
  /// All experts, those with the largest scores first; of equal ones that with the lower number.
  std::vector<int> ranked(std::int64_t token) const {
    const std::vector<float> own = scores_of(token);
    std::vector<int> order(static_cast<std::size_t>(experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return own[static_cast<std::size_t>(a)] > own[static_cast<std::size_t>(b)]; });
    return order;
  }
  /// How far the last of the experts that are chosen by their scores is from the first of the others.
  double margin(std::int64_t token) const {
    const std::vector<int> order = ranked(token);
    const auto at = static_cast<std::size_t>(per_token);
    return score(token, order[at - 1]) - score(token, order[at]);
  }
  /// The other choices that another way to compute may make: those in which no expert has a score that is more than
  /// twice kScoreError below that of an expert left out. At most `limit`, which have the smallest differences first.
  std::vector<std::vector<int>> near_ties(std::int64_t token, std::size_t limit = 24) const {
    const std::vector<int> order = ranked(token);
    const auto k = static_cast<std::size_t>(per_token);
    const auto at = [&](std::size_t rank) { return score(token, order[rank]); };
    std::size_t first = k, end = k;  // the ranks that are near the edge
    while (first > 0 && at(first - 1) - at(k) <= 2 * kScoreError) --first;
    while (end < order.size() && at(k - 1) - at(end) <= 2 * kScoreError) ++end;
    std::vector<std::pair<double, std::vector<int>>> found;
    std::vector<bool> taken(end - first, false);
    std::fill_n(taken.begin(), k - first, true);
    while (std::prev_permutation(taken.begin(), taken.end())) {  // all ways to take as many of them
      std::vector<int> choice(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first));
      double least = std::numeric_limits<double>::infinity(), most = -least, lost = 0;
      for (std::size_t i = 0; i < taken.size(); ++i) {
        const double own = at(first + i);
        if (taken[i]) choice.push_back(order[first + i]), least = std::min(least, own), lost -= own;
        if (!taken[i]) most = std::max(most, own);
      }
      if (most - least <= 2 * kScoreError) found.emplace_back(lost, std::move(choice));
    }
    std::ranges::sort(found);
    std::vector<std::vector<int>> choices;
    for (auto& [lost, choice] : found)
      if (choices.size() < limit) choices.push_back(std::move(choice));
    return choices;
  }
  double score(std::int64_t token, int expert) const {
    return double{scores[static_cast<std::size_t>(token * experts + expert)]};
  }
  /// The weights of `choice` for a token: softmax of the scores over the choice, or over all experts.
  std::vector<float> weights_of(std::int64_t token, const std::vector<int>& choice, bool normalize) const {
    const std::vector<float> own = scores_of(token);
    const double top = *std::max_element(own.begin(), own.end());
    const auto term = [&](int expert) { return std::exp(double{own[static_cast<std::size_t>(expert)]} - top); };
    double total = 0;
    if (normalize) {
      for (const int expert : choice) total += term(expert);
    } else {
      for (int expert = 0; expert < experts; ++expert) total += term(expert);
    }
    std::vector<float> made;
    for (const int expert : choice) made.push_back(static_cast<float>(term(expert) / total));
    return made;
  }
};

/// Keeps what the router decides for a step of a model with one layer.
class RoutingRecord : public RouterObserver {
 public:
  void routed(const tessera::Tensor<tessera::f32, 2>& scores, Routing& routing) override {
    seen.experts = scores.dim(1), seen.per_token = routing.chosen.dim(1);
    seen.scores = host(scores).sync(), seen.weights = host(routing.weights).sync();
    seen.chosen = host(routing.chosen).sync();
    ++steps;
  }
  Decisions seen;
  int steps = 0;
};

/// Replaces what the router decides by weights and experts of the test, for as many tokens as a step has.
class ForcedRouting : public RouterObserver {
 public:
  void routed(const tessera::Tensor<tessera::f32, 2>&, Routing& routing) override {
    const tessera::Dims<2> dims = routing.chosen.dims();
    const auto n = static_cast<std::size_t>(routing.chosen.size());
    routing.weights = tessera::from(std::vector<float>(weights.begin(), weights.begin() + n), dims).sync();
    routing.chosen = tessera::from(std::vector<int>(chosen.begin(), chosen.begin() + n), dims).sync();
    ++steps;
  }
  std::vector<float> weights;
  std::vector<int> chosen;
  int steps = 0;
};

}  // namespace mortar::test
