// The functions of the fake driver's table: each enters (counts, may fail), then does its work under the lock.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/cuda_fake_functions.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda::fake {

namespace {

/// A context's handle is its device's number plus one.
CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device) + 1); }

}  // namespace

struct Functions : GraphFunctions {
  using Step = FakeDriver::Step;
  using Kind = Step::Kind;
  static CUresult cuInit(unsigned) {
    TESSERA_FAKE(cuInit);
    return 0;
  }
  static CUresult cuDriverGetVersion(int* version) {
    TESSERA_FAKE(cuDriverGetVersion);
    *version = d.version_;
    return 0;
  }
  static CUresult cuGetErrorName(CUresult error, const char** text) {
    static thread_local std::string made;
    made = error == 0 ? "CUDA_SUCCESS" : concat("CUDA_ERROR_FAKE_", error);
    *text = made.c_str();
    return 0;
  }
  static CUresult cuGetErrorString(CUresult, const char** text) {
    *text = "as injected";
    return 0;
  }
  static CUresult cuDeviceGetCount(int* count) {
    TESSERA_FAKE(cuDeviceGetCount);
    *count = d.devices_;
    return 0;
  }
  static CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    TESSERA_FAKE(cuDeviceGet);
    if (ordinal < 0 || ordinal >= d.devices_) return 101;
    *device = ordinal;
    return 0;
  }
  static CUresult cuDeviceGetName(char* text, int size, CUdevice device) {
    TESSERA_FAKE(cuDeviceGetName);
    std::snprintf(text, static_cast<std::size_t>(size), "Fake GPU %d", device);
    return 0;
  }
  static CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
    TESSERA_FAKE(cuDeviceTotalMem);
    *bytes = d.memory_limit_;
    return 0;
  }
  static CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    TESSERA_FAKE(cuDeviceGetAttribute);
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                         : static_cast<int>(attribute) * 10;
    return 0;
  }
  static CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    TESSERA_FAKE(cuDeviceCanAccessPeer);
    *can = d.peers_ && device != peer ? 1 : 0;
    return 0;
  }
  static CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    TESSERA_FAKE(cuDevicePrimaryCtxRetain);
    ++d.retained_[device];
    *context = context_of(device);
    return 0;
  }
  static CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    TESSERA_FAKE(cuDevicePrimaryCtxRelease);
    if (--d.retained_[device] < 0) d.violate("a context was released more often than retained");
    return 0;
  }
  static CUresult cuCtxGetCurrent(CUcontext* context) {
    TESSERA_FAKE(cuCtxGetCurrent);
    *context = FakeDriver::current;
    return 0;
  }
  static CUresult cuCtxSetCurrent(CUcontext context) {
    TESSERA_FAKE(cuCtxSetCurrent);
    FakeDriver::current = context;
    return 0;
  }
  static CUresult cuCtxSynchronize() {
    TESSERA_FAKE(cuCtxSynchronize);
    if (d.invalidates_capture()) return FakeDriver::kCaptureUnsupported;
    d.run_all();
    return d.poisoned_;
  }
  static CUresult cuCtxRecordEvent(CUcontext, CUevent recorded) {
    TESSERA_FAKE(cuCtxRecordEvent);
    if (d.invalidates_capture()) return FakeDriver::kCaptureUnsupported;
    auto* event = d.event(recorded);
    if (event == nullptr) return 400;
    event->last = std::make_shared<FakeDriver::Moment>();
    event->last->streams = 0;
    for (const auto& stream : d.streams_) {
      if (stream->steps.empty()) continue;
      Step step;
      step.kind = Kind::Record;
      step.record = event->last;
      ++event->last->streams;
      stream->steps.push_back(std::move(step));
    }
    event->last->reached = event->last->streams == 0;
    return 0;
  }
  static CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
    TESSERA_FAKE(cuStreamCreate);
    if (flags != CU_STREAM_NON_BLOCKING) d.violate("a stream that is ordered with the legacy default stream");
    *stream = handle_of<CUstream>(d.make_stream());
    return 0;
  }
  static CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
    TESSERA_FAKE(cuStreamCreateWithPriority);
    if (flags != CU_STREAM_NON_BLOCKING) d.violate("a stream that is ordered with the legacy default stream");
    if (priority > 0 || priority < -5) d.violate("a priority that the driver would clamp");
    auto* made = d.make_stream();
    made->priority = priority;
    *stream = handle_of<CUstream>(made);
    return 0;
  }
  static CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    TESSERA_FAKE(cuCtxGetStreamPriorityRange);
    *least = 0;
    *greatest = -5;
    return 0;
  }
  static CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
    TESSERA_FAKE(cuStreamGetCtx);
    if (handle == legacy_stream()) {
      *context = FakeDriver::current;
      return 0;
    }
    const auto* stream = reinterpret_cast<FakeDriver::Stream*>(handle);
    if (stream->destroyed) return 400;
    *context = context_of(stream->device);
    return 0;
  }
  static CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
    TESSERA_FAKE(cuStreamGetId);
    const auto* stream = d.stream(handle);
    if (stream == nullptr) return 400;
    *id = stream->id;
    return 0;
  }
  static CUresult cuStreamQuery(CUstream handle) {
    TESSERA_FAKE(cuStreamQuery);
    const auto* stream = d.stream(handle);
    if (stream == nullptr) return 400;
    if (stream->capturing || stream->capture != nullptr) return 900;
    return stream->steps.empty() ? 0 : CUDA_ERROR_NOT_READY;
  }
  static CUresult cuStreamSynchronize(CUstream handle) {
    TESSERA_FAKE(cuStreamSynchronize);
    auto* stream = d.stream(handle);
    if (stream == nullptr) return 400;
    if (stream->capture != nullptr) {
      stream->invalid = true;
      return FakeDriver::kCaptureUnsupported;
    }
    return d.drain(stream);
  }
  static CUresult cuStreamWaitEvent(CUstream handle, CUevent waited, unsigned) {
    TESSERA_FAKE(cuStreamWaitEvent);
    auto* stream = d.stream(handle);
    auto* event = d.event(waited);
    if (stream == nullptr || event == nullptr) return 400;
    Step step;
    step.kind = Kind::Wait;
    step.record = event->last;
    stream->kernel_is_last = false;
    if (event->last != nullptr && event->last->captured) d.violate("a stream waits for an event of a capture");
    stream->steps.push_back(std::move(step));
    return 0;
  }
  static CUresult cuEventCreate(CUevent* event, unsigned flags) {
    TESSERA_FAKE(cuEventCreate);
    d.events_.push_back(std::make_unique<FakeDriver::Event>());
    d.events_.back()->timed = flags != CU_EVENT_DISABLE_TIMING;
    *event = handle_of<CUevent>(d.events_.back().get());
    return 0;
  }
  static CUresult cuEventRecord(CUevent recorded, CUstream handle) {
    TESSERA_FAKE(cuEventRecord);
    auto* stream = d.stream(handle);
    auto* event = d.event(recorded);
    if (stream == nullptr || event == nullptr) return 400;
    Step step;
    step.kind = Kind::Record;
    step.record = event->last = std::make_shared<FakeDriver::Moment>();
    event->last->captured = stream->capture != nullptr;
    stream->steps.push_back(std::move(step));
    return 0;
  }
  static CUresult cuEventQuery(CUevent handle) {
    TESSERA_FAKE(cuEventQuery);
    auto* event = d.event(handle);
    if (event == nullptr) return 400;
    return event->last == nullptr || event->last->reached ? 0 : CUDA_ERROR_NOT_READY;
  }
  static CUresult cuEventSynchronize(CUevent handle) {
    TESSERA_FAKE(cuEventSynchronize);
    auto* event = d.event(handle);
    return event == nullptr ? 400 : d.wait_for(event->last);
  }
  static CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
    TESSERA_FAKE(cuEventElapsedTime);
    const auto *a = d.event(from), *b = d.event(to);
    if (a == nullptr || b == nullptr || !a->timed || !b->timed || !a->last || !b->last) return 400;
    if (!a->last->reached || !b->last->reached) return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>(b->last->ms - a->last->ms);
    return 0;
  }
  static CUresult cuEventDestroy(CUevent handle) {
    TESSERA_FAKE(cuEventDestroy);
    if (auto* event = d.event(handle)) event->destroyed = true;
    return 0;
  }
  static CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
    TESSERA_FAKE(cuMemPoolCreate);
    if (properties->location.id < 0 || properties->location.id >= d.devices_) return 101;
    ++d.pools_;
    *pool = reinterpret_cast<CUmemoryPool>(static_cast<std::uintptr_t>(properties->location.id) + 1);
    return 0;
  }
  static CUresult cuMemPoolDestroy(CUmemoryPool) {
    TESSERA_FAKE(cuMemPoolDestroy);
    --d.pools_;
    return 0;
  }
  static CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
    TESSERA_FAKE(cuMemPoolSetAttribute);
    return 0;
  }
  static CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute attribute, void* value) {
    TESSERA_FAKE(cuMemPoolGetAttribute);
    if (attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) return 1;
    const std::uint64_t reserved = d.used_ + d.hoarded_;
    std::memcpy(value, &reserved, sizeof reserved);
    return 0;
  }
  static CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, std::size_t count) {
    TESSERA_FAKE(cuMemPoolSetAccess);
    const int owner = static_cast<int>(reinterpret_cast<std::uintptr_t>(pool)) - 1;
    if (count != 1 || access->location.id == owner || access->location.id >= d.devices_ || access->flags != 3) return 1;
    ++d.open_pools_;
    return 0;
  }
  static CUresult cuMemPoolTrimTo(CUmemoryPool, std::size_t) {
    TESSERA_FAKE(cuMemPoolTrimTo);
    d.hoarded_ = 0;
    return 0;
  }
  static CUresult cuMemAllocFromPoolAsync(CUdeviceptr* memory, std::size_t bytes, CUmemoryPool pool, CUstream handle) {
    TESSERA_FAKE(cuMemAllocFromPoolAsync);
    auto* stream = d.stream(handle);
    if (stream == nullptr || pool == nullptr || bytes == 0) return 400;
    if (bytes > d.memory_limit_ || d.used_ > d.memory_limit_ - bytes) {
      d.hoarded_ = d.memory_limit_ - d.used_;
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    void* made = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(made, 0xA5, bytes);
    *memory = reinterpret_cast<std::uintptr_t>(made);
    d.used_ += bytes;
    d.blocks_[*memory] = {bytes, false, false, FakeDriver::current_device(), made};
    Step step;
    step.kind = Kind::Alloc;
    step.to = *memory;
    stream->steps.push_back(std::move(step));
    return 0;
  }
  static CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream handle) {
    TESSERA_FAKE(cuMemFreeAsync);
    auto* stream = d.stream(handle);
    const auto block = d.blocks_.find(memory);
    if (stream == nullptr) return 400;
    if (block == d.blocks_.end() || block->second.freed) {
      d.violate("memory was freed twice, or never allocated");
      return 1;
    }
    block->second.freed = true;
    Step step;
    step.kind = Kind::Free;
    step.to = memory;
    stream->steps.push_back(std::move(step));
    return 0;
  }
  static CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
    TESSERA_FAKE(cuMemGetInfo);
    *total = d.memory_limit_;
    *free = d.memory_limit_ - d.used_;
    return 0;
  }
  static CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
    TESSERA_FAKE(cuMemHostAlloc);
    *memory = std::malloc(bytes);
    d.pinned_.insert(*memory);
    return 0;
  }
  static CUresult cuMemFreeHost(void* memory) {
    TESSERA_FAKE(cuMemFreeHost);
    if (d.pinned_.erase(memory) == 0) d.violate("pinned memory was freed twice");
    std::free(memory);
    return 0;
  }
  static CUresult cuMemHostGetDevicePointer(CUdeviceptr* memory, void* host, unsigned) {
    TESSERA_FAKE(cuMemHostGetDevicePointer);
    *memory = reinterpret_cast<std::uintptr_t>(host);
    return 0;
  }
  static CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream handle) {
    TESSERA_FAKE(cuMemcpyAsync);
    auto* stream = d.stream(handle);
    if (stream == nullptr) return 400;
    Step step;
    step.kind = Kind::Copy;
    step.to = to;
    step.from = from;
    step.bytes = bytes;
    stream->kernel_is_last = false;
    stream->steps.push_back(std::move(step));
    return 0;
  }
  static CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                    std::size_t bytes, CUstream handle) {
    TESSERA_FAKE(cuMemcpyPeerAsync);
    auto* stream = d.stream(handle);
    if (stream == nullptr) return 400;
    const auto device_of = [&](CUdeviceptr memory) {
      const auto block = std::prev(d.blocks_.upper_bound(memory));
      return context_of(block->second.device);
    };
    if (device_of(to) != to_context || device_of(from) != from_context)
      d.violate("a copy between GPUs with the wrong contexts");
    Step step;
    step.kind = Kind::Copy;
    step.to = to;
    step.from = from;
    step.bytes = bytes;
    stream->kernel_is_last = false;
    stream->steps.push_back(std::move(step));
    return 0;
  }
  static CUresult set(FakeDriver& d, CUdeviceptr to, unsigned value, unsigned size, std::size_t count,
                      CUstream handle) {
    auto* stream = d.stream(handle);
    if (stream == nullptr || to % size != 0) return 1;
    Step step;
    step.kind = Kind::Set;
    step.to = to;
    step.bytes = count * size;
    step.pattern = value;
    step.pattern_bytes = size;
    stream->kernel_is_last = false;
    stream->steps.push_back(std::move(step));
    return 0;
  }
  static CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
    TESSERA_FAKE(cuMemsetD8Async);
    return set(d, to, value, 1, count, stream);
  }
  static CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
    TESSERA_FAKE(cuMemsetD16Async);
    return set(d, to, value, 2, count, stream);
  }
  static CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
    TESSERA_FAKE(cuMemsetD32Async);
    return set(d, to, value, 4, count, stream);
  }
  static CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr memory) {
    TESSERA_FAKE(cuPointerGetAttribute);
    auto next = d.blocks_.upper_bound(memory);
    if (next == d.blocks_.begin()) return 1;
    const auto& [begin, block] = *std::prev(next);
    if (memory >= begin + block.bytes) return 1;
    switch (attribute) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *static_cast<unsigned*>(value) = CU_MEMORYTYPE_DEVICE; break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(value) = block.device; break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *static_cast<CUdeviceptr*>(value) = begin; break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<std::size_t*>(value) = block.bytes; break;
    }
    return 0;
  }
  /// Its one entry is a kernel of the fake driver.
  static CUresult load_ptx(FakeDriver& d, CUmodule* module, const std::string& text) {
    const std::size_t entry = text.find(".entry ") + 7;
    d.modules_.push_back(std::make_unique<FakeDriver::Module>());
    d.modules_.back()->kernel = text.substr(entry, text.find('(', entry) - entry);
    *module = handle_of<CUmodule>(d.modules_.back().get());
    return 0;
  }
  static CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned options, CUjit_option* names,
                                     void** values) {
    TESSERA_FAKE(cuModuleLoadDataEx);
    for (unsigned i = 0; i < options; ++i) {
      if (names[i] == CU_JIT_ERROR_LOG_BUFFER) std::strcpy(static_cast<char*>(values[i]), "fake log");
    }
    const auto* bytes = static_cast<const char*>(image);
    if (std::strncmp(bytes, ".version", 8) == 0) return load_ptx(d, module, bytes);
    const std::string kernel(bytes + FakeDriver::kName);
    if (kernel == "for another GPU") return 209;
    d.modules_.push_back(std::make_unique<FakeDriver::Module>());
    d.modules_.back()->kernel = kernel;
    d.modules_.back()->waits = bytes[FakeDriver::kLastInstruction] == 0x2E;
    *module = handle_of<CUmodule>(d.modules_.back().get());
    return 0;
  }
  static CUresult cuModuleUnload(CUmodule handle) {
    TESSERA_FAKE(cuModuleUnload);
    auto* module = reinterpret_cast<FakeDriver::Module*>(handle);
    if (module->unloaded) d.violate("a module was unloaded twice");
    for (const auto& stream : d.streams_) {
      for (const Step& step : stream->steps) {
        if (step.kind == Kind::Kernel && step.run == d.kernels_[module->kernel].run && d.poisoned_ == 0)
          d.violate("a module was unloaded while its kernel was queued");
      }
    }
    module->unloaded = true;
    return 0;
  }
  static CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* entry) {
    TESSERA_FAKE(cuModuleGetFunction);
    auto* module = reinterpret_cast<FakeDriver::Module*>(handle);
    const auto known = d.kernels_.find(entry);
    if (module->unloaded || module->kernel != entry || known == d.kernels_.end()) return 500;
    *function = handle_of<CUfunction>(module);
    return 0;
  }
  static CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
    TESSERA_FAKE(cuFuncGetAttribute);
    *value = 100 + static_cast<int>(attribute);
    return 0;
  }
  static CUresult start(FakeDriver& d, CUfunction function, std::array<unsigned, 3> grid, CUstream handle,
                        void** arguments, bool programmatic) {
    auto* stream = d.stream(handle);
    auto* module = reinterpret_cast<FakeDriver::Module*>(function);
    if (stream == nullptr) return 400;
    if (module->unloaded) d.violate("a kernel of an unloaded module was launched");
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return 1;
    const Kernel& kernel = d.kernels_[module->kernel];
    Step step;
    step.run = kernel.run;
    step.early = kernel.early;
    step.waits = module->waits;
    step.programmatic = programmatic;
    step.grid = grid;
    for (std::size_t i = 0; i < kernel.parameters; ++i) {
      std::uint64_t slot = 0;
      std::memcpy(&slot, arguments[i], sizeof slot);
      step.args.push_back(slot);
    }
    stream->steps.push_back(std::move(step));
    stream->kernel_is_last = true;
    if (stream->capture == nullptr && d.scheduler_ == nullptr) d.start_dependents(stream->steps);
    return 0;
  }
  static CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
    TESSERA_FAKE(cuThreadExchangeStreamCaptureMode);
    thread_local int current = 0;
    return std::swap(*mode, current), CUDA_SUCCESS;
  }
  static CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared_bytes, CUstream stream, void** arguments, void**) {
    TESSERA_FAKE(cuLaunchKernel);
    if (bx != 1 || by != 1 || bz != 1 || shared_bytes != 0) d.violate("a launch with a block of its own choosing");
    return start(d, function, {gx, gy, gz}, stream, arguments, false);
  }
  static CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void**) {
    TESSERA_FAKE(cuLaunchKernelEx);
    if (config->blockDimX != 1 || config->sharedMemBytes != 0 || config->numAttrs != 1 || config->attrs[0].id != 6)
      d.violate("an extended launch that is not a programmatic one");
    if (!reinterpret_cast<FakeDriver::Module*>(function)->waits)
      d.violate("a dependent launch of code that does not wait");
    if (const auto* stream = d.stream(config->hStream); stream != nullptr && !stream->kernel_is_last)
      d.violate("a dependent launch after something other than a kernel");
    return start(d, function, {config->gridDimX, config->gridDimY, config->gridDimZ}, config->hStream, arguments, true);
  }
};

void fill_table(Driver& table) {
#define TESSERA_CU(name, version, ...) table.name = Functions::name;
#include "runtime/cuda/driver.def"
}

}  // namespace tessera::runtime::cuda::fake
