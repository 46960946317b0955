// Host memory for tensors. New memory is expensive: the system provides zeroed pages of 4 KB, one page fault each,
// which is about five times slower than writing to mapped memory. So large blocks use huge pages, and freed blocks are
// kept for reuse.
#pragma once
#include <cstddef>
#include <mutex>

#include "runtime/free_blocks.hpp"

namespace tessera::runtime {

class BlockCache {
 public:
  /// That are kept: all results of a forward pass that was enqueued at once. A search through them costs less than a
  /// page fault.
  static constexpr std::size_t kMaxBlocks = 1024;

  /// Keeps at most `limit` bytes of freed blocks; 0 keeps none.
  explicit BlockCache(std::size_t limit) : blocks_(limit, kMaxBlocks) {}
  ~BlockCache() { trim(); }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// At least `bytes` (> 0), aligned to kStorageAlignment; nullptr if there is no more memory, even after trim().
  void* take(std::size_t bytes) noexcept;
  /// Takes back the result of take(bytes).
  void give(void* memory, std::size_t bytes) noexcept;
  /// Frees everything that is kept.
  void trim() noexcept;
  std::size_t kept() const noexcept;

  /// The size of the block for `bytes`. Blocks that are kept have few different sizes, at most 1/8 larger than
  /// requested.
  static std::size_t block_size(std::size_t bytes) noexcept;

 private:
  mutable std::mutex mutex_;
  FreeBlocks blocks_;
};

}  // namespace tessera::runtime
