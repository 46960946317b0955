// A pool of driver streams. None is destroyed while its device is in use: drivers crash in a later cuGraphExecDestroy
// or cuStreamDestroy where a stream was destroyed and executable graphs with loops or branches exist (580.159, H100 and
// H200; tests/soak found it, one thread is enough).
#pragma once
#include <mutex>
#include <vector>

#include "runtime/cuda/context.hpp"

namespace tessera::runtime::cuda {

class StreamPool {
 public:
  explicit StreamPool(const Context& context) : context_(context) {}
  ~StreamPool();  ///< every stream must have been returned, and every executable graph have been destroyed
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  /// A stream on which nothing is queued. The context is current. Throws DeviceError.
  CUstream take(int priority);
  /// Returns a stream, which still executes what is queued on it.
  void give(CUstream stream, int priority) noexcept;
  /// Streams that were taken and not returned.
  std::size_t in_use() noexcept;

 private:
  struct Free {
    CUstream stream;
    int priority;
  };
  const Context& context_;
  std::mutex mutex_;
  std::vector<Free> free_;  // room for all streams that were made
  std::size_t made_ = 0;
};

/// A stream; the destructor returns it to its pool.
class PooledStream {
 public:
  PooledStream(StreamPool& pool, int priority) : pool_(&pool), stream_(pool.take(priority)), priority_(priority) {}
  PooledStream(PooledStream&& other) noexcept : pool_(other.pool_), stream_(other.stream_), priority_(other.priority_) {
    other.stream_ = nullptr;
  }
  PooledStream& operator=(PooledStream&&) = delete;
  ~PooledStream() {
    if (stream_ != nullptr) pool_->give(stream_, priority_);
  }
  CUstream get() const noexcept { return stream_; }

 private:
  StreamPool* pool_;
  CUstream stream_;
  int priority_;
};

}  // namespace tessera::runtime::cuda
