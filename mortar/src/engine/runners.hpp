// The devices that run an engine's steps: one, or the ranks of tensor parallelism, which all make the same calls in the
// same order. The first rank is driven by the calling thread, each other one by a thread of its own.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/runner.hpp"

namespace mortar {

/// A thread that does what it is given, in order.
class RankThread;

/// As Runner, for all ranks. What one of them throws ends the group: the call throws it on the caller, and every later
/// call at once.
class Runners {
 public:
  using Chosen = Runner::Chosen;
  /// A step that has been enqueued on every rank.
  class Launched {
    friend Runners;
    std::vector<Runner::Launched> of_rank_;
  };

  /// Takes the weights of `model`, its parts' if it has any.
  Runners(Model& model, const Numerics& numerics, std::int64_t pages);
  ~Runners();
  Runners(const Runners&) = delete;
  Runners& operator=(const Runners&) = delete;

  void begin(std::int64_t slots, std::int64_t slot, const TokenRange& ids, std::int64_t prompt,
             const Sampling& sampling);
  Launched launch(const StepRequest& request, const Launched* before = nullptr);
  void choose(Launched& step, std::span<const std::uint32_t> masks);
  Chosen finish(Launched&& step);
  void drop(Launched&& step);
  std::vector<float> logits(const RowPlan& row);
  std::vector<float> log_likelihoods(const RowPlan& row, std::span<const TokenId> next);

  void time(bool on) { first().time(on); }
  /// The first rank's.
  double device_seconds() { return first().device_seconds(); }
  int query_tile() const { return ranks_.front()->query_tile(); }

 private:
  Runner& first() { return *ranks_.front(); }
  /// Calls f(rank) on the thread of each rank, and waits for all. Throws what a rank threw first.
  void each(const std::function<void(std::size_t rank)>& f);
  void call(std::size_t rank, const std::function<void(std::size_t rank)>& f) noexcept;
  void throw_if_ended();

  std::vector<std::unique_ptr<Parallel>> parallel_;  ///< of each rank; none: one device
  std::vector<std::unique_ptr<Runner>> ranks_;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::vector<std::unique_ptr<RankThread>> threads_;  ///< of the ranks from the second on; they end first
};

}  // namespace mortar
