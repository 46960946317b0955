// How long the device works: marks in the stream's order around pieces of work, which are read when the stream has
// passed them.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "tessera/runtime/timing.hpp"

namespace mortar {

class DeviceClock {
 public:
  using Mark = std::shared_ptr<const tessera::runtime::TimeMark>;

  /// Begins at 0, or ends: pieces of work that are in flight are forgotten.
  void set(bool on) {
    on_ = on;
    seconds_ = 0;
    pieces_.clear();
    first_ = next_;
  }
  /// Before a piece of work is enqueued. Null while nothing is measured.
  Mark begin(const tessera::Stream& stream) const { return on_ ? tessera::runtime::place_time_mark(stream) : nullptr; }
  /// After it. Pieces do not overlap.
  void end(Mark begin, const tessera::Stream& stream) {
    if (begin == nullptr) return;
    pieces_.emplace_back(std::move(begin), tessera::runtime::place_time_mark(stream));
    ++next_;
  }
  /// The number of the next piece.
  std::uint64_t next() const { return next_; }
  /// Work that was enqueued behind the pieces before `number` has been reached: their times are known.
  void passed(std::uint64_t number) {
    for (; first_ < number && !pieces_.empty(); ++first_) {
      seconds_ += pieces_.front().second->seconds_since(*pieces_.front().first);
      pieces_.pop_front();
    }
  }
  double seconds() const { return seconds_; }

 private:
  bool on_ = false;
  double seconds_ = 0;
  std::deque<std::pair<Mark, Mark>> pieces_;
  std::uint64_t first_ = 0, next_ = 0;  ///< numbers of the pieces that are in flight
};

}  // namespace mortar
