// A recording as a graph of the driver that has not been instantiated.
#pragma once
#include <utility>
#include <vector>

#include "runtime/cuda/driver.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::runtime::cuda {

class CudaBackend;

/// The kernel of an entry with scalars.
struct RecordedNode {
  CUgraphNode node = nullptr;
  bool in_body = false;          ///< of a loop or a branch
  bool successor_gains = false;  ///< LaunchState::successor_gains
};

/// Owns a graph of the driver.
class CapturedGraph {
 public:
  explicit CapturedGraph(const Driver& driver) noexcept : driver_(&driver) {}
  CapturedGraph(CapturedGraph&& other) noexcept
      : driver_(other.driver_), graph_(std::exchange(other.graph_, nullptr)), nodes_(std::move(other.nodes_)) {}
  CapturedGraph& operator=(CapturedGraph&&) = delete;
  ~CapturedGraph() { reset(); }

  CUgraph get() const noexcept { return graph_; }
  /// By RecordedWork::call_number.
  const std::vector<RecordedNode>& nodes() const noexcept { return nodes_; }
  void reset() noexcept {
    if (graph_ != nullptr) driver_->cuGraphDestroy(graph_);
    graph_ = nullptr;
  }
  /// Makes no call: in a child of fork(), or if the driver has destroyed the graph.
  void abandon() noexcept { graph_ = nullptr; }

 private:
  friend CapturedGraph capture_graph(CudaBackend& backend, const GraphRecording& recording);
  const Driver* driver_;
  CUgraph graph_ = nullptr;
  std::vector<RecordedNode> nodes_;
};

/// The backend's context is current. Throws DeviceError.
CapturedGraph capture_graph(CudaBackend& backend, const GraphRecording& recording);

}  // namespace tessera::runtime::cuda
