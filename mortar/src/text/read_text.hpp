// Files of a model as text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace mortar::text {

/// The largest tokenizer.json that is read; published ones have 7 to 12 MB.
inline constexpr std::uint64_t kMostTextBytes = std::uint64_t{1} << 28;

/// Throws ModelError if the file cannot be read or has more than `most` bytes.
std::string read_text(const std::string& path, std::uint64_t most = kMostTextBytes);
/// Nothing if there is no such file.
std::optional<std::string> read_text_if_there(const std::string& path);

}  // namespace mortar::text
