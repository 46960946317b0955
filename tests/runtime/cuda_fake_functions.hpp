// The beginning of every function of the fake driver, and its functions for graphs (cuda_fake_graphs_test.cpp).
#pragma once
#include <mutex>

#include "runtime/cuda_fake_driver.hpp"

namespace tessera::runtime::cuda::fake {

#define TESSERA_FAKE(fn)                \
  FakeDriver& d = *FakeDriver::active;  \
  const std::lock_guard lock(d.mutex_); \
  if (const CUresult entered = d.enter(Fn::fn); entered != 0) return entered

template <class Handle, class T>
Handle handle_of(T* object) {
  return reinterpret_cast<Handle>(object);
}

struct GraphFunctions {
  using Step = FakeDriver::Step;
  using Kind = Step::Kind;
  using Graph = FakeDriver::Graph;
  static CUresult cuStreamDestroy(CUstream handle);
  static CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status);
  static CUresult cuStreamBeginCapture(CUstream handle, int mode);
  static CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode* dependencies,
                                              const CUgraphEdgeData* edges, std::size_t count, int mode);
  static CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph);
  static CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, unsigned long long* id,
                                         CUgraph* graph, const CUgraphNode** dependencies, std::size_t* count);
  static CUresult cuGraphCreate(CUgraph* graph, unsigned flags);
  static CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext context,
                                                 unsigned default_value, unsigned flags);
  static CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                       std::size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters);
  static CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                           std::size_t count, CUgraph child);
  static CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 const CUgraphEdgeData* edges, std::size_t count, CUgraphNodeParams* parameters);
  static CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
  static CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle);
  static CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters);
  static CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_KERNEL_NODE_PARAMS* parameters);
  static CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* result);
  static CUresult cuGraphExecDestroy(CUgraphExec exec);
  static CUresult cuGraphDestroy(CUgraph graph);

 private:
  struct Place;
  static CUresult begin(FakeDriver& d, CUstream handle, Graph& graph, std::vector<CUgraphNode> position, int mode);
  static void settle(FakeDriver& d, FakeDriver::Stream& stream);
  static CUresult add(FakeDriver& d, const Place& place, Step step, CUgraphNode* node);
  static CUresult add_conditional(FakeDriver& d, const Place& place, CUgraphNodeParams& parameters, CUgraphNode* node);
  static std::shared_ptr<Graph> clone(const Graph& graph);
  static Step* find(Graph& graph, CUgraphNode node, bool bodies);
  static CUresult set_kernel(FakeDriver& d, Step& step, const CUDA_KERNEL_NODE_PARAMS& parameters);
  static void check_instantiable(FakeDriver& d, const Graph& graph);
  static bool same_shape(const Graph& a, const Graph& b);
};

}  // namespace tessera::runtime::cuda::fake
