// The name that a misspelt one was probably meant to be.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mortar::cli {

/// ": did you mean NAME?" with the name that is most like `word`: one that it begins, of three characters or more, or
/// one that a few wrong, missing, added or exchanged characters make of it. Empty if there is none. The first of equal
/// ones wins. `beginning`: of all names, which does not count.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names, std::string_view beginning = {});

}  // namespace mortar::cli
