// The assembler that this process uses for a GPU.
#pragma once
#include <optional>
#include <string>

#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::jit {

/// The assembler for `gpu`, looked for once per process and environment while there is none. `why` as in
/// tileiras::locate_assembler.
std::optional<tileiras::Assembler> assembler_for(const std::string& gpu, std::string* why = nullptr);

}  // namespace tessera::jit
