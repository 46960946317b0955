// What all backends share: their default stream, and the destructors of the interfaces.
#include "tessera/runtime/backend.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/fork.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/graph.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

Launchable::~Launchable() = default;
CallUpdate::~CallUpdate() = default;
Event::~Event() = default;
QueueObserver::~QueueObserver() = default;
Queue::~Queue() = default;
Backend::~Backend() = default;

HandedBack::~HandedBack() = default;

void* Queue::allocate(std::size_t, std::uint64_t) { return nullptr; }
bool Queue::ended_before_fork(std::uint64_t) const noexcept { return false; }

void* Queue::native_handle() const noexcept { return nullptr; }
void Queue::expose() noexcept {}

std::unique_ptr<Queue> Backend::make_priority_queue(int, std::shared_ptr<QueueObserver> observer) {
  return make_queue(false, std::move(observer));
}
PriorityRange Backend::priorities() { return {}; }
NativeStream Backend::examine_stream(void*) {
  throw DeviceError(concat("a stream of another library cannot be one of ", name(),
                           ": only GPUs have such streams.\n  Pass the device that the stream belongs to."));
}
std::unique_ptr<Queue> Backend::guest_queue(void*, std::shared_ptr<QueueObserver> observer) {
  return make_queue(true, std::move(observer));
}
std::unique_ptr<Queue> Backend::wrap_queue(const NativeStream&, std::shared_ptr<QueueObserver>) {
  throw InternalError(concat(name(), " has no streams of other libraries"));
}
std::shared_ptr<const Launchable> Backend::transfer_copy(Backend&) { return nullptr; }
std::shared_ptr<void> Backend::make_host_memory(std::size_t bytes) {
  const std::size_t rounded = (bytes + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
  void* memory = ::operator new(rounded, std::align_val_t(kStorageAlignment), std::nothrow);
  if (memory == nullptr) throw DeviceError(concat("out of host memory: ", bytes, " bytes requested."));
  return {memory, [](void* p) { ::operator delete(p, std::align_val_t(kStorageAlignment)); }};
}
Backend::MemoryFigures Backend::memory_figures() { return {account_.in_use(), 0, 0}; }
void Backend::trim_memory() {}

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
  void launch(const LaunchContext&) const override {
    at_ = std::chrono::steady_clock::now();
    reached_.store(true, std::memory_order_release);
  }
  bool reached() const override { return reached_.load(std::memory_order_acquire); }
  double seconds_since(const TimeMark& start) const override {
    return std::chrono::duration<double>(at_ - static_cast<const HostTimeMark&>(start).at_).count();
  }

 private:
  mutable std::chrono::steady_clock::time_point at_;  // written by the queue, read once it has been reached
  mutable std::atomic<bool> reached_{false};
};
}  // namespace

namespace {

/// A graph on a device whose queues run work by calling it, and whose memory the host can read.
class GraphInOrder final : public GraphWork {
 public:
  GraphInOrder(std::shared_ptr<const GraphRecording> recording, std::shared_ptr<const GraphCalls> calls)
      : recording_(std::move(recording)), calls_(std::move(calls)) {}
  void launch(const LaunchContext& c) const override { run(*recording_, c); }
  void skipped() const noexcept override { skip(*recording_, 0); }
  std::shared_ptr<const GraphWork> with(std::shared_ptr<const GraphCalls> calls) const override {
    return std::make_shared<const GraphInOrder>(recording_, std::move(calls));
  }

 private:
  static bool holds(const GraphCondition& condition) {
    const std::byte* const value = condition.storage->data() + condition.offset;
    return std::any_of(value, value + condition.bytes, [](std::byte b) { return b != std::byte{0}; });
  }
  const RecordedCall& call_of(const RecordedWork& entry) const {
    return entry.call_number == kNoEntry ? entry.call : (*calls_)[entry.call_number];
  }
  void run(const GraphRecording& recording, const LaunchContext& c) const {
    std::size_t i = 0;
    try {
      for (; i < recording.work().size(); ++i) run_entry(recording.work()[i], c);
    } catch (...) {
      skip_bodies(recording.work()[i]);  // a loop may have had more iterations
      skip(recording, i + 1);
      throw;
    }
  }
  void run_entry(const RecordedWork& entry, const LaunchContext& c) const {
    if (entry.kind == RecordedWork::Kind::While) {
      while (holds(entry.condition)) run(*entry.bodies[0], c);
    } else if (entry.kind == RecordedWork::Kind::If) {
      const std::size_t body = holds(entry.condition) ? 0 : 1;
      if (body < entry.bodies.size()) run(*entry.bodies[body], c);
    } else {
      const RecordedCall& call = call_of(entry);
      call.work->launch({call.grid, call.args, entry.accesses, c.native_queue, c.native_launch, nullptr, c.immediate});
    }
  }
  /// The entries from `first` on do not run.
  void skip(const GraphRecording& recording, std::size_t first) const noexcept {
    for (std::size_t i = first; i < recording.work().size(); ++i) {
      const RecordedWork& entry = recording.work()[i];
      if (entry.kind == RecordedWork::Kind::Call) call_of(entry).work->skipped();
      skip_bodies(entry);
    }
  }
  void skip_bodies(const RecordedWork& entry) const noexcept {
    for (const auto& body : entry.bodies) skip(*body, 0);
  }

  std::shared_ptr<const GraphRecording> recording_;
  std::shared_ptr<const GraphCalls> calls_;
};

}  // namespace

std::shared_ptr<const GraphWork> Backend::make_graph(std::shared_ptr<const GraphRecording> recording) {
  auto calls = std::make_shared<const GraphCalls>(recording->calls());
  return std::make_shared<const GraphInOrder>(std::move(recording), std::move(calls));
}

std::shared_ptr<const TimeMark> Backend::make_time_mark() { return std::make_shared<const HostTimeMark>(); }

std::shared_ptr<StreamCore> Backend::default_stream() {
  std::shared_ptr<StreamCore> parents;  // destroyed after the lock is released
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
