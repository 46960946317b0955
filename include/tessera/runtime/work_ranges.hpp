// Which work a thread has submitted, as ranges of numbers of each stream: bounded memory for any number of submissions.
#pragma once
#include <vector>

#include "tessera/runtime/sync_scope.hpp"

namespace tessera::runtime {

/// Records what is submitted while it is the innermost sink of the thread (SinkScope). Keeps streams alive, but no
/// storages. One thread at a time.
class WorkRanges final : public SubmissionSink {
 public:
  void reserve(std::span<const Access> accesses) override;
  void add(const Ticket& ticket, const Submission& submission) noexcept override;
  /// Blocks until all of it has ended; throws the first failure of it that has not been thrown yet (a flow may have
  /// caught it). Empty afterwards. The storages that failed work
  /// was to write keep the failure until they are overwritten.
  void wait();
  /// Adds all of it to another sink. May throw std::bad_alloc.
  void hand_over(SubmissionSink& to) const;
  bool empty() const noexcept { return ranges_.empty(); }

 private:
  struct Range {
    std::shared_ptr<StreamCore> stream;
    std::uint64_t first = 0, last = 0;
  };
  static constexpr std::size_t kMaxRanges = 64;  // then those that have ended well are dropped
  void drop_ended();
  std::vector<Range> ranges_;
  std::size_t drop_at_ = kMaxRanges;
};

}  // namespace tessera::runtime
