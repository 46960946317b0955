// The driver's calls that add nodes.
#include "runtime/cuda/graph_builder.hpp"

#include <memory>

#include "runtime/cuda/launch_state.hpp"

namespace tessera::runtime::cuda {

// -- kernels ---------------------------------------------------------------------------------------------------------

void GraphBuilder::Kernel::set(const CUDA_KERNEL_NODE_PARAMS& kernel, const char* label, SourceLocation where) {
  const Driver& driver = builder_.driver();
  if (!programmatic_)
    return builder_.check(driver.cuGraphAddKernelNode(&node_, builder_.graph_, after_.data(), after_.size(), &kernel),
                          "cuGraphAddKernelNode", label, where);
  CUgraphEdgeData edge;
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  CUgraphNodeParams parameters;
  parameters.type = CU_GRAPH_NODE_TYPE_KERNEL;
  std::construct_at(&parameters.kernel, kernel);
  builder_.check(driver.cuGraphAddNode(&node_, builder_.graph_, after_.data(), &edge, 1, &parameters), "cuGraphAddNode",
                 label, where);
}

// -- work that can only be enqueued ----------------------------------------------------------------------------------

/// Ends the capture in any case.
class GraphBuilder::StreamCapture {
 public:
  /// Before CUDA 12.3 no stream captures into a graph that exists, and some work must not: it becomes a graph within
  /// the graph.
  StreamCapture(const GraphBuilder& builder, const RecordedWork& entry, const GraphNodes& after)
      : builder_(builder),
        entry_(entry),
        after_(after),
        stream_(builder.stream_->get()),
        apart_(!builder.has_edges() || entry.call.work->captured_apart()) {
    constexpr int kMode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    if (!apart_) {
      check(driver().cuStreamBeginCaptureToGraph(stream_, builder.graph_, after.data(), nullptr, after.size(), kMode),
            "cuStreamBeginCaptureToGraph");
    } else {
      check(driver().cuStreamBeginCapture(stream_, kMode), "cuStreamBeginCapture");
    }
  }
  /// After an error. "Ownership [of the graph] is transferred or destroyed" at the end of a capture (the driver's
  /// reference, cuStreamGetCaptureInfo): a graph that it does not return is not touched again.
  ~StreamCapture() {
    if (!open_) return;
    CUgraph partial = nullptr;
    driver().cuStreamEndCapture(stream_, &partial);
    if (apart_) {
      if (partial != nullptr) driver().cuGraphDestroy(partial);
    } else if (partial == nullptr) {
      builder_.whole_.abandon();
    }
  }
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  void end(GraphNodes& ends) {
    if (apart_) return ends.push_back(end_as_child());
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    unsigned long long id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* nodes = nullptr;
    std::size_t count = 0;
    check(driver().cuStreamGetCaptureInfo(stream_, &status, &id, &graph, &nodes, &count), "cuStreamGetCaptureInfo");
    ends.insert(ends.end(), nodes, nodes + count);
    end_capture();
  }

 private:
  CUgraphNode end_as_child() {
    const CUgraph child = end_capture();
    CUgraphNode node = nullptr;
    const CUresult result =
        driver().cuGraphAddChildGraphNode(&node, builder_.graph_, after_.data(), after_.size(), child);
    driver().cuGraphDestroy(child);  // the node has a copy
    check(result, "cuGraphAddChildGraphNode");
    return node;
  }
  CUgraph end_capture() {
    CUgraph graph = nullptr;
    check(driver().cuStreamEndCapture(stream_, &graph), "cuStreamEndCapture");
    open_ = false;
    return graph;
  }
  const Driver& driver() const noexcept { return builder_.driver(); }
  void check(CUresult result, const char* call) const { builder_.check(result, call, entry_.label, entry_.where); }

  const GraphBuilder& builder_;
  const RecordedWork& entry_;
  const GraphNodes& after_;
  CUstream stream_;
  const bool apart_;
  bool open_ = true;
};

void GraphBuilder::capture(const RecordedWork& entry, LaunchState& launch, const GraphNodes& after, GraphNodes& ends) {
  if (!stream_) stream_.emplace(backend_.streams(), 0);
  StreamCapture capture(*this, entry, after);
  entry.call.work->launch({entry.call.grid, entry.call.args, entry.accesses, stream_->get(), &launch});
  capture.end(ends);
}

// -- conditions ------------------------------------------------------------------------------------------------------

CUgraphConditionalHandle GraphBuilder::make_condition() const {
  CUgraphConditionalHandle handle = 0;
  check(driver().cuGraphConditionalHandleCreate(&handle, graph_, backend_.context().handle(), 0, 0),
        "cuGraphConditionalHandleCreate");
  return handle;
}

CUgraph GraphBuilder::add_conditional(CUgraphConditionalHandle handle, bool loop, const GraphNodes& after,
                                      CUgraphNode& node) const {
  CUgraphNodeParams parameters;
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional = {handle, loop ? CU_GRAPH_COND_TYPE_WHILE : CU_GRAPH_COND_TYPE_IF, 1, nullptr,
                            backend_.context().handle()};
  check(driver().cuGraphAddNode(&node, graph_, after.data(), nullptr, after.size(), &parameters), "cuGraphAddNode");
  return parameters.conditional.phGraph_out[0];
}

}  // namespace tessera::runtime::cuda
