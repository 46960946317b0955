// Freed blocks of memory that are kept to be used again, found by their exact size.
#pragma once
#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace tessera::runtime {

/// Not synchronised. `drop` is called as drop(memory, size) for what is not kept any longer.
class FreeBlocks {
 public:
  /// Keeps at most so many bytes and blocks.
  FreeBlocks(std::size_t most_bytes, std::size_t most_blocks) : most_bytes_(most_bytes), most_blocks_(most_blocks) {}

  /// The youngest block of this size, which is the likeliest to be in a cache; null: there is none.
  void* take(std::size_t size) noexcept {
    const auto found = std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const Block& b) { return b.size == size; });
    if (found == blocks_.rend()) return nullptr;
    void* memory = found->memory;
    blocks_.erase(std::next(found).base());
    bytes_ -= size;
    return memory;
  }

  /// Keeps a block; the oldest ones make room for it. One that is larger than all that may be kept drives nothing out.
  template <class F>
  void give(void* memory, std::size_t size, F&& drop) {
    if (size > most_bytes_ || most_blocks_ == 0) return drop(memory, size);
    std::size_t oldest = 0;
    for (; blocks_.size() - oldest >= most_blocks_ || bytes_ > most_bytes_ - size; ++oldest) {
      bytes_ -= blocks_[oldest].size;
      drop(blocks_[oldest].memory, blocks_[oldest].size);
    }
    blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(oldest));
    try {
      blocks_.push_back({memory, size});
      bytes_ += size;
    } catch (const std::bad_alloc&) { drop(memory, size); }
  }

  template <class F>
  void clear(F&& drop) {
    for (const Block& block : blocks_) drop(block.memory, block.size);
    blocks_.clear();
    bytes_ = 0;
  }

  bool empty() const noexcept { return blocks_.empty(); }
  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t most_bytes() const noexcept { return most_bytes_; }

 private:
  struct Block {
    void* memory;
    std::size_t size;
  };
  std::size_t most_bytes_, most_blocks_;
  std::vector<Block> blocks_;  // oldest first
  std::size_t bytes_ = 0;
};

}  // namespace tessera::runtime
