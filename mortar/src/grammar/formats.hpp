// The formats of strings that have an expression.
#pragma once
#include <string_view>

namespace mortar::grammar {

/// The expression that the whole string matches; empty if the format is not known.
std::string_view expression_of_format(std::string_view format);
/// The names of all of them, for messages.
std::string_view known_formats();

}  // namespace mortar::grammar
