// Counting a device's memory, and the functions through which users read and limit it.
#include "tessera/runtime/memory.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/format.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/backend.hpp"

namespace tessera {

OutOfMemoryError::~OutOfMemoryError() = default;
Allocator::~Allocator() = default;
void Allocator::trim() noexcept {}

MemoryStats memory_stats(Device device, SourceLocation where) {
  runtime::Backend& backend = device.backend();
  MemoryStats stats = backend.account().stats();
  const auto figures = runtime::at_line(where, [&] { return backend.memory_figures(); });
  stats.reserved = figures.reserved;
  stats.free = figures.free;
  stats.total = figures.total;
  return stats;
}

void reset_memory_peak(Device device) noexcept { device.backend().account().reset_peak(); }
void set_memory_limit(Device device, std::size_t bytes) noexcept { device.backend().account().set_limit(bytes); }
void trim_memory(Device device, SourceLocation where) {
  if (const auto allocator = device.backend().account().allocator()) allocator->trim();
  runtime::at_line(where, [&] { device.backend().trim_memory(); });
}
void set_allocator(Device device, std::shared_ptr<Allocator> allocator) noexcept {
  device.backend().account().set_allocator(std::move(allocator));
}

namespace runtime {

bool MemoryAccount::take(std::size_t bytes) noexcept {
  std::size_t now = in_use_.load(std::memory_order_relaxed);
  do {
    const std::size_t most = limit();
    if (now > most || bytes > most - now) return false;
  } while (!in_use_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  return true;
}

void MemoryAccount::taken() noexcept {
  allocations_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t now = in_use();
  std::size_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {}
}

void MemoryAccount::give_back(std::size_t bytes) noexcept {
  cancel(bytes);
  frees_.fetch_add(1, std::memory_order_relaxed);
}

MemoryStats MemoryAccount::stats() const noexcept {
  MemoryStats stats;
  stats.in_use = in_use();
  stats.peak = peak_.load(std::memory_order_relaxed);
  stats.limit = limit();
  stats.allocations = allocations_.load(std::memory_order_relaxed);
  stats.frees = frees_.load(std::memory_order_relaxed);
  return stats;
}

std::shared_ptr<Allocator> MemoryAccount::allocator() const noexcept {
  if (!has_allocator_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(mutex_);
  return allocator_;
}

void MemoryAccount::set_allocator(std::shared_ptr<Allocator> allocator) noexcept {
  std::lock_guard lock(mutex_);
  allocator_.swap(allocator);  // the old one ends after the lock
  has_allocator_.store(allocator_ != nullptr, std::memory_order_release);
}

void throw_out_of_memory(const std::string& device, const MemorySizes& sizes, SourceLocation where) {
  std::string text = concat("out of memory on ", device, ": ", sizes.asked, " bytes requested, ", sizes.in_use,
                            " in use by tensors of this process");
  if (sizes.limit != kNoMemoryLimit) text += concat(", the limit is ", sizes.limit);
  if (sizes.total != 0) text += concat(", ", sizes.free, " of the device's ", sizes.total, " bytes are free");
  const bool limited = sizes.limit < sizes.in_use || sizes.asked > sizes.limit - sizes.in_use;
  throw OutOfMemoryError(
      concat(text, ".\n  Free tensors that are not needed, use smaller ones, ",
             limited ? "or raise the limit (set_memory_limit)."
                     : "or end other processes that use the device (for GPUs nvidia-smi lists them)."),
      sizes, where);
}

}  // namespace runtime
}  // namespace tessera
