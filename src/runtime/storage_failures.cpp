// The failure that a storage's contents carry, and the outcome that is not known yet of the work that wrote them.
#include <mutex>
#include <utility>

#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

FailureRef Storage::failure() const noexcept {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::shared_ptr<void> Storage::pending_outcome() const noexcept {
  std::lock_guard lock(mutex_);
  return pending_outcome_;
}

void Storage::set_pending_outcome(std::shared_ptr<void> outcome) noexcept {
  std::lock_guard lock(mutex_);
  pending_outcome_.swap(outcome);
}

void Storage::set_overwritten(std::shared_ptr<void> outcome) noexcept {
  FailureRef ended;  // destroyed after the lock is released, as the old outcome
  std::lock_guard lock(mutex_);
  pending_outcome_.swap(outcome);
  ended = std::move(failure_);
  failure_ = nullptr;
  has_failure_.store(false, std::memory_order_release);
}

void Storage::resolve_outcome(const void* outcome, FailureRef failure) noexcept {
  std::shared_ptr<void> resolved;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  if (pending_outcome_.get() != outcome) return;
  resolved = std::move(pending_outcome_);
  if (!failure) return;
  failure_.swap(failure);
  has_failure_.store(true, std::memory_order_release);
}

void Storage::set_failure(FailureRef failure) noexcept {
  std::lock_guard lock(mutex_);
  failure_.swap(failure);
  has_failure_.store(failure_ != nullptr, std::memory_order_release);
}

}  // namespace tessera::runtime
