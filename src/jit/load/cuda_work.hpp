// A compiled kernel on a GPU as work of a stream.
#pragma once
#include <memory>
#include <string>

#include "jit/compile/pipeline.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/jit/disk_cache.hpp"

namespace tessera::jit {

/// Loads a cubin on `device`, a GPU, and reports it to `notes`. Throws DeviceError.
std::shared_ptr<const runtime::Launchable> make_cuda_work(const CodeShape& shape, const CachedCubin& code,
                                                          Device device, const CompileOptions& options,
                                                          CodeNotes& notes);

}  // namespace tessera::jit
