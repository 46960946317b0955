// Polls the work that spawned flows wait for. Polling, and not a callback of the driver: a callback does not run where
// the device has failed, and it may not call the driver.
#include "host/flow_waiter.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/fork.hpp"

namespace tessera::detail {

namespace {

DeviceError at_end_of_process() {
  return DeviceError(
      "a spawned flow waits for the device while the program's static variables are destroyed: nothing continues flows "
      "then.\n  Get its result before main() returns, or run it with sync().");
}

/// The program's statics end after the thread has ended: flows may refer to them. What still waits is not resumed.
struct StopAtExit {
  std::uint32_t generation = tessera::fork_generation();
  ~StopAtExit() {
    if (generation == tessera::fork_generation()) FlowWaiter::instance().stop();
  }
};

using Clock = std::chrono::steady_clock;

// The delay between two looks is a share of the time waited so far: short waits end soon, long ones cost little.
constexpr int kShare = 16;
constexpr std::chrono::microseconds kShortest{2}, kLongest{1000};

}  // namespace

struct FlowWaiter::Impl {
  struct Wait {
    std::shared_ptr<FlowRun> run;
    std::coroutine_handle<> flow;
    std::vector<runtime::Ticket> work;
    Clock::time_point since;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Wait> waits;
  bool stop = false;
  std::thread thread;

  /// Takes out what can be resumed. Looks at the device without the lock.
  std::vector<Wait> ended() {
    std::vector<Wait> copy;
    {
      std::lock_guard lock(mutex);
      copy = waits;
    }
    std::vector<Wait> found;
    for (Wait& wait : copy)
      if (has_ended(wait.work)) found.push_back(std::move(wait));
    std::lock_guard lock(mutex);
    std::vector<Wait> still;  // a wait that was removed meanwhile is not resumed
    for (Wait& wait : found) {
      // A frame that was destroyed meanwhile may have given its address to another flow.
      const auto at = std::find_if(waits.begin(), waits.end(),
                                   [&](const Wait& w) { return w.run == wait.run && w.flow == wait.flow; });
      if (at == waits.end()) continue;
      still.push_back(std::move(wait));
      waits.erase(at);
    }
    return still;
  }
  Clock::duration delay() const {
    Clock::time_point latest = Clock::time_point::min();
    for (const Wait& wait : waits) latest = std::max(latest, wait.since);
    return std::clamp<Clock::duration>((Clock::now() - latest) / kShare, kShortest, kLongest);
  }
  void loop() {
    for (;;) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || !waits.empty(); });
        if (stop) return;
      }
      std::vector<Wait> ready = ended();
      for (Wait& wait : ready) wait.run->post(wait.flow);
      if (!ready.empty()) continue;
      std::unique_lock lock(mutex);
      if (!waits.empty()) changed.wait_for(lock, delay());
    }
  }
};

FlowWaiter::FlowWaiter() : impl_(std::make_unique<Impl>()) {}

FlowWaiter::~FlowWaiter() { stop(); }

void FlowWaiter::stop() noexcept {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->changed.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
  std::vector<Impl::Wait> waits;
  {
    std::lock_guard lock(impl_->mutex);
    waits = std::exchange(impl_->waits, {});
  }
  const auto ending = std::make_exception_ptr(at_end_of_process());
  for (const Impl::Wait& wait : waits) wait.run->abandon(ending);
}

FlowWaiter& FlowWaiter::instance() {
  static PerProcess<FlowWaiter> waiter;
  return waiter.get();
}

void FlowWaiter::add(std::shared_ptr<FlowRun> run, std::coroutine_handle<> flow, std::vector<runtime::Ticket> work) {
  std::lock_guard lock(impl_->mutex);
  if (impl_->stop) throw at_end_of_process();
  if (!impl_->thread.joinable()) {
    try {
      static const StopAtExit at_exit;
      impl_->thread = std::thread([impl = impl_.get()] { impl->loop(); });
    } catch (const std::system_error&) {
      throw DeviceError(
          "there is no thread to wait for the device on behalf of a spawned flow: the system provides no more threads");
    }
  }
  impl_->waits.push_back({std::move(run), flow, std::move(work), Clock::now()});
  impl_->changed.notify_all();
}

void FlowWaiter::remove(const FlowRun& run) noexcept {
  std::lock_guard lock(impl_->mutex);
  std::erase_if(impl_->waits, [&](Impl::Wait& wait) { return wait.run.get() == &run; });
}

bool FlowWaiter::is_this_thread() const noexcept {
  std::lock_guard lock(impl_->mutex);
  return impl_->thread.get_id() == std::this_thread::get_id();
}

}  // namespace tessera::detail
