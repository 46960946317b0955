// What the queue and the work that it launches say to each other: the error record of a kernel with checks, whether a
// kernel stands right behind another one, what it may read before it waits for that one, and what came behind it the
// last time.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/outcomes.hpp"
#include "runtime/cuda/successors.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime::cuda {

/// What a queue knows of its stream between two pieces of work.
struct StreamState {
  const StreamCore* stream = nullptr;
  bool kernel_is_last = false;    ///< nothing that orders later work stands behind the last kernel
  std::uint64_t last_kernel = 0;  ///< its KernelLaunch::id
  std::uint64_t ended = 0;        ///< the number of a piece of work: up to it all has ended when the last kernel starts
  std::uint64_t raw_writes = 0;   ///< the number of the last kernel that may write where none of its tensors is
};

/// What a kernel says of its launch.
struct KernelLaunch {
  std::uint64_t id = 0;     ///< one for each loaded kernel, from 1 on
  bool early = false;       ///< it may start before its predecessor has ended
  bool raw_writes = false;  ///< it may write where none of its tensors is
  bool gains = false;       ///< if early: it gains by being scheduled beside its predecessor
};

/// Behind LaunchContext::native_launch while a CudaQueue launches.
class LaunchState {
 public:
  LaunchState(Outcomes& outcomes, const Submission& submission, const StreamState& stream, const Successors& successors)
      : outcomes_(outcomes), submission_(submission), stream_(stream), successors_(successors) {}
  ~LaunchState() {
    if (outcome_) outcomes_.abandon(*outcome_);
  }
  LaunchState(const LaunchState&) = delete;
  LaunchState& operator=(const LaunchState&) = delete;

  const Submission& submission() const noexcept { return submission_; }
  bool behind_kernel() const noexcept { return stream_.kernel_is_last; }
  /// True if the memory at `address`, of a tensor of this launch, is written by nothing that may still run when a
  /// kernel starts that is enqueued now, before its predecessor has ended.
  bool settled(std::uint64_t address) const noexcept {
    if (stream_.stream == nullptr || stream_.raw_writes > stream_.ended) return false;
    bool known = false;
    for (const Access& access : submission_.accesses) {
      const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(access.storage->data());
      if (address < begin || address - begin >= access.storage->bytes()) continue;
      if (access.storage->may_be_written_after(*stream_.stream, stream_.ended)) return false;
      known = true;  // and borrowed memory of another access may be the same
    }
    return known;
  }
  /// What comes behind this kernel is expected to gain by being scheduled beside it.
  bool successor_gains(std::uint64_t id) const noexcept { return successors_.gained_behind(id); }
  /// The work says that it is a kernel, which it has enqueued.
  void enqueued_kernel(const KernelLaunch& kernel) noexcept { kernel_ = kernel; }
  /// What the stream knows when the work has been enqueued as the piece `number`.
  StreamState after(std::uint64_t number, Successors& successors) const noexcept {
    StreamState next = stream_;
    next.kernel_is_last = kernel_.has_value();
    if (!kernel_) return next;
    if (stream_.kernel_is_last) successors.came_behind(stream_.last_kernel, kernel_->early && kernel_->gains);
    next.last_kernel = kernel_->id;
    if (!kernel_->early) next.ended = number - 1;
    if (kernel_->raw_writes) next.raw_writes = number;
    return next;
  }
  /// Opens an outcome if an input has one. Throws DeviceError.
  void inherit() {
    if (!outcomes_.any()) return;
    auto outcome = outcomes_.depending(submission_.accesses);
    if (outcome) open(std::move(outcome));
  }
  /// For a kernel with checks: the address of its error record. Throws DeviceError.
  CUdeviceptr error_record(const std::shared_ptr<const std::vector<Check>>& checks) {
    if (!outcome_) open(std::make_shared<Outcome>());
    outcome_->checks = checks;
    return outcomes_.give_record(*outcome_);
  }
  /// The work has been enqueued as the piece `number` of the queue behind `track`.
  void enqueued(const std::shared_ptr<Track>& track, std::uint64_t number,
                const std::shared_ptr<QueueObserver>& observer) noexcept {
    if (!outcome_ && !outcomes_.any()) return;
    if (outcome_) {
      outcome_->track = track;
      outcome_->number = number;
      outcome_->observer = observer;
    }
    outcomes_.enqueued(std::move(outcome_), submission_.accesses);
    outcome_ = nullptr;
  }

 private:
  void open(std::shared_ptr<Outcome> outcome) {
    for (const Access& access : submission_.accesses) {
      if (access.mode != AccessMode::Read) outcome->written.push_back(access.storage);
    }
    outcome->label = submission_.label;
    outcomes_.promise();
    outcome_ = std::move(outcome);
  }

  Outcomes& outcomes_;
  const Submission& submission_;
  std::shared_ptr<Outcome> outcome_;  ///< promised
  const StreamState& stream_;
  const Successors& successors_;
  std::optional<KernelLaunch> kernel_;
};

}  // namespace tessera::runtime::cuda
