// The names of compiled code: what it follows from, and what it is. Names are SHA-256, because code is run if its name
// matches. They are made here and nowhere else.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "jit/code/sha256.hpp"
#include "tessera/abi/kernel_abi.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/analysis/launch_contract.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/passes/target.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::jit {

/// What code follows from. A store that keeps code by it has a recording_for_... of its own, which says what of a
/// recording must be equal, and `maker`: what else must be.
struct CodeKey {
  CacheKey recording{};
  std::uint64_t predicates = 0;  ///< of the launch, that hold
  passes::Target target;         ///< `num_sms` and `bytecode_minor` are 0 where code may be used for any
  std::string hints;             ///< hints_text()
  Form form = Form::Chosen;
  std::vector<std::byte> maker = {};
};
CacheKey name_of(const CodeKey& key);

/// SHA-256 over the whole recording, source lines included, and the launch contract. Everything that
/// this build of the compiler makes of a recording follows from what is hashed here. Any module will do, whether it
/// verifies or not.
CacheKey recording_key(const ir::Module& recording, const analysis::LaunchContract& contract);

/// The recording and its contract with their source lines, and the compiler: what one build makes of one recording.
CacheKey recording_for_disk(const ir::Module& recording, const analysis::LaunchContract& contract,
                            std::span<const std::byte> build);
/// What becomes of that recording (recording_for_disk()) with this assembler: another one may accept another form.
CacheKey name_on_disk(const CacheKey& recording, std::uint64_t predicates, const passes::Target& gpu,
                      const std::string& hints, const tileiras::Assembler& assembler);

/// The recording without its source lines, its contract and the meaning of its predicates: what releases have in
/// common. CodeKey::maker of bundles are calling::call_bytes().
CacheKey recording_for_bundles(const ir::Module& recording, const analysis::LaunchContract& contract,
                               const analysis::Facts& facts);

/// A module after the passes, as code: its bytecode with locations, and the texts of its checks, which are not in it.
CacheKey identity_of(std::span<const std::byte> bytecode, const std::vector<calling::Check>& checks);
/// The code of that identity, loaded on a device.
CacheKey name_in_memory(const CacheKey& identity, Device device, const CompileOptions& options);

/// Names of a cubin.
struct CubinNames {
  CacheKey cubin{};    ///< by all that it depends on
  CacheKey slow{};     ///< of the note that the assembler was too slow for it
  CacheKey attempt{};  ///< of making it within a limit of processor time: those with another limit do not wait for it
};
/// The bytecode is that of the newest version, whatever the assembler is given, and has the locations: profilers show
/// the user's lines.
CubinNames cubin_names(std::span<const std::byte> bytecode, const std::string& gpu,
                       const tileiras::Assembler& assembler, int opt_level, double processor_seconds);

}  // namespace tessera::jit
