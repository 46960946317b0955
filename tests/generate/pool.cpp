// Memory for many short-lived objects: recording, analysing and translating a program creates thousands of them, and
// the C library's allocator takes a third of the time. One free list per size and thread; blocks are never returned to
// the system.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "tessera/base/sanitizers.hpp"

#if !TESSERA_ASAN && !TESSERA_TSAN
namespace {

constexpr std::size_t kStep = 16, kLargest = 4096, kChunk = 1 << 18;

struct Free {
  Free* next;
};
struct Pool {
  Free* lists[kLargest / kStep + 1];
  std::byte* at;
  std::size_t left;
};
thread_local Pool pool;

/// Before every block: the list it belongs to, or 0 for the C library's.
struct alignas(16) Header {
  std::size_t list;
};

void* take(std::size_t bytes) {
  const std::size_t list = (bytes + kStep - 1) / kStep;
  if (list > kLargest / kStep) {
    auto* const h = static_cast<Header*>(std::malloc(sizeof(Header) + bytes));
    if (h == nullptr) throw std::bad_alloc();
    h->list = 0;
    return h + 1;
  }
  if (Free* const block = pool.lists[list]) {
    pool.lists[list] = block->next;
    return block;
  }
  const std::size_t size = sizeof(Header) + (list == 0 ? 1 : list) * kStep;
  if (pool.left < size) {
    pool.at = static_cast<std::byte*>(std::malloc(kChunk));
    if (pool.at == nullptr) throw std::bad_alloc();
    pool.left = kChunk;
  }
  auto* const h = reinterpret_cast<Header*>(pool.at);
  pool.at += size;
  pool.left -= size;
  h->list = list == 0 ? 1 : list;
  return h + 1;
}

void give(void* p) noexcept {
  if (p == nullptr) return;
  Header* const h = static_cast<Header*>(p) - 1;
  if (h->list == 0) return std::free(h);
  auto* const block = static_cast<Free*>(p);
  block->next = pool.lists[h->list];
  pool.lists[h->list] = block;
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes == 0 ? 1 : bytes); }
void* operator new[](std::size_t bytes) { return take(bytes == 0 ? 1 : bytes); }
void operator delete(void* p) noexcept { give(p); }
void operator delete[](void* p) noexcept { give(p); }
void operator delete(void* p, std::size_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t) noexcept { give(p); }
#endif
