// The kernel that sets the condition of a node. A handle can only be set by a function of CUDA's device runtime,
// cudaGraphSetConditional (CUDA C++ Programming Guide, "Conditional Graph Nodes"), and Tile IR has no call of foreign
// functions. The driver's PTX compiler knows that function by name, as it knows vprintf and malloc: a PTX module that
// declares it as external is complete. So this one kernel is PTX text, which the driver compiles when a graph needs it.
#include "runtime/cuda/conditions.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

/// Reads 1 or 4 bytes at `address`; not 0 means true. All parameters are 64 bits wide. PTX ISA 7.0 is the oldest with
/// sm_80, the oldest GPU of this library.
constexpr const char kText[] = R"(.version 7.0
.target sm_80
.address_size 64

.extern .func cudaGraphSetConditional
(
  .param .b64 handle,
  .param .b32 value
);

.visible .entry tessera_set_condition(
  .param .u64 handle,
  .param .u64 address,
  .param .u64 bytes,
  .param .u64 inverted
)
{
  .reg .pred %one_byte, %holds;
  .reg .b32 %element, %value, %flip;
  .reg .b64 %handle, %address, %bytes, %inverted;

  ld.param.u64 %handle, [handle];
  ld.param.u64 %address, [address];
  ld.param.u64 %bytes, [bytes];
  ld.param.u64 %inverted, [inverted];
  cvta.to.global.u64 %address, %address;
  setp.eq.u64 %one_byte, %bytes, 1;
  @%one_byte ld.global.u8 %element, [%address];
  @!%one_byte ld.global.u32 %element, [%address];
  setp.ne.u32 %holds, %element, 0;
  selp.u32 %value, 1, 0, %holds;
  cvt.u32.u64 %flip, %inverted;
  xor.b32 %value, %value, %flip;
  {
    .param .b64 handle_argument;
    .param .b32 value_argument;
    st.param.b64 [handle_argument], %handle;
    st.param.b32 [value_argument], %value;
    call.uni cudaGraphSetConditional, (handle_argument, value_argument);
  }
  ret;
}
)";
constexpr const char* kEntry = "tessera_set_condition";
constexpr const char* kPurpose = "making the conditions of a graph";

}  // namespace

ConditionKernel::~ConditionKernel() {
  if (module_ == nullptr) return;
  const Current current(context_, std::nothrow);
  if (!current) return;
  context_.synchronize();
  context_.driver().cuModuleUnload(module_);
}

void ConditionKernel::load(const RecordedWork& entry) {
  const Driver& driver = context_.driver();
  if (driver.cuGraphConditionalHandleCreate == nullptr || driver.cuStreamBeginCaptureToGraph == nullptr ||
      driver.cuGraphAddNode == nullptr) {
    throw DeviceError(concat(entry.label, " in a graph of ", context_.name(),
                             " needs a driver of CUDA 12.3 or newer (release 545); found one of CUDA ",
                             driver.version / 1000, ".", driver.version % 1000 / 10,
                             ".\n  Update the driver, or run the flow without a graph: it then reads the condition on "
                             "the host."),
                      entry.where);
  }
  const std::lock_guard lock(mutex_);
  if (function_ != nullptr) return;
  CUmodule module = nullptr;
  char log[1024] = "";
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  context_.check(driver.cuModuleLoadDataEx(&module, kText, 2, names, values), "cuModuleLoadDataEx", kPurpose);
  const CUresult found = driver.cuModuleGetFunction(&function_, module, kEntry);
  if (found == CUDA_SUCCESS) {
    module_ = module;
    return;
  }
  function_ = nullptr;
  driver.cuModuleUnload(module);
  context_.fail(found, "cuModuleGetFunction", kPurpose);
}

void ConditionKernel::set(CUgraphConditionalHandle handle, const RecordedWork& entry, bool inverted,
                          KernelNode& node) const {
  const GraphCondition& condition = entry.condition;
  std::uint64_t address = reinterpret_cast<std::uintptr_t>(condition.storage->data()) + condition.offset;
  std::uint64_t bytes = condition.bytes, flip = inverted ? 1 : 0;
  void* arguments[] = {&handle, &address, &bytes, &flip};
  CUDA_KERNEL_NODE_PARAMS kernel;
  kernel.func = function_;
  kernel.kernelParams = arguments;
  node.set(kernel, entry.label, entry.where);
}

}  // namespace tessera::runtime::cuda
