// A CudaBackend on the fake driver, with the kernels that tests use.
#pragma once
#include <memory>
#include <string>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda_fake_driver.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime::cuda::fake {

/// Kernels by name: "mix" (y, x, addend): y = 31 y + x + addend, one u64 each. "checked" (y, x, addend, record): the
/// same, and its check fails where `addend` is odd: its index is addend / 2. "fault" (kind): the GPU faults.
void add_kernels(FakeDriver& driver);

struct Rig {
  FakeDriver driver;
  std::unique_ptr<CudaBackend> owned;
  CudaBackend& backend;

  explicit Rig(int devices = 1)
      : driver(devices),
        owned((add_kernels(driver), std::make_unique<CudaBackend>(driver.table(), 0))),
        backend(*owned) {}
  Device device() { return Device(backend); }
  /// "mix" and the others, loaded; `label` is how errors call them.
  std::shared_ptr<const Launchable> load(const std::string& kernel);

  StorageRef make(std::uint64_t value);
  std::uint64_t read(const StorageRef& storage);
  /// y = 31 y + x + addend, by the kernel given (see add_kernels).
  Ticket mix(const std::shared_ptr<const Launchable>& kernel, const Stream& stream, const StorageRef& y,
             const StorageRef& x, std::uint64_t addend = 0, const char* label = "kernel mix",
             AccessMode mode = AccessMode::ReadWrite);
};

}  // namespace tessera::runtime::cuda::fake
