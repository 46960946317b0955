// Timing a stream's work by the device's own clock.
#pragma once
#include <chrono>
#include <string>

#include "tessera/runtime/timing.hpp"

namespace tessera::measure {

/// "NVIDIA H200, driver API 13.0", or "cpu".
std::string device_description(Device device);

/// Milliseconds that a GPU rests between two measurements. At its power limit it is faster the longer it rests, and a
/// peer measured from Python would rest longer than this program. So both rest for longer than either needs;
/// bench/gpu/torch_peers.py has the same number (bench/notes/gpu_method.md).
inline constexpr double kRestMs = 0.3;

class DeviceClock {
 public:
  explicit DeviceClock(Stream stream);

  /// kRestMs for a GPU, 0 for the CPU.
  double rest_ms() const { return scratch_ ? kRestMs : 0; }

  /// Milliseconds of device time of the work that `enqueue()` enqueues on the stream. Other device work of about
  /// `lead_ms` is enqueued first, so that the host runs ahead. Starts at least rest_ms() after the end of the last
  /// time(). Waits for the end of the work. Throws DeviceError.
  template <class F>
  double time(double lead_ms, F&& enqueue) {
    rest();
    occupy(lead_ms);
    const auto start = runtime::place_time_mark(stream_);
    enqueue();
    const auto end = runtime::place_time_mark(stream_);
    stream_.synchronize();
    ended_ = std::chrono::steady_clock::now();
    return end->seconds_since(*start) * 1e3;
  }

 private:
  /// Does nothing on the CPU, where work starts when it is enqueued.
  void occupy(double milliseconds);
  /// Waits until rest_ms() after the end of the last time().
  void rest() const;

  Stream stream_;
  runtime::StorageRef scratch_;
  std::chrono::steady_clock::time_point ended_;
};

}  // namespace tessera::measure
