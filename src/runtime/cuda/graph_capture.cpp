// The work of a recording is enqueued once on streams that are being captured, so that everything that can be enqueued
// (kernels, copies, fills) needs no second description. Entries that do not depend on each other are captured on
// different streams, and may run at the same time. Bodies of loops and branches are captured after the graph around
// them, into the graphs that the driver has made for them.
#include "runtime/cuda/graph_capture.hpp"

#include <algorithm>
#include <optional>

#include "runtime/cuda/backend.hpp"
#include "tessera/base/error.hpp"

namespace tessera::runtime::cuda {

namespace {

constexpr std::size_t kMostLanes = 8;  // streams of a capture; more branches share the first one

/// A body, which the driver has made empty.
struct Body {
  CUgraph graph = nullptr;
  const GraphRecording* recording = nullptr;
  const GraphCondition* condition = nullptr;  ///< of a loop: set again at the end of the body
  CUgraphConditionalHandle handle = 0;
};

/// The streams and events of one capture: the whole recording, or one body.
class Capture {
 public:
  Capture(CudaBackend& backend, const GraphRecording& recording, std::vector<RecordedNode>& nodes)
      : backend_(backend), work_(recording.work()), nodes_(nodes) {
    assign_lanes();
  }
  ~Capture() {
    if (capturing_) {  // after an error: the driver drops what was captured
      CUgraph partial = nullptr;
      driver().cuStreamEndCapture(lanes_.front(), &partial);
      if (partial != nullptr && !in_body_) driver().cuGraphDestroy(partial);
    }
    for (const CUstream lane : lanes_) driver().cuStreamDestroy(lane);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// A graph of the caller's. Its bodies() are still empty.
  CUgraph run() {
    make_lanes();
    check(driver().cuStreamBeginCapture(lanes_.front(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
    capturing_ = true;
    enqueue_all();
    return end();
  }
  void run_into(const Body& body) {
    in_body_ = true;
    make_lanes();
    check(driver().cuStreamBeginCaptureToGraph(lanes_.front(), body.graph, nullptr, nullptr, 0,
                                               CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
          "cuStreamBeginCaptureToGraph");
    capturing_ = true;
    enqueue_all();
    if (body.condition != nullptr) backend_.conditions().set(body.handle, *body.condition, false, lanes_.front());
    end();
  }
  const std::vector<Body>& bodies() const noexcept { return bodies_; }

 private:
  /// An entry continues the lane of one that it follows, if that one is the last there.
  void assign_lanes() {
    std::vector<std::size_t> last;  // of each lane
    lane_of_.resize(work_.size());
    is_awaited_.resize(work_.size());
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const auto& after = work_[i].after;
      auto lane = std::find_if(last.begin(), last.end(),
                               [&](std::size_t n) { return std::find(after.begin(), after.end(), n) != after.end(); });
      if (lane == last.end() && last.size() < kMostLanes) lane = last.insert(last.end(), i);
      if (lane == last.end()) lane = last.begin();
      *lane = i;
      lane_of_[i] = static_cast<std::size_t>(lane - last.begin());
      for (const std::size_t before : after)
        if (lane_of_[before] != lane_of_[i]) is_awaited_[before] = true;
    }
    lane_count_ = std::max<std::size_t>(last.size(), 1);
  }
  void make_lanes() {
    for (std::size_t i = 0; i < lane_count_; ++i) {
      CUstream lane = nullptr;
      check(driver().cuStreamCreate(&lane, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
      lanes_.push_back(lane);
    }
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
      const std::size_t lane = lane_of_[i];
      for (const std::size_t before : work_[i].after)
        if (lane_of_[before] != lane) wait(lane, ended[before]);
      enqueue(work_[i], lanes_[lane]);
      if (is_awaited_[i]) ended[i] = record(lane);
    }
    for (std::size_t lane = 1; lane < lanes_.size(); ++lane) wait(0, record(lane));
  }
  void enqueue(const RecordedWork& entry, CUstream lane) {
    if (entry.kind != RecordedWork::Kind::Call) return enqueue_control(entry, lane);
    const RecordedCall& call = entry.call;
    call.work->launch({call.grid, call.args, entry.accesses, lane, nullptr});
    if (entry.call_number == kNoEntry) return;
    const Position here = position(lane);
    if (here.count != 1) throw InternalError("a kernel of a graph that is not one node");
    nodes_[entry.call_number] = {here.nodes[0], in_body_};
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
    check(driver().cuStreamEndCapture(lanes_.front(), &graph), "cuStreamEndCapture");
    capturing_ = false;
    return graph;
  }
  CUevent record(std::size_t lane) {
    events_.emplace_back(backend_.events());
    check(driver().cuEventRecord(events_.back().get(), lanes_[lane]), "cuEventRecord");
    return events_.back().get();
  }
  void wait(std::size_t lane, CUevent event) {
    check(driver().cuStreamWaitEvent(lanes_[lane], event, 0), "cuStreamWaitEvent");
  }
  const Driver& driver() const noexcept { return backend_.driver(); }
  void check(CUresult result, const char* call) const { backend_.context().check(result, call, "capturing a graph"); }

  CudaBackend& backend_;
  std::span<const RecordedWork> work_;
  std::vector<RecordedNode>& nodes_;
  std::vector<std::size_t> lane_of_;
  std::vector<bool> is_awaited_;  // on another lane
  std::size_t lane_count_ = 1;
  std::vector<CUstream> lanes_;
  std::vector<PooledEvent> events_;
  std::vector<Body> bodies_;
  bool capturing_ = false, in_body_ = false;
};

void capture_bodies(CudaBackend& backend, const std::vector<Body>& bodies, std::vector<RecordedNode>& nodes) {
  for (const Body& body : bodies) {
    std::vector<Body> inner;
    {
      Capture capture(backend, *body.recording, nodes);
      capture.run_into(body);
      inner = capture.bodies();
    }
    capture_bodies(backend, inner, nodes);
  }
}

/// The first loop or branch; null if there is none.
const RecordedWork* first_control(const GraphRecording& recording) {
  for (const RecordedWork& entry : recording.work()) {
    if (entry.kind != RecordedWork::Kind::Call) return &entry;
  }
  return nullptr;
}

}  // namespace

CapturedGraph capture_graph(CudaBackend& backend, const GraphRecording& recording) {
  if (const RecordedWork* control = first_control(recording)) backend.conditions().load(*control);
  CapturedGraph made(backend.driver());
  made.nodes_.resize(recording.calls().size());
  std::vector<Body> bodies;
  {
    Capture capture(backend, recording, made.nodes_);
    made.graph_ = capture.run();
    bodies = capture.bodies();
  }
  capture_bodies(backend, bodies, made.nodes_);
  return made;
}

}  // namespace tessera::runtime::cuda
