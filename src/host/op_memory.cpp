// The allocator of operations. Every launch creates and destroys one, so each thread reuses the blocks of its last few
// operations, by size.
#include <array>
#include <new>

#include "tessera/base/sanitizers.hpp"
#include "tessera/host/op.hpp"

// Not under the address sanitizer, so that it detects every use after free.
#define TESSERA_REUSE_OPERATIONS !TESSERA_ASAN

namespace tessera::detail {
namespace {

constexpr std::size_t kStep = 128, kClasses = 24;  // operations of up to 3 KiB
constexpr unsigned kMost = 8;                      // blocks kept of each size: operations alive at once are few

struct Block {
  Block* next;
};

struct Pool {
  struct Class {
    Block* first = nullptr;
    unsigned count = 0;
  };
  std::array<Class, kClasses> classes;
  bool ended = false;  // an operation may outlive its thread's pool while the thread ends
  ~Pool() {
    ended = true;
    for (Class& c : classes) {
      while (Block* block = c.first) {
        c.first = block->next;
        ::operator delete(block);
      }
    }
  }
};

thread_local Pool pool;

}  // namespace

void* OpBase::operator new(std::size_t bytes) {
  const std::size_t index = (bytes + kStep - 1) / kStep;
  if (index >= kClasses) return ::operator new(bytes);
  if (TESSERA_REUSE_OPERATIONS && !pool.ended) {
    Pool::Class& c = pool.classes[index];
    if (Block* block = c.first) {
      c.first = block->next;
      --c.count;
      return block;
    }
  }
  return ::operator new(index* kStep);
}

void OpBase::operator delete(void* memory, std::size_t bytes) noexcept {
  const std::size_t index = (bytes + kStep - 1) / kStep;
  if (TESSERA_REUSE_OPERATIONS && index < kClasses && !pool.ended) {
    Pool::Class& c = pool.classes[index];
    if (c.count < kMost) {
      c.first = new (memory) Block{c.first};
      ++c.count;
      return;
    }
  }
  ::operator delete(memory);
}

void* OpBase::operator new(std::size_t bytes, std::align_val_t alignment) { return ::operator new(bytes, alignment); }
void OpBase::operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
  ::operator delete(memory, alignment);
}

}  // namespace tessera::detail
