// The state of a kernel's launch on a queue: error records of kernels with checks, what the queue's stream has in
// flight, and which kernel followed this one the last time (successors.hpp).
#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cuda/launch_state.hpp"
#include "runtime/cuda/outcomes.hpp"
#include "runtime/cuda/successors.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime::cuda {

/// The state of a queue's stream between two operations.
struct StreamState {
  const StreamCore* stream = nullptr;
  bool kernel_is_last = false;    ///< the last operation is a kernel: no event wait, copy or fill follows it
  std::uint64_t last_kernel = 0;  ///< its KernelLaunch::id
  std::uint64_t ended = 0;        ///< all work up to this number has ended when the last kernel starts
  std::uint64_t raw_writes = 0;   ///< the number of the last kernel that may write outside its tensors
};

/// Of one piece of work that a CudaQueue launches.
class QueueLaunch final : public LaunchState {
 public:
  QueueLaunch(Outcomes& outcomes, const Submission& submission, const StreamState& stream, const Successors& successors,
              bool among_two)
      : outcomes_(outcomes), submission_(submission), stream_(stream), successors_(successors), among_two_(among_two) {}
  ~QueueLaunch() {
    if (outcome_) outcomes_.abandon(*outcome_);
  }
  QueueLaunch(const QueueLaunch&) = delete;
  QueueLaunch& operator=(const QueueLaunch&) = delete;

  SourceLocation where() const noexcept override { return submission_.where; }
  bool follows_kernel() const noexcept override { return among_two_ && stream_.kernel_is_last; }
  bool no_writer_in_flight(std::uint64_t address) const noexcept override {
    if (stream_.stream == nullptr || stream_.raw_writes > stream_.ended) return false;
    bool known = false;
    for (const Access& access : submission_.accesses) {
      const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(access.storage->data());
      if (address < begin || address - begin >= access.storage->bytes()) continue;
      if (access.storage->may_be_written_after(*stream_.stream, stream_.ended)) return false;
      known = true;  // go on: borrowed memory of another access may be the same
    }
    return known;
  }
  bool successor_gains(std::uint64_t id) const noexcept override { return successors_.successor_gained(id); }
  void enqueued_kernel(const KernelLaunch& kernel) noexcept override { kernel_ = kernel; }
  /// The stream's state after the work, which has been enqueued with the number `number`.
  StreamState after(std::uint64_t number, Successors& successors) const noexcept {
    StreamState next = stream_;
    next.kernel_is_last = kernel_.has_value();
    if (!kernel_) return next;
    if (stream_.kernel_is_last) successors.record(stream_.last_kernel, kernel_->programmatic && kernel_->gains);
    next.last_kernel = kernel_->id;
    if (!kernel_->programmatic) next.ended = number - 1;
    if (kernel_->raw_writes) next.raw_writes = number;
    return next;
  }
  /// Creates a pending outcome if an input has one. Throws DeviceError.
  void inherit() {
    if (!outcomes_.any()) return;
    auto outcome = outcomes_.depending(submission_.accesses);
    if (outcome) open(std::move(outcome));
  }
  /// Whether the work itself, or what it depends on, may be found to have failed.
  bool has_outcome() const noexcept { return outcome_ != nullptr; }
  std::optional<CUdeviceptr> error_record(const std::shared_ptr<const std::vector<calling::Check>>& checks) override {
    if (!outcome_) open(std::make_shared<Outcome>());
    outcome_->checks = checks;
    return outcomes_.assign_record(*outcome_);
  }
  /// The work has been enqueued with the number `number` on the queue of `track`.
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
    outcomes_.reserve();
    outcome_ = std::move(outcome);
  }

  Outcomes& outcomes_;
  const Submission& submission_;
  std::shared_ptr<Outcome> outcome_;  ///< reserved (Outcomes::reserve)
  const StreamState& stream_;
  const Successors& successors_;
  const bool among_two_;  ///< CudaBackend::launches_among_two
  std::optional<KernelLaunch> kernel_;
};

}  // namespace tessera::runtime::cuda
