// Tile IR bytecode, versions 13.1 to 13.4.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/error.hpp"
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

/// What read_bytecode() throws for bytes that are no bytecode, or none that a Module can hold. The message says what
/// was expected, what was found, and at which byte.
class BytecodeError : public CompileError {
 public:
  BytecodeError(const std::string& file, std::size_t offset, const std::string& message);
  ~BytecodeError() override;
  std::size_t offset() const noexcept { return offset_; }  ///< of the file, in bytes

 private:
  std::size_t offset_;
};

struct ReadOptions {
  std::string file = "<bytecode>";  ///< how messages name the bytes
  bool verify = true;               ///< false: the result may break Tile IR's rules (verifier.hpp)
};
struct ReadModule {
  std::unique_ptr<Module> module;
  BytecodeVersion version;  ///< of the file
};
/// Reads bytecode of versions 13.1 to 13.4 with the sections in any order. Written again in the same version, what
/// write_bytecode() wrote gives the same bytes. Of debug information the places of functions and operations are kept.
///
/// The bytes are not trusted: every count is compared with what is left before memory is taken, regions nest at most
/// 200 deep, types have at most 64 axes, and what is shared in the file takes at most 256 MiB where it is used. Throws
/// BytecodeError, or CompileError if the verifier finds that Tile IR's rules are broken. Names of files in locations
/// are kept for the life of the process.
ReadModule read_bytecode(std::span<const std::byte> bytes, const ReadOptions& options = {});

}  // namespace tessera::ir
