// Distances of words.
#include "closest.hpp"

#include <algorithm>
#include <cstddef>

namespace mortar::cli {
namespace {

/// How many characters have to be replaced, removed, added, or exchanged with the next one, to make `b` of `a` (the
/// restricted distance of Damerau and Levenshtein: nothing is changed twice).
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string_view without_dashes(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return word;
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names, std::string_view beginning) {
  constexpr std::size_t kLongest = 64, kBeginning = 3, kEach = 3;  // a wrong character in three is too much
  const auto rest = [&](std::string_view name) {
    name = without_dashes(name);
    return name.starts_with(beginning) ? name.substr(beginning.size()) : name;
  };
  word = rest(word);
  if (word.size() > kLongest) return {};
  const std::string* best = nullptr;
  std::size_t least = word.size() / kEach + 1;
  for (const std::string& name : names) {
    const std::string_view known = rest(name);
    const bool begins = word.size() >= kBeginning && known.starts_with(word);
    if (const std::size_t d = begins ? 0 : edits_between(word, known); d < least) least = d, best = &name;
  }
  return best == nullptr ? "" : ": did you mean " + *best + "?";
}

}  // namespace mortar::cli
