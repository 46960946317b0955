// The folder of compiled kernels. POSIX calls, because every failure has to end in "not cached" without an exception,
// and because rename and unlink make it safe between processes.
#include "tessera/jit/disk_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <memory>

#include "jit/code/sha256.hpp"
#include "jit/store/cache_file.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/folders.hpp"
#include "tessera/base/format.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::jit {
namespace {

constexpr std::string_view kKernelEnding = ".tsk", kNoteEnding = ".tsn", kTemporary = ".tmp-";
constexpr std::int64_t kDefaultLimitMiB = 1024;
constexpr std::int64_t kAbandoned = 600;         // seconds after which a temporary file's writer is dead
constexpr std::int64_t kForgotten = 30 * 86400;  // seconds after which a note is not worth its place in a folder
constexpr int kReading = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // a pipe in the folder must not block us
constexpr std::uint64_t kLargestFile = 1ull << 30;                        // nothing sensible is larger

struct File {
  int fd;
  explicit File(int descriptor) noexcept : fd(descriptor) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool close() noexcept {
    const int old = fd;
    fd = -1;
    return old < 0 || ::close(old) == 0;
  }
};

std::optional<std::vector<std::byte>> read_whole(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) return std::nullopt;
  if (static_cast<std::uint64_t>(info.st_size) > kLargestFile) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  for (std::size_t used = 0; used < bytes.size();) {
    const ssize_t n = ::read(fd, bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    used += static_cast<std::size_t>(n);
  }
  return bytes;
}

bool write_whole(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

struct Found {
  std::string path;
  std::uint64_t bytes;
  std::int64_t seconds, nanoseconds;  // of the last use
};

std::string path_of(const std::string& folder, const CacheKey& key, std::string_view suffix) {
  return concat(folder, "/", hex(key), suffix);
}

/// The result of `read` for the whole file. A file that fails verification is removed; others are marked as used.
template <class F>
auto find_file(const std::string& path, F&& read) -> decltype(read(std::vector<std::byte>())) {
  const File file(open(path.c_str(), kReading));
  if (file.fd < 0) return std::nullopt;
  decltype(read(std::vector<std::byte>())) found;
  if (auto bytes = read_whole(file.fd)) found = read(std::move(*bytes));
  if (!found) {
    unlink(path.c_str());  // it would be found damaged again
    return std::nullopt;
  }
  futimens(file.fd, nullptr);  // now; a cache that may not be written has no order of use, and needs none
  return found;
}

/// Calls f(name, info) for the folder's regular files.
template <class F>
void for_each_file(const std::string& folder, F&& f) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (!dir) return;
  while (const dirent* entry = readdir(dir.get())) {
    struct stat info {};
    if (fstatat(dirfd(dir.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    f(std::string(entry->d_name), info);
  }
}

/// The entries, the most recently used first. Temporary files whose writer must be dead are removed on the way, and
/// notes that are no longer used: every build of a program leaves its own, and they are too small for the limit.
std::vector<Found> entries(const std::string& folder) {
  std::vector<Found> found;
  const std::int64_t now = std::time(nullptr);
  for_each_file(folder, [&](const std::string& name, const struct stat& info) {
    const std::string path = folder + "/" + name;
    if (name.starts_with(kTemporary)) {
      if (now - info.st_mtim.tv_sec > kAbandoned) unlink(path.c_str());
    } else if (name.ends_with(kNoteEnding) && now - info.st_mtim.tv_sec > kForgotten) {
      unlink(path.c_str());
    } else if (name.ends_with(kKernelEnding) || name.ends_with(kNoteEnding)) {
      found.push_back({path, static_cast<std::uint64_t>(info.st_size), info.st_mtim.tv_sec, info.st_mtim.tv_nsec});
    }
  });
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    if (a.seconds != b.seconds) return a.seconds > b.seconds;
    return a.nanoseconds != b.nanoseconds ? a.nanoseconds > b.nanoseconds : a.path < b.path;
  });
  return found;
}

/// A name that no other writer uses: process, and number in the process.
std::string temporary_name(const std::string& folder) {
  static std::atomic<std::uint64_t> counter{0};
  return concat(folder, "/", kTemporary, getpid(), "-", counter.fetch_add(1));
}

}  // namespace

std::optional<DiskCache> DiskCache::of_user() {
  if (!env_flag(Env::CACHE, true)) return std::nullopt;
  const std::int64_t mib = env_int(Env::CACHE_MB, kDefaultLimitMiB, 1);
  const std::string root = tileiras::cache_folder();
  if (root.empty()) return std::nullopt;
  return DiskCache(root + "/kernels", static_cast<std::uint64_t>(mib) << 20);
}

std::optional<CachedCubin> DiskCache::find(const CacheKey& key) const {
  return find_file(path_of(folder_, key, kKernelEnding),
                   [&](std::vector<std::byte> bytes) { return read_cache_file(std::move(bytes), &key); });
}

std::optional<std::vector<std::byte>> DiskCache::find_note(const CacheKey& key) const {
  return find_file(path_of(folder_, key, kNoteEnding),
                   [&](std::vector<std::byte> bytes) { return read_note_file(std::move(bytes), key); });
}

bool DiskCache::store(const CacheKey& key, const CachedCubin& code) const {
  return store_file(path_of(folder_, key, kKernelEnding), write_cache_file(key, code));
}

bool DiskCache::store_note(const CacheKey& key, std::span<const std::byte> note) const {
  return store_file(path_of(folder_, key, kNoteEnding), write_note_file(key, note));
}

bool DiskCache::store_file(const std::string& path, std::span<const std::byte> bytes) const {
  if (bytes.size() > limit_) return false;
  std::string temporary = temporary_name(folder_);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  File file(open(temporary.c_str(), kFlags, 0600));
  if (file.fd < 0 && errno == ENOENT) {
    make_folders(folder_, 0700);  // only the user may read compiled code
    file.fd = open(temporary.c_str(), kFlags, 0600);
  }
  if (file.fd < 0) return false;
  const bool written = write_whole(file.fd, bytes);
  if (!file.close() || !written || rename(temporary.c_str(), path.c_str()) != 0) {
    unlink(temporary.c_str());
    return false;
  }
  // Counting every file at every store would cost more than it brings; the first store of a process does count.
  static std::atomic<std::uint64_t> since_last{~std::uint64_t{0} / 2};
  if (since_last.fetch_add(bytes.size()) + bytes.size() > limit_ / 16) {
    since_last.store(0);
    evict();
  }
  return true;
}

std::uint64_t DiskCache::evict() const {
  const std::vector<Found> found = entries(folder_);
  std::uint64_t total = 0;
  for (const Found& f : found) total += f.bytes;
  if (total <= limit_) return total;
  const std::uint64_t aim = limit_ - limit_ / 8;  // so that not every store has to evict
  for (std::size_t i = found.size(); i-- > 0 && total > aim;) {
    if (unlink(found[i].path.c_str()) == 0 || errno == ENOENT) total -= found[i].bytes;
  }
  return total;
}

std::vector<CacheEntry> DiskCache::list() const {
  std::vector<CacheEntry> all;
  for (const Found& f : entries(folder_)) {
    if (!f.path.ends_with(kKernelEnding)) continue;
    CacheEntry entry;
    entry.file = f.path;
    entry.bytes = f.bytes;
    entry.last_use = f.seconds;
    const File file(open(f.path.c_str(), kReading));
    auto bytes = file.fd < 0 ? std::nullopt : read_whole(file.fd);
    if (auto code = bytes ? read_cache_file(std::move(*bytes), nullptr) : std::nullopt) {
      entry.valid = true;
      entry.cubin_bytes = code->cubin.size();
      entry.code = std::move(*code);
      entry.code.cubin.clear();
    }
    all.push_back(std::move(entry));
  }
  return all;
}

std::size_t DiskCache::clear() const {
  std::size_t removed = 0;
  for_each_file(folder_, [&](const std::string& name, const struct stat&) {
    const bool ours = name.ends_with(kKernelEnding) || name.ends_with(kNoteEnding) || name.starts_with(kTemporary);
    if (ours && unlink((folder_ + "/" + name).c_str()) == 0 && name.ends_with(kKernelEnding)) ++removed;
  });
  return removed;
}

}  // namespace tessera::jit
