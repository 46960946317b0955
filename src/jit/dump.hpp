// TESSERA_DUMP=after:PASS.
#pragma once
#include <memory>
#include <string>

#include "tessera/jit/code_report.hpp"
#include "tessera/passes/pipeline.hpp"

namespace tessera::jit {

/// Writes the text behind each pass that TESSERA_DUMP names as
/// <TESSERA_DUMP_DIR>/<label>-<target>-<hash>.<number>-<pass>.tileir; null if it names none. The target is "cpu" or
/// "sm_90", with "-plain" or "-bare" behind it for a plainer form; the hash is of what the passes are given. Throws
/// ConfigError for a pass that does not exist; writing throws IoError.
std::unique_ptr<passes::PassObserver> dump_after_passes(const ir::Module& given, const passes::Target& target,
                                                        const passes::Tuning& tuning, Form form, std::uint64_t held,
                                                        const std::string& label);

}  // namespace tessera::jit
