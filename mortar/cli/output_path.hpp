// Paths that a command will write to: looked at before it works for long.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace mortar::cli {

/// The file behind symbolic links, which need not exist. (Tessera has its own for whole files, which is internal to
/// it.)
std::filesystem::path link_target(std::filesystem::path path);

/// What a path may be if it exists.
enum class Existing : std::uint8_t {
  Any,      ///< anything but a folder, such as /dev/stdout
  Regular,  ///< only a regular file, as tessera::save_npy wants it
};
/// Throws RequestError if `what` ("the chart") cannot be written to the path; changes nothing.
void check_output_path(const std::string& path, const char* what, Existing existing);

}  // namespace mortar::cli
