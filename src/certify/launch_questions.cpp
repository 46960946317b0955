// A question is a list of bounds and of equal arguments; each is proven by itself.
#include "certify/launch_questions.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace tessera::certify {
namespace {

using analysis::LaunchBound;

/// What a bound is about; none where the launch has no such pieces.
std::optional<Poly> number_of(const LaunchBound& bound, Values& values) {
  const auto index = static_cast<std::size_t>(bound.index);
  if (bound.of == LaunchBound::Of::Pieces) return values.pieces();
  if (bound.of == LaunchBound::Of::Argument) return values.argument(index, 64, true);
  const std::vector<Poly>& along = values.pieces_along();
  if (bound.index < 0 || along.empty() || index > along.size()) return std::nullopt;
  if (bound.of == LaunchBound::Of::PiecesAlong)
    return index < along.size() ? std::optional(along[index]) : std::nullopt;
  Poly product(1);
  for (std::size_t a = 0; a < index; ++a) product = product * along[a];
  return product;
}

}  // namespace

bool is_answerable(const analysis::LaunchQuestion& question, const std::function<bool(std::size_t argument)>& is_slot) {
  const auto is_argument = [&](int argument) { return argument >= 0 && is_slot(static_cast<std::size_t>(argument)); };
  const auto says_something = [&](const LaunchBound& b) {
    const bool limits = b.least != LaunchBound::kNoLeast || b.most != LaunchBound::kNoMost;
    return limits && (b.of != LaunchBound::Of::Argument || is_argument(b.index));
  };
  return !question.bounds.empty() && std::ranges::all_of(question.bounds, says_something) &&
         std::ranges::all_of(question.equal,
                             [&](const auto& pair) { return is_argument(pair.first) && is_argument(pair.second); });
}

bool holds_in_launch(const analysis::LaunchQuestion& question, Values& values) {
  Prover& p = values.prover();
  for (const auto& [a, b] : question.equal) {
    const Poly x = values.argument(static_cast<std::size_t>(a), 64, true),
               y = values.argument(static_cast<std::size_t>(b), 64, true);
    if (!p.at_most(x, y) || !p.at_most(y, x)) return false;
  }
  return std::ranges::all_of(question.bounds, [&](const LaunchBound& bound) {
    const std::optional<Poly> number = number_of(bound, values);
    const bool any_least = bound.least == LaunchBound::kNoLeast;
    const bool any_most = bound.most == LaunchBound::kNoMost;
    return number && (any_least || p.at_most(Poly(bound.least), *number)) &&
           (any_most || p.at_most(*number, Poly(bound.most)));
  });
}

}  // namespace tessera::certify
