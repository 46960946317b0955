// A kernel of a graph that is being made or changed.
#pragma once
#include "runtime/cuda/driver.hpp"
#include "tessera/base/source_location.hpp"

namespace tessera::runtime::cuda {

/// LaunchContext::native_node points to one: the launch does not enqueue its kernel, but gives it to a node of a graph.
class KernelNode {
 public:
  KernelNode() = default;
  KernelNode(const KernelNode&) = delete;
  KernelNode& operator=(const KernelNode&) = delete;

  /// The arguments that `kernel` points to are read during the call. `label` and `where` are those of errors. Throws
  /// DeviceError.
  virtual void set(const CUDA_KERNEL_NODE_PARAMS& kernel, const char* label, SourceLocation where) = 0;

 protected:
  ~KernelNode() = default;
};

}  // namespace tessera::runtime::cuda
