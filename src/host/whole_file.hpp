// Writing a file atomically: a reader sees the old or the new contents, also after a crash.
#pragma once
#include <cstddef>
#include <string>

#include "tessera/base/source_location.hpp"

namespace tessera::detail {

/// The file at `path`; symbolic links are followed. An existing file keeps its mode, owner and group; a new one gets
/// the default mode (umask). The contents are written to a temporary file in the same folder, which finish() renames.
/// If that would change the file's identity (it has several hard links, or a new file cannot have its owner or group),
/// it is written in place instead, and a crash may leave it half written.
class WholeFile {
 public:
  /// Throws IoError for a folder, pipe or device, for a write-protected file or folder (for root too, if the mode
  /// allows no writing), and for errors of the system. Nothing has changed then.
  WholeFile(const std::string& path, SourceLocation where);
  ~WholeFile();  ///< without finish(): discards the temporary file (in place: what was written stays)
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(const void* data, std::size_t bytes);  ///< throws IoError
  void finish();                                    ///< throws IoError

 private:
  [[noreturn]] void fail(const char* what, int error) const;
  void follow_links();
  void open_beside(const std::string& folder);
  void close() noexcept;

  std::string path_;    // as the user wrote it, for errors
  std::string target_;  // the file that it resolves to
  std::string beside_;  // the temporary file; empty: in place, or finished
  SourceLocation where_;
  int file_ = -1;
};

}  // namespace tessera::detail
