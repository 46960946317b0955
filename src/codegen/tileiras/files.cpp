// Files by system calls, so that every failure has a reason (errno).
#include "codegen/tileiras/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/folders.hpp"
#include "tessera/base/format.hpp"

namespace tessera::tileiras {

namespace {

/// A descriptor that closes itself.
struct File {
  int fd;
  explicit File(int descriptor) : fd(descriptor) {}
  ~File() {
    if (fd >= 0) close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

std::string temp_root() {
  const char* dir = std::getenv("TMPDIR");
  return dir != nullptr && *dir != '\0' ? dir : "/tmp";
}

}  // namespace

TempFolder::TempFolder() {
  std::string pattern = temp_root() + "/tessera-XXXXXX";
  if (!mkdtemp(pattern.data()))
    throw IoError(concat("cannot make a temporary folder in ", temp_root(), ": ", std::strerror(errno),
                         "; set TMPDIR to a folder that is writable and has space"));
  path_ = pattern;
}

TempFolder::~TempFolder() { remove_folder(path_); }

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  auto fail = [&path] {
    throw IoError(concat("cannot write ", path, ": ", std::strerror(errno), "; is the disk full or read-only?"));
  };
  File file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd < 0) fail();
  while (!bytes.empty()) {
    ssize_t n = write(file.fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  int fd = file.fd;
  file.fd = -1;
  if (close(fd) != 0) fail();
}

std::optional<std::vector<std::byte>> read_file(const std::string& path) {
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would block, a device never end
  struct stat info {};
  if (file.fd < 0 || fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  // One byte more than it has by now: the read that finds the end finds it in the same buffer.
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::max<off_t>(info.st_size, 0)) + 1);
  for (std::size_t used = 0;;) {
    if (used == bytes.size()) bytes.resize(2 * used);
    ssize_t n = read(file.fd, bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    used += static_cast<std::size_t>(n);
    if (n == 0) {
      bytes.resize(used);
      return bytes;
    }
  }
}

bool is_executable(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace tessera::tileiras
