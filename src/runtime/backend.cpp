// What all backends share: their default stream, and the destructors of the interfaces.
#include "tessera/runtime/backend.hpp"

#include <chrono>

#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

Launchable::~Launchable() = default;
Event::~Event() = default;
QueueObserver::~QueueObserver() = default;
Queue::~Queue() = default;
Backend::~Backend() = default;

void* Queue::allocate(std::size_t, std::uint64_t) { return nullptr; }

std::shared_ptr<const Launchable> Backend::pattern_fill() const { return nullptr; }
std::shared_ptr<const Launchable> Backend::range_copy() const { return nullptr; }
std::shared_ptr<const Launchable> Backend::range_fill() const { return nullptr; }
void Backend::verify_foreign(const void*, std::size_t) {}

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
  std::lock_guard lock(default_mutex_);
  if (!default_stream_) default_stream_ = StreamCore::create(Device(*this), true);
  return default_stream_;
}

void Backend::close_default_stream() noexcept {
  std::shared_ptr<StreamCore> last;
  std::lock_guard lock(default_mutex_);
  last.swap(default_stream_);
}

}  // namespace tessera::runtime
