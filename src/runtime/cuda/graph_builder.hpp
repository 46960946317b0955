// The nodes of a graph of the driver, one after the other: kernels, conditions, and what can only be enqueued.
#pragma once
#include <optional>
#include <vector>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/graph_capture.hpp"
#include "runtime/cuda/graph_node.hpp"

namespace tessera::runtime::cuda {

class LaunchState;

/// Nodes that something follows, none of them twice.
using GraphNodes = std::vector<CUgraphNode>;

/// Adds nodes to a graph, or to a body of it, which is then `graph`. Every call throws DeviceError if the driver's
/// fails.
class GraphBuilder {
 public:
  GraphBuilder(CudaBackend& backend, CapturedGraph& whole, CUgraph graph) noexcept
      : backend_(backend), whole_(whole), graph_(graph) {}

  /// CUDA 12.3: programmatic edges, and capturing into a graph that exists.
  bool has_edges() const noexcept { return driver().version >= 12030; }

  /// The node of one kernel.
  class Kernel final : public KernelNode {
   public:
    /// `programmatic`: `after` is one kernel, and this one may start before that one has ended.
    Kernel(const GraphBuilder& builder, const GraphNodes& after, bool programmatic) noexcept
        : builder_(builder), after_(after), programmatic_(programmatic) {}
    void set(const CUDA_KERNEL_NODE_PARAMS& kernel, const char* label, SourceLocation where) override;
    CUgraphNode get() const noexcept { return node_; }

   private:
    const GraphBuilder& builder_;
    const GraphNodes& after_;
    const bool programmatic_;
    CUgraphNode node_ = nullptr;
  };

  /// Enqueues `entry` on a stream that captures. Appends the nodes that its followers have to follow to `ends`.
  void capture(const RecordedWork& entry, LaunchState& launch, const GraphNodes& after, GraphNodes& ends);

  /// Of one conditional node of this graph.
  CUgraphConditionalHandle make_condition() const;
  /// A loop or a branch whose body, which it returns, is empty.
  CUgraph add_conditional(CUgraphConditionalHandle handle, bool loop, const GraphNodes& after, CUgraphNode& node) const;

 private:
  class StreamCapture;
  const Driver& driver() const noexcept { return backend_.driver(); }
  void check(CUresult result, const char* call, const char* label = nullptr, SourceLocation where = {}) const {
    backend_.context().check(result, call, {"capturing a graph", label, where});
  }

  CudaBackend& backend_;
  CapturedGraph& whole_;
  CUgraph graph_;
  std::optional<PooledStream> stream_;  // of capture()
};

}  // namespace tessera::runtime::cuda
