// A recording becomes a graph node by node. Kernels are added with the nodes that they follow, which needs no streams
// and events. What can only be enqueued (copies, fills) is captured from a stream, so it needs no second description. A
// kernel that follows nothing but the kernel before it in its lane gets a programmatic edge. Bodies of loops and
// branches are filled after the graph around them.
#include "runtime/cuda/graph_capture.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/graph_builder.hpp"
#include "runtime/cuda/graph_chain.hpp"
#include "runtime/cuda/graph_order.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/at_line.hpp"

namespace tessera::runtime::cuda {

namespace {

// In a body that has loops or branches itself, everything is in one line: with work beside them that does not depend on
// them, graphs hung, or cuStreamDestroy crashed (driver 580.159, H200; tests/soak found it).
constexpr std::size_t kLanesBesideControl = 1;

/// A body, which the driver has made empty.
struct Body {
  CUgraph graph = nullptr;
  const GraphRecording* recording = nullptr;
  const RecordedWork* loop = nullptr;  ///< of a loop: its condition is set again at the end of the body
  CUgraphConditionalHandle handle = 0;
};

/// The first loop or branch; null if there is none.
const RecordedWork* first_control(const GraphRecording::Work& work) {
  const auto found = std::find_if(work.begin(), work.end(),
                                  [](const RecordedWork& entry) { return entry.kind != RecordedWork::Kind::Call; });
  return found == work.end() ? nullptr : &*found;
}

std::size_t most_lanes(const GraphRecording::Work& work, bool in_body) {
  return in_body && first_control(work) != nullptr ? kLanesBesideControl : GraphOrder::kMaxLanes;
}

/// The nodes of one graph: of the whole recording, or of one body.
class Capture {
 public:
  Capture(CudaBackend& backend, const GraphRecording& recording, CapturedGraph& whole, CUgraph graph,
          std::vector<RecordedNode>& nodes, bool in_body)
      : backend_(backend),
        work_(recording.work()),
        nodes_(nodes),
        in_body_(in_body),
        order_(work_, most_lanes(work_, in_body)),
        builder_(backend, whole, graph),
        entries_(work_.size()),
        chains_(order_.lanes()) {
    find_kernels();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void add_all() {
    ends_.reserve(work_.size());
    for (std::size_t i = 0; i < work_.size(); ++i) {
      find_nodes_of(order_.follows(i));
      entries_[i].ends = static_cast<std::uint32_t>(ends_.size());
      at_line(work_[i].where, [&] { work_[i].kind == RecordedWork::Kind::Call ? add_call(i) : add_control(work_[i]); });
      entries_[i].end_count = static_cast<std::uint32_t>(ends_.size()) - entries_[i].ends;
    }
  }
  void fill(const Body& body) {
    check_body();
    add_all();
    if (body.loop == nullptr) return;
    find_nodes_of(order_.last());
    set_condition(body.handle, *body.loop, false);
  }
  const std::vector<Body>& bodies() const noexcept { return bodies_; }

 private:
  struct Entry {
    const KernelWork* kernel = nullptr;     // null if it is none
    bool is_dependent = false;              // a kernel with a programmatic edge from the one before it in its lane
    std::uint32_t ends = 0, end_count = 0;  // in ends_: the nodes after which it has ended
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
  /// No programmatic edges in bodies, for whose nodes the driver's reference does not promise them, and none to kernels
  /// whose numbers may change: the call that changes them could bring a kernel that does not wait.
  void find_kernels() {
    const bool has_edges = builder_.has_edges() && !in_body_;
    for (std::size_t i = 0; i < work_.size(); ++i) {
      Entry& entry = entries_[i];
      if (work_[i].kind != RecordedWork::Kind::Call) continue;
      const KernelWork* const kernel = KernelWork::of(*work_[i].call.work);
      if (kernel == nullptr) continue;
      entry.kernel = kernel;
      const std::size_t previous = order_.previous(i);
      const bool follows_kernel = previous != kNoEntry && entries_[previous].kernel != nullptr;
      entry.is_dependent = follows_kernel && order_.follows_previous_alone(i) && kernel->programmatic() && has_edges &&
                           work_[i].call_number == kNoEntry;
    }
  }
  /// The nodes that have ended when all these entries have, as after_.
  void find_nodes_of(std::span<const std::size_t> entries) {
    after_.clear();
    for (const std::size_t n : entries) {
      const auto ends = std::span(ends_).subspan(entries_[n].ends, entries_[n].end_count);
      after_.insert(after_.end(), ends.begin(), ends.end());
    }
    if (after_.size() < 2) return;
    std::sort(after_.begin(), after_.end(), std::less<>());  // work that has enqueued nothing ends with what it follows
    after_.erase(std::unique(after_.begin(), after_.end()), after_.end());
  }
  void add_call(std::size_t i) {
    const Entry& entry = entries_[i];
    const RecordedWork& work = work_[i];
    GraphChain& chain = chains_[order_.lane(i)];
    if (!entry.is_dependent) chain.restart();
    CaptureLaunch launch(chain, nullptr, work, entry.is_dependent);
    const std::size_t next = order_.next(i);
    const bool is_followed = next != kNoEntry && entries_[next].is_dependent;  // only a kernel can be
    const bool gains = is_followed && successor_gains(i, next, chain);
    launch.set_successor_gains(gains);
    if (entry.kernel != nullptr) {
      GraphBuilder::Kernel node(builder_, after_, entry.is_dependent);
      work.call.work->launch({work.call.grid, work.call.args, work.accesses, nullptr,
                              static_cast<LaunchState*>(&launch), static_cast<KernelNode*>(&node)});
      ends_.push_back(node.get());
      if (is_followed) chain.add(work.accesses, entry.kernel->raw_writes());
    } else {
      builder_.capture(work, launch, after_, ends_);
    }
    if (work.call_number == kNoEntry) return;
    if (ends_.size() != entry.ends + 1) throw InternalError("a kernel of a graph that is not one node");
    nodes_[work.call_number] = {ends_.back(), in_body_, gains};
  }
  /// Whether the kernel `next`, which may start before this one has ended, gains if this one triggers early. `chain`:
  /// the kernels before this one.
  bool successor_gains(std::size_t i, std::size_t next, const GraphChain& chain) const {
    const RecordedWork& work = work_[next];
    const ChainedKernel before{entries_[i].kernel, &work_[i]};
    const CaptureLaunch state(chain, &before, work, true);
    return entries_[next].kernel->gains({work.call.grid, work.call.args, work.accesses}, state);
  }
  /// Nodes of one branch read handles of their own, which are all set before the first body runs: a body may change the
  /// condition.
  void add_control(const RecordedWork& entry) {
    std::vector<CUgraphConditionalHandle> handles;
    for (std::size_t i = 0; i < entry.bodies.size(); ++i) {
      handles.push_back(builder_.make_condition());
      set_condition(handles[i], entry, i == 1);
    }
    const bool loop = entry.kind == RecordedWork::Kind::While;
    for (std::size_t i = 0; i < entry.bodies.size(); ++i) {
      CUgraphNode node = nullptr;
      const CUgraph body = builder_.add_conditional(handles[i], loop, after_, node);
      bodies_.push_back({body, entry.bodies[i].get(), loop ? &entry : nullptr, handles[i]});
      after_ = {node};
    }
    ends_.push_back(after_.front());
  }
  /// What is added next comes after it.
  void set_condition(CUgraphConditionalHandle handle, const RecordedWork& entry, bool inverted) {
    GraphBuilder::Kernel node(builder_, after_, false);
    backend_.conditions().set(handle, entry, inverted, node);
    after_ = {node.get()};
  }

  CudaBackend& backend_;
  const GraphRecording::Work& work_;
  std::vector<RecordedNode>& nodes_;
  bool in_body_;
  GraphOrder order_;
  GraphBuilder builder_;
  std::vector<Entry> entries_;      // as work_
  std::vector<GraphChain> chains_;  // of each lane
  GraphNodes ends_, after_;         // after_: of what is added next
  std::vector<Body> bodies_;
};

}  // namespace

CapturedGraph capture_graph(CudaBackend& backend, const GraphRecording& recording) {
  if (const RecordedWork* control = first_control(recording.work())) backend.conditions().load(*control);
  const auto lock = backend.context().begin_capture();
  CapturedGraph made(backend.driver());
  backend.context().check(backend.driver().cuGraphCreate(&made.graph_, 0), "cuGraphCreate", "capturing a graph");
  made.nodes_.resize(recording.calls().size());
  std::vector<Body> bodies;
  {
    Capture capture(backend, recording, made, made.graph_, made.nodes_, false);
    capture.add_all();
    bodies = capture.bodies();
  }
  while (!bodies.empty()) {
    const Body body = bodies.back();
    bodies.pop_back();
    Capture capture(backend, *body.recording, made, body.graph, made.nodes_, true);
    capture.fill(body);
    bodies.insert(bodies.end(), capture.bodies().begin(), capture.bodies().end());
  }
  return made;
}

}  // namespace tessera::runtime::cuda
