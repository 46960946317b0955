// Freed blocks, ordered by age and reused by exact size; large ones use huge pages where the system grants them.
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
    for (std::size_t i = blocks_.size(); i-- > 0;) {  // the youngest first: it is the likeliest to be in a cache
      if (blocks_[i].size != size) continue;
      void* memory = blocks_[i].memory;
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
      kept_ -= size;
      return memory;
    }
  }
  if (void* memory = from_system(size)) return memory;
  trim();
  return from_system(size);
}

void BlockCache::give(void* memory, std::size_t bytes) noexcept {
  const std::size_t size = block_size(bytes);
  if (size < kSmallest || size > limit_) return to_system(memory, size);
  std::lock_guard lock(mutex_);
  std::size_t evicted = 0;
  while (blocks_.size() - evicted >= kMostBlocks || kept_ + size > limit_) {
    to_system(blocks_[evicted].memory, blocks_[evicted].size);
    kept_ -= blocks_[evicted++].size;
  }
  blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(evicted));
  try {
    blocks_.push_back({memory, size});
    kept_ += size;
  } catch (const std::bad_alloc&) { to_system(memory, size); }
}

void BlockCache::trim() noexcept {
  std::lock_guard lock(mutex_);
  for (const Block& block : blocks_) to_system(block.memory, block.size);
  blocks_.clear();
  kept_ = 0;
}

std::size_t BlockCache::kept() const noexcept {
  std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace tessera::runtime
