// Files that commands read as a whole.
#pragma once
#include <string>

namespace mortar::cli {

/// All of a file, or of standard input for "-". Throws RequestError if it cannot be read.
std::string read_input(const std::string& path);

}  // namespace mortar::cli
