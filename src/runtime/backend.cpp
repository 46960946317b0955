// What all backends share: their default stream, and the destructors of the interfaces.
#include "tessera/runtime/backend.hpp"

#include <chrono>
#include <utility>

#include "tessera/base/fork.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

Launchable::~Launchable() = default;
Event::~Event() = default;
QueueObserver::~QueueObserver() = default;
Queue::~Queue() = default;
Backend::~Backend() = default;

HandedBack::~HandedBack() = default;

void* Queue::allocate(std::size_t, std::uint64_t) { return nullptr; }
bool Queue::ended_before_fork(std::uint64_t) const noexcept { return false; }

std::shared_ptr<const Launchable> Backend::pattern_fill() const { return nullptr; }
std::shared_ptr<const Launchable> Backend::range_copy() const { return nullptr; }
std::shared_ptr<const Launchable> Backend::range_fill() const { return nullptr; }
void Backend::verify_foreign(const void*, std::size_t) {}
void Backend::end_when_idle(HandedBack* memory) noexcept {
  memory->end_lease();
  delete memory;
}
bool Backend::end_handed_back() { return false; }

namespace {
class HostTimeMark final : public TimeMark {
 public:
  void launch(const LaunchContext&) const override { at_ = std::chrono::steady_clock::now(); }
  double seconds_since(const TimeMark& start) const override {
    return std::chrono::duration<double>(at_ - static_cast<const HostTimeMark&>(start).at_).count();
  }

 private:
  mutable std::chrono::steady_clock::time_point at_;  // written by the queue, read once the stream is synchronized
};
}  // namespace

std::shared_ptr<const TimeMark> Backend::make_time_mark() { return std::make_shared<const HostTimeMark>(); }

std::shared_ptr<StreamCore> Backend::default_stream() {
  std::shared_ptr<StreamCore> parents;  // ends outside the lock
  std::lock_guard lock(default_mutex_);
  if (!default_stream_ || default_generation_ != fork_generation()) {
    auto made = StreamCore::create(Device(*this), true);
    parents = std::exchange(default_stream_, std::move(made));
    default_generation_ = fork_generation();
  }
  return default_stream_;
}

void Backend::close_default_stream() noexcept {
  std::shared_ptr<StreamCore> last;
  std::lock_guard lock(default_mutex_);
  last.swap(default_stream_);
}

}  // namespace tessera::runtime
