// Graphs of the fake driver: capturing, nodes with conditions, changed kernels, running.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "runtime/cuda_fake_functions.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda::fake {

namespace {
constexpr CUresult kUnjoined = 904;      // CUDA_ERROR_STREAM_CAPTURE_UNJOINED
constexpr CUresult kCannotUpdate = 910;  // CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
constexpr int kMostRuns = 100000;        // of a loop
}  // namespace

// -- capturing -------------------------------------------------------------------------------------------------------

CUresult GraphFunctions::begin(FakeDriver& d, CUstream handle, std::shared_ptr<Graph> graph, Graph* target, int mode) {
  auto* stream = d.stream(handle);
  if (stream == nullptr || stream->capture != nullptr || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return 400;
  if (graph) d.graphs_.push_back(std::move(graph));
  stream->capture = target;
  return 0;
}

CUresult GraphFunctions::cuStreamBeginCapture(CUstream handle, int mode) {
  TESSERA_FAKE(cuStreamBeginCapture);
  auto graph = std::make_shared<Graph>();
  Graph* const target = graph.get();
  return begin(d, handle, std::move(graph), target, mode);
}

CUresult GraphFunctions::cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode*, const void*,
                                                     std::size_t count, int mode) {
  TESSERA_FAKE(cuStreamBeginCaptureToGraph);
  auto* target = reinterpret_cast<Graph*>(graph);
  if (count != 0 || !target->lanes.empty()) return 1;
  target->is_body = true;
  return begin(d, handle, nullptr, target, mode);
}

bool FakeDriver::invalidates_capture() {
  const bool captures =
      std::any_of(streams_.begin(), streams_.end(), [](const auto& s) { return s->capture != nullptr; });
  if (captures) violate("a context is waited for while a stream is captured");
  return captures;
}

/// Work of other streams that this one has not waited for ends the capture without a graph.
CUresult GraphFunctions::cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  TESSERA_FAKE(cuStreamEndCapture);
  auto* origin = d.stream(handle);
  if (origin == nullptr || origin->capture == nullptr) return 400;
  Graph* const made = origin->capture;
  std::set<const FakeDriver::Moment*> joined;
  bool joins = true;
  for (const Step& step : origin->steps)
    if (step.kind == Kind::Wait) joined.insert(step.record.get());
  for (const auto& stream : d.streams_) {
    if (stream->capture != made) continue;
    const bool ends_joined = !stream->steps.empty() && stream->steps.back().kind == Kind::Record &&
                             joined.contains(stream->steps.back().record.get());
    if (stream.get() != origin && !ends_joined) joins = false;
    made->lanes.push_back(std::exchange(stream->steps, {}));
    stream->capture = nullptr;
  }
  const bool has_conditional = std::any_of(made->lanes.begin(), made->lanes.end(), [](const auto& lane) {
    return std::any_of(lane.begin(), lane.end(), [](const Step& step) { return step.kind == Kind::Conditional; });
  });
  if (made->is_body && has_conditional && made->lanes.size() > 1)  // drivers hang
    d.violate("a body has a conditional node and parallel branches");
  made->destroyed = !joins;
  *graph = joins ? handle_of<CUgraph>(made) : nullptr;
  return joins ? 0 : kUnjoined;
}

/// The nodes that the next one of the stream follows: the last piece of work, and what the stream has waited for since.
const std::vector<CUgraphNode>& GraphFunctions::position(FakeDriver& d, FakeDriver::Stream& stream) {
  stream.position.clear();
  for (std::size_t i = stream.steps.size(); i-- > 0;) {
    Step& step = stream.steps[i];
    if (step.kind == Kind::Record) continue;
    if (step.kind == Kind::Wait) {
      stream.position.push_back(reinterpret_cast<CUgraphNode>(step.record.get()));
      continue;
    }
    if (step.node == 0) step.node = ++d.nodes_;
    stream.position.push_back(reinterpret_cast<CUgraphNode>(step.node));
    break;
  }
  return stream.position;
}

CUresult GraphFunctions::cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, unsigned long long*,
                                                CUgraph* graph, const CUgraphNode** dependencies, std::size_t* count) {
  TESSERA_FAKE(cuStreamGetCaptureInfo);
  auto* stream = d.stream(handle);
  if (stream == nullptr) return 400;
  *status = stream->capture != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  *graph = handle_of<CUgraph>(stream->capture);
  const auto& nodes = position(d, *stream);
  *dependencies = nodes.data();
  *count = nodes.size();
  return 0;
}

CUresult GraphFunctions::cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* nodes, std::size_t count,
                                                           unsigned flags) {
  TESSERA_FAKE(cuStreamUpdateCaptureDependencies);
  auto* stream = d.stream(handle);
  if (stream == nullptr || stream->capture == nullptr || count != 1 || flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    return 1;
  const auto loose = stream->capture->loose.find(nodes[0]);
  if (loose == stream->capture->loose.end()) return 1;
  if (loose->second.follows != position(d, *stream)) d.violate("a node does not follow what its stream had before");
  stream->steps.push_back(std::move(loose->second.step));
  stream->capture->loose.erase(loose);
  return 0;
}

// -- conditions ------------------------------------------------------------------------------------------------------

CUresult GraphFunctions::cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph graph, CUcontext,
                                                        unsigned, unsigned) {
  TESSERA_FAKE(cuGraphConditionalHandleCreate);
  *handle = 0x1000 + d.conditions_.size();
  d.conditions_[*handle].graph = reinterpret_cast<Graph*>(graph);
  return 0;
}

CUresult GraphFunctions::cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                        std::size_t count, CUgraphNodeParams* parameters) {
  TESSERA_FAKE(cuGraphAddNode);
  auto* target = reinterpret_cast<Graph*>(graph);
  auto& conditional = parameters->conditional;
  const auto condition = d.conditions_.find(conditional.handle);
  if (parameters->type != CU_GRAPH_NODE_TYPE_CONDITIONAL || conditional.size != 1 || conditional.ctx == nullptr ||
      condition == d.conditions_.end() || condition->second.graph != target ||
      std::exchange(condition->second.used, true))
    return 1;
  FakeDriver::Graph::Loose made;
  made.step.kind = Kind::Conditional;
  made.step.handle = conditional.handle;
  made.step.loop = conditional.type == CU_GRAPH_COND_TYPE_WHILE;
  made.step.graph = std::make_shared<Graph>();
  made.step.node = ++d.nodes_;
  made.follows.assign(dependencies, dependencies + count);
  conditional.phGraph_out = &d.body_handles_.emplace_back(handle_of<CUgraph>(made.step.graph.get()));
  *node = reinterpret_cast<CUgraphNode>(made.step.node);
  target->loose.emplace(*node, std::move(made));
  return 0;
}

/// The kernel that the library brings along: handle, address, bytes, inverted.
void FakeDriver::set_condition(const Call& call) {
  const auto condition = call.driver.conditions_.find(call.args[0]);
  const auto bytes = static_cast<std::size_t>(call.args[2]);
  const auto* element = static_cast<const unsigned char*>(call.memory(1, bytes));
  if (condition == call.driver.conditions_.end()) return call.driver.violate("a condition without a handle is set");
  if (element == nullptr) return;
  const bool holds = std::any_of(element, element + bytes, [](unsigned char c) { return c != 0; });
  condition->second.set = true;
  condition->second.value = holds != (call.args[3] != 0);
}

void FakeDriver::run_conditional(const Step& step) {
  const Condition& condition = conditions_[step.handle];
  if (!condition.set) return violate("a condition is read before it is set");
  if (step.graph->lanes.empty()) return violate("the body of a node was never captured");
  for (int runs = 0; condition.value; ++runs) {
    if (runs == kMostRuns) return violate("a loop without end");
    run_graph(*step.graph);
    if (!step.loop) break;
  }
}

// -- executable graphs -----------------------------------------------------------------------------------------------

std::shared_ptr<FakeDriver::Graph> GraphFunctions::clone(const Graph& graph) {
  auto copy = std::make_shared<Graph>(graph);
  for (auto& lane : copy->lanes) {
    for (Step& step : lane) {
      if (step.kind == Kind::Conditional) step.graph = clone(*step.graph);
    }
  }
  return copy;
}

CUresult GraphFunctions::cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  TESSERA_FAKE(cuGraphInstantiateWithFlags);
  if (!reinterpret_cast<Graph*>(graph)->loose.empty())
    d.violate("a node that was added to a graph is not in the order of a stream");
  auto copy = clone(*reinterpret_cast<Graph*>(graph));
  copy->executable = true;
  d.graphs_.push_back(copy);
  *exec = handle_of<CUgraphExec>(copy.get());
  return 0;
}

/// Changes of the executable graph do not reach what is enqueued already.
CUresult GraphFunctions::cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  TESSERA_FAKE(cuGraphLaunch);
  auto* stream = d.stream(handle);
  if (stream == nullptr) return 400;
  auto* graph = reinterpret_cast<Graph*>(exec);
  if (graph->destroyed) d.violate("a destroyed graph is launched");
  Step step;
  step.kind = Kind::Graph;
  step.graph = clone(*graph);
  step.launched = graph;
  stream->kernel_is_last = false;
  stream->steps.push_back(std::move(step));
  return 0;
}

FakeDriver::Step* GraphFunctions::find(Graph& graph, CUgraphNode node, bool bodies) {
  for (auto& lane : graph.lanes) {
    for (Step& step : lane) {
      if (step.node == reinterpret_cast<std::uintptr_t>(node)) return &step;
      if (step.kind != Kind::Conditional || !bodies) continue;
      if (Step* found = find(*step.graph, node, true)) return found;
    }
  }
  return nullptr;
}

CUresult GraphFunctions::set_kernel(FakeDriver& d, Step& step, const CUDA_KERNEL_NODE_PARAMS& parameters) {
  const auto* module = reinterpret_cast<FakeDriver::Module*>(parameters.func);
  if (step.kind != Kind::Kernel || parameters.blockDimX != 1 || parameters.sharedMemBytes != 0) return 1;
  if (module->unloaded) d.violate("a kernel of an unloaded module in a graph");
  const Kernel& kernel = d.kernels_[module->kernel];
  step.run = kernel.run;
  step.grid = {parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ};
  step.args.resize(kernel.parameters);
  for (std::size_t i = 0; i < kernel.parameters; ++i)
    std::memcpy(&step.args[i], parameters.kernelParams[i], sizeof(std::uint64_t));
  return 0;
}

CUresult GraphFunctions::cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  TESSERA_FAKE(cuGraphKernelNodeSetParams);
  for (const auto& graph : d.graphs_) {
    if (graph->destroyed || graph->executable) continue;
    if (Step* step = find(*graph, node, true)) return set_kernel(d, *step, *parameters);
  }
  return 1;
}

/// Only nodes that are directly in the graph, which is the cautious reading of the reference.
CUresult GraphFunctions::cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                        const CUDA_KERNEL_NODE_PARAMS* parameters) {
  TESSERA_FAKE(cuGraphExecKernelNodeSetParams);
  auto* graph = reinterpret_cast<Graph*>(exec);
  if (graph->destroyed) d.violate("a destroyed graph is changed");
  const bool origin_lives = std::any_of(d.graphs_.begin(), d.graphs_.end(), [&](const auto& other) {
    return !other->destroyed && !other->executable && find(*other, node, false) != nullptr;
  });
  if (!origin_lives) d.violate("a node is named whose graph has been destroyed");
  Step* const step = find(*graph, node, false);
  return step == nullptr ? 1 : set_kernel(d, *step, *parameters);
}

CUresult GraphFunctions::cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo*) {
  TESSERA_FAKE(cuGraphExecUpdate);
  auto* target = reinterpret_cast<Graph*>(exec);
  auto* source = reinterpret_cast<Graph*>(graph);
  if (target->destroyed || source->destroyed) d.violate("a destroyed graph is changed");
  if (target->lanes.size() != source->lanes.size()) return kCannotUpdate;
  target->lanes = clone(*source)->lanes;
  return 0;
}

CUresult GraphFunctions::cuGraphExecDestroy(CUgraphExec exec) {
  TESSERA_FAKE(cuGraphExecDestroy);
  if (std::exchange(reinterpret_cast<Graph*>(exec)->destroyed, true)) d.violate("a graph was destroyed twice");
  for (const auto& stream : d.streams_) {
    for (const Step& step : stream->steps) {
      if (step.launched == reinterpret_cast<Graph*>(exec) && d.poisoned_ == 0)
        d.violate("a graph was destroyed while a launch of it was queued");
    }
  }
  return 0;
}

/// Drivers crash later, in cuGraphExecDestroy or cuStreamDestroy, if there are graphs (StreamPool).
CUresult GraphFunctions::cuStreamDestroy(CUstream handle) {
  TESSERA_FAKE(cuStreamDestroy);
  const bool has_graphs = std::any_of(d.graphs_.begin(), d.graphs_.end(),
                                      [](const auto& graph) { return graph->executable && !graph->destroyed; });
  if (has_graphs) d.violate("a stream is destroyed while there are executable graphs");
  if (auto* stream = d.stream(handle)) stream->destroyed = true;  // its steps still run
  return 0;
}

CUresult GraphFunctions::cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  TESSERA_FAKE(cuStreamIsCapturing);
  const auto* stream = d.stream(handle);
  if (stream == nullptr) return 400;
  *status = stream->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return 0;
}

CUresult GraphFunctions::cuGraphDestroy(CUgraph graph) {
  TESSERA_FAKE(cuGraphDestroy);
  if (std::exchange(reinterpret_cast<Graph*>(graph)->destroyed, true)) d.violate("a graph was destroyed twice");
  return 0;
}

}  // namespace tessera::runtime::cuda::fake
