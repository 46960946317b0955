// Device: a cheap handle; the default device and TESSERA_DEVICE.
#pragma once
#include <cstdint>
#include <string>

#include "tessera/base/source_location.hpp"

namespace tessera {

enum class DeviceKind : std::uint8_t { Cpu, Cuda, Fake };  ///< Fake: backends of tests

namespace runtime {
class Backend;
}

/// One device. Copyable, as cheap as a pointer, never empty; equal handles are the same device.
class Device {
 public:
  /// The CPU. Always available.
  static Device cpu();
  /// The GPU number `ordinal`, in the driver's order. Throws a DeviceError with what is missing if it cannot be used.
  static Device cuda(int ordinal = 0, SourceLocation where = SourceLocation::current());

  DeviceKind kind() const noexcept;
  int ordinal() const noexcept;
  /// "cpu", "cuda:0": the form of TESSERA_DEVICE and of errors.
  const std::string& name() const noexcept;
  bool operator==(const Device& other) const noexcept { return backend_ == other.backend_; }

  /// For backends: the device behind the handle, and a handle for it. The backend must outlive every handle.
  explicit Device(runtime::Backend& backend) noexcept : backend_(&backend) {}
  runtime::Backend& backend() const noexcept { return *backend_; }

 private:
  runtime::Backend* backend_;
};

/// The default device: that of set_default_device(); else TESSERA_DEVICE ("cpu", "cuda:0"); else the first GPU that
/// kernels can be compiled for; else the CPU. Throws DeviceError if TESSERA_DEVICE is not an existing device.
Device default_device(SourceLocation where = SourceLocation::current());
/// Changes the default for the whole process from now on; safe to call from any thread.
void set_default_device(Device device) noexcept;

namespace runtime {
/// The device that `text` names, in the form of TESSERA_DEVICE. Throws DeviceError that lists the choices.
Device parse_device(const std::string& text);
/// The device that TESSERA_DEVICE names now; if it is unset, the first GPU that kernels can be compiled for, else the
/// CPU. Throws DeviceError.
Device device_from_environment();
}  // namespace runtime

}  // namespace tessera
