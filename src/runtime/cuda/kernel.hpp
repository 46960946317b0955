// What the capture of a graph asks of a kernel before it launches the one before it.
#pragma once
#include "tessera/runtime/backend.hpp"

namespace tessera::runtime::cuda {

class LaunchState;

/// A loaded kernel.
class KernelWork : public Launchable {
 public:
  const void* native_kernel() const noexcept final { return this; }
  /// Null if `work` is none.
  static const KernelWork* of(const Launchable& work) noexcept {
    return static_cast<const KernelWork*>(work.native_kernel());
  }
  /// True if its code waits for its predecessor, so that it may use programmatic dependent launch.
  virtual bool programmatic() const noexcept = 0;
  /// True if it may write outside its tensors.
  virtual bool raw_writes() const noexcept = 0;
  /// KernelLaunch::gains, if it is launched like this with programmatic dependent launch.
  virtual bool gains(const LaunchContext& context, const LaunchState& state) const noexcept = 0;
};

}  // namespace tessera::runtime::cuda
