// The interface between what enqueues kernels (a queue, the capture of a graph) and the kernels: whether the preceding
// operation is a kernel (programmatic dependent launch), which tensors have no in-flight writer (launch flags), whether
// the kernel that follows gains from an early trigger, and error records of kernels with checks.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/outcomes.hpp"

namespace tessera::runtime::cuda {

/// The properties of a kernel's launch, set when it has been enqueued.
struct KernelLaunch {
  std::uint64_t id = 0;       ///< one for each loaded kernel, from 1 on
  bool programmatic = false;  ///< programmatic dependent launch: it may start before its predecessor has ended
  bool raw_writes = false;    ///< it may write outside its tensors
  bool gains = false;         ///< if programmatic: it gains from running concurrently with its predecessor
};

/// LaunchContext::native_launch points to one while a kernel is enqueued.
class LaunchState {
 public:
  LaunchState() = default;
  LaunchState(const LaunchState&) = delete;
  LaunchState& operator=(const LaunchState&) = delete;

  /// True if the kernel may start before its predecessor, a kernel, has ended.
  virtual bool follows_kernel() const noexcept = 0;
  /// True if the tensor of this launch at `address` has no in-flight writer: no work that may still run when this
  /// launch starts with programmatic dependent launch writes its memory.
  virtual bool no_writer_in_flight(std::uint64_t address) const noexcept = 0;
  /// True if the kernel after this one, whose id is `id`, is expected to gain from running concurrently with it.
  virtual bool successor_gains(std::uint64_t id) const noexcept = 0;
  /// For a kernel with checks: the address of its error record; none where no such kernel can be enqueued. Throws
  /// DeviceError.
  virtual std::optional<CUdeviceptr> error_record(const std::shared_ptr<const std::vector<calling::Check>>& checks) = 0;
  /// The user's call; empty if it is not known.
  virtual SourceLocation where() const noexcept = 0;
  /// Called by the work if it is a kernel, after the driver's launch call.
  virtual void enqueued_kernel(const KernelLaunch& kernel) noexcept = 0;

 protected:
  ~LaunchState() = default;
};

}  // namespace tessera::runtime::cuda
