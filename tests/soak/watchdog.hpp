// Ends the soak program if nothing moves: a hang names its round and what every worker was doing.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "soak/worker.hpp"

namespace soak {

class Watchdog {
 public:
  /// `limit`: seconds without a new action of any worker.
  Watchdog(int workers, double limit) : progress_(static_cast<std::size_t>(workers)), limit_(limit) {
    thread_ = std::thread([this] { watch(); });
  }
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  Progress& worker(int i) { return progress_[static_cast<std::size_t>(i)]; }
  void begin_round(std::uint64_t seed) { seed_ = seed; }

 private:
  std::uint64_t actions() const {
    std::uint64_t all = seed_;
    for (const Progress& p : progress_) all += p.actions;
    return all;
  }
  void watch() {
    std::unique_lock lock(mutex_);
    for (std::uint64_t before = actions();; before = actions()) {
      if (wake_.wait_for(lock, std::chrono::duration<double>(limit_), [this] { return ended_; })) return;
      if (actions() != before) continue;
      std::printf("HANGS in the round of seed %llu: nothing has happened for %g s; the workers are at:",
                  static_cast<unsigned long long>(seed_.load()), limit_);
      for (const Progress& p : progress_)
        std::printf(" %s", p.action < kActions ? name(static_cast<Action>(p.action.load())) : "the end");
      std::printf("\n");
      std::fflush(stdout);
      std::_Exit(3);
    }
  }

  std::vector<Progress> progress_;
  double limit_;
  std::atomic<std::uint64_t> seed_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace soak
