// Compiled kernels on disk, shared by all processes of a user. docs/jit.md describes the files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/jit/code_report.hpp"

namespace tessera::jit {

/// Compiled code, as it is kept.
struct CachedCubin {
  std::vector<std::byte> cubin;
  std::string label;      ///< the kernel
  std::string gpu;        ///< "sm_90"
  std::string assembler;  ///< release and origin of the assembler
  std::string warnings;   ///< what it said, one per line
  bool register_pressure = false;
  double seconds = 0;  ///< of processor time that the assembler took
};

/// One file of the cache, for `tessera cache`.
struct CacheEntry {
  std::string file;  ///< path
  std::uint64_t bytes = 0;
  std::int64_t last_use = 0;  ///< seconds since 1970
  bool valid = false;         ///< complete, undamaged, of this version; if not, the rest is empty
  CachedCubin code;           ///< without the cubin itself
  std::uint64_t cubin_bytes = 0;
};

/// A folder of entries: kernels, and cached facts about recordings. Safe for any number of processes and threads: files
/// are written under a temporary name and renamed, are verified before use, and may vanish at any time. Methods throw
/// only for lack of memory: failures of the disk count as "not cached".
class DiskCache {
 public:
  /// `limit`: bytes of all files together; the least recently used go first.
  DiskCache(std::string folder, std::uint64_t limit) : folder_(static_cast<std::string&&>(folder)), limit_(limit) {}
  /// The user's cache, as TESSERA_CACHE, TESSERA_CACHE_DIR and TESSERA_CACHE_MB say now; empty if switched off. Throws
  /// Error (kind "ConfigError") for invalid values.
  static std::optional<DiskCache> of_user();

  /// The entry, verified to the last bit; marks it as used. A damaged or foreign file is removed and not found.
  std::optional<CachedCubin> find(const CacheKey& key) const;
  /// False if it could not be written (full disk, no rights); nothing is left behind then.
  bool store(const CacheKey& key, const CachedCubin& code) const;
  /// The same for notes: a few hundred bytes that save a compilation. Their keys never equal those of kernels.
  std::optional<std::vector<std::byte>> find_note(const CacheKey& key) const;
  bool store_note(const CacheKey& key, std::span<const std::byte> note) const;
  /// Brings the folder below its limit, and removes what killed writers left; store() calls it when it has written a
  /// sixteenth of the limit since the last time. Returns the bytes that remain.
  std::uint64_t evict() const;

  std::vector<CacheEntry> list() const;  ///< the kernels, the most recently used first
  std::size_t clear() const;             ///< removes every entry; returns how many kernels that were
  const std::string& folder() const noexcept { return folder_; }
  std::uint64_t limit() const noexcept { return limit_; }

 private:
  bool store_file(const std::string& path, std::span<const std::byte> bytes) const;
  std::string folder_;
  std::uint64_t limit_;
};

}  // namespace tessera::jit
