// A CudaBackend on the fake driver, with the kernels that tests use.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda_fake_driver.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime::cuda::fake {

/// Kernels by name: "mix" (y, x, addend): y = 31 y + x + addend, one u64 each. "checked" (y, x, addend, record): the
/// same, and its check fails where `addend` is odd: its index is addend / 2. "fault" (kind): the GPU faults. "eager"
/// (y, x, addend, launch flags): the same as "mix", but x is read before the wait if bit 0 is set, y if bit 1 is.
void add_kernels(FakeDriver& driver);
void start_eager(Call& call);
void run_eager(const Call& call);

struct Rig {
  FakeDriver driver;
  std::unique_ptr<CudaBackend> owned;
  CudaBackend& backend;

  explicit Rig(int devices = 1, int version = 13000)
      : driver(devices, version),
        owned((add_kernels(driver), std::make_unique<CudaBackend>(driver.table(), 0))),
        backend(*owned) {}
  Device device() { return Device(backend); }
  /// "mix" and the others, loaded; `label` is their name in errors.
  std::shared_ptr<const Launchable> load(const std::string& kernel);
  /// "mix" whose code waits for its predecessor, so it may use programmatic dependent launch.
  std::shared_ptr<const Launchable> load_early();
  /// "eager", which may start before its predecessor has ended, and reads these of its arguments before it waits.
  std::shared_ptr<const Launchable> load_eager(std::vector<int> early_reads = {1, 0}, bool raw_writes = false,
                                               int early_alone = 0);

  /// The driver's blocks in use after all work, without what streams keep to use again.
  int blocks_in_use() {
    backend.trim_memory();
    driver.run_all();
    return driver.live_blocks();
  }
  StorageRef make(std::uint64_t value);
  std::uint64_t read(const StorageRef& storage);
  /// y = 31 y + x + addend, by the kernel given (see add_kernels).
  Ticket mix(const std::shared_ptr<const Launchable>& kernel, const Stream& stream, const StorageRef& y,
             const StorageRef& x, std::uint64_t addend = 0, const char* label = "kernel mix",
             AccessMode mode = AccessMode::ReadWrite);
};

}  // namespace tessera::runtime::cuda::fake
