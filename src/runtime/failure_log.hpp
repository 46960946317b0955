// Where the failures of a stream's work go: into the storages that the work was to write, and into a list for those who
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

  /// The failure of the work `number`; empty if it succeeded.
  FailureRef of(std::uint64_t number) const noexcept;
  /// The first failure that was not delivered, or empty; all count as delivered afterwards.
  FailureRef deliver() noexcept;

 private:
  struct Entry {
    std::uint64_t number;
    FailureRef failure;
  };
  void fail(std::uint64_t number, std::span<const Access> accesses, const FailureRef& failure) noexcept;
  void log(std::uint64_t number, const FailureRef& failure) noexcept;

  /// A program that never asks its streams must not grow without bound: older entries are forgotten, and who asks about
  /// them is told so.
  static constexpr std::size_t kMostEntries = 1024;

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;          // by number
  std::uint64_t forgotten_until_ = 0;  // entries up to here may be missing
};

}  // namespace tessera::runtime
