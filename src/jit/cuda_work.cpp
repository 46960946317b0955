// The image that the driver layer loads: the cubin, its entry, and the messages of its checks.
#include "jit/cuda_work.hpp"

#include "jit/generate.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/passes/watch_writes.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::jit {
namespace {

/// Default devices are GPUs where this says yes.
bool can_compile_for(const runtime::cuda::DeviceInfo& gpu, std::string* why) {
  const std::string name = gpu_name(gpu.sm());
  try {
    return bundles_serve(name) || assembler_for(name, why).has_value();
  } catch (const Error& error) {
    if (why) *why = error.message();
    return false;
  }
}
[[maybe_unused]] const bool probe_is_set = (runtime::cuda::set_compiler_probe(&can_compile_for), true);

}  // namespace

std::string gpu_name(int sm) { return concat("sm_", sm); }

std::shared_ptr<const runtime::Launchable> make_cuda_work(const CodeShape& shape, const CachedCubin& code,
                                                          Device device, const CompileOptions& options,
                                                          CodeNotes& notes) {
  notes = notes_of(code);
  runtime::cuda::KernelImage image;
  image.cubin = code.cubin;
  image.entry = shape.entry;
  image.label = "kernel " + options.label;
  image.error_record = !shape.checks.empty();
  image.programmatic_launch = shape.programmatic_launch;
  image.num_args = shape.num_args;
  for (const WatchedTensor& w : shape.watched)
    image.watched.push_back({w.slot, static_cast<int>(image.watched.size()), w.element_bytes});
  static_assert(runtime::cuda::kMostEarlyReads == passes::kMostEarlyReads &&
                runtime::cuda::kTriggerBit == passes::kTriggerBit);
  static_assert(runtime::Storage::kNeverWritten == passes::kNeverWritten);
  image.launch_flags = shape.launch_flags;
  image.early_reads = shape.early_reads;
  image.early_alone = shape.early_alone;
  image.raw_writes = options.raw_writes;
  for (const passes::LoweredCheck& check : shape.checks) image.checks.push_back({check.message, check.where});
  return runtime::cuda::load_kernel(device, image);
}

}  // namespace tessera::jit
