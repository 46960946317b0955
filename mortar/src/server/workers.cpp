// A queue and its threads.
#include "server/workers.hpp"

namespace mortar::server {

/// Requests that wait to be read; each holds its body.
constexpr std::size_t kWaiting = 512;

Workers::Workers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  work_.clear();
}

bool Workers::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (ends_ || work_.size() >= kWaiting) return false;
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void Workers::loop() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
      if (ends_) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

}  // namespace mortar::server
