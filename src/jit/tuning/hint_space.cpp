// "warps=2,4 latency=2,4,6" as a list of combinations.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/tuning.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::jit {
namespace {
constexpr std::size_t kMaxCombinations = 1 << 16;  // each is compiled and measured
}

std::vector<std::string> hint_combinations(std::string_view space) {
  std::vector<std::string> all{""};
  constexpr std::string_view kBlank = " \t";
  for (std::size_t at = space.find_first_not_of(kBlank); at < space.size();) {
    const std::size_t end = std::min(space.find_first_of(kBlank, at), space.size());
    const std::string_view word = space.substr(at, end - at);
    at = space.find_first_not_of(kBlank, end);
    const std::size_t equals = std::min(word.find('='), word.size() - 1);
    const std::string_view name = word.substr(0, equals + 1);
    std::vector<std::string> longer;
    for (const std::string& before : all) {
      for (std::size_t from = equals + 1; from <= word.size();) {
        const std::size_t comma = std::min(word.find(',', from), word.size());
        std::string hints = before + (before.empty() ? "" : " ") + std::string(name);
        longer.push_back(hints += word.substr(from, comma - from));
        passes::parse_tuning(longer.back());
        from = comma + 1;
      }
    }
    if (longer.size() > kMaxCombinations) {
      throw CompileError(concat("tuning: the space \"", space.substr(0, 64), "...\" has more than ", kMaxCombinations,
                                " combinations; leave values out"));
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace tessera::jit
