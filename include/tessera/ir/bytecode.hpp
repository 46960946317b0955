// Tile IR bytecode, versions 13.1 to 13.4.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::ir {

struct BytecodeVersion {
  std::uint8_t major = 13, minor = 4;
  auto operator<=>(const BytecodeVersion&) const = default;
};
struct WriteOptions {
  BytecodeVersion version;
  bool debug_info = true;
};
/// Throws CompileError (with the user's location) where the module needs a newer version than requested.
std::vector<std::byte> write_bytecode(const Module&, WriteOptions = {});
/// The oldest version that can hold the module.
BytecodeVersion required_version(const Module&);

}  // namespace tessera::ir
