// The driver through dlopen. Names and signatures: CUDA Driver API reference (cuda.h), whose versioned symbols are
// spelled out.
#include "measure/device_clock.hpp"

#include <dlfcn.h>

#include <chrono>
#include <stdexcept>

namespace tessera::measure {
namespace {

using runtime::host_work;
using runtime::LaunchContext;

bool on_cuda = false;
std::size_t scratch_bytes = 0;
unsigned long long scratch = 0;  // CUdeviceptr

// Declares a pointer to a driver function and loads it at first use.
template <class... A>
struct Call {
  const char* name;
  int (*function)(A...) = nullptr;
  void operator()(A... a) {
    if (!function) load();
    if (const int code = function(a...); code != 0)
      throw std::runtime_error(std::string(name) + " failed with CUDA driver error " + std::to_string(code));
  }
  void load() {
    static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) throw std::runtime_error("libcuda.so.1 is not here: timing on a GPU needs NVIDIA's driver");
    void* symbol = dlsym(library, name);
    if (!symbol) throw std::runtime_error(std::string("the CUDA driver has no ") + name);
    function = reinterpret_cast<int (*)(A...)>(symbol);
  }
};
Call<unsigned> init{"cuInit"};
Call<int*, int> device_get{"cuDeviceGet"};
Call<char*, int, int> device_name{"cuDeviceGetName"};
Call<int*> driver_version{"cuDriverGetVersion"};
Call<void**, int> primary_retain{"cuDevicePrimaryCtxRetain"};
Call<void*> set_current{"cuCtxSetCurrent"};
Call<void**, unsigned> event_create{"cuEventCreate"};
Call<void*> event_destroy{"cuEventDestroy_v2"};
Call<void*, void*> event_record{"cuEventRecord"};
Call<void*> event_synchronize{"cuEventSynchronize"};
Call<float*, void*, void*> event_elapsed{"cuEventElapsedTime"};
Call<unsigned long long*, std::size_t> allocate{"cuMemAlloc_v2"};
Call<unsigned long long, unsigned char, std::size_t, void*> memset_async{"cuMemsetD8Async"};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Runs `f` with the driver's stream when the work is enqueued (CUDA) or when its turn comes (CPU).
template <class F>
void enqueue(const Stream& stream, F f) {
  runtime::Submission s;
  s.work = host_work(f);
  s.label = "benchmark mark";
  stream.core()->submit(s);
}

}  // namespace

Mark::Mark() {
  if (on_cuda) event_create(&event_, 0);
}
Mark::~Mark() {
  if (event_ && event_destroy.function) event_destroy.function(event_);
}
void Mark::place(const Stream& stream) {
  enqueue(stream, [this](const LaunchContext& c) {
    if (on_cuda)
      event_record(event_, c.native_queue);
    else
      host_seconds_ = now();
  });
  if (!on_cuda) Stream(stream).synchronize();
}
double Mark::since(const Mark& start) const {
  if (!on_cuda) return (host_seconds_ - start.host_seconds_) * 1e3;
  float ms = 0;
  event_synchronize(event_);
  event_elapsed(&ms, start.event_, event_);
  return ms;
}

Device open_device(const std::string& name) {
  const Device device = name.empty() ? default_device() : runtime::parse_device(name);
  set_default_device(device);
  on_cuda = device.kind() == DeviceKind::Cuda;
  if (on_cuda) {
    int handle = 0;
    void* context = nullptr;
    init(0);
    device_get(&handle, device.ordinal());
    primary_retain(&context, handle);
    set_current(context);
    scratch_bytes = std::size_t{1} << 30;
    allocate(&scratch, scratch_bytes);
  }
  return device;
}

std::string device_description() {
  if (!on_cuda) return "cpu";
  char name[128] = {};
  int handle = 0, version = 0;
  device_get(&handle, default_device().ordinal());
  device_name(name, sizeof name, handle);
  driver_version(&version);
  return std::string(name) + ", driver API " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

void occupy(const Stream& stream, double milliseconds) {
  if (!on_cuda) return;
  constexpr double kBytesPerMs = 3e9;  // a memset of an H200 writes about 3 TB/s; more or less does not matter
  double bytes = milliseconds * kBytesPerMs;
  enqueue(stream, [&](const LaunchContext& c) {
    for (; bytes > 0; bytes -= static_cast<double>(scratch_bytes)) {
      const double part = bytes < static_cast<double>(scratch_bytes) ? bytes : static_cast<double>(scratch_bytes);
      memset_async(scratch, 0, static_cast<std::size_t>(part), c.native_queue);
    }
  });
}

}  // namespace tessera::measure
