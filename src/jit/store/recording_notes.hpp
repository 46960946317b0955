// Facts about a recording, cached on disk, so that a later process with the same recording goes directly to the cubin:
// no analysis, no passes, no bytecode. docs/jit.md, "Cached facts about recordings".
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "jit/code/code_shape.hpp"
#include "jit/store/build_id.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::jit {

/// Cached facts about one recording. Their names include the recording, the build of the compiler and the assembler, so
/// they never apply to another one. Facts that cannot be stored or do not verify count as not cached. Methods throw as
/// DiskCache::of_user() does.
class RecordingNotes {
 public:
  /// Empty where none are kept: the cache is switched off, or the build of the compiler has no name.
  static std::optional<RecordingNotes> of(const ir::Module& recording, const analysis::LaunchContract& contract,
                                          std::span<const std::byte> build = build_id());

  std::optional<analysis::LaunchPredicates> predicates() const;
  void keep(const analysis::LaunchPredicates& conditions) const;

  /// Compiled code, ready to be loaded.
  struct Known {
    CodeShape shape;
    CachedCubin code;
  };
  /// What the recording becomes where these obligations hold. Empty also where the note is there, but its cubin is not.
  /// `hints`: hints_text().
  std::optional<Known> code(std::uint64_t predicates, const passes::Target& gpu, const std::string& hints) const;
  /// `cubin` names it in the disk cache.
  void keep(std::uint64_t predicates, const passes::Target& gpu, const std::string& hints, const CodeShape& shape,
            const CacheKey& cubin) const;

 private:
  explicit RecordingNotes(const CacheKey& recording) noexcept : recording_(recording) {}
  std::optional<CacheKey> code_key(std::uint64_t predicates, const passes::Target& gpu, const std::string& hints) const;
  CacheKey recording_;  ///< by this build
};

}  // namespace tessera::jit
