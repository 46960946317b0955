// Timing by marks of the runtime, with fills of a large storage as the work enqueued first.
#include "measure/device_clock.hpp"

#include <algorithm>
#include <thread>

#include "tessera/base/format.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/timing.hpp"

namespace tessera::measure {
namespace {

constexpr std::size_t kScratchBytes = std::size_t{1} << 28;
constexpr double kFillBytesPerMs = 3e9;  // of an H200; more or less does not matter

}  // namespace

std::string device_description(Device device) {
  if (device.kind() != DeviceKind::Cuda) return device.name();
  const runtime::cuda::DeviceInfo& gpu = runtime::cuda::device_info(device);
  return concat(gpu.name, ", driver API ", gpu.driver_version / 1000, ".", gpu.driver_version % 1000 / 10);
}

DeviceClock::DeviceClock(Stream stream) : stream_(std::move(stream)) {
  const Device device = stream_.device();
  if (device.kind() == DeviceKind::Cuda) scratch_ = runtime::Storage::allocate(device, kScratchBytes);
}

void DeviceClock::occupy(double milliseconds) {
  if (!scratch_) return;
  const double fills = std::max(1.0, milliseconds * kFillBytesPerMs / static_cast<double>(kScratchBytes));
  for (int i = 0; i < static_cast<int>(fills + 0.5); ++i) runtime::overwrite(stream_, scratch_, "work enqueued first");
}

void DeviceClock::rest() const {
  if (scratch_) std::this_thread::sleep_until(ended_ + std::chrono::duration<double, std::milli>(rest_ms()));
}

}  // namespace tessera::measure
