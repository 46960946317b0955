// Kernels with checks, and what depends on them. The host learns whether such a kernel failed only when it has ended;
// until then its *outcome* is open, and so is that of every piece of work that has read its results. When somebody has
// waited for work, the outcomes it settles are read from the error records: a failed one becomes the failure of that
// work and of what it wrote (docs/runtime.md, "Failures"). While no outcome is open, a launch pays one load.
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

/// One piece of work whose success is not known yet.
struct Outcome {
  std::shared_ptr<const Track> track;  ///< the queue it is on
  std::uint64_t number = 0;
  std::shared_ptr<QueueObserver> observer;
  std::shared_ptr<const std::vector<Check>> checks;  ///< of the kernel; null for work that only depends on others
  int slot = -1;                                     ///< its error record; -1: none
  const char* label = "";
  std::vector<std::shared_ptr<Outcome>> inputs;  ///< open outcomes of what it reads
  std::vector<std::weak_ptr<Storage>> written;
  bool ended = false;  ///< while settling
  FailureRef failure;  ///< once settled
};

class Outcomes {
 public:
  explicit Outcomes(const Context& context) : context_(context) {}
  ~Outcomes();

  /// True if any outcome is open.
  bool any() const noexcept { return open_.load(std::memory_order_acquire) != 0; }

  /// What the work about to be enqueued depends on: null if none of its inputs has an open outcome.
  std::shared_ptr<Outcome> depending(std::span<const Access> accesses);
  /// Keeps room for one more open outcome; waits for the device if too many are open. Throws DeviceError.
  void promise();
  /// The work of a promise was not enqueued after all.
  void abandon(Outcome& outcome) noexcept;
  /// Gives a promised outcome an error record of zeros, and returns its address on the device. Throws DeviceError.
  CUdeviceptr give_record(Outcome& outcome);
  /// The work has been enqueued: with a promised outcome, or, if null, without one.
  void enqueued(std::shared_ptr<Outcome> outcome, std::span<const Access> accesses) noexcept;

  /// The work of the queue up to `number` has ended: settles it and what it depended on.
  void ended(const Track& track, std::uint64_t number);
  /// The queue is gone, and nobody will learn how its work ended (the device is dead).
  void forget(const Track& track) noexcept;

 private:
  using List = std::vector<std::shared_ptr<Outcome>>;
  void allocate_records();
  /// `touched` gets the storages that were locked on the way, to be released when the lock is: one may be the last
  /// reference, and the end of a storage calls into streams.
  void settle_ended(std::vector<StorageRef>& touched);
  void settle(Outcome& outcome, std::vector<StorageRef>& touched);  // which has room
  FailureRef failure_of(const Outcome& outcome) const;
  void settle_everything();
  void give_back(Outcome& outcome) noexcept;
  volatile std::int32_t* record(int slot) const noexcept { return records_ + slot * kErrorRecordInts; }

  static constexpr int kMost = 4096;  ///< open outcomes, and error records: one page of pinned memory

  const Context& context_;
  std::atomic<int> open_{0};
  std::mutex mutex_;  // everything below
  List list_;         // in the order of enqueuing
  int promised_ = 0;  // outcomes that list_ has room for besides
  volatile std::int32_t* records_ = nullptr;
  CUdeviceptr device_records_ = 0;
  std::vector<int> free_slots_;
  std::vector<StorageRef> kept_;  // to be released by the next ended()
};

}  // namespace tessera::runtime::cuda
