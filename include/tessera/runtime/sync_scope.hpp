// Waiting for exactly the work that this thread has enqueued, even if other threads use the stream.
#pragma once
#include <span>

#include "tessera/runtime/small_vector.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

/// Learns of everything that a thread submits while it is the innermost sink of that thread.
class SubmissionSink {
 public:
  /// Before the submission: makes room, so that add() cannot fail. May throw std::bad_alloc.
  virtual void reserve(std::span<const Access> accesses) = 0;
  virtual void add(const Ticket& ticket, const Submission& submission) noexcept = 0;
  /// Of this thread; null if there is none.
  static SubmissionSink* innermost() noexcept;

 protected:
  ~SubmissionSink() = default;
};

/// Makes a sink the innermost one of this thread while it lives.
class SinkScope {
 public:
  explicit SinkScope(SubmissionSink& sink) noexcept;
  ~SinkScope();
  SinkScope(const SinkScope&) = delete;
  SinkScope& operator=(const SinkScope&) = delete;

 private:
  SubmissionSink* outer_;
};

/// Remembers everything that this thread submits while the scope is the innermost one. An operation's sync() creates
/// one around its enqueuing. Stream::synchronize would wait, too, but on a stream that threads share it may throw the
/// failure of another thread's work, which that thread would then not see.
class SyncScope final : private SubmissionSink {
 public:
  SyncScope() noexcept : scope_(*this) {}
  SyncScope(const SyncScope&) = delete;
  SyncScope& operator=(const SyncScope&) = delete;

  /// Blocks until everything submitted so far has ended; throws the first failure of it. What the failed work was to
  /// write is usable afterwards, as after wait(ticket, accesses). The scope is empty then.
  void wait();

 private:
  void reserve(std::span<const Access> accesses) override;
  void add(const Ticket& ticket, const Submission& submission) noexcept override;

  SinkScope scope_;
  SmallVector<Ticket, 2> tickets_;
  SmallVector<StorageRef, 4> written_;
  const char* label_ = "work";  ///< of the last submission, for profilers
  SourceLocation where_;
};

}  // namespace tessera::runtime
