// A test of passes as a file: what runs, of which launch, the kernel before and the kernel after.
//
//   // Sentences that say what the file shows.
//   // passes: unmask                one or more, separated by commas; they run in the order of the table
//   // target: sm_90                 or cpu; sm_90 if the line is missing
//   // tuning: widths=0              as TESSERA_TUNING; may be missing
//   // launch: [8, 1000] [8, 1000] 3 the parameters in their order: extents of tensors, and numbers; at the end
//                                    blocks=5 where the kernel is launched with a number of blocks
//   // pieces: [1, 1024]             blocks have pieces of the first tensor; may be missing
//   entry @name(...) { ... }
//   // after
//   entry @name(...) { ... }
//
// Without `launch` nothing is known of the arguments, so that passes which need claims do nothing. Tensors are
// row-major, their addresses multiples of 256, and they do not overlap. TESSERA_UPDATE_TIR=1 writes what comes out.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/analysis/launch_contract.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/passes/target.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::test {

struct TirCase {
  std::string head;  ///< the comment lines
  std::vector<std::string> passes;
  passes::Target target{90, 132};
  passes::Tuning tuning;
  std::optional<analysis::LaunchContract> contract;
  std::vector<std::uint64_t> slots;  ///< of the launch, if there is a contract
  std::string before, after;
};

/// Throws std::runtime_error that says what is wrong with the file.
TirCase read_tir_case(const std::filesystem::path& file);
/// The text of the kernel after the passes.
std::string run_tir_case(const TirCase& test);
/// The file with another kernel after the passes.
std::string text_of(const TirCase& test, const std::string& after);

}  // namespace tessera::test
