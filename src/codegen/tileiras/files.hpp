// Temporary folders that are always removed, and whole files.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera::tileiras {

/// A fresh folder under TMPDIR (or /tmp), removed with all that is in it when the object goes.
class TempFolder {
 public:
  TempFolder();  ///< throws IoError
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Throws IoError with the system's reason (a full disk, for instance).
void write_file(const std::string& path, std::span<const std::byte> bytes);
std::optional<std::vector<std::byte>> read_file(const std::string& path);
bool is_executable(const std::string& path);

}  // namespace tessera::tileiras
