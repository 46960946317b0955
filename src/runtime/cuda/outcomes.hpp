// Outcomes of kernels with checks, and of the work that depends on them. The host learns only at its completion whether
// such a kernel failed. Until then its *outcome* is pending, and so is that of all work that has read its results. When
// the host has waited for an event, the outcomes up to that event are resolved from the error records: a failed one
// becomes the failure of that work and of what it wrote (docs/runtime.md, "Failures"). While no outcome is pending, a
// launch costs one atomic load.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/cuda/context.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime::cuda {

/// Work of which it is not known yet whether it failed.
struct Outcome {
  std::shared_ptr<const Track> track;  ///< the queue it is on
  std::uint64_t number = 0;
  std::shared_ptr<QueueObserver> observer;
  std::shared_ptr<const std::vector<calling::Check>>
      checks;     ///< of the kernel; null for work that only depends on others
  int slot = -1;  ///< its error record; -1: none
  const char* label = "";
  std::vector<std::shared_ptr<Outcome>> inputs;  ///< pending outcomes of what it reads
  std::vector<std::weak_ptr<Storage>> written;
  bool ended = false;  ///< used while outcomes are resolved
  FailureRef failure;  ///< once resolved
};

class Outcomes {
 public:
  explicit Outcomes(const Context& context) : context_(context) {}
  ~Outcomes();

  /// True if any outcome is pending.
  bool any() const noexcept { return pending_.load(std::memory_order_acquire) != 0; }

  /// An outcome with the pending outcomes that work about to be enqueued depends on; null if its inputs have none.
  std::shared_ptr<Outcome> depending(std::span<const Access> accesses);
  /// Reserves room for one more pending outcome; waits for the device if too many are pending. Throws DeviceError.
  void reserve();
  /// Undoes a reservation: the work was not enqueued.
  void abandon(Outcome& outcome) noexcept;
  /// Assigns an error record of zeros to a reserved outcome, and returns its address on the device. Throws DeviceError.
  CUdeviceptr assign_record(Outcome& outcome);
  /// The work has been enqueued: with a reserved outcome, or, if null, without one.
  void enqueued(std::shared_ptr<Outcome> outcome, std::span<const Access> accesses) noexcept;

  /// The work is not enqueued, because an input carries a failure: what it was to write does, too.
  static void skipped(std::span<const Access> accesses) noexcept;

  /// The work of the queue up to `number` has ended: resolves its outcomes and those that it depended on.
  void ended(const Track& track, std::uint64_t number);
  /// Drops the outcomes of a queue whose device is dead: they cannot be resolved.
  void forget(const Track& track) noexcept;

 private:
  using List = std::vector<std::shared_ptr<Outcome>>;
  void allocate_records();
  /// Adds the storages it used to `touched`, to be released after the mutex: one may be the last reference, and a
  /// storage's destructor calls into streams.
  void resolve_ended(std::vector<StorageRef>& touched);
  void resolve(Outcome& outcome, std::vector<StorageRef>& touched);  // touched has the capacity
  FailureRef failure_of(const Outcome& outcome) const;
  void resolve_all();
  void release_record(Outcome& outcome) noexcept;
  volatile std::int32_t* record(int slot) const noexcept { return records_ + slot * calling::kErrorRecordInts; }

  static constexpr int kMost = 4096;  ///< pending outcomes, and error records in one block of pinned memory

  const Context& context_;
  std::atomic<int> pending_{0};
  std::mutex mutex_;  // everything below
  List list_;         // in the order of enqueuing
  int reserved_ = 0;  // further outcomes that list_ has capacity for
  volatile std::int32_t* records_ = nullptr;
  CUdeviceptr device_records_ = 0;
  std::vector<int> free_slots_;
  std::vector<StorageRef> kept_;  // to be released by the next ended()
};

}  // namespace tessera::runtime::cuda
