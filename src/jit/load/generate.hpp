// From a prepared module to work of a stream: one way per kind of device.
#pragma once
#include "jit/compile/pipeline.hpp"
#include "jit/store/code_stores.hpp"
#include "tessera/jit/code.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/jit/disk_cache.hpp"

namespace tessera::jit {

/// What the passes may know about a device. Throws CompileError if Tessera generates no code for it.
passes::Target target_of(Device device);

/// The grid of a persistent kernel: no more blocks than fit on the GPU at once, as the compiled code says.
int filling_blocks(const CodeShape& shape, const CubinResources& resources, const passes::Target& target);

/// What the assembler reported; empty on the CPU.
inline CodeNotes notes_of_code(const Code& code) { return code.notes ? *code.notes : CodeNotes{}; }

/// Looks the prepared module up among what was compiled for `device`, or generates its code. Throws CompileError.
Code generate(const Prepared& prepared, Device device, const CompileOptions& options);

/// Loads code for a GPU whose cubin, and what else a launch needs, are known already. `target`: of the device.
Code generate(const StoredCode& stored, const passes::Target& target, Device device, const CompileOptions& options);

}  // namespace tessera::jit
