// Whether a file can be made or replaced.
#include "output_path.hpp"

#include <unistd.h>

#include "mortar/errors.hpp"

namespace mortar::cli {
namespace THIS_FILE {

namespace fs = std::filesystem;

/// Why the file cannot be written; empty: it can.
std::string fault_of(const fs::path& file, Existing existing) {
  std::error_code error;
  if (file.empty()) return "expected a path, found none";
  if (fs::exists(file, error)) {
    if (fs::is_directory(file, error)) return "found a folder";
    if (existing == Existing::Regular && !fs::is_regular_file(file, error)) return "found what is no regular file";
    if (::access(file.c_str(), W_OK) != 0) return "there is no permission to write the file";
    return {};
  }
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!fs::is_directory(folder, error)) return "there is no folder " + folder.string();
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return "there is no permission to make files in " + folder.string();
  return {};
}

}  // namespace THIS_FILE

std::filesystem::path link_target(std::filesystem::path path) {
  constexpr int kLinkLimit = 40;  // as Linux
  std::error_code error;
  for (int i = 0; i < kLinkLimit && std::filesystem::is_symlink(path, error); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  return path;
}

void check_output_path(const std::string& path, const char* what, Existing existing) {
  const std::string fault = THIS_FILE::fault_of(link_target(path), existing);
  if (!fault.empty()) throw RequestError(path + ": " + what + " cannot be written: " + fault);
}

}  // namespace mortar::cli
