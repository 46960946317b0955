// Device handles, the default device, and device names.
#include "tessera/runtime/device.hpp"

#include <atomic>
#include <string_view>

#include "runtime/cpu/cpu_backend.hpp"
#include "runtime/cuda/backend.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/thread_device.hpp"

namespace tessera {

namespace {

std::atomic<runtime::Backend*> chosen{nullptr};

/// "cpu, cuda:0, cuda:1"
std::string choices() {
  std::string text = "cpu";
  for (int i = 0, n = runtime::cuda::device_count(); i < n; ++i) text += concat(", cuda:", i);
  return text;
}

/// The number in "cuda" or "cuda:N"; -1 if the text is neither.
int cuda_ordinal(std::string_view text) {
  if (text == "cuda") return 0;
  if (!text.starts_with("cuda:")) return -1;
  text.remove_prefix(5);
  if (text.empty() || text.size() > 4) return -1;
  int ordinal = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    ordinal = ordinal * 10 + (c - '0');
  }
  return ordinal;
}

}  // namespace

Device Device::cpu() { return Device(runtime::cpu_backend()); }

Device Device::cuda(int ordinal, SourceLocation where) {
  return runtime::at_line(where, [&] { return Device(runtime::cuda::backend_of(ordinal)); });
}

DeviceKind Device::kind() const noexcept { return backend_->kind(); }
int Device::ordinal() const noexcept { return backend_->ordinal(); }
const std::string& Device::name() const noexcept { return backend_->name(); }

/// The first GPU that kernels can be compiled for and whose context can be created, else the CPU.
static Device chosen_by_itself() {
  const runtime::cuda::CompilerProbe can_compile = runtime::cuda::compiler_probe();
  if (can_compile == nullptr) return Device::cpu();
  for (int i = 0, n = runtime::cuda::device_count(); i < n; ++i) {
    try {
      if (can_compile(runtime::cuda::describe_device(i), nullptr)) return Device::cuda(i, {});
    } catch (const DeviceError&) {
      // In exclusive use by another process, or out of memory: try the next one. `tessera doctor` prints the reason.
    }
  }
  return Device::cpu();
}

Device runtime::parse_device(const std::string& text) {
  if (text == "cpu") return Device::cpu();
  if (const int ordinal = cuda_ordinal(text); ordinal >= 0) return Device::cuda(ordinal, {});
  throw DeviceError(concat(
      "\"", text, "\" is not a device; expected cpu, cuda or cuda:N (devices of this machine: ", choices(), ")"));
}

Device runtime::device_from_environment() {
  const char* text = env(Env::DEVICE);
  if (text == nullptr) return chosen_by_itself();
  try {
    return parse_device(text);
  } catch (const DeviceError& error) { throw DeviceError(concat("TESSERA_DEVICE: ", error.message())); }
}

namespace {
thread_local runtime::Backend* chosen_here = nullptr;
}

runtime::ThreadDevice::ThreadDevice(Device device) noexcept : before_(chosen_here) { chosen_here = &device.backend(); }
runtime::ThreadDevice::~ThreadDevice() { chosen_here = before_; }

Device default_device(SourceLocation where) {
  if (chosen_here != nullptr) return Device(*chosen_here);
  runtime::Backend* backend = chosen.load(std::memory_order_acquire);
  if (backend == nullptr) {
    runtime::Backend* found = &runtime::at_line(where, runtime::device_from_environment).backend();
    backend = chosen.compare_exchange_strong(backend, found) ? found : backend;
  }
  return Device(*backend);
}

void set_default_device(Device device) noexcept { chosen.store(&device.backend(), std::memory_order_release); }

}  // namespace tessera
