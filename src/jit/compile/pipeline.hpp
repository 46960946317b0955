// The passes between a recording and code generation.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/code/code_shape.hpp"
#include "tessera/abi/kernel_abi.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::jit {

/// A scan along an axis that is not the last one with more than one element.
struct ScanAcross {
  SourceLocation where;
  int axis = 0, last = 0;
};

/// A module ready for code generation, and what the passes decided.
struct Prepared {
  std::unique_ptr<ir::Module> module;
  std::vector<std::byte> bytecode;  ///< of the module, in the newest version, with locations
  Digest identity{};                ///< of the code: identity_of()
  passes::Target target;
  passes::Choices choices;  ///< its ABI is complete
  std::string tuning;       ///< hints that a record gave, as text
  Form form = Form::Chosen;
  Asked asked;                              ///< of the choices, what the report is compared with
  bool patient = false;                     ///< best_form(): the assembler gets all the time that there is
  std::vector<SourceLocation> whole_tiles;  ///< loads of regions that were recognised as tiles
  std::vector<ScanAcross> scans;            ///< of the recording, for advice: passes take them apart
};

/// What a launch needs of a prepared module besides its code.
inline CodeShape shape_of(const Prepared& p) {
  return {p.identity, p.choices.abi, p.choices.occupancy, p.choices.ctas, p.form};
}

/// The hints that prepare() hands to the passes, as text: those of TESSERA_TUNING, else of `tuning`. Throws
/// CompileError for values of TESSERA_TUNING that are invalid.
std::string hints_text(const passes::Tuning* tuning);

/// Runs the passes for `target` on a copy of `module`, which has been verified, making use of the obligations in
/// `predicates`; `facts` are the module's. `tuning` null: the passes decide. TESSERA_TUNING overrides it, and a
/// fallback form (forms_for()) overrides both. `label` names dumps.
Prepared prepare(const ir::Module& module, const analysis::Facts& facts, std::uint64_t predicates,
                 const passes::Target& target, const passes::Tuning* tuning = nullptr, Form form = Form::Chosen,
                 const std::string& label = {});
/// Verifies the module (CompileError if it breaks Tile IR's rules) and runs the passes on a copy, without claims: of
/// the launch nothing is known. For checked mode if `options` say so.
Prepared prepare(const ir::Module& module, const passes::Target& target, const CompileOptions& options,
                 Form form = Form::Chosen);

}  // namespace tessera::jit
