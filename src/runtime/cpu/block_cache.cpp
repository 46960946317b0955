// Freed blocks are used again by exact size; large ones use huge pages where the system grants them.
#include "runtime/cpu/block_cache.hpp"

#include <sys/mman.h>

#include <bit>
#include <new>

#include "tessera/runtime/backend.hpp"

namespace tessera::runtime {

namespace {

constexpr std::size_t kSmallest = std::size_t{256} << 10;  // malloc caches smaller blocks itself
constexpr std::size_t kHugePage = std::size_t{2} << 20;    // of x86-64; on other machines only an alignment
constexpr std::size_t kHugeFrom = 2 * kHugePage;

std::align_val_t alignment(std::size_t size) {
  return std::align_val_t(size >= kHugeFrom ? kHugePage : kStorageAlignment);
}

void* from_system(std::size_t size) noexcept {
  void* memory = ::operator new(size, alignment(size), std::nothrow);
  // Whole huge pages only. Where the system does not grant them, nothing changes.
  if (memory != nullptr && size >= kHugeFrom) madvise(memory, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void to_system(void* memory, std::size_t size) noexcept { ::operator delete(memory, alignment(size), std::nothrow); }

}  // namespace

std::size_t BlockCache::block_size(std::size_t bytes) noexcept {
  if (bytes < kSmallest) return bytes;
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

void* BlockCache::take(std::size_t bytes) noexcept {
  const std::size_t size = block_size(bytes);
  if (size >= kSmallest) {
    std::lock_guard lock(mutex_);
    if (void* memory = blocks_.take(size)) return memory;
  }
  if (void* memory = from_system(size)) return memory;
  trim();
  return from_system(size);
}

void BlockCache::give(void* memory, std::size_t bytes) noexcept {
  const std::size_t size = block_size(bytes);
  if (size < kSmallest || size > blocks_.most_bytes()) return to_system(memory, size);
  std::lock_guard lock(mutex_);
  blocks_.give(memory, size, to_system);
}

void BlockCache::trim() noexcept {
  std::lock_guard lock(mutex_);
  blocks_.clear(to_system);
}

std::size_t BlockCache::kept() const noexcept {
  std::lock_guard lock(mutex_);
  return blocks_.bytes();
}

}  // namespace tessera::runtime
