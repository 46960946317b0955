// Loops and branches of graphs: nodes with a condition, and the kernel that sets it.
#pragma once
#include <mutex>

#include "runtime/cuda/context.hpp"
#include "runtime/cuda/graph_node.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::runtime::cuda {

/// The kernel that copies a condition from memory to the handle that a node of a graph reads. Loaded at the first use.
class ConditionKernel {
 public:
  explicit ConditionKernel(const Context& context) noexcept : context_(context) {}
  ~ConditionKernel();
  ConditionKernel(const ConditionKernel&) = delete;
  ConditionKernel& operator=(const ConditionKernel&) = delete;

  /// Not while a stream of this thread is being captured. Throws DeviceError if the driver has no such nodes; `entry`
  /// is the loop or the branch that needs one.
  void load(const RecordedWork& entry);
  /// Adds it as `node`. `inverted`: the handle gets the opposite. `entry` is the loop or the branch.
  void set(CUgraphConditionalHandle handle, const RecordedWork& entry, bool inverted, KernelNode& node) const;

 private:
  const Context& context_;
  std::mutex mutex_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

}  // namespace tessera::runtime::cuda
