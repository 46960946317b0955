// Tile IR on the CPU: a module is translated once to a Program, a Program runs any number of launches. It defines the
// meaning of every operation, is the oracle of differential tests and hosts the checked mode.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::cpu {

struct Grid {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// A stretch of memory that a launch may touch (checked mode): a tensor's storage.
struct Region {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  std::string label;  ///< how errors name it: "argument 1 (Mut<f32, 128>)"
  std::uint8_t* written =
      nullptr;  ///< one byte per byte of memory: nonzero once written; null: not tracked. Updated by the run.
};

struct RunOptions {
  int threads = 0;                  ///< 0: TESSERA_CPU_THREADS or all cores
  bool checked = false;             ///< find the mistakes that docs/cpu.md lists; each is a DeviceError
  std::span<const Region> regions;  ///< checked mode only
};

class Program {
 public:
  /// Translates the module's only entry. Throws CompileError for what the backend cannot run. The module is not kept.
  static std::shared_ptr<const Program> compile(const ir::Module&);
  virtual ~Program() = default;

  /// Runs every block of the grid and returns when all are done. `args`: one 8-byte slot per entry argument. A failed
  /// `assert` or a violation found by checked mode becomes a DeviceError with the kernel's file and line; other blocks
  /// may or may not have run.
  virtual void run(Grid, std::span<const std::uint64_t> args, const RunOptions& = {}) const = 0;
  virtual const std::string& name() const = 0;
};

}  // namespace tessera::cpu
