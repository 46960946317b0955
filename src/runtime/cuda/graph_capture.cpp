// The work of a recording is enqueued once on streams that are being captured, so that everything that can be enqueued
// (kernels, copies, fills) needs no second description. Entries that do not depend on each other are captured on
// different streams, and may run at the same time. Kernels that only come after the kernel before them in their stream
// are captured as dependent launches (programmatic edges). Bodies of loops and branches are captured after the graph
// around them, into the graphs that the driver has made for them.
#include "runtime/cuda/graph_capture.hpp"

#include <algorithm>
#include <optional>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/graph_chain.hpp"
#include "runtime/entry_set.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

constexpr std::size_t kMostLanes = 8;  // streams of a capture; more branches share the first one
// In a body that has loops or branches itself, everything is in one line: with work beside them that does not depend on
// them, graphs hung, or cuStreamDestroy crashed (driver 580.159, H200; tests/soak found it).
constexpr std::size_t kLanesBesideControl = 1;
constexpr int kFirstWithEdges = 12030;  // CUDA 12.3: programmatic edges between kernels of a graph

/// A body, which the driver has made empty.
struct Body {
  CUgraph graph = nullptr;
  const GraphRecording* recording = nullptr;
  const GraphCondition* condition = nullptr;  ///< of a loop: set again at the end of the body
  CUgraphConditionalHandle handle = 0;
};

/// The first loop or branch; null if there is none.
const RecordedWork* first_control(std::span<const RecordedWork> work) {
  const auto found = std::find_if(work.begin(), work.end(),
                                  [](const RecordedWork& entry) { return entry.kind != RecordedWork::Kind::Call; });
  return found == work.end() ? nullptr : &*found;
}

/// The streams and events of one capture: the whole recording, or one body.
class Capture {
 public:
  Capture(CudaBackend& backend, const GraphRecording& recording, std::vector<RecordedNode>& nodes, bool in_body)
      : backend_(backend), work_(recording.work()), nodes_(nodes), in_body_(in_body), entries_(work_.size()) {
    assign_lanes();
    find_waits();
    find_dependent_launches();
  }
  ~Capture() {
    if (capturing_) {  // after an error: the driver drops what was captured
      CUgraph partial = nullptr;
      driver().cuStreamEndCapture(lanes_.front().get(), &partial);
      if (partial != nullptr && !in_body_) driver().cuGraphDestroy(partial);
    }
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// A graph of the caller's. Its bodies() are still empty.
  CUgraph run() {
    make_lanes();
    check(driver().cuStreamBeginCapture(lanes_.front().get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
          "cuStreamBeginCapture");
    capturing_ = true;
    enqueue_all();
    return end();
  }
  void run_into(const Body& body) {
    check_body();
    make_lanes();
    check(driver().cuStreamBeginCaptureToGraph(lanes_.front().get(), body.graph, nullptr, nullptr, 0,
                                               CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
          "cuStreamBeginCaptureToGraph");
    capturing_ = true;
    enqueue_all();
    if (body.condition != nullptr) backend_.conditions().set(body.handle, *body.condition, false, lanes_.front().get());
    end();
  }
  const std::vector<Body>& bodies() const noexcept { return bodies_; }

 private:
  struct Entry {
    std::size_t lane = 0;
    std::size_t previous = kNoEntry;         // in the lane
    std::size_t next = kNoEntry;             // in the lane
    std::vector<std::size_t> waits;          // for entries of other lanes
    bool is_awaited = false;                 // by another lane
    bool is_dependent = false;               // launched with programmatic dependent launch
    ChainedKernel kernel{nullptr, nullptr};  // if it is one
  };

  /// Host memory in bodies has not been tried with the driver, which restricts what a body may copy.
  void check_body() const {
    for (const RecordedWork& entry : work_) {
      if (entry.kind != RecordedWork::Kind::Call) continue;  // has bodies of its own
      for (const Access& access : entry.accesses) {
        if (&access.storage->device().backend() == &backend_) continue;
        throw DeviceError(concat(entry.label,
                                 ": a copy of host memory in the body of a loop or a branch cannot be "
                                 "captured into a graph.\n  Copy before the loop, or after it."),
                          entry.where);
      }
    }
  }
  /// An entry continues the lane of one that it follows, if that one is the last there.
  void assign_lanes() {
    const std::size_t most = in_body_ && first_control(work_) != nullptr ? kLanesBesideControl : kMostLanes;
    std::vector<std::size_t> last;  // of each lane
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const auto& after = work_[i].after;
      auto lane = std::find_if(last.begin(), last.end(),
                               [&](std::size_t n) { return std::find(after.begin(), after.end(), n) != after.end(); });
      if (lane == last.end() && last.size() < most) lane = last.insert(last.end(), kNoEntry);
      if (lane == last.end()) lane = last.begin();
      entries_[i].previous = std::exchange(*lane, i);
      entries_[i].lane = static_cast<std::size_t>(lane - last.begin());
      if (entries_[i].previous != kNoEntry) entries_[entries_[i].previous].next = i;
    }
    lane_count_ = std::max<std::size_t>(last.size(), 1);
  }
  /// What an entry follows on other lanes, unless something else that it follows has followed it already.
  void find_waits() {
    std::vector<EntrySet> before(work_.size(), EntrySet(work_.size()));
    for (std::size_t i = 0; i < work_.size(); ++i) {
      Entry& entry = entries_[i];
      const auto follow = [&](std::size_t other) {
        before[i].unite(before[other]);
        before[i].add(other);
      };
      if (entry.previous != kNoEntry) follow(entry.previous);
      for (auto n = work_[i].after.rbegin(); n != work_[i].after.rend(); ++n) {  // later ones may imply earlier ones
        if (before[i].contains(*n)) continue;
        follow(*n);
        entry.waits.push_back(*n);
        entries_[*n].is_awaited = true;
      }
    }
  }
  /// Not in bodies, whose nodes the driver's reference does not promise programmatic edges, and not of kernels whose
  /// numbers may change: the call that changes them could bring a kernel that does not wait.
  void find_dependent_launches() {
    for (std::size_t i = 0; i < work_.size(); ++i) {
      Entry& entry = entries_[i];
      if (work_[i].kind != RecordedWork::Kind::Call) continue;
      const auto* kernel = dynamic_cast<const KernelWork*>(work_[i].call.work.get());
      if (kernel == nullptr) continue;
      entry.kernel = {kernel, &work_[i]};
      const bool follows_kernel = entry.previous != kNoEntry && entries_[entry.previous].kernel.kernel != nullptr;
      entry.is_dependent = follows_kernel && entry.waits.empty() && kernel->programmatic() && !in_body_ &&
                           work_[i].call_number == kNoEntry && driver().version >= kFirstWithEdges;
    }
  }
  void make_lanes() {
    for (std::size_t i = 0; i < lane_count_; ++i) lanes_.emplace_back(backend_.streams(), 0);
    chains_.resize(lane_count_);
  }
  /// All entries; afterwards the first lane has waited for the others.
  void enqueue_all() {
    std::optional<CUevent> begin;
    for (std::size_t lane = 1; lane < lanes_.size(); ++lane) {
      if (!begin) begin = record(0);
      wait(lane, *begin);
    }
    std::vector<CUevent> ended(work_.size(), nullptr);
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const std::size_t lane = entries_[i].lane;
      for (const std::size_t before : entries_[i].waits) wait(lane, ended[before]);
      if (work_[i].kind != RecordedWork::Kind::Call) {
        enqueue_control(work_[i], lanes_[lane].get());
      } else {
        enqueue_call(i, lanes_[lane].get());
      }
      if (entries_[i].is_awaited) ended[i] = record(lane);
    }
    for (std::size_t lane = 1; lane < lanes_.size(); ++lane) wait(0, record(lane));
  }
  void enqueue_call(std::size_t i, CUstream lane) {
    const Entry& entry = entries_[i];
    const RecordedWork& work = work_[i];
    GraphChain& chain = chains_[entry.lane];
    if (!entry.is_dependent) chain.restart();
    CaptureLaunch launch(chain, nullptr, work, entry.is_dependent);
    const bool successor_gains = entry.kernel.kernel != nullptr && this->successor_gains(entry, chain);
    launch.set_successor_gains(successor_gains);
    work.call.work->launch({work.call.grid, work.call.args, work.accesses, lane, static_cast<LaunchState*>(&launch)});
    if (entry.kernel.kernel != nullptr) chain.add(work.accesses, entry.kernel.kernel->raw_writes());
    if (work.call_number == kNoEntry) return;
    const Position here = position(lane);
    if (here.count != 1) throw InternalError("a kernel of a graph that is not one node");
    nodes_[work.call_number] = {here.nodes[0], in_body_, successor_gains};
  }
  /// Whether the next kernel of the lane gains if this one triggers early. `chain`: the kernels before this one.
  bool successor_gains(const Entry& entry, const GraphChain& chain) const {
    if (entry.next == kNoEntry || !entries_[entry.next].is_dependent) return false;
    const RecordedWork& next = work_[entry.next];
    const CaptureLaunch state(chain, &entry.kernel, next, true);
    return entries_[entry.next].kernel.kernel->gains({next.call.grid, next.call.args, next.accesses}, state);
  }
  /// Nodes of one branch read handles of their own, which are all set before the first body runs: a body may change the
  /// condition.
  void enqueue_control(const RecordedWork& entry, CUstream lane) {
    std::vector<CUgraphConditionalHandle> handles;
    for (std::size_t i = 0; i < entry.bodies.size(); ++i) {
      CUgraphConditionalHandle handle = 0;
      check(driver().cuGraphConditionalHandleCreate(&handle, position(lane).graph, backend_.context().handle(), 0, 0),
            "cuGraphConditionalHandleCreate");
      backend_.conditions().set(handle, entry.condition, i == 1, lane);
      handles.push_back(handle);
    }
    const bool loop = entry.kind == RecordedWork::Kind::While;
    for (std::size_t i = 0; i < entry.bodies.size(); ++i) {
      const CUgraph body = add_conditional(handles[i], loop, lane);
      bodies_.push_back({body, entry.bodies[i].get(), loop ? &entry.condition : nullptr, handles[i]});
    }
  }
  /// A node behind what the lane has. Returns its body.
  CUgraph add_conditional(CUgraphConditionalHandle handle, bool loop, CUstream lane) {
    const Position here = position(lane);
    CUgraphNodeParams parameters;
    parameters.conditional = {handle, loop ? CU_GRAPH_COND_TYPE_WHILE : CU_GRAPH_COND_TYPE_IF, 1, nullptr,
                              backend_.context().handle()};
    CUgraphNode node = nullptr;
    check(driver().cuGraphAddNode(&node, here.graph, here.nodes, here.count, &parameters), "cuGraphAddNode");
    check(driver().cuStreamUpdateCaptureDependencies(lane, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
          "cuStreamUpdateCaptureDependencies");
    return parameters.conditional.phGraph_out[0];
  }
  /// What the next node of a lane follows. Valid until something is enqueued.
  struct Position {
    CUgraph graph = nullptr;
    const CUgraphNode* nodes = nullptr;
    std::size_t count = 0;
  };
  Position position(CUstream lane) const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    unsigned long long id = 0;
    Position here;
    check(driver().cuStreamGetCaptureInfo(lane, &status, &id, &here.graph, &here.nodes, &here.count),
          "cuStreamGetCaptureInfo");
    return here;
  }
  CUgraph end() {
    CUgraph graph = nullptr;
    check(driver().cuStreamEndCapture(lanes_.front().get(), &graph), "cuStreamEndCapture");
    capturing_ = false;
    return graph;
  }
  CUevent record(std::size_t lane) {
    events_.emplace_back(backend_.events());
    check(driver().cuEventRecord(events_.back().get(), lanes_[lane].get()), "cuEventRecord");
    return events_.back().get();
  }
  void wait(std::size_t lane, CUevent event) {
    check(driver().cuStreamWaitEvent(lanes_[lane].get(), event, 0), "cuStreamWaitEvent");
  }
  const Driver& driver() const noexcept { return backend_.driver(); }
  void check(CUresult result, const char* call) const { backend_.context().check(result, call, "capturing a graph"); }

  CudaBackend& backend_;
  std::span<const RecordedWork> work_;
  std::vector<RecordedNode>& nodes_;
  bool in_body_;
  std::vector<Entry> entries_;  // as work_
  std::size_t lane_count_ = 1;
  std::vector<PooledStream> lanes_;
  std::vector<PooledEvent> events_;
  std::vector<Body> bodies_;
  std::vector<GraphChain> chains_;  // of each lane
  bool capturing_ = false;
};

void capture_bodies(CudaBackend& backend, const std::vector<Body>& bodies, std::vector<RecordedNode>& nodes) {
  for (const Body& body : bodies) {
    std::vector<Body> inner;
    {
      Capture capture(backend, *body.recording, nodes, true);
      capture.run_into(body);
      inner = capture.bodies();
    }
    capture_bodies(backend, inner, nodes);
  }
}

}  // namespace

CapturedGraph capture_graph(CudaBackend& backend, const GraphRecording& recording) {
  if (const RecordedWork* control = first_control(recording.work())) backend.conditions().load(*control);
  const auto lock = backend.context().begin_capture();
  CapturedGraph made(backend.driver());
  made.nodes_.resize(recording.calls().size());
  std::vector<Body> bodies;
  {
    Capture capture(backend, recording, made.nodes_, false);
    made.graph_ = capture.run();
    bodies = capture.bodies();
  }
  capture_bodies(backend, bodies, made.nodes_);
  return made;
}

}  // namespace tessera::runtime::cuda
