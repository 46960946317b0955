// Waiting for what one's own calls have enqueued: exactly that, whoever else uses the stream.
#pragma once
#include <span>

#include "tessera/runtime/small_vector.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

/// Remembers everything that this thread submits while the scope is the innermost one. An operation's sync() makes one
/// around its enqueuing. Stream::synchronize would do for the waiting, but not for the failures: on a stream that
/// threads share it may throw the failure of another thread's work, and leave that thread without it.
class SyncScope {
 public:
  SyncScope() noexcept;
  ~SyncScope();
  SyncScope(const SyncScope&) = delete;
  SyncScope& operator=(const SyncScope&) = delete;

  /// Blocks until everything submitted so far has ended; throws the first failure of it. What the failed work was to
  /// write is usable afterwards, as after wait(ticket, accesses). The scope is empty then.
  void wait();

 private:
  friend class StreamCore;
  static SyncScope* innermost() noexcept;
  void reserve(std::span<const Access> accesses);
  void add(const Ticket& ticket, const Submission& submission) noexcept;

  SyncScope* outer_;
  SmallVector<Ticket, 2> tickets_;
  SmallVector<StorageRef, 4> written_;
  const char* label_ = "work";  ///< of the last submission, for profilers
  SourceLocation where_;
};

}  // namespace tessera::runtime
