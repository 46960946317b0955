// The failures of a stream's work: stored in the storages that the work was to write, and in a list for callers that
// wait for the work itself. Shared by the stream and its queue, because work may outlive the stream.
#pragma once
#include <cstdint>
#include <deque>
#include <mutex>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

class FailureLog final : public QueueObserver {
 public:
  bool may_run(std::uint64_t number, std::span<const Access> accesses) noexcept override;
  void finished(std::uint64_t number, std::span<const Access> accesses, bool failed) noexcept override;
  void found_failed(std::uint64_t number, const FailureRef& failure) noexcept override { log(number, failure); }

  FailureLog();

  /// The first failure of the work from `first` to `last`; empty if all of it succeeded.
  FailureRef first_of(std::uint64_t first, std::uint64_t last) const noexcept;
  /// The first failure of the work from `first` to `last` that was not delivered, or empty; all of it counts as
  /// delivered afterwards.
  FailureRef deliver(std::uint64_t first = 0, std::uint64_t last = UINT64_MAX) noexcept;

 private:
  struct Entry {
    std::uint64_t number;
    FailureRef failure;
  };
  void fail(std::uint64_t number, std::span<const Access> accesses, const FailureRef& failure) noexcept;
  void log(std::uint64_t number, const FailureRef& failure) noexcept;

  /// Bounds the list of a program that never synchronizes its streams. Older entries are dropped; asking for them gives
  /// a failure of its own.
  static constexpr std::size_t kMaxEntries = 1024;

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;          // by number
  std::uint64_t forgotten_until_ = 0;  // entries up to here may be missing
};

}  // namespace tessera::runtime
