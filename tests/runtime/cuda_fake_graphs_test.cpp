// Graphs of the fake driver: nodes and capturing, nodes with conditions, changed kernels, running.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "runtime/cuda_fake_functions.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda::fake {

namespace {
constexpr CUresult kInvalidated = 901;   // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
constexpr CUresult kCannotUpdate = 910;  // CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
constexpr int kMaxRuns = 100000;         // of a loop
}  // namespace

// -- nodes -----------------------------------------------------------------------------------------------------------

/// Where a node is to be added.
struct GraphFunctions::Place {
  Graph& graph;
  std::span<const CUgraphNode> after;
  const CUgraphEdgeData* edges = nullptr;  // null: all are full
};

CUresult GraphFunctions::cuGraphCreate(CUgraph* graph, unsigned flags) {
  TESSERA_FAKE(cuGraphCreate);
  if (flags != 0) return 1;
  d.graphs_.push_back(std::make_shared<Graph>());
  *graph = handle_of<CUgraph>(d.graphs_.back().get());
  return 0;
}

/// Nodes that are not in the graph, or are named twice, are errors of the driver, too.
CUresult GraphFunctions::add(FakeDriver& d, const Place& place, Step step, CUgraphNode* node) {
  if (place.graph.destroyed) d.violate("a node is added to a destroyed graph");
  FakeDriver::Node made;
  for (std::size_t i = 0; i < place.after.size(); ++i) {
    const auto& nodes = place.graph.nodes;
    const auto from = std::find_if(nodes.begin(), nodes.end(), [&](const FakeDriver::Node& other) {
      return other.handle == reinterpret_cast<std::uintptr_t>(place.after[i]);
    });
    const auto index = static_cast<std::size_t>(from - nodes.begin());
    const bool twice = std::any_of(made.follows.begin(), made.follows.end(),
                                   [&](const FakeDriver::Node::Edge& edge) { return edge.from == index; });
    if (from == nodes.end() || twice) return 1;
    const CUgraphEdgeData edge = place.edges == nullptr ? CUgraphEdgeData{} : place.edges[i];
    const bool programmatic = edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    const bool kernels = from->step.kind == Kind::Kernel && step.kind == Kind::Kernel;
    if (edge.type > 1 || edge.from_port != edge.type || edge.to_port != 0 || (programmatic && !kernels)) return 1;
    if (programmatic && !step.waits) d.violate("a programmatic edge to a kernel that does not wait");
    if (programmatic && place.graph.is_body) d.violate("a programmatic edge in a body");
    made.follows.push_back({index, programmatic});
  }
  made.step = std::move(step);
  made.handle = ++d.nodes_;
  *node = reinterpret_cast<CUgraphNode>(made.handle);
  place.graph.nodes.push_back(std::move(made));
  return 0;
}

CUresult GraphFunctions::set_kernel(FakeDriver& d, Step& step, const CUDA_KERNEL_NODE_PARAMS& parameters) {
  const auto* module = reinterpret_cast<FakeDriver::Module*>(parameters.func);
  if (step.kind != Kind::Kernel || parameters.blockDimX != 1 || parameters.sharedMemBytes != 0) return 1;
  if (parameters.gridDimX == 0 || parameters.gridDimY == 0 || parameters.gridDimZ == 0) return 1;
  if (module->unloaded) d.violate("a kernel of an unloaded module in a graph");
  const Kernel& kernel = d.kernels_[module->kernel];
  step.run = kernel.run;
  step.early = kernel.early;
  step.waits = module->waits;
  step.grid = {parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ};
  step.args.resize(kernel.parameters);
  for (std::size_t i = 0; i < kernel.parameters; ++i)
    std::memcpy(&step.args[i], parameters.kernelParams[i], sizeof(std::uint64_t));
  return 0;
}

CUresult GraphFunctions::cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                              std::size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  TESSERA_FAKE(cuGraphAddKernelNode);
  Step step;
  if (const CUresult result = set_kernel(d, step, *parameters); result != 0) return result;
  return add(d, {*reinterpret_cast<Graph*>(graph), {dependencies, count}}, std::move(step), node);
}

CUresult GraphFunctions::cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                                  std::size_t count, CUgraph child) {
  TESSERA_FAKE(cuGraphAddChildGraphNode);
  Step step;
  step.kind = Kind::Graph;
  step.graph = clone(*reinterpret_cast<Graph*>(child));
  return add(d, {*reinterpret_cast<Graph*>(graph), {dependencies, count}}, std::move(step), node);
}

CUresult GraphFunctions::cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                        const CUgraphEdgeData* edges, std::size_t count,
                                        CUgraphNodeParams* parameters) {
  TESSERA_FAKE(cuGraphAddNode);
  const Place place{*reinterpret_cast<Graph*>(graph), {dependencies, count}, edges};
  if (parameters->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return add_conditional(d, place, *parameters, node);
  Step step;
  if (parameters->type != CU_GRAPH_NODE_TYPE_KERNEL) return 1;
  if (const CUresult result = set_kernel(d, step, parameters->kernel); result != 0) return result;
  return add(d, place, std::move(step), node);
}

// -- capturing -------------------------------------------------------------------------------------------------------

CUresult GraphFunctions::begin(FakeDriver& d, CUstream handle, Graph& graph, std::vector<CUgraphNode> position,
                               int mode) {
  auto* stream = d.stream(handle);
  if (stream == nullptr || stream->capture != nullptr || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return 400;
  if (!stream->steps.empty()) d.violate("a stream with work is captured");
  stream->capture = &graph;
  stream->position = std::move(position);
  stream->invalid = stream->kernel_is_last = stream->foreign = false;
  ++graph.captures;
  return 0;
}

CUresult GraphFunctions::cuStreamBeginCapture(CUstream handle, int mode) {
  TESSERA_FAKE(cuStreamBeginCapture);
  const auto graph = std::make_shared<Graph>();
  const CUresult result = begin(d, handle, *graph, {}, mode);
  if (result == 0) d.graphs_.push_back(graph);
  return result;
}

CUresult GraphFunctions::cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode* dependencies,
                                                     const CUgraphEdgeData* edges, std::size_t count, int mode) {
  TESSERA_FAKE(cuStreamBeginCaptureToGraph);
  if (edges != nullptr) return 1;
  return begin(d, handle, *reinterpret_cast<Graph*>(graph), {dependencies, dependencies + count}, mode);
}

/// The steps of a stream that is captured become nodes.
void GraphFunctions::settle(FakeDriver& d, FakeDriver::Stream& stream) {
  for (Step& step : std::exchange(stream.steps, {})) {
    if (step.kind == Kind::Record) continue;
    const bool programmatic = step.programmatic;
    stream.foreign = stream.foreign || step.kind == Kind::Foreign;
    CUgraphEdgeData edge;
    edge.from_port = edge.type = programmatic ? 1 : 0;
    const std::vector<CUgraphEdgeData> edges(stream.position.size(), edge);
    CUgraphNode node = nullptr;
    if (add(d, {*stream.capture, stream.position, edges.data()}, std::move(step), &node) != 0)
      d.violate("a capture behind nodes that its graph does not have");
    stream.position = {node};
  }
}

bool FakeDriver::invalidates_capture() {
  const bool captures =
      std::any_of(streams_.begin(), streams_.end(), [](const auto& s) { return s->capture != nullptr; });
  if (captures) violate("a context is waited for while a stream is captured");
  return captures;
}

CUresult GraphFunctions::cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  TESSERA_FAKE(cuStreamEndCapture);
  auto* stream = d.stream(handle);
  if (stream == nullptr || stream->capture == nullptr) return 400;
  settle(d, *stream);
  Graph* const made = std::exchange(stream->capture, nullptr);
  --made->captures;
  made->foreign_ended = made->foreign_ended || stream->foreign;
  *graph = nullptr;
  if (stream->invalid) {
    made->destroyed = true;
    return kInvalidated;
  }
  *graph = handle_of<CUgraph>(made);
  return 0;
}

CUresult GraphFunctions::cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, unsigned long long*,
                                                CUgraph* graph, const CUgraphNode** dependencies, std::size_t* count) {
  TESSERA_FAKE(cuStreamGetCaptureInfo);
  auto* stream = d.stream(handle);
  if (stream == nullptr) return 400;
  *status = stream->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->invalid          ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return 0;
  settle(d, *stream);
  *graph = handle_of<CUgraph>(stream->capture);
  *dependencies = stream->position.data();
  *count = stream->position.size();
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

CUresult GraphFunctions::add_conditional(FakeDriver& d, const Place& place, CUgraphNodeParams& parameters,
                                         CUgraphNode* node) {
  auto& conditional = parameters.conditional;
  const auto condition = d.conditions_.find(conditional.handle);
  if (conditional.size != 1 || conditional.ctx == nullptr || condition == d.conditions_.end() ||
      condition->second.graph != &place.graph || std::exchange(condition->second.used, true))
    return 1;
  Step step;
  step.kind = Kind::Conditional;
  step.handle = conditional.handle;
  step.loop = conditional.type == CU_GRAPH_COND_TYPE_WHILE;
  step.graph = std::make_shared<Graph>();
  step.graph->is_body = true;
  conditional.phGraph_out = &d.body_handles_.emplace_back(handle_of<CUgraph>(step.graph.get()));
  return add(d, place, std::move(step), node);
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
  for (int runs = 0; condition.value; ++runs) {
    if (runs == kMaxRuns) return violate("a loop without end");
    run_graph(*step.graph);
    if (!step.loop) break;
  }
}

// -- executable graphs -----------------------------------------------------------------------------------------------

std::shared_ptr<FakeDriver::Graph> GraphFunctions::clone(const Graph& graph) {
  auto copy = std::make_shared<Graph>(graph);
  for (FakeDriver::Node& node : copy->nodes) {
    if (node.step.graph) node.step.graph = clone(*node.step.graph);
  }
  return copy;
}

void GraphFunctions::check_instantiable(FakeDriver& d, const Graph& graph) {
  if (graph.captures != 0) d.violate("a graph is instantiated while a stream captures into it");
  bool in_line = true, has_conditional = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const FakeDriver::Node& node = graph.nodes[i];
    in_line = in_line && (i == 0 || std::any_of(node.follows.begin(), node.follows.end(),
                                                [&](const auto& edge) { return edge.from == i - 1; }));
    has_conditional = has_conditional || node.step.kind == Kind::Conditional;
    if (node.step.graph) check_instantiable(d, *node.step.graph);
  }
  if (graph.is_body && has_conditional && !in_line)  // drivers hang
    d.violate("a body has a conditional node and parallel branches");
}

CUresult GraphFunctions::cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  TESSERA_FAKE(cuGraphInstantiateWithFlags);
  check_instantiable(d, *reinterpret_cast<Graph*>(graph));
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

/// A node starts when those that it follows have ended, or, for programmatic edges, have started. It ends when all have
/// ended. Each starts as early as it may.
void FakeDriver::run_graph(const Graph& graph) {
  enum class State : std::uint8_t { Waits, Started, Ended };
  std::vector<Node> nodes = graph.nodes;
  std::vector<State> states(nodes.size(), State::Waits);
  std::mt19937_64 random(static_cast<std::uint64_t>(calls_.load()));
  const auto ended = [&](const Node& node) {
    return std::all_of(node.follows.begin(), node.follows.end(),
                       [&](const Node::Edge& edge) { return states[edge.from] == State::Ended; });
  };
  const auto may_start = [&](const Node& node) {
    return std::all_of(node.follows.begin(), node.follows.end(), [&](const Node::Edge& edge) {
      return states[edge.from] == State::Ended || (edge.programmatic && states[edge.from] == State::Started);
    });
  };
  std::size_t first = 0;  // the first that has not ended
  while (first < nodes.size()) {
    std::size_t i = first + random() % (nodes.size() - first);
    while (states[i] == State::Ended || !ended(nodes[i])) i = i + 1 < nodes.size() ? i + 1 : first;
    states[i] = State::Started;
    for (std::size_t k = first; k < nodes.size(); ++k) {
      const bool early = nodes[k].step.kind == Step::Kind::Kernel &&
                         std::any_of(nodes[k].follows.begin(), nodes[k].follows.end(),
                                     [](const Node::Edge& edge) { return edge.programmatic; });
      if (states[k] != State::Waits || !early || !may_start(nodes[k])) continue;
      states[k] = State::Started;
      read_early(nodes[k].step);
    }
    run(nodes[i].step);
    states[i] = State::Ended;
    while (first < nodes.size() && states[first] == State::Ended) ++first;
  }
}

std::string FakeDriver::last_graph() const {
  const std::lock_guard lock(mutex_);
  const auto text = [](const auto& self, const Graph& graph) -> std::string {
    std::string all;
    for (const Node& node : graph.nodes) {
      const auto kind = node.step.kind;
      all += all.empty() ? "" : " ";
      all += kind == Step::Kind::Kernel        ? "k"
             : kind == Step::Kind::Copy        ? "c"
             : kind == Step::Kind::Set         ? "s"
             : kind == Step::Kind::Graph       ? "g"
             : kind == Step::Kind::Conditional ? "?"
                                               : "x";
      for (std::size_t i = 0; i < node.follows.size(); ++i)
        all += concat(i == 0 ? "" : ",", node.follows[i].from, node.follows[i].programmatic ? "*" : "");
      if (node.step.graph) all += concat("{", self(self, *node.step.graph), "}");
    }
    return all;
  };
  const auto last = std::find_if(graphs_.rbegin(), graphs_.rend(), [](const auto& graph) { return graph->executable; });
  return last == graphs_.rend() ? "" : text(text, **last);
}

// -- changed kernels -------------------------------------------------------------------------------------------------

FakeDriver::Step* GraphFunctions::find(Graph& graph, CUgraphNode node, bool bodies) {
  for (FakeDriver::Node& other : graph.nodes) {
    if (other.handle == reinterpret_cast<std::uintptr_t>(node)) return &other.step;
    if (other.step.kind != Kind::Conditional || !bodies) continue;
    if (Step* found = find(*other.step.graph, node, true)) return found;
  }
  return nullptr;
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

bool GraphFunctions::same_shape(const Graph& a, const Graph& b) {
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), [](const auto& x, const auto& y) {
    return x.handle == y.handle && x.step.kind == y.step.kind &&
           (!x.step.graph || same_shape(*x.step.graph, *y.step.graph));
  });
}

CUresult GraphFunctions::cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo*) {
  TESSERA_FAKE(cuGraphExecUpdate);
  auto* target = reinterpret_cast<Graph*>(exec);
  auto* source = reinterpret_cast<Graph*>(graph);
  if (target->destroyed || source->destroyed) d.violate("a destroyed graph is changed");
  if (!same_shape(*target, *source)) return kCannotUpdate;
  target->nodes = clone(*source)->nodes;
  return 0;
}

// -- the end ---------------------------------------------------------------------------------------------------------

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
  if (reinterpret_cast<Graph*>(graph)->captures != 0)
    d.violate("a graph was destroyed while a stream captures into it");
  if (std::exchange(reinterpret_cast<Graph*>(graph)->destroyed, true)) d.violate("a graph was destroyed twice");
  return 0;
}

}  // namespace tessera::runtime::cuda::fake
