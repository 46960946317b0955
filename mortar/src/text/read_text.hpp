// Files of a model as text.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mortar::text {

/// What stands in a file of a clone whose large files Git LFS has not fetched; "" for other files. `beginning`: the
/// first bytes of a file.
std::string_view lfs_pointer(std::string_view beginning);

/// The largest tokenizer.json that is read; published ones have 7 to 12 MB.
inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 28;

/// Throws ModelError if the file cannot be read, is a pointer of Git LFS, or has more than `most` bytes. If its folder
/// is none, the error says what the user named instead, and what to do.
std::string read_text(const std::string& path, std::uint64_t most = kMaxTextBytes);
/// Nothing if there is no such file.
std::optional<std::string> read_text_if_there(const std::string& path);

}  // namespace mortar::text
