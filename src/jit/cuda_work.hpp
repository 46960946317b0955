// A compiled kernel on a GPU as work of a stream.
#pragma once
#include <memory>
#include <string>

#include "jit/pipeline.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/jit/disk_cache.hpp"

namespace tessera::jit {

/// "sm_90" for 90.
std::string gpu_name(int sm);

/// Compiles the prepared module to a cubin (unless one is `ready` or cached) and loads it on `device`, a GPU; `notes`
/// is told of it. Throws CompileError or DeviceError.
std::shared_ptr<const runtime::Launchable> make_cuda_work(const Prepared&, Device device, const CompileOptions&,
                                                          const CachedCubin* ready, CodeNotes& notes);

}  // namespace tessera::jit
