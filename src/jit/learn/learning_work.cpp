// Which candidate the next launch times, and which one wins.
#include "jit/learn/learning_work.hpp"

#include <algorithm>
#include <exception>

namespace tessera::jit {
namespace {

constexpr int kFirstRounds = 3, kAllRounds = 9;  // measurements of every candidate, and of those near the best
constexpr double kNear = 1.15;  // times of the best beyond which a candidate is out after the first rounds
constexpr double kGain = 1.01;  // by which a candidate has to be faster than the compiler's choice
// Launches of other sizes, one after the other, after which learning turns to these; launches after which it ends.
constexpr int kUnlike = 64, kMaxLaunches = 4096;
constexpr std::size_t kMaxPending = 32;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

LearningWork::LearningWork(std::shared_ptr<const runtime::Launchable> own, SizeSlots sizes, MakeMark make_mark,
                           Report report)
    : sizes_(std::move(sizes)),
      make_mark_(std::move(make_mark)),
      report_(std::move(report)),
      current_(own.get()),
      wanted_(kFirstRounds) {
  candidates_.push_back({"", std::move(own)});
}

LearningWork::~LearningWork() = default;

void LearningWork::add(std::string hints, std::shared_ptr<const runtime::Launchable> work) {
  const std::lock_guard lock(mutex_);
  candidates_.push_back({std::move(hints), std::move(work)});
}

void LearningWork::ready() noexcept {
  const std::lock_guard lock(mutex_);
  phase_.store(candidates_.size() > 1 ? Phase::Learning : Phase::Done, std::memory_order_release);
}

LearningWork::Size LearningWork::size_of(const runtime::LaunchContext& c) const {
  Size size{c.grid.x, c.grid.y, c.grid.z};
  for (const std::uint16_t slot : sizes_)
    if (slot < c.args.size()) size.push_back(c.args[slot]);
  return size;
}

/// Launches of one size are compared with one another. Where those of another size keep coming, what was measured is
/// forgotten, and they are.
bool LearningWork::is_comparable(const runtime::LaunchContext& c) const {
  Size size = size_of(c);
  if (size == size_) {
    unlike_ = 0;
    return true;
  }
  if (!size_.empty() && ++unlike_ < kUnlike) return false;
  size_ = std::move(size);
  unlike_ = 0;
  pending_.clear();
  wanted_ = kFirstRounds;
  for (Candidate& candidate : candidates_) candidate.seconds.clear(), candidate.asked = 0, candidate.out = false;
  return true;
}

/// The candidates take turns: each has the same clocks and the same neighbours.
std::optional<std::size_t> LearningWork::next_to_time() const {
  std::optional<std::size_t> next;
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    if (const Candidate& c = candidates_[i];
        !c.out && c.asked < wanted_ && (!next || c.asked < candidates_[*next].asked))
      next = i;
  return next;
}

/// Takes the times of the launches that have ended, in the order in which they were enqueued.
void LearningWork::collect() const {
  while (!pending_.empty() && pending_.front().end->reached()) {
    const Pending& p = pending_.front();
    candidates_[p.candidate].seconds.push_back(p.end->seconds_since(*p.begin));
    pending_.pop_front();
  }
}

void LearningWork::judge() const {
  if (!pending_.empty() || next_to_time()) return;
  double best = 0;
  std::size_t winner = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].out) continue;
    const double time = median(candidates_[i].seconds);
    if (best == 0 || time < best) best = time, winner = i;
  }
  if (wanted_ < kAllRounds) {
    wanted_ = kAllRounds;
    for (std::size_t i = 1; i < candidates_.size(); ++i)
      candidates_[i].out = median(candidates_[i].seconds) > kNear * best;
    if (std::ranges::any_of(candidates_, [](const Candidate& c) { return !c.out && !c.hints.empty(); })) return;
  }
  finish(median(candidates_[0].seconds) > kGain * best ? winner : 0);
}

void LearningWork::finish(std::size_t winner) const {
  const auto time_of = [](const Candidate& c) { return LearntTime{c.hints, median(c.seconds)}; };
  LearntResult result;
  result.best = time_of(candidates_[winner]);
  result.own = time_of(candidates_[0]);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    result.launches += static_cast<int>(candidates_[i].seconds.size());
    if (i == winner) continue;
    const LearntTime other = time_of(candidates_[i]);
    if (result.runner_up.seconds == 0 || other.seconds < result.runner_up.seconds) result.runner_up = other;
  }
  current_.store(candidates_[winner].work.get(), std::memory_order_release);
  phase_.store(Phase::Done, std::memory_order_release);
  report_(result);
}

/// The measurement that a launch is to be, with its begin enqueued; nothing for a launch that is not timed.
std::optional<LearningWork::Pending> LearningWork::begin(const runtime::LaunchContext& c) const {
  collect();
  judge();
  if (++launches_ > kMaxLaunches) phase_.store(Phase::Done, std::memory_order_release);
  if (phase_.load(std::memory_order_relaxed) != Phase::Learning || pending_.size() >= kMaxPending || !is_comparable(c))
    return std::nullopt;
  const auto next = next_to_time();
  if (!next) return std::nullopt;
  Pending timed{*next, make_mark_(), make_mark_()};
  timed.begin->launch(c);
  return timed;
}

/// What goes wrong while times are taken ends learning, not the launch. The work itself stands in no `try`: it runs
/// exactly once, and its failure is the launch's.
void LearningWork::launch(const runtime::LaunchContext& c) const {
  if (phase_.load(std::memory_order_acquire) != Phase::Learning || c.native_node != nullptr) return running().launch(c);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || phase_.load(std::memory_order_relaxed) != Phase::Learning) return running().launch(c);
  std::optional<Pending> timed;
  try {
    timed = begin(c);
  } catch (const std::exception&) { phase_.store(Phase::Done, std::memory_order_release); }
  if (!timed) return running().launch(c);
  candidates_[timed->candidate].work->launch(c);
  try {
    timed->end->launch(c);
    ++candidates_[timed->candidate].asked;
    pending_.push_back(std::move(*timed));
  } catch (const std::exception&) { phase_.store(Phase::Done, std::memory_order_release); }
}

}  // namespace tessera::jit
