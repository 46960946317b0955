// A GPU of the fake driver without kernels, for tests of other folders: memory, streams and copies.
#pragma once
#include "runtime/cuda/backend.hpp"
#include "runtime/cuda_fake_driver.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::runtime::cuda::fake {

struct FakeGpu {
  explicit FakeGpu(FakeDriver& driver, int ordinal = 0) : backend(driver.table(), ordinal) {}
  Device device() { return Device(backend); }
  CudaBackend backend;
};

}  // namespace tessera::runtime::cuda::fake
