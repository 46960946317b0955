// The free list of streams.
#include "runtime/cuda/stream_pool.hpp"

#include <algorithm>

namespace tessera::runtime::cuda {

StreamPool::~StreamPool() {
  const Current current(context_, std::nothrow);
  if (!current) return;
  for (const Free& free : free_) context_.driver().cuStreamDestroy(free.stream);
}

CUstream StreamPool::take(int priority) {
  const Driver& driver = context_.driver();
  std::lock_guard lock(mutex_);
  // Of a stream whose capture failed, cuStreamQuery reports an error: it is never taken again.
  const auto idle = std::find_if(free_.begin(), free_.end(), [&](const Free& free) {
    return free.priority == priority && driver.cuStreamQuery(free.stream) == CUDA_SUCCESS;
  });
  if (idle != free_.end()) {
    const CUstream stream = idle->stream;
    *idle = free_.back();
    free_.pop_back();
    return stream;
  }
  free_.reserve(made_ + 1);
  CUstream stream = nullptr;
  if (priority == 0) {
    context_.check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate", "making a stream");
  } else {
    context_.check(driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority),
                   "cuStreamCreateWithPriority", "making a stream");
  }
  ++made_;
  return stream;
}

void StreamPool::give(CUstream stream, int priority) noexcept {
  if (context_.unusable_after_fork()) return;  // another thread of the parent may have held the lock
  std::lock_guard lock(mutex_);
  free_.push_back({stream, priority});
}

std::size_t StreamPool::in_use() noexcept {
  std::lock_guard lock(mutex_);
  return made_ - free_.size();
}

}  // namespace tessera::runtime::cuda
