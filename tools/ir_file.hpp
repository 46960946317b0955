// Files of Tile IR, as text or as bytecode.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/ir/bytecode.hpp"

namespace tessera {

/// What a file holds, and every problem with it, a line for each: `file:line:column: message` for text, with the byte
/// for bytecode, with the user's line for what the verifier finds in bytecode that has locations.
struct IrFile {
  std::unique_ptr<ir::Module> module;  ///< null if it cannot be read
  bool is_bytecode = false;
  ir::BytecodeVersion version;  ///< of bytecode
  std::vector<std::string> problems;
};
/// Reads and verifies the file. Throws IoError if it cannot be opened.
IrFile read_ir_file(const std::string& path);
/// As read_ir_file(), for a file that must be valid. Throws CompileError with all problems of one that is not.
IrFile valid_ir_file(const std::string& path);

}  // namespace tessera
