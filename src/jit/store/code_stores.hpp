// Where the code of one recording is looked for before it is compiled, and kept afterwards: bundles, or notes on disk.
// Two stores lie before these: the specializations of a Kernel, by device and predicates, and what is loaded in this
// process, by the identity of the code (generate.cpp).
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/code/code_shape.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/base/build_id.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::jit {

/// Facts about one recording, cached on disk, so that a later process with the same recording goes directly to the
/// cubin: no analysis, no passes, no bytecode (docs/jit.md, "Cached facts about recordings"). Their names include the
/// recording, the build of the compiler and the assembler, so they never apply to another one. Facts that cannot be
/// stored or do not verify count as not cached.
class RecordingNotes {
 public:
  /// Empty where none are kept: the cache is switched off, or the build of the compiler has no name. Throws as
  /// DiskCache::of_user() does.
  static std::optional<RecordingNotes> of(const ir::Module& recording, const analysis::LaunchContract& contract,
                                          std::span<const std::byte> build = build_id());

  std::optional<analysis::LaunchPredicates> predicates() const;
  void keep(const analysis::LaunchPredicates& predicates) const;

  /// The name of what the recording becomes where these obligations hold; empty without an assembler, whose cubin could
  /// not be found either. `hints`: hints_text().
  std::optional<CacheKey> place(std::uint64_t predicates, const passes::Target& gpu, const std::string& hints) const;
  /// Compiled code, ready to be loaded.
  struct Known {
    CodeShape shape;
    CacheKey name{};  ///< of the cubin in the disk cache
    CachedCubin code;
  };
  /// Empty also where the note is there, but its cubin is not.
  std::optional<Known> code(const CacheKey& place) const;
  /// `cubin` names it in the disk cache.
  void keep(const CacheKey& place, const CodeShape& shape, const CacheKey& cubin) const;

 private:
  RecordingNotes(DiskCache cache, const CacheKey& recording) noexcept
      : cache_(std::move(cache)), recording_(recording) {}
  DiskCache cache_;
  CacheKey recording_;  ///< by this build
};

/// What a launch needs of a recording's code, as the bytes of a note: a stream of numbers and texts. The cubin is not
/// in it but named by it: recordings that become the same code share it.
std::vector<std::byte> write_code_note(const CodeShape& shape, const CacheKey& cubin);
/// False if the bytes are not such a note, or say what no launch could survive. A checksum says that a note is as it
/// was written, not that it was written by us: everything in it is checked. The texts of locations live as long as the
/// process.
bool read_code_note(std::span<const std::byte> note, CodeShape& shape, CacheKey& cubin);

/// What a launch on a GPU asks for.
struct CodeRequest {
  std::uint64_t predicates = 0;
  passes::Target target;
  std::string hints;            ///< hints_text()
  std::span<const Form> forms;  ///< in which it may be compiled
  /// What the passes make of the recording: bundles are searched by what they decide.
  std::function<CodeShape(const passes::Target&, std::uint64_t predicates, Form)> prepare;
};

/// Code that need only be loaded.
struct StoredCode {
  std::uint64_t predicates = 0;  ///< that it relies on: those of the request, or fewer
  passes::Target target;         ///< that it was made for: it may read other bytecode than that of the request
  CodeShape shape;
  std::optional<CacheKey> name;  ///< of the cubin in the disk cache
  CachedCubin cubin;
};

/// The name of the code of a recording in a bundle, in its chosen form, which a launch of `abi` passes arguments to.
CacheKey bundle_name(const ir::Module& recording, const analysis::LaunchContract& contract,
                     const analysis::Facts& facts, std::uint64_t predicates, int sm, const std::string& hints,
                     const calling::KernelAbi& abi);

/// A program with bundles takes code from them alone, others from the disk cache of the user.
class CodeStores {
 public:
  using FactsOf = std::function<const analysis::Facts&()>;
  /// `facts`: of the recording; it is called when a store needs them.
  CodeStores(const ir::Module& recording, const analysis::LaunchContract& contract, FactsOf facts);

  /// The predicates of the recording, which are also what an earlier process left on disk.
  const analysis::LaunchPredicates& predicates() const noexcept { return predicates_; }
  struct Answer {
    std::optional<StoredCode> code;
    std::optional<CacheKey> place;  ///< where code is kept that is compiled now, if it is kept at all
  };
  Answer find(const CodeRequest& request) const;
  /// Keeps code that was compiled, under the chosen form, so that a later start does not try again a form that is
  /// rejected or spills. `place`: of the answer to its request. `cubin` names it in the disk cache.
  void put(const CacheKey& place, const CodeShape& made, const CacheKey& cubin) const;

 private:
  std::optional<StoredCode> find_bundled(const CodeRequest& request, std::uint64_t predicates) const;
  void keep_predicates() const;

  const ir::Module& recording_;
  const analysis::LaunchContract& contract_;
  FactsOf facts_;
  std::optional<RecordingNotes> notes_;
  bool kept_ = false;  ///< the predicates are on disk
  analysis::LaunchPredicates predicates_;
};

}  // namespace tessera::jit
