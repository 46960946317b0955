// The rule, and the thread.
#include "server/watchdog.hpp"

#include <algorithm>
#include <utility>

namespace mortar::server {
namespace {

constexpr std::int64_t kFirstSteps = 16;
constexpr double kTimesFirst = 10, kTimesMean = 30;

}  // namespace

double StepWatch::allowed() const {
  if (counted_ < kFirstSteps) return limit_ * kTimesFirst;
  return std::max(limit_, kTimesMean * spent_ / static_cast<double>(counted_));
}

std::optional<double> StepWatch::overdue(const EngineStats& stats, Time now) {
  const bool works = stats.running + stats.waiting > 0;
  const double taken = std::chrono::duration<double>(now - since_).count();
  if (begun_ && stats.steps != steps_) {
    counted_ += stats.steps - steps_;
    spent_ += taken;
  }
  if (!begun_ || !works || stats.steps != steps_) {
    begun_ = true;
    steps_ = stats.steps;
    since_ = now;
    return std::nullopt;
  }
  if (taken <= allowed()) return std::nullopt;
  return taken;
}

Watchdog::Watchdog(double limit, std::function<EngineStats()> stats,
                   std::function<void(double, const EngineStats&)> hung)
    : stats_(std::move(stats)), hung_(std::move(hung)) {
  if (limit > 0) thread_ = std::thread([this, limit] { loop(limit); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::loop(double limit) {
  const std::chrono::duration<double> tick(std::clamp(limit / 8, 0.001, 1.0));
  const auto asleep = std::max<std::chrono::duration<double>>(20 * tick, std::chrono::seconds(1));
  StepWatch watch(limit);
  auto before = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, tick, [this] { return ends_; })) {
    lock.unlock();
    const EngineStats stats = stats_();
    const auto now = std::chrono::steady_clock::now();
    if (now - before > asleep) watch.resume(now);
    before = now;
    const auto taken = watch.overdue(stats, now);
    if (taken) return hung_(*taken, stats);
    lock.lock();
  }
}

}  // namespace mortar::server
