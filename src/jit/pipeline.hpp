// The passes between a recording and code generation.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/sha256.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/passes/lower_checks.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::jit {

/// A tensor argument with a shadow in checked mode.
struct WatchedTensor {
  int slot = 0;           ///< of its address in the launch's arguments
  int element_bytes = 1;  ///< of one element
};

/// A scan along an axis that is not the last one with more than one element.
struct ScanAcross {
  SourceLocation where;
  int axis = 0, last = 0;
};

/// A module ready for code generation, and what the passes decided.
struct Prepared {
  std::unique_ptr<ir::Module> module;
  std::vector<std::byte> bytecode;  ///< of the module, in the newest version, with locations
  passes::Target target;
  passes::Choices choices;
  std::string tuning;  ///< hints that a record gave, as text
  Form form = Form::Chosen;
  Asked asked;                               ///< of the choices, what the report is compared with
  bool patient = false;                      ///< best_form(): the assembler gets all the time that there is
  std::vector<passes::LoweredCheck> checks;  ///< GPUs; if any, the entry's last argument is the error record
  std::vector<WatchedTensor> watched;        ///< GPUs: one argument each, after those that a launch passes
  std::vector<SourceLocation> whole_tiles;   ///< loads of regions that were recognised as tiles
  std::vector<ScanAcross> scans;             ///< of the recording, for advice: passes take them apart
  /// Blocks that fill the device once: the grid of persistent kernels.
  std::uint64_t persistent_blocks = 1;
};

/// What a launch needs of a prepared module besides its code.
struct CodeShape {
  Digest identity{};  ///< of what the code follows from: equal ones are the same code
  std::string entry;  ///< symbol in the cubin
  int num_args = 0;   ///< without the addresses of shadows, the launch flags and the address of the error record
  bool programmatic_launch = false;  ///< may be launched with PDL: it waits itself
  bool launch_flags = false;         ///< it takes one (passes::Choices)
  std::uint64_t pieces = 1;          ///< of the launch, for each block (passes::Choices)
  passes::GridAxes grid;             ///< of the launch (passes::Choices)
  std::vector<int> early_reads;      ///< arguments: addresses of tensors that it may read before it waits
  int early_alone = 0;               ///< the first so many of those, whatever the others are (passes::Choices)
  std::uint64_t persistent_blocks = 1;
  int occupancy = 0;  ///< blocks of an SM that it was compiled for; 0: left to the assembler
  int ctas = 1;       ///< per cluster
  std::vector<passes::LoweredCheck> checks;
  std::vector<WatchedTensor> watched;  ///< in the order of the launch's accesses
  Form form = Form::Chosen;
};
CodeShape shape_of(const Prepared& prepared);

/// The hints that prepare() hands to the passes, as text: those of TESSERA_TUNING, else of `tuning`. Throws
/// CompileError for values of TESSERA_TUNING that are invalid.
std::string hints_text(const passes::Tuning* tuning);

/// Runs the passes for `target` on a copy of `module`, which has been verified, making use of the obligations in
/// `held`; `facts` are the module's. `tuning` null: the passes decide. TESSERA_TUNING overrides it, and a
/// fallback form (forms_for()) overrides both. `label` names dumps.
Prepared prepare(const ir::Module& module, const analysis::Facts& facts, std::uint64_t held,
                 const passes::Target& target, const passes::Tuning* tuning = nullptr, Form form = Form::Chosen,
                 const std::string& label = {});
/// Verifies the module (CompileError if it breaks Tile IR's rules) and runs the passes on a copy, without claims: of
/// the launch nothing is known. For checked mode if `options` say so.
Prepared prepare(const ir::Module& module, const passes::Target& target, const CompileOptions& options,
                 Form form = Form::Chosen);

/// The module's only entry; throws CompileError if it has none.
const ir::Function& entry_of(const ir::Module& module);

}  // namespace tessera::jit
