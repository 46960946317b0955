// What commands print.
#pragma once
#include <cstdio>
#include <string_view>

#include "command.hpp"

namespace mortar::cli {

/// All of the text at once, also after a NUL. Throws std::runtime_error if standard output cannot be written.
void put(std::FILE* file, std::string_view text);
/// printf to standard error, unless --quiet.
[[gnu::format(printf, 2, 3)]] void report(const Arguments& arguments, const char* format, ...);

}  // namespace mortar::cli
