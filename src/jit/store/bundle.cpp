// The file of a bundle. All numbers are little-endian.
//
//   offset  0  8 bytes  "TSRBUNDL"
//           8  u32      version of the format
//          12  u32      number of entries
//          16           table: per entry its key (32), u64 offset and u64 length in the file, u32 compute capability,
//                       u32 zero; sorted by key
//   then 32             SHA-256 of everything before
//                       the entries, each a file of the disk cache (cache_file.hpp) under its key
#include "tessera/jit/bundle.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "jit/code/sha256.hpp"
#include "jit/store/cache_file.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::jit {
namespace {

constexpr char kMagic[8] = {'T', 'S', 'R', 'B', 'U', 'N', 'D', 'L'};
constexpr std::uint32_t kBundleVersion = 1;
constexpr std::size_t kBundleHeader = 16, kRow = 56, kBundleChecksum = sizeof(Digest);
constexpr std::uint32_t kMaxEntries = 1u << 20;

struct Handle {
  std::FILE* file;
  explicit Handle(std::FILE* f) noexcept : file(f) {}
  ~Handle() { close(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  bool close() noexcept {
    std::FILE* old = std::exchange(file, nullptr);
    return old == nullptr || std::fclose(old) == 0;
  }
  /// Bytes; 0 if that cannot be found out.
  std::uint64_t size() const noexcept {
    struct stat info {};
    return fstat(fileno(file), &info) == 0 && info.st_size > 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
  }
  bool read(std::uint64_t offset, std::span<std::byte> into) const noexcept {
    return std::fseek(file, static_cast<long>(offset), SEEK_SET) == 0 &&
           std::fread(into.data(), 1, into.size(), file) == into.size();
  }
};

[[noreturn]] void reject(const std::string& path, const char* why) {
  throw IoError(concat("the kernel bundle '", path, "' ", why, ": make it again with tessera build."));
}

void put(std::byte* to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}
std::uint64_t get(const std::byte* from, int bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

std::uint32_t sm_of(const std::string& gpu) {
  return gpu.starts_with("sm_") ? static_cast<std::uint32_t>(std::strtoul(gpu.c_str() + 3, nullptr, 10)) : 0;
}

std::vector<Bundle> open_all() {
  std::vector<Bundle> all;
  if (const char* paths = env(Env::BUNDLE)) {
    const std::string text = paths;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(':', at), text.size());
      if (end > at) all.emplace_back(text.substr(at, end - at));
      at = end + 1;
    }
    return all;
  }
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return all;
  const std::string beside = std::string(program, static_cast<std::size_t>(length)) + ".tessera";
  if (access(beside.c_str(), R_OK) != 0) return all;
  try {
    all.emplace_back(beside);
  } catch (const IoError&) {
    // It was not named explicitly: the program runs as if there were none.
  }
  return all;
}

}  // namespace

Bundle::Bundle(const std::string& path) : path_(path) {
  const Handle file(std::fopen(path.c_str(), "rb"));
  if (!file.file) throw IoError(concat("cannot open the kernel bundle '", path, "': ", std::strerror(errno)));
  std::vector<std::byte> head(kBundleHeader);
  if (!file.read(0, head) || std::memcmp(head.data(), kMagic, sizeof kMagic) != 0)
    reject(path, "is not a kernel bundle");
  if (get(&head[8], 4) != kBundleVersion) reject(path, "is of another version of Tessera");
  const std::uint64_t count = get(&head[12], 4);
  if (count > kMaxEntries) reject(path, "is damaged");
  // Nothing is allocated for what the file does not hold.
  if (file.size() < kBundleHeader + count * kRow + kBundleChecksum) reject(path, "is cut short");
  std::vector<std::byte> table(count * kRow + kBundleChecksum);
  if (!file.read(kBundleHeader, table)) reject(path, "is cut short");
  const Digest checksum = Sha256().add(head).add(std::span(table).first(count * kRow)).finish();
  if (std::memcmp(checksum.data(), &table[count * kRow], kBundleChecksum) != 0) reject(path, "is damaged");
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::byte* row = &table[i * kRow];
    Entry entry;
    std::memcpy(entry.key.data(), row, entry.key.size());
    entry.offset = get(row + 32, 8);
    entry.bytes = get(row + 40, 8);
    entry.sm = static_cast<std::uint32_t>(get(row + 48, 4));
    entries_.push_back(entry);
  }
}

CachedCubin Bundle::read(const Entry& entry) const {
  const Handle file(std::fopen(path_.c_str(), "rb"));
  if (!file.file) reject(path_, "cannot be read any more");
  if (entry.offset > file.size() || entry.bytes > file.size() - entry.offset) reject(path_, "is cut short");
  std::vector<std::byte> bytes(entry.bytes);
  if (!file.read(entry.offset, bytes)) reject(path_, "is cut short");
  auto code = read_cache_file(std::move(bytes), &entry.key);
  if (!code) reject(path_, "is damaged");
  return std::move(*code);
}

std::optional<CachedCubin> Bundle::find(const CacheKey& key) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), key,
                                   [](const Entry& entry, const CacheKey& k) { return entry.key < k; });
  if (at == entries_.end() || at->key != key) return std::nullopt;
  return read(*at);
}

std::vector<CachedCubin> Bundle::list() const {
  std::vector<CachedCubin> all;
  for (const Entry& entry : entries_) all.push_back(read(entry));
  return all;
}

bool Bundle::serves(const std::string& gpu) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.sm == sm_of(gpu); });
}

void write_bundle(const std::string& path, const std::vector<std::pair<CacheKey, CachedCubin>>& given) {
  std::vector<const std::pair<CacheKey, CachedCubin>*> entries;
  for (const auto& entry : given) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  const auto same = [](const auto* a, const auto* b) { return a->first == b->first; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
  std::vector<std::byte> head(kBundleHeader + entries.size() * kRow), body;
  std::memcpy(head.data(), kMagic, sizeof kMagic);
  put(&head[8], kBundleVersion, 4);
  put(&head[12], entries.size(), 4);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, code] = *entries[i];
    const std::vector<std::byte> file = write_cache_file(key, code);
    std::byte* row = &head[kBundleHeader + i * kRow];
    std::memcpy(row, key.data(), key.size());
    put(row + 32, head.size() + kBundleChecksum + body.size(), 8);
    put(row + 40, file.size(), 8);
    put(row + 48, sm_of(code.gpu), 4);
    const std::size_t at = body.size();
    body.resize(at + file.size());
    std::memcpy(&body[at], file.data(), file.size());
  }
  const Digest checksum = sha256(head);
  const std::string temporary = concat(path, ".tmp-", getpid());
  Handle file(std::fopen(temporary.c_str(), "wb"));
  bool good = file.file != nullptr;
  const auto write = [&](std::span<const std::byte> part) {
    good = good && (part.empty() || std::fwrite(part.data(), 1, part.size(), file.file) == part.size());
  };
  write(head);
  write(checksum);
  write(body);
  good = file.close() && good && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (good) return;
  const int error = errno;
  std::remove(temporary.c_str());
  throw IoError(concat("cannot write the kernel bundle '", path, "': ", std::strerror(error)));
}

const std::vector<Bundle>& bundles() {
  static const auto* const all = new std::vector<Bundle>(open_all());
  return *all;
}

std::optional<CachedCubin> find_in_bundles(const CacheKey& key) {
  for (const Bundle& bundle : bundles()) {
    if (auto code = bundle.find(key)) return code;
  }
  return std::nullopt;
}

bool bundles_serve(const std::string& gpu) {
  return std::any_of(bundles().begin(), bundles().end(), [&](const Bundle& b) { return b.serves(gpu); });
}

}  // namespace tessera::jit
