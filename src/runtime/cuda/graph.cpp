// A recording as a CUDA graph, and changing the numbers of its kernels.
#include "tessera/runtime/graph.hpp"

#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/graph_capture.hpp"
#include "runtime/cuda/graph_chain.hpp"
#include "runtime/cuda/graph_node.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

/// A node whose kernel is changed: in an executable graph, or without one in the graph that it belongs to.
class ChangedNode final : public KernelNode {
 public:
  ChangedNode(const Context& context, CUgraphNode node, CUgraphExec exec) noexcept
      : context_(context), node_(node), exec_(exec) {}
  void set(const CUDA_KERNEL_NODE_PARAMS& kernel, const char* label, SourceLocation where) override {
    const Driver& driver = context_.driver();
    const Purpose purpose{"changing a number of a graph", label, where};
    if (exec_ == nullptr)
      return context_.check(driver.cuGraphKernelNodeSetParams(node_, &kernel), "cuGraphKernelNodeSetParams", purpose);
    context_.check(driver.cuGraphExecKernelNodeSetParams(exec_, node_, &kernel), "cuGraphExecKernelNodeSetParams",
                   purpose);
  }

 private:
  const Context& context_;
  CUgraphNode node_;
  CUgraphExec exec_;
};

/// The executable graph of all copies of a CudaGraph, which differ in their calls only.
class Executable {
 public:
  Executable(const Context& context, CapturedGraph graph, std::shared_ptr<const GraphRecording> recording)
      : context_(context),
        graph_(std::move(graph)),
        recording_(std::move(recording)),
        applied_(recording_->calls()),
        unknown_(applied_.size(), false) {
    check(driver().cuGraphInstantiateWithFlags(&exec_, graph_.get(), 0), "cuGraphInstantiateWithFlags",
          "making a graph");
    if (applied_.empty()) graph_.reset();
  }
  ~Executable() {
    const Current current(context_, std::nothrow);
    if (!current) {
      graph_.abandon();
      return;
    }
    context_.synchronize();  // launches of it may still be queued
    driver().cuGraphExecDestroy(exec_);
    graph_.reset();
  }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// Enqueues it with these calls. Launches that are enqueued already keep theirs ("Already enqueued or running
  /// launches are not affected": cuGraphExecKernelNodeSetParams and cuGraphExecUpdate in the driver's reference).
  void launch(const std::shared_ptr<const GraphCalls>& calls, CUstream stream) {
    const std::lock_guard lock(mutex_);
    if (calls != current_) {
      current_ = nullptr;
      apply(*calls);
      current_ = calls;
    }
    check(driver().cuGraphLaunch(exec_, stream), "cuGraphLaunch", "replaying a graph");
  }

 private:
  static bool same(const RecordedCall& a, const RecordedCall& b) {
    return a.work == b.work && a.args == b.args && a.grid.x == b.grid.x && a.grid.y == b.grid.y && a.grid.z == b.grid.z;
  }
  /// A call that fails leaves it unknown which numbers the graph has: then the next launch sets them.
  void apply(const GraphCalls& calls) {
    bool in_bodies = false, changed = false;
    for (const RecordedNode& node : graph_.nodes()) in_bodies = in_bodies || node.in_body;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!unknown_[i] && same(calls[i], applied_[i])) continue;
      changed = unknown_[i] = true;
      ChangedNode node(context_, graph_.nodes()[i].node, in_bodies ? nullptr : exec_);
      const RecordedCall& call = calls[i];
      const RecordedWork& entry = *recording_->updatable()[i];
      UpdateLaunch launch(graph_.nodes()[i].successor_gains, entry.where);
      call.work->launch({call.grid, call.args, entry.accesses, nullptr, static_cast<LaunchState*>(&launch),
                         static_cast<KernelNode*>(&node)});
      applied_[i] = call;
      if (!in_bodies) unknown_[i] = false;
    }
    if (!changed || !in_bodies) return;
    // A node of a body cannot be named in the executable graph: all of it takes over what has changed.
    CUgraphExecUpdateResultInfo result;
    check(driver().cuGraphExecUpdate(exec_, graph_.get(), &result), "cuGraphExecUpdate",
          "changing a number of a graph");
    unknown_.assign(unknown_.size(), false);
  }
  const Driver& driver() const noexcept { return context_.driver(); }
  void check(CUresult result, const char* call, const char* what) const { context_.check(result, call, what); }

  const Context& context_;
  CapturedGraph graph_;                              // empty if nothing of it can be changed
  std::shared_ptr<const GraphRecording> recording_;  // arguments and storages
  CUgraphExec exec_ = nullptr;
  std::mutex mutex_;
  std::shared_ptr<const GraphCalls> current_;  // what the graph has; null: the entries differ in what they have
  GraphCalls applied_;
  std::vector<bool> unknown_;
};

class CudaGraph final : public GraphWork {
 public:
  CudaGraph(std::shared_ptr<Executable> executable, std::shared_ptr<const GraphCalls> calls)
      : executable_(std::move(executable)), calls_(std::move(calls)) {}
  void launch(const LaunchContext& c) const override {
    executable_->launch(calls_, static_cast<CUstream>(c.native_queue));
  }
  std::shared_ptr<const GraphWork> with(std::shared_ptr<const GraphCalls> calls) const override {
    return std::make_shared<const CudaGraph>(executable_, std::move(calls));
  }

 private:
  std::shared_ptr<Executable> executable_;
  std::shared_ptr<const GraphCalls> calls_;
};

}  // namespace

std::shared_ptr<const GraphWork> CudaBackend::make_graph(std::shared_ptr<const GraphRecording> recording) {
  if (driver().cuGraphAddKernelNode == nullptr)
    throw DeviceError(concat(name(), ": this driver has no graphs; they need one of CUDA 12.0 or newer."));
  poll();
  const Current current(context_);
  auto calls = std::make_shared<const GraphCalls>(recording->calls());
  CapturedGraph graph = capture_graph(*this, *recording);
  auto executable = std::make_shared<Executable>(context_, std::move(graph), std::move(recording));
  return std::make_shared<const CudaGraph>(std::move(executable), std::move(calls));
}

}  // namespace tessera::runtime::cuda
