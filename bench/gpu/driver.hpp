// The few calls of the CUDA driver that timing needs, by dlopen: the benchmarks build and run where CUDA is absent. On
// other devices the same interface uses the host's clock.
#pragma once
#include <cstddef>
#include <string>

#include "tessera/runtime/stream.hpp"

namespace gpu_bench {

/// A point in a stream's order that knows its time. Marks of one device can be subtracted.
class Mark {
 public:
  Mark();
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  /// Enqueues the mark behind everything that `stream` has been given so far.
  void place(const tessera::Stream& stream);
  /// Milliseconds from `start` to here; waits until both have been reached. Throws std::runtime_error.
  double since(const Mark& start) const;

 private:
  void* event_ = nullptr;  // CUevent
  double host_seconds_ = 0;
};

/// Chooses the device for the process ("cuda", "cuda:0", "cpu") and makes its context current on this thread.
tessera::Device open_device(const std::string& name);
/// "NVIDIA H200, driver 13.0", or "cpu".
std::string device_description();
/// Enqueues device work of about `milliseconds`, so that the host can enqueue what is to be timed behind it. Does
/// nothing on the CPU.
void occupy(const tessera::Stream& stream, double milliseconds);

}  // namespace gpu_bench
