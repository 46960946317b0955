// Events of the whole context, and the memory that waits for them. Leases are released under the lock, so a thread that
// has waited for the lock sees them released. Memory is released outside, because its owners may run any code.
#include "runtime/cuda/handed_back.hpp"

#include <utility>

namespace tessera::runtime::cuda {

namespace {

void end_leases(HandedBack* first) noexcept {
  for (HandedBack* entry = first; entry != nullptr; entry = entry->next) entry->end_lease();
}

void end_memory(HandedBack* first) noexcept {
  while (first != nullptr) delete std::exchange(first, first->next);
}

HandedBack* joined(HandedBack* first, HandedBack* rest) noexcept {
  if (first == nullptr) return rest;
  HandedBack* last = first;
  while (last->next != nullptr) last = last->next;
  last->next = rest;
  return first;
}

}  // namespace

void HandedBackMemory::add(HandedBack* memory) noexcept { add_list(memory); }

void HandedBackMemory::add_list(HandedBack* first) noexcept {
  if (first == nullptr) return;
  HandedBack* last = first;
  while (last->next != nullptr) last = last->next;
  last->next = new_.load(std::memory_order_relaxed);
  while (!new_.compare_exchange_weak(last->next, first, std::memory_order_release, std::memory_order_relaxed)) {}
}

/// Records an event for the new entries. If the driver cannot (it is older than CUDA 12.5, or a graph is being
/// captured), they stay new until the next look() or finish().
void HandedBackMemory::record_new() noexcept {
  const Driver& driver = context_.driver();
  if (driver.cuCtxRecordEvent == nullptr || new_.load(std::memory_order_relaxed) == nullptr) return;
  HandedBack* first = nullptr;
  try {
    batches_.reserve(batches_.size() + 1);
    PooledEvent event(events_);
    first = new_.exchange(nullptr, std::memory_order_acquire);
    // Recording the context's work would invalidate a capture in it.
    const auto lock = context_.try_begin_capture();
    if (lock && driver.cuCtxRecordEvent(context_.handle(), event.get()) == CUDA_SUCCESS) {
      batches_.push_back({first, std::move(event)});
      return;
    }
  } catch (...) {
    // No memory for an event.
  }
  add_list(first);
}

void HandedBackMemory::look() noexcept {
  const Current current(context_, std::nothrow);
  if (!current) return;
  HandedBack* ended = nullptr;
  {
    std::lock_guard lock(mutex_);
    record_new();
    for (std::size_t i = 0; i < batches_.size();) {
      if (!context_.has_ended(batches_[i].event.get())) {
        ++i;
        continue;
      }
      ended = joined(batches_[i].first, ended);
      if (i + 1 != batches_.size()) std::swap(batches_[i], batches_.back());
      batches_.pop_back();
    }
    batches_left_.store(batches_.size(), std::memory_order_relaxed);
    end_leases(ended);
  }
  end_memory(ended);
}

HandedBack* HandedBackMemory::take_all() noexcept {
  HandedBack* all = new_.exchange(nullptr, std::memory_order_acquire);
  for (const Batch& batch : batches_) all = joined(batch.first, all);
  batches_.clear();
  batches_left_.store(0, std::memory_order_relaxed);
  return all;
}

bool HandedBackMemory::finish() {
  HandedBack* all = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (new_.load(std::memory_order_relaxed) == nullptr && batches_.empty()) return false;
    const Current current(context_);
    all = take_all();  // before waiting: entries added later may still be in use
    const CUresult waited = context_.synchronize();
    if (waited != CUDA_SUCCESS && !result_info(waited).poison && !context_.poisoned()) {
      add_list(all);
      context_.fail(waited, "cuCtxSynchronize", "waiting for another library's work on a tensor that it returned");
    }
    end_leases(all);  // a dead device runs nothing any more
  }
  end_memory(all);
  return true;
}

void HandedBackMemory::clear() noexcept {
  HandedBack* all = nullptr;
  {
    std::lock_guard lock(mutex_);
    all = take_all();
    end_leases(all);
  }
  end_memory(all);
}

}  // namespace tessera::runtime::cuda
