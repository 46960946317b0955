// A libcuda.so.1 that does nothing: one GPU of compute capability 9.0 (or as NULL_DRIVER_SM says: 100 is 10.0), an H200
// in all other attributes, whose memory is the host's, whose work has always ended, and whose kernels never run. With
// it, a program measures the host cost of Tessera alone; no GPU is needed. Not for tests (they have a driver that
// reports misuse): it checks nothing. Signatures: "CUDA Driver API" reference, 13.0; tessera's own list of them is
// src/runtime/cuda/driver.def.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

namespace {

using Result = int;
using Address = std::uint64_t;
using Handle = void*;

constexpr Result kSuccess = 0, kNotFound = 500;
char object;  // what every handle points at
thread_local Handle current = nullptr;
unsigned long launches = 0;

// -- the device --
Result driver_version(int* version) { return *version = 13000, kSuccess; }
Result error_text(Result, const char** text) { return *text = "an error of the null driver", kSuccess; }
Result one(int* count) { return *count = 1, kSuccess; }
Result device_get(int* device, int) { return *device = 0, kSuccess; }
Result device_name(char* name, int size, int) {
  return std::strncpy(name, "null driver", static_cast<std::size_t>(size)), kSuccess;
}
Result device_memory(std::size_t* bytes, int) { return *bytes = std::size_t{1} << 34, kSuccess; }
int capability() {
  const char* named = std::getenv("NULL_DRIVER_SM");
  return named != nullptr && std::atoi(named) > 0 ? std::atoi(named) : 90;
}
Result device_attribute(int* value, int attribute, int) {
  switch (attribute) {                  // an H200's
    case 16: *value = 132; break;       // SMs
    case 38: *value = 60 << 20; break;  // L2
    case 75: *value = capability() / 10; break;
    case 76: *value = capability() % 10; break;
    case 81: *value = 233472; break;  // shared memory per SM
    case 97: *value = 232448; break;  // of a block
    default: *value = 1; break;
  }
  return kSuccess;
}

// -- contexts, streams, events, graphs --
Result context_retain(Handle* context, int) { return *context = &object, kSuccess; }
Result context_get(Handle* context) { return *context = current, kSuccess; }
Result context_set(Handle context) { return current = context, kSuccess; }
Result stream_context(Handle, Handle* context) { return *context = &object, kSuccess; }
Result stream_id(Handle, unsigned long long* id) { return *id = 1, kSuccess; }
Result stream_capturing(Handle, int* status) { return *status = 0, kSuccess; }
Result elapsed(float* milliseconds, Handle, Handle) { return *milliseconds = 0, kSuccess; }
Result end_capture(Handle, Handle* graph) { return *graph = &object, kSuccess; }
Result instantiate(Handle* exec, Handle, unsigned long long) { return *exec = &object, kSuccess; }
Result make(Handle* made, unsigned) { return *made = &object, kSuccess; }
Result make_pool(Handle* made, const void*) { return *made = &object, kSuccess; }
Result nothing() { return kSuccess; }  // whatever the arguments: the caller takes them away again

// -- memory --
Result allocate(Address* memory, std::size_t bytes, Handle, Handle) {
  void* const made = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  *memory = reinterpret_cast<std::uintptr_t>(made);
  return made != nullptr ? kSuccess : 2;
}
Result release(Address memory, Handle) { return std::free(reinterpret_cast<void*>(memory)), kSuccess; }
Result memory_info(std::size_t* free, std::size_t* total) { return *free = *total = std::size_t{1} << 34, kSuccess; }
/// With NULL_DRIVER_ZEROS, what a program copies to memory of host_allocate() is zeros: results of kernels, which are
/// whatever the memory held, would be tokens that do not exist.
class Results {
 public:
  void add(const void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (zeros_) ranges_[memory] = bytes;
  }
  void remove(const void* memory) {
    const std::lock_guard lock(mutex_);
    ranges_.erase(memory);
  }
  bool are_zeros_at(const void* memory) {
    const std::lock_guard lock(mutex_);
    const auto after = ranges_.upper_bound(memory);
    if (after == ranges_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(after);
    return static_cast<const char*>(memory) < static_cast<const char*>(begin) + bytes;
  }

 private:
  const bool zeros_ = std::getenv("NULL_DRIVER_ZEROS") != nullptr;
  std::mutex mutex_;
  std::map<const void*, std::size_t> ranges_;
};
Results& results() {
  static Results all;
  return all;
}
Result host_allocate(void** memory, std::size_t bytes, unsigned) {
  *memory = std::calloc(1, bytes);
  return results().add(*memory, bytes), kSuccess;
}
Result host_free(void* memory) { return results().remove(memory), std::free(memory), kSuccess; }
Result host_address(Address* address, void* memory, unsigned) {
  return *address = reinterpret_cast<std::uintptr_t>(memory), kSuccess;
}
Result copy(Address to, Address from, std::size_t bytes, Handle) {
  if (results().are_zeros_at(reinterpret_cast<void*>(to)))
    return std::memset(reinterpret_cast<void*>(to), 0, bytes), kSuccess;
  return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), kSuccess;
}
template <class T>
Result set(Address to, T value, std::size_t count, Handle) {
  for (std::size_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = value;
  return kSuccess;
}

// -- kernels --
Result load(Handle* module, const void*, unsigned, int*, void**) { return *module = &object, kSuccess; }
Result find(Handle* function, Handle, const char*) { return *function = &object, kSuccess; }
Result function_attribute(int* value, int, Handle) { return *value = 32, kSuccess; }
Result launch(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**) {
  return ++launches, kSuccess;
}
Result launch_ex(const void*, Handle, void**, void**) { return ++launches, kSuccess; }

struct Entry {
  const char* name;
  void* function;
};
template <class F>
void* any(F* function) {
  return reinterpret_cast<void*>(function);
}
const Entry kEntries[] = {
    {"cuDriverGetVersion", any(driver_version)},
    {"cuGetErrorName", any(error_text)},
    {"cuGetErrorString", any(error_text)},
    {"cuDeviceGetCount", any(one)},
    {"cuDeviceGet", any(device_get)},
    {"cuDeviceGetName", any(device_name)},
    {"cuDeviceTotalMem", any(device_memory)},
    {"cuDeviceGetAttribute", any(device_attribute)},
    {"cuDevicePrimaryCtxRetain", any(context_retain)},
    {"cuCtxGetCurrent", any(context_get)},
    {"cuCtxSetCurrent", any(context_set)},
    {"cuStreamCreate", any(make)},
    {"cuStreamGetCtx", any(stream_context)},
    {"cuStreamGetId", any(stream_id)},
    {"cuStreamIsCapturing", any(stream_capturing)},
    {"cuStreamEndCapture", any(end_capture)},
    {"cuGraphCreate", any(make)},
    {"cuGraphInstantiateWithFlags", any(instantiate)},
    {"cuEventCreate", any(make)},
    {"cuEventElapsedTime", any(elapsed)},
    {"cuMemPoolCreate", any(make_pool)},
    {"cuMemAllocFromPoolAsync", any(allocate)},
    {"cuMemFreeAsync", any(release)},
    {"cuMemGetInfo", any(memory_info)},
    {"cuMemHostAlloc", any(host_allocate)},
    {"cuMemFreeHost", any(host_free)},
    {"cuMemHostGetDevicePointer", any(host_address)},
    {"cuMemcpyAsync", any(copy)},
    {"cuMemsetD8Async", any(set<unsigned char>)},
    {"cuMemsetD16Async", any(set<unsigned short>)},
    {"cuMemsetD32Async", any(set<unsigned>)},
    {"cuModuleLoadDataEx", any(load)},
    {"cuModuleGetFunction", any(find)},
    {"cuFuncGetAttribute", any(function_attribute)},
    {"cuLaunchKernel", any(launch)},
    {"cuLaunchKernelEx", any(launch_ex)},
};

}  // namespace

/// The entry that finds the others. What is not in the table succeeds and does nothing.
extern "C" Result cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int*) {
  if (name == nullptr || function == nullptr) return kNotFound;
  *function = any(nothing);
  for (const Entry& entry : kEntries) {
    if (std::strcmp(entry.name, name) == 0) *function = entry.function;
  }
  return kSuccess;
}

extern "C" unsigned long tessera_null_driver_launches() { return launches; }
