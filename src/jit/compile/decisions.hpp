// TESSERA_DECISIONS: what was decided for each kernel that is compiled, as data.
#pragma once
#include <cstdint>
#include <string>

#include "jit/compile/pipeline.hpp"
#include "tessera/jit/code_report.hpp"

namespace tessera::jit {

/// Appends a line of JSON to the file that TESSERA_DECISIONS names; nothing without it. `hints`: those that were given,
/// as text. `seconds`: for passes and assembler, all forms that were tried. Throws IoError if the file cannot be
/// written.
///
///   {"kernel": "softmax", "where": "rows.cpp:12", "predicates": "3f", "gpu": "sm_90", "hints": "", "form": "",
///    "code": "9f86d0...", "warps": 4, "ctas": 1, "occupancy": 2, "latency": 0, "pieces": 1, "registers": 64,
///    "stack": 0, "shared": 1024, "threads": 128, "seconds": 0.8, "features": {"tile": 4096, ...}}
void note_decision(const std::string& label, std::uint64_t predicates, const Prepared& made, const std::string& hints,
                   const CodeNotes& notes, double seconds);

}  // namespace tessera::jit
