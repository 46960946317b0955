// Where the code of one recording is looked for before it is compiled, and kept afterwards. Two stores lie before
// these: the specializations of a Kernel, by device and predicates, and what is loaded in this process, by the identity
// of the code (generate.cpp).
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "jit/code/code_shape.hpp"
#include "jit/store/recording_notes.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::jit {

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
  std::optional<StoredCode> find(const CodeRequest& request) const;
  /// Keeps code that was compiled, under the chosen form, so that a later start does not try again a form that is
  /// rejected or spills.
  /// `cubin` names it in the disk cache.
  void put(const CodeRequest& request, const CodeShape& made, const CacheKey& cubin) const;

 private:
  std::optional<StoredCode> find_bundled(const CodeRequest& request, std::uint64_t predicates) const;
  const RecordingNotes* disk() const;
  void keep_predicates() const;

  const ir::Module& recording_;
  const analysis::LaunchContract& contract_;
  FactsOf facts_;
  std::optional<RecordingNotes> notes_;
  bool kept_ = false;  ///< the predicates are on disk
  analysis::LaunchPredicates predicates_;
};

}  // namespace tessera::jit
