// The GPUs of this process, as the installed driver lists them, and their backends.
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cuda/backend.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

/// As count_gpus, of the installed driver.
std::string count_devices(int& count) {
  std::string why;
  count = 0;
  const Driver* driver = installed_driver(&why);
  return driver != nullptr ? count_gpus(*driver, count) : why;
}

const Driver& driver_or_throw(int ordinal) {
  int count = 0;
  const std::string why = count_devices(count);
  if (!why.empty()) throw DeviceError(concat("device cuda:", ordinal, " is not available: ", why));
  if (ordinal >= 0 && ordinal < count) return *installed_driver();
  throw DeviceError(concat("device cuda:", ordinal, " does not exist: the driver shows ", count,
                           count == 1 ? " GPU (cuda:0)" : " GPUs", ".\n  ", result_info(101).fix));
}

std::atomic<CompilerProbe> probe{nullptr};

}  // namespace

bool available(std::string* why) {
  int count = 0;
  const std::string reason = count_devices(count);
  if (why != nullptr) *why = reason;
  return reason.empty();
}

int device_count() noexcept {
  try {
    int count = 0;
    count_devices(count);
    return count;
  } catch (...) { return 0; }
}

DeviceInfo describe(const Driver& driver, int ordinal) {
  const auto check = [&](CUresult result, const char* call) {
    if (result == CUDA_SUCCESS) return;
    throw DeviceError(concat("examining cuda:", ordinal, " failed: ", result_text(driver, result), " in ", call,
                             ".\n  ", result_info(result).fix));
  };
  CUdevice device = 0;
  check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    check(driver.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  DeviceInfo info;
  char name[256] = "";
  check(driver.cuDeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
  info.name = name;
  check(driver.cuDeviceTotalMem(&info.memory, device), "cuDeviceTotalMem");
  info.compute_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  info.compute_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info.num_sms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info.l2_bytes = static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  info.shared_bytes_per_block =
      static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  info.shared_bytes_per_sm =
      static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  info.clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  info.memory_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  info.memory_bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  info.driver_version = driver.version;
  return info;
}

DeviceInfo describe_device(int ordinal) { return describe(driver_or_throw(ordinal), ordinal); }

CudaBackend& backend_of(int ordinal) {
  static std::mutex& mutex = *new std::mutex;  // neither is ever destroyed: streams may work while the process ends
  static auto& backends = *new std::vector<std::pair<int, CudaBackend*>>;
  std::lock_guard lock(mutex);
  for (const auto& [number, backend] : backends) {
    if (number == ordinal) return *backend;
  }
  backends.reserve(backends.size() + 1);
  auto backend = std::make_unique<CudaBackend>(driver_or_throw(ordinal), ordinal);
  backends.emplace_back(ordinal, backend.get());
  return *backend.release();
}

CudaBackend& backend_of(Device device) {
  if (device.kind() != DeviceKind::Cuda) throw InternalError(concat("device ", device.name(), " is no GPU"));
  return static_cast<CudaBackend&>(device.backend());
}

const DeviceInfo& device_info(Device device) { return backend_of(device).info(); }

void set_compiler_probe(CompilerProbe asked) noexcept { probe.store(asked, std::memory_order_release); }
CompilerProbe compiler_probe() noexcept { return probe.load(std::memory_order_acquire); }

}  // namespace tessera::runtime::cuda
