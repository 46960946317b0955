// Timing a stream's work by the device's own clock.
#pragma once
#include <string>

#include "tessera/runtime/timing.hpp"

namespace tessera::measure {

/// "NVIDIA H200, driver API 13.0", or "cpu".
std::string device_description(Device device);

class DeviceClock {
 public:
  explicit DeviceClock(Stream stream);

  /// Milliseconds from before to after what `enqueue()` enqueues on the stream, behind device work of about `lead_ms`,
  /// so that the host can run ahead. Waits for its end. Throws DeviceError.
  template <class F>
  double time(double lead_ms, F&& enqueue) {
    occupy(lead_ms);
    const auto start = runtime::place_time_mark(stream_);
    enqueue();
    const auto end = runtime::place_time_mark(stream_);
    stream_.synchronize();
    return end->seconds_since(*start) * 1e3;
  }

 private:
  /// Does nothing on the CPU, where work begins when it is enqueued.
  void occupy(double milliseconds);

  Stream stream_;
  runtime::StorageRef scratch_;
};

}  // namespace tessera::measure
