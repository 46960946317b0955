// Allocating and freeing pinned host memory (cuMemHostAlloc).
#include "runtime/cuda/pinned.hpp"

namespace tessera::runtime::cuda {

namespace {

/// In a child of fork() the driver cannot be told, and the memory is the parent's.
struct Pinned {
  const Context& context;
  void* memory = nullptr;
  explicit Pinned(const Context& c) : context(c) {}
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() {
    if (memory == nullptr) return;
    const Current current(context, std::nothrow);
    if (current) context.driver().cuMemFreeHost(memory);
  }
};

}  // namespace

std::shared_ptr<void> pinned_memory(const Context& context, std::size_t bytes) {
  auto pinned = std::make_shared<Pinned>(context);
  const Current current(context);
  context.check(context.driver().cuMemHostAlloc(&pinned->memory, bytes, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc",
                "allocating pinned memory");
  return {pinned, pinned->memory};
}

}  // namespace tessera::runtime::cuda
