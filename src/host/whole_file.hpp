// Writing a file as a whole: who reads its name meanwhile, or after a crash, finds the old contents or the new ones.
#pragma once
#include <cstddef>
#include <string>

#include "tessera/base/source_location.hpp"

namespace tessera::detail {

/// The file that `path` means: symbolic links are followed. A file that is there keeps its mode, its owner and its
/// group; a new one gets what the umask leaves. The contents are written to a new file beside it, which takes its name
/// in finish(). Where that would make another file of it (it has several names, or its owner or group cannot be given
/// to a new one) it is written in place instead, and a crash may leave it half written.
class WholeFile {
 public:
  /// Throws IoError: a folder, pipe or device, a file or folder that is write-protected (also for root, if its mode
  /// lets nobody write), or what the system says. Nothing has changed then.
  WholeFile(const std::string& path, SourceLocation where);
  ~WholeFile();  ///< without finish(): nothing appears (in place: what was written stays)
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
  std::string target_;  // the file that it means
  std::string beside_;  // the new file; empty: in place, or finished
  SourceLocation where_;
  int file_ = -1;
};

}  // namespace tessera::detail
