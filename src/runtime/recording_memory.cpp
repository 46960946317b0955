// A resource without frees for each recording, over one for the process that keeps freed blocks.
#include "runtime/recording_memory.hpp"

#include <mutex>
#include <new>

#include "runtime/free_blocks.hpp"
#include "tessera/base/sanitizers.hpp"

namespace tessera::runtime {

namespace {

class Blocks final : public std::pmr::memory_resource {
 private:
  static constexpr std::size_t kMaxBytes = TESSERA_ASAN ? 0 : std::size_t{1} << 20, kMaxBlocks = 64;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
      const std::lock_guard lock(mutex_);
      if (void* const known = free_.take(bytes)) return known;
    }
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    const auto drop = [&](void* block, std::size_t size) {
      std::pmr::new_delete_resource()->deallocate(block, size, alignment);
    };
    if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__) return drop(memory, bytes);
    const std::lock_guard lock(mutex_);
    free_.give(memory, bytes, drop);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::mutex mutex_;
  FreeBlocks free_{kMaxBytes, kMaxBlocks};
};

}  // namespace

std::shared_ptr<std::pmr::memory_resource> make_recording_memory() {
  static Blocks& blocks = *new Blocks;  // never destroyed: recordings may outlive main()
  return std::make_shared<std::pmr::monotonic_buffer_resource>(&blocks);
}

}  // namespace tessera::runtime
