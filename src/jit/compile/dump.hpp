// TESSERA_DUMP=after:PASS.
#pragma once
#include <memory>
#include <string>

#include "tessera/jit/code_report.hpp"
#include "tessera/passes/pipeline.hpp"

namespace tessera::jit {

/// Writes the text after each pass that TESSERA_DUMP names as
/// <TESSERA_DUMP_DIR>/<label>-<target>-<hash>.<number>-<pass>.tileir; null if it names none. The target is "cpu" or
/// "sm_90", followed by "-fallback" or "-bare" for a fallback form; the hash is of the input of the passes. Throws
/// ConfigError for a pass that does not exist; writing throws IoError.
std::unique_ptr<passes::PassObserver> dump_after_passes(const ir::Module& given, const passes::Target& target,
                                                        const passes::Tuning& tuning, Form form,
                                                        std::uint64_t predicates, const std::string& label);

}  // namespace tessera::jit
