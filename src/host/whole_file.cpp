// Symbolic links are resolved here, because the temporary file must be in the target's folder, and because the target
// may not exist yet.
#include "host/whole_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::detail {

namespace {

constexpr int kLinkLimit = 40;  // the limit of Linux (path_resolution(7))
constexpr mode_t kAnyoneWrites = S_IWUSR | S_IWGRP | S_IWOTH;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// The text of a symbolic link; empty, with errno, if it cannot be read.
std::string read_link(const std::string& path) {
  std::string text(256, '\0');
  for (;;) {
    const ssize_t length = readlink(path.c_str(), text.data(), text.size());
    if (length < 0) return {};
    if (static_cast<std::size_t>(length) < text.size()) return text.substr(0, static_cast<std::size_t>(length));
    text.resize(2 * text.size());
  }
}

}  // namespace

WholeFile::WholeFile(const std::string& path, SourceLocation where) : path_(path), target_(path), where_(where) {
  follow_links();
  const std::string folder = folder_of(target_);
  struct stat now {
  }, around{};
  const bool exists = stat(target_.c_str(), &now) == 0;
  if (!exists && errno != ENOENT) fail("write", errno);
  if (exists && !S_ISREG(now.st_mode)) {
    throw IoError(
        concat("'", path_, "' is ", S_ISDIR(now.st_mode) ? "a folder" : "not a regular file", ": choose another name."),
        where_);
  }
  const bool is_protected =
      exists && ((now.st_mode & kAnyoneWrites) == 0 || faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0);
  if (is_protected)
    throw IoError(concat("'", path_, "' is write-protected: choose another name, or change its mode."), where_);
  if (stat(folder.c_str(), &around) != 0) fail("write", errno);
  if ((around.st_mode & kAnyoneWrites) == 0)
    throw IoError(concat("cannot write '", path_, "': the folder '", folder, "' is write-protected."), where_);
  if (!exists || now.st_nlink <= 1) open_beside(folder);  // 0: another process has just replaced it
  if (exists && file_ >= 0) {
    struct stat made {};
    const bool known = fstat(file_, &made) == 0;
    const bool same = known && made.st_uid == now.st_uid && made.st_gid == now.st_gid;
    if ((same || fchown(file_, now.st_uid, now.st_gid) == 0) && fchmod(file_, now.st_mode & 0777) == 0) return;
    close();
    unlink(beside_.c_str());
    beside_.clear();
  }
  if (file_ >= 0) return;
  file_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);  // not truncated before the contents are available
  if (file_ < 0) fail("write", errno);
}

void WholeFile::follow_links() {
  for (int links = 0;; ++links) {
    struct stat status {};
    if (lstat(target_.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return;
    const std::string to = links < kLinkLimit ? read_link(target_) : std::string();
    if (to.empty()) fail("write", links < kLinkLimit ? errno : ELOOP);
    target_ = to[0] == '/' ? to : folder_of(target_) + "/" + to;
  }
}

/// The temporary name does not depend on the target's: it is short enough for any file system, and not in use.
void WholeFile::open_beside(const std::string& folder) {
  static std::atomic<unsigned> serial{0};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    beside_ = concat(folder, "/.tessera-", static_cast<long long>(getpid()), "-", serial++, ".tmp");
    file_ = open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file_ >= 0) return;
    if (errno != EEXIST) break;
  }
  const int error = errno;
  beside_.clear();
  fail("write", error);
}

void WholeFile::write(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes != 0) {
    const ssize_t done = ::write(file_, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write", errno);
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

void WholeFile::finish() {
  if (beside_.empty() && ftruncate(file_, lseek(file_, 0, SEEK_CUR)) != 0) fail("write", errno);
  if (fsync(file_) != 0) fail("write", errno);
  const int closed = ::close(file_);
  file_ = -1;
  if (closed != 0) fail("write", errno);
  if (beside_.empty()) return;
  if (std::rename(beside_.c_str(), target_.c_str()) != 0) fail("write", errno);
  beside_.clear();
}

void WholeFile::close() noexcept {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

WholeFile::~WholeFile() {
  close();
  if (!beside_.empty()) unlink(beside_.c_str());
}

void WholeFile::fail(const char* what, int error) const {
  throw IoError(concat("cannot ", what, " '", path_, "': ", std::strerror(error),
                       ".\n  Check the name, the folder and its rights, and the room on the disk."),
                where_);
}

}  // namespace tessera::detail
