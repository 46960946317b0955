// Timing a stream's work by the device's own clock.
#pragma once
#include <chrono>
#include <string>

#include "tessera/runtime/timing.hpp"

namespace tessera::measure {

/// "NVIDIA H200, driver API 13.0", or "cpu".
std::string device_description(Device device);

/// Milliseconds that a GPU rests between two measurements. At its power limit it is faster the longer it rests: a peer
/// measured from Python rests 0.05 to 0.08 ms longer between two batches of a millisecond than this program would, and
/// that gave it 4 to 6 % (large products of bf16, one H200). So both rest for longer than either needs:
/// bench/gpu/torch_peers.py has the same number.
inline constexpr double kRestMs = 0.3;

class DeviceClock {
 public:
  explicit DeviceClock(Stream stream);

  /// kRestMs of a GPU, 0 of the CPU.
  double rest_ms() const { return scratch_ ? kRestMs : 0; }

  /// Milliseconds from before to after what `enqueue()` enqueues on the stream, behind device work of about `lead_ms`,
  /// so that the host can run ahead, and rest_ms() after the last of these. Waits for its end. Throws DeviceError.
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
  /// Does nothing on the CPU, where work begins when it is enqueued.
  void occupy(double milliseconds);
  /// Waits until rest_ms() after the end of the last time().
  void rest() const;

  Stream stream_;
  runtime::StorageRef scratch_;
  std::chrono::steady_clock::time_point ended_;
};

}  // namespace tessera::measure
