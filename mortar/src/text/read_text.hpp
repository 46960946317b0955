// Files of a model as text.
#pragma once
#include <optional>
#include <string>

namespace mortar::text {

/// Throws ModelError if the file cannot be read.
std::string read_text(const std::string& path);
/// Nothing if there is no such file.
std::optional<std::string> read_text_if_there(const std::string& path);

}  // namespace mortar::text
