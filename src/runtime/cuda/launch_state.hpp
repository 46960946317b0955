// What the queue and the work that it launches tell each other: the route by which a kernel with checks gets its error
// record, and whether a kernel stands right behind another one.
#pragma once
#include <memory>
#include <vector>

#include "runtime/cuda/outcomes.hpp"

namespace tessera::runtime::cuda {

/// Behind LaunchContext::native_launch while a CudaQueue launches.
class LaunchState {
 public:
  /// `behind_kernel`: the last thing that was enqueued is a kernel.
  LaunchState(Outcomes& outcomes, const Submission& submission, bool behind_kernel)
      : outcomes_(outcomes), submission_(submission), behind_kernel_(behind_kernel) {}
  ~LaunchState() {
    if (outcome_) outcomes_.abandon(*outcome_);
  }
  LaunchState(const LaunchState&) = delete;
  LaunchState& operator=(const LaunchState&) = delete;

  const Submission& submission() const noexcept { return submission_; }
  bool behind_kernel() const noexcept { return behind_kernel_; }
  /// The work says that it is a kernel, which it has enqueued.
  void enqueued_kernel() noexcept { is_kernel_ = true; }
  bool is_kernel() const noexcept { return is_kernel_; }
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
  bool behind_kernel_, is_kernel_ = false;
};

}  // namespace tessera::runtime::cuda
