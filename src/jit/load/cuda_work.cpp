// The image that the driver layer loads: the cubin and its ABI.
#include "jit/load/cuda_work.hpp"

#include "jit/load/generate.hpp"
#include "tessera/base/error.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::jit {
namespace {

/// Default devices are GPUs where this says yes.
bool can_compile_for(const runtime::cuda::DeviceInfo& gpu, std::string* why) {
  const std::string name = machine::gpu_name(gpu.sm());
  try {
    return bundles_serve(name) || assembler_for(name, why).has_value();
  } catch (const Error& error) {
    if (why) *why = error.message();
    return false;
  }
}
[[maybe_unused]] const bool probe_is_set = (runtime::cuda::set_compiler_probe(&can_compile_for), true);

}  // namespace

std::shared_ptr<const runtime::Launchable> make_cuda_work(const CodeShape& shape, const CachedCubin& code,
                                                          Device device, const CompileOptions& options,
                                                          CodeNotes& notes) {
  notes = notes_of(code);
  runtime::cuda::KernelImage image;
  image.cubin = code.cubin;
  image.label = "kernel " + options.label;
  image.abi = shape.abi;
  image.raw_writes = options.raw_writes;
  return runtime::cuda::load_kernel(device, image);
}

}  // namespace tessera::jit
