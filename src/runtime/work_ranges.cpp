// Ranges of submitted work: appending, dropping what has ended, waiting.
#include "tessera/runtime/work_ranges.hpp"

#include <algorithm>
#include <utility>

#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

void WorkRanges::reserve(std::span<const Access>) {
  if (ranges_.size() >= drop_at_) drop_ended();
  if (ranges_.size() == ranges_.capacity()) ranges_.reserve(std::max<std::size_t>(4, 2 * ranges_.size()));
}

void WorkRanges::add(const Ticket& ticket, const Submission&) noexcept {
  for (Range& range : ranges_) {
    if (range.stream != ticket.stream || range.last + 1 != ticket.number) continue;
    range.last = ticket.number;
    return;
  }
  ranges_.push_back({ticket.stream, ticket.number, ticket.number});  // reserve() made room
}

void WorkRanges::hand_over(SubmissionSink& to) const {
  for (const Range& range : ranges_) {
    for (std::uint64_t number = range.first; number <= range.last; ++number) {
      to.reserve({});
      to.add({range.stream, number}, {});
    }
  }
}

/// Many ranges mean that other threads use the streams too.
void WorkRanges::drop_ended() {
  std::erase_if(ranges_, [](const Range& range) {
    return range.stream->has_ended(range.last) && range.stream->succeeded(range.first, range.last);
  });
  drop_at_ = std::max(kMaxRanges, 2 * ranges_.size());
}

void WorkRanges::wait() {
  const auto ranges = std::exchange(ranges_, {});
  FailureRef first;
  for (const Range& range : ranges) {
    range.stream->host_wait(range.last);
    const FailureRef failure = range.stream->deliver_failure_of(range.first, range.last);
    if (!first) first = failure;
  }
  if (first) std::rethrow_exception(first->error);
}

}  // namespace tessera::runtime
