// Capturing, replaying, retiring.
#include "tessera/host/graph.hpp"

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "host/graph_picture.hpp"
#include "host/whole_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::detail {

/// A recording that can be replayed. One replay at a time is built and not enqueued: the leases of others conflict, so
/// their room is made once.
class GraphCore {
 public:
  explicit GraphCore(Device device) : recording_(std::make_shared<runtime::GraphRecording>(device)) {}

  void record(void (*call)(void*, const Stream&), void* body, SourceLocation where) {
    {
      const runtime::CaptureScope scope(*recording_, where);
      call(body, Stream(scope.stream()));
    }
    recording_->finish();
    check_not_shared();
    const auto accesses = recording_->accesses();
    accesses_.assign(accesses.begin(), accesses.end());
    leases_ = std::vector<runtime::LeaseLink>(accesses_.size());
    for (std::size_t i = 0; i < accesses_.size(); ++i) {
      accesses_[i].lease = &leases_[i];
      owners_.push_back(accesses_[i].storage->ownership());
      copies_host_memory_ = copies_host_memory_ || accesses_[i].storage->device() != recording_->device();
    }
    calls_ = std::make_shared<const runtime::GraphCalls>(recording_->calls());
    work_ = recording_->device().backend().make_graph(recording_);
  }

  const runtime::GraphRecording& recording() const noexcept { return *recording_; }
  bool retired() const noexcept { return retired_; }
  /// False: the thread that ran or dropped the last replay uses nothing of this any more.
  bool pending() const noexcept { return pending_.load(std::memory_order_acquire); }
  void retire() noexcept { retired_ = true; }

  void take_leases(SourceLocation where) {
    check_owners(where);
    std::size_t taken = 0;
    try {
      for (; taken < accesses_.size(); ++taken)
        leases_[taken].take(*accesses_[taken].storage, accesses_[taken].mode != runtime::AccessMode::Read,
                            {"replay of a graph", 0, "", where, this});
    } catch (...) {
      release_leases();
      throw;
    }
    pending_.store(true, std::memory_order_relaxed);
  }
  void release_leases() noexcept {
    for (runtime::LeaseLink& lease : leases_) lease.release();
    pending_.store(false, std::memory_order_release);
  }
  void submit(const Stream& stream, SourceLocation where) {
    if (stream.device() != recording_->device())
      throw DeviceError(concat("replay of a graph: it was captured on ", recording_->device().name(),
                               ", the stream is on ", stream.device().name(),
                               ".\n  Capture it on that device, or use a stream of ", recording_->device().name(), "."),
                        where);
    if (stream.core()->capturing()) {
      runtime::GraphRecording* const outer = runtime::CaptureScope::innermost();
      if (outer == nullptr)
        throw DeviceError(
            "replay of a graph: its stream is being captured into a graph by another thread.\n  Use another stream, or "
            "replay it after the capture.",
            where);
      outer->add_graph(*recording_, *calls_, where);
      return release_leases();
    }
    runtime::Submission submission{work_, {}, {}, accesses_, "graph", where};
    submission.between_devices = copies_host_memory_;
    stream.core()->submit(submission);
    pending_.store(false, std::memory_order_release);  // submit() has released the leases
  }

  /// All calls are prepared before one is used.
  void set_scalar(std::uint64_t id, std::uint64_t bits, SourceLocation where) {
    auto calls = std::make_shared<runtime::GraphCalls>(*calls_);
    bool used = false;
    for (std::size_t i = 0; i < calls->size(); ++i) {
      const runtime::RecordedWork& entry = *recording_->updatable()[i];
      bool changed = false;
      for (const runtime::ScalarUse& use : entry.scalars) {
        if (use.scalar != id) continue;
        (*calls)[i].args[use.slot] = bits;
        changed = true;
      }
      if (changed) entry.update->update((*calls)[i]);
      used = used || changed;
    }
    if (!used)
      throw DeviceError(
          "set() of a GraphScalar that no launch of this graph uses.\n  Pass it to the kernels of the flow while it is "
          "captured: a copy of it is the same GraphScalar, a number computed from it is not.",
          where);
    work_ = work_->with(calls);
    calls_ = std::move(calls);
  }

 private:
  /// Owners that change later are noticed by check_owners(); what the body itself has shared has its owner already.
  void check_not_shared() const {
    for (const runtime::Access& access : recording_->accesses()) {
      if (access.mode == runtime::AccessMode::Read || !access.storage->is_shared()) continue;
      const runtime::RecordedWork* const writer = first_writer(access.storage);
      if (writer == nullptr) continue;  // made here, and only read
      throw BorrowError(
          "capture: a tensor that this work writes is shared when the capture ends. Every replay would change what its "
          "owners may only read.\n  Return the tensor itself, and share a copy (clone) or what release() returns.",
          writer->where);
    }
  }
  const runtime::RecordedWork* first_writer(const runtime::StorageRef& storage) const {
    for (const runtime::RecordedWork& entry : recording_->work()) {
      for (const runtime::Access& access : entry.accesses) {
        if (access.storage == storage && access.mode != runtime::AccessMode::Read) return &entry;
      }
    }
    return nullptr;
  }

  void check_owners(SourceLocation where) const {
    for (std::size_t i = 0; i < accesses_.size(); ++i) {
      if (accesses_[i].mode == runtime::AccessMode::Read || accesses_[i].storage->ownership() == owners_[i]) continue;
      throw BorrowError(
          "replay of a graph: a tensor that the graph writes was moved, given, shared or replaced since the capture or "
          "the last replay.\n  Leave what belongs to the graph where it is, use mut(...) to lend it, or "
          "capture anew.",
          where);
    }
  }

  std::shared_ptr<runtime::GraphRecording> recording_;
  std::shared_ptr<const runtime::GraphCalls> calls_;  // the present ones
  std::shared_ptr<const runtime::GraphWork> work_;
  std::vector<runtime::Access> accesses_;
  std::vector<runtime::LeaseLink> leases_;  // as accesses_
  std::vector<std::uint64_t> owners_;       // as accesses_: Storage::ownership()
  bool copies_host_memory_ = false, retired_ = false;
  std::atomic<bool> pending_{false};  // a replay may be built by one thread and enqueued by another
};

namespace {

class ReplayNode final : public OpNode<void> {
 public:
  ReplayNode(std::shared_ptr<GraphCore> core, SourceLocation where) : core_(std::move(core)), where_(where) {
    core_->take_leases(where);
    held_ = true;
  }
  ~ReplayNode() override {
    if (held_) core_->release_leases();
  }
  runtime::Backend* device() const noexcept override { return &core_->recording().device().backend(); }
  void run(const Stream& stream) override {
    core_->submit(stream, where_);
    held_ = false;
  }

 private:
  std::shared_ptr<GraphCore> core_;
  SourceLocation where_;
  bool held_ = false;
};

}  // namespace

GraphHandle::GraphHandle(Device device, void (*call)(void*, const Stream&), void* body, SourceLocation where)
    : core_(std::make_shared<GraphCore>(device)) {
  core_->record(call, body, where);
}

void GraphHandle::check_live(SourceLocation where) const {
  if (core_ && !core_->retired()) return;
  throw BorrowError(
      "this graph was released or moved: release() has returned its tensors.\n  Use what release() returned, or "
      "capture anew.",
      where);
}

Op<void> GraphHandle::replay(SourceLocation where) const {
  check_live(where);
  if (core_->pending())
    throw BorrowError(
        "a replay of this graph has been built and not enqueued.\n  Run it (.sync(), .on(stream)) or drop it before "
        "the next one.",
        where);
  return Op<void>(new ReplayNode(core_, where));
}

void GraphHandle::retire(SourceLocation where) {
  check_live(where);
  if (core_->pending())
    throw BorrowError(
        "release() of a graph of which a replay has been built and not enqueued.\n  Run or drop it first.", where);
  core_->retire();
}

void GraphHandle::set_scalar(std::uint64_t id, std::uint64_t bits, SourceLocation where) {
  check_live(where);
  if (core_->pending())
    throw BorrowError("set() of a graph of which a replay has been built and not enqueued.\n  Run or drop it first.",
                      where);
  core_->set_scalar(id, bits, where);
}

std::size_t GraphHandle::work_count() const noexcept { return core_ ? core_->recording().call_count() : 0; }
runtime::GraphMemory GraphHandle::memory() const noexcept {
  return core_ ? core_->recording().memory() : runtime::GraphMemory();
}
Device GraphHandle::device(SourceLocation where) const {
  check_live(where);
  return core_->recording().device();
}
std::string GraphHandle::dot() const { return graph_dot(core_->recording()); }
std::string GraphHandle::svg() const { return graph_svg(core_->recording()); }

void write_graph(const GraphHandle& graph, const std::string& path, SourceLocation where) {
  graph.check_live(where);
  const bool svg = path.ends_with(".svg");
  if (!svg && !path.ends_with(".dot"))
    throw IoError(
        concat("save_graph(\"", path, "\"): expected a name that ends with .svg or .dot.\n  Add one of the two."),
        where);
  const std::string text = svg ? graph.svg() : graph.dot();
  WholeFile file(path, where);
  file.write(text.data(), text.size());
  file.finish();
}

}  // namespace tessera::detail
