// Which record a compilation takes its hints from.
#pragma once
#include <string>

#include "tessera/ir/operation.hpp"
#include "tessera/jit/tuning.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::jit {

/// What a record is compared with.
struct TuningSubject {
  std::string label;           ///< of the kernel, for errors
  std::string hash;            ///< as TuningRecord::hash
  std::string predicates;      ///< as TuningRecord::predicates
  std::string device;          ///< its name; empty: not on this machine, and not compared
  std::string gpu, assembler;  ///< as in TuningRecord
};

/// SHA-256 of a module without its source lines, as hexadecimal digits.
std::string hash_of(const ir::Module& module);
std::string predicates_text(std::uint64_t predicates);
/// The release of the assembler that compiles for `gpu`, "13.5"; empty if there is none.
std::string assembler_release(const std::string& gpu);
/// Of a recording on a device. `device` null: of a GPU that is not here.
TuningSubject tuning_subject(const std::string& label, const ir::Module& recording, std::uint64_t predicates,
                             const Device* device, const passes::Target& target);

/// The call's record (`given`), else a matching one of the process's records; null if there is neither. Throws
/// CompileError if the call's record is stale; IoError if TESSERA_RECORDS names a file that cannot be used.
const passes::Tuning* tuning_for(TuningId given, const std::string& label, const ir::Module& recording,
                                 std::uint64_t predicates, const Device* device, const passes::Target& target);

}  // namespace tessera::jit
