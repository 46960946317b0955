// Resolving outcomes. The list is in the order of enqueuing, so an outcome comes after those that it depends on. A
// backward pass marks as ended what work that has ended depended on; a forward pass resolves all that is marked.
#include "runtime/cuda/outcomes.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

Outcomes::~Outcomes() {
  if (records_ == nullptr) return;
  const Current current(context_, std::nothrow);
  if (current) context_.driver().cuMemFreeHost(const_cast<std::int32_t*>(records_));
}

std::shared_ptr<Outcome> Outcomes::depending(std::span<const Access> accesses) {
  std::shared_ptr<Outcome> outcome;
  for (const Access& access : accesses) {
    if (access.mode == AccessMode::Write) continue;
    const auto pending = std::static_pointer_cast<Outcome>(access.storage->pending_outcome());
    if (!pending) continue;
    if (!outcome) outcome = std::make_shared<Outcome>();
    outcome->inputs.push_back(pending);
  }
  return outcome;
}

void Outcomes::allocate_records() {
  const Driver& driver = context_.driver();
  free_slots_.reserve(kMost);  // so that release_record() cannot fail
  void* memory = nullptr;
  const std::size_t bytes = std::size_t{kMost} * calling::kErrorRecordInts * sizeof(std::int32_t);
  context_.check(driver.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                 "cuMemHostAlloc", "making the error records of kernels with checks");
  if (const CUresult result = driver.cuMemHostGetDevicePointer(&device_records_, memory, 0); result != CUDA_SUCCESS) {
    driver.cuMemFreeHost(memory);
    context_.fail(result, "cuMemHostGetDevicePointer", "making the error records of kernels with checks");
  }
  records_ = static_cast<volatile std::int32_t*>(memory);
  for (int slot = kMost; slot-- > 0;) free_slots_.push_back(slot);
}

void Outcomes::reserve() {
  const auto full = [&] { return list_.size() + static_cast<std::size_t>(reserved_) >= kMost; };
  std::unique_lock lock(mutex_);
  if (full()) {
    lock.unlock();
    resolve_all();
    lock.lock();
    if (full()) throw DeviceError("too many threads launch kernels with checks at the same time");
  }
  list_.reserve(list_.size() + static_cast<std::size_t>(reserved_) + 1);
  ++reserved_;
}

void Outcomes::release_record(Outcome& outcome) noexcept {
  if (outcome.slot >= 0) free_slots_.push_back(std::exchange(outcome.slot, -1));
}

void Outcomes::abandon(Outcome& outcome) noexcept {
  std::lock_guard lock(mutex_);
  release_record(outcome);
  --reserved_;
}

CUdeviceptr Outcomes::assign_record(Outcome& outcome) {
  std::lock_guard lock(mutex_);
  if (records_ == nullptr) allocate_records();
  outcome.slot = free_slots_.back();
  free_slots_.pop_back();  // never empty: there are as many records as pending and reserved outcomes
  for (int i = 0; i < calling::kErrorRecordInts; ++i) record(outcome.slot)[i] = 0;
  return device_records_ + static_cast<std::size_t>(outcome.slot) * calling::kErrorRecordInts * sizeof(std::int32_t);
}

void Outcomes::enqueued(std::shared_ptr<Outcome> outcome, std::span<const Access> accesses) noexcept {
  std::lock_guard lock(mutex_);
  for (const Access& access : accesses) {
    if (access.mode == AccessMode::Write) access.storage->set_overwritten(outcome);
    if (access.mode == AccessMode::ReadWrite) access.storage->set_pending_outcome(outcome);
  }
  if (!outcome) return;
  --reserved_;
  list_.push_back(std::move(outcome));
  pending_.store(static_cast<int>(list_.size()), std::memory_order_release);
}

void Outcomes::skipped(std::span<const Access> accesses) noexcept {
  for (const Access& access : accesses) {
    if (access.mode != AccessMode::Read) access.storage->set_pending_outcome(nullptr);
  }
}

void Outcomes::ended(const Track& track, std::uint64_t number) {
  if (!any()) return;
  std::vector<StorageRef> touched;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  touched.swap(kept_);
  for (const auto& outcome : list_) {
    if (outcome->track.get() == &track && outcome->number <= number) outcome->ended = true;
  }
  resolve_ended(touched);
}

void Outcomes::resolve_ended(std::vector<StorageRef>& touched) {
  for (auto outcome = list_.rbegin(); outcome != list_.rend(); ++outcome) {
    if (!(*outcome)->ended) continue;
    for (const auto& input : (*outcome)->inputs) input->ended = true;
  }
  std::size_t most = touched.size();
  for (const auto& outcome : list_) {
    if (outcome->ended) most += outcome->written.size();
  }
  touched.reserve(most);
  for (const auto& outcome : list_) {
    if (outcome->ended) resolve(*outcome, touched);
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  std::erase_if(list_, [](const auto& outcome) { return outcome->ended; });
  pending_.store(static_cast<int>(list_.size()), std::memory_order_release);
}

/// The failure of work that has ended and whose inputs are resolved; empty if it succeeded.
FailureRef Outcomes::failure_of(const Outcome& outcome) const {
  for (const auto& input : outcome.inputs) {
    if (input->failure) return input->failure;
  }
  if (outcome.slot < 0) return nullptr;
  const volatile std::int32_t* values = record(outcome.slot);
  if (values[0] == 0) return nullptr;
  const auto index = static_cast<std::size_t>(values[0]) - 1;
  const bool known = values[0] > 0 && index < outcome.checks->size();
  std::string block;
  if (values[1] > 0) block = concat(" in block (", values[1] - 1, ", ", values[2] - 1, ", ", values[3] - 1, ")");
  const std::string message = known ? (*outcome.checks)[index].message : concat("check number ", values[0]);
  auto failure = std::make_shared<Failure>();
  failure->error =
      std::make_exception_ptr(DeviceError(concat(outcome.label, ": assertion failed", block, ": ", message),
                                          known ? (*outcome.checks)[index].where : SourceLocation()));
  return failure;
}

void Outcomes::resolve(Outcome& outcome, std::vector<StorageRef>& touched) {
  outcome.failure = failure_of(outcome);
  if (outcome.failure && outcome.observer) outcome.observer->found_failed(outcome.number, outcome.failure);
  for (const auto& weak : outcome.written) {
    StorageRef storage = weak.lock();
    if (!storage) continue;
    storage->resolve_outcome(&outcome, outcome.failure);
    touched.push_back(std::move(storage));
  }
  outcome.inputs.clear();
  release_record(outcome);
}

void Outcomes::resolve_all() {
  List now;
  {
    std::lock_guard lock(mutex_);
    now = list_;
  }
  context_.check(context_.synchronize(), "cuCtxSynchronize", "waiting for kernels with checks");
  std::lock_guard lock(mutex_);
  for (const auto& outcome : now) outcome->ended = true;
  resolve_ended(kept_);  // the caller holds its stream's lock, so no storage may be destroyed here
}

void Outcomes::forget(const Track& track) noexcept {
  std::lock_guard lock(mutex_);
  std::erase_if(list_, [&](const std::shared_ptr<Outcome>& outcome) {
    if (outcome->track.get() != &track) return false;
    outcome->inputs.clear();
    release_record(*outcome);
    return true;
  });
  pending_.store(static_cast<int>(list_.size()), std::memory_order_release);
}

}  // namespace tessera::runtime::cuda
