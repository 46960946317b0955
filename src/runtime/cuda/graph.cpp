// A recording as a CUDA graph: its work is enqueued once on streams that are being captured, so that everything that
// can be enqueued (kernels, copies, fills) needs no second description. Entries that do not depend on each other are
// captured on different streams, and may run at the same time.
#include "tessera/runtime/graph.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/cuda/backend.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

constexpr std::size_t kMostLanes = 8;  // streams of a capture; more branches share the first one

class CudaGraph final : public Launchable {
 public:
  CudaGraph(const Context& context, CUgraphExec exec, std::shared_ptr<const GraphRecording> recording)
      : context_(context), exec_(exec), recording_(std::move(recording)) {}
  ~CudaGraph() override {
    const Current current(context_, std::nothrow);
    if (!current) return;
    context_.driver().cuCtxSynchronize();  // launches of it may still be queued
    context_.driver().cuGraphExecDestroy(exec_);
  }
  void launch(const LaunchContext& c) const override {
    context_.check(context_.driver().cuGraphLaunch(exec_, static_cast<CUstream>(c.native_queue)), "cuGraphLaunch",
                   "replaying a graph");
  }

 private:
  const Context& context_;
  CUgraphExec exec_;
  std::shared_ptr<const GraphRecording> recording_;  // arguments and storages
};

/// The streams and events of one capture.
class Capture {
 public:
  Capture(CudaBackend& backend, const GraphRecording& recording) : backend_(backend), work_(recording.work()) {
    assign_lanes();
  }
  ~Capture() {
    if (capturing_) {  // after an error: the driver drops what was captured
      CUgraph partial = nullptr;
      driver().cuStreamEndCapture(lanes_.front(), &partial);
      if (partial != nullptr) driver().cuGraphDestroy(partial);
    }
    for (const CUstream lane : lanes_) driver().cuStreamDestroy(lane);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  CUgraph run() {
    for (std::size_t i = 0; i < lane_count_; ++i) {
      CUstream lane = nullptr;
      check(driver().cuStreamCreate(&lane, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
      lanes_.push_back(lane);
    }
    check(driver().cuStreamBeginCapture(lanes_.front(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
    capturing_ = true;
    const CUevent begin = record(0);
    for (std::size_t lane = 1; lane < lanes_.size(); ++lane) wait(lane, begin);
    std::vector<CUevent> ended(work_.size(), nullptr);
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const RecordedWork& entry = work_[i];
      for (const std::size_t before : entry.after)
        if (lane_of_[before] != lane_of_[i]) wait(lane_of_[i], ended[before]);
      entry.work->launch({entry.grid, entry.args, entry.accesses, lanes_[lane_of_[i]], nullptr});
      if (is_awaited_[i]) ended[i] = record(lane_of_[i]);
    }
    for (std::size_t lane = 1; lane < lanes_.size(); ++lane) wait(0, record(lane));
    CUgraph graph = nullptr;
    capturing_ = false;
    check(driver().cuStreamEndCapture(lanes_.front(), &graph), "cuStreamEndCapture");
    return graph;
  }

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
  std::vector<std::size_t> lane_of_;
  std::vector<bool> is_awaited_;  // on another lane
  std::size_t lane_count_ = 1;
  std::vector<CUstream> lanes_;
  std::vector<PooledEvent> events_;
  bool capturing_ = false;
};

}  // namespace

std::shared_ptr<const Launchable> CudaBackend::make_graph(std::shared_ptr<const GraphRecording> recording) {
  if (driver().cuGraphInstantiateWithFlags == nullptr)
    throw DeviceError(concat(name(), ": this driver has no graphs; they need one of CUDA 11.4 or newer."));
  poll();
  const Current current(context_);
  CUgraph graph = nullptr;
  {
    Capture capture(*this, *recording);
    graph = capture.run();
  }
  CUgraphExec exec = nullptr;
  const CUresult result = driver().cuGraphInstantiateWithFlags(&exec, graph, 0);
  driver().cuGraphDestroy(graph);
  context_.check(result, "cuGraphInstantiateWithFlags", "making a graph");
  return std::make_shared<const CudaGraph>(context_, exec, std::move(recording));
}

}  // namespace tessera::runtime::cuda
