// NVIDIA's Tile IR assembler (`tileiras`): finding it, and turning bytecode into a cubin with it, as a child process.
// docs/tileiras.md says how to get it and what it does.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/ir/bytecode.hpp"

namespace tessera::tileiras {

/// The release that `tessera get-tileiras` fetches and the tests use. They read it here.
inline constexpr const char* kPinnedVersion = "13.5.37";

/// An assembler on this machine.
struct Assembler {
  std::string path;                            ///< of the executable
  std::string origin;                          ///< how it was found: "TESSERA_TILEIRAS", "the user's cache", ...
  int major = 0, minor = 0;                    ///< of the CUDA release it belongs to
  ir::BytecodeVersion newest_bytecode{13, 1};  ///< the newest version it reads, at most the newest that Tessera writes
  std::string identity;                        ///< size and time of the executable: changes when it is replaced
};

/// Looks for an assembler that can compile for `gpu` ("sm_90"), in this order: TESSERA_TILEIRAS, the folder that
/// `tessera get-tileiras` fills, CUDA toolkits of 13.3 or newer (13.1 for Blackwell, 13.2 for Ampere and Ada),
/// Python's site-packages. Throws CompileError that lists the places searched and the command that fixes it. Answers
/// are kept per executable (path, size, time), also in the user's cache for the next process.
Assembler find_assembler(const std::string& gpu);
/// The same without throwing; `why` receives the message.
std::optional<Assembler> locate_assembler(const std::string& gpu, std::string* why = nullptr);
/// What locate_assembler() finds, looked for once per process and environment while there is none: a start does not
/// look for an assembler at each kernel.
std::optional<Assembler> assembler_for(const std::string& gpu, std::string* why = nullptr);
/// The user's folder of fetched tools and compiled kernels: TESSERA_CACHE_DIR, else XDG_CACHE_HOME/tessera, else
/// ~/.cache/tessera; empty if the environment names none.
std::string cache_folder();
/// Folder where `tessera get-tileiras` puts the pinned release.
std::string fetched_folder();
/// How to get it, as a part of a message: "run tessera get-tileiras (...)".
inline constexpr const char* kHowToGet = "run tessera get-tileiras (in a clone without it: scripts/get-tileiras.sh)";

struct AssembleOptions {
  std::string gpu = "sm_90";
  int opt_level = 3;          ///< 0 to 3
  bool line_info = true;      ///< keep the user's source lines in the cubin
  bool remarks = false;       ///< collect the optimizer's remarks (YAML)
  double time_limit_s = 300;  ///< then the child is killed and TooSlow thrown
  /// Processor time of the child and what it starts, after which it is killed and TooSlow thrown; 0: no such limit. It
  /// does not depend on what else the machine does.
  double processor_limit_s = 0;
  std::string assembler;  ///< path of the executable; empty: find_assembler(gpu)
};

struct AssembleResult {
  std::vector<std::byte> cubin;
  std::vector<std::string> warnings;  ///< what it said on stderr although it succeeded, one message each
  bool register_pressure = false;     ///< "High register usage": several times slower than it should be
  std::string remarks;                ///< YAML, if requested
  double seconds = 0;                 ///< processor time of the child and what it started
};

/// The assembler does not compile the program: it says so, or crashes over it. Another program for the same kernel may
/// fare better. (What is killed from outside or cannot be started is a plain CompileError.)
class Rejection : public CompileError {
 public:
  using CompileError::CompileError;
};

/// The assembler was stopped at a limit of AssembleOptions. Another program for the same kernel may take less time.
class TooSlow : public CompileError {
 public:
  /// `by_processor`: at the limit of processor time, which it would reach again.
  TooSlow(std::string message, bool by_processor) : CompileError(std::move(message)), by_processor_(by_processor) {}
  bool by_processor() const noexcept { return by_processor_; }

 private:
  bool by_processor_;
};

/// Runs the assembler on bytecode. Any number of calls may run at once. Throws CompileError, with the user's source
/// line where the assembler names one: it is missing, rejects the program or crashes (Rejection), runs past a limit
/// (TooSlow), or gives no valid cubin.
AssembleResult assemble(std::span<const std::byte> bytecode, const AssembleOptions& options = {});

}  // namespace tessera::tileiras
