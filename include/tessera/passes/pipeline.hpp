// The pipeline as a table: the passes, when each runs, and ways to inspect the module between them.
// docs/compiler/README.md.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/analysis/facts.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/passes/certifier.hpp"
#include "tessera/passes/lower_checks.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"
#include "tessera/passes/watch_writes.hpp"

namespace tessera::passes {

/// When a pass runs.
enum class When : std::uint8_t {
  Always,   ///< for every target, the CPU too
  Gpu,      ///< for GPUs
  Relaxed,  ///< for GPUs, if relax_loop_tokens or relax_block_tokens changed anything
  Checked,  ///< Work::checked
  Claims,   ///< Work::claims are given; in a module's first entry, which they are about
  Code,     ///< Work::lower, for GPUs
};
/// In words: "GPUs".
const char* text(When) noexcept;

/// A row of passes.def.
struct PassInfo {
  const char* name;         ///< unique
  When when;                ///< it runs if this holds and its switch is not off
  const char* switch_word;  ///< of TESSERA_TUNING: with "split", split=0 disables the pass; null: none
  const char* page;         ///< in docs/compiler, maybe with #section; empty: none
  const char* doc;          ///< one line
};
/// All passes, in the order in which they run.
std::span<const PassInfo> pass_table() noexcept;
/// The row of that name; null if there is none.
const PassInfo* find_pass(std::string_view name) noexcept;

/// Called after each pass that ran.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  /// `number`: of the row, from 1.
  virtual void ran(const PassInfo& pass, int number, const ir::Module& module) = 0;
};

/// Input of run_passes besides module and target.
struct Work {
  std::optional<std::span<const analysis::Claim>> claims = {};  ///< about the module's own operations
  std::uint64_t predicates = 0;                                 ///< obligations that hold
  const analysis::LaunchContract* contract = nullptr;           ///< of the first entry; null: no guarantees
  const Certifier* certifier = nullptr;                         ///< for the claims of passes; null: none is used
  bool checked = false;                                         ///< checked mode on a GPU, instead of claims
  std::span<const WatchedTensor> watched = {};                  ///< of checked mode
  bool lower = false;                      ///< the module is for code generation: checks are lowered
  std::string_view stop_after = {};        ///< name of the last pass that may run; empty: all
  std::span<const std::string> only = {};  ///< names of the passes that may run; empty: all
  PassObserver* observer = nullptr;        ///< may be null
};

/// Result of run_passes.
struct Passed {
  Choices choices;                          ///< with the results of watch_writes() and lower_checks() in `abi`
  std::vector<SourceLocation> whole_tiles;  ///< regions_to_tiles(): of the loads that became loads of tiles
};

/// Runs the passes on every entry of `module`. `tuning` null: defaults. With verify_passes() the module is verified
/// after each pass; a violation is an InternalError that names the pass, the kernel and the operation. Throws
/// CompileError if an override is out of range, or no pass is called `stop_after` or a name of `only`.
Passed run_passes(ir::Module& module, const Target& target, const Tuning* tuning, const Work& work);

/// True if TESSERA_VERIFY is 1, or not set in a build with assertions (without NDEBUG).
bool verify_passes();

}  // namespace tessera::passes
