// Loading cubins and launching their kernels.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/graph_node.hpp"
#include "runtime/cuda/image.hpp"
#include "runtime/cuda/kernel.hpp"
#include "runtime/cuda/launch_state.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime::cuda {

namespace {

/// While this thread captures a stream into a graph, perhaps for another library, the driver rejects loading code
/// unless the thread's mode is relaxed. What is loaded is no part of the graph.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver), relaxed_(exchange()) {}
  ~RelaxedCapture() {
    if (relaxed_) exchange();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  bool exchange() noexcept {
    return driver_.cuThreadExchangeStreamCaptureMode != nullptr &&
           driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
  const Driver& driver_;
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; after an exchange what was there before
  bool relaxed_;
};

/// A module of the driver. Its destructor waits for the device before it unloads the module, because launches of it may
/// still be queued.
class Module {
 public:
  Module(const Context& context, const KernelImage& image) : context_(context) {
    char log[1024] = "";
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    const RelaxedCapture relaxed(context.driver());
    const CUresult result = context.driver().cuModuleLoadDataEx(&module_, image.cubin.data(), 2, names, values);
    if (result == CUDA_SUCCESS) return;
    throw_rejected(result, image.label, log);
  }
  ~Module() {
    const Current current(context_, std::nothrow);
    if (!current) return;
    context_.synchronize();
    context_.driver().cuModuleUnload(module_);
  }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CUmodule get() const noexcept { return module_; }

 private:
  /// Throws CompileError for an image that this GPU or driver cannot run, DeviceError otherwise.
  [[noreturn]] void throw_rejected(CUresult result, const std::string& label, const char* log) {
    constexpr CUresult kImageResults[] = {200, 209, 218,
                                          222};  // invalid image, no binary for GPU, PTX of a newer toolkit
    for (const CUresult known : kImageResults) {
      if (result != known || context_.poisoned()) continue;
      throw CompileError(concat(label, ": the driver rejects its image on ", context_.name(), ": ",
                                result_text(context_.driver(), result), *log != '\0' ? "; its log: " : "", log, "\n  ",
                                result_info(result).fix));
    }
    context_.fail(result, "cuModuleLoadDataEx", {"loading the kernel", label.c_str(), {}});
  }

  const Context& context_;
  CUmodule module_ = nullptr;
};

class CudaKernel final : public KernelWork {
 public:
  CudaKernel(const Context& context, const KernelImage& image)
      : context_(context),
        label_(image.label),
        module_(context, image),
        abi_(image.abi),
        programmatic_launch_(abi_.programmatic_launch && waits_for_predecessor(image.cubin)),
        raw_writes_(image.raw_writes),
        sufficient_(
            (1u << (abi_.early_alone > 0 ? static_cast<std::size_t>(abi_.early_alone) : abi_.early_reads.size())) - 1),
        checks_(abi_.checks.empty() ? nullptr : std::make_shared<const std::vector<calling::Check>>(abi_.checks)) {
    check(context.driver().cuModuleGetFunction(&function_, module_.get(), abi_.entry.c_str()), "cuModuleGetFunction",
          "finding the kernel");
    // The query also makes a lazily loading driver load the code now, so that a failure is reported as one of loading.
    resources_.registers = attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
    resources_.threads = attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    resources_.static_shared = static_cast<std::size_t>(attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    resources_.local = static_cast<std::size_t>(attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  }

  const KernelResources& resources() const noexcept { return resources_; }
  bool programmatic() const noexcept override { return programmatic_launch_; }
  bool raw_writes() const noexcept override { return raw_writes_; }
  bool gains(const LaunchContext& c, const LaunchState& state) const noexcept override {
    return gains_from_overlap(c.grid, no_writer_bits(c.args, &state));
  }

  /// Allocates nothing, except for a kernel with checks or watched arguments.
  void launch(const LaunchContext& c) const override {
    const auto num_args = static_cast<std::size_t>(abi_.num_args);
    if (c.args.size() != num_args)
      throw InternalError(concat(label_, ": ", c.args.size(), " arguments for a kernel that takes ", num_args));
    std::array<void*, calling::kMaxArguments + 2> pointers;  // NOLINT: filled as far as it is read
    for (std::size_t i = 0; i < num_args; ++i) pointers[i] = const_cast<std::uint64_t*>(&c.args[i]);
    std::vector<CUdeviceptr> shadows;
    if (!abi_.watched.empty()) shadows = shadows_of(c);
    for (std::size_t i = 0; i < shadows.size(); ++i) pointers[num_args + i] = &shadows[i];
    std::size_t count = num_args + shadows.size();
    CUdeviceptr record = 0;
    auto* state = static_cast<LaunchState*>(c.native_launch);
    // After anything but a kernel (a wait for another stream, a copy) programmatic dependent launch gains nothing.
    const bool programmatic = programmatic_launch_ && state != nullptr && state->follows_kernel();
    const std::uint32_t no_writer = no_writer_bits(c.args, programmatic ? state : nullptr);
    std::uint64_t launch_flags = no_writer;  // an 8-byte slot like the others; the kernel reads the lower 4 bytes
    if (abi_.launch_flags) {
      if (state != nullptr && may_trigger(c.grid) && state->successor_gains(id_))
        launch_flags |= 1u << calling::kTriggerBit;
      pointers[count++] = &launch_flags;
    }
    if (checks_) {
      const auto address = state != nullptr ? state->error_record(checks_) : std::nullopt;
      if (!address)
        throw DeviceError(concat(label_,
                                 ": a kernel with check(...) cannot be captured into a graph on a GPU.\n  Capture a "
                                 "version of it without checks, or run the flow without a graph."));
      record = *address;
      pointers[count++] = &record;
    }
    start(c, pointers.data(), state != nullptr ? state->where() : SourceLocation(), programmatic);
    if (state != nullptr)
      state->enqueued_kernel({id_, programmatic, raw_writes_, gains_from_overlap(c.grid, no_writer)});
  }

 private:
  /// For each watched argument the address of its element's byte in the shadow of its storage.
  std::vector<CUdeviceptr> shadows_of(const LaunchContext& c) const {
    std::vector<CUdeviceptr> shadows;
    for (const calling::WatchedArgument& w : abi_.watched) {
      if (static_cast<std::size_t>(w.access) >= c.accesses.size())
        throw InternalError(concat(label_, ": a watched argument without a storage"));
      const Storage& storage = *c.accesses[static_cast<std::size_t>(w.access)].storage;
      const std::byte* const shadow = storage.shadow();
      if (shadow != nullptr && storage.shadow_element_bytes() != static_cast<std::size_t>(w.element_bytes))
        throw InternalError(concat(label_, ": elements of ", w.element_bytes, " bytes in a storage of elements of ",
                                   storage.shadow_element_bytes()));
      const std::uint64_t offset =
          c.args[static_cast<std::size_t>(w.arg)] - reinterpret_cast<std::uintptr_t>(storage.data());
      const auto element = offset / static_cast<std::uint64_t>(w.element_bytes);
      shadows.push_back(shadow == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(shadow) + element);
    }
    return shadows;
  }
  /// One bit for each of the early reads: set if the tensor has no in-flight writer. All are set if the launch starts
  /// after everything before it has ended (`state` null).
  std::uint32_t no_writer_bits(std::span<const std::uint64_t> args, const LaunchState* state) const noexcept {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < abi_.early_reads.size(); ++i) {
      const std::uint64_t address = args[static_cast<std::size_t>(abi_.early_reads[i])];
      if (state == nullptr || state->no_writer_in_flight(address)) bits |= std::uint32_t{1} << i;
    }
    return bits;
  }
  /// At most one block per SM: it fits beside the blocks of another kernel on any SM.
  bool is_small(const LaunchGrid& grid) const noexcept {
    return std::uint64_t{grid.x} * grid.y * grid.z <= static_cast<std::uint64_t>(context_.num_sms());
  }
  /// Whether the launch flags of this kernel may ask it to trigger (griddepcontrol.launch_dependents). Triggering makes
  /// each block start later, which slows a kernel with many short blocks.
  bool may_trigger(const LaunchGrid& grid) const noexcept { return !abi_.early_reads.empty() || is_small(grid); }
  /// Whether this kernel gains if its predecessor triggers it early. Blocks that only wait distribute unevenly over the
  /// SMs; blocks that read in the meantime gain, and so does a grid so small that it fits beside the predecessor's
  /// blocks. `no_writer`: no_writer_bits().
  bool gains_from_overlap(const LaunchGrid& grid, std::uint32_t no_writer) const noexcept {
    const bool reads = !abi_.early_reads.empty() && (no_writer & sufficient_) == sufficient_;
    return reads || is_small(grid);
  }
  void start(const LaunchContext& c, void** arguments, SourceLocation where, bool programmatic) const {
    if (c.native_node != nullptr) return set_node(c, arguments, where);
    const auto stream = static_cast<CUstream>(c.native_queue);
    const Driver& driver = context_.driver();
    CUresult result = CUDA_SUCCESS;
    if (programmatic) {
      CUlaunchAttribute attribute;
      attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attribute.value.programmaticStreamSerializationAllowed = 1;
      CUlaunchConfig config;
      config.gridDimX = c.grid.x;
      config.gridDimY = c.grid.y;
      config.gridDimZ = c.grid.z;
      config.hStream = stream;
      config.attrs = &attribute;
      config.numAttrs = 1;
      result = driver.cuLaunchKernelEx(&config, function_, arguments, nullptr);
    } else {
      result = driver.cuLaunchKernel(function_, c.grid.x, c.grid.y, c.grid.z, 1, 1, 1, 0, stream, arguments, nullptr);
    }
    context_.check(result, programmatic ? "cuLaunchKernelEx" : "cuLaunchKernel", {"launching", label_.c_str(), where});
  }

  void set_node(const LaunchContext& c, void** arguments, SourceLocation where) const {
    CUDA_KERNEL_NODE_PARAMS kernel;
    kernel.func = function_;
    kernel.gridDimX = c.grid.x;
    kernel.gridDimY = c.grid.y;
    kernel.gridDimZ = c.grid.z;
    kernel.kernelParams = arguments;
    static_cast<KernelNode*>(c.native_node)->set(kernel, label_.c_str(), where);
  }

  void check(CUresult result, const char* call, const char* what) const {
    context_.check(result, call, {what, label_.c_str(), {}});
  }
  int attribute(CUfunction_attribute which) const {
    int value = 0;
    check(context_.driver().cuFuncGetAttribute(&value, which, function_), "cuFuncGetAttribute", "examining the kernel");
    return value;
  }

  static std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  const Context& context_;
  const std::uint64_t id_ = next_id();
  std::string label_;
  Module module_;
  CUfunction function_ = nullptr;
  const calling::KernelAbi abi_;
  bool programmatic_launch_, raw_writes_;
  std::uint32_t sufficient_;  ///< no_writer_bits() with which it reads something before it waits
  std::shared_ptr<const std::vector<calling::Check>> checks_;
  KernelResources resources_;
};

/// An image from a cache or a bundle may come from another build of Tessera, or from elsewhere.
void check_abi(const KernelImage& image) {
  const std::size_t arguments = static_cast<std::size_t>(std::max(image.abi.num_args, 0)) + image.abi.watched.size();
  if (image.abi.num_args < 0 || arguments > calling::kMaxArguments)
    throw CompileError(concat(image.label, ": ", arguments, " arguments; a kernel takes at most ",
                              calling::kMaxArguments, ". Use fewer tensors."));
  if (const std::string fault = calling::fault_of(image.abi); !fault.empty())
    throw CompileError(concat(image.label, ": its image does not fit this build of Tessera: ", fault,
                              ".\n  Delete Tessera's cache, and build its bundles anew."));
}

}  // namespace

std::shared_ptr<const Launchable> load_kernel(Device device, const KernelImage& image) {
  check_abi(image);
  if (const std::string fault = image_fault(image.cubin); !fault.empty())
    throw CompileError(concat(image.label, ": its image is damaged and was not passed to the driver: ", fault,
                              ".\n  Delete Tessera's cache."));
  const Context& context = backend_of(device).context();
  const Current current(context);
  return std::make_shared<const CudaKernel>(context, image);
}

KernelResources kernel_resources(const Launchable& kernel) {
  if (const auto* loaded = dynamic_cast<const CudaKernel*>(&kernel)) return loaded->resources();
  throw InternalError("kernel_resources() of work that load_kernel() did not make");
}

}  // namespace tessera::runtime::cuda
