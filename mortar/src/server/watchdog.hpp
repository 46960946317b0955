// Finds out that a step of the engine does not end: a kernel that hangs, a device that does not answer.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "mortar/engine.hpp"

namespace mortar::server {

/// Judges by the statistics of an engine, and the time at which they were taken. While there is work, `steps` has to go
/// on within the limit or 30 mean steps, whichever is longer. The first steps have ten times as long: they compile
/// kernels, and there is no mean yet.
class StepWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit StepWatch(double limit) : limit_(limit) {}
  /// Seconds that the step has taken so far, if that is too long.
  std::optional<double> overdue(const EngineStats& stats, Time now);
  /// Neither the engine nor this ran until now: the process was stopped (SIGSTOP, a paused machine).
  void resume(Time now) { since_ = now; }

 private:
  double allowed() const;
  double limit_;
  bool begun_ = false;
  Time since_{};            ///< when the step began, as far as was seen
  std::int64_t steps_ = 0;  ///< that were seen
  std::int64_t counted_ = 0;
  double spent_ = 0;  ///< seconds of the steps that were counted
};

/// Asks an engine from a thread of its own.
class Watchdog {
 public:
  /// `hung` is called once, with the seconds that a step has taken and the statistics of the engine. `limit` 0:
  /// never.
  Watchdog(double limit, std::function<EngineStats()> stats, std::function<void(double, const EngineStats&)> hung);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void loop(double limit);
  std::function<EngineStats()> stats_;
  std::function<void(double, const EngineStats&)> hung_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace mortar::server
