// The few calls of the CUDA driver that timing needs, by dlopen: the benchmarks build and run where CUDA is absent. On
// other devices the same interface uses the host's clock.
#pragma once
#include <cstddef>
#include <string>

#include "tessera/runtime/device.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::measure {

/// A point in a stream's order that knows its time. Marks of one device can be subtracted.
class Mark {
 public:
  Mark();
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  /// Enqueues the mark behind everything that `stream` has been given so far.
  void place(const Stream& stream);
  /// Milliseconds from `start` to here; waits until both have been reached. Throws std::runtime_error.
  double since(const Mark& start) const;

 private:
  void* event_ = nullptr;  // CUevent
  double host_seconds_ = 0;
};

/// Makes the device ("cuda", "cuda:0", "cpu"; "": the default one) the process's default, and its context current on
/// this thread.
Device open_device(const std::string& name);
/// "NVIDIA H200, driver 13.0", or "cpu".
std::string device_description();
/// Enqueues device work of about `milliseconds`, so that the host can enqueue what is to be timed behind it. Does
/// nothing on the CPU.
void occupy(const Stream& stream, double milliseconds);

}  // namespace tessera::measure
