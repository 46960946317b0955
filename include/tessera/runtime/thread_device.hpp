// The default device of one thread.
#pragma once
#include "tessera/runtime/device.hpp"

namespace tessera::runtime {

/// While it lives, default_device() of this thread is another one than that of the program. Threads of which each works
/// on a device of its own use it for what takes the default device, such as capture().
class ThreadDevice {
 public:
  explicit ThreadDevice(Device device) noexcept;
  ~ThreadDevice();
  ThreadDevice(const ThreadDevice&) = delete;
  ThreadDevice& operator=(const ThreadDevice&) = delete;

 private:
  Backend* before_;
};

}  // namespace tessera::runtime
