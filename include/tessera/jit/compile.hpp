// From a recorded kernel to work that a stream can carry: passes, code generation for the device at hand, an in-memory
// cache.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/ir/operation.hpp"
#include "tessera/jit/tuning.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::jit {

/// A tensor argument, for the errors of checked mode.
struct TensorArgument {
  int slot = 0;       ///< of its address in the launch's arguments
  std::string label;  ///< "argument 1 (Mut<f32, 128>)"
};

struct CompileOptions {
  std::string label;  ///< names dumps
  bool checked = false;
  std::vector<TensorArgument> tensors = {};  ///< needed if checked; in the order of the launch's accesses
  bool raw_writes = true;                    ///< it may write memory of none of its tensors (unsafe_::Ptr)
  TuningId tuning = 0;                       ///< the record that the call names; without meaning if checked
};

/// Compiles the module's only entry for `device`. Equal modules are compiled once per device and process: concurrent
/// calls for the same one wait for the first. Throws CompileError (malformed module, no way to compile for the device).
std::shared_ptr<const runtime::Launchable> compile(const ir::Module& module, Device device,
                                                   const CompileOptions& options);

/// If TESSERA_DUMP asks for it, writes the module's bytecode as <TESSERA_DUMP_DIR>/<label>-<hash>.tilebc and its text
/// as .tileir. Throws IoError if that is not possible.
void dump(const ir::Module& module, const std::string& label);

}  // namespace tessera::jit
